"""The base of every structured linalg op, and the ops whose body the user writes.

A structured op is loops, one affine map per operand and a scalar body; a named op is the same thing
with a fixed body. All of them answer `get_indexing_maps()`, `get_iterator_types()` and `body`, so a
pass or an interpreter that understands `linalg.generic` understands every op in this file and in
`linalg_named`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, cast

from tilewright.dialects.xdsl_api import (
    AffineMap,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    AttrSizedOperandSegments,
    Block,
    DenseArrayBase,
    HasParent,
    IndexType,
    IntegerAttr,
    IntegerType,
    IRDLOperation,
    IteratorType,
    IteratorTypeAttr,
    LinalgStructuredOperation,
    Operation,
    Parser,
    Printer,
    Pure,
    Region,
    ShapedType,
    SSAValue,
    StringAttr,
    TensorType,
    VerifyException,
    YieldOp,
    arith,
    i64,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)

PARALLEL = IteratorTypeAttr(IteratorType.PARALLEL)
REDUCTION = IteratorTypeAttr(IteratorType.REDUCTION)


# ------------------------------------------------------------------------- pieces of the text form


def parse_typed_operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """The values of `keyword(%a, %b : type, type)`, or none when the keyword is absent."""
    position = parser.pos
    if parser.parse_optional_keyword(keyword) is None:
        return ()
    parser.parse_punctuation("(")
    if parser.parse_optional_punctuation(")"):
        return ()
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return parser.resolve_operands(operands, types, position)


def parse_result_types(parser: Parser) -> Sequence[Attribute]:
    """The types behind `->`: one, or several in parentheses, or none."""
    if parser.parse_optional_punctuation("->") is None:
        return ()
    several = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return several if several is not None else (parser.parse_type(),)


def print_typed_operands(printer: Printer, keyword: str, operands: Sequence[SSAValue]) -> None:
    if not operands:
        return
    printer.print_string(f" {keyword}(")
    printer.print_list(operands, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list(operands, lambda operand: printer.print_attribute(operand.type))
    printer.print_string(")")


def print_result_types(printer: Printer, types: Sequence[Attribute]) -> None:
    if len(types) == 1:
        printer.print_string(" -> ")
        printer.print_attribute(types[0])
    elif types:
        printer.print_string(" -> (")
        printer.print_list(types, printer.print_attribute)
        printer.print_string(")")


def parse_dimension_list(parser: Parser, keyword: str) -> DenseArrayBase:
    """The numbers of `keyword = [1, 0]`."""
    parser.parse_keyword(keyword)
    parser.parse_punctuation("=")
    numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return DenseArrayBase.from_list(i64, numbers)


def print_dimension_list(printer: Printer, keyword: str, numbers: Sequence[int]) -> None:
    printer.print_string(f" {keyword} = [{', '.join(map(str, numbers))}]")


# ------------------------------------------------------------------------------------------ bodies


def element_type(value_type: Attribute) -> Attribute:
    """The type of one element, or of the scalar itself."""
    if isinstance(value_type, ShapedType):
        return cast(TensorType, value_type).get_element_type()
    return value_type


def body_region(operands: Sequence[SSAValue], build: Callable[..., SSAValue]) -> Region:
    """A single block over the operands' elements that yields what `build(add, *arguments)` returns.

    `build` receives a function that appends an operation and returns its first result.
    """
    block = Block(arg_types=[element_type(operand.type) for operand in operands])

    def add(operation: Operation) -> SSAValue:
        block.add_op(operation)
        return operation.results[0]

    block.add_op(YieldOp(build(add, *block.args)))
    return Region(block)


def convert_element(
    add: Callable[[Operation], SSAValue],
    value: SSAValue,
    to: Attribute,
    unsigned: bool = False,
) -> SSAValue:
    """`value` as type `to`, by the one arith cast that says so."""
    of = value.type
    if of == to:
        return value
    if isinstance(of, AnyFloat) and isinstance(to, AnyFloat):
        wider = to.bitwidth > of.bitwidth
        return add((arith.ExtFOp if wider else arith.TruncFOp)(value, to))
    if isinstance(of, IntegerType) and isinstance(to, IntegerType):
        if to.width.data < of.width.data:
            return add(arith.TruncIOp(value, to))
        return add((arith.ExtUIOp if unsigned else arith.ExtSIOp)(value, to))
    if isinstance(of, IntegerType) and isinstance(to, AnyFloat):
        return add((arith.UIToFPOp if unsigned else arith.SIToFPOp)(value, to))
    if isinstance(of, AnyFloat) and isinstance(to, IntegerType):
        return add((arith.FPToUIOp if unsigned else arith.FPToSIOp)(value, to))
    raise VerifyException(f"no cast from {of} to {to}")


# --------------------------------------------------------------------------------------- the base


class StructuredOp(LinalgStructuredOperation):
    """A structured op on tensors; subclasses add maps, iterators and the text form."""

    @property
    def operand_maps(self) -> tuple[AffineMap, ...]:
        """One affine map per operand, inputs then outputs."""
        return tuple(attribute.data for attribute in self.get_indexing_maps())

    @property
    def iterators(self) -> tuple[str, ...]:
        """`parallel`, `reduction` or `window` for each loop."""
        return tuple(str(attribute.data) for attribute in self.get_iterator_types())

    def verify_(self) -> None:
        super().verify_()
        if self.res and len(self.res) != len(self.outputs):
            raise VerifyException(
                f"expected one result per output, {len(self.outputs)}, but got {len(self.res)}"
            )
        for output, result in zip(self.outputs, self.res, strict=False):
            if output.type != result.type:
                raise VerifyException(
                    f"expected the result type {result.type} to be the type of its output, "
                    f"{output.type}"
                )
        terminator = self.body.block.last_op
        if not isinstance(terminator, YieldOp):
            raise VerifyException("expected the body to end in linalg.yield")
        yielded = [operand.type for operand in terminator.operands]
        wanted = [element_type(output.type) for output in self.outputs]
        if yielded != wanted:
            raise VerifyException(
                f"expected the body to yield {', '.join(map(str, wanted))}, "
                f"but it yields {', '.join(map(str, yielded))}"
            )


@irdl_op_definition
class GenericOp(StructuredOp):
    """Loops over affine maps with a scalar body."""

    name = "linalg.generic"
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    iterator_types = prop_def(ArrayAttr[IteratorTypeAttr])
    doc = opt_prop_def(StringAttr)
    library_call = opt_prop_def(StringAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        body: Region,
        indexing_maps: Sequence[AffineMapAttr] | ArrayAttr[AffineMapAttr],
        iterator_types: Sequence[IteratorTypeAttr] | ArrayAttr[IteratorTypeAttr],
        result_types: Sequence[Attribute] = (),
        doc: StringAttr | None = None,
        library_call: StringAttr | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs, outputs],
            result_types=[result_types],
            properties={
                "indexing_maps": ArrayAttr(indexing_maps),
                "iterator_types": ArrayAttr(iterator_types),
                "doc": doc,
                "library_call": library_call,
            },
            regions=[body],
        )

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        return self.indexing_maps

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return self.iterator_types

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        header = parser.parse_optional_attr_dict()
        maps, iterators = header.pop("indexing_maps", None), header.pop("iterator_types", None)
        if not isinstance(maps, ArrayAttr) or not all(isinstance(m, AffineMapAttr) for m in maps):
            parser.raise_error("linalg.generic needs indexing_maps, a list of maps", position)
        if not isinstance(iterators, ArrayAttr):
            parser.raise_error("linalg.generic needs iterator_types, a list of names", position)
        kinds = []
        for kind in iterators:
            if isinstance(kind, StringAttr) and kind.data in [str(k) for k in IteratorType]:
                kind = IteratorTypeAttr(IteratorType(kind.data))
            if not isinstance(kind, IteratorTypeAttr):
                parser.raise_error(f"unknown iterator type {kind}", position)
            kinds.append(kind)
        doc, library_call = header.pop("doc", None), header.pop("library_call", None)
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        if parser.parse_optional_keyword("attrs"):
            parser.parse_punctuation("=")
            header |= parser.parse_optional_attr_dict()
        body = parser.parse_region()
        results = parse_result_types(parser)
        op = cls(
            inputs,
            outputs,
            body,
            cast("ArrayAttr[AffineMapAttr]", maps),
            kinds,
            results,
            doc if isinstance(doc, StringAttr) else None,
            library_call if isinstance(library_call, StringAttr) else None,
        )
        op.attributes.update(header)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" {indexing_maps = ")
        printer.print_attribute(self.indexing_maps)
        kinds = ", ".join(f'"{kind.data.value}"' for kind in self.iterator_types)
        printer.print_string(f", iterator_types = [{kinds}]")
        for key, value in (("doc", self.doc), ("library_call", self.library_call)):
            if value is not None:
                printer.print_string(f", {key} = ")
                printer.print_attribute(value)
        printer.print_string("}")
        print_typed_operands(printer, "ins", self.inputs)
        print_typed_operands(printer, "outs", self.outputs)
        if self.attributes:
            printer.print_string(" attrs = ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body)
        print_result_types(printer, [result.type for result in self.res])


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The current value of one loop, inside a structured op's body."""

    name = "linalg.index"
    dim = prop_def(IntegerAttr[i64])
    result = result_def(IndexType())
    traits = traits_def(HasParent(GenericOp), Pure())
    assembly_format = "$dim attr-dict `:` type($result)"

    def __init__(self, dim: int) -> None:
        super().__init__(properties={"dim": IntegerAttr(dim, i64)}, result_types=[IndexType()])
