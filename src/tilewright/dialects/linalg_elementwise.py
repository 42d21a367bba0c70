"""linalg's element-wise ops, as named ops (`linalg.exp`) and as `linalg.elementwise kind=…`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from tilewright.dialects.linalg_named import Adder, NamedOp
from tilewright.dialects.linalg_structured import PARALLEL, convert_element
from tilewright.dialects.xdsl_api import (
    AffineMap,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    AttrParser,
    Data,
    FloatAttr,
    IndexType,
    IntegerType,
    IteratorTypeAttr,
    Operation,
    Parser,
    Printer,
    Region,
    ShapedType,
    SSAValue,
    VerifyException,
    arith,
    irdl_attr_definition,
    irdl_op_definition,
    math,
    opt_prop_def,
    prop_def,
)


class ElementwiseOp(NamedOp):
    """All operands and the result have one shape and the body is one op."""

    # (op for floats, op for signed integers); None where the type has no such op.
    PAYLOAD: ClassVar[tuple[type[Operation] | None, type[Operation] | None]]

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        *inputs, out = arguments
        chosen = cls.PAYLOAD[0 if isinstance(out.type, AnyFloat) else 1]
        if chosen is None or not isinstance(out.type, AnyFloat | IntegerType | IndexType):
            raise VerifyException(f"no meaning on {out.type}")
        values = [convert_element(add, value, out.type, unsigned) for value in inputs]
        return add(chosen(*values))

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        return ArrayAttr([AffineMapAttr(AffineMap.identity(rank))] * len(self.operands))

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        return ArrayAttr([PARALLEL] * rank)


Payload = tuple[type[Operation] | None, type[Operation] | None]


@irdl_op_definition
class AddOp(ElementwiseOp):
    name = "linalg.add"
    PAYLOAD: ClassVar[Payload] = (arith.AddfOp, arith.AddiOp)


@irdl_op_definition
class SubOp(ElementwiseOp):
    name = "linalg.sub"
    PAYLOAD: ClassVar[Payload] = (arith.SubfOp, arith.SubiOp)


@irdl_op_definition
class MulOp(ElementwiseOp):
    name = "linalg.mul"
    PAYLOAD: ClassVar[Payload] = (arith.MulfOp, arith.MuliOp)


@irdl_op_definition
class DivOp(ElementwiseOp):
    name = "linalg.div"
    PAYLOAD: ClassVar[Payload] = (arith.DivfOp, arith.DivSIOp)


@irdl_op_definition
class DivUnsignedOp(ElementwiseOp):
    name = "linalg.div_unsigned"
    PAYLOAD: ClassVar[Payload] = (None, arith.DivUIOp)


@irdl_op_definition
class MaxOp(ElementwiseOp):
    name = "linalg.max"
    PAYLOAD: ClassVar[Payload] = (arith.MaximumfOp, arith.MaxSIOp)


@irdl_op_definition
class MinOp(ElementwiseOp):
    name = "linalg.min"
    PAYLOAD: ClassVar[Payload] = (arith.MinimumfOp, arith.MinSIOp)


@irdl_op_definition
class PowfOp(ElementwiseOp):
    name = "linalg.powf"
    PAYLOAD: ClassVar[Payload] = (math.PowFOp, None)


@irdl_op_definition
class ExpOp(ElementwiseOp):
    name = "linalg.exp"
    PAYLOAD: ClassVar[Payload] = (math.ExpOp, None)


@irdl_op_definition
class LogOp(ElementwiseOp):
    name = "linalg.log"
    PAYLOAD: ClassVar[Payload] = (math.LogOp, None)


@irdl_op_definition
class AbsOp(ElementwiseOp):
    name = "linalg.abs"
    PAYLOAD: ClassVar[Payload] = (math.AbsFOp, math.AbsIOp)


@irdl_op_definition
class CeilOp(ElementwiseOp):
    name = "linalg.ceil"
    PAYLOAD: ClassVar[Payload] = (math.CeilOp, None)


@irdl_op_definition
class FloorOp(ElementwiseOp):
    name = "linalg.floor"
    PAYLOAD: ClassVar[Payload] = (math.FloorOp, None)


@irdl_op_definition
class NegfOp(ElementwiseOp):
    name = "linalg.negf"
    PAYLOAD: ClassVar[Payload] = (arith.NegfOp, None)


@irdl_op_definition
class RoundOp(ElementwiseOp):
    name = "linalg.round"
    PAYLOAD: ClassVar[Payload] = (math.RoundOp, None)


@irdl_op_definition
class SqrtOp(ElementwiseOp):
    name = "linalg.sqrt"
    PAYLOAD: ClassVar[Payload] = (math.SqrtOp, None)


@irdl_op_definition
class RsqrtOp(ElementwiseOp):
    name = "linalg.rsqrt"
    PAYLOAD: ClassVar[Payload] = (math.RsqrtOp, None)


@irdl_op_definition
class TanhOp(ElementwiseOp):
    name = "linalg.tanh"
    PAYLOAD: ClassVar[Payload] = (math.TanhOp, None)


@irdl_op_definition
class ErfOp(ElementwiseOp):
    name = "linalg.erf"
    PAYLOAD: ClassVar[Payload] = (math.ErfOp, None)


@irdl_op_definition
class SquareOp(ElementwiseOp):
    name = "linalg.square"
    PAYLOAD: ClassVar[Payload] = (arith.MulfOp, None)

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        return add(arith.MulfOp(arguments[0], arguments[0]))


@irdl_op_definition
class ReciprocalOp(ElementwiseOp):
    name = "linalg.reciprocal"
    PAYLOAD: ClassVar[Payload] = (arith.DivfOp, None)

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        one = add(arith.ConstantOp(FloatAttr(1.0, cast(AnyFloat, arguments[0].type))))
        return add(arith.DivfOp(one, arguments[0]))


@irdl_op_definition
class SelectOp(ElementwiseOp):
    name = "linalg.select"
    PAYLOAD: ClassVar[Payload] = (arith.SelectOp, arith.SelectOp)

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        return add(arith.SelectOp(*arguments[:3]))


@irdl_op_definition
class CopyOp(ElementwiseOp):
    name = "linalg.copy"
    PAYLOAD: ClassVar[Payload] = (None, None)
    cast = opt_prop_def()

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        return convert_element(add, arguments[0], arguments[1].type, unsigned)


@irdl_op_definition
class FillOp(ElementwiseOp):
    """Every element becomes the scalar."""

    name = "linalg.fill"
    PAYLOAD: ClassVar[Payload] = (None, None)

    @classmethod
    def compute(cls, add: Adder, unsigned: bool, *arguments: SSAValue) -> SSAValue:
        return convert_element(add, arguments[0], arguments[1].type, unsigned)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        scalar = cast("tuple", getattr(self.inputs[0].type, "get_shape", tuple)())
        if scalar:
            raise VerifyException("linalg.fill takes a scalar")
        return ArrayAttr(
            [AffineMapAttr(AffineMap(rank, 0, ())), AffineMapAttr(AffineMap.identity(rank))]
        )


# ------------------------------------------------------------------------- one op, the kind a name


@irdl_attr_definition
class ElementwiseKindAttr(Data[str]):
    """Which element-wise function `linalg.elementwise` applies."""

    name = "linalg.elementwise_kind"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class UnsignedMax(ElementwiseOp):
    PAYLOAD: ClassVar[Payload] = (None, arith.MaxUIOp)


class UnsignedMin(ElementwiseOp):
    PAYLOAD: ClassVar[Payload] = (None, arith.MinUIOp)


KINDS: dict[str, type[ElementwiseOp]] = {
    "exp": ExpOp,
    "log": LogOp,
    "abs": AbsOp,
    "ceil": CeilOp,
    "floor": FloorOp,
    "negf": NegfOp,
    "reciprocal": ReciprocalOp,
    "round": RoundOp,
    "sqrt": SqrtOp,
    "rsqrt": RsqrtOp,
    "square": SquareOp,
    "tanh": TanhOp,
    "erf": ErfOp,
    "add": AddOp,
    "sub": SubOp,
    "mul": MulOp,
    "div": DivOp,
    "div_unsigned": DivUnsignedOp,
    "max_signed": MaxOp,
    "min_signed": MinOp,
    "max_unsigned": UnsignedMax,
    "min_unsigned": UnsignedMin,
    "powf": PowfOp,
    "select": SelectOp,
}


@irdl_op_definition
class ElementwiseKindOp(NamedOp):
    """An element-wise function by its kind; maps may broadcast or transpose operands."""

    name = "linalg.elementwise"
    HAS_MAPS: ClassVar[bool] = True
    HIDDEN: ClassVar[tuple[str, ...]] = ("kind", *NamedOp.HIDDEN)
    kind = prop_def(ElementwiseKindAttr)
    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])

    @classmethod
    def parse_header(cls, parser: Parser) -> dict[str, Attribute]:
        # MLIR writes `<add>`; earlier releases wrote `kind=#linalg.elementwise_kind<add>`.
        if parser.parse_optional_keyword("kind"):
            parser.parse_punctuation("=")
        if parser.parse_optional_punctuation("<"):
            kind: Attribute = ElementwiseKindAttr(parser.parse_identifier())
            parser.parse_punctuation(">")
        else:
            kind = parser.parse_attribute()
        return {"kind": kind, **super().parse_header(parser)}

    def print_header(self, printer: Printer) -> None:
        printer.print_string(f" <{self.kind.data}>")
        super().print_header(printer)

    def default_maps(self) -> ArrayAttr[AffineMapAttr] | None:
        rank = len(cast(ShapedType, self.outputs[0].type).get_shape())
        return ArrayAttr([AffineMapAttr(AffineMap.identity(rank))] * len(self.operands))

    @classmethod
    def fixed_body(
        cls,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        properties: dict[str, Attribute],
    ) -> Region:
        kind = properties.get("kind")
        meaning = KINDS.get(kind.data) if isinstance(kind, ElementwiseKindAttr) else None
        if meaning is None:
            raise VerifyException(f"unknown kind {kind}")
        return meaning.fixed_body(inputs, outputs, properties)

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        if self.indexing_maps is not None:
            return self.indexing_maps
        return cast("ArrayAttr[AffineMapAttr]", self.default_maps())

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr([PARALLEL] * self.get_indexing_maps().data[0].data.num_dims)
