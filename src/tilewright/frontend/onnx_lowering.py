"""Turning ONNX nodes into kernel intents, one after the other.

Each operator has one function in an `onnx_ops_*` module, registered with `@lowers`. It gets the
lowering and the node and returns the node's values. Three ways come before it or after it:
a node whose inputs are all small constants is computed now; an operator without a function of its own
but with a function body in its schema is lowered through that body; anything else is a problem.
Problems are collected, with the values of the failed node replaced by stand-ins, so that one run
finds all of them.

Error codes: TW6006 an operator without a mapping, TW6007 a value that must be known at import
time, TW6008 an element type without tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xdsl.dialects import builtin

from tilewright.dialects.xdsl_api import (
    Operation,
    OpResult,
    SSAValue,
    TensorType,
    VerifyException,
)
from tilewright.errors import Location, TilewrightError, plain_reason
from tilewright.frontend.onnx_builder import Builder
from tilewright.frontend.onnx_file import Source, constant_of
from tilewright.frontend.onnx_folding import RANDOM, can_fold, fold_node
from tilewright.frontend.onnx_nodes import (
    OPERATORS,
    Lower,
    Node,
    Problem,
    Scope,
    load_operators,
    unsupported,
)
from tilewright.frontend.onnx_older import with_inputs
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    Constant,
    Value,
    identifier,
    number_of,
    shape,
)

# What mappings and constructors of operations raise for operands that no model may have.
ILL_FITTING = (
    ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
    VerifyException,
)  # fmt: skip


class Lowering(Builder):
    """A builder that goes through nodes and keeps the problems it finds."""

    def __init__(self, source: Source, fold: bool = True) -> None:
        super().__init__(source)
        self.fold = fold
        self.problems: list[tuple[str, str, Problem]] = []
        self.folded: list[str] = []
        self.scopes: list[Scope] = []  # of the graphs being lowered, outermost first
        self.types: dict[str, tuple[int, tuple[int, ...]]] = {}  # from ONNX's own inference
        load_operators()

    # ------------------------------------------------------------------------------- nodes

    def run(self, nodes: Iterable[Any], scope: Scope, version: int) -> None:
        """Lower nodes in order into a scope."""
        for proto in nodes:
            self.lower_proto(proto, scope, version)

    def lower_proto(self, proto: Any, scope: Scope, version: int) -> None:
        inputs: list[Value | None] = []
        for name in proto.input:
            value = scope.find(name) if name else None
            if name and value is None and name not in scope.absent:
                return  # made by a node with a problem and of unknown type
            inputs.append(value)
        node = Node(
            proto.op_type,
            proto.name or next((o for o in proto.output if o), proto.op_type),
            inputs,
            list(proto.output),
            {a.name: self.attribute(a) for a in proto.attribute},
            version,
            "" if proto.domain == "ai.onnx" else proto.domain,
            proto,
        )
        before = self.node
        self.node = node
        try:
            results = self.lower(node, scope)
        except Problem as problem:
            name = self.outer[0] if self.outer else node.name
            if self.outer:
                raise
            self.problems.append((node.operator, name, problem))
            self.stand_in(node, scope, problem)
        else:
            for name, value in zip(node.output_names, results, strict=False):
                if name:
                    scope.values[name] = value
                    if isinstance(value, OpResult) and not self.outer:
                        value.name_hint = identifier(name)
        finally:
            self.node = before

    def lower(self, node: Node, scope: Scope) -> Sequence[Value]:
        operator = f"{node.domain}.{node.operator}" if node.domain else node.operator
        if node.domain and operator not in OPERATORS:
            unsupported(
                f"operators of the domain {node.domain} are not part of standard ONNX",
                "export the model with standard operators only",
            )
        if self.fold and can_fold(node):
            folded = fold_node(node)
            if folded is not None:
                self.folded.append(node.name)
                return folded
        with_inputs(node)
        function = OPERATORS.get(operator)
        if function is not None:
            mark = self.block.last_op
            try:
                result = self.call_mapping(function, node)
                found = [result] if isinstance(result, Constant | SSAValue) else list(result)
                node.check_all_seen(len(found), self.defaults(node))
                return found
            except Problem as problem:
                self.rewind(mark)
                if problem.code != "TW6006" or not self.has_body(node):
                    raise
                first = problem
            try:
                return self.through_body(node)
            except Problem as second:
                self.rewind(mark)
                raise (second if second.needs else first) from None
        if node.operator in RANDOM:
            unsupported("its result is random, and compiled programs are deterministic")
        if self.has_body(node):
            mark = self.block.last_op
            try:
                return self.through_body(node)
            except Problem as problem:
                self.rewind(mark)
                problem.reason = f"in the operator's definition: {problem.reason}"
                raise
        unsupported(
            f"there is no mapping for {node.operator}-{node.version}",
            "rewrite it with supported operators, or take it out of the model",
        )

    def call_mapping(self, function: Lower, node: Node) -> Value | Sequence[Value]:
        """What a mapping returns; inputs of impossible shapes are a mistake of the model."""
        try:
            return function(self, node)
        except ILL_FITTING as error:
            sizes = ", ".join(str(list(shape(v))) for v in node.operands if v is not None)
            raise Problem(
                "TW6009",
                f"its inputs of shapes {sizes} do not fit the operator ({plain_reason(error)})",
            ) from error

    def rewind(self, mark: Operation | None) -> None:
        """Remove what was added after `mark`."""
        while self.block.last_op is not mark:
            last = self.block.last_op
            assert last is not None
            gone = set(last.results)
            self.materialised = {k: v for k, v in self.materialised.items() if v not in gone}
            last.detach()
            last.erase(safe_erase=False)

    # --------------------------------------------------------------------------- attributes

    def attribute(self, proto: Any) -> Any:
        """An attribute's value: numbers, strings, lists, constants; graphs stay protos."""
        from onnx import helper

        if proto.type == proto.TENSOR:
            return constant_of(self.source, proto.t, weight=False)
        if proto.type in (proto.GRAPH, proto.GRAPHS, proto.SPARSE_TENSOR, proto.TYPE_PROTO):
            return helper.get_attribute_value(proto)
        value = helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if proto.type == proto.STRINGS:
            return [v.decode("utf-8", "replace") for v in value]
        return list(value) if proto.type in (proto.INTS, proto.FLOATS) else value

    # ------------------------------------------------------------------------ function bodies

    def schema(self, node: Node) -> Any:
        from onnx import defs

        try:
            return defs.get_schema(node.operator, node.version, node.domain)
        except Exception:
            raise Problem(
                "TW6009", f"there is no operator {node.operator} in operator set {node.version}"
            ) from None

    def defaults(self, node: Node) -> dict[str, Any]:
        """The values of the attributes a node does not give."""
        return {
            name: self.attribute(a.default_value)
            for name, a in self.schema(node).attributes.items()
            if a.default_value.type != 0
        }

    def has_body(self, node: Node) -> bool:
        if node.operator in RANDOM or node.domain:
            return False
        schema = self.schema(node)
        return schema.has_function or schema.has_context_dependent_function

    def through_body(self, node: Node) -> list[Value]:
        """Lower a node through the function body its schema has."""
        from onnx import FunctionProto, TypeProto, helper

        schema = self.schema(node)
        if schema.has_function:
            body = schema.function_body
        else:
            types = []
            for value in node.operands:
                proto = TypeProto()
                if value is not None:
                    proto = helper.make_tensor_type_proto(number_of(value), shape(value))
                types.append(proto.SerializeToString())
            copy = type(node.proto)()
            copy.CopyFrom(node.proto)
            text = schema.get_context_dependent_function(copy.SerializeToString(), types)
            body = FunctionProto()
            body.ParseFromString(text)
        defaults = self.defaults(node)
        scope = Scope()
        for name, value in zip(body.input, node.operands, strict=False):
            if value is not None:
                scope.values[name] = value
        scope.absent = frozenset(name for name in body.input if name not in scope.values)
        given = {a.name: a for a in node.proto.attribute}
        versions = {o.domain: o.version for o in body.opset_import}
        self.outer.append(node.name)
        self.scopes.append(scope)
        try:
            for proto in body.node:
                bound = bind_references(proto, given, defaults)
                self.lower_proto(bound, scope, versions.get("", node.version))
        finally:
            self.outer.pop()
            self.scopes.pop()
        results = [scope.find(name) for name in body.output]
        if any(value is None and node.has_output(i) for i, value in enumerate(results)):
            unsupported(f"the function body of {node.operator} leaves an output without a value")
        return results  # type: ignore[return-value]

    # ----------------------------------------------------------------------------- stand-ins

    def stand_in(self, node: Node, scope: Scope, problem: Problem) -> None:
        """Values of the types ONNX infers, so that the nodes after a problem are checked too."""
        for name in node.output_names:
            if name in self.types:
                number, sizes = self.types[name]
                type_ = TensorType(ELEMENTS[number][1], sizes)
                op = builtin.UnrealizedConversionCastOp.get([], [type_])
                self.block.add_op(op)
                self.depends[op.results[0]] = problem.needs
                scope.values[name] = op.results[0]

    def errors(self) -> list[TilewrightError]:
        """One error per problem, with the node's name."""
        return [
            TilewrightError(
                problem.code,
                f"{operator} node {name!r}: {problem.reason}",
                Location(self.source.name),
                problem.hint,
            )
            for operator, name, problem in self.problems
        ]

    @property
    def needs(self) -> frozenset[str]:
        """Inputs of the model whose values would have to be known."""
        return frozenset().union(*(problem.needs for _, _, problem in self.problems))


def bind_references(proto: Any, given: dict[str, Any], defaults: dict[str, Any]) -> Any:
    """A node of a function body with its attribute references replaced by the caller's values."""
    from onnx import AttributeProto, helper

    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(attribute)
            continue
        name = attribute.ref_attr_name
        if name in given:
            bound = AttributeProto()
            bound.CopyFrom(given[name])
            bound.name = attribute.name
            copy.attribute.append(bound)
        elif name in defaults:
            copy.attribute.append(helper.make_attribute(attribute.name, defaults[name]))
    return copy
