"""Convolutions whose filters or windows do not fit on the chip, in parts of what is added up.

    for a block of pixels:
        for a panel of filters:                     # a loop
            sums = 0                                # bf16, on the chip
            for some tiles of channels:             # a loop: their filters of all taps pass by
                for some tiles of the pixels:       # a loop
                    sums += pixels under all taps @ filters
            write what is made of the sums

How many tiles of channels come together (`deep`) is part of what a kernel computes, since accumulators
round after every product; sums that go to the chip and come back stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.kernels.image_blocks import period, write_border
from tilewright.targets.atlas.kernels.image_operands import DenseFilters, Filters
from tilewright.targets.atlas.kernels.image_sources import Source
from tilewright.targets.atlas.kernels.images import SIDE, round_up
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.blocks import Block

if TYPE_CHECKING:
    from tilewright.targets.atlas.kernels.convolution import Plan

TILE = 1024  # bytes of an fp8 tile
STEPS = 256  # products of tiles in one loop body, if there are so many taps not more
WRITTEN = 3000  # products of tiles in all bodies together
DEEP = (16, 8, 4, 2, 1)  # tiles of channels in one
HEIGHTS = (8, 4, 2, 1)  # tiles of pixels in one
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)  # blocks of pixels
SPARE = 56 * TILE  # VMEM for scales, masks and tiles that wait


@dataclass(frozen=True)
class Parts:
    """Tiles of channels and of pixels in one body; tiles of pixels whose sums are on the chip, for
    `panels` panels of filters; bytes of VMEM that are counted on."""

    deep: int
    height: int
    held: int
    panels: int
    needed: int


def in_ranges(filters: Filters) -> bool:
    """Whether whole tiles of filters see whole tiles of channels, group by group."""
    of, each = filters.channels // filters.groups, filters.filters // filters.groups
    return filters.groups == 1 or not (of % SIDE or each % SIDE)


def deep_of(plan: Plan, profile: Profile) -> int:
    """How many tiles of channels should come together, 0 where nothing fits."""
    deepest = _depth(plan)
    for deep in sorted({-(-deepest // max(2, -(-deepest // n))) for n in DEEP}, reverse=True):
        if _fitting(plan, deep, profile.vmem_bytes * 7 // 8):
            return deep
    return 0


def cut_of(plan: Plan, profile: Profile, found: Found | None = None) -> Parts:
    """How a convolution of so many tiles of channels at a time is cut."""
    room = profile.vmem_bytes * 7 // 8
    fitting = _fitting(plan, plan.deep, room if found is None else min(room, found.room))
    if fitting:
        return min(fitting, key=lambda parts: _cost(plan, parts))
    least = min((parts.needed for parts in _ways(plan, plan.deep)), default=room + 1)
    if found is not None:
        raise VmemExceeded(profile, least, "a convolution", least)
    raise TilewrightError(
        "TW1674",
        f"a convolution in parts of {plan.deep} tiles of channels needs {least / 2**20:.2f} MiB of "
        f"VMEM, {profile.name} has {room / 2**20:.2f} MiB for that",
        hint="use a smaller window or fewer tiles of channels",
    )


def _fitting(plan: Plan, deep: int, room: int) -> list[Parts]:
    return [parts for parts in _ways(plan, deep) if parts.needed <= room]


def _tiles(plan: Plan) -> int:
    return -(-plan.out.rows * plan.out.pitch // SIDE)


def _depth(plan: Plan) -> int:
    """Tiles of channels that are added up, of the image that has most."""
    if plan.sources:
        return max(source.image.stored[-1] // SIDE for source in plan.sources)
    return plan.filters.depth


def _ways(plan: Plan, deep: int) -> Iterator[Parts]:
    """What one body and one block may hold."""
    phases, total, taps = len(plan.out.each_phase()), _tiles(plan), len(plan.window.taps)
    wide = plan.filters.filters // _groups(plan) > SIDE
    steps = [source.at(plan.window, (0, 0), tap).shift
             for source in plan.sources or (Source(plan.image),) for tap in plan.window.taps]  # fmt: skip
    halo = max(steps) - min(steps)
    ranges = _groups(plan)
    for held in sorted({-(-total // count) for count in (*COUNTS, total)}):
        loops = phases * max(1, len(plan.sources)) * -(-total // held) * ranges
        for height in sorted({min(held, n) for n in HEIGHTS}):
            for panels in (2, 1) if wide else (1,):
                products = deep * taps * height * panels
                smallest = (height, panels) == (1, 1)
                if products * loops > WRITTEN or (products > STEPS and not smallest):
                    continue
                sums = held * phases * panels * 2 * TILE
                filters = 2 * deep * taps * panels * TILE
                seen = min(height * TILE + halo * SIDE, taps * (height + 1) * TILE)
                pixels = 2 * deep * round_up(seen, TILE) * min(phases, 4)
                results = 2 * height * panels * 2 * TILE * (1 + (plan.added is not None))
                needed = sums + filters + pixels + results + SPARE
                yield Parts(deep, height, held, panels, needed)


def _cost(plan: Plan, parts: Parts) -> float:
    """What a cut costs for every product: sums that come and go, filters and pixels that arrive."""
    taps = len(plan.window.taps)
    moved = 512 / (parts.held * len(plan.out.each_phase())) + 512 / (taps * parts.panels)
    return max(moved, 40 * (1 + 3 / (parts.deep * taps) + 0.5 / parts.height))


def _groups(plan: Plan) -> int:
    """Groups that see other channels than the others."""
    return 1 if isinstance(plan.filters, DenseFilters) else plan.filters.groups


def _ranges(plan: Plan) -> Iterator[tuple[int, int, int, int]]:
    """Tiles of filters (first, how many) that all see the same tiles of channels (first, how many)."""
    filters = plan.filters
    groups = _groups(plan)
    own = -(-filters.filters // groups // SIDE) if groups > 1 else -(-filters.filters // SIDE)
    for group in range(groups):
        yield group * own, own, group * filters.depth if groups > 1 else 0, filters.depth


def run_in_parts(
    plan: Plan, cut: Parts, images: list[Any], w: Any, out: Any, given: tuple[Any, Any, Any]
) -> None:
    """The kernel. given: scales, terms, what is added."""
    phases = plan.out.each_phase()
    shape = (len(phases), cut.held * SIDE, cut.panels * SIDE)
    sums = tw.scratch(tw.bf16[shape], on_chip=True)
    total = _tiles(plan)
    for b in tw.each(plan.out.batch or 1):
        write_border(out, b, plan.out)
        for start in range(0, total, cut.held):
            pixels = start, min(cut.held, total - start)
            for first, count, channel, depth in _ranges(plan):
                extent = round_up(plan.filters.filters)
                for n in tw.grid(count * SIDE, cut.panels * SIDE):
                    n = replace(n, start=n.start + first, extent=extent)
                    seen = channel, depth
                    _add(plan, cut, b, images, w, sums, n, seen, pixels)
                    _finish(plan, b, out, sums, n, pixels, given)


def _add(
    plan: Plan, cut: Parts, b: Any, images: list[Any], w: Any, sums: Any, n: Block,
    channels: tuple[int, int], pixels: tuple[int, int],
) -> None:  # fmt: skip
    """The sums of some tiles of pixels of every phase, for some panels of filters."""
    (channel, depth), (start, tiles) = channels, pixels
    columns = Block(0, n.tiles, sums.shape[-1])
    for k, _ in enumerate(plan.out.each_phase()):
        for r in tw.grid(tiles * SIDE, cut.height * SIDE):
            sums[k, _in(r, sums), columns] = 0.0
    place = 0  # of the channels of an image among those of the filters
    for number, source in enumerate(plan.sources or (Source(plan.image),)):
        wide = source.image.stored[-1]
        own = wide // SIDE if plan.sources else depth
        for c in tw.grid(own * SIDE, cut.deep * SIDE):
            seen = replace(c, start=c.start + channel, extent=wide)
            rows = replace(c, start=c.start + place, extent=plan.filters.stored[2])
            for k, phase in enumerate(plan.out.each_phase()):
                for r in tw.grid(tiles * SIDE, cut.height * SIDE):
                    p = replace(r, start=r.start + start, extent=(start + tiles) * SIDE, shift=0)
                    at = k, _in(r, sums), columns
                    total = tw.accumulator(sums[at])
                    for tap in plan.window.taps:
                        found = source.at(plan.window, phase, tap)
                        place_of = b, found.row, found.column, p + found.shift, seen
                        total += images[number][place_of] @ w[tap[0], tap[1], rows, n]
                    sums[at] = total
        place += own


def _in(r: Block, sums: Any) -> Block:
    """Some of the pixels of a block, in its sums."""
    return replace(r, extent=sums.shape[-2])


def _finish(
    plan: Plan, b: Any, out: Any, sums: Any, n: Block, pixels: tuple[int, int],
    given: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    """Write what is made of the sums."""
    scale, bias, added = given
    rows = [plan.rows(part, scale, bias) for part in n.parts()]
    for k, phase in enumerate(plan.out.each_phase()):
        for p, r in _finished(plan, *pixels, sums.shape[-2]):
            for j, part in enumerate(n.parts()):
                total = sums[k, r, Block(j, 1, sums.shape[-1])]
                more = plan.beside(added, b, phase, p, part)
                y = plan.finished(total, rows[j], p, phase, more)
                out[b, phase[0], phase[1], p + plan.out.lead, part] = y


def _finished(plan: Plan, start: int, tiles: int, extent: int) -> Iterator[tuple[Block, Block]]:
    """Single tiles of pixels, in the image and in its sums: loops over rows that are alike, then the
    others."""
    every, total = period(plan.out), _tiles(plan) * SIDE
    inside = plan.out.height // plan.out.phase_count[0] * plan.out.pitch // SIDE
    trips = max(0, min(tiles, inside - start)) // every if every <= max(HEIGHTS) else 0
    looped = trips * every if trips > 1 else 0
    if looped:
        for r in tw.grid(looped * SIDE, every * SIDE):
            for one in r.parts():
                p = replace(one, start=one.start + start, extent=total, shift=0)
                yield p, replace(one, extent=extent)
    for k in range(looped, tiles):
        yield Block(start + k, 1, total, None, 0), Block(k, 1, extent)
