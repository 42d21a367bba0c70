"""Four small models with one set of weights: what they are, and what they give.

The same models are written in JAX, torch, ONNX and linalg text beside this file; `expected` computes
them plainly in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Weights = dict[str, Array]

EPSILON = 1e-5
HEADS, KV_HEADS = 4, 2

# Name of a weight -> shape; the kind of numbers follows from the name.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {
        "fc1.weight": (24, 16), "fc1.bias": (24,), "fc2.weight": (8, 24), "fc2.bias": (8,),
    },
    "cnn": {
        "conv1.weight": (6, 3, 3, 3), "conv1.bias": (6,), "bn.weight": (6,), "bn.bias": (6,),
        "bn.running_mean": (6,), "bn.running_var": (6,), "conv2.weight": (8, 6, 3, 3),
        "conv2.bias": (8,), "fc.weight": (5, 8), "fc.bias": (5,),
    },
    "encoder": {
        **{f"{name}.weight": (32, 32) for name in ("q", "k", "v", "o")},
        **{f"{name}.bias": (32,) for name in ("q", "k", "v", "o")},
        "norm1.weight": (32,), "norm1.bias": (32,), "norm2.weight": (32,), "norm2.bias": (32,),
        "fc1.weight": (48, 32), "fc1.bias": (48,), "fc2.weight": (32, 48), "fc2.bias": (32,),
    },
    "llama": {
        "q.weight": (32, 32), "k.weight": (16, 32), "v.weight": (16, 32), "o.weight": (32, 32),
        "norm1.weight": (32,), "norm2.weight": (32,), "gate.weight": (40, 32),
        "up.weight": (40, 32), "down.weight": (32, 40),
    },
}  # fmt: skip
INPUTS = {"mlp": (5, 16), "cnn": (2, 3, 10, 10), "encoder": (2, 6, 32), "llama": (1, 7, 32)}
MODELS = tuple(SHAPES)


def weights_of(model: str) -> Weights:
    """Seeded weights: small matrices, norms near 1, variances positive."""
    random = np.random.default_rng(sum(map(ord, model)))
    found: Weights = {}
    for name, shape in SHAPES[model].items():
        values = random.standard_normal(shape)
        if len(shape) > 1:
            values = values / math.sqrt(math.prod(shape[1:]))
        elif name.endswith("running_var"):
            values = np.abs(values) + 0.5
        elif name.startswith(("norm", "bn")) and name.endswith("weight"):
            values = 1.0 + 0.1 * values
        else:
            values = 0.1 * values
        found[name] = values.astype(np.float32)
    return found


def input_of(model: str) -> Array:
    random = np.random.default_rng(7)
    return random.standard_normal(INPUTS[model]).astype(np.float32)


def rotary_tables(tokens: int, width: int) -> tuple[Array, Array]:
    """Cosine and sine for every token and pair."""
    half = width // 2
    angles = np.arange(tokens)[:, None] * 10000.0 ** (-np.arange(half) / half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


# ------------------------------------------------------------------------------- what they give


def expected(model: str) -> Array:
    """The result in float64."""
    weights = {name: array.astype(np.float64) for name, array in weights_of(model).items()}
    return PLAIN[model](weights, input_of(model).astype(np.float64))


def _linear(w: Mapping[str, Array], name: str, x: Array) -> Array:
    y = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def _mlp(w: Mapping[str, Array], x: Array) -> Array:
    h = _linear(w, "fc1", x)
    h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    return _linear(w, "fc2", h)


def _conv(x: Array, w: Array, b: Array, stride: int) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.einsum("ncyxij,ocij->noyx", windows, w) + b[:, None, None]


def _cnn(w: Mapping[str, Array], x: Array) -> Array:
    h = _conv(x, w["conv1.weight"], w["conv1.bias"], 1)
    scale = w["bn.weight"] / np.sqrt(w["bn.running_var"] + EPSILON)
    h = (h - w["bn.running_mean"][:, None, None]) * scale[:, None, None]
    h = np.maximum(h + w["bn.bias"][:, None, None], 0)
    n, c, height, width = h.shape
    h = h.reshape(n, c, height // 2, 2, width // 2, 2).max((3, 5))
    h = np.maximum(_conv(h, w["conv2.weight"], w["conv2.bias"], 2), 0)
    return _linear(w, "fc", h.mean((2, 3)))


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _heads(x: Array, count: int) -> Array:
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, count, width // count).transpose(0, 2, 1, 3)


def _attend(q: Array, k: Array, v: Array, causal: bool) -> Array:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(scores.shape[-2], dtype=bool), scores, -np.inf)
    mixed = _softmax(scores) @ v
    batch, heads, tokens, width = mixed.shape
    return mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, heads * width)


def _encoder(w: Mapping[str, Array], x: Array) -> Array:
    def norm(name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    q, k, v = (_heads(_linear(w, name, x), HEADS) for name in ("q", "k", "v"))
    x = norm("norm1", x + _linear(w, "o", _attend(q, k, v, causal=False)))
    h = _linear(w, "fc1", x)
    h = 0.5 * h * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
    return norm("norm2", x + _linear(w, "fc2", h))


def _llama(w: Mapping[str, Array], x: Array) -> Array:
    def norm(name: str, x: Array) -> Array:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * w[f"{name}.weight"]

    def turned(x: Array) -> Array:
        cos, sin = rotary_tables(x.shape[2], x.shape[3])
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    h = norm("norm1", x)
    q = turned(_heads(_linear(w, "q", h), HEADS))
    k = turned(_heads(_linear(w, "k", h), KV_HEADS))
    v = _heads(_linear(w, "v", h), KV_HEADS)
    k, v = (np.repeat(t, HEADS // KV_HEADS, axis=1) for t in (k, v))
    x = x + _linear(w, "o", _attend(q, k, v, causal=True))
    h = norm("norm2", x)
    gate = _linear(w, "gate", h)
    return x + _linear(w, "down", gate / (1 + np.exp(-gate)) * _linear(w, "up", h))


PLAIN: dict[str, Callable[[Mapping[str, Array], Array], Array]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "encoder": _encoder,
    "llama": _llama,
}
