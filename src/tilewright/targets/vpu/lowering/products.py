"""Products of matrices in tiles that fit: rows times columns, and the inner axis where it must be.

Two generations of tiles have to fit together (the next one is loaded while this one is used), so
a tile may take half of the pipelining budget. Among the tilings that fit, the one with the
smallest modelled time of its busiest engine is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.builder import Builder, Tile, Whole, size_of
from tilewright.targets.vpu.machine import Machine

_ISOLATED, _PIPELINED = 90, 85  # percent of CMX that tiles may take
_CHANNELS = 16


@dataclass(frozen=True, slots=True)
class Tiling:
    """How many rows, columns and inner elements a tile has."""

    rows: int
    columns: int
    inner: int
    pipelined: bool


def choose_tiling(
    machine: Machine, rows: int, inner: int, columns: int, dtype: str, output: str
) -> Tiling:
    """The best tiling of rows x inner times inner x columns, or an error with the bytes missing."""
    best: tuple[int, Tiling] | None = None
    smallest = None
    for depth in _steps(inner, _CHANNELS):
        for height in _steps(rows, 1):
            for width in _steps(columns, _CHANNELS):
                needed = tile_bytes(dtype, output, height, depth, width, depth < inner)
                smallest = min(needed, smallest or needed)
                for pipelined, percent in ((True, _PIPELINED), (False, _ISOLATED)):
                    copies = 2 if pipelined else 1
                    if needed * copies * 100 > machine.cmx_bytes * percent:
                        continue
                    tiling = Tiling(height, width, depth, pipelined)
                    cost = _cost(machine, (rows, inner, columns), dtype, output, tiling)
                    if best is None or cost < best[0]:
                        best = (cost, tiling)
                    break
    if best is None:
        raise TilewrightError(
            "TW7080",
            f"the smallest tile of a {rows} x {inner} x {columns} product needs {smallest} bytes, "
            f"{_ISOLATED} % of CMX are {machine.cmx_bytes * _ISOLATED // 100}",
        )
    return best[1]


def tile_bytes(dtype: str, output: str, rows: int, inner: int, columns: int, partial: bool) -> int:
    """CMX that one tile takes: operands, channel table, result, and the sum if inner is split."""
    size = size_of(dtype, (rows, inner)) + size_of(dtype, (columns, inner))
    size += size_of("f32", (columns,)) + size_of("i32", (columns,))
    return size + size_of(output, (rows, columns)) + (4 * rows * columns if partial else 0)


def _steps(extent: int, unit: int) -> list[int]:
    """Tile extents to try: the whole, and halves of it in multiples of a unit."""
    found = [extent]
    while found[-1] > unit:
        half = -(-found[-1] // 2)
        half = -(-half // unit) * unit
        if half >= found[-1]:
            break
        found.append(half)
    return found


def _cost(
    machine: Machine, shape: tuple[int, int, int], dtype: str, output: str, tiling: Tiling
) -> int:
    """Cycles of the busiest engine, and of both in turn if tiles do not overlap."""
    rows, inner, columns = shape
    element = 1 if dtype == "i8" else 2
    tiles = -(-rows // tiling.rows) * -(-columns // tiling.columns)
    parts = tiles * -(-inner // tiling.inner)
    product = costs.matmul_cycles(
        machine, tiling.rows, tiling.inner, tiling.columns, element, element
    )
    moved = [
        (-(-columns // tiling.columns), (tiling.columns, tiling.inner)),
        (parts, (tiling.rows, tiling.inner)),
    ]
    transfers = tiles * costs.dma_cycles(
        machine, costs.CMX, costs.DRAM, size_of(output, (tiling.rows, tiling.columns))
    )
    for count, block in moved:
        count *= -(-inner // tiling.inner) if block[0] == tiling.columns else 1
        transfers += count * costs.dma_cycles(machine, costs.DRAM, costs.CMX, size_of(dtype, block))
    compute, transfers = parts * product, transfers // machine.dma_ports
    return max(compute, transfers) if tiling.pipelined else compute + transfers


def product(
    builder: Builder,
    first: Whole,
    second: Whole,
    result: Whole,
    scale: Whole | None = None,
    bias: Whole | None = None,
    tiling: Tiling | None = None,
    **options: Any,
) -> Tiling:
    """[M, K] times [N, K] to [M, N]; weights stay while all rows pass, results are stored at once."""
    (rows, inner), (columns, _) = first.shape, second.shape
    tiling = tiling or choose_tiling(
        builder.machine, rows, inner, columns, first.dtype, result.dtype
    )
    depths = _ranges(inner, tiling.inner)
    for across in _ranges(columns, tiling.columns):
        weights = [builder.load(second, across, depth) for depth in depths]
        channel = {
            name: builder.load(whole, range(1), across)
            for name, whole in (("bias", bias), ("scale", scale))
            if whole is not None
        }
        for down in _ranges(rows, tiling.rows):
            done: Tile | None = None
            for number, depth in enumerate(depths):
                last = number == len(depths) - 1
                done = _step(
                    builder, builder.load(first, down, depth), weights[number], done,
                    channel if last else {}, result.dtype if last else _sum_type(first.dtype),
                    inner, options if last else {},
                )  # fmt: skip
            assert done is not None
            builder.store(done, result, down, across)
    return tiling


def _step(
    builder: Builder,
    left: Tile,
    right: Tile,
    before: Tile | None,
    channel: dict[str, Tile],
    output: str,
    inner: int,
    options: dict[str, Any],
) -> Tile:
    """One task: a part of the inner axis, the sum so far in and out."""
    made = builder.buffer("result", output, (left.shape[0], right.shape[0]))
    named = dict(channel)
    if before is not None:
        named["accumulator"] = before
    shared = ()
    if before is not None and size_of(output, made.shape) <= size_of(before.dtype, before.shape):
        shared = ((before.name, made.name),)
    element = 1 if left.dtype == "i8" else 2
    builder.task(
        "matmul",
        [left, right, *named.values()],
        [made],
        costs.matmul_cycles(
            builder.machine, left.shape[0], left.shape[1], right.shape[0], element, element
        ),
        in_place=shared,
        operands=tuple(named),
        summed=inner,
        **options,
    )
    return made


def _sum_type(dtype: str) -> str:
    return "i32" if dtype == "i8" else "f32"


def _ranges(extent: int, step: int) -> list[range]:
    return [range(first, min(extent, first + step)) for first in range(0, extent, step)]
