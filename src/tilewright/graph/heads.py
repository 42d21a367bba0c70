"""Lowering of attention: heads of queries, keys and values, masks, rotations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.graph.calls import Magnitude, Tensor, Unsupported, power_of_two
from tilewright.graph.capture import Node, dtype_of, shape_of
from tilewright.graph.matching import Linear, canonical, padded
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.masks import LOWEST

if TYPE_CHECKING:
    from tilewright.graph.lowering import Lowering


class Heads:
    """Makes the calls of attention and of what feeds it."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering

    def merged(self, value: SSAValue) -> tuple[Tensor, Magnitude, int] | None:
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
        if canonical(shape_of(value)) != (batch, rows, heads * width):
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
        sizes = self.at.magnitude(q, lambda x: x * factor), self.at.magnitude(k)

        def balance() -> float:
            first, second = (m.largest for m in sizes)
            return power_of_two(math.sqrt(second / first)) if first and second else 1.0

        out_scale = self.at.magnitude(v)
        sources = [self._head_source(x, n) for x, n in ((q, heads), (k, groups), (v, groups))]
        order = _head_order(depth, [s[1] for s in sources[:2] if s is not None and s[1]])
        natural = _head_order(width, [])
        operands = {
            "q": self._heads(q, heads, "heads", order, sources[0], lambda: factor * balance()),
            "kt": self._heads(k, groups, "columns", order, sources[1], lambda: 1 / balance()),
            "v": self._heads(
                v, groups, "values", natural, sources[2], lambda: 1 / out_scale.scale()
            ),
        }
        options: dict[str, Any] = {}
        if call.flag("causal"):
            options["mask"] = "causal"
        if "mask" in node.inputs:
            if "mask" in options:
                raise Unsupported("attention with a causal and another mask")
            tensor, kind, per_batch = self._mask(node.inputs["mask"], batch, rows, keys)
            operands["mask"] = self._staged(tensor) if heads > 1 else tensor
            options |= {"mask": kind, "batch": per_batch}
        out = self.at.activation(
            node.layer or "attention", (batch, heads, rows, padded(width)), "fp8",
            value=node.result, scale=out_scale,
            undo=lambda content: content[..., :width] * out_scale.scale(),
        )  # fmt: skip
        macs = batch * heads * rows * keys * (depth + width)
        return self.at.call(
            node.layer or "attention", "attention", operands, out, (node,), macs, None, sizes,
            **options,
        )  # fmt: skip

    def _staged(self, tensor: Tensor) -> Tensor:
        """A copy that may stay in VMEM, of a tensor that one kernel reads many times."""
        layout = tensor.layout
        out = Tensor(self.at.unique(f"{tensor.name}.staged"), layout, "activation")
        return self.at.call(
            f"{tensor.name} to VMEM", "copy", {"x": tensor}, out, (),
            rank=len(layout.shape), dtype=layout.dtype,
        )  # fmt: skip

    def _mask(self, value: SSAValue, batch: int, rows: int, keys: int) -> tuple[Tensor, str, bool]:
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
            numbers = np.maximum(np.asarray(numbers, np.float32), LOWEST).reshape(shape)
            tensor = self.at.remembered(
                (value, "mask"),
                lambda: self.at.weight(self.at.hint(value), Layout(shape, "bf16"), lambda: numbers),
            )
            return tensor, "full", per_batch
        return self.at.from_host(value, shape, conversion), "full", per_batch

    def _heads(
        self,
        value: SSAValue,
        count: int,
        kind: str,
        order: list[int],
        source: tuple[Linear, Node | None] | None,
        factor: Callable[[], float],
    ) -> Tensor:
        """Queries, keys or values of attention in fp8, times `factor`."""
        if source is None:
            if order != list(range(shape_of(value)[-1])):
                raise Unsupported("heads from elsewhere would have to be rearranged")
            return self._split_heads(value, count, kind, factor)
        linear, rope = source
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
                lambda: weights / channel,
            ),
            "scale": self.at.weight(
                f"{linear.name}.scale",
                Layout((count, wide), "bf16", "rows"),
                lambda: channel[:, 0, :] * (scale() * factor()),
            ),
        }
        if bias is not None:
            spread = np.zeros((count, wide), np.float32)
            spread[:, places] = bias.reshape(count, width)[:, columns]
            operands["bias"] = self.at.weight(
                f"{linear.name}.bias",
                Layout((count, wide), "bf16", "rows"),
                lambda: spread * factor(),
            )
        options: dict[str, Any] = {"out": kind, "scale": True, "bias": bias is not None}
        nodes = linear.nodes
        if rope is not None:
            tables, options["rope"] = self._tables(rope, batch, rows, width)
            operands |= tables
            nodes = (*nodes, rope)
        shape = (batch, count, wide, rows) if kind == "columns" else (batch, count, rows, wide)
        order_name = "panels" if kind == "columns" else "tiles"

        def undo(content: np.ndarray) -> np.ndarray:
            apart = content.swapaxes(2, 3) if kind == "columns" else content
            natural = np.empty((*apart.shape[:-1], width), apart.dtype)
            natural[..., columns] = apart[..., places] / factor()
            return natural

        out = self.at.activation(
            f"{linear.name}.{kind}", shape, "fp8", order_name, value=value, undo=undo
        )
        macs = batch * rows * linear.weight.size
        return self.at.call(linear.name, "project", operands, out, nodes, macs, **options)

    def _head_source(self, value: SSAValue, count: int) -> tuple[Linear, Node | None] | None:
        """The product (and rotation) that heads [B, H, M, D] come from."""
        graph, rope, turned = self.at.graph, None, False
        batch, _, rows, width = shape_of(value)
        while True:
            node = graph.definition.get(value)
            if node is None or not graph.used_once(value):
                return None
            if node.family == "rope" and rope is None:
                rope, value = node, node.inputs["x"]
            elif node.family == "transpose" and not turned:
                if node.call.integers("permutation") != (0, 2, 1, 3):
                    return None
                turned, value = True, node.operands[0]
            elif node.family == "reshape":
                inside = shape_of(node.operands[0])
                # With one head or one row, turning heads to the front moves nothing.
                turned = turned or count == 1 or rows == 1
                if not turned or canonical(inside) != (batch, rows, count * width):
                    return None
                linear = self.at.linear(node.operands[0])
                if linear is None or linear.activation or not graph.used_once(node.operands[0]):
                    return None
                if self.at.kept(linear.name):
                    raise TilewrightError(
                        "TW1709",
                        f"{linear.name} cannot be kept in bf16: attention takes its result as fp8",
                        graph.definition[value].location,
                        "keep other layers",
                    )
                return linear, rope
            else:
                return None

    def _tables(
        self, rope: Node, batch: int, rows: int, width: int
    ) -> tuple[dict[str, Tensor], str]:
        """cos and sin as [M, width / 2], or with a batch in front."""
        tables, half = {}, width // 2
        for name in ("cos", "sin"):
            value = rope.inputs[name]
            own = shape_of(value)
            count = math.prod(own)
            if own[-1] != half or count not in (rows * half, batch * rows * half):
                raise Unsupported(f"rotary tables of {'x'.join(map(str, own))}")
            shape = (rows, half) if count == rows * half else (batch, rows, half)
            array = self.at.graph.constants.get(value)
            if array is not None:
                tables[name] = self.at.remembered(
                    (value, "table"),
                    lambda value=value, array=array, shape=shape: self.at.weight(
                        self.at.hint(value), Layout(shape, "bf16"), lambda: array.reshape(shape)
                    ),
                )
            else:
                tables[name] = self.at.from_host(value, shape)
        kinds = {len(t.layout.shape) for t in tables.values()}
        if len(kinds) != 1:
            raise Unsupported("cos and sin of different shapes")
        return tables, "batch" if kinds == {3} else "shared"

    def _split_heads(
        self, value: SSAValue, count: int, kind: str, factor: Callable[[], float]
    ) -> Tensor:
        """Heads [B, H, M, D] that come from elsewhere: cut out of bf16 [B, M, H * D]."""
        graph, batch = self.at.graph, shape_of(value)[0]
        _, _, rows, width = shape_of(value)
        turn = graph.node_of(value, "transpose")
        if turn is None or turn.call.integers("permutation") != (0, 2, 1, 3):
            raise Unsupported("attention whose heads are not made by a product")
        inner = turn.operands[0]
        if inner in graph.inputs:
            source = self.at.from_host(inner, (batch, rows, count * width))
        else:
            reshape = graph.node_of(inner, "reshape")
            if reshape is None or canonical(shape_of(reshape.operands[0])) != (
                batch, rows, count * width,
            ):  # fmt: skip
                raise Unsupported("attention whose heads are not made by a product")
            source = self.at.bf16(reshape.operands[0])
        if width % SIDE:
            raise Unsupported(f"heads of {width} columns cut out of a wider tensor")
        shape = (batch, count, width, rows) if kind == "columns" else (batch, count, rows, width)
        order = "panels" if kind == "columns" else "tiles"

        def undo(content: np.ndarray) -> np.ndarray:
            return (content.swapaxes(2, 3) if kind == "columns" else content) / factor()

        out = self.at.activation(
            f"{source.name}.{kind}", shape, "fp8", order, value=value, undo=undo
        )
        return self.at.call(
            f"{source.name} to heads", "split_heads", {"x": source}, out, (turn,), 0,
            {"factor": factor}, out=kind, heads=count,
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
