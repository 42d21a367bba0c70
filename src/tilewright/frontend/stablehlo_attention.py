"""Finding attention between two dot products.

before: s = q · k;  s * scale;  where(mask, s, -1e9) or s + mask;  softmax;  · v
after:  npu_uk_gemma_attention q, k, v [, mask] {scale, causal, kv_group, mask_kind}

Dimensions are followed by label from one dot product to the other, whatever order JAX puts them in:
shared ones are batch and heads, the one summed over in the second product is the keys, those that
only the queries have are rows, or the heads of a group that share keys and values. Keys and values
repeated for grouped heads are read unrepeated. A query without any key gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Operation,
    SSAValue,
)
from tilewright.frontend.stablehlo_attention_intent import (
    NEVER,
    AttentionBuilder,
    Scores,
    operand_loops,
)
from tilewright.frontend.stablehlo_builder import HLOImporter
from tilewright.frontend.stablehlo_ops_products import Dot, dot_of, untransposed
from tilewright.transforms.linalg_to_kernel.chains.match import Node, family_name, make_node

Replace = Callable[[Callable[[], SSAValue]], None]


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
    maps = operand_loops(op)
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
    build = AttentionBuilder(importer, scores, batch, queries, rows, keys, sizes)
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
