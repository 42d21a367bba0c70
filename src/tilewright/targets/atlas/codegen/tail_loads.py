"""Transfers for the next kernel, started while the last iterations of this one are worked on.

before: loop; what is left of its last iterations, with idle ticks; end
after:  the same, transfers that begin in these ticks, and waits for them at the end

What stands behind the last loop of a program runs once and in a known order. Instructions take the
place of delays there, so everything else is issued when it was; registers and channels are those that
nothing behind the loop uses. Where the transfers begin is tried at several places: early ones keep
results of the last iterations waiting, late ones leave the engine idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.targets.atlas.codegen.constants import load_constant
from tilewright.targets.atlas.codegen.emit import Writer, fill
from tilewright.targets.atlas.isa import BY_MNEMONIC, Kind
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction

CHANNELS = 8
TRIES = 12  # places at which the transfers may begin
FEW = 3  # transfers that wait for registers
LOAD = BY_MNEMONIC["lw"]


@dataclass(frozen=True)
class Transfer:
    """Bytes of DRAM that go to VMEM; rounds: in each round of the program they lie elsewhere."""

    vmem: int
    dram: int
    bytes: int
    rounds: bool = False

    def covers(self, other: Transfer) -> bool:
        """Whether another transfer moves some of the same bytes to the same place."""
        return (
            self.rounds == other.rounds
            and self.vmem - self.dram == other.vmem - other.dram
            and self.vmem <= other.vmem
            and other.vmem + other.bytes <= self.vmem + self.bytes
        )

    def overlaps(self, start: int, end: int) -> bool:
        return self.vmem < end and start < self.vmem + self.bytes


def add_loads(
    writer: Writer, start: int, transfers: Sequence[Transfer], profile: Profile, layer_word: int
) -> None:
    """Put transfers into the rows from `start` on, which run once; layer_word: the VMEM address of the
    bytes by which tensors of this round lie behind those of the first."""
    tail = _Tail(writer.rows, start, profile, layer_word)
    sources, known = writer.sources[start:], _constants(writer.rows)
    best: tuple[int, list[Instruction], list[str]] | None = None
    for first in tail.places():
        found = tail.with_loads(transfers, first, sources)
        ticks = _ticks(found[0], known, profile)
        if best is None or ticks < best[0]:
            best = ticks, *found
    assert best is not None
    writer.rows[start:], writer.sources[start:] = best[1], best[2]


def _constants(rows: Sequence[Instruction]) -> dict[int, int]:
    """What scalar registers hold that are set to a number once, by their own number."""
    known: dict[int, int] = {0: 0}
    for row in rows:
        _note(row, known)
    return known


def _note(row: Instruction, known: dict[int, int]) -> None:
    """Follow a constant into a scalar register."""
    if row.opcode.mnemonic == "lui":
        known[row["rd"]] = row["imm"] << 12
    elif row.opcode.mnemonic == "addi" and row["rs1"] in known:
        known[row["rd"]] = known[row["rs1"]] + row["imm"]


def _ticks(rows: Sequence[Instruction], known: dict[int, int], profile: Profile) -> int:
    """About how long the rows take, if the engine has nothing to do when they begin."""
    now = engine = 0
    known, done = dict(known), dict[int, int]()
    for row in rows:
        now += 1
        timing = row.opcode.timing
        if timing == "delay":
            now += row.operands[0]
        elif timing == "dma_transfer":
            size = known.get(row.operands[2], 0)
            engine = max(engine, now) + profile.dma.ticks(size)
            done[row.operands[3]] = engine
        elif timing == "dma_wait":
            now = max(now, done.pop(row.operands[0], 0))
        else:
            _note(row, known)
    return max(now, engine)


class _Tail:
    """Rows that run once, and what they leave free."""

    def __init__(
        self, every: Sequence[Instruction], start: int, profile: Profile, layer_word: int
    ) -> None:
        self.profile, self.layer_word = profile, layer_word
        self.rows = _without_dead(every[start:])
        self.ticks: list[int] = []
        now = 0
        for row in self.rows:
            self.ticks.append(now)
            now += 1 + (row.operands[0] if row.opcode.timing == "delay" else 0)
        self.end = now
        self.longest = max(timing.latency for timing in profile.timing.values()) + 2
        self.free, self.channels = self._free(every[:start])

    def _free(self, before: Sequence[Instruction]) -> tuple[dict[int, int], list[int]]:
        """From which tick on every scalar register is used by nobody, and channels that nobody uses.

        Transfers and tensor loads look at their registers until they are done. Those that were started
        before have their channels waited for here before anything else is started there.
        """
        free = dict.fromkeys(range(1, 32), self.longest)
        under_way: dict[int, Instruction] = {}
        for row in before:
            _note_transfer(row, under_way)
        used = set[int]()
        for tick, row in zip(self.ticks, self.rows, strict=True):
            if row.opcode.timing in ("dma_transfer", "dma_wait"):
                used.add(row.operands[-1])
            done = _note_transfer(row, under_way)
            until = tick + self.profile.timing_of(row.opcode).latency + 2
            for register in (*_scalars(row), *(_scalars(done) if done else ())):
                free[register] = max(free.get(register, 0), until)
        for row in under_way.values():
            free.update(dict.fromkeys(_scalars(row), self.end + 1))
        free.pop(0, None)  # it is zero
        return free, [c for c in range(CHANNELS) if c not in used | under_way.keys()]

    def places(self) -> list[int]:
        """Rows from which on transfers may begin: some idle ones, and those at which registers for one
        more transfer are free; behind all of them."""
        idle = [k for k, row in enumerate(self.rows) if row.opcode.timing == "delay"]
        found = {*idle[:: max(1, len(idle) // TRIES)], len(self.rows)}
        for tick in sorted(self.free.values())[2 : 3 * FEW + 1]:
            found.add(next((k for k in idle if self.ticks[k] >= tick), len(self.rows)))
        return sorted(found)

    def with_loads(
        self, transfers: Sequence[Transfer], first: int, sources: Sequence[str]
    ) -> tuple[list[Instruction], list[str]]:
        """The rows with transfers in idle ticks from row `first` on; those without registers or a
        channel of their own come behind all else."""
        tick = self.ticks[first] if first < len(self.ticks) else self.end
        registers = [r for r, free in self.free.items() if free <= tick]
        there, left = self._shared_out(transfers, registers, self.channels)
        waiting = [row for one in there for row in one]
        calm = self._calm_ticks()
        rows: list[Instruction] = []
        texts: list[str] = []
        for number, (row, source) in enumerate(zip(self.rows, sources, strict=True)):
            taken = [row]
            if number >= first and row.opcode.timing == "delay" and waiting:
                length = row.operands[0] + 1
                begin, end = calm[number]
                is_calm = waiting[0].opcode is not LOAD or begin <= 0 < end
                # What comes before the next scalar load, which has to look for its own place.
                loads = (k for k, one in enumerate(waiting) if k and one.opcode is LOAD)
                count = min(length, next(loads, length)) if is_calm else 0
                taken, waiting = waiting[:count], waiting[count:]
                taken += fill(length - len(taken))
            rows += taken
            texts += [source] * len(taken)
        ending = [*waiting, *_waits(there)]
        if any(row.opcode is LOAD for row in waiting) or left:  # everything is done by then
            ending = [*fill(self.longest), *ending]
        while left:
            there, left = self._shared_out(left, list(range(1, 32)), list(range(CHANNELS)))
            ending += [row for one in there for row in one] + _waits(there)
        return [*rows, *ending], [*texts, *[""] * len(ending)]

    def _shared_out(
        self, transfers: Sequence[Transfer], registers: Sequence[int], channels: Sequence[int]
    ) -> tuple[list[list[Instruction]], list[Transfer]]:
        """Instructions for each transfer that gets registers and a channel, and those that get none."""
        there: list[list[Instruction]] = []
        left: list[Transfer] = []
        places, ways = list(registers), list(channels)
        word: int | None = None  # the register with what this round is further on
        for one in sorted(transfers, key=lambda t: -t.bytes):
            if len(places) < 3 + (one.rounds and word is None) or not ways:
                left.append(one)
                continue
            begin: list[Instruction] = []
            if one.rounds and word is None:
                word = places.pop()
                begin = self._word(word)
            mine = (places.pop(), places.pop(), places.pop())
            there.append([*begin, *_started(one, mine, word or 0, ways.pop())])
        return there, left

    def _word(self, register: int) -> list[Instruction]:
        """Read by how much tensors of this round lie further on."""
        latency = self.profile.timing_of(LOAD).latency
        idle = [Instruction.of("delay", 0)] * (latency + 1)
        return [Instruction.of("lw", register, self.layer_word, 0), *idle]

    def _calm_ticks(self) -> list[tuple[int, int]]:
        """For every row, in ticks from it on: when the unit of scalar loads is idle, and until when."""
        unit = self.profile.timing_of(LOAD).unit
        timings = (self.profile.timing_of(row.opcode) for row in self.rows)
        mine = [timing.latency + 2 if timing.unit == unit else 0 for timing in timings]
        found: list[int] = []
        free = self.longest
        for tick, busy in zip(self.ticks, mine, strict=True):
            found.append(free - tick)
            free = max(free, tick + busy if busy else 0)
        ends: list[int] = []
        following = self.end + self.longest
        for tick, busy in zip(reversed(self.ticks), reversed(mine), strict=True):
            ends.append(following - self.profile.timing_of(LOAD).latency - 2 - tick)
            following = tick if busy else following
        return list(zip(found, reversed(ends), strict=True))


def _waits(started: Sequence[Sequence[Instruction]]) -> list[Instruction]:
    return [Instruction.of("dma.wait", one[-1].operands[3]) for one in started]


def _scalars(row: Instruction) -> Iterator[int]:
    """Scalar registers of an instruction."""
    for operand, value in zip(row.opcode.operands, row.operands, strict=True):
        if operand.kind is Kind.X:
            yield value


def _note_transfer(row: Instruction, under_way: dict[int, Instruction]) -> Instruction | None:
    """Follow which transfer every channel makes; the one that a wait shows to be done."""
    if row.opcode.timing == "dma_transfer":
        under_way[row.operands[3]] = row
    elif row.opcode.timing == "dma_wait":
        return under_way.pop(row.operands[0], None)
    return None


def _without_dead(rows: Sequence[Instruction]) -> list[Instruction]:
    """Rows that end a program, idle where they compute a scalar that nobody reads: addresses of loads
    for another iteration."""
    live = set[int]()
    result: list[Instruction] = []
    for row in reversed(rows):
        scalar = row.opcode.mnemonic in ("add", "addi", "sub", "lui")
        if scalar and row["rd"] not in live:
            row = Instruction.of("delay", 0)
        elif scalar:
            live.discard(row["rd"])
        live.update(
            value
            for operand, value in zip(row.opcode.operands, row.operands, strict=True)
            if operand.kind is Kind.X and operand.reads
        )
        result.append(row)
    return result[::-1]


def _started(
    one: Transfer, registers: tuple[int, int, int], word: int, channel: int
) -> Iterator[Instruction]:
    """Start a transfer with its addresses and its size in these registers."""
    inside, outside, size = registers
    yield from load_constant(size, one.bytes)
    yield from load_constant(inside, one.vmem)
    yield from load_constant(outside, one.dram)
    if one.rounds:
        yield Instruction.of("add", outside, outside, word)
    yield Instruction.of("delay", 0)
    yield Instruction.of("dma.load", inside, outside, size, channel)
