"""From tile programs to routines: which loops stay, what sits in VMEM when, which bytes move.

Inner loops are unrolled until a body is long enough to hide latencies. Around such a body,
tiles that do not change with the loop are loaded once before it; tiles that do change are
loaded one iteration ahead into the other half of a double buffer; results leave through
buffers of their own while the next iteration computes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.chip import Area, Chip, ConstantPool, VmemExceeded
from tilewright.targets.atlas.codegen.copies_beside import Copy, set_aside, with_calm_reads
from tilewright.targets.atlas.codegen.inner_loop import InnerLoop, Outer
from tilewright.targets.atlas.codegen.merged_reads import with_merged_reads
from tilewright.targets.atlas.codegen.nest import (
    Compute,
    For,
    Read,
    Reload,
    Spill,
    Statement,
    Value,
    Variable,
    Write,
    emit_compute,
    fresh_loops,
    size_of,
    unrolled,
    without_idle_slots,
)
from tilewright.targets.atlas.codegen.prefetch import busiest_loop
from tilewright.targets.atlas.codegen.routine import Loop, PointersExceeded, Routine
from tilewright.targets.atlas.codegen.shared_rows import shared_rows
from tilewright.targets.atlas.codegen.spilling import lasting_slots, with_spills
from tilewright.targets.atlas.codegen.tables import Table, make_tables
from tilewright.targets.atlas.codegen.tiles import Tile
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import (
    REGISTER_BYTES,
    WINDOW,
    Code,
    OutOfReach,
)
from tilewright.targets.atlas.codegen.waw_dependences import waw_dependent
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.bodies import BODIES

SHARES = (
    1,
    4,
    16,
    TUNING.straight_instructions,
)  # how much shorter bodies may get where VMEM is small
# Whether results leave under the next iteration, and whether loops around loops are unrolled.
REGISTER_USES = ((True, False), (False, False), (False, True))


def lower(
    statements: list[Statement],
    profile: Profile,
    pool: ConstantPool | None = None,
    area: Area | None = None,
    shares: tuple[int, ...] = SHARES,
    tables: dict[int, Table] | None = None,
    carried: Sequence[Copy] = (),
) -> Routine:
    """The routine that runs a tile program; constants it needs from memory go to the pool.

    carried: copies that are made beside its work, for others.

    It uses the given part of VMEM, by default all of it, and first makes the tables at their places
    outside of that part.

    Writing loops out takes VMEM: where that is too much, shorter bodies are tried. Where loops
    inside of one follow more addresses than there are registers, their results leave in order,
    and if that is not enough, the loop around them is unrolled.
    """
    pool = pool or ConstantPool(0)
    statements = without_idle_slots(statements)
    error, tried = None, []
    for share, (defers, apart) in itertools.product(shares, REGISTER_USES):
        if (defers, apart) != REGISTER_USES[0] and not isinstance(error, PointersExceeded):
            continue  # it is not registers that are missing
        rows = fresh_loops(statements)
        if apart:
            _take_apart(rows)
        mark_loops(rows, share)
        if (marks := (defers, list(_marks(rows)))) in tried:
            continue  # the same code, so the same error
        tried.append(marks)
        pool.values.clear()
        rows, beside = set_aside(rows)
        rows = with_calm_reads(rows)
        try:
            lowering = _Lowering(profile, pool, area, defers)
            routine = lowering.run(rows, tables or {}, beside, carried)
            routine.require_registers()
            return routine
        except (VmemExceeded, PointersExceeded) as exceeded:
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
    """Decide which loops are unrolled: inner ones, as long as the body around stays short
    (a share of the usual length)."""
    for statement in statements:
        if not isinstance(statement, For):
            continue
        mark_loops(statement.body, share, top=False)
        inner_stays = any(isinstance(s, For) and not s.unroll for s in statement.body)
        if statement.variable.count is not None or _is_counted_on(statement):
            statement.unroll = False
            # Loads run ahead inside loops whose number of iterations is known.
            for inner in () if inner_stays else statement.body:
                if isinstance(inner, For) and inner.variable.trips > 1:
                    inner.unroll = False
        elif statement.variable.trips == 1:
            statement.unroll = True
        elif statement.unroll is None:
            whole = statement.variable.trips * size_of(statement.body)
            around = size_of(statements)
            short = (
                whole * share <= TUNING.straight_instructions
                if top
                else around * share <= TUNING.body_instructions
            )
            statement.unroll = not inner_stays and short


def _take_apart(statements: list[Statement]) -> None:
    """Write out the outermost loops around several others: these then follow each other, each with
    all registers."""
    for s in statements:
        several = isinstance(s, For) and sum(isinstance(inner, For) for inner in s.body) > 1
        if isinstance(s, For) and several and not _is_counted_on(s):
            s.unroll = True


def _is_counted_on(loop: For) -> bool:
    """Whether a loop inside has iterations by the number of this one's iteration."""

    def follows(inner: Statement) -> bool:
        if not isinstance(inner, For):
            return False
        count = inner.variable.count
        return (count is not None and count.factor(loop.variable) != 0) or any(
            map(follows, inner.body)
        )

    return any(map(follows, loop.body))


def _marks(statements: list[Statement]) -> Iterator[bool | None]:
    """Which loops are unrolled, in order."""
    for statement in statements:
        if isinstance(statement, For):
            yield statement.unroll
            yield from _marks(statement.body)


class _Lowering(Chip):
    """The structure of a routine: straight pieces and loops."""

    carried: Sequence[Copy] = ()  # copies that the next straight piece makes

    def run(
        self,
        statements: list[Statement],
        tables: dict[int, Table],
        beside: dict[Variable, list[Copy]],
        carried: Sequence[Copy] = (),
    ) -> Routine:
        # Where loading takes the vector unit's time, tiles wait in registers as long as they can.
        on_vector = self.profile.timing["tensor_load"].unit == "VPU"
        waiting = TUNING.live_registers if on_vector else TUNING.waiting_registers
        statements = shared_rows(unrolled(statements))
        statements = with_merged_reads(statements, wide=on_vector)
        statements = with_spills(statements, TUNING.live_registers, waiting)
        for slot in lasting_slots(statements):
            self.slots[slot] = self.allocate(slot.bytes)
        loops = {s.variable for s in statements if isinstance(s, For)}
        self.beside = {v: copies for v, copies in beside.items() if v in loops}
        for copies in (copies for v, copies in beside.items() if v not in loops):
            self._load_rest(copies, self.routine.items)  # that loop is unrolled
        if (busiest := busiest_loop(statements)) is not None:
            self.beside.setdefault(busiest.variable, []).extend(carried)
        elif carried:
            self.carried = carried
        self._sequence(statements, [], self.routine.items)
        if tables:
            self._begin(tables)
        if self.pool.values:
            first = self.routine.code()
            for k in range(len(self.pool.values)):
                source = self.pool.dram + k * REGISTER_BYTES
                first.dma_load(self.pooled(k), source, REGISTER_BYTES)
            self.routine.items.insert(0, first)
        self.routine.room = self.peak - self.area.start + self.area.end - self.ceiling
        if self.peak > self.ceiling:
            most = max(
                (n, line) for line, n in self.by_line.items() if line or len(self.by_line) == 1
            )
            held = self.profile.vmem_bytes - (self.area.end - self.area.start)
            wanted = self.routine.room
            raise VmemExceeded(self.profile, wanted + held, most[1], wanted)
        return self.routine

    def _load_rest(self, copies: list[Copy], out: list[Code | Loop]) -> None:
        """Load what no loop body has loaded of copies that are made beside loops."""
        code = self.routine.code()
        for copy in copies:
            for row in self.copied.pop(copy, [copy.row(k) for k in range(copy.rows)]):
                code.dma_load(row.target, self.dram(row.source), row.bytes)
        self.copies = [copy for copy in self.copies if copy not in copies]
        if code.ops:
            out.append(code)

    def _begin(self, tables: dict[int, Table]) -> None:
        """Make tables in front of everything, beside the first loads where a piece begins."""
        first = self.routine.code()
        make_tables(first, tables)
        items = self.routine.items
        if items and isinstance(following := items[0], Code):
            items.pop(0)
            first.fills.update(following.fills)
            first.tables.update(following.tables)
            for op in following.ops:
                op.order = len(first.ops)
                first.ops.append(op)
        items.insert(0, first)

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
                    copies = self.beside.pop(statement.variable, [])
                    self.copies += copies
                    self._loop(statement, around, out)
                    self._load_rest(copies, out)
            else:
                straight.append(statement)

    def _straight(self, statements: list[Statement]) -> Code:
        """A piece that loads, computes and stores, each tile once."""
        code = self.routine.code()
        tiles, values = self.tiles(code), dict[Value, Any]()
        for copy in self.carried:
            for number in range(copy.rows):
                row = copy.row(number)
                code.dma_load(row.target, self.dram(row.source), row.bytes)
        self.carried = ()
        reads = [s for s in statements if isinstance(s, Read) and not s.on_chip]
        # Transfers that are short beside the whole let work start and end close to them.
        total = sum({(id(r.offset.terms), r.offset.constant): r.bytes for r in reads}.values())
        runs = self.runs(reads, min(self.merge_limit(), total // 16))
        where = {id(read): run for run in runs for read in run.reads}
        for run in runs:
            run.buffer = self.allocate(run.bytes, source=run.reads[0].source)
        # Where loading a register takes the vector unit's time, tiles used again stay in registers.
        registers = sum(run.bytes for run in runs) // REGISTER_BYTES
        on_vector = self.profile.timing["tensor_load"].unit == "VPU"
        loaded: dict[Any, Tile] = {}
        keeps = on_vector and registers <= TUNING.kept_registers
        writes = [s for s in statements if isinstance(s, Write) and not s.on_chip]
        last_write = writes[-1] if writes else None
        ordered = waw_dependent(writes, None)
        started: set[int] = set()
        for s in statements:
            if isinstance(s, Read) and s.on_chip:
                self.fetch_resident(code, tiles, values, s)
            elif isinstance(s, Read):
                run = where[id(s)]
                if id(run) not in started:
                    started.add(id(run))
                    code.source = s.source
                    if run.blank:
                        self.clear(code, run.buffer, run.bytes)
                    cut = run is runs[-1] or total <= TUNING.few_bytes
                    self.load(code, run, run.buffer, piece=REGISTER_BYTES if cut else 0)
                key = (id(run), s.offset.constant, s.row)
                if keeps and key in loaded:
                    values[s.result] = loaded[key]
                else:
                    self.fetch(code, tiles, values, s, run, run.buffer)
                    loaded[key] = values[s.result]
            elif isinstance(s, Compute):
                code.source = s.source
                emit_compute(tiles, s, values, self.turned)
            elif isinstance(s, Spill | Reload):
                self.park(code, tiles, values, s)
            elif isinstance(s, Write) and s.on_chip:
                self.store_resident(code, tiles, values[s.value], s)
            elif isinstance(s, Write):
                code.source = s.source
                buffer = self.allocate(s.bytes, source=s.source)
                tile = values[s.value]
                tiles.store(tile, buffer, s.bytes)
                # The last result leaves register by register, each as soon as it can.
                piece = REGISTER_BYTES if s is last_write else s.bytes
                pieces = s.pieces or tuple((at, piece) for at in range(0, s.bytes, piece))
                for at, count in pieces:
                    target = self.dram(s.offset.shifted(at), id(s) in ordered)
                    code.dma_store(target, buffer + at, count)
        return code

    def _loop(self, loop: For, around: list[Variable], out: list[Code | Loop]) -> None:
        inner = [s for s in loop.body if isinstance(s, For)]
        if not inner and loop.variable.count is None:
            InnerLoop(self, loop, out, None, self.slices([*around, loop.variable])).lower()
            return
        mark = self.top
        body: list[Code | Loop] = []
        if len(loop.body) == 1 and inner and not any(isinstance(s, For) for s in inner[0].body):
            every = [*around, loop.variable, inner[0].variable]
            outer = Outer(loop.variable, out, bool(around))
            InnerLoop(self, inner[0], body, outer, self.slices(every)).lower()
        else:
            self._sequence(loop.body, [*around, loop.variable], body)
        step = self.routine.code()
        self.step_bases(step, loop.variable)
        body.append(step)
        variable = loop.variable
        out.append(Loop(variable.trips, body, variable=variable))
        rewind = self.routine.code()
        # Where the number of steps is not known here, as many are taken back, one by one.
        self.step_bases(rewind, variable, -variable.trips if variable.count is None else -1)
        if around and rewind.ops:
            back = Loop(variable.trips, [rewind], variable=variable)
            out.append(rewind if variable.count is None else back)
        self.top = mark


__all__ = ["Area", "ConstantPool", "VmemExceeded", "lower", "mark_loops"]
