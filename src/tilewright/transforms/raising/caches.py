"""Keys and values that come from a cache and from the tokens at hand, seen apart.

Attention does not care in which order keys come, so each part can be made ready where it is: the
cache once, new keys by their product, with no copy that puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.dialects.intents import literal, map_attribute, shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import ArrayAttr, FloatAttr, SSAValue, TensorType, f32, i1
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    integers_of,
    maker,
    operand_reads,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues

HIDDEN = -3.0e38  # added to scores that must not count
RANK = 4  # of keys and values: [batch, heads, keys, width]


def separate_caches(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Attention on parts of keys and values.

    before: keys = transpose(concat(cache, new))
    after:  keys = concat(transpose(cache), transpose(new))

    before: keys = cache with the entry at a position replaced by `new`
    after:  keys = concat(cache, new), the mask hiding the entry that is replaced
    """
    if family_name(op) != "gemma_attention" or len(shape_of(op.operands[1])) != RANK:
        return False
    if any(name in op.attributes for name in ("transpose_k", "transpose_v", "valid_keys")):
        return False
    return _turn_parts(op) or _append_entry(op, known)


def _turn_parts(op: UKernelGenericOp) -> bool:
    turned = False
    for index in (1, 2):
        inner, order = _before_turning(op.operands[index])
        joined, builder = maker(inner, "concat"), BuilderBefore(op)
        if joined is None or order == (0, 1, 2, 3):
            continue
        axis = joined.attributes["axis"].value.data % RANK  # type: ignore[attr-defined]
        if order.index(axis) != RANK - 2:
            continue
        parts = [builder.transpose(part, order) for part in joined.operands]
        op.operands[index] = builder.concat(parts, RANK - 2)
        turned = True
    return turned


def _before_turning(value: SSAValue) -> tuple[SSAValue, tuple[int, ...]]:
    """What a transpose is of, and its order; with one head a reshape does the same."""
    turn = maker(value, "transpose")
    if turn is not None:
        return turn.operands[0], integers_of(turn, "permutation")
    turn = maker(value, "reshape")
    if turn is not None:
        batch, heads, keys, width = shape_of(value)
        if heads == 1 and shape_of(turn.operands[0]) == (batch, keys, heads, width):
            return turn.operands[0], (0, 2, 1, 3)
    return value, (0, 1, 2, 3)


@dataclass(frozen=True)
class _Entry:
    """A cache with one of its entries replaced where `chosen` is true."""

    chosen: SSAValue
    new: SSAValue
    cache: SSAValue
    order: tuple[int, ...]  # of dimensions, as attention wants them

    def parts(self, builder: BuilderBefore) -> list[SSAValue]:
        return [builder.transpose(x, self.order) for x in (self.cache, self.new)]


def _append_entry(op: UKernelGenericOp, known: KnownValues) -> bool:
    keys, values = (_entry(op.operands[index], known) for index in (1, 2))
    if keys is None or values is None or keys.chosen is not values.chosen:
        return False
    if "causal" in op.attributes:
        return False
    builder = BuilderBefore(op)
    count = shape_of(op.operands[1])[-2]
    row = builder.reshape(keys.chosen, (1, 1, 1, count))
    mask = op.operands[3] if len(op.operands) > 3 else None
    if mask is not None and (len(shape_of(mask)) != RANK or shape_of(mask)[-1] != count):
        builder.discard()
        return False
    attributes = {k: v for k, v in op.attributes.items() if k != "roles"}
    if mask is None:
        seen = literal(True, i1).value
        attributes["mask_kind"] = text("bool")
        rows = shape_of(op.operands[0])[-2]
        mask = builder.fill(seen, (1, 1, rows, count))
    mask = builder.concat(_masks(builder, mask, row), RANK - 1)
    operands = [op.operands[0], *(builder.concat(e.parts(builder), 2) for e in (keys, values))]
    result = builder.call("gemma_attention", [*operands, mask], op.result.type, attributes)
    replace_value(op, result)
    return True


def _entry(value: SSAValue, known: KnownValues) -> _Entry | None:
    inner, order = _before_turning(value)
    choice = maker(inner, "select")
    if choice is None or len(choice.operands) != 3:
        return None
    chosen, new, cache = choice.operands
    axis, shape = order[-2], shape_of(choice.result)
    row = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    one = tuple(1 if d == axis else n for d, n in enumerate(shape))
    if (shape_of(chosen), shape_of(new), shape_of(cache)) != (row, one, shape):
        return None
    for operand, read in zip(choice.operands, operand_reads(choice), strict=True):
        sizes = shape_of(operand)
        if any(d != place and n != 1 for place, (d, n) in enumerate(zip(read, sizes, strict=True))):
            return None
    return _Entry(chosen, new, cache, order) if _chooses_one(chosen, known) else None


def _chooses_one(value: SSAValue, known: KnownValues) -> bool:
    """Whether at most one element is true: different numbers compared with the same one."""
    while (inner := maker(value, "reshape")) is not None:
        value = inner.operands[0]
    compared = maker(value, "compare")
    if compared is None or compared.attributes.get("predicate") != text("eq"):
        return False
    arrays = [known.array(x) if known.is_known(x) else None for x in compared.operands]
    sizes = [int(np.prod(shape_of(x))) for x in compared.operands]
    for array, other in zip(arrays, reversed(sizes), strict=True):
        if array is not None and other == 1 and len(np.unique(array)) == array.size:
            return True
    return False


def _masks(builder: BuilderBefore, mask: SSAValue, row: SSAValue) -> list[SSAValue]:
    """The mask of a cache without its chosen entry, and of that entry."""
    kind, shape = tensor_type(mask), shape_of(mask)
    rank, last = len(shape), len(shape) - 1
    as_is, along = map_attribute(rank, range(rank)), [None] * (rank - 1) + [last]

    def both(family: str, first: SSAValue, second: SSAValue) -> SSAValue:
        reads = [as_is if x is mask else map_attribute(rank, along) for x in (first, second)]
        return builder.call(family, [first, second], kind, {"operand_maps": ArrayAttr(reads)})

    if kind.element_type == i1:
        others = builder.unary("logical_not", row)
        chosen = both("logical_and", mask, row)
        numbers = builder.unary("cast", chosen, f32)
        most = builder.reduction("max", numbers, (last,), keepdims=True)
        own = builder.call(
            "compare", [most], TensorType(i1, shape_of(most)),
            {"predicate": text("ne"), "scalar_rhs": FloatAttr(0.0, f32)},
        )  # fmt: skip
        return [both("logical_and", mask, others), own]
    lowest = literal(HIDDEN, kind.element_type).value
    reads = ArrayAttr([map_attribute(rank, along), as_is])
    kept = builder.call("select", [row, mask], kind, {"operand_maps": reads, "scalar_a": lowest})
    own = builder.call("select", [row, mask], kind, {"operand_maps": reads, "scalar_b": lowest})
    return [kept, builder.reduction("max", own, (last,), keepdims=True)]
