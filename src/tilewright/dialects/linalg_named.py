"""linalg's named ops: contractions, element-wise ops, convolutions, pooling.

Each class is a name and one line of index notation. `"mnk: mk, kn -> mn"` reads: loops m, n, k in
this order, operands indexed mk and kn, result mn; loops that the result does not use are summed.
Operands of another type than the result are converted first, as linalg defines it, so mixed
precision needs nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Self, cast

from tilewright.dialects.linalg_structured import (
    PARALLEL,
    REDUCTION,
    StructuredOp,
    body_region,
    convert_element,
    parse_result_types,
    parse_typed_operands,
    print_result_types,
    print_typed_operands,
)
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    AttrSizedOperandSegments,
    IteratorTypeAttr,
    Operation,
    Parser,
    Printer,
    Region,
    SSAValue,
    TensorType,
    VerifyException,
    arith,
    i1,
    irdl_op_definition,
    opt_prop_def,
)

Adder = Callable[[Operation], SSAValue]


class NamedOp(StructuredOp):
    """A structured op with a fixed body; attributes come first in the text form."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    # Whether operand maps may be given in the text form.
    HAS_MAPS: ClassVar[bool] = False
    # What the attribute dictionary of the text form leaves out.
    HIDDEN: ClassVar[tuple[str, ...]] = (
        "operandSegmentSizes",
        "indexing_maps",
        "linalg.memoized_indexing_maps",
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        result_types: Sequence[Attribute] | None = None,
        properties: dict[str, Attribute] | None = None,
        attributes: dict[str, Attribute] | None = None,
    ) -> None:
        properties = properties or {}
        if result_types is None:
            result_types = [o.type for o in outputs if isinstance(o.type, TensorType)]
        super().__init__(
            operands=[inputs, outputs],
            result_types=[result_types],
            properties=properties,
            attributes=attributes or {},
            regions=[self.fixed_body(inputs, outputs, properties)],
        )
        # MLIR's generic form spells the maps out, its custom form leaves the usual ones out.
        if self.HAS_MAPS and "indexing_maps" not in properties:
            usual = self.default_maps()
            if usual is not None:
                self.properties["indexing_maps"] = usual

    @classmethod
    def fixed_body(
        cls,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        properties: dict[str, Attribute],
    ) -> Region:
        """The region this op stands for."""
        unsigned = "cast_unsigned" in str(properties.get("cast", ""))

        def build(add: Adder, *arguments: SSAValue) -> SSAValue:
            return cls.compute(add, unsigned, *arguments)

        return body_region((*inputs, *outputs), build)

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        """The scalar result, from the operands' elements and last the old output element."""
        raise NotImplementedError

    @classmethod
    def parse_header(cls, parser: Parser) -> dict[str, Attribute]:
        """What stands between the op's name and its attribute dictionary."""
        header: dict[str, Attribute] = {}
        if cls.HAS_MAPS and parser.parse_optional_keyword("indexing_maps"):
            parser.parse_punctuation("=")
            header["indexing_maps"] = parser.parse_attribute()
        return header

    def print_header(self, printer: Printer) -> None:
        maps = self.properties.get("indexing_maps")
        if maps is not None and maps != self.default_maps():
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(maps)

    def default_maps(self) -> ArrayAttr[AffineMapAttr] | None:
        """The maps that go without saying."""
        return None

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        known = cls.get_irdl_definition().properties
        attributes = cls.parse_header(parser)
        attributes |= parser.parse_optional_attr_dict()
        position = parser.pos
        inputs = parse_typed_operands(parser, "ins")
        outputs = parse_typed_operands(parser, "outs")
        if parser.parse_optional_keyword("attrs"):
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        results = parse_result_types(parser)
        properties = {key: attributes.pop(key) for key in list(attributes) if key in known}
        try:
            return cls(inputs, outputs, results, properties, attributes)
        except (VerifyException, TypeError, ValueError) as problem:
            parser.raise_error(f"{cls.name}: {problem}", position)

    def print(self, printer: Printer) -> None:
        extra = {**self.properties, **self.attributes}
        for hidden in self.HIDDEN:
            extra.pop(hidden, None)
        self.print_header(printer)
        if extra:
            printer.print_string(" ")
            printer.print_attr_dict(extra)
        print_typed_operands(printer, "ins", self.inputs)
        print_typed_operands(printer, "outs", self.outputs)
        print_result_types(printer, [result.type for result in self.res])


def _maps_of(spec: str) -> tuple[tuple[AffineMap, ...], tuple[IteratorTypeAttr, ...]]:
    """The maps (operands then result) and iterators of one line of index notation."""
    loops, rest = spec.split(":")
    operands, result = rest.split("->")
    position = {letter: index for index, letter in enumerate(loops.strip())}
    groups = [*operands.split(","), result]
    maps = tuple(
        AffineMap(len(position), 0, tuple(AffineDimExpr(position[x]) for x in group.strip()))
        for group in groups
    )
    iterators = tuple(PARALLEL if x in result else REDUCTION for x in position)
    return maps, iterators


# ------------------------------------------------------------------------------------ contractions


def multiply_accumulate(
    add: Adder, unsigned: bool, left: SSAValue, right: SSAValue, out: SSAValue
) -> SSAValue:
    """out + left * right, both operands converted to the type of `out` first."""
    a = convert_element(add, left, out.type, unsigned)
    b = convert_element(add, right, out.type, unsigned)
    if isinstance(out.type, AnyFloat):
        return add(arith.AddfOp(out, add(arith.MulfOp(a, b))))
    if out.type == i1:
        return add(arith.OrIOp(out, add(arith.AndIOp(a, b))))
    return add(arith.AddiOp(out, add(arith.MuliOp(a, b))))


class ContractionOp(NamedOp):
    """result += left * right, in the result's type."""

    SPEC: ClassVar[str]

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        return multiply_accumulate(add, unsigned, *arguments)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        given = self.properties.get("indexing_maps")
        if given is not None:
            return cast("ArrayAttr[AffineMapAttr]", given)
        return ArrayAttr(map(AffineMapAttr, _maps_of(self.SPEC)[0]))

    def default_maps(self) -> ArrayAttr[AffineMapAttr] | None:
        return ArrayAttr(map(AffineMapAttr, _maps_of(self.SPEC)[0])) if self.SPEC else None

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        if self.SPEC:
            return ArrayAttr(_maps_of(self.SPEC)[1])
        maps = self.get_indexing_maps()
        used = {e.position for e in maps.data[-1].data.results if isinstance(e, AffineDimExpr)}
        loops = maps.data[0].data.num_dims
        return ArrayAttr(PARALLEL if d in used else REDUCTION for d in range(loops))


class MappedContractionOp(ContractionOp):
    """A contraction whose operand maps may be given (transposed or broadcast operands)."""

    HAS_MAPS: ClassVar[bool] = True
    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    cast = opt_prop_def()


@irdl_op_definition
class MatmulOp(MappedContractionOp):
    name = "linalg.matmul"
    SPEC: ClassVar[str] = "mnk: mk, kn -> mn"


@irdl_op_definition
class BatchMatmulOp(MappedContractionOp):
    name = "linalg.batch_matmul"
    SPEC: ClassVar[str] = "bmnk: bmk, bkn -> bmn"


@irdl_op_definition
class BatchReduceMatmulOp(MappedContractionOp):
    name = "linalg.batch_reduce_matmul"
    SPEC: ClassVar[str] = "bmnk: bmk, bkn -> mn"


@irdl_op_definition
class ContractOp(MappedContractionOp):
    """Any contraction; the maps say all."""

    name = "linalg.contract"
    SPEC: ClassVar[str] = ""

    def verify_(self) -> None:
        if self.indexing_maps is None:
            raise VerifyException("linalg.contract needs indexing_maps")
        super().verify_()


@irdl_op_definition
class MatmulTransposeAOp(ContractionOp):
    name = "linalg.matmul_transpose_a"
    SPEC: ClassVar[str] = "mnk: km, kn -> mn"
    cast = opt_prop_def()


@irdl_op_definition
class MatmulTransposeBOp(ContractionOp):
    name = "linalg.matmul_transpose_b"
    SPEC: ClassVar[str] = "mnk: mk, nk -> mn"
    cast = opt_prop_def()


@irdl_op_definition
class BatchMatmulTransposeAOp(ContractionOp):
    name = "linalg.batch_matmul_transpose_a"
    SPEC: ClassVar[str] = "bmnk: bkm, bkn -> bmn"
    cast = opt_prop_def()


@irdl_op_definition
class BatchMatmulTransposeBOp(ContractionOp):
    name = "linalg.batch_matmul_transpose_b"
    SPEC: ClassVar[str] = "bmnk: bmk, bnk -> bmn"
    cast = opt_prop_def()


@irdl_op_definition
class MatvecOp(ContractionOp):
    name = "linalg.matvec"
    SPEC: ClassVar[str] = "mk: mk, k -> m"


@irdl_op_definition
class VecmatOp(ContractionOp):
    name = "linalg.vecmat"
    SPEC: ClassVar[str] = "nk: k, kn -> n"


@irdl_op_definition
class BatchMatvecOp(ContractionOp):
    name = "linalg.batch_matvec"
    SPEC: ClassVar[str] = "bmk: bmk, bk -> bm"


@irdl_op_definition
class BatchVecmatOp(ContractionOp):
    name = "linalg.batch_vecmat"
    SPEC: ClassVar[str] = "bnk: bk, bkn -> bn"


@irdl_op_definition
class DotOp(ContractionOp):
    name = "linalg.dot"
    SPEC: ClassVar[str] = "k: k, k -> "


class QuantizedContractionOp(ContractionOp):
    """result += (left - left zero point) * (right - right zero point), on integers."""

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        left, right, left_zero, right_zero, out = (
            convert_element(add, value, arguments[-1].type, unsigned) for value in arguments
        )
        a, b = add(arith.SubiOp(left, left_zero)), add(arith.SubiOp(right, right_zero))
        return add(arith.AddiOp(out, add(arith.MuliOp(a, b))))


@irdl_op_definition
class QuantizedMatmulOp(QuantizedContractionOp):
    name = "linalg.quantized_matmul"
    SPEC: ClassVar[str] = "mnk: mk, kn, , -> mn"


@irdl_op_definition
class QuantizedBatchMatmulOp(QuantizedContractionOp):
    name = "linalg.quantized_batch_matmul"
    SPEC: ClassVar[str] = "bmnk: bmk, bkn, , -> bmn"
