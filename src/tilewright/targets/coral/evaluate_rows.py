"""References of nodes along an axis and of nodes that move elements; see evaluate.py."""

from __future__ import annotations

import numpy as np

from tilewright.targets.coral import functions
from tilewright.targets.coral.arithmetic import maximum, minimum
from tilewright.targets.coral.program import Node

Array = np.ndarray
F = np.float32


def reduce(node: Node, x: Array) -> Array:
    kind, axes = node.attributes["reduce"], node.attributes["axes"]
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[k] for k in kept), -1)
    rows = rows if x.dtype == F else rows.astype(np.int64)
    acc = np.zeros(rows.shape[:-1], dtype=rows.dtype)
    if kind in ("max", "min"):
        acc = rows[..., 0]
    if kind == "prod":
        acc = np.ones_like(acc)
    for k in range(rows.shape[-1]):
        item = rows[..., k]
        if kind in ("sum", "mean"):
            acc = acc + item
        elif kind == "prod":
            acc = acc * item
        else:
            acc = maximum(acc, item) if kind == "max" else minimum(acc, item)
    return acc / F(rows.shape[-1]) if kind == "mean" else acc


def _row_sum(x: Array) -> Array:
    acc = np.zeros(x.shape[:-1], dtype=F)
    for k in range(x.shape[-1]):
        acc = acc + x[..., k]
    return acc[..., None]


def softmax(node: Node, x: Array) -> Array:
    top = x[..., :1]
    for k in range(1, x.shape[-1]):
        top = maximum(top, x[..., k : k + 1])
    hidden = np.isneginf(top) & node.attributes.get("masked", False)
    e = functions.exp(x - top)
    return np.where(hidden, F(0), e / _row_sum(e))


def normalisation(node: Node, x: Array, *more: Array) -> Array:
    count, epsilon = F(x.shape[-1]), F(node.attributes["epsilon"])
    if node.kind == "layer_norm":
        x = x - _row_sum(x) / count
    y = x / np.sqrt(_row_sum(x * x) / count + epsilon)
    for role, value in zip(node.attributes["roles"], more, strict=True):
        flat = value.reshape(-1)
        y = y * flat if role == "weight" else y + flat
    return y


def strided(node: Node, x: Array) -> Array:
    offsets, strides = node.attributes["offsets"], node.attributes["strides"]
    sizes = node.output.shape
    return x[
        tuple(
            slice(o, o + (n - 1) * s + 1, s)
            for o, s, n in zip(offsets, strides, sizes, strict=True)
        )
    ]


def insert(node: Node, into: Array, x: Array) -> Array:
    offsets, strides = node.attributes["offsets"], node.attributes["strides"]
    result = into.copy()
    result[
        tuple(
            slice(o, o + (n - 1) * s + 1, s)
            for o, s, n in zip(offsets, strides, x.shape, strict=True)
        )
    ] = x
    return result


def pad(node: Node, x: Array) -> Array:
    result = np.full(node.output.shape, node.attributes["value"], dtype=x.dtype)
    result[tuple(slice(o, o + n) for o, n in zip(node.attributes["low"], x.shape, strict=True))] = x
    return result


# Searching and sorting: NaN is the largest and the smallest number a search finds.


def position(node: Node, x: Array) -> Array:
    find = np.argmax if node.kind == "argmax" else np.argmin
    return np.asarray(find(x, axis=node.attributes["axis"]))


def cumsum(node: Node, x: Array) -> Array:
    rows = x if x.dtype == F else x.astype(np.int64)
    result = np.empty_like(rows)
    acc = np.zeros(rows.shape[:-1], dtype=rows.dtype)
    for k in range(rows.shape[-1]):
        acc = acc + rows[..., k]
        result[..., k] = acc
    return result


def sort(node: Node, x: Array) -> Array:
    ordered = np.sort(x, axis=-1, kind="stable")
    return ordered[..., ::-1] if node.attributes["descending"] else ordered


def argsort(node: Node, x: Array) -> Array:
    """Equal elements keep their order either way."""
    if not node.attributes["descending"]:
        return np.argsort(x, axis=-1, kind="stable")
    backwards = np.argsort(x[..., ::-1], axis=-1, kind="stable")
    return x.shape[-1] - 1 - backwards[..., ::-1]


def scatter(node: Node, x: Array, indices: Array, updates: Array) -> Array:
    """One row after the other; an index outside is left out, as XLA does."""
    how = node.attributes["reduce"]
    result = x.copy() if x.dtype.kind in "fb" else x.astype(np.int64)
    rows = updates.reshape(-1, *x.shape[1:])
    for at, row in zip(indices.reshape(-1), rows, strict=True):
        if not 0 <= at < x.shape[0]:
            continue
        if how == "sum":
            result[at] = result[at] + row
        elif how == "prod":
            result[at] = result[at] * row
        elif how in ("max", "min"):
            result[at] = (maximum if how == "max" else minimum)(
                result[at], row.astype(result.dtype)
            )
        else:
            result[at] = row
    return result
