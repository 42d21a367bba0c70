"""The identity of a model."""

from __future__ import annotations

import hashlib

import numpy as np

from tilewright.frontend.imported import Imported


def model_hash(model: Imported) -> str:
    """A hash of the model's operations and weights."""
    digest = hashlib.sha256(str(model.module).encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(model.weights[name]).tobytes())
    return digest.hexdigest()
