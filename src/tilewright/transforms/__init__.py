"""Passes, one per file, named as the pass; imported when a pipeline names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import extensions

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import ModulePass

# Pass -> its class, as `module:Class` of this package. Machines have passes of their own.
_OWN: dict[str, str] = {
    "canonicalize": "canonicalize:Canonicalize",
    "cse": "cse:CommonSubexpressions",
    "fold-constants": "fold_constants:FoldConstants",
    "simplify-kernels": "simplify_kernels:SimplifyKernels",
    "raise-composites": "raise_composites:RaiseComposites",
    "unwrap-iree": "unwrap_iree:UnwrapIREE",
    "convert-linalg-to-npu-kernel": "convert_linalg_to_npu_kernel:ConvertLinalgToNPUKernel",
    "tile-npu-kernel-to-schedule": "tile_npu_kernel_to_schedule:TileNPUKernelToSchedule",
    "convert-npu-kernel-to-schedule": "convert_npu_kernel_to_schedule:ConvertNPUKernelToSchedule",
    "npu-verify-ukernel-symbols": "npu_verify_ukernel_symbols:VerifyUKernelSymbols",
    "npu-insert-transfers": "npu_insert_transfers:InsertTransfers",
    "npu-verify-buffers": "npu_verify_buffers:VerifyBuffers",
    "npu-coverage": "npu_coverage:NPUCoverage",
}


def passes() -> dict[str, str]:
    """Every pass by name -> the place of its class, those of machines included."""
    own = {name: f"tilewright.transforms.{place}" for name, place in _OWN.items()}
    return {**own, **extensions.PASSES}


def load_pass(name: str) -> type[ModulePass]:
    """The class of a registered pass."""
    return extensions.load(passes()[name])
