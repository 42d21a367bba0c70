"""The written form shared by kernel intents and launches.

    "symbol"(%a, %b) {attributes} : tA, tB -> tD
    %lhs, %rhs [acc(%init : tD)] {attributes} : tL, tR -> tD

Types may also stand in parentheses, `(tA, tB) -> tD`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.kernel_symbols import check_call, kernel_call
from tilewright.dialects.locations import location_of
from tilewright.dialects.xdsl_api import (
    Attribute,
    IRDLOperation,
    Operation,
    Parser,
    Printer,
    SSAValue,
    TensorType,
)
from tilewright.errors import TilewrightError


def parse_types(parser: Parser) -> tuple[list[Attribute], Attribute]:
    """`: tA, tB -> tD` as (operand types, result type)."""
    parser.parse_punctuation(":")
    if parser.parse_optional_punctuation("(") is not None:
        types: list[Attribute] = []
        if parser.parse_optional_punctuation(")") is None:
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            parser.parse_punctuation(")")
    else:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation("->")
    return types, parser.parse_type()


def print_types(printer: Printer, operands: Sequence[SSAValue], result: Attribute) -> None:
    printer.print_string(" : ")
    if operands:
        printer.print_list(operands, lambda value: printer.print_attribute(value.type))
    else:
        printer.print_string("()")
    printer.print_string(" -> ")
    printer.print_attribute(result)


def parse_call(parser: Parser) -> tuple[str, list[SSAValue], dict[str, Attribute], Attribute]:
    """Symbol, operands, attributes and result type of a kernel call."""
    symbol = parser.parse_str_literal()
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )
    attributes = parser.parse_optional_attr_dict()
    position = parser.pos
    types, result = parse_types(parser)
    return symbol, list(parser.resolve_operands(operands, types, position)), attributes, result


def print_call(
    printer: Printer,
    symbol: str,
    operands: Sequence[SSAValue],
    attributes: dict[str, Attribute],
    result: Attribute,
) -> None:
    printer.print_string(" ")
    printer.print_string_literal(symbol)
    printer.print_string("(")
    printer.print_list(operands, printer.print_ssa_value)
    printer.print_string(")")
    printer.print_op_attributes(attributes)
    print_types(printer, operands, result)


def verify_call(
    op: Operation,
    symbol: str,
    operands: Sequence[SSAValue],
    attributes: dict[str, Attribute],
    result: Attribute,
) -> None:
    """Check a call against its family; a symbol of no family is only checked for static tensors.

    `npu-verify-ukernel-symbols` is the pass that refuses unknown symbols. A call is checked once for
    the same types and attributes: a traced kernel has thousands of launches of a few kinds.
    """
    parts = (*(value.type for value in operands), result, *attributes.values())
    key = (symbol, *attributes, *map(id, parts))
    if key in _CHECKED:
        return
    _check_call(op, symbol, operands, attributes, result)
    if len(_CHECKED) >= MOST_CHECKED:
        _CHECKED.clear()
    _CHECKED[key] = parts


# Calls that fit their families, by the identities of what they are made of, which lives as long.
_CHECKED: dict[tuple, tuple[Attribute, ...]] = {}
MOST_CHECKED = 4096


def _check_call(
    op: Operation,
    symbol: str,
    operands: Sequence[SSAValue],
    attributes: dict[str, Attribute],
    result: Attribute,
) -> None:
    try:
        call = kernel_call(symbol, [value.type for value in operands], attributes, result)
        if call is not None:
            check_call(call)
            return
        for type_ in (*(value.type for value in operands), result):
            if not isinstance(type_, TensorType) or any(n < 0 for n in type_.get_shape()):
                raise TilewrightError(
                    "TW1201",
                    f'"{symbol}": type {type_} is not a tensor of static shape',
                    hint="make all dimensions static before kernels are chosen",
                )
    except TilewrightError as error:
        if (place := location_of(op)) is not None:
            error.at(place)
        raise


def parse_contraction(
    parser: Parser,
) -> tuple[SSAValue, SSAValue, SSAValue | None, dict[str, Attribute], Attribute]:
    """lhs, rhs, initial value, attributes and result type of a matmul."""
    operands = [parser.parse_unresolved_operand()]
    parser.parse_punctuation(",")
    operands.append(parser.parse_unresolved_operand())
    init = None
    if parser.parse_optional_keyword("acc") is not None:
        parser.parse_punctuation("(")
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        init = parser.resolve_operand(unresolved, parser.parse_type())
        parser.parse_punctuation(")")
    attributes = parser.parse_optional_attr_dict()
    position = parser.pos
    types, result = parse_types(parser)
    lhs, rhs = parser.resolve_operands(operands, types, position)
    return lhs, rhs, init, attributes, result


def print_contraction(
    printer: Printer,
    op: IRDLOperation,
    lhs: SSAValue,
    rhs: SSAValue,
    init: SSAValue | None,
    result: Attribute,
) -> None:
    printer.print_string(" ")
    printer.print_list((lhs, rhs), printer.print_ssa_value)
    if init is not None:
        printer.print_string(" acc(")
        printer.print_ssa_value(init)
        printer.print_string(" : ")
        printer.print_attribute(init.type)
        printer.print_string(")")
    printer.print_op_attributes({**op.properties, **op.attributes})
    print_types(printer, (lhs, rhs), result)
