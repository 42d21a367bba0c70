"""convert-npu-kernel-to-schedule: each remaining kernel becomes one launch."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.locations import copy_location
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.npu_schedule import MatmulTileOp, SoftmaxFragmentOp, UKernelLaunchOp
from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass, Operation, Rewriter


@dataclass(frozen=True)
class ConvertNPUKernelToSchedule(ModulePass):
    """Turn every kernel that is left into one schedule operation on the same tensors.

    before: npu_kernel.matmul, npu_kernel.ukernel_generic "npu_uk_softmax", any other symbol
    after:  npu_schedule.matmul_tile, npu_schedule.softmax_fragment, npu_schedule.ukernel_launch
    """

    name = "convert-npu-kernel-to-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.walk() if isinstance(k, (MatmulOp, UKernelGenericOp))]:
            new = _scheduled(kernel)
            copy_location(kernel, new)
            new.results[0].name_hint = kernel.results[0].name_hint
            Rewriter.replace_op(kernel, new)


def _scheduled(kernel: MatmulOp | UKernelGenericOp) -> Operation:
    if isinstance(kernel, MatmulOp):
        return MatmulTileOp.create(
            operands=kernel.operands,
            result_types=kernel.result_types,
            properties=kernel.properties.copy(),
            attributes=kernel.attributes.copy(),
        )
    family = family_of(kernel.symbol.data)
    if family is not None and family.name == "softmax" and set(kernel.attributes) <= {"axis"}:
        call = kernel.call()
        assert call is not None
        axis = call.integer("axis") if "axis" in kernel.attributes else None
        return SoftmaxFragmentOp(kernel.operands[0], kernel.result.type, axis)
    return UKernelLaunchOp.create(
        operands=kernel.operands,
        result_types=kernel.result_types,
        properties=kernel.properties.copy(),
        attributes=kernel.attributes.copy(),
    )
