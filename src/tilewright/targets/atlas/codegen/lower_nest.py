"""From tile programs to routines: which loops stay, what sits in VMEM when, which bytes move.

Inner loops are written out until a body is long enough to hide latencies. Around such a body,
tiles that do not change with the loop are loaded once before it; tiles that do change are
loaded one iteration ahead into the other half of a double buffer; results leave through
buffers of their own while the next iteration computes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.kernels.bodies import BODIES
from tilewright.targets.atlas.codegen.nest import (
    Affine,
    Compute,
    For,
    Park,
    Read,
    Slot,
    Statement,
    Unpark,
    Value,
    Variable,
    Write,
    emit_compute,
    fresh_loops,
    size_of,
    unrolled,
    without_idle_slots,
)
from tilewright.targets.atlas.codegen.residency import lasting_slots, resident
from tilewright.targets.atlas.codegen.routine import Loop, Routine
from tilewright.targets.atlas.codegen.tiles import Tile, Tiles, bf16_bits
from tilewright.targets.atlas.codegen.virtual import (
    REGISTER_BYTES,
    ROW,
    WINDOW,
    Code,
    OutOfReach,
    Place,
    Register,
    Site,
)
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.profile import Profile

STRAIGHT = 1500  # instructions up to which everything is written out
BODY = 3000  # longest loop body
FEW = 8192  # bytes; up to here straight code loads register by register
KEPT = 24  # tensor registers that loaded tiles may keep in straight code
DEFERRED = 2  # stores of an iteration that may still run in the next


class VmemExceeded(TilewrightError):
    """The kernel's tiles do not fit on the chip."""

    def __init__(self, profile: Profile, bytes: int, source: str) -> None:
        super().__init__(
            "TW1454",
            f"needs {bytes / 2**20:.2f} MiB of VMEM, {profile.name} has "
            f"{profile.vmem_bytes / 2**20:.2f} MiB",
            hint="this line's tiles take most of it: use smaller blocks, fewer steps written out "
            "(unroll) or less depth",
        )
        self.source = source  # the line whose tiles take most


@dataclass
class Run:
    """Bytes that are contiguous in DRAM and move in one transfer."""

    offset: Affine
    bytes: int
    reads: list[Read] = field(default_factory=list)
    buffer: int = 0  # VMEM address (of the first half when doubled)
    row: bool = False  # only the first row of the tile is loaded, the rest is zero


@dataclass
class ConstantPool:
    """Constants that no instruction makes: half tiles in DRAM, copied to VMEM at the start."""

    dram: int
    values: list[float] = field(default_factory=list)

    def data(self) -> bytes:
        """The bytes to place at `dram`."""
        halves = [struct.pack("<H", bf16_bits(v)) * (REGISTER_BYTES // 2) for v in self.values]
        return b"".join(halves)


def lower(
    statements: list[Statement], profile: Profile, pool: ConstantPool | None = None
) -> Routine:
    """The routine that runs a tile program; constants it needs from memory go to the pool.

    Writing loops out takes VMEM: where that is too much, shorter bodies are tried.
    """
    pool = pool or ConstantPool(0)
    statements = without_idle_slots(statements)
    error = None
    for share in (1, 4, 16, STRAIGHT):
        rows = fresh_loops(statements)
        mark_loops(rows, share)
        pool.values.clear()
        try:
            return _Lowering(profile, pool).run(rows)
        except VmemExceeded as exceeded:
            error = exceeded
        except OutOfReach as far:
            error = TilewrightError(
                "TW1457",
                f"the tiles of one iteration take more than {WINDOW // 1024} KiB of VMEM "
                f"({far.offset // 1024} KiB and more)",
                hint="use smaller blocks",
            )
    assert error is not None
    raise error


def mark_loops(statements: list[Statement], share: int = 1, top: bool = True) -> None:
    """Decide which loops are written out: inner ones, as long as the body around stays short
    (a share of the usual length)."""
    for statement in statements:
        if not isinstance(statement, For):
            continue
        mark_loops(statement.body, share, top=False)
        inner_stays = any(isinstance(s, For) and not s.unroll for s in statement.body)
        if statement.variable.trips == 1:
            statement.unroll = True
        elif statement.unroll is None:
            whole = statement.variable.trips * size_of(statement.body)
            around = size_of(statements)
            short = whole * share <= STRAIGHT if top else around * share <= BODY
            statement.unroll = not inner_stays and short


class _Lowering:
    def __init__(self, profile: Profile, pool: ConstantPool) -> None:
        self.profile, self.pool = profile, pool
        self.routine = Routine(profile)
        self.ceiling = profile.vmem_bytes  # constants sit above
        self.top = self.peak = 0  # VMEM in use, now and at most
        self.by_line: dict[str, int] = {}  # bytes given out, by the author's line
        self.bases: dict[tuple[tuple[Variable, int], ...], Register] = {}
        self.slots: dict[Slot, int] = {}
        self.turned: set[Value] = set()  # tiles that get transposed

    def run(self, statements: list[Statement]) -> Routine:
        statements = resident(unrolled(statements))
        for slot in lasting_slots(statements):
            self.slots[slot] = self._allocate(slot.bytes)
        self._sequence(statements, [], self.routine.items)
        if self.pool.values:
            first = self.routine.code()
            for k in range(len(self.pool.values)):
                source = self.pool.dram + k * REGISTER_BYTES
                first.dma_load(self._pooled(k), source, REGISTER_BYTES)
            self.routine.items.insert(0, first)
        if self.peak > self.ceiling:
            most = max(
                (n, line) for line, n in self.by_line.items() if line or len(self.by_line) == 1
            )
            needed = self.peak + self.profile.vmem_bytes - self.ceiling
            raise VmemExceeded(self.profile, needed, most[1])
        return self.routine

    # --- constants ----------------------------------------------------------------------

    def _pooled(self, index: int) -> int:
        return self.profile.vmem_bytes - (index + 1) * REGISTER_BYTES

    def _tiles(self, code: Code) -> Tiles:
        tiles = Tiles(code)
        tiles._make_constant = lambda value: self._constant(tiles, value)
        return tiles

    def _constant(self, tiles: Tiles, value: float, into: Tile | None = None) -> Tile:
        """Fill a tile with a number: by instructions where they can, else from the pool."""
        if tiles.can_fill(value):
            return tiles.fill(value, into)
        if value not in self.pool.values:
            self.pool.values.append(value)
            self.ceiling = self._pooled(len(self.pool.values) - 1)
        tile = into or tiles.new()
        for part in range(2):
            tiles.code.vload(tile.half(part), self._pooled(self.pool.values.index(value)))
        return tile

    # --- structure ----------------------------------------------------------------------

    def _sequence(
        self,
        statements: list[Statement],
        around: list[Variable],
        out: list[Code | Loop],
    ) -> None:
        """Straight statements become pieces, loops become loops."""
        for s in statements:
            if isinstance(s, Compute) and s.body is BODIES["transpose"]:
                self.turned.update(s.inputs)
        straight: list[Statement] = []
        for statement in [*statements, None]:
            if isinstance(statement, For) or statement is None:
                if straight:
                    mark = self.top
                    out.append(self._straight(straight))
                    self.top = mark
                    straight = []
                if isinstance(statement, For):
                    self._loop(statement, around, out)
            else:
                straight.append(statement)

    def _straight(self, statements: list[Statement]) -> Code:
        """A piece that loads, computes and stores, each tile once."""
        code = self.routine.code()
        tiles, values = self._tiles(code), dict[Value, Any]()
        reads = [s for s in statements if isinstance(s, Read)]
        # Transfers that are short beside the whole let work start and end close to them.
        total = sum({(id(r.offset.terms), r.offset.constant): r.bytes for r in reads}.values())
        runs = self._runs(reads, min(self._merge_limit(), total // 16))
        where = {id(read): run for run in runs for read in run.reads}
        for run in runs:
            run.buffer = self._allocate(run.bytes, source=run.reads[0].source)
        # Where loading a register takes the vector unit's time, tiles used again stay in registers.
        registers = sum(run.bytes for run in runs) // REGISTER_BYTES
        on_vector = self.profile.timing["tensor_load"].unit == "VPU"
        loaded: dict[Any, Tile] = {}
        keeps = on_vector and registers <= KEPT
        last_write = next((s for s in reversed(statements) if isinstance(s, Write)), None)
        started: set[int] = set()
        for s in statements:
            if isinstance(s, Read):
                run = where[id(s)]
                if id(run) not in started:
                    started.add(id(run))
                    code.source = s.source
                    if run.row:
                        self._clear(code, run.buffer, run.bytes)
                    cut = run is runs[-1] or total <= FEW
                    self._load(code, run, run.buffer, piece=REGISTER_BYTES if cut else 0)
                key = (id(run), s.offset.constant, s.row)
                if keeps and key in loaded:
                    values[s.result] = loaded[key]
                else:
                    self._fetch(code, tiles, values, s, run, run.buffer)
                    loaded[key] = values[s.result]
            elif isinstance(s, Compute):
                code.source = s.source
                emit_compute(tiles, s, values)
            elif isinstance(s, Park | Unpark):
                self._park(code, tiles, values, s)
            elif isinstance(s, Write):
                code.source = s.source
                buffer = self._allocate(s.bytes, source=s.source)
                tile = values[s.value]
                tiles.store(tile, buffer, s.bytes)
                # The last result leaves register by register, each as soon as it can.
                piece = REGISTER_BYTES if s is last_write else s.bytes
                for at in range(0, s.bytes, piece):
                    target = self._dram(code, s.offset.shifted(at))
                    code.dma_store(target, buffer + at, piece)
        return code

    def _park(self, code: Code, tiles: Tiles, values: dict, s: Park | Unpark) -> None:
        """Tiles that wait in VMEM."""
        code.source = s.source
        if s.slot not in self.slots:
            self.slots[s.slot] = self._allocate(s.slot.bytes, source=s.source)
        if isinstance(s, Park):
            tiles.store(values[s.value], self.slots[s.slot])
        else:
            values[s.result] = tiles.load(self.slots[s.slot], s.result.dtype)

    def _loop(self, loop: For, around: list[Variable], out: list[Code | Loop]) -> None:
        inner = [s for s in loop.body if isinstance(s, For)]
        if not inner:
            _InnerLoop(self, loop, out, None).lower()
            return
        mark = self.top
        body: list[Code | Loop] = []
        if len(loop.body) == 1 and not any(isinstance(s, For) for s in inner[0].body):
            _InnerLoop(self, inner[0], body, _Outer(loop.variable, out)).lower()
        else:
            self._sequence(loop.body, [*around, loop.variable], body)
        step = self.routine.code()
        self._step_bases(step, loop.variable)
        body.append(step)
        out.append(Loop(loop.variable.trips, body))
        rewind = self.routine.code()
        self._step_bases(rewind, loop.variable, -loop.variable.trips)
        if around and rewind.ops:
            out.append(rewind)
        self.top = mark

    # --- addresses ----------------------------------------------------------------------

    def _base(self, terms: tuple[tuple[Variable, int], ...]) -> Register:
        """The pointer that follows a combination of loop variables; constants are added to it."""
        if terms not in self.bases:
            self.bases[terms] = self.routine.pointer(0)
        return self.bases[terms]

    def _dram(self, code: Code, offset: Affine) -> int | Place:
        if not offset.terms:
            return offset.constant
        return Place(self._base(offset.terms), f"dram {id(offset.terms)}", offset.constant)

    def _step_bases(self, code: Code, variable: Variable, times: int = 1) -> None:
        """Move every pointer that follows the variable by one step."""
        for terms, pointer in self.bases.items():
            factor = next((f for v, f in terms if v is variable), 0)
            if factor:
                code.advance(pointer, factor * times)

    # --- buffers and transfers ------------------------------------------------------------

    def _allocate(self, bytes: int, align: int = 1024, source: str = "") -> int:
        start = -(-self.top // align) * align
        self.top = start + bytes
        self.peak = max(self.peak, self.top)
        self.by_line[source] = self.by_line.get(source, 0) + bytes
        return start

    def _runs(self, reads: Iterable[Read], longest: int | None = None) -> list[Run]:
        """Reads grouped into transfers: the same bytes once, neighbours together."""
        limit = self.profile.dma.max_bytes or 1 << 30
        longest = self._merge_limit() if longest is None else longest
        first: dict[Any, dict[int, Run]] = {}
        order: list[Run] = []
        for read in reads:
            by_constant = first.setdefault((read.offset.terms, read.row), {})
            run = by_constant.get(read.offset.constant)
            if run is None:
                run = Run(read.offset, read.bytes, row=read.row)
                by_constant[read.offset.constant] = run
                order.append(run)
            run.reads.append(read)
        order = _joined(order)
        merged: list[Run] = []
        for run in order:
            last = merged[-1] if merged else None
            if (
                last is not None
                and not (last.row or run.row)
                and last.offset.terms == run.offset.terms
                and last.offset.constant + last.bytes == run.offset.constant
                and last.bytes + run.bytes <= min(limit, longest)
            ):
                last.bytes += run.bytes
                last.reads += run.reads
            else:
                merged.append(run)
        return merged

    def _merge_limit(self) -> int:
        """Longest transfer worth making: long ones keep short ones waiting."""
        return 4096

    def _load(
        self, code: Code, run: Run, target: int | Place, ahead: int = 0, piece: int = 0
    ) -> None:
        """Start the transfers of a run, `ahead` bytes further on, cut into pieces if wanted."""
        offset = run.offset.shifted(ahead)
        if not run.row and not piece:
            code.dma_load(target, self._dram(code, offset), run.bytes)
            return
        count = ROW if run.row else REGISTER_BYTES
        for half in range(0, run.bytes, REGISTER_BYTES):
            place = (
                Place(target.pointer, target.buffer, target.offset + half)
                if isinstance(target, Place)
                else target + half
            )
            code.dma_load(place, self._dram(code, offset.shifted(half)), count)

    def _clear(self, code: Code, place: int | Place, count: int) -> None:
        """Zero bytes of VMEM, for tiles of which only a row is loaded."""
        zero = code.half()
        code.emit("vli.all", zero, 0)
        for at in range(0, count, REGISTER_BYTES):
            code.vstore(zero, _moved(place, at))

    def _fetch(
        self, code: Code, tiles: Tiles, values: dict, read: Read, run: Run, buffer: int | Place
    ) -> None:
        """Bring a tile from its buffer into registers."""
        code.source = read.source
        shift = read.offset.constant - run.offset.constant
        at = (
            Place(buffer.pointer, buffer.buffer, buffer.offset + shift)
            if isinstance(buffer, Place)
            else buffer + shift
        )
        if read.result.dtype == "bf16" and read.bytes == REGISTER_BYTES:
            tile = tiles.load_half(at)
        else:
            tile = tiles.load(at, read.result.dtype, pair=read.result in self.turned)
        values[read.result] = tiles.columns("sum", tile) if read.row else tile


@dataclass
class _Outer:
    """The loop around an inner loop, and where code before that loop goes."""

    variable: Variable
    out: list[Code | Loop]


def _moved(place: int | Place, count: int) -> int | Place:
    """The place so many bytes further on."""
    if isinstance(place, Place):
        return Place(place.pointer, place.buffer, place.offset + count)
    return place + count


def _joined(runs: list[Run]) -> list[Run]:
    """Runs that share bytes (windows over rows) become one that covers them all."""
    result: list[Run] = []
    last: dict[Any, Run] = {}  # per pointer, by increasing address
    for run in sorted(runs, key=lambda r: r.offset.constant):
        other = last.get(run.offset.terms)
        if run.row or other is None or run.offset.constant >= other.offset.constant + other.bytes:
            result.append(run)
            if not run.row:
                last[run.offset.terms] = run
            continue
        end = run.offset.constant + run.bytes - other.offset.constant
        other.bytes = max(other.bytes, end)
        other.reads += run.reads
    place = {id(run): k for k, run in enumerate(runs)}
    return sorted(result, key=lambda run: place[id(run)])


class _InnerLoop:
    """A loop whose body is straight."""

    def __init__(
        self, lowering: _Lowering, loop: For, out: list[Code | Loop], outer: _Outer | None
    ) -> None:
        self.at, self.loop, self.out, self.outer = lowering, loop, out, outer
        self.routine = lowering.routine
        self.variable = loop.variable
        for s in loop.body:
            if isinstance(s, Compute) and s.body is BODIES["transpose"]:
                lowering.turned.update(s.inputs)
        reads = [s for s in loop.body if isinstance(s, Read)]
        moving = [r for r in reads if r.offset.factor(self.variable)]
        self.fixed = lowering._runs(r for r in reads if not r.offset.factor(self.variable))
        self.moving = lowering._runs(moving)
        self.where = {id(r): run for run in [*self.fixed, *self.moving] for r in run.reads}
        self.writes = [s for s in loop.body if isinstance(s, Write)]
        self.places: dict[int, int | Place] = {}  # run -> where its bytes are

    def lower(self) -> None:
        mark = self.at.top
        self.before = before = self.routine.code()
        self.ahead = self._ahead()
        self.current, self.following = self._double_buffer()  # first: it needs alignment
        for run in self.fixed:
            if id(run) in self.places:
                continue
            buffer = self.at._allocate(run.bytes, source=run.reads[0].source)
            self.places[id(run)] = buffer
            if run.row:
                self.at._clear(before, buffer, run.bytes)
            self.at._load(before, run, buffer)
        for run in self.moving:
            if run.row:
                for pointer, name in ((self.current, "current"), (self.following, "following")):
                    self.at._clear(before, Place(pointer, name, run.buffer), run.bytes)
        for run in self.moving:
            self.places[id(run)] = Place(self.current, "current", run.buffer)
            self.at._load(before, run, Place(self.current, "current", run.buffer))
        self.deferred = self._deferred_stores()
        self.out.append(before)
        body = self._body()
        self.out.append(Loop(self.variable.trips, [body]))
        after = self.routine.code()
        self.at._step_bases(after, self.variable, -self.variable.trips)
        if self.ahead is not None:
            self.ahead.turn(after)
        if after.ops:
            self.out.append(after)
        if self.outer is None:
            self.at.top = mark

    def _ahead(self) -> _Ahead | None:
        """Load what the next iteration of the loop around needs, a slice in each of ours."""
        if self.outer is None or self.outer.variable.trips < 2 or self.variable.trips < 2:
            return None
        runs = [run for run in self.fixed if run.offset.factor(self.outer.variable) and not run.row]
        regions = _regions(runs)
        trips = self.variable.trips
        total = sum(region.bytes for region in regions)
        half = 1 << max(10, (total - 1).bit_length()) if total else 0
        rest = sum(r.bytes for r in [*self.fixed, *self.moving, *self.moving, *self.writes])
        fits = self.at.top + 2 * half + rest + 4 * half // 2 <= self.at.ceiling
        sizes = [r.bytes // trips for r in regions]
        even = all(r.bytes % (trips * ROW) == 0 for r in regions)
        if not regions or not fits or not even or any(n & (n - 1) for n in sizes):
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
        self.half = 1 << max(10, (total - 1).bit_length()) if total else 0
        self.start = self.at._allocate(2 * self.half, max(1024, 2 * self.half)) if total else 0
        if not total:
            return Register(Kind.X), Register(Kind.X)
        return self.routine.pointer(self.start), self.routine.pointer(self.start + self.half)

    def _deferred_stores(self) -> dict[int, Site]:
        """The last stores of an iteration run on channels of their own into the next."""
        sites = {}
        limit = self.at.profile.dma.max_bytes or 1 << 40
        whole = [write for write in self.writes if write.bytes <= limit]
        for number, write in enumerate(whole[-DEFERRED:]):
            buffer = self.at._allocate(write.bytes, source=write.source)
            inside = self.routine.pointer(buffer)
            outside = self.routine.pointer(0)
            sites[id(write)] = self.routine.site(number, True, inside, outside, write.bytes)
        return sites

    def _body(self) -> Code:
        code = self.routine.code()
        tiles, values = Tiles(code, self._constant), dict[Value, Any]()
        stepping = self.variable.trips > 1
        if self.moving and stepping:
            self._prefetch(code)
        if self.ahead is not None:
            self.ahead.slice(code)
        for s in self.loop.body:
            if isinstance(s, Read):
                run = self.where[id(s)]
                self.at._fetch(code, tiles, values, s, run, self.places[id(run)])
            elif isinstance(s, Compute):
                code.source = s.source
                emit_compute(tiles, s, values)
            elif isinstance(s, Park | Unpark):
                self.at._park(code, tiles, values, s)
            elif isinstance(s, Write):
                code.source = s.source
                self._store(code, tiles, values[s.value], s)
        self.at._step_bases(code, self.variable)
        if self.moving:
            code.toggle(self.current, self.half)
            code.toggle(self.following, self.half)
        return code

    def _constant(self, value: float) -> Tile:
        """Constants of a loop are made before it and stay in registers."""
        tile = Tile(self.routine.carry(2), "bf16")
        self.at._constant(Tiles(self.before), value, tile)
        return tile

    def _prefetch(self, code: Code) -> None:
        """Start the loads of the next iteration. The last iteration loads what follows in
        memory; nobody reads it."""
        for run in self.moving:
            there = Place(self.following, "following", run.buffer)
            self.at._load(code, run, there, run.offset.factor(self.variable))

    def _store(self, code: Code, tiles: Tiles, tile: Any, write: Write) -> None:
        site = self.deferred.get(id(write))
        if site is None:
            buffer = self.at._allocate(write.bytes, source=write.source)
            tiles.store(tile, buffer, write.bytes)
            code.dma_store(self.at._dram(code, write.offset), buffer, write.bytes)
            return
        name = f"out {site.channel}"
        code.wait(site, (name,))
        tiles.store(tile, Place(site.vmem, name), write.bytes)
        base = self.at._base(write.offset.terms)
        offset = write.offset.constant
        if -2048 <= offset <= 2047:
            code.emit("addi", site.dram, base, offset)
        else:
            code.emit("add", site.dram, base, code.constant(Kind.X, offset & 0xFFFFFFFF))
        code.start(site, name)


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


class _Ahead:
    """Tiles that change with the loop around: two halves, one in use while the other fills up a
    slice at a time."""

    def __init__(self, loop: _InnerLoop, regions: list[Run], half: int) -> None:
        self.loop, self.regions, self.size = loop, regions, half
        at, routine = loop.at, loop.routine
        assert loop.outer is not None
        start = at._allocate(2 * half, 2 * half)
        self.current = routine.pointer(start)
        # One pointer walks over the half that fills up, one over each region in DRAM.
        self.filling = routine.pointer(start + half)
        self.trips = loop.variable.trips
        self.other = half
        place = 0
        first = routine.code()
        self.sources: list[Register] = []
        for region in regions:
            region.buffer = place
            for run in loop.fixed:
                if run.reads and any(run.reads[0] is r for r in region.reads):
                    shift = run.offset.constant - region.offset.constant
                    loop.places[id(run)] = Place(self.current, "ahead", place + shift)
            at._load(first, region, start + place)
            place += -(-region.bytes // 1024) * 1024
        loop.outer.out.append(first)
        self.walk = routine.pointer(0)  # slices done so far, times one slice of the first region

    def slice(self, code: Code) -> None:
        """Load the next slice of every region for the next iteration of the loop around."""
        outer = self.loop.outer
        assert outer is not None
        for region in self.regions:
            size = region.bytes // self.trips
            place = self._stepped(code, self.filling, region.buffer, size)
            source = self._source(code, region, size)
            code.dma_load(place, source, size)
        code.advance(self.walk, 1)

    def _stepped(self, code: Code, pointer: Register, offset: int, size: int) -> Place:
        """pointer + offset + slices done * size, as a place of its own."""
        return Place(self._sum(code, pointer, offset, size), "filling", 0)

    def _source(self, code: Code, region: Run, size: int) -> Place:
        outer = self.loop.outer
        assert outer is not None
        base = self.loop.at._base(region.offset.terms)
        ahead = region.offset.constant + region.offset.factor(outer.variable)
        return Place(self._sum(code, base, ahead, size), f"dram ahead {id(region)}", 0)

    def _sum(self, code: Code, pointer: Register, offset: int, size: int) -> Register:
        shift = size.bit_length() - 1
        if size != 1 << shift:
            raise TilewrightError("TW1456", f"a slice of {size} bytes is not a power of two")
        walked = Register(Kind.X)
        code.emit("slli", walked, self.walk, shift)
        total = Register(Kind.X)
        code.emit("add", total, walked, pointer)
        if not offset:
            return total
        return code.address(total, offset)

    def turn(self, code: Code) -> None:
        """The filled half is the one in use from now on."""
        code.toggle(self.current, self.size)
        code.toggle(self.filling, self.size)
        code.advance(self.walk, -self.trips)
