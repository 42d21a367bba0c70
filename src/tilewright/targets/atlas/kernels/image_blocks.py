"""Going over the pixels of a result in blocks that fit on the chip."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.kernels.images import LOWEST, MANY, SIDE, Image, round_up
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.arrays import TileArray
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block

Phase = tuple[int, int]
Phases = list[Phase]
TILE = 1024  # bytes of an fp8 tile
BODY = 850  # products (or other steps) of tiles in one loop body
LONG, SLOW = 1200, 1.2  # steps of a body whose order is found less well, and how much less
SHORT = 220  # steps of a body that may be unrolled twice
MADE = 3 * TILE  # bytes for a tile of filters that is made on the chip, with what it is made of
MAKING = 150  # ticks of that, about
START = 600  # ticks before a body is under way, about
LONELY = (0.0, 0.5, 0.25)  # products more that as many tiles without others cost, about
UNPAIRED = 0.25  # the same for a tile without another where several panels see it


@dataclass(frozen=True)
class Cost:
    """What one operation over windows costs.

    shared, own: tiles of the image per tile of pixels, for all panels of filters and for each;
    halo: further pixels of each that a block reads beside its own. fixed, writes: tiles of filters
    and of results, per panel. All of these but the filters only count where they are not on chip.
    steps: tile operations per tile of pixels and panel; ticks: of one, several: of one beside other panels.
    """

    shared: int
    own: int
    halo: int
    fixed: int
    writes: int
    steps: int
    ticks: float
    longest: int = 0  # steps in one body; 0: BODY
    made: int = 0  # tiles of filters per panel that are made on the chip, instead of `fixed`
    small: bool = False  # images will be on the chip already
    together: int = 1  # tiles of pixels that share what matrix units hold
    several: float = 0.0  # 0: as `ticks`
    phases: int = 0  # tiles of results per tile of pixels; 0: as `writes`
    loops: int = 0  # over groups of phases, where it is known what lies on the chip


@dataclass(frozen=True)
class Blocking:
    """Tiles of pixels and panels of filters in one body; bytes of VMEM that are counted on."""

    tiles: int
    panels: int
    ticks: float
    needed: int = 0


def period(image: Image) -> int:
    """Tiles after which rows of the image begin at the same places of tiles again."""
    return math.lcm(image.pitch, SIDE) // SIDE


@dataclass(frozen=True)
class Partition:
    """The tiles of a phase image: loops over blocks of `size` tiles, each doing one part (first
    tile, tiles) of every block, up to tile `looped`; then `rest` blocks unrolled."""

    size: int
    parts: list[tuple[int, int]]
    looped: int
    rest: list[tuple[int, int]]

    def bodies(self, steps: int) -> list[tuple[int, int]]:
        """(tiles, times its pixels are loaded) of every body with so many steps per tile. A loop
        loads one block too many, unless its body is short enough to be unrolled once more."""
        trips = self.looped // self.size
        loops = [
            (tiles, trips + (trips > 1 and (trips < 3 or tiles * steps > SHORT)))
            for _, tiles in self.parts
            if trips
        ]
        return [*loops, *((tiles, 1) for _, tiles in self.rest)]


def partition(out: Image, most: int) -> Partition:
    """Blocks of up to `most` tiles: loops over rows that are alike, then what is left."""
    every = period(out)
    whole = out.height // out.phase_count[0] * out.pitch // SIDE  # tiles wholly inside
    long = out.pitch > MANY * SIDE
    if (
        long and out.rows == 1 == out.phase_count[0]
    ):  # all of one row are alike, as far as they are full
        every, whole = 1, out.width // out.phase_count[1] // SIDE
    if most >= every:
        size = every * (most // every)
        trips = -(-whole // size)
        size = every * max(1, -(-(whole // every) // trips)) if trips else every
        parts = [(0, size)]
    else:
        size, count = every, -(-every // most)
        cuts = [every * k // count for k in range(count + 1)]
        parts = [(first, last - first) for first, last in pairwise(cuts)]
    looped = whole // size * size
    total = -(-out.rows * out.pitch // SIDE)
    rest = [(start, min(most, total - start)) for start in range(looped, total, most)]
    return Partition(size, parts, looped, rest)


def choose(
    out: Image, panels: int, cost: Cost, profile: Profile, where: str, found: Found | None = None
) -> Blocking:
    """The cheapest block: the image is read again for every block of panels, and the halo again
    for every block of pixels."""
    room = profile.vmem_bytes * 7 // 8
    room = room if found is None else min(room, found.room)
    best, least = _cheapest(out, panels, cost, room, profile.dma.ticks(TILE) / TILE)
    if best is None and found is not None:
        raise VmemExceeded(profile, least, where, least)
    if best is None:
        raise TilewrightError(
            "TW1674",
            f"{where} needs {least / 2**20:.2f} MiB of VMEM for one tile of pixels, {profile.name} "
            f"has {room / 2**20:.2f} MiB for that",
            hint="use fewer channels or a smaller window at a time",
        )
    return best


@lru_cache(1024)
def _cheapest(
    out: Image, panels: int, cost: Cost, room: int, per_byte: float
) -> tuple[Blocking | None, int]:
    """The cheapest block that has room, and the room that the smallest one needs."""
    total = max(1, -(-out.rows * out.pitch // SIDE))
    found: list[Blocking] = []
    least = 0
    for group in sorted({-(-panels // k) for k in range(1, panels + 1)}):
        per_tile = cost.steps * group
        resident = cost.fixed * group * TILE
        made = cost.made * group
        each = cost.several if group > 1 and cost.several else cost.ticks
        for most in range(1, total + 1):
            if most > 1 and most * per_tile > (cost.longest or BODY):
                break
            cut = partition(out, most)
            bodies = cut.bodies(per_tile)
            reads = cost.shared + cost.own * group
            around = (out.batch or 1) > 1 or group < panels
            # Filters of the next panels arrive while these are used, beside a single loop.
            beside = group < panels and (len(bodies) * cost.loops < 2)
            held = resident * (1 + beside) + made * MADE
            needed = held + _room(cut, cost, reads, group, around) + 32 * TILE
            if not cut.looped:  # everything is one piece of code
                needed += len(border_tiles(out)) * cost.writes * group * TILE
            least = min(needed, least or needed)
            if needed > room:
                continue
            filters, ticks, moved = resident * per_byte, made * MAKING, 0.0
            for tiles, times in bodies:
                loads = reads * (tiles * TILE + cost.halo * SIDE)
                stores = tiles * cost.writes * group * TILE
                transfers = 0.0 if cost.small else (loads + stores) * per_byte
                work = (tiles + _lonely(cost, group, tiles)) * per_tile * each
                work *= SLOW if cost.loops and tiles * per_tile > LONG else 1.0
                ticks += times * max(transfers, work) + START
                moved += times * transfers
            # The first panels wait for their filters; those of the others arrive beside the work.
            again = max(ticks, filters + moved) if beside else ticks + filters
            rest = (-(-panels // group) - 1) * again
            found.append(Blocking(most, group, filters + ticks + rest, needed))
    return min(found, key=lambda b: (b.ticks, b.tiles), default=None), least


def _lonely(cost: Cost, group: int, tiles: int) -> float:
    """Tiles of pixels more that those without others cost: they load and push as much as a group."""
    stacked = tiles * (cost.phases or cost.writes)
    if group > 1 and cost.several:
        return UNPAIRED * (stacked % 2) / cost.phases
    alone = stacked % cost.together
    return LONELY[alone] / (cost.phases or cost.writes) if alone else 0.0


def _room(cut: Partition, cost: Cost, reads: int, group: int, around: bool) -> int:
    """Bytes of VMEM for pixels: a loop has its inputs twice, and so has a piece that is the whole
    body of a loop around it."""

    def body(tiles: int, looped: bool) -> int:
        loaded = reads * round_up(tiles * TILE + cost.halo * SIDE, TILE)
        return loaded * (1 + looped) + tiles * cost.writes * group * TILE

    needs = [body(sum(tiles for _, tiles in cut.rest), around and not cut.looped)]
    if cut.looped:
        needs.append(body(max(tiles for _, tiles in cut.parts), True))
    return max(needs)


def pixel_blocks(out: Image, most: int) -> Iterator[Block]:
    """Blocks of up to `most` tiles over the pixels of a phase image."""
    found = partition(out, most)
    for first, tiles in found.parts:
        if found.looped:
            for block in tw.grid(found.looped * SIDE, found.size * SIDE):
                yield replace(block, start=block.start + first, tiles=tiles, shift=0)
    total = -(-out.rows * out.pitch // SIDE)
    for start, tiles in found.rest:
        yield Block(start, tiles, total * SIDE, None, 0)


def together(phases: Phases, block: Block, count: int) -> Iterator[list[tuple[Phase, Block]]]:
    """The tiles of a block of every phase, so many at a time."""
    tiles = [(phase, part) for phase in phases for part in block.parts()]
    for first in range(0, len(tiles), count):
        yield tiles[first : first + count]


def stacked(parts: list[TileArray]) -> TileArray:
    """Tiles of the same columns, one below the other."""
    return replace(
        parts[0],
        cells=[row for part in parts for row in part.cells],
        rows=[count for part in parts for count in part.rows],
        blank=(all(part.blank[0] for part in parts), all(part.blank[1] for part in parts)),
    )


def apart(total: Any, group: list[Any]) -> Iterator[tuple[Any, TileArray]]:
    """The single tiles of some that are stacked, beside what they stand for."""
    tiles = total.tiles()
    for one, cells, count in zip(group, tiles.cells, tiles.rows, strict=True):
        yield one, replace(tiles, cells=[cells], rows=[count])


def kept_rows(out: Image, block: Block, phase: tuple[int, int]) -> np.ndarray:
    """Which pixels of a block are of the image."""
    flat = block.start * SIDE + np.arange(block.tiles * SIDE)
    return out.inside(flat, phase)


def masks(out: Image) -> list[np.ndarray]:
    """Which rows of its tiles are pixels, for all tiles of all phases that hold others too."""
    flat = np.arange(-(-out.rows * out.pitch // SIDE) * SIDE)
    lines = [out.inside(flat, phase).reshape(-1, SIDE) for phase in out.each_phase()]
    return [line for line in np.concatenate(lines) if not line.all()]


def write_border(out: Any, b: Any, image: Image) -> None:
    """Fill the tiles that hold nothing but border, as far as somebody looks at it."""
    if not border_tiles(image):
        return
    nothing = tw.full(LOWEST if image.fill == "lowest" else 0.0, image.dtype)
    panels = image.stored[-1]
    first, last = image.lead // SIDE, (image.lead + round_up(image.rows * image.pitch)) // SIDE
    for part in border_tiles(image):
        for a, c in np.ndindex(*image.phase_count):
            before, behind = image.border_seen((a, c))
            if not first - before <= part.start < last + behind:
                continue
            for tile in range(panels // SIDE):
                out[b, a, c, part, Block(tile, 1, panels)] = nothing


def border_tiles(out: Image) -> list[Block]:
    """The tiles before and after the pixels, which only hold border."""
    first = out.lead // SIDE
    after = first + -(-out.rows * out.pitch // SIDE)
    places = [*range(first), *range(after, out.pixels // SIDE)]
    return [Block(place, 1, out.pixels, None, 0) for place in places]


def own_tile(name: str, numbers: np.ndarray) -> Any:
    """A bf16 tile of the kernel's own."""
    tensor = active().constant_tensor(name, lambda: numbers)
    return tensor[:, :]


def times(y: Any, factor: float) -> Any:
    """y times a number; by 1 there is no multiplication."""
    return y if factor == 1.0 else y * factor


def in_register(factor: float) -> bool:
    """Whether a scale register can hold a factor, so that a cast multiplies by it for nothing and
    with the same result: powers of two, which are exact."""
    return 1 <= factor <= 128 and math.log2(factor).is_integer()


def stored(y: Any, factor: float, dtype: str) -> Any:
    """y times a factor, as it is stored."""
    if dtype == "fp8" and in_register(factor):
        return tw.to_fp8(y, factor)
    return tw.to_fp8(times(y, factor)) if dtype == "fp8" else times(y, factor)


def loaded(x: Any, factor: float) -> Any:
    """bf16 of fp8 numbers times a factor."""
    if factor > 0 and in_register(1 / factor):
        return tw.to_bf16(x, 1 / factor)
    return times(tw.to_bf16(x), factor)
