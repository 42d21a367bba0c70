"""What the families that make and read codes demand of shapes, element types and encodings."""

from __future__ import annotations

from tilewright.dialects.encodings import ScaleAttr, encoding_of
from tilewright.dialects.kernel_call import KernelCall, shape_text
from tilewright.dialects.xdsl_api import AnyFloat, IntegerType, TensorType


def _width(type_: TensorType) -> int:
    """Bits of an integer type, 0 for others."""
    element = type_.element_type
    return element.width.data if isinstance(element, IntegerType) else 0


def _floating(call: KernelCall, type_: TensorType, what: str) -> None:
    if not isinstance(type_.element_type, AnyFloat):
        call.fail("TW1205", f"{what} has element type {type_.element_type}, needs a float type")


def _integer(call: KernelCall, type_: TensorType, bits: int, what: str) -> None:
    if _width(type_) != bits:
        call.fail("TW1205", f"{what} has element type {type_.element_type}, needs i{bits}")


def _plain_shape(call: KernelCall, type_: TensorType) -> None:
    if tuple(type_.get_shape()) != tuple(call.result.get_shape()):
        call.fail(
            "TW1203", f"{shape_text(type_)} does not give {shape_text(call.result)}", "same shape"
        )


def _scaled(call: KernelCall, type_: TensorType, what: str) -> ScaleAttr:
    encoding = encoding_of(type_)
    if not isinstance(encoding, ScaleAttr):
        call.fail(
            "TW1208",
            f"{what} has no scale",
            "write its type as tensor<4x8xi8, #npu_kernel.scale<0.03125>>",
        )
    return encoding


def quantise(call: KernelCall) -> None:
    types = call.types()
    call.check_operand_maps()
    _floating(call, types["x"], "x")
    if "factor" in types:
        _floating(call, types["factor"], "the factor")
        if encoding_of(call.result) is not None:
            call.fail("TW1208", "has a factor operand and a result with a scale", "keep one")
    else:
        _scaled(call, call.result, "the result")
    if encoding_of(types["x"]) is not None:
        call.fail("TW1208", "x is encoded already")


def dequantise(call: KernelCall) -> None:
    x = call.types()["x"]
    _plain_shape(call, x)
    _scaled(call, x, "x")
    _floating(call, call.result, "the result")
    if encoding_of(call.result) is not None:
        call.fail("TW1208", "the result of decoding has an encoding")


def rescale(call: KernelCall) -> None:
    types = call.types()
    call.check_operand_maps()
    _integer(call, types["x"], 32, "x")
    if ("factor" in types) == ("factor" in call.attributes):
        call.fail("TW1202", "takes a factor, as operand or as attribute")
    if "factor" in types and str(types["factor"].element_type) != "f32":
        call.fail("TW1205", f"factors are f32, not {types['factor'].element_type}")
    _rescaled(call)


def _rescaled(call: KernelCall) -> None:
    if _width(call.result):
        _scaled(call, call.result, "the result")
    elif encoding_of(call.result) is not None:
        call.fail("TW1208", "a float result has no scale")


def rescale_fixed(call: KernelCall) -> None:
    types = call.types()
    call.check_operand_maps()
    _integer(call, types["x"], 32, "x")
    _integer(call, types["multiplier"], 32, "the multiplier")
    _integer(call, types["shift"], 16, "the shift")
    _integer(call, call.result, 8, "the result")
    _scaled(call, call.result, "the result")
    left = call.integer("left") or 0
    if not 0 <= left < 32:
        call.fail("TW1204", f"left is {left}, needs 0 to 31")


def encoded_add(call: KernelCall) -> None:
    for name, type_ in (*call.types().items(), ("the result", call.result)):
        _integer(call, type_, 8, name)
        _scaled(call, type_, name)
        _plain_shape(call, type_)


def table(call: KernelCall) -> None:
    types = call.types()
    _plain_shape(call, types["x"])
    _integer(call, types["x"], 8, "x")
    _integer(call, call.result, 8, "the result")
    _integer(call, types["table"], 8, "the table")
    if tuple(types["table"].get_shape()) != (256,):
        call.fail("TW1203", f"the table has shape {shape_text(types['table'])}, needs 256")


def absmax_factor(call: KernelCall) -> None:
    x = call.types()["x"]
    axis = call.axis(x.get_num_dims())
    _floating(call, x, "x")
    wanted = tuple(1 if d == axis else n for d, n in enumerate(x.get_shape()))
    if tuple(call.result.get_shape()) != wanted:
        call.fail("TW1203", f"the result has shape {shape_text(call.result)}, needs {wanted}")
    if str(call.result.element_type) != "f32":
        call.fail("TW1205", f"factors are f32, not {call.result.element_type}")
