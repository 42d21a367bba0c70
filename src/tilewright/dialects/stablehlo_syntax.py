"""The custom forms of StableHLO and CHLO operations: from text to operands, types and properties.

Every function here parses what follows the name of an operation and returns its operands, result types,
properties and regions. Structured attributes become the text that the generic form has between angle
brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    Parser,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    i64,
)

Properties = dict[str, Attribute]


# ----------------------------------------------------------------------------- pieces of syntax


def _operands(parser: Parser) -> list[Any]:
    """`%a, %b` up to the first thing that is no value; the comma before it is taken too."""
    found: list[Any] = []
    while (operand := parser.parse_optional_unresolved_operand()) is not None:
        found.append(operand)
        if parser.parse_optional_punctuation(",") is None:
            break
    return found


def _integers(parser: Parser) -> list[int]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)


def _array(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def _named_array(parser: Parser, keyword: str) -> DenseArrayBase:
    """`keyword = [1, 2]`"""
    parser.parse_keyword(keyword)
    parser.parse_punctuation("=")
    return _array(_integers(parser))


def _typed(parser: Parser, operands: Sequence[Any], properties: Properties) -> tuple[Any, ...]:
    """The attributes and types at the end of an operation; operands get their types.

    `(a, b) -> c` names all; a single type is that of everything; `p, t` is a choice between values
    of type t; `a -> b` is the CHLO form.
    """
    properties |= parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    position = parser.pos
    results: list[Attribute]
    if parser.parse_optional_punctuation("("):
        types = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_type, parser.parse_type
        )
        parser.parse_punctuation(")")
        types = list(types or [])
        parser.parse_punctuation("->")
        results = _result_types(parser)
    else:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if parser.parse_optional_punctuation("->"):
            results = _result_types(parser)
        elif len(types) == 1:
            results = [types[0]]
        elif len(types) == 2 and len(operands) == 3:
            results = [types[1]]
        else:
            results = list(types)
        if len(types) == 1:
            types = types * len(operands)
        elif len(types) == 2 and len(operands) == 3:
            types = [types[0], types[1], types[1]]
    values = parser.resolve_operands(operands, types, position)
    return values, results, properties, []


def _result_types(parser: Parser) -> list[Attribute]:
    if parser.parse_optional_punctuation("("):
        found = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_type, parser.parse_type
        )
        parser.parse_punctuation(")")
        return list(found or [])
    return [parser.parse_type()]


def _skip_list(parser: Parser) -> None:
    """`[DEFAULT, HIGHEST]`"""
    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)


# --------------------------------------------------------------------------- forms of operations


def plain(parser: Parser) -> tuple[Any, ...]:
    """%a, %b {…} : types"""
    return _typed(parser, _operands(parser), {})


def with_array(keyword: str, name: str) -> Callable[[Parser], tuple[Any, ...]]:
    """%x, keyword = [0, 1] : types"""

    def parse(parser: Parser) -> tuple[Any, ...]:
        operands = _operands(parser)
        return _typed(parser, operands, {name: _named_array(parser, keyword)})

    return parse


def with_number(keyword: str, name: str) -> Callable[[Parser], tuple[Any, ...]]:
    """%a, %b, keyword = 1 : types"""

    def parse(parser: Parser) -> tuple[Any, ...]:
        operands = _operands(parser)
        parser.parse_keyword(keyword)
        parser.parse_punctuation("=")
        return _typed(parser, operands, {name: IntegerAttr(parser.parse_integer(), i64)})

    return parse


def constant(parser: Parser) -> tuple[Any, ...]:
    """dense<…> : type"""
    attributes = parser.parse_optional_attr_dict()
    value = parser.parse_attribute()
    kind = getattr(value, "type", None)
    if not isinstance(kind, TensorType):
        parser.raise_error("a constant needs dense<…> : tensor<…>")
    return [], [kind], {**attributes, "value": value}, []


def iota(parser: Parser) -> tuple[Any, ...]:
    """dim = 0 : type"""
    parser.parse_keyword("dim")
    parser.parse_punctuation("=")
    dimension = IntegerAttr(parser.parse_integer(), i64)
    properties = {"iota_dimension": dimension, **parser.parse_optional_attr_dict()}
    parser.parse_punctuation(":")
    return [], [parser.parse_type()], properties, []


def compare(parser: Parser) -> tuple[Any, ...]:
    """LT, %a, %b, SIGNED : types"""
    properties: Properties = {"comparison_direction": StringAttr(parser.parse_identifier())}
    parser.parse_punctuation(",")
    operands = _operands(parser)
    if (kind := parser.parse_optional_identifier()) is not None:
        properties["compare_type"] = StringAttr(kind)
    return _typed(parser, operands, properties)


def slice_(parser: Parser) -> tuple[Any, ...]:
    """%x [0:8, 0:16:2] : types"""
    operands = _operands(parser)

    def bounds() -> tuple[int, int, int]:
        start = parser.parse_integer()
        parser.parse_punctuation(":")
        limit = parser.parse_integer()
        step = parser.parse_integer() if parser.parse_optional_punctuation(":") else 1
        return start, limit, step

    found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bounds)
    names = ("start_indices", "limit_indices", "strides")
    columns = list(zip(*found, strict=True)) if found else [(), (), ()]
    properties: Properties = {n: _array(c) for n, c in zip(names, columns, strict=True)}
    return _typed(parser, operands, properties)


def pad(parser: Parser) -> tuple[Any, ...]:
    """%x, %value, low = [0], high = [1], interior = [0] : types"""
    operands = _operands(parser)
    properties: Properties = {"edge_padding_low": _named_array(parser, "low")}
    parser.parse_punctuation(",")
    properties["edge_padding_high"] = _named_array(parser, "high")
    parser.parse_punctuation(",")
    properties["interior_padding"] = _named_array(parser, "interior")
    return _typed(parser, operands, properties)


def _pair(parser: Parser) -> tuple[list[int], list[int]]:
    """[0] x [1]"""
    left = _integers(parser)
    parser.parse_keyword("x")
    return left, _integers(parser)


def dot_general(parser: Parser) -> tuple[Any, ...]:
    """%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = […] : types"""
    operands = _operands(parser)
    parts: list[str] = []
    while True:
        keyword = parser.parse_optional_identifier()
        if keyword is None:
            break
        parser.parse_punctuation("=")
        if keyword in ("batching_dims", "contracting_dims"):
            word = keyword.removesuffix("_dims")
            for side, found in zip(("lhs", "rhs"), _pair(parser), strict=True):
                parts.append(f"{side}_{word}_dimensions = {found}")
        elif keyword == "precision":
            _skip_list(parser)
        elif keyword == "algorithm":
            _skip_angle_brackets(parser)
        else:
            parser.raise_error(f"unexpected {keyword} in a dot_general")
        if parser.parse_optional_punctuation(",") is None:
            break
    return _typed(parser, operands, {"dot_dimension_numbers": StringAttr(", ".join(parts))})


def _skip_angle_brackets(parser: Parser) -> None:
    """`<lhs_precision_type = bf16, …>`: how precisely to compute, which is decided elsewhere."""
    parser.parse_punctuation("<")
    while parser.parse_optional_punctuation(">") is None:
        parser.parse_identifier()
        parser.parse_punctuation("=")
        if parser.parse_optional_type() is None and parser.parse_optional_boolean() is None:
            parser.parse_integer()
        parser.parse_optional_punctuation(",")


def convolution(parser: Parser) -> tuple[Any, ...]:
    """(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {…} {…} : types"""
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )
    parser.parse_keyword("dim_numbers")
    parser.parse_punctuation("=")

    def dimension() -> str:
        number = parser.parse_optional_integer()
        return str(number) if number is not None else parser.parse_identifier()

    orders = []
    for separator in ("x", "->", ""):
        orders.append(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, dimension))
        if separator == "x":
            parser.parse_keyword("x")
        elif separator:
            parser.parse_punctuation("->")
    image, filter_, result = (f"[{', '.join(order)}]" for order in orders)
    properties: Properties = {"dimension_numbers": StringAttr(f"{image}x{filter_}->{result}")}
    if parser.parse_optional_punctuation(","):
        parser.parse_keyword("window")
        parser.parse_punctuation("=")
        parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, lambda: _window_part(parser, properties)
        )
    return _typed(parser, operands, properties)


_WINDOW_NAMES = {
    "stride": "window_strides",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
}


def _window_part(parser: Parser, properties: Properties) -> None:
    """stride = [1, 1] · pad = [[1, 1], [1, 1]] · reverse = [false, false]"""
    keyword = parser.parse_identifier()
    parser.parse_punctuation("=")
    if keyword == "pad":
        rows = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _integers(parser))
        flat = [n for row in rows for n in row]
        properties["padding"] = DenseIntOrFPElementsAttr.from_list(
            TensorType(i64, [len(rows), 2]), flat
        )
    elif keyword == "reverse":
        flags = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE,
            lambda: parser.expect(parser.parse_optional_boolean, "true or false expected"),
        )
        properties["window_reversal"] = _array([int(flag) for flag in flags])
    elif keyword in _WINDOW_NAMES:
        properties[_WINDOW_NAMES[keyword]] = _array(_integers(parser))
    else:
        parser.raise_error(f"unexpected {keyword} in a window")


def reduce(parser: Parser) -> tuple[Any, ...]:
    """(%x init: %c) applies stablehlo.add across dimensions = [1] : types, or with a body after"""

    def source() -> tuple[Any, Any]:
        with parser.in_parens():
            value = parser.parse_unresolved_operand()
            parser.parse_keyword("init")
            parser.parse_punctuation(":")
            return value, parser.parse_unresolved_operand()

    sources = parser.parse_comma_separated_list(parser.Delimiter.NONE, source)
    body_name = parser.parse_identifier() if parser.parse_optional_keyword("applies") else None
    parser.parse_keyword("across")
    properties: Properties = {"dimensions": _named_array(parser, "dimensions")}
    operands = [pair[0] for pair in sources] + [pair[1] for pair in sources]
    values, results, properties, _ = _typed(parser, operands, properties)
    if body_name is not None:
        region = _applied(parser, body_name, values[-1])
    else:
        parser.parse_keyword("reducer")
        region = _reducer(parser, len(sources))
    return values, results, properties, [region]


def _applied(parser: Parser, name: str, init: SSAValue) -> Region:
    """The body that `applies` stands for: one operation on both arguments."""
    if not isinstance(init.type, TensorType):
        parser.raise_error("an initial value is a tensor of rank 0")
    block = Block(arg_types=[init.type, init.type])
    operation, end = parser._get_op_by_name(name), parser._get_op_by_name("stablehlo.return")
    made = operation.create(operands=list(block.args), result_types=[init.type])
    block.add_ops([made, end.create(operands=[made.results[0]])])
    return Region(block)


def _reducer(parser: Parser, count: int) -> Region:
    """reducer(%a, %b) (%c, %d) {…}: pairs, where the block has all left arguments first"""

    def argument() -> Parser.Argument:
        found = parser.parse_argument()
        parser.parse_optional_location()
        return found

    pairs = [
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument) for _ in range(count)
    ]
    if any(len(pair) != 2 for pair in pairs):
        parser.raise_error("a reducer has two arguments for each value")
    return parser.parse_region([pair[0] for pair in pairs] + [pair[1] for pair in pairs])


def while_(parser: Parser) -> tuple[Any, ...]:
    """(%i = %a, %j = %b) : types cond {…} do {…}"""

    def start() -> tuple[Any, Any]:
        name = parser.parse_unresolved_operand()
        parser.parse_punctuation("=")
        return name, parser.parse_unresolved_operand()

    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, start)
    position = parser.pos
    types: list[Attribute] = []
    if parser.parse_optional_punctuation(":"):
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    properties: Properties = {}
    if parser.parse_optional_keyword("attributes"):
        properties = parser.parse_optional_attr_dict()
    values = parser.resolve_operands([pair[1] for pair in pairs], types, position)
    regions = []
    for keyword in ("cond", "do"):
        parser.parse_keyword(keyword)
        arguments = [
            Parser.Argument(name.span, kind)  # type: ignore[arg-type]
            for (name, _), kind in zip(pairs, types, strict=True)
        ]
        regions.append(parser.parse_region(arguments))
    return values, types, properties, regions


def custom_call(parser: Parser) -> tuple[Any, ...]:
    """@target(%a, %b) {…} : types"""
    target = parser.parse_symbol_name()
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )
    return _typed(parser, operands, {"call_target_name": target})


def composite(parser: Parser) -> tuple[Any, ...]:
    """ "name" %a, %b {decomposition = @f} : types"""
    name = parser.parse_str_literal()
    return _typed(parser, _operands(parser), {"name": StringAttr(name)})


def reduce_precision(parser: Parser) -> tuple[Any, ...]:
    """%x, format = e8m7 : type"""
    operands = _operands(parser)
    parser.parse_keyword("format")
    parser.parse_punctuation("=")
    return _typed(parser, operands, {"format": StringAttr(parser.parse_identifier())})


def top_k(parser: Parser) -> tuple[Any, ...]:
    """(%x, k = 2) : type -> (type, type)"""
    parser.parse_punctuation("(")
    operands = [parser.parse_unresolved_operand()]
    parser.parse_punctuation(",")
    parser.parse_keyword("k")
    parser.parse_punctuation("=")
    k = IntegerAttr(parser.parse_integer(), i64)
    parser.parse_punctuation(")")
    return _typed(parser, operands, {"k": k})


def return_(parser: Parser) -> tuple[Any, ...]:
    """%a, %b : types"""
    operands = _operands(parser)
    if not operands:
        return [], [], {}, []
    values, _, properties, _ = _typed(parser, operands, {})
    return values, [], properties, []


def only_generic(parser: Parser) -> tuple[Any, ...]:
    return parser.raise_error("this operation has no custom form; write it in generic form")
