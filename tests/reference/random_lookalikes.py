"""Recipes that almost are a known chain: one constant, operand, sign or axis differs.

A recogniser that takes them for the chain changes the result.
"""

from __future__ import annotations

import math

from random_chains import reduce_along

from random_modules import Value, Writer, identity


def lookalike(writer: Writer, x: Value) -> Value | None:
    kinds = (gelu, swish, softmax_of_two, softmax_other_axis, norm, rotation, clamp, scaled)
    return writer.choices.pick(kinds)(writer, x)


def gelu(writer: Writer, x: Value) -> Value:
    """gelu with another constant, another power, or another outer factor."""
    t, here = x.element, list(identity(x))
    wrong = writer.choices.pick(("kappa", "beta", "half", "one", "power", "source"))
    kappa = writer.constant(0.0447 if wrong == "kappa" else 0.044715, t)
    beta = writer.constant(0.75 if wrong == "beta" else math.sqrt(2 / math.pi), t)
    half = writer.constant(0.25 if wrong == "half" else 0.5, t)
    one = writer.constant(1.5 if wrong == "one" else 1.0, t)
    power = writer.constant(2 if wrong == "power" else 3, "i32")
    other = writer.argument(x.shape, t) if wrong == "source" else x
    operations = [
        f"math.fpowi $0, {power} : {t}, i32",
        f"arith.mulf @0, {kappa} : {t}",
        f"arith.addf $0, @1 : {t}",
        f"arith.mulf @2, {beta} : {t}",
        f"math.tanh @3 : {t}",
        f"arith.addf @4, {one} : {t}",
        f"arith.mulf @5, {half} : {t}",
        f"arith.mulf $1, @6 : {t}",
    ]
    return writer.elementwise([(x, here), (other, here)], x.shape, t, operations, x.size + 4)


def swish(writer: Writer, x: Value) -> Value:
    """x * sigmoid(y), or a sigmoid with another constant or without its minus."""
    t, here = x.element, list(identity(x))
    wrong = writer.choices.pick(("source", "one", "sign", "numerator"))
    other = writer.argument(x.shape, t)
    one = writer.constant(1.0, t)
    added = writer.constant(2.0, t) if wrong == "one" else one
    above = writer.constant(2.0, t) if wrong == "numerator" else one
    start = f"math.absf $0 : {t}" if wrong == "sign" else f"arith.negf $0 : {t}"
    operations = [
        start,
        f"math.exp @0 : {t}",
        f"arith.addf @1, {added} : {t}",
        f"arith.divf {above}, @2 : {t}",
        f"arith.mulf @3, {'$1' if wrong == 'source' else '$0'} : {t}",
    ]
    return writer.elementwise([(x, here), (other, here)], x.shape, t, operations, x.size * 2 + 4)


def softmax_of_two(writer: Writer, x: Value) -> Value | None:
    """exp(x - max(x)) divided by the sum of something else."""
    if not x.rank:
        return None
    t, here = x.element, list(identity(x))
    axis = writer.choices.integer(0, x.rank - 1)
    kept: list[int | str] = [d for d in here if d != axis]
    top = reduce_along(writer, x, [axis], "arith.maximumf", -math.inf)
    body = [f"arith.subf $0, $1 : {t}", f"math.exp @0 : {t}"]
    e = writer.elementwise([(x, here), (top, kept)], x.shape, t, body, 1.0)
    other = writer.argument(x.shape, t)
    positive = writer.elementwise([(other, here)], x.shape, t, [f"math.exp $0 : {t}"], 60.0)
    total = reduce_along(writer, positive, [axis], "arith.addf", 0.0)
    divide = [f"arith.divf $0, $1 : {t}"]
    return writer.elementwise([(e, here), (total, kept)], x.shape, t, divide, 60.0)


def softmax_other_axis(writer: Writer, x: Value) -> Value | None:
    """The maximum along one axis, the sum along another; or a minimum instead of the maximum."""
    if x.rank < 2:
        return None
    t, here = x.element, list(identity(x))
    first = writer.choices.integer(0, x.rank - 1)
    second = writer.choices.integer(0, x.rank - 1)
    combiner, start = "arith.maximumf", -math.inf
    if first == second:
        combiner, start = "arith.minimumf", math.inf
        if x.size > 8:
            return None
    kept: list[int | str] = [d for d in here if d != first]
    rows: list[int | str] = [d for d in here if d != second]
    top = reduce_along(writer, x, [first], combiner, start)
    body = [f"arith.subf $0, $1 : {t}", f"math.exp @0 : {t}"]
    e = writer.elementwise([(x, here), (top, kept)], x.shape, t, body, math.exp(2 * min(x.size, 5)))
    total = reduce_along(writer, e, [second], "arith.addf", 0.0)
    divide = [f"arith.divf $0, $1 : {t}"]
    return writer.elementwise([(e, here), (total, rows)], x.shape, t, divide, 1.0)


def norm(writer: Writer, x: Value) -> Value | None:
    """A norm whose statistics come from another tensor, another count, or without the square."""
    if not x.rank or x.element != "f32":
        return None
    here = list(identity(x))
    rows: list[int | str] = list(here[:-1])
    wrong = writer.choices.pick(("source", "count", "square", "axis"))
    source = writer.argument(x.shape, "f32") if wrong == "source" else x
    step = "math.absf $0 : f32" if wrong == "square" else "arith.mulf $0, $0 : f32"
    squares = writer.elementwise([(source, here)], x.shape, "f32", [step], x.size**2 + 16)
    axis = 0 if wrong == "axis" else x.rank - 1
    if wrong == "axis":
        rows = list(here[1:])
    total = reduce_along(writer, squares, [axis], "arith.addf", 0.0)
    count = writer.constant(x.shape[axis] + (1 if wrong == "count" else 0), "f32")
    epsilon = writer.constant(1e-5, "f32")
    body = [
        f"arith.divf $0, {count} : f32",
        f"arith.addf @0, {epsilon} : f32",
        "math.rsqrt @1 : f32",
    ]
    scale = writer.elementwise([(total, list(identity(total)))], total.shape, "f32", body, 400.0)
    multiply = ["arith.mulf $0, $1 : f32"]
    return writer.elementwise([(x, here), (scale, rows)], x.shape, "f32", multiply, x.size * 20)


def rotation(writer: Writer, x: Value) -> Value | None:
    """rope with a sign, a table or a source exchanged."""
    if x.rank < 2 or x.shape[-1] % 2:
        return None
    t, half = x.element, x.shape[-1] // 2
    shape = (*x.shape[:-1], half)
    cos, sin = (writer.argument((x.shape[-2], half), t) for _ in range(2))
    here: list[int | str] = list(range(x.rank))
    table: list[int | str] = [x.rank - 2, x.rank - 1]
    wrong = writer.choices.pick(("sign", "table", "source", "order", "same"))
    parts = []
    for second in (0, 1):
        offset = [0] * (x.rank - 1) + [second * half]
        part = Value(writer.fresh(), shape, t, x.size)
        writer.line(
            f"tensor.extract_slice {x.name}{offset} {list(shape)} {[1] * x.rank} : {x.type} to {part.type}",
            part,
        )
        parts.append(part)
    a, b = parts
    if wrong == "source":
        b = writer.argument(shape, t)
    if wrong == "same":
        b = a

    def turned(p: Value, q: Value, name: str, c: Value, s: Value) -> Value:
        operations = [
            f"arith.mulf $0, $2 : {t}",
            f"arith.mulf $1, $3 : {t}",
            f"{name} @0, @1 : {t}",
        ]
        inputs = [(p, here), (q, here), (c, table), (s, table)]
        return writer.elementwise(inputs, shape, t, operations, x.size * 8 + 16)

    first = turned(a, b, "arith.addf" if wrong == "sign" else "arith.subf", cos, sin)
    second = turned(b, a, "arith.addf", *((sin, cos) if wrong == "table" else (cos, sin)))
    pair = (second, first) if wrong == "order" else (first, second)
    result = Value(writer.fresh(), x.shape, t, x.size * 8 + 16)
    return writer.line(
        f"tensor.concat dim({x.rank - 1}) {pair[0].name}, {pair[1].name} : "
        f"({first.type}, {second.type}) -> {result.type}",
        result,
    )


def clamp(writer: Writer, x: Value) -> Value:
    """Bounds in the wrong order, crossed, or through comparisons that treat NaN differently."""
    t, here = x.element, list(identity(x))
    low, high = writer.constant(0.5, t), writer.constant(-0.5, t)
    kind = writer.choices.pick(("crossed", "selected", "swapped"))
    operations = {
        "crossed": [f"arith.maximumf $0, {low} : {t}", f"arith.minimumf @0, {high} : {t}"],
        "swapped": [f"arith.minimumf $0, {low} : {t}", f"arith.maximumf @0, {high} : {t}"],
        "selected": [
            f"arith.cmpf {writer.choices.pick(('ult', 'olt'))}, $0, {high} : {t}",
            f"arith.select @0, {high}, $0 : {t}",
            f"arith.cmpf {writer.choices.pick(('ugt', 'ogt'))}, @1, {low} : {t}",
            f"arith.select @2, {low}, @1 : {t}",
        ],
    }[kind]
    return writer.elementwise([(x, here)], x.shape, t, operations, max(1.0, x.size))


def scaled(writer: Writer, x: Value) -> Value:
    """fp8 and back where the scales differ, or the clamp is not that of the type."""
    t, here = x.element, list(identity(x))
    limit = writer.choices.pick((448.0, 240.0, 100.0))
    low, high = writer.constant(-limit, t), writer.constant(limit, t)
    down, up = writer.constant(2.0, t), writer.constant(writer.choices.pick((2.0, 3.0)), t)
    operations = [
        f"arith.divf $0, {down} : {t}",
        f"arith.maximumf @0, {low} : {t}",
        f"arith.minimumf @1, {high} : {t}",
        f"arith.truncf @2 : {t} to f8E4M3FN",
    ]
    narrow = writer.elementwise([(x, here)], x.shape, "f8E4M3FN", operations, limit)
    wide = [f"arith.extf $0 : f8E4M3FN to {t}", f"arith.mulf @0, {up} : {t}"]
    return writer.elementwise([(narrow, here)], x.shape, t, wide, min(x.size, limit) * 3)
