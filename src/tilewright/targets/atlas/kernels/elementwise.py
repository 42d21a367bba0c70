"""Element by element: arithmetic with broadcasts, activations, and small fusions of them."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import tilewright.tile as tw


@tw.kernel
def elementwise_add(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """a + b"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] + b[m, n]


@tw.kernel
def elementwise_sub(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """a - b"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] - b[m, n]


@tw.kernel
def elementwise_mul(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """a * b"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] * b[m, n]


@tw.kernel
def elementwise_div(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """a times the rounded reciprocal of b"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] / b[m, n]


@tw.kernel
def elementwise_max(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """the larger of a and b"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.maximum(a[m, n], b[m, n])


@tw.kernel
def elementwise_min(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """the smaller of a and b"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.minimum(a[m, n], b[m, n])


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
def silu(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """x / (1 + exp(-x))"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.silu(x[m, n])


@tw.kernel
def silu_gate(gate: tw.bf16["M", "N"], up: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """silu(gate) * up"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.silu(gate[m, n]) * up[m, n]


@tw.kernel
def gelu_tanh(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.gelu(x[m, n])


@tw.kernel
def cos(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """cos(x), also known as rope_frequency"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.cos(x[m, n])


@tw.kernel
def exp(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """e to the x"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.exp(x[m, n])


@tw.kernel
def tanh(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """tanh(x)"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.tanh(x[m, n])


@tw.kernel
def sigmoid(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """1 / (1 + exp(-x))"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.sigmoid(x[m, n])


@tw.kernel
def relu(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """x where positive, else 0"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.relu(x[m, n])


@tw.kernel
def norm_scale(
    variance: tw.bf16["M", "N"], matrix: tw.bf16["M", "N"], out: tw.bf16["M", "N"]
):  # fmt: skip
    """matrix / sqrt(variance)"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = matrix[m, n] * tw.rsqrt(variance[m, n])


@tw.kernel
def vector_arithmetic(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """((x + x) - x)^2 * x^3"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            tile = x[m, n]
            out[m, n] = tw.square((tile + tile) - tile) * tw.cube(tile)


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
