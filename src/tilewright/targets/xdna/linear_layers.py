"""Linear layers of a model: which products the array takes, and how they hang together by values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.locations import location_of
from tilewright.dialects.xdsl_api import Operation, SSAValue, StringAttr, TensorType, arith, func
from tilewright.model.capture import constant_value
from tilewright.model.parts import Parts
from tilewright.targets.xdna.problem import LARGEST, MAX_ELEMENTS, MAX_EXACT_K

FLOATS = ("f32", "f16", "bf16")
LONGEST = MAX_EXACT_K // 2  # of a reduction: padding to whole tiles stays below MAX_EXACT_K
MOST = MAX_ELEMENTS // 4 * 3  # of an operand, without the padding
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class LinearLayer:
    """y = x · weight, rows of x and columns of the weight; one entry of the array's program.

    `exact` layers have int8 operands and int32 sums and no scales at all.
    """

    name: str
    entry: str  # the device part it belongs to
    x: str  # value it reads: a port, or the result of an earlier layer of the entry
    y: str
    shape: Shape  # M, K, N
    result_shape: tuple[int, ...]
    dtype: str  # of the result, as MLIR spells it
    weight: str  # its name
    matrix: np.ndarray  # K x N
    exact: bool
    source: str = ""


def _types(value: SSAValue) -> tuple[tuple[int, ...], str]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape()), str(value.type.element_type)


def _transposed(op: Operation, inner: int, right: tuple[int, ...]) -> bool:
    """Whether the weight lies as N x K: marked, or the only way the shapes fit."""
    return "transpose_rhs" in op.properties or (right[0] != inner and right[1] == inner)


def reason_against(op: Operation) -> str | None:
    """Why the host has to carry out an operation; None: it is a product for the array."""
    if op.name != "npu_kernel.matmul":
        return "the array computes matrix products only"
    if len(op.operands) != 2:
        return "a product that is added to something in one operation is not for the array"
    (left, kind), (right, right_kind) = (_types(value) for value in op.operands)
    result_kind = _types(op.results[0])[1]
    if not isinstance(op.operands[1].owner, arith.ConstantOp):
        if isinstance(op.operands[0].owner, arith.ConstantOp):
            return "the constant is the left operand; the array takes it as the right one"
        return "both operands change from run to run; the array takes weights packed beforehand"
    if len(right) != 2:
        return "the weights of the array are matrices without batch dimensions"
    if "transpose_lhs" in op.properties or not left:
        return "the left operand lies the other way round; rows of it have to be contiguous"
    exact = (kind, right_kind, result_kind) == ("i8", "i8", "i32")
    if not exact and not (kind in FLOATS and right_kind in FLOATS and result_kind in FLOATS):
        return f"there is no product of {kind} and {right_kind} to {result_kind} on the array"
    inner = left[-1]
    rows, columns = int(np.prod(left[:-1], dtype=np.int64)), right[0] * right[1] // max(1, inner)
    if min(rows, inner, columns) < 1:
        return "the product is empty"
    if inner > LONGEST:
        return f"a reduction over {inner} can overflow the accumulators; up to {LONGEST} is safe"
    if max(rows, columns) > LARGEST:
        return f"sizes above {LARGEST} cannot be mapped"
    if max(rows * inner, inner * columns, rows * columns) > MOST:
        return f"operands of more than {MOST} elements are not followed"
    return None


def layers_of(parts: Parts) -> list[LinearLayer]:
    """The products of all device parts, in order."""
    layers: list[LinearLayer] = []
    for part in parts.device_parts:
        function = parts.function(part.function)
        layers += _entry_layers(function, part.inputs, part.outputs, parts.weights)
    return layers


def _entry_layers(
    function: func.FuncOp,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    weights: Mapping[str, np.ndarray],
) -> list[LinearLayer]:
    entry = function.sym_name.data
    block = function.body.block
    names: dict[SSAValue, str] = dict(zip(block.args, inputs, strict=True))
    last = block.last_op
    assert isinstance(last, func.ReturnOp)
    names.update(zip(last.operands, outputs, strict=True))
    layers: list[LinearLayer] = []
    for op in block.ops:
        if isinstance(op, arith.ConstantOp | func.ReturnOp):
            continue
        assert reason_against(op) is None, op.name
        left, right = op.operands
        constant = right.owner
        assert isinstance(constant, arith.ConstantOp)
        (left_shape, kind), (right_shape, _) = _types(left), _types(right)
        result_shape, dtype = _types(op.results[0])
        matrix = constant_value(constant, weights)
        inner = left_shape[-1]
        if _transposed(op, inner, right_shape):
            matrix = matrix.T
        handle = getattr(constant.value, "resource_handle", None)
        name = names.setdefault(op.results[0], f"{entry}.value{len(layers)}")
        layer = op.attributes.get("tw.layer")
        title = layer.data if isinstance(layer, StringAttr) and layer.data else f"{entry}.{name}"
        place = location_of(op)
        layers.append(
            LinearLayer(
                title, entry, names[left], name,
                (int(np.prod(left_shape[:-1], dtype=np.int64)), inner, matrix.shape[1]),
                result_shape, dtype, handle.data if handle is not None else f"{title}.weight",
                matrix, kind == "i8", str(place) if place is not None else "",
            )
        )  # fmt: skip
    return layers
