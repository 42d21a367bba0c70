"""Kernels of a machine's library on tensors as the machine stores them.

    %x = npu_kernel.pack %given {tw.tensor = "x"} : tensor<50x64xf32> -> tensor<1x50x64xbf16>
    %y = npu_kernel.launch "linear"(a = %x, w = %w) {activation = "relu"} : tX, tW -> tY
    %p, %i = npu_kernel.launch "conv2d"(x = %x, w = %w) also(out_image) {…} : tX, tW -> tP, tI
    %z = npu_kernel.bitcast %y : tensor<…, #npu_kernel.stored<"tiles", scale = 0.5>>
                               -> tensor<…, #npu_kernel.stored<"tiles", scale = 0.25>>
    %r = npu_kernel.unpack %y : tensor<1x50x64xbf16> -> tensor<50x64xf32>

The last form of a model before code: what is fused and in which numbers has been decided. A launch
names a kernel of the target, its operands by role, and its options: whole numbers, floats, texts,
flags, lists and tables of these. Some kernels leave more than their result; `also` names by role what
follows it. Attributes that begin with `tw.` are notes, which change nothing:
`tw.tensor` is the name of the result, `tw.tensors` are those of what else is left, `tw.layer` is that of the layer. `pack` brings a value into the
form in which the device keeps it (times a factor and in another order, where it has an `encoding`;
with `stays` for more than one run) and `unpack` back; `bitcast` keeps the codes and reads them with
another scale.

Error codes: TW1212 a launch that is wrong in itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.dialects.kernel_syntax import parse_types, print_types
from tilewright.dialects.locations import location_of
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IRDLOperation,
    Parser,
    Printer,
    Pure,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i64,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from tilewright.errors import TilewrightError

NOTE = "tw."  # what the names of notes begin with
TENSOR, TENSORS = "tw.tensor", "tw.tensors"
ENCODING, STAYS = "encoding", "stays"  # of what is packed: how, and for more than one run


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """A kernel of the target, on stored tensors."""

    name = "npu_kernel.launch"

    kernel = prop_def(StringAttr)
    roles = prop_def(ArrayAttr[StringAttr])
    also = opt_prop_def(ArrayAttr[StringAttr])  # roles of further results
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    others = var_result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(
        self,
        kernel: str,
        operands: Mapping[str, SSAValue],
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
        others: Mapping[str, Attribute] | None = None,
    ) -> None:
        others = others or {}
        also = {"also": ArrayAttr([StringAttr(role) for role in others])} if others else {}
        super().__init__(
            operands=[list(operands.values())],
            result_types=[result_type, list(others.values())],
            properties={
                "kernel": StringAttr(kernel),
                "roles": ArrayAttr([StringAttr(role) for role in operands]),
                **also,
            },
            attributes=dict(attributes or {}),
        )

    def others_by_role(self) -> dict[str, SSAValue]:
        """What the kernel leaves beside its result."""
        roles = [] if self.also is None else [role.data for role in self.also]
        return dict(zip(roles, self.others, strict=True))

    def operands_by_role(self) -> dict[str, SSAValue]:
        roles = [role.data for role in self.roles]
        return dict(zip(roles, self.inputs, strict=True))

    def options(self) -> dict[str, Any]:
        """The kernel's options as plain values."""
        return {k: plain(v) for k, v in self.attributes.items() if not k.startswith(NOTE)}

    def note(self, name: str, otherwise: Any = None) -> Any:
        """A note, `otherwise` if there is none."""
        found = self.attributes.get(NOTE + name)
        return otherwise if found is None else plain(found)

    def verify_(self) -> None:
        roles = [role.data for role in self.roles]
        if len(set(roles)) != len(roles) or len(roles) != len(self.inputs):
            raise TilewrightError(
                "TW1212", f"a launch with operands {', '.join(roles)}", location_of(self)
            )
        also = [] if self.also is None else [role.data for role in self.also]
        if len(set(also)) != len(also) or len(also) != len(self.others) or "out" in also:
            raise TilewrightError(
                "TW1212",
                f"a launch that leaves {', '.join(also) or 'nothing'} beside its result",
                location_of(self),
            )
        for value in self.attributes.values():
            plain(value)

    @classmethod
    def parse(cls, parser: Parser):
        kernel = parser.parse_str_literal()

        def operand() -> tuple[str, Any]:
            role = parser.parse_identifier()
            parser.parse_punctuation("=")
            return role, parser.parse_unresolved_operand()

        rows = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        also: list[str] = []
        if parser.parse_optional_keyword("also"):
            also = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_identifier
            )
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        types, result = parse_types(parser)
        others: dict[str, Attribute] = {}
        for role in also:
            parser.parse_punctuation(",")
            others[role] = parser.parse_type()
        if len(others) != len(also):
            parser.raise_error("a result that is named twice")
        values = parser.resolve_operands([value for _, value in rows], types, position)
        if len({role for role, _ in rows}) != len(rows):
            parser.raise_error("an operand that is given twice")
        named = {role: value for (role, _), value in zip(rows, values, strict=True)}
        return cls(kernel, named, result, attributes, others)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.kernel.data)
        printer.print_string("(")

        def operand(row: tuple[str, SSAValue]) -> None:
            printer.print_string(f"{row[0]} = ")
            printer.print_ssa_value(row[1])

        printer.print_list(list(self.operands_by_role().items()), operand)
        printer.print_string(")")
        others = self.others_by_role()
        if others:
            printer.print_string(f" also({', '.join(others)})")
        printer.print_op_attributes(self.attributes)
        print_types(printer, self.inputs, self.result.type)
        for value in others.values():
            printer.print_string(", ")
            printer.print_attribute(value.type)


class _Conversion(IRDLOperation):
    """One tensor in another form."""

    source = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(
        self,
        source: SSAValue,
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[source], result_types=[result_type], attributes=dict(attributes or {})
        )


@irdl_op_definition
class PackOp(_Conversion):
    """A value as the device stores it: rounded to its type, in its shape and layout."""

    name = "npu_kernel.pack"


@irdl_op_definition
class UnpackOp(_Conversion):
    """A stored tensor as a value."""

    name = "npu_kernel.unpack"


@irdl_op_definition
class BitcastOp(_Conversion):
    """The same codes, read with another scale."""

    name = "npu_kernel.bitcast"

    def verify_(self) -> None:
        first, second = self.source.type, self.result.type
        assert isinstance(first, TensorType) and isinstance(second, TensorType)
        same = first.element_type == second.element_type
        if not same or first.get_shape() != second.get_shape():
            raise TilewrightError("TW1212", f"a bitcast of {first} to {second}", location_of(self))


# --- plain values -----------------------------------------------------------------------


def attribute(value: Any) -> Attribute:
    """A plain value as an attribute."""
    if value is None:
        return UnitAttr()
    if isinstance(value, bool):
        return IntegerAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, Mapping):
        return DictionaryAttr({key: attribute(one) for key, one in value.items()})
    return ArrayAttr([attribute(one) for one in value])


def plain(value: Attribute) -> Any:
    """The plain value of an attribute."""
    match value:
        case UnitAttr():
            return None
        case IntegerAttr():
            number = value.value.data
            return bool(number) if value.type == i1 else number
        case FloatAttr():
            return float(value.value.data)
        case StringAttr():
            return value.data
        case DictionaryAttr():
            return {key: plain(one) for key, one in value.data.items()}
        case ArrayAttr():
            return [plain(one) for one in value]
        case _:
            raise TilewrightError("TW1212", f"{value} is no option of a kernel")
