"""DRAM rates of the transfers of a design, and the bound its time cannot go below.

The rate of a transfer follows from its walk: the bytes of its contiguous runs, and whether another
channel's walk of the same shape continues where a run ends (neighbouring columns of a row-major
matrix), in which case DRAM pages are shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.targets.xdna.design import (
    Acquire,
    Call,
    Design,
    Loop,
    Parameter,
    Statement,
    Transfer,
)
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.kernel_time import kernel_time
from tilewright.targets.xdna.programs import parameters_of


@dataclass(frozen=True)
class Bound:
    """Seconds that no schedule of a design goes below, by resource."""

    compute: float
    channel: float
    dram: float

    @property
    def seconds(self) -> float:
        return max(self.compute, self.channel, self.dram)

    @property
    def binding(self) -> str:
        return max(("compute", "channel", "dram"), key=lambda name: getattr(self, name))


def transfer_rates(design: Design, device: ArrayDevice) -> dict[Transfer, float]:
    """Bytes per second of each transfer while it has the memory to itself."""
    moves = list(dict.fromkeys(s for s in design.runtime if isinstance(s, Transfer)))
    shapes: dict[tuple[object, ...], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for move in moves:
        shapes[move.buffer, move.sizes, move.strides][move.offset].add(move.fifo)
    runs: dict[tuple[object, ...], int] = {}
    rates = {}
    for move in moves:
        key = (move.buffer, move.sizes, move.strides)
        if key not in runs:
            runs[key] = move.pattern.run
        run = runs[key]
        offsets = shapes[key]
        adjacent = any(
            fifo != move.fifo
            for beside in (move.offset - run, move.offset + run)
            for fifo in offsets.get(beside, ())
        )
        size = design.fifo(move.fifo).object.element_bytes
        rates[move] = device.dram.rate(run * size, adjacent)
    return rates


def call_cycles(
    design: Design, device: ArrayDevice, kernel_rate: float | None = None
) -> dict[str, float]:
    """Cycles of one call of each kernel; `kernel_rate` replaces the scheduled multiplies."""
    cycles = {}
    for kernel in design.kernels:
        if kernel.kind == "zero":
            bytes_of_c = kernel.m * kernel.n * {"i8": 1, "i16": 2, "bf16": 2}.get(kernel.output, 4)
            cycles[kernel.name] = bytes_of_c / device.core.zero_bytes
        elif kernel.kind == "opaque":
            cycles[kernel.name] = 0.0  # nobody said what it does
        else:
            rate = kernel_rate or kernel_time(kernel, device).macs_per_cycle
            cycles[kernel.name] = kernel.m * kernel.k * kernel.n / rate
    return cycles


def _calls(body: tuple[Statement, ...], parameters: Mapping[int, int]) -> dict[str, int]:
    """How often a program calls each kernel."""
    found: dict[str, int] = defaultdict(int)
    for statement in body:
        if isinstance(statement, Call):
            found[statement.kernel] += 1
        elif isinstance(statement, Loop):
            count = statement.count
            times = parameters.get(count.index, 0) if isinstance(count, Parameter) else count
            for name, many in _calls(statement.body, parameters).items():
                found[name] += times * many
    return found


def lower_bound(
    design: Design, device: ArrayDevice | None = None, kernel_rate: float | None = None
) -> Bound:
    """Busiest core, busiest channel, all of DRAM: each alone, nothing waiting for anything."""
    device = device or design.device
    cycles = call_cycles(design, device, kernel_rate)
    compute = max(
        (
            sum(
                cycles.get(name, 0.0) * many
                for name, many in _calls(core.body, parameters_of(design, core.tile)).items()
            )
            for core in design.cores
        ),
        default=0.0,
    )
    rates = transfer_rates(design, device)
    dram = 0.0
    carried: dict[str, int] = defaultdict(int)
    for step in design.runtime:
        if isinstance(step, Transfer):
            size = step.pattern.count * design.fifo(step.fifo).object.element_bytes
            dram += size / rates[step]
            carried[step.fifo] += size
    shim = max(carried.values(), default=0) / device.shim_stream_bytes
    inner = 0.0
    for core in design.cores:
        parameters = parameters_of(design, core.tile)
        for fifo in design.fifos:
            if core.tile in fifo.consumers or core.tile == fifo.producer:
                many = _uses(core.body, fifo.name, parameters)
                inner = max(inner, many * fifo.object.bytes / device.stream_bytes)
    clock = device.clock_hz
    return Bound(compute / clock, max(shim, inner) / clock, dram)


def _uses(body: tuple[Statement, ...], fifo: str, parameters: Mapping[int, int]) -> int:
    """Objects of a FIFO that a program acquires."""
    total = 0
    for statement in body:
        if isinstance(statement, Acquire) and statement.fifo == fifo:
            total += statement.count
        elif isinstance(statement, Loop):
            count = statement.count
            times = parameters.get(count.index, 0) if isinstance(count, Parameter) else count
            total += times * _uses(statement.body, fifo, parameters)
    return total
