"""Naming the chains that exporters take apart.

Every op has already become single-step intents. A recogniser looks at one intent, the end of a
chain, and at what feeds it; when the steps are exactly those that `dialects/composites.py` gives for
a named intent, with the same constants, the name takes their place. Names grow step by step: x *
rsqrt(mean(x²) + ε) becomes rms_norm, then rms_norm * weight becomes rms_norm with weight. A chain
whose inner values are also read elsewhere stays as it is.
"""

from __future__ import annotations

from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import Block, Operation
from tilewright.transforms.linalg_to_kernel.chains import (
    activations,
    norms,
    quantisation,
    rotary,
)
from tilewright.transforms.linalg_to_kernel.chains.match import Recogniser, Rewriter, family_name
from tilewright.transforms.linalg_to_kernel.emitter import Settings

# Family at the end of a chain -> what to try, in order.
RECOGNISERS: dict[str, list[Recogniser]] = {}
for module in (activations, norms, rotary, quantisation):
    for family, recognisers in module.RECOGNISERS.items():
        RECOGNISERS.setdefault(family, []).extend(recognisers)


def recognise_chains(
    block: Block, sources: dict[Operation, tuple[Operation, ...]], settings: Settings
) -> None:
    """Put names in the place of chains, in one walk over the block and its nested blocks."""
    rewriter = Rewriter(sources, settings)
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                recognise_chains(inner, sources, settings)
        current: Operation | None = op
        while isinstance(current, UKernelGenericOp) and current not in rewriter.erased:
            current = _named(current, rewriter)


def _named(op: UKernelGenericOp, rewriter: Rewriter) -> Operation | None:
    """The op that took the place of `op`, or None when no recogniser knows it."""
    for recogniser in RECOGNISERS.get(family_name(op), ()):
        new = recogniser(op, rewriter)
        if new is not None:
            return new
    return None
