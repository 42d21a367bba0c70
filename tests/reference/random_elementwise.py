"""Recipes of single element-wise operations: broadcasts, scalars, masks, casts, integers, indices."""

from __future__ import annotations

import math

from random_modules import FLOATS, Value, Writer, identity, operand_like


def binary(writer: Writer, x: Value) -> Value | None:
    name = writer.choices.pick(
        ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.divf")
    )
    if name == "arith.divf":
        other, dims = operand_like(writer, x)
        size = 4.0
        # A divisor of at least 1.
        operations = [
            f"math.absf $1 : {x.element}",
            f"arith.addf @0, {writer.constant(1.0, x.element)} : {x.element}",
            f"arith.divf $0, @1 : {x.element}",
        ]
    else:
        other, dims = operand_like(writer, x)
        size = x.size * other.size if name == "arith.mulf" else x.size + other.size
        pair = writer.choices.pick(("$0, $1", "$1, $0"))
        operations = [f"{name} {pair} : {x.element}"]
    return writer.elementwise(
        [(x, list(identity(x))), (other, dims)], x.shape, x.element, operations, size
    )


def named_binary(writer: Writer, x: Value) -> Value:
    other = writer.argument(x.shape, x.element)
    name = writer.choices.pick(("add", "sub", "mul", "max", "min"))
    output = writer.empty(x.shape, x.element)
    size = x.size * 4 if name == "mul" else x.size + 4
    result = Value(writer.fresh(), x.shape, x.element, size)
    return writer.line(
        f"linalg.{name} ins({x.name}, {other.name} : {x.type}, {other.type}) "
        f"outs({output} : {x.type}) -> {x.type}",
        result,
    )


def scalar_operand(writer: Writer, x: Value) -> Value:
    name = writer.choices.pick(("arith.addf", "arith.subf", "arith.mulf", "arith.divf"))
    number = writer.choices.pick((0.5, 2.0, -1.25, 3.0, 0.1))
    constant = writer.constant(number, x.element)
    pair = f"$0, {constant}"
    if name == "arith.subf" and writer.choices.integer(0, 1):
        pair = f"{constant}, $0"
    size = x.size * 10 if name == "arith.divf" else x.size * 3 + 3
    return writer.elementwise(
        [(x, list(identity(x)))], x.shape, x.element, [f"{name} {pair} : {x.element}"], size
    )


def unary(writer: Writer, x: Value) -> Value | None:
    name = writer.choices.pick(
        (
            "arith.negf",
            "math.absf",
            "math.tanh",
            "math.sin",
            "math.cos",
            "math.erf",
            "math.floor",
            "math.ceil",
            "math.exp",
            "root",
            "math.roundeven",
        )
    )
    bounded = {"math.tanh": 1.0, "math.sin": 1.0, "math.cos": 1.0, "math.erf": 1.0}
    if name == "math.exp" and x.size > 8:
        return None
    if name in ("math.sin", "math.cos") and x.size > 1e4:
        return None
    operations = [f"{name} $0 : {x.element}"]
    size = bounded.get(name, x.size)
    if name == "math.exp":
        size = math.exp(x.size)
    if name == "root":
        other = writer.choices.pick(("math.sqrt", "math.rsqrt", "math.log", "math.log2"))
        operations = [
            f"math.absf $0 : {x.element}",
            f"arith.addf @0, {writer.constant(0.5, x.element)} : {x.element}",
            f"{other} @1 : {x.element}",
        ]
        size = max(4.0, math.sqrt(x.size))
    return writer.elementwise([(x, list(identity(x)))], x.shape, x.element, operations, size)


def select(writer: Writer, x: Value) -> Value:
    other, dims = operand_like(writer, x)
    predicate = writer.choices.pick(("ogt", "olt", "oge", "ole", "une", "oeq", "ugt", "ult"))
    if writer.choices.integer(0, 1):
        constant = writer.constant(0.0, x.element)
        operations = [
            f"arith.cmpf {predicate}, $0, $1 : {x.element}",
            f"arith.select @0, $0, {constant} : {x.element}",
        ]
        return writer.elementwise(
            [(x, list(identity(x))), (other, dims)], x.shape, x.element, operations, x.size
        )
    # A mask of its own.
    mask = writer.elementwise(
        [(x, list(identity(x))), (other, dims)],
        x.shape,
        "i1",
        [f"arith.cmpf {predicate}, $0, $1 : {x.element}"],
    )
    third = writer.argument(x.shape, x.element)
    inputs = [(v, list(identity(x))) for v in (mask, x, third)]
    operations = [f"arith.select $0, $1, $2 : {x.element}"]
    return writer.elementwise(inputs, x.shape, x.element, operations, max(x.size, 4.0))


def cast(writer: Writer, x: Value) -> Value | None:
    others = [e for e in FLOATS if e != x.element]
    target = writer.choices.pick(others)
    if x.size > 6e4 and target == "f16":
        return None
    widths = {"f32": 32, "bf16": 16, "f16": 16}
    if widths[x.element] == widths[target]:
        operations = [f"arith.extf $0 : {x.element} to f32", f"arith.truncf @0 : f32 to {target}"]
    else:
        name = "arith.extf" if widths[target] > widths[x.element] else "arith.truncf"
        operations = [f"{name} $0 : {x.element} to {target}"]
    return writer.elementwise([(x, list(identity(x)))], x.shape, target, operations, x.size)


def integers(writer: Writer, x: Value) -> Value:
    """Through integers and back: fptosi of a bounded value, some integer steps, sitofp."""
    element = x.element
    limit = writer.constant(50.0, element)
    low = writer.constant(-50.0, element)
    seven = writer.constant(7, "i32")
    operations = [
        f"arith.minimumf $0, {limit} : {element}",
        f"arith.maximumf @0, {low} : {element}",
        f"arith.fptosi @1 : {element} to i32",
        f"arith.muli @2, {seven} : i32",
        "arith.addi @3, @2 : i32",
        f"arith.sitofp @4 : i32 to {element}",
    ]
    return writer.elementwise([(x, list(identity(x)))], x.shape, element, operations, 400.0)


def positions(writer: Writer, x: Value) -> Value | None:
    """Add the index along one dimension."""
    if not x.rank:
        return None
    dimension = writer.choices.integer(0, x.rank - 1)
    operations = [
        f"linalg.index {dimension} : index",
        "arith.index_cast @0 : index to i32",
        f"arith.sitofp @1 : i32 to {x.element}",
        f"arith.addf $0, @2 : {x.element}",
    ]
    size = x.size + x.shape[dimension]
    return writer.elementwise([(x, list(identity(x)))], x.shape, x.element, operations, size)
