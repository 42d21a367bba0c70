"""Kernel calls along an axis, as nodes: reductions, softmax, norms, attention, searching, sorting."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewright.targets.coral.from_kernels_movement import Movement
from tilewright.targets.coral.program import Access, Value, identity

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


class Rows(Movement):
    """What works on whole rows."""

    def on_reduction(self) -> Value:
        x, kind = self.operand("x"), self.node.family.removeprefix("reduction_")
        shape, dtype = self.result
        if kind == "mean" and dtype != "f32":
            raise self.fail(f"on {dtype} is not compiled for Coral")
        if dtype == "i1" and kind not in ("max", "min"):
            raise self.fail("of truth values is not compiled for Coral", "use max or min")
        axes = tuple(a % len(x.shape) for a in self.call.integers("axes") or ())
        kept = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        start = self.operand("init") if "init" in self.node.inputs else None
        partial = "sum" if kind == "mean" and start is not None else kind
        out = self.emit("reduce", [x], kept, dtype, reduce=partial, axes=axes)
        if start is not None:
            full = identity(len(kept))
            first = self.reshaped(start, kept) if start.elements > 1 else start
            access: Access = full if start.elements > 1 else (None,) * len(start.shape)
            combine = COMBINE[partial]
            out = self.emit(combine, [first, out], kept, dtype, [access, full])
            if kind == "mean":
                count = self.constant(np.asarray(prod(x.shape[a] for a in axes)), "f32")
                out = self.emit("div", [out, count], kept, dtype, [full, ()])
        return out if kept == shape else self.reshaped(out, shape)

    def rows(
        self,
        kind: str,
        x: Value,
        axis: int,
        more: list[Value] | None = None,
        dtype: str | None = None,
        **attributes: Any,
    ) -> Value:
        """A function of rows along an axis; others are moved there and back."""
        last, made = len(x.shape) - 1, dtype or x.dtype
        inputs = [x, *(more or [])]
        if axis == last:
            return self.emit(kind, inputs, x.shape, made, **attributes)
        order = (*(k for k in range(last + 1) if k != axis), axis)
        moved = self.transposed(x, order)
        out = self.emit(kind, [moved, *inputs[1:]], moved.shape, made, **attributes)
        return self.transposed(out, tuple(order.index(k) for k in range(last + 1)))

    def float_operand(self) -> Value:
        x = self.operand("x")
        if x.dtype != "f32":
            raise self.fail(f"on {x.dtype} is not compiled for Coral")
        return x

    def on_softmax(self) -> Value:
        x = self.float_operand()
        return self.rows("softmax", x, self.call.axis(len(x.shape)))

    def on_layer_norm(self) -> Value:
        return self.normalisation("layer_norm")

    def on_rms_norm(self) -> Value:
        return self.normalisation("rms_norm")

    def normalisation(self, kind: str) -> Value:
        x = self.float_operand()
        axis = self.call.axis(len(x.shape))
        more, roles = [], []
        for role in ("weight", "bias"):
            if role in self.node.inputs:
                value = self.operand(role)
                if value.elements != x.shape[axis]:
                    raise self.fail(f"{role} has shape {value.shape}")
                more.append(value)
                roles.append(role)
        epsilon = self.call.floating("epsilon")
        return self.rows(kind, x, axis, more, epsilon=epsilon, roles=tuple(roles))

    def on_cumsum(self) -> Value:
        x = self.operand("x")
        if x.dtype == "i1":
            raise self.fail("of truth values is not compiled for Coral")
        return self.rows("cumsum", x, self.call.axis(len(x.shape)), dtype=self.result[1])

    def on_sort(self) -> Value:
        x = self.operand("x")
        down = self.call.flag("descending")
        return self.rows("sort", x, self.call.axis(len(x.shape)), descending=down)

    def on_argsort(self) -> Value:
        x = self.operand("x")
        down = self.call.flag("descending")
        axis = self.call.axis(len(x.shape))
        return self.rows("argsort", x, axis, dtype=self.result[1], descending=down)

    def on_argmax(self) -> Value:
        return self.position("argmax")

    def on_argmin(self) -> Value:
        return self.position("argmin")

    def position(self, kind: str) -> Value:
        """The index of the first extreme; NaN is the most extreme of all."""
        x, (shape, dtype) = self.operand("x"), self.result
        axis = self.call.axis(len(x.shape))
        kept = tuple(n for k, n in enumerate(x.shape) if k != axis)
        out = self.emit(kind, [x], kept, dtype, axis=axis)
        return out if kept == shape else self.reshaped(out, shape)

    # Attention

    def on_gemma_attention(self) -> Value:
        """softmax(scale * q k^T + mask) v as two products and rows of softmax."""
        call = self.call
        q, k, v = (self.operand(role) for role in ("q", "k", "v"))
        if any(x.dtype != "f32" for x in (q, k, v)) or self.result[1] != "f32":
            raise self.fail(f"on {q.dtype}, {k.dtype}, {v.dtype} is not compiled for Coral")
        group = call.integer("kv_group") or 1
        if group > 1:
            k, v = (self.shared(x, group) for x in (k, v))
        batch = prod(q.shape[:-2])
        m, depth = q.shape[-2:]
        q, k, v = (self.reshaped(x, (batch, *x.shape[-2:])) for x in (q, k, v))
        if not call.flag("transpose_k"):
            k = self.transposed(k, (0, 2, 1))
        if call.flag("transpose_v"):
            v = self.transposed(v, (0, 2, 1))
        scale = call.floating("scale")
        factor = self.constant(np.asarray(depth**-0.5 if scale is None else scale), "f32")
        n = k.shape[2]
        scores = self.emit("batch_matmul", [q, k], (batch, m, n), "f32")
        scores = self.emit("mul", [scores, factor], (batch, m, n), "f32", [identity(3), ()])
        scores, masked = self.masked(scores, n, m)
        weights = self.emit("softmax", [scores], (batch, m, n), "f32", masked=masked)
        out = self.emit("batch_matmul", [weights, v], (batch, m, v.shape[2]), "f32")
        return self.reshaped(out, self.result[0])

    def shared(self, x: Value, group: int) -> Value:
        """Keys or values of a head for each of the query heads that share it."""
        *outer, heads, rows, width = x.shape
        outside = prod(outer)
        flat = self.reshaped(x, (outside, heads, rows, width))
        wide = self.repeated(flat, (outside, heads, group, rows, width), (0, 1, 3, 4))
        return self.reshaped(wide, (*outer, heads * group, rows, width))

    def masked(self, scores: Value, n: int, m: int) -> tuple[Value, bool]:
        """Scores with what must not be seen at minus infinity, and whether there is such a thing."""
        call, shape = self.call, scores.shape
        seen = np.ones((m, n), dtype=bool)
        if call.flag("causal"):
            seen &= np.arange(n) <= np.arange(m)[:, None] + (n - m)
        valid = call.integer("valid_keys")
        if valid is not None:
            seen &= np.arange(n) < valid
        lowest = self.constant(np.asarray(-np.inf), "f32")
        masked = False
        if "mask" in self.node.inputs:
            mask = self.operand("mask")
            full, access = self.mask_rows(mask, shape)
            if mask.dtype == "i1":
                accesses: list[Access] = [access, identity(3), ()]
                scores = self.emit("select", [full, scores, lowest], shape, "f32", accesses)
            elif mask.dtype == "f32":
                added = self.emit("add", [scores, full], shape, "f32", [identity(3), access])
                # Minus infinity hides a key whatever its score, also NaN.
                hidden = self.emit(
                    "compare", [full, lowest], shape, "i1", [access, ()], predicate="eq"
                )
                accesses = [identity(3), (), identity(3)]
                scores = self.emit("select", [hidden, lowest, added], shape, "f32", accesses)
            else:
                raise self.fail(f"with a mask of {mask.dtype} is not compiled for Coral")
            masked = True
        if not seen.all():
            table = self.constant(seen, "i1")
            accesses = [(1, 2), identity(3), ()]
            scores = self.emit("select", [table, scores, lowest], shape, "f32", accesses)
            masked = True
        return scores, masked

    def mask_rows(self, mask: Value, shape: tuple[int, ...]) -> tuple[Value, Access]:
        """A mask as [batch, m, n] or [m, n], and how scores index it."""
        batch, m, n = shape
        leading = mask.shape[:-2]
        if prod(leading) == 1:
            return self.reshaped(mask, (m, n)), (1, 2)
        if prod(leading) == batch:
            return self.reshaped(mask, (batch, m, n)), (0, 1, 2)
        q = self.operand("q")
        outer = q.shape[:-2]
        padded = (1,) * (len(outer) - len(leading)) + leading
        flat = self.reshaped(mask, (*padded, m, n))
        wide = self.repeated(flat, (*outer, m, n), range(len(outer) + 2))
        return self.reshaped(wide, (batch, m, n)), (0, 1, 2)

    # Rotary embeddings

    def on_rope(self) -> Value:
        """Pairs turned by angles, as slices, products and a concatenation."""
        x, (shape, dtype) = self.operand("x"), self.result
        if dtype != "f32" or x.shape != shape:
            raise self.fail(f"of {x.dtype}{list(x.shape)} is not compiled for Coral")
        rank, axis = len(shape), self.call.axis(len(shape))
        maps = self.maps()
        if maps.get("x", identity(rank)) != identity(rank):
            raise self.fail("of elements that move is not compiled for Coral")
        style = self.call.string("style") or "split_half"
        a, b = self.pair(x, axis, style)
        tables: list[tuple[Value, Access]] = []
        for name in ("cos", "sin"):
            table = self.operand(name)
            default = tuple(range(rank - len(table.shape), rank))
            access = maps.get(name, default)
            along = next((k for k, d in enumerate(access) if d == axis), None)
            parts = (table, table)
            if along is not None and table.shape[along] == shape[axis]:
                parts = self.pair(table, along, style)
            for part in parts:
                pairs = zip(access, part.shape, strict=True)
                tables.append((part, tuple(None if n == 1 else d for d, n in pairs)))
        (cos_a, cos_b, sin_a, sin_b), full = tables, identity(rank)

        def times(value: Value, table: tuple[Value, Access]) -> Value:
            return self.emit("mul", [value, table[0]], a.shape, "f32", [full, table[1]])

        first = self.emit("sub", [times(a, cos_a), times(b, sin_a)], a.shape, "f32", [full, full])
        second = self.emit("add", [times(b, cos_b), times(a, sin_b)], a.shape, "f32", [full, full])
        if style == "split_half":
            return self.emit("concat", [first, second], shape, "f32", axis=axis)
        apart = (*a.shape[: axis + 1], 1, *a.shape[axis + 1 :])
        both = [self.reshaped(part, apart) for part in (first, second)]
        joined = (*apart[: axis + 1], 2, *apart[axis + 2 :])
        return self.reshaped(self.emit("concat", both, joined, "f32", axis=axis + 1), shape)

    def pair(self, x: Value, axis: int, style: str) -> tuple[Value, Value]:
        half = x.shape[axis] // 2
        kept = tuple(half if k == axis else n for k, n in enumerate(x.shape))
        step = 1 if style == "split_half" else 2
        strides = tuple(step if k == axis else 1 for k in range(len(x.shape)))

        def part(start: int) -> Value:
            offsets = tuple(start if k == axis else 0 for k in range(len(x.shape)))
            if x.data is not None:
                picked = np.take(x.data, range(start, start + (half - 1) * step + 1, step), axis)
                return self.constant(picked, x.dtype)
            return self.emit("slice", [x], kept, x.dtype, offsets=offsets, strides=strides)

        return part(0), part(half if style == "split_half" else 1)
