"""Launches as abstract instructions: a notation for reading and for planning memory.

Each launch loads its operands, waits for them, computes (`abstract_recipes`), stores the result and
waits again.
Addresses are provisional (operands one after the other); npu-plan-memory assigns real ones.
"""

from __future__ import annotations

from math import prod

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.locations import copy_location, error_at
from tilewright.dialects.npu_isa import (
    DmaLoadMxu0Op,
    DmaLoadOp,
    DmaStoreOp,
    DmaWaitOp,
)
from tilewright.dialects.xdsl_api import (
    Attribute,
    IndexType,
    IntegerType,
    Operation,
    Rewriter,
    TensorType,
)
from tilewright.transforms.abstract_recipes import RECIPES, Instructions, Recipe, Value

_BITS = {"f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}


def tensor_bytes(type_: Attribute) -> int:
    """Bytes a tensor takes, dense; sub-byte elements are packed."""
    assert isinstance(type_, TensorType)
    element = type_.element_type
    if isinstance(element, IntegerType):
        bits = element.width.data
    elif isinstance(element, IndexType):
        bits = 64
    else:
        bits = _BITS[str(element)]
    return (prod(type_.get_shape()) * bits + 7) // 8


_WEIGHT_FAMILIES = ("matmul", "window")


def lower_launch(op: Operation, call: KernelCall) -> None:
    """Replace a launch by its abstract instructions.

    before: npu_schedule.matmul_tile on a 64x32 and a 32x16 tile
    after:  dma_load, dma_wait, dma_load_mxu0, dma_wait, matmul_mxu0, dma_store, dma_wait

    Error code: TW1330 when the family has no abstract form.
    """
    recipe = RECIPES.get(call.family.name)
    if recipe is None:
        raise error_at(
            op,
            "TW1330",
            f'"{call.symbol}" has no abstract instruction sequence',
            "run it on the host, or give a kernel manifest to lower to real instructions",
        )
    s = Instructions()
    loaded: list[Value] = []
    base = 0
    for index, operand in enumerate(op.operands):
        size = tensor_bytes(operand.type)
        register = s.register()
        is_weight = call.family.kind in _WEIGHT_FAMILIES and index == 1
        s.add((DmaLoadMxu0Op if is_weight else DmaLoadOp)(register, base, size, 0))
        s.add(DmaWaitOp(0))
        loaded.append((register, operand))
        base += size
    register, value = recipe(Recipe(s, call, loaded))
    s.add(DmaStoreOp(value, register, base, tensor_bytes(call.result), 0))
    s.add(DmaWaitOp(0))
    copy_location(op, *s.operations)
    Rewriter.replace_op(op, s.operations, [value])
