"""A compiled model and its last run in figures: what it is, where the cycles go."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.runtime.session import Session
from tilewright.runtime.values import describe
from tilewright.targets.artifact import HostPart, Inspectable
from tilewright.targets.compiled_model import CompiledModel


@dataclass(frozen=True)
class StepSummary:
    """A step over all its layer iterations. `bound` is what no program for it can beat, 0 if unknown."""

    step: int
    name: str
    kernel: str
    calls: int
    cycles: int
    bound: int
    macs: int
    busiest: str  # the unit with the most work, and its share of the step's ticks
    share: float
    dram_bytes: int


@dataclass(frozen=True)
class Summary:
    """A report for people (`print`) and programs (`to_json`)."""

    name: str
    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cycles: int
    bound: int  # of the whole model, or of all its steps together; 0 if unknown
    macs: int
    dram_bytes: int
    weight_bytes: int
    code_bytes: int
    utilisation: dict[str, float]  # unit -> share of the ticks
    steps: tuple[StepSummary, ...]
    host: tuple[dict[str, Any], ...]  # functions on the host, and why
    provenance: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.name} for {self.target}"]
        lines += [f"  in   {text}" for text in self.inputs]
        lines += [f"  out  {text}" for text in self.outputs]
        ratio = f" ({self.cycles / self.bound:.3f} x the bound)" if self.bound else ""
        lines.append(f"{self.cycles:,} cycles{ratio}, {self.macs:,} multiplications")
        lines.append(
            f"DRAM traffic {self.dram_bytes:,} bytes, weights {self.weight_bytes:,}, "
            f"code {self.code_bytes:,}"
        )
        shares = ", ".join(f"{unit} {100 * share:.1f}%" for unit, share in self.utilisation.items())
        lines.append(f"busy: {shares}")
        for part in self.host:
            lines.append(f"on the host: {part['function']}")
            lines += [f"  {reason}" for reason in part["reasons"]]
        lines += ["", "     cycles   x bound  calls  busiest       step"]
        for step in self.steps:
            times = f"{step.cycles / step.bound:.3f}" if step.bound else "-"
            lines.append(
                f"{step.cycles:>11,}  {times:>8}  {step.calls:>5}  "
                f"{step.busiest:<6} {100 * step.share:>4.0f}%  {step.name} ({step.kernel})"
            )
        return "\n".join(lines)


def summarise(model: CompiledModel[Any], session: Session) -> Summary:
    """The figures of a model after a run of the session."""
    statistics, cycles = session.statistics, session.cycles
    shown = model.artifact if isinstance(model.artifact, Inspectable) else None
    steps = [_step(model, session, number) for number in range(len(model.artifact.steps))]
    utilisation = {unit: busy / max(1, cycles) for unit, busy in statistics.busy.items()}
    host = [
        {"function": part.function, "reasons": list(part.reasons)}
        for part in model.parts
        if isinstance(part, HostPart)
    ]
    return Summary(
        name=model.name,
        target=model.artifact.target,
        inputs=tuple(describe(model.ports[name]) for name in model.inputs),
        outputs=tuple(describe(model.ports[name]) for name in model.outputs),
        cycles=cycles,
        bound=_bound(model, steps),
        macs=sum(step.macs for step in steps),
        dram_bytes=statistics.loaded + statistics.stored,
        weight_bytes=shown.weight_bytes if shown else 0,
        code_bytes=sum(shown.code_bytes) if shown else 0,
        utilisation=utilisation,
        steps=tuple(steps),
        host=tuple(host),
        provenance=model.provenance,
    )


def _bound(model: CompiledModel[Any], steps: list[StepSummary]) -> int:
    whole = model.artifact.bound()
    if whole is not None and whole.cycles > 0:
        return whole.cycles
    return sum(step.bound for step in steps) if all(step.bound for step in steps) else 0


def _step(model: CompiledModel[Any], session: Session, number: int) -> StepSummary:
    calls = [call for call in session.step_cycles if call.step == number]
    step = model.artifact.steps[number]
    cycles = sum(call.cycles for call in calls)
    busy: dict[str, int] = {}
    for call in calls:
        for unit, ticks in call.busy.items():
            busy[unit] = busy.get(unit, 0) + ticks
    unit = max(busy, key=lambda name: busy[name], default="-")
    return StepSummary(
        step=number,
        name=step.name,
        kernel=step.kernel,
        calls=len(calls),
        cycles=cycles,
        bound=step.bound * len(calls),
        macs=step.macs * len(calls),
        busiest=unit,
        share=busy.get(unit, 0) / max(1, cycles),
        dram_bytes=sum(call.loaded + call.stored for call in calls),
    )
