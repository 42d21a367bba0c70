"""Encodings: what the codes of a tensor stand for, as part of its type.

    tensor<4x16xi8, #npu_kernel.scale<0.03125>>               value = code * 0.03125
    tensor<4x16xi8, #npu_kernel.scale<0.0078125, zero = -3>>  value = (code + 3) * 0.0078125
    tensor<8x4xi8, #npu_kernel.channel_scale<axis = 0>>       one scale per index of dimension 0
    tensor<8x4xi2, #npu_kernel.scale<0.5>>                    ternary: codes are -1, 0 and 1
    tensor<4x16xf8E4M3FN, #npu_kernel.scale<0.0625>>          value = number * 0.0625
    tensor<4x16xf8E4M3FN, #npu_kernel.stored<"panels", scale = 0.0625>>   as a device stores it

Scales are float32 numbers. Where there is one scale per channel, the numbers are data: they are in
the factors with which the product of these codes is rescaled. A tensor without encoding means its
numbers as they are.

Error codes: TW1208 encodings that do not fit the operation, TW1209 an encoding that is wrong in itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from struct import pack, unpack

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    Attribute,
    AttrParser,
    DictionaryAttr,
    FloatAttr,
    IntAttr,
    IntegerType,
    NoneAttr,
    ParametrizedAttribute,
    Printer,
    SSAValue,
    StringAttr,
    TensorType,
    VerifyException,
    f32,
    f64,
    irdl_attr_definition,
)


@irdl_attr_definition
class ScaleAttr(ParametrizedAttribute):
    """value = (code - zero) * scale."""

    name = "npu_kernel.scale"
    scale: FloatAttr
    zero: IntAttr

    @staticmethod
    def of(scale: float, zero: int = 0) -> ScaleAttr:
        return ScaleAttr(FloatAttr(float32(scale), f32), IntAttr(int(zero)))

    @property
    def factor(self) -> float:
        return float(self.scale.value.data)

    def verify(self) -> None:
        if not (isfinite(self.factor) and self.factor > 0):
            raise VerifyException(f"TW1209 a scale is a positive number, not {self.factor}")
        if self.factor != float32(self.factor):
            raise VerifyException(f"TW1209 the scale {self.factor} is not a float32 number")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            scale = float(parser.parse_number())
            zero = 0
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_characters("zero")
                parser.parse_punctuation("=")
                zero = parser.parse_integer()
        return [FloatAttr(scale, f32), IntAttr(zero)]

    def print_parameters(self, printer: Printer) -> None:
        zero = f", zero = {self.zero.data}" if self.zero.data else ""
        printer.print_string(f"<{float_text(self.factor)}{zero}>")


@irdl_attr_definition
class ChannelScaleAttr(ParametrizedAttribute):
    """Codes without zero point, with one scale per index of a dimension."""

    name = "npu_kernel.channel_scale"
    axis: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_characters("axis")
            parser.parse_punctuation("=")
            return [IntAttr(parser.parse_integer(allow_negative=False))]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<axis = {self.axis.data}>")


@irdl_attr_definition
class StoredAttr(ParametrizedAttribute):
    """How a device stores a tensor: in which order of tiles, by which arrangement of its elements
    (a table of the target's), and what its numbers are multiples of, where that is known."""

    name = "npu_kernel.stored"
    order: StringAttr
    scale: FloatAttr | NoneAttr
    arrangement: DictionaryAttr

    @staticmethod
    def of(order: str, scale: float | None, arrangement: DictionaryAttr) -> StoredAttr:
        number = NoneAttr() if scale is None else FloatAttr(scale, f64)
        return StoredAttr(StringAttr(order), number, arrangement)

    @property
    def factor(self) -> float | None:
        return float(self.scale.value.data) if isinstance(self.scale, FloatAttr) else None

    def verify(self) -> None:
        if self.factor is not None and not (isfinite(self.factor) and self.factor > 0):
            raise VerifyException(f"TW1209 a scale is a positive number, not {self.factor}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        scale: FloatAttr | NoneAttr = NoneAttr()
        table = DictionaryAttr({})
        with parser.in_angle_brackets():
            order = parser.parse_str_literal()
            while parser.parse_optional_punctuation(",") is not None:
                if parser.parse_optional_keyword("scale") is not None:
                    parser.parse_punctuation("=")
                    scale = FloatAttr(float(parser.parse_number()), f64)
                else:
                    parser.parse_keyword("arrangement")
                    parser.parse_punctuation("=")
                    table = DictionaryAttr(parser.parse_optional_dictionary_attr_dict())
        return [StringAttr(order), scale, table]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(self.order.data)
        if self.factor is not None:
            printer.print_string(f", scale = {float_text(self.factor)}")
        if self.arrangement.data:
            printer.print_string(", arrangement = ")
            printer.print_attr_dict(self.arrangement.data)
        printer.print_string(">")


Encoding = ScaleAttr | ChannelScaleAttr


def float32(value: float) -> float:
    """The nearest float32 number."""
    return unpack("<f", pack("<f", value))[0]


def float_text(value: float) -> str:
    """A number as MLIR reads it, all of it."""
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def encoding_of(type_: Attribute | SSAValue) -> Encoding | None:
    """The encoding of a tensor type or value, if it has one."""
    kind = type_.type if isinstance(type_, SSAValue) else type_
    encoding = getattr(kind, "encoding", None)
    return encoding if isinstance(encoding, (ScaleAttr, ChannelScaleAttr)) else None


def zero_of(type_: Attribute | SSAValue) -> int:
    """The code that stands for 0."""
    encoding = encoding_of(type_)
    return encoding.zero.data if isinstance(encoding, ScaleAttr) else 0


def scale_of(type_: Attribute | SSAValue) -> float | None:
    """The scale of all codes, None without one or with one per channel."""
    kind = type_.type if isinstance(type_, SSAValue) else type_
    stored = getattr(kind, "encoding", None)
    if isinstance(stored, StoredAttr):
        return stored.factor
    encoding = encoding_of(type_)
    return encoding.factor if isinstance(encoding, ScaleAttr) else None


def encoded(type_: TensorType, element: Attribute, encoding: Encoding | None = None) -> TensorType:
    """A type of the same shape with another element type and encoding."""
    if encoding is None:
        return TensorType(element, type_.get_shape())
    return TensorType(element, type_.get_shape(), encoding)


# --- what operations ask of encodings ---------------------------------------------------

PRODUCTS = {"matmul": ("lhs", "rhs"), "conv2d": ("x", "w")}
SUMS = ("reduction_sum", "pool_sum")
# Families whose results are some of the codes of their operands, or between them.
KEEPING = (
    *("transpose", "reshape", "slice", "insert_slice", "concat", "pad", "pool_max", "clamp"),
    *("reduction_max", "reduction_min", "gather", "embedding", "elementwise_relu"),
)
OWN = ("quantise", "dequantise", "rescale", "rescale_fixed", "encoded_add", "table")
RATIOS = ("matmul", "conv2d", "gemma_attention")  # float codes are numbers times a scale


def check_encodings(call: KernelCall) -> None:
    """Fail unless the encodings of operands and result fit the family."""
    types = [*call.tensor_types(), call.result]
    found = [encoding_of(type_) for type_ in types]
    if not any(found):
        return
    for type_, encoding in zip(types, found, strict=True):
        _check_encoding(call, type_, encoding)
    family = call.family.name
    if family in OWN:
        return
    if family in PRODUCTS and all(isinstance(t.element_type, IntegerType) for t in types[:2]):
        _check_product(call)
    elif family in SUMS and isinstance(types[0].element_type, IntegerType):
        _plain_result(call, "a sum of codes")
    elif family in RATIOS and all(_is_float(t) for t in types):
        _plain_result(call, "a product of scaled floats")
    elif family in KEEPING:
        data = [e for t, e in zip(types, found, strict=True) if not _is_index(call, t)]
        if any(encoding != data[0] for encoding in data):
            call.fail("TW1208", "operands and result have different encodings")
        if family == "elementwise_relu" and zero_of(types[0]) != 0:
            call.fail("TW1208", "codes with a zero point are not cut at 0", "use clamp")
    else:
        call.fail(
            "TW1208",
            f"the family {family} does not compute with codes",
            "decode the operand first: npu_uk_dequantise",
        )


def _is_float(type_: TensorType) -> bool:
    return isinstance(type_.element_type, AnyFloat)


def _is_index(call: KernelCall, type_: TensorType) -> bool:
    return call.family.name in ("gather", "embedding") and type_ is call.tensor_types()[1]


def _check_encoding(call: KernelCall, type_: TensorType, encoding: Encoding | None) -> None:
    if isinstance(encoding, ChannelScaleAttr) and encoding.axis.data >= type_.get_num_dims():
        call.fail("TW1209", f"{type_} has no dimension {encoding.axis.data}")
    if isinstance(encoding, ScaleAttr) and encoding.zero.data:
        element = type_.element_type
        bits = element.width.data if isinstance(element, IntegerType) else 0
        limit = 1 << max(bits - 1, 0)
        if not bits or not -limit <= encoding.zero.data < limit:
            call.fail("TW1209", f"{encoding.zero.data} is not a code of {element}")


def _check_product(call: KernelCall) -> None:
    first, second = (call.types()[role] for role in PRODUCTS[call.family.name])
    if zero_of(second):
        call.fail("TW1208", "the second operand has a zero point", "weights are symmetric")
    if isinstance(encoding_of(first), ChannelScaleAttr):
        call.fail("TW1208", "the first operand has a scale per channel")
    _plain_result(call, "a product of codes")


def _plain_result(call: KernelCall, what: str) -> None:
    if encoding_of(call.result) is not None:
        call.fail("TW1208", f"{what} has no encoding of its own", "rescale it")
