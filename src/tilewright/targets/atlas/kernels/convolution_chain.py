"""Convolutions in a row as one kernel: widen, look at every channel, narrow.

    chain = convolution_chain([widen, depthwise, narrow])     # or without the first, or the last
    y = chain.kernel(x=x, w0=..., scale0=..., bias0=..., w1=..., out=...)

What lies between them stays on the chip and never exists as a whole: rows of the result are cut
into bands, and of a band the widened image is there for 32 channels at a time, with the rows around
it that windows see.

    for each band of rows:
        for each 32 channels:
            widened = the first convolution of these rows and those around them
            seen[channels] = the depthwise convolution of widened
        result = the last convolution of seen

Every number is rounded as if the convolutions were kernels of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.tile_machine import Found, active_found
from tilewright.targets.atlas.kernels.convolution import SHARING, Convolution, Plan, Rows
from tilewright.targets.atlas.kernels.convolution_bands import Bands
from tilewright.targets.atlas.kernels.convolution_pooling import results_of
from tilewright.targets.atlas.kernels.image_blocks import pixel_blocks, write_border
from tilewright.targets.atlas.kernels.images import SIDE, Image, round_up
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import Kernel, kernel_of

STEPS = 192  # products of tiles in one loop body, about
PASSING = 6  # times fewer where what they read passes by in two buffers
HELD = 320 * 1024  # bytes of a band between convolutions
CHIP = 1024 * 1024  # bytes of VMEM, about
OTHERS = 184 * 1024  # of them for filters, masks and what else a band needs
BESIDE, PHASE = 112 * 1024, 7 * 1024  # of them where a band is copied, and more for every phase
BUFFERS = 88 * 1024  # and of what comes from the host and passes by
MOST_BANDS = 6  # every band has loops of its own, whose pointers take scalar registers


@dataclass(frozen=True)
class Chain:
    """Convolutions that are computed together.

    kernel: takes x, and of every convolution k its wk, and where wanted scalek and biask; added if the
    last one takes that.
    """

    parts: tuple[Convolution, ...]
    kernel: Kernel
    scratch: int  # bytes of VMEM between the convolutions
    copied: Callable[[Found], list[Any]]  # bands of which it copies what it reads to VMEM


@dataclass(frozen=True)
class _Band:
    """Rows `first` up to `end` of the result, and those from `top` up to `bottom` that they are
    made of, of every phase; lead: pixels before the first of those, where they are held."""

    first: int
    end: int
    top: int
    bottom: int
    lead: int


def convolution_chain(parts: Sequence[Convolution], rows: int = 0) -> Chain:
    """The kernel of some convolutions: one depthwise, perhaps one of single pixels before it, and
    one after it, over images that are stored alike; or any, in bands of so many rows."""
    if rows:
        plan: Any = Bands(tuple(part.plan for part in parts if part.plan is not None), rows)
        plan.check()
        copied = _nothing
    else:
        plan = _Chain(*_roles(parts), streams=parts[0].unfolded)
        copied = plan.copied
    given = parts[0].kernel.specs
    specs = {n: spec for n, spec in given.items() if n.startswith("x")}
    for k, part in enumerate(parts):
        given = part.kernel.specs
        specs |= {f"{n}{k}": given[n] for n in ("w", "scale", "bias") if n in given}
    if "added" in parts[-1].kernel.specs:
        specs["added"] = parts[-1].kernel.specs["added"]
    last = parts[-1].plan
    specs |= results_of(parts[-1].out, None if last is None else last.pool)
    return Chain(tuple(parts), kernel_of("chain", specs, plan.run), plan.scratch, copied)


def _nothing(found: Found) -> list[Any]:
    """What bands of rows copy: they read their image where it is."""
    return []


def _roles(parts: Sequence[Convolution]) -> tuple[Plan | None, Plan, Plan | None]:
    """The convolution before the depthwise one, that, and the one after it."""
    plans = [part.plan for part in parts]
    deep = [k for k, plan in enumerate(plans) if plan is not None and plan.diagonal is True]
    single = [
        k for k, plan in enumerate(plans)
        if plan is not None and len(plan.window.taps) == 1 == plan.filters.groups
    ]  # fmt: skip
    if len(deep) != 1 or len(single) + 1 != len(parts) or len(parts) not in (2, 3) or deep[0] > 1:
        raise TilewrightError(
            "TW1675", f"{len(parts)} convolutions that are no chain",
            hint="one depthwise convolution, with one of single pixels before or after it, or both",
        )  # fmt: skip
    for before, after in pairwise(parts):
        one, other = before.out, after.image
        names = ("height", "width", "channels", "phases", "pitch", "batch", "dtype")
        if any(getattr(one, n) != getattr(other, n) for n in names) or one.fill != "zero":
            raise TilewrightError("TW1675", "convolutions in a row over images of different sizes")
    if any(plan is not None and plan.pool is not None for plan in plans):
        raise TilewrightError("TW1675", "a chain around a depthwise convolution does not pool")
    if any(plan is not None and plan.added is not None for plan in plans[:-1]):
        raise TilewrightError("TW1675", "an image that is added before the end of a chain")
    if any(plan.window.steps != (1, 1) for k in single if (plan := plans[k]) is not None):
        raise TilewrightError("TW1675", "a convolution of single pixels that leaves some out")
    before = plans[deep[0] - 1] if deep[0] else None
    middle, after = plans[deep[0]], plans[-1] if deep[0] + 1 < len(parts) else None
    assert middle is not None
    return before, middle, after


@dataclass(frozen=True)
class _Chain:
    before: Plan | None
    middle: Plan
    after: Plan | None
    streams: bool = False  # what it reads passes by once, from the host

    @property
    def last(self) -> Plan:
        return self.after or self.middle

    @property
    def _single(self) -> bool:
        """Whether the last convolution sees no more than one tile of channels: then it follows at once on
        each tile of pixels, and what it makes leaves while the next ones are computed."""
        return self.after is not None and round_up(self.middle.filters.filters) == SIDE

    # --- geometry -------------------------------------------------------------------------

    @property
    def _reach(self) -> tuple[int, int, int]:
        """How far windows look: rows up and down, and pixels to the left, in a phase image."""
        plan = self.middle
        places = [
            plan.at(phase, tap) for phase in plan.out.each_phase() for tap in plan.window.taps
        ]
        down, across = [at.down for at in places], [at.across for at in places]
        return max(0, -min(down)), max(0, *down), max(0, -min(across))

    def bands(self) -> list[_Band]:
        """Bands of rows, as few as there is room for, each of whole tiles."""
        rows, most = self.middle.out.rows, self._most
        for held in (self._room, HELD):
            for count in range(1, min(rows, most) + 1):
                found = self._cut(count)
                if self._bytes(found) <= held:
                    return found
        raise TilewrightError(
            "TW1674",
            f"a chain of convolutions over {rows} rows of {self.middle.out.pitch} pixels holds more "
            f"than {HELD // 1024} KiB between them, in {most} bands",
            hint="use the convolutions one after the other",
        )

    @property
    def _most(self) -> int:
        return 1 if (self.middle.out.batch or 1) > 1 else MOST_BANDS

    @property
    def _room(self) -> int:
        """Bytes for a band where what is read and what is made are on chip beside it, if they can be."""
        first = self.before or self.middle
        images = math.prod(self.last.out.stored)
        images += 0 if self.streams else math.prod(first.image.stored)
        return min(HELD, CHIP - OTHERS - images - (BUFFERS if self.streams else 0))

    def _cut(self, count: int) -> list[_Band]:
        """So many bands, or fewer, each of whole tiles."""
        rows = self.middle.out.rows
        whole = SIDE // math.gcd(self.middle.out.pitch, SIDE)  # rows
        size = rows if count == 1 else round_up(-(-rows // count), whole)
        return [self._band(first, min(rows, first + size)) for first in range(0, rows, size)]

    def _band(self, first: int, end: int) -> _Band:
        up, down, left = self._reach
        rows, pitch = self.middle.image.rows, self.middle.image.pitch
        top, bottom = max(0, first - up), min(rows, end + down)
        # Rows above the image are held as well, and what is left of the first one.
        return _Band(first, end, top, bottom, round_up((top - first + up) * pitch + left))

    def _pixels(self, bands: list[_Band]) -> int:
        """Pixels of a phase image of a band that are held before the depthwise convolution."""
        plan, most = self.middle, 0
        for band in bands:
            high = round_up((band.end - band.first) * plan.out.pitch)
            for phase in plan.out.each_phase():
                shifts = [self._shift(band, phase, tap) for tap in plan.window.taps]
                most = max(most, high + max(shifts))
            own = band.lead + round_up((band.bottom - band.top) * plan.image.pitch)
            most = max(most, own)
        return round_up(most)

    def _held(self, bands: list[_Band]) -> int:
        """Pixels of a phase image of a band that are held after it."""
        return max(round_up((band.end - band.first) * self.middle.out.pitch) for band in bands)

    def _shift(self, band: _Band, phase: tuple[int, int], tap: tuple[int, int]) -> int:
        """Where what a tap sees of a band's first pixel is held."""
        at = self.middle.at(phase, tap)
        return band.lead + (band.first + at.down - band.top) * self.middle.image.pitch + at.across

    def _shapes(self, bands: list[_Band]) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """What is held before and after the depthwise convolution."""
        plan, wide = self.middle, round_up(self.middle.filters.filters)
        first = (1, *plan.image.phase_count, self._pixels(bands), SIDE) if self.before else None
        second = (1, *plan.out.phase_count, self._held(bands), wide)
        second = second if self.after and not self._single else None
        return first, second

    def _bytes(self, bands: list[_Band]) -> int:
        total = 0
        for shape in self._shapes(bands):
            if shape is not None:
                total += shape[1] * shape[2] * shape[3] * shape[4]
        return total

    @property
    def scratch(self) -> int:
        return self._bytes(self.bands())

    # --- what is read more than once ------------------------------------------------------

    def copied(self, found: Found | None) -> list[_Band]:
        """The bands of which what is read comes to VMEM once for each, where it does not lie there already
        and would pass by for every 32 channels that are made of it; none if they have no room."""
        if found is None or "x" in found.tensors or self.before is None or self.streams:
            return []
        if round_up(self.before.filters.filters) == SIDE:
            return []
        for count in range(1, min(self.middle.out.rows, self._most) + 1):
            bands = self._cut(count)
            held = self._bytes(bands) + math.prod(self._copied(self.before, bands))
            if held + BESIDE + PHASE * math.prod(self.before.image.phase_count) <= found.room:
                return bands
        return []

    def _copied(self, plan: Plan, bands: list[_Band]) -> tuple[int, ...]:
        """The part of what is read that is held for a band."""
        most = max(round_up((band.bottom - band.top) * plan.image.pitch) for band in bands)
        return (1, *plan.image.phase_count, most, plan.image.stored[-1])

    def _copy(self, x: Any, b: Any, into: Any, band: _Band) -> None:
        """What a band is made of, from DRAM to VMEM."""
        plan = self.before
        assert plan is not None
        wide = plan.image.stored[-1]
        part = _rows_of(plan.out, band.top, band.bottom)
        place = plan.image.lead + band.top * plan.image.pitch
        for p, phase in _tiles(part, wide // SIDE * len(part.each_phase()) * PASSING):
            for c in Block(0, wide // SIDE, wide).parts():
                into[0, phase[0], phase[1], p, c] = x[b, phase[0], phase[1], p + place, c]

    # --- the kernel -----------------------------------------------------------------------

    def run(self, x: Any, out: Any, added: Any = None, **given: Any) -> None:
        """Band by band."""
        plan, copied = self.middle, self.copied(active_found())
        bands = copied or self.bands()
        first, second = (
            None if shape is None else tw.scratch(tw.fp8[shape].panels(), on_chip=True)
            for shape in self._shapes(bands)
        )
        lines, wide = plan.lines(), round_up(plan.filters.filters)
        depth = 1 if self.before else 0
        copy = None
        if copied and self.before is not None:
            copy = tw.scratch(tw.fp8[self._copied(self.before, bands)].panels(), on_chip=True)
        for b in tw.each(self.last.out.batch or 1):
            write_border(out, b, self.last.out)
            for band in bands:
                if first is not None:
                    self._clear(first, band)
                if copy is not None:
                    self._copy(x, b, copy, band)
                for n in tw.grid(wide):
                    if first is not None:
                        self._widened(x, b, first, band, n, _of(given, 0), copy)
                    source = x if first is None else first
                    self._seen(source, b, out if second is None else second, band, n, lines,
                               _of(given, depth), _of(given, depth + 1), added)  # fmt: skip
                if second is not None:
                    self._narrowed(second, b, out, band, _of(given, depth + 1), added)

    def _clear(self, held: Any, band: _Band) -> None:
        """Zeros where there are no rows, and between them and the ends of tiles."""
        extent = held.shape[-2]
        rows = round_up((band.bottom - band.top) * self.middle.image.pitch)
        places = [*range(band.lead // SIDE), *range((band.lead + rows) // SIDE, extent // SIDE)]
        if not places:
            return
        nothing = tw.full(0.0, "fp8")
        for a, c in self.middle.image.each_phase():
            for place in places:
                held[0, a, c, Block(place, 1, extent, None, 0), Block(0, 1, SIDE)] = nothing

    def _widened(
        self, x: Any, b: Any, held: Any, band: _Band, n: Block, given: dict[str, Any], copy: Any
    ) -> None:
        """The first convolution, of 32 of its filters; copy: what it reads, if that is in VMEM."""
        plan = self.before
        assert plan is not None
        part = replace(plan, out=_rows_of(plan.out, band.top, band.bottom))
        channels = Block(0, plan.image.stored[-1] // SIDE, plan.image.stored[-1])
        place = plan.image.lead + band.top * plan.image.pitch
        steps = channels.tiles * len(part.out.each_phase()) * (PASSING if self.streams else 1)
        rows = part.rows(n, given.get("scale"), given.get("bias"), park=True)
        for p, phase in _tiles(part.out, steps):
            total, at = tw.zeros(), (b, *phase, p + place, channels)
            pixels = x[at] if copy is None else copy[(0, *phase, p, channels)]
            total += pixels @ given["w"][0, 0, channels, n]
            y = part.finished(total, rows, p, phase)
            held[0, phase[0], phase[1], p + band.lead, Block(0, 1, SIDE)] = y

    def _seen(
        self, source: Any, b: Any, into: Any, band: _Band, n: Block, lines: list[Any],
        given: dict[str, Any], after: dict[str, Any], added: Any,
    ) -> None:  # fmt: skip
        """The depthwise convolution of these 32 channels, and what follows on them at once."""
        plan = self.middle
        part = replace(plan, out=_rows_of(plan.out, band.first, band.end))
        tiles = plan.diagonals(given["w"], [(n, n)], lines)
        taps = plan.window.taps
        rows = part.rows(n, given.get("scale"), given.get("bias"), park=True)
        ends = self._ends(band, after) if self._single else []
        steps = (len(taps) + len(ends)) * len(part.out.each_phase())
        for p, phase in _tiles(part.out, steps):
            total = tw.zeros()
            for tap in taps:
                at = plan.at(phase, tap)
                if self.before is None:
                    place = p + (at.shift + band.first * plan.image.pitch)
                    pixels = source[b, at.row, at.column, place, n]
                else:
                    place = p + self._shift(band, phase, tap)
                    pixels = source[0, at.row, at.column, place, Block(0, 1, SIDE)]
                total += pixels @ tiles[n.start, tap]
            more = plan.beside(added, b, phase, p + band.first * plan.out.pitch, n)
            y = part.finished(total, rows, p, phase, more)
            for last, m, own in ends:
                total = tw.zeros()
                total += y @ after["w"][0, 0, Block(0, 1, SIDE), m]
                more = last.beside(added, b, phase, p + band.first * plan.out.pitch, m)
                place = p + self._into(band)
                into[b, phase[0], phase[1], place, m] = last.finished(total, own, p, phase, more)
            if self.after is None:
                into[b, phase[0], phase[1], p + self._into(band), n] = y
            elif not ends:
                into[0, phase[0], phase[1], p, n] = y

    def _ends(self, band: _Band, given: dict[str, Any]) -> list[tuple[Plan, Block, Rows]]:
        """The last convolution for every tile of its filters, with their scales and terms."""
        assert self.after is not None
        part = replace(self.after, out=_rows_of(self.after.out, band.first, band.end))
        wide = round_up(part.filters.filters)
        return [
            (part, n, part.rows(n, given.get("scale"), given.get("bias"), park=True))
            for n in Block(0, wide // SIDE, wide).parts()
        ]

    def _narrowed(
        self, held: Any, b: Any, out: Any, band: _Band, given: dict[str, Any], added: Any
    ) -> None:
        """The last convolution."""
        plan = self.after
        assert plan is not None
        part = replace(plan, out=_rows_of(plan.out, band.first, band.end))
        wide, filters = held.shape[-1], round_up(plan.filters.filters)
        channels = Block(0, wide // SIDE, wide)
        for n in tw.grid(filters):
            rows = part.rows(n, given.get("scale"), given.get("bias"), park=True)
            for p, phase in _tiles(part.out, channels.tiles * len(part.out.each_phase())):
                total = tw.zeros()
                pixels = held[0, phase[0], phase[1], p, channels]
                total += pixels @ given["w"][0, 0, channels, n]
                more = plan.beside(added, b, phase, p + band.first * plan.out.pitch, n)
                y = part.finished(total, rows, p, phase, more)
                out[b, phase[0], phase[1], p + self._into(band), n] = y

    def _into(self, band: _Band) -> int:
        """Where the first pixel of a band is in the result."""
        out = self.last.out
        return out.lead + band.first * out.pitch


def _of(given: dict[str, Any], number: int) -> dict[str, Any]:
    """What one of the convolutions takes."""
    return {n: given[f"{n}{number}"] for n in ("w", "scale", "bias") if f"{n}{number}" in given}


def _rows_of(image: Image, first: int, end: int) -> Image:
    """Some rows of every phase of an image, as an image."""
    step = image.phase_count[0]
    return replace(image, height=min(image.height - first * step, (end - first) * step))


def _tiles(out: Image, steps: int) -> Iterator[tuple[Block, tuple[int, int]]]:
    """A few tiles of pixels of every phase of an image, in loops of so many steps a tile."""
    for block in pixel_blocks(out, max(1, STEPS // steps)):
        for first in range(0, block.tiles, SHARING):
            tiles = min(SHARING, block.tiles - first)
            for phase in out.each_phase():
                yield replace(block, start=block.start + first, tiles=tiles), phase
