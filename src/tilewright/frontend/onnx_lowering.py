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

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import IntentBuilder, Lane, Literal, literal
from tilewright.dialects.kernel_families import check_call
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FileLineColLoc,
    IntAttr,
    Operation,
    OpResult,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
)
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.onnx_file import Source, constant_of
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    TYPE_NAMES,
    Array,
    Constant,
    Value,
    WeightNames,
    element,
    number_of_array,
    shape,
    stored,
)

OPERATOR_FILES = ("elementwise", "movement", "rows", "products", "windows", "quantised", "control")
INLINE_ELEMENTS = 16  # constants up to this size stand in the text of the module
FOLD_ELEMENTS = 1 << 16  # nodes on constants up to this size are computed at import

# Operators whose result is not a function of their inputs.
RANDOM = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"]
)  # fmt: skip


# Attributes that change nothing in what these mappings compute: precisions are at least as asked for.
HARMLESS = frozenset(
    ["stash_type", "softmax_precision", "kernel_shape", "storage_order", "seed", "momentum"]
)  # fmt: skip


class Problem(Exception):
    """A node has no mapping: the code, the reason, what to do."""

    def __init__(
        self, code: str, reason: str, hint: str | None = None, needs: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(reason)
        self.code, self.reason, self.hint = code, reason, hint
        self.needs = needs  # inputs of the model that would have to be known


def unsupported(reason: str, hint: str | None = None) -> NoReturn:
    raise Problem("TW6006", reason, hint)


@dataclass
class Node:
    """One node with its inputs looked up; missing optional inputs are None."""

    operator: str
    name: str
    operands: list[Value | None]
    output_names: list[str]
    attributes: dict[str, Any]
    version: int
    domain: str = ""
    proto: Any = None
    # What the mapping has looked at: anything else would be dropped without a word.
    seen: set[str | int] = field(default_factory=set)

    @property
    def inputs(self) -> list[Value | None]:
        """All inputs, for operators that take any number."""
        self.seen.update(range(len(self.operands)))
        return self.operands

    def input(self, index: int) -> Value | None:
        self.seen.add(index)
        return self.operands[index] if index < len(self.operands) else None

    def required(self, index: int) -> Value:
        value = self.input(index)
        if value is None:
            raise Problem("TW6009", f"input {index} is missing")
        return value

    def has_output(self, index: int) -> bool:
        return index < len(self.output_names) and bool(self.output_names[index])

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return self.attributes.get(name, default)

    def check_all_seen(self, results: int, defaults: dict[str, Any]) -> None:
        """Refuse a node with an attribute, input or output that the mapping left out."""
        for name, value in self.attributes.items():
            if name not in self.seen and name not in HARMLESS and value != defaults.get(name):
                unsupported(
                    f"the attribute {name} of {self.operator}-{self.version} has no mapping"
                )
        for index, operand in enumerate(self.operands):
            if operand is not None and index not in self.seen:
                unsupported(f"input {index} of {self.operator}-{self.version} has no mapping")
        for index in range(results, len(self.output_names)):
            if self.has_output(index):
                unsupported(f"output {index} of {self.operator}-{self.version} has no mapping")


Lower = Callable[["Lowering", Node], Value | Sequence[Value]]
OPERATORS: dict[str, Lower] = {}


def lowers(*operators: str) -> Callable[[Lower], Lower]:
    """Register how operators of the standard set are lowered."""

    def register(function: Lower) -> Lower:
        for operator in operators:
            OPERATORS[operator] = function
        return function

    return register


def load_operators() -> dict[str, Lower]:
    """The table of operators with all its files loaded."""
    for name in OPERATOR_FILES:
        importlib.import_module(f"tilewright.frontend.onnx_ops_{name}")
    return OPERATORS


@dataclass
class Scope:
    """The names of one graph or function body; an inner graph also sees the outer one."""

    values: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    absent: frozenset[str] = frozenset()  # optional inputs of a function that were not given

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None


class Lowering(IntentBuilder):
    """The block being built, the weights it names, and the problems found."""

    def __init__(self, source: Source, fold: bool = True) -> None:
        super().__init__()
        self.source = source
        self.fold = fold
        self.block = Block()
        self.weights: dict[str, Array] = {}
        self.names = WeightNames()
        self.problems: list[tuple[str, str, Problem]] = []
        self.folded: list[str] = []
        self.node: Node | None = None
        self.scopes: list[Scope] = []  # of the graphs being lowered, outermost first
        self.outer: list[str] = []  # nodes whose function bodies are being lowered
        self.materialised: dict[tuple[int, str], SSAValue] = {}
        self.kept: list[Constant] = []
        self.types: dict[str, tuple[int, tuple[int, ...]]] = {}  # from ONNX's own inference
        self.depends: dict[SSAValue, frozenset[str]] = {}  # inputs of the model behind a value
        load_operators()

    # ------------------------------------------------------------------------- building

    def add(self, op: Operation) -> OpResult:
        self.block.add_op(op)
        name = self.outer[0] if self.outer else self.node.name if self.node else ""
        place = f"{self.source.name}#{name}" if name else self.source.name
        op.location = FileLineColLoc(StringAttr(place), IntAttr(0), IntAttr(0))
        reads = [self.depends.get(operand, frozenset()) for operand in op.operands]
        self.depends[op.results[0]] = frozenset().union(*reads)
        if isinstance(op, UKernelGenericOp):
            self._check(op)
        return op.results[0]

    def _check(self, op: UKernelGenericOp) -> None:
        call = op.call()
        assert call is not None, f"no family for {op.symbol.data}"
        try:
            check_call(call)
        except TilewrightError as error:
            raise Problem("TW6006", error.message, error.hint) from None

    def tensor(self, value: Value) -> SSAValue:
        """The value as an operand: a constant becomes `dense` when tiny, else a named weight."""
        if isinstance(value, SSAValue):
            return value
        key = (id(value), "")
        if key not in self.materialised:
            self.kept.append(value)
            self.materialised[key] = self.add(arith.ConstantOp(self._attribute(value)))
            self.materialised[key].name_hint = identifier(value.name)
        return self.materialised[key]

    def _attribute(self, value: Constant) -> Any:
        type_ = TensorType(value.element, value.array.shape)
        # Types whose numbers the text of a module holds exactly; 4-bit integers are not among them.
        plain = value.array.dtype.name in ("bool", "int8", "int16", "int32", "int64", "float32")
        tiny = 0 < value.array.size <= INLINE_ELEMENTS
        if tiny and plain and value.number != 22 and np.isfinite(value.array).all():
            numbers = value.array.reshape(-1).tolist()
            return DenseIntOrFPElementsAttr.from_list(type_, numbers)  # type: ignore[arg-type]
        name = self.names.name(value.name)
        self.weights[name] = value.array
        return DenseResourceAttr.from_params(name, type_)

    def constant(self, array: Any, like: Value | int, name: str = "constant") -> Constant:
        """A new constant with the element type of a value (or of a TensorProto number)."""
        number = like if isinstance(like, int) else number_of(like)
        return Constant(np.asarray(array).astype(ELEMENTS[number][2]), name, number)

    def integers(self, array: Any, name: str = "indices") -> Constant:
        return Constant(np.asarray(array, dtype=np.int64), name, 7)

    # ---------------------------------------------------------------------- looking at values

    def known(self, value: Value, what: str) -> Array:
        """The array of a value that must be known at import time."""
        if isinstance(value, Constant):
            return value.array
        needs = self.depends.get(value, frozenset())
        if needs:
            names = ", ".join(sorted(needs))
            raise Problem(
                "TW6007",
                f"{what} is computed from the input {names}, so sizes would depend on data",
                f"fix the input's value: values={{{sorted(needs)[0]!r}: array}}",
                needs,
            )
        raise Problem("TW6007", f"{what} is not known at import time")

    def known_list(self, value: Value, what: str) -> list[int]:
        return [int(v) for v in self.known(value, what).reshape(-1)]

    def axes(self, node: Node, index: int, rank: int, name: str = "axes") -> list[int] | None:
        """Axes from an input (newer versions) or attribute (older ones), counted from the front."""
        value = node.input(index)
        given = node.get(name) if value is None else self.known_list(value, name)
        if given is None:
            return None
        if any(not -rank <= axis < rank for axis in given):
            raise Problem("TW6009", f"axes {list(given)} are outside rank {rank}")
        return sorted(axis % rank for axis in given)

    # ------------------------------------------------------------------------- element-wise

    def apply(
        self,
        family: str,
        *operands: Value | float | int,
        to: Attribute | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        over: Sequence[int] | None = None,
    ) -> OpResult:
        """An element-wise intent with numpy's broadcasting; numbers take the operands' type."""
        values = [x for x in operands if isinstance(x, Constant | SSAValue)]
        kind = element(values[-1])
        sizes = (
            tuple(over) if over is not None else np.broadcast_shapes(*(shape(v) for v in values))
        )
        extents = dict(enumerate(sizes))
        wide = any(isinstance(v, SSAValue) and shape(v) == sizes for v in values)
        lanes: list[Lane | Literal] = []
        for position, operand in enumerate(operands):
            may = len(operands) > 1 and not (family == "select" and position == 0)
            if not isinstance(operand, Constant | SSAValue):
                lanes.append(literal(operand, kind))
            elif isinstance(operand, Constant) and operand.array.size == 1 and may and wide and (
                np.isfinite(float(operand.array.reshape(-1)[0]))
            ):  # fmt: skip
                lanes.append(literal(operand.array.reshape(-1)[0].item(), operand.element))
            else:
                lanes.append(self.lane(self.tensor(operand), sizes))
        if not any(isinstance(lane, Lane) for lane in lanes):
            lanes[0] = self.lane(self.tensor(values[0]), sizes)
        result = to or kind
        made = self.elementwise(
            family, lanes, result, extents, attributes, loops=range(len(sizes))
        ).tensor
        assert isinstance(made, OpResult)
        return made

    def lane(self, value: SSAValue, sizes: Sequence[int]) -> Lane:
        """The value read over `sizes`, dimensions lined up from the last, size 1 repeated."""
        own = shape(value)
        first = len(sizes) - len(own)
        loops = (None if n == 1 and sizes[first + d] != 1 else first + d for d, n in enumerate(own))
        return Lane(value, tuple(loops))

    def cast(self, value: Value, to: Attribute) -> Value:
        if element(value) == to:
            return value
        return self.apply("cast", value, to=to)

    def expand(self, value: Value, sizes: Sequence[int]) -> SSAValue:
        """The value repeated along dimensions of size 1 up to `sizes`."""
        if shape(value) == tuple(sizes):
            return self.tensor(value)
        if math.prod(shape(value)) == math.prod(sizes):
            return self.reshape(self.tensor(value), sizes)
        return self.apply("cast", value, to=element(value), over=sizes)

    def compare(self, predicate: str, left: Value, right: Value | float | int) -> OpResult:
        unsigned = is_unsigned(element(left)) and predicate not in ("eq", "ne")
        text = StringAttr(f"u{predicate}" if unsigned else predicate)
        return self.apply("compare", left, right, to=builtin.i1, attributes={"predicate": text})

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
        if node.domain:
            unsupported(
                f"operators of the domain {node.domain} are not part of standard ONNX",
                "export the model with standard operators only",
            )
        if self.can_fold(node):
            folded = self.fold_node(node)
            if folded is not None:
                return folded
        function = OPERATORS.get(node.operator)
        if function is not None:
            mark = self.block.last_op
            try:
                result = function(self, node)
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

    # ------------------------------------------------------------------------------ folding

    def can_fold(self, node: Node) -> bool:
        if node.operator in ("Constant", "Shape", "Size", "If", "Loop", "Scan", "Identity"):
            return False
        if node.operator in RANDOM or not self.fold:
            return False
        inputs = [v for v in node.operands if v is not None]
        return all(isinstance(v, Constant) and v.array.size <= FOLD_ELEMENTS for v in inputs)

    def fold_node(self, node: Node) -> list[Value] | None:
        """The node's values computed now, by ONNX's own definition; None when that fails."""
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        names = [f"i{i}" if v is not None else "" for i, v in enumerate(node.operands)]
        copy = helper.make_node(
            node.operator, names, [f"o{i}" for i in range(len(node.output_names))]
        )
        copy.attribute.extend(node.proto.attribute)
        if any(a.ref_attr_name or a.type in (a.GRAPH, a.GRAPHS) for a in copy.attribute):
            return None
        graph = helper.make_graph([copy], "fold", [], [])
        for index, (name, value) in enumerate(zip(names, node.operands, strict=True)):
            if isinstance(value, Constant):
                graph.input.append(
                    helper.make_tensor_value_info(name, value.number, value.array.shape)
                )
                names[index] = name
        graph.output.extend(helper.make_empty_tensor_value_info(o) for o in copy.output)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.version)])
        feeds = {
            name: reader_form(value)
            for name, value in zip(names, node.operands, strict=True)
            if isinstance(value, Constant)
        }
        try:
            with np.errstate(all="ignore"), no_warnings():
                arrays = ReferenceEvaluator(model).run(None, feeds)
        except Exception:  # any failure of the evaluator only means that this node is not folded
            return None
        results: list[Value] = []
        for name, array in zip(node.output_names, arrays, strict=True):
            if not isinstance(array, np.ndarray | np.generic):
                return None  # a sequence or nothing
            array = np.asarray(array)
            number = number_of_array(array)
            if number is None or array.size > FOLD_ELEMENTS:
                return None
            results.append(Constant(stored(array), name, number))
        self.folded.append(node.name)
        return results

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


# ----------------------------------------------------------------------------------- helpers


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


def reader_form(value: Constant) -> Array:
    """A constant's array as ONNX's reference evaluator takes it: 4-bit integers in their type."""
    import ml_dtypes

    if value.number == 21:
        return value.array.astype(ml_dtypes.uint4)
    if value.number == 22:
        return value.array.astype(ml_dtypes.int4)
    return np.asarray(value.array)


@contextmanager
def no_warnings():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def number_of(value: Value) -> int:
    from tilewright.frontend.onnx_values import element_number

    return value.number if isinstance(value, Constant) else element_number(element(value))


def is_float(type_: Attribute) -> bool:
    return isinstance(type_, builtin.AnyFloat)


def is_unsigned(type_: Attribute) -> bool:
    return (
        isinstance(type_, builtin.IntegerType)
        and type_.signedness.data == builtin.Signedness.UNSIGNED
    )


def is_bool(type_: Attribute) -> bool:
    return type_ == builtin.i1


def identifier(name: str) -> str | None:
    """A name for an SSA value, or None when nothing of it can be kept."""
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.$-") else "_" for c in name)
    text = text.strip("_.")
    if not text:
        return None
    return text if not text[0].isdigit() else f"v{text}"


def type_name(number: int) -> str:
    return TYPE_NAMES.get(number, str(number))
