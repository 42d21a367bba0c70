"""Recipes of chains as exporters write them: activations, reductions, softmax, norms, rope."""

from __future__ import annotations

import math
from collections.abc import Sequence

from random_modules import Value, Writer, identity


def activation(writer: Writer, x: Value) -> Value:
    """sigmoid, silu, gelu in the order and the pieces exporters use."""
    t = x.element
    kind = writer.choices.pick(("sigmoid", "silu", "silu_gate", "gelu_tanh", "gelu_erf", "relu"))
    here = list(identity(x))
    writer.ingredients.append(kind)
    one = writer.constant(1.0, t)
    sigmoid = [
        f"arith.negf $0 : {t}",
        f"math.exp @0 : {t}",
        f"arith.addf @1, {one} : {t}",
        f"arith.divf {one}, @2 : {t}",
    ]
    if kind == "relu":
        zero = writer.constant(0.0, t)
        if writer.choices.integer(0, 1):
            operations = [f"arith.maximumf $0, {zero} : {t}"]
        else:
            operations = [
                f"arith.cmpf ugt, $0, {zero} : {t}",
                f"arith.select @0, $0, {zero} : {t}",
            ]
        return writer.elementwise([(x, here)], x.shape, t, operations, x.size)
    if kind == "sigmoid":
        return writer.elementwise([(x, here)], x.shape, t, sigmoid, 1.0)
    if kind in ("silu", "silu_gate"):
        if writer.choices.integer(0, 1):
            y = writer.elementwise(
                [(x, here)], x.shape, t, [*sigmoid, f"arith.mulf @3, $0 : {t}"], x.size
            )
        else:
            s = writer.elementwise([(x, here)], x.shape, t, sigmoid, 1.0)
            y = writer.elementwise(
                [(s, here), (x, here)], x.shape, t, [f"arith.mulf $0, $1 : {t}"], x.size
            )
        if kind == "silu":
            return y
        up = writer.argument(x.shape, t)
        return writer.elementwise(
            [(y, here), (up, here)], x.shape, t, [f"arith.mulf $0, $1 : {t}"], x.size * 4
        )
    half = writer.constant(0.5, t)
    if kind == "gelu_tanh":
        three = writer.constant(3, "i32")
        kappa, beta = writer.constant(0.044715, t), writer.constant(math.sqrt(2 / math.pi), t)
        inner = [
            f"math.fpowi $0, {three} : {t}, i32",
            f"arith.mulf @0, {kappa} : {t}",
            f"arith.addf $0, @1 : {t}",
            f"arith.mulf @2, {beta} : {t}",
            f"math.tanh @3 : {t}",
        ]
    else:
        inner = [
            f"arith.mulf $0, {writer.constant(math.sqrt(0.5), t)} : {t}",
            f"math.erf @0 : {t}",
        ]
    last = len(inner) - 1
    tail = [
        f"arith.addf @{last}, {one} : {t}",
        f"arith.mulf @{last + 1}, {half} : {t}",
        f"arith.mulf $0, @{last + 2} : {t}",
    ]
    return writer.elementwise([(x, here)], x.shape, t, [*inner, *tail], x.size)


def reduce_along(
    writer: Writer, x: Value, axes: Sequence[int], combiner: str, start: float, keep: bool = False
) -> Value:
    """A reduction of x; kept axes have size 1."""
    t = x.element
    kept = [d for d in identity(x) if d not in axes]
    if keep:
        shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
    else:
        shape = [x.shape[d] for d in kept]
    initial = writer.filled([x.shape[d] for d in kept], t, start)
    count = math.prod(x.shape[d] for d in axes)
    size = x.size * (count if combiner == "arith.addf" else 1)
    result = Value(writer.fresh(), tuple(x.shape[d] for d in kept), t, size)

    def body(names: list[str]) -> list[str]:
        pair = f"{names[0]}, {names[1]}"
        total = f"%s{writer.count}"
        return [f"{total} = {combiner} {pair} : {t}", f"linalg.yield {total} : {t}"]

    writer.generic([(x, list(identity(x)))], initial, result, kept, x.rank, body, axes)
    return result if not keep else expanded(writer, result, shape)


def expanded(writer: Writer, x: Value, shape: Sequence[int]) -> Value:
    """x with dimensions of size 1 put in to reach a shape."""
    result = Value(writer.fresh(), tuple(shape), x.element, x.size)
    if not x.rank:
        groups = "[]"
    else:
        found: list[list[int]] = [[] for _ in x.shape]
        at = -1
        pending: list[int] = []
        for d, n in enumerate(shape):
            if (
                at + 1 < x.rank
                and n == x.shape[at + 1]
                and (n != 1 or _rest(shape, d, x.shape, at))
            ):
                at += 1
                found[at] = [*pending, d]
                pending = []
            elif at >= 0:
                found[at].append(d)
            else:
                pending.append(d)
        if pending:
            found[-1] = [*found[-1], *pending]
        groups = "[" + ", ".join(str(g) for g in found) + "]"
    return writer.line(
        f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : {x.type} into {result.type}",
        result,
    )


def _rest(shape: Sequence[int], d: int, small: Sequence[int], at: int) -> bool:
    """Whether taking a size-1 dimension here leaves enough for the rest."""
    return len(shape) - d - 1 >= len(small) - at - 2


def reduction(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    axes = sorted(
        {writer.choices.integer(0, x.rank - 1) for _ in range(writer.choices.integer(1, 2))}
    )
    kind = writer.choices.pick(("sum", "max", "min", "mean", "named", "initial", "square"))
    writer.ingredients.append(f"reduction {kind}")
    t = x.element
    if kind in ("max", "min"):
        combiner = "arith.maximumf" if kind == "max" else "arith.minimumf"
        start = -math.inf if kind == "max" else math.inf
        return reduce_along(writer, x, axes, combiner, start)
    if kind == "named":
        kept = [n for d, n in enumerate(x.shape) if d not in axes]
        initial = writer.filled(kept, t, 0.0)
        count = math.prod(x.shape[d] for d in axes)
        result = Value(writer.fresh(), tuple(kept), t, x.size * count)
        return writer.line(
            f"linalg.reduce {{ arith.addf }} ins({x.name} : {x.type}) "
            f"outs({initial} : {result.type}) dimensions = {axes}",
            result,
        )
    if kind in ("initial", "square"):
        kept = [d for d in identity(x) if d not in axes]
        initial = writer.argument([x.shape[d] for d in kept], t)
        count = math.prod(x.shape[d] for d in axes)
        size = x.size * (x.size if kind == "square" else 1) * count + 4
        result = Value(writer.fresh(), tuple(x.shape[d] for d in kept), t, size)

        def body(names: list[str]) -> list[str]:
            total, squared = f"%s{writer.count}", f"%q{writer.count}"
            if kind == "initial":
                first, value = [], names[0]
            else:
                first, value = [f"{squared} = arith.mulf {names[0]}, {names[0]} : {t}"], squared
            return [
                *first,
                f"{total} = arith.addf {names[1]}, {value} : {t}",
                f"linalg.yield {total} : {t}",
            ]

        return writer.generic(
            [(x, list(identity(x)))], initial.name, result, kept, x.rank, body, axes
        )
    total = reduce_along(writer, x, axes, "arith.addf", 0.0)
    if kind == "sum":
        return total
    count = writer.constant(math.prod(x.shape[d] for d in axes), t)
    return writer.elementwise(
        [(total, list(identity(total)))],
        total.shape,
        t,
        [f"arith.divf $0, {count} : {t}"],
        x.size,
    )


def softmax(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    t = x.element
    axis = writer.choices.integer(0, x.rank - 1)
    here = list(identity(x))
    if writer.choices.integer(0, 1):
        output = writer.empty(x.shape, t)
        result = Value(writer.fresh(), x.shape, t, 1.0)
        return writer.line(
            f"linalg.softmax dimension({axis}) ins({x.name} : {x.type}) "
            f"outs({output} : {x.type}) -> {x.type}",
            result,
        )
    kept: list[int | str] = [d for d in here if d != axis]
    top = reduce_along(writer, x, [axis], "arith.maximumf", -math.inf)
    operations = [f"arith.subf $0, $1 : {t}", f"math.exp @0 : {t}"]
    if writer.choices.integer(0, 1):
        e = writer.elementwise([(x, here), (top, kept)], x.shape, t, operations, 1.0)
    else:
        d = writer.elementwise([(x, here), (top, kept)], x.shape, t, operations[:1], x.size)
        e = writer.elementwise([(d, here)], x.shape, t, [f"math.exp $0 : {t}"], 1.0)
    total = reduce_along(writer, e, [axis], "arith.addf", 0.0)
    return writer.elementwise(
        [(e, here), (total, kept)], x.shape, t, [f"arith.divf $0, $1 : {t}"], 1.0
    )


def norm(writer: Writer, x: Value) -> Value | None:
    """rms_norm or layer_norm along the last dimension, in f32 with casts around, as exporters write it."""
    if not x.rank:
        return None
    kind = writer.choices.pick(("rms_norm", "layer_norm"))
    writer.ingredients.append(kind)
    t, here = x.element, list(identity(x))
    rows: list[int | str] = list(here[:-1])
    h = x
    if t != "f32":
        h = writer.elementwise([(x, here)], x.shape, "f32", [f"arith.extf $0 : {t} to f32"], x.size)
    count = writer.constant(x.shape[-1], "f32")
    epsilon = writer.constant(1e-5, "f32")

    def mean(value: Value) -> Value:
        total = reduce_along(writer, value, [x.rank - 1], "arith.addf", 0.0)
        operations = [f"arith.divf $0, {count} : f32"]
        return writer.elementwise(
            [(total, list(identity(total)))], total.shape, "f32", operations, value.size
        )

    if kind == "layer_norm":
        centre = mean(h)
        h = writer.elementwise(
            [(h, here), (centre, rows)], x.shape, "f32", ["arith.subf $0, $1 : f32"], x.size
        )
    squares = writer.elementwise(
        [(h, here)], x.shape, "f32", ["arith.mulf $0, $0 : f32"], x.size**2
    )
    variance = mean(squares)
    scale = writer.elementwise(
        [(variance, list(identity(variance)))],
        variance.shape,
        "f32",
        [f"arith.addf $0, {epsilon} : f32", "math.rsqrt @0 : f32"],
        400.0,
    )
    size = math.sqrt(x.shape[-1]) + 1
    h = writer.elementwise(
        [(h, here), (scale, rows)], x.shape, "f32", ["arith.mulf $0, $1 : f32"], size
    )
    weighted = writer.choices.integer(0, 1)
    if kind == "rms_norm":
        if t != "f32":
            h = writer.elementwise([(h, here)], x.shape, t, [f"arith.truncf $0 : f32 to {t}"], size)
        if not weighted:
            return h
        weight = writer.argument(x.shape[-1:], t)
        pair = writer.choices.pick(("$0, $1", "$1, $0"))
        return writer.elementwise(
            [(h, here), (weight, [x.rank - 1])], x.shape, t, [f"arith.mulf {pair} : {t}"], size * 4
        )
    if weighted:
        weight, bias = (writer.argument(x.shape[-1:], "f32") for _ in range(2))
        last: list[int | str] = [x.rank - 1]
        h = writer.elementwise(
            [(h, here), (weight, last)], x.shape, "f32", ["arith.mulf $0, $1 : f32"], size * 4
        )
        h = writer.elementwise(
            [(h, here), (bias, last)], x.shape, "f32", ["arith.addf $0, $1 : f32"], size * 4 + 4
        )
    if t != "f32":
        h = writer.elementwise([(h, here)], x.shape, t, [f"arith.truncf $0 : f32 to {t}"], h.size)
    return h


def rope(writer: Writer, x: Value) -> Value | None:
    """Rotation of pairs along the last dimension."""
    if x.rank < 2 or x.shape[-1] % 2 or x.shape[-1] < 2:
        return None
    t, half = x.element, x.shape[-1] // 2
    interleaved = writer.choices.integer(0, 1)
    writer.ingredients.append("rope interleaved" if interleaved else "rope split")
    shape = (*x.shape[:-1], half)
    cos, sin = (writer.argument((x.shape[-2], half), t) for _ in range(2))
    here: list[int | str] = list(range(x.rank))
    table: list[int | str] = [x.rank - 2, x.rank - 1]
    parts = []
    for second in (0, 1):
        offset = [0] * (x.rank - 1) + [second if interleaved else second * half]
        stride = [1] * (x.rank - 1) + [2 if interleaved else 1]
        part = Value(writer.fresh(), shape, t, x.size)
        parts.append(
            writer.line(
                f"tensor.extract_slice {x.name}{offset} {list(shape)} {stride} : {x.type} to {part.type}",
                part,
            )
        )
    a, b = parts

    def turned(p: Value, q: Value, name: str) -> Value:
        if writer.choices.integer(0, 1):
            operations = [
                f"arith.mulf $0, $2 : {t}",
                f"arith.mulf $1, $3 : {t}",
                f"{name} @0, @1 : {t}",
            ]
            inputs = [(p, here), (q, here), (cos, table), (sin, table)]
            return writer.elementwise(inputs, shape, t, operations, x.size * 8)
        left = writer.elementwise(
            [(p, here), (cos, table)], shape, t, [f"arith.mulf $0, $1 : {t}"], x.size * 4
        )
        right = writer.elementwise(
            [(q, here), (sin, table)], shape, t, [f"arith.mulf $0, $1 : {t}"], x.size * 4
        )
        return writer.elementwise(
            [(left, here), (right, here)], shape, t, [f"{name} $0, $1 : {t}"], x.size * 8
        )

    first, second = turned(a, b, "arith.subf"), turned(b, a, "arith.addf")
    result = Value(writer.fresh(), x.shape, t, x.size * 8)
    if not interleaved:
        return writer.line(
            f"tensor.concat dim({x.rank - 1}) {first.name}, {second.name} : "
            f"({first.type}, {second.type}) -> {result.type}",
            result,
        )
    paired = [expanded_last(writer, v) for v in (first, second)]
    both = Value(writer.fresh(), (*shape, 2), t, x.size * 8)
    writer.line(
        f"tensor.concat dim({x.rank}) {paired[0].name}, {paired[1].name} : "
        f"({paired[0].type}, {paired[1].type}) -> {both.type}",
        both,
    )
    groups = [[d] for d in range(x.rank - 1)] + [[x.rank - 1, x.rank]]
    return writer.line(
        f"tensor.collapse_shape {both.name} {groups} : {both.type} into {result.type}", result
    )


def expanded_last(writer: Writer, x: Value) -> Value:
    shape = (*x.shape, 1)
    groups = [[d] for d in range(x.rank - 1)] + [[x.rank - 1, x.rank]]
    result = Value(writer.fresh(), shape, x.element, x.size)
    return writer.line(
        f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : {x.type} into {result.type}",
        result,
    )
