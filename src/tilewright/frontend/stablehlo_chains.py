"""Spellings of norms and activations that JAX has and the common chains do not.

Each rule changes the spelling, up to the last rounding, and only where the whole chain is known to be
a norm or an activation; the common chains then name it.

| written | read as |
|---|---|
| 0.5 * x * erfc(-x * c), in any order | gelu_erf(x) |
| the polynomials that portable artifacts have for erfc(x) | erfc(x) |
| x / sqrt(mean(x²) + ε) | x * rsqrt(mean(x²) + ε) |
| x * (1 / sqrt(mean(x²) + ε)) | x * rsqrt(mean(x²) + ε) |
| x * (rsqrt(v + ε) * w) | (x * rsqrt(v + ε)) * w |
| (x - mean(x)) * rsqrt(mean(x²) - mean(x)² + ε), also with max(0, …) | layer_norm(x) |
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.dialects.composites import ROOT_TWO
from tilewright.dialects.intents import IntentBuilder, Lane, shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.stablehlo import BY_NAME as OPERATIONS
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    FloatAttr,
    IntegerAttr,
    Operation,
    SSAValue,
    f32,
    i64,
)
from tilewright.transforms.linalg_to_kernel.chains.match import (
    Node,
    Read,
    Rewriter,
    family_name,
    make_node,
    node_of,
    stem,
)
from tilewright.transforms.linalg_to_kernel.chains.norms import _place, _row_reduction
from tilewright.transforms.linalg_to_kernel.emitter import Settings

TWO_BY_ROOT_PI = 2.0 / math.sqrt(math.pi)

Sources = dict[Operation, tuple[Operation, ...]]
Rule = Callable[[UKernelGenericOp, Rewriter], bool]


def spelled_as_chains(block: Block, sources: Sources, settings: Settings) -> bool:
    """Apply every rule where it fits; returns whether anything changed."""
    rewriter = Rewriter(sources, settings)
    changed = False
    for op in list(block.ops):
        if isinstance(op, UKernelGenericOp) and op not in rewriter.erased:
            for rule in RULES.get(family_name(op), ()):
                if rule(op, rewriter):
                    changed = True
                    break
    return changed


# ------------------------------------------------------------------------------------------- GELU


def gelu_by_erfc(op: UKernelGenericOp, rewriter: Rewriter) -> bool:
    """(0.5 * x) * erfc(v), x * (0.5 * erfc(v)) or 0.5 * (x * erfc(v)) with v = -x * c"""
    factors, inner = _product(make_node(op), depth=2)
    tails = [f for f in factors if isinstance(f, SSAValue) and _is_erfc(f)]
    numbers = [f for f in factors if not isinstance(f, SSAValue)]
    others = [f for f in factors if isinstance(f, SSAValue) and not _is_erfc(f)]
    if len(tails) != 1 or len(others) != 1 or numbers != [0.5]:
        return False
    tail = tails[0].owner
    assert isinstance(tail, Operation)
    argument = _negated_multiple(stem(tail.operands[0]), others[0])
    if argument is None:
        return False
    factor, steps = argument
    x = others[0]
    attributes: dict[str, Attribute] = {}
    if factor is not None:
        attributes["inner_scale"] = FloatAttr(factor, f32)
    # The steps before erfc may also be read elsewhere; then they stay.
    own = [*inner, tail]
    own += [step for step in steps if rewriter.private([step], tail) or step in own]
    return rewriter.replace(op, own, "gelu_erf", [x], attributes, x.type) is not None


def _is_erfc(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name == "chlo.erfc"


def _product(node: Node, depth: int) -> tuple[list[SSAValue | float], list[Operation]]:
    """The factors of nested products of whole tensors and literals, and the inner ops."""
    factors: list[SSAValue | float] = []
    inner: list[Operation] = []
    for name in ("scalar_lhs", "scalar_rhs"):
        number = node.number(name)
        if number is not None:
            factors.append(float(number))
    for read in node.reads:
        deeper = node_of(read.value, "elementwise_mul") if depth > 1 else None
        if not read.covers(node.shape):
            return [], []
        if deeper is not None:
            more, ops = _product(deeper, depth - 1)
            factors += more
            inner += [deeper.op, *ops]
        else:
            factors.append(read.value)
    return factors, inner


def _negated_multiple(value: SSAValue, x: SSAValue) -> tuple[float | None, list[Operation]] | None:
    """c and the steps, when a value is -x * c; c is None for -x / sqrt(2)."""
    steps: list[Operation] = []
    sign, factor, divided = 1.0, 1.0, False
    while value is not x:
        found = node_of(value, "elementwise_neg", "elementwise_mul", "elementwise_div")
        if found is None or len(found.reads) != 1 or not found.reads[0].covers(found.shape):
            return None
        if found.family == "elementwise_neg":
            sign = -sign
        else:
            number = found.number("scalar_rhs")
            if number is None and found.family == "elementwise_mul":
                number = found.number("scalar_lhs")
            if not number or divided or factor != 1.0:
                return None
            divided = found.family == "elementwise_div"
            factor = float(number)
        steps.append(found.op)
        value = found.reads[0].value
    factor *= sign
    if factor >= 0:
        return None
    if divided:
        near = abs(-factor - ROOT_TWO) < 1e-6
        return (None, steps) if near else None
    near = abs(-factor - 1.0 / ROOT_TWO) < 1e-3
    return (-factor, steps) if near else None


def erfc_in_pieces(op: UKernelGenericOp, rewriter: Rewriter) -> bool:
    """|v| < 1 ? 1 - v * P(v²) : (v < 0 ? 2 - t : t), with P(0) = 2 / sqrt(π), in f32"""
    root = make_node(op)
    if len(root.reads) != 3 or root.element != f32:
        return False
    near = _tested(root.reads[0], "lt", 1.0)
    size = node_of(near, "elementwise_abs") if near is not None else None
    if size is None:
        return False
    v = size.reads[0].value
    centre = node_of(root.reads[1].value, "elementwise_sub")
    bent = node_of(centre.reads[0].value, "elementwise_mul") if centre is not None else None
    if centre is None or bent is None or centre.number("scalar_lhs") != 1.0:
        return False
    others = [read.value for read in bent.reads if read.value is not v]
    series = node_of(others[0], "elementwise_add") if len(others) == 1 else None
    first = series.number("scalar_rhs") if series is not None else None
    if first is None or not math.isclose(first, TWO_BY_ROOT_PI, rel_tol=1e-6):
        return False
    tail = node_of(root.reads[2].value, "select")
    if tail is None or len(tail.reads) != 3 or _tested(tail.reads[0], "lt", 0.0) is not v:
        return False
    mirrored = node_of(tail.reads[1].value, "elementwise_sub")
    if mirrored is None or mirrored.number("scalar_lhs") != 2.0:
        return False
    if mirrored.reads[0].value is not tail.reads[2].value or shape_of(v) != root.shape:
        return False
    new = OPERATIONS["chlo.erfc"].create(operands=[v], result_types=[v.type])
    rewriter.insert(new, op)
    _replace(op, new.results[0], rewriter)
    return True


def _tested(read: Read, predicate: str, bound: float) -> SSAValue | None:
    """What a comparison with a number tests."""
    test = node_of(read.value, "compare")
    if test is None or len(test.reads) != 1 or test.number("scalar_rhs") != bound:
        return None
    found = test.op.attributes["predicate"].data  # type: ignore[attr-defined]
    return test.reads[0].value if found == predicate else None


# ------------------------------------------------------------------------------------------ norms


def _row_factor(value: SSAValue) -> tuple[Node, Node, float] | None:
    """The root, the sum under it and ε of rsqrt(v + ε), sqrt(v + ε) or 1 / sqrt(v + ε)."""
    root = node_of(value, "elementwise_rsqrt", "elementwise_sqrt")
    if root is None or len(root.reads) != 1 or not root.reads[0].covers(root.shape):
        return None
    total = node_of(root.reads[0].value, "elementwise_add")
    if total is None or len(total.reads) != 1:
        return None
    epsilon = total.number("scalar_rhs")
    epsilon = total.number("scalar_lhs") if epsilon is None else epsilon
    return None if epsilon is None else (root, total, float(epsilon))


def _is_mean_square(total: Node, x: SSAValue) -> bool:
    """Whether a sum is mean(x²) + ε."""
    average = node_of(total.reads[0].value, "reduction_mean")
    if average is None:
        return False
    squares = node_of(stem(average.op.operands[0]), "elementwise_square")
    return squares is not None and squares.reads[0].value is x


def division_by_root(op: UKernelGenericOp, rewriter: Rewriter) -> bool:
    """x / sqrt(mean(x²) + ε)"""
    root = make_node(op)
    if len(root.reads) != 2 or not root.reads[0].covers(root.shape):
        return False
    found = _row_factor(root.reads[1].value)
    if found is None or found[0].family != "elementwise_sqrt":
        return False
    if not _is_mean_square(found[1], root.reads[0].value):
        return False
    _multiplied(op, rewriter, root, root.reads[0], root.reads[1], found[0])
    return True


def reciprocal_root(op: UKernelGenericOp, rewriter: Rewriter) -> bool:
    """x * (1 / sqrt(mean(x²) + ε))"""
    root = make_node(op)
    for x, factor in root.either_way():
        turned = node_of(factor.value, "elementwise_recip")
        if turned is None or not x.covers(root.shape):
            continue
        found = _row_factor(turned.reads[0].value)
        if found is None or found[0].family != "elementwise_sqrt":
            continue
        if _is_mean_square(found[1], x.value):
            _multiplied(op, rewriter, root, x, factor, found[0])
            return True
    return False


def _multiplied(
    op: UKernelGenericOp, rewriter: Rewriter, root: Node, x: Read, factor: Read, square_root: Node
) -> None:
    """Put x * rsqrt(…) in the place of a division by a root."""
    builder = IntentBuilder()
    inverse = builder.unary("elementwise_rsqrt", square_root.op.operands[0])
    made = _times(builder, root, x, Read(inverse, factor.loops))
    for new in builder.ops:
        rewriter.insert(new, op)
    _replace(op, made, rewriter)


def _times(builder: IntentBuilder, root: Node, x: Read, factor: Read) -> SSAValue:
    lanes = [_lane(x), _lane(factor)]
    extents = dict(enumerate(root.shape))
    return builder.elementwise(
        "elementwise_mul", lanes, root.element, extents, None, range(len(root.shape))
    ).tensor


def _lane(read: Read) -> Lane:
    """A read with a loop for every dimension, those of size 1 read at 0."""
    loops = iter(read.loops)
    sizes = shape_of(read.value)
    return Lane(read.value, tuple(None if n == 1 else next(loops) for n in sizes))


def _replace(op: UKernelGenericOp, value: SSAValue, rewriter: Rewriter) -> None:
    value.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(value)
    _erase_unread(op, rewriter)


def _erase_unread(op: Operation, rewriter: Rewriter) -> None:
    """Erase an op nobody reads, and what only it read."""
    if any(result.uses for result in op.results) or op in rewriter.erased:
        return
    before = [v.owner for v in op.operands]
    rewriter.erased.add(op)
    op.detach()
    op.erase()
    for owner in before:
        if isinstance(owner, UKernelGenericOp):
            _erase_unread(owner, rewriter)


def weight_first(op: UKernelGenericOp, rewriter: Rewriter) -> bool:
    """x * (rsqrt(v + ε) * w)"""
    root = make_node(op)
    for x, factor in root.either_way():
        scaled = node_of(factor.value, "elementwise_mul")
        if scaled is None or not x.covers(root.shape) or len(list(scaled.result.uses)) != 1:
            continue
        for inverse, weight in scaled.either_way():
            found = _row_factor(inverse.value)
            if found is None or found[0].family != "elementwise_rsqrt":
                continue
            wide = [d for d, n in enumerate(scaled.shape) if n != 1]
            if len(wide) != len(factor.loops):
                continue
            to = dict(zip(wide, factor.loops, strict=True))
            reads = [Read(r.value, tuple(to[d] for d in r.loops)) for r in (inverse, weight)]
            # Of two factors that are both as large as the result, x is the one under the root:
            # without that the two would change places for ever.
            if reads[1].covers(root.shape) and not _is_mean_square(found[1], x.value):
                continue
            builder = IntentBuilder()
            first = _times(builder, root, x, reads[0])
            everything = tuple(d for d, n in enumerate(root.shape) if n != 1)
            made = _times(builder, root, Read(first, everything), reads[1])
            for new in builder.ops:
                rewriter.insert(new, op, [scaled.op])
            _replace(op, made, rewriter)
            return True
    return False


def one_pass_variance(op: UKernelGenericOp, rewriter: Rewriter) -> bool:
    """(x - mean(x)) * rsqrt(mean(x²) - mean(x)² + ε), in f32"""
    root = make_node(op)
    if root.element != f32:
        return False
    for centred, factor in root.either_way():
        found = _row_factor(factor.value)
        centre = node_of(centred.value, "elementwise_sub")
        if found is None or centre is None or len(centre.reads) != 2:
            continue
        x, average = centre.reads
        if not centred.covers(root.shape) or not x.covers(centre.shape):
            continue
        mean = _row_reduction(average, x.value, centre.shape, "reduction_mean")
        if mean is None or not _is_one_pass(found[1].reads[0].value, x.value, mean[0].result):
            continue
        if tensor_type(x.value).element_type != f32:
            continue
        axis = mean[1]
        if _place(x.value, axis) != _place(centred.value, axis):
            continue
        builder = IntentBuilder()
        attributes: dict[str, Attribute] = {
            "epsilon": FloatAttr(found[2], f32),
            "axis": IntegerAttr(axis, i64),
        }
        made: SSAValue = builder.call("layer_norm", [x.value], x.value.type, attributes)
        made = builder.reshape(made, root.shape)
        for new in builder.ops:
            rewriter.insert(new, op, [centre.op])
        _replace(op, made, rewriter)
        return True
    return False


def _is_one_pass(value: SSAValue, x: SSAValue, mean: SSAValue) -> bool:
    """Whether a value is mean(x²) - mean(x)², held at 0 from below or not."""
    bounded = node_of(value, "elementwise_max", "elementwise_relu")
    if bounded is not None:
        bound = bounded.number("scalar_lhs") if bounded.number("scalar_rhs") is None else 0.0
        if len(bounded.reads) != 1 or (
            bounded.family != "elementwise_relu" and bound not in (0, None)
        ):
            return False
        value = bounded.reads[0].value
    spread = node_of(value, "elementwise_sub")
    if spread is None or len(spread.reads) != 2:
        return False
    average = node_of(spread.reads[0].value, "reduction_mean")
    square = node_of(spread.reads[1].value, "elementwise_square")
    if average is None or square is None or stem(square.op.operands[0]) is not stem(mean):
        return False
    squares = node_of(stem(average.op.operands[0]), "elementwise_square")
    return squares is not None and squares.reads[0].value is x


RULES: dict[str, list[Rule]] = {
    "elementwise_mul": [gelu_by_erfc, reciprocal_root, weight_first, one_pass_variance],
    "elementwise_div": [division_by_root],
    "select": [erfc_in_pieces],
}
