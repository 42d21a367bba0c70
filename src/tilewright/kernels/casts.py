"""Between formats and orders: fp8 and bf16, transposes."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw


@tw.kernel
def requant(x: tw.bf16["M", "N"], out: tw.fp8["M", "N"]):
    """fp8 of x, saturating at 448"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.to_fp8(x[m, n])


@tw.kernel
def dequant(x: tw.fp8["M", "N"], out: tw.bf16["M", "N"]):
    """bf16 of x, exactly"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.to_bf16(x[m, n])


@tw.kernel
def bias_add_cast(x: tw.bf16["M", "N"], bias: tw.bf16["M", "N"], out: tw.fp8["M", "N"]):
    """fp8 of x + bias"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.to_fp8(x[m, n] + bias[m, n])


@tw.kernel
def transpose(x: tw.fp8["M", "N"], out: tw.fp8["N", "M"]):
    """x with rows and columns exchanged"""
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            out[n, m] = x[m, n].T
