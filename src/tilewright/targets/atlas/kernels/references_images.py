"""What the kernels over images must compute, from the definition of a convolution and of pooling.

Works on images as they are given ([..., H, W, C]); how they are stored plays no part here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.convolution import GATE, Convolution
from tilewright.targets.atlas.kernels.convolution_pooling import Pool
from tilewright.targets.atlas.kernels.image_operands import DenseFilters, JoinedFilters
from tilewright.targets.atlas.kernels.images import round_up
from tilewright.targets.atlas.kernels.narrow_images import NarrowImage
from tilewright.targets.atlas.kernels.pooling import GlobalPooling, ImageSum, Pooling
from tilewright.targets.atlas.kernels.references import (
    SIDE,
    TINY,
    Codes,
    Reference,
    U,
    to_fp8,
)
from tilewright.targets.atlas.model.references_steps import UNARY, constant
from tilewright.targets.atlas.profile import Profile

LOWEST = 0xFE  # of fp8
BESIDE = (
    "scale",
    "bias",
    "added",
    "gate",
)  # operands of a convolution behind its images and filters


def hard_sigmoid(x: Codes) -> Codes:
    """x / 6 + 1/2 between 0 and 1."""
    line = arith.add(arith.multiply(x, constant(1 / 6)), constant(0.5))
    return arith.extreme(arith.relu(line), constant(1.0), larger=False)


# Activation on bit patterns, in float64, and how steep it is at most.
ACTIVATIONS: dict[str, tuple[Callable[[Codes], Codes], Callable, float]] = {
    "none": (lambda x: x, lambda x: x, 1.0),
    "relu": (arith.relu, lambda x: np.maximum(x, 0), 1.0),
    "relu6": (
        lambda x: arith.extreme(arith.relu(x), constant(6.0), larger=False),
        lambda x: np.clip(x, 0, 6),
        1.0,
    ),
    "silu": (UNARY["silu"], lambda x: x / (1 + np.exp(-x)), 1.1),
    "gelu": (
        UNARY["gelu_tanh"],
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        1.2,
    ),
    "sigmoid": (UNARY["sigmoid"], lambda x: 1 / (1 + np.exp(-x)), 0.25),
    "tanh": (UNARY["tanh"], np.tanh, 1.0),
    "hardsigmoid": (hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1), 0.2),
    "hardswish": (
        lambda x: arith.multiply(x, hard_sigmoid(x)),
        lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
        1.5,
    ),
}


def windows(image: np.ndarray, layer: Convolution | Pooling, border: float) -> np.ndarray:
    """[..., rows, columns, taps, C]: the pixels under every tap, read one by one."""
    window, (height, width) = layer.window, image.shape[-3:-1]
    rows, columns = layer.out.height, layer.out.width
    taps = []
    for i in range(window.height):
        for j in range(window.width):
            r = np.arange(rows) * window.steps[0] + i * window.spacing[0] - window.sides[0]
            q = np.arange(columns) * window.steps[1] + j * window.spacing[1] - window.sides[1]
            seen = ((r >= 0) & (r < height))[:, None] & ((q >= 0) & (q < width))[None, :]
            pixels = image[..., r.clip(0, height - 1)[:, None], q.clip(0, width - 1)[None, :], :]
            taps.append(np.where(seen[..., None], pixels, np.array(border).astype(image.dtype)))
    return np.stack(taps, axis=-2)


def _whole(x: np.ndarray, axis: int) -> np.ndarray:
    """Zeros up to whole tiles along an axis."""
    grow = [(0, 0)] * x.ndim
    grow[axis] = (0, -x.shape[axis] % SIDE)
    return np.pad(x, grow)


def _placed(array: np.ndarray, places: np.ndarray, size: int, axis: int = -1) -> np.ndarray:
    """What stands along an axis at these places of a longer one, with zeros between."""
    moved = np.moveaxis(array, axis, -1)
    whole = np.zeros((*moved.shape[:-1], size), array.dtype)
    whole[..., places] = moved
    return np.moveaxis(whole, -1, axis)


def _joined(layer: Convolution, *given: np.ndarray) -> list[np.ndarray]:
    """The arrays that a convolution takes, with one image in place of those it reads as one."""
    sources = layer.plan.sources if layer.plan is not None else ()
    if not sources:
        return list(given)
    images = []
    for array, source in zip(given, sources, strict=False):
        down, across = source.enlarged
        images.append(array.repeat(down, axis=-3).repeat(across, axis=-2))
    return [np.concatenate(images, axis=-1), *given[len(sources) :]]


def _sums(pixels: Codes, taps: Codes, sees: np.ndarray, start: Codes | None = None) -> Codes:
    """Sums of products through taps [taps, C, N] and the channels that tiles of filters see. start:
    what they are added to."""
    out = np.zeros((len(pixels), taps.shape[-1]), np.uint16)
    for n in range(0, taps.shape[-1], SIDE):
        used = np.flatnonzero(sees[:, n : n + SIDE].any(1)) // SIDE
        total = start
        for t in range(len(taps)):
            for c in range(used.min() * SIDE, used.max() * SIDE + SIDE, SIDE):
                tap = taps[t, c : c + SIDE, n : n + SIDE]
                total = arith.matmul(pixels[:, t, c : c + SIDE], tap, total)
        assert total is not None
        out[:, n : n + SIDE] = total
    return out


def _beside_others(
    out: NarrowImage, pixels: Codes, taps: Codes, sees: np.ndarray, shape: tuple[int, ...]
) -> Codes:
    """Sums in accumulators that have products of other pixels before and after them, which are zero."""
    before, after = (np.broadcast_to(one, shape).reshape(-1) for one in out.neighbours())
    found = np.zeros((len(pixels), taps.shape[-1]), np.uint16)
    if not before.all():
        found[~before] = _sums(pixels[~before], taps, sees)
    if before.any():
        nothing = np.zeros((before.sum(), SIDE), np.uint16)
        found[before] = _sums(pixels[before], taps, sees, nothing)
    if after.any():
        nothing = np.zeros((after.sum(), SIDE), np.uint8), np.zeros((SIDE, SIDE), np.uint8)
        found[after] = arith.matmul(*nothing, found[after])
    return found


def _gated(taps: Codes, gate: Codes) -> Codes:
    """Filters [1, C, N] times a number for every channel, as fp8 again."""
    wide = np.pad(gate, (0, taps.shape[1] - len(gate)))
    gains = arith.pack(arith.multiply(arith.unpack(wide, 1), constant(GATE)), 1)
    found = np.zeros_like(taps)
    for c in range(0, taps.shape[1], SIDE):
        diagonal = np.zeros((SIDE, SIDE), np.uint8)
        np.fill_diagonal(diagonal, gains[c : c + SIDE])
        for n in range(0, taps.shape[2], SIDE):
            tile = taps[0, c : c + SIDE, n : n + SIDE]
            found[0, c : c + SIDE, n : n + SIDE] = arith.pack(arith.matmul(diagonal, tile, None), 1)
    return found


def conv2d(layer: Convolution, unfolded: bool | str = False) -> Reference:
    """One accumulator through all taps in reading order and channels in blocks of 32."""
    filters = layer.filters
    first, plain, steepness = ACTIVATIONS[layer.activation]
    per, of = filters.filters // filters.groups, filters.channels // filters.groups
    specs = layer.kernel.specs
    share, deep = (1.0, 0) if layer.plan is None else (layer.plan.share, layer.plan.deep)

    def dense(w: np.ndarray) -> np.ndarray:
        """[taps, C, N], zero where a filter's group does not look."""
        whole = np.zeros((*w.shape[:2], filters.channels, filters.filters), w.dtype)
        for f in range(filters.filters):
            start = f // per * of
            whole[:, :, start : start + of, f] = w[..., f]
        return whole.reshape(-1, *whole.shape[2:])

    def exact(profile: Profile, *operands: Codes) -> Codes:
        x, w, *rows = _joined(layer, *operands)
        seen, taps = windows(x, layer, 0), dense(w)
        sees = np.asarray(dense(np.ones(w.shape, bool)).any(0))
        if isinstance(filters, JoinedFilters):
            places, depth = filters.channel_places, filters.stored[2]
            seen, taps = _placed(seen, places, depth), _placed(taps, places, depth, 1)
            sees = _placed(sees, places, depth, 0)
        if unfolded:
            high = layer.window.height if unfolded == "columns" else 1
            seen = seen.reshape(*seen.shape[:-2], high, -1)
            sees = np.tile(sees, (len(taps) // high, 1))
            taps = taps.reshape(high, -1, taps.shape[-1])
        shape = seen.shape[:-2]
        pixels = _whole(seen.reshape(-1, *seen.shape[-2:]), 2)
        taps, sees = (_whole(_whole(m, m.ndim - 2), m.ndim - 1) for m in (taps, sees))
        given = dict(zip([n for n in BESIDE if n in specs], rows, strict=True))
        if deep:
            pixels, taps, sees = _in_chunks(
                pixels, taps, sees, _chunks(layer, pixels.shape[-1], deep)
            )
        if "gate" in given:
            gates = given["gate"].reshape(-1, filters.channels)
            each = pixels.reshape(len(gates), -1, *pixels.shape[1:])
            out = np.concatenate(
                [_sums(x, _gated(taps, gate), sees) for x, gate in zip(each, gates, strict=True)]
            )
        elif isinstance(layer.out, NarrowImage):
            out = _beside_others(layer.out, pixels, taps, sees, shape)
        else:
            out = _sums(pixels, taps, sees)
        y = out[:, : filters.filters].reshape(*shape, filters.filters)
        if "scale" in given:
            y = arith.multiply(y, given["scale"])
        if "bias" in given:
            y = arith.add(y, given["bias"])
        if "added" in given:
            added = arith.unpack(given["added"], 1)
            added = added if share == 1.0 else arith.multiply(added, constant(share))
            y = arith.add(y, added)
        y = first(y)
        if layer.factor != 1.0:
            y = arith.multiply(y, constant(layer.factor))
        return arith.pack(y, 1) if layer.out.dtype == "fp8" else y

    def ideal(*operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, w, *rows = _joined(layer, *operands)
        seen, taps = windows(x, layer, 0), dense(w)
        given = dict(zip([n for n in BESIDE if n in specs], rows, strict=True))
        if "gate" in given:  # as if pixels were multiplied: filters are rounded to fp8 instead
            seen = seen * (given["gate"] * GATE)[..., None, :]
        value = np.einsum("...tc,tcn->...n", seen, taps)
        size = np.einsum("...tc,tcn->...n", np.abs(seen), np.abs(taps))
        steps = len(taps) * -(-filters.channels // SIDE)
        error = 1.3 * U * steps * size + TINY
        if "gate" in given:
            error = error + size / 8 + 2.0**-8 * np.abs(seen).sum((-2, -1), keepdims=True)[..., 0]
        if "scale" in given:
            value, error = value * given["scale"], 1.1 * error * np.abs(given["scale"])
            error = error + U * np.abs(value)
        if "bias" in given:
            value = value + given["bias"]
            error = error + U * (np.abs(value) + error)
        if "added" in given:
            value = value + given["added"] * share
            error = error + U * (np.abs(value) + np.abs(given["added"] * share) + error)
        result = plain(value)
        error = steepness * error + 6 * U * np.abs(value) * (layer.activation != "none") + TINY
        if layer.factor != 1.0:
            result, error = result * layer.factor, 1.1 * error * abs(layer.factor)
            error = error + 2 * U * np.abs(result)
        return to_fp8(result, error) if layer.out.dtype == "fp8" else (result, error)

    return Reference(exact, ideal)


def _chunks(layer: Convolution, channels: int, deep: int) -> list[range]:
    """Channels that are added up together, image by image."""
    filters = layer.filters
    parts: tuple[int, ...] = getattr(filters, "parts", ()) or (channels,)
    if filters.groups > 1 and not isinstance(filters, DenseFilters):
        parts = (filters.channels // filters.groups,) * filters.groups
    found, start = [], 0
    for part in parts:
        end = start + round_up(part)
        found += [range(k, min(end, k + deep * SIDE)) for k in range(start, end, deep * SIDE)]
        start = end
    return found


def _in_chunks(
    pixels: Codes, taps: Codes, sees: np.ndarray, chunks: list[range]
) -> tuple[Codes, Codes, np.ndarray]:
    """The same as one tap whose channels are in the order of sums: chunk by chunk, of each all taps."""
    order = [(tap, chunk) for chunk in chunks for tap in range(taps.shape[0])]
    beside = np.concatenate([pixels[:, tap, chunk] for tap, chunk in order], 1)
    below = np.concatenate([taps[tap, chunk] for tap, chunk in order])
    seen = np.concatenate([np.broadcast_to(sees, taps.shape[-2:])[chunk] for _, chunk in order])
    return beside[:, None], below[None], seen


def largest_side_by_side(pool: Pool, values: Codes) -> Codes:
    """fp8 of the largest of bf16 values in windows that do not overlap, +0 beyond the edges."""
    window, (height, width) = pool.window, values.shape[-3:-1]
    rows, columns = pool.out.height * window.height, pool.out.width * window.width
    whole = np.zeros((*values.shape[:-3], rows, columns, values.shape[-1]), np.uint16)
    part = values[..., :rows, :columns, :]
    whole[..., : min(height, rows), : min(width, columns), :] = part
    best = None
    for i, j in window.taps:
        value = whole[..., i :: window.height, j :: window.width, :]
        best = value if best is None else arith.extreme(best, value, larger=True)
    assert best is not None
    return arith.pack(best, 1)


def max_pool(layer: Pooling) -> Reference:
    def exact(profile: Profile, x: Codes) -> Codes:
        seen = windows(x, layer, LOWEST if layer.image.fill == "lowest" else 0)
        best = None
        for t in range(seen.shape[-2]):
            value = arith.unpack(seen[..., t, :], 1)
            best = value if best is None else arith.extreme(best, value, larger=True)
        assert best is not None
        return arith.pack(best, 1)

    def ideal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low = -448.0 if layer.image.fill == "lowest" else 0.0
        best = windows(x, layer, low).max(-2)
        return best, np.zeros_like(best) + TINY

    return Reference(exact, ideal)


def average_pool(layer: Pooling, counting: bool = True) -> Reference:
    """Products with a power of two on the diagonal, added up tap by tap, then one share."""
    taps = layer.window.height * layer.window.width
    unit = 2.0 ** -min(9, taps.bit_length() - 1)

    def counts(shape: tuple[int, ...]) -> np.ndarray:
        if counting:
            return np.array(float(taps))
        return np.maximum(windows(np.ones((*shape[-3:-1], 1)), layer, 0).sum(-2), 1)

    def exact(profile: Profile, x: Codes) -> Codes:
        seen = windows(x, layer, 0)
        pixels = _whole(seen.reshape(-1, *seen.shape[-2:]), 2)
        diagonal = arith.pack(arith.f64_to_bf16(np.eye(SIDE) * unit), 1)
        out = np.zeros((len(pixels), pixels.shape[-1]), np.uint16)
        for c in range(0, pixels.shape[-1], SIDE):
            total = None
            for t in range(taps):
                total = arith.matmul(pixels[:, t, c : c + SIDE], diagonal, total)
            assert total is not None
            out[:, c : c + SIDE] = total
        y = out[:, : x.shape[-1]].reshape(*seen.shape[:-2], -1)
        share = arith.f64_to_bf16(1 / (counts(x.shape) * unit))
        return arith.pack(arith.multiply(y, share), 1)

    def ideal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen, count = windows(x, layer, 0), counts(x.shape)
        size = np.abs(seen).sum(-2) / count
        return to_fp8(seen.sum(-2) / count, (1.3 * taps + 3) * U * size + TINY)

    return Reference(exact, ideal)


def global_average_pool(layer: GlobalPooling) -> Reference:
    """Tiles of 32 stored pixels are summed by a product; the order is that of the storage."""
    image = layer.image
    count = image.height * image.width
    unit = 2.0 ** -min(9, max(0, count.bit_length() - 1))

    def exact(profile: Profile, x: Codes) -> Codes:
        stored = _whole(image.arranged(x), -1)
        out = np.zeros((len(stored), stored.shape[-1]), np.uint16)
        ones = arith.pack(arith.f64_to_bf16(np.full((1, SIDE), unit)), 1)
        first = image.lead
        last = -(-(first + image.rows * image.pitch) // SIDE) * SIDE
        for start in range(0, len(stored), SIDE):
            rows = range(start, min(len(stored), start + SIDE))
            for c in range(0, stored.shape[-1], SIDE):
                total = None
                for b in rows:
                    chosen = np.where(np.arange(SIDE)[:, None] == b - start, ones, np.uint8(0))
                    for a, d in np.ndindex(*image.phase_count):
                        for p in range(first, last, SIDE):
                            tile = stored[b, a, d, p : p + SIDE, c : c + SIDE]
                            total = arith.matmul(chosen, tile, total)
                assert total is not None
                out[rows.start : rows.stop, c : c + SIDE] = total[: len(rows)]
        share = constant(1 / (count * unit))
        return arith.pack(arith.multiply(out, share), 1)[:, : image.channels]

    def ideal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = x.reshape(image.batch or 1, -1, image.channels)
        steps = image.phase_count[0] * image.phase_count[1] * (image.pixels // SIDE)
        error = (1.3 * steps + 3) * U * np.abs(rows).mean(1) + TINY
        return to_fp8(rows.mean(1), error)

    return Reference(exact, ideal)


def add_images(layer: ImageSum) -> Reference:
    first, plain, steepness = ACTIVATIONS[layer.activation]

    def exact(profile: Profile, a: Codes, b: Codes) -> Codes:
        return arith.pack(first(arith.add(arith.unpack(a, 1), arith.unpack(b, 1))), 1)

    def ideal(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = a + b
        return to_fp8(plain(value), steepness * 7 * U * np.abs(value) + TINY)

    return Reference(exact, ideal)
