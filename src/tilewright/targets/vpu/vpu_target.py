"""A VPU as a target: compile whole models, read them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.io.pieces import Content
from tilewright.targets.target import Description, Memory
from tilewright.targets.vpu.machine import DDR_BYTES, Machine, read_machine

if TYPE_CHECKING:
    import numpy as np

    from tilewright.errors import Location
    from tilewright.frontend.imported import Imported
    from tilewright.model.options import CompileOptions, Progress
    from tilewright.targets.artifact import Artifact
    from tilewright.targets.compiled_model import CompiledModel
    from tilewright.targets.vpu.tile_language.machine import VpuTileMachine


@dataclass(frozen=True)
class VpuTarget:
    """One machine: a preset, or a user's file."""

    machine: Machine
    calibrated_formats: ClassVar = (None,)  # of --quantize: those with scales from calibration

    @property
    def name(self) -> str:
        return self.machine.preset

    @property
    def family(self) -> str:
        return "vpu"

    def tile_machine(self) -> VpuTileMachine:
        """The machine as the tile language sees it."""
        from tilewright.targets.vpu.tile_language.machine import VpuTileMachine

        return VpuTileMachine(self.machine)

    def describe(self) -> Description:
        machine = self.machine
        return Description(
            name=machine.preset,
            family=self.family,
            summary=f"{machine.tiles} tiles with {machine.dpus} DPU and {machine.shaves} SHAVEs "
            f"each, {machine.dma_ports} DMA ports, {machine.barriers} barriers",
            memories=(
                Memory("ddr", DDR_BYTES, machine.align, "tensors and weights"),
                Memory("cmx", machine.cmx_bytes, machine.align, "scratchpad, per tile"),
            ),
            formats=("int8 and f16 on the DPU", "f16 and f32 on the SHAVEs"),
            modelled=(
                "order, barriers and addresses of every task",
                "time by cost formulas, values bit by bit",
            ),
            not_modelled=("contention inside CMX", "fetching of descriptors"),
            units=("DMA", "DPU", "SHAVE"),
            macs_per_cycle=float(machine.rates.macs * machine.dpus * machine.tiles),
        )

    def compile(
        self,
        model: Imported,
        options: CompileOptions,
        samples: Sequence[Mapping[str, np.ndarray]],
        progress: Progress,
    ) -> CompiledModel[Any]:
        from tilewright.targets.vpu.model.compiler import compile_model

        return compile_model(model, self.machine, options, samples, progress)

    def read(self, members: Mapping[str, Content], place: Location) -> Artifact:
        from tilewright.targets.vpu.model.model_artifact import read_artifact

        return read_artifact(members, place)


def find(name: str | Path) -> VpuTarget:
    """A preset by its name, or a machine from a JSON file."""
    return VpuTarget(read_machine(str(name)))
