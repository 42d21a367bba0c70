"""One launch, from what its code is generated from to a kernel that fits where it is placed."""

from __future__ import annotations

from dataclasses import replace

from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.compile_kernel import LoweredKernel, lowered, trace
from tilewright.targets.atlas.codegen.lower_nest import SHARES
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.model.kernel_code import Source
from tilewright.targets.atlas.model.kernel_records import RECORDS, build
from tilewright.targets.atlas.model.kernels_images import convolved
from tilewright.tile.backend import STEPS
from tilewright.tile.layouts import Layout
from tilewright.tile.tracer import Tracer

Traces = dict[tuple, Tracer]  # of kernels: most do not depend on places
PLACED = ("conv2d",)  # kernels that are cut by what they find on the chip
STEP = 32 * 1024  # bytes in which room is told them


def lower_launch(source: Source, traces: Traces) -> LoweredKernel:
    """With long loop bodies if there is room; shorter ones where that is all there is."""
    kernel = build(source.kernel, source.options)
    tensors = source.placement.tensors.items()
    layouts = {name: one.layout for name, one in tensors if isinstance(one.layout, Layout)}
    found = _found(source) if source.kernel in PLACED and not source.short else None
    least: VmemExceeded | None = None
    for limit in (STEPS, STEPS // 4, STEPS // 16, 1) if source.short else (STEPS,):
        key = (kernel, tuple(layouts.items()), limit, found)
        if key not in traces:
            traces[key] = trace(kernel, source.profile, layouts, limit, found)
        shares = SHARES if source.short else SHARES[:1]
        try:
            result = lowered(kernel, source.profile, source.placement, traces[key], shares)
        except VmemExceeded as error:
            if least is None or error.wanted < least.wanted:
                least = error
            continue
        if found is not None:
            result.use = replace(result.use, room=max(result.use.room, _counted(source, found)))
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


def _counted(source: Source, found: Found) -> int:
    """Bytes without which the kernel would be cut in another way."""
    options = RECORDS[source.kernel].given(source.options)
    return convolved(options).blocking(source.profile, found).needed + STEP
