"""What the compiler does first with a model: constants folded, composites named, nothing unused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.transforms.canonicalize import remove_dead
from tilewright.transforms.fold_constants import fold_constants
from tilewright.transforms.raise_composites import raise_composites

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported


def simplify(imported: Imported, exact_masked_rows: bool = False) -> Imported:
    """The model with the same inputs and outputs in the vocabulary kernels have.

    before: norms, rotary embeddings and attention in pieces, weights transposed at run time
    after:  rms_norm, rope, gemma_attention, silu_gate, …; everything without inputs computed

    The given model stays as it is.
    """
    module = imported.module.clone()
    keep = tuple(imported.state)
    weights = fold_constants(module, imported.weights, keep)
    raise_composites(module, weights, exact_masked_rows)
    weights = fold_constants(module, weights, keep)
    remove_dead(module)
    return replace(imported, module=module, weights=weights)
