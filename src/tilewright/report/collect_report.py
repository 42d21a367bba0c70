"""Fills a report from a compiled model, a run of it and a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tilewright
from tilewright.report.layer_formats import with_formats
from tilewright.report.model_report import (
    AccuracyFigures,
    MemoryUse,
    PartRow,
    PortRow,
    RegionRow,
    ReportData,
    RoundsRow,
    RunFigures,
    StepRow,
    Text,
)
from tilewright.runtime.compiled_model import (
    CompiledModel,
    DevicePart,
    HostPart,
    Region,
    Rounds,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text import WORD, instruction_text, label_names

LANES = ("MXU0", "MXU1", "VPU", "LSU", "DMA", "SCALAR")  # as people read them
ASSEMBLY_LINES = 60  # of each step, fewer if there are many steps
ALL_ASSEMBLY_LINES = 8_000
PHASE_LINES = 600  # of each phase
PHASE_BYTES = 80_000
ALL_PHASE_BYTES = 600_000  # a page stays small enough to be mailed
LINE_WIDTH = 400  # longer lines are cut
TILE_MACS = 32 * 32 * 32


def collect(
    model: CompiledModel,
    run: RunFigures | None = None,
    accuracy: AccuracyFigures | None = None,
    not_verified: str = "it was not asked for",
) -> ReportData:
    """What a page says about the model; without a run the measured columns stay empty."""
    host, device = _operations(model)
    share, share_of = _host_share(model, host, device)
    turns = _turns(model)
    bound, bound_of = _bound(model, turns)
    return ReportData(
        name=model.name,
        profile=model.profile.name,
        profile_text=model.profile.description,
        version=tilewright.__version__,
        units=[unit for unit in LANES if unit in model.profile.units],
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
        rounds=[_rounds(rounds) for rounds in model.rounds],
        regions=[_region(region) for region in model.regions.values()],
        memories=[_memory(model, space) for space in ("vmem", "dram")],
        code_bytes=[len(segment) * WORD for segment in model.segments],
        code_limit=model.profile.imem_bytes,
        macs=sum(step.macs * count for step, count in zip(model.steps, turns, strict=True)),
        macs_per_cycle=_macs_per_cycle(model.profile),
        bound=bound,
        bound_of=bound_of,
        bound_terms=_bound_terms(model),
        run=run,
        accuracy=accuracy,
        not_verified="" if accuracy else not_verified,
        layers=with_formats(model, accuracy.layers if accuracy else []),
        phases=phase_texts(model.phases),
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


def _turns(model: CompiledModel) -> list[int]:
    """How often each step is carried out."""
    counts = [0] * len(model.steps)
    for index, _, _ in model.calls():
        counts[index] += 1
    return counts


def _bound(model: CompiledModel, turns: Sequence[int]) -> tuple[int, str]:
    whole, cause = model.provenance.get("bound"), model.provenance.get("bound_cause")
    if isinstance(whole, int) and whole > 0:
        return whole, f"by {cause}" if cause else "whole model"
    if not all(step.bound for step in model.steps):
        return 0, "not known for every step"
    total = sum(step.bound * count for step, count in zip(model.steps, turns, strict=True))
    return total, "sum of the steps"


def _bound_terms(model: CompiledModel) -> dict[str, int]:
    terms = model.provenance.get("bound_terms")
    if not isinstance(terms, dict):
        return {}
    return {str(name): ticks for name, ticks in terms.items() if isinstance(ticks, int)}


def _macs_per_cycle(profile: Profile) -> float:
    intervals = (profile.timing[f"matmul_mxu{n}"].interval for n in (0, 1))
    return sum(TILE_MACS / interval for interval in intervals if interval)


def _steps(model: CompiledModel) -> list[StepRow]:
    names = [label_names(segment) for segment in model.segments]
    shown = min(ASSEMBLY_LINES, max(4, ALL_ASSEMBLY_LINES // max(1, len(model.steps))))
    return [
        StepRow(
            name=step.name,
            kernel=step.kernel,
            operands=dict(step.operands),
            options=dict(step.options),
            sources=list(step.sources),
            segment=step.segment,
            first_word=step.first_word,
            end_word=step.end_word,
            macs=step.macs,
            bound=step.bound,
            assembly=_assembly(
                step.name,
                model.segments[step.segment],
                step.first_word,
                step.end_word,
                names[step.segment],
                shown,
            ),
        )
        for step in model.steps
    ]


def _assembly(
    name: str, program: Program, first: int, end: int, labels: dict[int, str], most: int
) -> Text:
    """The first instructions of a step, each with its byte address and the label before it."""
    shown = min(end, first + most)
    lines: list[str] = []
    for index in range(first, shown):
        if index in labels:
            lines.append(f"{labels[index]}:")
        lines.append(f"{index * WORD:#07x}  {instruction_text(program, index, labels)}")
    return Text(name, "\n".join(lines), end - first, end - shown)


def _rounds(rounds: Rounds) -> RoundsRow:
    """Rounds have names of their own, or a number where they are called alike."""
    names = list(rounds.names)
    if len(set(names)) < rounds.count:
        names = [f"round {turn}" for turn in range(rounds.count)]
    return RoundsRow(rounds.first, rounds.end, names)


def _region(region: Region) -> RegionRow:
    return RegionRow(
        name=region.name,
        space=region.space,
        address=region.address,
        end=region.address + region.bytes,
        bytes=_used(region),
        kind=region.kind,
        shape=list(region.layout.shape),
        dtype=region.layout.dtype,
        order=region.layout.order,
        first=region.first,
        last=region.last,
        count=region.count,
        stride=region.stride,
    )


def _used(region: Region) -> int:
    """Bytes of the tensor, all rounds; what lies between the rounds belongs to others."""
    return region.layout.bytes * region.count


def _memory(model: CompiledModel, space: str) -> MemoryUse:
    regions = [region for region in model.regions.values() if region.space == space]
    profile = model.profile
    peak, where = 0, 0
    for step in range(len(model.steps)):
        live = sum(_used(region) for region in regions if region.first <= step <= region.last)
        if live > peak:
            peak, where = live, step
    return MemoryUse(
        space=space,
        capacity=profile.vmem_bytes if space == "vmem" else profile.dram_bytes,
        top=max((region.address + region.bytes for region in regions), default=0),
        peak_live=peak,
        peak_step=where,
        regions=len(regions),
    )


def _ports(model: CompiledModel) -> list[PortRow]:
    order = [
        *((name, "input") for name in model.inputs),
        *((name, "output") for name in model.outputs),
    ]
    known = {name for name, _ in order}
    order += [(name, "between") for name in model.ports if name not in known]
    rows = []
    for name, direction in order:
        port = model.ports[name]
        region = model.regions.get(port.region) if port.region else None
        place = "host"
        if region is not None:
            place = f"{region.space.upper()} {region.address:#x}"
        rows.append(PortRow(name, direction, list(port.shape), port.dtype, port.region, place))
    return rows


def _part(model: CompiledModel, part: HostPart | DevicePart) -> PartRow:
    if isinstance(part, HostPart):
        return PartRow(
            "host",
            part.function,
            list(part.inputs),
            list(part.outputs),
            len(part.reasons),
            list(part.reasons),
        )
    steps = sum(1 for _, _, step in model.calls() if step.segment in part.segments)
    segments = ", ".join(str(number) for number in part.segments)
    word = "segment" if len(part.segments) == 1 else "segments"
    return PartRow("device", f"{word} {segments}", list(part.inputs), list(part.outputs), steps, [])


def _operations(model: CompiledModel) -> tuple[int, int]:
    """Operations of the model on the host and on the device."""
    host = sum(len(part.reasons) for part in model.parts if isinstance(part, HostPart))
    device = sum(max(1, len(step.sources)) for _, _, step in model.calls())
    return host, device


def _host_share(model: CompiledModel, host: int, device: int) -> tuple[float, str]:
    work = model.provenance.get("host_share")
    if isinstance(work, int | float):
        return float(work), "arithmetic"
    return (host / (host + device) if host + device else 0.0), "operations"
