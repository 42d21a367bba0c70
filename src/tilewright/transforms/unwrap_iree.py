"""`unwrap-iree`: take IREE's wrapping off a module."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass
from tilewright.transforms.iree_unwrap import unwrap


@dataclass(frozen=True)
class UnwrapIREE(ModulePass):
    """Turn util functions with imports, exports, barriers and globals into plain functions.

    before: util.func public @main(%a: !hal.buffer_view) -> !hal.buffer_view
    after:  func.func @main(%a: tensor<4x8xf32>) -> tensor<4x16xf32>
    """

    name = "unwrap-iree"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        unwrap(op)
