"""Run a program on the simulated core: load, write inputs by symbol, run, read outputs, counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.coral import _coral
from tilewright.targets.coral.elf import Elf, Symbol, check_loadable, parse_elf, read_elf
from tilewright.targets.coral.machines import CoralMachine, Memory, machine_named

DEFAULT_LIMIT = 2_000_000_000
TIMING_TABLE = _coral.TIMING_TABLE
NEVER_RETURNED = 0x0BADD00D
MOST_STEPS = 2048  # whose time is told apart


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a program is run; the defaults are those of the command."""

    timing: bool = True
    trap: str = "stop"  # or "vector": architectural traps go to mtvec
    agnostic_ones: bool = False
    check_uninitialised: bool = False
    check_readonly: bool = False
    check_fused: bool = False
    external: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a run ended early."""

    kind: str
    pc: int
    address: int
    symbol: str | None  # nearest to the address, or to the program counter
    function: str | None

    def __str__(self) -> str:
        where = f"at {self.pc:#x}" + (f" in {self.function}" if self.function else "")
        what = (
            f" address {self.address:#x}" if self.kind.endswith(("bounds", "read", "write")) else ""
        )
        near = f" ({self.symbol})" if self.symbol and what else ""
        return f"{self.kind}{what}{near} {where}"

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "pc": self.pc,
            "address": self.address,
            "symbol": self.symbol,
            "function": self.function,
        }


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    halted: bool
    fault: Fault | None
    ret: int | None
    instructions: int
    cycles: int | None
    region_instructions: int | None
    region_cycles: int | None
    stack_low: int | None
    taken_branches: int
    classes: dict[str, int]
    traffic: dict[str, tuple[int, int]]  # bytes read, bytes written
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)  # instructions, cycles by op

    @property
    def ok(self) -> bool:
        """The host's verdict: halted without fault, and main returned 0."""
        return self.halted and self.fault is None and self.ret in (0, None)

    def to_json(self) -> dict[str, object]:
        return {
            "halted": self.halted,
            "fault": self.fault.to_json() if self.fault else None,
            "ret": self.ret,
            "ok": self.ok,
            "instructions": self.instructions,
            "cycles": self.cycles,
            "cycles_are": f"estimated (table {TIMING_TABLE})" if self.cycles is not None else None,
            "region": {"instructions": self.region_instructions, "cycles": self.region_cycles},
            "stack_low": self.stack_low,
            "taken_branches": self.taken_branches,
            "classes": self.classes,
            "bytes": {n: {"read": r, "written": w} for n, (r, w) in self.traffic.items()},
            "steps": {n: {"instructions": i, "cycles": c} for n, (i, c) in self.steps.items()},
        }


class CoralSimulator:
    """One core with one program.

    >>> simulator = CoralSimulator.load("model.elf", "coral")
    >>> simulator.write("input_0", image)
    >>> outcome = simulator.run()
    >>> result = simulator.read("output_0", np.float32)
    """

    def __init__(
        self, elf: Elf, machine: CoralMachine | str = "coral", options: RunOptions | None = None
    ) -> None:
        self.elf = elf
        self.machine = machine_named(machine) if isinstance(machine, str) else machine
        self.options = options or RunOptions()
        if self.options.trap not in ("stop", "vector"):
            raise TilewrightError(
                "TW5006", f"there is no trap mode {self.options.trap}", hint="stop or vector"
            )
        self.memories = (*self.machine.memories, *self.options.external)
        check_loadable(elf, self.machine, self.memories)
        self._inputs: list[tuple[int, bytes]] = []
        self.core = self._make()

    @classmethod
    def load(
        cls,
        program: str | Path | bytes | Elf,
        machine: CoralMachine | str = "coral",
        options: RunOptions | None = None,
    ) -> CoralSimulator:
        if isinstance(program, bytes):
            program = parse_elf(program)
        elif not isinstance(program, Elf):
            program = read_elf(program)
        return cls(program, machine, options)

    def _make(self) -> _coral.Machine:
        chosen = self.options
        core = _coral.Machine(
            [(m.name, m.base, m.size, m.writable, m.timed) for m in self.memories],
            zba=self.machine.zba,
            vector=self.machine.vector,
            vector_float=self.machine.vector_float,
            timing=chosen.timing,
            vector_traps=chosen.trap == "vector",
            agnostic_ones=chosen.agnostic_ones,
            check_uninitialised=chosen.check_uninitialised,
            check_readonly=chosen.check_readonly,
            check_fused=chosen.check_fused,
        )
        for segment in self.elf.segments:
            core.write(segment.address, segment.data)
        symbols = self.elf.symbols
        bottom, top = symbols.get("__stack_bottom"), symbols.get("__stack_top")
        main = symbols.get("main")
        if bottom and top and main:
            core.set_stack(bottom.address, top.address, main.address)
        for section in self.elf.sections:
            if section.name.startswith((".rodata", ".srodata")) and section.size:
                core.add_readonly(section.address, min(section.address + section.size, 0xFFFFFFFF))
        names, owners = self._owners()
        self._step_names = names
        if names:
            core.set_owners(owners, len(names))
        core.start(self.elf.entry)
        return core

    def _owners(self) -> tuple[list[str], list[int]]:
        """Each word of code: the op it belongs to; kernels and helpers count to who called them."""
        functions = self.elf.functions()
        steps = [s for s in functions if s.name.startswith("op_") or s.name == "main"]
        words = self.machine.code.size // 4
        steps = [s for s in steps if s.address // 4 < words][:MOST_STEPS]
        if not steps:
            return [], []
        owners = [-1] * words
        names = [s.name for s in steps]
        for number, symbol in enumerate(steps):
            begin, end = symbol.address // 4, min((symbol.address + symbol.size) // 4, words)
            owners[begin:end] = [number] * max(end - begin, 0)
        start = self.elf.symbols.get("_start")
        if start is not None and start.address // 4 < words:
            # Start-up code states no size; it ends where the next function begins.
            end = min(
                (f.address for f in functions if f.address > start.address),
                default=start.address + 4,
            )
            for word in range(start.address // 4, min(end // 4, words)):
                owners[word] = len(names) if owners[word] < 0 else owners[word]
            names.append("_start")
        return names, owners

    def reset(self) -> None:
        """The core as after loading, without inputs."""
        self.core = self._make()

    def write(self, symbol: str, value: np.ndarray | bytes) -> None:
        """Bytes of an input; their count is the symbol's size."""
        data = value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes()
        place = self._extent(self.elf.symbol(symbol))
        if len(data) != place.size:
            raise TilewrightError(
                "TW5005",
                f"{symbol} has {place.size} bytes, {len(data)} were given",
                Location(self.elf.source),
            )
        self.core.write(place.address, data)

    def _extent(self, symbol: Symbol) -> Symbol:
        for memory in self.memories:
            inside = memory.base <= symbol.address < memory.base + memory.size
            if inside and symbol.address + symbol.size <= memory.base + memory.size:
                return symbol
        raise TilewrightError(
            "TW5004",
            f"{symbol.name} lies outside of the memory map",
            Location(self.elf.source),
        )

    def read(
        self, symbol: str, dtype: Any = None, shape: Iterable[int] | None = None
    ) -> np.ndarray:
        """An output as an array, by default of bytes."""
        place = self._extent(self.elf.symbol(symbol))
        data = self.core.read(place.address, place.size)
        array = np.frombuffer(data, dtype=np.dtype(dtype or np.uint8)).copy()
        return array if shape is None else array.reshape(tuple(shape))

    def run(self, max_instructions: int = DEFAULT_LIMIT) -> Outcome:
        """From where the core stands until it halts, faults, or the count is reached."""
        self.core.run(max_instructions)
        return self.outcome()

    def outcome(self) -> Outcome:
        core = self.core
        fault = None
        if core.fault is not None:
            kind, pc, address = core.fault
            code = self.machine.code
            function = self.elf.nearest(pc) if code.base <= pc < code.base + code.size else None
            has_address = kind.endswith(("bounds", "read", "write", "range"))
            symbol = self.elf.nearest(address if has_address else pc)
            fault = Fault(kind, pc, address, symbol, function)
        steps: dict[str, tuple[int, int]] = {}
        if self._step_names:
            instructions, cycles = core.owner_counts()
            steps = dict(zip(self._step_names, zip(instructions, cycles, strict=True), strict=True))
        return Outcome(
            core.halted,
            fault,
            self._word("_ret"),
            core.instructions,
            core.cycles,
            self._word("_instret") if core.halted else None,
            self._word("_mcycle") if core.halted and core.cycles is not None else None,
            core.stack_low,
            core.taken_branches,
            dict(core.classes()),
            {name: (read, written) for name, read, written in core.traffic()},
            steps,
        )

    def _word(self, symbol: str) -> int | None:
        found = self.elf.symbols.get(symbol)
        if found is None:
            return None
        try:
            return int.from_bytes(self.core.read(found.address, 4), "little")
        except IndexError:
            return None

    def profile(self) -> list[tuple[int, int, int]]:
        """(pc, count, cycles) of every instruction that ran."""
        cycles = self.core.cycle_counts()
        return [
            (4 * k, count, cycles[k] if k < len(cycles) else 0)
            for k, count in enumerate(self.core.counts())
            if count
        ]


class CoralNPUV2Simulator:
    """The same simulator under the method names of the vendor's Python binding."""

    def __init__(self, machine: str = "coral", highmem: bool = False) -> None:
        self._machine = "coral-highmem" if highmem else machine
        self._simulator: CoralSimulator | None = None

    def _loaded(self) -> CoralSimulator:
        if self._simulator is None:
            raise TilewrightError("TW5006", "no program is loaded", hint="call load_program first")
        return self._simulator

    def get_elf_entry_and_symbol(
        self, path: str | Path, names: Iterable[str]
    ) -> tuple[int, dict[str, int]]:
        elf = read_elf(path)
        return elf.entry, {name: elf.symbol(name).address for name in names}

    def load_program(self, path: str | Path, entry: int | None = None) -> None:
        self._simulator = CoralSimulator.load(path, self._machine)
        if entry is not None:
            self._simulator.core.start(entry)

    def write_memory(self, address: int, data: np.ndarray) -> None:
        self._loaded().core.write(address, np.ascontiguousarray(data).tobytes())

    def read_memory(self, address: int, size: int) -> np.ndarray:
        return np.frombuffer(self._loaded().core.read(address, size), dtype=np.uint8).copy()

    def run(self) -> None:
        self._loaded().run()

    def wait(self) -> None:
        """`run` returns when the core has stopped."""
        self._loaded()

    def get_cycle_count(self) -> int:
        return self._loaded().core.cycles or 0
