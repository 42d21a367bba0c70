"""SHAVE operations: inputs to f32, every step rounded to f32, one rounding at the end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

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


def softmax(arrays: Arrays, options: Options) -> Arrays:
    """Rows of x·c + A; a row of -inf gives 0."""
    values = to_f32(arrays[0]) * np.float32(options.get("factor", 1.0))
    with np.errstate(all="ignore"):
        if len(arrays) > 1:
            values = values + to_f32(arrays[1])
        largest = values.max(axis=-1, keepdims=True)
        powers = exp(values - largest)
        result = powers / lane_sum(powers)[..., None]
    return [_output(np.where(np.isneginf(largest), np.float32(0), result), options)]


def rms_norm(arrays: Arrays, options: Options) -> Arrays:
    """(x·r)·w with r = 1/sqrt(sum(x·x)/n + eps)."""
    values, weight = to_f32(arrays[0]), to_f32(arrays[1])
    with np.errstate(all="ignore"):
        mean = lane_sum(values * values) / np.float32(values.shape[-1])
        inverse = np.float32(1) / np.sqrt(mean + np.float32(options["epsilon"]))
        return [_output(values * inverse[..., None] * weight, options)]


def layer_norm(arrays: Arrays, options: Options) -> Arrays:
    """(d·r)·g + b with d = x - mean and r = 1/sqrt(sum(d·d)/n + eps)."""
    values, weight, bias = (to_f32(array) for array in arrays)
    count = np.float32(values.shape[-1])
    with np.errstate(all="ignore"):
        apart = values - (lane_sum(values) / count)[..., None]
        variance = lane_sum(apart * apart) / count
        inverse = np.float32(1) / np.sqrt(variance + np.float32(options["epsilon"]))
        return [_output(apart * inverse[..., None] * weight + bias, options)]


_UNARY = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
}


@cache
def unary_table(function: str) -> np.ndarray:
    """The results of a function for every f16."""
    return table(_UNARY[function])


def unary(arrays: Arrays, options: Options) -> Arrays:
    """A function of one f16 to f16, correctly rounded; f32 inputs go through double once."""
    (values,) = arrays
    name = options["function"]
    if values.dtype == np.float16 and options["output"] == "f16":
        return [unary_table(name)[values.view(np.uint16)]]
    with np.errstate(all="ignore"):
        result = _UNARY[name](values.astype(np.float64)).astype(np.float32)
    return [_output(result, options)]


def silu_gate(arrays: Arrays, options: Options) -> Arrays:
    """silu(g)·u in f32."""
    gate, up = to_f32(arrays[0]), to_f32(arrays[1])
    with np.errstate(all="ignore"):
        return [_output(gate / (np.float32(1) + exp(-gate)) * up, options)]


def rope(arrays: Arrays, options: Options) -> Arrays:
    """Rotate pairs: halves of the last axis, or neighbours when interleaved."""
    values, cosine, sine = (to_f32(array) for array in arrays)
    half = values.shape[-1] // 2
    if options.get("interleaved"):
        first, second = values[..., 0::2], values[..., 1::2]
    else:
        first, second = values[..., :half], values[..., half:]
    with np.errstate(all="ignore"):
        left = first * cosine - second * sine
        right = second * cosine + first * sine
    result = np.empty_like(values)
    if options.get("interleaved"):
        result[..., 0::2], result[..., 1::2] = left, right
    else:
        result[..., :half], result[..., half:] = left, right
    return [_output(result, options)]


def binary(arrays: Arrays, options: Options) -> Arrays:
    """One f32 operation of two operands, broadcast as numpy does."""
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                 "divide": np.divide, "maximum": np.maximum}  # fmt: skip
    with np.errstate(all="ignore"):
        result = functions[options["function"]](to_f32(arrays[0]), to_f32(arrays[1]))
    return [_output(result, options)]


def scale(arrays: Arrays, options: Options) -> Arrays:
    with np.errstate(all="ignore"):
        return [_output(to_f32(arrays[0]) * np.float32(options["factor"]), options)]


def cast(arrays: Arrays, options: Options) -> Arrays:
    """Between formats: quantise, dequantise (times `input_scale`) and plain rounding."""
    values = to_f32(arrays[0])
    if "input_scale" in options:
        values = values * np.float32(options["input_scale"])
    return [_output(values, options)]


def select(arrays: Arrays, options: Options) -> Arrays:
    """The second operand where the first is not 0, else the third."""
    choice, first, second = arrays
    return [_output(np.where(choice != 0, to_f32(first), to_f32(second)), options)]


def row_reduce(arrays: Arrays, options: Options) -> Arrays:
    """Maximum, sum or mean of every row."""
    values = to_f32(arrays[0])
    if options["function"] == "max":
        return [_output(values.max(axis=-1), options)]
    total = lane_sum(values)
    if options["function"] == "mean":
        total = total / np.float32(values.shape[-1])
    return [_output(total, options)]


def transpose(arrays: Arrays, options: Options) -> Arrays:
    return [np.ascontiguousarray(arrays[0].transpose(options["permutation"]))]


def online_softmax(arrays: Arrays, options: Options) -> Arrays:
    """One block of scores: (s, m, l[, mask]) to (p, a, m', l'). Fully masked rows keep their state."""
    scores, largest, total = (to_f32(array) for array in arrays[:3])
    values = scores * np.float32(options.get("factor", 1.0))
    with np.errstate(all="ignore"):
        if len(arrays) > 3:
            values = values + to_f32(arrays[3])
        now = np.maximum(largest, values.max(axis=-1))
        masked = np.isneginf(now)
        decay = np.where(masked, np.float32(1), exp(largest - now))
        powers = np.where(masked[..., None], np.float32(0), exp(values - now[..., None]))
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
