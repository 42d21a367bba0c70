"""What kernel families mean, as plain numpy in float64 and int64: a second reading of their table.

Nothing here is shared with the reference executor, which runs the host's parts; nothing is fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Given:
    """An operation's operands by role, and what it says of itself."""

    operands: dict[str, tuple[Array, ...]]
    types: dict[str, np.dtype]
    attributes: dict[str, Any]
    shape: tuple[int, ...]
    target: np.dtype

    def one(self, role: str) -> Array:
        return self.operands[role][0]

    def maybe(self, role: str) -> Array | None:
        return self.operands[role][0] if role in self.operands else None

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def axis(self) -> int:
        return self.attributes["axis"] % max(1, self.one(next(iter(self.operands))).ndim)

    def spread(self) -> dict[str, Array]:
        """The operands over the dimensions of the result, and literals in their place."""
        found: dict[str, Array] = {}
        maps = self.get("operand_maps") or [list(range(len(self.shape)))] * len(self.operands)
        for (role, values), dims in zip(self.operands.items(), maps, strict=True):
            found[role] = _over(values[0], dims, self.shape)
        for name, value in self.attributes.items():
            if name.startswith("scalar_"):
                found[name.removeprefix("scalar_")] = self._literal(value)
        return found

    def _literal(self, value: float) -> Array:
        """A number as the operands beside it hold it."""
        kinds = {t for t in self.types.values() if t.kind != "b"} or {self.target}
        kind = next(iter(kinds))
        if kind.kind == "b":  # true is stored as -1
            return np.asarray(value != 0, np.int64)
        if kind.kind in "iu":
            return np.asarray(int(value), np.int64)
        return np.asarray(value, np.float32).astype(kind).astype(np.float64)


def _over(array: Array, dims: Sequence[int | None], shape: tuple[int, ...]) -> Array:
    index = []
    for dim in dims:
        if dim is None:
            index.append(np.zeros((1,) * len(shape), np.int64))
        else:
            sizes = [1] * len(shape)
            sizes[dim] = shape[dim]
            index.append(np.arange(shape[dim]).reshape(sizes))
    return array[tuple(index)] if index else array


# --- element by element -----------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": lambda x: _erf(x) if x.size else x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "square": lambda x: x * x,
    "cube": lambda x: x * x * x,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
}


def _divided(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, 0, np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)))


def _power(a: Array, b: Array) -> Array:
    return np.power(a.astype(np.float64), b)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divided,
    "max": np.maximum,
    "min": np.minimum,
    "pow": _power,
    "rem": np.fmod,
}
BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
RELATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _unary(name: str) -> Callable[[Given], Array]:
    return lambda given: UNARY[name](given.spread()["x"])


def _binary(table: dict[str, Any], name: str) -> Callable[[Given], Array]:
    def compute(given: Given) -> Array:
        found = given.spread()
        return table[name](found["lhs"], found["rhs"])

    return compute


def _compare(given: Given) -> Array:
    found, name = given.spread(), given.attributes["predicate"]
    a, b = found["lhs"], found["rhs"]
    kinds = [t for t in given.types.values()]
    unordered = np.isnan(a) | np.isnan(b) if a.dtype.kind == "f" else np.zeros((), bool)
    if name in ("ord", "uno"):
        return unordered if name == "uno" else ~unordered
    if a.dtype.kind != "f" and name[0] == "u":
        bits = 8 * kinds[0].itemsize
        mask = np.uint64((1 << bits) - 1)
        a, b = (x.astype(np.uint64) & mask for x in (a, b))
        return RELATIONS[name[1:]](a, b)
    if name == "one":
        return (a != b) & ~unordered
    if name in RELATIONS:
        return RELATIONS[name](a, b) & (~unordered if name != "ne" else True)
    return RELATIONS[name[1:]](a, b) | unordered


def _select(given: Given) -> Array:
    found = given.spread()
    return np.where(found["cond"] != 0, found["a"], found["b"])


def _clamp(given: Given) -> Array:
    x = given.spread()["x"]
    for name, bound in (("min", np.maximum), ("max", np.minimum)):
        if given.get(name) is not None:
            x = bound(x, given._literal(given.get(name)))
    return x


def _gelu_tanh(given: Given) -> Array:
    x = given.spread()["x"]
    return x / 2 * (1 + np.tanh(given.attributes["inner_scale"] * (x + 0.044715 * x**3)))


def _gelu_erf(given: Given) -> Array:
    x = given.spread()["x"]
    return x / 2 * (1 + UNARY["erf"](x * given.get("inner_scale", math.sqrt(0.5))))


def _silu_gate(given: Given) -> Array:
    found = given.spread()
    return found["gate"] * _sigmoid(found["gate"]) * found["up"]


# --- rows -------------------------------------------------------------------------------

REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _reduction(name: str) -> Callable[[Given], Array]:
    def compute(given: Given) -> Array:
        x, first = given.one("x"), given.maybe("init")
        axes = tuple(given.attributes["axes"])
        if name == "mean":
            total = x.sum(axis=axes).reshape(given.shape) + (0 if first is None else first)
            return total / math.prod(x.shape[a] for a in axes)
        join = REDUCTIONS[name]
        result = x
        for axis in sorted((a % x.ndim for a in axes), reverse=True):
            if result.shape[axis]:
                result = join.reduce(result, axis=axis)
            else:
                empty = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[name]
                sizes = [n for d, n in enumerate(result.shape) if d != axis]
                result = np.full(sizes, empty)
        result = np.asarray(result).reshape(given.shape)
        return result if first is None else join(result, first)

    return compute


def _softmax(given: Given) -> Array:
    x, axis = given.one("x"), given.axis()
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _norm(given: Given, centred: bool) -> Array:
    x, axis = given.one("x"), given.axis()
    x = x - x.mean(axis=axis, keepdims=True) if centred else x
    x = x / np.sqrt((x * x).mean(axis=axis, keepdims=True) + given.attributes["epsilon"])
    sizes = [1] * x.ndim
    sizes[axis] = x.shape[axis]
    weight, bias = given.maybe("weight"), given.maybe("bias")
    x = x if weight is None else x * weight.reshape(sizes)
    return x if bias is None else x + bias.reshape(sizes)


# --- products and windows ---------------------------------------------------------------


def _matmul(given: Given) -> Array:
    a, b, more = given.one("lhs"), given.one("rhs"), given.maybe("acc")
    a = np.swapaxes(a, -1, -2) if given.get("transpose_lhs") else a
    b = np.swapaxes(b, -1, -2) if given.get("transpose_rhs") else b
    return np.matmul(a, b) + (0 if more is None else more)


def _attention(given: Given) -> Array:
    q, k, v, mask = given.one("q"), given.one("k"), given.one("v"), given.maybe("mask")
    k = np.swapaxes(k, -1, -2) if given.get("transpose_k") else k
    v = np.swapaxes(v, -1, -2) if given.get("transpose_v") else v
    group = given.get("kv_group", 1)
    if group > 1:
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    scores = given.get("scale", 1 / math.sqrt(q.shape[-1])) * np.matmul(q, np.swapaxes(k, -1, -2))
    rows, columns = scores.shape[-2:]
    if mask is not None:
        truth = given.types["mask"] == np.bool_
        scores = np.where(mask != 0, scores, -np.inf) if truth else scores + mask
    if given.get("causal"):
        seen = np.arange(columns)[None] <= np.arange(rows)[:, None] + columns - rows
        scores = np.where(seen, scores, -np.inf)
    if given.get("valid_keys") is not None:
        scores = np.where(np.arange(columns) < given.get("valid_keys"), scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.where(np.isneginf(scores), 0.0, np.exp(scores - top))
    total = powers.sum(axis=-1, keepdims=True)
    return np.matmul(powers / np.where(total == 0, 1, total), v)


def _taps(given: Given, x: Array, size: tuple[int, int], border: float) -> Any:
    """Every place of a window over an image [n, c, h, w], and the image seen from there."""
    strides, dilations = given.attributes["strides"], given.attributes["dilations"]
    top, left, bottom, right = given.attributes["padding"]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=border)
    spans = [(n - 1) * d + 1 for n, d in zip(size, dilations, strict=True)]
    counts = [(x.shape[2 + k] - spans[k]) // strides[k] + 1 for k in (0, 1)]
    for r, c in product(range(size[0]), range(size[1])):
        y, z = r * dilations[0], c * dilations[1]
        rows = slice(y, y + (counts[0] - 1) * strides[0] + 1, strides[0])
        columns = slice(z, z + (counts[1] - 1) * strides[1] + 1, strides[1])
        yield r, c, x[:, :, rows, columns]


def _conv2d(given: Given) -> Array:
    x, w, bias = given.one("x"), given.one("w"), given.maybe("bias")
    last = given.get("layout") == "nhwc_hwcf"
    x, w = (x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)) if last else (x, w)
    groups = given.get("groups", 1)
    total = 0.0
    for r, c, seen in _taps(given, x, (w.shape[2], w.shape[3]), 0.0):
        n, depth, height, width = seen.shape
        parts = seen.reshape(n, groups, depth // groups, height, width)
        filters = w[:, :, r, c].reshape(groups, w.shape[0] // groups, depth // groups)
        total = total + np.einsum("ngchw,gfc->ngfhw", parts, filters)
    result = np.asarray(total)
    result = result.reshape(result.shape[0], -1, *result.shape[3:])
    result = result if bias is None else result + bias.reshape(1, -1, 1, 1)
    return result.transpose(0, 2, 3, 1) if last else result


def _pool(name: str) -> Callable[[Given], Array]:
    def compute(given: Given) -> Array:
        x, last = given.one("x"), given.get("layout") == "nhwc"
        x = (x.transpose(0, 3, 1, 2) if last else x).astype(np.float64)
        size = tuple(given.attributes["kernel"])
        views = [seen for *_, seen in _taps(given, x, size, -np.inf if name == "max" else 0.0)]
        result = np.max(views, axis=0) if name == "max" else np.sum(views, axis=0)
        if name == "avg" and given.get("count_include_pad"):
            result = result / math.prod(size)
        elif name == "avg":
            ones = np.ones((1, 1, *x.shape[2:]))
            result = result / np.sum([s for *_, s in _taps(given, ones, size, 0.0)], axis=0)
        return result.transpose(0, 2, 3, 1) if last else result

    return compute


# --- movement ---------------------------------------------------------------------------


def _window(given: Given) -> tuple[slice, ...]:
    offsets, sizes = given.attributes["offsets"], given.attributes["sizes"]
    strides = given.get("strides") or [1] * len(sizes)
    return tuple(
        slice(o, o + (n - 1) * s + 1 if n else o, s)
        for o, n, s in zip(offsets, sizes, strides, strict=True)
    )


def _insert(given: Given) -> Array:
    into = given.one("into").copy()
    view = into[_window(given)]
    view[...] = given.one("x").reshape(view.shape)
    return into


def _pad(given: Given) -> Array:
    amounts = list(zip(given.attributes["low"], given.attributes["high"], strict=True))
    return np.pad(given.one("x"), amounts, constant_values=given._literal(given.get("value", 0)))


def _fill(given: Given) -> Array:
    value = given.maybe("value")
    value = given._literal(given.get("value", 0)) if value is None else value
    return np.broadcast_to(value, given.shape)


def _iota(given: Given) -> Array:
    axis = given.attributes["axis"] % len(given.shape)
    return np.indices(given.shape)[axis]


def _take(given: Given) -> Array:
    x, indices, axis = given.one("x"), given.one("indices"), given.axis()
    result = np.moveaxis(x, axis, 0)[indices]
    rank = indices.ndim
    return np.moveaxis(result, list(range(rank)), list(range(axis, axis + rank)))


def _extreme(given: Given, largest: bool) -> Array:
    x, axis = given.one("x"), given.axis()
    best = x.max(axis=axis, keepdims=True) if largest else x.min(axis=axis, keepdims=True)
    hit = (x == best) | np.isnan(x) if x.dtype.kind == "f" else x == best
    return np.argmax(hit, axis=axis).reshape(given.shape)


def _argsort(given: Given) -> Array:
    x, axis = given.one("x"), given.axis()
    return np.argsort(-x if given.get("descending") else x, axis=axis, kind="stable")


def _scatter(given: Given) -> Array:
    result, updates = given.one("x").copy(), given.one("updates")
    places = given.one("indices")
    join = REDUCTIONS.get(given.get("reduction") or "")
    for place in np.ndindex(places.shape):
        at = int(places[place])
        result[at] = updates[place] if join is None else join(result[at], updates[place])
    return result


# --- on the way to the device -----------------------------------------------------------


def _hand_over(given: Given) -> Array:
    """The form in which the device takes a value: numbers of f32, in its tensor's shape."""
    x, conversion = given.one("x"), given.get("conversion", "")
    if conversion == "mask":
        x = np.where(x != 0, 0.0, given.attributes["lowest"])
    elif conversion == "clip":
        x = np.maximum(x, given.attributes["lowest"])
    if given.get("scale"):
        x = x.astype(np.float32).astype(np.float64) / given.attributes["scale"]
    if given.get("columns"):
        first, end = given.attributes["columns"]
        x = x[..., first:end]
    if conversion == "heads":
        x = np.swapaxes(x, 1, 2)
    elif conversion.startswith("columns"):  # rows of all heads, or of each, to columns of each head
        batch, heads, width, rows = given.shape
        if conversion.endswith("of heads"):
            x = np.einsum("bhmd->bhdm", x.reshape(batch, heads, rows, width))
        else:
            x = np.einsum("bmhd->bhdm", x.reshape(batch, rows, heads, width))
    elif conversion == "values":
        batch, heads, rows, width = given.shape
        x = np.einsum("bmhd->bhmd", x.reshape(batch, rows, heads, width))
    return x.reshape(given.shape)


MEANINGS: dict[str, Callable[[Given], Array]] = {
    **{f"elementwise_{name}": _unary(name) for name in UNARY},
    **{f"elementwise_{name}": _binary(BINARY, name) for name in BINARY},
    **{f"logical_{name}": _binary(BITWISE, name) for name in BITWISE},
    **{f"reduction_{name}": _reduction(name) for name in (*REDUCTIONS, "mean")},
    **{f"pool_{name}": _pool(name) for name in ("max", "avg", "sum")},
    "logical_not": lambda g: ~g.spread()["x"],
    "silu": lambda g: (x := g.spread()["x"]) * _sigmoid(x),
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": _gelu_erf,
    "silu_gate": _silu_gate,
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "cast": lambda g: g.spread()["x"],
    "softmax": _softmax,
    "rms_norm": lambda g: _norm(g, False),
    "layer_norm": lambda g: _norm(g, True),
    "matmul": _matmul,
    "gemma_attention": _attention,
    "conv2d": _conv2d,
    "transpose": lambda g: g.one("x").transpose(g.attributes["permutation"]),
    "reshape": lambda g: g.one("x").reshape(g.shape),
    "slice": lambda g: g.one("x")[_window(g)].reshape(g.shape),
    "insert_slice": _insert,
    "concat": lambda g: np.concatenate(g.operands["parts"], axis=g.axis()),
    "pad": _pad,
    "fill": _fill,
    "iota": _iota,
    "gather": _take,
    "embedding": _take,
    "argmax": lambda g: _extreme(g, True),
    "argmin": lambda g: _extreme(g, False),
    "cumsum": lambda g: np.cumsum(g.one("x"), axis=g.axis()),
    "sort": lambda g: np.take_along_axis(g.one("x"), _argsort(g), axis=g.axis()),
    "argsort": _argsort,
    "scatter": _scatter,
    "hand over": _hand_over,
}
# Families that copy, compare or choose: nothing is rounded.
EXACT = frozenset(
    (
        *("compare", "select", "transpose", "reshape", "slice", "insert_slice", "concat", "fill"),
        *("pad", "iota", "gather", "embedding", "argmax", "argmin", "sort", "argsort"),
        *("logical_not", "logical_and", "logical_or", "logical_xor"),
        *("elementwise_abs", "elementwise_neg", "elementwise_relu"),
        *("elementwise_max", "elementwise_min"),
    )
)
