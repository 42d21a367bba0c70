"""arith on whole tensors, where xDSL's definitions take scalars only.

Comparisons, selection and integer casts keep their names and scalar forms and are subclasses of
xDSL's classes; operands and results may also be tensors, and a comparison of tensors is a tensor of
bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

from tilewright.dialects.xdsl_api import (
    AnyAttr,
    AnyFloat,
    Attribute,
    Dialect,
    IndexType,
    IntegerAttr,
    IntegerType,
    OpDef,
    OperandDef,
    Operation,
    Parser,
    Printer,
    ResultDef,
    TensorType,
    VerifyException,
    arith,
    i1,
    i64,
)


def _widened(base: type[Operation]) -> OpDef:
    """The definition of a class with operands and results of any type."""
    definition: OpDef = base.get_irdl_definition()  # type: ignore[attr-defined]
    return replace(
        definition,
        operands=[(name, OperandDef(AnyAttr())) for name, _ in definition.operands],
        results=[(name, ResultDef(AnyAttr())) for name, _ in definition.results],
    )


def _shape(type_: Attribute) -> tuple[int, ...] | None:
    return tuple(type_.get_shape()) if isinstance(type_, TensorType) else None


def _element(type_: Attribute) -> Attribute:
    return type_.element_type if isinstance(type_, TensorType) else type_


def _bits_like(type_: Attribute) -> Attribute:
    """i1, or a tensor of i1 with the shape of a tensor."""
    return TensorType(i1, type_.get_shape()) if isinstance(type_, TensorType) else i1


class TensorForm(Operation):
    """What the classes below share: a widened definition, and a check of their own."""

    DEFINITION: ClassVar[OpDef]

    @classmethod
    def get_irdl_definition(cls) -> OpDef:
        return cls.DEFINITION

    def verify_(self) -> None:
        self.DEFINITION.verify(self)
        self.check()

    def check(self) -> None:
        raise NotImplementedError


class Comparison(TensorForm):
    """`olt, %a, %b : type`, a bit per element."""

    NAMES: ClassVar[list[str]]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        word = parser.parse_identifier()
        if word not in cls.NAMES:
            parser.raise_error(
                f"{word} is no comparison; there are {', '.join(cls.NAMES)}", position
            )
        parser.parse_punctuation(",")
        left = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        right = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {}
        if "fastmath" in cls.DEFINITION.properties:
            flags = arith.FastMathFlagsAttr("none")
            if parser.parse_optional_keyword("fastmath") is not None:
                flags = arith.FastMathFlagsAttr(arith.FastMathFlagsAttr.parse_parameter(parser))
            properties["fastmath"] = flags
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands([left, right], [type_, type_], position),
            result_types=[_bits_like(type_)],
            properties={"predicate": IntegerAttr(cls.NAMES.index(word), i64), **properties},
            attributes=attributes,
        )

    def check(self) -> None:
        left, right = (operand.type for operand in self.operands)
        wanted = _bits_like(left)
        if left != right or self.results[0].type != wanted:
            raise VerifyException(
                f"compares {left} with {right} into {self.results[0].type}, needs {wanted}"
            )


class CmpfOp(Comparison, arith.CmpfOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.CmpfOp)
    NAMES: ClassVar[list[str]] = arith.CMPF_COMPARISON_OPERATIONS


class CmpiOp(Comparison, arith.CmpiOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.CmpiOp)
    NAMES: ClassVar[list[str]] = arith.CMPI_COMPARISON_OPERATIONS


class SelectOp(TensorForm, arith.SelectOp):
    """`%c, %a, %b : type`, or with a condition per element `: tensor of i1, type`."""

    DEFINITION: ClassVar[OpDef] = _widened(arith.SelectOp)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition: Attribute = i1
        type_ = parser.parse_type()
        if parser.parse_optional_punctuation(","):
            condition, type_ = type_, parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(operands, [condition, type_, type_], position),
            result_types=[type_],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.operands[0].type != i1:
            printer.print_attribute(self.operands[0].type)
            printer.print_string(", ")
        printer.print_attribute(self.results[0].type)

    def check(self) -> None:
        condition, first, second = (operand.type for operand in self.operands)
        if first != second or self.results[0].type != first:
            raise VerifyException(f"selects {first} or {second} into {self.results[0].type}")
        if condition not in (i1, _bits_like(first)):
            raise VerifyException(f"selects by {condition}, needs i1 or {_bits_like(first)}")


class Cast(TensorForm):
    """`%x : type to type`, element by element."""

    SOURCE: ClassVar[tuple] = (IntegerType,)
    TARGET: ClassVar[tuple] = (IntegerType,)
    WIDER: ClassVar[bool | None] = None

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_keyword("to")
        return cls.create(
            operands=[parser.resolve_operand(operand, source)],
            result_types=[parser.parse_type()],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operands[0])
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operands[0].type)
        printer.print_string(" to ")
        printer.print_attribute(self.results[0].type)

    def check(self) -> None:
        source, target = self.operands[0].type, self.results[0].type
        if _shape(source) != _shape(target):
            raise VerifyException(f"casts {source} to {target}, whose shape differs")
        of, to = _element(source), _element(target)
        if not isinstance(of, self.SOURCE) or not isinstance(to, self.TARGET):
            raise VerifyException(f"casts {source} to {target}")
        if self.WIDER is not None:
            widths = [t.width.data for t in (of, to) if isinstance(t, IntegerType)]
            if len(widths) == 2 and (widths[1] > widths[0]) != self.WIDER:
                raise VerifyException(
                    f"casts {source} to {target}, which is not "
                    f"{'wider' if self.WIDER else 'narrower'}"
                )


class ExtSIOp(Cast, arith.ExtSIOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.ExtSIOp)
    WIDER: ClassVar[bool | None] = True


class ExtUIOp(Cast, arith.ExtUIOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.ExtUIOp)
    WIDER: ClassVar[bool | None] = True


class TruncIOp(Cast, arith.TruncIOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.TruncIOp)
    WIDER: ClassVar[bool | None] = False


class SIToFPOp(Cast, arith.SIToFPOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.SIToFPOp)
    TARGET: ClassVar[tuple] = (AnyFloat,)


class UIToFPOp(Cast, arith.UIToFPOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.UIToFPOp)
    TARGET: ClassVar[tuple] = (AnyFloat,)


class FPToSIOp(Cast, arith.FPToSIOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.FPToSIOp)
    SOURCE: ClassVar[tuple] = (AnyFloat,)


class FPToUIOp(Cast, arith.FPToUIOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.FPToUIOp)
    SOURCE: ClassVar[tuple] = (AnyFloat,)


class IndexCastOp(Cast, arith.IndexCastOp):
    DEFINITION: ClassVar[OpDef] = _widened(arith.IndexCastOp)
    SOURCE: ClassVar[tuple] = (IntegerType, IndexType)
    TARGET: ClassVar[tuple] = (IntegerType, IndexType)


OURS: list[type[Operation]] = [
    CmpfOp,
    CmpiOp,
    SelectOp,
    ExtSIOp,
    ExtUIOp,
    TruncIOp,
    SIToFPOp,
    UIToFPOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
]
_BY_NAME = {op.name: op for op in OURS}

Arith = Dialect(
    "arith",
    [_BY_NAME.get(op.name, op) for op in arith.Arith.operations],
    list(arith.Arith.attributes),
    [arith.ArithConstantMaterializationInterface()],
)
