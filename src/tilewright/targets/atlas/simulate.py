"""Load a program and its data, run it on a machine, compare and dump what it left in memory.

`simulate` is the whole of it in one call:

    result = simulate("kernel.S", memory={0x0: a, "vmem:0x400": w}, trace=True)
    result.cycles, result.fault, result.read(0x2000, "bf16", (32, 32))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.io.tensor_files import Tensor, element_type, write_tensor
from tilewright.reference.tolerance import Comparison, compare
from tilewright.targets.atlas.machines import Machine, make_machine
from tilewright.targets.atlas.outcome import Fault, Outcome, Statistics
from tilewright.targets.atlas.placement import (
    Dump,
    Expectation,
    Place,
    Placement,
    check_places,
    parse_place,
)
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.tracing import FOREVER, Recorder, build_trace
from tilewright.trace.model import TraceModel

Progress = Callable[[int], None]  # called with the tick reached
Memory = Mapping[Any, np.ndarray | bytes] | Sequence[Placement]  # keys: addresses

_CHUNK = 16 << 20  # bytes moved in or out of a machine at a time
_SLICE_SECONDS = 0.1  # how long to run between two reports of progress
_FIRST_SLICE = 4096
_REGISTERS = [*(f"x{i}" for i in range(32)), *(f"e{i}" for i in range(32)), "dma.base", "pc"]


@dataclass(frozen=True)
class Stop:
    """Stop when instruction `index` is about to be claimed for the `count`-th time."""

    index: int
    count: int = 1
    reason: str = "breakpoint"


@dataclass(frozen=True)
class Expected:
    """An expectation and what came of it."""

    expectation: Expectation
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        worst = self.comparison.worst
        tensor, place = self.expectation.tensor, self.expectation.place
        tolerance = self.expectation.tolerance
        result: dict[str, Any] = {
            "file": tensor.name,
            "address": str(place),
            "type": tensor.element,
            "shape": list(tensor.array.shape),
            "rtol": tolerance.relative if tolerance else None,
            "atol": tolerance.absolute if tolerance else None,
            "holds": self.comparison.holds,
            "elements": self.comparison.elements,
            "different": self.comparison.different,
            "worst": None,
        }
        if worst:
            result["worst"] = {
                "index": list(worst.index),
                "address": str(
                    Place(place.space, place.address + worst.flat * tensor.array.dtype.itemsize)
                ),
                "expected": _finite(worst.expected),
                "actual": _finite(worst.actual),
                "error": _finite(worst.error),
            }
        return result


@dataclass
class Result:
    """What a run did, and the machine it left behind."""

    program: Program
    profile: Profile
    policy: Policy
    machine: Machine
    machine_name: str
    outcome: Outcome
    run_seconds: float
    stopped_at: Stop | None = None
    expected: list[Expected] = field(default_factory=list)
    recorder: Recorder | None = None

    @property
    def cycles(self) -> int:
        return self.outcome.cycles

    @property
    def halted(self) -> str:
        return self.outcome.reason

    @property
    def fault(self) -> Fault | None:
        return self.outcome.fault

    @property
    def faults(self) -> list[Fault]:
        """Every fault: the one that stopped the run, or all that the record policy noted."""
        return list(self.machine.faults)

    @property
    def statistics(self) -> Statistics:
        return self.machine.statistics

    @property
    def ok(self) -> bool:
        """Whether nothing faulted and every expectation holds."""
        return not self.faults and all(e.comparison.holds for e in self.expected)

    @property
    def trace(self) -> TraceModel:
        """What happened when, for `report.perfetto` and `report.timeline`."""
        if self.recorder is None:
            raise TilewrightError("TW4001", "the run was not traced", hint="pass trace=True")
        return build_trace(self)

    def read(
        self,
        place: int | str,
        element: str | np.dtype[Any] = "u8",
        shape: int | tuple[int, ...] = (),
    ) -> np.ndarray:
        """An array out of memory: `result.read(0x2000, "bf16", (32, 32))`."""
        where = _as_place(place)
        dtype = element_type(element) if isinstance(element, str) else np.dtype(element)
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        count = int(np.prod(lengths, dtype=np.int64)) * dtype.itemsize
        check_places(self.profile, (), [Dump(where, count, "read")], ())
        raw = read_memory(self.machine, where, count)
        return np.frombuffer(raw, np.uint8).view(dtype).reshape(lengths)

    def registers(self) -> dict[str, int]:
        """Scalar and scale registers by name."""
        values = {name: self.machine.read_register(name) for name in _REGISTERS}
        return {name: int(value) for name, value in values.items() if isinstance(value, int)}

    def to_json(self, hot: int = 10) -> dict[str, Any]:
        """The object that `tilewright sim --json` prints."""
        from tilewright.targets.atlas.statistics import statistics_json

        return {
            "program": self.program.source,
            "profile": self.profile.name,
            "machine": self.machine_name,
            "policy": _policy_json(self.policy),
            **statistics_json(self.statistics, self.program, hot),
            "cycles": self.cycles,
            "run_seconds": self.run_seconds,
            "halted": self.halted,
            "fault": self.fault.to_json() if self.fault else None,
            "faults": [fault.to_json() for fault in self.faults],
            "expectations": [e.to_json() for e in self.expected],
        }


def simulate(
    program: Program | str | Path,
    *,
    profile: Profile | str = "atlas-v1",
    memory: Memory = (),
    expect: Sequence[Expectation] = (),
    policy: Policy | str = Policy(),  # noqa: B008 - frozen
    machine: str | None = None,
    max_cycles: int | None = None,
    stop_cycle: int | None = None,
    stops: Sequence[Stop] = (),
    trace: bool | tuple[int, int] = False,
    progress: Progress | None = None,
) -> Result:
    """Run a program to its end (or a limit) and check expectations.

    memory: arrays by address (`0x400`, `"vmem:0"`), placed over the program's own data.
    trace: True to trace the whole run, or the first and last tick to keep.
    """
    profile = load_profile(profile) if isinstance(profile, str) else profile
    policy = Policy.parse(policy) if isinstance(policy, str) else policy
    if not isinstance(program, Program):
        from tilewright.targets.atlas.files import read_program

        program = read_program(str(program), profile)
    placements = _placements(memory)
    check_places(profile, placements, (), expect)
    for data in program.data:
        size = profile.vmem_bytes if data.space == "vmem" else profile.dram_bytes
        if data.address + len(data.bytes) > size:
            raise TilewrightError(
                "TW3033",
                f"{program.source} places {len(data.bytes)} bytes at {data.address:#x}, "
                f"{data.space.upper()} of {profile.name} has {size} bytes",
            )
    engine = make_machine(profile, policy, machine)
    engine.load(program)
    for placement in placements:
        write_memory(engine, placement.place, placement.tensor)
    recorder = None
    if trace is not False:
        recorder = Recorder(engine, program, (0, FOREVER) if trace is True else trace)
    outcome, seconds, stop = drive(engine, max_cycles, stop_cycle, list(stops), recorder, progress)
    name = "python" if type(engine).__name__ == "PythonMachine" else "native"
    result = Result(program, profile, policy, engine, name, outcome, seconds, stop)
    result.recorder = recorder
    result.expected = [_check(engine, expectation) for expectation in expect]
    return result


def dump(result: Result, what: Dump) -> None:
    """Write a range of memory to a file."""
    write_tensor(what.file, read_memory(result.machine, what.place, what.count))


def write_memory(machine: Machine, place: Place, tensor: Tensor) -> None:
    for start in range(0, tensor.size, _CHUNK):
        piece = tensor.raw(start, min(start + _CHUNK, tensor.size))
        machine.write(place.space, place.address + start, piece)


def read_memory(machine: Machine, place: Place, count: int) -> bytes:
    pieces = []
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        pieces.append(machine.read(place.space, place.address + start, size))
    return b"".join(pieces)


def _placements(memory: Memory) -> list[Placement]:
    if not isinstance(memory, Mapping):
        return list(memory)
    result = []
    for key, value in memory.items():
        place = _as_place(key)
        array = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value)
        result.append(Placement(Tensor(f"memory[{place}]", array, True), place))
    return result


def _as_place(place: int | str) -> Place:
    return Place("dram", place) if isinstance(place, int) else parse_place(place)


def _check(machine: Machine, expectation: Expectation) -> Expected:
    tensor = expectation.tensor
    raw = read_memory(machine, expectation.place, tensor.size)
    actual = np.frombuffer(raw, np.uint8).view(tensor.array.dtype)
    expected = np.ascontiguousarray(tensor.array).reshape(tensor.array.shape)
    outcome = compare(expected, actual, expectation.tolerance)
    return Expected(expectation, outcome)


def drive(
    machine: Machine,
    max_cycles: int | None,
    stop_cycle: int | None,
    stops: list[Stop],
    recorder: Recorder | None,
    progress: Progress | None,
) -> tuple[Outcome, float, Stop | None]:
    """Run in slices until something other than the end of a slice stops the machine.

    Slices let a person see progress and interrupt; they do not change what the machine does.
    """
    arrivals = dict.fromkeys((stop.index for stop in stops), 0)
    seconds, length, now = 0.0, _FIRST_SLICE, 0
    while True:
        machine.breakpoints = set(arrivals)
        target = min(now + length, FOREVER if stop_cycle is None else stop_cycle)
        closing = recorder is not None and recorder.closes(now)
        single = recorder is not None and now != stop_cycle and (closing or recorder.steps(now))
        if single:
            # Only one limit, or the two reasons to stop could not be told apart.
            target = stop_cycle
        elif recorder is not None:
            target = recorder.arm(now, target)
        begin = time.perf_counter()
        outcome = machine.run(
            max_cycles=max_cycles, until_cycle=target, max_instructions=1 if single else None
        )
        spent = time.perf_counter() - begin
        seconds += spent
        now = outcome.cycles
        if closing and recorder is not None:
            recorder.close(now)
        stepped = single and outcome.reason == "until" and now != stop_cycle
        if outcome.reason == "breakpoint" or stepped:
            if recorder is not None:
                recorder.note(now)
            index = machine.next_index
            if index in arrivals:
                arrivals[index] += 1
            for stop in stops:
                if stop.index == index and stop.count == arrivals[stop.index]:
                    return replace(outcome, reason=stop.reason), seconds, stop
        elif outcome.reason != "until" or (now == stop_cycle and not single):
            return outcome, seconds, None
        elif spent < _SLICE_SECONDS / 2:
            length = min(length * 2, 1 << 40)
        elif spent > 2 * _SLICE_SECONDS:
            length = max(length // 2, _FIRST_SLICE)
        if progress is not None:
            progress(now)


def _policy_json(policy: Policy) -> dict[str, Any]:
    return {
        "hazards": policy.hazards,
        "initial": policy.initial,
        "dma": policy.dma,
        "seed": policy.seed,
        "compat": policy.compat,
    }


def _finite(value: float | int) -> float | int | str:
    """A number JSON can hold; NaN and infinities as text."""
    return value if isinstance(value, int) or np.isfinite(value) else str(value)
