"""What random programs are made of: one function per kind of piece."""

from __future__ import annotations

import numpy as np
from random_drawing import BINARY, MANY, UNARY, Drawing, Unfit, scaled

PIXELS = 600  # of an image in one channel


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


# --- products ---------------------------------------------------------------------------------


def linear(d: Drawing) -> None:
    y = linear_of(d, d.pick(least=1), d.width())
    if d.chance(0.4):
        d.add(d.one(("relu", "gelu", "silu", "tanh")), y)


def linear_of(d: Drawing, x: str, columns: int, bias: bool | None = None) -> str:
    inside = d.shape(x)[-1]
    operands = [x, d.weight((columns, inside), gain=scaled(inside))]
    if bias if bias is not None else d.chance(0.6):
        operands.append(d.weight((columns,), gain=0.2))
    return d.add("linear", *operands, rank=d.rank(x))


def matmul(d: Drawing) -> None:
    """Of activations, or with a matrix of weights on either side."""
    x = d.pick(least=2)
    rank, inside = d.rank(x), d.shape(x)[-1]
    order = (*range(rank - 2), rank - 1, rank - 2)
    how = d.number(0, 3)
    if how == 0:
        scale = d.add("multiply_number", x, number=round(scaled(inside), 4))
        d.add("matmul", scale, d.add("transpose", x, order=order))
    elif how == 1:
        fitting = [y for y in d.floats(rank=rank) if d.shape(y)[-2] == inside]
        if not fitting:
            raise Unfit("nothing to multiply with")
        d.add(
            "multiply_number", d.add("matmul", x, d.one(fitting)), number=round(scaled(inside), 4)
        )
    elif how == 2:
        batch = d.shape(x)[:-2] if d.chance(0.3) else ()
        d.add("matmul", x, d.weight((*batch, inside, d.width()), gain=scaled(inside)))
    else:
        rows = d.shape(x)[-2]
        d.add("matmul", d.weight((d.size(), rows), gain=scaled(rows)), x)


def lora(d: Drawing) -> None:
    x, columns = d.pick(least=2), d.width()
    main = linear_of(d, x, columns)
    low = linear_of(d, linear_of(d, x, d.one((2, 4, 8)), False), columns, False)
    d.add("add", main, d.add("multiply_number", low, number=0.5))


def mlp(d: Drawing) -> None:
    mlp_of(d, d.pick(least=2))


def mlp_of(d: Drawing, x: str, residual: bool | None = None, plan: int | None = None) -> str:
    width = d.shape(x)[-1]
    wider = d.one((width, 2 * width, d.width()))
    gated = d.chance(0.3) if plan is None else plan == 1
    if gated:
        gate = d.add("silu", linear_of(d, x, wider, False))
        inner = d.add("multiply", gate, linear_of(d, x, wider, False))
    else:
        inner = d.add(d.one(("relu", "gelu", "gelu_tanh")), linear_of(d, x, wider))
    y = linear_of(d, inner, width)
    keep = d.chance(0.6) if residual is None else residual
    return d.add("add", x, y) if keep else y


def attention(d: Drawing) -> None:
    attention_of(d, d.pick(rank=3))


def attention_of(d: Drawing, x: str, other: str | None = None, fused: bool | None = None) -> str:
    """Self or cross attention with projections, from [batch, tokens, width]."""
    batch, tokens, width = d.shape(x)
    heads = d.one([h for h in (1, 2, 3, 4) if width % h == 0])
    each = width // heads
    if each < 2 or tokens > 80:
        raise Unfit("heads of no width")
    source = other or x
    keys = d.shape(source)[1]

    def split(y: str, count: int) -> str:
        turned = d.add("reshape", y, shape=(batch, count, heads, each))
        return d.add("transpose", turned, order=(0, 2, 1, 3))

    if fused if fused is not None else source == x and d.chance(0.4):
        whole = linear_of(d, x, 3 * width)
        parts = [
            d.add("slice", whole, axis=2, start=k * width, end=(k + 1) * width, step=1)
            for k in range(3)
        ]
    else:
        parts = [linear_of(d, y, width) for y in (x, source, source)]
    q, k, v = (split(y, n) for y, n in zip(parts, (tokens, keys, keys), strict=True))
    if each % 2 == 0 and tokens == keys and tokens > 1 and d.chance(0.3):
        cos, sin = d.weight((tokens, each), "cos"), d.weight((tokens, each), "sin")
        q = d.add("rope", q, cos, sin, half=each // 2)
        k = d.add("rope", k, cos, sin, half=each // 2)
    y = attention_core(d, q, k, v)
    y = d.add("transpose", y, order=(0, 2, 1, 3))
    y = d.add("reshape", y, shape=(batch, tokens, width))
    return linear_of(d, y, width) if d.chance(0.7) else y


def attention_core(d: Drawing, q: str, k: str, v: str) -> str:
    tokens, width, keys = *d.shape(q)[-2:], d.shape(k)[-2]
    operands, causal = [q, k, v], False
    how = d.number(0, 3)
    if how == 1 and tokens <= keys:
        causal = True
    elif how == 2:
        operands.append(d.input((d.one((1, d.shape(q)[0])), 1, tokens, keys), "mask"))
    return d.add("attention", *operands, causal=causal, width=width, tokens=tokens, keys=keys)


def plain_attention(d: Drawing) -> None:
    """Attention on heads that are there already."""
    x = d.pick(rank=4)
    if d.shape(x)[2] > 80:
        raise Unfit("too many tokens")
    same = [y for y in d.floats(rank=4) if d.shape(y) == d.shape(x)]
    attention_core(d, x, d.one(same), d.one(same))


def rope(d: Drawing) -> None:
    x = d.pick(least=3)
    tokens, width = d.shape(x)[-2:]
    if width % 2 or tokens < 2:
        raise Unfit("rope needs pairs")
    cos, sin = d.weight((tokens, width), "cos"), d.weight((tokens, width), "sin")
    d.add("rope", x, cos, sin, half=width // 2)


# --- images -----------------------------------------------------------------------------------


def conv(d: Drawing) -> None:
    conv_of(d, d.pick(rank=4))


def conv_of(d: Drawing, x: str, out: int | None = None, plain: bool = False) -> str:
    _, channels, height, width = d.shape(x)
    size = 3 if plain else d.one((1, 3, 3, 3, 5))
    padding = size // 2 if plain or d.chance(0.7) else 0
    if min(height, width) + 2 * padding < size or channels > 64 or height * width > PIXELS:
        raise Unfit("too small for the filter")
    stride = 1 if plain else d.one((1, 1, 2))
    columns = out or int(d.one((1, 3, 4, 8, 16, 24, 32)))
    groups = 1
    if not plain and d.chance(0.2):
        groups, columns = channels, channels * int(d.one((1, 1, 2)))
    inside = channels // groups * size * size
    operands = [x, d.weight((columns, channels // groups, size, size), gain=scaled(inside))]
    if d.chance(0.6):
        operands.append(d.weight((columns,), gain=0.2))
    y = d.add("conv", *operands, stride=stride, padding=padding, groups=groups)
    if d.chance(0.3):
        y = batch_norm_of(d, y)
    return d.add(d.one(("relu", "silu", "hardswish")), y) if d.chance(0.5) else y


def batch_norm_of(d: Drawing, x: str) -> str:
    channels = d.shape(x)[1]
    gain, mean = d.weight((channels,), "near_one"), d.weight((channels,), gain=0.2)
    shift, variance = d.weight((channels,), gain=0.2), d.weight((channels,), "positive")
    return d.add("batch_norm", x, gain, shift, mean, variance, rank=d.rank(x))


def pool(d: Drawing) -> None:
    x = d.pick(rank=4)
    size = d.one((2, 2, 3))
    padding = 1 if size == 3 and d.chance(0.5) else 0
    height, width = d.shape(x)[2:]
    if min(height, width) + 2 * padding < size or height * width > PIXELS:
        raise Unfit("too small to pool")
    kind, stride = d.one(("max", "avg")), d.one((1, 2, size))
    d.add("pool", x, kind=kind, size=size, stride=stride, padding=padding)


def image_ends(d: Drawing) -> None:
    x = d.pick(rank=4)
    how = d.number(0, 3)
    if how == 0:
        d.add("mean", x, axes=(2, 3), keep=d.chance(0.3))
    elif how == 1:
        d.add("reshape", x, shape=(d.shape(x)[0], int(np.prod(d.shape(x)[1:]))))
    elif how == 2:
        d.add("upsample", x)
    else:  # squeeze and excite
        channels = d.shape(x)[1]
        flat = d.add("mean", x, axes=(2, 3), keep=False)
        gate = d.add("sigmoid", linear_of(d, flat, channels))
        gate = d.add("reshape", gate, shape=(d.shape(x)[0], channels, 1, 1))
        d.add("multiply", x, gate)


# --- towers -----------------------------------------------------------------------------------


def tower(d: Drawing) -> None:
    """Identical layers; what went in, and what is between them, may be read again later."""
    x = d.pick(least=2)
    kind = d.one((0, 1, 1, 2, 2, 3, 3, 4, 4, 5))
    state = d.random.bit_generator.state
    y, between = x, []
    for _ in range(d.number(2, 4)):
        # The same choices for every layer; weights are named in order, so they differ.
        d.random.bit_generator.state = state
        y = layer(d, y, kind)
        between.append(y)
        if d.shape(y) != d.shape(x):
            raise Unfit("layers that change the shape")
    d.random = np.random.default_rng([d.seed, len(d.nodes)])
    if d.chance(0.5):
        d.add("add", linear_of(d, y, d.shape(x)[-1]) if d.chance(0.5) else y, x)
    if d.chance(0.3):
        d.add("add", y, d.one(between))
    if d.chance(0.2):
        d.add("concat", y, x, axis=d.rank(x) - 1)


def layer(d: Drawing, x: str, kind: int) -> str:
    width = d.shape(x)[-1]
    if kind == 0:
        return d.add("relu", linear_of(d, x, width))
    if kind == 1:
        return d.add("add", x, linear_of(d, norm_of(d, x), width))
    if kind == 2:
        y = mlp_of(d, norm_of(d, x), False)
        return d.add("add", x, y)
    if kind == 3 and d.rank(x) == 3:
        return d.add("add", x, attention_of(d, norm_of(d, x)))
    if kind == 4 and d.rank(x) == 4:
        channels = d.shape(x)[1]
        y = d.add("relu", conv_of(d, x, channels, plain=True))
        return d.add(
            "add", x, d.add("multiply_number", conv_of(d, y, channels, plain=True), number=0.5)
        )
    if kind == 5:
        return d.add("multiply_number", d.add("softmax", x, axis=-1), number=3.0)
    return d.add("relu", linear_of(d, x, width))


RECIPES = (
    (8.0, unary),
    (3.0, scalar),
    (8.0, binary),
    (2.0, choose),
    (3.0, reduction),
    (2.0, softmax),
    (0.4, running_sum),
    (3.0, layer_norm),
    (9.0, movement),
    (3.0, concat),
    (1.0, rows_of),
    (0.5, waves),
    (8.0, linear),
    (4.0, matmul),
    (0.6, lora),
    (2.0, mlp),
    (2.0, attention),
    (1.0, plain_attention),
    (1.0, rope),
    (6.0, conv),
    (3.0, pool),
    (2.0, image_ends),
    (3.0, tower),
)
