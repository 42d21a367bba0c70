"""convert-npu-schedule-to-isa: launches become instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilewright.dialects.locations import error_at
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass, func
from tilewright.targets.atlas.passes.lower_abstract import lower_launch
from tilewright.targets.atlas.passes.lower_native import Machine, lower_function
from tilewright.transforms.kernel_manifest import load_manifest
from tilewright.transforms.launches import call_of_launch


@dataclass(frozen=True)
class ConvertNPUScheduleToISA(ModulePass):
    """Turn launches into npu_isa instructions.

    Without a manifest each launch becomes the abstract sequence: operands are loaded, computed
    on, and the result stored; loops stay, and so do launches of families that run on the host. With a manifest each launch becomes the real
    instructions of its kernel, loops are walked, every address role is bound to the tile it
    reads or writes and materialised with lui and addi.

    before: %t = npu_schedule.ukernel_launch "npu_uk_matmul"(%a, %b)
    after:  npu_isa.dma_load rd=0, base=0, size=1024, flag=0 ...           (abstract)
            npu_isa.native_inst "lui" {rd = 1, imm = 0} ...                (kernel-manifest)
    """

    name = "convert-npu-schedule-to-isa"

    kernel_manifest: str | None = field(
        default=None, metadata={"meaning": "lower to this manifest's kernels (a file, or atlas-v0)"}
    )
    dram_base: int = field(default=0, metadata={"meaning": "first DRAM byte for buffers"})
    dram_size: int = field(default=1 << 20, metadata={"meaning": "bytes of DRAM there are"})
    memory_plan: Literal["none", "first-fit", "best-fit", "exact", "auto"] = field(
        default="none",
        metadata={"meaning": "how buffers share DRAM; none: every one its own bytes"},
    )
    max_instructions: int = field(
        default=1_000_000, metadata={"meaning": "longest program a function may become"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.kernel_manifest is None:
            _lower_abstract(op)
            return
        manifest = load_manifest(self.kernel_manifest)
        machine = Machine(self.dram_base, self.dram_size, self.max_instructions, self.memory_plan)
        for function in [f for f in op.walk() if isinstance(f, func.FuncOp)]:
            if not function.is_declaration:
                lower_function(function, manifest, machine)


def _lower_abstract(module: ModuleOp) -> None:
    for launch in list(module.walk()):
        call = call_of_launch(launch)
        if call is not None and call.family.runs_on == "host":
            continue
        if call is not None:
            lower_launch(launch, call)
        elif isinstance(launch, UKernelLaunchOp):
            raise error_at(
                launch, "TW1312", f'no kernel family has the symbol "{launch.symbol.data}"'
            )
