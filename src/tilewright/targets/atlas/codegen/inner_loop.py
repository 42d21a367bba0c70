"""Loops whose body is straight: what is loaded before, ahead and along, and how results leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.targets.atlas.codegen.chip import Chip, Run
from tilewright.targets.atlas.codegen.copies_beside import Slices
from tilewright.targets.atlas.codegen.loop_shifting import lower_bound
from tilewright.targets.atlas.codegen.nest import (
    LAYER,
    Compute,
    For,
    Pieces,
    Read,
    Reload,
    Spill,
    Value,
    Variable,
    Write,
    emit_compute,
)
from tilewright.targets.atlas.codegen.routine import Loop
from tilewright.targets.atlas.codegen.tail_loads import Transfer
from tilewright.targets.atlas.codegen.tiles import Tile, Tiles
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import (
    NEXT,
    ROW,
    Code,
    Place,
    Register,
    Site,
)
from tilewright.targets.atlas.codegen.waw_dependences import waw_dependent
from tilewright.targets.atlas.isa import Kind
from tilewright.tile.bodies import BODIES


@dataclass
class Outer:
    """The loop around an inner loop, and where code before that loop goes; repeats: that code is
    itself part of a loop."""

    variable: Variable
    out: list[Code | Loop]
    repeats: bool = False


class InnerLoop:
    """A loop whose body is straight."""

    def __init__(
        self,
        chip: Chip,
        loop: For,
        out: list[Code | Loop],
        outer: Outer | None,
        beside: Sequence[Slices] = (),
    ) -> None:
        """beside: what iterations load of copies that have nothing to do with the loop."""
        self.at, self.loop, self.out, self.outer, self.beside = chip, loop, out, outer, beside
        self.routine = chip.routine
        # Buffers are as they were whenever control comes here.
        self.home = out if outer is None else outer.out
        self.variable = loop.variable
        chip.homes[self.variable] = self.home
        for s in loop.body:
            if isinstance(s, Compute) and s.body is BODIES["transpose"]:
                chip.turned.update(s.inputs)
        reads = [s for s in loop.body if isinstance(s, Read) and not s.on_chip]
        moving = [r for r in reads if r.offset.factor(self.variable)]
        fixed = [r for r in reads if not r.offset.factor(self.variable)]
        self.fixed, self.moving = chip.runs(fixed, apart=True), chip.runs(moving, apart=True)
        self.where = {id(r): run for run in [*self.fixed, *self.moving] for r in run.reads}
        self.writes = [s for s in loop.body if isinstance(s, Write) and not s.on_chip]
        self.ordered = waw_dependent(self.writes, self.variable)
        # Results of long bodies may leave when the next iteration is well under way.
        self.lags = len(loop.body) > TUNING.lagging_body
        self.places: dict[int, int | Place] = {}  # run -> where its bytes are
        self.spread: set[int] = set()  # reads of rows that lie there as whole tiles
        self.constants: dict[float, Tile] = {}

    def lower(self) -> None:
        mark = self.at.top
        before = self.routine.code()
        # What is the same whenever the loop around comes here.
        self.once = before if self.outer is None else self.routine.code()
        self.ahead = self._ahead()
        self.current, self.following = self._double_buffer()  # first: it needs alignment
        for run in self.fixed:
            if id(run) in self.places:
                continue
            buffer = self.at.allocate(run.bytes, source=run.reads[0].source)
            self.places[id(run)] = buffer
            if run.row:
                self._spread(before, run, buffer)
            else:
                if run.blank:  # what no piece covers stays zero
                    self.at.clear(self.once, buffer, run.bytes)
                self.at.load(before, run, buffer)
        for run in self.moving:
            if run.blank:
                for pointer, name in ((self.current, "current"), (self.following, "following")):
                    self.at.clear(before, Place(pointer, name, run.buffer), run.bytes)
        for run in self.moving:
            self.places[id(run)] = Place(self.current, "current", run.buffer)
        self.deferred = self._deferred_stores()
        self.out.append(before)
        top, trips, slots = self.at.top, self.variable.trips, dict(self.at.slots)
        body = self._body(self._next())
        if around := self._next_around(body):
            assert self.outer is not None
            before = self.routine.code()
            self.outer.out.append(before)
        for run in self.moving:
            self.at.load(before, run, Place(self.current, "current", run.buffer))
        wastes, short = self._wastes(body), len(body.ops) <= TUNING.last_body_ops
        if around or (wastes and short) or self._leaves_memory():
            self.at.top, self.at.slots = top, slots  # the loop has let go of its buffers
            last = self._body(around, last=True)
            self.out.append(Loop(1, [Loop(trips - 1, [body]), last]))
        else:
            self.out.append(Loop(trips, [body], bare_last=wastes))
        after = self.routine.code()
        self.at.step_bases(after, self.variable, -self.variable.trips)
        if self.ahead is not None:
            self.ahead.turn(after)
        if after.ops:
            self.out.append(after)
        if self.outer is None:
            self.at.top = mark
        elif self.once.ops:
            self.outer.out.append(self.once)

    def _spread(self, before: Code, run: Run, buffer: int) -> None:
        """Make a row that all iterations use a whole tile, so that the body only loads it."""
        alone = buffer  # the row among zeros; where it comes again, the zeros stay
        if self.outer is not None:
            alone = self.at.allocate(run.bytes, source=run.reads[0].source)
        self.at.clear(self.once, alone, run.bytes)
        self.at.load(before, run, alone)
        tiles, values = Tiles(before), dict[Value, Any]()
        first = run.reads[0]
        self.at.fetch(before, tiles, values, first, run, alone)
        tiles.store(values[first.result], buffer, run.bytes)
        self.spread.update(id(read) for read in run.reads)

    def _ahead(self) -> _Ahead | None:
        """Load what the next iteration of the loop around needs, a slice in each of ours."""
        if self.outer is None or self.outer.variable.trips < 2 or self.variable.trips < 2:
            return None
        runs = [
            run for run in self.fixed if run.offset.factor(self.outer.variable) and not run.pieces
        ]
        regions = _regions(runs)
        if not regions:
            return None
        half = sum(_room(region.bytes, self.variable.trips) for region in regions)
        ahead = {id(read) for region in regions for read in region.reads}
        others = [run for run in self.fixed if not any(id(read) in ahead for read in run.reads)]
        rest = sum(r.bytes for r in [*others, *self.moving, *self.moving, *self.writes])
        if self.at.top + 2 * half + rest + TUNING.spill_bytes > self.at.ceiling:
            return None
        return _Ahead(self, regions, half)

    def _double_buffer(self) -> tuple[Register, Register]:
        """Pointers to the two halves that moving tiles alternate between."""
        total = 0
        for run in self.moving:
            run.buffer = total
            total += -(-run.bytes // 1024) * 1024
            source = run.reads[0].source
            self.at.by_line[source] = self.at.by_line.get(source, 0) + 2 * run.bytes
        self.half = total
        self.start = self.at.allocate(2 * total) if total else 0
        if not total:
            return Register(Kind.X), Register(Kind.X)
        places = (self.start, self.start + self.half)
        first, second = (self.routine.pointer(place, home=self.home) for place in places)
        return first, second

    def _deferred_stores(self) -> dict[int, list[Site]]:
        """The last stores of an iteration run on channels of their own into the next, but for
        those that have to keep an order among themselves. One for each piece of a tile."""
        sites: dict[int, list[Site]] = {}
        if not self.at.defers:
            return sites
        limit = self.at.profile.dma.max_bytes or 1 << 40
        number = 0
        for write in reversed(self.writes):
            pieces = _pieces(write)
            long = any(count > limit for _, count in pieces)
            if long or id(write) in self.ordered or number + len(pieces) > TUNING.deferred_stores:
                continue
            buffer = self.at.allocate(write.bytes, source=write.source)
            sites[id(write)] = []
            for at, count in pieces:
                inside = self.routine.pointer(buffer + at, home=self.home)
                outside = self.routine.pointer(0, home=self.home)
                site = self.routine.site(number, True, inside, outside, count)
                sites[id(write)].append(site)
                number += 1
        return sites

    def _wastes(self, body: Code) -> bool:
        """Whether the engine would be busy for long with loads of the last iteration that nobody
        reads, so that this iteration is worth code of its own."""
        trips, ticks = self.variable.trips, self.at.profile.dma.ticks
        if trips < 3 or not self.moving or len(body.ops) > TUNING.bare_body_ops:
            return False
        loads = sum(ticks(run.bytes) for run in self.moving)
        stores = sum(ticks(write.bytes) for write in self.writes)
        # After the loop the machine drains before the last iteration starts.
        drain = max(timing.latency for timing in self.at.profile.timing.values())
        much = loads > max(
            TUNING.wasted_drains * drain, TUNING.wasted_loads * trips * (loads + stores)
        )
        return much and lower_bound(body).cause == "DMA"

    def _leaves_memory(self) -> bool:
        """Whether the last iteration, going down, would load ahead of the start of memory."""
        if self.variable.trips < 2:
            return False
        return any(self._lowest(run, self.variable) < 0 for run in self.moving)

    def _lowest(self, run: Run, beyond: Variable) -> int:
        """Where in memory a run may start when one variable goes one step too far."""
        steps = (f * (v.trips - (v is not beyond)) for v, f in run.offset.terms)
        return run.offset.constant + sum(min(0, step) for step in steps)

    def _next(self) -> dict[int, int]:
        """Bytes from the tiles of an iteration to those of the next, for every moving run."""
        if self.variable.trips < 2:
            return {}
        return {id(run): run.offset.factor(self.variable) for run in self.moving}

    def _next_around(self, body: Code) -> dict[int, int]:
        """Bytes from the tiles of the last iteration to those of the first one when the loop
        around comes to this loop again; nothing if that is not worth code of its own."""
        if self.outer is None or self.outer.variable.trips < 2 or self.variable.trips < 2:
            return {}
        if any(run.pieces for run in self.moving) or len(body.ops) > TUNING.around_body_ops:
            return {}
        loads = sum(self.at.profile.dma.ticks(run.bytes) for run in self.moving)
        if loads < TUNING.exposed_loads * self.variable.trips * lower_bound(body).ticks:
            return {}
        if any(self._lowest(run, self.outer.variable) < 0 for run in self.moving):
            return {}
        back = self.variable.trips - 1
        return {
            id(run): run.offset.factor(self.outer.variable)
            - back * run.offset.factor(self.variable)
            for run in self.moving
        }

    def _body(self, ahead: dict[int, int], last: bool = False) -> Code:
        """The code of an iteration; it loads moving tiles so many bytes ahead."""
        code = self.routine.code()
        tiles, values = Tiles(code, self.constant), dict[Value, Any]()
        if ahead:
            code.source = "" if last else NEXT  # a last iteration loads for the loop around
            self._prefetch(code, ahead)
            code.source = ""
        if self.ahead is not None:
            self.ahead.slice(code)
        for slices in self.beside:
            slices.load(code)
        for s in self.loop.body:
            if isinstance(s, Read) and s.on_chip:
                self.at.fetch_resident(code, tiles, values, s)
            elif isinstance(s, Read):
                run = self.where[id(s)]
                read = replace(s, row=False) if id(s) in self.spread else s
                self.at.fetch(code, tiles, values, read, run, self.places[id(run)])
            elif isinstance(s, Compute):
                code.source = s.source
                emit_compute(tiles, s, values, self.at.turned)
            elif isinstance(s, Spill | Reload):
                self.at.park(code, tiles, values, s)
            elif isinstance(s, Write) and s.on_chip:
                self.at.store_resident(code, tiles, values[s.value], s)
            elif isinstance(s, Write):
                code.source = s.source
                self._store(code, tiles, values[s.value], s, last)
        self.at.step_bases(code, self.variable)
        if self.moving:
            code.toggle(self.current, 2 * self.start + self.half)
            code.toggle(self.following, 2 * self.start + self.half)
        return code

    def constant(self, value: float) -> Tile:
        """Constants of a loop are made before it, and before the loop around, and stay in registers."""
        if value not in self.constants:
            self.constants[value] = Tile(self.routine.carry(2), "bf16")
            self.at.constant(Tiles(self.once), value, self.constants[value])
        return self.constants[value]

    def _prefetch(self, code: Code, ahead: dict[int, int]) -> None:
        """Start the loads of the next iteration. A last iteration that has no code of its own
        loads what follows in memory; nobody reads it."""
        for run in self.moving:
            there = Place(self.following, "following", run.buffer)
            self.at.load(code, run, there, ahead[id(run)])

    def _store(self, code: Code, tiles: Tiles, tile: Any, write: Write, last: bool) -> None:
        sites = self.deferred.get(id(write), [])
        if not sites or last:
            if not sites:
                buffer = self.at.allocate(write.bytes, source=write.source)
            else:
                buffer = self.routine.pointers[sites[0].vmem]
            tiles.store(tile, buffer, write.bytes)
            for at, count in _pieces(write):
                # The pointer that the iterations before have moved.
                target = self.at.dram(
                    write.offset.shifted(at), id(write) in self.ordered, bool(sites) and self.lags
                )
                code.dma_store(target, buffer + at, count)
            return
        name = f"out {sites[0].channel}"
        for site in sites:
            code.wait(site, (name,))
        tiles.store(tile, Place(sites[0].vmem, name), write.bytes)
        base = self.at.base(write.offset.terms, self.lags)
        for site, (at, _) in zip(sites, _pieces(write), strict=True):
            offset = write.offset.constant + at
            if -2048 <= offset <= 2047:
                code.emit("addi", site.dram, base, offset)
            else:
                code.emit("add", site.dram, base, code.constant(Kind.X, offset & 0xFFFFFFFF))
            code.start(site, name)


def _pieces(write: Write) -> Pieces:
    """What of a tile leaves, transfer by transfer."""
    return write.pieces or ((0, write.bytes),)


def _regions(runs: list[Run]) -> list[Run]:
    """Runs that follow each other in DRAM, joined."""
    regions: list[Run] = []
    for run in sorted(runs, key=lambda r: (str(r.offset.terms), r.offset.constant)):
        last = regions[-1] if regions else None
        if (
            last is not None
            and last.offset.terms == run.offset.terms
            and last.offset.constant + last.bytes == run.offset.constant
        ):
            last.bytes += run.bytes
            last.reads += run.reads
        else:
            regions.append(Run(run.offset, run.bytes, list(run.reads)))
    return regions


def _slice(bytes: int, trips: int) -> int:
    """What one of so many iterations loads of a region; the last ones may go past its end."""
    return -(-bytes // (trips * ROW)) * ROW


def _room(bytes: int, trips: int) -> int:
    return -(-_slice(bytes, trips) * trips // 1024) * 1024


class _Ahead:
    """Tiles that change with the loop around: two halves, one in use while the other fills up a
    slice at a time."""

    def __init__(self, loop: InnerLoop, regions: list[Run], half: int) -> None:
        self.loop, self.regions = loop, regions
        at, routine = loop.at, loop.routine
        assert loop.outer is not None
        start = at.allocate(2 * half)
        self.current = routine.pointer(start, home=loop.home)
        # One pointer walks over the half that fills up, one over each region in DRAM.
        self.filling = routine.pointer(start + half, home=loop.home)
        self.trips = loop.variable.trips
        self.total = 2 * start + half
        place = 0
        first = routine.code()
        around = loop.outer.variable
        if loop.outer.repeats and (around.count is not None or around.trips % 2):
            for pointer in (self.current, self.filling):  # it begins with the same half again
                value = first.constant(Kind.X, routine.pointers[pointer])
                first.emit("add", pointer, first.constant(Kind.X, 0), value)
        for region in regions:
            region.buffer = place
            for run in loop.fixed:
                if run.reads and any(run.reads[0] is r for r in region.reads):
                    shift = run.offset.constant - region.offset.constant
                    loop.places[id(run)] = Place(self.current, "ahead", place + shift)
            at.load(first, region, start + place)
            place += _room(region.bytes, self.trips)
        loop.outer.out.append(first)
        self._note_beyond(start, half)
        # Bytes of a region filled so far; regions with slices of one size share it.
        sizes = {_slice(region.bytes, self.trips) for region in regions}
        self.walks = {size: routine.pointer(0, home=loop.home) for size in sorted(sizes)}

    def _note_beyond(self, start: int, half: int) -> None:
        """What is in the half that fills up when the loop around has ended: tiles that follow."""
        outer, layer = self.loop.outer, self.loop.at.routine.by_layer
        assert outer is not None
        if outer.repeats or outer.variable.count is not None:
            return
        free = start + outer.variable.trips % 2 * half
        self.loop.routine.beyond[outer.variable] = [
            Transfer(
                free + region.buffer,
                region.offset.constant
                + region.offset.factor(outer.variable) * outer.variable.trips,
                region.bytes,
                self.loop.at.base(region.offset.terms) in layer,
            )
            for region in self.regions
            if {v for v, _ in region.offset.terms} <= {outer.variable, LAYER}
        ]

    def slice(self, code: Code) -> None:
        """Load the next slice of every region for the next iteration of the loop around."""
        outer = self.loop.outer
        assert outer is not None
        for region in self.regions:
            size = _slice(region.bytes, self.trips)
            place = self._stepped(code, self.filling, region.buffer, size)
            source = self._source(code, region, size)
            code.dma_load(place, source, size)
        for size, walk in self.walks.items():
            code.advance(walk, size)

    def _stepped(self, code: Code, pointer: Register, offset: int, size: int) -> Place:
        """pointer + offset + slices done * size, as a place of its own."""
        return Place(self._sum(code, pointer, offset, size), "filling", 0)

    def _source(self, code: Code, region: Run, size: int) -> Place:
        outer = self.loop.outer
        assert outer is not None
        base = self.loop.at.base(region.offset.terms)
        ahead = region.offset.constant + region.offset.factor(outer.variable)
        return Place(self._sum(code, base, ahead, size), f"dram ahead {id(region)}", 0)

    def _sum(self, code: Code, pointer: Register, offset: int, size: int) -> Register:
        total = Register(Kind.X)
        code.emit("add", total, self.walks[size], pointer)
        if not offset:
            return total
        return code.address(total, offset)

    def turn(self, code: Code) -> None:
        """The filled half is the one in use from now on."""
        code.toggle(self.current, self.total)
        code.toggle(self.filling, self.total)
        for size, walk in self.walks.items():
            code.advance(walk, -size * self.trips)
