"""Rotary position embedding in its spellings.

split_half:  concat(a cos - b sin, b cos + a sin) with a, b the halves of x, or
             x C + concat(-b, a) S with tables for every element
interleaved: the same with a, b the even and odd elements, put side by side again

Sine and cosine must come from the same place in both lines and both halves from one x; anything else
only looks like a rotation.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dialects.intents import shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import AnyFloat, IntegerAttr, Operation, SSAValue, i64
from tilewright.transforms.kernel_rewriting import slice_within
from tilewright.transforms.linalg_to_kernel.chains.match import (
    Read,
    Recogniser,
    Rewriter,
    make_node,
    node_of,
    stem,
)


@dataclass(frozen=True)
class Half:
    """One half of x along an axis: which, and the ops in between."""

    x: SSAValue
    axis: int
    second: bool
    style: str
    op: Operation


def _half(value: SSAValue, whole: SSAValue | None = None) -> Half | None:
    """The half of a tensor that a slice takes, contiguous or every other element; whole: the
    tensor, where both may be slices of a wider one."""
    found = node_of(stem(value), "slice")
    if found is None or not isinstance(found.op, UKernelGenericOp):
        return None
    x = found.op.operands[0] if whole is None else whole
    within = slice_within(found.op, x)
    if within is None:
        return None
    shape, (offsets, sizes, strides) = shape_of(x), within
    axes = [d for d, n in enumerate(shape) if sizes[d] != n]
    if len(axes) != 1:
        return None
    axis = axes[0]
    half = shape[axis] // 2
    if sizes[axis] * 2 != shape[axis] or half < 2:
        return None
    if any(offsets[d] or strides[d] != 1 for d in range(len(shape)) if d != axis):
        return None
    if strides[axis] == 1 and offsets[axis] in (0, half):
        return Half(x, axis, offsets[axis] == half, "split_half", found.op)
    if strides[axis] == 2 and offsets[axis] in (0, 1):
        return Half(x, axis, offsets[axis] == 1, "interleaved", found.op)
    return None


@dataclass(frozen=True)
class Turn:
    """p * cos ± q * sin."""

    p: SSAValue
    q: SSAValue
    cos: Read
    sin: Read
    inner: list[Operation]


def _turns(value: SSAValue, family: str) -> list[Turn]:
    """Every way to read an intent as p * cos ± q * sin."""
    root = node_of(value, family)
    if root is None or len(root.reads) != 2 or not isinstance(root.element, AnyFloat):
        return []
    shape, found = root.shape, []
    orders = [root.reads] if family == "elementwise_sub" else list(root.either_way())
    for first, second in orders:
        left, right = (node_of(r.value, "elementwise_mul") for r in (first, second))
        if left is None or right is None or left.shape != shape or right.shape != shape:
            continue
        for p, cos in left.either_way():
            for q, sin in right.either_way():
                if p.covers(shape) and q.covers(shape):
                    inner: list[Operation] = [root.op, left.op, right.op]
                    found.append(Turn(p.value, q.value, cos, sin, inner))
    return found


def _pair(first: SSAValue, last: SSAValue) -> tuple[Half, Half, Read, Read, list[Operation]] | None:
    """The halves and tables behind a cos - b sin and b cos + a sin."""
    for turn in _turns(first, "elementwise_sub"):
        for back in _turns(last, "elementwise_add"):
            if turn.p is not back.q or turn.q is not back.p:
                continue
            if turn.cos != back.cos or turn.sin != back.sin:
                continue
            a, b = _half(turn.p), _half(turn.q)
            if a is None or b is None or a.x is not b.x or a.axis != b.axis:
                continue
            if a.style != b.style or a.second or not b.second:
                continue
            return a, b, turn.cos, turn.sin, [*turn.inner, *back.inner, a.op, b.op]
    return None


def _table(
    rewriter: Rewriter, root: Operation, half: Half, read: Read, shape: tuple[int, ...]
) -> SSAValue | None:
    """A table lined up with the last dimensions of x, of size 1 where it does not vary.

    `shape` is the shape of the half as the products see it, unit dimensions possibly dropped.
    """
    full = shape_of(half.x)
    wide = [d for d, n in enumerate(full) if n != 1]
    narrow = [d for d, n in enumerate(shape) if n != 1]
    if len(wide) != len(narrow) or list(read.loops) != sorted(read.loops):
        return None
    to_x = dict(zip(narrow, wide, strict=True))
    sizes = [1] * len(full)
    for loop in read.loops:
        sizes[to_x[loop]] = shape[loop]
    if tensor_type(read.value).element_type != tensor_type(half.x).element_type:
        return None
    if sizes[half.axis] == 1:
        return None
    if shape_of(read.value) == tuple(sizes):
        return read.value
    # Leading dimensions in which the table does not vary go without saying.
    first = next(d for d, n in enumerate(sizes) if n != 1)
    return rewriter.helper(root, read.value, sizes[first:])


def _emit(
    op: UKernelGenericOp,
    rewriter: Rewriter,
    half: Half,
    tables: tuple[Read, Read],
    shape: tuple[int, ...],
    inner: list[Operation],
    style: str,
) -> UKernelGenericOp | None:
    """The rope intent, when its inner values are its own."""
    if half.x.type != op.result.type:
        return None
    slices = [o for o in inner if o.name == op.name and "offsets" in o.attributes]
    others = [o for o in dict.fromkeys(inner) if o not in slices]
    if not rewriter.private(others, op):
        return None
    cos, sin = (_table(rewriter, op, half, read, shape) for read in tables)
    if cos is None or sin is None:
        return None
    attributes = {"style": text(style), "axis": IntegerAttr(half.axis, i64)}
    new = rewriter.replace(op, others, "rope", [half.x, cos, sin], attributes)
    if new is not None:
        extra = dict.fromkeys(s for o in slices for s in rewriter.sources.get(o, ()))
        rewriter.sources[new] = tuple(dict.fromkeys((*rewriter.sources[new], *extra)))
        rewriter.erase(slices)
    return new


def split_half(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """concat(a cos - b sin, b cos + a sin)"""
    if len(op.operands) != 2:
        return None
    parts = [stem(part) for part in op.operands]
    found = _pair(parts[0], parts[1])
    if found is None:
        return None
    a, _, cos, sin, inner = found
    axis = op.attributes["axis"].value.data  # type: ignore[attr-defined]
    if a.style != "split_half" or a.axis != axis % len(shape_of(op.result)):
        return None
    shape = shape_of(parts[0])
    return _emit(op, rewriter, a, (cos, sin), shape, inner, "split_half")


def interleaved(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """reshape(concat of [.., h, 1] and [.., h, 1]) to [.., 2h]"""
    stack = node_of(op.operands[0], "concat")
    if stack is None or len(stack.op.operands) != 2:
        return None
    rank = len(shape_of(op.result))
    axis = stack.op.attributes["axis"].value.data % len(stack.shape)  # type: ignore[attr-defined]
    parts = [stem(part) for part in stack.op.operands]
    found = _pair(parts[0], parts[1])
    if found is None:
        return None
    a, _, cos, sin, chain = found
    shape = shape_of(a.x)
    half = shape[a.axis] // 2
    paired = (*shape[: a.axis], half, 2, *shape[a.axis + 1 :])
    if a.style != "interleaved" or axis != a.axis + 1 or stack.shape != paired:
        return None
    if rank != len(shape):
        return None
    sizes = shape_of(parts[0])
    return _emit(op, rewriter, a, (cos, sin), sizes, [*chain, stack.op], "interleaved")


def whole_tables(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """x * C + concat(-b, a) * S, where C and S have an entry for every element"""
    root = make_node(op)
    for first, second in root.either_way():
        left, right = (node_of(r.value, "elementwise_mul") for r in (first, second))
        if left is None or right is None:
            continue
        if left.shape != root.shape or right.shape != root.shape:
            continue
        for x, cos in left.either_way():
            for turned, sin in right.either_way():
                found = _rotated(turned.value, x.value)
                if found is None or not x.covers(root.shape) or not turned.covers(root.shape):
                    continue
                half, inner = found
                tables = tuple(_halved_table(read, half, root.shape) for read in (cos, sin))
                if len({shape_of(read.value) for read, _ in tables}) != 1:
                    tables = ((cos, []), (sin, []))  # only one of them is made of two equal parts
                chain: list[Operation] = [left.op, right.op, *inner]
                chain += [o for _, ops in tables for o in ops if rewriter.private([o], o)]
                return _emit(
                    op,
                    rewriter,
                    half,
                    (tables[0][0], tables[1][0]),
                    _table_shape(root.shape, half, tables),
                    chain,
                    "split_half",
                )
    return None


def _rotated(value: SSAValue, x: SSAValue) -> tuple[Half, list[Operation]] | None:
    """concat(-b, a) of the halves of x."""
    joined = node_of(value, "concat")
    if joined is None or len(joined.op.operands) != 2:
        return None
    negated = node_of(joined.op.operands[0], "elementwise_neg")
    if negated is None:
        return None
    b, a = _half(negated.op.operands[0], x), _half(joined.op.operands[1], x)
    if a is None or b is None:  # x without dimensions of size 1
        b, a = _half(negated.op.operands[0]), _half(joined.op.operands[1])
    if a is None or b is None or a.x is not b.x or a.axis != b.axis:
        return None
    if stem(a.x) is not stem(x):
        return None
    axis = joined.op.attributes["axis"].value.data % len(joined.shape)  # type: ignore[attr-defined]
    if a.second or not b.second or {a.style, b.style} != {"split_half"} or axis != a.axis:
        return None
    return a, [joined.op, negated.op, a.op, b.op]


def _halved_table(read: Read, half: Half, shape: tuple[int, ...]) -> tuple[Read, list[Operation]]:
    """A table that repeats itself along the axis, as the part it repeats."""
    joined = node_of(read.value, "concat")
    if joined is None or len(joined.op.operands) != 2:
        return read, []
    first, second = joined.op.operands
    axis = joined.op.attributes["axis"].value.data % len(joined.shape)  # type: ignore[attr-defined]
    wide = [d for d, n in enumerate(joined.shape) if n != 1]
    if first is not second or axis not in wide or read.loops[wide.index(axis)] != half.axis:
        return read, []
    return Read(first, read.loops), []


def _table_shape(shape: tuple[int, ...], half: Half, tables) -> tuple[int, ...]:
    """The shape tables are read in: the axis halved where they hold one entry per pair."""
    sizes = list(shape)
    read = tables[0][0]
    wide = [n for n in shape_of(read.value) if n != 1]
    place = read.loops.index(half.axis) if half.axis in read.loops else None
    if place is not None and len(wide) == len(read.loops):
        sizes[half.axis] = wide[place]
    return tuple(sizes)


RECOGNISERS: dict[str, list[Recogniser]] = {
    "concat": [split_half],
    "reshape": [interleaved],
    "elementwise_add": [whole_tables],
}
