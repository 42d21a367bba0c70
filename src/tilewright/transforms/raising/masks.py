"""Attention masks: what they are known to hold, and how the attention kernel says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.intents import map_attribute, shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import ArrayAttr, Attribute, SSAValue, TensorType, UnitAttr, i1
from tilewright.reference.attention import causal_mask
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    maker,
    number_of,
    operand_reads,
    replace_value,
)
from tilewright.transforms.known_values import Array, KnownValues

# Scores this far below the others have no weight in any float type used for scores.
NEVER_SEEN = -1e4


@dataclass(frozen=True)
class Mask:
    """A mask over scores [batch.., queries, keys], read as `read` says (None: the same for all)."""

    value: SSAValue
    read: tuple[int | None, ...]
    kind: str  # bool or additive

    def build(self, builder: BuilderBefore, scores: tuple[int, ...]) -> SSAValue:
        """The mask with its last two dimensions in full and leading ones of size 1 or in full."""
        rank = len(scores)
        element = tensor_type(self.value).element_type
        sizes = shape_of(self.value)
        used = {d: n for d, n in zip(self.read, sizes, strict=True) if d is not None}
        full = [scores[d] if d >= rank - 2 else used.get(d, 1) for d in range(rank)]
        aligned = [used.get(d, 1) for d in range(rank)]
        kept = [d for d, n in zip(self.read, sizes, strict=True) if d is not None and n != 1]
        value = builder.reshape(self.value, [n for n in sizes if n != 1])
        order = sorted(range(len(kept)), key=lambda place: kept[place])
        value = builder.reshape(builder.transpose(value, order), aligned)
        if aligned == full:
            return value
        reads = [
            None if a == 1 and n != 1 else d
            for d, (a, n) in enumerate(zip(aligned, full, strict=True))
        ]
        maps = ArrayAttr([map_attribute(rank, reads)])
        return builder.call("cast", [value], TensorType(element, full), {"operand_maps": maps})


def unchosen(mask: Mask) -> Mask:
    """A mask that adds 0 or almost minus infinity by a condition, as that condition.

    before: additive select(cond, 0, -inf)   after: bool cond
    """
    choice = maker(mask.value, "select") if mask.kind == "additive" else None
    if choice is None or len(choice.operands) != 1:
        return mask
    kept, dropped = number_of(choice, "scalar_a"), number_of(choice, "scalar_b")
    if kept != 0 or dropped is None or dropped > NEVER_SEEN:
        return mask
    inner = operand_reads(choice)[0]
    return Mask(
        choice.operands[0], tuple(None if d is None else mask.read[d] for d in inner), "bool"
    )


def terms(mask: Mask, known: KnownValues) -> list[Mask]:
    """The two masks of a sum of masks when one of them is known, such as a triangle."""
    total = maker(mask.value, "elementwise_add") if mask.kind == "additive" else None
    if total is None or len(total.operands) != 2:
        return [mask]
    if known.is_known(total.operands[0]) == known.is_known(total.operands[1]):
        return [mask]
    return [
        Mask(part, tuple(None if d is None else mask.read[d] for d in read), "additive")
        for part, read in zip(total.operands, operand_reads(total), strict=True)
    ]


def contents(mask: Mask, known: KnownValues, scores: tuple[int, ...]) -> Array | None:
    """A known mask as [.., queries, keys] with leading dimensions of size 1 where it repeats."""
    array = known.array(mask.value)
    if array is None:
        return None
    sizes = [1] * len(scores)
    kept = [(d, place) for place, d in enumerate(mask.read) if d is not None]
    for d, place in kept:
        sizes[d] = array.shape[place]
    order = [place for _, place in sorted(kept)]
    rest = [place for place in range(array.ndim) if place not in order]
    aligned = array.transpose(order + rest).reshape(sizes)
    return np.broadcast_to(aligned, (*sizes[:-2], *scores[-2:]))


def seen_keys(array: Array, kind: str) -> Array | None:
    """Where a known mask lets queries see keys; None when it does more than that."""
    if kind == "bool":
        return array.astype(np.bool_)
    wide = array.astype(np.float64)
    seen, hidden = wide == 0, wide <= NEVER_SEEN
    return seen if bool((seen | hidden).all()) else None


def is_causal(seen: Array) -> bool:
    """Whether query i sees exactly the keys up to i, counted from the last key."""
    queries, keys = seen.shape[-2:]
    return bool((seen == causal_mask(queries, keys, offset=keys - queries)).all())


def simplify_attention_mask(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Attention whose mask is known to hide nothing, or exactly the keys to come.

    before: gemma_attention(q, k, v, %all_true)   after: gemma_attention(q, k, v)
    before: gemma_attention(q, k, v, %triangle)   after: gemma_attention(q, k, v) {causal}
    """
    if family_name(op) != "gemma_attention" or len(op.operands) != 4:
        return False
    mask, attributes = op.operands[3], dict(op.attributes)
    scores = (*shape_of(op.result)[:-1], _keys(op))
    rank = len(scores)
    first = rank - len(shape_of(mask))
    read = tuple(
        None if n == 1 and scores[first + d] != 1 else first + d
        for d, n in enumerate(shape_of(mask))
    )
    given = Mask(mask, read, "bool" if tensor_type(mask).element_type == i1 else "additive")
    simple = unchosen(given)
    array = contents(simple, known, scores)
    seen = None if array is None else seen_keys(array, simple.kind)
    if seen is not None and bool(seen.all()):
        pass
    elif seen is not None and is_causal(seen):
        attributes["causal"] = UnitAttr()
    elif simple is not given:
        builder = BuilderBefore(op)
        attributes["mask_kind"] = text(simple.kind)
        operands = [*op.operands[:3], simple.build(builder, scores)]
        _renew(op, operands, attributes)
        return True
    else:
        return False
    attributes.pop("mask_kind", None)
    attributes.pop("roles", None)
    _renew(op, list(op.operands[:3]), attributes)
    return True


def _renew(
    op: UKernelGenericOp, operands: list[SSAValue], attributes: Mapping[str, Attribute]
) -> None:
    new = UKernelGenericOp(op.symbol.data, operands, op.result.type, attributes)
    BuilderBefore(op).add(new)
    replace_value(op, new.result)


def _keys(op: UKernelGenericOp) -> int:
    shape = shape_of(op.operands[1])
    return shape[-1] if "transpose_k" in op.attributes else shape[-2]
