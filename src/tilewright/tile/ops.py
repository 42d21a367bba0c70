"""The functions of the tile language."""

from __future__ import annotations

from typing import Any

from tilewright.tile.cells import (
    PARK,
    Accumulation,
    Cell,
    Operand,
    TileArray,
    as_tiles,
    binary,
    reduce_rows,
    unary,
)
from tilewright.tile.kernel import active
from tilewright.tile.layouts import SIDE


def zeros(unit: int | None = None) -> Accumulation:
    """An empty accumulator; add products to it.

    With a matrix unit (0 or 1) products are added as they come, otherwise when the sum is used.
    """
    if unit not in (None, 0, 1):
        raise active().error("TW1626", f"there is no matrix unit {unit}", "use 0 or 1")
    return Accumulation(active(), unit)


def park(x: Operand) -> TileArray:
    """Keep a tile in VMEM instead of registers until it is used again."""
    tiles = as_tiles(x)
    backend = tiles.backend
    cells = [[backend.keep(backend.use(cell), PARK + 1) for cell in row] for row in tiles.cells]
    return TileArray(backend, cells, tiles.dtype, tiles.rows, tiles.columns, tiles.kind)


def ones() -> TileArray:
    """An fp8 tile of ones; multiplying by it sums rows on a matrix unit."""
    backend = active()
    value = backend.compute(lambda t: t.pinned_ones(), [], "fp8", 2)
    return TileArray(backend, [[Cell(value=value, depth=backend.depth())]], "fp8", [SIDE], [SIDE])


def _elementwise(name: str, cost: int = 2):
    def function(x: Operand) -> TileArray:
        return unary(name, x, cost)

    function.__name__ = name.removeprefix("elementwise_")
    function.__doc__ = f"{function.__name__} of each element."
    return function


exp = _elementwise("elementwise_exp")
exp2 = _elementwise("elementwise_exp2")
log = _elementwise("elementwise_log", 3)
log2 = _elementwise("elementwise_log2")
sqrt = _elementwise("elementwise_sqrt")
rsqrt = _elementwise("elementwise_rsqrt", 3)
recip = _elementwise("elementwise_recip")
tanh = _elementwise("elementwise_tanh")
sin = _elementwise("elementwise_sin")
cos = _elementwise("elementwise_cos")
relu = _elementwise("elementwise_relu")
abs = _elementwise("elementwise_abs", 4)
square = _elementwise("elementwise_square")
cube = _elementwise("elementwise_cube")
sigmoid = _elementwise("elementwise_sigmoid", 6)
silu = _elementwise("silu", 8)
gelu = _elementwise("gelu_tanh", 14)


def maximum(a: Operand, b: Operand) -> TileArray:
    """The larger of both, element by element."""
    return binary("elementwise_max", a, b)


def minimum(a: Operand, b: Operand) -> TileArray:
    """The smaller of both, element by element."""
    return binary("elementwise_min", a, b)


def row_sum(x: Operand) -> TileArray:
    """The sum of each row."""
    return reduce_rows("sum", x)


def row_max(x: Operand) -> TileArray:
    """The largest of each row."""
    return reduce_rows("max", x)


def row_min(x: Operand) -> TileArray:
    """The smallest of each row."""
    return reduce_rows("min", x)


def to_fp8(x: Operand, scale: int | None = None) -> TileArray:
    """fp8 of x times an integer scale of 0 to 255; beyond ±448 it saturates."""
    _check_scale(scale)
    return unary("requant", x, 2, scale=scale)


def to_bf16(x: Operand, scale: int | None = None) -> TileArray:
    """bf16 of x divided by an integer scale."""
    _check_scale(scale)
    return unary("dequant", x, 2, scale=scale)


def _check_scale(scale: Any) -> None:
    if scale is not None and (not isinstance(scale, int) or not 0 <= scale <= 255):
        raise active().error("TW1624", f"scale {scale} is outside 0 to 255")
