"""Lowering of attention: heads of queries, keys and values, masks, rotations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.model.capture import Node, dtype_of, shape_of
from tilewright.targets.atlas.kernels.attention import together_causal
from tilewright.targets.atlas.model.blocking import (
    most_together,
    padded,
    rows_pass_by,
    staged_rows,
    weights_wait,
)
from tilewright.targets.atlas.model.caches import TOGETHER, Handing, cache_of, cached, staged
from tilewright.targets.atlas.model.calls import (
    ONE,
    Balance,
    Factor,
    RangeObserver,
    Tensor,
    Times,
    Unsupported,
    inverse_of,
    scale_of,
)
from tilewright.targets.atlas.model.head_forms import form_of, split_mask
from tilewright.targets.atlas.model.head_sources import Columns, find_columns, heads_beside
from tilewright.targets.atlas.model.head_sources import Heads as Form
from tilewright.targets.atlas.model.head_values import FromHeads, Source
from tilewright.targets.atlas.model.kernels_products import COLUMNS
from tilewright.targets.atlas.model.matching import Linear
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.masks import LOWEST

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

ROOMY = 2**20  # bytes of VMEM in which long code of attention finds room for its tiles
WHOLE_KEYS = 4096  # keys whose scores are all on chip until their maximum is known
SPAN = 128  # queries from which on keys pass by for a whole span of them
SPAN_TILES = (32, 16, 12, 8)  # tiles of queries in such a span, the first that fit
TILE_WORDS = 16  # instructions at most per tile of scores on a diagonal and tile across a head
KEY_TILES = 16  # tiles of keys that are weighed at a time where there are more
FEWER_KEYS = (8, 4, 2, 1)  # the same where VMEM has no room for more, one after the other
GROUP_TILES = 160  # tiles of scores of the heads of a group that share a loop body
SMALLEST = 2.0**-126  # the smallest normal number of bf16: no root of it is infinite


class Heads:
    """Makes the calls of attention and of what feeds it."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering
        self.refused: dict[Node, str] = {}  # attention that is not for the device, and why
        self.traced: dict[Any, Any] = {}  # columns of heads by how they are written
        self.forms: dict[Node, Form] = {}  # [B, H, M, D] of attention that has three dimensions

    def merged(self, value: SSAValue) -> tuple[Tensor, RangeObserver, int] | None:
        """Attention's result if the value is its heads side by side: (heads, scale, head width)."""
        node = heads_beside(self.at.graph, value, lambda found: form_of(self.at, found))
        if node is None:
            return None
        batch, heads, rows, width = form_of(self.at, node)
        if self.at.canonical(shape_of(value)) != (batch, rows, heads * width):
            return None
        tensor = self.attention(node)
        assert tensor.scale is not None
        return tensor, tensor.scale, width

    def beside(self, value: SSAValue) -> Tensor | None:
        """bf16 [B, M, H * D] of attention that no product follows: one with ones on its diagonal
        puts heads side by side, whatever their width."""
        found = self.merged(value)
        if found is None:
            return None
        node, wide = self.at.graph.definition[value], shape_of(value)[-1]
        straight = Linear(value, np.eye(wide, dtype=np.float32), None, None, (node,))
        return self.at.products.emit_linear(straight, value, "bf16")

    def apart(self, node: Node) -> Tensor:
        """bf16 [B * H, M, D] of attention's result."""
        batch, heads, rows, width = form_of(self.at, node)
        if self.at.canonical(shape_of(node.result)) != (batch * heads, rows, width):
            raise Unsupported("attention to single rows moves values between tiles")
        tensor = self.attention(node)
        shape = (batch * heads, rows, width)
        out = self.at.activation(self.at.hint(node.result), shape, "bf16", value=node.result)
        return self.at.call(
            f"{node.layer or 'attention'} apart", "from_heads", {"x": tensor}, out, (node,), 0,
            {"factor": scale_of(tensor.scale)}, width=width,
        )  # fmt: skip

    def attention(self, node: Node) -> Tensor:
        """fp8 [B, H, M, D] of attention's result."""
        if node in self.refused:
            raise Unsupported(self.refused[node])
        try:
            key = (node.result, "attention")
            return self.at.remembered(key, lambda: self._attention(node))
        except Unsupported as error:
            self.refused[node] = str(error)
            raise

    def _attention(self, node: Node) -> Tensor:
        call, (q, k, v) = node.call, (node.inputs[n] for n in "qkv")
        batch, heads, rows, width = form_of(self.at, node)
        groups = heads // (call.integer("kv_group") or 1)
        turned = {"q": False, **{n: call.flag(f"transpose_{n}") for n in "kv"}}
        depth = shape_of(q)[-1]
        factor = call.floating("scale")
        factor = 1 / math.sqrt(depth) if factor is None else factor
        if call.integer("valid_keys") is not None:
            raise Unsupported("attention with padded keys")
        # q' k' are the scores: what q is multiplied by, k is divided by.
        sizes = self.at.magnitude(q, Times(Factor(factor))), self.at.magnitude(k)
        balance = Balance(*sizes)
        out_scale = self.at.magnitude(v)
        parts = [(k, v)] if turned["k"] or turned["v"] else self._parts(k, v)
        sizes_of = [shape_of(k)[-1 if turned["k"] else -2] for k, _ in parts]
        first = self._source(q, (batch, heads, rows, depth))
        others = [
            self._source(k, (batch, groups, count, depth), turned["k"])
            for (k, _), count in zip(parts, sizes_of, strict=True)
        ]
        order = _head_order(depth, [first, *others])
        natural = _head_order(width, [])
        tiles = -(-rows // SIDE) * sum(-(-count // SIDE) for count in sizes_of)
        how = Handing(always=len(parts) > 1 and rows <= SIDE, again=tiles > TOGETHER)
        operands = {"q": self._heads(q, "heads", order, first, Factor(factor, (balance,)))}
        for number, ((k, v), source) in enumerate(zip(parts, others, strict=True)):
            operands[f"kt{number or ''}"] = self._heads(
                k, "columns", order, source, Factor(over=(balance,)), how
            )
            values = self._source(v, (batch, groups, sizes_of[number], width), turned["v"])
            if _head_order(width, [values]) != natural:
                raise Unsupported("values are rotated, whose pairs would lie in other columns")
            operands[f"v{number or ''}"] = self._heads(
                v, "values", natural, values, inverse_of(out_scale), how
            )
        options: dict[str, Any] = {"parts": len(parts)} if len(parts) > 1 else {}
        causal = call.flag("causal")
        if causal and len(parts) > 1 and sizes_of[-1] != rows:
            raise Unsupported("a causal mask over keys of several sources")
        if causal:
            options["mask"] = "causal"
        if "mask" in node.inputs:
            if causal and len(parts) > 1:
                raise Unsupported("a causal and another mask over keys of several sources")
            start = 0
            for number, count in enumerate(sizes_of):
                columns = (start, start + count) if len(parts) > 1 else None
                tensor, kinds = self._mask(
                    node.inputs["mask"], (batch, heads, rows, count), causal, columns
                )
                operands[f"mask{number or ''}"] = tensor
                options |= kinds
                start += count
            if heads > 1 and not options.get("per_head"):
                if self._by_rows(operands, heads // groups):
                    options["by_rows"] = True
                else:
                    names = [name for name in operands if name.startswith("mask")]
                    operands |= {name: staged(self.at, operands[name]) for name in names}
        plain = len(parts) == 1 and options.get("mask") in (None, "causal")
        wide = max(len(order), padded(width))
        refused = self.at.refused[node.result]
        if refused:
            options.pop("by_rows", None)
            options["keys"] = FEWER_KEYS[min(refused, len(FEWER_KEYS)) - 1]
        elif plain and causal and self._can_be_written_out(rows, sizes_of[0], wide):
            options["written_out"] = True
        elif plain and (
            passing := self._passing(
                rows, sizes_of[0], len(order), padded(width), causal, heads // groups
            )
        ):
            options |= passing
        elif sum(sizes_of) > WHOLE_KEYS:
            options["keys"] = KEY_TILES
        out = self.at.activation(
            node.layer or "attention", (batch, heads, rows, padded(width)), "fp8",
            value=node.result, scale=out_scale,
            undo=FromHeads(
                tuple(range(width)), tuple(range(width)), factor=inverse_of(out_scale),
                shape=shape_of(node.result),
            ),
        )  # fmt: skip
        macs = batch * heads * rows * sum(sizes_of) * (depth + width)
        return self.at.call(
            node.layer or "attention", "attention", operands, out, (node,), macs, None, sizes,
            **options,
        )  # fmt: skip

    def _by_rows(self, operands: dict[str, Tensor], group: int) -> bool:
        """Whether all heads of a block of queries come before the next block, so that rows of the mask
        pass by once: where keys and values stay on chip, and the heads of a group fit one loop body.
        """
        rows = operands["q"].layout.shape[-2]
        keys = [t for name, t in operands.items() if name.startswith(("kt", "v"))]
        tiles = sum(t.layout.grid[-1] for name, t in operands.items() if name.startswith("kt"))
        held = 2 * operands["q"].layout.bytes + sum(t.layout.bytes for t in keys)
        masks = sum(t.layout.bytes for name, t in operands.items() if name.startswith("mask"))
        passing = 2 * masks * SIDE // max(rows, 1) + 4 * tiles * 1024
        return (
            rows > SIDE
            and all(t.kind == "activation" for t in keys)
            and group * tiles <= GROUP_TILES
            and held + passing <= self.at.profile.vmem_bytes
        )

    def _can_be_written_out(self, rows: int, keys: int, wide: int) -> bool:
        """Whether causal attention that is too long for any machine is not for this one."""
        if together_causal(rows, keys) is True or self.at.profile.vmem_bytes < ROOMY:
            return False
        return together_causal(rows, keys, wide) is True

    def _passing(
        self, rows: int, keys: int, depth: int, width: int, causal: bool, group: int
    ) -> dict[str, int] | None:
        """Options with which keys pass by spans of queries, as long as VMEM holds what these know; None
        where that does not pay: for few queries, or where all scores are on chip and most are seen."""
        if rows <= SPAN or not (causal or keys > WHOLE_KEYS):
            return None
        # Under a causal mask every query has to see a key.
        if causal and (keys < rows or together_causal(rows, keys) is True):
            return None
        deep, wide = depth // SIDE, width // SIDE
        for high in SPAN_TILES:
            # Three spans at most have code of their own: the first, those of a loop, what is left.
            triangles = 3 * high * (high + 1) // 2 if causal else 0
            if triangles * (deep + wide) * TILE_WORDS > self.at.profile.imem_bytes // 4:
                continue
            size = min(high, KEY_TILES) if causal else KEY_TILES
            most = max(high, size)  # on the diagonal, or in passing; two of scores, two loaded
            waiting = high * (deep + 2 * wide + 2)
            held = 2 * most * (deep + wide) + 4 * most
            most = 3 * self.at.profile.vmem_bytes // 4 // 1024
            # Heads of a group see the same keys, which then come once for all of them.
            shares = (n for n in range(group if causal else 1, 0, -1) if group % n == 0)
            for sharing in shares:
                if held + sharing * waiting <= most:
                    found = {"keys": size, "span": high}
                    return {**found, "sharing": sharing} if sharing > 1 else found
        return None

    def _parts(self, k: SSAValue, v: SSAValue) -> list[tuple[SSAValue, SSAValue]]:
        """Keys and values from several sources, one after the other."""
        joined = [self.at.graph.node_of(x, "concat") for x in (k, v)]
        if len(shape_of(k)) != 4:
            return [(k, v)]
        parts = [node.operands for node in joined if node is not None]
        along = [node.call.axis(4) for node in joined if node is not None]
        if along != [2, 2] or [shape_of(x)[2] for x in parts[0]] != [
            shape_of(x)[2] for x in parts[1]
        ]:
            return [(k, v)]
        return list(zip(*parts, strict=True))

    def _mask(
        self,
        value: SSAValue,
        scores: tuple[int, int, int, int],
        causal: bool,
        columns: tuple[int, int] | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The mask of all keys, or of those in some columns, as numbers to add to scores [B, H, M,
        N], and the options that say so."""
        batch, heads, rows, keys = scores
        whole = split_mask(shape_of(value), scores)
        per_batch, per_head = whole[0] > 1, whole[1] > 1
        if (per_batch and whole[0] != batch) or (per_head and whole[1] != heads):
            raise Unsupported("a mask for another batch or other heads")
        lead = ((batch,) if per_batch else ()) + ((heads,) if per_head else ())
        shape = (*lead, rows, keys)
        conversion = "mask" if dtype_of(value) == "i1" else "clip"
        options: dict[str, Any] = {"mask": "full", "batch": per_batch}
        if per_head:
            options["per_head"] = True
        array = self.at.graph.constants.get(value)
        if array is None:
            if causal:
                raise Unsupported("attention with a causal and a computed mask")
            if whole[2:] != (rows, keys if columns is None else whole[3]):
                raise Unsupported("a computed mask that is repeated over queries or keys")
            return self.at.from_host(value, shape, conversion, columns=columns), options
        numbers = np.where(array, 0.0, LOWEST) if conversion == "mask" else array
        numbers = np.asarray(numbers, np.float32).reshape(whole)
        if columns is not None and whole[3] > 1:
            numbers = numbers[..., slice(*columns)]
        numbers = np.broadcast_to(numbers, (*numbers.shape[:2], rows, keys))
        if causal:  # the last query sees all keys, the one before all but the last, …
            later = np.arange(keys)[None] - np.arange(rows)[:, None] > keys - rows
            numbers = np.where(later, LOWEST, numbers)
        numbers = np.maximum(numbers, LOWEST).reshape(shape)
        tensor = self.at.remembered(
            (value, "mask", columns, causal, shape),
            lambda: self.at.weight(self.at.hint(value), Layout(shape, "bf16"), numbers),
        )
        return tensor, options

    def _heads(
        self,
        value: SSAValue,
        kind: str,
        order: list[int],
        source: Source,
        factor: Factor,
        handing: Handing | None = None,
    ) -> Tensor:
        """Queries, keys or values of attention in fp8, times `factor`; handing: of keys and values that may
        be a cache."""
        columns, (batch, count, rows, width) = source.columns, source.shape
        linear = self._product(columns.flat, source) if columns is not None else None
        norm = columns.norm if columns is not None else None
        # Whole tiles of what is there in bf16 anyway are cut out of it.
        whole = order == list(range(width)) and norm is None and not source.turned
        there = source.beside is not None and (linear is None or not source.beside.alone)
        if whole and (columns is None or there):
            cache = None if handing is None else cache_of(self.at, source, handing)
            if cache is not None:
                return cached(self.at, value, kind, source, factor, cache)
            return self._split_heads(value, kind, source, factor)
        if linear is not None and self.at.kept(linear.name):
            raise TilewrightError(
                "TW1709",
                f"{linear.name} cannot be kept in bf16: attention takes its result as fp8",
                linear.nodes[0].location,
                "keep other layers",
            )
        name, a, weight, bias, scale, nodes = self._columns(value, source, linear)
        if norm is not None and norm.family == "layer_norm":  # a mean is a product with weights too
            weight = weight - weight.mean(2, keepdims=True)
            bias = None if bias is None else bias - bias.mean(1, keepdims=True)
        wide = len(order)
        taken = np.array([k for k in order if k >= 0])
        places = np.array([p for p, k in enumerate(order) if k >= 0])
        weights = np.zeros((count, weight.shape[1], wide), np.float32)
        weights[:, :, places] = weight[:, :, taken]
        channel = self.at.channel_scales(weights)
        later = factor if norm is None else ONE
        operands = {
            "a": a,
            "w": self.at.weight(
                f"{name}.weight", Layout(weights.shape, "fp8", "panels"), weights, channel
            ),
            "scale": self.at.weight(
                f"{name}.scale",
                Layout((count, wide), "bf16", "rows"),
                channel[:, 0, :],
                factor=scale * later,
            ),
        }
        if bias is not None:
            spread = np.zeros((count, wide), np.float32)
            spread[:, places] = bias[:, taken]
            operands["bias"] = self.at.weight(
                f"{name}.bias", Layout((count, wide), "bf16", "rows"), spread, factor=later
            )
        options: dict[str, Any] = {"out": kind, "scale": True, "bias": bias is not None}
        if columns is not None and norm is not None:
            operands |= self._norm(columns, name, order, factor)
            options |= {
                "norm": max(norm.call.floating("epsilon") or 0.0, SMALLEST),
                "width": width,
                "shift": "shift" in operands,
            }
            nodes = (*nodes, norm)
        if source.rope is not None:
            turning = shape_of(source.rope.result)[-1]
            tables, options["rope"] = self._tables(source, batch, rows, turning)
            operands |= tables
            if turning < width:
                options["rotated"] = 2 * padded(turning // 2)
            nodes = (*nodes, source.rope)
        shape = (batch, count, wide, rows) if kind == "columns" else (batch, count, rows, wide)
        order_name = "panels" if kind == "columns" else "tiles"
        undo = FromHeads(
            tuple(taken), tuple(places), kind == "columns", factor, shape_of(value), source.turned
        )
        out = self.at.activation(f"{name}.{kind}", shape, "fp8", order_name, value=value, undo=undo)
        macs = batch * rows * weight.shape[1] * count * width
        across = -(-wide // SIDE)
        together = 2 * COLUMNS[0]
        parts = staged_rows(rows, weight.shape[1], across, together, self.at.profile)
        deep, other, whole = weight.shape[1], rows * count * wide, padded(rows)
        if parts is None and batch > 1:  # matrix by matrix, where they do not fit together
            fits = staged_rows(batch * whole, deep, across, together, self.at.profile) is None
            parts = None if fits else whole
        alone = options.get("rope") == "batch" or not weights_wait(rows, self.at.profile)
        if parts == whole and batch > 1 and not alone:

            def fit_together(n: int) -> bool:
                return staged_rows(n * whole, deep, across, together, self.at.profile) is None

            options["matrices"] = most_together(batch, fit_together)
        if parts is not None:
            passes = batch == 1 and rows_pass_by(
                rows, deep, count * wide, other, parts, self.at.profile
            )
            options |= {"resident": True} if passes else {"rows": parts}
        return self.at.call(name, "project", operands, out, nodes, macs, **options)

    def _columns(
        self, value: SSAValue, source: Source, linear: Linear | None
    ) -> tuple[str, Tensor, np.ndarray, np.ndarray | None, Factor, tuple[Node, ...]]:
        """What heads are a product of: its name, the left operand as fp8, weights [H, K, D], bias
        [H, D], the factor between what the operand holds and its values, and the nodes."""
        columns, (batch, count, rows, width) = source.columns, source.shape
        numbers = np.arange(count * width).reshape(count, width)
        if columns is not None:
            numbers = columns.numbers
            wide = int(np.prod(shape_of(columns.flat), dtype=np.int64)) // (batch * rows)
            if linear is None and self.at.canonical(shape_of(columns.flat)) == (batch, rows, wide):
                node = self.at.graph.definition.get(columns.flat)
                straight = np.eye(wide, dtype=np.float32)
                linear = Linear(columns.flat, straight, None, None, (node,) if node else ())
        if linear is not None:
            a, weight, offset, scale, _ = self.at.products.operand(linear, merged=False)
            bias = linear.bias
            if offset is not None:
                bias = offset + (0 if bias is None else bias)
            name = linear.name if linear.nodes else self.at.hint(linear.x)
            bias = None if bias is None else bias[numbers]
            return name, a, weight[:, numbers].transpose(1, 0, 2), bias, scale, linear.nodes
        # The host puts the columns of a value that is stored otherwise side by side.
        given = columns.flat if columns is not None else source.apart
        if columns is None and (len(shape_of(given)) != 4 or source.turned):
            raise Unsupported("attention whose heads are not side by side in another tensor")
        wide = numbers.size if columns is None else int(np.prod(shape_of(given))) // (batch * rows)

        def make() -> Tensor:
            x = self.at.from_host(given, (batch, rows, wide), "heads" if columns is None else "")
            scale = self.at.magnitude(given)
            out = self.at.activation(f"{x.name}.fp8", x.layout.shape, "fp8", scale=scale)
            deferred = {"factor": inverse_of(scale)}
            return self.at.call(f"{x.name} to fp8", "quantise", {"x": x}, out, (), 0, deferred)

        a = self.at.remembered((given, "columns", wide), make)
        straight = np.eye(wide, dtype=np.float32)[:, numbers].transpose(1, 0, 2)
        node = self.at.graph.definition.get(value)
        nodes = (node,) if node is not None else ()
        return self.at.hint(given), a, straight, None, scale_of(a.scale), nodes

    def _norm(
        self, columns: Columns, name: str, order: list[int], factor: Factor
    ) -> dict[str, Tensor]:
        """Weight and bias of a norm over each head, times the factor."""
        norm, gains = columns.norm, np.array(columns.gains)
        assert norm is not None
        rows = {"gain": np.ones(len(gains), np.float32)}
        for role, ours in (("weight", "gain"), ("bias", "shift")):
            if role in norm.inputs:
                given = np.asarray(self.at.graph.constants[norm.inputs[role]], np.float32)
                rows[ours] = np.broadcast_to(given.reshape(-1), (len(gains),))[gains]
        found = {}
        for role, row in rows.items():
            spread = np.array([row[k] if k >= 0 else 0.0 for k in order], np.float32)
            layout = Layout((len(order),), "bf16")
            found[role] = self.at.weight(f"{name}.{role}", layout, spread, factor=factor)
        return found

    def _source(
        self, value: SSAValue, shape: tuple[int, int, int, int], turned: bool = False
    ) -> Source:
        """Where heads [B, H, M, D] come from."""
        columns = find_columns(self.at, value, shape, turned)
        beside = columns
        if columns is not None and not columns.side_by_side:
            beside = find_columns(self.at, value, shape, turned, beside=True)
        if columns is not None:
            return Source(shape, value, columns.rope, columns, beside, turned)
        rope = self.at.graph.node_of(value, "rope")
        if rope is not None and "operand_maps" not in rope.call.attributes:
            return Source(shape, rope.inputs["x"], rope, turned=turned)
        return Source(shape, value, turned=turned)

    def _product(self, value: SSAValue, source: Source) -> Linear | None:
        """The product that makes heads side by side; one of each head by itself does not."""
        linear = self.at.linear(value)
        if linear is None or linear.activation:
            return None
        batch, _, rows, _ = source.shape
        wide = math.prod(shape_of(value)) // (batch * rows)
        return linear if linear.weight.shape[1] == wide else None

    def _tables(
        self, source: Source, batch: int, rows: int, width: int
    ) -> tuple[dict[str, Tensor], str]:
        """cos and sin as [M, width / 2], or with a batch in front."""
        tables, half, rope = {}, width // 2, source.rope
        assert rope is not None
        rows_at = source.columns.rows_at if source.columns is not None else 2
        for name in ("cos", "sin"):
            value = rope.inputs[name]
            own = shape_of(value)
            wide = (1,) * (4 - len(own)) + own
            if (
                (wide[rows_at], wide[3 - rows_at], wide[3]) != (rows, 1, half)
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
        batch, count, rows, width = source.shape
        side_by_side = (batch, rows, count * width)
        if source.beside is None:
            if len(shape_of(source.apart)) != 4:
                raise Unsupported("attention whose heads are not side by side in another tensor")
            operands = {"x": self.at.from_host(source.apart, side_by_side, "heads")}
        else:
            flat = source.beside.flat
            same = self.at.canonical(shape_of(flat)) == side_by_side
            operands = {"x": self.at.bf16(flat) if same else self.at.from_host(flat, side_by_side)}
        options: dict[str, Any] = {"out": kind, "heads": count}
        if source.rope is not None:
            tables, options["rope"] = self._tables(source, batch, rows, width)
            operands |= tables
        shape = (batch, count, width, rows) if kind == "columns" else (batch, count, rows, width)
        order = "panels" if kind == "columns" else "tiles"
        every = tuple(range(width))
        undo = FromHeads(every, every, kind == "columns", factor, shape_of(value))
        name = operands["x"].name
        out = self.at.activation(f"{name}.{kind}", shape, "fp8", order, value=value, undo=undo)
        node = self.at.graph.definition.get(value)
        return self.at.call(
            f"{name} to heads", "split_heads", operands, out, (node,) if node else (), 0,
            {"factor": factor}, **options,
        )  # fmt: skip


def _head_order(width: int, sources: list[Source]) -> list[int]:
    """Which column of a head goes where; -1 is padding. Pairs of a rotation end up in halves
    that are whole tiles, what is not rotated behind them."""
    turned = [source for source in sources if source.rope is not None]
    if not turned:
        return [*range(width), *[-1] * (padded(width) - width)]
    styles = {source.rope.call.string("style") for source in turned if source.rope is not None}
    if len(styles) > 1 or len({source.places for source in turned}) > 1:
        raise Unsupported("queries and keys rotated in different styles")
    places = turned[0].places
    column = {place: k for k, place in enumerate(places) if place >= 0}
    count = len(column)
    if styles == {"interleaved"}:
        first, second = range(0, count, 2), range(1, count, 2)
    else:
        first, second = range(count // 2), range(count // 2, count)
    order: list[int] = []
    for part in (first, second):
        order += [column[place] for place in part] + [-1] * (padded(count // 2) - count // 2)
    rest = [k for k, place in enumerate(places) if place < 0]
    return order + rest + [-1] * (padded(len(rest)) - len(rest))
