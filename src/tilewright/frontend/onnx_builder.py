"""Building kernel intents from ONNX values: constants, broadcasting, casts, what is known now.

Error codes: TW6006 a kernel that does not take these operands, TW6007 a value that must be known at
import time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import IntentBuilder, Lane, Literal, literal
from tilewright.dialects.kernel_symbols import check_call
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
from tilewright.errors import TilewrightError
from tilewright.frontend.onnx_file import Source
from tilewright.frontend.onnx_nodes import Node, Problem
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    INLINE_ELEMENTS,
    Array,
    Constant,
    Value,
    WeightNames,
    element,
    identifier,
    is_unsigned,
    number_of,
    shape,
)


class Builder(IntentBuilder):
    """The block being built and the weights it names."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.block = Block()
        self.weights: dict[str, Array] = {}
        self.names = WeightNames()
        self.node: Node | None = None
        self.outer: list[str] = []  # nodes whose function bodies are being lowered
        self.materialised: dict[int, SSAValue] = {}  # by the identity of constants, which are kept
        self.kept: list[Constant] = []
        self.depends: dict[SSAValue, frozenset[str]] = {}  # inputs of the model behind a value

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
        key = id(value)
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
                f"fix the input's value: read_onnx(file, values={{{sorted(needs)[0]!r}: array}}) of "
                "tilewright.frontend.onnx gives a model for tw.compile",
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
