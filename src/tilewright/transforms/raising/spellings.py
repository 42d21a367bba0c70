"""One spelling for what exporters write in several ways, so that few patterns are enough.

Each rule looks at one intent, the last of a short chain whose other values nobody else reads, and
gives the value that takes its place. Results agree within a few roundings.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.dialects.intents import literal, shape_of, tensor_type
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    has_one_user,
    integers_of,
    is_float,
    literal_operand,
    maker,
    operand_reads,
    reads_plainly,
)
from tilewright.transforms.raising.rotary import interleaved_whole

Spelling = Callable[[UKernelGenericOp], SSAValue | None]

_POWERS = {
    2: "elementwise_square", 3: "elementwise_cube", 0.5: "elementwise_sqrt",
    -0.5: "elementwise_rsqrt", -1: "elementwise_recip",
}  # fmt: skip


def _unary(op: UKernelGenericOp, family: str, x: SSAValue) -> SSAValue:
    return BuilderBefore(op).call(family, [x], op.result.type)


def _private(op: UKernelGenericOp | None) -> UKernelGenericOp | None:
    return op if op is not None and has_one_user(op) else None


def power(op: UKernelGenericOp) -> SSAValue | None:
    """x to the 2, 3, 1/2, -1/2, -1"""
    found = literal_operand(op)
    if found is None or found[2] or not is_float(op.result) or not reads_plainly(op):
        return None
    family = _POWERS.get(found[1])
    return None if family is None else _unary(op, family, found[0])


def product(op: UKernelGenericOp) -> SSAValue | None:
    """x * x, and x² * x"""
    if len(op.operands) != 2 or not (reads_plainly(op, 0) and reads_plainly(op, 1)):
        return None
    left, right = op.operands
    if left is right:
        return _unary(op, "elementwise_square", left)
    for square, x in ((left, right), (right, left)):
        inner = _private(maker(square, "elementwise_square"))
        if inner is not None and inner.operands[0] is x and reads_plainly(inner):
            return _unary(op, "elementwise_cube", x)
    return None


def inverse_root(op: UKernelGenericOp) -> SSAValue | None:
    """1 / sqrt(x), and sqrt(1 / x)"""
    x = op.operands[0]
    if family_name(op) == "elementwise_div":
        found = literal_operand(op)
        if found is None or found[1] != 1 or not found[2] or not is_float(op.result):
            return None
    if len(op.operands) != 1 or not reads_plainly(op):
        return None
    other = "elementwise_recip" if family_name(op) == "elementwise_sqrt" else "elementwise_sqrt"
    inner = _private(maker(x, other))
    if inner is None or not reads_plainly(inner):
        return None
    return _unary(op, "elementwise_rsqrt", inner.operands[0])


def _is_deviation(value: SSAValue) -> bool:
    """Whether a value is a mean plus a small number, as under the root of a norm."""
    shifted = maker(value, "elementwise_add")
    found = literal_operand(shifted) if shifted is not None else None
    while found is not None:
        inner = found[0].owner
        if not isinstance(inner, UKernelGenericOp):
            return False
        name = family_name(inner)
        if name == "reduction_mean" or (name == "elementwise_sub" and len(inner.operands) == 2):
            return True
        if name in ("reshape", "cast"):
            found = (inner.operands[0], 0, False)
        elif name in ("elementwise_max", "elementwise_relu"):
            found = literal_operand(inner) or (inner.operands[0], 0, False)
        else:
            return False
    return False


def divided_by_root(op: UKernelGenericOp) -> SSAValue | None:
    """x / sqrt(mean + ε), one root per row, as x * rsqrt(mean + ε)"""
    if len(op.operands) != 2 or not reads_plainly(op, 0):
        return None
    root = op.operands[1]
    between: list[UKernelGenericOp] = []
    while (step := _private(maker(root, "reshape"))) is not None:
        between.append(step)
        root = step.operands[0]
    inner = _private(maker(root, "elementwise_sqrt"))
    if inner is None or not _is_deviation(inner.operands[0]):
        return None
    builder = BuilderBefore(op)
    inverse: SSAValue = builder.call("elementwise_rsqrt", inner.operands, inner.result.type)
    for step in reversed(between):
        inverse = builder.reshape(inverse, shape_of(step.result))
    attributes = dict(op.attributes)
    return builder.call("elementwise_mul", [op.operands[0], inverse], op.result.type, attributes)


def factor_of_norm(op: UKernelGenericOp) -> SSAValue | None:
    """d * (rsqrt(..) * weight) as (d * rsqrt(..)) * weight"""
    if len(op.operands) != 2:
        return None
    for index, operand in enumerate(op.operands):
        factor = _private(maker(operand, "elementwise_mul"))
        if factor is None or len(factor.operands) != 2 or not reads_plainly(op, 1 - index):
            continue
        outer = operand_reads(op)[index]
        for place, part in enumerate(factor.operands):
            inverse = maker(_before_reshapes(part), "elementwise_rsqrt")
            if inverse is None or not _is_deviation(inverse.operands[0]):
                continue
            weight = factor.operands[1 - place]
            reads = [
                tuple(None if d is None else outer[d] for d in operand_reads(factor)[i])
                for i in (place, 1 - place)
            ]
            centred = op.operands[1 - index]
            plain = tuple(range(len(shape_of(op.result))))
            if reads[1] == plain and shape_of(weight) == shape_of(op.result):
                continue  # no vector of weights
            builder = BuilderBefore(op)
            scaled = _mapped(builder, op, (centred, part), (plain, reads[0]))
            return _mapped(builder, op, (scaled, weight), (plain, reads[1]))
    return None


def _before_reshapes(value: SSAValue, private: bool = False) -> SSAValue:
    """The value before reshapes, as far as nobody else reads them if they must be private."""
    while (step := maker(value, "reshape")) is not None and not (
        private and not has_one_user(step)
    ):
        value = step.operands[0]
    return value


def _mapped(builder: BuilderBefore, op: UKernelGenericOp, operands, reads) -> SSAValue:
    from tilewright.dialects.intents import map_attribute
    from tilewright.dialects.xdsl_api import ArrayAttr

    rank = len(shape_of(op.result))
    maps = ArrayAttr([map_attribute(rank, read) for read in reads])
    return builder.call("elementwise_mul", operands, op.result.type, {"operand_maps": maps})


def mean(op: UKernelGenericOp) -> SSAValue | None:
    """sum * (1 / count), whatever the count, and sum / count"""
    found = literal_operand(op)
    if found is None or not is_float(op.result) or not reads_plainly(op):
        return None
    x, number, left = found
    total = maker(x, "reduction_sum")
    if total is None or not has_one_user(total) or len(total.operands) != 1:
        return None
    if family_name(op) == "elementwise_div":
        if left:
            return None
        number = 1 / number if number else 0.0
    count = math.prod(shape_of(total.operands[0])[a] for a in integers_of(total, "axes"))
    if not math.isclose(number * count, 1.0, rel_tol=1e-6):
        return None
    attributes = dict(total.attributes)
    return BuilderBefore(op).call("reduction_mean", total.operands, total.result.type, attributes)


def variance(op: UKernelGenericOp) -> SSAValue | None:
    """mean(x²) - mean(x)², kept at or above 0 or not, as mean((x - mean(x))²)

    Only under the root of a norm that subtracts the same mean, where the two are used for the same.
    """
    clipped = family_name(op) in ("elementwise_max", "elementwise_relu")
    if clipped:
        if family_name(op) == "elementwise_max":
            found = literal_operand(op)
            if found is None or found[1] != 0:
                return None
        difference = _private(maker(op.operands[0], "elementwise_sub"))
    else:
        difference = op
    if difference is None or len(difference.operands) != 2 or not reads_plainly(difference, 1):
        return None
    if not clipped and any(
        family_name(use.operation) in ("elementwise_max", "elementwise_relu")
        for use in op.result.uses
    ):
        return None  # the clipped form is looked at instead
    squares = _private(maker(_before_reshapes(difference.operands[0], True), "reduction_mean"))
    squared = _private(maker(_before_reshapes(difference.operands[1], True), "elementwise_square"))
    if squares is None or squared is None or not reads_plainly(squared):
        return None
    square = _private(maker(squares.operands[0], "elementwise_square"))
    average = maker(_before_reshapes(squared.operands[0]), "reduction_mean")
    if square is None or average is None or not reads_plainly(square):
        return None
    x = square.operands[0]
    axes = integers_of(squares, "axes")
    if average.operands[0] is not x or integers_of(average, "axes") != axes or len(axes) != 1:
        return None
    if average.result.type != squares.result.type:
        return None
    centred = _centred(average, x)
    if centred is None:
        return None
    builder = BuilderBefore(op)
    if not _comes_before(centred, op):
        return None
    again = builder.call("elementwise_square", [centred.result], x.type)
    spread = builder.call("reduction_mean", [again], squares.result.type, dict(squares.attributes))
    return builder.reshape(spread, shape_of(op.result))


def _centred(average: UKernelGenericOp, x: SSAValue) -> UKernelGenericOp | None:
    """The x - mean(x) that the norm itself uses; moved to where its operands are known."""
    for use in x.uses:
        found = use.operation
        if not isinstance(found, UKernelGenericOp) or family_name(found) != "elementwise_sub":
            continue
        if len(found.operands) != 2 or found.operands[0] is not x or not reads_plainly(found):
            continue
        if _before_reshapes(found.operands[1]) is average.result:
            return found
    return None


def _comes_before(first: UKernelGenericOp, second: UKernelGenericOp) -> bool:
    """Make sure that one op stands before another, moving it with its reshapes if need be."""
    block = second.parent
    if block is None or first.parent is not block:
        return False
    order = {op: place for place, op in enumerate(block.ops)}
    if order[first] < order[second]:
        return True
    moving = [first]
    for operand in first.operands:
        while (step := maker(operand, "reshape")) is not None and order[step] > order[second]:
            moving.append(step)
            operand = step.operands[0]
        owner = operand.owner
        if isinstance(owner, UKernelGenericOp) and order.get(owner, -1) > order[second]:
            return False
    for op in reversed(moving):
        op.detach()
        block.insert_op_before(op, second)
    return True


def logistic(op: UKernelGenericOp) -> SSAValue | None:
    """x / (1 + exp(-x)) as x * sigmoid(x)"""
    if len(op.operands) != 2 or not (reads_plainly(op, 0) and reads_plainly(op, 1)):
        return None
    x, total = op.operands[0], _private(maker(op.operands[1], "elementwise_add"))
    found = literal_operand(total) if total is not None else None
    if found is None or found[1] != 1:
        return None
    power_ = _private(maker(found[0], "elementwise_exp"))
    negated = _private(maker(power_.operands[0], "elementwise_neg")) if power_ is not None else None
    if negated is None or negated.operands[0] is not x or not reads_plainly(negated):
        return None
    builder = BuilderBefore(op)
    gate = builder.call("elementwise_sigmoid", [x], op.result.type)
    return builder.call("elementwise_mul", [x, gate], op.result.type)


def halved_last(op: UKernelGenericOp) -> SSAValue | None:
    """(x * (1 + t)) / 2 as x * ((1 + t) / 2), where t is tanh or erf"""
    found = literal_operand(op)
    if found is None or not reads_plainly(op):
        return None
    x, number, left = found
    if family_name(op) == "elementwise_div":
        number = 1 / number if number and not left else 0
    product_ = _private(maker(x, "elementwise_mul"))
    if number != 0.5 or product_ is None or len(product_.operands) != 2:
        return None
    if not (reads_plainly(product_, 0) and reads_plainly(product_, 1)):
        return None
    for index, operand in enumerate(product_.operands):
        plus = _private(maker(operand, "elementwise_add"))
        one = literal_operand(plus) if plus is not None else None
        if (
            one is None
            or one[1] != 1
            or maker(one[0], "elementwise_tanh", "elementwise_erf") is None
        ):
            continue
        builder = BuilderBefore(op)
        half = literal(0.5, tensor_type(op.result).element_type).value
        halved = builder.call("elementwise_mul", [operand], op.result.type, {"scalar_rhs": half})
        other = product_.operands[1 - index]
        return builder.call("elementwise_mul", [other, halved], op.result.type)
    return None


def times_inverse(op: UKernelGenericOp) -> SSAValue | None:
    """e * (1 / sum e) as e / sum e"""
    if len(op.operands) != 2:
        return None
    for index, operand in enumerate(op.operands):
        inverse = _private(maker(operand, "elementwise_recip"))
        power_ = maker(op.operands[1 - index], "elementwise_exp")
        if inverse is None or power_ is None or not reads_plainly(inverse):
            continue
        if maker(_before_reshapes(inverse.operands[0]), "reduction_sum") is None:
            continue
        attributes = dict(op.attributes)
        maps = attributes.get("operand_maps")
        order = (1 - index, index)
        if maps is not None:
            attributes["operand_maps"] = type(maps)([maps.data[i] for i in order])  # type: ignore
        operands = [power_.result, inverse.operands[0]]
        return BuilderBefore(op).call("elementwise_div", operands, op.result.type, attributes)
    return None


def narrowed_product(op: UKernelGenericOp) -> SSAValue | None:
    """A product or attention whose result is only narrowed, with a narrow result"""
    inner = op.operands[0].owner
    if not isinstance(inner, MatmulOp | UKernelGenericOp) or not has_one_user(inner):
        return None
    first, narrow, wide = (
        str(tensor_type(v).element_type) for v in (inner.operands[0], op.result, op.operands[0])
    )
    if not reads_plainly(op) or (first, wide) != (narrow, "f32") or narrow not in ("bf16", "f16"):
        return None
    if isinstance(inner, MatmulOp):
        if inner.init is not None:
            return None
        marks = inner.transposes()
        new = MatmulOp(inner.lhs, inner.rhs, op.result.type, None, *marks, dict(inner.attributes))
        return BuilderBefore(op).add(new)
    if family_name(inner) != "gemma_attention":
        return None
    element = tensor_type(op.result).element_type
    return BuilderBefore(op).call(
        "gemma_attention",
        inner.operands,
        op.result.type,
        dict(inner.attributes),
        (element, element),
    )


def added_negative(op: UKernelGenericOp) -> SSAValue | None:
    """x + (-y) as x - y; also where the sign is on one factor of y"""
    if len(op.operands) != 2 or not (reads_plainly(op, 0) and reads_plainly(op, 1)):
        return None
    for index, operand in enumerate(op.operands):
        other = op.operands[1 - index]
        negated = _private(maker(operand, "elementwise_neg"))
        builder = BuilderBefore(op)
        if negated is not None and reads_plainly(negated):
            operands = [other, negated.operands[0]]
            return builder.call("elementwise_sub", operands, op.result.type)
        times = _private(maker(operand, "elementwise_mul"))
        if times is None or len(times.operands) != 2:
            continue
        for place, part in enumerate(times.operands):
            sign = maker(part, "elementwise_neg")
            if sign is None or not reads_plainly(sign):
                continue
            factors = list(times.operands)
            factors[place] = sign.operands[0]
            positive = builder.call(
                "elementwise_mul", factors, times.result.type, dict(times.attributes)
            )
            return builder.call("elementwise_sub", [other, positive], op.result.type)
    return None


SPELLINGS: dict[str, list[Spelling]] = {
    "cast": [narrowed_product],
    "elementwise_pow": [power],
    "elementwise_mul": [product, mean, factor_of_norm, halved_last, times_inverse],
    "elementwise_div": [inverse_root, mean, divided_by_root, logistic, halved_last],
    "elementwise_recip": [inverse_root],
    "elementwise_sqrt": [inverse_root],
    "elementwise_add": [interleaved_whole, added_negative],
    "elementwise_sub": [variance],
    "elementwise_max": [variance],
    "elementwise_relu": [variance],
}
