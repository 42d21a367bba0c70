"""Between formats and orders: fp8 and bf16, transposes."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw

LEAST = 1e-30  # stands in for the largest number of a row of zeros


@tw.kernel
def quantise_rows(
    x: tw.bf16["M", "N"], out: tw.fp8["M", "N"], out_step: tw.bf16["M", 16].halves()
):  # fmt: skip
    """fp8 of x in steps that take each row's largest number to 448, and the steps"""
    for m in tw.grid(out.M):
        row = x[m, :]
        step = tw.maximum(tw.row_max(tw.abs(row)), LEAST) * (1 / 448)
        out[m, :] = tw.to_fp8(row, scale=tw.recip(step))
        out_step[m, :] = step


@tw.kernel
def dequant_channels(x: tw.fp8["M", "N"], step: tw.bf16["N"], out: tw.bf16["M", "N"]):
    """bf16 of x * step, a step for each column"""
    for n in tw.grid(out.N):
        for m in tw.grid(out.M):
            out[m, n] = tw.to_bf16(x[m, n]) * step[n]


@tw.kernel
def dequant(x: tw.fp8["M", "N"], out: tw.bf16["M", "N"], *, scale: float = 1.0):
    """bf16 of x / scale, exactly where the scale is 1"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.to_bf16(x[m, n], scale=scale)


@tw.kernel
def transpose(x: tw.fp8["M", "N"], out: tw.fp8["N", "M"]):
    """x with rows and columns exchanged"""
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            out[n, m] = x[m, n].T
