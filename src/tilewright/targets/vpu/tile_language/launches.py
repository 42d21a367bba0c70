"""What a launch of a tile kernel is on the VPU: operations of the task table.

The same translation serves an eager run, which computes each operation at once, and a compiled
one, which makes a task of it. A tile is (side, side), a column (side, 1), a row (side,); bytes in
CMX are the same for a column and a row, so one may be looked at as the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.shave import UNARY
from tilewright.tile.formats import family as family_of
from tilewright.tile.formats import step

Shape = tuple[int, ...]
T = TypeVar("T")
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum",
    "min": "minimum",
}  # fmt: skip
_ON_DPU = ("add", "subtract", "multiply", "maximum", "minimum")


class Maker(Protocol[T]):
    """Computes operations, or makes tasks of them."""

    def kind(self, tile: T) -> tuple[str, Shape]:
        """Number format and shape."""
        ...

    def seen_as(self, tile: T, shape: Shape) -> T:
        """The same numbers in another shape."""
        ...

    def transposed(self, tile: T) -> T: ...
    def constant(self, array: np.ndarray, dtype: str) -> T: ...
    def operate(
        self, name: str, inputs: Sequence[T], dtype: str, shape: Shape, **options: Any
    ) -> T:
        """One operation of the table; the result has this format and shape."""
        ...


def launch(
    maker: Maker[T],
    family: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[T],
    dtype: str,
    shape: Shape,
) -> T:
    """The result of a launch; `dtype` is its format, with the step of whole numbers."""
    name = family.removeprefix("elementwise_")
    if name in _BINARY:
        return _binary(maker, _BINARY[name], attributes, inputs, dtype, shape)
    if name in UNARY and len(inputs) == 1:
        return maker.operate("unary", inputs, dtype, shape, function=name)
    if family.startswith("reduction_"):
        return _reduction(maker, family.removeprefix("reduction_"), attributes, inputs[0], dtype)
    if family == "cast":
        return _spread(maker, inputs[0], dtype, shape)
    if family == "transpose":
        return maker.transposed(inputs[0])
    if family == "fill":
        return maker.constant(_filled(attributes["value"], dtype, shape), dtype)
    if family == "requant":
        more = {"output_scale": step(dtype)} if family_of(dtype) == "i8" else {}
        return maker.operate("cast", inputs, dtype, shape, **more)
    if family == "dequant":
        source = maker.kind(inputs[0])[0]
        return maker.operate("cast", inputs, dtype, shape, input_scales=(step(source),))
    raise TilewrightError(
        "TW7095",
        f"the VPU has no {family!r} for tiles",
        hint="products, element-wise functions, reductions and casts run on it",
    )


def multiply(
    maker: Maker[T], a: T, b: T, dtype: str, sums: T | None, start: T | None, count: int, last: bool
) -> T:
    """One product of a chain of which `count` are done; the last one is rounded to `dtype`."""
    (left, rows), (right, columns) = maker.kind(a), maker.kind(b)
    shape = (rows[0], columns[1])
    whole = family_of(left) == "i8"
    inputs, options = [a, maker.transposed(b)], {}
    before = sums if sums is not None else None if whole else start
    if before is not None:
        inputs.append(before)
        options["operands"] = ("accumulator",)
    if whole:
        options["summed"] = (count + 1) * rows[1]
    if not last:
        return maker.operate("matmul", inputs, "i32" if whole else "f32", shape, **options)
    if whole:
        options["factor"] = step(left) * step(right)
    made = maker.operate("matmul", inputs, dtype, shape, **options)
    if whole and start is not None:  # sums of i8 are whole numbers, what they start as is not
        return maker.operate("elementwise", [made, start], dtype, shape, function="add")
    return made


def _binary(
    maker: Maker[T], function: str, attributes: Mapping[str, Any], inputs: Sequence[T],
    dtype: str, shape: Shape,
) -> T:  # fmt: skip
    for place, key in ((0, "scalar_lhs"), (1, "scalar_rhs")):
        if key not in attributes:
            continue
        number = float(attributes[key])
        if function == "multiply":
            return maker.operate("scale", inputs, dtype, shape, factor=float(np.float32(number)))
        both = list(inputs)
        both.insert(place, maker.constant(_filled(number, dtype, (1,)), dtype))
        return maker.operate("binary", both, dtype, shape, function=function)
    operands = [_fitting(maker, tile, shape) for tile in inputs]
    equal = all(maker.kind(tile)[1] == shape for tile in operands)
    engine = "elementwise" if equal and function in _ON_DPU else "binary"
    return maker.operate(engine, operands, dtype, shape, function=function)


def _fitting(maker: Maker[T], tile: T, shape: Shape) -> T:
    """A row that is to be a column, or a column that is to be a row: one number for all."""
    own = maker.kind(tile)[1]
    flat = {own, shape} == {(own[0],), (own[0], 1)}
    return maker.seen_as(tile, shape) if flat else tile


def _spread(maker: Maker[T], tile: T, dtype: str, shape: Shape) -> T:
    tile = _fitting(maker, tile, shape)
    if maker.kind(tile)[1] == shape:
        return tile
    if family_of(dtype) == "i8":
        raise TilewrightError("TW7095", "rows and columns of whole numbers cannot be spread")
    ones = maker.constant(_filled(1.0, dtype, shape), dtype)
    return maker.operate("binary", [tile, ones], dtype, shape, function="multiply")


def _reduction(
    maker: Maker[T], kind: str, attributes: Mapping[str, Any], tile: T, dtype: str
) -> T:  # fmt: skip
    side = maker.kind(tile)[1][0]
    if tuple(attributes["axes"]) == (1,):
        made = maker.operate("row_reduce", [tile], dtype, (side,), function=kind)
        return maker.seen_as(made, (side, 1))
    return maker.operate("row_reduce", [maker.transposed(tile)], dtype, (side,), function=kind)


def _filled(number: float, dtype: str, shape: Shape) -> np.ndarray:
    return codes_of(np.full(shape, number), dtype)


def codes_of(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array in a number format: rounded, whole numbers clamped to what i8 holds."""
    array, wanted = np.asarray(array), DTYPES[family_of(dtype)]
    if array.dtype == wanted:
        return array
    try:
        if array.dtype.kind == "c":
            raise TypeError
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TilewrightError(
            "TW1649", f"an array of {array.dtype} holds no real numbers"
        ) from None
    with np.errstate(all="ignore"):
        if wanted == np.int8:
            counts = np.rint(np.nan_to_num(numbers / step(dtype), nan=0.0))
            return np.clip(counts, -128, 127).astype(np.int8)
        return numbers.astype(wanted)
