"""Abstract compute instructions, from one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.dialects.kernel_syntax import parse_types, print_types
from tilewright.dialects.npu_isa_instruction import Instruction
from tilewright.dialects.xdsl_api import (
    Attribute,
    IntegerAttr,
    Parser,
    Printer,
    SSAValue,
    TensorType,
    UnitAttr,
    VerifyException,
    i64,
    irdl_op_definition,
    opt_result_def,
    prop_def,
    var_operand_def,
)


class ComputeInstruction(Instruction):
    """Compute on registers.

    `npu_isa.vexp vrd=5, vs1=4`, or with the tensors shown:
    `%1 = npu_isa.vexp %0 regs=(5, 4) : tensor<32x16xbf16> -> tensor<32x16xbf16>`. What reads no
    register shows only its result: `%2 = npu_isa.vli regs=(6) {value = 1.0 : bf16} : () ->
    tensor<32x16xbf16>`. Tensors meet as in numpy, and attributes complete what the name says: a
    literal, axes, transposes, windows. In the text form they follow as a comment.
    """

    inputs = var_operand_def(TensorType)
    result = opt_result_def(TensorType)

    def __init__(
        self,
        registers: Sequence[int],
        inputs: Sequence[SSAValue] = (),
        result_type: Attribute | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_type],
            properties={
                name: IntegerAttr(value, i64)
                for name, value in zip(self.FIELDS, registers, strict=True)
            },
        )

    @classmethod
    def parse(cls, parser: Parser):
        operands = []
        if (first := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(first)
            while parser.parse_optional_punctuation(",") is not None:
                operands.append(parser.parse_unresolved_operand())
        if parser.parse_optional_keyword("regs") is None:
            if operands:
                parser.raise_error("expected regs=(...) after the operands")
            fields = cls.parse_fields(parser)
            return cls.create(properties=fields, attributes=parser.parse_optional_attr_dict())
        parser.parse_punctuation("=")
        numbers = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        if len(numbers) != len(cls.FIELDS):
            parser.raise_error(
                f"{cls.name} names {len(cls.FIELDS)} registers: {', '.join(cls.FIELDS)}"
            )
        attributes = parser.parse_optional_attr_dict()
        types, result = parse_types(parser)
        values = parser.resolve_operands(operands, types, parser.pos)
        op = cls(numbers, values, result)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.result is None:
            self.print_fields(printer)
            printer.print_op_attributes(self.attributes)
            return
        if self.inputs:
            printer.print_list(self.inputs, printer.print_ssa_value)
            printer.print_string(" ")
        printer.print_string(f"regs=({', '.join(str(v) for v in self.fields().values())})")
        printer.print_op_attributes(self.attributes)
        print_types(printer, self.inputs, self.result.type)

    def text(self) -> str:
        """One line of the text form, with the attributes as a comment."""
        noted = ", ".join(
            name if isinstance(value, UnitAttr) else f"{name} = {value}"
            for name, value in self.attributes.items()
        )
        return f"{super().text()}  # {noted}" if noted else super().text()

    def verify_(self) -> None:
        super().verify_()
        reads = len(self.FIELDS) - 1
        if self.result is None and self.inputs:
            raise VerifyException("shows the tensors it reads but not the one it makes")
        if self.result is not None and len(self.inputs) != reads:
            raise VerifyException(f"reads {reads} registers and shows {len(self.inputs)} tensors")


def _compute(
    name: str, text: str, meaning: str, fields: tuple[str, ...]
) -> type[ComputeInstruction]:
    """The class of one compute instruction."""
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Op"
    body = {
        "__doc__": meaning,
        "__module__": __name__,
        "__annotations__": {"TEXT": ClassVar[str], "FIELDS": ClassVar[tuple[str, ...]]},
        "name": f"npu_isa.{name}",
        "TEXT": text,
        "FIELDS": fields,
        **{field: prop_def(IntegerAttr) for field in fields},
    }
    return irdl_op_definition(type(class_name, (ComputeInstruction,), body))


_MATRIX = ("rd", "rs1", "rs2")
_BINARY = ("vrd", "vs1", "vs2")
_UNARY = ("vrd", "vs1")
_TERNARY = ("vrd", "vs1", "vs2", "vs3")

COMPUTE: dict[str, type[ComputeInstruction]] = {
    name: _compute(name, text, meaning, fields)
    for name, text, meaning, fields in [
        ("matmul_mxu0", "matmul.mxu0", "Multiply on matrix unit 0: rd = rs1 x rs2.", _MATRIX),
        ("matmul_mxu1", "matmul.mxu1", "Multiply on matrix unit 1: rd = rs1 x rs2.", _MATRIX),
        ("vadd", "vadd", "Add element by element.", _BINARY),
        ("vsub", "vsub", "Subtract element by element.", _BINARY),
        ("vmul", "vmul", "Multiply element by element.", _BINARY),
        ("vmax", "vmax", "The larger of two, element by element.", _BINARY),
        ("vmin", "vmin", "The smaller of two, element by element.", _BINARY),
        ("vexp", "vexp", "Exponential of each element.", _UNARY),
        ("vlog", "vlog", "Natural logarithm of each element.", _UNARY),
        ("vsqrt", "vsqrt", "Square root of each element.", _UNARY),
        ("vtanh", "vtanh", "Hyperbolic tangent of each element.", _UNARY),
        ("vsin", "vsin", "Sine of each element.", _UNARY),
        ("vcos", "vcos", "Cosine of each element.", _UNARY),
        ("vrcp", "vrcp", "Reciprocal of each element.", _UNARY),
        (
            "vmov",
            "vmov",
            "Copy a register, converting its element type; attributes say in which order.",
            _UNARY,
        ),
        ("vabs", "vabs", "Magnitude of each element.", _UNARY),
        ("verf", "verf", "Error function of each element.", _UNARY),
        ("vround", "vround", "Each element as an integer: rounding floor, ceil or even.", _UNARY),
        ("vnot", "vnot", "Bitwise not of each element.", _UNARY),
        ("vcmp", "vcmp", "Compare element by element, by a predicate.", _BINARY),
        ("vand", "vand", "Bitwise and, element by element.", _BINARY),
        ("vor", "vor", "Bitwise or, element by element.", _BINARY),
        ("vxor", "vxor", "Bitwise exclusive or, element by element.", _BINARY),
        ("vsel", "vsel", "vs2 where vs1 is true, else vs3.", _TERNARY),
        (
            "vli",
            "vli",
            "Fill a register with a literal, with indices along an axis, or with a mask.",
            ("vrd",),
        ),
        ("vinsert", "vinsert", "vs1 with vs2 put in at offsets.", _BINARY),
        (
            "vreduce_sum",
            "vreduce.sum",
            "Sum along axes (rows, if none are named), or of each window.",
            _UNARY,
        ),
        ("vreduce_max", "vreduce.max", "Maximum along axes, or of each window.", _UNARY),
        ("vreduce_min", "vreduce.min", "Minimum along axes, or of each window.", _UNARY),
        ("vreduce_mul", "vreduce.mul", "Product along rows.", _UNARY),
    ]
}
