"""Finding attention between two dot products.

before: s = q · k;  s * scale;  where(mask, s, -1e9) or s + mask;  softmax;  · v
after:  npu_uk_gemma_attention q, k, v [, mask] {scale, causal, kv_group, mask_kind}

Dimensions are followed by label from one dot product to the other, whatever order JAX puts them in:
shared ones are batch and heads, the one summed over in the second product is the keys, those that
only the queries have are rows, or the heads of a group that share keys and values. Keys and values
repeated for grouped heads are read unrepeated. A query without any key gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from tilewright.frontend.stablehlo_ops_products import Dot, dot_of, untransposed
from tilewright.reference import dtypes
from tilewright.transforms.linalg_to_kernel.chains.match import Node, family_name, make_node

Replace = Callable[[Callable[[], SSAValue]], None]
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


def find_attention(importer: HLOImporter, second: Dot, replace: Replace) -> bool:
    """Put one intent in the place of a second dot product, if attention leads up to it."""
    for side in (0, 1):
        labels = second.lhs if side == 0 else second.rhs
        found = _softmax_behind(second.op.operands[side], labels)
        if found is None:
            continue
        softmax, outer_labels = found
        axis = softmax.attributes["axis"].value.data % len(outer_labels)  # type: ignore[attr-defined]
        scores = _scores(importer, softmax.operands[0])
        if scores is None or outer_labels[axis] != "k0" or second.count("k") != 1:
            continue
        plan = _plan(importer, second, side, outer_labels, axis, scores)
        if plan is not None:
            replace(plan)
            return True
    return False


def _only_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


def _softmax_behind(
    value: SSAValue, labels: Sequence[str]
) -> tuple[UKernelGenericOp, tuple[str, ...]] | None:
    """The softmax behind casts and transposes, and the labels of its dimensions."""
    while True:
        value, labels = untransposed(value, labels)
        op = value.owner
        if not isinstance(op, UKernelGenericOp):
            return None
        if family_name(op) == "softmax":
            return op, tuple(labels)
        if family_name(op) != "cast" or "operand_maps" in op.attributes:
            return None
        value = op.operands[0]


def _scores(importer: HLOImporter, value: SSAValue) -> Scores | None:
    """Scale, mask and first dot product behind the scores."""
    # `order[i]` is the dimension of the softmax's operand that dimension i of `value` is.
    order = list(range(len(shape_of(value))))
    steps = Scores(None, ())  # type: ignore[arg-type]
    keep: tuple[SSAValue, list[int | None]] | None = None
    added: tuple[SSAValue, list[int | None]] | None = None
    while True:
        op = value.owner
        if not isinstance(op, Operation) or not _only_use(value):
            return None
        dot = dot_of(op)
        if dot is not None:
            labels = [""] * len(order)
            for position, place in enumerate(order):
                labels[place] = dot.result[position]
            steps.dot, steps.labels = dot, tuple(labels)
            steps.keep = _labelled(keep, labels)
            steps.added = _labelled(added, labels)
            steps.inner.append(op)
            return steps
        if not isinstance(op, UKernelGenericOp):
            return None
        name = family_name(op)
        steps.inner.append(op)
        if name == "transpose":
            permutation = [int(p) for p in op.attributes["permutation"].get_values()]  # type: ignore[attr-defined]
            before = [0] * len(order)
            for i, p in enumerate(permutation):
                before[p] = order[i]
            order, value = before, op.operands[0]
            continue
        if name == "cast" and "operand_maps" not in op.attributes:
            value = op.operands[0]
            continue
        node = make_node(op)
        if name in ("elementwise_mul", "elementwise_div") and len(node.reads) == 1:
            factor = _factor(node)
            if factor is None or factor <= 0 or shape_of(op.operands[0]) != node.shape:
                return None
            steps.scale *= factor
            value = op.operands[0]
            continue
        if steps.scale != 1.0 or keep is not None or added is not None:
            return None  # a mask inside another or under a scale is something else
        picked = _masked(importer, node, order)
        if picked is None:
            return None
        value, mask, is_bool = picked
        if is_bool:
            keep = mask
        else:
            added = mask


def _factor(node: Node) -> float | None:
    number = node.number("scalar_rhs")
    if node.family == "elementwise_div":
        return 1.0 / number if number else None
    return number if number is not None else node.number("scalar_lhs")


Read = tuple[SSAValue, list[int | None]]


def _masked(
    importer: HLOImporter, node: Node, order: Sequence[int]
) -> tuple[SSAValue, Read, bool] | None:
    """The scores and the mask of where(keep, s, very low) or s + mask."""
    op = node.op
    full = tuple(range(len(node.shape)))
    maps = _loops(op)
    if node.family == "select":
        low = node.number("scalar_b")
        if low is None or low > NEVER or len(op.operands) != 2 or maps[1] != full:
            return None
        return (
            op.operands[1],
            (op.operands[0], [order[d] if d is not None else None for d in maps[0]]),
            True,
        )
    if node.family != "elementwise_add" or len(op.operands) != 2:
        return None
    for s, m in ((0, 1), (1, 0)):
        if maps[s] == full and _leads_to_dot(op.operands[s]) and not _leads_to_dot(op.operands[m]):
            read: Read = (op.operands[m], [order[d] if d is not None else None for d in maps[m]])
            return op.operands[s], read, False
    return None


def _leads_to_dot(value: SSAValue) -> bool:
    """Whether casts, transposes and scales lead back to a dot product."""
    while isinstance(value.owner, Operation):
        op = value.owner
        if dot_of(op) is not None:
            return True
        if not isinstance(op, UKernelGenericOp) or len(op.operands) != 1:
            return False
        if family_name(op) not in ("cast", "transpose", "elementwise_mul", "elementwise_div"):
            return False
        value = op.operands[0]
    return False


def _loops(op: UKernelGenericOp) -> list[tuple[int | None, ...]]:
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


def _labelled(
    read: Read | None, labels: Sequence[str]
) -> tuple[SSAValue, tuple[str | None, ...]] | None:
    if read is None:
        return None
    value, places = read
    return value, tuple(None if p is None else labels[p] for p in places)


# ------------------------------------------------------------------------------------- the intent


def _plan(
    importer: HLOImporter,
    second: Dot,
    side: int,
    outer: Sequence[str],
    axis: int,
    scores: Scores,
) -> Callable[[], SSAValue] | None:
    """What builds the intent, or None when the two products do not line up."""
    first = scores.dot
    keys = scores.labels[axis]
    if keys[0] not in "mn" or first.count("k") != 1:
        return None
    key_side = 0 if keys[0] == "m" else 1
    sides = (first.lhs, first.rhs)
    if sum(label[0] == keys[0] for label in sides[key_side]) != 1:
        return None
    queries = [label for label in sides[1 - key_side] if label[0] in "mn"]
    batch = [f"b{i}" for i in range(first.count("b"))]
    # The second product in labels of the first: p's dimensions are the softmax's.
    to_first = dict(zip(outer, scores.labels, strict=True))
    value_labels = second.rhs if side == 0 else second.lhs
    free = [label for label in value_labels if label[0] in "mn"]
    if len(free) != 1:
        return None
    named = [to_first.get(label, "width") for label in value_labels]
    shared = {to_first.get(f"b{i}") for i in range(second.count("b"))}
    if shared != set(batch) or any(label.startswith(("m", "n")) and to_first.get(label) is None
                                   for label in outer):  # fmt: skip
        return None
    result = ["width" if label in free else to_first[label] for label in second.result]
    q, k = first.op.operands[1 - key_side], first.op.operands[key_side]
    v = second.op.operands[1 - side]
    sizes = dict(zip(first.lhs, shape_of(first.op.operands[0]), strict=True))
    sizes |= dict(zip(first.rhs, shape_of(first.op.operands[1]), strict=True))
    sizes["width"] = shape_of(second.op.results[0])[list(second.result).index(free[0])]
    mask = scores.keep or scores.added
    rows = _row_label(queries, mask, sizes)
    if rows is None:
        return None
    build = _Builder(importer, scores, batch, queries, rows, keys, sizes)
    element = tensor_type(second.op.results[0]).element_type
    return lambda: build.attention(
        (q, sides[1 - key_side]), (k, sides[key_side]), (v, tuple(named)), result, element
    )


def _row_label(
    queries: Sequence[str],
    mask: tuple[SSAValue, tuple[str | None, ...]] | None,
    sizes: dict[str, int],
) -> str | None:
    """Which of the dimensions only queries have are rows: the one the mask follows, else the longest."""
    if not queries:
        return None
    if mask is not None:
        followed = [label for label in mask[1] if label in queries]
        followed = [label for label in followed if label is not None and sizes[label] != 1]
        if len(followed) == 1:
            return followed[0]
    return max(queries, key=lambda label: sizes[label])


@dataclass
class _Builder:
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
    loops = _loops(spread)[0]
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
