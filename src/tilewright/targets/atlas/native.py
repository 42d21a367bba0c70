"""The Atlas machine in C++: the same state, faults and cycles as `PythonMachine`, fast.

The C++ side knows effects by name and nothing else of the instruction set: unit, latency,
interval, spans and ranges come from the table and the profile with every machine built here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright import _native
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.isa import OPCODES, REGISTER_COUNT, Kind, Opcode, Operand
from tilewright.targets.atlas.outcome import (
    CAUSES,
    TRACE_ROW,
    Fault,
    Outcome,
    Statistics,
    UnitUse,
)
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.state import parse_register

NEVER = 1 << 62
PACKED = ("core", "vmem.places", "vmem", "dram.places", "dram")  # a snapshot's bytes
SLICE = 100_000  # instructions between looks at signals and the progress callback
# Numbers that index something or shift; the rest of the immediates may be any number.
_BOUNDED = ("shamt5", "csr12", "uimm5", "channel3")

KERNELS: tuple[str, ...] = tuple(_native.atlas_kernels())  # best first


class NativeMachine:
    """Runs one program on one profile under one policy. See `PythonMachine` for the rules."""

    def __init__(
        self, profile: Profile, policy: Policy | None = None, kernels: str | None = None
    ) -> None:
        """`kernels` picks the arithmetic ("avx512", "avx2", "portable"); results are the same."""
        self.profile = profile
        self.policy = policy or Policy()
        self.breakpoints: set[int] = set()
        self.trace_window: tuple[int, int] | None = None
        # Called between slices of a run with the tick reached; long runs show progress with it. When
        # it gives True the run stops in that tick, as by `until_cycle`.
        self.on_progress: Callable[[int], bool | None] | None = None
        self._core = _native.AtlasMachine(
            _rows(profile), _settings(profile, self.policy), kernels or ""
        )
        self._outcome: Outcome | None = None
        self._breakpoints_sent: frozenset[int] = frozenset()
        self.program = Program.from_instructions([])

    @property
    def kernels(self) -> str:
        """Which arithmetic is in use."""
        return self._core.kernels

    # --- loading and state --------------------------------------------------------

    def load(self, program: Program, keep_memory: bool = False) -> None:
        """Take a program, reset, and place its data.

        With `keep_memory` DRAM and VMEM stay as they are: the next part of a longer program.
        """
        opcodes = np.ascontiguousarray(program.opcodes, np.uint8)
        operands = np.ascontiguousarray(program.operands, np.int32)
        try:
            self._core.load(opcodes, operands, *([True] if keep_memory else []))
        except (ValueError, TypeError) as error:
            raise TilewrightError("TW3010", f"the program cannot be loaded: {error}") from None
        self.program = program
        self._outcome = None
        self._breakpoints_sent = frozenset()
        for data in program.data:
            self.write(data.space, data.address, data.bytes)

    def reset(self) -> None:
        """Back to tick 0 with the initial state of the policy; the program stays."""
        self._core.reset()
        self._outcome = None

    @property
    def cycles(self) -> int:
        return self._core.tick

    @property
    def next_index(self) -> int | None:
        """At a claim point: the instruction that decode claims next."""
        index = self._core.next_address // self.profile.pc_step
        return index if index < len(self.program) else None

    @property
    def statistics(self) -> Statistics:
        raw = self._core.statistics()
        uses = [UnitUse(*pair) for pair in zip(raw["operations"], raw["busy"], strict=True)]
        counts = np.frombuffer(raw["counts"], np.int64).reshape(-1, 2)
        return Statistics(
            cycles=self._core.tick,
            instructions=raw["instructions"],
            units=dict(zip(self.profile.units, uses, strict=True)),
            dma_loaded=raw["dma_loaded"],
            dma_stored=raw["dma_stored"],
            lost=dict(zip(CAUSES, raw["lost"], strict=True)),
            executions=counts[:, 0].copy(),
            issue_ticks=counts[:, 1].copy(),
        )

    @property
    def faults(self) -> list[Fault]:
        """Faults so far; more than one only when hazards are recorded."""
        return [self._fault(*raw) for raw in self._core.faults(0)]

    def _fault(self, kind: str, index: int, tick: int, stopping: bool, message: str) -> Fault:
        line = self.program.location(index).line
        place = f" (line {line})" if stopping and line else ""
        mnemonic = OPCODES[self.program.opcodes[index]].mnemonic
        pc = index * self.profile.pc_step
        return Fault(kind, index, pc, tick, f"{mnemonic}{place}: {message}")

    @property
    def trace(self) -> np.ndarray:
        """Rows of `TRACE_ROW` inside `trace_window`, in dispatch order."""
        if self.trace_window is None:
            return np.zeros(0, TRACE_ROW)
        self._send_window()
        return np.frombuffer(self._core.trace(), TRACE_ROW).copy()

    def _send_window(self) -> None:
        first, last = self.trace_window or (0, 0)
        limited = (max(-NEVER, min(NEVER, tick)) for tick in (first, last))
        self._core.set_trace(self.trace_window is not None, *limited)

    def read(self, space: str, address: int, count: int) -> bytes:
        self._check_range(space, address, count)
        return self._core.read(space, address, count)

    def write(self, space: str, address: int, data: bytes) -> None:
        self._check_range(space, address, len(data))
        self._core.write(space, address, bytes(data))

    def _check_range(self, space: str, address: int, count: int) -> None:
        sizes = {"dram": self.profile.dram_bytes, "vmem": self.profile.vmem_bytes}
        if space not in sizes:
            raise ValueError(f"no memory {space!r}; there are dram and vmem")
        if address < 0 or count < 0 or address + count > sizes[space]:
            raise ValueError(
                f"{count} bytes at {address:#x} are outside {space} of {sizes[space]} bytes"
            )

    def read_register(self, name: str) -> int | bytes:
        if name == "pc":
            return self._core.read_number("pc", 0)
        kind, place = parse_register(name)
        if kind in ("m", "w", "acc"):
            return self._core.read_tile(kind, _flat(place))
        return self._core.read_number(kind, _flat(place))

    def write_register(self, name: str, value: int | bytes) -> None:
        kind, place = parse_register(name)
        if kind in ("m", "w", "acc"):
            size = 2048 if kind == "acc" else 1024
            if not isinstance(value, (bytes, bytearray, memoryview)) or len(value) != size:
                raise ValueError(f"{name} takes {size} bytes")
            self._core.write_tile(kind, _flat(place), bytes(value))
        elif isinstance(value, int):
            low, high = value & (2**64 - 1), (value >> 64) & (2**64 - 1)
            self._core.write_number(kind, _flat(place), low, high)
        else:
            raise ValueError(f"{name} takes a number")

    def watch(self, space: str, address: int = 0, size: int = 1) -> None:
        """Stop when bytes of "dram" or "vmem", or the register named by `space`, change."""
        if space in ("dram", "vmem"):
            self._check_range(space, address, size)
        self.unwatch(space, address, size)
        self._core.watch(_canonical(space), address, size)

    def unwatch(self, space: str, address: int = 0, size: int = 1) -> None:
        self._core.unwatch(_canonical(space), address, size)

    def snapshot(self) -> object:
        """Everything that changes while running, to hand to `restore`."""
        return (self.program, self._core.snapshot(), self._outcome)

    def restore(self, snapshot: object) -> None:
        program, state, outcome = _parts(snapshot)
        if program is not self.program and not program.same_code(self.program):
            raise ValueError("the snapshot was taken with another program")
        self._core.restore(state)
        self._outcome = outcome

    def pack(self, snapshot: object, base: object) -> dict[str, bytes]:
        """A snapshot of a run that goes on, as bytes by name: memory where it differs from the base's."""
        _, state, _ = _parts(snapshot)
        return dict(zip(PACKED, self._core.pack(state, _parts(base)[1]), strict=True))

    def unpack(self, packed: Mapping[str, np.ndarray], base: object) -> object:
        """The snapshot again; the program it was taken with is loaded. ValueError: it is none."""
        arrays = [np.ascontiguousarray(packed[name]) for name in PACKED]
        for place in (1, 3):
            arrays[place] = _addresses(arrays[place])
        return (self.program, self._core.unpack(_parts(base)[1], *arrays), None)

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
        """Continue until something stops the run; all limits but max_instructions are absolute.

        The work is done in slices, so that Ctrl-C and `on_progress` work in between; another
        thread may run meanwhile.
        """
        if self._outcome is not None:
            return self._outcome
        core = self._core
        limit = min(NEVER if t is None else t for t in (max_cycles, until_cycle))
        limit = max(-1, limit)
        target = NEVER
        if max_instructions is not None:
            target = max(-1, min(NEVER, core.instructions + max_instructions))
        index = -1
        if until_pc is not None and until_pc % self.profile.pc_step == 0:
            index = until_pc // self.profile.pc_step
            index = index if 0 <= index < len(self.program) else -1
        if self._breakpoints_sent != self.breakpoints:
            self._breakpoints_sent = frozenset(self.breakpoints)
            core.set_breakpoints(sorted(i for i in self.breakpoints if 0 <= i < NEVER))
        self._send_window()
        while (reason := core.run(limit, target, index, SLICE)) == "slice":
            if self.on_progress is not None and self.on_progress(core.claim):
                limit = min(limit, core.claim)
        if reason == "fault":
            self._outcome = Outcome("fault", core.tick, self.faults[-1])
        elif reason in ("end", "halt"):
            self._outcome = Outcome(reason, core.tick)
        elif reason == "limit" and (max_cycles is None or core.tick < max_cycles):
            return Outcome("until", core.tick)
        return self._outcome or Outcome(reason, core.tick)


def _addresses(packed: np.ndarray) -> np.ndarray:
    """Addresses from bytes, which may begin anywhere in a file: native code wants them aligned."""
    if len(packed) % 8:
        raise ValueError("an address of memory is cut short")
    return packed.view("<u8").astype(np.uint64, copy=True)


def _parts(snapshot: object) -> tuple[Program, _native.AtlasSnapshot, Outcome | None]:
    match snapshot:
        case (Program() as program, _native.AtlasSnapshot() as state, outcome):
            return program, state, outcome
        case _:
            raise ValueError("this is not a snapshot of a native machine")


def _canonical(space: str) -> str:
    """A memory or register by the one name the core knows it by: x05 is x5."""
    if space in ("dram", "vmem", "pc"):
        return space
    kind, place = parse_register(space)
    return f"{kind}{place[0]}" if kind in ("x", "e", "m", "csr") else space


def _flat(place: tuple[int, ...]) -> int:
    """Number of a register; slots of the matrix units count 0…3."""
    return place[0] if len(place) == 1 else sum(p << k for k, p in enumerate(reversed(place)))


# --- what the core is told about the machine ----------------------------------------------


@lru_cache(maxsize=16)
def _rows(profile: Profile) -> list[dict[str, Any]]:
    """One entry per row of the table, with the profile's numbers."""
    return [_row(profile, opcode) for opcode in OPCODES]


def _row(profile: Profile, opcode: Opcode) -> dict[str, Any]:
    timing = profile.timing_of(opcode)
    kinds = {"delay": "delay", "dma_wait": "wait", "dma_config": "dma_config"}
    kind = kinds.get(opcode.timing)
    if opcode.timing == "dma_transfer":
        kind = opcode.effect.replace(".", "_")
    if kind is None:
        kind = "scalar" if timing.unit == "SCALAR" else "unit"
    return {
        "mnemonic": opcode.mnemonic,
        "effect": opcode.effect,
        "kind": kind,
        "unit": profile.position.get(timing.unit, 0),
        "latency": max(1, timing.latency),
        "interval": max(1, timing.interval),
        "present": profile.has(opcode),
        "transfer": opcode.is_transfer,
        "tensor_memory": opcode.memory in ("tensor load", "tensor store"),
        "bytes": opcode.bytes,
        "mxu": opcode.mxu or 0,
        "operands": [_operand(profile, operand) for operand in opcode.operands],
    }


def _operand(profile: Profile, operand: Operand) -> dict[str, Any]:
    low, high = -(2**31), 2**31 - 1
    if operand.kind is not Kind.IMM:
        low, high = 0, REGISTER_COUNT[operand.kind] - 1
    elif operand.immediate and operand.immediate.name in _BOUNDED:
        low, high = operand.immediate.low, operand.immediate.high
    tensor = operand.kind is Kind.M
    return {
        "key": operand.key,
        "kind": operand.kind.value,
        "low": low,
        "high": high,
        "span": profile.span(operand) if tensor else 1,
        "footprint": profile.footprint(operand) if tensor else 1,
    }


def _settings(profile: Profile, policy: Policy) -> dict[str, Any]:
    record = policy.hazards == "record"
    choice = "stall" if record else policy.hazards
    override = choice in ("fault", "stall")
    conflict = profile.conflict
    if override and not (record and conflict == "ignore"):
        conflict = choice
    return {
        "units": list(profile.units),
        "pc_step": profile.pc_step,
        "delay_slots": profile.delay_slots,
        "halts": profile.halts,
        "busy": choice if override else profile.busy_unit,
        "conflict": conflict,
        "channel": "stall" if choice == "stall" else "fault",
        "record": record,
        "note_busy": profile.busy_unit == "fault",
        "note_conflict": profile.conflict == "fault",
        "transfer_in_slot_faults": profile.delay_slot_transfer == "fault",
        "dma_policy": policy.dma,
        "compat": policy.compat,
        "initial": policy.initial,
        "seed": policy.seed & (2**64 - 1),
        "vmem_bytes": profile.vmem_bytes,
        "dram_bytes": profile.dram_bytes,
        "tile_registers": profile.tile_registers,
        "fill_bits": profile.fill == "bits",
        "pop_divides": profile.pop_fp8 == "divide",
        "row_sum_quarters": profile.row_sum == "four_lanes",
        "column_sum_halves": profile.column_sum == "two_halves",
        "dma": asdict(profile.dma),
        "accidents": asdict(profile.accidents),
    }
