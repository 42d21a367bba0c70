"""From the rows a machine records to the tracks people look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright.targets.atlas.isa import OPCODES, Kind, Opcode
from tilewright.targets.atlas.machines import Machine
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.targets.atlas.text import instruction_text, label_names
from tilewright.trace.model import Counter, Mark, Slice, TraceModel, Track

if TYPE_CHECKING:
    from tilewright.targets.atlas.simulate import Result

BLOCK = 32
FOREVER = 1 << 61  # beyond the last tick of any run
MOST_BREAKPOINTS = 2000


class Recorder:
    """Keeps the addresses of memory operations while the run is inside the window.

    The machine records times; addresses live in scalar registers, so the run pauses where
    decode is about to claim a memory operation and the registers are read. Decode claims one
    instruction a tick: the tick identifies it. The pauses are breakpoints; a program with very
    many memory operations is stepped instead, as handing over all those takes longer.
    """

    def __init__(self, machine: Machine, program: Program, window: tuple[int, int]) -> None:
        self.machine, self.window = machine, window
        self.addresses: dict[int, dict[int, int]] = {}  # claim tick -> register -> value
        # The machine keeps rows by dispatch. What is in decode when the window ends may
        # dispatch much later and belongs to the picture: the end is set behind it, by `close`.
        machine.trace_window = (window[0], FOREVER)
        self._open = window[1] < FOREVER
        wanted = [o.index for o in OPCODES if o.memory and not o.memory.startswith("scalar")]
        self._indices = set(np.flatnonzero(np.isin(program.opcodes, wanted)).tolist())
        registers: set[int] = set()
        for opcode in wanted:
            rows = program.operands[program.opcodes == opcode]
            for slot, operand in enumerate(OPCODES[opcode].operands):
                if operand.kind is Kind.X:
                    registers.update(np.unique(rows[:, slot]).tolist())
        self._registers = sorted(registers)
        self._stepping = len(self._indices) > MOST_BREAKPOINTS

    def arm(self, now: int, target: int) -> int:
        """Set breakpoints if the window is open; returns where the next slice has to end."""
        first, last = self.window
        if now < first:
            return min(target, first)
        if now <= last:
            if not self._stepping:
                self.machine.breakpoints |= self._indices
            return min(target, max(last, now + 1))
        return target

    def steps(self, now: int) -> bool:
        """Whether the next slice is to be a single instruction."""
        return self._stepping and self.window[0] <= now <= self.window[1]

    def closes(self, now: int) -> bool:
        """Whether the window ends here: one more instruction has to be dispatched."""
        return self._open and now >= self.window[1]

    def close(self, now: int) -> None:
        self._open = False
        self.machine.trace_window = (self.window[0], now)

    def note(self, tick: int) -> None:
        """Keep the registers if decode is about to claim a memory operation."""
        if self.machine.next_index not in self._indices:
            return
        values = {}
        for register in self._registers:
            value = self.machine.read_register(f"x{register}")
            assert isinstance(value, int)
            values[register] = value
        self.addresses[tick] = values


def category(opcode: Opcode) -> str:
    """The class of an instruction, for colours and filters."""
    if opcode.timing.startswith("matmul"):
        return "matmul"
    if opcode.timing.startswith(("push", "pop")):
        return "matrix move"
    if opcode.timing in ("delay", "branch"):
        return opcode.timing
    if opcode.timing == "dma_wait":
        return "wait"
    if opcode.memory:
        return opcode.memory
    if opcode.record == "dma":
        return "dma config"
    return "vector" if opcode.record == "vector" else "scalar"


@dataclass
class _Builder:
    """Collects slices of one run."""

    profile: Profile
    tracks: list[Track] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    changes: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    _tracks: dict[str, int] = field(default_factory=dict)
    _busy: dict[int, int] = field(default_factory=dict)  # track -> end of its last slice

    def track(self, name: str, group: str, detail: str = "") -> int:
        if name not in self._tracks:
            self._tracks[name] = len(self.tracks)
            self.tracks.append(Track(name, group, detail))
        return self._tracks[name]

    def lane(self, unit: str, start: int, end: int) -> int:
        """A track of the unit that is free; a pipelined unit needs more than one."""
        number = 1
        while True:
            name = unit if number == 1 else f"{unit} ({number})"
            track = self.track(name, "units", "")
            if self._busy.get(track, 0) <= start:
                self._busy[track] = end
                return track
            number += 1

    def change(self, counter: str, start: int, end: int, amount: int) -> None:
        """Count `amount` from start on, until end. What an operation holds it releases when it
        completes, and a unit later in that tick may take it: `end` is then its last tick."""
        if amount:
            self.changes[counter] += [(start, amount), (end, -amount)]


def build_trace(result: Result) -> TraceModel:
    """Tracks, flows and counters of a traced run."""
    assert result.recorder is not None
    program, profile, rows = result.program, result.profile, result.machine.trace
    rows = rows[rows["claim"] <= result.recorder.window[1]]
    builder = _Builder(profile)
    decode = builder.track("DECODE", "issue", "what holds the next instruction back")
    for unit in profile.units:
        if unit != "DMA":
            builder.track(unit, "units")
    builder.track("DMA", "memory", "the engine")
    _add_rows(builder, result, rows, decode)
    first, last = result.recorder.window
    marks = [
        Mark(decode, f.cycle, f"fault: {f.kind}", f.message)
        for f in result.faults
        if first <= f.cycle <= last
    ]
    end = max([result.cycles, *(s.end for s in builder.slices), *(m.tick for m in marks)])
    if last < result.cycles:
        end = min(end, last + 1)
    units = {"DMA in flight": "bytes", "MRF held": "registers", "VMEM held": "blocks"}
    counters = [Counter(n, u, _totals(builder.changes.get(n, ()))) for n, u in units.items()]
    subtitle = f"{profile.name} · {result.cycles:,} cycles"
    if first > 0 or end < result.cycles:
        subtitle += f" · cycles {first:,} to {end - 1:,}"
    return TraceModel(
        Path(program.source).name,
        subtitle,
        first,
        end,
        builder.tracks,
        builder.slices,
        marks,
        counters,
    )


def _add_rows(builder: _Builder, result: Result, rows: np.ndarray, decode: int) -> None:
    """One slice per instruction where it ran, one in decode where it had to wait."""
    assert result.recorder is not None
    program, profile = result.program, result.profile
    pending: dict[int, int] = {}  # channel -> flow number of its last transfer
    free: dict[int, int] = {}  # unit -> tick from which it takes the next operation
    clear: dict[int, int] = {}  # channel -> tick from which it is idle
    labels = label_names(program)
    facts: dict[int, tuple[Instruction, str, str, str]] = {}  # per static instruction
    for number, row in enumerate(rows.tolist(), start=1):
        index, unit, channel, claim, dispatch, start, end, count = row
        if index not in facts:
            instruction = program[index]
            text = instruction_text(program, index, labels)
            place = program.location(index)
            facts[index] = (instruction, text, str(place), category(instruction.opcode))
        instruction, text, source, kind = facts[index]
        opcode, name = instruction.opcode, text.partition(" ")[0]
        arguments: dict[str, int | str] = {
            "index": index,
            "pc": index * profile.pc_step,
            "claim": claim,
            "dispatch": dispatch,
        }
        if kind in ("wait", "delay"):
            stop = min(dispatch, result.cycles) + 1
            piece = Slice(decode, claim, stop, name, kind, text, source, arguments)
            if kind == "wait":
                piece.flow_in = pending.pop(channel, 0)
            builder.slices.append(piece)
            continue
        if dispatch > claim:
            ends = {"unit busy": free.get(unit, 0), "channel busy": clear.get(channel, 0)}
            for cause, first, stop in _causes(claim, dispatch, ends):
                held = {**arguments, "cause": cause}
                stall = Slice(decode, first, stop, f"stall: {cause}", "stall", text, source, held)
                builder.slices.append(stall)
        if end > result.cycles or not start:
            end = max(result.cycles, dispatch + 1)
            start = min(start or dispatch + 1, end)
            arguments["unfinished"] = "the run stopped first"
        free[unit] = dispatch + profile.timing_of(opcode).interval
        registers = result.recorder.addresses.get(claim, {})
        _add_addresses(arguments, instruction, registers)
        if profile.units[unit] == "DMA":
            pending[channel], clear[channel] = number, end + 1
            arguments |= {"channel": channel, "bytes": count, "queued": start - dispatch - 1}
            _add_transfer(builder, arguments, (name, kind, text, source), number, start, end)
        else:
            track = builder.lane(profile.units[unit], start, end + 1)
            piece = Slice(track, start, end + 1, name, kind, text, source, arguments)
            builder.slices.append(piece)
            builder.change("MRF held", dispatch + 1, end, _held(profile, instruction))
            if opcode.memory and opcode.memory.startswith("tensor"):
                builder.change("VMEM held", dispatch + 1, end, opcode.bytes // BLOCK)


def _causes(claim: int, dispatch: int, ends: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """The parts of a stall: decode waits for the unit, then the channel, then what others hold."""
    for cause, until in (*ends.items(), ("dependency", dispatch)):
        stop = min(until, dispatch)
        if stop > claim:
            yield cause, claim, stop
            claim = stop


def _add_transfer(
    builder: _Builder,
    arguments: dict[str, int | str],
    names: tuple[str, str, str, str],
    number: int,
    start: int,
    end: int,
) -> None:
    """The engine's part of a DMA operation, and its whole life on the channel.

    before: dispatched, queued behind other channels, moved
    after:  a slice on the channel from dispatch to the end, holding a `queued` slice, and a
            slice on the engine; the arrow to the wait starts at the channel's slice
    """
    name, kind, text, source = names
    dispatch, count = int(arguments["dispatch"]), int(arguments["bytes"])
    channel = builder.track(f"DMA ch{arguments['channel']}", "memory", "accepted until done")
    engine = builder.track("DMA", "memory")
    whole = Slice(channel, dispatch + 1, end + 1, name, kind, text, source, arguments)
    whole.flow_out = number
    builder.slices.append(whole)
    if start > dispatch + 1:
        waiting: dict[str, int | str] = {"cycles": start - dispatch - 1}
        queued = Slice(channel, dispatch + 1, start, "queued", "queued", text, source, waiting)
        builder.slices.append(queued)
    builder.slices.append(Slice(engine, start, end + 1, name, kind, text, source, arguments))
    builder.change("DMA in flight", dispatch + 1, end + 1, count)
    builder.change("VMEM held", dispatch + 1, end, -(-count // BLOCK))


def _add_addresses(
    arguments: dict[str, int | str], instruction: Instruction, registers: dict[int, int]
) -> None:
    """VMEM and DRAM addresses of a memory operation, from the registers at its claim."""
    memory = instruction.opcode.memory
    if not registers or not memory:
        return
    if memory.startswith("tensor"):
        address = registers[instruction["rs1"]] + BLOCK * instruction["imm12"]
        arguments["vmem"] = f"{address:#x}"
    elif memory.startswith("dma"):
        load = memory == "dma load"
        vmem, dram = ("rd", "rs1") if load else ("rs1", "rd")
        arguments["vmem"] = f"{registers[instruction[vmem]]:#x}"
        arguments["dram"] = f"{registers[instruction[dram]]:#x}"


def _held(profile: Profile, instruction: Instruction) -> int:
    """How many tensor registers the operation holds."""
    registers: set[int] = set()
    for operand, value in zip(instruction.opcode.operands, instruction.operands, strict=True):
        if operand.kind is Kind.M:
            registers.update(range(value, value + profile.footprint(operand)))
    return len(registers)


def _totals(changes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Changes by tick → the value from each tick on."""
    by_tick: dict[int, int] = defaultdict(int)
    for tick, amount in changes:
        by_tick[tick] += amount
    points, value = [], 0
    for tick in sorted(by_tick):
        if by_tick[tick]:
            value += by_tick[tick]
            points.append((tick, value))
    return points
