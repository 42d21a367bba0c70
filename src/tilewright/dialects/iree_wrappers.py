"""What IREE wraps around a model: `util` functions and globals, `hal` imports and exports.

None of it computes. These definitions exist so that the text parses; `frontend/mlir.py` takes the
wrapping off and leaves `func.func` on tensors.
"""

from __future__ import annotations

from typing import Self, cast

from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    Dialect,
    DictionaryAttr,
    FunctionType,
    IRDLOperation,
    IsTerminator,
    Parser,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    irdl_op_definition,
    opt_prop_def,
    parse_func_op_like,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)


class WrapperOp(IRDLOperation):
    """Any operands, results and regions: the shape of these ops is IREE's business."""

    arguments = var_operand_def()
    outcomes = var_result_def()
    bodies = var_region_def()


@irdl_op_definition
class FuncOp(WrapperOp):
    """A function of IREE's own calling convention."""

    name = "util.func"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    tied_operands = opt_prop_def()
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    inlining_policy = opt_prop_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        visibility = None
        for word in ("public", "private", "nested"):
            if visibility is None and parser.parse_optional_keyword(word):
                visibility = StringAttr(word)
        name, inputs, outputs, region, attributes, arg_attrs, res_attrs = parse_func_op_like(
            parser, reserved_attr_names=("sym_name", "function_type", "sym_visibility")
        )
        properties = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(inputs, outputs),
            "sym_visibility": visibility,
            "arg_attrs": arg_attrs,
            "res_attrs": res_attrs,
        }
        return cls.create(
            properties={k: v for k, v in properties.items() if v is not None},
            attributes=dict(attributes.data) if attributes else {},
            regions=[region],
        )


@irdl_op_definition
class ReturnOp(WrapperOp):
    name = "util.return"
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        if not operands:
            return cls.create(attributes=attributes)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        values = parser.resolve_operands(operands, types, position)
        return cls.create(operands=values, attributes=attributes)


@irdl_op_definition
class CallOp(WrapperOp):
    name = "util.call"
    callee = prop_def(SymbolRefAttr)
    tied_operands = opt_prop_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        callee = SymbolRefAttr(parser.parse_symbol_name())
        operands = parser.parse_op_args_list()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(operands, types.inputs.data, position),
            result_types=list(types.outputs),
            properties={"callee": callee},
            attributes=attributes,
        )


@irdl_op_definition
class GlobalOp(WrapperOp):
    """A value shared by functions, set once by an initialiser."""

    name = "util.global"
    sym_name = prop_def(StringAttr)
    type = prop_def()
    sym_visibility = opt_prop_def(StringAttr)
    initial_value = opt_prop_def()
    is_mutable = opt_prop_def(UnitAttr)
    inlining_policy = opt_prop_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {}
        for word in ("public", "private"):
            if parser.parse_optional_keyword(word):
                properties["sym_visibility"] = StringAttr(word)
        if parser.parse_optional_keyword("mutable"):
            properties["is_mutable"] = UnitAttr()
        properties["sym_name"] = parser.parse_symbol_name()
        attributes = parser.parse_optional_attr_dict()
        if parser.parse_optional_punctuation("="):
            properties["initial_value"] = parser.parse_attribute()
        attributes |= parser.parse_optional_attr_dict()
        if parser.parse_optional_punctuation(":"):
            properties["type"] = parser.parse_type()
        else:
            properties["type"] = getattr(properties.get("initial_value"), "type", UnitAttr())
        return cls.create(properties=properties, attributes=attributes)


@irdl_op_definition
class InitializerOp(WrapperOp):
    name = "util.initializer"
    function_type = opt_prop_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attributes"):
            attributes = parser.parse_optional_attr_dict()
        return cls.create(attributes=attributes, regions=[parser.parse_region()])


@irdl_op_definition
class GlobalLoadOp(WrapperOp):
    name = "util.global.load"
    global_ = opt_prop_def(prop_name="global")
    is_immutable = opt_prop_def(UnitAttr)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_optional_keyword("immutable")
        symbol = SymbolRefAttr(parser.parse_symbol_name())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            result_types=[parser.parse_type()],
            properties={"global": symbol},
            attributes=attributes,
        )


@irdl_op_definition
class GlobalStoreOp(WrapperOp):
    name = "util.global.store"
    global_ = opt_prop_def(prop_name="global")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        symbol = SymbolRefAttr(parser.parse_symbol_name())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(operand, parser.parse_type())
        return cls.create(operands=[value], properties={"global": symbol}, attributes=attributes)


def _parse_arrow(parser: Parser) -> None:
    """`=>`, which the lexer reads as two signs."""
    parser.parse_punctuation("=")
    parser.parse_punctuation(">")


def _parse_on_and_wait(parser: Parser) -> None:
    """Skip `on(…)`, `wait(%fence) =>` and the like: placement and order of a device."""
    while True:
        if parser.parse_optional_keyword("wait"):
            with parser.in_parens():
                parser.parse_unresolved_operand()
            _parse_arrow(parser)
        elif parser.parse_optional_keyword("on"):
            with parser.in_parens():
                parser.parse_attribute()
        else:
            return


class TransferOp(WrapperOp):
    """One value in, the same value in another guise out: `%x "name" : type -> type`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        _parse_on_and_wait(parser)
        operand = parser.parse_unresolved_operand()
        label = parser.parse_optional_str_literal()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        if parser.parse_optional_keyword("as"):
            source = parser.parse_type()
        parser.parse_punctuation("->")
        if parser.parse_optional_punctuation("("):
            target = parser.parse_type()
            parser.parse_punctuation(")")
        else:
            target = parser.parse_type()
        if label is not None:
            attributes["name"] = StringAttr(label)
        value = parser.resolve_operand(operand, source)
        return cls.create(operands=[value], result_types=[target], attributes=attributes)


@irdl_op_definition
class TensorImportOp(TransferOp):
    name = "hal.tensor.import"
    target_encoding = opt_prop_def()
    consume = opt_prop_def()


@irdl_op_definition
class TensorExportOp(TransferOp):
    name = "hal.tensor.export"
    source_encoding = opt_prop_def()


@irdl_op_definition
class BarrierStartOp(TransferOp):
    name = "iree_tensor_ext.compute_barrier.start"


@irdl_op_definition
class BarrierEndOp(TransferOp):
    name = "iree_tensor_ext.compute_barrier.end"


@irdl_op_definition
class TensorBarrierOp(WrapperOp):
    name = "hal.tensor.barrier"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_keyword("join")
        position = parser.pos
        with parser.in_parens():
            operands = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_unresolved_operand
            )
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        _parse_arrow(parser)
        fence = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        values = list(parser.resolve_operands(operands, types, position))
        values.append(parser.resolve_operand(fence, parser.parse_type()))
        return cls.create(operands=values, result_types=types)


def wrapped_symbol(op: IRDLOperation) -> str:
    """The global a load or store names."""
    return cast(SymbolRefAttr, op.properties["global"]).root_reference.data


Util = Dialect(
    "util",
    [FuncOp, ReturnOp, CallOp, GlobalOp, InitializerOp, GlobalLoadOp, GlobalStoreOp],
)
Hal = Dialect("hal", [TensorImportOp, TensorExportOp, TensorBarrierOp])
IREETensorExt = Dialect("iree_tensor_ext", [BarrierStartOp, BarrierEndOp])
