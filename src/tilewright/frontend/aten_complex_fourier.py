"""Fourier transforms of known size: products with constant matrices of cosines and sines.

A program that torch has taken apart has three kinds of them; a saved one the functions of torch.fft.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.aten_complex import Pair, Splitter, handles
from tilewright.frontend.aten_complex_calls import times
from tilewright.frontend.aten_graph import Node, Ref, TensorInfo


def _scale(normalization: int, count: int) -> float:
    """The factor of a transform: one, one over the root of its size, one over its size."""
    return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _waves(rows: int, columns: int, size: int) -> tuple[Any, Any]:
    """Cosine and sine of 2 pi row column / size, exact in the multiple of a turn."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % size
    angles = 2 * np.pi * turns / size
    return np.cos(angles), np.sin(angles)


def _along(splitter: Splitter, pair: Pair, matrix: Pair, dim: int, shape: tuple[int, ...]) -> Pair:
    """A pair times a constant matrix along one dimension."""
    last = len(shape) - 1
    order = [d for d in range(len(shape)) if d != dim] + [dim]
    back = [order.index(d) for d in range(len(shape))]

    def moved(part: Any, places: list[int]) -> Any:
        if part is None or dim == last:
            return part
        info = splitter.info(part)
        size = tuple(info.shape[d] for d in places)
        return splitter.call(
            "aten.permute.default", TensorInfo(size, info.dtype), self=part, dims=places
        )

    kind = splitter.info(pair.real).dtype
    columns = splitter.info(matrix.real).shape[1]
    info = TensorInfo((*(shape[d] for d in order[:-1]), columns), kind)
    rows = Pair(moved(pair.real, order), moved(pair.imaginary, order))
    found = times(splitter, rows, matrix, info, "aten.matmul.default")
    return Pair(moved(found.real, back), moved(found.imaginary, back))


def _transform(
    splitter: Splitter,
    pair: Pair,
    dim: int,
    forward: bool,
    normalization: int,
    columns: int | None = None,
) -> Pair:
    """The transform along one dimension; columns: only so many of its frequencies."""
    info = splitter.info(pair.real)
    size = info.shape[dim]
    scale = _scale(normalization, size)
    cosine, sine = _waves(size, columns or size, size)
    sine = -sine if forward else sine
    matrix = Pair(*(splitter.constant(part * scale, info.dtype) for part in (cosine, sine)))
    return _along(splitter, pair, matrix, dim, info.shape)


def _half_back(splitter: Splitter, pair: Pair, dim: int, size: int, normalization: int) -> Ref:
    """Backwards to real numbers, from half of the frequencies; the others are their conjugates."""
    shape = splitter.info(pair.real).shape
    half = shape[dim]
    cosine, sine = _waves(half, size, size)
    weight = np.full((half, 1), 2.0)
    weight[0] = 1
    if size % 2 == 0:
        weight[size // 2 :] = 1
    weight *= _scale(normalization, size)
    kind = splitter.info(pair.real).dtype
    matrix = Pair(*(splitter.constant(part * weight, kind) for part in (cosine, sine)))
    return _along(splitter, pair, matrix, dim, shape).real


# --------------------------------------------------------------------------- taken apart


def _given(splitter: Splitter, node: Node) -> tuple[Pair, list[int], tuple[int, ...], int]:
    shape = splitter.graph.values[node.get("self").name].shape
    dims = [d % len(shape) for d in node.get("dim")]
    return splitter.pair(node.get("self")), dims, shape, node.get("normalization")


@handles("_fft_c2c.default")
def transform(splitter: Splitter, node: Node) -> Pair:
    pair, dims, _, normalization = _given(splitter, node)
    for dim in dims:
        pair = _transform(splitter, pair, dim, node.get("forward"), normalization)
    return pair


@handles("_fft_r2c.default")
def transform_of_real(splitter: Splitter, node: Node) -> Pair:
    """The last dimension first; of that only one half is asked for, mostly."""
    pair, dims, shape, normalization = _given(splitter, node)
    for dim in reversed(dims):
        half = shape[dim] // 2 + 1 if dim == dims[-1] and node.get("onesided") else None
        pair = _transform(splitter, pair, dim, True, normalization, half)
    return pair


@handles("_fft_c2r.default")
def transform_to_real(splitter: Splitter, node: Node) -> Ref:
    pair, (*dims, last), _, normalization = _given(splitter, node)
    for dim in dims:
        pair = _transform(splitter, pair, dim, False, normalization)
    return _half_back(splitter, pair, last, node.get("last_dim_size"), normalization)


# --------------------------------------------------------------------------- torch.fft


def _resized(splitter: Splitter, pair: Pair, dim: int, size: int) -> Pair:
    """Cut, or filled up with zeros behind, along one dimension."""
    info = splitter.info(pair.real)
    old, behind = info.shape[dim], len(info.shape) - 1 - dim
    if old == size:
        return pair
    found = TensorInfo((*info.shape[:dim], size, *info.shape[dim + 1 :]), info.dtype)

    def one(part: Any) -> Any:
        if part is None:
            return None
        if size < old:
            return splitter.call("aten.slice.Tensor", found, self=part, dim=dim, start=0, end=size)
        pad = [0, 0] * behind + [0, size - old]
        return splitter.call("aten.constant_pad_nd.default", found, self=part, pad=pad)

    return Pair(one(pair.real), one(pair.imaginary))


def _steps(
    node: Node, rank: int, shape: Sequence[int], real_result: bool
) -> tuple[list[int], list[int]]:
    """The dimensions of a call of torch.fft, and the sizes they are cut or filled up to."""
    several = node.target.split(".")[1].endswith(("2", "n"))
    if not several:
        dims, sizes = [node.get("dim", -1)], node.get("n")
        sizes = None if sizes is None else [sizes]
    else:
        sizes = node.get("s")
        last_two = [-2, -1] if "2" in node.target else None
        count = rank if sizes is None else len(sizes)
        dims = node.get("dim") or last_two or list(range(rank - count, rank))
    dims = [d % rank for d in dims]
    own = [shape[d] for d in dims]
    if real_result:  # of the last dimension there is one half
        own[-1] = 2 * (own[-1] - 1)
    given = own if sizes is None else [o if n == -1 else n for n, o in zip(sizes, own, strict=True)]
    return dims, given


FUNCTIONS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@handles(*(f"fft_{name}.default" for name in FUNCTIONS))
@handles(*(f"fft_{name[:-1]}t{more}.default" for name in FUNCTIONS[:4] for more in "2n"))
def function_of_torch(splitter: Splitter, node: Node) -> Any:
    name = node.target.split(".")[1].removeprefix("fft_")
    pair = splitter.pair(node.get("self"))
    shape = splitter.info(pair.real).shape
    real_result, one_half = name.startswith(("irfft", "hfft")), name.startswith(("rfft", "ihfft"))
    dims, sizes = _steps(node, len(shape), shape, real_result)
    forward = name.startswith(("fft", "rfft", "hfft"))
    where = {"backward": 0 if forward else 2, "ortho": 1, "forward": 2 if forward else 0}
    normalization = where[node.get("norm") or "backward"]
    kept = [*sizes[:-1], sizes[-1] // 2 + 1] if real_result else sizes
    for dim, size in zip(dims, kept, strict=True):
        pair = _resized(splitter, pair, dim, size)
    if real_result:
        if forward:  # of conjugates, backwards
            pair = Pair(pair.real, splitter.negated(pair.imaginary))
        for dim in dims[:-1]:
            pair = _transform(splitter, pair, dim, False, normalization)
        return _half_back(splitter, pair, dims[-1], sizes[-1], normalization)
    for dim, size in zip(reversed(dims), reversed(sizes), strict=True):
        half = size // 2 + 1 if one_half and dim == dims[-1] else None
        pair = _transform(splitter, pair, dim, forward, normalization, half)
    return pair


@handles("stft.default")
def short_transforms(splitter: Splitter, node: Node) -> Any:
    """Stretches of a signal times a window, each transformed: [.., frequencies, stretches]."""
    given = splitter.pair(node.get("self"))
    size, (*lead, length) = node.get("n_fft"), splitter.info(given.real).shape
    kind = splitter.info(given.real).dtype
    if given.imaginary is not None or not node.get("return_complex", False):
        raise node.error(
            "TW6103", f"{node.target} of complex numbers, or as pairs",
            "take torch.view_as_real of the result of return_complex=True",
        )  # fmt: skip
    step = node.get("hop_length") or size // 4
    count = (length - size) // step + 1
    shape = (*lead, count, size)
    rows = splitter.call(
        "aten.unfold.default", TensorInfo(shape, kind), self=given.real, dimension=len(lead),
        size=size, step=step,
    )  # fmt: skip
    window = node.get("window")
    wide = node.get("win_length") or size
    if window is None and wide < size:
        window = splitter.constant(np.ones(wide), kind)
    if window is not None:
        before = (size - wide) // 2
        if wide < size:
            window = splitter.call(
                "aten.constant_pad_nd.default", TensorInfo((size,), kind), self=window,
                pad=[before, size - wide - before],
            )  # fmt: skip
        rows = splitter.call("aten.mul.Tensor", TensorInfo(shape, kind), self=rows, other=window)
    half = size // 2 + 1 if node.get("onesided") is not False else None
    normalization = 1 if node.get("normalized", False) else 0
    found = _transform(splitter, Pair(rows, None), len(shape) - 1, True, normalization, half)

    def turned(part: Any) -> Any:
        order = [*range(len(lead)), len(lead) + 1, len(lead)]
        info = splitter.info(part)
        moved = TensorInfo(tuple(info.shape[d] for d in order), info.dtype)
        return splitter.call("aten.permute.default", moved, self=part, dims=order)

    return Pair(turned(found.real), turned(found.imaginary))
