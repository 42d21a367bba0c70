"""requant and dequant, with MX blocks and their scales."""

from __future__ import annotations

import math

from tilewright.dialects.intents import map_attribute, shape_of, tensor_type, text
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    ArrayAttr,
    Attribute,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    SSAValue,
    TensorType,
    f8E4M3FN,
    f32,
    i8,
    i64,
)
from tilewright.transforms.linalg_to_kernel.chains.match import (
    Node,
    Read,
    Recogniser,
    Rewriter,
    make_node,
    node_of,
    stem,
)
from tilewright.transforms.linalg_to_kernel.scalar_ops import PENDING

SMALLEST_NORMAL = 2.0**-126
F8_LIMIT = 448.0


def requant(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """cast to f8 of [clamp ±448 of] [x / scale]; to i8 of clamp(round(x / scale), -128, 127)"""
    root = make_node(op)
    if not root.reads[0].covers(root.shape):
        return None
    source = root.reads[0].value
    if not isinstance(tensor_type(source).element_type, AnyFloat):
        return None
    inner: list[Operation] = []
    if root.element == f8E4M3FN:
        clamped = node_of(source, "clamp")
        if clamped is not None and _bounds(clamped) == (-F8_LIMIT, F8_LIMIT):
            inner.append(clamped.op)
            source = stem(clamped.op.operands[0])
    elif root.element == i8:
        clamped = node_of(source, "clamp")
        if clamped is None or _bounds(clamped) != (-128.0, 127.0):
            return None
        nearest = node_of(stem(clamped.op.operands[0]), "elementwise_round")
        if nearest is None:
            return None
        inner += [clamped.op, nearest.op]
        source = nearest.reads[0].value
    else:
        return None
    x, scale, attributes, division = _divided(source, root)
    operands = [x] if scale is None else [x, scale]
    if division is not None:
        # A quotient that others read too is kept, and requantised as it is.
        new = rewriter.replace(op, [*inner, division], "requant", operands, attributes)
        if new is not None:
            return new
    result = TensorType(root.element, shape_of(source))
    return rewriter.replace(op, inner, "requant", [source], None, result)


def _bounds(node: Node) -> tuple[float | None, float | None]:
    return node.number("min"), node.number("max")


def _divided(
    value: SSAValue, root: Node
) -> tuple[SSAValue, SSAValue | None, dict[str, Attribute], Operation | None]:
    """x, the scale operand, attributes and the op of x / scale; scale may be a literal."""
    nothing = (value, None, {}, None)
    found = node_of(value, "elementwise_div", "elementwise_mul")
    if found is None or found.shape != root.shape or not found.reads[0].covers(root.shape):
        return nothing
    if shape_of(found.reads[0].value) != root.shape:
        return nothing
    if len(found.reads) == 1:
        number = found.number("scalar_rhs")
        if found.family == "elementwise_mul":
            number = found.number("scalar_lhs") if number is None else number
            # Multiplying is dividing only when the reciprocal is exact.
            if number is None or number == 0 or abs(math.frexp(number)[0]) != 0.5:
                return nothing
            number = 1.0 / number
        if number is None:
            return nothing
        return found.reads[0].value, None, {"scale": FloatAttr(number, f32)}, found.op
    if found.family == "elementwise_mul":
        return nothing
    x, scale = found.reads
    return x.value, scale.value, _scale_maps(x, scale, root.shape), found.op


def _scale_maps(x: Read, scale: Read, shape: tuple[int, ...]) -> dict[str, Attribute]:
    """operand_maps for x and its scale, unless the scale has x's shape."""
    sizes = shape_of(scale.value)
    if sizes == shape:
        return {}
    loops = iter(scale.loops)
    reads = [None if n == 1 else next(loops) for n in sizes]
    rank = len(shape)
    maps = [map_attribute(rank, range(rank)), map_attribute(rank, reads)]
    return {"operand_maps": ArrayAttr(maps)}


def dequant(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """(x in a float type) * scale, for x of f8 or i8"""
    root = make_node(op)
    if not isinstance(root.element, AnyFloat):
        return None
    candidates: list[tuple[Read, Read | None]] = [(root.reads[0], None)]
    if len(root.reads) == 2:
        candidates = list(root.either_way())
    for wide, scale in candidates:
        found = node_of(wide.value, "cast")
        if found is None or not found.reads[0].covers(found.shape) or not wide.covers(root.shape):
            continue
        x = rewriter.helper(op, found.reads[0].value, root.shape)
        if not _is_quantised(tensor_type(x).element_type) or shape_of(x) != root.shape:
            continue
        inner: list[Operation] = [found.op]
        if scale is None:
            number = root.number("scalar_rhs")
            number = root.number("scalar_lhs") if number is None else number
            if number is None:
                return None
            attributes: dict[str, Attribute] = {"scale": FloatAttr(number, f32)}
            return rewriter.replace(op, inner, "dequant", [x], attributes)
        encoded = decode_e8m0(scale.value)
        attributes = _scale_maps(Read(x, wide.loops), scale, root.shape)
        if encoded is not None and shape_of(encoded[0]) == shape_of(scale.value):
            attributes["scale_encoding"] = text("e8m0")
            new = rewriter.replace(
                op, [*inner, *encoded[1]], "dequant", [x, encoded[0]], attributes
            )
            if new is not None:
                return new
            shared = dict(attributes)
            return rewriter.replace(op, inner, "dequant", [x, encoded[0]], shared)
        return rewriter.replace(op, inner, "dequant", [x, scale.value], attributes)
    return None


def _is_quantised(element: Attribute) -> bool:
    if isinstance(element, IntegerType):
        return element.width.data in (4, 8)
    return isinstance(element, AnyFloat) and element.bitwidth == 8


def decode_e8m0(value: SSAValue) -> tuple[SSAValue, list[Operation]] | None:
    """The exponent bytes behind a decoded scale, and the decoding ops.

    bytes → i32 → shifted to the exponent of an f32 → at least 2^-126 → NaN where the byte is 255
    → the wanted float type
    """
    passed: list[Operation] = []
    found = node_of(value, "cast")
    if found is not None and tensor_type(found.op.operands[0]).element_type == f32:
        passed.append(found.op)
        value = found.op.operands[0]
    chosen = node_of(value, "select")
    if chosen is None:
        return None
    passed.append(chosen.op)
    test = node_of(chosen.op.operands[0], "compare")
    if test is None or len(test.reads) != 1 or len(chosen.op.operands) != 2:
        return None
    passed.append(test.op)
    predicate = test.op.attributes["predicate"].data  # type: ignore[attr-defined]
    nan_first = "scalar_a" in chosen.op.attributes
    number = chosen.number("scalar_a" if nan_first else "scalar_b")
    if number is None or not math.isnan(number) or predicate != ("eq" if nan_first else "ne"):
        return None
    lowest = node_of(chosen.op.operands[1], "elementwise_max")
    if lowest is None or lowest.scalar(SMALLEST_NORMAL) is None:
        return None
    passed.append(lowest.op)
    steps = []
    current = lowest.op.operands[0]
    for step in ("bitcast", "shift_left", "widen_unsigned"):
        found = node_of(current, PENDING + step)
        if found is None or not found.reads:
            return None
        steps.append(found)
        passed.append(found.op)
        current = found.op.operands[0]
    if steps[1].number("scalar_rhs") != 23 or tensor_type(current).element_type != i8:
        return None
    tested, limit = test.op.operands[0], test.number("scalar_rhs")
    whole = tested is steps[2].result and limit == 255
    if not whole and not (tested is current and limit == -1):
        return None
    return current, passed


def block_dequant(op: UKernelGenericOp, rewriter: Rewriter) -> UKernelGenericOp | None:
    """Blocks along the last dimension that share a scale.

    before: reshape(dequant of 768x24x32 by scales 768x24) to 768x768
    after:  dequant of 768x768 by scales 768x24 {block = 32}
    """
    found = node_of(op.operands[0], "dequant")
    if found is None or len(found.op.operands) != 2 or "block" in found.op.attributes:
        return None
    shape, target = found.shape, shape_of(op.result)
    x, scale = found.op.operands
    if len(shape) < 2 or target != (*shape[:-2], shape[-2] * shape[-1]):
        return None
    read = found.reads[1]
    if read.loops != tuple(d for d, n in enumerate(shape[:-1]) if n != 1) or shape[-1] == 1:
        return None
    if not rewriter.private([found.op], op):
        return None
    payload = x
    before = node_of(x, "reshape")
    if before is not None and shape_of(before.op.operands[0]) == target:
        payload = before.op.operands[0]
    else:
        payload = rewriter.helper(op, x, target)
    scale = rewriter.helper(op, scale, shape[:-1])
    attributes: dict[str, Attribute] = {
        "block": IntegerAttr(shape[-1], i64),
        "axis": IntegerAttr(len(target) - 1, i64),
    }
    if "scale_encoding" in found.op.attributes:
        attributes["scale_encoding"] = found.op.attributes["scale_encoding"]
    return rewriter.replace(op, [found.op], "dequant", [payload, scale], attributes)


RECOGNISERS: dict[str, list[Recogniser]] = {
    "cast": [requant],
    "elementwise_mul": [dequant],
    "reshape": [block_dequant],
}
