"""npu_isa: instruction streams in MLIR.

Two forms live here. The abstract one (`dma_load rd=2, base=0, size=2048, flag=0`,
`matmul_mxu0`, `vexp`...) is for reading and planning. `native_inst` carries one real machine
instruction with all its fields. `tilewright translate` prints both, one instruction per line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tilewright.dialects.kernel_syntax import parse_types, print_types
from tilewright.dialects.xdsl_api import (
    Attribute,
    Dialect,
    DictionaryAttr,
    IntegerAttr,
    IRDLOperation,
    Parser,
    Printer,
    SSAValue,
    StringAttr,
    TensorType,
    VerifyException,
    i64,
    irdl_op_definition,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    var_operand_def,
)


def _integer(value: Attribute | None) -> int:
    assert isinstance(value, IntegerAttr)
    return value.value.data


class Instruction(IRDLOperation):
    """An abstract instruction: integer fields, perhaps tensors that show the data flow.

    `FIELDS` are its fields in printing order, `TEXT` its mnemonic in the text form.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    OPTIONAL_FIELDS: ClassVar[tuple[str, ...]] = ()
    TEXT: ClassVar[str] = ""

    def fields(self) -> dict[str, int]:
        """Field name -> value, in printing order; optional fields only when set."""
        return {
            name: _integer(self.properties[name]) for name in self.FIELDS if name in self.properties
        }

    def text(self) -> str:
        """One line of the text form: `mnemonic key=value, key=value`."""
        return f"{self.TEXT} {', '.join(f'{k}={v}' for k, v in self.fields().items())}"

    def print_fields(self, printer: Printer) -> None:
        printer.print_string(", ".join(f"{k}={v}" for k, v in self.fields().items()))

    @classmethod
    def parse_fields(cls, parser: Parser) -> dict[str, Attribute]:
        fields: dict[str, Attribute] = {}

        def parse_field() -> None:
            position = parser.pos
            name = parser.parse_identifier()
            if name not in cls.FIELDS:
                parser.raise_error(f"{cls.name} has no field {name}", position)
            if name in fields:
                parser.raise_error(f"field {name} is given twice", position)
            parser.parse_punctuation("=")
            fields[name] = IntegerAttr(parser.parse_integer(), i64)

        parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_field)
        missing = [n for n in cls.FIELDS if n not in fields and n not in cls.OPTIONAL_FIELDS]
        if missing:
            parser.raise_error(f"{cls.name} needs the field {missing[0]}")
        return fields

    def verify_(self) -> None:
        for name in self.FIELDS:
            value = self.properties.get(name)
            if value is not None and _integer(value) < 0:
                raise VerifyException(f"field {name} is negative")


class DmaInstruction(Instruction):
    """Move `size` bytes between memory at `base` and a register, raising `flag` at the end."""

    base = prop_def(IntegerAttr)
    size = opt_prop_def(IntegerAttr)
    flag = prop_def(IntegerAttr)

    OPTIONAL_FIELDS: ClassVar[tuple[str, ...]] = ("size",)


class LoadInstruction(DmaInstruction):
    rd = prop_def(IntegerAttr)

    FIELDS: ClassVar[tuple[str, ...]] = ("rd", "base", "size", "flag")

    def __init__(self, rd: int, base: int, size: int | None, flag: int) -> None:
        values = {"rd": rd, "base": base, "size": size, "flag": flag}
        super().__init__(
            properties={k: None if v is None else IntegerAttr(v, i64) for k, v in values.items()}
        )

    @classmethod
    def parse(cls, parser: Parser):
        return cls.create(
            properties=cls.parse_fields(parser), attributes=parser.parse_optional_attr_dict()
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.print_fields(printer)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class DmaLoadOp(LoadInstruction):
    """Load an activation from the load region."""

    name = "npu_isa.dma_load"
    TEXT: ClassVar[str] = "dma.load"


@irdl_op_definition
class DmaLoadMxu0Op(LoadInstruction):
    """Load a weight tile for matrix unit 0."""

    name = "npu_isa.dma_load_mxu0"
    TEXT: ClassVar[str] = "dma.load.mxu0"


@irdl_op_definition
class DmaLoadMxu1Op(LoadInstruction):
    """Load a weight tile for matrix unit 1."""

    name = "npu_isa.dma_load_mxu1"
    TEXT: ClassVar[str] = "dma.load.mxu1"


@irdl_op_definition
class DmaStoreOp(DmaInstruction):
    """Store a register to the store region; the operand shows which tensor it holds."""

    name = "npu_isa.dma_store"
    TEXT: ClassVar[str] = "dma.store"
    FIELDS: ClassVar[tuple[str, ...]] = ("rs1", "base", "size", "flag")

    value = var_operand_def(TensorType)
    rs1 = prop_def(IntegerAttr)

    def __init__(
        self, value: SSAValue | None, rs1: int, base: int, size: int | None, flag: int
    ) -> None:
        values = {"rs1": rs1, "base": base, "size": size, "flag": flag}
        super().__init__(
            operands=[[] if value is None else [value]],
            properties={k: None if v is None else IntegerAttr(v, i64) for k, v in values.items()},
        )

    def verify_(self) -> None:
        super().verify_()
        if len(self.value) > 1:
            raise VerifyException("stores one tensor")

    @classmethod
    def parse(cls, parser: Parser):
        operand = parser.parse_optional_unresolved_operand()
        fields = cls.parse_fields(parser)
        attributes = parser.parse_optional_attr_dict()
        operands: list[SSAValue] = []
        if operand is not None:
            parser.parse_punctuation(":")
            operands = [parser.resolve_operand(operand, parser.parse_type())]
        return cls.create(operands=operands, properties=fields, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        for value in self.value:
            printer.print_ssa_value(value)
            printer.print_string(" ")
        self.print_fields(printer)
        printer.print_op_attributes(self.attributes)
        for value in self.value:
            printer.print_string(" : ")
            printer.print_attribute(value.type)


@irdl_op_definition
class DmaWaitOp(Instruction):
    """Wait until a flag is raised, and lower it."""

    name = "npu_isa.dma_wait"
    TEXT: ClassVar[str] = "dma.wait"
    FIELDS: ClassVar[tuple[str, ...]] = ("flag",)

    flag = prop_def(IntegerAttr)

    def __init__(self, flag: int) -> None:
        super().__init__(properties={"flag": IntegerAttr(flag, i64)})

    @classmethod
    def parse(cls, parser: Parser):
        return cls.create(
            properties=cls.parse_fields(parser), attributes=parser.parse_optional_attr_dict()
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.print_fields(printer)
        printer.print_op_attributes(self.attributes)


class ComputeInstruction(Instruction):
    """Compute on registers.

    `npu_isa.vexp vrd=5, vs1=4`, or with the tensors shown:
    `%1 = npu_isa.vexp %0 regs=(5, 4) : tensor<32x16xbf16> -> tensor<32x16xbf16>`. What reads no
    register shows only its result: `%2 = npu_isa.vli regs=(6) : () -> tensor<32x16xbf16>`.
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
        ("vmov", "vmov", "Copy a register, converting its element type.", _UNARY),
        ("vabs", "vabs", "Magnitude of each element.", _UNARY),
        ("verf", "verf", "Error function of each element.", _UNARY),
        ("vround", "vround", "Each element as an integer, by the rounding of its kernel.", _UNARY),
        ("vnot", "vnot", "Bitwise not of each element.", _UNARY),
        ("vcmp", "vcmp", "Compare element by element.", _BINARY),
        ("vand", "vand", "Bitwise and, element by element.", _BINARY),
        ("vor", "vor", "Bitwise or, element by element.", _BINARY),
        ("vxor", "vxor", "Bitwise exclusive or, element by element.", _BINARY),
        ("vsel", "vsel", "vs2 where vs1 is true, else vs3.", _TERNARY),
        ("vli", "vli", "Fill a register with literals.", ("vrd",)),
        ("vreduce_sum", "vreduce.sum", "Sum along rows.", _UNARY),
        ("vreduce_max", "vreduce.max", "Maximum along rows.", _UNARY),
        ("vreduce_min", "vreduce.min", "Minimum along rows.", _UNARY),
        ("vreduce_mul", "vreduce.mul", "Product along rows.", _UNARY),
    ]
}


@irdl_op_definition
class NativeInstOp(IRDLOperation):
    """One machine instruction: `npu_isa.native_inst "addi" {rd = 1, rs1 = 0, imm = 64}`."""

    name = "npu_isa.native_inst"

    mnemonic = prop_def(StringAttr)
    args = prop_def(DictionaryAttr)

    def __init__(self, mnemonic: str, args: Mapping[str, int]) -> None:
        super().__init__(
            properties={
                "mnemonic": StringAttr(mnemonic),
                "args": DictionaryAttr({k: IntegerAttr(v, i64) for k, v in args.items()}),
            }
        )

    def fields(self) -> dict[str, int]:
        return {name: _integer(value) for name, value in self.args.data.items()}

    def text(self) -> str:
        """One line of the text form: `mnemonic key=value, key=value`."""
        fields = ", ".join(f"{k}={v}" for k, v in self.fields().items())
        return f"{self.mnemonic.data} {fields}".rstrip()

    def verify_(self) -> None:
        for name, value in self.args.data.items():
            if not isinstance(value, IntegerAttr):
                raise VerifyException(f"argument {name} is {value}, an integer is needed")

    @classmethod
    def parse(cls, parser: Parser):
        mnemonic = parser.parse_str_literal()
        args: dict[str, int] = {}

        def parse_argument() -> None:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            args[name] = parser.parse_integer()
            if parser.parse_optional_punctuation(":") is not None:
                parser.parse_type()

        opened = parser.parse_optional_punctuation("{") is not None
        if opened and parser.parse_optional_punctuation("}") is None:
            parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_argument)
            parser.parse_punctuation("}")
        op = cls(mnemonic, args)
        if parser.parse_optional_keyword("attributes") is not None:
            op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.mnemonic.data)
        fields = self.fields()
        if fields:
            printer.print_string(f" {{{', '.join(f'{k} = {v}' for k, v in fields.items())}}}")
        if self.attributes:
            printer.print_string(" attributes")
            printer.print_op_attributes(self.attributes)


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A tensor's place in DRAM: `%x = npu_isa.buffer "x" at 4096 size 2048 : tensor<32x32xbf16>`.

    The attribute `layout` says how the bytes are ordered, `role` whether the buffer is an
    input, output or temporary of the function.
    """

    name = "npu_isa.buffer"

    buffer = prop_def(StringAttr)
    address = prop_def(IntegerAttr)
    size = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        buffer: str,
        address: int,
        size: int,
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            result_types=[result_type],
            properties={
                "buffer": StringAttr(buffer),
                "address": IntegerAttr(address, i64),
                "size": IntegerAttr(size, i64),
            },
            attributes=dict(attributes or {}),
        )

    def verify_(self) -> None:
        if _integer(self.address) < 0 or _integer(self.size) < 0:
            raise VerifyException("address and size are not negative")

    @classmethod
    def parse(cls, parser: Parser):
        buffer = parser.parse_str_literal()
        parser.parse_keyword("at")
        address = parser.parse_integer()
        parser.parse_keyword("size")
        size = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls(buffer, address, size, parser.parse_type(), attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.buffer.data)
        printer.print_string(f" at {_integer(self.address)} size {_integer(self.size)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


NPUIsa = Dialect(
    "npu_isa",
    [
        DmaLoadOp,
        DmaLoadMxu0Op,
        DmaLoadMxu1Op,
        DmaStoreOp,
        DmaWaitOp,
        *COMPUTE.values(),
        NativeInstOp,
        BufferOp,
    ],
    [],
)
