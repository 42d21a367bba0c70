"""Transposes that cancel once what lies between them is done the other way round.

before: transpose(gelu(reshape(transpose(x))))          after: gelu(reshape(x))
        convolution of one pixel over transpose(x)             transpose(matmul(x, weights))

A value is `turned` by going back through what works on single elements, through reshapes that keep
dimensions apart, and to the transposes behind them. A rule takes hold where fewer transposes are
left than there were, so that rewriting ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from tilewright.dialects.intents import Lane, literal, map_attribute, shape_of, tensor_type
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    IntegerAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
)
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    has_one_user,
    integers_of,
    is_float,
    maker,
    operand_reads,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues

ROWS = [0, 2, 3, 1]  # the order in which the channels of an image are rows
ZEROS = 4096  # per group: so many that are read in vain cost as much as a product of its own
TILE = 32  # channels of a group that are cut apart where tiles of every machine end
_ELEMENTWISE = ("elementwise_", "logical_", "gelu_")
_OTHERS = frozenset(["silu", "silu_gate", "clamp", "cast", "select", "compare"])

Group = tuple[list[int], list[int]]  # dimensions before and after a reshape


def swapped(rank: int) -> list[int]:
    """The order in which the last two dimensions change places."""
    return [*range(rank - 2), rank - 1, rank - 2]


def _still(value: SSAValue, order: Sequence[int]) -> bool:
    """Whether no number moves: only dimensions of size 1 change places."""
    moved = [d for d in order if shape_of(value)[d] != 1]
    return moved == sorted(moved)


@dataclass
class Turning:
    """Builds values in another order of their dimensions, and counts what that takes and saves."""

    builder: BuilderBefore
    known: KnownValues
    added: int = 0  # transposes of what only a run knows
    removed: int = 0  # transposes that nobody reads afterwards

    @property
    def gain(self) -> int:
        return self.removed - self.added

    def turned(self, value: SSAValue, order: Sequence[int], reader: Operation) -> SSAValue | None:
        """transpose(value, order), as `reader` and all others that read it would have it."""
        order = list(order)
        if _still(value, order):
            return self.builder.reshape(value, [shape_of(value)[d] for d in order])
        if self.known.is_known(value):
            return self.builder.transpose(value, order)
        op = value.owner
        if not isinstance(op, UKernelGenericOp):
            return None
        family = family_name(op)
        if family == "transpose":
            first = integers_of(op, "permutation")
            self.removed += has_one_user(op)
            return self._transposed(op.operands[0], [first[p] for p in order])
        if not _agreed(op, order, reader):
            return None
        if family == "reshape":
            return self._reshaped(op, order)
        if family.startswith(_ELEMENTWISE) or family in _OTHERS:
            return self._elementwise(op, order)
        return None

    def _transposed(self, value: SSAValue, order: list[int]) -> SSAValue:
        if _still(value, order):
            return self.builder.reshape(value, [shape_of(value)[d] for d in order])
        self.added += 1
        return self.builder.transpose(value, order)

    def _elementwise(self, op: UKernelGenericOp, order: list[int]) -> SSAValue | None:
        if "roles" in op.attributes:
            return None
        rank = len(order)
        operands: list[SSAValue] = []
        reads: list[tuple[int | None, ...]] = []
        for index, operand in enumerate(op.operands):
            read = operand_reads(op)[index]
            if reads_plainly(op, index) and len(read) == rank:
                value, places = self.turned(operand, order, op), tuple(range(rank))
            else:
                value, places = self._spread(operand, read, order)
            if value is None:
                return None
            operands.append(value)
            reads.append(places)
        attributes = {k: v for k, v in op.attributes.items() if k != "operand_maps"}
        if any(read != tuple(range(rank)) for read in reads):
            attributes["operand_maps"] = ArrayAttr([map_attribute(rank, read) for read in reads])
        shape = [shape_of(op.result)[d] for d in order]
        result = TensorType(tensor_type(op.result).element_type, shape)
        new = UKernelGenericOp(op.symbol.data, operands, result, attributes)
        return self.builder.add(new)

    def _spread(
        self, operand: SSAValue, read: Sequence[int | None], order: list[int]
    ) -> tuple[SSAValue | None, tuple[int | None, ...]]:
        """A constant that is read along some dimensions: those dimensions where they are now."""
        if not self.known.is_known(operand):
            return None, ()
        kept = [(order.index(d), p) for p, d in enumerate(read) if d is not None]
        narrow = self.builder.reshape(operand, [shape_of(operand)[p] for _, p in kept])
        turned = sorted(range(len(kept)), key=lambda i: kept[i])
        return self.builder.transpose(narrow, turned), tuple(kept[i][0] for i in turned)

    def _reshaped(self, op: UKernelGenericOp, order: list[int]) -> SSAValue | None:
        """A reshape of what is turned by whole groups of dimensions, which are then taken apart."""
        source, shape = op.operands[0], shape_of(op.result)
        place = {d: i for i, d in enumerate(d for d in order if shape[d] != 1)}
        groups = _groups(shape_of(source), shape)
        places = [[place[d] for d in group if d in place] or [-1] for _, group in groups]
        ways = []
        for end in (min, max):  # a group that is taken apart goes where one of its ends goes
            ranked = sorted(range(len(groups)), key=lambda i: (end(places[i]), i))
            if ranked not in ways:
                ways.append(ranked)
        if len(ways) > 1:
            ways = [max(ways, key=lambda way: self._gain(op, order, [groups[i] for i in way]))]
        return self._regrouped(op, order, [groups[i] for i in ways[0]])

    def _gain(self, op: UKernelGenericOp, order: list[int], groups: list[Group]) -> float:
        """What a way to group dimensions would save."""
        trial = Turning(BuilderBefore(self.builder.root), self.known)
        found = trial._regrouped(op, order, groups)
        trial.builder.discard()
        return -inf if found is None else trial.gain

    def _regrouped(
        self, op: UKernelGenericOp, order: list[int], groups: list[Group]
    ) -> SSAValue | None:
        shape = shape_of(op.result)
        value = self.turned(op.operands[0], [d for inside, _ in groups for d in inside], op)
        if value is None:
            return None
        outside = [d for _, group in groups for d in group]
        value = self.builder.reshape(value, [shape[d] for d in outside])
        return self._transposed(value, [outside.index(d) for d in order])


def _groups(source: Sequence[int], result: Sequence[int]) -> list[Group]:
    """Dimensions before and after a reshape that hold the same elements, as small as possible."""
    groups: list[Group] = []
    before, after = list(range(len(source))), list(range(len(result)))
    while before or after:
        left, right = before[:1], after[:1]
        del before[:1], after[:1]
        while (a := prod(source[d] for d in left)) != (b := prod(result[d] for d in right)):
            if (a < b and before) or not after:
                left.append(before.pop(0))
            else:
                right.append(after.pop(0))
        groups.append((left, right))
    return groups


def _agreed(op: UKernelGenericOp, order: list[int], reader: Operation) -> bool:
    """Whether all who read the result want it turned: else it would be computed twice."""
    return all(
        user is reader or _wants(user, op.result, order)
        for user in {use.operation for use in op.result.uses}
    )


def _wants(user: Operation, value: SSAValue, order: list[int]) -> bool:
    if isinstance(user, MatmulOp):
        turned = user.transposes()[0] and user.lhs is value and user.rhs is not value
        return turned and order == swapped(len(order))
    if not isinstance(user, UKernelGenericOp):
        return False
    if family_name(user) == "transpose":
        return list(integers_of(user, "permutation")) == order
    return _single_pixels(user) and user.operands[0] is value and order == ROWS


# --------------------------------------------------------------------------------------- rules


def cancel_transposes(op: UKernelGenericOp, known: KnownValues) -> bool:
    """A transpose of what was made of transposed values.

    before: transpose(add(transpose(x), transpose(y)))    after: add(x, y)
    """
    if family_name(op) != "transpose" or known.is_known(op.result):
        return False
    source, order = op.operands[0], integers_of(op, "permutation")
    if maker(source, "transpose") is not None:
        return False  # two in a row are one, by a simpler rule
    turning = Turning(BuilderBefore(op), known)
    value = turning.turned(source, order, op)
    if value is None or turning.gain < 0:
        turning.builder.discard()
        return False
    replace_value(op, value)
    return True


def turn_product(op: MatmulOp, known: KnownValues) -> bool:
    """A product that reads rows as columns, of what was made of transposed rows.

    before: matmul relu(transpose(x)), w {transpose_lhs}    after: matmul relu(x), w
    """
    if not op.transposes()[0] or maker(op.lhs, "transpose") is not None:
        return False
    if op.lhs is op.rhs or known.is_known(op.lhs):
        return False
    turning = Turning(BuilderBefore(op), known)
    value = turning.turned(op.lhs, swapped(len(shape_of(op.lhs))), op)
    if value is None or turning.added:
        turning.builder.discard()
        return False
    marks = op.transposes()
    new = MatmulOp(value, op.rhs, op.result.type, op.init, False, marks[1], op.attributes)
    replace_value(op, turning.builder.add(new))
    return True


def turn_convolution(op: UKernelGenericOp, known: KnownValues) -> bool:
    """A convolution of single pixels over a row of them that was transposed: a product of rows.

    before: conv2d(reshape(transpose(x) [n, c, m]) [n, c, 1, m], w [f, c, 1, 1])
    after:  reshape(transpose(matmul x [n, m, c], w [f, c] {transpose_rhs}))
    """
    if not _single_pixels(op) or not known.is_known(op.operands[1]):
        return False
    n, channels, _, wide = shape_of(op.operands[0])
    turning = Turning(builder := BuilderBefore(op), known)
    rows = turning.turned(op.operands[0], ROWS, op)
    if rows is None or turning.gain < 0 or (not turning.removed and not _shared(op)):
        builder.discard()
        return False
    element = tensor_type(op.result).element_type
    extents = dict(enumerate((n, wide, shape_of(op.result)[1])))
    value = _product(builder, op, builder.reshape(rows, (n, wide, channels)))
    if len(op.operands) > 2:
        lanes = [Lane(value, (0, 1, 2)), Lane(op.operands[2], (2,))]
        value = builder.elementwise("elementwise_add", lanes, element, extents).tensor
    value = builder.reshape(builder.transpose(value, [0, 2, 1]), shape_of(op.result))
    replace_value(op, value)
    return True


def _single_pixels(op: UKernelGenericOp) -> bool:
    """Whether an intent is a convolution of single pixels over images of one row."""
    if family_name(op) != "conv2d" or "roles" in op.attributes or not is_float(op.operands[0]):
        return False
    layout = op.attributes.get("layout")
    if isinstance(layout, StringAttr) and layout.data != "nchw_fchw":
        return False
    plain = set(integers_of(op, "strides")) <= {1} and set(integers_of(op, "padding")) <= {0}
    _, _, high, wide = shape_of(op.operands[0])
    return plain and shape_of(op.operands[1])[2:] == (1, 1) and high == 1 < wide


def _shared(op: UKernelGenericOp) -> bool:
    """Whether a convolution reads a transpose that disappears with all who read it."""
    image = maker(op.operands[0], "reshape")
    return _all_turn(op.operands[0] if image is None else image.operands[0])


def _all_turn(value: SSAValue, depth: int = 2) -> bool:
    """Whether all who read a transposed value may read it as it was: sums, and convolutions of rows."""
    for user in {use.operation for use in value.uses}:
        family = family_name(user)
        if family == "transpose" or family.startswith(_ELEMENTWISE):
            continue
        if isinstance(user, UKernelGenericOp) and _single_pixels(user):
            continue
        if family == "reshape" and depth and _all_turn(user.results[0], depth - 1):
            continue
        return False
    return True


def _product(builder: BuilderBefore, op: UKernelGenericOp, rows: SSAValue) -> SSAValue:
    """Rows times the filters, with zeros between groups, or each group apart where tiles end there."""
    given = op.attributes.get("groups")
    groups = given.value.data if isinstance(given, IntegerAttr) else 1
    n, count, channels = shape_of(rows)
    filters, taken = shape_of(op.operands[1])[:2]
    element = tensor_type(op.result).element_type
    weight = builder.reshape(op.operands[1], (filters, taken))

    def product(x: SSAValue, w: SSAValue) -> SSAValue:
        result = TensorType(element, [n, count, shape_of(w)[0]])
        return builder.matmul(x, w, result, transpose_rhs=True)

    if groups == 1:
        return product(rows, weight)
    made = filters // groups
    parts = [builder.slice(weight, (g * made, 0), (made, taken), (1, 1)) for g in range(groups)]
    aligned = taken % TILE == 0 and made % TILE == 0
    if aligned and filters * (channels - taken) > ZEROS * groups:
        pieces = [
            builder.slice(rows, (0, 0, g * taken), (n, count, taken), (1, 1, 1))
            for g in range(groups)
        ]
        return builder.concat([product(x, w) for x, w in zip(pieces, parts, strict=True)], 2)
    kind = tensor_type(weight).element_type
    lines = []
    for g, part in enumerate(parts):
        zeros = [(made, g * taken), (made, channels - (g + 1) * taken)]
        left, right = (
            [builder.fill(literal(0.0, kind).value, shape)] if shape[1] else [] for shape in zeros
        )
        lines.append(builder.concat([*left, part, *right], 1))
    return product(rows, builder.concat(lines, 0))
