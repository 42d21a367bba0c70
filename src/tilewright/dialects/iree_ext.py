"""The ops of IREE's dialects that models arrive with: attention, and the wrappers around functions.

`iree_linalg_ext.attention` is softmax(scale * q kᵀ [+ mask]) v with one affine map per operand; its
region takes the score and yields the score to use (identity unless a model caps its scores). The
`util`, `hal` and `iree_tensor_ext` ops only wrap a function's inputs and outputs: reading a file
turns them into plain function arguments and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from tilewright.dialects.linalg_structured import (
    element_type,
    parse_result_types,
    parse_typed_operands,
    print_result_types,
    print_typed_operands,
)
from tilewright.dialects.xdsl_api import (
    AbstractYieldOperation,
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    Dialect,
    IRDLOperation,
    IsTerminator,
    Parser,
    Printer,
    Pure,
    Region,
    ShapedType,
    SSAValue,
    TensorType,
    VerifyException,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """The score that attention goes on with."""

    name = "iree_linalg_ext.yield"
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """softmax(scale * q kᵀ [masked]) v; operands q, k, v, scale, [mask,] and the output buffer."""

    name = "iree_linalg_ext.attention"
    arguments = var_operand_def()
    res = var_result_def(TensorType)
    body = region_def("single_block")
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        output: SSAValue,
        indexing_maps: Sequence[AffineMapAttr] | ArrayAttr[AffineMapAttr],
        body: Region,
    ) -> None:
        super().__init__(
            operands=[[*inputs, output]],
            result_types=[[output.type]],
            properties={"indexing_maps": ArrayAttr(indexing_maps)},
            regions=[body],
        )

    @property
    def query(self) -> SSAValue:
        return self.operands[0]

    @property
    def key(self) -> SSAValue:
        return self.operands[1]

    @property
    def value(self) -> SSAValue:
        return self.operands[2]

    @property
    def scale(self) -> SSAValue:
        return self.operands[3]

    @property
    def mask(self) -> SSAValue | None:
        return self.operands[4] if len(self.operands) == 6 else None

    @property
    def output(self) -> SSAValue:
        return self.operands[-1]

    @property
    def operand_maps(self) -> tuple[AffineMap, ...]:
        return tuple(attribute.data for attribute in self.indexing_maps)

    @property
    def keeps_score(self) -> bool:
        """Whether the region yields the score unchanged."""
        block = self.body.block
        return len(list(block.ops)) == 1 and block.last_op.operands[0] is block.args[0]  # type: ignore[union-attr]

    def verify_(self) -> None:
        if len(self.operands) not in (5, 6):
            raise VerifyException(
                "expected q, k, v, scale, an optional mask and the output, "
                f"but got {len(self.operands)} operands"
            )
        if len(self.indexing_maps) != len(self.operands):
            raise VerifyException(
                f"expected {len(self.operands)} indexing maps, one per operand, "
                f"but got {len(self.indexing_maps)}"
            )
        maps = self.operand_maps
        loops = maps[0].num_dims
        ranges: dict[int, int] = {}
        for number, (operand, indexing_map) in enumerate(zip(self.operands, maps, strict=True)):
            shaped = isinstance(operand.type, ShapedType)
            shape = cast(ShapedType, operand.type).get_shape() if shaped else ()
            if indexing_map.num_dims != loops:
                raise VerifyException(f"indexing map #{number} is not over the same {loops} loops")
            if len(indexing_map.results) != len(shape):
                raise VerifyException(
                    f"indexing map #{number} has {len(indexing_map.results)} results, "
                    f"its operand has rank {len(shape)}"
                )
            for expression, size in zip(indexing_map.results, shape, strict=True):
                if not isinstance(expression, AffineDimExpr):
                    raise VerifyException(f"indexing map #{number} is not a projection")
                if ranges.setdefault(expression.position, size) != size:
                    raise VerifyException(
                        f"indexing map #{number} gives loop d{expression.position} the range "
                        f"{size}, another operand gives it {ranges[expression.position]}"
                    )
        if set(ranges) != set(range(loops)):
            raise VerifyException("some loop appears in no indexing map")
        if not self.res or self.res[0].type != self.output.type:
            raise VerifyException("expected one result of the output's type")
        block = self.body.block
        if len(block.args) != 1 or not isinstance(block.last_op, YieldOp):
            raise VerifyException("expected a region that takes one score and yields one")
        if [value.type for value in block.last_op.operands] != [block.args[0].type]:
            raise VerifyException("expected the region to yield a value of the score's type")
        if isinstance(self.scale.type, ShapedType):
            raise VerifyException("expected the scale to be a scalar")
        kinds = [element_type(v.type) for v in (self.query, self.key, self.value)]
        if any(not hasattr(kind, "bitwidth") for kind in kinds):
            raise VerifyException(f"q, k and v have no numeric element types: {kinds}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        maps: Attribute | None = None
        if parser.parse_optional_punctuation("<") is not None:
            parser.parse_keyword("indexing_maps")
            parser.parse_punctuation("=")
            maps = parser.parse_attribute()
            parser.parse_punctuation(">")
        parser.parse_optional_keyword("attributes")
        attributes = parser.parse_optional_attr_dict()
        maps = attributes.pop("indexing_maps", maps)  # IREE has printed them in either place
        if not isinstance(maps, ArrayAttr):
            parser.raise_error("expected indexing_maps, a list of affine maps", position)
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        if len(outputs) != 1:
            parser.raise_error("iree_linalg_ext.attention has one output")
        body = parser.parse_region()
        parse_result_types(parser)
        op = cls(inputs, outputs[0], cast("ArrayAttr[AffineMapAttr]", maps), body)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" <indexing_maps = ")
        printer.print_attribute(self.indexing_maps)
        printer.print_string(">")
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        print_typed_operands(printer, "ins", self.operands[:-1])
        print_typed_operands(printer, "outs", self.operands[-1:])
        printer.print_string(" ")
        printer.print_region(self.body)
        print_result_types(printer, [result.type for result in self.res])


IREELinalgExt = Dialect("iree_linalg_ext", [AttentionOp, YieldOp])
