"""Element-wise steps of what a convolution over one dimension gave, which is an image of one row.

before: relu(reshape(conv2d(x) [n, c, 1, w]) [n, c, w])    after: reshape(relu(conv2d(x)) [n, c, w])

The next such convolution wants the row again: no reshape is left between them, and an activation
stands where it is part of the convolution before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.intents import map_attribute, shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import ArrayAttr, DenseArrayBase, SSAValue, TensorType, i64
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    integers_of,
    maker,
    operand_reads,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues

IMAGE = 4  # dimensions
STEPS = 8  # of element-wise intents, between a convolution and the one that is looked at
_ELEMENTWISE = ("elementwise_", "gelu_")
_OTHERS = frozenset(["silu", "clamp"])


def keep_rows_of_pixels(op: UKernelGenericOp, known: KnownValues) -> bool:
    """An element-wise intent on a row of pixels that a reshape has made a matrix per example."""
    if not _is_elementwise(op) or "roles" in op.attributes or known.is_known(op.result):
        return False
    shape = shape_of(op.result)
    if len(shape) != IMAGE - 1:
        return False
    place = next((p for k in range(len(op.operands)) if (p := _of_image(op, k)) is not None), None)
    if place is None:
        return False
    builder = BuilderBefore(op)
    operands: list[SSAValue] = []
    reads: list[Sequence[int | None]] = []
    for index, operand in enumerate(op.operands):
        if reads_plainly(op, index):
            operands.append(builder.reshape(operand, _widened(shape, place)))
            reads.append(range(IMAGE))
        else:
            operands.append(operand)
            reads.append([d if d is None else d + (d >= place) for d in operand_reads(op)[index]])
    attributes = {k: v for k, v in op.attributes.items() if k != "operand_maps"}
    if any(tuple(read) != tuple(range(IMAGE)) for read in reads):
        attributes["operand_maps"] = ArrayAttr([map_attribute(IMAGE, read) for read in reads])
    result = TensorType(tensor_type(op.result).element_type, _widened(shape, place))
    row = builder.add(UKernelGenericOp(op.symbol.data, operands, result, attributes))
    replace_value(op, builder.reshape(row, shape))
    return True


def means_of_rows(op: UKernelGenericOp, known: KnownValues) -> bool:
    """The mean of such a row: that of an image.

    before: reduction_mean(reshape(relu(conv2d(x)) [n, c, 1, w]) [n, c, w]) {axes = [2]}
    after:  reduction_mean(relu(conv2d(x))) {axes = [2, 3]}
    """
    if family_name(op) != "reduction_mean" or len(op.operands) != 1 or "roles" in op.attributes:
        return False
    reshape = maker(op.operands[0], "reshape")
    shape = shape_of(op.operands[0])
    if reshape is None or len(shape) != IMAGE - 1:
        return False
    image = reshape.operands[0]
    place = _place(image, shape)
    axes = [axis % len(shape) for axis in integers_of(op, "axes")]
    if place is None or not _is_image(image, STEPS):
        return False
    seen = sorted([place, *(axis + (axis >= place) for axis in axes)])
    if seen not in ([2, 3], [1, 2]):  # rows and columns, wherever the channels are
        return False
    builder = BuilderBefore(op)
    attributes = {**op.attributes, "axes": DenseArrayBase.from_list(i64, seen)}
    result = tensor_type(op.result)
    if "keepdims" in op.attributes:
        result = TensorType(result.element_type, _widened(shape_of(op.result), place))
    mean = builder.add(UKernelGenericOp(op.symbol.data, [image], result, attributes))
    replace_value(op, builder.reshape(mean, shape_of(op.result)))
    return True


def _is_elementwise(op: UKernelGenericOp) -> bool:
    family = family_name(op)
    return family.startswith(_ELEMENTWISE) or family in _OTHERS


def _widened(shape: Sequence[int], place: int) -> list[int]:
    return [*shape[:place], 1, *shape[place:]]


def _of_image(op: UKernelGenericOp, index: int) -> int | None:
    """Where the row of pixels that an operand was made of has its dimension of 1."""
    reshape = maker(op.operands[index], "reshape")
    if reshape is None or not reads_plainly(op, index):
        return None
    image = reshape.operands[0]
    return _place(image, shape_of(op.result)) if _is_image(image, STEPS) else None


def _place(image: SSAValue, shape: Sequence[int]) -> int | None:
    """The dimension of 1 of an image that a shape is without."""
    places = [p for p in range(IMAGE) if list(shape_of(image)) == _widened(shape, p)]
    return places[-1] if places else None


def _is_image(value: SSAValue, steps: int) -> bool:
    """Whether a value is what a convolution or a pooling gave, or some steps on single elements later."""
    op = value.owner
    if not isinstance(op, UKernelGenericOp) or not steps:
        return False
    if _is_elementwise(op):
        return any(
            reads_plainly(op, index) and _is_image(operand, steps - 1)
            for index, operand in enumerate(op.operands)
        )
    return family_name(op) == "conv2d" or family_name(op).startswith("pool_")
