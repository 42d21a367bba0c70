"""StableHLO operations on the bits of integers: shifts by known places or by values, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.aten_builder import integer
from tilewright.frontend.aten_graph import BY_NAME, TensorInfo
from tilewright.frontend.stablehlo_builder import HLOImporter, Value, extent, lowers
from tilewright.frontend.stablehlo_ops_elementwise import combined, known


@lowers("shift_left", "shift_right_arithmetic", "shift_right_logical")
def shift(importer: HLOImporter, op: HLOOp) -> Value:
    """By known places: a product, or a quotient rounded down; by values: the same with a table.

    Places outside of the type leave 0, and the sign where it is kept.
    """
    x, right = importer.operand(0), importer.operand(1)
    kind = importer.result_kind()
    width = 8 * kind.storage.itemsize
    if importer.is_known(x) and importer.is_known(right):
        return known(importer, _shifted(op.name, importer.array(x), importer.array(right)))
    if kind.name == "i1" or (kind.name.startswith("u") and op.name.endswith("arithmetic")):
        raise importer.refused(f"has no kernel on {kind.name}")
    places = Places(importer, importer.whole(right), width)
    x = importer.whole(x)
    if op.name.endswith("shift_left"):
        return combined(importer, "elementwise_mul", x, places.table(_powers(width), outside=0))
    if kind.name.startswith("u"):
        ratio = combined(importer, "elementwise_div", x, places.table(_powers(width), outside=1))
        return importer.chosen(places.inside, ratio, 0)
    # The power of the sign's place is no number of the type: twice.
    first = np.minimum(np.arange(width), width - 2)
    y = _rounded_down(importer, x, places.table(1 << first, outside=1 << (width - 2)))
    last = 1 << (np.arange(width) - first)
    y = _rounded_down(importer, y, places.table(last, outside=2))
    if op.name.endswith("arithmetic"):
        return y
    masks = (1 << (width - np.arange(width, dtype=object))) - 1
    return combined(importer, "logical_and", y, places.table(masks, outside=0))


def _powers(width: int) -> Any:
    return 1 << np.arange(width, dtype=object)


class Places:
    """Places to shift by, and numbers that depend on them."""

    def __init__(self, importer: HLOImporter, places: SSAValue, width: int) -> None:
        self.importer, self.width = importer, width
        self.kind = importer.result_kind()
        if self.kind.storage.itemsize < 4 or self.kind.name.startswith("u"):
            wider = BY_NAME["i32" if self.kind.storage.itemsize < 4 else "i64"]
            places = importer.whole(importer.convert(places, wider))
        self.places = places
        above = importer.matched(places, "lt", width)
        below = importer.matched(places, "ge", 0)
        self.inside = importer.apply("logical_and", above, below)

    def table(self, numbers: Any, outside: int) -> Value:
        """One of some numbers for every place, another outside of the type."""
        importer, storage = self.importer, self.kind.storage
        wrapped = [int(n) & ((1 << self.width) - 1) for n in (*numbers, outside)]
        array = np.array(wrapped, np.uint64).astype(f"u{storage.itemsize}").view(storage)
        if importer.is_known(self.places):
            at = np.asarray(importer.array(self.places)).astype(np.int64)
            at = np.where((at < 0) | (at >= self.width), self.width, at)
            return importer.constant(array[at])
        at = importer.whole(importer.chosen(self.inside, self.places, self.width))
        made = importer.type_of(TensorInfo(tuple(extent(at)), self.kind))
        attributes = {"axis": integer(0)}
        return importer.call("gather", [importer.constant(array), at], made, attributes)


def _shifted(name: str, x: Any, places: Any) -> Any:
    """Arrays, by the rule for places outside of the type."""
    width = 8 * x.dtype.itemsize
    at = np.asarray(places).astype(np.int64)
    outside = (at < 0) | (at >= width)
    inside = np.where(outside, 0, at).astype(x.dtype)
    if name.endswith("shift_left"):
        return np.where(outside, 0, np.left_shift(x, inside))
    if name.endswith("logical"):
        raw = x.view(f"u{x.dtype.itemsize}")
        found = np.right_shift(raw, inside.astype(raw.dtype))
        return np.where(outside, 0, found).astype(raw.dtype).view(x.dtype)
    return np.right_shift(x, np.where(outside, width - 1, at).astype(x.dtype))


def _rounded_down(importer: HLOImporter, x: Value, divisor: Value) -> Value:
    """x / divisor, to the next number below."""
    if importer.constant_of(divisor) == 1:
        return x
    ratio = combined(importer, "elementwise_div", x, divisor)
    back = combined(importer, "elementwise_mul", ratio, divisor)
    below = importer.apply("elementwise_sub", ratio, 1, shape=extent(ratio))
    rest = importer.whole(combined(importer, "elementwise_sub", x, back))
    return importer.chosen(importer.matched(rest, "lt", 0), below, ratio)


@lowers("popcnt", "count_leading_zeros", "bitcast_convert")
def bits(importer: HLOImporter, op: HLOOp) -> Value:
    """Of values that are known."""
    values = [importer.operand(i) for i in range(len(op.operands))]
    if not all(map(importer.is_known, values)):
        raise importer.refused("has no kernel for values that depend on the inputs")
    array = np.array(importer.array(values[0]))
    storage = importer.result_kind().storage
    raw = array.view(f"u{array.dtype.itemsize}")
    if op.name.endswith("bitcast_convert"):
        if storage.itemsize != array.dtype.itemsize:
            raise importer.refused("changes the number of elements")
        return importer.constant(array.view(storage))
    width = 8 * raw.dtype.itemsize
    table = np.array([int(n).bit_count() for n in raw.reshape(-1)])
    if op.name.endswith("leading_zeros"):
        table = np.array([width - int(n).bit_length() for n in raw.reshape(-1)])
    return importer.constant(table.reshape(raw.shape).astype(storage))
