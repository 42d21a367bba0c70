"""One launch, from what its code is generated from to a kernel that fits where it is placed."""

from __future__ import annotations

from dataclasses import replace

from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.compile_kernel import LoweredKernel, lowered, trace
from tilewright.targets.atlas.codegen.lower_nest import SHARES
from tilewright.targets.atlas.codegen.routine import PointersExceeded
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.kernels.image_blocks import Blocking
from tilewright.targets.atlas.model.kernel_code import Source
from tilewright.targets.atlas.model.kernel_records import RECORDS, build
from tilewright.targets.atlas.model.kernels_images import chained, convolved
from tilewright.tile.backend import STEPS
from tilewright.tile.layouts import Layout
from tilewright.tile.tracer import Tracer

Traces = dict[tuple, Tracer]  # of kernels: most do not depend on places
CUT, CHAIN = "conv2d", "chain"  # kernels that are cut by what they find on the chip
STEP = 1024  # bytes in which room is told it


def lower_launch(source: Source, traces: Traces) -> LoweredKernel:
    """With long loop bodies if there is room; shorter ones where that is all there is."""
    if source.kernel == CHAIN and not source.short:
        found = _found(source)
        chain = chained(RECORDS[CHAIN].given(source.options))
        bands = 0 if found is None else len(chain.copied(found))
        if bands:
            try:
                return _lowered(source, traces, found, bands)
            except VmemExceeded:
                pass  # its image passes by for every panel of filters then
    found = _found(source) if source.kernel == CUT and not source.short else None
    while True:
        cut = None if found is None else _cut(source, found)
        try:
            return _lowered(source, traces, found, cut)
        except PointersExceeded:
            phases = 0 if cut is None else _phases(source) // cut[1] // 2
            if found is None or not phases:
                raise
            found = replace(found, phases=phases)


def _lowered(
    source: Source, traces: Traces, found: Found | None, cut: tuple[Blocking, int] | int | None
) -> LoweredKernel:
    """The same; cut: all by which the trace depends on what is found."""
    kernel = build(source.kernel, source.options)
    tensors = source.placement.tensors.items()
    layouts = {name: one.layout for name, one in tensors if isinstance(one.layout, Layout)}
    least: VmemExceeded | None = None
    for limit in (STEPS, STEPS // 4, STEPS // 16, 1) if source.short else (STEPS,):
        key = (kernel, tuple(layouts.items()), limit, cut)
        if key not in traces:
            traces[key] = trace(kernel, source.profile, layouts, limit, found)
        shares = SHARES if source.short else SHARES[:1]
        try:
            result = lowered(kernel, source.profile, source.placement, traces[key], shares)
        except VmemExceeded as error:
            if least is None or error.wanted < least.wanted:
                least = error
            continue
        if isinstance(cut, tuple):  # with less room than that, it would be cut in another way
            counted = cut[0].needed + STEP - TUNING.roomy_bytes
            result.use = replace(result.use, room=max(result.use.room, counted))
        return result
    assert least is not None
    raise least


def _found(source: Source) -> Found | None:
    """What a kernel finds on the chip; results that leave it as well are none."""
    area, tensors = source.placement.area, source.placement.tensors.items()
    if area is None:
        return None
    here = frozenset(name for name, one in tensors if one.on_chip and one.copy is None)
    return Found(here, (area.end - area.start) // STEP * STEP)


def _phases(source: Source) -> int:
    """Of the image that a convolution makes."""
    plan = convolved(RECORDS[source.kernel].given(source.options)).plan
    assert plan is not None
    return len(plan.out.each_phase())


def _cut(source: Source, found: Found) -> tuple[Blocking, int]:
    """Its blocks, and the phases that are computed together: all by which its trace depends on places."""
    plan = convolved(RECORDS[source.kernel].given(source.options)).plan
    assert plan is not None
    blocking, groups = plan.cut(source.profile, found)
    return blocking, len(groups)
