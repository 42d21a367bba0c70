"""Lowering of attention: heads of queries, keys and values, masks, rotations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.model.capture import Node, dtype_of, shape_of
from tilewright.targets.atlas.model.calls import (
    ONE,
    Balance,
    Factor,
    RangeObserver,
    Tensor,
    Times,
    Unsupported,
    inverse_of,
)
from tilewright.targets.atlas.model.matching import Linear, padded
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.masks import LOWEST

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering


@dataclass(frozen=True)
class Source:
    """Where heads [B, H, M, D] come from.

    flat: the value [B, M, H * D] or [B, M, H, D] they are cut out of, if any; apart: a value of
    heads [B, H, M, D] otherwise, before the rotation `rope`. linear: the product that makes the flat
    value, where nothing else reads it. rows_at: which dimension of what is rotated counts rows.
    """

    count: int
    apart: SSAValue
    flat: SSAValue | None = None
    rope: Node | None = None
    linear: Linear | None = None
    rows_at: int = 2


@dataclass(frozen=True)
class FromHeads:
    """The value of heads, from what is stored: column `columns[k]` is in place `places[k]`, times
    the factor; turned: rows and columns are swapped."""

    columns: tuple[int, ...]
    places: tuple[int, ...]
    turned: bool = False
    factor: Factor = ONE

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        apart = numbers.swapaxes(2, 3) if self.turned else numbers
        natural = np.empty((*apart.shape[:-1], len(self.columns)), apart.dtype)
        natural[..., list(self.columns)] = apart[..., list(self.places)] / self.factor.number()
        return natural


class Heads:
    """Makes the calls of attention and of what feeds it."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering

    def merged(self, value: SSAValue) -> tuple[Tensor, RangeObserver, int] | None:
        """Attention's result if the value is its heads side by side: (heads, scale, head width)."""
        graph = self.at.graph
        reshape = graph.node_of(value, "reshape")
        if reshape is None or not graph.used_once(value):
            return None
        inside = reshape.operands[0]
        turn = graph.node_of(inside, "transpose")
        if turn is not None:
            if not graph.used_once(inside) or turn.call.integers("permutation") != (0, 2, 1, 3):
                return None
            inside = turn.operands[0]
        node = graph.node_of(inside, "gemma_attention")
        if node is None or not graph.used_once(inside) or len(shape_of(inside)) != 4:
            return None
        batch, heads, rows, width = shape_of(inside)
        # With one head or one row, turning heads to the front moves nothing.
        if turn is None and heads != 1 and rows != 1:
            return None
        if self.at.canonical(shape_of(value)) != (batch, rows, heads * width):
            return None
        tensor = self.attention(node)
        assert tensor.scale is not None
        return tensor, tensor.scale, width

    def attention(self, node: Node) -> Tensor:
        call, (q, k, v) = node.call, (node.inputs[n] for n in "qkv")
        batch, heads, rows, width = shape_of(node.result)
        groups = heads // (call.integer("kv_group") or 1)
        if call.flag("transpose_k") or call.flag("transpose_v"):
            raise Unsupported("attention on transposed keys or values")
        depth, keys = shape_of(q)[-1], shape_of(k)[-2]
        factor = call.floating("scale")
        factor = 1 / math.sqrt(depth) if factor is None else factor
        if call.integer("valid_keys") is not None:
            raise Unsupported("attention with padded keys")
        # q' k' are the scores: what q is multiplied by, k is divided by.
        sizes = self.at.magnitude(q, Times(Factor(factor))), self.at.magnitude(k)
        balance = Balance(*sizes)
        out_scale = self.at.magnitude(v)
        parts = self._parts(k, v)
        first, *others = [
            self._source(x, n) for x, n in ((q, heads), *((k, groups) for k, _ in parts))
        ]
        order = _head_order(depth, [s.rope for s in (first, *others) if s.rope is not None])
        natural = _head_order(width, [])
        operands = {"q": self._heads(q, "heads", order, first, Factor(factor, (balance,)))}
        for number, ((k, v), source) in enumerate(zip(parts, others, strict=True)):
            operands[f"kt{number or ''}"] = self._heads(
                k, "columns", order, source, Factor(over=(balance,))
            )
            operands[f"v{number or ''}"] = self._heads(
                v, "values", natural, self._source(v, groups), inverse_of(out_scale)
            )
        options: dict[str, Any] = {"parts": len(parts)} if len(parts) > 1 else {}
        sizes_of = [shape_of(k)[-2] for k, _ in parts]
        if call.flag("causal"):
            if len(parts) > 1 and sizes_of[-1] != rows:
                raise Unsupported("a causal mask over keys of several sources")
            options["mask"] = "causal"
        if "mask" in node.inputs:
            if "mask" in options:
                raise Unsupported("attention with a causal and another mask")
            start = 0
            for number, count in enumerate(sizes_of):
                columns = (start, start + count) if len(parts) > 1 else None
                tensor, kind, per_batch = self._mask(
                    node.inputs["mask"], batch, rows, count, columns
                )
                tensor = self._staged(tensor) if heads > 1 else tensor
                operands[f"mask{number or ''}"] = tensor
                options |= {"mask": kind, "batch": per_batch}
                start += count
        out = self.at.activation(
            node.layer or "attention", (batch, heads, rows, padded(width)), "fp8",
            value=node.result, scale=out_scale,
            undo=FromHeads(tuple(range(width)), tuple(range(width)), factor=inverse_of(out_scale)),
        )  # fmt: skip
        macs = batch * heads * rows * keys * (depth + width)
        return self.at.call(
            node.layer or "attention", "attention", operands, out, (node,), macs, None, sizes,
            **options,
        )  # fmt: skip

    def _parts(self, k: SSAValue, v: SSAValue) -> list[tuple[SSAValue, SSAValue]]:
        """Keys and values from several sources, one after the other."""
        joined = [self.at.graph.node_of(x, "concat") for x in (k, v)]
        parts = [node.operands for node in joined if node is not None]
        along = [node.call.axis(4) for node in joined if node is not None]
        if along != [2, 2] or [shape_of(x)[2] for x in parts[0]] != [
            shape_of(x)[2] for x in parts[1]
        ]:
            return [(k, v)]
        return list(zip(*parts, strict=True))

    def _staged(self, tensor: Tensor) -> Tensor:
        """A copy that may stay in VMEM, of a tensor that one kernel reads many times."""
        layout = tensor.layout
        out = Tensor(self.at.unique(f"{tensor.name}.staged"), layout, "activation")
        return self.at.call(
            f"{tensor.name} to VMEM", "copy", {"x": tensor}, out, (),
            rank=len(layout.shape), dtype=layout.dtype,
        )  # fmt: skip

    def _mask(
        self,
        value: SSAValue,
        batch: int,
        rows: int,
        keys: int,
        columns: tuple[int, int] | None = None,
    ) -> tuple[Tensor, str, bool]:
        """The mask of all keys, or of those in some columns, as numbers to add."""
        own = shape_of(value)
        whole = (1,) * (4 - len(own)) + own
        if whole[1] != 1:
            raise Unsupported("a mask that differs between heads")
        conversion = "mask" if dtype_of(value) == "i1" else "clip"
        per_batch = whole[0] > 1
        if per_batch and whole[0] != batch:
            raise Unsupported("a mask for another batch")
        shape = (batch, rows, keys) if per_batch else (rows, keys)
        array = self.at.graph.constants.get(value)
        if array is not None:
            numbers = np.where(array, 0.0, LOWEST) if conversion == "mask" else array
            numbers = np.maximum(np.asarray(numbers, np.float32), LOWEST)
            numbers = numbers[..., slice(*columns or (None,))].reshape(shape)
            tensor = self.at.remembered(
                (value, "mask", columns),
                lambda: self.at.weight(self.at.hint(value), Layout(shape, "bf16"), numbers),
            )
            return tensor, "full", per_batch
        tensor = self.at.from_host(value, shape, conversion, columns=columns)
        return tensor, "full", per_batch

    def _heads(
        self,
        value: SSAValue,
        kind: str,
        order: list[int],
        source: Source,
        factor: Factor,
    ) -> Tensor:
        """Queries, keys or values of attention in fp8, times `factor`."""
        linear, rope, count = source.linear, source.rope, source.count
        if linear is None:
            if order != list(range(shape_of(value)[-1])):
                raise Unsupported("heads from elsewhere would have to be rearranged")
            return self._split_heads(value, kind, source, factor)
        a, weight, offset, scale, merged = self.at.products.operand(linear)
        if merged:
            raise Unsupported("heads made of merged heads")
        batch, _, rows, width = shape_of(value)
        wide = len(order)
        columns = np.array([k for k in order if k >= 0])
        places = np.array([p for p, k in enumerate(order) if k >= 0])
        weights = np.zeros((count, weight.shape[0], wide), np.float32)
        heads = weight.reshape(weight.shape[0], count, width).transpose(1, 0, 2)
        weights[:, :, places] = heads[:, :, columns]
        channel = self.at.channel_scales(weights)
        bias = (
            linear.bias if offset is None else offset + (0 if linear.bias is None else linear.bias)
        )
        operands = {
            "a": a,
            "w": self.at.weight(
                f"{linear.name}.weight",
                Layout(weights.shape, "fp8", "panels"),
                weights,
                channel,
            ),
            "scale": self.at.weight(
                f"{linear.name}.scale",
                Layout((count, wide), "bf16", "rows"),
                channel[:, 0, :],
                factor=scale * factor,
            ),
        }
        if bias is not None:
            spread = np.zeros((count, wide), np.float32)
            spread[:, places] = bias.reshape(count, width)[:, columns]
            operands["bias"] = self.at.weight(
                f"{linear.name}.bias",
                Layout((count, wide), "bf16", "rows"),
                spread,
                factor=factor,
            )
        options: dict[str, Any] = {"out": kind, "scale": True, "bias": bias is not None}
        nodes = linear.nodes
        if rope is not None:
            tables, options["rope"] = self._tables(source, batch, rows, width)
            operands |= tables
            nodes = (*nodes, rope)
        shape = (batch, count, wide, rows) if kind == "columns" else (batch, count, rows, wide)
        order_name = "panels" if kind == "columns" else "tiles"
        undo = FromHeads(tuple(columns), tuple(places), kind == "columns", factor)
        out = self.at.activation(
            f"{linear.name}.{kind}", shape, "fp8", order_name, value=value, undo=undo
        )
        macs = batch * rows * linear.weight.size
        return self.at.call(linear.name, "project", operands, out, nodes, macs, **options)

    def _source(self, value: SSAValue, count: int) -> Source:
        """Where heads [B, H, M, D] come from."""
        graph, rope, alone = self.at.graph, None, True
        batch, _, rows, width = shape_of(value)
        # With one head or one row, turning heads to the front moves nothing.
        turned = moves_nothing = count == 1 or rows == 1
        rows_at = 2
        apart = (batch, rows, count, width)
        while (node := graph.definition.get(value)) is not None:
            alone = alone and graph.used_once(value)
            if node.family == "rope" and rope is None:
                rope, value = node, node.inputs["x"]
                sizes = shape_of(value)[1:3]
                rows_at = 1 if (sizes == (rows, count) if moves_nothing else turned) else 2
            elif node.family == "transpose" and (not turned or moves_nothing):
                if node.call.integers("permutation") != (0, 2, 1, 3):
                    break
                turned, value = True, node.operands[0]
            elif node.family == "reshape" and turned:
                inside = node.operands[0]
                rotated = rope is None and graph.node_of(inside, "rope") is not None
                if rotated and moves_nothing and shape_of(inside) == apart:
                    value = inside
                elif self.at.canonical(shape_of(inside)) == (batch, rows, count * width):
                    linear = self._product(inside) if alone and graph.used_once(inside) else None
                    return Source(count, value, inside, rope, linear, rows_at)
                elif not moves_nothing or shape_of(inside) != apart:
                    break
                else:
                    value = inside
            else:
                break
        flat = value if turned and shape_of(value) == apart else None
        return Source(count, value, flat, rope, rows_at=rows_at)

    def _product(self, value: SSAValue) -> Linear | None:
        """The product that makes heads side by side."""
        linear = self.at.linear(value)
        if linear is None or linear.activation:
            return None
        if self.at.kept(linear.name):
            raise TilewrightError(
                "TW1709",
                f"{linear.name} cannot be kept in bf16: attention takes its result as fp8",
                self.at.graph.definition[value].location,
                "keep other layers",
            )
        return linear

    def _tables(
        self, source: Source, batch: int, rows: int, width: int
    ) -> tuple[dict[str, Tensor], str]:
        """cos and sin as [M, width / 2], or with a batch in front."""
        tables, half, rope = {}, width // 2, source.rope
        assert rope is not None
        for name in ("cos", "sin"):
            value = rope.inputs[name]
            own = shape_of(value)
            wide = (1,) * (4 - len(own)) + own
            if (
                (wide[source.rows_at], wide[3 - source.rows_at], wide[3]) != (rows, 1, half)
                or wide[0] not in (1, batch)
                or "operand_maps" in rope.call.attributes
            ):
                raise Unsupported(f"rotary tables of {'x'.join(map(str, own))}")
            shape = (rows, half) if wide[0] == 1 else (batch, rows, half)
            array = self.at.graph.constants.get(value)
            if array is not None:
                tables[name] = self.at.remembered(
                    (value, "table"),
                    lambda value=value, array=array, shape=shape: self.at.weight(
                        self.at.hint(value), Layout(shape, "bf16"), array.reshape(shape)
                    ),
                )
            else:
                tables[name] = self._computed_table(value, (batch, rows, half)) or (
                    self.at.from_host(value, shape)
                )
        kinds = {len(t.layout.shape) for t in tables.values()}
        if len(kinds) != 1:
            raise Unsupported("cos and sin of different shapes")
        return tables, "batch" if kinds == {3} else "shared"

    def _computed_table(self, value: SSAValue, shape: tuple[int, int, int]) -> Tensor | None:
        """A table that the device itself computes, as [B, M, width / 2]."""
        graph = self.at.graph
        while (view := graph.node_of(value, "reshape")) is not None:
            value = view.operands[0]
        if value in graph.inputs or self.at.canonical(shape_of(value)) != shape:
            return None
        try:
            return self.at.bf16(value)
        except Unsupported:
            return None

    def _split_heads(self, value: SSAValue, kind: str, source: Source, factor: Factor) -> Tensor:
        """Heads [B, H, M, D] that no product makes for them: cut out of bf16 [B, M, H * D]."""
        count, flat = source.count, source.flat
        batch, _, rows, width = shape_of(value)
        if flat is None and shape_of(source.apart) != (batch, count, rows, width):
            raise Unsupported("attention whose heads are not side by side in another tensor")
        if width % SIDE:
            raise Unsupported(f"heads of {width} columns cut out of a wider tensor")
        side_by_side = (batch, rows, count * width)
        if flat is None:
            operands = {"x": self.at.from_host(source.apart, side_by_side, "heads")}
        elif self.at.canonical(shape_of(flat)) == side_by_side:
            operands = {"x": self.at.bf16(flat)}
        else:
            operands = {"x": self.at.from_host(flat, side_by_side)}
        options: dict[str, Any] = {"out": kind, "heads": count}
        if source.rope is not None:
            tables, options["rope"] = self._tables(source, batch, rows, width)
            operands |= tables
        shape = (batch, count, width, rows) if kind == "columns" else (batch, count, rows, width)
        order = "panels" if kind == "columns" else "tiles"
        every = tuple(range(width))
        undo = FromHeads(every, every, kind == "columns", factor)
        name = operands["x"].name
        out = self.at.activation(f"{name}.{kind}", shape, "fp8", order, value=value, undo=undo)
        node = self.at.graph.definition.get(value)
        return self.at.call(
            f"{name} to heads", "split_heads", operands, out, (node,) if node else (), 0,
            {"factor": factor}, **options,
        )  # fmt: skip


def _head_order(width: int, ropes: list[Node]) -> list[int]:
    """Which column of a head goes where; -1 is padding. Pairs of a rotation end up in halves
    that are whole tiles."""
    if not ropes:
        return [*range(width), *[-1] * (padded(width) - width)]
    half = width // 2
    styles = {rope.call.string("style") for rope in ropes}
    if len(styles) > 1:
        raise Unsupported("queries and keys rotated in different styles")
    if styles == {"interleaved"}:
        first, second = list(range(0, width, 2)), list(range(1, width, 2))
    else:
        first, second = list(range(half)), list(range(half, width))
    rest = [-1] * (padded(half) - half)
    return [*first, *rest, *second, *rest]
