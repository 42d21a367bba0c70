"""Arrays that are not there until somebody asks: weights of models larger than memory should hold.

    table = Deferred((128256, 2048), np.dtype("float32"), read)
    table.shape, table.nbytes       known, nothing is read
    np.asarray(table)               read now; let go when the caller lets go

In a table of weights such an object stands for an array. Who needs the numbers asks by `np.asarray`,
for as short a time as possible; as long as somebody holds them, others get the same array.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tilewright.errors import Location, TilewrightError

BLOCK = 1 << 22  # elements converted at a time


class Deferred:
    """An array by its shape and type, and a function that reads it."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        read: Callable[[], np.ndarray],
        again: Callable[[np.dtype[Any]], Deferred] | None = None,
    ) -> None:
        self.shape, self.dtype = tuple(shape), dtype
        self._read = read
        self._again = again  # how it is read in another type at once, if there is a way
        self._last: Callable[[], np.ndarray | None] = lambda: None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def array(self) -> np.ndarray:
        """The numbers; not to be written to, since others may see them."""
        found = self._last()
        if found is None:
            found = self._read()
            assert found.shape == self.shape and found.dtype == self.dtype
            self._last = weakref.ref(found)
        return found

    def reshape(self, shape: Sequence[int]) -> Deferred:
        """The same numbers in another shape."""
        if tuple(shape) == self.shape:
            return self
        return Deferred(shape, self.dtype, lambda: self.array().reshape(shape))

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Deferred:
        """What a function of the numbers gives, in the same shape and type."""
        return Deferred(self.shape, self.dtype, lambda: function(self.array()))

    def converted(self, dtype: np.dtype[Any]) -> Deferred:
        """The numbers in another type."""
        if dtype == self.dtype:
            return self
        if self._again is not None:
            return self._again(dtype)

        def read() -> np.ndarray:
            source, found = self.array().reshape(-1), np.empty(self.size, dtype)
            for first in range(0, self.size, BLOCK):
                found[first : first + BLOCK] = source[first : first + BLOCK]
            return found.reshape(self.shape)

        return Deferred(self.shape, dtype, read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.array()
        if dtype is not None and np.dtype(dtype) != found.dtype:
            return found.astype(dtype)
        return found.copy() if copy else found

    def __repr__(self) -> str:
        return f"<{'x'.join(map(str, self.shape))} {self.dtype}, not read>"


def as_weight(array: Deferred) -> np.ndarray:
    """Say to type checkers that it may stand in a table of arrays."""
    return cast(np.ndarray, array)


def in_file(
    path: str,
    offset: int,
    shape: Sequence[int],
    stored: np.dtype[Any],
    wanted: np.dtype[Any] | None = None,
) -> Deferred:
    """Numbers in a file, from a byte on, perhaps in another type than they are stored in.

    What is converted is read block by block, so that no more than the result is in memory; what is
    not is mapped.
    """
    wanted = wanted or stored
    size = math.prod(shape)

    def failed(reason: object) -> TilewrightError:
        return TilewrightError("TW6401", f"cannot read the weights: {reason}", Location(path))

    def mapped() -> np.ndarray:
        try:
            return np.memmap(path, stored, "r", offset, tuple(shape))
        except (OSError, ValueError) as error:
            raise failed(error) from None

    def converted() -> np.ndarray:
        found = np.empty(size, wanted)
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                for first in range(0, size, BLOCK):
                    count = min(BLOCK, size - first)
                    block = np.fromfile(file, stored, count)
                    if len(block) != count:
                        raise failed("the file has become shorter")
                    found[first : first + count] = block
        except OSError as error:
            raise failed(error) from None
        return found.reshape(shape)

    if wanted != stored or not size:
        return Deferred(shape, wanted, converted)
    return Deferred(
        shape, stored, mapped, lambda other: in_file(path, offset, shape, stored, other)
    )


def pages(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An array of zeros on pages of its own, which go back to the system with it. Those of the usual
    allocator may stay with the process for as long as it runs."""
    size = math.prod(shape)
    if not size:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size * dtype.itemsize), dtype).reshape(shape)


def blocks_of(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array, some at a time; pages of a mapped file are let go behind them."""
    whole = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    step = 8 * BLOCK
    for first in range(0, len(whole), step):
        yield whole[first : first + step].data
        let_go_of_pages(array)


def parked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as a mapped file without a name, for content that is not looked at for a while; as
    they are, where there is no room for one."""
    with contextlib.suppress(OSError), tempfile.TemporaryFile() as file:
        places = {}
        for name, array in arrays.items():
            places[name] = file.tell()
            for block in blocks_of(array):
                file.write(block)
            file.write(bytes(-file.tell() % mmap.ALLOCATIONGRANULARITY))
        file.flush()
        whole = np.memmap(file, np.uint8, "r")  # one mapping: each would hold the file open
        return {
            name: whole[places[name] : places[name] + array.nbytes]
            .view(array.dtype)
            .reshape(array.shape)
            for name, array in arrays.items()
        }
    return dict(arrays)


def let_go_of_pages(array: np.ndarray) -> None:
    """Say that what was read of a mapped file need not stay in memory; it can be read again."""
    base: Any = array
    while isinstance(base, np.ndarray):
        mapping = getattr(base, "_mmap", None)
        if isinstance(mapping, mmap.mmap):
            if getattr(base, "mode", None) != "r":
                return  # what was changed in memory would be lost
            with contextlib.suppress(AttributeError, OSError, ValueError):
                mapping.madvise(mmap.MADV_DONTNEED)
            return
        base = base.base
