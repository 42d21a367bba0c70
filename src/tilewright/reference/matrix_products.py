"""Products of whole fp8 matrices as the matrix units compute them, bit for bit and fast.

A unit multiplies 32 columns of the left operand at a time. Their products are exact; they are
added in float32 as four interleaved sums, the result t is rounded to fp16, added in fp16 to what
has been accumulated, and the accumulator is rounded to bf16 (`arithmetic.matmul` is the
definition, on one tile). Following that order over whole matrices is slow, and hardly ever needed:

- fp8 products are multiples of 2^-18 and 32 of them stay below 2^23, so float64 sums are exact in
  any order and one library call gives the true sum s of all elements.
- No sum on the way exceeds S, the sum of the absolute values of the products, which is at most
  |a| |w| (Cauchy-Schwarz). If q divides all products of a row and a column and |a| |w| <= 2^24 q,
  then float32 holds every sum exactly, and t is s rounded.
- Otherwise the ten roundings on the way move a float32 sum from s by at most 10 u S, u = 2^-24.
- Where everything from s - e to s + e rounds to one fp16 number, with e = 13 u |a| |w| (more than
  ten for the roundings of this computation itself), that number is t. Elsewhere, in less than one
  of a hundred elements of usual data, the four sums are followed as defined.

All numbers are multiples of 2^-18, so the gradual underflow of fp16, which ends at 2^-24, never
shows. Infinities and NaN take the way of the definition.

A single row, as decoding has it, would spend its time on the lengths of columns that are used once:
it follows the four sums as defined, for many columns side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.reference import arithmetic as arith

SIDE = 32
ROWS, COLUMNS = 64, 128  # of a library call, which stays on one thread when this small
PANELS = 6  # of 128 columns worked on at a time: what they need stays in a cache
CACHED = 1 << 17  # terms of a single row worked on at a time
SPREAD = np.float32(13 * 2.0**-24)
EXACT = np.float32(2.0**24 * (1 - 2.0**-16))  # a little less, for the roundings of lengths
SAFE = 32768.0  # sums of two numbers below it do not overflow fp16


def product(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """bf16 patterns of fp8 a [M, K] @ fp8 w [K, N], accumulated over 32 columns at a time."""
    if len(a) == 1:
        return _of_one_row(a[0], w)
    left, right = _Operand(a, ROWS), _Operand(w.T, COLUMNS)
    out = np.empty((left.count, left.size, right.count, right.size), np.uint16)
    finite = left.finite and right.finite
    for start in range(0, right.count, PANELS):
        panels = slice(start, min(start + PANELS, right.count))
        sums = _Sums(panels.stop - start, left.size, right.size)
        for block in range(left.count):
            total = None
            for step in range(left.steps):
                sides = left.side(step, block), right.side(step, panels)
                part = sums.of(*sides) if finite else None
                if part is None:
                    part = _in_order(sides[0].rows[:, None], sides[1].rows[:, None])
                    part = arith.round_to_f16(part)
                total = _accumulated(total, part)
            assert total is not None
            out[block, :, panels] = arith.f32_to_bf16(total).swapaxes(0, 1)
    whole = out.reshape(left.count * left.size, -1)
    return np.ascontiguousarray(whole[: a.shape[0], : w.shape[1]])


def _of_one_row(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The product of a single row [K], in the order of the definition."""
    steps = -(-len(a) // SIDE)
    row = arith.fp8_to_f32(np.pad(a, (0, steps * SIDE - len(a))))[:, None]
    parts = np.empty((steps, w.shape[1]), np.float32)
    wide = max(SIDE, CACHED // (steps * SIDE))
    values = arith.fp8_values()
    for start in range(0, w.shape[1], wide):
        codes = w[:, start : start + wide]
        terms = np.zeros((steps * SIDE, codes.shape[1]), np.float32)
        np.take(values, codes, out=terms[: len(a)], mode="clip")
        with np.errstate(all="ignore"):
            terms *= row
            fours = terms.reshape(steps, SIDE // 4, 4, -1)
            sums = fours[:, 0] + np.float32(0)
            for k in range(1, SIDE // 4):
                sums += fours[:, k]
            parts[:, start : start + wide] = ((sums[:, 0] + sums[:, 1]) + sums[:, 2]) + sums[:, 3]
    total = None
    for part in arith.round_to_f16(parts):
        total = _accumulated(total, part)
    assert total is not None
    return arith.f32_to_bf16(total)[None]


@dataclass(frozen=True)
class _Side:
    """Rows of one operand in one step."""

    rows: np.ndarray  # float32
    wide: np.ndarray  # float64
    lengths: np.ndarray  # of the rows
    ratios: np.ndarray  # of length and the largest power of two that divides a row


class _Operand:
    """A matrix of fp8 patterns, cut into blocks of rows and steps of 32 columns: numbers as
    [step, block, row, 32], zeros added until blocks and steps are whole."""

    def __init__(self, codes: np.ndarray, most: int) -> None:
        rows, deep = codes.shape
        self.size = min(most, -(-rows // SIDE) * SIDE)
        self.count, self.steps = -(-rows // self.size), -(-deep // SIDE)
        padded = np.zeros((self.count * self.size, self.steps * SIDE), np.uint8)
        padded[:rows, :deep] = codes
        blocks = padded.reshape(self.count, self.size, self.steps, SIDE).transpose(2, 0, 1, 3)
        self.finite = not bool(((codes & 0x7F) == arith.FP8_NAN).any())
        self.rows = arith.fp8_to_f32(np.ascontiguousarray(blocks))
        self.wide = self.rows.astype(np.float64)
        self.lengths = np.sqrt(np.einsum("...k,...k->...", self.wide, self.wide)).astype(np.float32)
        self.ratios = self.lengths / _divisors()[np.ascontiguousarray(blocks)].min(-1)

    def side(self, step: int, blocks: slice | int) -> _Side:
        one = slice(blocks, blocks + 1) if isinstance(blocks, int) else blocks
        parts = (self.rows, self.wide, self.lengths, self.ratios)
        return _Side(*(part[step, one] for part in parts))


@lru_cache(maxsize=1)
def _divisors() -> np.ndarray:
    """The largest power of two that divides each fp8 number; for 0 and NaN one beyond all."""
    multiples = np.nan_to_num(arith.fp8_values()).astype(np.float64) * 2**9
    whole = np.abs(multiples).astype(np.int64)
    return np.where(whole > 0, (whole & -whole) * 2.0**-9, 2.0**9).astype(np.float32)


class _Sums:
    """Memory for the sums of a step, used again and again."""

    def __init__(self, *shape: int) -> None:
        self.true = np.empty(shape, np.float64)
        self.near, self.size, self.reach, self.low, self.high = np.empty((5, *shape), np.float32)
        self.inexact, self.doubtful = np.empty((2, *shape), bool)

    def of(self, a: _Side, w: _Side) -> np.ndarray | None:
        """fp16 sums of one step as float32 [panel, row, column], or None near overflow."""
        np.matmul(a.wide, w.wide.swapaxes(1, 2), out=self.true)
        np.add(self.true, 0.0, out=self.near, casting="same_kind")  # a sum is never -0
        np.abs(self.near, out=self.size)
        if self.size.max() >= SAFE:
            return None
        np.multiply(a.ratios[:, :, None], w.ratios[:, None, :], out=self.reach)
        np.greater(self.reach, EXACT, out=self.inexact)
        np.multiply(a.lengths[:, :, None] * SPREAD, w.lengths[:, None, :], out=self.reach)
        np.subtract(self.size, self.reach, out=self.low)
        np.add(self.size, self.reach, out=self.high)
        # Bits of a magnitude, rounded to 11 bits of significand: a tie goes down at the lower
        # end and up at the upper end, so both agree only if there is none in between.
        low, high = self.low.view(np.uint32), self.high.view(np.uint32)
        low += np.uint32(0x0FFF)
        high += np.uint32(0x1000)
        low >>= np.uint32(13)
        high >>= np.uint32(13)
        np.not_equal(low, high, out=self.doubtful)
        self.doubtful &= self.inexact
        result = _nearest(self.near, 13, self.high)
        self._follow(a, w, result)
        return result

    def _follow(self, a: _Side, w: _Side, result: np.ndarray) -> None:
        """Doubtful sums, as defined."""
        doubtful = np.flatnonzero(self.doubtful)
        if len(doubtful):
            _, rows, columns = self.true.shape
            places, column = np.divmod(doubtful, columns)
            panel, row = np.divmod(places, rows)
            left = a.rows[0].take(row, axis=0)
            right = w.rows.reshape(-1, SIDE).take(panel * columns + column, axis=0)
            result.reshape(-1)[doubtful] = _nearest(_in_order(left, right), 13)


def _in_order(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Four interleaved float32 sums over the last dimension, joined from left to right.

    [N, 32] and [N, 32] -> [N]; [1, 1, M, 32] and [P, 1, N, 32] -> [P, M, N].
    """
    with np.errstate(all="ignore"):
        if a.ndim == 2:
            # Four terms at a time look like one complex number: they move and add together.
            fours = np.ascontiguousarray((a * w).view(np.complex128).T)
            terms = fours.view(np.float32).reshape(SIDE // 4, len(a), 4)
            total = terms[0] + np.float32(0)
            for k in range(1, SIDE // 4):
                total += terms[k]
            sums = total.T
        else:
            sums = np.zeros((4, len(w), a.shape[2], w.shape[2]), np.float32)
            for k in range(SIDE):
                sums[k % 4] += a[..., k].swapaxes(1, 2) * w[..., k]
        return ((sums[0] + sums[1]) + sums[2]) + sums[3]


def _nearest(values: np.ndarray, bits: int, out: np.ndarray | None = None) -> np.ndarray:
    """float32 rounded to nearest even with so many bits of the significand dropped."""
    pattern = values.view(np.uint32)
    into = np.empty_like(pattern) if out is None else out.view(np.uint32)
    rounded = np.right_shift(pattern, np.uint32(bits), out=into)
    rounded &= np.uint32(1)
    rounded += pattern
    rounded += np.uint32((1 << (bits - 1)) - 1)
    rounded &= np.uint32(0x100000000 - (1 << bits))
    return rounded.view(np.float32)


def _accumulated(total: np.ndarray | None, part: np.ndarray) -> np.ndarray:
    """The accumulator, a bf16 number as float32, after adding fp16 sums to it."""
    with np.errstate(all="ignore"):
        joined = part if total is None else total + part
        if np.abs(joined).max() < SAFE and (total is None or np.abs(total).max() < SAFE):
            return _nearest(_nearest(joined, 13), 16)
        if total is not None:
            joined = arith.round_to_f16(part + arith.round_to_f16(total))
    return arith.bf16_to_f32(arith.f32_to_bf16(joined))
