"""Attention that is spelled out: scores, mask, softmax, weighted sum of the values.

before: %s = matmul %q, %k {transpose_rhs}      [batch.., queries, keys]
        %m = select(%mask, %s * 0.125, -3.4e38) or %s * 0.125 + %mask
        %o = matmul softmax(%m), %v
after:  %o = gemma_attention(%q, %k, %v, %mask) {scale = 0.125, kv_group = 3, mask_kind = "bool"}

Everything between the two products must be read by nobody else. Keys and values that were repeated
for grouped heads are read unrepeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from tilewright.dialects.intents import Lane, shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    FloatAttr,
    IntegerAttr,
    Operation,
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
    number_of,
    operand_reads,
    product_behind,
    reads_plainly,
    replace_value,
)
from tilewright.transforms.known_values import KnownValues
from tilewright.transforms.raising.heads import repeated_heads
from tilewright.transforms.raising.masks import (
    NEVER_SEEN,
    Mask,
    contents,
    is_causal,
    seen_keys,
    unchosen,
)


@dataclass
class Scores:
    """What happens between the first product and the softmax, read from the softmax backwards."""

    batch: tuple[int, ...]
    scale: float = 1.0
    masks: list[Mask] = field(default_factory=list)
    hides_rows: bool = False  # a row without visible keys gets a mean, not 0
    product: MatmulOp | None = None
    swapped: bool = False  # the product is keys by queries


@dataclass(frozen=True)
class Rows:
    """An operand of a product and whether its last two dimensions lie the other way round."""

    value: SSAValue
    turned: bool


def raise_attention(op: MatmulOp, known: KnownValues, exact_masked_rows: bool = False) -> bool:
    """Put the attention kernel in the place of a product that ends spelled-out attention."""
    for weights, values, turned in _orders(op):
        softmax = _softmax(weights)
        scores = _scores(softmax) if softmax is not None else None
        if scores is None or scores.product is None:
            continue
        builder = BuilderBefore(op)
        made = _build(builder, op, scores, values, known, exact_masked_rows)
        if made is None:
            builder.discard()
            continue
        if turned:
            rank = len(shape_of(made))
            made = builder.transpose(made, [*range(rank - 2), rank - 1, rank - 2])
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


def _private(op: Operation) -> bool:
    return has_one_user(op)


def _keeps_scores(op: UKernelGenericOp) -> bool:
    """Whether an op only changes how leading dimensions are counted, or the float type."""
    if family_name(op) == "reshape":
        return shape_of(op.operands[0])[-2:] == shape_of(op.result)[-2:]
    return family_name(op) == "cast" and reads_plainly(op) and is_float(op.operands[0])


def _softmax(value: SSAValue) -> UKernelGenericOp | None:
    """The softmax along keys behind the weights of a product."""
    while isinstance(value.owner, UKernelGenericOp) and _private(value.owner):
        op = value.owner
        if family_name(op) == "softmax":
            rank = len(shape_of(value))
            axis = op.attributes.get("axis")
            along = axis.value.data % rank if isinstance(axis, IntegerAttr) else rank - 1
            return op if rank >= 2 and along == rank - 1 else None
        if not _keeps_scores(op):
            return None
        value = op.operands[0]
    return None


def _scores(softmax: UKernelGenericOp) -> Scores | None:
    """Scale, masks and product behind a softmax; None when anything else is in between."""
    value = softmax.operands[0]
    found = Scores(shape_of(value)[:-2])
    if len(shape_of(value)) < 2:
        return None
    while isinstance(value.owner, Operation) and _private(value.owner):
        op = value.owner
        if isinstance(op, MatmulOp):
            found.product = op if op.init is None else None
            return found
        if not isinstance(op, UKernelGenericOp):
            return None
        name = family_name(op)
        if _keeps_scores(op):
            value = op.operands[0]
        elif name in ("elementwise_mul", "elementwise_div") and (pair := literal_operand(op)):
            value, number, left = pair
            if not reads_plainly(op) or number == 0 or (name == "elementwise_div" and left):
                return None
            found.scale *= number if name == "elementwise_mul" else 1 / number
        elif name == "select":
            value = _chosen(op, found)
        elif name == "elementwise_add":
            value = _added(op, found)
        elif name == "transpose" and product_behind(op.operands[0]) is not None:
            rank = len(shape_of(op.result))
            if integers_of(op, "permutation") != (*range(rank - 2), rank - 1, rank - 2):
                return None
            found.swapped, value = True, op.operands[0]
        else:
            return None
        if value is None:
            return None
    return None


def _note(found: Scores, op: UKernelGenericOp, mask: Mask) -> bool:
    """Remember a mask; all must be over the same dimensions."""
    batch = shape_of(op.result)[:-2]
    if found.masks and found.batch != batch:
        return False
    found.batch = batch
    found.masks.append(mask)
    return True


def _chosen(op: UKernelGenericOp, found: Scores) -> SSAValue | None:
    """The scores of select(mask, scores, -big) or select(hidden, -big, scores)."""
    reads = operand_reads(op)
    for kept, dropped, name in ((1, "scalar_b", "cond"), (1, "scalar_a", "hidden")):
        number = number_of(op, dropped)
        if number is None or len(op.operands) != 2 or not reads_plainly(op, kept):
            continue
        if not number * found.scale <= NEVER_SEEN:
            return None
        kind = "bool" if name == "cond" else "hidden"
        found.hides_rows = True
        mask = Mask(op.operands[0], reads[0], kind)
        return op.operands[kept] if _note(found, op, mask) else None
    return None


def _added(op: UKernelGenericOp, found: Scores) -> SSAValue | None:
    """The scores of scores + mask; the mask is not multiplied by the scale."""
    if found.scale != 1.0 or len(op.operands) != 2:
        return None
    for index in (0, 1):
        scores = op.operands[index]
        if not reads_plainly(op, index) or not _leads_to_product(scores):
            continue
        mask = Mask(op.operands[1 - index], operand_reads(op)[1 - index], "additive")
        found.hides_rows = True
        return scores if _note(found, op, mask) else None
    return None


def _leads_to_product(value: SSAValue) -> bool:
    """Whether scores may be behind a value: a product with only scaling and masks in between."""
    while isinstance(value.owner, Operation):
        op = value.owner
        if isinstance(op, MatmulOp):
            return True
        if not isinstance(op, UKernelGenericOp) or not op.operands:
            return False
        name = family_name(op)
        if name == "select" and len(op.operands) == 2:
            value = op.operands[1]
        elif name == "elementwise_add" and len(op.operands) == 2:
            return any(_leads_to_product(v) for v in op.operands)
        elif _keeps_scores(op) or name in ("elementwise_mul", "elementwise_div", "transpose"):
            value = op.operands[0]
        else:
            return False
    return False


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
    target = tensor_type(values.value).element_type
    for rows in (q, k, values):
        value, factor = _unscaled(builder, rows.value) if rows is not values else (rows.value, 1.0)
        scale *= factor
        value, turned = _straight(builder, _widened(value, target), rows.turned)
        if prod(shape_of(value)[:-2]) != prod(scores.batch):
            return None
        operands.append(builder.reshape(value, (*scores.batch, *shape_of(value)[-2:])))
        marks.append(turned)
    if marks[0]:
        rank = len(shape_of(operands[0]))
        operands[0] = builder.transpose(operands[0], [*range(rank - 2), rank - 1, rank - 2])
    if len({tensor_type(v).element_type for v in operands}) != 1:
        return None
    queries = shape_of(operands[0])[-2]
    keys = shape_of(operands[1])[-1 if marks[1] else -2]
    width = shape_of(operands[2])[-2 if marks[2] else -1]
    attributes["scale"] = FloatAttr(scale, f32)
    for name, turned in (("transpose_k", marks[1]), ("transpose_v", marks[2])):
        if turned:
            attributes[name] = UnitAttr()
    group = _grouped(builder, operands, known)
    if group > 1:
        attributes["kv_group"] = IntegerAttr(group, i64)
    shape = (*scores.batch, queries, keys)
    if not _mask(builder, operands, attributes, scores, shape, known, exact_masked_rows):
        return None
    element = tensor_type(op.result).element_type
    result = TensorType(element, [*scores.batch, queries, width])
    suffix = (tensor_type(operands[0]).element_type, element)
    return builder.call("gemma_attention", operands, result, attributes, suffix)


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
            x = builder.transpose(x, integers_of(step, "permutation") or ())
    return x, float(number)


def _widened(value: SSAValue, target: Attribute) -> SSAValue:
    """A value before it was widened from `target`."""
    op = maker(value, "cast")
    if op is not None and reads_plainly(op) and is_float(op.operands[0]):
        if tensor_type(op.operands[0]).element_type == target != tensor_type(value).element_type:
            return op.operands[0]
    return value


def _straight(builder: BuilderBefore, value: SSAValue, turned: bool) -> tuple[SSAValue, bool]:
    """A turned operand the right way round when a transpose behind it can do that for nothing."""
    inner = maker(value, "transpose") if turned else None
    if inner is None:
        return value, turned
    order = list(integers_of(inner, "permutation") or ())
    order[-2:] = order[:-3:-1]
    return builder.transpose(inner.operands[0], order), False


def _grouped(builder: BuilderBefore, operands: list[SSAValue], known: KnownValues) -> int:
    """Replace repeated keys and values by what they repeat; returns query heads per head."""
    keys, values = (repeated_heads(v, known) for v in operands[1:3])
    if keys is None or values is None or keys.group != values.group:
        return 1
    operands[1], operands[2] = keys.build(builder), values.build(builder)
    return keys.group


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
    for mask in scores.masks:
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
