"""Models written by hand mean what numpy says they mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.reference.executor import run

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def computed(net: ModelBuilder, y: Value, *arrays: np.ndarray) -> np.ndarray:
    net.output("y", y)
    model = net.build()
    (result,) = run(model.module, list(arrays), weights=model.weights)
    assert model.outputs[0].shape == result.shape
    return result


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_linear_layers_and_norms() -> None:
    net, x = ModelBuilder("net"), normal(3, 5, 8)
    v = net.input("x", x.shape)
    h = net.layer_norm(net.rms_norm(v, "rms"), "layer", 1e-3)
    y = computed(net, net.linear(h, 6, "fc") * 2.0 - 1.0, x)
    w = net.weights
    a = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w["rms.weight"]
    a = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-3)
    a = a * w["layer.weight"] + w["layer.bias"]
    close(y, (a @ w["fc.weight"].T + w["fc.bias"]) * 2 - 1)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
def test_grouped_attention(causal: bool) -> None:
    net = ModelBuilder("net")
    arrays = {"q": normal(2, 6, 4, 8), "k": normal(2, 6, 2, 8), "v": normal(2, 6, 2, 8)}
    q, k, v = (net.input(name, array.shape) for name, array in arrays.items())
    y = computed(net, net.attention(q, k, v, causal=causal), *arrays.values())
    k2, v2 = (np.repeat(arrays[n], 2, axis=2) for n in "kv")
    scores = np.einsum("bqhd,bkhd->bhqk", arrays["q"], k2) / math.sqrt(8)
    if causal:
        scores = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    close(y, np.einsum("bhqk,bkhd->bqhd", softmax(scores), v2).reshape(2, 6, 32))


def test_masks_and_rotation() -> None:
    net, x, mask = ModelBuilder("net"), normal(1, 4, 2, 8), RANDOM.random((1, 4, 4)) < 0.7
    mask |= np.eye(4, dtype=bool)
    v, m = net.input("x", x.shape), net.input("mask", mask.shape, "i1")
    tables = net.rotary_tables(4, 8)
    turned = net.rope(v, tables)
    y = computed(net, net.attention(turned, turned, v, mask=m), x, mask)
    cos, sin = (net.weights[f"rope.{n}.4"] for n in ("cos", "sin"))
    a, b = x[..., :4], x[..., 4:]
    r = np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)
    scores = np.einsum("bqhd,bkhd->bhqk", r, r) / math.sqrt(8)
    scores = np.where(mask[:, None], scores, -np.inf)
    close(y, np.einsum("bhqk,bkhd->bqhd", softmax(scores), x).reshape(1, 4, 16))


def test_images() -> None:
    net, x = ModelBuilder("net"), normal(1, 3, 6, 6)
    v = net.input("x", x.shape)
    h = net.batch_norm(net.conv2d(v, 4, 3, "conv", stride=1, padding=1), "norm")
    y = computed(net, net.average_pool(net.max_pool(net.relu(h), 2), 3), x)
    w, wide = net.weights, np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((1, 4, 6, 6), np.float32)
    for i in range(3):
        for j in range(3):
            part = wide[:, :, i : i + 6, j : j + 6]
            out += np.einsum("bchw,fc->bfhw", part, w["conv.weight"][:, :, i, j])
    out += w["conv.bias"][:, None, None]
    out = np.maximum(out * w["norm.factor"][:, None, None] + w["norm.offset"][:, None, None], 0)
    out = out.reshape(1, 4, 3, 2, 3, 2).max((3, 5))
    close(y, out.mean((2, 3), keepdims=True))


def test_activations_lookups_and_names() -> None:
    net, t = ModelBuilder("net"), np.array([3, 0, 2])
    tokens = net.input("tokens", t.shape, "i64")
    with net.layer("layers.0"):
        x = net.embedding(tokens, 5, 8, "embed")
        h = net.silu_gate(net.silu(x), net.gelu(x)) + net.softmax(x)
    y = computed(net, h, t)
    table = net.weights["layers.0.embed.weight"][t]
    silu = lambda a: a / (1 + np.exp(-a))  # noqa: E731
    gelu = 0.5 * table * (1 + np.tanh(math.sqrt(2 / math.pi) * (table + 0.044715 * table**3)))
    close(y, silu(silu(table)) * gelu + softmax(table))


def test_the_same_seed_gives_the_same_weights() -> None:
    def made(seed: int) -> np.ndarray:
        net = ModelBuilder("net", seed)
        net.linear(net.input("x", (2, 8)), 4, "fc")
        return net.weights["fc.weight"]

    np.testing.assert_array_equal(made(1), made(1))
    assert (made(1) != made(2)).any()


def test_mistakes() -> None:
    net = ModelBuilder("net")
    x = net.input("x", (2, 8))
    for code, mistake in (
        ("TW6301", lambda: net.input("x", (1,))),
        ("TW6302", lambda: net.build()),
        ("TW6303", lambda: net.weight("w", np.zeros(3, np.float64))),
        ("TW6304", lambda: net.reshape(x, (3, 5))),
        ("TW6304", lambda: x + net.input("z", (8,))),
    ):
        with pytest.raises(TilewrightError) as caught:
            mistake()
        assert caught.value.code == code


def test_a_model_is_built_again_with_what_was_added():
    net = ModelBuilder("again", seed=1)
    x = net.input("x", (2, 8))
    net.output("y", net.linear(x, 4, "first"))
    once = net.build()
    assert str(once.module) == str(net.build().module)
    net.output("z", net.linear(x, 3, "second"))
    both = net.build()
    assert [spec.name for spec in both.outputs] == ["y", "z"] and len(once.outputs) == 1
    assert set(both.weights) - set(once.weights) == {"second.weight", "second.bias"}
    rows = np.ones((2, 8), np.float32)
    (y,) = run(once.module, [rows], weights=once.weights)
    np.testing.assert_array_equal(run(both.module, [rows], weights=both.weights)[0], y)
