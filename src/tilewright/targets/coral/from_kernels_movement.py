"""Kernel calls that move elements, as nodes: copies between index spaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.targets.coral.program import Value
from tilewright.targets.coral.program_builder import Builder

INDICES = ("i32", "i64", "i16", "i8", "ui8")


class Movement(Builder):
    """transpose, reshape, slices, concat, pad, fill, iota, gather, scatter."""

    def on_transpose(self) -> Value:
        return self.transposed(self.operand("x"), self.call.integers("permutation") or ())

    def on_reshape(self) -> Value:
        return self.reshaped(self.operand("x"), self.result[0])

    def on_slice(self) -> Value:
        x = self.operand("x")
        offsets = self.call.integers("offsets") or ()
        sizes = self.call.integers("sizes") or self.result[0]
        strides = self.call.integers("strides") or (1,) * len(x.shape)
        part = self.emit("slice", [x], tuple(sizes), x.dtype, offsets=offsets, strides=strides)
        return part if part.shape == self.result[0] else self.reshaped(part, self.result[0])

    def on_insert_slice(self) -> Value:
        x, into = self.operand("x"), self.operand("into")
        offsets = self.call.integers("offsets") or ()
        sizes = self.call.integers("sizes") or ()
        strides = self.call.integers("strides") or (1,) * len(into.shape)
        part = self.reshaped(x, sizes) if x.shape != sizes else x
        return self.emit(
            "insert", [into, part], into.shape, into.dtype, offsets=offsets, strides=strides
        )

    def on_concat(self) -> Value:
        parts = [self.values[v] for v in self.node.inputs["parts"]]
        axis = self.call.axis(len(parts[0].shape))
        return self.emit("concat", parts, self.result[0], parts[0].dtype, axis=axis)

    def on_pad(self) -> Value:
        low, high = self.call.integers("low") or (), self.call.integers("high") or ()
        value = self.call.value("value")
        return self.bordered(self.operand("x"), low, high, 0 if value is None else value)

    def bordered(
        self, x: Value, low: tuple[int, ...], high: tuple[int, ...], value: int | float
    ) -> Value:
        """x with a border; where it is negative, elements are cut off."""
        if min((*low, *high), default=0) < 0:
            cut = tuple(max(0, -n) for n in low)
            kept = tuple(
                size - a - max(0, -b) for size, a, b in zip(x.shape, cut, high, strict=True)
            )
            x = self.emit("slice", [x], kept, x.dtype, offsets=cut, strides=(1,) * len(kept))
            low, high = (tuple(max(0, n) for n in side) for side in (low, high))
        if not any((*low, *high)):
            return x
        shape = tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True))
        return self.emit("pad", [x], shape, x.dtype, low=low, value=value)

    def on_fill(self) -> Value:
        shape, dtype = self.result
        if "value" in self.node.inputs:
            value = self.operand("value")
            return self.emit("copy", [value], shape, dtype, [(None,) * len(value.shape)])
        value = self.call.value("value")
        return self.constant(np.full(shape, 0 if value is None else value), dtype)

    def on_iota(self) -> Value:
        shape, dtype = self.result
        axis = self.call.axis(len(shape))
        index = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        return self.constant(np.broadcast_to(index, shape), dtype)

    def index_operand(self) -> Value:
        indices = self.operand("indices")
        if indices.dtype not in INDICES:
            raise self.fail(f"indices of {indices.dtype} are not compiled for Coral")
        return indices

    def on_gather(self) -> Value:
        x, indices = self.operand("x"), self.index_operand()
        axis = self.call.axis(len(x.shape))
        return self.emit("gather", [x, indices], self.result[0], x.dtype, axis=axis)

    on_embedding = on_gather

    def on_scatter(self) -> Value:
        x, indices, updates = self.operand("x"), self.index_operand(), self.operand("updates")
        how = self.call.string("reduction") or "replace"
        if x.dtype == "i1" and how != "replace":
            raise self.fail("of truth values with arithmetic is not compiled for Coral")
        return self.emit("scatter", [x, indices, updates], x.shape, x.dtype, reduce=how)

    def repeated(self, value: Value, shape: tuple[int, ...], dims: Sequence[int]) -> Value:
        """A value whose dimensions are `dims` of a larger shape, once for every other index."""
        if value.data is not None:
            axes = [1] * len(shape)
            for d, n in zip(dims, value.shape, strict=True):
                axes[d] = n
            return self.constant(np.broadcast_to(value.data.reshape(axes), shape), value.dtype)
        access = tuple(None if n == 1 else d for n, d in zip(value.shape, dims, strict=True))
        return self.emit("copy", [value], shape, value.dtype, [access])
