"""Networks to measure with: a Llama-style decoder and an image block, with random weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.targets.vpu.lowering.network import Network


@dataclass(frozen=True, slots=True)
class Llama:
    """Shapes of a decoder; the defaults are those of a model of about a billion parameters."""

    layers: int = 32
    sequence: int = 512
    hidden: int = 2048
    heads: int = 32
    groups: int = 8  # heads of keys and values
    width: int = 64
    intermediate: int = 5632


def llama(shape: Llama, seed: int = 0) -> Network:
    """f16 residual stream and attention, i8 weights and products, no vocabulary projection."""
    network = Network()
    rng = np.random.default_rng(seed)
    rows, hidden = shape.sequence, shape.hidden
    angles = np.arange(rows)[:, None] / 10000 ** (np.arange(shape.width // 2) * 2 / shape.width)
    cos = network.constant("cos", np.cos(angles).astype(np.float16))
    sin = network.constant("sin", np.sin(angles).astype(np.float16))
    x = network.input("x", (rows, hidden), "f16")
    for layer in range(shape.layers):
        x = _layer(network, rng, shape, f"layers.{layer}", x, cos, sin)
    network.outputs = [x]
    return network


def _weights(
    network: Network, rng: np.random.Generator, name: str, channels: int, inner: int,
    one_scale: bool = False,
) -> str:  # fmt: skip
    data = rng.integers(-127, 128, (channels, inner), dtype=np.int8)
    step = 1.0 / (73 * np.sqrt(inner))  # rows of about unit length
    scale = step if one_scale else step * rng.uniform(0.8, 1.2, channels)
    return network.constant(name, data, scale)


def _layer(
    network: Network, rng: np.random.Generator, shape: Llama, name: str, x: str, cos: str, sin: str
) -> str:  # fmt: skip
    rows, hidden, width = shape.sequence, shape.hidden, shape.width
    query, key = shape.heads * width, shape.groups * width

    def linear(label: str, source: str, columns: int, **more: str) -> str:
        inner = network.values[source].shape[1]
        weight = _weights(network, rng, f"{name}.{label}.weight", columns, inner)
        made = network.value(f"{name}.{label}", (rows, columns), "f16")
        return network.call("linear", made, {"x": source, "weight": weight, **more})

    def norm(label: str, source: str) -> str:
        weight = rng.uniform(0.9, 1.1, hidden).astype(np.float16)
        gain = network.constant(f"{name}.{label}.weight", weight)
        made = network.value(f"{name}.{label}", (rows, hidden), "i8", 4.5 / 127)
        return network.call("rms_norm", made, {"x": source, "weight": gain}, epsilon=1e-5)

    def rotated(label: str, source: str, columns: int) -> str:
        made = network.value(f"{name}.{label}", (rows, columns), "f16")
        operands = {"x": source, "cos": cos, "sin": sin}
        return network.call("rope", made, operands, width=width)

    normed = norm("input_norm", x)
    k = rotated("k_rope", linear("k", normed, key), key)
    weight = _weights(network, rng, f"{name}.v.weight", key, hidden, one_scale=True)
    v = network.value(f"{name}.v", (key, rows), "f16")
    network.call("linear", v, {"x": normed, "weight": weight}, transposed=True)
    q = rotated("q_rope", linear("q", normed, query), query)
    attended = network.value(f"{name}.attention", (rows, query), "i8", 4.0 / 127)
    network.call(
        "attention", attended, {"q": q, "k": k, "v": v}, heads=shape.heads, groups=shape.groups,
        causal=True,
    )  # fmt: skip
    x = linear("o", attended, hidden, residual=x)
    normed = norm("post_norm", x)
    gate = linear("gate", normed, shape.intermediate)
    up = linear("up", normed, shape.intermediate)
    gated = network.value(f"{name}.gated", (rows, shape.intermediate), "i8", 8.0 / 127)
    network.call("silu_gate", gated, {"gate": gate, "up": up})
    return linear("down", gated, hidden, residual=x)


def residual_block(size: int = 56, channels: int = 64, blocks: int = 2, seed: int = 0) -> Network:
    """Images through pairs of 3 x 3 convolutions with a skip, i8 throughout."""
    network = Network()
    rng = np.random.default_rng(seed)
    shape = (1, size, size, channels)
    x = network.input("x", shape, "i8", 0.05)
    for block in range(blocks):
        skip = x
        for number in range(2):
            name = f"block.{block}.conv{number}"
            data = rng.integers(-127, 128, (channels, 3, 3, channels), dtype=np.int8)
            scale = rng.uniform(0.8, 1.2, channels) / (73 * np.sqrt(9 * channels))
            weight = network.constant(f"{name}.weight", data, scale)
            bias = network.constant(
                f"{name}.bias", rng.standard_normal(channels).astype(np.float32)
            )
            made = network.value(name, shape, "i8", 0.05)
            operands = {"x": x, "weight": weight, "bias": bias}
            x = network.call("convolution", made, operands, padding=(1, 1, 1, 1), relu=not number)
        made = network.value(f"block.{block}.add", shape, "i8", 0.05)
        x = network.call("binary", made, {"a": x, "b": skip}, function="add", relu=True)
    network.outputs = [x]
    return network
