"""Products with constant weights: weights stream by in packed chunks, rows stay where they are.

A chunk is one transfer: the weights of some output channels and their table (16 bytes per channel:
offset of its weights, reserved, scale, bias). With rows on all tiles a chunk goes to all of them
at once; with few rows every tile gets chunks of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.chip import CHANNELS, Chip, Operand, padded
from tilewright.targets.vpu.lowering.groups import Group, steps
from tilewright.targets.vpu.lowering.network import Call, Value
from tilewright.targets.vpu.tile_graph import Outside

_TABLE = 16  # bytes per output channel
_LONGEST_SUM = 131_071
_FEW_CHANNELS = 32  # below, the DPU waits for its activations
_RESIDUAL = 1 << 16  # bytes that a transfer of residuals should have


@dataclass(frozen=True, slots=True)
class Chunk:
    """Output channels whose weights come in one transfer, and a part of the inner axis."""

    columns: range
    inner: range
    offset: int  # in the packed tensor
    pitch: int  # bytes from channel to channel
    last: bool  # part of the inner axis: the table comes with it

    @property
    def weight_bytes(self) -> int:
        return len(self.columns) * self.pitch

    @property
    def bytes(self) -> int:
        return self.weight_bytes + (len(self.columns) * _TABLE if self.last else 0)


@dataclass(frozen=True, slots=True)
class Packed:
    """Weights and tables of a call in DDR, chunk behind chunk."""

    tensor: str
    dtype: str
    chunks: tuple[tuple[Chunk, ...], ...]  # per range of columns the parts of the inner axis


def activation(call: Call, result: Value) -> dict[str, Any]:
    """ReLU and clamp of a call, in units of its result."""
    options: dict[str, Any] = {}
    if call.attributes.get("relu"):
        options["relu"] = True
    if "clamp" in call.attributes:
        unit = float(result.scale or 1.0) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]
        options["clamp"] = tuple(float(bound) / unit for bound in call.attributes["clamp"])
    return options


def channel_table(
    x: Value, weight: Value, bias: Value | None, result: Value, factor: Value | None = None
) -> np.ndarray:
    """Per output channel: offset of its weights, 0, f32 scale, bias (i32, or f32 bits).

    The encoded level may give the factors of sums itself, with a bias in units of the sums.
    """
    channels = weight.shape[0]
    table = np.zeros((channels, 4), np.int32)
    if factor is not None:
        assert factor.data is not None
        table[:, 2] = factor.data.astype(np.float32).view(np.int32)
        if bias is not None:
            assert bias.data is not None
            table[:, 3] = bias.data.astype(np.int32)
        return table
    if x.dtype == "i8":
        if x.scale is None or weight.scale is None:
            raise TilewrightError("TW7083", f"{weight.name!r} or its input is i8 without a scale")
        unit = np.float64(x.scale) * np.broadcast_to(np.float64(weight.scale), channels)
        out = np.float64(result.scale) if result.dtype == "i8" else np.float64(1)  # type: ignore[arg-type]
        table[:, 2] = (unit / out).astype(np.float32).view(np.int32)
        if bias is not None:
            assert bias.data is not None
            whole = np.rint(bias.data.astype(np.float64) / unit)
            table[:, 3] = np.clip(whole, -(2**31), 2**31 - 1).astype(np.int32)
        return table
    scale = 1.0 / np.float64(result.scale) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]
    table[:, 2] = np.full(channels, scale, np.float32).view(np.int32)
    if bias is not None:
        assert bias.data is not None
        table[:, 3] = bias.data.astype(np.float32).view(np.int32)
    return table


def pack(chip: Chip, call: Call, columns_of: Sequence[range], depth: int) -> Packed:
    """Chunks for ranges of output channels; the same weights and tables are packed once."""
    x, weight = chip.values[call.operands["x"]], chip.values[call.operands["weight"]]
    bias = chip.values[call.operands["bias"]] if "bias" in call.operands else None
    factor = chip.values[call.operands["factor"]] if "factor" in call.operands else None
    result = chip.values[call.result]
    channels = weight.shape[0]
    data = weight.data
    assert data is not None
    inner = int(np.prod(weight.shape[1:]))
    offset, chunks = 0, []
    for columns in columns_of:
        parts = []
        for part in steps(range(inner), depth):
            pitch = padded(len(part)) * weight.size
            parts.append(Chunk(columns, part, offset, pitch, part.stop == inner))
            offset += -(-parts[-1].bytes // 64) * 64
        chunks.append(tuple(parts))

    def build() -> np.ndarray:
        flat = np.ascontiguousarray(data).reshape(channels, inner).view(np.uint8)
        table = channel_table(x, weight, bias, result, factor)
        image = np.zeros(offset, np.uint8)
        for parts in chunks:
            for chunk in parts:
                columns, part = chunk.columns, chunk.inner
                rows = image[chunk.offset : chunk.offset + chunk.weight_bytes]
                taken = flat[columns.start : columns.stop,
                             part.start * weight.size : part.stop * weight.size]  # fmt: skip
                rows.reshape(len(columns), chunk.pitch)[:, : taken.shape[1]] = taken
                if not chunk.last:
                    continue
                own = table[columns.start : columns.stop].copy()
                own[:, 0] = np.arange(len(columns)) * chunk.pitch
                first = chunk.offset + chunk.weight_bytes
                image[first : first + own.nbytes] = own.reshape(-1).view(np.uint8)
        return image

    table = f"{call.operands.get('bias', '')}|{x.scale!r}/{result.scale!r}"
    table += f"|{call.operands.get('factor', '')}"
    tensor = f"packed {weight.name}|{table}|{len(columns_of)}|{depth}"
    chip.constant(tensor, offset, build)
    return Packed(tensor, weight.dtype, tuple(chunks))


def load_chunk(chip: Chip, packed: Packed, chunk: Chunk, tiles: Sequence[int]) -> dict[int, str]:
    """A chunk in a buffer on each of some tiles."""
    names = {tile: chip.buffer("weights", chunk.bytes, tile) for tile in tiles}
    whole = [
        chip.sub_view(name, 0, chunk.bytes, 1, 0, "i8", (chunk.bytes,)) for name in names.values()
    ]
    chip.load(Outside(packed.tensor, chunk.offset, chunk.bytes), whole)
    return names


def chunk_views(
    chip: Chip, packed: Packed, chunk: Chunk, buffer: str
) -> tuple[Operand, Operand | None]:
    """Weights and table in a buffer that holds a chunk."""
    size = 1 if packed.dtype == "i8" else 2
    count, run = len(chunk.columns), len(chunk.inner) * size
    shape = (count, len(chunk.inner))
    if run == chunk.pitch:
        weights = chip.sub_view(buffer, 0, run * count, 1, 0, packed.dtype, shape)
    else:
        weights = chip.sub_view(buffer, 0, run, count, chunk.pitch, packed.dtype, shape)
    if not chunk.last:
        return weights, None
    table = chip.sub_view(buffer, chunk.weight_bytes, count * _TABLE, 1, 0, "i32", (count, 4))
    return weights, table


def chunk_bytes(chip: Chip) -> int:
    """Bytes of a chunk: several have to be on a tile at once, for each group of rows."""
    return chip.machine.cmx_bytes * (7 if chip.several else 14) // 100


def chunk_columns(chip: Chip, columns: int, channel_bytes: int, parts: int = 1) -> int:
    """Output channels of a chunk: small enough for several to be on a tile, even in size."""
    budget = chunk_bytes(chip)
    most = max(CHANNELS, budget // (channel_bytes + _TABLE) // CHANNELS * CHANNELS)
    count = max(-(-columns // most), min(parts, -(-columns // CHANNELS)))
    return padded(-(-columns // count))


def _dividing(step: int, block: int) -> int:
    """The largest chunk up to `step` that fits a whole number of times into a block of columns."""
    if block <= 0 or block % CHANNELS:
        return step
    units = block // CHANNELS
    most = max(1, min(units, step // CHANNELS))
    return CHANNELS * next(n for n in range(most, 0, -1) if units % n == 0)


def inner_depth(chip: Chip, inner: int, size: int, whole: bool = False) -> int:
    """How much of the inner axis a chunk may have: all of it, unless too few channels would fit.

    A DPU that works on few channels at a time reads its activations too often. `whole` splits
    only what CMX cannot hold.
    """
    most = chip.machine.cmx_bytes // 4 // (CHANNELS * size)
    if not whole:
        most = max(CHANNELS, chunk_bytes(chip) // (_FEW_CHANNELS * size))
    if inner <= most:
        return inner
    parts = -(-inner // most)
    return padded(-(-inner // parts))


def linear(chip: Chip, call: Call, group: Group) -> None:
    """x [rows, K] times weight [N, K], with table, activation and residual."""
    for _ in linear_steps(chip, call, group):
        pass


def linear_steps(chip: Chip, call: Call, group: Group) -> Iterator[int]:
    """The same, chunk by chunk: after each, how many columns are done."""
    x, weight = chip.values[call.operands["x"]], chip.values[call.operands["weight"]]
    columns, inner = weight.shape
    if x.dtype == "i8" and inner > _LONGEST_SUM:
        raise TilewrightError("TW7070", f"a sum of {inner} products of i8 may leave i32")
    tiles = chip.machine.tiles if group.by_columns else 1
    transposed = bool(call.attributes.get("transposed"))
    depth = inner_depth(chip, inner, weight.size, transposed)
    if transposed and depth < inner:
        raise TilewrightError(
            "TW7080", f"{call.name}: a transposed product of {inner} terms does not fit into CMX"
        )
    step = chunk_columns(chip, columns, depth * weight.size, tiles)
    step = _dividing(step, chip.column_blocks.get(call.result, 0))
    packed = pack(chip, call, steps(range(columns), step), depth)
    for number, parts in enumerate(packed.chunks):
        if group.by_columns:
            work = [(group.rows, number % chip.machine.tiles)]
        else:
            work = list(group.blocks)
        _columns(chip, call, packed, parts, work, group.by_columns)
        yield parts[0].columns.stop


def _columns(
    chip: Chip,
    call: Call,
    packed: Packed,
    parts: tuple[Chunk, ...],
    work: list[tuple[range, int]],
    everywhere: bool,
) -> None:
    """The tasks of one range of output channels."""
    x = chip.values[call.operands["x"]]
    tiles = list(dict.fromkeys(tile for _, tile in work))
    sums: dict[int, Operand] = {}
    for number, chunk in enumerate(parts):
        buffers = load_chunk(chip, packed, chunk, tiles)
        for rows, tile in work:
            on = range(chip.machine.tiles) if everywhere else [tile]
            left = chip.fetch_all(x.name, rows, chunk.inner, on)[tile]
            weights, table = chunk_views(chip, packed, chunk, buffers[tile])
            sums_now = _product(
                chip, call, left, weights, table, chunk.columns, rows, tile,
                sums.get(rows.start), number == len(parts) - 1,
            )  # fmt: skip
            if sums_now is not None:
                sums[rows.start] = sums_now


def _product(
    chip: Chip,
    call: Call,
    left: Operand,
    weights: Operand,
    table: Operand | None,
    columns: range,
    rows: range,
    tile: int,
    before: Operand | None,
    last: bool,
) -> Operand | None:
    """One DPU task; the sum so far goes in and out where the inner axis is split."""
    result = chip.values[call.result]
    element = 1 if left.dtype == "i8" else 2
    cycles = costs.matmul_cycles(
        chip.machine, len(rows), left.shape[1], len(columns), element, element
    )
    whole = chip.values[call.operands["x"]].width
    inputs, named = [left, weights], []
    if before is not None:
        inputs.append(before)
        named.append("accumulator")
    if not last:
        sums = chip.scratch(
            "sum", "i32" if left.dtype == "i8" else "f32", (len(rows), len(columns)), tile
        )
        shared = ((before.root, sums.root),) if before is not None else ()
        chip.task("matmul", inputs, [sums], cycles, tile, shared, operands=tuple(named),
                  summed=whole)  # fmt: skip
        return sums
    if call.attributes.get("transposed"):
        exchanged(chip, call, left, weights, columns, rows, tile, cycles)
        return None
    assert table is not None
    inputs.append(table)
    named.append("table")
    if "residual" in call.operands:
        inputs.append(_residual(chip, call.operands["residual"], rows, columns, tile))
        named.append("residual")
        cycles += costs.elementwise_cycles(chip.machine, len(rows) * len(columns))
    target = chip.target(result.name, rows, columns, tile)
    chip.task("matmul", inputs, [target], cycles, tile, operands=tuple(named), summed=whole,
              **activation(call, result))  # fmt: skip
    return None


def _residual(chip: Chip, name: str, rows: range, columns: range, tile: int) -> Operand:
    """A part of what is added to a product; it comes with its neighbours, in longer transfers."""
    value = chip.values[name]
    least = _RESIDUAL // (len(rows) * value.size)
    if len(columns) < least and not chip.present(name, rows, columns, tile):
        unit = least // len(columns) * len(columns)
        first = columns.start // unit * unit
        around = range(first, min(value.width, first + unit))
        if around.stop >= columns.stop:
            chip.fetch(name, rows, around, tile)
    return chip.fetch(name, rows, columns, tile)


def exchanged(
    chip: Chip,
    call: Call,
    left: Operand,
    weights: Operand,
    columns: range,
    rows: range,
    tile: int,
    cycles: int,
) -> None:
    """The transposed result for nothing: weights as activations, rows as weights.

    Output channels are rows of x then, so there is one scale for all weights and no bias.
    """
    x, weight = chip.values[call.operands["x"]], chip.values[call.operands["weight"]]
    result = chip.values[call.result]
    options: dict[str, Any] = activation(call, result)
    scales = np.asarray(1.0 if weight.scale is None else weight.scale)
    if scales.ndim or {"bias", "factor", "residual"} & call.operands.keys():
        raise TilewrightError(
            "TW7083",
            f"{call.name}: a transposed product has one scale for all weights, and no bias",
        )
    if x.dtype == "i8":
        unit = float(np.float64(x.scale) * np.float64(scales))  # type: ignore[arg-type]
        out = float(result.scale) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]
        options["factor"] = float(np.float32(unit / out))
    blocks, chip.row_blocks = chip.row_blocks, ()  # rows of the result are channels
    target = chip.target(result.name, columns, rows, tile)
    chip.row_blocks = blocks
    chip.task("matmul", [weights, left], [target], cycles, tile, summed=x.width, **options)


# --- Sums that grow while their operand is being computed ----------------------------------------


def may_accumulate(chip: Chip, call: Call, rows: int) -> bool:
    """Whether a product can take its operand block by block, its sums waiting in CMX."""
    if call.family != "linear" or call.attributes.get("transposed"):
        return False
    columns, inner = chip.values[call.operands["weight"]].shape
    if columns * 4 > inner * chip.values[call.operands["x"]].size:
        return False  # the operand takes less room than the sums
    return rows * columns * 4 * 10 <= chip.machine.cmx_bytes * 3


def accumulated_steps(chip: Chip, call: Call, group: Group, step: int) -> Iterator[int]:
    """A product, block of its inner axis by block: after each, how many columns of x it took.

    before: all of x, then x times chunks of output channels
    after:  a block of x as soon as it is there, times all output channels, onto the sums
    """
    x, weight = chip.values[call.operands["x"]], chip.values[call.operands["weight"]]
    columns, inner = weight.shape
    if x.dtype == "i8" and inner > _LONGEST_SUM:
        raise TilewrightError("TW7070", f"a sum of {inner} products of i8 may leave i32")
    budget = chunk_bytes(chip)
    most = max(CHANNELS, budget // (step * weight.size) // CHANNELS * CHANNELS)
    packed = pack(chip, call, steps(range(columns), min(columns, most)), step)
    if "residual" in call.operands:  # not needed for long; the sums take its room
        chip.flush(call.operands["residual"])
        chip.forget(call.operands["residual"])
    tiles = list(dict.fromkeys(tile for _, tile in group.blocks))
    sums: dict[tuple[int, int], Operand] = {}
    for number in range(len(packed.chunks[0])):
        for parts in packed.chunks:
            chunk = parts[number]
            buffers = load_chunk(chip, packed, chunk, tiles)
            for rows, tile in group.blocks:
                left = chip.fetch(x.name, rows, chunk.inner, tile)
                weights, table = chunk_views(chip, packed, chunk, buffers[tile])
                key = (rows.start, chunk.columns.start)
                done = _product(
                    chip, call, left, weights, table, chunk.columns, rows, tile, sums.get(key),
                    chunk.last,
                )  # fmt: skip
                if done is not None:
                    sums[key] = done
        yield packed.chunks[0][number].inner.stop
