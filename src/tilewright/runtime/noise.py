"""How far from float32 a right program may be: the limit `verify` judges by.

Products take fp8, which rounds by 2.6 % on average (half of the last of three bits), everything
else bf16. A model in float32 with the operands of all its operations off by as much shows what that
does to its outputs: a deep model, or one that cancels, is further off than a single layer. A right
program stays within MARGIN times that distance, and REST. What is further off has lost more than
rounding can explain, whether every bit is as the references say or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.runtime.verification import Accuracy, accuracy

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported
    from tilewright.model.capture import Graph, Node

ROUNDING = 0.026  # of an operand, relative
PRODUCTS = {
    "matmul": 2,
    "conv2d": 2,
    "gemma_attention": 3,
    "pool_max": 1,
    "pool_avg": 1,
}  # operands
NARROW = 2.0**-9  # what bf16 rounds, relative
UNCHANGED = (
    *("transpose", "reshape", "slice", "insert_slice", "concat", "pad", "fill", "iota", "cast"),
    *("gather", "embedding", "scatter", "sort", "argsort", "argmax", "argmin"),
    *("compare", "select", "logical_and", "logical_or", "logical_not", "logical_xor"),
)  # they move numbers, or compare them
SUMS = ("reduction_sum", "reduction_mean", "cumsum", "layer_norm", "rms_norm", "softmax")
PARTIAL = 3 * NARROW  # partial sums are rounded too, and they are larger than what they are made of
INDEXED = ("gather", "embedding", "scatter")
TAILS = ("gelu_tanh", "gelu_erf")  # 1 + t with t near -1
DECIDED = ("argsort", "argmax", "argmin", "sort", "compare")
FLOATS = ("f64", "f32", "f16", "bf16")  # a model may be written in any of them
NOISE = "noise"  # names of the weights that disturb, with how they do
SIZES = {"product": ROUNDING, "sum": PARTIAL, "step": NARROW}
POOLS = 3  # of rounding noise for every shape: operations share them
MARGIN = 8.0  # times what the noise does to 1 - cosine
REST = 0.001
FEW = 32  # numbers in an output, of which a single draw of the noise says little
UNKNOWN = 0.95  # the limit where the original is a function: its weights cannot be changed


@dataclass(frozen=True)
class Limit:
    """The smallest cosine and the largest relative error of an output that rounding explains."""

    cosine: float
    relative: float = math.inf


def limits(
    original: Imported, inputs: list[np.ndarray], exact: list[np.ndarray], seed: int = 0
) -> list[Limit]:
    """The limits of every output."""
    draws = 3 if any(array.size < 8 * FEW for array in exact) else 1
    disturbed, shapes = _disturbed(original)
    noisy = [_run(disturbed, shapes, inputs, seed + k) for k in range(draws)]
    return [
        _limit([accuracy(run[place], array) for run in noisy], array.size)
        for place, array in enumerate(exact)
    ]


def _limit(seen: list[Accuracy], size: int) -> Limit:
    cosine = min((one.cosine for one in seen), key=lambda c: c if math.isfinite(c) else -math.inf)
    relative = max(one.relative for one in seen)
    if not (math.isfinite(cosine) and math.isfinite(relative)):
        return Limit(-1.0)
    margin = MARGIN * (1 + FEW / max(1, size))
    largest = math.sqrt(2 * REST) + math.sqrt(margin) * relative
    least = 1 - REST - margin * (1 - cosine)
    # An error within the limit may point anywhere: numbers that nearly cancel may turn round, and
    # rows that repeat are all off to one side, which no noise of its own for every number shows.
    turned = math.sqrt(1 - largest * largest) if largest < 1 else -1.0
    return Limit(min(least, turned), largest)


def _disturbed(original: Imported) -> tuple[Imported, dict[str, tuple[int, ...]]]:
    """The model with every operand of a product times a new weight, those of other operations times
    weights that are nearer to one, and the shapes of all these weights.

    before: %y = npu_kernel.matmul %x, %w
    after:  %a = elementwise_mul %x, %noise.0; %b = elementwise_mul %w, %noise.1; matmul %a, %b
    """
    from tilewright.dialects.intents import IntentBuilder, tensor_type
    from tilewright.dialects.xdsl_api import DenseResourceAttr, arith
    from tilewright.model.angles import angles_of
    from tilewright.model.capture import capture
    from tilewright.model.positions import positions_of
    from tilewright.model.simplify import simplify

    simple = simplify(original)
    graph = capture(simple)
    exact = angles_of(graph) | positions_of(graph) | _indices(graph)
    shapes: dict[str, tuple[int, ...]] = {}
    for number, node in enumerate(graph.nodes):
        if node in exact or node.family in UNCHANGED:
            continue
        products = PRODUCTS.get(node.family, 0)
        for index, value in enumerate(node.operands):
            kind = tensor_type(value)
            if index >= products and value in graph.constants:
                continue
            element = str(kind.element_type)
            if element not in FLOATS:
                continue
            shape = tuple(kind.get_shape())
            if index < products:
                name = f"{NOISE}.product.{element}.{len(shapes)}"
            else:
                kind_of_noise = "sum" if node.family in SUMS else "step"
                sizes = "x".join(map(str, shape))
                name = f"{NOISE}.{kind_of_noise}.{element}.{sizes}.{(number + index) % POOLS}"
            shapes[name] = shape
            noise = arith.ConstantOp(DenseResourceAttr.from_params(name, kind), kind)
            builder = IntentBuilder([noise])
            node.op.operands[index] = builder.call("elementwise_mul", [value, noise.result], kind)
            block = node.op.parent_block()
            assert block is not None
            block.insert_ops_before(builder.ops, node.op)
        if node.family in TAILS and str(tensor_type(node.result).element_type) in FLOATS:
            _disturb_tail(node, shapes, number)
    return simple, shapes


def _disturb_tail(node: Node, shapes: dict[str, tuple[int, ...]], number: int) -> None:
    """A part of the operand times a number near zero, at most the result itself, added to a result.

    before: %y = gelu_tanh %x, which is x / 2 * (1 + t): t near -1 is rounded to one of few numbers
    after:  %n = elementwise_mul %x, %noise; %d = 0.3 * (%n - %x) from -|%y| to |%y|; %z = %y + %d
    """
    from tilewright.dialects.intents import IntentBuilder, tensor_type
    from tilewright.dialects.xdsl_api import DenseResourceAttr, FloatAttr, arith

    x, kind = node.operands[0], tensor_type(node.result)
    shape, element = tuple(kind.get_shape()), str(kind.element_type)
    sizes = "x".join(map(str, shape))
    name = f"{NOISE}.step.{element}.{sizes}.{(number + 1) % POOLS}"
    shapes[name] = shape
    noise = arith.ConstantOp(DenseResourceAttr.from_params(name, kind), kind)
    builder = IntentBuilder([noise])
    off = builder.call("elementwise_mul", [x, noise.result], kind)
    off = builder.call("elementwise_sub", [off, x], kind)
    part = FloatAttr(0.3, kind.element_type)  # type: ignore[arg-type]
    off = builder.call("elementwise_mul", [off], kind, {"scalar_rhs": part})
    most = builder.call("elementwise_abs", [node.result], kind)
    off = builder.call("elementwise_min", [off, most], kind)
    off = builder.call(
        "elementwise_max", [off, builder.call("elementwise_neg", [most], kind)], kind
    )
    moved = builder.call("elementwise_add", [node.result, off], kind)
    block = node.op.parent_block()
    assert block is not None
    own = {moved.owner, most.owner}
    node.result.replace_uses_with_if(moved, lambda use: use.operation not in own)
    block.insert_ops_after(builder.ops, node.op)


def _indices(graph: Graph) -> set[Node]:
    """What indices are computed from: they are not a little off.

    Not what decides which index it is: where numbers are compared or sorted, rounding may change
    the order, on the machine as in the noise.
    """
    found: set[Node] = set()
    waiting = [
        value
        for node in graph.nodes
        for role, value in node.inputs.items()
        if node.family in INDEXED and role == "indices"
    ]
    while waiting:
        node = graph.definition.get(waiting.pop())
        if node is not None and node not in found and node.family not in DECIDED:
            found.add(node)
            waiting += node.operands
    return found


def _run(
    disturbed: Imported, shapes: dict[str, tuple[int, ...]], inputs: list[np.ndarray], seed: int
) -> list[np.ndarray]:
    """The outputs with operands of products off."""
    from tilewright.reference.dtypes import numpy_type
    from tilewright.reference.executor import Executor

    random = np.random.default_rng(seed)
    weights = dict(disturbed.weights)
    for name, shape in shapes.items():
        _, kind, element, *_ = name.split(".")
        drawn = 1 + np.float32(SIZES[kind]) * random.standard_normal(shape, np.float32)
        weights[name] = drawn.astype(numpy_type(element))
    return Executor(disturbed.module, weights).run(inputs)
