"""SHAVE operations: inputs to f32, every step rounded to f32, one rounding at the end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from tilewright.targets.vpu.operations.dpu import matmul
from tilewright.targets.vpu.operations.numbers import (
    erf,
    exp,
    lane_sum,
    rounded,
    table,
    to_f32,
)

Arrays = list[np.ndarray]
Options = Mapping[str, Any]


def _output(values: np.ndarray, options: Options) -> np.ndarray:
    """The one rounding of a kernel; i8 results count in units of `output_scale`."""
    if options["output"] == "i8":
        values = values * np.float32(1.0 / np.float64(options["output_scale"]))
    return rounded(values, options["output"])


def inputs_of(arrays: Arrays, options: Options) -> Arrays:
    """Operands as f32; i8 counts in units of its scale."""
    factors = options.get("input_scales", ())
    return [
        to_f32(array) * np.float32(factors[number]) if array.dtype == np.int8 else to_f32(array)
        for number, array in enumerate(arrays)
    ]


def masked(values: np.ndarray, mask: np.ndarray | None, options: Options) -> np.ndarray:
    """Scores with their mask added; -inf where a query does not see a key.

    `shared` lines are heads of one query row. `causal` = (query, key) of the first line and
    column; from column `valid` on keys are padding.
    """
    shared = options.get("shared", 1)
    if mask is not None:
        values = values + (mask if mask.shape[0] == 1 else np.repeat(mask, shared, axis=0))
    hidden = np.zeros(values.shape[-2:], bool)
    if "causal" in options:
        query, key = options["causal"]
        lines = query + np.arange(values.shape[-2]) // shared
        hidden |= key + np.arange(values.shape[-1])[None, :] > lines[:, None]
    if "valid" in options:
        hidden[:, max(0, options["valid"]) :] = True
    return np.where(hidden, np.float32(-np.inf), values)


def softmax(arrays: Arrays, options: Options) -> Arrays:
    """Rows of x·c + A; a row of -inf gives 0."""
    arrays = inputs_of(arrays, options)
    values = arrays[0] * np.float32(options.get("factor", 1.0))
    with np.errstate(all="ignore"):
        values = masked(values, arrays[1] if len(arrays) > 1 else None, options)
        largest = values.max(axis=-1, keepdims=True)
        powers = exp(values - largest)
        result = powers / lane_sum(powers)[..., None]
    return [_output(np.where(np.isneginf(largest), np.float32(0), result), options)]


def rms_norm(arrays: Arrays, options: Options) -> Arrays:
    """(x·r)·w with r = 1/sqrt(sum(x·x)/n + eps)."""
    values, *weights = inputs_of(arrays, options)
    with np.errstate(all="ignore"):
        mean = lane_sum(values * values) / np.float32(values.shape[-1])
        inverse = np.float32(1) / np.sqrt(mean + np.float32(options["epsilon"]))
        result = values * inverse[..., None]
        return [_output(result * weights[0] if weights else result, options)]


def layer_norm(arrays: Arrays, options: Options) -> Arrays:
    """(d·r)·g + b with d = x - mean and r = 1/sqrt(sum(d·d)/n + eps)."""
    values, *more = inputs_of(arrays, options)
    count = np.float32(values.shape[-1])
    with np.errstate(all="ignore"):
        apart = values - (lane_sum(values) / count)[..., None]
        variance = lane_sum(apart * apart) / count
        inverse = np.float32(1) / np.sqrt(variance + np.float32(options["epsilon"]))
        result = apart * inverse[..., None]
        if more:
            result = result * more[0]
        return [_output(result + more[1] if len(more) > 1 else result, options)]


UNARY = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "neg": np.negative,
    "abs": np.abs,
    "square": np.square,
    "cube": lambda x: x * x * x,
    "recip": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
}


@cache
def unary_table(function: str) -> np.ndarray:
    """The results of a function for every f16."""
    return table(UNARY[function])


def unary(arrays: Arrays, options: Options) -> Arrays:
    """A function of one f16 to f16, correctly rounded; f32 inputs go through double once."""
    (values,) = arrays
    name = options["function"]
    if values.dtype == np.float16 and options["output"] == "f16":
        return [unary_table(name)[values.view(np.uint16)]]
    with np.errstate(all="ignore"):
        result = UNARY[name](inputs_of(arrays, options)[0].astype(np.float64)).astype(np.float32)
    return [_output(result, options)]


def silu_gate(arrays: Arrays, options: Options) -> Arrays:
    """silu(g)·u in f32."""
    gate, up = inputs_of(arrays, options)
    with np.errstate(all="ignore"):
        return [_output(gate / (np.float32(1) + exp(-gate)) * up, options)]


def rope(arrays: Arrays, options: Options) -> Arrays:
    """Rotate pairs: halves of the last axis, or neighbours when interleaved."""
    values, cosine, sine = inputs_of(arrays, options)
    half = values.shape[-1] // 2
    places = (slice(None, half), slice(half, None))
    if options.get("interleaved"):
        places = (slice(0, None, 2), slice(1, None, 2))
    tables = [(cosine, sine)] * 2
    if cosine.shape[-1] == values.shape[-1]:  # an entry per element, not per pair
        tables = [(cosine[..., place], sine[..., place]) for place in places]
    first, second = (values[..., place] for place in places)
    result = np.empty_like(values)
    with np.errstate(all="ignore"):
        result[..., places[0]] = first * tables[0][0] - second * tables[0][1]
        result[..., places[1]] = second * tables[1][0] + first * tables[1][1]
    return [_output(result, options)]


def binary(arrays: Arrays, options: Options) -> Arrays:
    """One f32 operation of two operands, broadcast as numpy does."""
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                 "divide": np.divide, "maximum": np.maximum, "minimum": np.minimum}  # fmt: skip
    with np.errstate(all="ignore"):
        result = functions[options["function"]](*inputs_of(arrays, options))
    return [_output(result, options)]


def scale(arrays: Arrays, options: Options) -> Arrays:
    with np.errstate(all="ignore"):
        values = inputs_of(arrays, options)[0] * np.float32(options["factor"])
        return [_output(values, options)]


def bound(arrays: Arrays, options: Options) -> Arrays:
    """Values held between two numbers."""
    low, high = np.float32(options["low"]), np.float32(options["high"])
    (values,) = inputs_of(arrays, options)
    return [_output(np.minimum(np.maximum(values, low), high), options)]


def cast(arrays: Arrays, options: Options) -> Arrays:
    """Between formats: quantise, dequantise (times `input_scale`) and plain rounding."""
    (values,) = inputs_of(arrays, options)
    if "input_scale" in options:
        values = values * np.float32(options["input_scale"])
    return [_output(values, options)]


def select(arrays: Arrays, options: Options) -> Arrays:
    """The second operand where the first is not 0, else the third."""
    choice, first, second = inputs_of(arrays, options)
    return [_output(np.where(choice != 0, first, second), options)]


def row_reduce(arrays: Arrays, options: Options) -> Arrays:
    """Maximum, minimum, sum or mean of every row."""
    (values,) = inputs_of(arrays, options)
    if options["function"] in ("max", "min"):
        return [_output(getattr(values, options["function"])(axis=-1), options)]
    total = lane_sum(values)
    if options["function"] == "mean":
        total = total / np.float32(values.shape[-1])
    return [_output(total, options)]


def transpose(arrays: Arrays, options: Options) -> Arrays:
    return [np.ascontiguousarray(arrays[0].transpose(options["permutation"]))]


def online_softmax(arrays: Arrays, options: Options) -> Arrays:
    """One block of scores: (s[, m, l][, mask]) to (p, a, m', l'). Fully masked rows keep their state.

    The first block of a chain has no state.
    """
    scores = to_f32(arrays[0])
    rest = arrays[1:]
    largest = np.full(scores.shape[:-1], -np.inf, np.float32)
    total = np.zeros(scores.shape[:-1], np.float32)
    if not options.get("first"):
        largest, total = to_f32(rest[0]), to_f32(rest[1])
        rest = rest[2:]
    values = scores * np.float32(options.get("factor", 1.0))
    with np.errstate(all="ignore"):
        values = masked(values, to_f32(rest[0]) if rest else None, options)
        now = np.maximum(largest, values.max(axis=-1))
        hidden = np.isneginf(now)
        decay = np.where(hidden, np.float32(1), exp(largest - now))
        powers = np.where(hidden[..., None], np.float32(0), exp(values - now[..., None]))
        total = decay * total + lane_sum(powers)
    return [rounded(powers, "f16"), decay, now, total]


def accumulate(arrays: Arrays, options: Options) -> Arrays:
    """o' = a·o + p·v, row by row."""
    output, decay, product = (to_f32(array) for array in arrays)
    with np.errstate(all="ignore"):
        return [decay[..., None] * output + product]


def normalise(arrays: Arrays, options: Options) -> Arrays:
    """o / l; rows whose sum is 0 were fully masked and give 0."""
    output, total = (to_f32(array) for array in arrays)
    with np.errstate(all="ignore"):
        result = output / total[..., None]
    return [_output(np.where(total[..., None] == 0, np.float32(0), result), options)]


def partial_attention(arrays: Arrays, options: Options) -> Arrays:
    """One block of keys as a whole: (q, k, v[, m, l, o][, mask]) to (m', l', o'), or to o' / l'."""
    queries, keys, values = arrays[:3]
    rest = arrays[3:]
    state = [] if options.get("first") else rest[:3]
    mask = rest[len(state) :]
    (scores,) = matmul([queries, keys], {"output": "f16"})
    powers, decay, largest, total = online_softmax([scores, *state[:2], *mask], options)
    (product,) = matmul([powers, values], {"output": "f32"})
    output = accumulate([state[2], decay, product], options)[0] if state else product
    if options.get("last"):
        return normalise([output, total], options)
    return [largest, total, output]
