"""npu_isa: instruction streams in MLIR.

Two forms live here. The abstract one (`dma_load rd=2, base=0, size=2048, flag=0`,
`matmul_mxu0`, `vexp`...) is for reading and planning. `native_inst` carries one real machine
instruction with all its fields. `tilewright translate` prints both, one instruction per line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

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
    prop_def,
    result_def,
    var_operand_def,
)
from tilewright.targets.atlas.dialect.npu_isa_compute import COMPUTE as COMPUTE
from tilewright.targets.atlas.dialect.npu_isa_instruction import Instruction as Instruction
from tilewright.targets.atlas.dialect.npu_isa_instruction import integer


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
        return {name: integer(value) for name, value in self.args.data.items()}

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
        if integer(self.address) < 0 or integer(self.size) < 0:
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
        printer.print_string(f" at {integer(self.address)} size {integer(self.size)}")
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
