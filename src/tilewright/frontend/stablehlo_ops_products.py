"""StableHLO operations that contract: general dot products and convolutions.

A `dot_general` first stays what it is, so that attention can be found between two of them; then
`expand_dot` makes it a matrix product:

before: dot_general %x, %w, contracting_dims = [2] x [1]  ([2, 8, 16], [32, 16])
after:  npu_kernel.matmul %x, %w {transpose_rhs}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dialects.intents import integers, shape_of, tensor_type
from tilewright.dialects.stablehlo import BY_NAME as BY_OPERATION
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import Attribute, Operation, SSAValue, StringAttr, TensorType
from tilewright.frontend.aten_builder import integer
from tilewright.frontend.stablehlo_builder import HLOImporter, Value, lowers
from tilewright.frontend.stablehlo_ops_movement import padded, reversed_along
from tilewright.frontend.stablehlo_reading import listed, number, numbers, written


@dataclass(frozen=True)
class Dot:
    """A dot product with a label on every dimension: b0… shared, k0… summed, m0… and n0… free."""

    op: Operation
    lhs: tuple[str, ...]
    rhs: tuple[str, ...]

    @property
    def result(self) -> tuple[str, ...]:
        """The labels of the result: shared, free on the left, free on the right."""
        return (
            *(f"b{i}" for i in range(self.count("b"))),
            *(label for label in self.lhs if label[0] == "m"),
            *(label for label in self.rhs if label[0] == "n"),
        )

    def count(self, letter: str) -> int:
        return sum(label[0] == letter for label in self.lhs)


def dot_of(op: Operation) -> Dot | None:
    """The labels of a dot product, when an operation is one and its dimensions fit."""
    if not isinstance(op, HLOOp) or op.name != "stablehlo.dot_general" or len(op.operands) != 2:
        return None
    text = written(op, "dot_dimension_numbers")
    sides = []
    for side, free, value in (("lhs", "m", op.operands[0]), ("rhs", "n", op.operands[1])):
        labels: dict[int, str] = {}
        for letter, word in (("b", "batching"), ("k", "contracting")):
            for i, d in enumerate(listed(text, f"{side}_{word}_dimensions")):
                labels[d] = f"{letter}{i}"
        rank, count = len(shape_of(value)), 0
        if any(not 0 <= d < rank for d in labels):
            return None
        for d in range(rank):
            if d not in labels:
                labels[d] = f"{free}{count}"
                count += 1
        sides.append(tuple(labels[d] for d in range(rank)))
    dot = Dot(op, sides[0], sides[1])
    sizes = [
        dict(zip(s, shape_of(v), strict=True)) for s, v in zip(sides, op.operands, strict=True)
    ]
    shared = {label for label in (*sides[0], *sides[1]) if label[0] in "bk"}
    if any(sizes[0].get(label) != sizes[1].get(label) for label in shared):
        return None
    result = tuple((sizes[0] | sizes[1])[label] for label in dot.result)
    return dot if result == shape_of(op.results[0]) else None


@lowers("dot_general")
def dot_general(importer: HLOImporter, op: HLOOp) -> Value:
    lhs, rhs = importer.input(0), importer.input(1)
    type_ = importer.result_type()
    made = BY_OPERATION["stablehlo.dot_general"].create(
        operands=[lhs, rhs],
        result_types=[type_],
        properties={"dot_dimension_numbers": StringAttr(written(op, "dot_dimension_numbers"))},
    )
    dot = dot_of(made)
    if dot is None:
        raise importer.refused("has dimensions that do not fit its operands", "TW6204")
    if lhs in importer.known and rhs in importer.known:
        return expand_dot(importer, dot)
    return importer.add(made)


def untransposed(value: SSAValue, labels: Sequence[str]) -> tuple[SSAValue, tuple[str, ...]]:
    """The tensor before transposes, and the labels of its dimensions."""
    while True:
        owner = value.owner
        if (
            not isinstance(owner, Operation)
            or getattr(owner, "symbol", None) is None
            or owner.symbol.data != "npu_uk_transpose"  # type: ignore[attr-defined]
        ):
            return value, tuple(labels)
        order = [int(p) for p in owner.attributes["permutation"].get_values()]  # type: ignore[attr-defined]
        before = [""] * len(order)
        for i, p in enumerate(order):
            before[p] = labels[i]
        value, labels = owner.operands[0], before


def arranged(
    importer: HLOImporter,
    value: SSAValue,
    labels: Sequence[str],
    groups: Sequence[Sequence[str]],
    swapped: Sequence[Sequence[str]] | None = None,
) -> tuple[SSAValue, bool]:
    """A tensor with its dimensions in groups, each group one dimension; or in the swapped order.

    Groups written `b` (the first) stay separate dimensions. Returns whether the order is swapped.
    """
    value, labels = untransposed(value, labels)
    sizes = dict(zip(labels, shape_of(value), strict=True))

    def wide(order: Sequence[Sequence[str]]) -> list[str]:
        return [label for group in order for label in group if sizes[label] != 1]

    now = [label for label in labels if sizes[label] != 1]
    use_swapped = swapped is not None and now != wide(groups) and now == wide(swapped)
    order = swapped if use_swapped and swapped is not None else groups
    flat = [label for group in order for label in group]
    if now != wide(order):
        value = importer.transpose(value, [labels.index(label) for label in flat])
    kept = [sizes[label] for label in order[0]]
    merged = [math.prod(sizes[label] for label in group) for group in order[1:]]
    return importer.reshape(value, [*kept, *merged]), use_swapped


def expand_dot(importer: HLOImporter, dot: Dot) -> SSAValue:
    """The dot product as a matrix product between reshapes, transposed operands as marks."""
    lhs, rhs = dot.op.operands
    batch = [f"b{i}" for i in range(dot.count("b"))]
    inner = [f"k{i}" for i in range(dot.count("k"))]
    rows = [label for label in dot.lhs if label[0] == "m"]
    columns = [label for label in dot.rhs if label[0] == "n"]
    kinds = [importer.kind(v) for v in (lhs, rhs)]
    if kinds[0] != kinds[1]:
        wider = max(kinds, key=lambda kind: kind.storage.itemsize)
        lhs, rhs = (importer.cast(v, wider) for v in (lhs, rhs))
    if batch or len(rows) < 2:
        left, turn_left = arranged(
            importer, lhs, dot.lhs, [batch, rows, inner], [batch, inner, rows]
        )
    else:  # rows stay as they are: [.., m, k] by a matrix without batch
        left, turn_left = arranged(importer, lhs, dot.lhs, [rows[:-1], rows[-1:], inner])
    right, turn_right = arranged(
        importer, rhs, dot.rhs, [batch, inner, columns], [batch, columns, inner]
    )
    lead = shape_of(left)[:-2]
    height = shape_of(left)[-1 if turn_left else -2]
    width = shape_of(right)[-2 if turn_right else -1]
    result = tensor_type(dot.op.results[0])
    type_ = TensorType(result.element_type, [*lead, height, width])
    product = importer.matmul(left, right, type_, None, turn_left, turn_right)
    return importer.reshape(product, result.get_shape())


# ------------------------------------------------------------------------------------ convolutions


@lowers("convolution")
def convolution(importer: HLOImporter, op: HLOOp) -> Value:
    """A 2-D convolution; one dimension is an image of height 1."""
    x, w = importer.input(0), importer.input(1)
    image, filter_, result = _orders(importer, op)
    spatial = [str(d) for d in range(len(image) - 2)]
    if len(spatial) not in (1, 2):
        raise importer.refused(
            f"slides over {len(spatial)} dimensions", hint="1-D and 2-D convolutions are known"
        )
    if number(op, "batch_group_count", 1) != 1:
        raise importer.refused("groups its batch", hint="use feature_group_count")
    rank = len(spatial)
    strides = numbers(op, "window_strides", [1] * rank)
    spread = numbers(op, "lhs_dilation", [1] * rank)
    dilations = numbers(op, "rhs_dilation", [1] * rank)
    borders = numbers(op, "padding", [0] * (2 * rank))
    borders = borders * (2 * rank) if len(borders) == 1 else borders
    turned = [d for d, n in enumerate(numbers(op, "window_reversal", [0] * rank)) if n]
    if turned:
        w = reversed_along(importer, w, [filter_.index(spatial[d]) for d in turned])
    if any(n != 1 for n in spread) or any(n < 0 for n in borders):
        x, borders = _prepared(importer, x, image, spatial, spread, borders)
    nhwc = image == ["b", *spatial, "f"] and filter_ == [*spatial, "i", "o"]
    orders = (
        (["b", *spatial, "f"], [*spatial, "i", "o"])
        if nhwc
        else (["b", "f", *spatial], ["o", "i", *spatial])
    )
    x = importer.transpose(x, [image.index(label) for label in orders[0]])
    w = importer.transpose(w, [filter_.index(label) for label in orders[1]])
    low, high = borders[::2], borders[1::2]
    if rank == 1:
        place = (1, 0) if nhwc else (2, 2)
        x, w = (
            importer.reshape(v, [*shape_of(v)[:at], 1, *shape_of(v)[at:]])
            for v, at in zip((x, w), place, strict=True)
        )
        strides, dilations = [1, *strides], [1, *dilations]
        low, high = [0, *low], [0, *high]
    groups = number(op, "feature_group_count", 1)
    attributes: dict[str, Attribute] = {
        "strides": integers(strides),
        "padding": integers([*low, *high]),
        "dilations": integers(dilations),
        "groups": integer(groups),
        "layout": StringAttr("nhwc_hwcf" if nhwc else "nchw_fchw"),
    }
    type_ = importer.result_type()
    sizes = dict(zip(result, type_.get_shape(), strict=True))
    plane = [1] * (2 - rank) + [sizes[d] for d in spatial]
    shape = [sizes["b"], *plane, sizes["f"]] if nhwc else [sizes["b"], sizes["f"], *plane]
    made: SSAValue = importer.call(
        "conv2d", [x, w], TensorType(type_.element_type, shape), attributes
    )
    order = orders[0]
    made = importer.reshape(made, [sizes[label] for label in order])
    return importer.transpose(made, [order.index(label) for label in result])


def _orders(importer: HLOImporter, op: HLOOp) -> tuple[list[str], list[str], list[str]]:
    """[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1] as three lists."""
    text = written(op, "dimension_numbers").replace(" ", "")
    parts = text.replace("->", "x").split("x")
    orders = [part.strip("[]").split(",") for part in parts]
    if len(orders) != 3 or len({len(order) for order in orders}) != 1:
        raise importer.refused(f"has the dimension numbers {text}", "TW6204")
    return orders[0], orders[1], orders[2]


def _prepared(
    importer: HLOImporter,
    x: SSAValue,
    image: list[str],
    spatial: list[str],
    spread: list[int],
    borders: list[int],
) -> tuple[SSAValue, list[int]]:
    """The image with zeros between its pixels and negative borders cut: a plain convolution follows."""
    rank = len(image)
    low, high, interior = [0] * rank, [0] * rank, [0] * rank
    for i, label in enumerate(spatial):
        place = image.index(label)
        low[place], high[place] = min(0, borders[2 * i]), min(0, borders[2 * i + 1])
        interior[place] = spread[i] - 1
    x = padded(importer, x, 0, low, high, interior)
    return x, [max(0, n) for n in borders]


@lowers("batch_norm_inference")
def batch_norm(importer: HLOImporter, op: HLOOp) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, per feature"""
    x, scale, offset, mean, variance = (importer.input(i) for i in range(5))
    axis = number(op, "feature_index")
    epsilon = op.get("epsilon")
    amount = float(epsilon.value.data)  # type: ignore[union-attr]
    factor = importer.unary(
        "elementwise_rsqrt", importer.apply("elementwise_add", variance, amount)
    )
    factor = importer.apply("elementwise_mul", factor, scale)
    shift = importer.apply(
        "elementwise_sub", offset, importer.apply("elementwise_mul", mean, factor)
    )
    wide = [importer.repeated(v, [axis], shape_of(x)) for v in (factor, shift)]
    return importer.apply("elementwise_add", importer.apply("elementwise_mul", x, wide[0]), wide[1])
