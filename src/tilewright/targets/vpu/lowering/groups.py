"""Rows over tiles, and tiles of work: who computes which part of a value.

A region of calls that work row by row is carried out group by group: every tile takes a block of
rows of the group through all calls of the region. Where there are too few rows for all tiles,
columns are dealt out instead.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from tilewright.targets.vpu.lowering.chip import CHANNELS, EXACT, Chip
from tilewright.targets.vpu.machine import Machine

_SMALL = 4096  # elements: below, a task is not split between SHAVEs


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that go through a region together, as blocks on tiles."""

    blocks: tuple[tuple[range, int], ...]
    by_columns: bool = False  # too few rows: products deal out columns

    @property
    def rows(self) -> range:
        return range(self.blocks[0][0].start, self.blocks[-1][0].stop)


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Rows and columns of a value for one task."""

    rows: range
    columns: range
    tile: int


def pieces(extent: range, count: int, unit: int = 1) -> list[range]:
    """An extent in at most `count` parts, all but the last in multiples of a unit, evenly."""
    units = -(-len(extent) // unit)
    count = min(count, units)
    found, first = [], 0
    for number in range(count):
        last = units * (number + 1) // count
        start, stop = extent.start + first * unit, min(extent.stop, extent.start + last * unit)
        found.append(range(start, stop))
        first = last
    return found


def steps(extent: range, step: int) -> list[range]:
    return [
        range(first, min(extent.stop, first + step))
        for first in range(extent.start, extent.stop, step)
    ]


@lru_cache(maxsize=4096)
def groups(machine: Machine, rows: int, count: int) -> list[Group]:
    """Rows in `count` groups over all tiles; 16 rows stay together, a DPU takes them at once."""
    tiles = machine.tiles
    if rows < CHANNELS * tiles:
        blocks = pieces(range(rows), tiles)
        return [Group(tuple((part, tile) for tile, part in enumerate(blocks)), True)]
    found = []
    for number, part in enumerate(pieces(range(rows), count, CHANNELS)):
        blocks = pieces(part, tiles, CHANNELS)
        if number % 2:  # the longer blocks of neighbouring groups go to different tiles
            sizes = [len(block) for block in blocks][::-1]
            starts = [part.start + sum(sizes[:n]) for n in range(len(sizes))]
            blocks = [range(s, min(part.stop, s + n)) for s, n in zip(starts, sizes, strict=True)]
        found.append(Group(tuple((block, tile) for tile, block in enumerate(blocks))))
    return found


def row_rectangles(chip: Chip, group: Group, width: int) -> list[Rectangle]:
    """Whole rows, split between the SHAVEs of a tile."""
    found = []
    for rows, tile in group.blocks:
        parts = chip.machine.shaves if len(rows) * width >= _SMALL else 1
        found += [Rectangle(part, range(width), tile) for part in pieces(rows, parts)]
    return found


def element_layout(chip: Chip, group: Group, name: str, columns: range) -> list[Rectangle]:
    """Who computes which part of some columns: as a value lies on the tiles, else dealt out.

    Its blocks are taken only if they make up all of the rows and columns.
    """
    found = []
    for block in chip.blocks.get(name, ()):
        rows = range(max(block.rows.start, group.rows.start), min(block.rows.stop, group.rows.stop))
        within = columns.start <= block.columns.start and block.columns.stop <= columns.stop
        if len(rows) and within:
            found.append(Rectangle(rows, block.columns, block.tile))
    if sum(len(r.rows) * len(r.columns) for r in found) == len(group.rows) * len(columns):
        return found
    if group.by_columns and len(columns) > len(group.rows):
        parts = pieces(columns, chip.machine.tiles, CHANNELS)
        return [Rectangle(group.rows, part, tile) for tile, part in enumerate(parts)]
    return [Rectangle(rows, columns, tile) for rows, tile in group.blocks]


def element_rectangles(
    chip: Chip, layout: Sequence[Rectangle], limit: int, unit: int = CHANNELS
) -> list[Rectangle]:
    """The parts of a layout, at most `limit` elements each, for all SHAVEs of a tile.

    Columns are cut at multiples of a unit.
    """
    result = []
    for part in layout:
        size = len(part.rows) * len(part.columns)
        wanted = max(-(-size // limit), chip.machine.shaves if size >= 2 * _SMALL else 1)
        for rows in pieces(part.rows, wanted):
            across = -(-wanted // len(part.rows))
            for columns in pieces(part.columns, across, unit):
                result.append(Rectangle(rows, columns, part.tile))
    return result


@contextmanager
def laid_out(
    chip: Chip, name: str, layout: Sequence[Rectangle], group: Group
) -> Generator[None, None, None]:
    """Blocks of a result as the parts that are computed of it, where these are not the group's.

    A block has all rows of the group's block on its tile. Where an operand lies otherwise (an
    image in lines, say), nobody would fill such a block.
    """
    before, own = chip.row_blocks, set(group.blocks)
    if not group.by_columns and any((part.rows, part.tile) not in own for part in layout):
        chip.row_blocks = tuple((part.rows, part.tile) for part in layout)
        chip.column_blocks[name] = EXACT
    yield
    chip.row_blocks = before
