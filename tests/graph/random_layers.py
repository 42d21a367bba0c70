"""Products, norms, reductions and windows of random models; see random_operations.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from random_operations import OPERATIONS, Array, Options, Rounding, _define, node

__all__ = ["OPERATIONS"]

EPSILON = 1e-5


# --- products ---------------------------------------------------------------------------


def _linear(r: Rounding, a: list[Array], o: Options) -> Array:
    y = r.fp8(a[0]) @ r.fp8(a[1]).swapaxes(-1, -2)
    return r.bf16(r.bf16(y) + a[2]) if len(a) > 2 else r.bf16(y)


def _linear_jax(a: Sequence[str], o: Options) -> str:
    return f"{a[0]} @ {a[1]}.T" + (f" + {a[2]}" if len(a) > 2 else "")


def _linear_onnx(a: Sequence[str], o: Options, out: str) -> str:
    if o["rank"] == 2:
        return node("Gemm", a, out, transB=1)
    turned = node("Transpose", [a[1]], f"{out}_t", perm=[1, 0])
    if len(a) == 2:
        return node("MatMul", [a[0], turned], out)
    return node("Add", [node("MatMul", [a[0], turned], f"{out}_p"), a[2]], out)


_define("linear", _linear, lambda a, o: f"F.linear({', '.join(a)})", _linear_jax, _linear_onnx)


def _matmul(r: Rounding, a: list[Array], o: Options) -> Array:
    """32 columns at a time, what has been added up in bf16: terms of one sign round it often."""
    left, right = r.fp8(a[0]), r.fp8(a[1])
    total = 0.0
    for k in range(0, left.shape[-1], 32):
        total = r.bf16(total + left[..., k : k + 32] @ right[..., k : k + 32, :])
    return np.asarray(total)


_define(
    "matmul",
    _matmul,
    "{0} @ {1}",
    "{0} @ {1}",
    "MatMul",
)


def _softmax(r: Rounding, x: Array, axis: int = -1) -> Array:
    x = r.bf16(x)
    e = r.bf16(np.exp(r.bf16(x - x.max(axis, keepdims=True))))
    return r.bf16(e / r.bf16(r.sums(e, (axis,)).sum(axis, keepdims=True)))


def _attention(r: Rounding, a: list[Array], o: Options) -> Array:
    q, k, v = (r.fp8(x) for x in a[:3])
    scores = r.bf16(q @ k.swapaxes(-1, -2)) / math.sqrt(q.shape[-1])
    if o["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -1e30)
    if len(a) > 3:
        scores = np.where(a[3], scores, -1e30)
    return r.bf16(r.fp8(_softmax(r, scores)) @ v)


def _attention_torch(a: Sequence[str], o: Options) -> str:
    mask = f", attn_mask={a[3]}" if len(a) > 3 else ""
    causal = ", is_causal=True" if o["causal"] else ""
    return f"F.scaled_dot_product_attention({a[0]}, {a[1]}, {a[2]}{mask}{causal})"


def _attention_jax(a: Sequence[str], o: Options) -> str:
    scores = f"{a[0]} @ {a[1]}.swapaxes(-1, -2) / {o['width'] ** 0.5!r}"
    if o["causal"]:
        scores = f"jnp.where(jnp.tri({o['tokens']}, {o['keys']}, dtype=bool), {scores}, -1e9)"
    if len(a) > 3:
        scores = f"jnp.where({a[3]}, {scores}, -1e9)"
    return f"jax.nn.softmax({scores}, axis=-1) @ {a[2]}"


def _attention_onnx(a: Sequence[str], o: Options, out: str) -> str:
    turned = node("Transpose", [a[1]], f"{out}_t", perm=[0, 1, 3, 2])
    scores = node("MatMul", [a[0], turned], f"{out}_p")
    scores = node("Mul", [scores, f"scalar({o['width'] ** -0.5!r})"], f"{out}_s")
    if o["causal"]:
        scores = node(
            "Where", [f"causal({o['tokens']}, {o['keys']})", scores, "scalar(-1e9)"], f"{out}_c"
        )
    if len(a) > 3:
        scores = node("Where", [a[3], scores, "scalar(-1e9)"], f"{out}_m")
    return node("MatMul", [node("Softmax", [scores], f"{out}_q", axis=-1), a[2]], out)


_define("attention", _attention, _attention_torch, _attention_jax, _attention_onnx)


# --- rotary embedding -------------------------------------------------------------------


def _rope(r: Rounding, a: list[Array], o: Options) -> Array:
    x = r.bf16(a[0])
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return r.bf16(r.bf16(x * r.bf16(a[1])) + r.bf16(turned * r.bf16(a[2])))


def _rope_text(concat: str) -> Any:
    def text(a: Sequence[str], o: Options) -> str:
        x, half = a[0], o["half"]
        return f"{x} * {a[1]} + {concat}([-{x}[..., {half}:], {x}[..., :{half}]], -1) * {a[2]}"

    return text


def _rope_onnx(a: Sequence[str], o: Options, out: str) -> str:
    axis, half = "ints([-1])", o["half"]
    low = node("Slice", [a[0], "ints([0])", f"ints([{half}])", axis], f"{out}_l")
    high = node("Slice", [a[0], f"ints([{half}])", f"ints([{2 * half}])", axis], f"{out}_h")
    turned = node("Concat", [node("Neg", [high], f"{out}_n"), low], f"{out}_t", axis=-1)
    first = node("Mul", [a[0], a[1]], f"{out}_a")
    return node("Add", [first, node("Mul", [turned, a[2]], f"{out}_b")], out)


_define("rope", _rope, _rope_text("torch.cat"), _rope_text("jnp.concatenate"), _rope_onnx)


# --- norms, softmax, reductions ---------------------------------------------------------


def _layer_norm(r: Rounding, a: list[Array], o: Options) -> Array:
    x = r.bf16(a[0])
    mean = r.bf16(r.sums(x, (-1,)).mean(-1, keepdims=True))
    centred = r.bf16(x - mean)
    variance = r.bf16(r.sums(centred**2, (-1,)).mean(-1, keepdims=True))
    y = r.bf16(centred * r.bf16(1 / np.sqrt(variance + EPSILON)))
    return r.bf16(r.bf16(y * r.bf16(a[1])) + r.bf16(a[2]))


def _layer_norm_jax(a: Sequence[str], o: Options) -> str:
    x = a[0]
    spread = f"jnp.sqrt(jnp.var({x}, -1, keepdims=True) + {EPSILON})"
    return f"({x} - jnp.mean({x}, -1, keepdims=True)) / {spread} * {a[1]} + {a[2]}"


_define(
    "layer_norm",
    _layer_norm,
    lambda a, o: f"F.layer_norm({a[0]}, ({o['width']},), {a[1]}, {a[2]})",
    _layer_norm_jax,
    lambda a, o, out: node("LayerNormalization", a, out, epsilon=EPSILON),
)


def _rms_norm(r: Rounding, a: list[Array], o: Options) -> Array:
    x = r.bf16(a[0])
    square = r.bf16(r.sums(x**2, (-1,)).mean(-1, keepdims=True))
    return r.bf16(r.bf16(x * r.bf16(1 / np.sqrt(square + EPSILON))) * r.bf16(a[1]))


def _rms_norm_onnx(a: Sequence[str], o: Options, out: str) -> str:
    square = node("Mul", [a[0], a[0]], f"{out}_s")
    mean = node("ReduceMean", [square, "ints([-1])"], f"{out}_m", keepdims=1)
    root = node("Sqrt", [node("Add", [mean, f"scalar({EPSILON})"], f"{out}_e")], f"{out}_r")
    return node("Mul", [node("Div", [a[0], root], f"{out}_d"), a[1]], out)


_define(
    "rms_norm",
    _rms_norm,
    "{0} * torch.rsqrt({0}.pow(2).mean(-1, keepdim=True) + 1e-5) * {1}",
    "{0} * jax.lax.rsqrt(jnp.mean({0} * {0}, -1, keepdims=True) + 1e-5) * {1}",
    _rms_norm_onnx,
)


def _batch_norm(r: Rounding, a: list[Array], o: Options) -> Array:
    shape = (1, -1) + (1,) * (a[0].ndim - 2)
    gain = a[1] / np.sqrt(a[4] + EPSILON)
    shift = a[2] - a[3] * gain
    return r.bf16(r.bf16(r.bf16(a[0]) * r.bf16(gain).reshape(shape)) + r.bf16(shift).reshape(shape))


def _batch_norm_jax(a: Sequence[str], o: Options) -> str:
    w, b, m, v = (f"{x}.reshape(1, -1{', 1' * (o['rank'] - 2)})" for x in a[1:])
    return f"({a[0]} - {m}) * ({w} / jnp.sqrt({v} + {EPSILON})) + {b}"


_define(
    "batch_norm",
    _batch_norm,
    "F.batch_norm({0}, {3}, {4}, {1}, {2})",
    _batch_norm_jax,
    lambda a, o, out: node("BatchNormalization", a, out, epsilon=EPSILON),
)
_define(
    "softmax",
    lambda r, a, o: _softmax(r, a[0], o["axis"]),
    "F.softmax({0}, {axis})",
    "jax.nn.softmax({0}, {axis})",
    lambda a, o, out: node("Softmax", a, out, axis=o["axis"]),
)
_define(
    "log_softmax",
    lambda r, a, o: r.bf16(
        r.bf16(a[0])
        - np.log(r.sums(np.exp(r.bf16(a[0])), (o["axis"],)).sum(o["axis"], keepdims=True))
    ),
    "F.log_softmax({0}, {axis})",
    "jax.nn.log_softmax({0}, {axis})",
    lambda a, o, out: node("LogSoftmax", a, out, axis=o["axis"]),
)


def _reduction(name: str, torch: str, jax: str, onnx: str) -> None:
    def meaning(r: Rounding, a: list[Array], o: Options) -> Array:
        axes, keep = tuple(o["axes"]), o["keep"]
        x = r.bf16(a[0])
        if name in ("sum", "mean"):
            return r.bf16(getattr(r.sums(x, axes), name)(axes, keepdims=keep))
        return getattr(x, name)(axes, keepdims=keep)

    _define(
        name,
        meaning,
        torch + "({0}, {axes}, keepdim={keep})",
        jax + "({0}, {axes}, keepdims={keep})",
        lambda a, o, out: node(
            onnx, [a[0], f"ints({list(o['axes'])})"], out, keepdims=int(o["keep"])
        ),
    )


_reduction("sum", "torch.sum", "jnp.sum", "ReduceSum")
_reduction("mean", "torch.mean", "jnp.mean", "ReduceMean")
_reduction("max", "torch.amax", "jnp.max", "ReduceMax")
_reduction("min", "torch.amin", "jnp.min", "ReduceMin")
_define(
    "running_sum",
    lambda r, a, o: r.bf16(np.cumsum(r.sums(r.bf16(a[0]), (o["axis"],)), o["axis"])),
    "torch.cumsum({0}, {axis})",
    "jnp.cumsum({0}, {axis})",
    lambda a, o, out: node("CumSum", [a[0], f"ints({o['axis']})"], out),
)


# --- windows over images [batch, channels, height, width] ----------------------------------


def _windows(x: Array, size: int, stride: int, padding: int, fill: float = 0.0) -> Array:
    """[batch, channels, rows, columns, size, size]"""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
    return found[:, :, ::stride, ::stride]


def _conv(r: Rounding, a: list[Array], o: Options) -> Array:
    groups = o["groups"]
    w = r.fp8(a[1])
    found = _windows(r.fp8(a[0]), w.shape[-1], o["stride"], o["padding"])
    parts = [
        np.einsum("bchwij,ocij->bohw", x, part, optimize=True)
        for x, part in zip(np.split(found, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    y = r.bf16(np.concatenate(parts, 1))
    return r.bf16(y + a[2][:, None, None]) if len(a) > 2 else y


def _conv_torch(a: Sequence[str], o: Options) -> str:
    return (
        f"F.conv2d({', '.join(a)}, stride={o['stride']}, padding={o['padding']}, "
        f"groups={o['groups']})"
    )


def _conv_jax(a: Sequence[str], o: Options) -> str:
    pads = [(o["padding"], o["padding"])] * 2
    text = (
        f"jax.lax.conv_general_dilated({a[0]}, {a[1]}, ({o['stride']}, {o['stride']}), {pads}, "
        f'feature_group_count={o["groups"]}, dimension_numbers=("NCHW", "OIHW", "NCHW"))'
    )
    return text + (f" + {a[2]}[None, :, None, None]" if len(a) > 2 else "")


def _conv_onnx(a: Sequence[str], o: Options, out: str) -> str:
    strides, pads = [o["stride"]] * 2, [o["padding"]] * 4
    return node("Conv", a, out, strides=strides, pads=pads, group=o["groups"])


_define("conv", _conv, _conv_torch, _conv_jax, _conv_onnx)


def _pool(r: Rounding, a: list[Array], o: Options) -> Array:
    x = r.bf16(a[0])
    if o["kind"] == "max":
        return _windows(x, o["size"], o["stride"], o["padding"], -np.inf).max((-1, -2))
    found = _windows(x, o["size"], o["stride"], o["padding"])
    return r.bf16(r.sums(found, (-1, -2)).mean((-1, -2)))


def _pool_jax(a: Sequence[str], o: Options) -> str:
    start, function = ("-jnp.inf", "max") if o["kind"] == "max" else ("0.0", "add")
    window, strides = (1, 1, o["size"], o["size"]), (1, 1, o["stride"], o["stride"])
    pads = ((0, 0), (0, 0), (o["padding"],) * 2, (o["padding"],) * 2)
    text = (
        f"jax.lax.reduce_window({a[0]}, {start}, jax.lax.{function}, {window}, {strides}, {pads})"
    )
    return text if o["kind"] == "max" else f"{text} / {o['size'] ** 2}"


def _pool_onnx(a: Sequence[str], o: Options, out: str) -> str:
    size, strides, pads = [o["size"]] * 2, [o["stride"]] * 2, [o["padding"]] * 4
    if o["kind"] == "max":
        return node("MaxPool", a, out, kernel_shape=size, strides=strides, pads=pads)
    return node(
        "AveragePool", a, out, kernel_shape=size, strides=strides, pads=pads, count_include_pad=1
    )


_define("pool", _pool, "F.{kind}_pool2d({0}, {size}, {stride}, {padding})", _pool_jax, _pool_onnx)
_define(
    "upsample",
    lambda r, a, o: a[0].repeat(2, 2).repeat(2, 3),
    'F.interpolate({0}, scale_factor=2.0, mode="nearest")',
    "jnp.repeat(jnp.repeat({0}, 2, 2), 2, 3)",
    lambda a, o, out: node(
        "Resize",
        [a[0], '""', "factors([1, 1, 2, 2])"],
        out,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
)
