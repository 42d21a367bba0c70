"""Recipes that move elements: transposes, reshapes, slices, pads, joins, look-ups."""

from __future__ import annotations

import math

from random_modules import MAX_ELEMENTS, Value, Writer, factor, identity, shuffled


def transpose(writer: Writer, x: Value) -> Value | None:
    if x.rank < 2:
        return None
    order = shuffled(writer.choices, list(identity(x)))
    shape = tuple(x.shape[d] for d in order)
    if writer.choices.integer(0, 1):
        output = writer.empty(shape, x.element)
        result = Value(writer.fresh(), shape, x.element, x.size)
        return writer.line(
            f"linalg.transpose ins({x.name} : {x.type}) outs({output} : {result.type}) "
            f"permutation = {order}",
            result,
        )
    reads = [order.index(d) for d in identity(x)]
    output = writer.empty(shape, x.element)
    result = Value(writer.fresh(), shape, x.element, x.size)
    return writer.generic(
        [(x, list(reads))], output, result, range(x.rank), x.rank,
        lambda names: [f"linalg.yield {names[0]} : {x.element}"],
    )  # fmt: skip


def reshape(writer: Writer, x: Value) -> Value | None:
    choices = writer.choices
    if x.rank > 1 and choices.integer(0, 1):
        at = choices.integer(0, x.rank - 2)
        groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d] for d in range(at + 2, x.rank)]
        shape = (*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])
        result = Value(writer.fresh(), shape, x.element, x.size)
        return writer.line(
            f"tensor.collapse_shape {x.name} {groups} : {x.type} into {result.type}", result
        )
    if not x.rank or x.rank >= 4:
        return None
    at = choices.integer(0, x.rank - 1)
    divisors = [n for n in range(1, x.shape[at] + 1) if x.shape[at] % n == 0]
    outer = choices.pick(divisors)
    shape = (*x.shape[:at], outer, x.shape[at] // outer, *x.shape[at + 1 :])
    groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d + 1] for d in range(at + 1, x.rank)]
    result = Value(writer.fresh(), shape, x.element, x.size)
    return writer.line(
        f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : "
        f"{x.type} into {result.type}",
        result,
    )


def slice_(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    choices = writer.choices
    offsets, sizes, strides = [], [], []
    for n in x.shape:
        stride = choices.integer(1, 2)
        offset = choices.integer(0, n - 1)
        limit = (n - offset + stride - 1) // stride
        offsets.append(offset)
        sizes.append(choices.integer(1, limit))
        strides.append(stride)
    result = Value(writer.fresh(), tuple(sizes), x.element, x.size)
    return writer.line(
        f"tensor.extract_slice {x.name}{offsets} {sizes} {strides} : {x.type} to {result.type}",
        result,
    )


def insert(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    choices = writer.choices
    before = [choices.integer(0, 3) for _ in x.shape]
    shape = [n + b + choices.integer(0, 3) for n, b in zip(x.shape, before, strict=True)]
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    into = writer.argument(shape, x.element)
    result = Value(writer.fresh(), tuple(shape), x.element, max(x.size, 4.0))
    return writer.line(
        f"tensor.insert_slice {x.name} into {into.name}{before} {list(x.shape)} {[1] * x.rank} : "
        f"{x.type} into {result.type}",
        result,
    )


def pad(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    choices = writer.choices
    low = [choices.integer(0, 3) for _ in x.shape]
    high = [choices.integer(0, 3) for _ in x.shape]
    shape = tuple(n + a + b for n, a, b in zip(x.shape, low, high, strict=True))
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    border = writer.constant(choices.pick((0.0, -1.5)), x.element)
    result = Value(writer.fresh(), shape, x.element, max(x.size, 2.0))
    indices = ", ".join(f"%i{writer.count}_{d}: index" for d in identity(x))
    return writer.line(
        f"tensor.pad {x.name} low{low} high{high} {{\n^bb0({indices}):\n"
        f"  tensor.yield {border} : {x.element}\n}} : {x.type} to {result.type}",
        result,
    )


def concat(writer: Writer, x: Value) -> Value | None:
    if not x.rank:
        return None
    axis = writer.choices.integer(0, x.rank - 1)
    other = list(x.shape)
    other[axis] = writer.choices.integer(1, 20)
    shape = list(x.shape)
    shape[axis] += other[axis]
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    y = writer.argument(other, x.element)
    result = Value(writer.fresh(), tuple(shape), x.element, max(x.size, 4.0))
    return writer.line(
        f"tensor.concat dim({axis}) {x.name}, {y.name} : ({x.type}, {y.type}) -> {result.type}",
        result,
    )


def broadcast(writer: Writer, x: Value) -> Value | None:
    size = writer.choices.integer(1, 10)
    if x.rank >= 4 or factor(x) * size > MAX_ELEMENTS:
        return None
    at = writer.choices.integer(0, x.rank)
    shape = (*x.shape[:at], size, *x.shape[at:])
    output = writer.empty(shape, x.element)
    result = Value(writer.fresh(), shape, x.element, x.size)
    return writer.line(
        f"linalg.broadcast ins({x.name} : {x.type}) outs({output} : {result.type}) dimensions = [{at}]",
        result,
    )


def embedding(writer: Writer, x: Value) -> Value | None:
    """Rows of x at random places, as exporters write a look-up."""
    if x.rank != 2:
        return None
    count = writer.choices.integer(1, 50)
    rows = x.shape[0]
    places = writer.argument((count,), "i64", rows)
    limit, zero = writer.constant(rows, "i64"), writer.constant(0, "i64")
    shape = (count, x.shape[1])
    output = writer.empty(shape, x.element)
    result = Value(writer.fresh(), shape, x.element, x.size)

    def body(names: list[str]) -> list[str]:
        n = writer.count
        return [
            f"%h{n} = arith.cmpi slt, {names[0]}, {limit} : i64",
            f'cf.assert %h{n}, "index larger than the table"',
            f"%l{n} = arith.cmpi sge, {names[0]}, {zero} : i64",
            f'cf.assert %l{n}, "index smaller than 0"',
            f"%r{n} = arith.index_cast {names[0]} : i64 to index",
            f"%c{n} = linalg.index 1 : index",
            f"%x{n} = tensor.extract {x.name}[%r{n}, %c{n}] : {x.type}",
            f"linalg.yield %x{n} : {x.element}",
        ]

    return writer.generic([(places, [0])], output, result, [0, 1], 2, body)
