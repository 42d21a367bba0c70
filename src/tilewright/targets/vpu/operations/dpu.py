"""DPU operations: products, convolutions, pooling and element-wise arithmetic.

int8 sums are exact; f16 products are added in f32 in the order ky, kx, ic, with ic fastest. Then
come bias, scale, ReLU or clamp, and one rounding. Weights are [OC, KY, KX, IC], activations
NHWC, the second operand of a product [N, K].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.targets.vpu.operations.numbers import (
    add_products,
    check_i32,
    check_sum_length,
    exact_products,
    rounded,
    to_f32,
)


def matmul(arrays: list[np.ndarray], options: Mapping[str, Any]) -> list[np.ndarray]:
    """[M, K] times [N, K]; more operands by name: bias, scale or table, accumulator, residual."""
    first, second = arrays[:2]
    named = _named(arrays, options)
    if first.dtype == np.int8:
        check_sum_length(options.get("summed", first.shape[1]))
        exact = exact_products(first, second)
        return [_finish_i8(exact, named, options)]
    sums = _start(named, (first.shape[0], second.shape[0]))
    add_products(sums, first, second)
    return [_finish_f32(sums, named, options)]


def convolution(arrays: list[np.ndarray], options: Mapping[str, Any]) -> list[np.ndarray]:
    """[H, W, IC] with [OC, KY, KX, IC] to [OH, OW, OC]; padding is skipped, not multiplied."""
    image, weights = arrays[:2]
    named = _named(arrays, options)
    channels, ky_count, kx_count, inner = weights.shape
    height, width = _window_shape(image.shape, (ky_count, kx_count), options)
    shape = (height, width, channels)
    whole = image.dtype == np.int8
    if whole:
        check_sum_length(options.get("summed", ky_count * kx_count * inner))
        sums = np.zeros(shape, np.float64)
    else:
        sums = _start(named, shape)
    for ky in range(ky_count):
        for kx in range(kx_count):
            rows, columns, part = _taps(image, ky, kx, (height, width), options)
            weight = weights[:, ky, kx, :]
            if whole:
                flat = exact_products(part.reshape(-1, inner), weight)
                sums[rows, columns] += flat.reshape(*part.shape[:2], channels)
                continue
            own = np.ascontiguousarray(sums[rows, columns].reshape(-1, channels))
            add_products(own, part.reshape(-1, inner), weight)
            sums[rows, columns] = own.reshape(*part.shape[:2], channels)
    return [_finish_i8(sums, named, options) if whole else _finish_f32(sums, named, options)]


def depthwise(arrays: list[np.ndarray], options: Mapping[str, Any]) -> list[np.ndarray]:
    """[H, W, C] with [C, KY, KX] to [OH, OW, C]: every channel has its own filter."""
    image, weights = arrays[:2]
    named = _named(arrays, options)
    channels, ky_count, kx_count = weights.shape
    height, width = _window_shape(image.shape, (ky_count, kx_count), options)
    whole = image.dtype == np.int8
    sums = np.zeros((height, width, channels), np.float64 if whole else np.float32)
    for ky in range(ky_count):
        for kx in range(kx_count):
            rows, columns, part = _taps(image, ky, kx, (height, width), options)
            with np.errstate(all="ignore"):
                sums[rows, columns] += part.astype(sums.dtype) * weights[:, ky, kx].astype(
                    sums.dtype
                )
    return [_finish_i8(sums, named, options) if whole else _finish_f32(sums, named, options)]


def _named(arrays: list[np.ndarray], options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Operands behind the first two; a table gives scale and bias of every channel."""
    named = dict(zip(options.get("operands", ()), arrays[2:], strict=True))
    table = named.pop("table", None)
    if table is not None:
        named["scale"] = np.ascontiguousarray(table[:, 2]).view(np.float32)
        bias = np.ascontiguousarray(table[:, 3])
        named["bias"] = bias if arrays[0].dtype == np.int8 else bias.view(np.float32)
    return named


def elementwise(arrays: list[np.ndarray], options: Mapping[str, Any]) -> list[np.ndarray]:
    """One f32 operation of two operands; i8 operands count times their scale ratio."""
    ratios = options.get("ratios", (1.0, 1.0))
    operands = [
        to_f32(array) * np.float32(ratio) if ratio != 1 else to_f32(array)
        for array, ratio in zip(arrays, ratios, strict=True)
    ]
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                 "maximum": np.maximum, "minimum": np.minimum}  # fmt: skip
    with np.errstate(all="ignore"):
        result = functions[options["function"]](*operands)
        return [rounded(_activated(result, options), options["output"])]


def pool(arrays: list[np.ndarray], options: Mapping[str, Any]) -> list[np.ndarray]:
    """Max pooling, exact, or average pooling over valid positions (or all, if it counts padding)."""
    (image,) = arrays
    kernel = tuple(options["kernel"])
    shape = _window_shape(image.shape, kernel, options)
    largest = options["function"] == "max"
    whole = image.dtype == np.int8
    dtype = np.float32 if not whole else np.int64
    start = (-np.inf if not whole else -(2**31)) if largest else 0
    result = np.full((*shape, image.shape[2]), start, dtype)
    count = np.zeros((*shape, 1), np.int64)
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            rows, columns, part = _taps(image, ky, kx, shape, options)
            part = part.astype(dtype)
            count[rows, columns] += 1
            if largest:
                result[rows, columns] = np.maximum(result[rows, columns], part)
            else:
                result[rows, columns] += part
    if largest:
        ratio = options.get("ratio", 1.0)
        scaled = result.astype(np.float32)
        if ratio != 1.0:
            scaled = scaled * np.float32(ratio)
        return [rounded(scaled, options["output"])]
    if options.get("count_padding"):
        count[...] = kernel[0] * kernel[1]
    if options["function"] == "sum":
        count[...] = 1
    inverse = (1.0 / np.maximum(count, 1)).astype(np.float32)
    scaled = result.astype(np.float32) * inverse * np.float32(options.get("ratio", 1.0))
    return [rounded(scaled, options["output"])]


def _window_shape(
    image: tuple[int, ...], kernel: tuple[int, ...], options: Mapping[str, Any]
) -> tuple[int, int]:
    """Height and width of the result; padding is (top, left, bottom, right)."""
    top, left, bottom, right = options.get("padding", (0, 0, 0, 0))
    down, across = options.get("strides", (1, 1))
    apart, aside = options.get("dilations", (1, 1))
    height = (image[0] + top + bottom - apart * (kernel[0] - 1) - 1) // down + 1
    return height, (image[1] + left + right - aside * (kernel[1] - 1) - 1) // across + 1


def _taps(
    image: np.ndarray, ky: int, kx: int, shape: tuple[int, int], options: Mapping[str, Any]
) -> tuple[slice, slice, np.ndarray]:
    """Outputs that one tap of the kernel reaches, and the inputs it takes for them."""
    top, left = options.get("padding", (0, 0, 0, 0))[:2]
    down, across = options.get("strides", (1, 1))
    apart, aside = options.get("dilations", (1, 1))
    rows, first_row, count_rows = _valid(ky * apart - top, down, shape[0], image.shape[0])
    columns, first_column, count_columns = _valid(
        kx * aside - left, across, shape[1], image.shape[1]
    )
    part = image[
        first_row : first_row + (count_rows - 1) * down + 1 if count_rows else first_row : down,
        first_column : first_column + (count_columns - 1) * across + 1
        if count_columns
        else first_column : across,
    ]
    return rows, columns, part


def _valid(shift: int, stride: int, outputs: int, inputs: int) -> tuple[slice, int, int]:
    """Outputs o with 0 <= o * stride + shift < inputs: a slice, the first input, and how many."""
    first = max(0, -(shift // stride)) if shift < 0 else 0
    last = min(outputs - 1, (inputs - 1 - shift) // stride)
    count = max(0, last - first + 1)
    return slice(first, first + count), first * stride + shift, count


def _start(named: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    if "accumulator" in named:
        return named["accumulator"].astype(np.float32)
    return np.zeros(shape, np.float32)


def _finish_i8(
    exact: np.ndarray, named: Mapping[str, np.ndarray], options: Mapping[str, Any]
) -> np.ndarray:
    if "accumulator" in named:
        exact = exact + named["accumulator"].astype(np.float64)
    if "bias" in named:
        exact = exact + named["bias"].astype(np.float64)
    sums = check_i32(exact)
    if options["output"] == "i32":
        return sums
    scale = named["scale"] if "scale" in named else np.float32(options["factor"])
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = to_f32(sums) * scale
    return _with_residual(rounded(_activated(scaled, options), options["output"]), named, options)


def _with_residual(
    result: np.ndarray, named: Mapping[str, np.ndarray], options: Mapping[str, Any]
) -> np.ndarray:
    """An element-wise add of what was rounded already."""
    if "residual" not in named:
        return result
    with np.errstate(all="ignore"):
        return rounded(to_f32(result) + to_f32(named["residual"]), options["output"])


def _finish_f32(
    sums: np.ndarray, named: Mapping[str, np.ndarray], options: Mapping[str, Any]
) -> np.ndarray:
    with np.errstate(all="ignore"):
        if "bias" in named:
            sums = sums + named["bias"].astype(np.float32)
        if "scale" in named:
            sums = sums * named["scale"].astype(np.float32)
        elif "factor" in options:
            sums = sums * np.float32(options["factor"])
        result = rounded(_activated(sums, options), options["output"])
    return _with_residual(result, named, options)


def _activated(values: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """ReLU or clamp of f32 values."""
    if options.get("relu"):
        values = np.maximum(values, np.float32(0))
    if "clamp" in options:
        low, high = (np.float32(bound) for bound in options["clamp"])
        values = np.minimum(np.maximum(values, low), high)
    return values
