"""Products of whole fp8 matrices as the matrix units compute them, bit for bit and fast.

A unit multiplies 32 columns of the left operand at a time. Their products are exact; they are
added in float32 as four interleaved sums, the result t is rounded to fp16, added in fp16 to what
has been accumulated, and the accumulator is rounded to bf16 (`arithmetic.matmul` is the
definition, on one tile). Following that order over whole matrices is slow, and hardly ever needed:

- fp8 products are multiples of 2^-18 and 32 of them stay below 2^23, so float64 sums are exact in
  any order and one library call gives the true sum s of all elements.
- The ten roundings on the way to a float32 sum move it from s by at most 10 u S, where u = 2^-24
  and S is the sum of the absolute values of the products, at most |a| |w| (Cauchy-Schwarz).
- Where everything from s - e to s + e rounds to one fp16 number, with e = 16 u |a| |w| (four more
  for the roundings of this computation itself), that number is t. Elsewhere, about 3 % of the
  elements of usual data, the four sums are followed as defined.

All numbers are multiples of 2^-18, so the gradual underflow of fp16, which begins at 2^-24, never
shows. Infinities and NaN take the way of the definition.
"""

from __future__ import annotations

import numpy as np

from tilewright.reference import arithmetic as arith

SIDE = 32
ROWS, COLUMNS = 64, 128  # of a block; library calls this small stay on one thread
SPREAD = np.float32(16 * 2.0**-24)
SAFE = np.float32(32768)  # below it nothing overflows fp16 in one step
_SIGN = np.uint32(0x80000000)


def product(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """bf16 patterns of fp8 a [M, K] @ fp8 w [K, N], accumulated over 32 columns at a time."""
    rows, columns = a.shape[0], w.shape[1]
    left, right = _Operand.of(a, ROWS), _Operand.of(w.T, COLUMNS)
    out = np.empty((left.count * left.size, right.count * right.size), np.uint16)
    exact = left.finite and right.finite
    for block in range(left.count):
        total = None
        for step in range(left.steps):
            part = _step_fast(left, right, block, step) if exact else None
            if part is None:
                part = _ordered(left.values[step, block][None, :, None], right.rows(step))
                part = arith.round_to_f16(part)
            total = _accumulated(total, part)
        assert total is not None
        place = slice(block * left.size, (block + 1) * left.size)
        out[place] = arith.f32_to_bf16(total).swapaxes(0, 1).reshape(left.size, -1)
    return out[:rows, :columns]


class _Operand:
    """A matrix cut into blocks of rows and steps of 32 columns.

    values: float32 [step, block, row, 32]; wide: the same in float64; length: Euclidean length of
    each row in each step.
    """

    def __init__(self, values: np.ndarray, finite: bool) -> None:
        self.values, self.finite = values, finite
        self.steps, self.count, self.size = values.shape[:3]
        self.wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            squares = np.square(self.wide).sum(-1)
        self.length = np.sqrt(squares).astype(np.float32)

    @staticmethod
    def of(codes: np.ndarray, most: int) -> _Operand:
        """The rows of a matrix of fp8 patterns, zeros added until blocks and steps are whole."""
        rows, deep = codes.shape
        size = min(most, -(-rows // SIDE) * SIDE)
        count, steps = -(-rows // size), -(-deep // SIDE)
        padded = np.zeros((count * size, steps * SIDE), np.uint8)
        padded[:rows, :deep] = codes
        blocks = padded.reshape(count, size, steps, SIDE).transpose(2, 0, 1, 3)
        finite = not bool(((codes & 0x7F) == arith.FP8_NAN).any())
        return _Operand(arith.fp8_to_f32(np.ascontiguousarray(blocks)), finite)

    def rows(self, step: int) -> np.ndarray:
        """[block, 1, row, 32] of one step, to meet the rows of the other operand."""
        return self.values[step][:, None]


def _ordered(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The four interleaved float32 sums over the last dimension, joined from left to right."""
    with np.errstate(all="ignore"):
        sums = []
        for j in range(4):
            total = a[..., j] * w[..., j] + np.float32(0)
            for k in range(j + 4, SIDE, 4):
                total = total + a[..., k] * w[..., k]
            sums.append(total)
        return ((sums[0] + sums[1]) + sums[2]) + sums[3]


def _step_fast(left: _Operand, right: _Operand, block: int, step: int) -> np.ndarray | None:
    """fp16 sums of one step as float32 [column block, row, column], or None near overflow."""
    true = np.matmul(left.wide[step, block][None], right.wide[step].swapaxes(1, 2))
    near = true.astype(np.float32)
    size = np.abs(near)
    if size.max() >= SAFE:
        return None
    reach = (left.length[step, block] * SPREAD)[None, :, None] * right.length[step][:, None, :]
    # Bits of a magnitude, rounded to 11 bits of significand: a tie goes down at the lower end
    # and up at the upper end, so both agree only if nothing in between is a tie.
    low = (size - reach).view(np.uint32) + np.uint32(0x0FFF)
    high = (size + reach).view(np.uint32) + np.uint32(0x1000)
    low >>= np.uint32(13)
    high >>= np.uint32(13)
    doubtful = np.nonzero(low != high)
    high <<= np.uint32(13)
    high |= near.view(np.uint32) & _SIGN
    sums = high.view(np.float32)
    if len(doubtful[0]):
        panels, rows, columns = doubtful
        pairs = left.values[step, block][rows], right.values[step][panels, columns]
        sums[doubtful] = _nearest(_ordered(*pairs), 13)
    return sums


def _nearest(values: np.ndarray, bits: int) -> np.ndarray:
    """float32 rounded to nearest even with so many bits of the significand dropped."""
    pattern = values.view(np.uint32)
    half = np.uint32((1 << (bits - 1)) - 1)
    rounded = pattern + half
    rounded += (pattern >> np.uint32(bits)) & np.uint32(1)
    rounded &= np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return rounded.view(np.float32)


def _accumulated(total: np.ndarray | None, part: np.ndarray) -> np.ndarray:
    """The accumulator, a bf16 number as float32, after adding fp16 sums to it."""
    if total is None:
        joined = part
    elif max(np.abs(total).max(), np.abs(part).max()) < SAFE:  # False for NaN
        joined = _nearest(total + part, 13)
    else:
        with np.errstate(all="ignore"):
            joined = arith.round_to_f16(part + arith.round_to_f16(total))
    if not np.abs(joined).max() < np.inf:
        return arith.bf16_to_f32(arith.f32_to_bf16(joined))
    return _nearest(joined, 16)
