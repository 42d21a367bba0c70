"""raise-composites: one name for what exporters take apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass
from tilewright.transforms.canonicalize import remove_dead
from tilewright.transforms.cse import CommonSubexpressions
from tilewright.transforms.fold_constants import read_weights
from tilewright.transforms.kernel_rewriting import family_name, function_blocks, replace_value
from tilewright.transforms.known_values import Array, KnownValues
from tilewright.transforms.linalg_to_kernel.chains import recognise_chains
from tilewright.transforms.linalg_to_kernel.emitter import Settings
from tilewright.transforms.raising.affine import fold_all_affine
from tilewright.transforms.raising.attention import (
    flatten_attention,
    raise_attention,
    regroup_attention,
    straighten_attention,
)
from tilewright.transforms.raising.caches import separate_caches
from tilewright.transforms.raising.masks import simplify_attention_mask
from tilewright.transforms.raising.rotary import halve_tables, norm_before_rotation
from tilewright.transforms.raising.rows_of_pixels import keep_rows_of_pixels, means_of_rows
from tilewright.transforms.raising.spellings import SPELLINGS
from tilewright.transforms.raising.transposes import (
    cancel_transposes,
    turn_convolution,
    turn_product,
)
from tilewright.transforms.simplify_kernels import simplify_kernels

# What is done to a single call; the first rule that fits replaces it.
CALL_RULES = (
    simplify_attention_mask, flatten_attention, regroup_attention, straighten_attention,
    separate_caches, halve_tables, norm_before_rotation, cancel_transposes, turn_convolution,
    keep_rows_of_pixels, means_of_rows,
)  # fmt: skip
ROUNDS = 12  # each lets names grow by a step; chains of models need three or four


@dataclass(frozen=True)
class RaiseComposites(ModulePass):
    """Name norms, softmax, activations, rotary embeddings and attention that come in pieces.

    before: x * rsqrt(mean(x * x) + 1e-5) * weight          after: rms_norm(x, weight)
            concat(a cos - b sin, b cos + a sin)                    rope(x, cos, sin)
            softmax(q kᵀ * 0.125 + mask) v                          gemma_attention(q, k, v, mask)
            silu(gate) * up                                         silu_gate(gate, up)
            attention on a cache with one entry replaced            attention on cache and entry

    Steps whose values are also read elsewhere stay. Results agree within a few roundings; a query
    whose keys are all masked gives 0, where the pieces give a mean of all values or NaN.
    """

    name = "raise-composites"

    exact_masked_rows: bool = field(
        default=False,
        metadata={"meaning": "keep attention in pieces unless every query is known to see a key"},
    )
    weights: str = field(
        default="", metadata={"meaning": "safetensors file with the weights the module names"}
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = read_weights(self.weights) if self.weights else None
        raise_composites(op, weights, self.exact_masked_rows)


def raise_composites(
    module: ModuleOp,
    weights: Mapping[str, Array] | None = None,
    exact_masked_rows: bool = False,
) -> None:
    """Name the composites of a module; `weights` are looked at to see what masks hold."""
    known = KnownValues(weights)
    context = Context()
    before = None
    for _ in range(ROUNDS):
        simplify_kernels(module, known)
        CommonSubexpressions().apply(context, module)
        now = _shape_of_module(module)
        if now == before:
            return
        before = now
        _respell(module)
        for block in function_blocks(module):
            recognise_chains(block, {}, Settings())
        for op in list(module.walk()):
            if op.parent is None:
                continue
            if isinstance(op, MatmulOp):
                if not raise_attention(op, known, exact_masked_rows):
                    turn_product(op, known)
            elif isinstance(op, UKernelGenericOp):
                any(rule(op, known) for rule in CALL_RULES)
        fold_all_affine(list(module.walk()), known)
        remove_dead(module)
        known.forget()


def _respell(module: ModuleOp) -> None:
    """Bring what has several spellings into one."""
    for op in list(module.walk()):
        if not isinstance(op, UKernelGenericOp) or op.parent is None:
            continue
        for spelling in SPELLINGS.get(family_name(op), ()):
            value = spelling(op)
            if value is not None:
                replace_value(op, value)
                break
    remove_dead(module)


def _shape_of_module(module: ModuleOp) -> list[object]:
    """What the module computes with, op by op; rewriting ends when it stays the same."""
    return [
        (op.name, family_name(op), len(op.operands), len(op.attributes)) for op in module.walk()
    ]
