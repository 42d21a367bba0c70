"""The least time a compiled model can take on its machine.

    bound = bound_of(model)
    bound.total, bound.cause         -> 812345, "DMA"

Nothing here knows how kernels are scheduled or why tensors are where they are; the input is what
each step computes (its formula, operation by operation, because every operation rounds) and the
rates of the machine. Three resources are looked at, each alone and as if it were never idle:

DMA. Every weight and input has to come in once, every output has to leave once, at the engine's
    rate and as one transfer: without padding and commands. Constants can be made on chip. Activations need not move at all. For a single step its operands and result
    count where they lie: what is in DRAM moves, what is in VMEM does not.

Matrix units. A product of n x k x m elements takes n/32 k/32 m/32 products of tiles (parts of a
    tile can share an instruction with others) and at least one for every 1024 elements of an
    operand or the result, each on one of two units of different speed. A unit holds two weights and two sums. Let
    it get W weights and let V sums leave it. In time, one weight place sees W' weights one after
    the other and one place for sums V' sums; a weight and a sum can only meet while both are
    there, which happens for at most W' + V' pairs, and each pair gives at most one product. Over
    the four pairs of places that makes P <= 2 (W + V): however weights and sums take turns, half a
    transfer comes with every product. At least one sum leaves for every tile of a result, and the
    smaller of both operands has to be pushed once. Products are then divided between the units so
    that both end together, their transfers with them. Where the vector unit does the transfers
    (atlas-v0), they are its work.

Vector unit. Each element-wise operation of the formula on each tile, each reduction, cast and
    transpose. Constants, spreading a row over a tile, masking of edges and anything done to whole
    tiles of hidden keys are left out: there are other ways.

VMEM. Weights of which there is no room while the work before them is done come in after it:
`late_weights.py`.

Loads and stores between registers and VMEM are not counted as work. Steps of one part of the model may
overlap in any way, but for what they need of each other: `critical_path.py` follows values from the first
transfer to the last, and gives each resource its beginning and its end. Between parts the host takes
over, so their bounds add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.planning.one_machine import two_machines
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact, Region, Step, is_result
from tilewright.targets.atlas.model.critical_path import Call, CriticalPath
from tilewright.targets.atlas.model.kernel_records import work_of
from tilewright.targets.atlas.model.late_weights import ticks_with_late_weights
from tilewright.targets.atlas.model.pixels_seen import share_seen
from tilewright.targets.atlas.model.work import Work
from tilewright.targets.atlas.profile import Profile

ELEMENT_BYTES = {"fp8": 1, "bf16": 2}


@dataclass(frozen=True)
class StepBound:
    """The bound of one step, carried out once with its tensors where they are."""

    step: int
    name: str
    terms: dict[str, int]  # resource -> ticks

    @property
    def cycles(self) -> int:
        return max(self.terms.values())

    @property
    def cause(self) -> str:
        return max(self.terms, key=lambda name: self.terms[name])


@dataclass(frozen=True)
class ModelBound:
    """The bound of a whole model.

    terms: ticks each resource is busy over all parts, "path", which steps that wait for each
    other take, and "VMEM", which work takes and then weights that had no room beside it; total is at least the largest of them.
    """

    total: int
    cause: str
    terms: dict[str, int]
    per_step: list[StepBound]

    def to_json(self) -> dict[str, Any]:
        return {"cycles": self.total, "cause": self.cause, "terms": self.terms}


def bound_of(model: AtlasArtifact) -> ModelBound:
    """The bound of a model and of each of its steps."""
    profile = model.profile
    works = [_work(model, step) for step in model.steps]
    steps = [
        StepBound(k, step.name, terms_of(profile, works[k], _moved(model, step)))
        for k, step in enumerate(model.steps)
    ]
    place = {
        segment: number
        for number, entry in enumerate(model.entries.values())
        for segment in entry.segments
    }
    total, sums = 0, dict[str, int]()
    here: set[str] = set()  # weights are loaded by the first part that needs them
    for number, entry in enumerate(model.entries.values()):
        calls, parts, work, names = list[Call](), list[Work](), Work(), dict[str, None]()
        for index, iteration, step in model.calls():
            if place.get(step.segment) == number:
                ticks = terms_of(profile, works[index], 0)
                calls.append(Call(step, iteration, ticks["VPU"], ticks["MXU0+MXU1"]))
                work += works[index]
                parts.append(works[index])
                names.update(dict.fromkeys(step.operands.values()))
        weights = [n for n in names if model.regions[n].kind == "weight" and n not in here]
        readers = [call.step for call in calls]
        # Every iteration of layers has its own part of some.
        counts = {n: model.regions[n].count for n in (*entry.inputs, *weights, *entry.outputs)}
        loads = {n: _read(model.regions[n], readers) * counts[n] for n in entry.inputs}
        loads |= {n: _content(model.regions[n]) * counts[n] for n in weights}
        stores = {n: _content(model.regions[n]) * counts[n] for n in entry.outputs}
        terms = terms_of(profile, work, sum(loads.values()) + sum(stores.values()))
        path = CriticalPath(profile, model.regions, entry, here, loads, stores)
        terms["path"] = path.ticks(calls, terms["MXU0+MXU1"])
        terms["VMEM"] = _with_room(model, profile, calls, parts, {n: loads[n] for n in weights})
        here.update(names)
        total += max(terms.values())
        for resource, ticks in terms.items():
            sums[resource] = sums.get(resource, 0) + ticks
    cause = max(sums, key=lambda name: sums[name]) if sums else "nothing"
    return ModelBound(total, cause, sums, steps)


def _with_room(
    model: AtlasArtifact,
    profile: Profile,
    calls: Sequence[Call],
    works: Sequence[Work],
    loads: dict[str, int],
) -> int:
    """How long calls take with weights that VMEM cannot hold before they are needed."""

    def busy(some: list[int]) -> int:
        return max(terms_of(profile, sum((works[k] for k in some), Work()), 0).values())

    carried_out = [(call.step, call.iteration) for call in calls]
    return ticks_with_late_weights(profile, model.regions, carried_out, loads, busy)


def _work(model: AtlasArtifact, step: Step) -> Work:
    shapes = {p: model.regions[name].layout.given for p, name in step.operands.items()}
    return work_of(model.profile, step.kernel, step.options, shapes)


def _content(region: Region) -> int:
    """Bytes of a tensor without padding."""
    return math.prod(region.layout.given) * ELEMENT_BYTES[region.layout.dtype]


def _read(region: Region, steps: Sequence[Step]) -> int:
    """Bytes of a tensor that some of these steps need: of images the pixels that somebody sees, and where
    a tensor is only moved, those of its parts."""
    found, content = 0.0, _content(region)
    for step in steps:
        read = {p for p, name in step.operands.items() if name == region.name and not is_result(p)}
        if step.kernel != "move":
            found += content * sum(share_seen(step, parameter) for parameter in read)
            continue
        for number, _, _, matrices, _, _, rows, columns in step.options["pieces"] if read else ():
            bytes = matrices * rows * columns * ELEMENT_BYTES[region.layout.dtype]
            found += bytes if f"x{number}" in read else 0
    return min(content, int(found))


def _moved(model: AtlasArtifact, step: Step) -> int:
    """Bytes a step has to move between the memories as things are placed."""
    regions = [model.regions[name] for name in dict.fromkeys(step.operands.values())]
    written = {name for p, name in step.operands.items() if is_result(p)}
    moved = sum(
        _content(region) if region.name in written else _read(region, [step])
        for region in regions
        if region.space == "dram" and region.kind != "constant"
    )
    copied = {name: _copied(model, name) for name in (*step.brings, *step.finds)}
    return moved + sum(copied[n] for n in step.brings) - sum(copied[n] for n in step.finds)


def _copied(model: AtlasArtifact, name: str) -> int:
    """Bytes of weights in a copy, without padding that the weights themselves are counted without."""
    region = model.regions[name]
    rows = region.copied
    assert rows is not None, "it is a copy"
    source = model.regions[rows.region]
    return min(region.layout.bytes, _content(source))


def terms_of(profile: Profile, work: Work, moved: int) -> dict[str, int]:
    """Ticks each resource needs."""
    return {
        "DMA": profile.dma.ticks(moved) if moved else 0,
        "MXU0+MXU1": _matrix_ticks(profile, work),
        "VPU": _vector_ticks(profile, work),
    }


def _transfers(work: Work) -> tuple[float, float]:
    """(weights pushed, sums popped), at least."""
    least = max(work.operand_tiles, work.products / 2 - work.sums)
    return max(0.0, least), work.sums


def _matrix_ticks(profile: Profile, work: Work) -> int:
    """Least time of both matrix units together."""
    if not work.products:
        return 0
    own = profile.timing["push"].unit == "MXU"
    push, pop = (profile.timing[name].interval for name in ("push", "pop_wide"))
    pushed, popped = _transfers(work)
    # Half a transfer goes with each product to its unit, what is more goes anywhere.
    beside = work.products / 2 * min(push, pop) if own else 0.0
    rest = pushed * push + popped * pop - beside if own else 0.0
    times = [
        work.products * profile.timing[f"matmul_mxu{unit}"].interval + beside for unit in (0, 1)
    ]
    jobs = [(times[0], times[1])] + ([(rest, rest)] if rest > 0 else [])
    return math.ceil(two_machines(jobs) - 1e-6)


def _vector_ticks(profile: Profile, work: Work) -> int:
    timing = profile.timing
    one = timing["vector"].interval
    parts = 2 // profile.tile_registers  # instructions for a whole tile
    # Numbers one per row are moved 32 bytes at a time, so that a whole tile has room for two of each.
    ticks = (
        work.tiles * parts * one + work.columns * one / profile.tile_registers + work.casts * one
    )
    for count, name in ((work.row_sums, "sum_rows"), (work.row_extremes, "extreme_rows")):
        ticks += count * (parts * timing[name].interval + (parts - 1) * one)
    if timing["push"].unit == "VPU":
        pushed, popped = _transfers(work)
        ticks += pushed * timing["push"].interval + popped * timing["pop_wide"].interval
    return math.ceil(ticks - 1e-6)
