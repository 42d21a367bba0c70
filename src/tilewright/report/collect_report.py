"""Fills a report from a compiled model, a run of it and a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tilewright
from tilewright.report.layer_formats import with_formats
from tilewright.report.model_report import (
    AccuracyFigures,
    LayerLoopRow,
    MemoryUse,
    PartRow,
    PortRow,
    RegionRow,
    ReportData,
    RunFigures,
    StepRow,
    Text,
)
from tilewright.targets.artifact import (
    DevicePart,
    HostPart,
    Inspectable,
    LayerLoop,
    Tensor,
    calls,
)
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.registry import description_of
from tilewright.targets.target import Memory

ASSEMBLY_LINES = 60  # of each step, fewer if there are many steps
ALL_ASSEMBLY_LINES = 8_000
PHASE_LINES = 600  # of each phase
PHASE_BYTES = 80_000
ALL_PHASE_BYTES = 600_000  # a page stays small enough to be mailed
LINE_WIDTH = 400  # longer lines are cut
_CODE = "imem"  # what machines call the memory of their instructions


def collect(
    model: CompiledModel[Any],
    run: RunFigures | None = None,
    accuracy: AccuracyFigures | None = None,
    not_verified: str = "it was not asked for",
) -> ReportData:
    """What a page says about the model; without a run the measured columns stay empty."""
    host, device = _operations(model)
    share, share_of = _host_share(model, host, device)
    artifact, machine = model.artifact, description_of(model.artifact)
    turns = _turns(model)
    bound, bound_of = _bound(model, turns)
    sizes = {memory.name: memory.bytes for memory in machine.memories}
    return ReportData(
        name=model.name,
        target=artifact.target,
        target_text=machine.summary,
        version=tilewright.__version__,
        units=list(machine.units) or sorted(run.busy if run else ()),
        provenance=dict(model.provenance),
        inputs=list(model.inputs),
        outputs=list(model.outputs),
        ports=_ports(model),
        state=dict(model.state),
        parts=[_part(model, part) for part in model.parts],
        host_operations=host,
        device_operations=device,
        host_share=share,
        host_share_of=share_of,
        steps=_steps(model),
        layer_loops=[_layer_loop(loop) for loop in artifact.loops],
        regions=[_region(tensor) for tensor in artifact.tensors.values()],
        memories=[_memory(model, memory) for memory in _shown(model, machine.memories)],
        code_bytes=list(artifact.code_bytes) if isinstance(artifact, Inspectable) else [],
        code_limit=sizes.get(_CODE, 0),
        macs=sum(step.macs * count for step, count in zip(artifact.steps, turns, strict=True)),
        macs_per_cycle=machine.macs_per_cycle,
        bound=bound,
        bound_of=bound_of,
        bound_terms=dict(whole.terms) if (whole := artifact.bound()) else {},
        losses=dict(machine.losses),
        run=run,
        accuracy=accuracy,
        not_verified="" if accuracy else not_verified,
        layers=with_formats(model, accuracy.layers if accuracy else []),
        phases=phase_texts({**model.phases, **(run.profiles if run else {})}),
        timing=dict(model.timing),
    )


def shortened(
    name: str, text: str, lines: int = PHASE_LINES, size: int = PHASE_BYTES, width: int = LINE_WIDTH
) -> Text:
    """The first lines of a text, at most `size` characters; long lines end in how much is cut."""
    rows = text.splitlines()
    kept: list[str] = []
    used = 0
    for row in rows[:lines]:
        if len(row) > width:
            row = f"{row[:width]} … {len(row) - width:,} more characters"
        used += len(row) + 1
        if used > size and kept:
            break
        kept.append(row)
    return Text(name, "\n".join(kept), len(rows), len(rows) - len(kept))


def phase_texts(phases: Mapping[str, str], budget: int = ALL_PHASE_BYTES) -> list[Text]:
    """The beginnings of the phases; all together keep to the budget, short ones stay whole."""
    sizes = sorted(min(len(text), PHASE_BYTES) for text in phases.values())
    limit, left = PHASE_BYTES, budget
    for number, size in enumerate(sizes):
        limit = left // (len(sizes) - number)
        if size > limit:
            break
        left -= size
        limit = PHASE_BYTES
    return [shortened(name, text, size=limit) for name, text in phases.items()]


def _turns(model: CompiledModel[Any]) -> list[int]:
    """How often each step is carried out."""
    counts = [0] * len(model.artifact.steps)
    for index, _, _ in calls(model.artifact):
        counts[index] += 1
    return counts


def _bound(model: CompiledModel[Any], turns: Sequence[int]) -> tuple[int, str]:
    whole, steps = model.artifact.bound(), model.artifact.steps
    if whole is not None and whole.cycles > 0:
        return whole.cycles, f"by {whole.cause}" if whole.cause else "whole model"
    if not all(step.bound for step in steps):
        return 0, "not known for every step"
    total = sum(step.bound * count for step, count in zip(steps, turns, strict=True))
    return total, "sum of the steps"


def _steps(model: CompiledModel[Any]) -> list[StepRow]:
    artifact = model.artifact
    most = min(ASSEMBLY_LINES, max(4, ALL_ASSEMBLY_LINES // max(1, len(artifact.steps))))
    rows = []
    for number, step in enumerate(artifact.steps):
        lines, count = (), 0
        if isinstance(artifact, Inspectable):
            lines, count = artifact.excerpt(number, most)
        rows.append(
            StepRow(
                name=step.name,
                kernel=step.kernel,
                operands=dict(step.operands),
                options=dict(step.options),
                sources=list(step.sources),
                macs=step.macs,
                bound=step.bound,
                assembly=Text(step.name, "\n".join(lines), count, max(0, count - most)),
            )
        )
    return rows


def _layer_loop(loop: LayerLoop) -> LayerLoopRow:
    """Rounds have names of their own, or a number where they are called alike."""
    names = list(loop.names)
    if len(set(names)) < loop.count:
        names = [f"iteration {turn}" for turn in range(loop.count)]
    return LayerLoopRow(loop.first, loop.end, names)


def _region(tensor: Tensor) -> RegionRow:
    return RegionRow(
        name=tensor.name,
        space=tensor.space,
        address=tensor.address,
        end=tensor.end,
        bytes=_used(tensor),
        kind=tensor.kind,
        shape=list(tensor.shape),
        dtype=tensor.dtype,
        encoding=tensor.encoding,
        first=tensor.first,
        last=tensor.last,
        count=tensor.count,
        stride=tensor.stride,
    )


def _used(tensor: Tensor) -> int:
    """Bytes of the tensor, all iterations; what lies between them belongs to others."""
    return tensor.bytes * tensor.count


def _shown(model: CompiledModel[Any], memories: Sequence[Memory]) -> list[Memory]:
    """Memories that hold tensors, the smallest first."""
    spaces = {tensor.space for tensor in model.artifact.tensors.values()}
    mine = [memory for memory in memories if memory.name != _CODE or memory.name in spaces]
    return sorted(mine, key=lambda memory: memory.bytes)


def _memory(model: CompiledModel[Any], memory: Memory) -> MemoryUse:
    tensors = [one for one in model.artifact.tensors.values() if one.space == memory.name]
    peak, where = 0, 0
    for step in range(len(model.artifact.steps)):
        live = sum(_used(one) for one in tensors if one.first <= step <= one.last)
        if live > peak:
            peak, where = live, step
    return MemoryUse(
        space=memory.name,
        capacity=memory.bytes,
        top=max((one.end for one in tensors), default=0),
        peak_live=peak,
        peak_step=where,
        regions=len(tensors),
    )


def _ports(model: CompiledModel[Any]) -> list[PortRow]:
    order = [
        *((name, "input") for name in model.inputs),
        *((name, "output") for name in model.outputs),
    ]
    known = {name for name, _ in order}
    order += [(name, "between") for name in model.ports if name not in known]
    rows, tensors = [], model.artifact.tensors
    for name, direction in order:
        port = model.ports[name]
        region = tensors.get(port.tensor) if port.tensor else None
        place = "host"
        if region is not None:
            place = f"{region.space.upper()} {region.address:#x}"
        rows.append(PortRow(name, direction, list(port.shape), port.dtype, port.tensor, place))
    return rows


def _part(model: CompiledModel[Any], part: HostPart | DevicePart) -> PartRow:
    if isinstance(part, HostPart):
        return PartRow(
            "host",
            part.function,
            list(part.inputs),
            list(part.outputs),
            len(part.reasons),
            list(part.reasons),
        )
    artifact = model.artifact
    steps = artifact.calls_of(part.entry) if isinstance(artifact, Inspectable) else 0
    return PartRow("device", part.entry, list(part.inputs), list(part.outputs), steps, [])


def _operations(model: CompiledModel[Any]) -> tuple[int, int]:
    """Operations of the model on the host and on the device."""
    host = sum(len(part.reasons) for part in model.parts if isinstance(part, HostPart))
    device = sum(max(1, len(step.sources)) for _, _, step in calls(model.artifact))
    return host, device


def _host_share(model: CompiledModel[Any], host: int, device: int) -> tuple[float, str]:
    work = model.provenance.get("host_share")
    if isinstance(work, int | float):
        return float(work), "arithmetic"
    return (host / (host + device) if host + device else 0.0), "operations"
