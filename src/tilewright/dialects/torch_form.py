"""Reading ops of the torch dialect in their custom form.

Nearly all of them are written alike, so no op needs a definition of its own; what is read becomes
an op of an unknown dialect, which prints in generic form. Passes refuse it by name, with its line.

before: %1 = torch.aten.clamp %0, %low, %none : !torch.vtensor<[4],f32>, !torch.float, !torch.none -> !torch.vtensor<[4],f32>
        %2 = torch.operator "torch.aten.foo"(%0, %int) : (!torch.vtensor<[4],f32>, !torch.int) -> !torch.vtensor<[4],f32>
        %3 = torch.constant.int 3
        %4 = torch.vtensor.literal(dense_resource<w> : tensor<4xf32>) : !torch.vtensor<[4],f32>
after:  the same ops in generic form; the name of torch.operator is its attribute `name`, what a
        constant or literal holds its attribute `value`
"""

from __future__ import annotations

from tilewright.dialects.xdsl_api import Attribute, Operation, Parser, StringAttr, UnregisteredOp

PREFIX = ("torch.", "torch_c.")

# Constants: the type of what each gives; `none` has no value.
CONSTANTS = {
    "torch.constant.none": "!torch.none",
    "torch.constant.int": "!torch.int",
    "torch.constant.float": "!torch.float",
    "torch.constant.bool": "!torch.bool",
    "torch.constant.str": "!torch.str",
    "torch.constant.device": "!torch.Device",
    "torch.constant.number": "!torch.number",
}
LITERALS = ("torch.vtensor.literal", "torch.tensor.literal")


def parse_torch_operation(parser: Parser, op_type: type[UnregisteredOp], kind: str) -> Operation:
    """The op whose name was just read."""
    if kind in CONSTANTS:
        return _constant(parser, op_type, CONSTANTS[kind])
    if kind in LITERALS:
        return _literal(parser, op_type)
    attributes: dict[str, Attribute] = {}
    name = parser.parse_optional_str_literal()
    if name is not None:
        attributes["name"] = StringAttr(name)
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
    else:
        operands = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
    attributes |= parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    position = parser.pos
    types: list[Attribute] = []
    if parser.parse_optional_punctuation("->") is None:
        types = _types(parser)
        parser.parse_punctuation("->")
    results = _types(parser)
    return op_type.create(
        operands=parser.resolve_operands(operands, types, position),
        result_types=results,
        attributes=attributes,
    )


def _constant(parser: Parser, op_type: type[UnregisteredOp], type_: str) -> Operation:
    """`torch.constant.int 3`, with the type that its name says."""
    attributes: dict[str, Attribute] = {}
    if type_ != "!torch.none":
        value = parser.parse_optional_attribute()
        if value is None:
            parser.raise_error("expected the value of the constant")
        attributes["value"] = value
    attributes |= parser.parse_optional_attr_dict()
    result = Parser(parser.ctx, type_).parse_type()
    return op_type.create(result_types=[result], attributes=attributes)


def _literal(parser: Parser, op_type: type[UnregisteredOp]) -> Operation:
    """`torch.vtensor.literal(dense<1.0> : tensor<4xf32>) : !torch.vtensor<[4],f32>`"""
    with parser.in_parens():
        value = parser.parse_attribute()
    attributes = {"value": value, **parser.parse_optional_attr_dict()}
    parser.parse_punctuation(":")
    return op_type.create(result_types=[parser.parse_type()], attributes=attributes)


def _types(parser: Parser) -> list[Attribute]:
    """Types separated by commas, perhaps in parentheses."""
    listed = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if listed is not None:
        return list(listed)
    return list(parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type))
