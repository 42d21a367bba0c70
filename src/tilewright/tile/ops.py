"""The functions of the tile language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tile import arrays
from tilewright.tile.arrays import Operand, TileArray, binary, unary
from tilewright.tile.backend import active
from tilewright.tile.products import Accumulation
from tilewright.tile.states import State


def zeros() -> Accumulation:
    """An empty accumulator; add products to it."""
    return Accumulation(active())


def state(first: Operand | None = None) -> State:
    """A tile carried from step to step, starting as a tile or a number; `set` changes it."""
    return State(active(), first)


def _elementwise(family: str, meaning: str) -> Callable[[Operand], TileArray]:
    def function(x: Operand) -> TileArray:
        return unary(family, x)

    function.__name__ = family.removeprefix("elementwise_").removesuffix("_tanh")
    function.__qualname__ = function.__name__
    function.__doc__ = f"{meaning}, of each element."
    return function


exp = _elementwise("elementwise_exp", "e to the power x")
exp2 = _elementwise("elementwise_exp2", "2 to the power x")
log = _elementwise("elementwise_log", "The natural logarithm")
log2 = _elementwise("elementwise_log2", "The logarithm to base 2")
sqrt = _elementwise("elementwise_sqrt", "The square root")
rsqrt = _elementwise("elementwise_rsqrt", "1 / square root")
recip = _elementwise("elementwise_recip", "1 / x")
tanh = _elementwise("elementwise_tanh", "The hyperbolic tangent")
sin = _elementwise("elementwise_sin", "The sine")
cos = _elementwise("elementwise_cos", "The cosine")
relu = _elementwise("elementwise_relu", "x, or 0 where x is negative")
abs = _elementwise("elementwise_abs", "The absolute value")
square = _elementwise("elementwise_square", "x * x")
cube = _elementwise("elementwise_cube", "x * x * x")
sigmoid = _elementwise("elementwise_sigmoid", "1 / (1 + exp(-x))")
silu = _elementwise("silu", "x * sigmoid(x)")
gelu = _elementwise("gelu_tanh", "GELU in its tanh form")


def maximum(a: Operand, b: Operand) -> TileArray:
    """The larger of both, element by element."""
    return binary("elementwise_max", a, b)


def minimum(a: Operand, b: Operand) -> TileArray:
    """The smaller of both, element by element."""
    return binary("elementwise_min", a, b)


def _reduction(kind: str, axis: int, meaning: str) -> Callable[[Operand], TileArray]:
    def function(x: Operand) -> TileArray:
        return arrays.reduce(kind, axis, x)

    function.__name__ = function.__qualname__ = f"{'row' if axis else 'col'}_{kind}"
    function.__doc__ = f"{meaning} of each {'row' if axis else 'column'}."
    return function


row_sum = _reduction("sum", 1, "The sum")
row_max = _reduction("max", 1, "The largest element")
row_min = _reduction("min", 1, "The smallest element")
col_sum = _reduction("sum", 0, "The sum")
col_max = _reduction("max", 0, "The largest element")
col_min = _reduction("min", 0, "The smallest element")


def transpose(x: Operand) -> TileArray:
    """Rows and columns of fp8 tiles exchanged; the same as x.T."""
    return arrays.transpose(x)


def to_fp8(x: Operand, scale: int | None = None) -> TileArray:
    """fp8 of x times an integer scale of 1 to 255; beyond ±448 it saturates."""
    return unary("requant", x, **_scale(scale))


def to_bf16(x: Operand, scale: int | None = None) -> TileArray:
    """bf16 of fp8 tiles, divided by an integer scale of 1 to 255."""
    return unary("dequant", x, **_scale(scale))


def _scale(scale: Any) -> dict[str, float]:
    if scale is None:
        return {}
    if not isinstance(scale, int) or not 1 <= scale <= 255:
        raise active().error(
            "TW1624",
            f"scale {scale} is outside 1 to 255",
            "scale registers hold whole numbers; multiply by other factors first",
        )
    return {"scale": 1 / scale}
