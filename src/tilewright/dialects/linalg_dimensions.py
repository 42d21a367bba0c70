"""linalg ops that read whole dimensions: reduce, map, transpose, broadcast, softmax.

`linalg.reduce` and `linalg.map` may write a one-op body short, as `{ arith.addf }`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

from tilewright.dialects.linalg_structured import (
    PARALLEL,
    REDUCTION,
    StructuredOp,
    body_region,
    element_type,
    parse_dimension_list,
    parse_result_types,
    parse_typed_operands,
    print_dimension_list,
    print_result_types,
    print_typed_operands,
)
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    Block,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    IRDLOperation,
    IteratorTypeAttr,
    Operation,
    Parser,
    Printer,
    Region,
    SameVariadicOperandSize,
    ShapedType,
    SSAValue,
    TensorType,
    VerifyException,
    YieldOp,
    arith,
    i64,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_result_def,
)

# ---------------------------------------------------------- a map or a reduction over a named body


def short_body(op: StructuredOp, init_first: bool) -> Operation | None:
    """The one op of a body that the short form `{ arith.addf }` can say, else None.

    The short form lists the body's arguments in order, the initial values first when `init_first`.
    """
    block = op.body.block
    operations = list(block.ops)
    if len(operations) != 2 or len(op.outputs) != 1:
        return None
    payload, terminator = operations
    arguments = list(block.args)
    count = len(op.inputs)
    wanted = arguments[count:] + arguments[:count] if init_first else arguments[:count]
    if payload.regions or payload.successors or list(payload.operands) != wanted:
        return None
    if len(payload.results) != 1 or list(terminator.operands) != [payload.results[0]]:
        return None
    return payload


def parse_short_body(parser: Parser) -> tuple[type[Operation], dict[str, Attribute]] | None:
    """The op name and attributes of `{ arith.addf {…} }`."""
    if parser.parse_optional_punctuation("{") is None:
        return None
    position = parser.pos
    name = parser.parse_identifier("the name of the body's op")
    op_type = parser.ctx.get_optional_op(name)
    if op_type is None:
        parser.raise_error(f"operation {name} is not registered", position)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation("}")
    return op_type, attributes


def expand_short_body(
    op_type: type[Operation],
    attributes: dict[str, Attribute],
    operands: Sequence[SSAValue],
    inputs: int,
    init_first: bool,
) -> Region:
    """The region that `{ op_type }` stands for."""
    block = Block(arg_types=[element_type(operand.type) for operand in operands])
    arguments = list(block.args)
    chosen = arguments[inputs:] + arguments[:inputs] if init_first else arguments[:inputs]
    properties: dict[str, Attribute] = {}
    if issubclass(op_type, IRDLOperation):
        known = op_type.get_irdl_definition().properties
        properties = {key: attributes.pop(key) for key in list(attributes) if key in known}
        if "fastmath" in known:
            properties.setdefault("fastmath", arith.FastMathFlagsAttr("none"))
        if "overflowFlags" in known:
            properties.setdefault("overflowFlags", arith.IntegerOverflowAttr("none"))
    payload = op_type.create(
        operands=chosen,
        result_types=[arguments[-1].type],
        properties=properties,
        attributes=attributes,
    )
    block.add_ops([payload, YieldOp(payload.results[0])])
    return Region(block)


def print_short_body(printer: Printer, payload: Operation) -> None:
    printer.print_string(f" {{ {payload.name}")
    extra = dict(payload.attributes)
    for key, value in payload.properties.items():
        plain = isinstance(value, arith.FastMathFlagsAttr | arith.IntegerOverflowAttr)
        if not (plain and not value.data):
            extra[key] = value
    if extra:
        printer.print_string(" ")
        printer.print_attr_dict(extra)
    printer.print_string(" }")


@irdl_op_definition
class ReduceOp(StructuredOp):
    """Fold some dimensions of the inputs into initial values."""

    name = "linalg.reduce"
    dimensions = prop_def(DenseArrayBase.constr(i64))
    irdl_options = (SameVariadicOperandSize(),)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        rank = len(cast(ShapedType, self.inputs[0].type).get_shape())
        reduced = set(self.dimensions.get_values())
        kept = tuple(AffineDimExpr(d) for d in range(rank) if d not in reduced)
        ins, outs = AffineMap.identity(rank), AffineMap(rank, 0, kept)
        return ArrayAttr(
            [AffineMapAttr(ins)] * len(self.inputs) + [AffineMapAttr(outs)] * len(self.outputs)
        )

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        rank = len(cast(ShapedType, self.inputs[0].type).get_shape())
        reduced = set(self.dimensions.get_values())
        return ArrayAttr(REDUCTION if d in reduced else PARALLEL for d in range(rank))

    def verify_(self) -> None:
        rank = len(cast(ShapedType, self.inputs[0].type).get_shape())
        numbers = self.dimensions.get_values()
        if len(set(numbers)) != len(numbers) or any(not 0 <= d < rank for d in numbers):
            raise VerifyException(f"dimensions {list(numbers)} do not name dimensions of the input")
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        short = parse_short_body(parser)
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        dimensions = parse_dimension_list(parser, "dimensions")
        attributes = parser.parse_optional_attr_dict() if short else {}
        if short:
            body = expand_short_body(*short, (*inputs, *outputs), len(inputs), init_first=True)
        else:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_argument
            )
            body = parser.parse_region(arguments)
        return cls.build(
            operands=[inputs, outputs],
            result_types=[[output.type for output in outputs]],
            properties={"dimensions": dimensions},
            attributes=attributes,
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        payload = short_body(self, init_first=True)
        if payload is not None:
            print_short_body(printer, payload)
        print_typed_operands(printer, "ins", self.inputs)
        print_typed_operands(printer, "outs", self.outputs)
        print_dimension_list(printer, "dimensions", self.dimensions.get_values())
        if payload is None:
            print_body_with_arguments(printer, self.body)


def print_body_with_arguments(printer: Printer, body: Region) -> None:
    printer.print_string(" (")
    printer.print_list(body.block.args, printer.print_block_argument)
    printer.print_string(") ")
    printer.print_region(body, print_entry_block_args=False)


@irdl_op_definition
class MapOp(StructuredOp):
    """Apply a scalar body to every element; the body also takes the old output element."""

    name = "linalg.map"
    outputs = operand_def(TensorType)

    @classmethod
    def create(
        cls, *, operands: Sequence[SSAValue] = (), regions: Sequence[Region] = (), **others: Any
    ) -> Self:
        # Older text has no body argument for the output. (A copy starts with an empty region.)
        if operands and regions and regions[0].blocks:
            body = regions[0].block
            if len(body.args) == len(operands) - 1:
                body.insert_arg(element_type(operands[-1].type), len(body.args))
        return super().create(operands=operands, regions=regions, **others)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        rank = len(cast(ShapedType, self.operands[-1].type).get_shape())
        return ArrayAttr([AffineMapAttr(AffineMap.identity(rank))] * len(self.operands))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        rank = len(cast(ShapedType, self.operands[-1].type).get_shape())
        return ArrayAttr([PARALLEL] * rank)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        short = parse_short_body(parser)
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        if len(outputs) != 1:
            parser.raise_error("linalg.map has exactly one output")
        attributes = parser.parse_optional_attr_dict() if short else {}
        if short:
            body = expand_short_body(*short, (*inputs, *outputs), len(inputs), init_first=False)
        else:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_argument
            )
            body = parser.parse_region(arguments)
        return cls.create(
            operands=[*inputs, *outputs],
            result_types=[output.type for output in outputs],
            attributes=attributes,
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        payload = short_body(self, init_first=False)
        if payload is not None:
            print_short_body(printer, payload)
        print_typed_operands(printer, "ins", self.inputs)
        print_typed_operands(printer, "outs", self.operands[-1:])
        if payload is None:
            print_body_with_arguments(printer, self.body)


# One output, and so no segment sizes, yet read as a sequence like that of every structured op.
MapOp.outputs = property(lambda self: self.operands[-1:])  # type: ignore[assignment]


# --------------------------------------------------------------------------- moving data, no maths


class MoveOp(StructuredOp):
    """An op whose body yields its input unchanged; the text form names dimensions only."""

    irdl_options = (SameVariadicOperandSize(),)
    KEYWORD: ClassVar[str]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        if len(inputs) != 1 or len(outputs) != 1:
            parser.raise_error(f"{cls.name} has one input and one output")
        numbers = parse_dimension_list(parser, cls.KEYWORD)
        attributes = parser.parse_optional_attr_dict()
        op = cls.build(
            operands=[inputs, outputs],
            result_types=[[output.type for output in outputs]],
            properties={cls.KEYWORD: numbers},
            attributes=attributes,
            regions=[body_region((*inputs, *outputs), lambda add, value, _: value)],
        )
        return op

    def print(self, printer: Printer) -> None:
        print_typed_operands(printer, "ins", self.inputs)
        print_typed_operands(printer, "outs", self.outputs)
        numbers = cast("DenseArrayBase[IntegerType]", self.properties[self.KEYWORD]).get_values()
        print_dimension_list(printer, self.KEYWORD, numbers)
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        return ArrayAttr([PARALLEL] * rank)


@irdl_op_definition
class TransposeOp(MoveOp):
    """Result dimension i is input dimension permutation[i]."""

    name = "linalg.transpose"
    KEYWORD: ClassVar[str] = "permutation"
    permutation = prop_def(DenseArrayBase.constr(i64))

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        numbers = self.permutation.get_values()
        rank = len(numbers)
        inverse = sorted(range(rank), key=lambda d: numbers[d])
        source = AffineMap(rank, 0, tuple(AffineDimExpr(d) for d in inverse))
        return ArrayAttr([AffineMapAttr(source), AffineMapAttr(AffineMap.identity(rank))])

    def verify_(self) -> None:
        rank = len(cast(ShapedType, self.inputs[0].type).get_shape())
        if sorted(self.permutation.get_values()) != list(range(rank)):
            raise VerifyException(
                f"permutation {list(self.permutation.get_values())} does not reorder {rank} dimensions"
            )
        super().verify_()


@irdl_op_definition
class BroadcastOp(MoveOp):
    """The input repeated along new dimensions of the result."""

    name = "linalg.broadcast"
    KEYWORD: ClassVar[str] = "dimensions"
    dimensions = prop_def(DenseArrayBase.constr(i64))

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        added = set(self.dimensions.get_values())
        kept = tuple(AffineDimExpr(d) for d in range(rank) if d not in added)
        identity = AffineMapAttr(AffineMap.identity(rank))
        return ArrayAttr([AffineMapAttr(AffineMap(rank, 0, kept)), identity])

    def verify_(self) -> None:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        numbers = self.dimensions.get_values()
        if len(set(numbers)) != len(numbers) or any(not 0 <= d < rank for d in numbers):
            raise VerifyException(
                f"dimensions {list(numbers)} do not name dimensions of the result"
            )
        super().verify_()


@irdl_op_definition
class SoftmaxOp(IRDLOperation):
    """exp(x - max) divided by its sum, along one dimension."""

    name = "linalg.softmax"
    input = operand_def(TensorType)
    output = operand_def(TensorType)
    res = var_result_def(TensorType)
    dimension = prop_def(IntegerAttr[i64])

    def __init__(self, input: SSAValue, output: SSAValue, dimension: int) -> None:
        super().__init__(
            operands=[input, output],
            result_types=[[output.type]],
            properties={"dimension": IntegerAttr(dimension, i64)},
        )

    def verify_(self) -> None:
        source, target = cast(TensorType, self.input.type), cast(TensorType, self.output.type)
        if source.get_shape() != target.get_shape():
            raise VerifyException(f"expected the output to have the input's shape, not {target}")
        if not 0 <= self.dimension.value.data < len(source.get_shape()):
            raise VerifyException(
                f"dimension {self.dimension.value.data} is not one of the input's "
                f"{len(source.get_shape())}"
            )
        if self.res and self.res[0].type != target:
            raise VerifyException(f"expected the result to have the output's type, {target}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        parser.parse_keyword("dimension")
        with parser.in_parens():
            dimension = parser.parse_integer()
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        if len(inputs) != 1 or len(outputs) != 1:
            parser.raise_error("linalg.softmax has one input and one output")
        parse_result_types(parser)
        op = cls(inputs[0], outputs[0], dimension)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(f" dimension({self.dimension.value.data})")
        print_typed_operands(printer, "ins", [self.input])
        print_typed_operands(printer, "outs", [self.output])
        print_result_types(printer, [result.type for result in self.res])
