"""Small models written by hand, of the kinds that matter: sizes that are not whole tiles, biases,
grouped heads, rotary embeddings, masks, layers that repeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hand_made import AtlasModel
from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def mlp() -> Imported:
    net = ModelBuilder("mlp", seed=1)
    x = net.input("x", (45, 70))
    hidden = net.gelu(net.linear(x, 100, "up"))
    net.output("y", net.linear(hidden, 40, "down"))
    return net.build()


def tiny_mlp() -> Imported:
    net = ModelBuilder("tiny_mlp", seed=2)
    x = net.input("x", (33, 40))
    net.output("y", net.linear(net.relu(net.linear(x, 64, "up")), 40, "down"))
    return net.build()


def encoder(layers: int = 2) -> Imported:
    """Layers as of BERT or SigLIP on a batch of two: layer norms, biases, gelu."""
    net = ModelBuilder("encoder", seed=3)
    x = net.input("x", (2, 45, 64))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            normed = net.layer_norm(x, "norm1")
            q, k, v = (net.heads(net.linear(normed, 64, f"attention.{part}"), 2) for part in "qkv")
            mixed = net.attention(q, k, v, "attention")
            x = x + net.linear(mixed, 64, "attention.out")
            normed = net.layer_norm(x, "norm2")
            x = x + net.linear(net.gelu(net.linear(normed, 96, "mlp.up")), 64, "mlp.down")
    net.output("y", net.layer_norm(x, "last"))
    return net.build()


def _decoder_layer(net: ModelBuilder, x: Value, tables: tuple[Value, Value]) -> Value:
    normed = net.rms_norm(x, "norm1")
    q = net.rope(net.heads(net.linear(normed, 128, "q", bias=False), 4), tables)
    k = net.rope(net.heads(net.linear(normed, 64, "k", bias=False), 2), tables)
    v = net.heads(net.linear(normed, 64, "v", bias=False), 2)
    x = x + net.linear(net.attention(q, k, v, causal=True), x.shape[-1], "o", bias=False)
    normed = net.rms_norm(x, "norm2")
    gate = net.linear(normed, 160, "mlp.gate", bias=False)
    up = net.linear(normed, 160, "mlp.up", bias=False)
    return x + net.linear(net.silu_gate(gate, up), x.shape[-1], "mlp.down", bias=False)


def decoder(layers: int = 3) -> Imported:
    """Layers as of Llama: grouped heads, rotary embeddings, a causal mask, gated mlp."""
    net = ModelBuilder("decoder", seed=4)
    x = net.input("x", (1, 37, 96))
    tables = net.rotary_tables(37, 32)
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            x = _decoder_layer(net, x, tables)
    net.output("y", x)
    return net.build()


def cross() -> Imported:
    """Attention from one sequence to another under a mask, and the sum as a second result."""
    net = ModelBuilder("cross", seed=5)
    x, other = net.input("x", (1, 20, 64)), net.input("other", (1, 50, 40))
    mask = net.input("mask", (1, 20, 50), "i1")
    q = net.heads(net.linear(net.rms_norm(x, "norm"), 64, "q"), 2)
    k = net.heads(net.linear(other, 64, "k"), 2)
    v = net.heads(net.linear(other, 64, "v"), 2)
    mixed = net.attention(q, k, v, mask=mask)
    y = x + net.linear(mixed, 64, "o")
    net.output("y", y)
    net.output("z", net.silu(y) * 0.5)
    return net.build()


def prefix() -> Imported:
    """New tokens attend to cached ones and to each other, under a mask, in two layers; the cache of
    the second has its heads first."""
    net = ModelBuilder("prefix", seed=6)
    x = net.input("x", (1, 20, 96))
    mask = net.input("mask", (1, 20, 70), "i1")
    tables = net.rotary_tables(20, 64)
    for number in range(2):
        with net.layer(f"layers.{number}"):
            shape = (1, 2, 50, 64) if number else (1, 50, 2, 64)
            past = [net.input(f"past_{part}{number}", shape) for part in "kv"]
            if number:
                past = [net.transpose(x, (0, 2, 1, 3)) for x in past]
            normed = net.rms_norm(x, "norm1")
            q = net.rope(net.heads(net.linear(normed, 256, "q"), 4), tables)
            k = net.rope(net.heads(net.linear(normed, 128, "k"), 2), tables)
            v = net.heads(net.linear(normed, 128, "v"), 2)
            keys, values = (net.concat(pair, 1) for pair in zip(past, (k, v), strict=True))
            x = x + net.linear(net.attention(q, keys, values, mask=mask), 96, "o")
    net.output("y", x)
    return net.build()


def decode() -> Imported:
    """One token after others whose keys and values are in a cache of fixed size."""
    net = ModelBuilder("decode", seed=7)
    token, position = net.input("token", (1, 1), "i64"), net.input("position", (1,), "i64")
    x = net.embedding(token, 40, 96, "embed")
    tables = net.rotary_tables(1, 64)
    for number in range(2):
        with net.layer(f"layers.{number}"):
            caches = [net.input(f"{part}{number}", (1, 70, 2, 64)) for part in "kv"]
            normed = net.rms_norm(x, "norm1")
            q = net.rope(net.heads(net.linear(normed, 256, "q"), 4), tables)
            k = net.rope(net.heads(net.linear(normed, 128, "k"), 2), tables)
            v = net.heads(net.linear(normed, 128, "v"), 2)
            keys, values = (net.cached(c, n, position) for c, n in zip(caches, (k, v), strict=True))
            x = x + net.linear(net.attention(q, keys, values), 96, "o")
            net.output(f"k{number}.next", keys)
            net.output(f"v{number}.next", values)
    net.output("y", x)
    return net.build()


def tiny_decoder() -> Imported:
    return decoder(2)


MODELS: dict[str, Callable[[], Imported]] = {
    "mlp": mlp,
    "tiny_mlp": tiny_mlp,
    "encoder": encoder,
    "decoder": decoder,
    "decoder_2": tiny_decoder,
    "cross": cross,
    "prefix": prefix,
    "decode": decode,
}


@cache
def imported(name: str) -> Imported:
    return MODELS[name]()


def compiled(
    name: str, profile: str = "atlas-v1", fuse: bool = True, rounds: bool = True
) -> AtlasModel:
    """One of the models, compiled once for all tests."""
    return _compiled(name, profile, fuse, rounds)


@cache
def _compiled(name: str, profile: str, fuse: bool, rounds: bool) -> AtlasModel:
    options = CompileOptions(fuse=fuse, layer_loops=rounds, accuracy=True)
    return compile_model(imported(name), load_profile(profile), options)
