"""Models to try the compiler on, each a function that returns one; sizes are those of real ones.

    tilewright compile examples.networks:siglip -o siglip.twb
    python benchmarks/models.py

Weights come from a seed. Every size is a parameter, so that tests can take small ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.frontend.imported import Imported

sys.path.insert(0, str(Path(__file__).parent))  # also when this is a module of a package

from smollm2_block import decoder_block
from smollm2_block import model as smollm2_block


def mlp(rows: int = 64, width: int = 256, hidden: int = 1024, layers: int = 2) -> Imported:
    """Linear layers with ReLU between."""
    net = ModelBuilder("mlp")
    x = net.input("x", (rows, width))
    for number in range(layers - 1):
        x = net.relu(net.linear(x, hidden, f"layers.{number}"))
    net.output("y", net.linear(x, width, f"layers.{layers - 1}"))
    return net.build()


def cnn(size: int = 32, channels: int = 32, classes: int = 10) -> Imported:
    """Two convolutions with batch norm and pooling, and a classifier."""
    net = ModelBuilder("cnn")
    x = net.input("x", (1, 3, size, size))
    x = net.conv2d(x, channels, 3, "conv1", padding=1)
    x = net.max_pool(net.relu(net.batch_norm(x, "bn1")), 2)
    x = net.conv2d(x, 2 * channels, 3, "conv2", padding=1)
    x = net.relu(net.batch_norm(x, "bn2"))
    x = net.average_pool(x, size // 2)
    net.output("y", net.linear(net.reshape(x, (1, 2 * channels)), classes, "classifier"))
    return net.build()


def decoder(
    tokens: int = 241,
    width: int = 960,
    heads: int = 15,
    kv_heads: int = 5,
    hidden: int = 2560,
    layers: int = 1,
) -> Imported:
    """Blocks of a Llama-style decoder with causal attention."""
    net = ModelBuilder("decoder")
    x = net.input("x", (1, tokens, width))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            x = decoder_block(net, x, heads, kv_heads, hidden)
    net.output("y", x)
    return net.build()


def siglip(
    tokens: int = 1024,
    width: int = 768,
    heads: int = 12,
    hidden: int = 3072,
    layers: int = 1,
    batch: int = 1,
) -> Imported:
    """Blocks of a vision transformer: norms first, biases, tanh GELU, no mask."""
    net = ModelBuilder("siglip")
    x = net.input("x", (batch, tokens, width))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            x = x + self_attention(net, net.layer_norm(x, "layer_norm1"), heads)
            h = net.linear(net.layer_norm(x, "layer_norm2"), hidden, "fc1")
            x = x + net.linear(net.gelu(h), width, "fc2")
    net.output("y", x)
    return net.build()


def bert(
    tokens: int = 128,
    width: int = 768,
    heads: int = 12,
    hidden: int = 3072,
    layers: int = 1,
    batch: int = 1,
) -> Imported:
    """Encoder layers of BERT: norms after the sums, exact GELU, no mask."""
    net = ModelBuilder("bert")
    x = net.input("x", (batch, tokens, width))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            x = net.layer_norm(x + self_attention(net, x, heads), "attention_norm", 1e-12)
            h = net.gelu(net.linear(x, hidden, "intermediate"), tanh=False)
            x = net.layer_norm(x + net.linear(h, width, "output"), "output_norm", 1e-12)
    net.output("y", x)
    return net.build()


def self_attention(net: ModelBuilder, x: Value, heads: int) -> Value:
    width = x.shape[-1]
    q, k, v = (net.heads(net.linear(x, width, f"{name}_proj"), heads) for name in "qkv")
    return net.linear(net.attention(q, k, v), width, "out_proj")


def expert(
    tokens: int = 50,
    keys: int = 241,
    width: int = 720,
    heads: int = 15,
    kv_heads: int = 5,
    hidden: int = 2048,
    layers: int = 1,
) -> Imported:
    """Blocks of an action expert: queries of its own, keys and values from another model's cache."""
    net = ModelBuilder("expert")
    x = net.input("x", (1, tokens, width))
    narrow = 64 * kv_heads
    past_k = net.input("past_k", (1, keys, narrow))
    past_v = net.input("past_v", (1, keys, narrow))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            h = net.rms_norm(x, "input_layernorm")
            q = net.heads(net.linear(h, 64 * heads, "q_proj", bias=False), heads)
            k = net.heads(net.linear(past_k, narrow, "k_proj", bias=False), kv_heads)
            v = net.heads(net.linear(past_v, narrow, "v_proj", bias=False), kv_heads)
            y = net.attention(net.rope(q, net.rotary_tables(tokens, 64)), k, v)
            x = x + net.linear(y, width, "o_proj", bias=False)
            h = net.rms_norm(x, "post_attention_layernorm")
            gate = net.linear(h, hidden, "mlp.gate_proj", bias=False)
            up = net.linear(h, hidden, "mlp.up_proj", bias=False)
            x = x + net.linear(net.silu_gate(gate, up), width, "mlp.down_proj", bias=False)
    net.output("y", x)
    return net.build()


MODELS: dict[str, Callable[[], Imported]] = {
    "mlp": mlp,
    "cnn": cnn,
    "bert layer 128x768": bert,
    "smollm2 block 64x576": smollm2_block,
    "decoder block 241x960": decoder,
    "decoder block 1024x960": lambda: decoder(tokens=1024),
    "decoder block 2048x960": lambda: decoder(tokens=2048),
    "siglip block 1024x768": siglip,
    "expert block 50x720": expert,
    "bert layer 8x128x768": lambda: bert(batch=8),
    "vision block 16x197x768": lambda: siglip(batch=16, tokens=197),
    "vision block 2x577x1024": lambda: siglip(577, 1024, 16, 4096, batch=2),
    "siglip block 3x1024x768": lambda: siglip(batch=3),
    "4 mlp layers": lambda: mlp(layers=5),
    "4 bert layers": lambda: bert(layers=4),
    "4 decoder blocks": lambda: decoder(layers=4),
    "4 siglip blocks": lambda: siglip(layers=4),
    "4 expert blocks": lambda: expert(layers=4),
    "16 decoder blocks": lambda: decoder(layers=16),
}
