"""How far results may be from the reference where a lowering changes precision, as formulas.

u is the unit roundoff of a type: half a step relative to the value, 2^-9 for bf16, 2^-12 for f16,
2^-25 for f32. Magnitudes are sums of absolute values, which bound every partial sum, whatever its
order; results that overflow or underflow a type are outside of these bounds.
"""

from __future__ import annotations

import numpy as np

from tilewright.reference.compare import Bound
from tilewright.reference.dtypes import Array

BF16_ROUNDOFF = 2.0**-9
F16_ROUNDOFF = 2.0**-12


def product_magnitude(a: Array, b: Array, initial: Array | None = None) -> Array:
    """|a| |b| + |initial| of matrices given as float64."""
    size = np.matmul(np.abs(a), np.abs(b))
    return size if initial is None else size + np.abs(initial)


def demoted_product(magnitude: Array) -> Bound:
    """An f32 product carried out on operands and result in bf16.

    Each operand moves by u relative, a product of two by 2u + u², the result by u once more:
    |Δ| <= ((1 + u)^3 - 1) * magnitude
    """
    return Bound(relative=(1.0 + BF16_ROUNDOFF) ** 3 - 1.0, scale=magnitude)


def machine_chain(magnitude: Array, links: int) -> Bound:
    """A product over `links` tiles of k in the matrix unit of the Atlas machines.

    The sum of a tile is exact or rounded in float32, then rounded to fp16; adding it to the
    accumulator rounds to fp16 (the accumulator, the sum) and to bf16. One link moves a partial sum, which
    is at most the magnitude, by at most 3 u16 + u; the reference itself rounds once to bf16:
    |Δ| <= (links * ((1 + u16)^3 (1 + u) - 1) + u) * magnitude
    plus one float32 rounding per addition, which is far below and covered by the last term.
    """
    link = (1.0 + F16_ROUNDOFF) ** 3 * (1.0 + BF16_ROUNDOFF) - 1.0
    return Bound(relative=links * link * 1.01 + 2 * BF16_ROUNDOFF, scale=magnitude)


def attention_blocks(expected: Array) -> Bound:
    """Attention whose keys are taken in blocks, with running sums in float64.

    Rescaling the sums costs a few units of 2^-53 of the sum of absolute terms. The one rounding to the
    result's type turns that into at most one step, unless the terms cancel; then the difference is
    below 2^-40 of the largest result.
    """
    finite = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    return Bound(absolute=2.0**-40 * float(np.max(finite, initial=0.0)), steps=1)
