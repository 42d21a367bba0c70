"""sigmoid, relu, clamp, silu, silu_gate, gelu (tanh and erf)."""

from __future__ import annotations

import math

from tilewright.dialects.composites import GELU_CUBIC, GELU_INNER, ROOT_TWO
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import AnyFloat, Attribute, FloatAttr, SSAValue, f32
from tilewright.transforms.linalg_to_kernel.chains.match import (
    Node,
    Recogniser,
    Rewriter,
    make_node,
    node_of,
    rounded,
)

# torch-mlir rounds sqrt(2 / pi) to 0.797724 in its tanh GELU; any factor this close is a GELU, and
# the exact one is kept as an attribute.
INNER_TOLERANCE = 1e-3


def recip(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """1 / x"""
    root = make_node(op)
    if root.number("scalar_lhs") != 1 or not _plain(root):
        return None
    x = root.reads[0].value
    if not isinstance(root.element, AnyFloat):
        return None
    return rewriter.replace(op, [], "elementwise_recip", [x], None, x.type)


def sigmoid(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """1 / (exp(-x) + 1)"""
    root = make_node(op)
    if not isinstance(root.element, AnyFloat) or not _plain(root):
        return None
    total = node_of(root.reads[0].value, "elementwise_add")
    if total is None or (read := total.scalar(1.0)) is None or not read.covers(total.shape):
        return None
    power = node_of(read.value, "elementwise_exp")
    if power is None or not _plain(power):
        return None
    negated = node_of(power.reads[0].value, "elementwise_neg")
    if negated is None or not _plain(negated):
        return None
    inner = [total.op, power.op, negated.op]
    x = negated.reads[0].value
    return rewriter.replace(op, inner, "elementwise_sigmoid", [x], None, x.type)


def _plain(node: Node) -> bool:
    """Whether an intent with one operand reads it element by element."""
    return len(node.reads) == 1 and node.reads[0].covers(node.shape)


def silu(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """x * sigmoid(x)"""
    root = make_node(op)
    for x, gate in root.either_way():
        found = node_of(gate.value, "elementwise_sigmoid")
        if found is None or not _plain(found) or found.reads[0].value is not x.value:
            continue
        if x.covers(root.shape) and gate.covers(root.shape):
            return rewriter.replace(op, [found.op], "silu", [x.value], None, x.value.type)
    return None


def silu_gate(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """silu(gate) * up; unit dimensions between the two do not matter"""
    root = make_node(op)
    for gate, up in root.either_way():
        found = node_of(gate.value, "silu")
        if found is None or not gate.covers(root.shape) or not up.covers(root.shape):
            continue
        operands = [rewriter.helper(op, v, root.shape) for v in (found.reads[0].value, up.value)]
        return rewriter.replace(op, [found.op], "silu_gate", operands)
    return None


def _halved(root: Node) -> tuple[SSAValue, Node, list[UKernelGenericOp]] | None:
    """x and t of x * (0.5 * (1 + t)) or (0.5 * x) * (1 + t), which are equal.

    Halving loses a bit of a tiny x only, for which 1 + t is 1. Halving last is another thing: the
    product may overflow first.
    """
    for first, second in root.either_way():
        if not first.covers(root.shape) or not second.covers(root.shape):
            continue
        half = node_of(second.value, "elementwise_mul")
        if half is not None and (read := half.scalar(0.5)) is not None:
            plus = node_of(read.value, "elementwise_add")
            if plus is not None and (inner := plus.scalar(1.0)) is not None:
                return first.value, _owner(inner.value), [half.op, plus.op]
            other = node_of(first.value, "elementwise_add")
            if other is not None and (inner := other.scalar(1.0)) is not None:
                return read.value, _owner(inner.value), [half.op, other.op]
    return None


def _owner(value: SSAValue) -> Node:
    found = node_of(value)
    return found if found is not None else _NOTHING


_NOTHING = Node(None, "", ())  # type: ignore[arg-type]


def gelu(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """x * 0.5 * (1 + tanh(c * (x + 0.044715 x³))), and x * 0.5 * (1 + erf(x / sqrt 2))"""
    root = make_node(op)
    found = _halved(root)
    if found is None:
        return None
    x, bend, inner = found
    if bend.family == "elementwise_tanh" and _plain(bend):
        return _gelu_tanh(op, rewriter, x, [*inner, bend.op], bend)
    if bend.family == "elementwise_erf" and _plain(bend):
        return _gelu_erf(op, rewriter, x, [*inner, bend.op], bend)
    return None


def _gelu_tanh(
    op: UKernelGenericOp,
    rewriter: Rewriter,
    x: SSAValue,
    inner: list[UKernelGenericOp],
    bend: Node,
) -> UKernelGenericOp | None:
    element = bend.element
    scaled = node_of(bend.reads[0].value, "elementwise_mul")
    if scaled is None or len(scaled.reads) != 1:
        return None
    factor = scaled.number("scalar_lhs") or scaled.number("scalar_rhs")
    if factor is None or not math.isclose(factor, GELU_INNER, rel_tol=INNER_TOLERANCE):
        return None
    total = node_of(scaled.reads[0].value, "elementwise_add")
    if total is None:
        return None
    for first, second in total.either_way():
        cubic = node_of(second.value, "elementwise_mul")
        if first.value is not x or cubic is None:
            continue
        read = cubic.scalar(GELU_CUBIC)
        cube = node_of(read.value, "elementwise_cube") if read else None
        if cube is None or cube.reads[0].value is not x or not _plain(cube):
            continue
        attributes: dict[str, Attribute] = {}
        if factor != rounded(GELU_INNER, element):
            attributes["inner_scale"] = FloatAttr(factor, f32)
        chain = [*inner, scaled.op, total.op, cubic.op, cube.op]
        return rewriter.replace(op, chain, "gelu_tanh", [x], attributes, x.type)
    return None


def _gelu_erf(
    op: UKernelGenericOp,
    rewriter: Rewriter,
    x: SSAValue,
    inner: list[UKernelGenericOp],
    bend: Node,
) -> UKernelGenericOp | None:
    scaled = node_of(bend.reads[0].value, "elementwise_mul", "elementwise_div")
    if scaled is None or not _plain(scaled) or scaled.reads[0].value is not x:
        return None
    attributes: dict[str, Attribute] = {}
    if scaled.family == "elementwise_div":
        if scaled.number("scalar_rhs") != rounded(ROOT_TWO, scaled.element):
            return None
    elif scaled.scalar(1.0 / ROOT_TWO) is None:
        return None
    else:
        factor = rounded(1.0 / ROOT_TWO, scaled.element)
        attributes["inner_scale"] = FloatAttr(factor, f32)
    return rewriter.replace(op, [*inner, scaled.op], "gelu_erf", [x], attributes, x.type)


def clamp(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """min(max(x, low), high) or max(min(x, high), low), both literals and low not above high"""
    root = make_node(op)
    if not isinstance(root.element, AnyFloat) or not _plain(root):
        return None
    outer_is_min = root.family == "elementwise_min"
    families = ("elementwise_max", "elementwise_relu") if outer_is_min else ("elementwise_min",)
    inner = node_of(root.reads[0].value, *families)
    if inner is None or not _plain(inner):
        return None
    bounds = [_bound(node) for node in ((inner, root) if outer_is_min else (root, inner))]
    low, high = bounds
    if low is None or high is None or not low.value.data <= high.value.data:
        return None
    x = inner.reads[0].value
    return rewriter.replace(op, [inner.op], "clamp", [x], {"min": low, "max": high}, x.type)


def _bound(node: Node) -> FloatAttr | None:
    """The literal an element is compared with."""
    if node.family == "elementwise_relu":
        return FloatAttr(0.0, node.element)  # type: ignore[arg-type]
    for name in ("scalar_rhs", "scalar_lhs"):
        value = node.op.attributes.get(name)
        if isinstance(value, FloatAttr):
            return value
    return None


def chosen_bound(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """Bounds by comparison: select(x > 0, x, 0) is relu where NaN stays NaN.

    select(x < c, c, x) and select(x > c, c, x) are max and min. Written with unordered comparisons
    they turn NaN into the bound; those count as equal only with ignore-nan.
    """
    root = make_node(op)
    test = node_of(root.reads[0].value, "compare") if root.reads else None
    if test is None or len(test.reads) != 1 or len(root.reads) != 2:
        return None
    if not isinstance(root.element, AnyFloat) or test.op.attributes.get("scalar_lhs") is not None:
        return None
    x = root.reads[1]
    bound = test.op.attributes.get("scalar_rhs")
    kept = "scalar_b" in op.attributes  # the element is kept where the test holds
    literal = op.attributes.get("scalar_b" if kept else "scalar_a")
    if bound is None or literal != bound or test.reads[0].value is not x.value:
        return None
    if not x.covers(root.shape) or not test.reads[0].covers(test.shape):
        return None
    predicate = test.op.attributes["predicate"].data  # type: ignore[attr-defined]
    unordered, side = predicate.startswith("u"), predicate.removeprefix("u")[:1]
    if side not in ("l", "g") or predicate in ("ueq",):
        return None
    # NaN goes to the element when it is kept by an unordered test or not replaced by an ordered one.
    keeps_nan = unordered == kept
    number = bound.value.data  # type: ignore[attr-defined]
    if not (keeps_nan or rewriter.settings.ignore_nan):
        return None
    if number == 0 and math.copysign(1.0, number) < 0:
        return None
    is_max = (side == "g") == kept
    if is_max and number == 0:
        return rewriter.replace(op, [test.op], "elementwise_relu", [x.value], None, x.value.type)
    if number == 0:
        return None
    family = "elementwise_max" if is_max else "elementwise_min"
    return rewriter.replace(op, [test.op], family, [x.value], {"scalar_rhs": bound}, x.value.type)


RECOGNISERS: dict[str, list[Recogniser]] = {
    "elementwise_div": [recip],
    "elementwise_recip": [sigmoid],
    "elementwise_mul": [silu, silu_gate, gelu],
    "elementwise_min": [clamp],
    "elementwise_max": [clamp],
    "select": [chosen_bound],
}
