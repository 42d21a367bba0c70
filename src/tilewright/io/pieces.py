"""Bytes that belong in a row and lie apart: the content of a file whose parts are stored elsewhere.

What is asked for as a whole number of stored parts, or as a range within one of them, shares their
memory; only a range across several is copied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np


class Pieces:
    """Arrays of bytes, read like the array of them all."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = [array for array in arrays if len(array)]
        self.starts = [0, *accumulate(len(array) for array in self.arrays)]

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def size(self) -> int:
        return len(self)

    def __getitem__(self, key: slice) -> np.ndarray:
        first, last, step = key.indices(len(self))
        if step != 1:
            raise ValueError("bytes of a file are read in their order")
        number = bisect_right(self.starts, first) - 1
        parts = []
        while first < last:
            start, end = self.starts[number], min(last, self.starts[number + 1])
            parts.append(self.arrays[number][first - start : end - start])
            first, number = end, number + 1
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def tobytes(self) -> bytes:
        return b"".join(array.tobytes() for array in self.arrays)


Content = np.ndarray | Pieces  # of a file
