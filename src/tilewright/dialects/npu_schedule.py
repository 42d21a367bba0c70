"""npu_schedule: tile loops, on-chip buffers, transfers and kernel launches.

Loops are `scf.for` with the result carried as iter_arg; tiles are `tensor.extract_slice` and
`tensor.insert_slice`. Chains of launches (`_acc_first`, `_acc_mid`, `_acc_last`) carry their
running state implicitly, as the machine does: a function has one matmul accumulator and one
attention state (running maximum, sum and output); `first` starts it, `mid` and `last` update it,
only the result of `last` is meaningful. Such launches therefore have side effects and keep
their order.
"""

from __future__ import annotations

import re
from math import prod

from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.kernel_syntax import parse_types, print_types, verify_call
from tilewright.dialects.npu_kernel import Contraction, KernelCallOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    AttrSizedOperandSegments,
    Dialect,
    EffectInstance,
    IntegerAttr,
    IRDLOperation,
    MemoryEffect,
    MemoryEffectKind,
    Operation,
    ParametrizedAttribute,
    Parser,
    Printer,
    Pure,
    SSAValue,
    StringAttr,
    TensorType,
    TypeAttribute,
    VerifyException,
    i8,
    i64,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)

MEMORY_SPACES = ("vmem", "mxu0", "mxu1", "dram", "cmx")
_TILE_SPACE = re.compile(r"cmx\d+")  # the memory of one tile of several


class LaunchEffects(MemoryEffect):
    """A launch is pure unless its family works on implicit machine state."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        assert isinstance(op, KernelCallOp)
        family = family_of(op.symbol.data)
        if family is None:
            return None
        if family.state is None:
            return set()
        return {EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}


@irdl_op_definition
class UKernelLaunchOp(KernelCallOp):
    """Run one micro-kernel on tiles."""

    name = "npu_schedule.ukernel_launch"

    traits = traits_def(LaunchEffects())


@irdl_op_definition
class MatmulTileOp(Contraction):
    """Contract one pair of tiles; the same operands and marks as `npu_kernel.matmul`."""

    name = "npu_schedule.matmul_tile"


@irdl_op_definition
class SoftmaxFragmentOp(IRDLOperation):
    """Softmax of a tile along `axis`, the last dimension when absent."""

    name = "npu_schedule.softmax_fragment"

    input = operand_def(TensorType)
    axis = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result_type: Attribute, axis: int | None = None) -> None:
        super().__init__(
            operands=[value],
            result_types=[result_type],
            properties={"axis": None if axis is None else IntegerAttr(axis, i64)},
        )

    def verify_(self) -> None:
        verify_call(self, "npu_uk_softmax", self.operands, self.properties, self.result.type)

    @classmethod
    def parse(cls, parser: Parser):
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        types, result = parse_types(parser)
        axis = attributes.pop("axis", None)
        (value,) = parser.resolve_operands([operand], types, parser.pos)
        op = cls(value, result, axis.value.data if isinstance(axis, IntegerAttr) else None)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        printer.print_op_attributes({**self.properties, **self.attributes})
        print_types(printer, (self.input,), self.result.type)


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """An on-chip buffer that holds one tile: `!npu_schedule.buffer<tensor<32x32xbf16>, "vmem">`."""

    name = "npu_schedule.buffer"

    tile: TensorType
    space: StringAttr

    def verify(self) -> None:
        space = self.space.data
        if space not in MEMORY_SPACES and not _TILE_SPACE.fullmatch(space):
            raise VerifyException(
                f'memory space "{self.space.data}" is not one of {", ".join(MEMORY_SPACES)}'
            )
        if any(n < 0 for n in self.tile.get_shape()):
            raise VerifyException(f"a buffer needs a static shape, got {self.tile}")


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """A transfer in flight."""

    name = "npu_schedule.token"


def _check_tile(buffer: Attribute, tensor: Attribute) -> None:
    assert isinstance(buffer, BufferType)
    if buffer.tile != tensor:
        raise VerifyException(f"the buffer holds {buffer.tile}, the tensor is {tensor}")


@irdl_op_definition
class AllocOp(IRDLOperation):
    """Reserve an on-chip buffer; memory planning gives it an `address`, in bytes."""

    name = "npu_schedule.alloc"

    buffer = result_def(BufferType)
    assembly_format = "attr-dict `:` type($buffer)"


@irdl_op_definition
class FreeOp(IRDLOperation):
    """End the life of a buffer."""

    name = "npu_schedule.free"

    buffer = operand_def(BufferType)
    assembly_format = "$buffer attr-dict `:` type($buffer)"


@irdl_op_definition
class ReadOp(IRDLOperation):
    """The tile that a buffer holds."""

    name = "npu_schedule.read"

    buffer = operand_def(BufferType)
    result = result_def(TensorType)
    assembly_format = "$buffer attr-dict `:` type($buffer) `->` type($result)"

    def verify_(self) -> None:
        _check_tile(self.buffer.type, self.result.type)


@irdl_op_definition
class WriteOp(IRDLOperation):
    """Put a tile into a buffer."""

    name = "npu_schedule.write"

    tile = operand_def(TensorType)
    buffer = operand_def(BufferType)
    assembly_format = "$tile `into` $buffer attr-dict `:` type($tile) `,` type($buffer)"

    def verify_(self) -> None:
        _check_tile(self.buffer.type, self.tile.type)


@irdl_op_definition
class DmaLoadOp(IRDLOperation):
    """Start copying a tensor tile into a buffer."""

    name = "npu_schedule.dma_load"

    source = operand_def(TensorType)
    buffer = operand_def(BufferType)
    token = result_def(TokenType())
    assembly_format = "$source `into` $buffer attr-dict `:` type($source) `,` type($buffer)"

    def verify_(self) -> None:
        _check_tile(self.buffer.type, self.source.type)


@irdl_op_definition
class DmaStoreOp(IRDLOperation):
    """Start copying a buffer out; the tensor is valid once the token has been waited for."""

    name = "npu_schedule.dma_store"

    buffer = operand_def(BufferType)
    result = result_def(TensorType)
    token = result_def(TokenType())
    assembly_format = "$buffer attr-dict `:` type($buffer) `->` type($result)"

    def verify_(self) -> None:
        _check_tile(self.buffer.type, self.result.type)


@irdl_op_definition
class WaitOp(IRDLOperation):
    """Wait for a transfer or a launch to finish before the next one is started."""

    name = "npu_schedule.wait"

    token = operand_def(TokenType())
    assembly_format = "$token attr-dict"


def _bytes(buffer: Attribute) -> int:
    """The size of a buffer of plain bytes."""
    assert isinstance(buffer, BufferType)
    if buffer.tile.element_type != i8:
        raise VerifyException(f"bytes are counted in i8, the buffer holds {buffer.tile}")
    return prod(buffer.tile.get_shape())


@irdl_op_definition
class ViewOp(IRDLOperation):
    """Part of a buffer of bytes: runs that begin `offset` behind its start, `stride` apart.

    The type of the result says how many runs there are and how long one is.
    """

    name = "npu_schedule.view"

    buffer = operand_def(BufferType)
    offset = prop_def(IntegerAttr)
    stride = prop_def(IntegerAttr)
    result = result_def(BufferType)
    assembly_format = (
        "$buffer `at` $offset `stride` $stride attr-dict `:` type($buffer) `->` type($result)"
    )

    def verify_(self) -> None:
        if self.buffer.type.space != self.result.type.space:  # type: ignore[attr-defined]
            raise VerifyException("a view lies in the memory of its buffer")
        size, part = _bytes(self.buffer.type), _bytes(self.result.type)
        shape = self.result.type.tile.get_shape()  # type: ignore[attr-defined]
        offset, stride = self.offset.value.data, self.stride.value.data
        if len(shape) > 2 or offset < 0 or stride < 0:
            raise VerifyException("a view has one run of bytes, or runs that follow each other")
        end = offset + (part if len(shape) < 2 else (shape[0] - 1) * stride + shape[1])
        if end > size:
            raise VerifyException(f"the view ends at byte {end} of a buffer of {size}")


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Start copying bytes between buffers, to one place or the same to several."""

    name = "npu_schedule.copy"

    sources = var_operand_def(BufferType)
    targets = var_operand_def(BufferType)
    token = result_def(TokenType())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "`from` `(` $sources `)` `to` `(` $targets `)` attr-dict "
        "`:` `(` type($sources) `)` `->` `(` type($targets) `)`"
    )

    def verify_(self) -> None:
        sizes = {_bytes(v.type) for v in self.targets}
        if not self.sources or not self.targets:
            raise VerifyException("a copy has a source and a target")
        if len(self.sources) == 1 and sizes != {_bytes(self.sources[0].type)}:
            raise VerifyException("source and targets of a copy have the same size")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Start a kernel on buffers; what it writes is valid once its token has been waited for."""

    name = "npu_schedule.launch"

    symbol = prop_def(StringAttr)
    inputs = var_operand_def(BufferType)
    outputs = var_operand_def(BufferType)
    token = result_def(TokenType())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$symbol `reads` `(` $inputs `)` `writes` `(` $outputs `)` attr-dict "
        "`:` `(` type($inputs) `)` `->` `(` type($outputs) `)`"
    )


NPUSchedule = Dialect(
    "npu_schedule",
    [
        UKernelLaunchOp,
        MatmulTileOp,
        SoftmaxFragmentOp,
        AllocOp,
        FreeOp,
        ReadOp,
        WriteOp,
        DmaLoadOp,
        DmaStoreOp,
        WaitOp,
        ViewOp,
        CopyOp,
        LaunchOp,
    ],
    [BufferType, TokenType],
)
