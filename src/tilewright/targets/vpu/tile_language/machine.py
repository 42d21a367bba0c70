"""A VPU as the tile language sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.artifact import VpuProgram
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.scheduling.schedule import portfolio, schedule
from tilewright.targets.vpu.tile_language.compiled import CompiledVpuKernel, image_of
from tilewright.targets.vpu.tile_language.eager import EagerRun, check_layout, padded
from tilewright.targets.vpu.tile_language.strands import GraphWriter, Image
from tilewright.targets.vpu.tile_language.unroll import unrolled
from tilewright.tile.blocks import Block, Single
from tilewright.tile.formats import Formats
from tilewright.tile.kernel import Kernel
from tilewright.tile.layouts import Layout
from tilewright.tile.products import Accumulation
from tilewright.tile.row_products import Costs
from tilewright.tile.tracer import Tracer, traced

FORMATS = Formats("f16", "f16", (("f16", "f16"), ("i8", "i8")))
SIDE = 64  # SHAVE tasks cost a thousand cycles to enter, so tiles are not small
SIDES = range(16, 513, 16)


class VpuTracer(Tracer):
    """Writes out loops that sums of products pass through.

    A loop of the program carries values, in f16; a sum on the DPU stays in f32 or i32 from its
    first product to its last, however many steps there are.
    """

    def blocks(
        self, extent: int, size: int, unroll: bool | int, padded: bool = False
    ) -> Iterator[Block]:
        return super().blocks(extent, size, self._sums() or unroll, padded)

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        return super().indices(extent, self._sums() or unroll)

    def _sums(self) -> bool:
        return any(isinstance(carrier, Accumulation) for carrier in self._carriers())


@dataclass(frozen=True)
class VpuTileMachine:
    """Compiles tile kernels to task lists, and runs them eagerly in the same arithmetic."""

    machine: Machine
    side: int = SIDE
    formats: Formats = FORMATS

    @property
    def name(self) -> str:
        return self.machine.preset

    @property
    def units(self) -> tuple[int, ...]:
        return (0,)

    @property
    def presets_accumulators(self) -> bool:
        return False

    def product_costs(self, rows: int) -> Costs:
        raise TilewrightError(
            "TW7095",
            "tw.row_products deals columns out to two matrix units, a tile of the VPU has one DPU",
            hint="write the product as a loop over columns",
        )

    def bound(self, formats: Mapping[str, str] | None, side: int | None) -> VpuTileMachine:
        if side is not None and (isinstance(side, bool) or side not in SIDES):
            raise TilewrightError(
                "TW1654",
                f"tiles of {self.name} cannot be {side} wide",
                hint=f"a side is a multiple of 16 up to {SIDES[-1]}",
            )
        return replace(self, formats=self.formats.bound(formats), side=side or self.side)

    def eager(self, code: CodeType) -> EagerRun:
        return EagerRun(self, code)

    def trace(self, kernel: Kernel, layouts: dict[str, Layout]) -> Tracer:
        for name, layout in layouts.items():
            check_layout(name, layout)
        return traced(
            kernel, layouts, lambda forms: VpuTracer(self, kernel.code, kernel.name, forms)
        )

    def compile_kernel(
        self, kernel: Kernel, layouts: dict[str, Layout], exact: bool
    ) -> CompiledVpuKernel:
        traced = self.trace(kernel, layouts)
        known = {name: found for name, (found, _) in traced.constants.items()}
        dtypes = {name: layout.dtype for name, layout in layouts.items()}
        dtypes |= {name: tensor.dtype for name, tensor in (known | traced.scratch).items()}
        steps = unrolled(traced, dtypes, kernel.outputs)
        images: dict[str, Image] = {}
        for name, layout in layouts.items():
            images[name] = image_of(name, layout, kernel.specs[name].sizes[-1] == 1)
        constants = dict(steps.constants)
        for name, (tensor, numbers) in traced.constants.items():
            check_layout(name, tensor.layout)
            images[name] = image_of(name, tensor.layout, column=False)
            constants[name] = padded(tensor.layout, numbers)
        for name, array in steps.constants.items():
            images[name] = Image(name, FORMATS.value, (), (), array.shape)
        writer = GraphWriter(self.machine, steps, images)
        builder = writer.write()
        graph = builder.graph()
        made = schedule(graph, exact=True) if exact else portfolio(graph, local_search=False)
        program = VpuProgram(made.tasks, builder.operations())
        return CompiledVpuKernel(
            kernel, layouts, kernel.outputs, writer.used, constants, graph, made, program,
            traced.module,
        )  # fmt: skip
