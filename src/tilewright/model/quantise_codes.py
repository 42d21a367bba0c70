"""Operations that are carried out on 8-bit codes, with exact definitions.

Movement, bounds and maxima keep the codes of their operand; a sum of two tensors and a mean have
new ones; a function of one number is a table of 256 codes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tilewright.dialects.encodings import ScaleAttr, encoded, encoding_of
from tilewright.dialects.intents import tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    f32,
    f64,
    func,
    i8,
    i32,
)
from tilewright.dialects.xdsl_api import Block as IRBlock
from tilewright.model.capture import Graph, Node, shape_of
from tilewright.model.encoder import CODES, Encoder
from tilewright.model.formats import Codes
from tilewright.model.quantise_products import Chain, clamped, code_of, fixed_rescale
from tilewright.reference import codes as code_arithmetic
from tilewright.reference.executor import run

Maker = Callable[[Encoder, Node, Chain], bool]  # whether it was made
KEEPING = ("pool_max", "reduction_max", "reduction_min", "concat", "pad")
BOUNDS = ("elementwise_relu", "clamp")
FUNCTIONS = (
    *("silu", "gelu_tanh", "gelu_erf"),
    *(
        f"elementwise_{name}"
        for name in (
            *("neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "tanh"),
            *("sin", "cos", "erf", "sigmoid", "square", "cube", "floor", "ceil", "round"),
        )
    ),
)
SCALARS = ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div",
           "elementwise_max", "elementwise_min", "elementwise_pow")  # fmt: skip


def on_codes(node: Node, graph: Graph, form: Codes) -> Maker | None:
    """How an operation is carried out on codes, None if it is not."""
    family = node.family
    if family in KEEPING:
        return _keep
    if family in BOUNDS and node.reads_plainly():
        return _bound
    if family == "elementwise_add" and _two_tensors(node, graph):
        return _add
    if family in ("reduction_mean", "reduction_sum") and "init" not in node.inputs:
        return _mean
    if family in ("pool_avg", "pool_sum") and _whole_windows(node):
        return _mean
    if form.tables and _is_function(node, graph):
        return _table
    return None


def _two_tensors(node: Node, graph: Graph) -> bool:
    return (
        len(node.operands) == 2
        and all(value not in graph.constants for value in node.operands)
        and all(node.reads_plainly(place) for place in range(2))
        and all(shape_of(value) == shape_of(node.result) for value in node.operands)
    )


def _whole_windows(node: Node) -> bool:
    """Whether every window has as many elements as the kernel."""
    no_padding = not any(node.call.integers("padding") or ())
    return no_padding or node.family == "pool_sum" or node.call.flag("count_include_pad")


def _is_function(node: Node, graph: Graph) -> bool:
    if node.family in FUNCTIONS:
        return node.reads_plainly()
    literal = any(node.call.value(name) is not None for name in ("scalar_lhs", "scalar_rhs"))
    return node.family in SCALARS and literal and len(node.operands) == 1 and node.reads_plainly()


def _keep(encoder: Encoder, node: Node, chain: Chain) -> bool:
    """The codes of the operands, moved or compared."""
    values = [encoder.get(value, CODES) for value in node.operands]
    encodings = {encoding_of(value) for value in values}
    scale = encodings.pop()
    if encodings or not isinstance(scale, ScaleAttr):
        return False
    made = encoder.same(node, values, encoded(tensor_type(node.result), i8, scale))
    if node.family == "pad":
        border = float(node.call.value("value") or 0.0)
        made.attributes["value"] = IntegerAttr(code_of(border, scale), i8)
    _finish(encoder, chain, encoder.emit(made))
    return True


def _finish(encoder: Encoder, chain: Chain, value: SSAValue) -> None:
    encoder.put(chain.result, clamped(encoder, value, chain.low, chain.high))


def _bound(encoder: Encoder, node: Node, chain: Chain) -> bool:
    x = encoder.get(node.operands[0], CODES)
    low, high = (0.0, None)
    if node.family == "clamp":
        low, high = node.call.value("min"), node.call.value("max")
    value = clamped(encoder, x, low, high)
    _finish(encoder, chain, value)
    return True


def _add(encoder: Encoder, node: Node, chain: Chain) -> bool:
    terms = [encoder.get(value, CODES) for value in node.operands]
    target = encoder.encoding(chain.result)
    method = encoder.rules.arithmetic
    if method == "fixed":
        unit = 2.0**code_arithmetic.FIXED_POINT / target.factor
        sizes = [np.rint(unit * _scale(term).factor) for term in terms]
        if 255 * sum(sizes) >= 2**31:
            return False
    kind = encoded(tensor_type(node.result), i8, target)
    value = encoder.call("encoded_add", terms, kind, {"method": StringAttr(method)})
    _finish(encoder, chain, value)
    return True


def _scale(value: SSAValue) -> ScaleAttr:
    encoding = encoding_of(value)
    assert isinstance(encoding, ScaleAttr)
    return encoding


def _mean(encoder: Encoder, node: Node, chain: Chain) -> bool:
    """An exact sum of codes, divided when it is rescaled."""
    x = encoder.get(node.operands[0], CODES)
    target, source = encoder.encoding(chain.result), _scale(x)
    if node.family.startswith("pool"):
        family, count = "pool_sum", prod(node.call.integers("kernel") or (1, 1))
    else:
        axes = node.call.integers("axes") or ()
        family, count = "reduction_sum", prod(shape_of(node.operands[0])[a] for a in axes)
    divisor = count if node.family in ("reduction_mean", "pool_avg") else 1
    attributes = {
        name: value
        for name, value in node.op.attributes.items()
        if name not in ("count_include_pad", "roles")
    }
    sums = TensorType(i32, shape_of(node.result))
    acc = encoder.call(family, [x], sums, attributes)
    factor = source.factor / (divisor * target.factor)
    kind = encoded(tensor_type(node.result), i8, target)
    if encoder.rules.arithmetic == "fixed":
        name = f"{node.layer or node.result.name_hint or node.family}"
        largest = np.array([255.0 * count])
        value = fixed_rescale(encoder, node, acc, np.array([factor]), largest, kind, None, name)
    else:
        value = encoder.call("rescale", [acc], kind, {"factor": FloatAttr(factor, f32)})
    _finish(encoder, chain, value)
    return True


def _table(encoder: Encoder, node: Node, chain: Chain) -> bool:
    """clip(rint(f((code - zero) * scale) / s) + z) of all 256 codes, with f in float64."""
    x = encoder.get(node.operands[0], CODES)
    source, target = _scale(x), encoder.encoding(node.result)
    levels = (np.arange(-128, 128).astype(np.float64) - source.zero.data) * source.factor
    with np.errstate(all="ignore"):
        steps = np.rint(_evaluated(node, levels) / target.factor) + target.zero.data
    steps = np.nan_to_num(steps, nan=float(target.zero.data), posinf=127.0, neginf=-128.0)
    table = np.clip(steps, -128, 127).astype(np.int8)
    name = f"{node.layer or node.result.name_hint or node.family}.table"
    operand = encoder.constant(table, TensorType(i8, (256,)), name)
    kind = encoded(tensor_type(node.result), i8, target)
    encoder.put(node.result, encoder.call("table", [x, operand], kind))
    if chain.absorbed:
        value = clamped(encoder, encoder.forms[node.result][CODES], chain.low, chain.high)
        encoder.put(chain.result, value)
    return True


def _evaluated(node: Node, levels: np.ndarray) -> np.ndarray:
    """An element-wise operation in float64, by the reference executor."""
    kind = TensorType(f64, levels.shape)
    attributes: dict[str, Attribute] = {
        name: value
        for name, value in node.op.attributes.items()
        if name != "operand_maps" and "." not in name
    }
    symbol = node.op.properties["symbol"]
    assert isinstance(symbol, StringAttr)
    block = IRBlock(arg_types=[kind])
    op = UKernelGenericOp(symbol.data, list(block.args), kind, attributes)
    block.add_ops([op, func.ReturnOp(op.result)])
    function = func.FuncOp("main", ([kind], [kind]), Region([block]))
    return run(ModuleOp([function]), [levels])[0]
