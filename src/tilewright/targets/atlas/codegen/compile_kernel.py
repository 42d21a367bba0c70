"""From a kernel to a program: trace to npu_schedule, give tensors addresses, generate code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.targets.atlas.codegen.from_schedule import Placed, tile_program
from tilewright.targets.atlas.codegen.leading_loads import leading_loads, leave_out
from tilewright.targets.atlas.codegen.loop_distribution import distributed, ranges
from tilewright.targets.atlas.codegen.lower_nest import (
    SHARES,
    Area,
    ConstantPool,
    VmemExceeded,
    lower,
)
from tilewright.targets.atlas.codegen.nest import Read
from tilewright.targets.atlas.codegen.padding import without_padding
from tilewright.targets.atlas.codegen.prefetch import Prefetch, traffic, with_prefetched
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tables import Table, made_on_chip
from tilewright.targets.atlas.codegen.tail_loads import Transfer
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program, joined
from tilewright.tile.backend import STEPS
from tilewright.tile.layouts import Layout
from tilewright.tile.tracer import Tracer, traced

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import ModuleOp
    from tilewright.targets.atlas.codegen.tile_machine import Found
    from tilewright.tile.kernel import Kernel
    from tilewright.tile.loop_forms import LoopForms

PAGE = 4096  # tensors start at multiples of this in DRAM
ALIGN = 1024  # and of this in VMEM
WORD = 4  # bytes of an instruction
FOLLOWING = 64  # instructions between kernels of a model, at most
# Of one trace. A tile is two registers, so these are 32,768 instructions and more, which is all the
# instruction memory of the profiles; tracing what never runs would take minutes.
LAUNCHES = 16_384


def trace(
    kernel: Kernel,
    profile: Profile,
    layouts: dict[str, Layout],
    step_limit: int = STEPS,
    found: Found | None = None,
) -> Tracer:
    """The trace of a kernel, with its function complete."""
    machine = replace(profile.tile_machine(), found=found)

    def make(forms: LoopForms) -> Tracer:
        tracer = Tracer(machine, kernel.code, kernel.name, forms)
        tracer.step_limit = step_limit
        tracer.most_launches = max(LAUNCHES, profile.imem_bytes // 8)
        return tracer

    return traced(kernel, layouts, make)


@dataclass(frozen=True)
class Placement:
    """Where a kernel finds its tensors, and what it may use.

    constants: the DRAM address from which on it puts constants of its own. found: what earlier kernels
    have brought to VMEM. brings: what it brings there itself, for later ones. begun: what the kernel
    before has loaded of its first tiles, to their places. following: the same for the next one.
    """

    tensors: Mapping[str, Placed]
    constants: int
    area: Area | None = None
    tables: bool = False  # those that take longer to load are made on chip
    found: tuple[Prefetch, ...] = ()
    brings: tuple[Prefetch, ...] = ()
    begun: tuple[Transfer, ...] = ()
    following: tuple[Transfer, ...] = ()


@dataclass
class PlacedKernel:
    """A kernel's program for tensors at given places."""

    program: Program
    module: ModuleOp  # what was traced
    constants: dict[str, np.ndarray]  # further arguments of the traced function
    data: list[tuple[int, bytes]]  # to be in DRAM before it runs
    least: int | None  # cycles no order of its instructions can beat, where proven


def compile_kernel(
    kernel: Kernel, profile: Profile, layouts: dict[str, Layout], exact: bool = False
) -> CompiledKernel:
    """The program of a kernel on tensors of these layouts, one after the other in DRAM."""
    bases, end = {}, 0
    for name, layout in layouts.items():
        bases[name] = end
        end += -(-layout.bytes // PAGE) * PAGE
    _check_dram(kernel, profile, end)  # before it is traced, which takes longer
    # Tensors are packed with zeros around them, and nobody looks beyond the edges of results.
    tensors = {
        name: Placed(layout, bases[name], padding=layout.arrangement is not None)
        for name, layout in layouts.items()
    }
    placement = Placement(tensors, end, tables=True)
    placed = compile_placed(kernel, profile, layouts, placement, exact)
    compiled = CompiledKernel(
        kernel,
        profile,
        placed.program,
        layouts,
        bases,
        placed.data,
        kernel.outputs,
        placed.module,
        placed.constants,
    )
    compiled.least = placed.least
    return compiled


def _check_dram(kernel: Kernel, profile: Profile, end: int) -> None:
    if end > profile.dram_bytes:
        raise TilewrightError(
            "TW1638",
            f"the tensors of {kernel.name} need {end / 2**20:.1f} MiB of DRAM, {profile.name} has "
            f"{profile.dram_bytes / 2**20:.1f} MiB",
            kernel.location,
        )


def compile_placed(
    kernel: Kernel,
    profile: Profile,
    layouts: dict[str, Layout],
    placement: Placement,
    exact: bool = False,
) -> PlacedKernel:
    """The program of a kernel on tensors at these places.

    Steps are unrolled as far as VMEM has room for their tiles.
    """
    exceeded: VmemExceeded | None = None
    for limit in (STEPS, STEPS // 4, STEPS // 16, 1):
        try:
            tracer = trace(kernel, profile, layouts, limit)
        except TilewrightError:
            # With fewer steps unrolled, variables may have to be states.
            if exceeded is None:
                raise
            raise exceeded from None
        try:
            return lowered(kernel, profile, placement, tracer).finish(exact)
        except VmemExceeded as error:
            line = int(error.source) if error.source else kernel.location.line
            exceeded = exceeded or error.at(Location(kernel.location.file, line))  # pyright: ignore
            if not tracer.written_steps:
                break
    assert exceeded is not None
    raise exceeded


@dataclass(frozen=True)
class Use:
    """Bytes of VMEM that a kernel works in, bytes that it moves between the memories, and ticks that
    one of its units computes at least.

    upper: bytes of its room at the upper end of its area. ending: ticks for which its last iteration
    computes. leading: what it loads first. beyond: what it has loaded in the end for an iteration that
    does not come.
    """

    room: int = 0
    moved: int = 0
    busy: int = 0
    upper: int = 0
    ending: int = 0
    leading: tuple[Transfer, ...] = ()
    beyond: tuple[Transfer, ...] = ()


@dataclass
class LoweredKernel:
    """A kernel with its transfers and VMEM decided, its instructions not yet in order."""

    kernel: Kernel
    routines: list[Routine]  # one per stage
    tracer: Tracer
    constants: dict[str, np.ndarray]
    data: list[tuple[int, bytes]]
    end: int  # of what it uses of DRAM beyond its tensors
    use: Use

    def finish(self, exact: bool = False) -> PlacedKernel:
        """Put the instructions in order."""
        try:
            program = self._program(exact, pipelining=True)
            if len(program) > self._longest():  # each iteration by itself, all of them alike
                program = self._program(exact, pipelining=False)
        except TilewrightError as error:
            raise error.at(self.kernel.location) from None
        least = self.routines[0].least if len(self.routines) == 1 else None
        return PlacedKernel(program, self.tracer.module, self.constants, self.data, least)

    def _program(self, exact: bool, pipelining: bool) -> Program:
        file = self.kernel.code.co_filename
        return joined([routine.compile(file, pipelining, exact=exact) for routine in self.routines])

    def _longest(self) -> int:
        """Instructions that a kernel may have, so that in a model others have room after it."""
        return self.routines[0].profile.imem_bytes // WORD - FOLLOWING


def lowered(
    kernel: Kernel,
    profile: Profile,
    placement: Placement,
    tracer: Tracer,
    shares: tuple[int, ...] = SHARES,
) -> LoweredKernel:
    """A traced kernel on tensors at these places, with loop bodies as long as `shares` allow."""
    placed, data, end = dict(placement.tensors), [], placement.constants
    area = given = placement.area or Area(0, profile.vmem_bytes)
    made = {n: tensor for n, (tensor, _) in tracer.constants.items()} | tracer.scratch
    numbers = {n: array for n, (_, array) in tracer.constants.items()}
    own = {name: made[name] for name in tracer.arguments if name in made}
    for name, tensor in own.items():
        if tensor.on_chip:
            placed[name] = Placed(tensor.layout, area.start, on_chip=True, changes=1 + len(placed))
            area = Area(area.start + -(-tensor.layout.bytes // ALIGN) * ALIGN, area.end)
            continue
        placed[name] = Placed(tensor.layout, end)
        if name in numbers:
            data.append((end, tensor.layout.pack(numbers[name])))
        end += -(-tensor.layout.bytes // PAGE) * PAGE
    _check_dram(kernel, profile, end)
    routines = []
    try:
        for name in tracer.read_back & placed.keys():  # their padding is read with them
            placed[name] = replace(placed[name], padding=True)
        statements = tile_program(tracer.function, [placed[name] for name in tracer.arguments])
        statements = with_prefetched(statements, placement.found)
        statements = without_padding(statements, profile)
        tables: dict[int, Table] = {}
        if placement.tables:
            statements, tables, area = made_on_chip(statements, data, profile, area)
            read = [place for s in statements for place in ranges(s, Read)]
            data = [row for row in data if _is_read(row, read)]
        moved = traffic(statements)
        parts, used = distributed(statements, end)
        end += used
        carried = [one.copy() for one in placement.brings]
        for part in parts:
            pool = ConstantPool(end)
            routines.append(lower(part, profile, pool, area, shares, tables, carried))
            carried = []  # the first stage makes these copies
            tables = {}  # the first stage makes them
            if pool.values:
                data.append((pool.dram, pool.data()))
                end += len(pool.data())
    except VmemExceeded as error:
        error.wanted += area.start - given.start  # what it keeps on chip itself counts as well
        raise
    except TilewrightError as error:
        raise error.at(kernel.location) from None
    constants = {n: numbers.get(n, np.zeros(t.layout.padded)) for n, t in own.items()}
    room = area.start - given.start + max(routine.room for routine in routines)
    leading = tuple(leading_loads(routines[0]))
    leave_out(routines[0], placement.begun)
    routines[-1].following = placement.following
    use = Use(
        room,
        moved,
        max(routine.busy() for routine in routines),
        max(routine.upper for routine in routines),
        routines[-1].ending(),
        leading,
        tuple(routines[-1].left_behind()),
    )
    return LoweredKernel(kernel, routines, tracer, constants, data, end, use)


def _is_read(row: tuple[int, bytes], read: list[tuple[int, int]]) -> bool:
    """Whether any of these ranges of DRAM has bytes of a table."""
    address, raw = row
    return any(low < address + len(raw) and address < high for low, high in read)
