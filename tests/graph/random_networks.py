"""Pieces of networks that random programs are made of: products, attention, images, towers."""

from __future__ import annotations

import numpy as np
from random_drawing import Drawing, Unfit, scaled
from random_pieces import (
    binary,
    choose,
    concat,
    layer_norm,
    movement,
    norm_of,
    reduction,
    rows_of,
    running_sum,
    scalar,
    softmax,
    steps,
    unary,
    waves,
)

PIXELS = 600  # of an image in one channel


# --- products ---------------------------------------------------------------------------------


def as_numbers(d: Drawing) -> None:
    """Small integers as features, often of a product."""
    x = d.add("as_numbers", d.input((d.size(17), d.one((1, 3, 8))), "ids", 5))
    if d.chance(0.6):
        linear_of(d, x, d.width())


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
    (1.0, steps),
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
    (0.5, as_numbers),
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
