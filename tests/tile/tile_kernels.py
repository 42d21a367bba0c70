"""Kernels written in the tile language, for its tests."""

from __future__ import annotations

import numpy as np

import tilewright as tw

EVERY_THIRD = np.arange(64) % 3 == 0  # of two tiles down
EVERY_THIRD[32:] = True


@tw.kernel
def linear_gelu(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):
    for n in tw.grid(out.N, 32):
        for m in tw.grid(out.M, 64):
            acc = tw.zeros()
            for k in tw.steps(a.K, 32):
                acc += a[m, k] @ b[k, n]
            out[m, n] = tw.gelu(acc + bias[n])


@tw.kernel
def flash_attention(
    q: tw.fp8["H", "M", "D"],
    k: tw.fp8["H", "N", "D"],
    v: tw.fp8["H", "N", "D"],
    out: tw.bf16["H", "M", "D"],
):
    for h in tw.each(q.H):
        for m in tw.grid(q.M):
            top, total, mixed = tw.state(-100.0), tw.state(0.0), tw.state(0.0)
            for n in tw.steps(k.N):
                s = q[h, m, :] @ k[h, n, :].T
                best = tw.maximum(top, tw.row_max(s))
                fade, p = tw.exp(top - best), tw.exp(s - best)
                total.set(total * fade + tw.row_sum(p))
                mixed.set(mixed * fade + tw.to_fp8(p) @ v[h, n, :])
                top.set(best)
            out[h, m, :] = mixed / total


@tw.kernel
def causal_attention(
    q: tw.fp8["H", "M", "D"],
    k: tw.fp8["H", "N", "D"],
    v: tw.fp8["H", "N", "D"],
    out: tw.bf16["H", "M", "D"],
):
    for h in tw.each(q.H):
        for m in tw.grid(q.M):
            top, total, mixed = tw.state(-100.0), tw.state(0.0), tw.state(0.0)
            for n in tw.steps(k.N, 64, unroll=2):
                s = tw.causal(q[h, m, :] @ k[h, n, :].T, m, n)
                best = tw.maximum(top, tw.row_max(s))
                fade, p = tw.exp(top - best), tw.exp(s - best)
                total.set(total * fade + tw.row_sum(p))
                mixed.set(mixed * fade + tw.to_fp8(p) @ v[h, n, :])
                top.set(best)
            out[h, m, :] = mixed / total


@tw.kernel
def softmax(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        row = x[m, :]
        p = tw.exp(row - tw.row_max(row))
        out[m, :] = p / tw.row_sum(p)


@tw.kernel
def rms_norm(x: tw.bf16["M", "N"], w: tw.bf16["N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        row = x[m, :]
        scale = tw.rsqrt(tw.row_sum(tw.square(row)) * (1 / x.N) + 1e-5)
        out[m, :] = row * scale * w[:]


@tw.kernel
def matmul_transposed(a: tw.fp8["M", "K"], b: tw.fp8["N", "K"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M, 64):
        for n in tw.grid(out.N, 64):
            out[m, n] = a[m, :] @ b[n, :].T


@tw.kernel
def batched(a: tw.fp8["B", "M", "K"], b: tw.fp8["B", "K", "N"], out: tw.bf16["B", "M", "N"]):
    for i in tw.each(a.B):
        for m in tw.grid(a.M):
            for n in tw.grid(b.N):
                out[i, m, n] = a[i, m, :] @ b[i, :, n]


@tw.kernel
def columns(
    x: tw.bf16["M", "N"],
    out_sum: tw.bf16["N"],
    out_max: tw.bf16["N"],
    out_min: tw.bf16["N"],
    out_rows: tw.bf16["M", 1],
):
    for n in tw.grid(x.N):
        block = x[:, n]
        out_sum[n] = tw.col_sum(block)
        out_max[n] = tw.col_max(block)
        out_min[n] = tw.col_min(block)
    for m in tw.grid(x.M):
        out_rows[m, :] = tw.row_min(x[m, :]) - tw.row_sum(x[m, :])


@tw.kernel
def large_sum(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M, 64):
        acc = tw.zeros()
        for k in tw.steps(a.K, 32, unroll=4):
            acc += a[m, k] @ b[k, :]
        out[m, :] = acc * 0.5


@tw.kernel
def masked(
    x: tw.bf16["M", "N"], keep: tw.bf16["M", "N"], gain: tw.bf16["M", 1], out: tw.bf16["M", "N"]
):
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            out[m, n] = tw.where(keep[m, n], x[m, n] * gain[m, :], -2.0)


@tw.kernel
def kept(
    x: tw.bf16[64, 32],
    out: tw.bf16[64, 32],
    out_loaded: tw.bf16[64, 32],
    out_limited: tw.bf16[64, 32],
):
    for m in tw.grid(x.shape[0], 64):
        y = x[m, :]
        out[m, :] = tw.keep(y, EVERY_THIRD)
        out_loaded[m, :] = tw.keep(y, EVERY_THIRD, computed=False)
        out_limited[m, :] = tw.keep(tw.relu(y), EVERY_THIRD, nonnegative=True, highest=6.0)


@tw.kernel
def quantised(x: tw.bf16["M", "N"], out: tw.fp8["M", "N"], out_back: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            small = tw.to_fp8(x[m, n], scale=4)
            out[m, n] = small
            out_back[m, n] = tw.to_bf16(small, scale=4)


@tw.kernel
def grouped(
    q: tw.fp8["Q", "M", "D"],
    k: tw.fp8["G", "N", "D"],
    bias: tw.bf16["Q", "N"].separate(),
    out: tw.bf16["Q", "M", "N"],
):
    for g in tw.each(k.G):
        for i in tw.each(q.Q // k.G):
            h = g * (q.Q // k.G) + i
            for m in tw.grid(q.M):
                out[h, m, :] = (q[h, m, :] @ k[g, :, :].T) + bias[h, :]


@tw.kernel
def elementwise(x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            a, b = x[m, n], y[m, n]
            first = tw.sin(a) + tw.cos(b) - tw.tanh(a * b) / (1.5 + tw.abs(b))
            second = tw.maximum(tw.exp2(a), tw.log2(tw.abs(b))) + tw.minimum(-a, 0.25)
            third = tw.sqrt(tw.abs(a)) * tw.relu(b) + tw.recip(tw.cube(b) + 20) + tw.square(a)
            fourth = tw.sigmoid(a) + tw.silu(b) + tw.log(tw.abs(a) + 1.0) + tw.rsqrt(b * b + 1)
            out[m, n] = first + second + third + fourth


@tw.kernel
def with_options(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"].panels(), out: tw.bf16["M", "N"]):
    tw.options(units=(0, 1), depth=4)
    for m in tw.grid(out.M, 32):
        with tw.options(stationary="activations", units=(1, 1)):
            out[m, :] = a[m, :] @ b[:, :]
