"""Per-channel factors and terms after a convolution or product, as part of its weights.

before: conv2d(x, w, b) * scale + shift           (batch normalisation at inference)
after:  conv2d(x, w * scale, b * scale + shift)
before: (matmul(x, w) + b) * scale + shift
after:  matmul(x, w * scale) + (b * scale + shift)

After a convolution, one number for all channels counts as well: a norm that was not trained yet.
Only where weights, factors and terms are known: the new ones are written as intents on constants,
which fold-constants computes. A bias row after a product stays an addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dialects.intents import Lane, literal, shape_of, tensor_type
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import SSAValue, StringAttr
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    has_one_user,
    is_float,
    literal_operand,
    maker,
    operand_reads,
    product_behind,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues

FAMILIES = ("elementwise_mul", "elementwise_div", "elementwise_add", "elementwise_sub")


@dataclass(frozen=True)
class Channelwise:
    """x changed by one known number per channel."""

    x: SSAValue
    vector: SSAValue
    read: tuple[int | None, ...]

    def along(self, op: UKernelGenericOp, axis: int) -> bool:
        """Whether the vector follows exactly one axis of the result."""
        sizes = shape_of(self.vector)
        loops = [d for d, n in zip(self.read, sizes, strict=True) if n != 1]
        size = shape_of(op.result)[axis]
        return loops == [axis] or (size == 1 and not loops)


def fold_affine(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Move a per-channel factor or term into the weights before it; True when that was done."""
    if family_name(op) not in FAMILIES or not is_float(op.result):
        return False
    if len(op.operands) == 1:
        return _spread_literal(op, known)
    found = _channelwise(op, known)
    if found is None:
        return False
    convolution = maker(found.x, "conv2d")
    if convolution is not None:
        return has_one_user(convolution) and _into_convolution(op, found, convolution, known)
    return _into_product(op, found, known)


def _spread_literal(op: UKernelGenericOp, known: KnownValues) -> bool:
    """The same with a literal in place of a vector, after a convolution."""
    found = literal_operand(op)
    if found is None or not reads_plainly(op) or "roles" in op.attributes:
        return False
    x, number, left = found
    convolution = maker(x, "conv2d")
    if convolution is None or not has_one_user(convolution) or (left and not _commutes(op)):
        return False
    axis = 3 if _channels_last(convolution) else 1
    builder = BuilderBefore(op)
    element = tensor_type(op.result).element_type
    vector = builder.fill(literal(number, element).value, (shape_of(op.result)[axis],))
    if _into_convolution(op, Channelwise(x, vector, (axis,)), convolution, known):
        return True
    builder.discard()
    return False


def _commutes(op: UKernelGenericOp) -> bool:
    return family_name(op) in ("elementwise_mul", "elementwise_add")


def _channelwise(op: UKernelGenericOp, known: KnownValues) -> Channelwise | None:
    if len(op.operands) != 2 or "roles" in op.attributes:
        return None
    for index in (0, 1) if _commutes(op) else (0,):
        x, vector = op.operands[index], op.operands[1 - index]
        if known.is_known(vector) and not known.is_known(x) and reads_plainly(op, index):
            return Channelwise(x, vector, operand_reads(op)[1 - index])
    return None


def _scaled(
    builder: BuilderBefore, op: UKernelGenericOp, weight: SSAValue, vector: SSAValue, axis: int
) -> SSAValue:
    """A weight times (or divided by) a number for each index along one axis."""
    shape = shape_of(weight)
    lanes = [Lane(weight, tuple(range(len(shape)))), Lane(vector, (axis,))]
    element, extents = tensor_type(weight).element_type, dict(enumerate(shape))
    return builder.elementwise(family_name(op), lanes, element, extents).tensor


def _combined(
    builder: BuilderBefore, op: UKernelGenericOp, bias: SSAValue | None, vector: SSAValue
) -> SSAValue | None:
    """A bias after the step `op`, or None when there was none and still is none."""
    if bias is None:
        if family_name(op) == "elementwise_add":
            return vector
        return builder.unary("elementwise_neg", vector) if _adds(op) else None
    return builder.call(family_name(op), [bias, vector], bias.type)


def _adds(op: UKernelGenericOp) -> bool:
    return family_name(op) in ("elementwise_add", "elementwise_sub")


def _channels_last(convolution: UKernelGenericOp) -> bool:
    layout = convolution.attributes.get("layout")
    return isinstance(layout, StringAttr) and layout.data == "nhwc_hwcf"


def _into_convolution(
    op: UKernelGenericOp, found: Channelwise, convolution: UKernelGenericOp, known: KnownValues
) -> bool:
    last = _channels_last(convolution)
    if not found.along(op, 3 if last else 1) or convolution.result.type != op.result.type:
        return False
    x, weight, *rest = convolution.operands
    bias = rest[0] if rest else None
    if not known.is_known(weight) or (bias is not None and not known.is_known(bias)):
        return False
    axis = 3 if last else 0
    filters = shape_of(weight)[axis]
    if tensor_type(weight).element_type != tensor_type(found.vector).element_type:
        return False
    builder = BuilderBefore(op)
    vector = builder.reshape(found.vector, (filters,))
    if not _adds(op):
        weight = _scaled(builder, op, weight, vector, axis)
    bias = _combined(builder, op, bias, vector)
    operands = [x, weight] if bias is None else [x, weight, bias]
    attributes = {k: v for k, v in convolution.attributes.items() if k != "roles"}
    new = UKernelGenericOp(convolution.symbol.data, operands, op.result.type, attributes)
    replace_value(op, builder.add(new))
    return True


def _into_product(op: UKernelGenericOp, found: Channelwise, known: KnownValues) -> bool:
    rank = len(shape_of(op.result))
    if rank < 1 or not found.along(op, rank - 1):
        return False
    size = shape_of(op.result)[-1]
    inner, bias = found.x, None
    added = maker(found.x, "elementwise_add")
    if added is not None:
        before = _channelwise(added, known)
        if before is None or not before.along(added, rank - 1) or not has_one_user(added):
            return False
        inner, bias = before.x, before.vector
    product = product_behind(inner)
    if product is None or (bias is None and _adds(op)):
        return False
    builder = BuilderBefore(op)
    vector = builder.reshape(found.vector, (size,))
    bias = None if bias is None else builder.reshape(bias, (size,))
    if not _adds(op):
        if not _can_scale(product, found.vector, known):
            builder.discard()
            return False
        axis = 0 if product.transposes()[1] else 1
        weight = _scaled(builder, op, product.rhs, vector, axis)
        new = MatmulOp(
            product.lhs,
            weight,
            product.result.type,
            None,
            *product.transposes(),
            product.attributes,
        )
        inner = builder.add(new)
    if bias is not None:
        total = _combined(builder, op, bias, vector)
        assert total is not None
        lanes = [Lane(inner, tuple(range(rank))), Lane(total, (rank - 1,))]
        element, extents = tensor_type(inner).element_type, dict(enumerate(shape_of(inner)))
        inner = builder.elementwise("elementwise_add", lanes, element, extents).tensor
    replace_value(op, inner)
    return True


def _can_scale(product: MatmulOp, vector: SSAValue, known: KnownValues) -> bool:
    """Whether a product has one known matrix of weights, and nobody else reads the product."""
    return (
        product.init is None
        and has_one_user(product)
        and known.is_known(product.rhs)
        and len(shape_of(product.rhs)) == 2
        and tensor_type(product.rhs).element_type == tensor_type(vector).element_type
        and tensor_type(product.result).element_type == tensor_type(vector).element_type
    )


def fold_all_affine(ops: Sequence[object], known: KnownValues) -> bool:
    """Fold what can be, in order; chains of steps fold one after the other."""
    changed = False
    for op in ops:
        if isinstance(op, UKernelGenericOp) and op.parent is not None:
            changed = fold_affine(op, known) or changed
    return changed
