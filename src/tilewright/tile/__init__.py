"""The tile language: kernels in tiles, without transfers, registers or delays.

@tw.kernel
def scale_add(x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = x[m, n] * 2.0 + y[m, n]
"""

from tilewright.tile.kernel import Kernel, kernel
from tilewright.tile.loops import before, each, grid, options, side, steps
from tilewright.tile.machine import CompiledKernel
from tilewright.tile.masks import causal, keep, where
from tilewright.tile.ops import (
    abs,
    accumulator,
    col_max,
    col_min,
    col_sum,
    cos,
    cube,
    exp,
    exp2,
    full,
    gelu,
    log,
    log2,
    maximum,
    minimum,
    neutral,
    ones,
    park,
    recip,
    relu,
    row_max,
    row_min,
    row_sum,
    rsqrt,
    scratch,
    sigmoid,
    silu,
    sin,
    sqrt,
    square,
    state,
    tanh,
    to_bf16,
    to_fp8,
    to_operand,
    to_value,
    transpose,
    zeros,
)
from tilewright.tile.row_products import row_products
from tilewright.tile.types import bf16, f16, fp8, operand, value

Compiled = CompiledKernel

__all__ = [
    "Compiled", "CompiledKernel", "Kernel", "abs", "accumulator", "before", "bf16", "causal", "col_max", "col_min",
    "col_sum", "cos", "cube", "each", "exp", "exp2", "f16", "fp8", "full", "gelu", "grid", "keep", "kernel", "log",
    "log2", "maximum", "minimum", "neutral", "ones", "operand", "options", "park", "recip", "relu", "row_max", "row_min", "row_products", "row_sum",
    "rsqrt", "scratch", "side", "sigmoid", "silu", "sin", "sqrt", "square", "state", "steps", "tanh", "to_bf16",
    "to_fp8", "to_operand", "to_value", "transpose", "value", "where", "zeros",
]  # fmt: skip
