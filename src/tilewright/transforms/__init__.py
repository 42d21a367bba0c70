"""Passes, one per file, named as the pass; imported when a pipeline names them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import ModulePass

# Pass name -> "module:Class" below tilewright.transforms.
PASSES: dict[str, str] = {
    "canonicalize": "canonicalize:Canonicalize",
    "cse": "cse:CommonSubexpressions",
    "fold-constants": "fold_constants:FoldConstants",
    "simplify-kernels": "simplify_kernels:SimplifyKernels",
    "raise-composites": "raise_composites:RaiseComposites",
    "unwrap-iree": "unwrap_iree:UnwrapIREE",
    "convert-linalg-to-npu-kernel": "convert_linalg_to_npu_kernel:ConvertLinalgToNPUKernel",
    "tile-npu-kernel-to-schedule": "tile_npu_kernel_to_schedule:TileNPUKernelToSchedule",
    "convert-npu-kernel-to-schedule": "convert_npu_kernel_to_schedule:ConvertNPUKernelToSchedule",
    "convert-npu-schedule-to-isa": "convert_npu_schedule_to_isa:ConvertNPUScheduleToISA",
    "npu-plan-memory": "npu_plan_memory:PlanNPUMemory",
    "npu-verify-ukernel-symbols": "npu_verify_ukernel_symbols:VerifyUKernelSymbols",
    "npu-coverage": "npu_coverage:NPUCoverage",
}


def load_pass(name: str) -> type[ModulePass]:
    """The class of a registered pass."""
    module, class_name = PASSES[name].split(":")
    return getattr(importlib.import_module(f"tilewright.transforms.{module}"), class_name)
