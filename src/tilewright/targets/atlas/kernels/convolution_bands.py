"""Convolutions in a row, some rows at a time: what lies between them never leaves the chip.

    for some rows of the result:                       # one loop
        what is held of the rows before moves up
        first convolution: rows of its result -> the chip, of some phases a step ahead
        second one: these rows -> out

Of what lies between, the rows are held that windows of one step see. Most phases of a pixel's
neighbours are in its own row: with many phases only the first phases have to be a row ahead, and only of
the last ones a row before is kept. What lies outside of the whole image is zero, which a table says. A
convolution of single pixels at the end takes tiles as they are made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.convolution_pooling import Results
from tilewright.targets.atlas.kernels.image_blocks import apart, period
from tilewright.targets.atlas.kernels.image_sources import Source
from tilewright.targets.atlas.kernels.images import SIDE, round_up
from tilewright.targets.atlas.kernels.narrow_bands import NarrowEnd, in_order
from tilewright.targets.atlas.kernels.narrow_images import NarrowImage
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block

if TYPE_CHECKING:
    from tilewright.targets.atlas.kernels.convolution import Panel, Plan

TILE = 1024  # bytes of an fp8 tile
PERIODS = 9  # tiles after which rows begin at the same places again, at most
ENOUGH = 700  # products of tiles in the body of the loop
MOST = 2800  # the same, at most
SPARE = 64 * TILE  # of VMEM for scales, masks and tiles that wait

Phase = tuple[int, int]
Place = tuple[Phase, int]  # a tile of a phase, counted from the first one of a step
Given = dict[str, Any]


@dataclass(frozen=True)
class Bands:
    """One or two convolutions and perhaps one of single pixels, of which each reads what the one
    before it makes, `rows` rows of every phase at a time."""

    plans: tuple[Plan, ...]
    rows: int

    # --- geometry -------------------------------------------------------------------------

    @property
    def last(self) -> Plan:
        return self.plans[-1]

    @property
    def tail(self) -> Plan | None:
        """A last convolution of single pixels, which takes tiles as they are made."""
        return self.last if len(self.last.window.taps) == 1 else None

    @property
    def bodies(self) -> tuple[Plan, ...]:
        """The convolutions that look around themselves, or the first one."""
        return self.plans if self.tail is None else self.plans[:-1]

    @property
    def beside_each_other(self) -> tuple[int, int]:
        """Phases and tiles of a phase whose results share a tile."""
        return self.last.out.beside if isinstance(self.last.out, NarrowImage) else (1, 1)

    @property
    def tiles(self) -> int:
        """Of a phase in a step."""
        return self.rows * self.last.out.pitch // SIDE

    @cached_property
    def beside(self) -> dict[Phase, tuple[int, int]]:
        """Of every phase between the convolutions, tiles before and behind those of a step that are
        seen."""
        plan, found = self.bodies[-1], dict[Phase, tuple[int, int]]()
        for phase in plan.out.each_phase():
            for tap in plan.window.taps:
                at = plan.at(phase, tap)
                up, down = found.get((at.row, at.column), (0, 0))
                above, below = (
                    -(at.down * plan.out.pitch // SIDE),
                    -(-at.down * plan.out.pitch // SIDE),
                )
                found[at.row, at.column] = max(up, above), max(down, below)
        return found

    @property
    def around(self) -> tuple[int, int]:
        """Tiles held before and behind those of a step."""
        plan = self.bodies[-1]
        shifts = [
            plan.at(phase, tap).shift - plan.image.lead
            for phase in plan.out.each_phase() for tap in plan.window.taps
        ]  # fmt: skip
        above = max(-(min(shifts) // SIDE), *(up for up, _ in self.beside.values()))
        return above, max(-(-max(shifts) // SIDE), *(down for _, down in self.beside.values()))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """What is held between two convolutions."""
        if len(self.bodies) == 1:
            return None
        out = self.bodies[0].out
        return (1, *out.phase_count, (sum(self.around) + self.tiles) * SIDE, out.stored[-1])

    @property
    def scratch(self) -> int:
        """Bytes between convolutions."""
        return 0 if self.shape is None else int(np.prod(self.shape))

    def places(self, number: int) -> list[Place]:
        """Tiles that a step computes of a convolution."""
        ahead = self.beside if number + 1 < len(self.bodies) else {}
        phases = self.bodies[number].out.each_phase()
        places = [
            (phase, ahead.get(phase, (0, 0))[1] + tile)
            for phase in phases for tile in range(self.tiles)
        ]  # fmt: skip
        if number + 1 < len(self.bodies):
            return places
        out, pool = self.last.out, self.last.pool
        if isinstance(out, NarrowImage):
            return in_order(out, places)
        return places if pool is None else pool.by_windows(places)

    @property
    def products(self) -> int:
        """Of tiles in a step."""
        tiles = len(self.last.out.each_phase()) * self.tiles
        return tiles * sum(
            len(plan.window.taps) * plan.filters.depth * (plan.filters.stored[-1] // SIDE)
            for plan in self.plans
        )

    def needed(self) -> int:
        """Bytes of VMEM that are counted on."""
        plan, seen = self.bodies[0], dict[tuple[int, int, int], list[int]]()
        sources = plan.sources or (Source(plan.image),)
        for phase, tile in self.places(0):
            for k, source in enumerate(sources):
                for tap in plan.window.taps:
                    at = source.at(plan.window, phase, tap)
                    seen.setdefault((k, at.row, at.column), []).append(tile * SIDE + at.shift)
        pixels = 0
        for (k, _, _), shifts in seen.items():
            high = max(shifts) - min(shifts) + SIDE
            pixels += round_up(high) * sources[k].image.stored[-1]
        many = math.prod(self.beside_each_other)
        filters = sum(int(np.prod(plan.filters.stored)) for plan in self.plans)
        filters += (many - 1) * int(np.prod(self.last.filters.stored))
        out, pool = self.last.out, self.last.pool
        phases = len(out.each_phase())
        results = phases if pool is None else pool.writes(phases)
        results *= self.tiles * out.stored[-1] * SIDE
        results //= many
        results *= 2 if out.dtype == "bf16" else 1
        return self.scratch + 2 * pixels + filters + results + SPARE

    def check(self) -> None:
        """An error unless these convolutions can be computed so."""
        names = ("height", "width", "channels", "phases", "pitch", "batch", "dtype")
        for plan, after in pairwise(self.plans):
            alike = all(getattr(plan.out, n) == getattr(after.image, n) for n in names)
            if (
                not alike
                or plan.out.fill != "zero"
                or after.sources
                or after.window.steps != (1, 1)
            ):
                raise _refused("over images of different sizes")
        for plan in self.plans:
            plain = plan.filters.groups == 1 and not (plan.diagonal or plan.deep)
            if not plain or plan.gate is not None or plan.added is not None:
                raise _refused("of groups, gates or sums")
        out = self.last.out
        whole = not out.height % (self.rows * out.phase_count[0])
        if not whole or period(out) > PERIODS or self.rows * out.pitch % (SIDE * period(out)):
            raise _refused(f"whose rows are no multiples of {self.rows}")
        if self.tiles % self.beside_each_other[1]:
            raise _refused("of which a step leaves places in tiles empty")
        if len(self.bodies) not in (1, 2) or self.products > MOST:
            raise _refused("that are too many for one loop")
        if len(self.bodies) == 2 and max(down for _, down in self.beside.values()) > self.tiles:
            raise _refused("that look further than a step ahead")
        self._check_reach()

    def _check_reach(self) -> None:
        """An error if the first convolution would read beyond what is stored."""
        sources = self.bodies[0].sources or (Source(self.bodies[0].image),)
        for number, _, _, start, end in self.loaded():
            if start < 0 or end > sources[number].image.pixels:
                raise _refused("whose windows reach beyond the border")

    def loaded(self) -> Iterator[tuple[int, int, int, int, int]]:
        """What the first convolution loads: the number of an image, a phase of it, and the first and
        last pixel of that."""
        plan, steps = self.bodies[0], self.last.out.rows // self.rows
        early = self._early() if len(self.bodies) > 1 else ()
        for phase, tile in (*self.places(0), *early):
            for number, source in enumerate(plan.sources or (Source(plan.image),)):
                for tap in plan.window.taps:
                    at = source.at(plan.window, phase, tap)
                    start = tile * SIDE + at.shift
                    end = start + SIDE + (steps - 1) * self.tiles * SIDE
                    yield number, at.row, at.column, start, end

    # --- the kernel -----------------------------------------------------------------------

    def run(self, out: Any, out_image: Any = None, **given: Any) -> None:
        """Step by step."""
        held = None
        if self.shape is not None:
            held = tw.scratch(tw.fp8[self.shape].panels(), on_chip=True)
        image, pixels = self.last.out, self.last.out.rows * self.last.out.pitch
        tables: dict[bytes, str] = {}
        for b in tw.each(image.batch or 1):
            results = Results(self.last, {"out": out, "out_image": out_image}, b)
            results.write_borders()
            rows = [self._rows(k, given) for k in range(len(self.plans))]
            end = None
            if isinstance(image, NarrowImage):
                w = given[f"w{len(self.plans) - 1}"]
                end = NarrowEnd(self.last, self.tiles, b, out, w, rows[-1][0])
            step = _Step(self, b, rows, held, results, given, tables, end)
            if held is not None:
                self._clear(held)
                first = Block(0, self.tiles, pixels)
                for group, mask in step.groups(0, list(self._early()), first):
                    step.tiles(0, group, first, mask, self.tiles)
            each = self.beside_each_other[1]
            for m in tw.grid(pixels // each, self.tiles // each * SIDE):
                if held is not None:
                    self._move_up(held)
                for k, group, mask in self._in_turn(step, m):
                    step.tiles(k, group, m, mask)
                if step.end is not None:
                    step.end.finish(m)

    def _in_turn(self, step: _Step, m: Block) -> Iterator[tuple[int, list[Place], Any]]:
        """Tiles of both convolutions, those of the second one as soon as all is there that they see: so
        their results leave all the time."""
        later = list(step.groups(len(self.bodies) - 1, self.places(len(self.bodies) - 1), m))
        if len(self.bodies) == 1:
            yield from ((0, *one) for one in later)
            return
        ahead = sorted(self.places(0), key=lambda place: not self.beside[place[0]][1])
        groups = list(step.groups(0, ahead, m))
        for number, (group, mask) in enumerate(groups):
            yield 0, group, mask
            missing = {phase for one, _ in groups[number + 1 :] for phase, _ in one}
            while later and not self._seen(later[0][0]) & missing:
                yield 1, *later.pop(0)

    def _seen(self, places: list[Place]) -> set[Phase]:
        """The phases that some tiles of the second convolution see."""
        plan = self.bodies[1]
        found = (plan.at(phase, tap) for phase, _ in places for tap in plan.window.taps)
        return {(at.row, at.column) for at in found}

    def _rows(self, number: int, given: Given) -> list[Any]:
        plan = self.plans[number]
        blocks = Block(0, plan.filters.stored[-1] // SIDE, plan.filters.stored[-1]).parts()
        return [
            plan.rows(n, given.get(f"scale{number}"), given.get(f"bias{number}")) for n in blocks
        ]

    def _early(self) -> Iterator[Place]:
        """Tiles of the first rows that are computed before the first step."""
        for phase, (_, down) in self.beside.items():
            yield from ((phase, tile) for tile in range(min(down, self.tiles)))

    def _clear(self, held: Any) -> None:
        """Zeros everywhere: the rows above the image, and what nothing is computed of."""
        nothing, (extent, wide) = tw.full(0.0, "fp8"), held.shape[-2:]
        for p in tw.grid(extent):
            for a, c in self.bodies[0].out.each_phase():
                for n in range(wide // SIDE):
                    held[0, a, c, p, Block(n, 1, wide)] = nothing

    def _move_up(self, held: Any) -> None:
        """What a step still sees of the rows of the step before, to where it looks for them."""
        extent, wide = held.shape[-2:]
        for (a, c), (up, down) in self.beside.items():
            for tile in range(self.around[0] - up, self.around[0] + down):
                for n in Block(0, wide // SIDE, wide).parts():
                    place, before = (Block(k, 1, extent) for k in (tile, tile + self.tiles))
                    held[0, a, c, place, n] = held[0, a, c, before, n]


@dataclass(frozen=True)
class _Step:
    """What the convolutions of a step read and write."""

    bands: Bands
    b: Any
    rows: Sequence[Sequence[Any]]
    held: Any
    results: Results
    given: Given
    tables: dict[bytes, str]
    end: NarrowEnd | None = None  # where results lie side by side

    def groups(
        self, number: int, places: list[Place], m: Block
    ) -> Iterator[tuple[list[Place], Any]]:
        """Tiles of a convolution that share filters, those that may lie outside of the image first, with
        what masks these."""
        count = self.bands.bodies[number]._rows_together(self._panel(number))
        end = self._ends(number)
        count = count if end is None else end.count
        inside = [place for place in places if place[1] < self.bands.tiles]
        beyond = [place for place in places if place[1] >= self.bands.tiles]
        for rows, same in self._masks(number, beyond):
            for first in range(0, len(same), count):
                yield same[first : first + count], self._table(rows, m)
        for first in range(0, len(inside), count):
            yield inside[first : first + count], None

    def _ends(self, number: int) -> NarrowEnd | None:
        """What computes a convolution, if its results lie side by side."""
        last = self.bands.tail is None and number + 1 == len(self.bands.bodies)
        return self.end if last else None

    def _panel(self, number: int) -> Panel:
        plan = self.bands.bodies[number]
        wide, channels = plan.filters.stored[-1], plan.image.stored[-1]
        seen = Block(0, channels // SIDE, channels)
        return [(n, seen) for n in Block(0, wide // SIDE, wide).parts()]

    def tiles(self, number: int, group: list[Place], m: Block, mask: Any, ahead: int = 0) -> None:
        """Some tiles of a convolution in the step that begins with block m; ahead: tiles behind their
        place in the step at which they are held."""
        panel = self._panel(number)
        bands, plan, last = (
            self.bands,
            self.bands.bodies[number],
            number + 1 == len(self.bands.bodies),
        )
        images = [x for name, x in self.given.items() if name.startswith("x")]
        seen = [(phase, self._place(tile, m)) for phase, tile in group]
        if number:
            images = [_Held(self.held, bands.around[0] * SIDE - plan.image.lead)]
            seen = [(phase, self._part(tile, tile)) for phase, tile in group]
        end = self._ends(number)
        if end is not None:
            end.window(group, m, images, seen)
            return
        made: list[dict[int, Any]] = [{} for _ in group]
        total_of = plan._sums(images, self.given[f"w{number}"], self.b, panel, seen, None)
        for k, total in total_of:
            for (index, (phase, tile)), sums in apart(total, list(enumerate(group))):
                part = self._part(tile % period(plan.out), 0)
                y = plan.values(sums, self.rows[number][k], part, phase, None, mask)
                if not last:
                    at = self._part(bands.around[0] + tile + ahead, 0, self.held.shape[-2])
                    self.held[0, phase[0], phase[1], at, panel[k][0]] = plan.rounded(y)
                elif bands.tail is None:
                    self.results.put(phase, self._place(tile, m), part, panel[k][0], y)
                else:
                    made[index][k] = plan.rounded(y)
        for (phase, tile), tiles in zip(group, made, strict=True):
            if tiles and self.end is not None:
                self.end.single((phase, tile), tiles, m)
            elif tiles:
                self._pointwise(phase, tile, tiles, m)

    def _pointwise(self, phase: Phase, tile: int, tiles: dict[int, Any], m: Block) -> None:
        """What the last convolution makes of a tile of pixels."""
        plan, number = self.bands.last, len(self.bands.plans) - 1
        extent, wide = plan.filters.stored[2:]
        for k, n in enumerate(Block(0, wide // SIDE, wide).parts()):
            total = tw.zeros()
            for c in range(extent // SIDE):
                w = self.given[f"w{number}"][0, 0, Block(c, 1, extent), n]
                total += tiles[c] @ w
            part = self._part(tile % period(plan.out), 0)
            y = plan.values(total, self.rows[number][k], part, phase)
            self.results.put(phase, self._place(tile, m), part, n, y)

    def _place(self, tile: int, m: Block) -> Block:
        """A tile counted from the first one of a step, in the whole image."""
        each = self.bands.beside_each_other[1]
        if each > 1 and m.variables:
            return m.times_as_fast(each, self.bands.tiles // each * SIDE, tile * SIDE)
        travel = m.extent - self.bands.tiles * SIDE if m.variables else None
        return replace(m, tiles=1, shift=tile * SIDE, travel=travel)

    def _part(self, tile: int, shift: int, extent: int = 0) -> Block:
        """A tile counted from the first one of a step, in what is held."""
        if extent:
            return Block(tile, 1, extent)
        return Block(tile - shift, 1, SIDE * self.bands.tiles, None, shift * SIDE)

    def _masks(self, number: int, places: list[Place]) -> Iterator[tuple[np.ndarray, list[Place]]]:
        """Which pixels of tiles of the next step are of the image, for all steps, and of which tiles."""
        out, step = self.bands.bodies[number].out, self.bands.tiles * SIDE
        found: dict[bytes, tuple[np.ndarray, list[Place]]] = {}
        for phase, tile in places:
            rows = np.zeros((out.rows * out.pitch, SIDE // 2))
            for start in range(0, len(rows), step):
                flat = start + tile * SIDE + np.arange(SIDE)
                rows[start : start + SIDE] = out.inside(flat, phase)[:, None]
            found.setdefault(rows.tobytes(), (rows, []))[1].append((phase, tile))
        yield from found.values()

    def _table(self, rows: np.ndarray, m: Block) -> Any:
        """Such rows for a step, as a tile to multiply with."""
        name = self.tables.setdefault(rows.tobytes(), f"inside_{len(self.tables)}")
        tensor = active().constant_tensor(name, lambda: rows, "halves")
        if self.bands.beside_each_other[1] > 1:
            return tensor[self._place(0, m), :]
        return tensor[replace(m, tiles=1), :]


@dataclass(frozen=True)
class _Held:
    """An image of which the pixels around a step are held, so many before the first one."""

    tensor: Any
    lead: int

    def __getitem__(self, index: tuple[Any, ...]) -> Any:
        _, row, column, p, c = index
        return self.tensor[0, row, column, p + self.lead, c]


def _refused(why: str) -> TilewrightError:
    return TilewrightError(
        "TW1675", f"convolutions in a row {why}", hint="use the convolutions one after the other"
    )


def rows_of_steps(plans: Sequence[Plan], profile: Profile) -> int:
    """Rows of a step: few, but enough products in the body of the loop; 0 where there is no way."""
    out, best = plans[-1].out, 0
    for rows in range(1, out.rows + 1):
        bands = Bands(tuple(plans), rows)
        try:
            bands.check()
        except TilewrightError:
            continue
        if bands.needed() > profile.vmem_bytes * 7 // 8:
            break
        best = rows
        if bands.products >= ENOUGH:
            break
    return best
