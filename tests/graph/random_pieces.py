"""Where random programs start, and single operations: one function per kind."""

from __future__ import annotations

import numpy as np
from random_drawing import BINARY, MANY, UNARY, Drawing, Unfit

# --- where a program starts -----------------------------------------------------------------


def _rows(d: Drawing) -> int:
    return d.one(MANY) if d.chance(0.12) else d.size()


def start_matrix(d: Drawing) -> None:
    d.input((_rows(d), d.width()))


def start_sequence(d: Drawing) -> None:
    batch = d.one(MANY) if d.chance(0.1) else d.number(1, 4)
    d.input((batch, d.size(4 if batch > 4 else 65), d.width()))


def start_image(d: Drawing) -> None:
    side = d.one((4, 5, 6, 7, 8, 9, 12, 14, 16))
    d.input((d.number(1, 3), d.one((1, 2, 3, 4, 8, 12, 16, 32)), side, d.one((side, side, 6, 10))))


def start_vector(d: Drawing) -> None:
    d.input((d.width(),))


def start_tokens(d: Drawing) -> None:
    rows = d.one((5, 10, 33, 50, 100))
    ids = d.input((d.number(1, 3), d.size(33)), "ids", rows)
    d.add("rows", d.weight((rows, d.width())), ids, table=True)


def start_heads(d: Drawing) -> None:
    d.input((d.number(1, 3), d.number(1, 6), d.size(48), d.one((4, 8, 16, 20, 32, 64))))


def start_any(d: Drawing) -> None:
    d.input([d.size(33) for _ in range(d.number(1, 4))])


STARTS = (
    start_matrix,
    start_matrix,
    start_sequence,
    start_sequence,
    start_image,
    start_vector,
    start_tokens,
    start_heads,
    start_any,
)


# --- single operations ----------------------------------------------------------------------


def unary(d: Drawing) -> None:
    kind, x = d.one(UNARY), d.pick()
    if kind in ("exp", "square", "sine", "cosine") and np.abs(d.values[x]).max() > 6:
        raise Unfit("numbers grow")
    d.add(kind, x)


def scalar(d: Drawing) -> None:
    kind = d.one(("add_number", "multiply_number", "reverse_subtract"))
    d.add(kind, d.pick(), number=d.one((0.5, -1.5, 2.0, 0.1, 1.0, 3.0, 0.7071)))


def steps(d: Drawing) -> None:
    """Positions are added along one axis, or one axis after the other."""
    x = d.pick(least=1)
    shape = d.shape(x)
    for axis in d.random.permutation(len(shape))[: d.number(1, 2)]:
        along = tuple(n if k == axis else 1 for k, n in enumerate(shape))
        x = d.add("add_steps", x, size=shape[axis], along=along, whole=tuple(shape))


def binary(d: Drawing) -> None:
    """Of two values that fit, or of a value and something that is broadcast."""
    x = d.pick()
    shape = d.shape(x)
    others = []
    for y in d.floats():
        try:
            if y != x and np.broadcast_shapes(shape, d.shape(y)):
                others.append(y)
        except ValueError:
            pass
    how = d.number(0, 5)
    if how <= 2 and others:
        y = d.one(others)
    elif how == 3:
        y = d.input(_broadcast(d, shape))
    elif how == 4:
        y = x
    else:
        y = d.weight(_broadcast(d, shape), gain=0.5)
    d.add(d.one(BINARY), *((x, y) if d.chance(0.7) else (y, x)))


def _broadcast(d: Drawing, shape: tuple[int, ...]) -> tuple[int, ...]:
    kept = tuple(size if d.chance(0.6) else 1 for size in shape)
    return kept[d.number(0, max(0, len(kept) - 1)) :] if d.chance(0.4) else kept


def choose(d: Drawing) -> None:
    x = d.pick(least=1)
    shape = d.shape(x)
    how = d.number(0, 3)
    if how == 0:
        mask = d.input(_broadcast(d, shape), "mask")
    elif how == 1:
        positions = d.input((shape[-1],), "positions", 3)
        mask = d.add("below", positions, number=d.number(1, shape[-1] + 3))
    elif how == 2 and len(shape) >= 2:
        mask = d.weight(shape[-2:], "causal")
    else:
        mask = d.weight(_broadcast(d, shape), "mask")
    if d.chance(0.5):
        d.add("masked_fill", x, mask, number=d.one((0.0, -1.0, 2.5)))
    else:
        same = [y for y in d.floats() if d.shape(y) == shape]
        d.add("choose", mask, x, d.one(same))


def reduction(d: Drawing) -> None:
    x = d.pick(least=1)
    rank = d.rank(x)
    axes = {rank - 1 if d.chance(0.5) else d.number(0, rank - 1)}
    if d.chance(0.25):
        axes.add(d.number(0, rank - 1))
    kind = d.one(("sum", "mean", "mean", "max", "min"))
    y = d.add(kind, x, axes=tuple(sorted(axes)), keep=d.chance(0.5))
    if d.chance(0.3) and d.rank(y) == rank:
        d.add(d.one(("subtract", "add", "divide")), x, y)


def softmax(d: Drawing) -> None:
    x = d.pick(least=1)
    axis = -1 if d.chance(0.75) else d.number(0, d.rank(x) - 1)
    d.add("softmax" if d.chance(0.8) else "log_softmax", x, axis=axis)


def running_sum(d: Drawing) -> None:
    x = d.pick(least=1)
    d.add("running_sum", x, axis=d.number(0, d.rank(x) - 1))


def layer_norm(d: Drawing) -> None:
    norm_of(d, d.pick(least=1))


def norm_of(d: Drawing, x: str, kind: str | None = None) -> str:
    width = d.shape(x)[-1]
    if width < 4 or np.std(d.values[x], axis=-1).min() < 0.02:
        raise Unfit("norms of too little")
    kind = kind or d.one(("layer_norm", "layer_norm", "rms_norm"))
    gain = d.weight((width,), "near_one")
    if kind == "rms_norm":
        return d.add("rms_norm", x, gain)
    return d.add("layer_norm", x, gain, d.weight((width,), gain=0.1), width=width)


# --- movement -------------------------------------------------------------------------------


def movement(d: Drawing) -> None:
    x = d.pick(least=1)
    shape, rank = d.shape(x), d.rank(x)
    kind = d.number(0, 11)
    axis = d.number(0, rank - 1)
    if kind == 0:
        d.add("reshape", x, shape=_other_shape(d, shape))
    elif kind == 1:
        d.add("transpose", x, order=tuple(int(k) for k in d.random.permutation(rank)))
    elif kind == 2 and rank < 4:
        d.add("unsqueeze", x, axis=d.number(0, rank))
    elif kind == 3:
        ones = [k for k, size in enumerate(shape) if size == 1]
        d.add("squeeze", x, axis=d.one(ones)) if ones and rank > 1 else unary(d)
    elif kind == 4:
        expand(d, x)
    elif kind == 5 and np.prod(shape) < 4000:
        d.add("repeat", x, times=tuple(d.number(1, 3) if d.chance(0.4) else 1 for _ in shape))
    elif kind in (6, 7):
        start = d.number(0, shape[axis] - 1)
        end, step = d.number(start + 1, shape[axis]), d.one((1, 1, 1, 2))
        d.add("slice", x, axis=axis, start=start, end=end, step=step)
    elif kind == 8 and rank > 1:
        d.add("select", x, axis=axis, index=d.number(0, shape[axis] - 1))
    elif kind == 9:
        d.add("flip", x, axis=axis)
    elif kind == 10:
        d.add("pad", x, before=d.number(0, 3), after=d.number(1, 5), rank=rank)
    else:
        halves(d, x)


def _other_shape(d: Drawing, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Neighbours merged, or a dimension split."""
    shape, axis = tuple(shape), d.number(0, len(shape) - 1)
    if d.chance(0.5) and axis + 1 < len(shape):
        return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    divisors = [k for k in range(1, shape[axis] + 1) if shape[axis] % k == 0]
    part = d.one(divisors)
    if len(shape) >= 4:
        return (int(np.prod(shape[:-1])), shape[-1])
    return (*shape[:axis], part, shape[axis] // part, *shape[axis + 1 :])


def expand(d: Drawing, x: str) -> None:
    shape = d.shape(x)
    wider = tuple(d.size(16) if size == 1 and d.chance(0.8) else size for size in shape)
    if len(shape) < 4 and (wider == shape or d.chance(0.3)):
        wider = (d.size(9), *wider)
    d.add("expand", x, shape=wider)


def halves(d: Drawing, x: str) -> None:
    """Both halves of the last dimension, put together in another way."""
    half = d.shape(x)[-1] // 2
    if not half:
        raise Unfit("nothing to halve")
    axis = d.rank(x) - 1
    low = d.add("slice", x, axis=axis, start=0, end=half, step=1)
    high = d.add("slice", x, axis=axis, start=half, end=2 * half, step=1)
    if d.chance(0.5):
        d.add("multiply", d.add("silu", low), high)
    else:
        d.add("concat", high, low, axis=axis)


def concat(d: Drawing) -> None:
    x = d.pick(least=1)
    axis, shape = d.number(0, d.rank(x) - 1), d.shape(x)
    fitting = [
        y
        for y in d.floats(rank=d.rank(x))
        if all(a == b for k, (a, b) in enumerate(zip(shape, d.shape(y), strict=True)) if k != axis)
    ]
    parts = [x, *(d.one(fitting) for _ in range(d.number(1, 2)))]
    if d.chance(0.3):
        parts.append(d.weight((*shape[:axis], d.number(1, 5), *shape[axis + 1 :])))
    if d.chance(0.2) and d.rank(x) < 4 and all(d.shape(p) == shape for p in parts):
        d.add("stack", *parts, axis=d.number(0, d.rank(x)))
    else:
        d.add("concat", *(parts if d.chance(0.5) else parts[::-1]), axis=axis)


def rows_of(d: Drawing) -> None:
    """Rows of an activation by integers, which are an input."""
    x = d.pick(least=1)
    axis = 0 if d.chance(0.6) else d.number(0, d.rank(x) - 1)
    ids = d.input((d.size(17),), "ids", d.shape(x)[axis])
    if axis == 0 and d.chance(0.5):
        d.add("rows", x, ids, table=False)
    else:
        d.add("choose_rows", x, ids, axis=axis)


def waves(d: Drawing) -> None:
    positions = d.input((d.size(33),), "positions", 1000)
    table = d.weight((d.one((4, 8, 16)),), "frequencies")
    first = d.add("waves", positions, table, wave="sin")
    if d.chance(0.6):
        d.add("concat", first, d.add("waves", positions, table, wave="cos"), axis=1)
