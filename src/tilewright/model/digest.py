"""The identity of a model."""

from __future__ import annotations

import hashlib

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import blocks_of


def model_hash(model: Imported, text: str | None = None) -> str:
    """A hash of the model's operations and weights; text: of its module, where it is known."""
    text = print_module(model.module) if text is None else text
    digest = hashlib.sha256(text.removesuffix("\n").encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        for block in blocks_of(np.asarray(model.weights[name])):
            digest.update(block)
    return digest.hexdigest()
