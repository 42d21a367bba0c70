"""Element by element: rows and columns that are repeated, rotations."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw


@tw.kernel
def add_row(a: tw.bf16["M", "N"], row: tw.bf16["N"], out: tw.bf16["M", "N"]):
    """a + row, the row repeated for each row of a"""
    for n in tw.grid(out.N):
        for m in tw.grid(out.M):
            out[m, n] = a[m, n] + row[n]


@tw.kernel
def mul_row(a: tw.bf16["M", "N"], row: tw.bf16["N"], out: tw.bf16["M", "N"]):
    """a * row, the row repeated for each row of a"""
    for n in tw.grid(out.N):
        for m in tw.grid(out.M):
            out[m, n] = a[m, n] * row[n]


@tw.kernel
def add_column(a: tw.bf16["M", "N"], column: tw.bf16["M", 1], out: tw.bf16["M", "N"]):
    """a + column, the column repeated for each column of a"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] + column[m, :]


@tw.kernel
def mul_column(a: tw.bf16["M", "N"], column: tw.bf16["M", 1], out: tw.bf16["M", "N"]):
    """a * column, the column repeated for each column of a"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] * column[m, :]


@tw.kernel
def rope(
    x: tw.bf16["M", "D"], cosines: tw.bf16["M", "D"], sines: tw.bf16["M", "D"],
    out: tw.bf16["M", "D"],
):  # fmt: skip
    """rotate each pair (x[i], x[i + D/2]) by the angle whose cosine and sine the tables hold"""
    low, high = tw.steps(out.D, out.D // 2)
    for m in tw.grid(out.M):
        out[m, low] = x[m, low] * cosines[m, low] - x[m, high] * sines[m, low]
        out[m, high] = x[m, high] * cosines[m, high] + x[m, low] * sines[m, high]


@tw.kernel
def rope_angles(x: tw.bf16["M", "D"], angles: tw.bf16["M", "H"], out: tw.bf16["M", "D"]):
    """rope with cosines and sines computed from the angles of the D/2 pairs"""
    low, high = tw.steps(out.D, out.D // 2)
    for m in tw.grid(out.M):
        cosines, sines = tw.cos(angles[m, :]), tw.sin(angles[m, :])
        out[m, low] = x[m, low] * cosines - x[m, high] * sines
        out[m, high] = x[m, high] * cosines + x[m, low] * sines
