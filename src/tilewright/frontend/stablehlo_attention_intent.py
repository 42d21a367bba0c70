"""Building the attention intent that two dot products and a softmax amount to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.dialects.intents import Lane, shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    arith,
    f32,
)
from tilewright.frontend.aten_builder import integer
from tilewright.frontend.aten_graph import BY_NAME, TensorInfo
from tilewright.frontend.imported import Array
from tilewright.frontend.stablehlo_builder import HLOImporter
from tilewright.frontend.stablehlo_ops_movement import literal_array
from tilewright.frontend.stablehlo_ops_products import Dot, untransposed
from tilewright.reference import dtypes
from tilewright.transforms.linalg_to_kernel.chains.match import family_name

NEVER = -1e9  # a score this low counts for nothing beside any that is not


@dataclass
class Scores:
    """The way from the softmax back to the first dot product, in labels of the latter."""

    dot: Dot
    labels: tuple[str, ...]  # of the softmax's dimensions
    scale: float = 1.0
    keep: tuple[SSAValue, tuple[str | None, ...]] | None = None
    added: tuple[SSAValue, tuple[str | None, ...]] | None = None
    inner: list[Operation] = field(default_factory=list)


def operand_loops(op: UKernelGenericOp) -> list[tuple[int | None, ...]]:
    """The result dimension behind every dimension of every operand."""
    maps = op.attributes.get("operand_maps")
    found: list[tuple[int | None, ...]] = []
    for index, operand in enumerate(op.operands):
        if maps is None:
            found.append(tuple(range(len(shape_of(operand)))))
        else:
            expressions = maps.data[index].data.results  # type: ignore[attr-defined]
            found.append(tuple(getattr(e, "position", None) for e in expressions))
    return found


@dataclass
class AttentionBuilder:
    """Lines up q, k, v and the mask as [batch.., heads, rows, width]."""

    importer: HLOImporter
    scores: Scores
    batch: list[str]
    queries: list[str]
    rows: str
    keys: str
    sizes: dict[str, int]

    @property
    def group(self) -> list[str]:
        return [label for label in self.queries if label != self.rows]

    def attention(
        self,
        q: tuple[SSAValue, Sequence[str]],
        k: tuple[SSAValue, Sequence[str]],
        v: tuple[SSAValue, Sequence[str]],
        result: Sequence[str],
        element: Attribute,
    ) -> SSAValue:
        importer, sizes = self.importer, self.sizes
        group = math.prod(sizes[label] for label in self.group)
        lead = [sizes[label] for label in self.batch]
        if group > 1 and not lead:
            lead = [1]
        heads = [*lead[:-1], lead[-1] * group] if lead else []
        query = self._lined_up(
            q, [*self.batch, *self.group, self.rows, "k0"], [*heads, sizes[self.rows], -1]
        )
        shared = _shared_heads(k, v, self.batch) if group == 1 and self.batch else None
        if shared is not None:
            k, v, group = shared
            lead = [*lead[:-1], lead[-1] // group]
        key = self._lined_up(k, [*self.batch, self.keys, "k0"], [*lead, sizes[self.keys], -1])
        value = self._lined_up(v, [*self.batch, self.keys, "width"], [*lead, sizes[self.keys], -1])
        attributes: dict[str, Attribute] = {"scale": FloatAttr(self.scores.scale, f32)}
        if group > 1:
            attributes["kv_group"] = integer(group)
        operands = [query, key, value]
        mask = self._mask(heads, attributes)
        if mask is not None:
            operands.append(mask)
        shape = [*heads, sizes[self.rows], sizes["width"]]
        kind = tensor_type(query).element_type
        made: SSAValue = importer.call(
            "gemma_attention", operands, TensorType(element, shape), attributes, (kind, element)
        )
        order = [*self.batch, *self.group, self.rows, "width"]
        made = importer.reshape(made, [sizes[label] for label in order])
        return importer.transpose(made, [order.index(label) for label in result])

    def _lined_up(
        self, value: tuple[SSAValue, Sequence[str]], order: Sequence[str], shape: Sequence[int]
    ) -> SSAValue:
        """A tensor with its labels in an order, then in a shape whose -1 is its width."""
        tensor, labels = untransposed(*value)
        moved = self.importer.transpose(tensor, [labels.index(label) for label in order])
        width = shape_of(moved)[-1]
        return self.importer.reshape(moved, [width if n == -1 else n for n in shape])

    def _mask(self, heads: Sequence[int], attributes: dict[str, Attribute]) -> SSAValue | None:
        """The mask operand, or the attribute that says the same."""
        read = self.scores.keep or self.scores.added
        if read is None:
            return None
        value, labels = read
        rows, keys = self.sizes[self.rows], self.sizes[self.keys]
        known = array_of(self.importer, value)
        if known is not None:
            known = _thinned(known)
            if known.shape != shape_of(value):
                value = self._literal(known)
            seen = self._seen(known, labels, rows, keys)
            if seen is not None and seen.all():
                return None
            if seen is not None and np.array_equal(
                seen, np.tri(rows, keys, keys - rows, dtype=bool)
            ):
                attributes["causal"] = UnitAttr()
                return None
        attributes["mask_kind"] = StringAttr("bool" if self.scores.keep else "additive")
        return self._spread(value, labels, heads)

    def _literal(self, array: Array) -> SSAValue:
        """An array as a constant of the module."""
        importer = self.importer
        count = sum(name.startswith("literal.") for name in importer.weights)
        name = f"literal.{count}"
        importer.weights[name] = array
        return importer.resource(
            name, TensorInfo(array.shape, BY_NAME[dtypes.of_array(array).name])
        )

    def _seen(
        self, known: Array, labels: Sequence[str | None], rows: int, keys: int
    ) -> Array | None:
        """The keys each row sees, when that is the same for all heads and only yes or no."""
        kept = [i for i, label in enumerate(labels) if label is not None and known.shape[i] != 1]
        if any(labels[i] not in (self.rows, self.keys) for i in kept):
            return None
        if self.scores.keep is None:
            if not bool(((known == 0) | (known <= NEVER)).all()):
                return None
            known = known == 0
        flat = known.reshape([known.shape[i] for i in kept])
        names = [labels[i] for i in kept]
        if names == [self.keys, self.rows]:
            flat, names = flat.T, names[::-1]
        index = tuple(slice(None) if label in names else None for label in (self.rows, self.keys))
        return np.broadcast_to(flat[index], (rows, keys))

    def _spread(
        self, value: SSAValue, labels: Sequence[str | None], heads: Sequence[int]
    ) -> SSAValue:
        """The mask with rows and keys written out, and of the others what it follows."""
        order = [*self.batch, *self.group, self.rows, self.keys]
        followed = {label for label, n in zip(labels, shape_of(value), strict=True) if n != 1}
        merged = [*self.batch[-1:], *self.group]
        if followed.intersection(merged):
            followed.update(merged)
        followed.update((self.rows, self.keys))
        extents = {
            index: self.sizes[label] if label in followed else 1
            for index, label in enumerate(order)
        }
        loops = tuple(
            None if label is None or (n == 1 and extents[order.index(label)] != 1)
            else order.index(label)
            for label, n in zip(labels, shape_of(value), strict=True)
        )  # fmt: skip
        whole = self.importer.broadcast(Lane(value, loops), range(len(order)), extents)
        lead = [extents[i] for i in range(len(self.batch))]
        group = math.prod(extents[order.index(label)] for label in self.group)
        if group > 1 and not lead:
            lead = [1]
        lead = [*lead[:-1], lead[-1] * group] if lead else []
        return self.importer.reshape(whole, [*lead, self.sizes[self.rows], self.sizes[self.keys]])


def _thinned(array: Array) -> Array:
    """An array with size 1 wherever it does not vary."""
    for axis, size in enumerate(array.shape):
        first = array.take([0], axis) if size else array
        if size > 1 and bool((array == first).all()):
            array = np.ascontiguousarray(first)
    return array


def _shared_heads(
    k: tuple[SSAValue, Sequence[str]], v: tuple[SSAValue, Sequence[str]], batch: Sequence[str]
) -> tuple[tuple[SSAValue, Sequence[str]], tuple[SSAValue, Sequence[str]], int] | None:
    """Keys and values before they were repeated for the heads of a group, and how often."""
    found = [_unrepeated(value, labels, batch[-1]) for value, labels in (k, v)]
    if found[0] is None or found[1] is None or found[0][2] != found[1][2]:
        return None
    return found[0][:2], found[1][:2], found[0][2]


def _unrepeated(
    value: SSAValue, labels: Sequence[str], heads: str
) -> tuple[SSAValue, tuple[str, ...], int] | None:
    """before: reshape [.., h, g, ..] -> [.., h * g, ..] of a repetition along g; after: its source."""
    value, labels = untransposed(value, labels)
    merge = value.owner
    if not isinstance(merge, UKernelGenericOp) or family_name(merge) != "reshape":
        return None
    spread = merge.operands[0].owner
    if not isinstance(spread, UKernelGenericOp) or family_name(spread) != "cast":
        return None
    place = list(labels).index(heads)
    full, wide = shape_of(value), shape_of(spread.result)
    loops = operand_loops(spread)[0]
    if (
        len(wide) != len(full) + 1
        or wide[:place] != full[:place]
        or wide[place + 2 :] != full[place + 1 :]
    ):
        return None
    source = spread.operands[0]
    if tensor_type(source).element_type != tensor_type(value).element_type:
        return None
    kept = [d for d in loops if d is not None]
    if kept != [d for d in range(len(wide)) if d != place + 1]:
        return None
    narrow = [n for n, d in zip(shape_of(source), loops, strict=True) if d is not None]
    if narrow != [n for d, n in enumerate(wide) if d != place + 1]:
        return None
    # Dimensions of size 1 that are read at 0 have no label of their own.
    names = iter(labels)
    return source, tuple(next(names) if d is not None else "unit" for d in loops), wide[place + 1]


def array_of(importer: HLOImporter, value: SSAValue) -> Array | None:
    """The elements of a value that is a literal of the module, not a weight."""
    op = value.owner
    if isinstance(op, UKernelGenericOp) and family_name(op) == "fill" and not op.operands:
        number = op.attributes["value"]
        assert isinstance(number, (FloatAttr, IntegerAttr))
        storage = BY_NAME[str(tensor_type(value).element_type)].storage
        return np.full(shape_of(value), number.value.data).astype(storage)
    if not isinstance(op, arith.ConstantOp):
        return None
    attribute = op.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        storage = BY_NAME[str(tensor_type(value).element_type)].storage
        return literal_array(attribute, shape_of(value), storage)
    if isinstance(attribute, DenseResourceAttr):
        name = attribute.resource_handle.data
        return importer.weights.get(name) if name.startswith("literal.") else None
    return None
