"""Single steps of the kernels' references, on whole tensors of bit patterns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE
from tilewright.targets.atlas.profile import Profile

Codes = np.ndarray
_INFINITY, _MINUS_INFINITY, _NAN = 0x7F80, 0xFF80, 0x7FC0


def constant(value: float) -> Codes:
    """The bf16 pattern nearest to a number."""
    return arith.f64_to_bf16(np.array(float(value)))


def times(x: Codes, factor: float) -> Codes:
    """x times a number; by 1 there is no multiplication."""
    return x if factor == 1.0 else arith.multiply(x, constant(factor))


def fp8(profile: Profile, x: Codes) -> Codes:
    return arith.pack(x, profile.unit_scale)


def bf16(profile: Profile, x: Codes) -> Codes:
    return arith.unpack(x, profile.unit_scale)


def spread(vector: Codes) -> Codes:
    """One number per row or column as it is spread over a tile: by a sum with zeros, which makes
    -0 to +0."""
    return arith.add(np.uint16(0) * vector, vector)


def broadcast(codes: Codes, kind: str, split: tuple[int, int] | None = None) -> Codes:
    """An operand of an element-wise operation in the form that meets [B, M, N]."""
    form, _, batch = kind.partition("@")
    outer, inner = split or (1, 1)
    if batch == "rows":
        codes = spoiled(codes, 1).reshape(outer * inner, 1, codes.shape[2])
    elif batch == "outer":
        codes = np.repeat(codes, inner, 0)
    elif batch == "inner":
        codes = np.tile(codes, (outer, 1, 1))
    return spread(codes) if form in ("row", "column", "line", "number") else codes


def spoiled(codes: Codes, axis: int) -> Codes:
    """Where one of 32 numbers along an axis is NaN all of them are: they were taken apart, or put
    together, by additions of zeros."""
    if codes.shape[axis] == 1:
        return codes
    codes = codes.copy()
    lines = np.moveaxis(codes, axis, 0)
    for start in range(0, len(lines), SIDE):
        part = lines[start : start + SIDE]
        part[:, ((part & 0x7FFF) > _INFINITY).any(0)] = _NAN
    return codes


def is_finite(codes: Codes) -> np.ndarray:
    return (codes & 0x7FFF) < _INFINITY


# --- functions of elements --------------------------------------------------------------------


def _table(name: str) -> Callable[[Codes], Codes]:
    return lambda x: arith.unary_table(f"v{name}")[x]


recip, _sqrt, _exp, _tanh, _log2 = map(_table, ("recip", "sqrt", "exp", "tanh", "log2"))


def _negative(x: Codes) -> Codes:
    return arith.multiply(x, constant(-1.0))


def _square(x: Codes) -> Codes:
    return arith.multiply(x, x)


def _cube(x: Codes) -> Codes:
    return arith.multiply(_square(x), x)


def _sigmoid(x: Codes) -> Codes:
    return recip(arith.add(constant(1.0), _exp(_negative(x))))


def _gelu(x: Codes) -> Codes:
    inner = arith.add(x, arith.multiply(_cube(x), constant(0.044715)))
    bent = _tanh(arith.multiply(inner, constant(math.sqrt(2 / math.pi))))
    return arith.multiply(arith.multiply(x, constant(0.5)), arith.add(constant(1.0), bent))


def larger(a: Codes, b: Codes) -> Codes:
    return arith.extreme(a, b, larger=True)


def smaller(a: Codes, b: Codes) -> Codes:
    return arith.extreme(a, b, larger=False)


UNARY: dict[str, Callable[[Codes], Codes]] = {
    "neg": _negative,
    "abs": lambda x: larger(x, _negative(x)),
    "exp": _exp,
    "exp2": _table("exp2"),
    "log": lambda x: arith.multiply(_log2(x), constant(math.log(2))),
    "log2": _log2,
    "sqrt": _sqrt,
    "rsqrt": lambda x: recip(_sqrt(x)),
    "recip": recip,
    "tanh": _tanh,
    "sin": _table("sin"),
    "cos": _table("cos"),
    "relu": arith.relu,
    "sigmoid": _sigmoid,
    "square": _square,
    "cube": _cube,
    "silu": lambda x: arith.multiply(x, _sigmoid(x)),
    "gelu_tanh": _gelu,
}
BINARY: dict[str, Callable[[Codes, Codes], Codes]] = {
    "add": arith.add,
    "sub": arith.subtract,
    "mul": arith.multiply,
    "div": lambda a, b: arith.multiply(a, recip(b)),
    "max": larger,
    "min": smaller,
}


# --- rows -------------------------------------------------------------------------------------


COMBINE: dict[str, Callable[[Codes, Codes], Codes]] = {
    "sum": arith.add,
    "max": larger,
    "min": smaller,
}
_NEUTRAL = {"sum": 0, "max": _MINUS_INFINITY, "min": _INFINITY}


def row_total(profile: Profile, x: Codes, kind: str) -> Codes:
    """The sum, maximum or minimum of each row of x [..., K], as [..., 1].

    Tiles of 32 columns are combined from left to right, then the columns of what results; beyond
    the edge are zeros or infinities.
    """
    width = x.shape[-1]
    tiles = -(-width // SIDE)
    wide = np.full((x.size // width, tiles * SIDE), _NEUTRAL[kind], "<u2")
    wide[:, :width] = x.reshape(-1, width)
    total = wide[:, :SIDE]
    for start in range(SIDE, tiles * SIDE, SIDE):
        total = COMBINE[kind](total, wide[:, start : start + SIDE])
    return across(profile, total, kind).reshape(*x.shape[:-1], 1)


def column_total(profile: Profile, x: Codes, kind: str) -> Codes:
    """The same for each column of x [B, M, K], as [B, 1, K]."""
    batch, rows, width = x.shape
    tiles = -(-rows // SIDE)
    high = np.full((tiles * SIDE, batch * width), _NEUTRAL[kind], "<u2")
    high[:rows] = x.swapaxes(0, 1).reshape(rows, -1)
    total = high[:SIDE]
    for start in range(SIDE, tiles * SIDE, SIDE):
        total = COMBINE[kind](total, high[start : start + SIDE])
    if kind == "sum":
        line = arith.column_sum(total, profile.column_sum)[:1]
    else:
        line = arith.reduce_extreme(total, 0, larger=kind == "max")[:1]
    return np.ascontiguousarray(line).reshape(batch, 1, width)


def across(profile: Profile, tile: Codes, kind: str) -> Codes:
    """One number per row of a tile's 32 columns, as [rows, 1]; a vector unit that works on half
    tiles reduces each and combines the two."""

    def reduced(part: Codes) -> Codes:
        if kind == "sum":
            return arith.row_sum(part, profile.row_sum)[:, :1]
        return arith.reduce_extreme(part, 1, larger=kind == "max")[:, :1]

    if profile.tile_registers == 2:
        return reduced(tile)
    return COMBINE[kind](reduced(tile[:, : SIDE // 2]), reduced(tile[:, SIDE // 2 :]))
