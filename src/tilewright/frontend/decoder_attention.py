"""Attention whose scores are capped, spelled out: no machine has a kernel for it as one operation."""

from __future__ import annotations

from tilewright.frontend.builder import ModelBuilder, Value


def capped_attention(
    net: ModelBuilder, q: Value, k: Value, v: Value, mask: Value, scale: float, cap: float
) -> Value:
    """softmax(cap tanh(scale q k^T / cap) + mask) v of [1, tokens, heads, width], heads side by side.

    Heads that read the same keys are rows of one product.
    """
    _, tokens, heads, width = q.shape
    keys, groups = k.shape[1], k.shape[2]
    rows = heads // groups * tokens
    queries = net.reshape(net.transpose(q, (0, 2, 1, 3)), (1, groups, rows, width))
    scores = net.matmul(queries, net.transpose(k, (0, 2, 3, 1))) * (scale / cap)
    capped = net.reshape(net.unary("elementwise_tanh", scores) * cap, (1, heads, tokens, keys))
    hidden = net.spread(capped, net.reshape(mask, (1, tokens, keys)), (0, 2, 3), "add")
    weights = net.reshape(net.softmax(hidden), (1, groups, rows, keys))
    mixed = net.matmul(weights, net.transpose(v, (0, 2, 1, 3)))
    mixed = net.reshape(mixed, (1, heads, tokens, v.shape[3]))
    return net.reshape(net.transpose(mixed, (0, 2, 1, 3)), (1, tokens, heads * v.shape[3]))
