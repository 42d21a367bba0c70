"""Values of a model in the forms that a machine's operations read: floats of a type, or codes.

A form is the name of an element type ("f32", "f16", "i64") or `CODES`. Every value is made in one
form; another one is made when somebody asks for it, once. Conversions between a value of the host
and one of the device are the host's; between two operations of the device they are the device's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.dialects.encodings import ScaleAttr, encoded, encoding_of, float_text
from tilewright.dialects.locations import copy_location
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    FloatAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    bf16,
    f8E4M3FN,
    f16,
    f32,
    f64,
    i8,
    i32,
)
from tilewright.dialects.xdsl_api import IntegerType as Integer
from tilewright.model.capture import Graph, Node, dtype_of
from tilewright.model.formats import CodeRules, code_scale
from tilewright.model.ranges import Range
from tilewright.model.weights import resource_name, weight_constant
from tilewright.reference import codes as code_arithmetic
from tilewright.reference import dtypes

CODES = "codes"
FLOATS = ("f64", "f32", "f16", "bf16", "f8E4M3FN")  # widest first
ELEMENTS: dict[str, Attribute] = {
    "f64": f64,
    "f32": f32,
    "f16": f16,
    "bf16": bf16,
    "f8E4M3FN": f8E4M3FN,
    "i32": i32,
    "i16": Integer(16),
    "i8": i8,
    "i2": Integer(2),
}
LITERALS = ("scalar_lhs", "scalar_rhs", "min", "max", "value")
VIEWS = ("reshape", "transpose", "slice")  # carried out in whatever form somebody asks for


class Encoder:
    """A block of new operations that grows, and the forms of the old values in it."""

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, np.ndarray],
        rules: CodeRules,
        ranges: Mapping[SSAValue, Range],
        argument_types: Sequence[Attribute],
    ) -> None:
        self.graph, self.rules, self.ranges = graph, rules, ranges
        self.weights = dict(weights)
        self.block = Block(arg_types=argument_types)
        self.forms: dict[SSAValue, dict[str, SSAValue]] = {}
        self.taken: dict[SSAValue, dict[str, SSAValue]] = {}  # forms that only the host reads
        self.reasons: dict[Operation, str] = {}  # operations of the host
        self.outside: set[SSAValue] = set(self.block.args)  # new values that the host has
        self.views: dict[SSAValue, Node] = {}  # results that are made when they are asked for
        self.scales: dict[SSAValue, ScaleAttr] = {}  # of codes, by old value
        self.node: Node | None = None
        for old, new in zip(graph.inputs, self.block.args, strict=True):
            new.name_hint = old.name_hint
            self.forms[old] = {dtype_of(old): new}

    # --- making operations --------------------------------------------------------------

    def emit(self, op: Operation, reason: str | None = None) -> SSAValue:
        """Add an operation; with a reason it is the host's."""
        if self.node is not None:
            copy_location(self.node.op, op)
            if self.node.layer and "tw.layer" not in op.attributes:
                op.attributes["tw.layer"] = StringAttr(self.node.layer)
        self.block.add_op(op)
        if reason is not None:
            self.reasons[op] = reason
            self.outside.update(op.results)
        return op.results[0]

    def call(
        self,
        family: str,
        operands: Sequence[SSAValue],
        kind: TensorType,
        attributes: Mapping[str, Attribute] | None = None,
        reason: str | None = None,
    ) -> SSAValue:
        return self.emit(UKernelGenericOp(f"npu_uk_{family}", operands, kind, attributes), reason)

    def constant(self, array: np.ndarray, kind: TensorType, name: str) -> SSAValue:
        """Data of the program under a name of its own."""
        base, count = name, 0
        while name in self.weights and not _same(self.weights[name], array):
            count += 1
            name = f"{base}.{count}"
        self.weights[name] = array
        return self.emit_constant(weight_constant(name, kind))

    def emit_constant(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def same(self, node: Node, operands: Sequence[SSAValue], kind: TensorType) -> Operation:
        """The operation of a node on other operands, with another result type."""
        mapper = dict(zip(node.op.operands, operands, strict=True))
        copy = node.op.clone(value_mapper=mapper)
        # Two operands may be one value in different forms.
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
        made = type(copy).create(
            operands=list(copy.operands),
            result_types=[kind],
            properties=dict(copy.properties),
            attributes={
                name: _held(value, kind) if name in LITERALS else value
                for name, value in copy.attributes.items()
            },
        )
        made.results[0].name_hint = node.result.name_hint
        return made

    # --- forms --------------------------------------------------------------------------

    def put(self, old: SSAValue, new: SSAValue, form: str | None = None) -> None:
        """Note the form in which a value was made."""
        encoding = encoding_of(new)
        if form is None:
            form = CODES if encoding is not None else dtype_of(new)
        if form == CODES and isinstance(encoding, ScaleAttr):
            self.scales[old] = encoding
        new.name_hint = new.name_hint or old.name_hint
        self.forms.setdefault(old, {})[form] = new

    def own(self, value: SSAValue, for_host: bool = False) -> SSAValue:
        """A value in the type the model has for it."""
        return self.get(value, dtype_of(value), for_host)

    def has(self, value: SSAValue, form: str) -> bool:
        return form in self.forms.get(value, {})

    def get(self, value: SSAValue, form: str, for_host: bool = False) -> SSAValue:
        """A value in a form; for_host: the host reads it."""
        if value in self.graph.constants:
            return self._constant_form(value, form)
        if value in self.views and not self.has(value, form):
            self._view(value, form, for_host)
        found = self.forms[value]
        if form in found:
            return found[form]
        inside = self.forms[value][self.any_form(value)] not in self.outside
        if for_host and inside:  # the device does not read what the host takes back
            found = self.taken.setdefault(value, {})
        if form not in found:
            found[form] = self._converted(value, form, for_host)
        return found[form]

    def any_form(self, value: SSAValue) -> str:
        """A form in which a value is there."""
        if value in self.views and value not in self.forms:
            source = self.views[value].operands[0]
            form = dtype_of(source) if source in self.graph.constants else self.any_form(source)
            self._view(value, form, False)
        found = self.forms[value]
        return next((f for f in FLOATS if f in found), next(iter(found)))

    def _view(self, value: SSAValue, form: str, for_host: bool) -> None:
        node = self.views[value]
        source = node.operands[0]
        known = source in self.graph.constants
        if for_host and not known and not self.has(source, form):
            form = self.any_form(source)  # and the host converts what comes out
        if self.has(value, form):
            return
        operand = self.get(source, form)
        before, self.node = self.node, node
        kind = node.result.type
        assert isinstance(kind, TensorType) and isinstance(operand.type, TensorType)
        made = self.same(node, [operand], _like(kind, operand.type))
        self.put(value, self.emit(made), form)
        self.node = before

    def _constant_form(self, value: SSAValue, form: str) -> SSAValue:
        found = self.forms.setdefault(value, {})
        if form not in found:
            op, array = value.owner, self.graph.constants[value]
            kind = value.type
            assert isinstance(op, arith.ConstantOp) and isinstance(kind, TensorType)
            if form == dtype_of(value):
                found[form] = self.emit_constant(op.clone())
            else:
                name = f"{resource_name(op) or value.name_hint or 'constant'}.{form}"
                element = dtypes.element_type(kind)
                wide = dtypes.working(dtypes.stored(array, element), element)
                if form == CODES:
                    found[form] = self._constant_codes(value, wide, kind, name)
                else:
                    target = ELEMENTS[form]
                    narrow = dtypes.element_type(target)
                    data = dtypes.stored(dtypes.held(wide, narrow), narrow)
                    found[form] = self.constant(data, encoded(kind, target), name)
        return found[form]

    def _constant_codes(
        self, value: SSAValue, wide: np.ndarray, kind: TensorType, name: str
    ) -> SSAValue:
        seen = Range()
        seen.observe(wide)
        scale = self.scales[value] = code_scale(seen, self.rules)
        data = code_arithmetic.quantise(wide, scale.factor, scale.zero.data, 8, self.rules.method)
        return self.constant(data.astype(np.int8), encoded(kind, i8, scale), name)

    def encoding(self, value: SSAValue) -> ScaleAttr:
        """The scale of a value's codes, from what calibration saw."""
        if value not in self.scales:
            self.scales[value] = code_scale(self.ranges.get(value, Range()), self.rules)
        return self.scales[value]

    def _converted(self, value: SSAValue, form: str, for_host: bool) -> SSAValue:
        source = self.forms[value][self.any_form(value)]
        kind = value.type
        assert isinstance(kind, TensorType)
        outside = source in self.outside
        if form == CODES:
            scale = self.encoding(value)
            reason = f"handed over as 8-bit codes of {float_text(scale.factor)}"
            result = encoded(kind, i8, scale)
            method: dict[str, Attribute] = {"method": StringAttr(self.rules.method)}
            reason = reason if outside else None
            return self._conversion("quantise", source, value, result, method, reason)
        result = encoded(kind, ELEMENTS[form])
        reason = f"handed over as {form}" if outside else None
        if for_host:
            reason = f"taken back as {form}"
        family = "cast" if encoding_of(source) is None else "dequantise"
        return self._conversion(family, source, value, result, {}, reason)

    def _conversion(
        self,
        family: str,
        source: SSAValue,
        value: SSAValue,
        result: TensorType,
        attributes: dict[str, Attribute],
        reason: str | None,
    ) -> SSAValue:
        """A conversion; one that the host does is known by the value, not by who reads it."""
        if reason is not None and value.name_hint:
            attributes = {**attributes, "tw.layer": StringAttr(value.name_hint)}
        made = self.call(family, [source], result, attributes, reason)
        if value.name_hint:
            made.name_hint = f"{value.name_hint}_{result.element_type}"
        return made


def _like(kind: TensorType, operand: TensorType) -> TensorType:
    """A type with the shape of one and the numbers of another."""
    encoding = encoding_of(operand)
    return encoded(kind, operand.element_type, encoding)


def _held(literal: Attribute, kind: TensorType) -> Attribute:
    """A literal as floats of a type can hold it."""
    element = dtypes.element_type(kind)
    if not isinstance(literal, FloatAttr) or not element.is_float:
        return literal
    return FloatAttr(dtypes.literal(literal.value.data, element), literal.type)


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    same_type = left.dtype == right.dtype and left.shape == right.shape
    return left is right or (same_type and left.tobytes() == right.tobytes())
