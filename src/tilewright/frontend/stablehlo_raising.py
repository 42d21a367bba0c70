"""Putting together what JAX takes apart: the steps after all operations have become intents.

The order matters. Chains name means and softmaxes; then norms are brought into the one spelling that
chains know; attention is found around the named softmax; at last the dot products and complementary
error functions that were held back become plain intents.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import Attribute, Block, Operation, SSAValue
from tilewright.frontend.aten_builder import LAYER
from tilewright.frontend.stablehlo_attention import find_attention
from tilewright.frontend.stablehlo_builder import HLOImporter
from tilewright.frontend.stablehlo_chains import spelled_as_chains
from tilewright.frontend.stablehlo_ops_products import dot_of, expand_dot
from tilewright.frontend.stablehlo_ops_special import erfc
from tilewright.frontend.stablehlo_tidy import tidy_movement
from tilewright.transforms.linalg_to_kernel.chains import recognise_chains
from tilewright.transforms.linalg_to_kernel.emitter import Settings


def raise_forms(importer: HLOImporter) -> None:
    """Name what the intents of a block amount to, in place."""
    block = importer.block
    layers = {op: op.attributes[LAYER] for op in block.ops if LAYER in op.attributes}
    sources: dict[Operation, tuple[Operation, ...]] = {op: (op,) for op in block.ops}
    settings = Settings()
    recognise_chains(block, sources, settings)
    while spelled_as_chains(block, sources, settings):
        recognise_chains(block, sources, settings)
    for op in list(block.ops):
        dot = dot_of(op)
        if dot is not None and op.parent is not None:
            find_attention(importer, dot, _placed(importer, op))
    for op in list(block.ops):
        if isinstance(op, HLOOp):
            _expand(importer, op)
    importer.block = block
    tidy_movement(block)
    for op in block.ops:
        _restore_layer(op, sources, layers)


def _restore_layer(
    op: Operation,
    sources: dict[Operation, tuple[Operation, ...]],
    layers: dict[Operation, Attribute],
) -> None:
    """A new name belongs to the layer of the last step it stands for."""
    if not isinstance(op, (UKernelGenericOp, MatmulOp)) or LAYER in op.attributes:
        return
    found = [layers[source] for source in sources.get(op, ()) if source in layers]
    if found:
        op.attributes[LAYER] = found[-1]


def _placed(importer: HLOImporter, anchor: Operation) -> Callable[[Callable[[], SSAValue]], None]:
    """A function that puts what another one builds in the place of an operation."""

    def replace(build: Callable[[], SSAValue]) -> None:
        block = anchor.parent
        assert block is not None
        importer.block = Block()
        importer.made.clear()
        value = build()
        for op in list(importer.block.ops):
            op.detach()
            block.insert_op_before(op, anchor)
            op.location = anchor.location
            if LAYER in anchor.attributes and isinstance(op, (UKernelGenericOp, MatmulOp)):
                op.attributes[LAYER] = anchor.attributes[LAYER]
        anchor.results[0].replace_all_uses_with(value)
        anchor.detach()
        anchor.erase()
        importer.block = block
        importer.made.clear()

    return replace


def _expand(importer: HLOImporter, op: HLOOp) -> None:
    """Plain intents in the place of an operation that was held back."""
    dot = dot_of(op)
    if dot is not None:
        _placed(importer, op)(lambda: expand_dot(importer, dot))
    else:
        _placed(importer, op)(lambda: erfc(importer, op.operands[0]))
