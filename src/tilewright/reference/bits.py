"""Comparing numbers bit by bit, whatever their format; any NaN equals any NaN."""

from __future__ import annotations

import hashlib

import numpy as np


def equal_bits(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Which elements of two arrays of one type and shape are the same."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    bits = np.dtype(f"u{left.dtype.itemsize}")
    same = left.view(bits) == right.view(bits)
    if left.dtype.kind in "biu" or same.all():
        return same
    return same | (np.isnan(left.astype(np.float32)) & np.isnan(right.astype(np.float32)))


def digest_bits(numbers: np.ndarray) -> str:
    """A digest of shape, format and elements."""
    numbers = np.ascontiguousarray(numbers)
    codes = numbers.view(f"u{numbers.dtype.itemsize}")
    if numbers.dtype.kind not in "biu":
        codes = np.where(np.isnan(numbers.astype(np.float32)), ~codes.dtype.type(0), codes)
    found = hashlib.blake2b(f"{numbers.dtype}{numbers.shape}".encode(), digest_size=16)
    found.update(codes.tobytes())
    return found.hexdigest()
