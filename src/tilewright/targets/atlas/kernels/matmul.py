"""Matrix products that are no kernels of whole models: transposed, of a batch, behind a norm."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.blocking import blocks


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
