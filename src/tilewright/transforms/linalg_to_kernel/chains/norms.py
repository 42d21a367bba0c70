"""mean, softmax, rms_norm, layer_norm, average pooling."""

from __future__ import annotations

import math

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    Attribute,
    FloatAttr,
    IntegerAttr,
    Operation,
    SSAValue,
    f32,
    i64,
)
from tilewright.transforms.linalg_to_kernel.chains.match import (
    Node,
    Read,
    Recogniser,
    Rewriter,
    make_node,
    node_of,
)


def _axes(node: Node) -> tuple[int, ...]:
    return tuple(int(a) for a in node.op.attributes["axes"].get_values())  # type: ignore[attr-defined]


def _divisor(node: Node) -> float | None:
    """The count a mean divides by: literally, or by the exact reciprocal of a power of two."""
    number = node.number("scalar_rhs")
    if node.family == "elementwise_div":
        return number
    number = number if number is not None else node.number("scalar_lhs")
    if number is None or number <= 0 or math.frexp(number)[0] != 0.5:
        return None
    return 1.0 / number


def mean(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """sum / count, over a whole reduction or a pooling window"""
    root = make_node(op)
    count = _divisor(root)
    if count is None or len(root.reads) != 1 or not isinstance(root.element, AnyFloat):
        return None
    if root.reads[0].value.type != op.result.type or "operand_maps" in op.attributes:
        return None
    total = node_of(root.reads[0].value, "reduction_sum", "pool_sum")
    if total is None or len(total.op.operands) != 1:
        return None
    attributes = dict(total.op.attributes)
    x = total.op.operands[0]
    if total.family == "reduction_sum":
        elements, name = math.prod(shape_of(x)[a] for a in _axes(total)), "reduction_mean"
    else:
        window = attributes["kernel"].get_values()  # type: ignore[attr-defined]
        elements, name = math.prod(window), "pool_avg"
    if elements != count:
        return None
    return rewriter.replace(op, [total.op], name, [x], attributes)


def _row_reduction(read: Read, shape: tuple[int, ...], *families: str) -> tuple[Node, int] | None:
    """A reduction over one axis whose result is read once per row of `shape`, and the axis."""
    found = node_of(read.value, *families)
    if found is None or len(found.op.operands) != 1:
        return None
    source, axes = shape_of(found.op.operands[0]), _axes(found)
    if source != shape or len(axes) != 1:
        return None
    return (found, axes[0]) if read.lacks(shape, axes[0]) and _aligned(found, read) else None


def _aligned(found: Node, read: Read) -> bool:
    """Whether the row value is read along the dimensions it was made from."""
    source = shape_of(found.op.operands[0])
    axes = _axes(found)
    kept = tuple(d for d, n in enumerate(source) if n != 1 and d not in axes)
    return kept == read.loops


def softmax(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """exp(x - max x) / sum exp(x - max x)"""
    root = make_node(op)
    if len(root.reads) != 2 or not root.reads[0].covers(root.shape):
        return None
    power = node_of(root.reads[0].value, "elementwise_exp")
    total = _row_reduction(root.reads[1], root.shape, "reduction_sum")
    if power is None or total is None or total[0].op.operands[0] is not power.result:
        return None
    shifted = node_of(power.reads[0].value, "elementwise_sub")
    if shifted is None or len(shifted.reads) != 2 or not power.reads[0].covers(power.shape):
        return None
    x, top = shifted.reads
    highest = _row_reduction(top, root.shape, "reduction_max")
    if highest is None or highest[0].op.operands[0] is not x.value or highest[1] != total[1]:
        return None
    if not x.covers(root.shape) or shape_of(x.value) != root.shape:
        return None
    inner: list[Operation] = [power.op, total[0].op, shifted.op, highest[0].op]
    axis = {"axis": IntegerAttr(total[1], i64)}
    return rewriter.replace(op, inner, "softmax", [x.value], axis)


def rms_norm(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """x * rsqrt(mean(x²) + ε), in f32"""
    root = make_node(op)
    if root.element != f32:
        return None
    for x, factor in root.either_way():
        if not x.covers(root.shape) or shape_of(x.value) != root.shape:
            continue
        inverse = node_of(factor.value, "elementwise_rsqrt")
        shifted = node_of(inverse.reads[0].value, "elementwise_add") if inverse else None
        if inverse is None or shifted is None or len(shifted.reads) != 1:
            continue
        epsilon = shifted.number("scalar_rhs")
        epsilon = shifted.number("scalar_lhs") if epsilon is None else epsilon
        if epsilon is None or not _same_layout(inverse) or not _same_layout(shifted):
            continue
        read = Read(shifted.reads[0].value, factor.loops)
        average = _row_reduction(read, root.shape, "reduction_mean")
        if average is None:
            continue
        squares = node_of(average[0].op.operands[0], "elementwise_square")
        if squares is None or squares.reads[0].value is not x.value or not _same_layout(squares):
            continue
        inner: list[Operation] = [inverse.op, shifted.op, average[0].op, squares.op]
        attributes: dict[str, Attribute] = {
            "epsilon": FloatAttr(epsilon, f32),
            "axis": IntegerAttr(average[1], i64),
        }
        new = rewriter.replace(op, inner, "rms_norm", [x.value], attributes)
        if new is not None:
            return _centred(new, rewriter) or new
    return None


def _same_layout(node: Node) -> bool:
    """Whether a unary intent keeps its operand's shape."""
    return len(node.reads) == 1 and shape_of(node.reads[0].value) == node.shape


def _centred(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """rms_norm(x - mean(x)) is layer_norm(x)"""
    shape = shape_of(op.result)
    centre = node_of(op.operands[0], "elementwise_sub")
    if centre is None or len(centre.reads) != 2:
        return None
    x, average = centre.reads
    found = _row_reduction(average, shape, "reduction_mean")
    if found is None or found[0].op.operands[0] is not x.value or not x.covers(shape):
        return None
    axis = op.attributes["axis"]
    if found[1] != axis.value.data or shape_of(x.value) != shape:  # type: ignore[attr-defined]
        return None
    inner: list[Operation] = [centre.op, found[0].op]
    return rewriter.replace(op, inner, "layer_norm", [x.value], dict(op.attributes))


def weighted(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """norm(x) * weight"""
    root = make_node(op)
    for normed, weight in root.either_way():
        found = node_of(normed.value, "rms_norm", "layer_norm")
        if found is None or len(found.op.operands) != 1 or not normed.covers(root.shape):
            continue
        vector = _vector(found, weight, root)
        if vector is None or normed.value.type != op.result.type:
            continue
        if found.family == "layer_norm" and root.element != f32:
            continue
        operands = [found.op.operands[0], vector]
        attributes = dict(found.op.attributes)
        return rewriter.replace(op, [found.op], found.family, operands, attributes)
    return None


def biased(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """layer_norm(x) * weight + bias"""
    root = make_node(op)
    for normed, bias in root.either_way():
        found = node_of(normed.value, "layer_norm")
        if found is None or len(found.op.operands) != 2 or not normed.covers(root.shape):
            continue
        vector = _vector(found, bias, root)
        if vector is None or normed.value.type != op.result.type or root.element != f32:
            continue
        operands = [*found.op.operands, vector]
        attributes = dict(found.op.attributes)
        return rewriter.replace(op, [found.op], "layer_norm", operands, attributes)
    return None


def _vector(norm: Node, read: Read, root: Node) -> SSAValue | None:
    """A vector read along the axis of a norm."""
    axis = norm.op.attributes["axis"].value.data  # type: ignore[attr-defined]
    if read.loops != (axis,) or shape_of(read.value) != (root.shape[axis],):
        return None
    return read.value if tensor_type(read.value).element_type == root.element else None


def narrowed(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """A norm of a widened value, narrowed again: the norm of the value itself.

    before: cast to bf16 (rms_norm (cast %x to f32))
    after:  rms_norm %x : bf16
    """
    root = make_node(op)
    found = node_of(root.reads[0].value, "rms_norm", "layer_norm") if root.reads else None
    if found is None or "operand_maps" in op.attributes or found.element != f32:
        return None
    if found.family == "rms_norm" and len(found.op.operands) != 1:
        return None
    if found.family == "layer_norm" and len(found.op.operands) != 1:
        return None
    wide = node_of(found.op.operands[0], "cast")
    if wide is None or "operand_maps" in wide.op.attributes:
        return None
    x = wide.op.operands[0]
    if tensor_type(x).element_type != root.element or x.type != op.result.type:
        return None
    inner: list[Operation] = [found.op]
    if all(use.operation is found.op for use in wide.result.uses):
        inner.append(wide.op)
    return rewriter.replace(op, inner, found.family, [x], dict(found.op.attributes))


RECOGNISERS: dict[str, list[Recogniser]] = {
    "elementwise_div": [mean, softmax],
    "elementwise_mul": [mean, rms_norm, weighted],
    "elementwise_add": [biased],
    "cast": [narrowed],
}
