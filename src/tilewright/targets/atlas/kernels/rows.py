"""Row by row: reductions, softmax, norms.

Rows stay on chip from their first use to their last. Rows that are too long for that are read once
for every pass over them; the order of operations, and so every bit, is the same.
"""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.tile_machine import active_profile

EPSILON = 1e-6


def _long(columns, copies):
    """Whether so many copies of 32 rows do not fit on the chip."""
    return -(-columns // 32) * 2048 * copies > active_profile().vmem_bytes


def _over(kind, columns, tile):
    """The sum or maximum of `tile` over all columns, 32 at a time, in every row."""
    total, started = tw.state(), False
    for n in tw.steps(columns):
        part = tw.neutral(tile(n), kind)
        if started:
            total.set(total + part if kind == "sum" else tw.maximum(total, part))
        else:
            total.set(part)
        started = True
    return tw.row_sum(total) if kind == "sum" else tw.row_max(total)


@tw.kernel
def reduction_sum(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
    """the sum of each row, in 16 equal columns"""
    for m in tw.grid(x.M):
        out[m, :] = _reduced("sum", x, m)


@tw.kernel
def reduction_max(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
    """the largest of each row, in 16 equal columns"""
    for m in tw.grid(x.M):
        out[m, :] = _reduced("max", x, m)


@tw.kernel
def reduction_mean(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
    """the mean of each row, in 16 equal columns"""
    for m in tw.grid(x.M):
        out[m, :] = _reduced("sum", x, m) * (1 / x.N)


def _reduced(kind, x, m):
    if _long(x.N, 3):
        return _over(kind, x.N, lambda n: x[m, n])
    return tw.row_sum(x[m, :]) if kind == "sum" else tw.row_max(x[m, :])


@tw.kernel
def softmax(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """exp(x - row maximum) over its row sum"""
    for m in tw.grid(x.M):
        if _long(x.N, 4):
            top = _over("max", x.N, lambda n: x[m, n])
            share = tw.recip(_over("sum", x.N, lambda n: tw.exp(x[m, n] - top)))
            for n in tw.grid(x.N):
                out[m, n] = tw.exp(x[m, n] - top) * share
        else:
            row = x[m, :]
            powers = tw.exp(row - tw.row_max(row))
            out[m, :] = powers * tw.recip(tw.row_sum(powers, nonnegative=True))


@tw.kernel
def rms_norm(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """x / sqrt(mean of x^2 + 1e-6), row by row"""
    for m in tw.grid(x.M):
        row, scale = _normal(x, m)
        for n in _columns(x.N):
            out[m, n] = row(n) * scale


@tw.kernel
def rms_norm_weight(x: tw.bf16["M", "N"], weight: tw.bf16["N"], out: tw.bf16["M", "N"]):
    """rms_norm(x) * weight"""
    for m in tw.grid(x.M):
        row, scale = _normal(x, m)
        for n in _columns(x.N):
            out[m, n] = (row(n) * scale) * weight[n]


@tw.kernel
def layer_norm(
    x: tw.bf16["M", "N"], weight: tw.bf16["N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):
    """(x - mean) / sqrt(variance + 1e-6) * weight + bias, row by row"""
    for m in tw.grid(x.M):
        row, scale = _normal(x, m, centre=True)
        for n in _columns(x.N):
            out[m, n] = (row(n) * scale) * weight[n] + bias[n]


def _normal(x, m, centre=False):
    """Columns of a row of blocks, less their mean if wanted, and 1 / sqrt(mean square + 1e-6)."""
    if _long(x.N, 5):
        mean = _over("sum", x.N, lambda n: x[m, n]) * (1 / x.N) if centre else None
        row = (lambda n: x[m, n] - mean) if centre else (lambda n: x[m, n])
        squares = _over("sum", x.N, lambda n: tw.square(row(n)))
    else:
        whole = x[m, :]
        whole = whole - tw.row_sum(whole) * (1 / x.N) if centre else whole
        row = lambda n: whole
        squares = tw.row_sum(tw.square(whole), nonnegative=True)
    return row, tw.rsqrt(squares * (1 / x.N) + EPSILON)


def _columns(columns):
    """All columns at once, or 32 at a time where that is too many."""
    return tw.grid(columns) if _long(columns, 5) else [slice(None)]
