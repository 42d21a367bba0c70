"""Building kernel intents from StableHLO values.

A value is an SSA value, or a `View` of one: the same elements in another order of dimensions, or
repeated along new ones. JAX writes every broadcast as an operation, and puts transposes wherever a
batching rule does; as views they cost nothing until something needs the whole tensor. Element-wise
steps and reductions are done in the order of the tensor behind, so that transposes sink to where
they matter.

Equal intents are built once: JAX computes the same mean for a mean and for a variance, and the
chains that name a norm want to see one.

Error codes: TW6203 an operation with arguments that have no mapping, TW6204 text that contradicts
itself, TW6207 a value that must be known at import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.intents import Lane, Literal, shape_of
from tilewright.dialects.locations import name_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    Operation,
    OpResult,
    SSAValue,
    StringAttr,
    TensorType,
)
from tilewright.errors import TilewrightError
from tilewright.frontend.aten import GraphImporter
from tilewright.frontend.aten_builder import LAYER, scalar_attribute
from tilewright.frontend.aten_graph import (
    BY_NAME,
    ExportedGraph,
    Node,
    ScalarType,
    TensorInfo,
    element_type,
)
from tilewright.frontend.imported import Array
from tilewright.frontend.stablehlo_locations import layer_in, name_in
from tilewright.frontend.stablehlo_reading import live_operations, users_location
from tilewright.reference import dtypes


@dataclass(frozen=True)
class View:
    """A tensor repeated: `loops` is the dimension of `shape` that indexes each of its dimensions."""

    tensor: SSAValue
    loops: tuple[int | None, ...]
    shape: tuple[int, ...]


Value = SSAValue | View
Lower = Callable[["HLOImporter", HLOOp], "Value | Sequence[Value]"]
OPERATIONS: dict[str, Lower] = {}


def lowers(*names: str) -> Callable[[Lower], Lower]:
    """Register how operations are lowered; names without a dialect are StableHLO's."""

    def register(function: Lower) -> Lower:
        for name in names:
            OPERATIONS[name if "." in name else f"stablehlo.{name}"] = function
        return function

    return register


class HLOImporter(GraphImporter):
    """The block being built, what each value has become, and what is already known."""

    def __init__(self, source: str) -> None:
        super().__init__(ExportedGraph(source, [], {}, [], []))
        self.views: dict[SSAValue, Value] = {}
        self.made: dict[tuple[object, ...], OpResult] = {}
        self.current: HLOOp | None = None
        self.resources: Mapping[str, bytes] = {}
        self.layers_of: dict[SSAValue, str] = {}  # one layer cut out of stacked weights -> its name
        self.parts: dict[tuple[str, tuple[int, ...]], SSAValue] = {}
        self.functions: dict[str, Operation] = {}
        self.callers: list[Node] = []

    # --------------------------------------------------------------------------- values

    def operand(self, index: int) -> Value:
        """What an operand of the current operation has become."""
        assert self.current is not None
        operands = self.current.operands
        if index >= len(operands):
            raise self.refused(f"has {len(operands)} operands, more are needed", "TW6204")
        return self.found(operands[index])

    def found(self, value: SSAValue) -> Value:
        made = self.views.get(value)
        if made is None:
            raise self.refused("reads a value that is not computed before", "TW6204")
        return made

    def whole(self, value: Value) -> SSAValue:
        """A value as a tensor of its own, repeated elements written out."""
        if isinstance(value, SSAValue):
            return value
        if value.tensor in self.known:
            return self.constant(self.array(value))
        # First without dimensions of size 1, then in order, and only then repeated.
        kept = [d for d, loop in enumerate(value.loops) if loop is not None]
        sizes = shape_of(value.tensor)
        tensor = self.reshape(value.tensor, [sizes[d] for d in kept])
        order = sorted(range(len(kept)), key=lambda i: value.loops[kept[i]] or 0)
        tensor = self.transpose(tensor, order)
        loops = tuple(value.loops[kept[i]] for i in order)
        if all(n == 1 for d, n in enumerate(value.shape) if d not in loops):
            return self.reshape(tensor, value.shape)
        extents = dict(enumerate(value.shape))
        return self.broadcast(Lane(tensor, loops), range(len(value.shape)), extents)

    def input(self, index: int) -> SSAValue:
        return self.whole(self.operand(index))

    def array(self, value: Value) -> Array:
        """The elements of a known value."""
        if isinstance(value, SSAValue):
            return self.known[value]
        array = self.known[value.tensor]
        kept = [d for d, loop in enumerate(value.loops) if loop is not None]
        order = sorted(kept, key=lambda d: value.loops[d] or 0)
        dropped = tuple(d for d in range(array.ndim) if d not in kept)
        moved = array.squeeze(dropped) if dropped else array
        moved = moved.transpose([kept.index(d) for d in order])
        at = {value.loops[d]: array.shape[d] for d in order}
        shaped = moved.reshape([at.get(d, 1) for d in range(len(value.shape))])
        return np.broadcast_to(shaped, value.shape)

    def is_known(self, value: Value) -> bool:
        return base(value) in self.known

    def fixed(self, value: Value, what: str) -> Array:
        """The elements of a value that has to be known at import."""
        if not self.is_known(value):
            raise self.refused(f"takes {what} that depends on the inputs", "TW6207")
        return self.array(value)

    def constant_of(self, value: Value) -> float | int | None:
        """The one number a known value holds everywhere."""
        return self.number(base(value))

    def kind_of(self, value: Value) -> ScalarType:
        return self.kind(base(value))

    def result_type(self, index: int = 0) -> TensorType:
        assert self.current is not None
        type_ = self.current.results[index].type
        if not isinstance(type_, TensorType):
            raise self.refused(f"gives {type_}, which is no tensor")
        if str(type_.element_type) not in BY_NAME:
            raise self.refused(
                f"works on {type_.element_type}", hint="use f32, bf16, f16, fp8 or integers"
            )
        if any(n < 0 for n in type_.get_shape()):
            raise self.refused(
                f"has the dynamic shape {type_}", "TW6205", "lower the function with fixed shapes"
            )
        return type_

    def result_kind(self, index: int = 0) -> ScalarType:
        return BY_NAME[str(self.result_type(index).element_type)]

    def refused(
        self, reason: str, code: str = "TW6203", hint: str | None = None
    ) -> TilewrightError:
        """An error about the current operation; the caller raises it."""
        assert self.current is not None
        name = self.current.name
        if self.node is not None:
            return self.node.error(code, f"{name} {reason}", hint)
        return TilewrightError(code, f"{name} {reason}", hint=hint)

    # ------------------------------------------------------------------------- walking

    def inlined(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """What a block returns for arguments; its operations are lowered in order."""
        for argument, value in zip(block.args, arguments, strict=True):
            self.views[argument] = value
        for op in live_operations(block):
            self.lower(op)
        terminator = block.last_op
        return [] if terminator is None else [self.found(v) for v in terminator.operands]

    def lower(self, op: Operation) -> None:
        """Lower one operation and note what its results have become."""
        outer, self.current = self.current, op  # type: ignore[assignment]
        outer_node, self.node = self.node, self.node_of(op)
        try:
            lowered = OPERATIONS[name_of(op)](self, op)  # type: ignore[arg-type]
        except TilewrightError as error:
            if self.node.location is not None:
                error.at(self.node.location)
            raise
        found = [lowered] if isinstance(lowered, (SSAValue, View)) else list(lowered)
        if len(found) != len(op.results):
            raise self.refused(f"has {len(op.results)} results, {len(found)} are known", "TW6204")
        for index, (result, value) in enumerate(zip(op.results, found, strict=True)):
            type_ = self.result_type(index)
            have = TensorType(element_type(self.kind_of(value)), extent(value))
            if have != type_:
                raise self.refused(f"is said to give {type_}, it gives {have}", "TW6204")
            self.views[result] = value
        if outer is None and op.operands and all(map(self.is_known, found)):
            self.folded.append(name_of(op))
        self.current, self.node = outer, outer_node

    def node_of(self, op: Operation) -> Node:
        """The user's place and layer of an operation; in a function, those of the call count too."""
        caller = self.callers[-1] if self.callers else None
        place = users_location(op, caller.location if caller else None, self.graph.source)
        layer = layer_in(name_in(op.location))
        if caller is not None and caller.layer and not layer.startswith(caller.layer):
            layer = f"{caller.layer}.{layer}" if layer else caller.layer
        return Node(name_of(op), name_of(op), {}, (), layer, place)

    # ------------------------------------------------------------------------- building

    def add(self, op: Operation) -> OpResult:
        key = _identity(op)
        if key is not None and key in self.made:
            op.erase()  # or its operands would count it among their uses
            return self.made[key]
        made = super().add(op)
        if key is not None:
            self.made[key] = made
        return made

    def slice(
        self,
        x: SSAValue,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        result_shape: Sequence[int] | None = None,
    ) -> SSAValue:
        """A slice; one layer of weights that are stacked for a loop is a weight itself."""
        shape = shape_of(x)
        if x in self.names and len(shape) > 1 and tuple(sizes) == (1, *shape[1:]) != shape:
            name, index = self.names[x], offsets[0]
            part = self._part(f"{name}.{index}.stacked", self.weights[name][index : index + 1])
            self.layers_of[part] = f"{name}.{index}"
            return part if result_shape is None else self.reshape(part, result_shape)
        return super().slice(x, offsets, sizes, strides, result_shape)

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        if x in self.layers_of and tuple(shape) == shape_of(x)[1:]:
            name = self.layers_of[x]
            return self._part(name, self.weights[f"{name}.stacked"][0])
        return super().reshape(x, shape)

    def _part(self, name: str, array: Array) -> SSAValue:
        """A weight that is part of another; the array is a view."""
        if (name, array.shape) not in self.parts:
            kind = BY_NAME[dtypes.of_array(array).name]
            made = self.resource(name, TensorInfo(array.shape, kind))
            self.parts[name, array.shape] = made
            self.weights[name] = array
            self.names[made] = name
        return self.parts[name, array.shape]

    def apply(
        self,
        family: str,
        *operands: Value | float | int,
        shape: Sequence[int] | None = None,
        to: ScalarType | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """An element-wise intent on values of one shape; numbers take the type of the values."""
        values = [v for v in operands if isinstance(v, (SSAValue, View))]
        kinds = [self.kind_of(v) for v in values]
        kind = kinds[-1]
        sizes = tuple(shape) if shape is not None else extent(values[0])
        folding = all(self.is_known(v) for v in values)
        lanes: list[Lane | Literal] = []
        for position, operand in enumerate(operands):
            number: float | int | None
            if isinstance(operand, (SSAValue, View)):
                may = len(operands) > 1 and not folding and not (
                    family == "select" and position == 0
                )  # fmt: skip
                number = self.constant_of(operand) if may else None
                if number is None:
                    lanes.append(lane(operand))
                    continue
            else:
                number = operand
            lanes.append(Literal(scalar_attribute(number, element_type(kind))))
        return self.elementwise(
            family,
            lanes,
            element_type(to or kind),
            dict(enumerate(sizes)),
            attributes,
            range(len(sizes)),
        ).tensor

    def spread(
        self,
        family: str,
        *operands: Value | float | int,
        shape: Sequence[int],
        to: ScalarType | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Value:
        """An element-wise intent in the order of dimensions that its operands are stored in."""
        values = [v for v in operands if isinstance(v, (SSAValue, View))]
        orders = {order_of(v) for v in values if not self.is_known(v)} - {None}
        order = orders.pop() if len(orders) == 1 else None
        if order is None or order == tuple(range(len(shape))):
            operands = tuple(
                self.whole(v) if isinstance(v, View) and order_of(v) is not None else v
                for v in operands
            )
            return self.apply(family, *operands, shape=shape, to=to, attributes=attributes)
        stored = [shape[d] for d in order]
        place = {d: index for index, d in enumerate(order)}
        moved = [
            self.reordered(v, order) if isinstance(v, (SSAValue, View)) else v for v in operands
        ]
        made = self.apply(family, *moved, shape=stored, to=to, attributes=attributes)
        return self.reordered(made, [place[d] for d in range(len(shape))])

    def convert(self, value: Value, kind: ScalarType) -> Value:
        """A value in another element type; what is not zero is true."""
        if self.kind_of(value) == kind:
            return value
        if isinstance(value, View):
            inner = self.convert(value.tensor, kind)
            assert isinstance(inner, SSAValue)
            return View(inner, value.loops, value.shape)
        return self.cast(value, kind)

    def matched(self, value: SSAValue, predicate: str, other: Value | float) -> SSAValue:
        """A comparison as i1."""
        attributes = {"predicate": StringAttr(predicate)}
        return self.apply("compare", value, other, to=BY_NAME["i1"], attributes=attributes)

    def chosen(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """a where the condition holds, else b; a known condition chooses now."""
        truth = self.constant_of(condition)
        if truth is not None:
            pick = a if truth else b
            if isinstance(pick, (SSAValue, View)):
                return pick
        shapes = [extent(v) for v in (condition, a, b) if isinstance(v, (SSAValue, View))]
        return self.spread("select", condition, a, b, shape=max(shapes, key=len))

    def repeated(self, value: Value, dims: Sequence[int], shape: Sequence[int]) -> Value:
        """before: [8] with dims = [0], shape [8, 16]; after: the view that repeats along 16."""
        old = extent(value)
        if len(dims) != len(old) or any(not 0 <= d < len(shape) for d in dims):
            raise self.refused(f"maps rank {len(old)} to dimensions {list(dims)}", "TW6204")
        if any(n not in (1, shape[d]) for n, d in zip(old, dims, strict=True)):
            raise self.refused(f"does not spread {list(old)} over {list(shape)}", "TW6204")
        if isinstance(value, SSAValue):
            value = View(value, tuple(range(len(old))), old)
        loops = tuple(
            None if loop is None or (old[loop] == 1 and shape[dims[loop]] != 1) else dims[loop]
            for loop in value.loops
        )
        return simplified(View(value.tensor, loops, tuple(shape)))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape; a view stays one when only unit dimensions come and go."""
        old, new = extent(value), tuple(shape)
        if math.prod(old) != math.prod(new):
            raise self.refused(f"makes {list(old)} into {list(new)}", "TW6204")
        if isinstance(value, View):
            wide = [d for d, n in enumerate(old) if n != 1]
            after = [d for d, n in enumerate(new) if n != 1]
            if [old[d] for d in wide] == [new[d] for d in after]:
                to = dict(zip(wide, after, strict=True))
                loops = tuple(None if loop is None else to.get(loop) for loop in value.loops)
                return simplified(View(value.tensor, loops, new))
        return self.reshape(self.whole(value), new)

    def reordered(self, value: Value, permutation: Sequence[int]) -> Value:
        """Dimensions in another order; views only count them anew."""
        old = extent(value)
        if sorted(permutation) != list(range(len(old))):
            raise self.refused(f"orders rank {len(old)} by {list(permutation)}", "TW6204")
        if isinstance(value, SSAValue):
            value = View(value, tuple(range(len(old))), old)
        place = {old_dim: new for new, old_dim in enumerate(permutation)}
        loops = tuple(None if loop is None else place[loop] for loop in value.loops)
        return simplified(View(value.tensor, loops, tuple(old[p] for p in permutation)))


def _identity(op: Operation) -> tuple[object, ...] | None:
    """What makes an intent the same as another: symbol, operands, attributes, type."""
    if not isinstance(op, (UKernelGenericOp, MatmulOp, HLOOp)):
        return None
    named = {k: v for k, v in op.attributes.items() if k != LAYER}
    properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
    attributes = tuple(sorted(named.items(), key=lambda item: item[0]))
    return (op.name, tuple(op.operands), properties, attributes, op.results[0].type)


# ------------------------------------------------------------------------------- looking at values


def base(value: Value) -> SSAValue:
    return value.tensor if isinstance(value, View) else value


def extent(value: Value) -> tuple[int, ...]:
    """The shape of a value."""
    return value.shape if isinstance(value, View) else shape_of(value)


def lane(value: Value) -> Lane:
    """How an element-wise intent over the value's shape reads it."""
    if isinstance(value, View):
        return Lane(value.tensor, value.loops)
    return Lane(value, tuple(range(len(shape_of(value)))))


def order_of(value: Value) -> tuple[int, ...] | None:
    """The dimension each dimension of the tensor behind is, when a value has all elements of it."""
    if isinstance(value, SSAValue):
        return tuple(range(len(shape_of(value))))
    if None in value.loops or len(value.loops) != len(value.shape):
        return None
    return tuple(loop for loop in value.loops if loop is not None)


def simplified(view: View) -> Value:
    """The tensor itself where a view repeats and moves nothing."""
    if view.loops == tuple(range(len(view.shape))) and shape_of(view.tensor) == view.shape:
        return view.tensor
    return view
