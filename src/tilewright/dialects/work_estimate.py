"""How much arithmetic a module of kernel intents does: what the share of the host is measured in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.dialects.xdsl_api import ModuleOp, Operation, TensorType

# Operations per element of the result; what moves values, or looks them up, does no arithmetic.
_PER_ELEMENT = {
    "silu": 4,
    "silu_gate": 5,
    "gelu_tanh": 9,
    "gelu_erf": 5,
    "elementwise_sigmoid": 3,
    "rope": 3,
    "softmax": 4,
    "rms_norm": 4,
    "layer_norm": 7,
    "clamp": 2,
}
_NONE = ("cast", "gather", "embedding", "scatter")


def arithmetic_of(module: ModuleOp) -> int:
    """Additions, multiplications and the like of all functions of a module."""
    return sum(arithmetic(op) for op in module.walk())


def share_of(part: ModuleOp, whole: ModuleOp) -> float:
    """How much of the arithmetic of a module a part of it does, from 0 to 1."""
    if not any(True for _ in part.ops):
        return 0.0
    every = arithmetic_of(whole)
    return min(1.0, arithmetic_of(part) / every) if every else 1.0


def arithmetic(op: Operation) -> int:
    """Arithmetic operations of one intent; a multiplication and its addition are two."""
    if not op.results or not isinstance(op.results[0].type, TensorType):
        return 0
    if op.name == "npu_kernel.matmul":
        return 2 * _elements(op.results[0].type) * _inner(op)
    symbol = op.properties.get("symbol")
    if symbol is None:
        return 0
    types = [value.type for value in op.operands]
    call = kernel_call(getattr(symbol, "data", ""), types, op.attributes, op.results[0].type)
    return 0 if call is None else _of_call(call)


def _inner(op: Operation) -> int:
    lhs = op.operands[0].type
    assert isinstance(lhs, TensorType)
    shape = lhs.get_shape()
    return shape[-2] if "transpose_lhs" in op.properties else shape[-1]


def _of_call(call: KernelCall) -> int:
    family, result = call.family, call.result_type
    types = [kind for kind in call.operand_types if isinstance(kind, TensorType)]
    assert isinstance(result, TensorType)
    elements = _elements(result)
    if family.name == "matmul":
        return 2 * elements * types[0].get_shape()[-1]
    if family.name == "gemma_attention":
        return _attention(types[0].get_shape(), types[1].get_shape(), result.get_shape())
    if family.name == "conv2d":
        taps = _elements(types[1])
        shape = types[1].get_shape()
        filters = shape[-1] if call.string("layout") == "nhwc_hwcf" else shape[0]
        return 2 * elements * (taps // max(1, filters))
    if family.name.startswith("pool_"):
        return elements * math.prod(call.integers("kernel") or (1,))
    if family.kind == "movement" or family.name in _NONE:
        return 0
    if family.name.startswith("reduction_") or family.runs_on == "host":
        return _elements(types[0])
    return elements * _PER_ELEMENT.get(family.name, 1)


def _attention(q: Sequence[int], k: Sequence[int], out: Sequence[int]) -> int:
    """Both products and the softmax between them."""
    rows, keys = math.prod(q[:-1]), k[-2]
    return rows * keys * (2 * q[-1] + 2 * out[-1] + 5)


def _elements(kind: TensorType) -> int:
    return math.prod(kind.get_shape())
