"""Library kernels on the simulator: results against the reference, cycles against the bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.bound import Bound, lower_bound, transfer_bound
from tilewright.targets.atlas.kernels.cases import CASES, Case, find_case
from tilewright.targets.atlas.kernels.registry import ENTRIES, Entry, entry
from tilewright.targets.atlas.machines import Machine, make_machine
from tilewright.targets.atlas.outcome import Statistics
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.work import ROW, Memory, Tensor, work_of

SUM = "mxu0.acc0"  # where accumulator parameters are
TRACED = 1_000_000  # instructions up to which the work is derived value by value
PROFILES = ("atlas-v0", "atlas-v1")


@dataclass
class Run:
    """One run of a compiled kernel."""

    entry: Entry
    compiled: Any
    inputs: Sequence[np.ndarray]
    machine: Machine
    statistics: Statistics

    @property
    def cycles(self) -> int:
        return self.statistics.cycles

    def results(self) -> list[np.ndarray]:
        """Bit patterns of the outputs."""
        arrays = []
        for name in self.compiled.outputs:
            if name in self.compiled.layouts:
                layout = self.compiled.layouts[name]
                raw = self.machine.read("dram", self.compiled.bases[name], layout.bytes)
                values = layout.unpack(raw)
                arrays.append(values.view(np.uint16 if layout.dtype == "bf16" else np.uint8))
            else:
                raw = self.machine.read_register(SUM)
                assert isinstance(raw, bytes)
                arrays.append(np.frombuffer(raw, "<u2").reshape(32, 32))
        return arrays

    @cached_property
    def bound(self) -> Bound:
        """The least cycles any program for this work takes."""
        compiled = self.compiled
        profile = compiled.profile
        tensors = {name: content_of(compiled, name) for name in compiled.layouts}
        results = [tensors[name] for name in compiled.outputs if name in tensors]
        given = [tensors[name] for name in compiled.inputs if name in tensors]
        if self.statistics.instructions > TRACED:
            loaded, stored = (ROW * sum(int(t.rows.sum()) for t in ts) for ts in (given, results))
            return transfer_bound(profile, loaded, stored)
        traced = execute(self.entry, compiled, self.inputs, trace=True)
        kept = [(0, 0)] if any(n not in compiled.layouts for n in compiled.outputs) else []
        order = traced.machine.trace["index"]
        memory = Memory(given, compiled.data)
        return lower_bound(work_of(compiled.program, profile, order, results, kept, memory))


def content_of(compiled: Any, name: str) -> Tensor:
    """Where a tensor of a compiled kernel has elements, and where padding."""
    layout = compiled.layouts[name]
    kind = np.uint16 if layout.dtype == "bf16" else np.uint8
    ones = np.full(layout.given, np.iinfo(kind).max, kind)
    elements = np.frombuffer(layout.pack(ones), np.uint8) != 0
    return Tensor(compiled.bases[name], elements)


def execute(
    which: Entry,
    compiled: Any,
    inputs: Sequence[np.ndarray],
    trace: bool = False,
    policy: Policy | None = None,
    machine: str | None = None,
) -> Run:
    """Place the inputs, run the program to its end."""
    device = make_machine(compiled.profile, policy or Policy(), machine)
    if trace:
        device.trace_window = (0, 1 << 60)
    device.load(compiled.program)
    for name, codes in zip(which.inputs, inputs, strict=True):
        if name in compiled.layouts:
            device.write("dram", compiled.bases[name], compiled.layouts[name].pack(codes))
        else:
            device.write_register(SUM, np.ascontiguousarray(codes, "<u2").tobytes())
    for address, raw in compiled.data:
        device.write("dram", address, raw)
    outcome = device.run()
    if outcome.fault is not None:
        raise TilewrightError("TW3060", f"kernel {which.name} faulted: {outcome.fault.message}")
    return Run(which, compiled, inputs, device, device.statistics)


@dataclass
class Measurement:
    """A kernel, compiled and run, beside its bound and what is published."""

    kernel: str
    case: str | None
    profile: str
    shapes: dict[str, list[int]]
    cycles: int
    bound: int
    binding: str
    reference_cycles: int | None
    instructions: int
    busy: dict[str, int] = field(default_factory=dict)
    least: int | None = None  # fewest cycles of any order of these instructions, where proven

    @property
    def ratio(self) -> float:
        return self.cycles / self.bound

    @property
    def optimal(self) -> bool:
        """Whether no program can be faster, or no order of these instructions."""
        return self.cycles == self.bound or self.cycles == self.least

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "case": self.case,
            "profile": self.profile,
            "shapes": self.shapes,
            "cycles": self.cycles,
            "bound": self.bound,
            "ratio": round(self.ratio, 4),
            "optimal": self.optimal,
            "least": self.least,
            "binding": self.binding,
            "reference_cycles": self.reference_cycles,
            "instructions": self.instructions,
            "busy": self.busy,
        }


def measure(
    which: Entry,
    profile: str,
    sizes: Mapping[str, int] | None = None,
    case: Case | None = None,
    exact: bool = False,
) -> Measurement:
    """Compile, run once, compare with the bound; `exact` asks the solver about short kernels."""
    compiled = which.build(profile, sizes, exact)
    run = execute(which, compiled, which.sample(sizes))
    busy = {unit: use.busy for unit, use in run.statistics.units.items()}
    shapes = {name: list(shape) for name, shape in which.shapes(sizes).items()}
    return Measurement(
        which.name, case.name if case else None, compiled.profile.name, shapes, run.cycles,
        run.bound.cycles, run.bound.binding, case.cycles if case else None,
        len(compiled.program), busy, getattr(compiled, "least", None),
    )  # fmt: skip


def selected(
    names: Sequence[str], case: str | None, profile: str | None, sizes: Mapping[str, int]
) -> Iterator[tuple[Entry, str, Mapping[str, int], Case | None]]:
    """What to measure: published cases of the kernels, or the sizes asked for."""
    for name in names:
        entry(name)
    if case is not None:
        if sizes:
            raise TilewrightError(
                "TW0055", "a published case has sizes of its own", hint="leave out --shape"
            )
        found = [c for c in find_case(case) if profile in (None, c.profile)]
        found = [c for c in found if not names or c.kernel in names]
        if not found:
            of = f" of {', '.join(names)}" if names else ""
            on = f" on {profile}" if profile else ""
            raise TilewrightError(
                "TW0054", f"there is no published case {case!r}{of}{on}",
                hint="see kernels list --cases",
            )  # fmt: skip
        for one in found:
            yield entry(one.kernel), one.profile, one.sizes, one
        return
    if sizes:
        if not names:
            raise TilewrightError("TW0055", "--shape needs the name of a kernel")
        for name in names:
            yield entry(name), profile or "atlas-v1", sizes, None
        return
    for name in names or ENTRIES:
        known = [c for c in CASES if c.kernel == name and profile in (None, c.profile)]
        for one in known:
            yield entry(name), one.profile, one.sizes, one
        if not known:
            yield entry(name), profile or "atlas-v1", {}, None
