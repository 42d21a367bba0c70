"""The identity of a model."""

from __future__ import annotations

import hashlib

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import let_go_of_pages


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of an array, without a copy where they lie in order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def model_hash(model: Imported, text: str | None = None) -> str:
    """A hash of the model's operations and weights; text: of its module, where it is known."""
    text = print_module(model.module) if text is None else text
    digest = hashlib.sha256(text.removesuffix("\n").encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        array = np.asarray(model.weights[name])
        digest.update(bytes_of(array))
        let_go_of_pages(array)
    return digest.hexdigest()
