"""Matrix products: fp8 operands, bf16 results, with what usually follows them.

Sums over K run in accumulators that round to bf16 after every 32 columns.
"""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

from collections.abc import Iterator

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.tile_machine import active_profile
from tilewright.targets.atlas.kernels.blocking import choose_blocking
from tilewright.tile.blocks import Block


def blocks(m: int, k: int, n: int) -> Iterator[tuple[Block, Block]]:
    """Loops over blocks of the result: (rows, columns), the order and sizes the cheapest ones."""
    plan = choose_blocking(m, k, n, active_profile())
    if plan.rows:
        for rows in tw.grid(m, plan.rows, padded=True):
            for columns in tw.grid(n):
                yield rows, columns
    else:
        for columns in tw.grid(n, plan.columns, padded=True):
            for rows in tw.grid(m):
                yield rows, columns


@tw.kernel
def matmul(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
    """a @ b"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = a[m, :] @ b[:, n]


@tw.kernel
def matmul_transposed(a: tw.fp8["M", "K"], b: tw.fp8["N", "K"], out: tw.bf16["M", "N"]):
    """a @ b.T, b stored row by row"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = a[m, :] @ b[n, :].T


@tw.kernel
def batch_matmul(
    a: tw.fp8["B", "M", "K"], b: tw.fp8["B", "K", "N"], out: tw.bf16["B", "M", "N"]
):  # fmt: skip
    """a[i] @ b[i] for each i"""
    for i in tw.each(out.B):
        for m, n in blocks(out.M, a.K, out.N):
            out[i, m, n] = a[i, m, :] @ b[i, :, n]


@tw.kernel
def matmul_bias(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["M", "N"], out: tw.bf16["M", "N"]
):  # fmt: skip
    """a @ b + bias, the bias a full matrix (or a residual)"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = (a[m, :] @ b[:, n]) + bias[m, n]


@tw.kernel
def linear(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):  # fmt: skip
    """a @ b + bias, the bias one row"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = (a[m, :] @ b[:, n]) + bias[n]


@tw.kernel
def linear_residual(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["N"], residual: tw.bf16["M", "N"],
    out: tw.bf16["M", "N"],
):  # fmt: skip
    """a @ b + bias + residual"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = (a[m, :] @ b[:, n]) + bias[n] + residual[m, n]


@tw.kernel
def linear_gelu(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):  # fmt: skip
    """gelu(a @ b + bias)"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = tw.gelu((a[m, :] @ b[:, n]) + bias[n])


@tw.kernel
def linear_silu(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):  # fmt: skip
    """silu(a @ b + bias)"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = tw.silu((a[m, :] @ b[:, n]) + bias[n])


@tw.kernel
def matmul_requant(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.fp8["M", "N"]):
    """fp8 of a @ b"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = tw.to_fp8(a[m, :] @ b[:, n])


@tw.kernel
def linear_scaled(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], scale: tw.bf16["N"], bias: tw.bf16["N"],
    out: tw.bf16["M", "N"],
):  # fmt: skip
    """(a @ b) * scale + bias, a scale and a bias for each column"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = (a[m, :] @ b[:, n]) * scale[n] + bias[n]


@tw.kernel
def linear_requant(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], scale: tw.bf16["N"], bias: tw.bf16["N"],
    out: tw.fp8["M", "N"],
):  # fmt: skip
    """fp8 of (a @ b) * scale + bias, a scale and a bias for each column"""
    for m, n in blocks(out.M, a.K, out.N):
        out[m, n] = tw.to_fp8((a[m, :] @ b[:, n]) * scale[n] + bias[n])


@tw.kernel
def mini_block(
    x: tw.bf16["M", "K"], b: tw.fp8["K", "N"], residual: tw.bf16["M", "N"],
    out: tw.bf16["M", "N"],
):  # fmt: skip
    """rms_norm(x), cast to fp8, times b, plus residual"""
    for m in tw.grid(out.M):
        row = x[m, :]
        scale = tw.rsqrt(tw.row_sum(tw.square(row)) * (1 / x.K) + 1e-6)
        activations = tw.to_fp8(row * scale)
        for n in tw.grid(out.N):
            out[m, n] = (activations @ b[:, n]) + residual[m, n]
