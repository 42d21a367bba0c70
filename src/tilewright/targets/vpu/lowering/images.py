"""Convolutions and pooling: output lines over tiles, weights in chunks, halos fetched again.

A task computes some lines of one image and some channels. Lines at the border carry the padding;
the hardware skips it. Depthwise convolutions and pooling may also be dealt out by channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.chip import CHANNELS, EXACT, Chip, Operand, padded
from tilewright.targets.vpu.lowering.groups import pieces, steps
from tilewright.targets.vpu.lowering.linear import (
    activation,
    chunk_columns,
    chunk_views,
    load_chunk,
    pack,
)
from tilewright.targets.vpu.lowering.network import Call, Value


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a call: what output lines need of the input."""

    count: int
    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, left, bottom, right

    def lines(self, wanted: range) -> tuple[range, int, int]:
        """Input lines for output lines, and padding above and below them."""
        first = wanted.start * self.strides[0] - self.padding[0]
        last = (wanted.stop - 1) * self.strides[0] - self.padding[0]
        last += (self.kernel[0] - 1) * self.dilations[0]
        low, high = max(0, first), min(self.height, last + 1)
        if low >= high:  # padding alone; some line has to be there
            low, high = min(low, self.height - 1), min(low, self.height - 1) + 1
            return range(low, high), low - first, last + 1 - high
        return range(low, high), low - first, last + 1 - high


def window_of(values: Any, call: Call) -> Window:
    x, result = values[call.operands["x"]], values[call.result]
    options = call.attributes
    if "weight" in call.operands:
        kernel = values[call.operands["weight"]].shape[1:3]
    else:
        kernel = options["kernel"]
    count, height, width, channels = x.shape
    _, out_height, out_width, out_channels = result.shape
    return Window(
        count, height, width, channels, out_height, out_width, out_channels, tuple(kernel),
        tuple(options.get("strides", (1, 1))), tuple(options.get("dilations", (1, 1))),
        tuple(options.get("padding", (0, 0, 0, 0))),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """Output lines of one image on one tile."""

    image: int
    lines: range
    tile: int


def _lines_that_fit(
    chip: Chip, window: Window, x: Value, result: Value, columns: int, out: int, more: int
) -> int:
    """Output lines of a task, so that two tasks fit beside each other if possible."""
    for budget in (chip.machine.cmx_bytes * 40 // 100, chip.machine.cmx_bytes * 90 // 100):
        for lines in range(window.out_height, 0, -1):
            taken = window.lines(range(lines))[0]
            reach = min(window.height, len(taken) + window.padding[0])
            size = reach * window.width * padded(columns) * x.size
            size += lines * window.out_width * padded(out) * result.size
            if size + more <= budget:
                return lines
    return 0


def _pieces(chip: Chip, window: Window, most: int) -> list[Piece]:
    """Lines of all images over all tiles."""
    tiles = chip.machine.tiles
    found = []
    per_image = max(1, -(-tiles // window.count)) if window.count < tiles else 1
    number = 0
    for image in range(window.count):
        for part in pieces(range(window.out_height), per_image):
            for lines in steps(part, most):
                found.append(Piece(image, lines, number % tiles))
            number += 1
    return found


def _rows(window: Window, piece: Piece) -> range:
    first = piece.image * window.out_height
    return range(
        (first + piece.lines.start) * window.out_width,
        (first + piece.lines.stop) * window.out_width,
    )


def _input(
    chip: Chip, window: Window, name: str, piece: Piece, columns: range
) -> tuple[Operand, tuple[int, int, int, int]]:
    lines, above, below = window.lines(piece.lines)
    first = piece.image * window.height
    rows = range((first + lines.start) * window.width, (first + lines.stop) * window.width)
    operand = chip.fetch(name, rows, columns, piece.tile)
    shaped = operand.shaped(len(lines), window.width, len(columns))
    return shaped, (above, window.padding[1], below, window.padding[3])


def _hulls(chip: Chip, window: Window, parts: list[Piece]) -> None:
    chip.row_blocks = tuple((_rows(window, piece), piece.tile) for piece in parts)


def convolution(chip: Chip, call: Call) -> None:
    """Dense, grouped and depthwise convolutions with table, activation and residual."""
    weight = chip.values[call.operands["weight"]]
    groups = int(call.attributes.get("groups", 1))
    if groups > 1 and weight.shape[3] == 1 and weight.shape[0] == groups:
        depthwise(chip, call)
        return
    window = window_of(chip.values, call)
    x, result = chip.values[call.operands["x"]], chip.values[call.result]
    inner = window.kernel[0] * window.kernel[1] * weight.shape[3]
    if x.dtype == "i8" and inner > 131_071:
        raise TilewrightError("TW7070", f"a sum of {inner} products of i8 may leave i32")
    share = weight.shape[0] // groups
    chunk = chunk_columns(chip, share, inner * weight.size)
    packed = pack(
        chip, call,
        [part for g in range(groups) for part in steps(range(g * share, (g + 1) * share), chunk)],
        inner,
    )  # fmt: skip
    largest = max(parts[0].bytes for parts in packed.chunks)
    lines = _lines_that_fit(
        chip, window, x, result, window.channels, window.out_channels, 2 * largest
    )
    if not lines:
        raise _too_large(call, chip)
    work = _pieces(chip, window, lines)
    _hulls(chip, window, work)
    tiles = list(dict.fromkeys(piece.tile for piece in work))
    for (part,) in packed.chunks:
        buffers = load_chunk(chip, packed, part, tiles)
        group = part.columns.start // share
        taken = range(group * weight.shape[3], (group + 1) * weight.shape[3])
        for piece in work:
            image, padding = _input(chip, window, x.name, piece, range(window.channels))
            if groups > 1:
                image, padding = _input(chip, window, x.name, piece, taken)
            filters, table = chunk_views(chip, packed, part, buffers[piece.tile])
            assert table is not None
            filters = filters.shaped(len(part.columns), *weight.shape[1:])
            cycles = costs.convolution_cycles(
                chip.machine, (len(piece.lines), window.out_width, len(part.columns)),
                weight.shape[3], window.kernel, x.size, weight.size,
            )  # fmt: skip
            _window_task(chip, call, window, "convolution", [image, filters, table], piece,
                         part.columns, padding, cycles)  # fmt: skip
    chip.row_blocks = ()


def _too_large(call: Call, chip: Chip) -> TilewrightError:
    return TilewrightError(
        "TW7080",
        f"{call.name}: one line of the image with its operands does not fit into "
        f"{chip.machine.cmx_bytes} bytes of CMX",
    )


def _window_task(
    chip: Chip,
    call: Call,
    window: Window,
    kernel: str,
    inputs: list[Operand],
    piece: Piece,
    columns: range,
    padding: tuple[int, int, int, int],
    cycles: int,
) -> None:
    result = chip.values[call.result]
    rows = _rows(window, piece)
    shape = (len(piece.lines), window.out_width, len(columns))
    named = ["table"] if kernel != "pool" else []
    if "residual" in call.operands:
        residual = chip.fetch(call.operands["residual"], rows, columns, piece.tile)
        inputs = [*inputs, residual.shaped(*shape)]
        named.append("residual")
        cycles += costs.elementwise_cycles(chip.machine, len(rows) * len(columns))
    target = chip.target(result.name, rows, columns, piece.tile).shaped(*shape)
    options: dict[str, Any] = {
        "strides": window.strides, "padding": padding, "dilations": window.dilations,
    }  # fmt: skip
    if kernel == "pool":
        options |= _pool_options(chip, call)
    else:
        options |= {"operands": tuple(named)} | activation(call, result)
    chip.task(kernel, inputs, [target], cycles, piece.tile, **options)


def _channel_work(
    chip: Chip, call: Call, window: Window, more: int
) -> Iterator[tuple[list[Piece], range]]:
    """Lines and channels for calls whose channels do not mix; few lines are dealt out by channel."""
    x, result = chip.values[call.operands["x"]], chip.values[call.result]
    tiles = chip.machine.tiles
    enough = window.out_height * window.count >= tiles
    channels = window.channels
    parts = 1 if enough else min(tiles, -(-channels // CHANNELS))
    while True:
        step = padded(-(-channels // parts))
        lines = _lines_that_fit(chip, window, x, result, step, step, more)
        if lines or step <= CHANNELS:
            break
        parts *= 2
    if not lines:
        raise _too_large(call, chip)
    chip.column_blocks[call.result] = EXACT
    for number, columns in enumerate(steps(range(channels), step)):
        work = _pieces(chip, window, lines)
        if not enough:
            work = [
                Piece(piece.image, part, number % tiles)
                for piece in work
                for part in steps(piece.lines, lines)
            ]
        yield work, columns


def depthwise(chip: Chip, call: Call) -> None:
    """Every channel with a filter of its own."""
    window = window_of(chip.values, call)
    x, weight = chip.values[call.operands["x"]], chip.values[call.operands["weight"]]
    taps = window.kernel[0] * window.kernel[1]
    work = list(_channel_work(chip, call, window, window.channels * (16 * weight.size * taps + 16)))
    packed = pack(chip, call, [columns for _, columns in work], taps)
    for (parts, columns), (chunk,) in zip(work, packed.chunks, strict=True):
        _hulls(chip, window, parts)
        tiles = list(dict.fromkeys(piece.tile for piece in parts))
        buffers = load_chunk(chip, packed, chunk, tiles)
        for piece in parts:
            image, padding = _input(chip, window, x.name, piece, columns)
            filters, table = chunk_views(chip, packed, chunk, buffers[piece.tile])
            assert table is not None
            filters = filters.shaped(len(columns), *window.kernel)
            cycles = costs.depthwise_cycles(
                chip.machine, (len(piece.lines), window.out_width, len(columns)), window.kernel
            )
            _window_task(chip, call, window, "depthwise", [image, filters, table], piece, columns,
                         padding, cycles)  # fmt: skip
    chip.row_blocks = ()


def pool(chip: Chip, call: Call) -> None:
    """Largest or average elements of windows."""
    window = window_of(chip.values, call)
    x = chip.values[call.operands["x"]]
    for parts, columns in _channel_work(chip, call, window, 0):
        _hulls(chip, window, parts)
        for piece in parts:
            image, padding = _input(chip, window, x.name, piece, columns)
            cycles = costs.depthwise_cycles(
                chip.machine, (len(piece.lines), window.out_width, len(columns)), window.kernel
            )
            _window_task(chip, call, window, "pool", [image], piece, columns, padding, cycles)
    chip.row_blocks = ()


def _pool_options(chip: Chip, call: Call) -> dict[str, Any]:
    x, result = chip.values[call.operands["x"]], chip.values[call.result]
    own = float(x.scale) if x.dtype == "i8" else 1.0  # type: ignore[arg-type]
    out = float(result.scale) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]
    return {
        "function": call.attributes["function"], "kernel": tuple(call.attributes["kernel"]),
        "count_padding": bool(call.attributes.get("count_padding")), "ratio": own / out,
    }  # fmt: skip
