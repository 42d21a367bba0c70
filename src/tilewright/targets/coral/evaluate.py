"""What a program computes, bit for bit, on numpy: the reference of generated code.

Floats follow one order of operations: sums run over increasing indices from 0, products and sums
round separately. Integers are computed wide and wrapped, or saturated where a node says so. This
file shares nothing with the code generator but the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.targets.coral import evaluate_rows as rows
from tilewright.targets.coral import functions, wide_functions
from tilewright.targets.coral.arithmetic import maximum, minimum
from tilewright.targets.coral.program import DTYPES, Node, Program, Value

Array = np.ndarray
F = np.float32


def evaluate(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs for given inputs."""
    values = evaluate_all(program, inputs)
    return [values[v] for v in program.outputs]


def evaluate_all(program: Program, inputs: Sequence[Array]) -> dict[Value, Array]:
    """Every value of the program."""
    values: dict[Value, Array] = {}
    for value, array in zip(program.inputs, inputs, strict=True):
        values[value] = np.asarray(array, dtype=DTYPES[value.dtype]).reshape(value.shape)
    for value in program.constants():
        assert value.data is not None
        values[value] = value.data
    with np.errstate(all="ignore"):
        for node in program.nodes:
            arrays = [values[v] for v in node.inputs]
            if node.elementwise:
                arrays = [
                    _spread(a, access, node.output.shape)
                    for a, access in zip(arrays, node.accesses, strict=True)
                ]
            result = NODES[node.kind](node, *arrays)
            made = np.asarray(result).astype(DTYPES[node.output.dtype])
            values[node.output] = np.array(np.broadcast_to(made, node.output.shape), order="C")
    return values


def _spread(array: Array, access: tuple[int | None, ...], shape: tuple[int, ...]) -> Array:
    """An operand in the dimensions of the result."""
    kept = [k for k, dim in enumerate(access) if dim is not None]
    picked = array[tuple(slice(None) if k in kept else 0 for k in range(array.ndim))]
    dims = [access[k] for k in kept]
    order = sorted(range(len(dims)), key=lambda k: dims[k] or 0)
    placed = picked.transpose(order)
    wanted = [shape[d] if d in dims else 1 for d in range(len(shape))]
    return np.broadcast_to(placed.reshape(wanted), shape)


def wide(array: Array) -> Array:
    return array.astype(np.int64) if array.dtype.kind in "iub" else array


def _wrapped(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(node: Node, *arrays: Array) -> Array:
        result = function(*map(wide, arrays))
        if result.dtype == np.int64:
            return result.astype(DTYPES[node.output.dtype])  # wraps
        return result

    return run


def _divide(a: Array, b: Array) -> Array:
    """Integers as the core divides: towards zero, x / 0 is -1, the overflow stays."""
    if a.dtype.kind == "f":
        return a / b
    safe = np.where((b == 0) | (b == -1), 1, b)
    down = a // safe
    quotient = down + ((down < 0) & (down * safe != a))
    return np.where(b == 0, -1, np.where(b == -1, np.negative(a), quotient))


def power(node: Node, a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return wide_functions.power(a, b)
    unsigned = a.astype(np.int64).astype(np.uint64)
    result = np.ones_like(unsigned)
    for bit in range(31):
        result = np.where((b >> bit) & 1 == 1, result * unsigned, result)
        unsigned = unsigned * unsigned
    sign = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, sign, result.astype(np.int64)).astype(DTYPES[node.output.dtype])


COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
    "ueq": np.equal,
    "one": np.not_equal,
}


def compare(node: Node, a: Array, b: Array) -> Array:
    predicate = node.attributes["predicate"]
    if a.dtype.kind == "f":
        unordered = np.isnan(a) | np.isnan(b)
        if predicate in ("ord", "uno"):
            return ~unordered if predicate == "ord" else unordered
        plain = COMPARISONS[predicate](a, b)
        if predicate == "ne":
            return plain | unordered
        return plain | unordered if predicate.startswith("u") else plain & ~unordered
    if predicate.startswith("u") and predicate != "uno":
        a, b = (v.astype(f"u{a.dtype.itemsize}") for v in (a, b))
    return COMPARISONS[predicate](a, b)


def cast(node: Node, x: Array) -> Array:
    to = node.output.dtype
    if to == "i1":
        return (x != 0) | (np.isnan(x) if x.dtype.kind == "f" else False)
    if x.dtype.kind == "f" and to != "f32":
        limits = np.iinfo(DTYPES[to])
        whole = np.trunc(np.where(np.isnan(x), F(0), x)).astype(np.float64)
        if to == "i64":  # its largest number is no float
            inside = np.clip(whole, -(2.0**63), 2.0**62 + (2.0**62 - 2.0**10))
            return np.where(whole >= 2.0**63, limits.max, inside.astype(np.int64))
        return np.clip(whole, limits.min, limits.max).astype(np.int64)
    return x.astype(DTYPES[to])


def requant(node: Node, x: Array) -> Array:
    limits = np.iinfo(DTYPES[node.output.dtype])
    whole = np.rint(np.where(np.isnan(x), F(0), x)).astype(np.float64)
    return np.clip(whole, limits.min, limits.max).astype(np.int64)


def clamp(node: Node, x: Array) -> Array:
    low, high = node.attributes["min"], node.attributes["max"]
    if low is not None:
        x = maximum(x, np.asarray(low).astype(x.dtype))
    if high is not None:
        x = minimum(x, np.asarray(high).astype(x.dtype))
    return x


def gelu_tanh(node: Node, x: Array) -> Array:
    inner = F(node.attributes["inner_scale"]) * (x + F(0.044715) * ((x * x) * x))
    return (F(0.5) * x) * (F(1) + functions.tanh(inner))


def gelu_erf(node: Node, x: Array) -> Array:
    scale = node.attributes["inner_scale"]
    inner = x / F(1.4142135) if scale is None else x * F(scale)
    return x * (F(0.5) * (F(1) + functions.erf(inner)))


def windows(x: Array, node: Node, kernel: tuple[int, int], fill: float) -> tuple[Array, Array]:
    """[n, oh, ow, kh, kw, c] and which of its elements are inside of the image."""
    top, left, _, _ = node.attributes["padding"]
    (sy, sx), (dy, dx) = node.attributes["strides"], node.attributes["dilations"]
    _, height, width, _ = x.shape
    _, oh, ow, _ = node.output.shape
    rows = np.arange(oh)[:, None] * sy + np.arange(kernel[0])[None] * dy - top
    columns = np.arange(ow)[:, None] * sx + np.arange(kernel[1])[None] * dx - left
    row_ok, column_ok = (rows >= 0) & (rows < height), (columns >= 0) & (columns < width)
    inside = row_ok[:, None, :, None] & column_ok[None, :, None, :]
    picked = x[:, np.clip(rows, 0, height - 1)][:, :, :, np.clip(columns, 0, width - 1)]
    picked = picked.transpose(0, 1, 3, 2, 4, 5)
    return np.where(inside[None, ..., None], picked, np.asarray(fill).astype(x.dtype)), inside


def conv(node: Node, x: Array, w: Array, bias: Array | None = None) -> Array:
    groups = node.attributes["groups"]
    kh, kw, depth, filters = w.shape
    if "order" in node.attributes:
        x = x.transpose(node.attributes["order"])
    view, inside = windows(x, node, (kh, kw), 0)
    per_group = filters // groups
    if x.dtype != F:
        acc = np.zeros(node.output.shape, dtype=np.int64)
        for g in range(groups):
            part = view[..., g * depth : (g + 1) * depth].astype(np.int64)
            weights = w[..., g * per_group : (g + 1) * per_group].astype(np.int64)
            acc[..., g * per_group : (g + 1) * per_group] = np.einsum(
                "nhwabc,abcf->nhwf", part, weights
            )
        if bias is not None:
            acc = acc + bias
        return acc.astype(DTYPES[node.output.dtype])
    acc = np.zeros(node.output.shape, dtype=F)
    for ky in range(kh):
        for kx in range(kw):
            ok = inside[None, :, :, ky, kx, None]
            for c in range(depth):
                # Channel c of every group, spread over the group's filters.
                taps = (
                    view[:, :, :, ky, kx, c::depth]
                    if groups > 1
                    else view[:, :, :, ky, kx, c : c + 1]
                )
                values = np.repeat(taps, per_group, axis=-1) if groups > 1 else taps
                acc = np.where(ok, acc + values * w[ky, kx, c], acc)
    return acc if bias is None else acc + bias


def pool(node: Node, x: Array) -> Array:
    kind, kernel = node.attributes["reduce"], node.attributes["kernel"]
    view, inside = windows(x, node, kernel, 0)
    ok = inside[None, ..., None]
    start = None
    total = np.zeros(node.output.shape, dtype=x.dtype if x.dtype == F else np.int64)
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            tap, here = view[:, :, :, ky, kx], ok[:, :, :, ky, kx]
            if kind == "max":
                lowest = F(-np.inf) if x.dtype == F else np.iinfo(x.dtype).min
                start = (
                    np.full(node.output.shape, lowest, dtype=x.dtype) if start is None else start
                )
                start = np.where(here, maximum(start, tap), start)
            else:
                total = np.where(here, total + tap, total)
    if kind == "max":
        assert start is not None
        return start
    if kind == "avg":
        count = prod(kernel) if node.attributes["count_include_pad"] else inside.sum((2, 3))
        return total / np.asarray(count, dtype=F).reshape(
            (1, *np.shape(count), 1) if np.ndim(count) else ()
        )
    return total if x.dtype == F else total.astype(DTYPES[node.output.dtype])


def batch_matmul(node: Node, a: Array, b: Array) -> Array:
    if a.dtype != F:
        wide_product = np.matmul(a.astype(np.int64), b.astype(np.int64))
        return wide_product.astype(DTYPES[node.output.dtype])
    acc = np.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=F)
    for k in range(a.shape[2]):
        acc = acc + a[:, :, k : k + 1] * b[:, k : k + 1, :]
    return acc


# Quantised nodes


def requantise(acc: Array, node: Node, multiplier: Array, shift: Array) -> Array:
    """The rule of int8 results: high product, half to even, saturate, offset, saturate, bounds."""
    a = node.attributes
    acc = acc.astype(np.int64) << a["left"]
    assert np.all(np.abs(acc) < 2**31), "the interval was proven"
    h = (acc * multiplier.astype(np.int64)) >> 32
    r = shift.astype(np.int64)
    q, rest = h >> r, h - ((h >> r) << r)
    half = np.where(r > 0, np.int64(1) << np.maximum(r - 1, 0), np.int64(1))
    q = q + ((r > 0) & ((rest > half) | ((rest == half) & (q & 1 == 1))))
    q = np.clip(np.clip(q, -32768, 32767) + a["zero_y"], -32768, 32767)
    return np.minimum(np.clip(np.maximum(q, a["lower"]), -128, 127), a["upper"])


def q_conv(node: Node, x: Array, w: Array, bias: Array, multiplier: Array, shift: Array) -> Array:
    groups = node.attributes["groups"]
    kh, kw, depth, filters = w.shape
    view, _ = windows(x, node, (kh, kw), node.attributes["zero_x"])
    per_group = filters // groups
    acc = np.zeros(node.output.shape, dtype=np.int64)
    for g in range(groups):
        part = view[..., g * depth : (g + 1) * depth].astype(np.int64)
        acc[..., g * per_group : (g + 1) * per_group] = np.einsum(
            "nhwabc,abcf->nhwf", part, w[..., g * per_group : (g + 1) * per_group].astype(np.int64)
        )
    return requantise(acc + bias, node, multiplier, shift)


def q_add(node: Node, a: Array, b: Array) -> Array:
    at = node.attributes
    acc = (a.astype(np.int64) - at["zero_a"]) * at["multiplier_a"]
    acc = acc + (b.astype(np.int64) - at["zero_b"]) * at["multiplier_b"]
    q, rest, half = acc >> 20, acc & ((1 << 20) - 1), 1 << 19
    q = q + ((rest > half) | ((rest == half) & (q & 1 == 1)))
    return np.minimum(np.clip(np.maximum(q + at["zero_y"], at["lower"]), -128, 127), at["upper"])


def q_table(node: Node, x: Array) -> Array:
    return node.attributes["table"][x.astype(np.int64) + 128]


def q_mean(node: Node, x: Array, multiplier: Array, shift: Array) -> Array:
    axes = node.attributes["axes"]
    acc = (x.astype(np.int64) - node.attributes["zero_x"]).sum(axes)
    return requantise(acc, node, multiplier[0], shift[0])


def q_quantise(node: Node, x: Array) -> Array:
    scaled = np.rint(x / F(node.attributes["scale"])) + F(node.attributes["zero"])
    scaled = np.where(np.isnan(scaled), F(0), scaled)
    return np.clip(scaled, -128, 127).astype(np.int64)


def q_dequantise(node: Node, x: Array) -> Array:
    return (x.astype(np.int32) - node.attributes["zero"]).astype(F) * F(node.attributes["scale"])


NODES: dict[str, Callable[..., Array]] = {
    "neg": _wrapped(lambda x: -x),
    "abs": _wrapped(np.abs),
    "exp": lambda _, x: functions.exp(x),
    "exp2": lambda _, x: functions.exp2(x),
    "log": lambda _, x: functions.log(x),
    "log2": lambda _, x: functions.log2(x),
    "sin": lambda _, x: wide_functions.sin(x),
    "cos": lambda _, x: wide_functions.cos(x),
    "sqrt": lambda _, x: np.sqrt(x),
    "rsqrt": lambda _, x: F(1) / np.sqrt(x),
    "recip": lambda _, x: F(1) / x,
    "tanh": lambda _, x: functions.tanh(x),
    "relu": lambda _, x: maximum(x, np.zeros((), dtype=x.dtype)),
    "sigmoid": lambda _, x: functions.sigmoid(x),
    "square": _wrapped(lambda x: x * x),
    "cube": _wrapped(lambda x: (x * x) * x),
    "floor": lambda _, x: np.floor(x),
    "ceil": lambda _, x: np.ceil(x),
    "round": lambda _, x: np.rint(x),
    "silu": lambda _, x: x * functions.sigmoid(x),
    "silu_gate": lambda _, a, b: (a * functions.sigmoid(a)) * b,
    "gelu_tanh": gelu_tanh,
    "erf": lambda _, x: functions.erf(x),
    "gelu_erf": gelu_erf,
    "cast": cast,
    "requant": requant,
    "copy": lambda _, x: x,
    "clamp": clamp,
    "logical_not": lambda _, x: ~x,
    "logical_and": lambda _, a, b: a & b,
    "logical_or": lambda _, a, b: a | b,
    "logical_xor": lambda _, a, b: a ^ b,
    "add": _wrapped(lambda a, b: a + b),
    "sub": _wrapped(lambda a, b: a - b),
    "mul": _wrapped(lambda a, b: a * b),
    "div": _wrapped(_divide),
    "pow": power,
    "max": lambda _, a, b: maximum(a, b),
    "min": lambda _, a, b: minimum(a, b),
    "compare": compare,
    "select": lambda _, c, a, b: np.where(c, a, b),
    "conv": conv,
    "pool": pool,
    "reduce": rows.reduce,
    "softmax": rows.softmax,
    "layer_norm": rows.normalisation,
    "rms_norm": rows.normalisation,
    "batch_matmul": batch_matmul,
    "transpose": lambda node, x: x.transpose(node.attributes["permutation"]),
    "reshape": lambda node, x: x.reshape(node.output.shape),
    "slice": rows.strided,
    "insert": rows.insert,
    "pad": rows.pad,
    "concat": lambda node, *xs: np.concatenate(xs, node.attributes["axis"]),
    "gather": lambda node, x, i: np.take(
        x, np.clip(i, 0, x.shape[node.attributes["axis"]] - 1), axis=node.attributes["axis"]
    ),
    "scatter": rows.scatter,
    "argmax": rows.position,
    "argmin": rows.position,
    "cumsum": rows.cumsum,
    "sort": rows.sort,
    "argsort": rows.argsort,
    "q_conv": q_conv,
    "q_add": q_add,
    "q_table": q_table,
    "q_mean": q_mean,
    "q_quantise": q_quantise,
    "q_dequantise": q_dequantise,
}
