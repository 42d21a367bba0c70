"""npu_kernel.layers: identical layers, written once.

    %y, %k0, %k1 = npu_kernel.layers 2 iter(%h = %x : tensor<6x16xf32>)
        each(%mask = [%m0, %m1] : tensor<6x6xf32>)
        weights(%w = "layers.*.q.weight" : tensor<16x16xf32>) {
      …
      npu_kernel.yield %next collect(%k)
    } : tensor<6x16xf32>, tensor<6x16xf32>, tensor<6x16xf32>

`iter` values are carried from one iteration to the next; `each` values and weights are different in
every iteration; other values of the surrounding block are the same in all. Results are the carried
values after the last iteration, then every collected value of every iteration: all iterations of
the first collected value, then of the second.

Weights stay outside of the IR under their names. `"layers.*.q.weight"` stands for the names with
0, 1, … in place of the star; names that have no such form are listed: `["a", "b"]`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.locations import location_of
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    AttrSizedOperandSegments,
    Block,
    IntAttr,
    IRDLOperation,
    IsTerminator,
    Parser,
    Printer,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from tilewright.errors import TilewrightError


@irdl_op_definition
class LayerYieldOp(IRDLOperation):
    """What an iteration leaves: carried values for the next one, and collected results."""

    name = "npu_kernel.yield"
    carried = var_operand_def()
    collected = var_operand_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator())

    def __init__(self, carried: Sequence[SSAValue], collected: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[carried, collected])

    @classmethod
    def parse(cls, parser: Parser):
        carried = _parse_values(parser, [])
        collected: list[SSAValue] = []
        if parser.parse_optional_keyword("collect") is not None:
            parser.parse_punctuation("(")
            collected = _parse_values(parser, [])
            parser.parse_punctuation(")")
        return cls(carried, collected)

    def print(self, printer: Printer) -> None:
        if self.carried:
            printer.print_string(" ")
            printer.print_list(self.carried, lambda v: _print_typed(printer, v))
        if self.collected:
            printer.print_string(" collect(")
            printer.print_list(self.collected, lambda v: _print_typed(printer, v))
            printer.print_string(")")


def _parse_values(parser: Parser, found: list[SSAValue]) -> list[SSAValue]:
    while (unresolved := parser.parse_optional_unresolved_operand()) is not None:
        parser.parse_punctuation(":")
        found.append(parser.resolve_operand(unresolved, parser.parse_type()))
        if parser.parse_optional_punctuation(",") is None:
            break
    return found


def _print_typed(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


@irdl_op_definition
class LayersOp(IRDLOperation):
    """A loop over identical layers."""

    name = "npu_kernel.layers"
    count = prop_def(IntAttr)
    weights = prop_def(ArrayAttr[ArrayAttr[StringAttr]])  # names in all iterations, per argument
    start = var_operand_def(TensorType)
    each = var_operand_def(TensorType)  # all iterations of the first, then of the second, …
    body = region_def("single_block")
    outputs = var_result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        count: int,
        start: Sequence[SSAValue],
        each: Sequence[Sequence[SSAValue]],
        weights: Sequence[Sequence[str]],
        body: Region,
        result_types: Sequence[Attribute],
        attributes: dict[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[start, [value for row in each for value in row]],
            result_types=[result_types],
            regions=[body],
            properties={
                "count": IntAttr(count),
                "weights": ArrayAttr([_names(row) for row in weights]),
            },
            attributes=dict(attributes or {}),
        )

    # --- reading ------------------------------------------------------------------------

    @property
    def iterations(self) -> int:
        return self.count.data

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def terminator(self) -> LayerYieldOp:
        last = self.block.last_op
        assert isinstance(last, LayerYieldOp)
        return last

    @property
    def carried_arguments(self) -> tuple[SSAValue, ...]:
        return tuple(self.block.args[: len(self.start)])

    @property
    def each_arguments(self) -> tuple[SSAValue, ...]:
        return tuple(self.block.args[len(self.start) : len(self.block.args) - len(self.weights)])

    @property
    def weight_arguments(self) -> tuple[SSAValue, ...]:
        return tuple(self.block.args[len(self.block.args) - len(self.weights) :])

    def weight_names(self) -> list[list[str]]:
        """The names of every weight argument in all iterations."""
        return [[name.data for name in row] for row in self.weights]

    def each_values(self) -> list[list[SSAValue]]:
        """The values of every `each` argument in all iterations."""
        values, count = list(self.each), self.iterations
        return [values[at : at + count] for at in range(0, len(values), count)]

    def collected_results(self) -> list[list[SSAValue]]:
        """The results of every collected value in all iterations."""
        values: list[SSAValue] = []
        values.extend(list(self.outputs)[len(self.start) :])
        count = self.iterations
        return [values[at : at + count] for at in range(0, len(values), count)]

    # --- checking -----------------------------------------------------------------------

    def _refuse(self, message: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError("TW1211", f"npu_kernel.layers: {message}", location_of(self), hint)

    def verify_(self) -> None:
        if self.iterations < 1:
            raise self._refuse(f"{self.iterations} iterations, at least one is needed")
        last = self.block.last_op
        if not isinstance(last, LayerYieldOp):
            raise self._refuse("the body does not end with npu_kernel.yield")
        if len(self.each) % self.iterations:
            raise self._refuse(f"each lists {self.iterations} values for every argument")
        wanted = [value.type for value in self.start]
        wanted += [row[0].type for row in self.each_values()]
        arguments = list(self.block.args)
        if len(arguments) != len(wanted) + len(self.weights):
            raise self._refuse(
                f"the body has {len(arguments)} arguments for {len(self.start)} carried values, "
                f"{len(self.each_values())} lists and {len(self.weights)} weights"
            )
        for argument, kind in zip(arguments, wanted, strict=False):
            if argument.type != kind:
                raise self._refuse(f"an argument of {argument.type} gets a value of {kind}")
        for row in self.each_values():
            if any(value.type != row[0].type for value in row):
                raise self._refuse("values of one argument have different types")
        for names in self.weights:
            if len(names) != self.iterations:
                raise self._refuse(f"a weight has {len(names)} names, needs {self.iterations}")
        if [v.type for v in last.carried] != [v.type for v in self.start]:
            raise self._refuse("yield leaves other types than the iteration starts with")
        results = [v.type for v in self.start]
        results += [v.type for v in last.collected for _ in range(self.iterations)]
        if [v.type for v in self.outputs] != results:
            raise self._refuse(
                f"has {len(self.outputs)} results, yield leaves {len(last.carried)} carried and "
                f"{len(last.collected)} collected values of {self.iterations} iterations"
            )

    # --- text ---------------------------------------------------------------------------

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.iterations}")
        if self.start:
            printer.print_string(" iter(")
            rows = list(zip(self.carried_arguments, self.start, strict=True))
            printer.print_list(rows, lambda row: _print_carried(printer, *row))
            printer.print_string(")")
        if self.each:
            printer.print_string(" each(")
            lists = list(zip(self.each_arguments, self.each_values(), strict=True))
            printer.print_list(lists, lambda row: _print_each(printer, *row))
            printer.print_string(")")
        if len(self.weights):
            printer.print_string(" weights(")
            names = list(zip(self.weight_arguments, self.weight_names(), strict=True))
            printer.print_list(names, lambda row: _print_weight(printer, *row))
            printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        if self.outputs:
            printer.print_string(" : ")
            printer.print_list(self.outputs, lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser):
        count = parser.parse_integer(allow_negative=False, allow_boolean=False)
        arguments: list[Parser.Argument] = []
        start: list[SSAValue] = []
        each: list[list[SSAValue]] = []
        weights: list[list[str]] = []

        def carried() -> None:
            argument = _parse_name(parser)
            unresolved = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            kind = parser.parse_type()
            start.append(parser.resolve_operand(unresolved, kind))
            arguments.append(argument.resolve(kind))

        def listed() -> None:
            argument = _parse_name(parser)
            values = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_unresolved_operand
            )
            parser.parse_punctuation(":")
            kind = parser.parse_type()
            each.append([parser.resolve_operand(value, kind) for value in values])
            arguments.append(argument.resolve(kind))

        def named() -> None:
            argument = _parse_name(parser)
            names = _parse_names(parser, count)
            parser.parse_punctuation(":")
            weights.append(names)
            arguments.append(argument.resolve(parser.parse_type()))

        for keyword, entry in (("iter", carried), ("each", listed), ("weights", named)):
            if parser.parse_optional_keyword(keyword) is not None:
                parser.parse_comma_separated_list(parser.Delimiter.PAREN, entry)
        given = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        types: list[Attribute] = []
        if parser.parse_optional_punctuation(":") is not None:
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        found = dict(given.data) if given is not None else {}
        return cls(count, start, each, weights, body, types, found)


def _names(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])


MOST_LAYERS = 1 << 16  # that a text may ask for


def _parse_name(parser: Parser):
    argument = parser.parse_optional_argument(expect_type=False)
    if argument is None:
        parser.raise_error("the name of an argument is needed")
    parser.parse_punctuation("=")
    return argument


def _parse_names(parser: Parser, count: int) -> list[str]:
    pattern = parser.parse_optional_str_literal()
    if pattern is not None:
        if count > MOST_LAYERS:
            parser.raise_error(f"{count} layers are more than the {MOST_LAYERS} that are read")
        return [pattern.replace("*", str(number), 1) for number in range(count)]
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)


def _pattern(names: Sequence[str]) -> str | None:
    """The names as one with a star for the number of the iteration."""
    first = names[0]
    for at, character in enumerate(first):
        if character == "0":
            pattern = f"{first[:at]}*{first[at + 1 :]}"
            made = [pattern.replace("*", str(number), 1) for number in range(len(names))]
            if made == list(names):
                return pattern
    return None


def _print_carried(printer: Printer, argument: SSAValue, value: SSAValue) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    _print_typed(printer, value)


def _print_each(printer: Printer, argument: SSAValue, values: Sequence[SSAValue]) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = [")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string("] : ")
    printer.print_attribute(argument.type)


def _print_weight(printer: Printer, argument: SSAValue, names: Sequence[str]) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    pattern = _pattern(names)
    if pattern is not None:
        printer.print_string_literal(pattern)
    else:
        printer.print_string("[")
        printer.print_list(names, printer.print_string_literal)
        printer.print_string("]")
    printer.print_string(" : ")
    printer.print_attribute(argument.type)
