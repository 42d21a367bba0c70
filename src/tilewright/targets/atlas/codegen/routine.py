"""A whole kernel: straight pieces and loops around them, compiled to one program.

A loop body starts when the iteration before has gone far enough that nothing of it can be
disturbed: units, tensor registers, slots and pointers are checked exactly. Repeated transfers
(sites) run across iterations; waits keep them right however long they take.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.constants import Constants, load_constant
from tilewright.targets.atlas.codegen.emit import Writer, fill
from tilewright.targets.atlas.codegen.exact_schedule import solve
from tilewright.targets.atlas.codegen.list_schedule import (
    OutOfRegisters,
    Schedule,
    Setting,
    schedule,
)
from tilewright.targets.atlas.codegen.nest import Affine, Variable
from tilewright.targets.atlas.codegen.straight_loop import Interval, LoopWriter, straight_loop
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register, Site
from tilewright.targets.atlas.isa import BY_MNEMONIC, REGISTER_COUNT, Kind
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction, Program

FIRST_TICK = 2  # decode claims the first instruction in tick 2
MAX_SITES = 5  # repeated transfers of a loop; the other channels serve single ones
LAYER_WORD = 0  # VMEM address of the bytes by which this round's tensors lie behind the first's
TILES = REGISTER_COUNT[Kind.M]  # tensor registers
SCALARS = list(range(31, 0, -1))  # registers, in the order in which they are given out
SCALAR_PLACES = len(SCALARS) - 6  # for pointers and loop counters; the others hold constants


class PointersExceeded(TilewrightError):
    """The kernel follows more addresses than there are scalar registers."""

    def __init__(self, pointers: int, counters: int) -> None:
        super().__init__(
            "TW1452",
            f"the kernel keeps {pointers} pointers and {counters} loop counters in scalar registers; "
            f"at most {SCALAR_PLACES} fit",
            hint="split the kernel, or use fewer tensors in one loop",
        )


@dataclass
class Loop:
    """Repeat the pieces of the body.

    bare_last: the last iteration of a straight body is peeled off, without loads for a next one.
    variable: that counts its iterations, if others ask for it or for their number.
    """

    trips: int
    body: list[Code | Loop] = field(default_factory=list)
    bare_last: bool = False
    variable: Variable | None = None

    @property
    def count(self) -> Affine | None:
        """Iterations as the loops around have it; None: always `trips`."""
        return None if self.variable is None else self.variable.count


def _busy(items: Sequence[Code | Loop]) -> Counter[str]:
    """Ticks of every unit."""
    total: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Loop):
            for unit, ticks in _busy(item.body).items():
                total[unit] += item.trips * ticks
            continue
        timings = Counter(op.opcode for op in item.ops)
        for opcode, count in timings.items():
            timing = item.profile.timing_of(opcode)
            total[timing.unit] += count * timing.interval
    return total


@dataclass
class Routine:
    """A kernel under construction."""

    profile: Profile
    items: list[Code | Loop] = field(default_factory=list)
    pointers: dict[Register, int] = field(default_factory=dict)  # with their first values
    by_layer: set[Register] = field(default_factory=set)  # pointers that start LAYER bytes further
    carried: list[Register] = field(default_factory=list)
    # Pointers that have their first values whenever control comes to the items of a list.
    homes: dict[Register, list[Code | Loop]] = field(default_factory=dict)
    intervals: list[Interval] = field(default_factory=list)  # of the loops of the last compile
    least: int | None = None  # proven least cycles of a routine that is one short piece
    room: int = 0  # bytes of VMEM that it works in

    def busy(self) -> int:
        """Ticks of the unit that computes longest, all loops counted."""
        ticks = _busy(self.items)
        return max((n for unit, n in ticks.items() if unit not in ("DMA", "SCALAR")), default=0)

    def pointer(
        self, start: int, name: str = "", home: list[Code | Loop] | None = None
    ) -> Register:
        """A register that keeps its value; home: items that find it as it is now each time."""
        register = Register(Kind.X, carried=True, name=name)
        self.pointers[register] = start
        if home is not None and home is not self.items:
            self.homes[register] = home
        return register

    def carry(self, size: int = 2, name: str = "") -> Register:
        """Tensor registers that keep their value from one iteration to the next."""
        register = Register(Kind.M, size, carried=True, name=name)
        self.carried.append(register)
        return register

    def site(self, number: int, store: bool, vmem: Register, dram: Register, bytes: int) -> Site:
        """Repeated transfer number 0, 1, … of a loop, on a channel of its own."""
        if not 0 <= number < MAX_SITES:
            raise ValueError(f"a loop repeats at most {MAX_SITES} transfers")
        return Site(7 - number, store, vmem, dram, bytes)

    def code(self) -> Code:
        return Code(self.profile)

    def places(self, item: Code | Loop, frugal: bool = False) -> tuple[dict[Register, int], bool]:
        """Scalar registers of the pointers that an item uses, and whether some have the same one:
        where they lack or, with `frugal`, wherever they can."""
        codes = [item] if isinstance(item, Code) else list(_codes(item))
        used = {r for code in codes for r in _held(code)}
        pointers = [r for r in self.pointers if r in used]
        room = SCALAR_PLACES - _depth([item])
        sharing = frugal or len(pointers) > room
        if not sharing:
            return dict(zip(pointers, SCALARS, strict=False)), False
        found = shared_places(item, self.homes, pointers, SCALARS)
        if len(set(found.values())) > room or len(found) < len(pointers):
            raise PointersExceeded(len(pointers), _depth([item]))
        return found, True

    def require_registers(self) -> None:
        """Raise if pointers and loop counters of an item are more than scalar registers."""
        for item in self.items:
            self.places(item)

    def compile(
        self,
        source: str = "<kernel>",
        pipelining: bool = True,
        gain: float | None = None,
        exact: bool = False,
    ) -> Program:
        """The program; with `pipelining`, loops overlap their iterations where that brings the
        interval below `gain` times the plain one, and last iterations may have code of their own.

        With `exact`, short straight pieces are also given to a solver: its order is taken where
        it finishes earlier, and `least` is the fewest cycles any order of them takes.
        """
        self.require_registers()
        self.intervals, self.least = [], None
        wanted = TUNING.worthwhile_interval if gain is None else gain
        limit = wanted if pipelining else None
        try:
            return _Compiler(self, limit, exact).run(source)
        except OutOfRegisters:
            if not self.homes:
                raise
        self.intervals = []
        return _Compiler(self, limit, exact, frugal=True).run(source)


class _Compiler:
    def __init__(
        self, routine: Routine, gain: float | None, exact: bool, frugal: bool = False
    ) -> None:
        self.routine = routine
        self.frugal = frugal  # pointers share registers wherever they can
        self.gain = gain  # of overlapped iterations, at least; None: never overlap
        self.exact = exact
        self.profile = routine.profile
        self.writer = Writer()
        self.loops = LoopWriter(self.writer, self.profile.delay_slots)
        self.open_loops: dict[
            Variable, tuple[int, int]
        ] = {}  # their counters, and where they start

    def run(self, source: str) -> Program:
        places = _carried_places(self.routine)
        for item, carried in zip(self.routine.items, places, strict=True):
            self._enter(item, carried)
            self._item(item, 0)
        return self.writer.program(source)

    def _enter(self, item: Code | Loop, carried: dict[Register, int]) -> None:
        """Give the item's pointers their registers, and set them; carried tiles have theirs."""
        self.pointers, self.sharing = self.routine.places(item, self.frugal)
        taken = set(self.pointers.values())
        free = [place for place in SCALARS if place not in taken]
        self.counters = free[: _depth([item])]
        self.constants = Constants(reserved=frozenset([*taken, *self.counters]))
        turning = [p for r, p in self.pointers.items() if r in self.routine.by_layer]
        for place in turning[:1]:
            self.writer.add(Instruction.of("lw", place, LAYER_WORD, 0))
            for row in fill(self.profile.timing_of(BY_MNEMONIC["lw"]).latency + 1):
                self.writer.add(row)
        for place in turning[1:]:
            self.writer.add(Instruction.of("addi", place, turning[0], 0))
        for register, place in self.pointers.items():
            at_home = self.sharing and register in self.routine.homes
            if register in self.routine.by_layer or at_home:
                continue
            for row in load_constant(place, self.routine.pointers[register]):
                self.writer.add(row)
        self.carried = carried

    def _setting(self, code: Code, entry: bool, more: dict[Register, int] | None = None) -> Setting:
        constants = self.constants.entry() if entry else self.constants
        repeated = {op.site.channel for op in code.ops if op.site is not None}
        channels = [c for c in range(8) if c not in repeated]
        idle = not entry and not repeated
        carried = {**self.carried, **(more or {})}
        pointers = self.pointers
        if self.sharing:  # others may have the same registers
            held = set(_held(code))
            pointers = {r: place for r, place in pointers.items() if r in held}
        return Setting(constants, pointers, carried, channels, idle)

    def _body_setting(self, code: Code, more: dict[Register, int]) -> Setting:
        """What a loop body finds, with more carried registers."""
        return self._setting(code, True, more)

    def _item(self, item: Code | Loop, level: int) -> None:
        if isinstance(item, Code):
            setting = self._setting(item, entry=level > 0)
            if self.exact and level == 0:
                result = self._exactly(item, setting)
            else:
                result = schedule(item, setting)
            self.writer.piece(result.issues, result.finish)
        else:
            self._loop(item, level)

    def _exactly(self, code: Code, setting: Setting) -> Schedule:
        """The better of the list schedule and the solver's plan, and what the solver proves."""
        before = copy.deepcopy(vars(setting.constants))
        listed = schedule(code, setting)
        last = _last(listed)
        ticks = [t for _, t, _ in sorted(listed.dispatched, key=lambda row: row[0].index)]
        found = solve(code, last + 1, ticks)
        if found is None:
            return listed
        if len(self.routine.items) == 1:
            self.routine.least = found.bound + FIRST_TICK
        if found.finish >= last:
            return listed
        after = copy.deepcopy(vars(setting.constants))
        vars(setting.constants).update(before)
        planned = schedule(code, setting, plan=found.ticks)
        if _last(planned) < last:
            return planned
        vars(setting.constants).update(after)
        return listed

    def _loop(self, loop: Loop, level: int) -> None:
        if loop.trips <= 0 or not any(code.ops for code in _codes(loop)):
            return
        if level == 0:
            self._pin(loop)
        counter = self.counters[level]
        if loop.count is not None:
            self._repeat(loop, level, self._count(counter, loop.count))
        elif len(loop.body) == 1 and isinstance(loop.body[0], Code):
            chosen = straight_loop(
                loop.body[0], loop.trips, self.carried, self._body_setting, self.gain
            )
            self.routine.intervals.append(chosen.interval)
            bare = loop.bare_last and self.gain is not None  # which is more code, too
            self.loops.write(chosen, counter, bare)
        else:
            self._repeat(loop, level, load_constant(counter, loop.trips))
        self._drain(loop)
        if level == 0:
            self.constants = Constants(reserved=self.constants.reserved)

    def _repeat(self, loop: Loop, level: int, start: Iterable[Instruction]) -> None:
        """A body of several pieces; start: sets the counter."""
        counter, once = self.counters[level], loop.count is None and loop.trips == 1
        for row in () if once else start:
            self.writer.add(row)
        top = len(self.writer.rows)
        if loop.variable is not None:
            self.open_loops[loop.variable] = (counter, loop.trips)
        self._children(loop, level)
        if not once:
            self.loops.close(top, counter)

    def _count(self, counter: int, count: Affine) -> Iterator[Instruction]:
        """Set a counter to a number that follows a loop around, whose own counter goes down from its
        iterations to 1."""
        ((variable, factor),) = count.terms
        around, trips = self.open_loops[variable]
        yield Instruction.of("addi", counter, 0, 0)
        for bit in f"{factor:b}":
            yield Instruction.of("add", counter, counter, counter)
            if bit == "1":
                yield Instruction.of("sub", counter, counter, around)
        rest = count.constant + factor * trips
        while rest:
            step = min(rest, 2047)
            yield Instruction.of("addi", counter, counter, step)
            rest -= step

    def _children(self, loop: Loop, level: int) -> None:
        arriving: dict[int, list[Register]] = {}
        if self.sharing:
            own = [r for r in self.pointers if self.routine.homes.get(r) is loop.body]
            for register, (first, _) in _stays(loop.body, own).items():
                arriving.setdefault(first, []).append(register)
        for index, item in enumerate(loop.body):
            if index in arriving:  # whoever had the registers before has to be done
                for row in fill(self._longest(_codes(loop))):
                    self.writer.add(row)
            for register in arriving.get(index, ()):
                for row in load_constant(self.pointers[register], self.routine.pointers[register]):
                    self.writer.add(row)
            self._item(item, level + 1)

    def _longest(self, codes: Iterable[Code]) -> int:
        """The longest time an instruction of the codes is under way."""
        return max(self.profile.timing_of(op.opcode).latency for code in codes for op in code.ops)

    def _pin(self, loop: Loop) -> None:
        """Keep the constants a loop nest uses most in registers for the whole nest; the others
        are made again in each iteration, in ticks that would be idle."""
        uses = Counter((r.kind, r.constant or 0) for code in _codes(loop) for r in _constants(code))
        uses.pop((Kind.X, 0), None)
        # A repeated transfer reads its size after its iteration: that register must stay.
        lasting = {site.bytes for site in _sites(loop)}
        for size in lasting:
            uses[(Kind.X, size)] += 1 << 20
        fresh = Constants(reserved=self.constants.reserved)
        free = [r for r in range(1, 32) if r not in fresh.reserved]
        keep = max(len(lasting), len(free) - TUNING.working_scalars)
        pinned = set()
        for (kind, value), _ in sorted(uses.items(), key=lambda item: (-item[1], item[0][1])):
            if kind is Kind.E:
                place = len(fresh.e)
                fresh.e[place] = value
                self.writer.add(Instruction.of("seli", place, value))
            elif keep:
                keep -= 1
                place = free.pop(0)
                fresh.x[place] = value
                for row in load_constant(place, value):
                    self.writer.add(row)
            else:
                continue
            pinned.add((kind, place))
        fresh.pinned = frozenset(pinned)
        self.constants = fresh

    def _drain(self, loop: Loop) -> None:
        """After a loop, let the last iteration finish before anything else starts."""
        # Loops inside have waited for their own transfers.
        own = Loop(1, [item for item in loop.body if isinstance(item, Code)])
        for site in _sites(own):
            self.writer.add(Instruction.of("dma.wait", site.channel))
        for row in fill(self._longest(_codes(loop))):
            self.writer.add(row)


def _carried_places(routine: Routine) -> list[dict[Register, int]]:
    """For each item the tensor registers of the carried tiles it has to leave alone.

    Tiles share registers only where there are too few for all, and for what code between counts on:
    from the first item that uses one to the last it keeps its own.
    """
    used = [
        {r for code in ([item] if isinstance(item, Code) else _codes(item)) for r in _held(code)}
        for item in routine.items
    ]
    spans: dict[Register, tuple[int, int]] = {}
    apart = sum(r.size for r in routine.carried) > TILES // 4
    for register in routine.carried:
        where = [k for k, registers in enumerate(used) if register in registers]
        if where or not apart:
            spans[register] = (where[0], where[-1]) if apart else (0, len(used))
    places: dict[Register, int] = {}
    for register in sorted(spans, key=lambda r: -r.size):
        first, last = spans[register]
        taken = {
            place + part
            for other, place in places.items()
            if first <= spans[other][1] and spans[other][0] <= last
            for part in range(other.size)
        }
        place = 0
        while taken.intersection(range(place, place + register.size)):
            place += register.size
        places[register] = place
    needed = max((place + r.size for r, place in places.items()), default=0)
    if needed > TILES:
        raise TilewrightError("TW1455", f"{needed} tensor registers are carried, {TILES} exist")
    return [
        {
            r: place
            for r, place in places.items()
            if r in used[k] or (isinstance(item, Code) and spans[r][0] <= k <= spans[r][1])
        }
        for k, item in enumerate(routine.items)
    ]


def shared_places(
    item: Code | Loop,
    homes: dict[Register, list[Code | Loop]],
    pointers: list[Register],
    places: list[int],
) -> dict[Register, int]:
    """Scalar registers for pointers, where those at home in different items may have the same."""
    lasting = [r for r in pointers if r not in homes]
    found = dict(zip(lasting, places, strict=False))  # if there are more, there is no room anyway

    def assign(body: list[Code | Loop], taken: set[int]) -> None:
        stays = _stays(body, [r for r in pointers if homes.get(r) is body])
        for index, child in enumerate(body):
            here = [r for r, (first, last) in stays.items() if first <= index <= last]
            used = taken | {found[r] for r in here if r in found}
            for register in here:
                if register not in found:
                    found[register] = next((p for p in places if p not in used), 0)
                    used.add(found[register])
            if isinstance(child, Loop):
                assign(child.body, used)

    if isinstance(item, Loop):
        assign(item.body, set(found.values()))
    return found


def _stays(
    body: list[Code | Loop], registers: Iterable[Register]
) -> dict[Register, tuple[int, int]]:
    """The first and the last item of a list that uses each of the registers."""
    used = [
        {r for code in ([item] if isinstance(item, Code) else _codes(item)) for r in _held(code)}
        for item in body
    ]
    stays: dict[Register, tuple[int, int]] = {}
    for register in registers:
        where = [index for index, held in enumerate(used) if register in held]
        if where:
            stays[register] = (where[0], where[-1])
    return stays


def _last(result: Schedule) -> int:
    """When the last instruction is done: a wait ends the tick after its transfer."""
    done = {node.index: end for node, _, end in result.dispatched}
    waits = [done[n.transfer.index] + 1 for n, *_ in result.dispatched if n.transfer is not None]
    return max([*done.values(), *waits])


def _depth(items: list[Code | Loop]) -> int:
    return max((1 + _depth(i.body) for i in items if isinstance(i, Loop)), default=0)


def _codes(loop: Loop) -> Iterator[Code]:
    for item in loop.body:
        if isinstance(item, Code):
            yield item
        else:
            yield from _codes(item)


def _sites(loop: Loop) -> list[Site]:
    return list(dict.fromkeys(op.site for c in _codes(loop) for op in c.ops if op.site))


def _held(code: Code) -> Iterator[Register]:
    """Pointers and carried tiles of the code."""
    for op in code.ops:
        for value in op.operands:
            if isinstance(value, Part) and value.register.carried:
                yield value.register
        if op.site is not None:
            yield from (op.site.vmem, op.site.dram)


def _constants(code: Code) -> Iterator[Register]:
    for op in code.ops:
        for value in op.operands:
            if isinstance(value, Part) and value.register.is_constant:
                yield value.register
