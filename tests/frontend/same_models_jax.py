"""The four models as JAX functions of (weights, x), in the spellings JAX users have."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from same_models import EPSILON, HEADS, KV_HEADS, weights_of

Tree = dict[str, dict[str, Any]]


def tree_of(model: str) -> Tree:
    """Weights as a tree: fc1.weight is tree["fc1"]["weight"]."""
    tree: Tree = {}
    for name, array in weights_of(model).items():
        layer, _, leaf = name.partition(".")
        tree.setdefault(layer, {})[leaf] = jnp.asarray(array)
    return tree


def linear(layer: Mapping[str, Any], x: Any) -> Any:
    y = x @ layer["weight"].T
    return y + layer["bias"] if "bias" in layer else y


def mlp(weights: Tree, x: Any) -> Any:
    return linear(weights["fc2"], jax.nn.gelu(linear(weights["fc1"], x), approximate=True))


def conv(layer: Mapping[str, Any], x: Any, stride: int) -> Any:
    y = jax.lax.conv_general_dilated(x, layer["weight"], (stride, stride), [(1, 1), (1, 1)])
    return y + layer["bias"][:, None, None]


def cnn(weights: Tree, x: Any) -> Any:
    bn = weights["bn"]
    x = conv(weights["conv1"], x, 1)
    scale = bn["weight"] * jax.lax.rsqrt(bn["running_var"] + EPSILON)
    x = (x - bn["running_mean"][:, None, None]) * scale[:, None, None] + bn["bias"][:, None, None]
    x = jax.nn.relu(x)
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = jax.nn.relu(conv(weights["conv2"], x, 2))
    return linear(weights["fc"], x.mean((2, 3)))


def split(x: Any, heads: int) -> Any:
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


def encoder(weights: Tree, x: Any) -> Any:
    def norm(layer: Mapping[str, Any], x: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + EPSILON) * layer["weight"] + layer["bias"]

    q, k, v = (split(linear(weights[name], x), HEADS) for name in ("q", "k", "v"))
    mixed = jax.nn.dot_product_attention(q, k, v).reshape(x.shape)
    x = norm(weights["norm1"], x + linear(weights["o"], mixed))
    h = jax.nn.gelu(linear(weights["fc1"], x), approximate=False)
    return norm(weights["norm2"], x + linear(weights["fc2"], h))


def llama(weights: Tree, x: Any) -> Any:
    def norm(layer: Mapping[str, Any], x: Any) -> Any:
        mean = jnp.mean(jnp.square(x), -1, keepdims=True)
        return x * jax.lax.rsqrt(mean + EPSILON) * layer["weight"]

    def turned(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
        cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    h = norm(weights["norm1"], x)
    q = turned(split(linear(weights["q"], h), HEADS))
    k = turned(split(linear(weights["k"], h), KV_HEADS))
    v = split(linear(weights["v"], h), KV_HEADS)
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
    x = x + linear(weights["o"], mixed)
    h = norm(weights["norm2"], x)
    gated = jax.nn.silu(linear(weights["gate"], h)) * linear(weights["up"], h)
    return x + linear(weights["down"], gated)


FUNCTIONS: dict[str, Callable[[Tree, Any], Any]] = {
    "mlp": mlp,
    "cnn": cnn,
    "encoder": encoder,
    "llama": llama,
}
