"""Reading ops of the torch dialect in their custom form.

Nearly all of them are written alike, so no op needs a definition of its own; what is read becomes
an op of an unknown dialect, which prints in generic form. Passes refuse it by name, with its line.

before: %1 = torch.aten.clamp %0, %low, %none : !torch.vtensor<[4],f32>, !torch.float, !torch.none -> !torch.vtensor<[4],f32>
        %2 = torch.operator "torch.aten.foo"(%0, %int) : (!torch.vtensor<[4],f32>, !torch.int) -> !torch.vtensor<[4],f32>
after:  the same ops in generic form; the name of torch.operator is its attribute `name`
"""

from __future__ import annotations

from tilewright.dialects.xdsl_api import Attribute, Operation, Parser, StringAttr, UnregisteredOp

PREFIX = "torch."


def parse_torch_operation(parser: Parser, op_type: type[UnregisteredOp]) -> Operation:
    """The op whose name was just read."""
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


def _types(parser: Parser) -> list[Attribute]:
    """Types separated by commas, perhaps in parentheses."""
    listed = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if listed is not None:
        return listed
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
