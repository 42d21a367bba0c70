"""Building kernel intents for ATen calls: values, casts, broadcasts, and what is known already.

`Importer` is what the functions of the `aten_ops_*` files work with. An intent whose operands are
all known is computed at once by the reference executor; its op stays until the end and is dropped
unless something reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dialects.intents import (
    IntentBuilder,
    Lane,
    Literal,
    integers,
    literal,
    shape_of,
    tensor_type,
)
from tilewright.dialects.kernel_symbols import check_call
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseResourceAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    Operation,
    OpResult,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    i1,
    i64,
)
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.aten_graph import (
    BY_NAME,
    ExportedGraph,
    Node,
    Ref,
    ScalarType,
    TensorInfo,
    dynamic_size,
    element_type,
)
from tilewright.frontend.aten_sizes import Sizes
from tilewright.frontend.imported import Array
from tilewright.reference import dtypes
from tilewright.transforms.known_values import once

FOLD_ELEMENTS = 1 << 26  # larger results of literal-only calls stay calls
LAYER = "tw.layer"


@dataclass(frozen=True)
class Undefined:
    """A tensor whose contents nobody has written yet."""

    info: TensorInfo


@dataclass(frozen=True)
class Assembly:
    """An undefined tensor with some stretches along one dimension written: start -> part."""

    info: TensorInfo
    dim: int
    parts: Mapping[int, SSAValue]


Value = SSAValue | Undefined | Assembly
Lowered = Value | Sequence[Value | None]
Lower = Callable[["Importer", Node], Lowered]
TARGETS: dict[str, Lower] = {}


def lowers(*targets: str) -> Callable[[Lower], Lower]:
    """Register how calls are lowered: names of ATen calls, `.default` where no overload is named.

    A name with two dots is whole: a call that another library has registered.
    """
    forms = ("aten.{}.default", "aten.{}", "{}")

    def register(function: Lower) -> Lower:
        for target in targets:
            TARGETS[forms[target.count(".")].format(target)] = function
        return function

    return register


class Importer(IntentBuilder):
    """The block being built, what each value of the graph has become, and what is already known."""

    def __init__(self, graph: ExportedGraph) -> None:
        super().__init__()
        self.graph = graph
        self.block = Block()
        self.values: dict[str, Value] = {}
        self.known: dict[SSAValue, Array] = {}
        self.sizes = Sizes(graph.unknown)
        self.node: Node | None = None
        self.needed = {value.name for _, value in graph.outputs if isinstance(value, Ref)}
        self.needed.update(graph.mutated.values())

    # ------------------------------------------------------------------------- values

    def type_of(self, info: TensorInfo) -> TensorType:
        return TensorType(element_type(info.dtype), list(info.shape))

    def info(self, value: Value) -> TensorInfo:
        if isinstance(value, (Undefined, Assembly)):
            return value.info
        return TensorInfo(shape_of(value), self.kind(value))

    def kind(self, value: SSAValue) -> ScalarType:
        return BY_NAME[str(tensor_type(value).element_type)]

    def result(self, index: int = 0) -> TensorInfo:
        """What the graph says of a result of the current node."""
        assert self.node is not None
        name = self.node.results[index]
        info = self.graph.values[name]
        if name not in self.graph.unknown:
            return info
        shape = self.sizes.shape(name)
        if shape is None:
            raise dynamic_size(
                self.node.target, self.graph.unknown[name], self.node, self.graph.source
            )
        return TensorInfo(shape, info.dtype)

    def is_needed(self, index: int) -> bool:
        """Whether anything reads a result of the current node."""
        assert self.node is not None
        return self.node.results[index] in self.needed

    def value(self, reference: Ref) -> Value:
        found = self.values.get(reference.name)
        if found is None:
            message = f"{reference.name} is read but never computed before"
            if self.node is not None:
                raise self.node.error("TW6104", message)
            raise TilewrightError("TW6104", message, Location(self.graph.source))
        return found

    def tensor(self, reference: Ref) -> SSAValue:
        """The value as an operand; contents nobody has written are zero."""
        value = self.value(reference)
        if isinstance(value, SSAValue):
            return value
        zero = self.filled(0, value.info)
        if isinstance(value, Assembly):
            for start, part in value.parts.items():
                zero = self.insert(part, zero, value.dim, start)
        return zero

    def tensors(self, references: Sequence[Ref]) -> list[SSAValue]:
        return [self.tensor(reference) for reference in references]

    def optional(self, reference: Ref | None) -> SSAValue | None:
        return None if reference is None else self.tensor(reference)

    def contents(self, value: SSAValue) -> Array | None:
        """The numbers of a value that are there before the model runs."""
        return self.known.get(value)

    def resource(self, name: str, info: TensorInfo) -> SSAValue:
        """A constant that stands for a weight by name."""
        type_ = self.type_of(info)
        result = self.add(arith.ConstantOp(DenseResourceAttr.from_params(name, type_), type_))
        result.name_hint = identifier(name)
        return result

    def constant(self, array: Array) -> SSAValue:
        """A known array as a value."""
        kind = BY_NAME[dtypes.of_array(array).name]
        value = self.resource("literal", TensorInfo(array.shape, kind))
        self.known[value] = array
        return value

    def filled(self, value: float | int | bool, info: TensorInfo) -> SSAValue:
        number = scalar_attribute(value, element_type(info.dtype))
        return self.call("fill", [], self.type_of(info), {"value": number})

    def number(self, value: SSAValue) -> float | int | None:
        """The one number a known tensor holds everywhere."""
        array = self.known.get(value)
        if array is None or not array.size:
            return None
        first = array.flat[0]
        same = (once(array) == first).all()
        return first.item() if bool(same) else None

    # ------------------------------------------------------------------------- building

    def add(self, op: Operation) -> OpResult:
        self.block.add_op(op)
        node = self.node
        if node is not None:
            if node.location is not None:
                place = node.location
                op.location = FileLineColLoc(
                    StringAttr(place.file), IntAttr(place.line), IntAttr(place.column)
                )
            if node.layer:
                op.attributes[LAYER] = StringAttr(node.layer)
        if isinstance(op, UKernelGenericOp):
            call = op.call()
            assert call is not None, f"no family for {op.symbol.data}"
            check_call(call)
        if isinstance(op, (UKernelGenericOp, MatmulOp)):
            self._evaluate(op)
        return op.results[0]

    def _evaluate(self, op: Operation) -> None:
        """Compute an op whose operands are all known."""
        result = op.results[0]
        if not all(operand in self.known for operand in op.operands):
            return
        if math.prod(shape_of(result)) > FOLD_ELEMENTS:
            return
        from tilewright.reference.ops_npu_kernel import contraction_call, evaluate_call, symbol_call

        call = contraction_call(op) if isinstance(op, MatmulOp) else symbol_call(op)
        with np.errstate(all="ignore"):
            self.known[result] = evaluate_call(op, call)(*(self.known[o] for o in op.operands))

    def pointwise(
        self,
        family: str,
        *operands: SSAValue | float | int | bool,
        kind: ScalarType | None = None,
        result: ScalarType | None = None,
        shape: Sequence[int] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """An element-wise intent; operands are cast to `kind` and broadcast to a common shape.

        Numbers, and known tensors that hold one number, become attributes.
        """
        tensors = [o for o in operands if isinstance(o, SSAValue)]
        kind = kind or self.kind(tensors[0])
        shape = tuple(shape) if shape is not None else broadcast_shape(*map(shape_of, tensors))
        element = element_type(kind)
        lanes: list[Lane | Literal] = []
        unknown = any(tensor not in self.known for tensor in tensors)
        for operand in operands:
            number = operand
            if isinstance(operand, SSAValue):
                number = self.number(operand) if unknown and len(operands) > 1 else None
            if number is not None and not isinstance(number, SSAValue):
                lanes.append(Literal(scalar_attribute(number, element)))
            else:
                assert isinstance(operand, SSAValue)
                operand = self.cast(operand, kind)
                lanes.append(Lane(operand, aligned(shape_of(operand), shape)))
        made = self.elementwise(
            family,
            lanes,
            element_type(result or kind),
            dict(enumerate(shape)),
            attributes,
            range(len(shape)),
        )
        return made.tensor

    def select(
        self,
        condition: SSAValue,
        a: SSAValue | float,
        b: SSAValue | float,
        info: TensorInfo,
    ) -> SSAValue:
        """a where the condition holds, else b."""
        condition = self.cast(condition, BY_NAME["i1"])
        element = element_type(info.dtype)
        lanes: list[Lane | Literal] = [Lane(condition, aligned(shape_of(condition), info.shape))]
        for operand in (a, b):
            number = self.number(operand) if isinstance(operand, SSAValue) else operand
            if number is not None and condition not in self.known:
                lanes.append(Literal(scalar_attribute(number, element)))
                continue
            if not isinstance(operand, SSAValue):
                operand = self.filled(operand, TensorInfo((), info.dtype))
            operand = self.cast(operand, info.dtype)
            lanes.append(Lane(operand, aligned(shape_of(operand), info.shape)))
        extents = dict(enumerate(info.shape))
        return self.elementwise(
            "select", lanes, element, extents, None, range(len(info.shape))
        ).tensor

    def compare(
        self, predicate: str, a: SSAValue, b: SSAValue | float, kind: ScalarType | None = None
    ) -> SSAValue:
        return self.pointwise(
            "compare",
            a,
            b,
            kind=kind,
            result=BY_NAME["i1"],
            attributes={"predicate": StringAttr(predicate)},
        )

    def cast(self, x: SSAValue, kind: ScalarType) -> SSAValue:
        """x in another element type, by torch's rules: whatever is not zero is true."""
        if self.kind(x) == kind:
            return x
        if kind.name == "i1":
            return self.compare("ne", x, 0)
        return self.unary("cast", x, element_type(kind))

    def broadcast_to(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """x repeated along dimensions of size 1 and new leading ones."""
        shape = tuple(shape)
        if shape_of(x) == shape:
            return x
        if math.prod(shape_of(x)) == math.prod(shape):
            return self.reshape(x, shape)
        lane = Lane(x, aligned(shape_of(x), shape))
        return self.elementwise(
            "cast", [lane], lane.element, dict(enumerate(shape)), None, range(len(shape))
        ).tensor

    def insert(
        self, part: SSAValue, into: SSAValue, dim: int, start: int, step: int = 1
    ) -> SSAValue:
        """`into` with a stretch along one dimension replaced."""
        shape, size = shape_of(into), shape_of(part)
        offsets = [start if d == dim else 0 for d in range(len(shape))]
        attributes: dict[str, Attribute] = {"offsets": integers(offsets), "sizes": integers(size)}
        if step != 1:
            attributes["strides"] = integers([step if d == dim else 1 for d in range(len(shape))])
        return self.call("insert_slice", [part, into], into.type, attributes)

    def cut(self, x: SSAValue, dim: int, start: int, size: int, step: int = 1) -> SSAValue:
        """A stretch of x along one dimension."""
        shape = shape_of(x)
        if start == 0 and size == shape[dim]:
            return x
        offsets = [start if d == dim else 0 for d in range(len(shape))]
        sizes = [size if d == dim else n for d, n in enumerate(shape)]
        steps = [step if d == dim else 1 for d in range(len(shape))]
        return self.slice(x, offsets, sizes, steps)

    def unsupported(self, reason: str, hint: str | None = None) -> TilewrightError:
        """An error about the current node's arguments; the caller raises it."""
        assert self.node is not None
        return self.node.error("TW6103", f"{self.node.target} {reason}", hint)


# --------------------------------------------------------------------------- small helpers


def identifier(name: str) -> str | None:
    """A name as an SSA name hint."""
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return text if text and not text[0].isdigit() and text.isascii() else None


def scalar_attribute(value: Any, element: Attribute) -> FloatAttr | IntegerAttr:
    """A number as an attribute, rounded or wrapped to the element type."""
    kind = BY_NAME[str(element)]
    if kind.is_float:
        rounded = dtypes.stored(
            np.asarray(float(value), dtype=np.float64), dtypes.element_type(element)
        )
        return FloatAttr(float(rounded), element)  # type: ignore[arg-type]
    if element == i1:
        return IntegerAttr(int(bool(value)), i1)
    found = literal(int(value), element).value
    return found


def integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


def aligned(shape: Sequence[int], result: Sequence[int]) -> tuple[int | None, ...]:
    """The result dimension each operand dimension is read along; None where it is repeated."""
    first = len(result) - len(shape)
    return tuple(
        None if n == 1 and result[first + d] != 1 else first + d for d, n in enumerate(shape)
    )


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*map(tuple, shapes)))


def wrapped(dim: int, rank: int) -> int:
    """A dimension counted from the front; a scalar has one dimension for this purpose."""
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        raise IndexError(f"dimension {dim} of rank {rank}")
    return dim % limit


def promoted(values: Sequence[tuple[ScalarType, int] | float | int | bool]) -> ScalarType:
    """The type in which torch computes on tensors (type and rank) and Python numbers.

    Within a group the wider type wins; tensors of rank 0 count only if their category is higher
    than that of the others, numbers only if theirs is higher still.
    """
    groups: list[list[ScalarType]] = [[], [], []]
    for value in values:
        if isinstance(value, tuple):
            groups[0 if value[1] else 1].append(value[0])
        else:
            name = "i1" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f32"
            groups[2].append(BY_NAME[name])
    found: ScalarType | None = None
    for group in groups:
        for kind in group[:1]:
            best = kind
            for other in group[1:]:
                best = wider(best, other)
            if found is None or best.category > found.category:
                found = best
    assert found is not None
    return found


_WIDTH = ["i1", "i8", "ui8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]


def wider(a: ScalarType, b: ScalarType) -> ScalarType:
    names = {a.name, b.name}
    if names == {"f16", "bf16"}:
        return BY_NAME["f32"]
    if names == {"ui8", "i8"}:
        return BY_NAME["i16"]
    return max(a, b, key=lambda kind: _WIDTH.index(kind.name) if kind.name in _WIDTH else -1)
