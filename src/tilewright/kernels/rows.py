"""Row by row: reductions, softmax, norms."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw

EPSILON = 1e-6


@tw.kernel
def reduction_sum(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
    """the sum of each row, in 16 equal columns"""
    for m in tw.grid(x.M):
        out[m, :] = tw.row_sum(x[m, :])


@tw.kernel
def reduction_max(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
    """the largest of each row, in 16 equal columns"""
    for m in tw.grid(x.M):
        out[m, :] = tw.row_max(x[m, :])


@tw.kernel
def reduction_mean(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
    """the mean of each row, in 16 equal columns"""
    for m in tw.grid(x.M):
        out[m, :] = tw.row_sum(x[m, :]) * (1 / x.N)


@tw.kernel
def softmax(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """exp(x - row maximum) over its row sum"""
    for m in tw.grid(x.M):
        row = x[m, :]
        powers = tw.exp(row - tw.row_max(row))
        out[m, :] = powers * tw.recip(tw.row_sum(powers))


@tw.kernel
def rms_norm(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """x / sqrt(mean of x^2 + 1e-6), row by row"""
    for m in tw.grid(x.M):
        row = x[m, :]
        out[m, :] = row * tw.rsqrt(tw.row_sum(tw.square(row)) * (1 / x.N) + EPSILON)


@tw.kernel
def rms_norm_weight(x: tw.bf16["M", "N"], weight: tw.bf16["N"], out: tw.bf16["M", "N"]):
    """rms_norm(x) * weight"""
    for m in tw.grid(x.M):
        row = x[m, :]
        scale = tw.rsqrt(tw.row_sum(tw.square(row)) * (1 / x.N) + EPSILON)
        out[m, :] = (row * scale) * weight[:]


@tw.kernel
def layer_norm(
    x: tw.bf16["M", "N"], weight: tw.bf16["N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):
    """(x - mean) / sqrt(variance + 1e-6) * weight + bias, row by row"""
    for m in tw.grid(x.M):
        row = x[m, :]
        centred = row - tw.row_sum(row) * (1 / x.N)
        scale = tw.rsqrt(tw.row_sum(tw.square(centred)) * (1 / x.N) + EPSILON)
        out[m, :] = (centred * scale) * weight[:] + bias[:]
