"""Types and attributes of traced operations.

Attributes never change, and most operations of a trace have the same few: made once, they are checked
once, and the printer spells them once.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from tilewright.dialects.kernel_symbols import symbol_for
from tilewright.dialects.xdsl_api import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    bf16,
    f8E4M3FN,
    f16,
    f64,
    i8,
    i64,
)
from tilewright.tile.formats import family as family_of

ELEMENTS = {"bf16": bf16, "fp8": f8E4M3FN, "f16": f16, "i8": i8}


def element(dtype: str) -> Attribute:
    """The element type of a format."""
    return ELEMENTS[family_of(dtype)]


@cache
def tile_type(dtype: str, shape: tuple[int, ...]) -> TensorType:
    """The type of a tile."""
    return TensorType(element(dtype), shape)


@lru_cache(maxsize=1 << 14)
def integers(values: tuple[int, ...], kind: IntegerType = i64) -> DenseArrayBase:
    return DenseArrayBase.from_list(kind, values)


@cache
def symbol(family: str) -> StringAttr:
    return StringAttr(symbol_for(family))


@cache
def operand_maps(shapes: tuple[tuple[int, ...], ...], result: tuple[int, ...]) -> ArrayAttr:
    """How operands of these shapes are read for a result of that shape."""
    return ArrayAttr([AffineMapAttr(_map(shape, result)) for shape in shapes])


def _map(shape: tuple[int, ...], result: tuple[int, ...]) -> AffineMap:
    """How an operand of this shape is read for a result of that shape."""
    rank = len(result)
    if shape == result:
        return AffineMap.identity(rank)
    d0, d1 = AffineDimExpr(0), AffineDimExpr(1)
    if len(shape) == 1:  # one number for all, as a row, fits a column too
        return AffineMap(rank, 0, (d1 if result[-1] == shape[0] else d0,))
    return AffineMap(rank, 0, (d0, AffineConstantExpr(0)))


def attribute(value: Any) -> Attribute:
    """An attribute of a launch, as the tile language gives it."""
    if value is True:
        return UnitAttr()
    if isinstance(value, tuple):
        return integers(value)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return integer(value)


@lru_cache(maxsize=1 << 10)
def integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)
