"""Schedule operations that run a kernel, read as calls of a family."""

from __future__ import annotations

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.dialects.npu_schedule import MatmulTileOp, SoftmaxFragmentOp, UKernelLaunchOp
from tilewright.dialects.xdsl_api import Attribute, Operation


def call_of_launch(op: Operation) -> KernelCall | None:
    """The call behind a launch, a matmul tile or a softmax fragment; None for anything else."""
    if isinstance(op, UKernelLaunchOp):
        return op.call()
    if isinstance(op, MatmulTileOp):
        marks: dict[str, Attribute] = {
            k: v for k, v in op.properties.items() if k.startswith("transpose")
        }
        return kernel_call("npu_uk_matmul", op.operand_types, marks, op.result.type)
    if isinstance(op, SoftmaxFragmentOp):
        return kernel_call("npu_uk_softmax", op.operand_types, op.properties, op.result.type)
    return None
