"""convert-npu-schedule-to-isa: launches become instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.dialects.locations import error_at
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass, func
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.passes.generate_code import generate_code
from tilewright.targets.atlas.passes.join_kernels import join_kernels
from tilewright.targets.atlas.passes.lower_abstract import lower_launch
from tilewright.targets.atlas.profile import load_profile
from tilewright.transforms.kernel_manifest import load_manifest
from tilewright.transforms.launches import call_of_launch


@dataclass(frozen=True)
class ConvertNPUScheduleToISA(ModulePass):
    """Turn launches into npu_isa instructions.

    With a target, functions go through the code generator and come out as the program that models
    and kernels of the tile language would be: scheduled code, tensors at their places in DRAM.
    Without one, each launch becomes the abstract sequence: operands are loaded, computed on, and the
    result stored; loops stay, and so do launches of families that run on the host. With a manifest,
    launches on single tiles become the instruction lists of its kernels, one after the other.

    before: %t = npu_schedule.ukernel_launch "npu_uk_matmul"(%a, %b)
    after:  npu_isa.dma_load rd=0, base=0, size=1024, flag=0 ...                     (abstract)
            npu_isa.buffer "a" at 0 …; npu_isa.native_inst "lui" {rd = 1, imm = 0} … (target, manifest)
    """

    name = "convert-npu-schedule-to-isa"

    target: str | None = field(
        default=None, metadata={"meaning": "generate code for this profile (a name, or a file)"}
    )
    kernel_manifest: str | None = field(
        default=None, metadata={"meaning": "join this manifest's kernels (a file, or atlas-v0)"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.target is not None and self.kernel_manifest is not None:
            raise TilewrightError(
                "TW1303",
                "convert-npu-schedule-to-isa: target and kernel-manifest exclude each other",
                hint="give target to compile, kernel-manifest to join kernels of a manifest",
            )
        functions = [f for f in op.walk() if isinstance(f, func.FuncOp) and not f.is_declaration]
        if self.target is not None:
            profile = load_profile(self.target)
            for function in functions:
                generate_code(function, profile)
        elif self.kernel_manifest is not None:
            manifest = load_manifest(self.kernel_manifest)
            for function in functions:
                join_kernels(function, manifest)
        else:
            _lower_abstract(op)


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
