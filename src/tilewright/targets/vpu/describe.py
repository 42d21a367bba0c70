"""What a VPU is, for people: `tilewright targets`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.targets.target import Described, Description, Memory
from tilewright.targets.vpu.machine import DDR_BYTES, Machine, preset

if TYPE_CHECKING:
    from tilewright.targets.vpu.tile_language.machine import VpuTileMachine


@dataclass(frozen=True)
class VpuDescribed(Described):
    """A VPU: tile kernels compile for it, whole models do not yet."""

    machine: Machine

    def tile_machine(self) -> VpuTileMachine:
        """The machine as the tile language sees it."""
        from tilewright.targets.vpu.tile_language.machine import VpuTileMachine

        return VpuTileMachine(self.machine)


def find(name: str | Path) -> VpuDescribed:
    """A preset by its name."""
    machine = preset(str(name))
    description = Description(
        name=machine.preset,
        family="vpu",
        summary=f"{machine.tiles} tiles with {machine.dpus} DPU and {machine.shaves} SHAVEs each, "
        f"{machine.dma_ports} DMA ports, {machine.barriers} barriers",
        memories=(
            Memory("ddr", DDR_BYTES, machine.align, "tensors and weights"),
            Memory("cmx", machine.cmx_bytes, machine.align, "scratchpad, per tile"),
        ),
        formats=("int8 and f16 on the DPU", "f16 and f32 on the SHAVEs"),
        modelled=("order, barriers and addresses of every task", "time by cost formulas, values"),
        not_modelled=("contention inside CMX", "compiling whole models, so far"),
    )
    instead = "write tile kernels for it, or schedule tile graphs: tilewright vpu --help"
    return VpuDescribed(description, instead, machine)
