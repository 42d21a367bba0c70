"""Reading spelled-out attention backwards: the softmax behind a product, the scores behind that."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from tilewright.dialects.intents import shape_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    IntegerAttr,
    Operation,
    SSAValue,
    StringAttr,
)
from tilewright.transforms.kernel_rewriting import (
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
)
from tilewright.transforms.raising.masks import (
    NEVER_SEEN,
    Mask,
)


@dataclass
class Scores:
    """What happens between the first product and the softmax, read from the softmax backwards."""

    batch: tuple[int, ...]
    queries: int
    scale: float = 1.0
    masks: list[Mask] = field(default_factory=list)
    hides_rows: bool = False  # a row without visible keys gets a mean, not 0
    product: MatmulOp | None = None
    swapped: bool = False  # the product is keys by queries


@dataclass(frozen=True)
class Weights:
    """The softmax behind a product, and the step that gives 0 to rows without visible keys."""

    softmax: UKernelGenericOp
    guard: UKernelGenericOp | None = None


def _keeps_scores(op: UKernelGenericOp) -> bool:
    """Whether an op only changes how rows and batches are counted, or the float type."""
    if family_name(op) == "reshape":
        return shape_of(op.operands[0])[-1:] == shape_of(op.result)[-1:]
    return family_name(op) == "cast" and reads_plainly(op) and is_float(op.operands[0])


def weights_behind(value: SSAValue) -> Weights | None:
    """The softmax along keys behind the weights of a product."""
    guard: UKernelGenericOp | None = None
    while isinstance(value.owner, UKernelGenericOp) and has_one_user(value.owner):
        op = value.owner
        if family_name(op) == "softmax":
            return Weights(op, guard) if _along_keys(op) else None
        if family_name(op) == "select" and guard is None:
            if number_of(op, "scalar_a") != 0 or len(op.operands) != 2 or not reads_plainly(op, 1):
                return None
            guard, value = op, op.operands[1]
            test = _nan_test(op.operands[0], value)
            if test is not None and _only_read_by(value, (op, test)):
                softmax = maker(value, "softmax")
                return (
                    Weights(softmax, guard)
                    if softmax is not None and _along_keys(softmax)
                    else None
                )
        elif _keeps_scores(op):
            value = op.operands[0]
        else:
            return None
    return None


def _along_keys(softmax: UKernelGenericOp) -> bool:
    rank, axis = len(shape_of(softmax.result)), softmax.attributes.get("axis")
    along = axis.value.data % rank if isinstance(axis, IntegerAttr) else rank - 1
    return rank >= 2 and along == rank - 1


def _nan_test(condition: SSAValue, value: SSAValue) -> UKernelGenericOp | None:
    """The comparison by which a value is found to be NaN."""
    test = maker(condition, "compare")
    if test is None or list(test.operands) != [value, value]:
        return None
    predicate = test.attributes.get("predicate")
    plain = reads_plainly(test, 0) and reads_plainly(test, 1)
    return test if plain and isinstance(predicate, StringAttr) and predicate.data == "uno" else None


def _only_read_by(value: SSAValue, users: tuple[UKernelGenericOp, ...]) -> bool:
    return {use.operation for use in value.uses} == set(users)


def guards_rows(weights: Weights, scores: Scores) -> bool:
    """Whether a choice of 0 is made exactly for rows whose mask, or score, is -inf everywhere.

    before: select(reduction_max(mask) == -inf, 0, softmax(scores + mask)), or
            select(isnan(p), 0, p) of p = softmax(scores + mask), which such rows make NaN
    """
    guard = weights.guard
    assert guard is not None
    if _nan_test(guard.operands[0], weights.softmax.result) is not None:
        return True
    test = maker(guard.operands[0], "compare")
    found = literal_operand(test) if test is not None else None
    if test is None or found is None or found[1] != -inf or not reads_plainly(test):
        return False
    predicate = test.attributes.get("predicate")
    highest = maker(found[0], "reduction_max")
    if not isinstance(predicate, StringAttr) or predicate.data not in ("eq", "le"):
        return False
    if highest is None or len(highest.operands) != 1:
        return False
    source = highest.operands[0]
    if integers_of(highest, "axes") != (len(shape_of(source)) - 1,):
        return False
    read = operand_reads(guard)[0]
    rows = read[:-1] if "keepdims" in highest.attributes else read
    if source is weights.softmax.operands[0]:
        return rows == tuple(range(len(shape_of(source)) - 1))
    same = [m for m in scores.masks if m.value is source and m.kind == "additive"]
    return len(scores.masks) == 1 and bool(same) and same[0].read[:-1] == rows


def scores_behind(softmax: UKernelGenericOp) -> Scores | None:
    """Scale, masks and product behind a softmax; None when anything else is in between."""
    value = softmax.operands[0]
    *batch, queries, _ = shape_of(value)
    found = Scores(tuple(batch), queries)
    while isinstance(value.owner, Operation) and has_one_user(value.owner):
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
    *batch, queries, _ = shape_of(op.result)
    if found.masks and (found.batch, found.queries) != (tuple(batch), queries):
        return False
    found.batch, found.queries = tuple(batch), queries
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
