"""simplify-kernels: intents that change nothing, or say in two steps what one can say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.dialects.intents import (
    shape_of,
    tensor_type,
)
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Context,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    ModulePass,
    Operation,
    SSAValue,
)
from tilewright.transforms.canonicalize import remove_dead
from tilewright.transforms.kernel_operands import read_as_it_lies, read_in_place
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    integers_of,
    literal_operand,
    maker,
    operand_reads,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues

# A rule gives the value that takes the place of an op's result, or None.
Rule = Callable[[UKernelGenericOp, KnownValues], SSAValue | None]


@dataclass(frozen=True)
class SimplifyKernels(ModulePass):
    """Remove intents that change nothing and join those that only move data.

    before: transpose(transpose(x)), reshape(reshape(x)), x * 1, x + 0, concat of one part,
            a slice of everything, a cast to the same type, matmul of a transposed operand
    after:  one transpose or reshape at most; x itself; matmul with transpose_rhs

    Repeated operands of element-wise intents are read from the original, and operands that hold
    one number become literals. Only the sign of a zero may change.
    """

    name = "simplify-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        simplify_kernels(op, KnownValues())


def simplify_kernels(module: ModuleOp, known: KnownValues) -> bool:
    """Apply the rules until none fits; True when something changed."""
    changed, again = False, True
    while again:
        again = False
        for op in list(module.walk()):
            if op.parent is not None and isinstance(op, UKernelGenericOp | MatmulOp):
                again = _simplify(op, known) or again
        again = remove_dead(module) or again
        known.forget()
        changed = changed or again
    return changed


def _simplify(op: Operation, known: KnownValues) -> bool:
    if isinstance(op, MatmulOp):
        return read_as_it_lies(op)
    assert isinstance(op, UKernelGenericOp)
    for rule in _rules(family_name(op)):
        value = rule(op, known)
        if value is not None:
            replace_value(op, value)
            return True
    return read_in_place(op, known)


# ------------------------------------------------------------------------------------ movement


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def reshape(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A reshape to the same shape, or of a reshape"""
    x = op.operands[0]
    if x.type == op.result.type:
        return x
    inner = maker(x, "reshape")
    if inner is not None:
        return BuilderBefore(op).reshape(inner.operands[0], shape_of(op.result))
    return None


def transpose(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A transpose that keeps the order, of a transpose, or only of dimensions of size 1"""
    x, order = op.operands[0], integers_of(op, "permutation")
    if order == tuple(range(len(order))):
        return x
    shape = shape_of(x)
    moved = [d for d in order if shape[d] != 1]
    if moved == sorted(moved):
        return BuilderBefore(op).reshape(x, shape_of(op.result))
    inner = maker(x, "transpose")
    if inner is not None:
        first = integers_of(inner, "permutation")
        return BuilderBefore(op).transpose(inner.operands[0], [first[p] for p in order])
    inner = maker(x, "reshape")
    if inner is not None and shape_of(inner.operands[0]) == _squeezed(shape):
        # Dimensions of size 1 are added last, where the next reshape may take them away again.
        builder, wide = BuilderBefore(op), [d for d, n in enumerate(shape) if n != 1]
        turned = builder.transpose(inner.operands[0], [wide.index(d) for d in moved])
        return builder.reshape(turned, shape_of(op.result))
    return None


def cast(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A cast to the same type, there and back, or that only moves dimensions"""
    x = op.operands[0]
    same = tensor_type(x).element_type == tensor_type(op.result).element_type
    if reads_plainly(op):
        if same:
            return x
        inner = maker(x, "cast")
        if inner is None or not reads_plainly(inner):
            return None
        source = inner.operands[0]
        if source.type == op.result.type and _holds(x, source):
            return source
        return None
    read, shape, result = operand_reads(op)[0], shape_of(x), shape_of(op.result)
    kept = [d for d, n in zip(read, shape, strict=True) if n != 1]
    if None in kept or not same or [n for d, n in enumerate(result) if d not in kept and n != 1]:
        return None
    order = sorted(range(len(kept)), key=lambda i: kept[i] or 0)
    builder = BuilderBefore(op)
    narrow = builder.reshape(x, _squeezed(shape))
    return builder.reshape(builder.transpose(narrow, order), result)


_EXACT = {"bf16": {"f32", "f64"}, "f16": {"f32", "f64"}, "f32": {"f64"}}


def _holds(wide: SSAValue, narrow: SSAValue) -> bool:
    """Whether every number of the narrow value's float type is one of the wide value's."""
    wider = _EXACT.get(str(tensor_type(narrow).element_type), set())
    return str(tensor_type(wide).element_type) in wider


def concat(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A concat of one part, or of neighbouring slices of one value"""
    if len(op.operands) == 1:
        return op.operands[0]
    axis = op.attributes["axis"].value.data % len(shape_of(op.result))  # type: ignore[attr-defined]
    end, source = 0, None
    for part in op.operands:
        piece = maker(part, "slice")
        if piece is None or (source is not None and piece.operands[0] is not source):
            return None
        source = piece.operands[0]
        if source.type != op.result.type or shape_of(part) != integers_of(piece, "sizes"):
            return None
        if set(integers_of(piece, "strides") or (1,)) != {1}:
            return None
        offsets, sizes = integers_of(piece, "offsets"), integers_of(piece, "sizes")
        if offsets[axis] != end or any(o for d, o in enumerate(offsets) if d != axis):
            return None
        end += sizes[axis]
    return source if source is not None and end == shape_of(source)[axis] else None


def slice_(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A slice of everything, of a slice, or of one part of a concat"""
    x, rank = op.operands[0], len(shape_of(op.operands[0]))
    sizes, offsets = integers_of(op, "sizes"), list(integers_of(op, "offsets"))
    strides = integers_of(op, "strides") or (1,) * rank
    builder = BuilderBefore(op)
    if sizes == shape_of(x):
        return builder.reshape(x, shape_of(op.result))
    inner = maker(x, "slice")
    if inner is not None and shape_of(x) == integers_of(inner, "sizes"):
        first = integers_of(inner, "offsets")
        steps = integers_of(inner, "strides") or (1,) * rank
        places = [a + s * b for a, s, b in zip(first, steps, offsets, strict=True)]
        return builder.slice(
            inner.operands[0],
            places,
            sizes,
            [a * b for a, b in zip(steps, strides, strict=True)],
            shape_of(op.result),
        )
    joined = maker(x, "concat")
    if joined is not None:
        axis = joined.attributes["axis"].value.data % rank  # type: ignore[attr-defined]
        last = offsets[axis] + (sizes[axis] - 1) * strides[axis]
        start = 0
        for part in joined.operands:
            size = shape_of(part)[axis]
            if start <= offsets[axis] and last < start + size:
                offsets[axis] -= start
                return builder.slice(part, offsets, sizes, strides, shape_of(op.result))
            start += size
    return None


def of_pairs(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """One number of every pair, where a reshape has put pairs apart: every other number

    before: slice(reshape x to [.., 8, 2], [.., 0:8, 1:2])    after: slice(x, [.., 1:16:2])
    """
    pairs, shape = maker(op.operands[0], "reshape"), shape_of(op.operands[0])
    sizes, offsets = integers_of(op, "sizes"), integers_of(op, "offsets")
    if pairs is None or len(shape) < 2 or shape[-1] != 2 or shape[-2] < 2:
        return None
    if sizes != (*shape[:-1], 1) or set(integers_of(op, "strides") or (1,)) != {1}:
        return None
    builder, whole = BuilderBefore(op), (*shape[:-2], 2 * shape[-2])
    lead = len(whole) - 1
    return builder.reshape(
        builder.slice(
            builder.reshape(pairs.operands[0], whole),
            (*[0] * lead, offsets[-1]),
            (*shape[:-2], shape[-2]),
            (*[1] * lead, 2),
        ),
        shape_of(op.result),
    )


def insert_slice(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """Slices written side by side until nothing of the original is left: a concat

    before: insert b at [.., 32] into (insert a at [.., 0] into anything), both 32 wide of 64
    after:  concat(a, b); where every other element is written: their concat pair by pair
    """
    alternating = _alternating(op)
    if alternating is not None:
        return alternating
    rank, shape = len(shape_of(op.result)), shape_of(op.result)
    parts: dict[int, SSAValue] = {}
    axis: int | None = None
    current: UKernelGenericOp | None = op
    while current is not None:
        part, sizes = current.operands[0], integers_of(current, "sizes")
        offsets = integers_of(current, "offsets")
        if set(integers_of(current, "strides") or (1,)) != {1} or shape_of(part) != sizes:
            return None
        cut = [d for d in range(rank) if sizes[d] != shape[d]]
        if not cut:
            return part if current is op else None
        if len(cut) != 1 or axis not in (None, cut[0]):
            return None
        axis = cut[0]
        end = offsets[axis] + sizes[axis]
        if any(s < end and offsets[axis] < s + shape_of(p)[axis] for s, p in parts.items()):
            return None  # a later write wins; only clean tilings are joined
        parts[offsets[axis]] = part
        if sum(shape_of(p)[axis] for p in parts.values()) == shape[axis]:
            return BuilderBefore(op).concat([parts[s] for s in sorted(parts)], axis)
        current = maker(current.operands[1], "insert_slice")
    return None


def _alternating(op: UKernelGenericOp) -> SSAValue | None:
    """Even and odd elements of the last dimension, written one after the other."""
    inner, shape = maker(op.operands[1], "insert_slice"), shape_of(op.result)
    if inner is None or not shape or shape[-1] % 2:
        return None
    half, rank = (*shape[:-1], shape[-1] // 2), len(shape)
    parts: dict[int, SSAValue] = {}
    for write in (op, inner):
        offsets = integers_of(write, "offsets")
        if integers_of(write, "strides") != (*([1] * (rank - 1)), 2) or any(offsets[:-1]):
            return None
        if integers_of(write, "sizes") != half or shape_of(write.operands[0]) != half:
            return None
        parts[offsets[-1]] = write.operands[0]
    if set(parts) != {0, 1}:
        return None
    builder = BuilderBefore(op)
    pairs = [builder.reshape(parts[start], (*half, 1)) for start in (0, 1)]
    return builder.reshape(builder.concat(pairs, rank), shape)


# -------------------------------------------------------------------------------- element-wise


def neutral(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """x * 1, x / 1, x + 0, x - 0, max(x, -inf), min(x, inf), x to the 1"""
    found = literal_operand(op)
    if found is None or not reads_plainly(op):
        return None
    x, number, left = found
    family = family_name(op).removeprefix("elementwise_")
    nothing = {
        "mul": 1, "add": 0, "max": -math.inf, "min": math.inf,
        **({} if left else {"div": 1, "sub": 0, "pow": 1}),
    }  # fmt: skip
    if family not in nothing or x.type != op.result.type:
        return None
    return x if number == nothing[family] else None


def opposite(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """x * -1 or x / -1, which is -x in every bit"""
    found = literal_operand(op)
    if found is None or not reads_plainly(op):
        return None
    x, number, left = found
    divided = family_name(op) == "elementwise_div"
    if number != -1 or (divided and left) or x.type != op.result.type:
        return None
    return BuilderBefore(op).unary("elementwise_neg", x)


def negation(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """-(-x)"""
    inner = maker(op.operands[0], "elementwise_neg")
    if inner is not None and reads_plainly(op) and reads_plainly(inner):
        return inner.operands[0]
    return None


def select(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A choice that is known to be always the same"""
    number = known.number(op.operands[0]) if known.is_known(op.operands[0]) else None
    if number is None:
        return None
    chosen = "a" if number else "b"
    if f"scalar_{chosen}" in op.attributes:
        value = op.attributes[f"scalar_{chosen}"]
        assert isinstance(value, FloatAttr | IntegerAttr)
        return BuilderBefore(op).fill(value, shape_of(op.result))
    names = ["cond", *(n for n in ("a", "b") if f"scalar_{n}" not in op.attributes)]
    index = names.index(chosen)
    return op.operands[index] if reads_plainly(op, index) else None


def reduction(op: UKernelGenericOp, known: KnownValues) -> SSAValue | None:
    """A sum that starts at 0, a maximum that starts at -inf, a reduction of nothing"""
    if len(op.operands) == 1:
        sizes = shape_of(op.operands[0])
        same = tensor_type(op.operands[0]).element_type == tensor_type(op.result).element_type
        if same and all(sizes[a] == 1 for a in integers_of(op, "axes")):
            return BuilderBefore(op).reshape(op.operands[0], shape_of(op.result))
        return None
    start = known.number(op.operands[1]) if known.is_known(op.operands[1]) else None
    neutral_start = {
        "reduction_sum": 0, "reduction_max": -math.inf, "reduction_min": math.inf,
        "reduction_prod": 1,
    }  # fmt: skip
    if start is None or start != neutral_start.get(family_name(op)):
        return None
    attributes = {k: v for k, v in op.attributes.items() if k != "roles"}
    return BuilderBefore(op).call(family_name(op), [op.operands[0]], op.result.type, attributes)


_BY_FAMILY: dict[str, list[Rule]] = {
    "reshape": [reshape],
    "transpose": [transpose],
    "cast": [cast],
    "concat": [concat],
    "slice": [slice_, of_pairs],
    "insert_slice": [insert_slice],
    "elementwise_neg": [negation],
    "select": [select],
    **{f"reduction_{n}": [reduction] for n in ("sum", "max", "min", "prod", "mean")},
    **{f"elementwise_{n}": [neutral, opposite] for n in ("mul", "div")},
    **{f"elementwise_{n}": [neutral] for n in ("add", "sub", "max", "min", "pow")},
}


def _rules(family: str) -> list[Rule]:
    return _BY_FAMILY.get(family, [])
