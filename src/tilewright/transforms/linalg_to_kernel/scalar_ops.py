"""Which kernel family each scalar op of a body is.

A row says: this arith or math op is that family, exactly, for every input. Ops that are equal only
sometimes (unsigned division, ties away from zero) have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tilewright.dialects.intents import Lane, Literal, literal, text
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    Attribute,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Operation,
    i1,
)
from tilewright.transforms.linalg_to_kernel.emitter import Unmapped, index_free

Value = Lane | Literal

# Families whose operands and result have one element type.
PLAIN: dict[str, str] = {
    "arith.addf": "elementwise_add",
    "arith.addi": "elementwise_add",
    "arith.subf": "elementwise_sub",
    "arith.subi": "elementwise_sub",
    "arith.mulf": "elementwise_mul",
    "arith.muli": "elementwise_mul",
    "arith.divf": "elementwise_div",
    "arith.maximumf": "elementwise_max",
    "arith.maxsi": "elementwise_max",
    "arith.minimumf": "elementwise_min",
    "arith.minsi": "elementwise_min",
    "arith.negf": "elementwise_neg",
    "arith.andi": "logical_and",
    "arith.ori": "logical_or",
    "arith.xori": "logical_xor",
    "math.absf": "elementwise_abs",
    "math.absi": "elementwise_abs",
    "math.exp": "elementwise_exp",
    "math.exp2": "elementwise_exp2",
    "math.log": "elementwise_log",
    "math.log2": "elementwise_log2",
    "math.sqrt": "elementwise_sqrt",
    "math.rsqrt": "elementwise_rsqrt",
    "math.tanh": "elementwise_tanh",
    "math.sin": "elementwise_sin",
    "math.cos": "elementwise_cos",
    "math.erf": "elementwise_erf",
    "math.floor": "elementwise_floor",
    "math.ceil": "elementwise_ceil",
    "math.roundeven": "elementwise_round",
    "math.powf": "elementwise_pow",
    "arith.remf": "elementwise_rem",
    "arith.remsi": "elementwise_rem",
}

# Casts that `cast` means: signed integers, except that one bit is 0 or 1.
CASTS = {
    "arith.extf",
    "arith.truncf",
    "arith.sitofp",
    "arith.fptosi",
    "arith.extsi",
    "arith.trunci",
    "arith.index_cast",
}
UNSIGNED_CASTS = {"arith.extui", "arith.uitofp", "arith.index_castui"}

FLOAT_PREDICATES = {
    "oeq": "eq", "one": "one", "olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge",
    "ueq": "ueq", "une": "ne", "ult": "ult", "ule": "ule", "ugt": "ugt", "uge": "uge",
    "ord": "ord", "uno": "uno",
}  # fmt: skip
INTEGER_PREDICATES = {
    "eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge",
    "ult": "ult", "ule": "ule", "ugt": "ugt", "uge": "uge",
}  # fmt: skip
CMPF_ORDER = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]
CMPI_ORDER = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]

# Steps that only a chain recogniser can finish; none may be left when the pass ends.
PENDING = "pending_"
PENDING_OPS: dict[str, str] = {
    "arith.shli": "shift_left",
    "arith.bitcast": "bitcast",
    "arith.extui": "widen_unsigned",
}

Apply = Callable[[str, Sequence[Value], Attribute, dict[str, Attribute]], Value]


def convert_scalar_op(op: Operation, operands: Sequence[Value], apply: Apply) -> Value:
    """The value of one body op; `apply(family, operands, element, attributes)` emits an intent."""
    name, element = op.name, index_free(op.results[0].type)
    if name in PLAIN:
        return _plain(PLAIN[name], operands, element, apply)
    if name in CASTS or name in UNSIGNED_CASTS:
        return _cast(op, operands[0], element, apply)
    if name == "math.fpowi":
        return _integer_power(operands, element, apply)
    if name == "arith.cmpf" or name == "arith.cmpi":
        return _compare(op, operands, apply)
    if name == "arith.select":
        return _select(operands, element, apply)
    if name in PENDING_OPS:
        return apply(PENDING + PENDING_OPS[name], operands, element, {})
    raise Unmapped(
        "TW1225",
        f"its body uses {name}, which is no kernel",
        "rewrite the body with other ops, or keep the op on the host with unmapped=host",
    )


def _number(value: Value) -> float | int | None:
    return value.value.value.data if isinstance(value, Literal) else None


def _plain(family: str, operands: Sequence[Value], element: Attribute, apply: Apply) -> Value:
    floats = isinstance(element, AnyFloat)
    if family == "elementwise_div" and _number(operands[0]) == 1.0:
        return apply("elementwise_recip", operands[1:], element, {})
    if family == "elementwise_mul" and floats and operands[0] == operands[1]:
        return apply("elementwise_square", operands[:1], element, {})
    if family == "elementwise_max" and floats and 0.0 in map(_number, operands):
        number = [_number(v) for v in operands].index(0.0)
        zero = cast(Literal, operands[number]).value.value.data
        if not str(zero).startswith("-"):
            return apply("elementwise_relu", [operands[1 - number]], element, {})
    if family == "elementwise_pow" and _number(operands[1]) == 2.0:
        return apply("elementwise_square", operands[:1], element, {})
    if family == "logical_xor" and element == i1:
        for here, other in ((0, 1), (1, 0)):
            if _number(operands[here]) in (1, -1, True):
                return apply("logical_not", [operands[other]], element, {})
    return apply(family, operands, element, {})


def _integer_power(operands: Sequence[Value], element: Attribute, apply: Apply) -> Value:
    exponent = _number(operands[1])
    if exponent == 1:
        return operands[0]
    if exponent == 2:
        return apply("elementwise_square", operands[:1], element, {})
    if exponent == 3:
        return apply("elementwise_cube", operands[:1], element, {})
    if exponent is None:
        raise Unmapped(
            "TW1225", "its body raises to a power that varies", "use math.powf with a float power"
        )
    return apply("elementwise_pow", [operands[0], literal(exponent, element)], element, {})


def _cast(op: Operation, operand: Value, element: Attribute, apply: Apply) -> Value:
    source = index_free(operand.element)
    if source == element:
        return operand
    if isinstance(operand, Literal):
        return _cast_literal(op, operand, element)
    if (source == i1 and op.name == "arith.extsi") or (op.name == "arith.sitofp" and source == i1):
        raise Unmapped(
            "TW1225",
            "its body widens one bit as a sign, 0 or -1",
            "widen it with arith.extui and negate",
        )
    if op.name in UNSIGNED_CASTS and source != i1:
        if op.name == "arith.extui":
            return apply(PENDING + PENDING_OPS[op.name], [operand], element, {})
        raise Unmapped(
            "TW1225",
            f"its body reads {source} as unsigned",
            "kernels read integers as signed: widen the input type",
        )
    return apply("cast", [operand], element, {})


def _cast_literal(op: Operation, operand: Literal, element: Attribute) -> Literal:
    number = operand.value.value.data
    if isinstance(element, AnyFloat):
        if op.name in UNSIGNED_CASTS and number < 0:
            number += 2 ** _width(operand.element)
        return Literal(FloatAttr(float(number), element))
    if isinstance(operand.element, AnyFloat):
        number = int(number)
    elif op.name in UNSIGNED_CASTS and number < 0:
        number += 2 ** _width(operand.element)
    width = _width(element)
    number = int(number) % 2**width
    if number >= 2 ** (width - 1) and width > 1:
        number -= 2**width
    return Literal(IntegerAttr(number, cast(IntegerType, element)))


def _width(element: Attribute) -> int:
    return 64 if isinstance(element, IndexType) else cast(IntegerType, element).width.data


def _compare(op: Operation, operands: Sequence[Value], apply: Apply) -> Value:
    predicate = op.properties.get("predicate", op.attributes.get("predicate"))
    number = cast(IntegerAttr, predicate).value.data
    if op.name == "arith.cmpf":
        name = FLOAT_PREDICATES.get(CMPF_ORDER[number])
    else:
        name = INTEGER_PREDICATES.get(CMPI_ORDER[number])
    if name is None:
        raise Unmapped("TW1225", "its body compares with a fixed outcome", "fold the comparison")
    return apply("compare", operands, i1, {"predicate": text(name)})


def _select(operands: Sequence[Value], element: Attribute, apply: Apply) -> Value:
    condition, a, b = operands
    if isinstance(condition, Literal):
        return a if condition.value.value.data else b
    return apply("select", operands, element, {})
