"""The functions of the tile language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.tile import arrays
from tilewright.tile.arrays import Operand, TileArray, binary, flag, unary
from tilewright.tile.backend import Backend, active
from tilewright.tile.formats import OPERAND, VALUE
from tilewright.tile.products import Accumulation
from tilewright.tile.states import State
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec


def zeros(unit: int | None = None) -> Accumulation:
    """An empty accumulator; add products to it.

    With a matrix unit (0 or 1) products are added as they come, otherwise when the sum is used.
    """
    if unit is not None and not (isinstance(unit, int) and unit in (0, 1)):
        raise active().error("TW1641", f"there is no matrix unit {unit}", "use 0 or 1")
    return Accumulation(active(), unit)


def accumulator(start: Operand, unit: int | None = None) -> Accumulation:
    """An accumulator that starts as bf16 tiles, such as a sum that was begun before."""
    found = zeros(unit)
    found.held = arrays.as_tiles(start)
    wanted = active().value
    if found.held.dtype != wanted:
        raise active().error(
            "TW1647",
            f"an accumulator holds {wanted}, this tile is {found.held.dtype}",
            f"use {arrays.casts(wanted)}",
        )
    return found


def ones() -> TileArray:
    """An operand tile of ones; multiplying by it sums rows on a matrix unit."""
    backend = active()
    return _filled(backend, 1.0, backend.operand)


def full(value: float, dtype: str = VALUE) -> TileArray:
    """A tile of equal numbers: values, or "operand" for products."""
    backend = active()
    if isinstance(dtype, str):
        dtype = {VALUE: backend.value, OPERAND: backend.operand}.get(dtype, dtype)
    if not isinstance(dtype, str) or dtype not in (backend.value, backend.operand):
        raise backend.error(
            "TW1617", f"tiles are {backend.value} or {backend.operand}, not {dtype}"
        )
    return _filled(backend, arrays.as_number(value), dtype)


def _filled(backend: Backend, value: float, dtype: str) -> TileArray:
    launch = backend.launcher("fill", dtype, "full", value=value)
    whole = [backend.side]
    return TileArray(backend, [[backend.lazily(launch)]], dtype, whole, whole)


def park(x: Operand) -> TileArray:
    """Keep a tile in VMEM instead of registers until it is used again."""
    return arrays.kept_in_memory(arrays.as_tiles(x))


def scratch(kind: TensorSpec, on_chip: bool = False) -> Tensor:
    """A tensor of the kernel's own, as tw.bf16[64, 96]: written in one loop, read in a later one.

    It lies in DRAM, or in VMEM if it is to stay on chip; then one loop may read and change it.
    """
    backend = active()
    if not isinstance(kind, TensorSpec):
        raise backend.error(
            "TW1622",
            f"a scratch tensor is of a type with sizes, not {kind!r:.60}",
            "tw.bf16[64, 96]",
        )
    sizes = [n for n in kind.sizes if isinstance(n, int)]
    if len(sizes) != len(kind.sizes):
        raise backend.error("TW1622", f"the sizes {kind.sizes} of a scratch tensor are no numbers")
    return backend.scratch_tensor(kind, on_chip=on_chip)


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


def _reduction(kind: str, axis: int, meaning: str) -> Callable[..., TileArray]:
    def function(x: Operand, *, nonnegative: bool = False) -> TileArray:
        flag("nonnegative", nonnegative)
        return arrays.reduce(kind, axis, x, nonnegative)

    function.__name__ = function.__qualname__ = f"{'row' if axis else 'col'}_{kind}"
    function.__doc__ = (
        f"{meaning} of each {'row' if axis else 'column'}; nonnegative: no element is negative, "
        "beyond the edge neither, which makes sums cheaper."
    )
    return function


row_sum = _reduction("sum", 1, "The sum")
row_max = _reduction("max", 1, "The largest element")
row_min = _reduction("min", 1, "The smallest element")
col_sum = _reduction("sum", 0, "The sum")
col_max = _reduction("max", 0, "The largest element")
col_min = _reduction("min", 0, "The smallest element")


def neutral(x: Operand, kind: str) -> TileArray:
    """x with what lies beyond the edge of its tensor replaced by what a "sum", "max" or "min" of
    rows ignores: for reductions over several steps."""
    return arrays.neutral(kind, x)


def transpose(x: Operand) -> TileArray:
    """Rows and columns of fp8 tiles exchanged; the same as x.T."""
    return arrays.transpose(x)


def to_operand(x: Operand, scale: Operand | None = None) -> TileArray:
    """x times a scale in the machine's format of operands: fp8, f16 or whole numbers in steps."""
    backend = active()
    if backend.operand == "fp8":
        return to_fp8(x, scale)
    if scale is not None:
        x = binary("elementwise_mul", x, scale if _number(scale) is None else _number(scale) or 1.0)
    return arrays.as_tiles(x) if backend.operand == backend.value else unary("requant", x)


def to_value(x: Operand, scale: Operand | None = None) -> TileArray:
    """Operand tiles in the machine's format of values, divided by a scale."""
    backend = active()
    if backend.value == "bf16":
        return to_bf16(x, scale)
    tiles = arrays.as_tiles(x)
    made = tiles if tiles.dtype == backend.value else unary("dequant", tiles)
    return made if scale is None else binary("elementwise_div", made, scale)


def to_fp8(x: Operand, scale: Operand | None = None) -> TileArray:
    """fp8 of x times a scale; beyond ±448 it saturates.

    scale: whole numbers of 1 to 255 go to a scale register; any other positive number, rounded to
    bf16, and a row or column of scales multiply on the vector unit first. To quantise in steps of
    s, the scale is 1 / s.
    """
    _has("fp8", OPERAND)
    number = _number(scale)
    if number is None and scale is not None:
        return unary("requant", binary("elementwise_mul", x, scale))
    if number is None or _in_register(number):
        return unary("requant", x, **_register(number))
    return unary("requant", binary("elementwise_mul", x, number))


def to_bf16(x: Operand, scale: Operand | None = None) -> TileArray:
    """bf16 of fp8 tiles, divided by a scale: a number (its reciprocal is rounded to bf16), or a
    row or column of them."""
    _has("bf16", VALUE)
    number = _number(scale)
    if number is None and scale is not None:
        return binary("elementwise_div", unary("dequant", x), scale)
    if number is None or _in_register(number):
        return unary("dequant", x, **_register(number))
    return binary("elementwise_mul", unary("dequant", x), 1 / number)


def _has(dtype: str, role: str) -> None:
    """The machine has this format."""
    backend = active()
    if dtype not in backend.machine.formats.families:
        raise backend.error(
            "TW1617",
            f"{backend.machine.name} has no {dtype}",
            f"use tw.to_{role}, which is any machine's",
        )


SMALLEST, LARGEST = 2.0**-126, 3.3895313892515355e38  # normal bf16 numbers


def _number(scale: Any) -> float | None:
    """A scale that is a number, checked."""
    scale = getattr(scale, "number", None) or scale  # a state that still is a number
    if scale is None or isinstance(scale, arrays.Arithmetic):
        return None
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise active().error(
            "TW1624", f"a scale is a number, a row or a column, not {type(scale).__name__}"
        )
    if not SMALLEST <= scale <= LARGEST or not SMALLEST <= 1 / scale <= LARGEST:
        large = isinstance(scale, int) and scale.bit_length() > 128
        shown = "of so many digits" if large else scale
        raise active().error(
            "TW1624",
            f"scale {shown} is outside {SMALLEST:.3g} to {1 / SMALLEST:.3g}",
            "scales are positive, and so are their reciprocals, as bf16 numbers",
        )
    return float(scale)


def _in_register(number: float) -> bool:
    return number == int(number) and 1 <= number <= 255


def _register(number: float | None) -> dict[str, float]:
    return {} if number in (None, 1) else {"scale": 1 / number}
