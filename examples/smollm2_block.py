"""A transformer block as SmolLM2 and Llama have it: RMSNorm, grouped heads, RoPE, gated MLP.

    tilewright compile examples.smollm2_block:model -o block.twb

No framework is needed: layers are written with tilewright's builder, weights come from a seed.
"""

from __future__ import annotations

from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.frontend.imported import Imported


def decoder_block(net: ModelBuilder, x: Value, heads: int, kv_heads: int, hidden: int) -> Value:
    """x + attention(norm(x)), then the same with a gated MLP; heads are 64 wide."""
    _, tokens, width = x.shape
    h = net.rms_norm(x, "input_layernorm")
    q = net.heads(net.linear(h, 64 * heads, "q_proj", bias=False), heads)
    k = net.heads(net.linear(h, 64 * kv_heads, "k_proj", bias=False), kv_heads)
    v = net.heads(net.linear(h, 64 * kv_heads, "v_proj", bias=False), kv_heads)
    tables = net.rotary_tables(tokens, 64)
    y = net.attention(net.rope(q, tables), net.rope(k, tables), v, causal=True)
    x = x + net.linear(y, width, "o_proj", bias=False)
    h = net.rms_norm(x, "post_attention_layernorm")
    gate = net.linear(h, hidden, "mlp.gate_proj", bias=False)
    up = net.linear(h, hidden, "mlp.up_proj", bias=False)
    return x + net.linear(net.silu_gate(gate, up), width, "mlp.down_proj", bias=False)


def model(tokens: int = 64) -> Imported:
    """One block of SmolLM2-135M: 576 wide, 9 heads that share 3 for keys and values, MLP of 1536."""
    net = ModelBuilder("smollm2_block")
    x = net.input("x", (1, tokens, 576))
    net.output("y", decoder_block(net, x, heads=9, kv_heads=3, hidden=1536))
    return net.build()
