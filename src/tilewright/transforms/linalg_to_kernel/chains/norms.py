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
    arith,
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
    stem,
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
    if not root.reads[0].covers(root.shape):
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
    return rewriter.replace(op, [total.op], name, [x], attributes, total.result.type)


def _row_reduction(
    read: Read, x: SSAValue, shape: tuple[int, ...], *families: str
) -> tuple[Node, int] | None:
    """A reduction of `x` over one axis, read once per row of `shape`; and that axis of x."""
    found = node_of(read.value, *families)
    if found is None or len(found.op.operands) != 1 or stem(found.op.operands[0]) is not x:
        return None
    source, axes = shape_of(found.op.operands[0]), _axes(found)
    if len(axes) != 1 or source[axes[0]] == 1:
        return None
    # Everything is compared without dimensions of size 1, which come and go along a chain.
    wide = [d for d, n in enumerate(source) if n != 1]
    loops = [d for d, n in enumerate(shape) if n != 1]
    place = wide.index(axes[0])
    if len(wide) != len(loops) or read.loops != tuple(d for d in loops if d != loops[place]):
        return None
    return found, [d for d, n in enumerate(shape_of(x)) if n != 1][place]


def softmax(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """exp(x - max x) / sum exp(x - max x)"""
    root = make_node(op)
    if len(root.reads) != 2 or not root.reads[0].covers(root.shape):
        return None
    power = node_of(root.reads[0].value, "elementwise_exp")
    if power is None or not power.reads[0].covers(power.shape):
        return None
    total = _row_reduction(root.reads[1], power.result, root.shape, "reduction_sum")
    shifted = node_of(power.reads[0].value, "elementwise_sub")
    if total is None or shifted is None or len(shifted.reads) != 2:
        return None
    x, top = shifted.reads
    highest = _row_reduction(top, x.value, shifted.shape, "reduction_max")
    if highest is None or not x.covers(shifted.shape):
        return None
    if _place(power.result, total[1]) != _place(x.value, highest[1]):
        return None
    inner: list[Operation] = [power.op, total[0].op, shifted.op, highest[0].op]
    axis = {"axis": IntegerAttr(highest[1], i64)}
    return rewriter.replace(op, inner, "softmax", [x.value], axis, x.value.type)


def _place(value: SSAValue, axis: int) -> int:
    """An axis counted without dimensions of size 1."""
    return sum(n != 1 for n in shape_of(value)[:axis])


def rms_norm(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """x * rsqrt(mean(x²) + ε), in f32"""
    root = make_node(op)
    if root.element != f32:
        return None
    for x, factor in root.either_way():
        inverse = node_of(factor.value, "elementwise_rsqrt")
        if inverse is None or not x.covers(root.shape) or not _same_layout(inverse):
            continue
        shifted = node_of(inverse.reads[0].value, "elementwise_add")
        if shifted is None or not _same_layout(shifted):
            continue
        epsilon = shifted.number("scalar_rhs")
        epsilon = shifted.number("scalar_lhs") if epsilon is None else epsilon
        average = node_of(shifted.reads[0].value, "reduction_mean")
        if epsilon is None or average is None:
            continue
        squares = node_of(stem(average.op.operands[0]), "elementwise_square")
        if squares is None or squares.reads[0].value is not x.value or not _same_layout(squares):
            continue
        read = Read(average.result, factor.loops)
        found = _row_reduction(read, squares.result, root.shape, "reduction_mean")
        if found is None:
            continue
        place = _place(squares.result, found[1])
        axis = [d for d, n in enumerate(shape_of(x.value)) if n != 1][place]
        inner: list[Operation] = [inverse.op, shifted.op, average.op, squares.op]
        attributes: dict[str, Attribute] = {
            "epsilon": FloatAttr(epsilon, f32),
            "axis": IntegerAttr(axis, i64),
        }
        new = rewriter.replace(op, inner, "rms_norm", [x.value], attributes, x.value.type)
        if new is not None:
            return new
    return None


def _same_layout(node: Node) -> bool:
    """Whether an intent with one operand reads it element by element."""
    return len(node.reads) == 1 and node.reads[0].covers(node.shape)


def centred(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """rms_norm(x - mean(x)) is layer_norm(x); in f32 the same with a weight"""
    if tensor_type(op.result).element_type != f32 and len(op.operands) > 1:
        return None
    centre = node_of(stem(op.operands[0]), "elementwise_sub")
    if centre is None or len(centre.reads) != 2:
        return None
    x, average = centre.reads
    found = _row_reduction(average, x.value, centre.shape, "reduction_mean")
    if found is None or not x.covers(centre.shape):
        return None
    if _place(x.value, found[1]) != _place(op.operands[0], _axis(op)):
        return None
    inner: list[Operation] = [centre.op, found[0].op]
    attributes = {**op.attributes, "axis": IntegerAttr(found[1], i64)}
    operands = [x.value, *op.operands[1:]]
    return rewriter.replace(op, inner, "layer_norm", operands, attributes, x.value.type)


def _axis(op: UKernelGenericOp) -> int:
    return op.attributes["axis"].value.data  # type: ignore[attr-defined]


def weighted(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """norm(x) * weight"""
    root = make_node(op)
    for normed, weight in root.either_way():
        found = node_of(normed.value, "rms_norm", "layer_norm")
        if found is None or len(found.op.operands) != 1 or not normed.covers(root.shape):
            continue
        vector = _vector(rewriter, found, weight, root)
        if vector is None or (found.family == "layer_norm" and root.element != f32):
            continue
        operands = [found.op.operands[0], vector]
        attributes = dict(found.op.attributes)
        return rewriter.replace(
            op, [found.op], found.family, operands, attributes, found.result.type
        )
    return None


def biased(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """layer_norm(x) * weight + bias"""
    root = make_node(op)
    for normed, bias in root.either_way():
        found = node_of(normed.value, "layer_norm")
        if found is None or len(found.op.operands) != 2 or not normed.covers(root.shape):
            continue
        vector = _vector(rewriter, found, bias, root)
        if vector is None or root.element != f32:
            continue
        operands = [*found.op.operands, vector]
        attributes = dict(found.op.attributes)
        return rewriter.replace(
            op, [found.op], "layer_norm", operands, attributes, found.result.type
        )
    return None


def _vector(rewriter: Rewriter, norm: Node, read: Read, root: Node) -> SSAValue | None:
    """A vector read along the axis of a norm."""
    place = _place(norm.result, _axis(norm.op))
    loops = [d for d, n in enumerate(root.shape) if n != 1]
    size = norm.shape[_axis(norm.op)]
    if size == 1:  # no loop to line the vector up with
        return None
    if read.loops != (loops[place],) or tensor_type(read.value).element_type != root.element:
        return None
    if shape_of(read.value) == (size,):
        return read.value
    # Weights may be written with dimensions of size 1; an activation of that shape is no weight.
    if not isinstance(read.value.owner, arith.ConstantOp) or not rewriter.private(
        [norm.op], root.op
    ):
        return None
    return rewriter.helper(root.op, read.value, (size,))


def narrowed(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """A norm of a widened value, narrowed again: the norm of the value itself.

    before: cast to bf16 (rms_norm (cast %x to f32))
    after:  rms_norm %x : bf16
    """
    root = make_node(op)
    found = node_of(root.reads[0].value, "rms_norm", "layer_norm")
    if found is None or not root.reads[0].covers(root.shape) or found.element != f32:
        return None
    if len(found.op.operands) != 1 or found.shape[_axis(found.op)] == 1:
        return None
    wide = node_of(stem(found.op.operands[0]), "cast")
    if wide is None or not wide.reads[0].covers(wide.shape):
        return None
    x = wide.reads[0].value
    if tensor_type(x).element_type != root.element:
        return None
    inner: list[Operation] = [found.op]
    if rewriter.private([wide.op], found.op):
        inner.append(wide.op)
    place = _place(found.op.operands[0], _axis(found.op))
    axis = [d for d, n in enumerate(shape_of(x)) if n != 1][place]
    attributes = {**found.op.attributes, "axis": IntegerAttr(axis, i64)}
    return rewriter.replace(op, inner, found.family, [x], attributes, x.type)


RECOGNISERS: dict[str, list[Recogniser]] = {
    "elementwise_div": [mean, softmax],
    "elementwise_mul": [mean, rms_norm, weighted],
    "elementwise_add": [biased],
    "cast": [narrowed],
    "rms_norm": [centred],
}
