"""Rotary embeddings: interleaved pairs with whole tables, and tables that hold everything twice.

Sine and cosine of models in the Llama style have one entry per element, the second half of a row
equal to the first. The kernel reads one entry per pair; tables are halved where that is certain:
by how they are made, or by what they are known to hold.
"""

from __future__ import annotations

import numpy as np

from tilewright.dialects.intents import shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import IntegerAttr, SSAValue, StringAttr, TensorType, i64
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    has_one_user,
    integers_of,
    maker,
    operand_reads,
    reads_plainly,
    replace_value,
    slice_within,
)
from tilewright.transforms.known_values import KnownValues

_ALONG = frozenset(
    f"elementwise_{n}" for n in ("cos", "sin", "neg", "mul", "div", "add", "sub")
) | {"cast"}


def halve_tables(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Give a rope with one table entry per element tables with one per pair.

    before: rope(x, cos(concat(f, f)), sin(concat(f, f)))   after: rope(x, cos(f), sin(f))
    """
    if family_name(op) != "rope" or "operand_maps" in op.attributes:
        return False
    width, rank = shape_of(op.result)[-1], len(shape_of(op.result))
    axis = op.attributes.get("axis")
    along = axis.value.data % rank if isinstance(axis, IntegerAttr) else rank - 1
    tables = op.operands[1:]
    if along != rank - 1 or any(shape_of(t)[-1:] != (width,) for t in tables):
        return False
    style = op.attributes.get("style")
    pairs = isinstance(style, StringAttr) and style.data == "interleaved"
    builder = BuilderBefore(op)
    halves = [_half(builder, table, pairs, known) for table in tables]
    if any(half is None for half in halves):
        builder.discard()
        return False
    operands = [op.operands[0], *(half for half in halves if half is not None)]
    new = UKernelGenericOp(op.symbol.data, operands, op.result.type, dict(op.attributes))
    replace_value(op, builder.add(new))
    return True


def norm_before_rotation(op: UKernelGenericOp, known: KnownValues) -> bool:
    """A norm of rotated rows without a weight, which is the rotation of their norm.

    before: rms_norm(rope(x, cos, sin))    after: rope(rms_norm(x), cos, sin)
    """
    if family_name(op) != "rms_norm" or len(op.operands) != 1:
        return False
    turn, rank = maker(op.operands[0], "rope"), len(shape_of(op.result))
    axis = op.attributes.get("axis")
    if turn is None or not isinstance(axis, IntegerAttr) or axis.value.data % rank != rank - 1:
        return False
    along = turn.attributes.get("axis")
    last = not isinstance(along, IntegerAttr) or along.value.data % rank == rank - 1
    if not last or "operand_maps" in turn.attributes or not has_one_user(turn):
        return False
    cos, sin = (known.array(table) for table in turn.operands[1:])
    if cos is None or sin is None or 2 * cos.shape[-1] != shape_of(op.result)[-1]:
        return False
    if not np.allclose(np.square(cos) + np.square(sin), 1.0, rtol=0, atol=1e-6):
        return False  # it changes lengths
    builder = BuilderBefore(op)
    x = turn.operands[0]
    normed = builder.call("rms_norm", [x], x.type, dict(op.attributes))
    operands = [normed, *turn.operands[1:]]
    replace_value(op, builder.call("rope", operands, op.result.type, dict(turn.attributes)))
    return True


def _half(
    builder: BuilderBefore, value: SSAValue, pairs: bool, known: KnownValues
) -> SSAValue | None:
    """What a table repeats along its last dimension, half by half or element by element."""
    shape = shape_of(value)
    half = shape[-1] // 2
    array = known.array(value)
    if array is not None:
        first, second = (
            (array[..., 0::2], array[..., 1::2])
            if pairs
            else (array[..., :half], array[..., half:])
        )
        if not np.array_equal(first, second):
            return None
        sizes, strides = [*shape[:-1], half], [1] * (len(shape) - 1) + [2 if pairs else 1]
        return builder.slice(value, [0] * len(shape), sizes, strides)
    op = value.owner
    if not isinstance(op, UKernelGenericOp) or not op.operands:
        return None
    repeated = _repeated(op, pairs)
    if repeated is not None:
        return builder.reshape(repeated, (*shape[:-1], half))
    name, source = family_name(op), op.operands[0]
    if not shape_of(source) or shape_of(source)[-1] != shape[-1]:
        return None
    one_by_one = name in _ALONG and len(op.operands) == 1 and reads_plainly(op)
    ordered = name == "transpose" and (integers_of(op, "permutation") or (0,))[-1] == len(shape) - 1
    looked_up = name in ("gather", "embedding") and _rows_only(op)
    if not (one_by_one or ordered or looked_up or name == "reshape"):
        return None
    inner = _half(builder, source, pairs, known)
    if inner is None:
        return None
    result = TensorType(tensor_type(value).element_type, [*shape[:-1], half])
    attributes = {k: v for k, v in op.attributes.items() if k != "operand_maps"}
    return builder.call(name, [inner, *op.operands[1:]], result, attributes)


def _rows_only(op: UKernelGenericOp) -> bool:
    """Whether a lookup takes whole rows, with the last dimension untouched."""
    axis = op.attributes.get("axis")
    rank = len(shape_of(op.operands[0]))
    return rank > 1 and isinstance(axis, IntegerAttr) and axis.value.data % rank != rank - 1


def _repeated(op: UKernelGenericOp, pairs: bool) -> SSAValue | None:
    """The one part of concat(a, a), of a tile of two, or of every element written twice."""
    if family_name(op) == "concat" and not pairs and _joins_twice(op, len(shape_of(op.result)) - 1):
        return op.operands[0]
    if family_name(op) != "reshape":
        return None
    inner, shape = op.operands[0].owner, shape_of(op.operands[0])
    half = shape_of(op.result)[-1] // 2
    if not isinstance(inner, UKernelGenericOp) or len(shape) < 2:
        return None
    if shape[-2:] != ((half, 2) if pairs else (2, half)):
        return None
    place = len(shape) - (1 if pairs else 2)
    if family_name(inner) == "concat":
        return inner.operands[0] if _joins_twice(inner, place) else None
    if family_name(inner) != "cast" or tensor_type(inner.operands[0]).element_type != (
        tensor_type(inner.result).element_type
    ):
        return None
    read = [
        d
        for d, n in zip(operand_reads(inner)[0], shape_of(inner.operands[0]), strict=True)
        if n != 1
    ]
    kept = [d for d, n in enumerate(shape) if n != 1 and d != place]
    return inner.operands[0] if read == kept else None


def _joins_twice(op: UKernelGenericOp, axis: int) -> bool:
    given = op.attributes["axis"].value.data % len(shape_of(op.result))  # type: ignore[attr-defined]
    return len(op.operands) == 2 and op.operands[0] is op.operands[1] and given == axis


def interleaved_whole(op: UKernelGenericOp) -> SSAValue | None:
    """x * C + R * S as rope, where R has (-b, a) for every pair (a, b) of neighbours in x"""
    if family_name(op) != "elementwise_add" or len(op.operands) != 2:
        return None
    if not (reads_plainly(op, 0) and reads_plainly(op, 1)):
        return None
    for first, second in ((0, 1), (1, 0)):
        left, right = (maker(op.operands[i], "elementwise_mul") for i in (first, second))
        if left is None or right is None or not (has_one_user(left) and has_one_user(right)):
            continue
        for i in (0, 1):
            for j in (0, 1):
                if len(left.operands) != 2 or len(right.operands) != 2:
                    continue
                if not (reads_plainly(left, i) and reads_plainly(right, j)):
                    continue
                x = left.operands[i]
                if not _is_turned(right.operands[j], x):
                    continue
                tables = [_aligned(t, 1 - n) for t, n in ((left, i), (right, j))]
                if None in tables or shape_of(left.operands[1 - i]) != shape_of(
                    right.operands[1 - j]
                ):
                    continue
                axis = IntegerAttr(len(shape_of(op.result)) - 1, i64)
                operands = [x, left.operands[1 - i], right.operands[1 - j]]
                attributes = {"style": text("interleaved"), "axis": axis}
                return BuilderBefore(op).call("rope", operands, op.result.type, attributes)
    return None


def _aligned(op: UKernelGenericOp, index: int) -> SSAValue | None:
    """A table whose dimensions are the last of the result, or of size 1, the last in full."""
    table, read = op.operands[index], operand_reads(op)[index]
    rank, shape = len(shape_of(op.result)), shape_of(table)
    first = rank - len(shape)
    fits = all(
        d == first + place or n == 1 for place, (d, n) in enumerate(zip(read, shape, strict=True))
    )
    return table if fits and shape[-1:] == shape_of(op.result)[-1:] else None


def _is_turned(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is x with every pair (a, b) of neighbours as (-b, a)."""
    flat = maker(value, "reshape")
    stack = maker(flat.operands[0], "concat") if flat is not None else None
    if flat is None or stack is None or len(stack.operands) != 2 or value.type != x.type:
        return False
    *rest, width = shape_of(x)
    rank = len(rest) + 2
    if shape_of(stack.result) != (*rest, width // 2, 2):
        return False
    if stack.attributes["axis"].value.data % rank != rank - 1:  # type: ignore[attr-defined]
        return False
    if not (has_one_user(flat) and has_one_user(stack)):
        return False
    negated, plain = (_without_unit(part) for part in stack.operands)
    sign = maker(negated, "elementwise_neg")
    if sign is None or not reads_plainly(sign):
        return False
    return _takes_every_other(_without_unit(sign.operands[0]), x, 1) and _takes_every_other(
        plain, x, 0
    )


def _without_unit(value: SSAValue) -> SSAValue:
    step = maker(value, "reshape")
    if step is None:
        return value
    before, after = shape_of(step.operands[0]), shape_of(value)
    return step.operands[0] if (*before, 1) == after or before == (*after, 1) else value


def _takes_every_other(value: SSAValue, x: SSAValue, start: int) -> bool:
    piece = maker(value, "slice")
    within = slice_within(piece, x) if piece is not None else None
    if within is None:
        return False
    offsets, sizes, strides = within
    shape = shape_of(x)
    if shape_of(value) not in ((*shape[:-1], shape[-1] // 2), (*shape[:-1], shape[-1] // 2, 1)):
        return False
    return (
        strides == (*([1] * (len(shape) - 1)), 2)
        and offsets == (*([0] * (len(shape) - 1)), start)
        and sizes == (*shape[:-1], shape[-1] // 2)
    )
