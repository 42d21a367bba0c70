"""One launch, from what its code is generated from to a kernel that fits where it is placed."""

from __future__ import annotations

from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.compile_kernel import LoweredKernel, lowered, trace
from tilewright.targets.atlas.codegen.lower_nest import SHARES
from tilewright.targets.atlas.model.kernel_code import Source
from tilewright.targets.atlas.model.kernel_records import build
from tilewright.tile.backend import STEPS
from tilewright.tile.layouts import Layout
from tilewright.tile.tracer import Tracer

Traces = dict[tuple, Tracer]  # of kernels: they do not depend on places


def lower_launch(source: Source, traces: Traces) -> LoweredKernel:
    """With long loop bodies if there is room; shorter ones where that is all there is."""
    kernel = build(source.kernel, source.options)
    tensors = source.placement.tensors.items()
    layouts = {name: one.layout for name, one in tensors if isinstance(one.layout, Layout)}
    least: VmemExceeded | None = None
    for limit in (STEPS, STEPS // 4, STEPS // 16, 1) if source.short else (STEPS,):
        key = (kernel, tuple(layouts.items()), limit)
        if key not in traces:
            traces[key] = trace(kernel, source.profile, layouts, limit)
        shares = SHARES if source.short else SHARES[:1]
        try:
            return lowered(kernel, source.profile, source.placement, traces[key], shares)
        except VmemExceeded as error:
            if least is None or error.wanted < least.wanted:
                least = error
    assert least is not None
    raise least
