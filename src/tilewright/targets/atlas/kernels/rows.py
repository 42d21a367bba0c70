"""One number of every row, in the left halves of tiles."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.long_rows import over, too_long


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
    if too_long(x.N, 3):
        return over(kind, x.N, lambda n: x[m, n])
    return tw.row_sum(x[m, :]) if kind == "sum" else tw.row_max(x[m, :])
