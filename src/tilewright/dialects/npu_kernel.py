"""npu_kernel: kernel intents on whole tensors.

What to compute, by the name of a kernel family, before anything is cut into tiles. All
operations are pure and return new tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tilewright.dialects.encodings import ChannelScaleAttr, ScaleAttr, StoredAttr
from tilewright.dialects.family_checks import resolve_transposes
from tilewright.dialects.fused import EpilogueStepAttr, FusedOp
from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.dialects.kernel_syntax import (
    parse_call,
    parse_contraction,
    print_call,
    print_contraction,
    verify_call,
)
from tilewright.dialects.launches import BitcastOp, LaunchOp, PackOp, UnpackOp
from tilewright.dialects.layers import LayersOp, LayerYieldOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Dialect,
    IRDLOperation,
    Parser,
    Printer,
    Pure,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)


class Contraction(IRDLOperation):
    """What `npu_kernel.matmul` and `npu_schedule.matmul_tile` share."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    init = opt_operand_def(TensorType)
    transpose_lhs = opt_prop_def(UnitAttr)
    transpose_rhs = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    SYMBOL: ClassVar[str] = "npu_uk_matmul"

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        init: SSAValue | None = None,
        transpose_lhs: bool = False,
        transpose_rhs: bool = False,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs, init],
            result_types=[result_type],
            properties={
                "transpose_lhs": UnitAttr() if transpose_lhs else None,
                "transpose_rhs": UnitAttr() if transpose_rhs else None,
            },
            attributes=dict(attributes or {}),
        )

    def transposes(self) -> tuple[bool, bool]:
        """Whether lhs and rhs are read transposed, also where only the shapes tell."""
        lhs, rhs, result = (value.type for value in (self.lhs, self.rhs, self.result))
        assert isinstance(lhs, TensorType)
        assert isinstance(rhs, TensorType)
        assert isinstance(result, TensorType)
        found = resolve_transposes(
            tuple(lhs.get_shape()),
            tuple(rhs.get_shape()),
            tuple(result.get_shape()),
            self.transpose_lhs is not None,
            self.transpose_rhs is not None,
        )
        assert found is not None, "the verifier accepts only operands that fit"
        return found

    def verify_(self) -> None:
        marks = {k: v for k, v in self.properties.items() if k.startswith("transpose")}
        verify_call(self, self.SYMBOL, self.operands, marks, self.result.type)

    @classmethod
    def parse(cls, parser: Parser):
        lhs, rhs, init, attributes, result = parse_contraction(parser)
        transpose_lhs = attributes.pop("transpose_lhs", None) is not None
        transpose_rhs = attributes.pop("transpose_rhs", None) is not None
        return cls(lhs, rhs, result, init, transpose_lhs, transpose_rhs, attributes)

    def print(self, printer: Printer) -> None:
        print_contraction(printer, self, self.lhs, self.rhs, self.init, self.result.type)


@irdl_op_definition
class MatmulOp(Contraction):
    """Contract lhs [batch.., m, k] with rhs [batch.., k, n].

    `transpose_lhs` and `transpose_rhs` mark operands stored the other way round; rhs may have no
    batch dimensions. Without marks, shapes that fit only with rhs transposed mean just that.
    `acc(%init : type)` is a value the product is added to.
    """

    name = "npu_kernel.matmul"


class KernelCallOp(IRDLOperation):
    """What `npu_kernel.ukernel_generic` and `npu_schedule.ukernel_launch` share."""

    symbol = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(
        self,
        symbol: str,
        inputs: Sequence[SSAValue],
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_type],
            properties={"symbol": StringAttr(symbol)},
            attributes=dict(attributes or {}),
        )

    def call(self) -> KernelCall | None:
        """The call as its family sees it, or None for a symbol without a family."""
        return kernel_call(self.symbol.data, self.operand_types, self.attributes, self.result.type)

    def verify_(self) -> None:
        verify_call(self, self.symbol.data, self.operands, self.attributes, self.result.type)

    @classmethod
    def parse(cls, parser: Parser):
        symbol, operands, attributes, result = parse_call(parser)
        return cls(symbol, operands, result, attributes)

    def print(self, printer: Printer) -> None:
        print_call(printer, self.symbol.data, self.operands, self.attributes, self.result.type)


@irdl_op_definition
class UKernelGenericOp(KernelCallOp):
    """Apply the kernel family named by the symbol to whole tensors.

    Families, their operands and attributes are listed in the kernel family table.
    """

    name = "npu_kernel.ukernel_generic"

    traits = traits_def(Pure())


NPUKernel = Dialect(
    "npu_kernel",
    [
        *(MatmulOp, UKernelGenericOp, FusedOp, LayersOp, LayerYieldOp),
        *(LaunchOp, PackOp, UnpackOp, BitcastOp),
    ],
    [ScaleAttr, ChannelScaleAttr, StoredAttr, EpilogueStepAttr],
)
