"""What runs compiled entries: the machine with values and time, and the reference without tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import (
    Counters,
    DeviceOptions,
    DevicePart,
    Port,
    StepCall,
    StepValues,
    Watch,
)
from tilewright.targets.port_types import PORT_TYPES, rounded
from tilewright.targets.vpu.lowering.network import Call
from tilewright.targets.vpu.model.entry import CompiledEntry
from tilewright.targets.vpu.model.tracing import Span, trace_of
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.table import kernels
from tilewright.targets.vpu.reference.executor import run_network
from tilewright.targets.vpu.simulator import Run, simulate
from tilewright.targets.vpu.task_list import DDR
from tilewright.targets.vpu.values import Bytes, ValueMachine
from tilewright.trace.model import TraceModel

_UNITS = {"dma": "DMA", "dpu": "DPU", "shave": "SHAVE"}


class VpuReference:
    """Whole tensors by their definitions: no tasks, no memory, no time."""

    def __init__(self, entries: Mapping[str, CompiledEntry], first: Mapping[str, int]) -> None:
        self.entries, self.first = entries, first
        self.memory: dict[str, np.ndarray] = {}
        self.calls: list[StepCall] = []
        self.counters = Counters()

    def begin(self) -> None:
        self.calls = []
        self.counters = Counters()

    @property
    def cycles(self) -> int:
        return self.counters.cycles

    def write(self, port: Port, value: np.ndarray) -> None:
        name = port.tensor or port.name
        held = self._held(name)
        if held is None:
            self.memory[name] = np.array(value)
            return
        turned = value if port.encoding is None else value.transpose(port.encoding.order)
        self.memory[name] = np.array(rounded(np.ascontiguousarray(turned), held))

    def read(self, port: Port) -> np.ndarray:
        value = self.memory[port.tensor or port.name]
        if port.encoding is not None:
            value = value.transpose(np.argsort(port.encoding.order))
        return value.reshape(port.shape).astype(PORT_TYPES[port.dtype], copy=False)

    def _held(self, name: str) -> str | None:
        """The type in which state is held."""
        for entry in self.entries.values():
            if name in entry.state:
                return entry.network.values[entry.inputs[name]].dtype
        return None

    def trace(self) -> TraceModel | None:
        return None

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        entry = self.entries[part.entry]
        inputs = {name: self.memory[port] for port, name in entry.inputs.items()}
        try:
            known = run_network(entry.network, inputs)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError):
            # Attributes of a bundle's calls are whatever stood in the file.
            raise TilewrightError(
                "TW7034", f"the reference of {entry.name} is damaged", hint="compile it again"
            ) from None
        for number, call in enumerate(entry.network.calls):
            if watch is not None:
                reads = {role: known[name] for role, name in call.operands.items()}
                watch(
                    StepValues(
                        self.first[entry.name] + number, 0, reads, {"out": known[call.result]},
                        dict(call.operands),
                    )
                )  # fmt: skip
        for port, name in entry.outputs.items():
            self.memory[port] = known[name]


class VpuDevice(VpuReference):
    """Task lists on the simulator, byte by byte."""

    simulator = "events"

    def __init__(
        self, entries: Mapping[str, CompiledEntry], first: Mapping[str, int], options: DeviceOptions
    ) -> None:
        super().__init__(entries, first)
        self.options = options
        self._images: dict[str, np.ndarray] = {}
        self._spans: list[Span] = []

    def begin(self) -> None:
        super().begin()
        self._spans = []

    def trace(self) -> TraceModel | None:
        return trace_of(self._spans, self.options.window or (0, self.cycles))

    # --- state --------------------------------------------------------------------------

    def keeps(self, port: Port) -> bool:
        return port.tensor is not None and self._held(port.tensor) is not None

    def row_dimension(self, port: Port) -> int | None:
        """The first dimension of several."""
        return next((d for d, size in enumerate(port.shape) if size > 1), None)

    def write(self, port: Port, value: np.ndarray) -> None:
        if not self.keeps(port):
            super().write(port, value)
            return
        for held, dtype in self._state(port):
            held[...] = rounded(value, dtype).reshape(held.shape)

    def write_rows(self, port: Port, value: np.ndarray, first: int, end: int) -> None:
        dimension = self.row_dimension(port)
        assert dimension is not None, "the state has no rows"
        part = (slice(None),) * dimension + (slice(first, end),)
        for held, dtype in self._state(port):
            held[part] = rounded(value[part], dtype)

    def read(self, port: Port) -> np.ndarray:
        if not self.keeps(port):
            return super().read(port)
        held, _ = next(self._state(port))
        return held.reshape(port.shape).astype(PORT_TYPES[port.dtype])

    def _state(self, port: Port) -> Iterator[tuple[np.ndarray, str]]:
        """A state where the entries that read it have it, in the port's order, and its type."""
        for entry in self.entries.values():
            if port.tensor in entry.state:
                name = entry.inputs[port.tensor]
                held = entry.view_of(self._image(entry), name)
                if port.encoding is not None:
                    held = held.transpose(np.argsort(port.encoding.order))
                yield held, entry.network.values[name].dtype

    def _image(self, entry: CompiledEntry) -> np.ndarray:
        """DDR between runs: constants and state."""
        if entry.name not in self._images:
            self._images[entry.name] = entry.image()
        return self._images[entry.name]

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        entry = self.entries[part.entry]
        ddr = self._image(entry).copy()
        for port, name in entry.inputs.items():
            if port in entry.state:
                continue
            value = entry.network.values[name]
            array = np.ascontiguousarray(self.memory[port]).astype(DTYPES[value.dtype], copy=False)
            entry.rows_of(ddr, name)[...] = array.reshape(value.rows, value.width)
        machine = _Watched(entry, ddr, watch is not None)
        run = simulate(entry.program.tasks, None, machine)
        if run.stuck:
            raise TilewrightError("TW7061", f"the task list of {entry.name} does not finish")
        if machine.torn:
            raise TilewrightError("TW7062", f"{machine.torn[0]} reads what is being written")
        if self.options.max_cycles and self.cycles + run.makespan > self.options.max_cycles:
            raise TilewrightError(
                "TW3013", f"the model takes more than {self.options.max_cycles:,} cycles"
            )
        memory = machine.spaces[DDR]
        for _, first, end in entry.state_ranges():  # what a run does to it, stays
            self._image(entry)[first:end] = memory[first:end]
        for port, name in entry.outputs.items():
            value = entry.network.values[name]
            self.memory[port] = entry.rows_of(memory, name).reshape(value.shape).copy()
        if watch is not None:
            machine.report(watch, self.first[entry.name])
        if self.options.window is not None:
            self._spans.append(Span(entry, run, self.cycles))
        self._count(entry, run)
        if self.options.progress is not None:
            self.options.progress(len(self.calls), len(self.calls), self.cycles)

    def _count(self, entry: CompiledEntry, run: Run) -> None:
        """Times of the calls, and what the engines did: all engines of a kind are one unit."""
        start = self.counters.cycles
        target = entry.program.tasks.machine
        engines = {
            "dma": target.dma_ports,
            "dpu": target.dpus * target.tiles,
            "shave": target.shaves * target.tiles,
        }
        totals: dict[str, int] = {}
        spans: dict[int, list[int]] = {}
        busy: dict[int, dict[str, int]] = {}
        moved: dict[int, list[int]] = {}
        counters = self.counters
        for number, item in enumerate(entry.program.tasks.tasks.values()):
            cycles = run.end[number] - run.start[number]
            totals[item.engine] = totals.get(item.engine, 0) + cycles
            loaded = sum(r.bytes * r.count for r in item.reads if r.space == DDR)
            stored = sum(r.bytes * r.count for r in item.writes if r.space == DDR)
            counters.loaded += loaded
            counters.stored += stored
            owner = entry.owners.get(item.task or "")
            if owner is None:
                continue
            span = spans.setdefault(owner, [run.start[number], run.end[number]])
            span[0], span[1] = min(span[0], run.start[number]), max(span[1], run.end[number])
            own = busy.setdefault(owner, {})
            own[item.engine] = own.get(item.engine, 0) + cycles
            bytes_ = moved.setdefault(owner, [0, 0])
            bytes_[0] += loaded
            bytes_[1] += stored
        for engine, cycles in totals.items():
            unit = _UNITS[engine]
            counters.busy[unit] = counters.busy.get(unit, 0) + cycles // engines[engine]
        counters.instructions += len(run.names)
        counters.cycles += run.makespan
        for number, call in enumerate(entry.network.calls):
            first, last = spans.get(number, [0, 0])
            shares = {
                _UNITS[engine]: cycles // engines[engine]
                for engine, cycles in busy.get(number, {}).items()
            }
            self.calls.append(
                StepCall(
                    self.first[entry.name] + number, 0, call.name, start + first, start + last,
                    shares, *moved.get(number, [0, 0]),
                )
            )  # fmt: skip


class _Watched(ValueMachine):
    """The value machine, which also keeps what tasks compute of the values of the network."""

    def __init__(self, entry: CompiledEntry, ddr: Bytes, keep: bool) -> None:
        program = entry.program
        super().__init__(program.tasks, program.operations, kernels(), ddr, 0)
        self.entry, self.keep = entry, keep
        self.values: dict[str, np.ndarray] = {}
        self.filled: dict[str, int] = {}

    def end(self, task: int, cycle: int) -> None:
        super().end(task, cycle)
        name = self.items[task].task
        place = self.entry.places.get(name) if self.keep and name else None
        if place is None:
            return
        value = self.entry.network.values[place.value]
        if place.value not in self.values:
            self.values[place.value] = np.zeros((value.rows, value.width), DTYPES[value.dtype])
        content = self.read(self.items[task].writes[0]).view(DTYPES[value.dtype])
        shape = (len(place.rows), len(place.columns))
        self.values[place.value][
            place.rows.start : place.rows.stop, place.columns.start : place.columns.stop
        ] = content.reshape(shape)
        self.filled[place.value] = self.filled.get(place.value, 0) + content.size

    def report(self, watch: Watch, first: int) -> None:
        """What is known of every call's result."""
        for number, call in enumerate(self.entry.network.calls):
            watch(StepValues(first + number, 0, {}, self._seen(call)))

    def _seen(self, call: Call) -> dict[str, np.ndarray]:
        value = self.entry.network.values[call.result]
        if self.filled.get(call.result, 0) != value.rows * value.width:
            return {}
        return {"out": self.values[call.result].reshape(value.shape)}
