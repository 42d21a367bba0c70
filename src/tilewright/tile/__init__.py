"""The tile language: kernels in tiles, without transfers, registers or delays.

@tw.kernel
def scale_add(x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = x[m, n] * 2.0 + y[m, n]
"""

from tilewright.tile.kernel import Compiled, Kernel, each, grid, kernel, steps
from tilewright.tile.ops import (
    abs,
    cos,
    cube,
    exp,
    exp2,
    gelu,
    log,
    log2,
    maximum,
    minimum,
    ones,
    park,
    recip,
    relu,
    row_max,
    row_min,
    row_sum,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sqrt,
    square,
    tanh,
    to_bf16,
    to_fp8,
    zeros,
)
from tilewright.tile.types import bf16, fp8

__all__ = [
    "Compiled", "Kernel", "abs", "bf16", "cos", "cube", "each", "exp", "exp2", "fp8", "gelu",
    "grid", "kernel", "log", "log2", "maximum", "minimum", "ones", "park", "recip", "relu", "row_max", "row_min",
    "row_sum", "rsqrt", "sigmoid", "silu", "sin", "sqrt", "square", "steps", "tanh", "to_bf16",
    "to_fp8", "zeros",
]  # fmt: skip
