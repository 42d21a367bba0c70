"""Kernels of the published tables that no kernel of whole models can stand for.

They stay as the tables have them because the published checks depend on it: attention of bf16
operands that are cast on the way, the running maximum from -100 on and fp8 weights after (not
before) they are divided by their sum; a state that passes through DRAM between programs; a norm, a
cast and a product as one. Kernels of whole models add up weights on a matrix unit, scale queries
before they are stored, and keep what a table stores: other bits, and other operands. `chain_calls`
has the products that leave their sum in an accumulator.

`flash_attention_bf16` keeps the running state on chip; the `attention_acc` kernels do one block
of keys each and pass the state through DRAM. The state of 32 rows is the running maximum, the
running sum and the unscaled result.
"""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

import math

import tilewright.tile as tw

LOWEST = -100.0  # stands in for minus infinity: scores stay above it


def _block(scores, values, state):
    """The state after one more block of keys."""
    block = tw.row_max(scores)
    largest = tw.maximum(state[0], block) if state else tw.maximum(block, LOWEST)
    powers = tw.exp(scores - largest)
    product = tw.to_fp8(powers) @ tw.to_fp8(values)
    if not state:
        return largest, tw.row_sum(powers), product
    fade = tw.exp(state[0] - largest)
    total = fade * state[1] + tw.row_sum(powers)
    return largest, total, state[2] * fade + product


def _scores(q, kt):
    """Scores of fp8 queries."""
    return (q @ tw.to_fp8(kt)) * (1 / math.sqrt(q.shape[1]))


@tw.kernel
def attention_tile(
    q: tw.fp8["M", "D"], kt: tw.fp8["D", "S"], v: tw.fp8["S", "E"], out: tw.bf16["M", "E"]
):  # fmt: skip
    """softmax(q @ kt / sqrt(D)) @ v with the whole row of scores on chip, P cast to fp8"""
    for m in tw.grid(out.M):
        scores = (q[m, :] @ kt[:, :]) * (1 / math.sqrt(q.D))
        powers = tw.exp(scores - tw.row_max(scores))
        shares = powers * tw.recip(tw.row_sum(powers))
        out[m, :] = tw.to_fp8(shares) @ v[:, :]


@tw.kernel
def flash_attention_bf16(
    q: tw.bf16["M", "D"], kt: tw.bf16["D", "S"].panels(), v: tw.bf16["S", "D"],
    out: tw.bf16["M", "D"],
):  # fmt: skip
    """softmax(q @ kt / sqrt(D)) @ v, 32 keys at a time"""
    for m in tw.grid(out.M):
        state, queries = (tw.state(), tw.state(), tw.state()), tw.to_fp8(q[m, :])
        started = False
        for s in tw.steps(kt.S):
            after = _block(_scores(queries, kt[:, s]), v[s, :], state if started else None)
            for kept, new in zip(state, after, strict=True):
                kept.set(new)
            started = True
        _, total, result = state
        out[m, :] = result * tw.recip(total)


@tw.kernel
def attention_acc_first(
    q: tw.bf16[32, "D"], kt: tw.bf16["D", 32], v: tw.bf16[32, "D"],
    out_largest: tw.bf16[32, 16].halves(), out_total: tw.bf16[32, 16].halves(),
    out_result: tw.bf16[32, "D"],
):  # fmt: skip
    """the state after the first 32 keys"""
    out_largest[:, :], out_total[:, :], out_result[:, :] = _block(
        _scores(tw.to_fp8(q[:, :]), kt[:, :]), v[:, :], None
    )


@tw.kernel
def attention_acc_mid(
    q: tw.bf16[32, "D"], kt: tw.bf16["D", 32], v: tw.bf16[32, "D"],
    largest: tw.bf16[32, 16].halves(), total: tw.bf16[32, 16].halves(), result: tw.bf16[32, "D"],
    out_largest: tw.bf16[32, 16].halves(), out_total: tw.bf16[32, 16].halves(),
    out_result: tw.bf16[32, "D"],
):  # fmt: skip
    """the state after 32 more keys"""
    state = largest[:, :], total[:, :], result[:, :]
    out_largest[:, :], out_total[:, :], out_result[:, :] = _block(
        _scores(tw.to_fp8(q[:, :]), kt[:, :]), v[:, :], state
    )


@tw.kernel
def attention_acc_last(
    q: tw.bf16[32, "D"], kt: tw.bf16["D", 32], v: tw.bf16[32, "D"],
    largest: tw.bf16[32, 16].halves(), total: tw.bf16[32, 16].halves(), result: tw.bf16[32, "D"],
    out: tw.bf16[32, "D"],
):  # fmt: skip
    """the attention after the last 32 keys"""
    state = largest[:, :], total[:, :], result[:, :]
    _, total_after, result_after = _block(_scores(tw.to_fp8(q[:, :]), kt[:, :]), v[:, :], state)
    out[:, :] = result_after * tw.recip(total_after)


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
