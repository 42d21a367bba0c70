"""The Atlas machine in plain Python, tick by tick: the definition to read and to test against.

A tick runs every unit in the profile's order, then decode, then fetch; each sees what
happened before it in the same tick. A unit accepts an operation the tick after decode
dispatched it, holds its conflict sets, and at completion reads all operands and writes all
results at once. Everything about timing is in this file, everything about values in
`semantics`.

Runs stop only at two kinds of places: after a whole tick (until_cycle, max_cycles, end, halt,
fault), or at a claim point: the units of a tick have run and decode is about to claim the next
instruction (breakpoints, watches, until_pc, max_instructions, step). At a claim point the
results of all older scalar instructions are visible.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tilewright.targets.atlas.isa import Kind, Opcode
from tilewright.targets.atlas.outcome import TRACE_ROW, Fault, Outcome, Statistics, UnitUse
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.semantics import EFFECTS, MachineFault, Site, tensor_address
from tilewright.targets.atlas.state import State

NEVER = 1 << 62
MAX_COUNT = 1 << 40
BLOCK = 32  # VMEM is held in blocks of this many bytes


@dataclass(slots=True)
class Operation:
    """An instruction on its way through the machine."""

    index: int
    opcode: Opcode
    operands: tuple[int, ...]
    timing: Timing
    claim: int
    wake: int = 0  # delay: the tick in which it dispatches
    dispatch: int = 0
    start: int = 0
    completes: int = 0
    registers: int = 0  # bit mask of tensor registers held
    blocks: tuple[int, int] = (0, 0)  # half-open range of VMEM blocks held
    bytes: int = 0
    landed: bool = False  # DMA: its bytes have moved
    dropped: bool = False  # a recorded fault took its effect away
    seen: set[str] = field(default_factory=set)  # hazards recorded for it
    row: int = -1  # its trace row


class _Stop(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class PythonMachine:
    """Runs one program on one profile under one policy."""

    def __init__(self, profile: Profile, policy: Policy | None = None) -> None:
        self.profile = profile
        self.policy = policy or Policy()
        self.breakpoints: set[int] = set()
        self.trace_window: tuple[int, int] | None = None
        self._watches: dict[tuple[str, int, int], bytes | int] = {}
        record = self.policy.hazards == "record"
        override = self.policy.hazards in ("fault", "stall", "record")
        choice = "stall" if record else self.policy.hazards
        self._busy_rule = choice if override else profile.busy_unit
        self._conflict_rule = profile.conflict
        if override and not (record and profile.conflict == "ignore"):
            self._conflict_rule = choice
        self._channel_rule = "stall" if override and choice == "stall" else "fault"
        self._recording = record
        self.program = Program.from_instructions([])
        self.reset()

    # --- loading and state --------------------------------------------------------

    def load(self, program: Program, keep_memory: bool = False) -> None:
        """Take a program, reset, and place its data.

        With `keep_memory` DRAM and VMEM stay as they are: the next part of a longer program.
        """
        self.program = program
        kept = self.state
        self.reset()
        if keep_memory:
            self.state.dram, self.state.vmem = kept.dram, kept.vmem
        for data in program.data:
            self.write(data.space, data.address, data.bytes)

    def reset(self) -> None:
        """Back to tick 0 with the initial state of the policy; the program stays."""
        self.state = State(self.profile, self.policy)
        self.faults: list[Fault] = []
        self._instructions = list(self.program)
        count = len(self._instructions)
        self._statistics = Statistics(
            units={unit: UnitUse() for unit in self.profile.units},
            executions=np.zeros(count, np.int64),
            issue_ticks=np.zeros(count, np.int64),
        )
        self._rows: list[list[int]] = []
        self._tick = 0
        self._units_done = False  # this tick's units have run: we stand at a claim point
        self._fetch_address = 0
        self._ended = count == 0
        self._fetched: int | None = None  # index waiting for decode
        self._held: Operation | None = None  # in decode
        self._redirects: list[list[int]] = []  # [fetches to go, target]
        self._since_transfer = NEVER  # instructions claimed since the last control transfer
        self._latched: dict[str, Operation] = {}
        self._flying: dict[str, list[Operation]] = {unit: [] for unit in self.profile.units}
        self._free = dict.fromkeys(self.profile.units, 0)
        self._channel_clear = [0] * 8
        self._dma_last = 0
        self._late: list[Operation] = []  # DMA whose bytes move only when waited for
        self._halting = False
        self._outcome: Outcome | None = None
        self._passed: int | None = None  # dispatch count at the claim point last stopped at

    @property
    def cycles(self) -> int:
        return self._tick

    @property
    def next_index(self) -> int | None:
        """The instruction that decode claims next, where it is already fetched."""
        return self._fetched

    @property
    def statistics(self) -> Statistics:
        self._statistics.cycles = self._tick
        return self._statistics

    @property
    def trace(self) -> np.ndarray:
        """Rows of `TRACE_ROW` inside `trace_window`, in dispatch order."""
        if self.trace_window is None:
            return np.zeros(0, TRACE_ROW)
        first, last = self.trace_window
        kept = [tuple(r) for r in self._rows if r[6] >= first and r[4] <= last]
        return np.array(kept, TRACE_ROW)

    def read(self, space: str, address: int, count: int) -> bytes:
        memory = self._memory(space, address, count)
        return memory.read(address, count).tobytes()

    def write(self, space: str, address: int, data: bytes) -> None:
        memory = self._memory(space, address, len(data))
        memory.write(address, np.frombuffer(data, np.uint8))

    def _memory(self, space: str, address: int, count: int):
        if space not in ("dram", "vmem"):
            raise ValueError(f"no memory {space!r}; there are dram and vmem")
        memory = self.state.dram if space == "dram" else self.state.vmem
        if address < 0 or count < 0 or address + count > memory.size:
            raise ValueError(
                f"{count} bytes at {address:#x} are outside {space} of {memory.size} bytes"
            )
        return memory

    def read_register(self, name: str) -> int | bytes:
        if name == "pc":
            return self._fetch_address
        return self.state.read_register(name)

    def write_register(self, name: str, value: int | bytes) -> None:
        self.state.write_register(name, value)

    def watch(self, space: str, address: int = 0, size: int = 1) -> None:
        """Stop when bytes of "dram" or "vmem", or the register named by `space`, change."""
        self._watches[(space, address, size)] = self._watched(space, address, size)

    def unwatch(self, space: str, address: int = 0, size: int = 1) -> None:
        self._watches.pop((space, address, size), None)

    def _watched(self, space: str, address: int, size: int) -> bytes | int:
        if space in ("dram", "vmem"):
            return self.read(space, address, size)
        return self.read_register(space)

    def snapshot(self) -> object:
        """Everything that changes while running, to hand to `restore`."""
        keep = {"profile", "policy", "program", "breakpoints", "trace_window", "_instructions"}
        moving = {k: v for k, v in self.__dict__.items() if k not in keep}
        fixed = {id(self.profile): self.profile, id(self.policy): self.policy}
        return copy.deepcopy(moving, fixed)

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, dict)
        fixed = {id(self.profile): self.profile, id(self.policy): self.policy}
        self.__dict__.update(copy.deepcopy(snapshot, fixed))

    # --- running --------------------------------------------------------------------

    def step(self) -> Outcome:
        """Dispatch one instruction and go to the next claim point."""
        return self.run(max_instructions=1)

    def run(
        self,
        max_cycles: int | None = None,
        until_cycle: int | None = None,
        until_pc: int | None = None,
        max_instructions: int | None = None,
    ) -> Outcome:
        """Continue until something stops the run; all limits but max_instructions are absolute."""
        if self._outcome is not None:
            return self._outcome
        if self._ended and self._idle() and not self._units_done:
            return self._finish("end")
        target = NEVER
        if max_instructions is not None:
            target = self._statistics.instructions + max_instructions
        limit = min(NEVER if t is None else t for t in (max_cycles, until_cycle))
        try:
            while True:
                if not self._units_done:
                    if self._tick >= limit:
                        return self._pause_at_limit(max_cycles)
                    self._tick = min(self._next_tick(), limit)
                    self._run_units()
                    self._units_done = True
                    reason = self._claim_point(until_pc, target)
                    if reason is not None:
                        return Outcome(reason, self._tick)
                self._units_done = False
                if self._halting and not self.state.compat:
                    return self._finish("halt")
                self._decode()
                if self._halting:
                    return self._finish("halt")
                self._fetch()
                if self._ended and self._idle():
                    return self._finish("end")
        except _Stop as stop:
            self._units_done = False
            self._outcome = Outcome("fault", self._tick, stop.fault)
            return self._outcome

    def _pause_at_limit(self, max_cycles: int | None) -> Outcome:
        if max_cycles is not None and self._tick >= max_cycles:
            return Outcome("limit", self._tick)
        return Outcome("until", self._tick)

    def _finish(self, reason: str) -> Outcome:
        try:
            self._land_late(lambda op: op.completes <= self._tick)
        except _Stop as stop:
            self._outcome = Outcome("fault", self._tick, stop.fault)
            return self._outcome
        self._outcome = Outcome(reason, self._tick)
        return self._outcome

    def _idle(self) -> bool:
        """No instruction is anywhere in the machine."""
        return (
            self._fetched is None
            and self._held is None
            and not self._latched
            and not any(self._flying.values())
        )

    def _claim_point(self, until_pc: int | None, target: int) -> str | None:
        """The reason to stop before decode claims the next instruction, if any."""
        if self._held is not None or self._fetched is None or self._halting:
            return None
        count = self._statistics.instructions
        if self._passed == count:
            return None  # we stopped here before
        reason = None
        if self._watches:
            current = {key: self._watched(*key) for key in self._watches}
            if current != self._watches:
                self._watches = current
                reason = "watch"
        if self._fetched in self.breakpoints:
            reason = "breakpoint"
        if count >= target or until_pc == self._fetched * self.profile.pc_step:
            reason = "until"
        if reason is not None:
            self._passed = count
        return reason

    def _next_tick(self) -> int:
        """The next tick in which anything can happen."""
        soon = self._tick + 1
        if self._latched or (self._fetched is None and not self._ended):
            return soon
        if self._held is None and self._fetched is not None:
            return soon
        if self._held is not None:
            if self._held.opcode.timing == "delay":
                wake = self._held.wake
            elif self._held.opcode.timing == "dma_wait":
                wake = self._channel_clear[self._held.operands[-1]]
            else:
                return soon
        else:
            wake = NEVER
        events = [op.completes for flying in self._flying.values() for op in flying]
        return max(soon, min([wake, *events]))

    # --- faults -----------------------------------------------------------------------

    def _fault(self, op: Operation, kind: str, message: str) -> None:
        """Stop the run, or note the fault and take away the operation's effect."""
        line = self.program.location(op.index)
        place = f" (line {line.line})" if line.line else ""
        fault = Fault(
            kind,
            op.index,
            op.index * self.profile.pc_step,
            self._tick,
            f"{op.opcode.mnemonic}{place}: {message}",
        )
        self.faults.append(fault)
        if not self._recording:
            raise _Stop(fault)
        op.dropped = True

    def _hazard(self, op: Operation, kind: str, message: str, rule: str, tick: int) -> bool:
        """Handle a hazard that waiting resolves; True if the operation has to wait."""
        rule_of_profile = self.profile.conflict if kind == "bank_conflict" else "fault"
        if kind == "structural":
            rule_of_profile = self.profile.busy_unit
        if self._recording and rule_of_profile == "fault" and kind not in op.seen:
            op.seen.add(kind)
            self.faults.append(
                Fault(
                    kind,
                    op.index,
                    op.index * self.profile.pc_step,
                    tick,
                    f"{op.opcode.mnemonic}: {message}",
                )
            )
        if rule == "stall":
            return True
        self._fault(op, kind, message)
        return False

    # --- units ------------------------------------------------------------------------

    def _run_units(self) -> None:
        for unit in self.profile.units:
            op = self._latched.pop(unit, None)
            if op is not None:
                self._accept(unit, op)
            flying = self._flying[unit]
            while flying and (done := _first_due(flying, self._tick)) is not None:
                flying.remove(done)
                self._complete(done)

    def _accept(self, unit: str, op: Operation) -> None:
        use = self._statistics.units[unit]
        use.operations += 1
        if unit == "SCALAR":
            use.busy += op.opcode.timing != "delay"
            if not op.dropped:
                self._check_pairs(op)  # a profile may put vector operations here
            self._execute(op)
            return
        op.start = self._tick
        if unit == "DMA":
            self._accept_dma(op)
        else:
            op.completes = op.dispatch + op.timing.latency
            use.busy += op.timing.latency
            self._set_trace(op)
        if self._conflict_rule != "ignore":
            self._check_pairs(op)
            self._hold(op)
        self._flying[unit].append(op)
        if unit == "DMA" and self.policy.dma == "early":
            self._land(op)

    def _accept_dma(self, op: Operation) -> None:
        if op.opcode.timing == "dma_config":
            ticks = op.timing.latency
        else:
            op.bytes = _count_of(self.state.x[op.operands[2]])
            ticks = self.profile.dma.ticks(op.bytes)
            if op.opcode.effect == "dma.load":
                self._statistics.dma_loaded += op.bytes
            else:
                self._statistics.dma_stored += op.bytes
        op.start = max(self._tick, self._dma_last + 1)
        op.completes = self._dma_last = op.start + ticks - 1
        self._channel_clear[op.operands[-1]] = op.completes + 1
        self._statistics.units["DMA"].busy += ticks
        self._set_trace(op)

    def _complete(self, op: Operation) -> None:
        if self._conflict_rule == "ignore" and not op.dropped:
            self._check_pairs(op)
        if self.profile.timing_of(op.opcode).unit == "DMA" and self.policy.dma != "exact":
            if self.policy.dma == "late":
                self._late.append(op)
            return
        self._execute(op)

    def _execute(self, op: Operation) -> None:
        if op.dropped:
            return
        site = Site(op.index * self.profile.pc_step, self._fetch_address)
        try:
            target = EFFECTS[op.opcode.effect](self.state, op.opcode, op.operands, site)
        except MachineFault as fault:
            self._fault(op, fault.kind, fault.message)
            return
        if target is not None:
            self._redirect(op, target)
        if op.opcode.mnemonic in ("ecall", "ebreak") and self.profile.halts:
            self._halting = True

    def _redirect(self, op: Operation, target: int) -> None:
        step, end = self.profile.pc_step, len(self._instructions) * self.profile.pc_step
        if target % step or target < 0:
            self._fault(op, "illegal", f"the target {target:#x} is not an instruction address")
        elif self._ended or self._fetch_address + (self.profile.delay_slots - 2) * step >= end:
            if not self.state.compat:
                self._fault(op, "illegal", "fewer instructions follow than there are delay slots")
        else:
            self._redirects.append([self.profile.delay_slots - 1, target])

    def _land(self, op: Operation) -> None:
        """Move a transfer's bytes (or set the base), at most once."""
        if not op.landed:
            op.landed = True
            self._execute(op)

    def _land_late(self, which: Callable[[Operation], bool]) -> None:
        """Under late DMA: move the bytes of finished transfers up to the last that matches."""
        last = max((i for i, op in enumerate(self._late) if which(op)), default=-1)
        for op in self._late[: last + 1]:
            self._land(op)
        self._late = self._late[last + 1 :]

    # --- conflict sets ------------------------------------------------------------------

    def _check_pairs(self, op: Operation) -> None:
        for operand, value in zip(op.opcode.operands, op.operands, strict=True):
            if operand.kind is Kind.M and value + self.profile.footprint(operand) > 64:
                if self._conflict_rule == "ignore" and value + self.profile.span(operand) <= 64:
                    continue
                self._fault(op, "pair_range", f"m{value} has no register behind it for a pair")
                return

    def _sets(self, op: Operation) -> tuple[int, tuple[int, int]]:
        """Registers (bit mask) and VMEM blocks the operation holds while in flight."""
        registers = 0
        for operand, value in zip(op.opcode.operands, op.operands, strict=True):
            if operand.kind is Kind.M:
                registers |= ((1 << self.profile.footprint(operand)) - 1) << value
        start = count = 0
        if op.opcode.memory in ("tensor load", "tensor store"):
            start, count = tensor_address(self.state, op.operands), op.opcode.bytes
        elif op.opcode.memory in ("dma load", "dma store"):
            place = op.operands[0 if op.opcode.memory == "dma load" else 1]
            start, count = self.state.x[place], _count_of(self.state.x[op.operands[2]])
        blocks = (start // BLOCK, -(-(start + count) // BLOCK)) if count else (0, 0)
        return registers, blocks

    def _rival(self, registers: int, blocks: tuple[int, int], kind: str, unit: str | None):
        """An operation in flight that holds part of these sets.

        With a unit given, the question is asked by decode for the accept of the next tick:
        what will have been released by then does not count.
        """
        for holder_unit, flying in self._flying.items():
            for holder in flying:
                if unit is not None and self._released_before(holder, holder_unit, unit):
                    continue
                if kind == "MRF" and registers & holder.registers:
                    return holder
                low, high = max(blocks[0], holder.blocks[0]), min(blocks[1], holder.blocks[1])
                if kind == "VMEM" and low < high:
                    return holder
        return None

    def _released_before(self, holder: Operation, holder_unit: str, unit: str) -> bool:
        """Whether the holder completes before `unit` accepts in the next tick."""
        place = self.profile.position
        accept = (self._tick + 1, place[unit])
        return (holder.completes, place[holder_unit]) < accept

    def _conflict_text(self, holder: Operation, kind: str, registers: int) -> str:
        where = "VMEM"
        if kind == "MRF":
            shared = registers & holder.registers
            where = f"m{(shared & -shared).bit_length() - 1}"
        return (
            f"{kind} conflict on {where} with {holder.opcode.mnemonic} "
            f"(instruction {holder.index}), in flight until tick {holder.completes}"
        )

    def _hold(self, op: Operation) -> None:
        """Take the operation's conflict sets, or fault."""
        if op.dropped:
            return
        op.registers, op.blocks = self._sets(op)
        for kind in ("MRF", "VMEM"):
            holder = self._rival(op.registers, op.blocks, kind, None)
            if holder is not None:
                self._fault(op, "bank_conflict", self._conflict_text(holder, kind, op.registers))

    # --- decode -------------------------------------------------------------------------

    def _decode(self) -> None:
        if self._held is None:
            if self._fetched is None:
                return
            self._claim()
        op = self._held
        assert op is not None
        if op.opcode.timing == "dma_wait" and not op.dropped:
            if self._tick < self._channel_clear[op.operands[-1]]:
                return
            self._count(op, "DECODE")
            self._statistics.lost["dma_wait"] += self._tick - op.claim
            op.start = op.completes = self._tick
            self._set_trace(op)
            self._land_late(lambda late: late.operands[-1] == op.operands[-1])
            return
        if op.opcode.timing == "delay" and not op.dropped:
            if self._tick < op.wake:
                return
            self._statistics.lost["delay"] += self._tick - op.claim
        unit = "SCALAR" if op.dropped else op.timing.unit
        if self._must_wait(op, unit):
            return
        self._dispatch(op, unit)

    def _claim(self) -> None:
        index = self._fetched
        assert index is not None
        instruction = self._instructions[index]
        opcode = instruction.opcode
        op = Operation(
            index, opcode, instruction.operands, self.profile.timing_of(opcode), self._tick
        )
        self._held, self._fetched = op, None
        if not self.profile.has(opcode):
            self._fault(op, "illegal", "this profile does not have the instruction")
        if opcode.is_transfer:
            early = self._since_transfer < self.profile.delay_slots
            if early and self.profile.delay_slot_transfer == "fault":
                self._fault(op, "delay_slot", "a control transfer in a delay slot of another")
            self._since_transfer = 0
        else:
            self._since_transfer += 1
        if opcode.timing == "delay":
            if op.operands[0] < 0:
                self._fault(op, "illegal", f"negative delay {op.operands[0]}")
            op.wake = self._tick + op.operands[0]

    def _must_wait(self, op: Operation, unit: str) -> bool:
        """Check unit, channel and conflict sets; True if the instruction stays in decode."""
        lost = self._statistics.lost
        if self._tick < self._free[unit]:
            text = f"{unit} is busy until tick {self._free[unit]}"
            if self._hazard(op, "structural", text, self._busy_rule, self._tick):
                lost["unit_busy"] += 1
                return True
        if unit == "DMA" and self._tick < self._channel_clear[op.operands[-1]]:
            text = f"channel {op.operands[-1]} is busy"
            if self._hazard(op, "channel_busy", text, self._channel_rule, self._tick):
                lost["channel_busy"] += 1
                return True
        if self._conflict_rule == "stall" and unit != "SCALAR":
            registers, blocks = self._sets(op)
            for kind in ("MRF", "VMEM"):
                holder = self._rival(registers, blocks, kind, unit)
                if holder is not None:
                    text = self._conflict_text(holder, kind, registers)
                    self._hazard(op, "bank_conflict", text, "stall", self._tick + 1)
                    lost["dependency"] += 1
                    return True
        return False

    def _dispatch(self, op: Operation, unit: str) -> None:
        self._count(op, unit)
        op.start = op.completes = self._tick + 1
        if unit == "SCALAR":
            self._set_trace(op)
        elif unit == "DMA":
            channel = op.operands[-1]
            self._land_late(lambda late: late.operands[-1] == channel)
            self._channel_clear[channel] = NEVER
        else:
            self._free[unit] = self._tick + op.timing.interval
        self._latched[unit] = op

    def _count(self, op: Operation, unit: str) -> None:
        """Bookkeeping of an instruction that leaves decode in this tick."""
        self._held = None
        op.dispatch = self._tick
        self._statistics.instructions += 1
        self._statistics.executions[op.index] += 1
        self._statistics.issue_ticks[op.index] += self._tick - op.claim + 1
        if self.trace_window is not None:
            op.row = len(self._rows)
            place = self.profile.position.get(unit, -1)
            channel = op.operands[-1] if op.opcode.has_channel else -1
            self._rows.append([op.index, place, channel, op.claim, op.dispatch, 0, NEVER, 0])

    def _set_trace(self, op: Operation) -> None:
        if op.row >= 0:
            self._rows[op.row][5:8] = [op.start, op.completes, op.bytes]

    # --- fetch --------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Refill the slot before decode when it is empty, then move the fetch address."""
        if self._fetched is not None or self._ended:
            return
        self._redirects = [r for r in self._redirects if not self._apply(r)]
        index = self._fetch_address // self.profile.pc_step
        if index >= len(self._instructions):
            self._ended = True
            return
        self._fetched = index
        self._fetch_address += self.profile.pc_step
        for redirect in self._redirects:
            redirect[0] -= 1
        self._redirects = [r for r in self._redirects if not self._apply(r)]

    def _apply(self, redirect: list[int]) -> bool:
        """Take a redirect whose delay slots are all fetched."""
        if redirect[0] > 0:
            return False
        self._fetch_address = redirect[1]
        return True


def _count_of(value: int) -> int:
    """A byte count that time and conflict sets can be computed from, whatever the register."""
    return min(max(0, value), MAX_COUNT)


def _first_due(flying: list[Operation], tick: int) -> Operation | None:
    return next((op for op in flying if op.completes == tick), None)
