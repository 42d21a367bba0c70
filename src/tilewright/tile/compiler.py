"""From a kernel to a program: trace to npu_schedule, give tensors addresses, generate code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.codegen.from_schedule import Placed, tile_program
from tilewright.targets.atlas.codegen.lower_nest import ConstantPool, lower
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.backend import running
from tilewright.tile.compiled import CompiledKernel
from tilewright.tile.layouts import Layout
from tilewright.tile.tracer import Tracer

if TYPE_CHECKING:
    from tilewright.tile.kernel import Kernel

PAGE = 4096  # tensors start at multiples of this in DRAM


def trace(kernel: Kernel, profile: Profile, layouts: dict[str, Layout]) -> Tracer:
    """The trace of a kernel; its function is complete."""
    tracer = Tracer(profile, kernel.code, kernel.name)
    tensors = kernel.tensors(tracer, layouts)
    for tensor in tensors.values():
        tracer.bind(tensor)
    with running(tracer):
        kernel.function(**tensors)
    return tracer


def compile_kernel(kernel: Kernel, profile: Profile, layouts: dict[str, Layout]) -> CompiledKernel:
    """The program of a kernel on tensors of these layouts."""
    tracer = trace(kernel, profile, layouts)
    module = tracer.finish()
    constants = {name: numbers for name, (_, numbers) in tracer.constants.items()}
    all_layouts = {**layouts, **{n: tensor.layout for n, (tensor, _) in tracer.constants.items()}}
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
    function = next(iter(module.ops))
    placed = [Placed(all_layouts[name], bases[name]) for name in tracer.arguments]
    pool = ConstantPool(end)
    try:
        statements = tile_program(function, placed)  # pyright: ignore[reportArgumentType]
        program = lower(statements, profile, pool).compile(kernel.code.co_filename)
    except TilewrightError as error:
        raise _at_author(error, kernel) from None
    data = [(bases[n], all_layouts[n].pack(numbers)) for n, numbers in constants.items()]
    if pool.values:
        data.append((pool.dram, pool.data()))
    tensors = {name: bases[name] for name in layouts}
    return CompiledKernel(
        kernel, profile, program, layouts, tensors, data, kernel.outputs, module, constants
    )


def _at_author(error: TilewrightError, kernel: Kernel) -> TilewrightError:
    """The error at the author's line: the statement it names, or the kernel."""
    line = getattr(error, "source", "")
    place = Location(kernel.code.co_filename, int(line)) if line else kernel.location
    return error.at(place)
