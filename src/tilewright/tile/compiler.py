"""From a kernel to a program: trace to npu_schedule, give tensors addresses, generate code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.codegen.from_schedule import Placed, tile_program
from tilewright.targets.atlas.codegen.lower_nest import ConstantPool, VmemExceeded, lower
from tilewright.targets.atlas.codegen.stages import stages
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import joined
from tilewright.tile.backend import STEPS, running
from tilewright.tile.compiled import CompiledKernel
from tilewright.tile.layouts import Layout
from tilewright.tile.tracer import Tracer

if TYPE_CHECKING:
    from tilewright.tile.kernel import Kernel

PAGE = 4096  # tensors start at multiples of this in DRAM


def trace(
    kernel: Kernel, profile: Profile, layouts: dict[str, Layout], step_limit: int = STEPS
) -> Tracer:
    """The trace of a kernel, with its function complete."""
    tracer = Tracer(profile, kernel.code, kernel.name)
    tracer.step_limit = step_limit
    tensors = kernel.tensors(tracer, layouts)
    for tensor in tensors.values():
        tracer.bind(tensor)
    with running(tracer):
        kernel.run_on(tensors)
        tracer.finish()
    return tracer


def compile_kernel(
    kernel: Kernel, profile: Profile, layouts: dict[str, Layout], exact: bool = False
) -> CompiledKernel:
    """The program of a kernel on tensors of these layouts.

    Steps are written out as far as VMEM has room for their tiles.
    """
    exceeded: VmemExceeded | None = None
    for limit in (STEPS, STEPS // 4, STEPS // 16, 1):
        try:
            tracer = trace(kernel, profile, layouts, limit)
        except TilewrightError as error:
            # With fewer steps written out, variables may have to be states.
            raise exceeded or error from None
        try:
            return _compile_trace(kernel, profile, layouts, tracer, exact)
        except VmemExceeded as error:
            line = int(error.source) if error.source else kernel.location.line
            exceeded = exceeded or error.at(Location(kernel.location.file, line))  # pyright: ignore
            if not tracer.written_steps:
                break
    assert exceeded is not None
    raise exceeded


def _compile_trace(
    kernel: Kernel,
    profile: Profile,
    layouts: dict[str, Layout],
    tracer: Tracer,
    exact: bool,
) -> CompiledKernel:
    constants = {name: numbers for name, (_, numbers) in tracer.constants.items()}
    made = {n: tensor for n, (tensor, _) in tracer.constants.items()} | tracer.scratch
    own = {name: made[name] for name in tracer.arguments if name in made}
    all_layouts = {**layouts, **{name: tensor.layout for name, tensor in own.items()}}
    bases, end = {}, 0
    for name, layout in all_layouts.items():
        bases[name] = end
        end += -(-layout.bytes // PAGE) * PAGE
    if end > profile.dram_bytes:
        raise TilewrightError(
            "TW1638",
            f"the tensors of {kernel.name} need {end / 2**20:.1f} MiB of DRAM, {profile.name} has "
            f"{profile.dram_bytes / 2**20:.1f} MiB",
            kernel.location,
        )
    placed = [Placed(all_layouts[name], bases[name]) for name in tracer.arguments]
    data = [(bases[n], all_layouts[n].pack(numbers)) for n, numbers in constants.items()]
    programs, least = [], None
    try:
        parts, used = stages(tile_program(tracer.function, placed), end)
        end += used
        for part in parts:
            pool = ConstantPool(end)
            routine = lower(part, profile, pool)
            programs.append(routine.compile(kernel.code.co_filename, exact=exact))
            least = routine.least if len(parts) == 1 else None
            if pool.values:
                data.append((pool.dram, pool.data()))
                end += len(pool.data())
    except VmemExceeded:
        raise
    except TilewrightError as error:
        raise error.at(kernel.location) from None
    places = {name: bases[name] for name in layouts}
    compiled = CompiledKernel(
        kernel, profile, joined(programs), layouts, places, data, kernel.outputs, tracer.module,
        {n: constants.get(n, np.zeros(t.layout.padded)) for n, t in own.items()},
    )  # fmt: skip
    compiled.least = least
    return compiled
