"""The identity of a model."""

from __future__ import annotations

import contextlib
import hashlib
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import blocks_of

# Digests of arrays by where they are, and the arrays that have the memory. Those of a model whose weights
# somebody changes in place are others the next time, so nothing is remembered for longer than asked for.
Remembered = dict[tuple[Any, ...], tuple["weakref.ref[np.ndarray]", bytes]]
_remembered: ContextVar[Remembered | None] = ContextVar("remembered", default=None)


@contextlib.contextmanager
def remembered_digests() -> Iterator[None]:
    """While it lasts no weight changes, and those that several models share are read once."""
    before = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(before)


def model_hash(model: Imported, text: str | None = None) -> str:
    """A hash of the model's operations and weights; text: of its module, where it is known."""
    text = print_module(model.module) if text is None else text
    digest = hashlib.sha256(text.removesuffix("\n").encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        digest.update(_digest_of(np.asarray(model.weights[name])))
    return digest.hexdigest()


def former_model_hash(model: Imported) -> str:
    """The hash that older bundles have: of the bytes of all weights in a row."""
    digest = hashlib.sha256(print_module(model.module).removesuffix("\n").encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        for block in blocks_of(np.asarray(model.weights[name])):
            digest.update(block)
    return digest.hexdigest()


def _digest_of(array: np.ndarray) -> bytes:
    """Of the bytes of an array in the order of its indices."""
    known, owner = _remembered.get(), array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
    if known is not None and place in known and known[place][0]() is owner:
        return known[place][1]
    digest = hashlib.sha256()
    for block in blocks_of(array):
        digest.update(block)
    found = digest.digest()
    if known is not None:
        known[place] = weakref.ref(owner), found
    return found
