"""Attention that is spelled out: scores, mask, softmax, weighted sum of the values.

before: %s = matmul %q, %k {transpose_rhs}      [batch.., queries, keys]
        %m = select(%mask, %s * 0.125, -3.4e38) or %s * 0.125 + %mask
        %o = matmul softmax(%m), %v
after:  %o = gemma_attention(%q, %k, %v, %mask) {scale = 0.125, kv_group = 3, mask_kind = "bool"}

Everything between the two products must be read by nobody else. Keys and values that were repeated
for grouped heads are read unrepeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.dialects.intents import Lane, shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    FloatAttr,
    IntegerAttr,
    SSAValue,
    TensorType,
    UnitAttr,
    f32,
    i1,
    i64,
)
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    has_one_user,
    integers_of,
    is_float,
    literal_operand,
    maker,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues
from tilewright.transforms.raising.heads import repeated_heads
from tilewright.transforms.raising.masks import (
    Mask,
    contents,
    is_causal,
    seen_keys,
    terms,
    unchosen,
)
from tilewright.transforms.raising.scores import Scores, guards_rows, scores_behind, weights_behind
from tilewright.transforms.raising.transposes import Turning, swapped


@dataclass(frozen=True)
class Rows:
    """An operand of a product and whether its last two dimensions lie the other way round."""

    value: SSAValue
    turned: bool


def raise_attention(op: MatmulOp, known: KnownValues, exact_masked_rows: bool = False) -> bool:
    """Put the attention kernel in the place of a product that ends spelled-out attention."""
    for operand, values, turned in _orders(op):
        weights = weights_behind(operand)
        scores = scores_behind(weights.softmax) if weights is not None else None
        if weights is None or scores is None or scores.product is None:
            continue
        if weights.guard is not None:
            if not guards_rows(weights, scores):
                continue
            scores.hides_rows = False
        builder = BuilderBefore(op)
        made = _build(builder, op, scores, values, known, exact_masked_rows)
        if made is None:
            builder.discard()
            continue
        *batch, rows, columns = shape_of(op.result)
        if turned:
            rank = len(batch)
            made = builder.reshape(made, (*batch, columns, rows))
            made = builder.transpose(made, [*range(rank), rank + 1, rank])
        replace_value(op, builder.reshape(made, shape_of(op.result)))
        return True
    return False


def _orders(op: MatmulOp):
    """(weights, values, whether the result is turned) for both ways to write weights x values."""
    if op.init is not None or op.parent is None:
        return
    turned_lhs, turned_rhs = op.transposes()
    if not turned_lhs:
        yield op.lhs, Rows(op.rhs, turned_rhs), False
    if turned_rhs:
        yield op.rhs, Rows(op.lhs, not turned_lhs), True


# ------------------------------------------------------------------------------------ building


def _build(
    builder: BuilderBefore,
    op: MatmulOp,
    scores: Scores,
    values: Rows,
    known: KnownValues,
    exact_masked_rows: bool,
) -> SSAValue | None:
    product = scores.product
    assert product is not None
    turned_lhs, turned_rhs = product.transposes()
    first, second = Rows(product.lhs, turned_lhs), Rows(product.rhs, not turned_rhs)
    q, k = (Rows(second.value, second.turned), first) if scores.swapped else (first, second)
    operands: list[SSAValue] = []
    attributes: dict[str, Attribute] = {}
    scale, marks = scores.scale, []
    target = _narrowest(values.value)
    for rows in (q, k, values):
        value, factor = _unscaled(builder, rows.value) if rows is not values else (rows.value, 1.0)
        scale *= factor
        value, turned = _straight(builder, _widened(value, target), rows.turned)
        if turned and rows is q:
            rank = len(shape_of(value))
            value = builder.transpose(value, [*range(rank - 2), rank - 1, rank - 2])
        operands.append(value)
        marks.append(turned)
    group = _batched(builder, operands, scores)
    if group is None or len({tensor_type(v).element_type for v in operands}) != 1:
        return None
    queries = scores.queries
    keys = shape_of(operands[1])[-1 if marks[1] else -2]
    width = shape_of(operands[2])[-2 if marks[2] else -1]
    attributes["scale"] = FloatAttr(scale, f32)
    for name, turned in (("transpose_k", marks[1]), ("transpose_v", marks[2])):
        if turned:
            attributes[name] = UnitAttr()
    group *= _grouped(builder, operands, known)
    if group > 1:
        attributes["kv_group"] = IntegerAttr(group, i64)
    shape = (*scores.batch, queries, keys)
    if not _mask(builder, operands, attributes, scores, shape, known, exact_masked_rows):
        return None
    element = tensor_type(op.result).element_type
    result = TensorType(element, [*scores.batch, queries, width])
    suffix = (tensor_type(operands[0]).element_type, element)
    return builder.call("gemma_attention", operands, result, attributes, suffix)


def _batched(builder: BuilderBefore, operands: list[SSAValue], scores: Scores) -> int | None:
    """Give the operands the batch dimensions of the scores; returns query heads per head.

    before: q [batch, heads * queries, d], k [batch, keys, d] where scores are [batch, heads, ..]
    after:  q [batch, heads, queries, d], k [batch, 1, keys, d], and heads
    """
    q, k, v = operands
    batch = scores.batch
    counts = {prod(shape_of(x)[:-2]) for x in operands}
    rows = prod(shape_of(q)[:-1])
    if len(counts) != 1 or rows != prod(batch) * scores.queries:
        return None
    shared = batch
    group = prod(batch) // max(1, counts.pop())
    if group != 1:
        if not batch or group != batch[-1]:
            return None
        shared = (*batch[:-1], 1)
    elif shape_of(q)[-2] != scores.queries:
        return None
    operands[0] = builder.reshape(q, (*batch, scores.queries, shape_of(q)[-1]))
    operands[1] = builder.reshape(k, (*shared, *shape_of(k)[-2:]))
    operands[2] = builder.reshape(v, (*shared, *shape_of(v)[-2:]))
    return group


def _unscaled(builder: BuilderBefore, value: SSAValue) -> tuple[SSAValue, float]:
    """An operand of the scores before a factor, which becomes part of the scale."""
    moves: list[UKernelGenericOp] = []
    current = value
    while (step := maker(current, "reshape", "transpose")) is not None and has_one_user(step):
        moves.append(step)
        current = step.operands[0]
    factor = maker(current, "elementwise_mul", "elementwise_div")
    found = literal_operand(factor) if factor is not None and has_one_user(factor) else None
    if factor is None or found is None or not reads_plainly(factor) or found[1] == 0:
        return value, 1.0
    x, number, left = found
    if family_name(factor) == "elementwise_div":
        if left:
            return value, 1.0
        number = 1 / number
    for step in reversed(moves):
        if family_name(step) == "reshape":
            x = builder.reshape(x, shape_of(step.result))
        else:
            x = builder.transpose(x, integers_of(step, "permutation"))
    return x, float(number)


def _narrowest(value: SSAValue) -> Attribute:
    """The element type a value had before it was widened, or has."""
    op = maker(value, "cast")
    widened = op is not None and reads_plainly(op) and is_float(op.operands[0])
    return tensor_type(op.operands[0] if op is not None and widened else value).element_type


def _widened(value: SSAValue, target: Attribute) -> SSAValue:
    """A value before it was widened from `target`."""
    op = maker(value, "cast")
    if op is None or tensor_type(value).element_type == target or not reads_plainly(op):
        return value
    source = op.operands[0]
    return source if tensor_type(source).element_type == target else value


def _straight(builder: BuilderBefore, value: SSAValue, turned: bool) -> tuple[SSAValue, bool]:
    """A turned operand the right way round when a transpose behind it can do that for nothing."""
    inner = maker(value, "transpose") if turned else None
    if inner is None:
        return value, turned
    order = list(integers_of(inner, "permutation"))
    order[-2:] = order[:-3:-1]
    return builder.transpose(inner.operands[0], order), False


def _grouped(builder: BuilderBefore, operands: list[SSAValue], known: KnownValues) -> int:
    """Replace repeated keys and values by what they repeat; returns query heads per head."""
    keys, values = (repeated_heads(v, known) for v in operands[1:3])
    if keys is None or values is None or keys.group != values.group:
        return 1
    operands[1], operands[2] = keys.build(builder), values.build(builder)
    return keys.group


def regroup_attention(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Attention that reads repeated keys and values, reading what they repeat.

    before: gemma_attention(q, repeat k, repeat v)   after: gemma_attention(q, k, v) {kv_group = 3}
    """
    if family_name(op) != "gemma_attention":
        return False
    operands = list(op.operands)
    builder = BuilderBefore(op)
    group = _grouped(builder, operands, known)
    if group == 1:
        return False
    attributes = dict(op.attributes)
    given = attributes.get("kv_group")
    already = given.value.data if isinstance(given, IntegerAttr) else 1
    attributes["kv_group"] = IntegerAttr(group * already, i64)
    new = UKernelGenericOp(op.symbol.data, operands, op.result.type, attributes)
    replace_value(op, builder.add(new))
    return True


def straighten_attention(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Attention on keys or values behind a transpose, with as little turning as possible.

    before: gemma_attention(q, transpose k to [h, d, n], v) {transpose_k}
    after:  gemma_attention(q, transpose k to [h, n, d], v), or without any transpose
    """
    if family_name(op) != "gemma_attention":
        return False
    operands, attributes = list(op.operands), dict(op.attributes)
    builder = BuilderBefore(op)
    for index, name in ((1, "transpose_k"), (2, "transpose_v")):
        inner = maker(operands[index], "transpose")
        if inner is None:
            if name in attributes and (value := _turned(op, operands[index], known)):
                operands[index] = value
                del attributes[name]
            continue
        order = list(integers_of(inner, "permutation"))
        order[-2:] = order[:-3:-1]
        if name in attributes:
            operands[index] = builder.transpose(inner.operands[0], order)
            del attributes[name]
        elif order == list(range(len(order))):
            operands[index] = inner.operands[0]
            attributes[name] = UnitAttr()
    if operands == list(op.operands):
        return False
    new = UKernelGenericOp(op.symbol.data, operands, op.result.type, attributes)
    replace_value(op, builder.add(new))
    return True


def _turned(reader: UKernelGenericOp, value: SSAValue, known: KnownValues) -> SSAValue | None:
    """Keys or values the right way round, where what they are made of was turned."""
    turning = Turning(BuilderBefore(reader), known)
    found = turning.turned(value, swapped(len(shape_of(value))), reader)
    if found is not None and turning.added <= 1:
        return found
    turning.builder.discard()
    return None


def flatten_attention(op: UKernelGenericOp, known: KnownValues) -> bool:
    """Attention over several batch dimensions: heads of one batch, as kernels have it.

    before: gemma_attention of [batch, windows, heads, queries, d]
    after:  gemma_attention of [batch * windows, heads, queries, d], reshaped
    """
    rank = len(shape_of(op.result))
    if family_name(op) != "gemma_attention" or rank <= 4:
        return False
    builder, operands = BuilderBefore(op), list(op.operands)
    for index, operand in enumerate(operands):
        shape = shape_of(operand)
        shape = (1,) * (rank - len(shape)) + shape
        batch, whole = shape[: rank - 3], shape_of(op.result)[: rank - 3]
        if batch != whole and prod(batch) != 1:
            return False  # a mask for some of the batches
        operands[index] = builder.reshape(operand, (prod(batch), *shape[rank - 3 :]))
    shape = shape_of(op.result)
    result = TensorType(
        tensor_type(op.result).element_type, [prod(shape[: rank - 3]), *shape[rank - 3 :]]
    )
    new = builder.add(UKernelGenericOp(op.symbol.data, operands, result, dict(op.attributes)))
    replace_value(op, builder.reshape(new, shape))
    return True


def _mask(
    builder: BuilderBefore,
    operands: list[SSAValue],
    attributes: dict[str, Attribute],
    scores: Scores,
    shape: tuple[int, ...],
    known: KnownValues,
    exact_masked_rows: bool,
) -> bool:
    """Add the masks as the kernel knows them; False when it cannot say them."""
    left: list[Mask] = []
    certain = True
    for mask in (part for whole in scores.masks for part in terms(whole, known)):
        if mask.kind == "hidden":
            shown = builder.unary("logical_not", mask.value)
            mask = Mask(shown, mask.read, "bool")
        mask = unchosen(mask)
        array = contents(mask, known, shape)
        seen = None if array is None else seen_keys(array, mask.kind)
        certain = certain and seen is not None and bool(seen.any(axis=-1).all())
        if seen is not None and bool(seen.all()):
            continue
        if seen is not None and is_causal(seen):
            attributes["causal"] = UnitAttr()
        else:
            left.append(mask)
    # Several masks that each leave something may leave nothing together.
    if exact_masked_rows and scores.hides_rows and not (certain and len(scores.masks) <= 1):
        return False
    kinds = {mask.kind for mask in left}
    if len(kinds) > 1 or any(
        (tensor_type(m.value).element_type == i1) != (m.kind == "bool") for m in left
    ):
        return False
    if not left:
        return True
    built = [mask.build(builder, shape) for mask in left]
    total = built[0]
    for other in built[1:]:
        total = _both(
            builder, total, other, shape, "logical_and" if "bool" in kinds else "elementwise_add"
        )
    operands.append(total)
    attributes["mask_kind"] = text(left[0].kind)
    return True


def _both(
    builder: BuilderBefore, a: SSAValue, b: SSAValue, shape: tuple[int, ...], family: str
) -> SSAValue:
    """Two masks as one."""
    sizes = [max(n, m) for n, m in zip(shape_of(a), shape_of(b), strict=True)]
    lanes = [
        Lane(v, tuple(None if n != sizes[d] else d for d, n in enumerate(shape_of(v))))
        for v in (a, b)
    ]
    element = tensor_type(a).element_type
    loops = range(len(shape))
    return builder.elementwise(family, lanes, element, dict(enumerate(sizes)), loops=loops).tensor
