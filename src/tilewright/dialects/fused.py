"""npu_kernel.fused: a kernel and what follows it element by element, as one operation.

    %y = npu_kernel.fused "npu_uk_matmul"(%x, %w) {transpose_rhs} : tX, tW -> tensor<5x32xi32>
      epilogue [elementwise_add(_, %b : tensor<32xi32>) {operand_maps = …} -> tensor<5x32xi32>,
                rescale(_, %f : tensor<32xf32>) {operand_maps = …} -> tensor<5x32xf16>,
                gelu_tanh(_) -> tensor<5x32xf16>]

`_` stands for the value so far. It means the composition of its parts, each with the rounding of
its type: `unfuse` gives them back. The result is that of the last step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import SYMBOL_PREFIX, check_call, kernel_call
from tilewright.dialects.kernel_syntax import parse_types, print_types
from tilewright.dialects.locations import location_of
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    AttrSizedOperandSegments,
    DictionaryAttr,
    IntAttr,
    IRDLOperation,
    ParametrizedAttribute,
    Parser,
    Printer,
    Pure,
    SSAValue,
    StringAttr,
    TensorType,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from tilewright.errors import TilewrightError

SO_FAR = -1


@irdl_attr_definition
class EpilogueStepAttr(ParametrizedAttribute):
    """A call of a kernel family on the value so far (-1) and on extra operands, by number."""

    name = "npu_kernel.step"
    symbol: StringAttr
    arguments: ArrayAttr[IntAttr]
    options: DictionaryAttr
    result: TensorType


@dataclass(frozen=True)
class EpilogueStep:
    """A step of an epilogue: its call, and its operands (None: the value so far)."""

    call: KernelCall
    operands: tuple[SSAValue | None, ...]

    @property
    def family(self) -> str:
        return self.call.family.name

    @property
    def others(self) -> tuple[SSAValue, ...]:
        return tuple(value for value in self.operands if value is not None)


@irdl_op_definition
class FusedOp(IRDLOperation):
    """A kernel with an epilogue."""

    name = "npu_kernel.fused"

    symbol = prop_def(StringAttr)
    accumulator = prop_def(TensorType)  # the type of the kernel's own result
    epilogue = prop_def(ArrayAttr[EpilogueStepAttr])
    inputs = var_operand_def(TensorType)
    extras = var_operand_def(TensorType)
    result = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self,
        symbol: str,
        inputs: Sequence[SSAValue],
        accumulator: TensorType,
        steps: Sequence[EpilogueStepAttr],
        extras: Sequence[SSAValue],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs, extras],
            result_types=[steps[-1].result if steps else accumulator],
            properties={
                "symbol": StringAttr(symbol),
                "accumulator": accumulator,
                "epilogue": ArrayAttr(steps),
            },
            attributes=dict(attributes or {}),
        )

    def call(self) -> KernelCall:
        """The kernel itself, as its family sees it."""
        return self._call(
            self.symbol.data, [v.type for v in self.inputs], self.attributes, self.accumulator
        )

    def steps(self) -> list[EpilogueStep]:
        """What follows, in order."""
        found, kind = [], self.accumulator
        for step in self.epilogue:
            operands = tuple(
                None if index.data == SO_FAR else self.extras[index.data]
                for index in step.arguments
            )
            types = [kind if value is None else value.type for value in operands]
            call = self._call(step.symbol.data, types, step.options.data, step.result)
            found.append(EpilogueStep(call, operands))
            kind = step.result
        return found

    def _call(
        self,
        symbol: str,
        types: Sequence[Attribute],
        attributes: Mapping[str, Attribute],
        result: Attribute,
    ) -> KernelCall:
        call = kernel_call(symbol, types, attributes, result)
        if call is None:
            raise TilewrightError(
                "TW1210",
                f"npu_kernel.fused: {symbol} is not a kernel family",
                location_of(self),
                "an epilogue consists of families of the kernel family table",
            )
        return call

    def verify_(self) -> None:
        try:
            check_call(self.call())
            for number, step in enumerate(self.epilogue):
                for index in step.arguments:
                    if not SO_FAR <= index.data < len(self.extras):
                        raise TilewrightError(
                            "TW1210", f"step {number} has no operand {index.data}"
                        )
                if sum(index.data == SO_FAR for index in step.arguments) != 1:
                    raise TilewrightError(
                        "TW1210",
                        f"step {number} of the epilogue reads the value so far "
                        f"{sum(i.data == SO_FAR for i in step.arguments)} times",
                        hint="write _ in place of exactly one operand",
                    )
            for step in self.steps():
                check_call(step.call)
                if step.call.result.get_shape() != self.accumulator.get_shape():
                    step.call.fail("TW1210", "a step of an epilogue keeps the shape")
            last = self.epilogue.data[-1].result if len(self.epilogue) else self.accumulator
            if last != self.result.type:
                raise TilewrightError(
                    "TW1210", f"the last step gives {last}, the result is {self.result.type}"
                )
        except TilewrightError as error:
            if error.location is None and (place := location_of(self)) is not None:
                error.at(place)
            raise

    # --- text ---------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser):
        symbol = parser.parse_str_literal()
        inputs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        types, accumulator = parse_types(parser)
        operands = list(parser.resolve_operands(inputs, types, position))
        extras: list[SSAValue] = []
        steps: list[EpilogueStepAttr] = []
        if parser.parse_optional_keyword("epilogue") is not None:
            steps = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_step(parser, extras)
            )
        if not isinstance(accumulator, TensorType):
            parser.raise_error(f"{accumulator} is not a tensor")
        return cls(symbol, operands, accumulator, steps, extras, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.symbol.data)
        printer.print_string("(")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        print_types(printer, self.inputs, self.accumulator)
        printer.print_string(" epilogue [")
        printer.print_list(self.epilogue, lambda step: self._print_step(printer, step))
        printer.print_string("]")

    def _print_step(self, printer: Printer, step: EpilogueStepAttr) -> None:
        printer.print_string(step.symbol.data.removeprefix(SYMBOL_PREFIX) + "(")

        def argument(index: IntAttr) -> None:
            if index.data == SO_FAR:
                printer.print_string("_")
            else:
                value = self.extras[index.data]
                printer.print_ssa_value(value)
                printer.print_string(" : ")
                printer.print_attribute(value.type)

        printer.print_list(step.arguments, argument)
        printer.print_string(")")
        if step.options.data:
            printer.print_string(" ")
            printer.print_attr_dict(step.options.data)
        printer.print_string(" -> ")
        printer.print_attribute(step.result)


def _parse_step(parser: Parser, extras: list[SSAValue]) -> EpilogueStepAttr:
    family = parser.parse_identifier()

    def argument() -> IntAttr:
        if parser.parse_optional_keyword("_") is not None:
            return IntAttr(SO_FAR)
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        extras.append(parser.resolve_operand(unresolved, parser.parse_type()))
        return IntAttr(len(extras) - 1)

    arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    options = parser.parse_optional_attr_dict()
    parser.parse_punctuation("->")
    result = parser.parse_type()
    if not isinstance(result, TensorType):
        parser.raise_error(f"{result} is not a tensor")
    return EpilogueStepAttr(
        StringAttr(SYMBOL_PREFIX + family), ArrayAttr(arguments), DictionaryAttr(options), result
    )
