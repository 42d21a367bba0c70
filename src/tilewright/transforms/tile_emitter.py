"""Building loop nests, slices and launches quickly.

Operations are collected in lists and put into blocks once; constants are shared by a function
and stand at its top, where `c0` and `c32` are easy to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from tilewright.dialects.locations import copy_locations
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Operation,
    Region,
    Rewriter,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    i32,
    i64,
    scf,
    tensor,
)

DYNAMIC = -(2**63)
INDEX = IndexType()

Offset = int | SSAValue


@cache
def tensor_type(shape: tuple[int, ...], element: Attribute) -> TensorType:
    """A tensor type; equal ones are one object."""
    return TensorType(element, shape)


@cache
def _integers(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)


class Emitter:
    """Collects the operations that replace one operation.

    `constants` belong to the function: value -> SSA value, inserted at its top on `finish`.
    """

    def __init__(self, block: Block, constants: dict[int, SSAValue]) -> None:
        self._entry = block
        self._constants = constants
        self._new_constants: list[Operation] = []
        self._stack: list[list[Operation]] = [[]]

    def add(self, op: Operation) -> SSAValue:
        """Append an operation; returns its first result."""
        self._stack[-1].append(op)
        return op.results[0]

    def constant(self, value: int) -> SSAValue:
        """An index constant of the function."""
        found = self._constants.get(value)
        if found is None:
            op = arith.ConstantOp.create(
                result_types=[INDEX], properties={"value": IntegerAttr(value, INDEX)}
            )
            found = op.results[0]
            found.name_hint = f"c{value}"
            self._new_constants.append(op)
            self._constants[value] = found
        return found

    def loop(
        self,
        start: int,
        stop: int,
        step: int,
        initial: SSAValue,
        body: Callable[[SSAValue, SSAValue], SSAValue],
        name: str,
    ) -> SSAValue:
        """`scf.for` carrying one value; `body(index, carried)` returns what is carried on."""
        block = Block(arg_types=[INDEX, initial.type])
        index, carried = block.args
        index.name_hint, carried.name_hint = name, "acc"
        self._stack.append([])
        following = body(index, carried)
        block.add_ops([*self._stack.pop(), scf.YieldOp.create(operands=[following])])
        return self.add(
            scf.ForOp.create(
                operands=[self.constant(n) for n in (start, stop, step)] + [initial],
                result_types=[initial.type],
                regions=[Region(block)],
            )
        )

    def plain_loop(
        self, start: int, stop: int, step: int, body: Callable[[SSAValue], object], name: str
    ) -> None:
        """`scf.for` that carries nothing."""
        block = Block(arg_types=[INDEX])
        block.args[0].name_hint = name
        self._stack.append([])
        body(block.args[0])
        block.add_ops([*self._stack.pop(), scf.YieldOp.create()])
        self._stack[-1].append(
            scf.ForOp.create(
                operands=[self.constant(n) for n in (start, stop, step)], regions=[Region(block)]
            )
        )

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        return self.add(tensor.EmptyOp([], tensor_type(tuple(shape), element)))

    def extract(
        self,
        source: SSAValue,
        offsets: Sequence[Offset],
        sizes: Sequence[int],
        shape: Sequence[int] | None = None,
    ) -> SSAValue:
        """A slice of `source`; `shape` leaves out dimensions of size 1."""
        type_ = source.type
        assert isinstance(type_, TensorType)
        wanted = tuple(sizes if shape is None else shape)
        if wanted == tuple(type_.get_shape()) and all(offset == 0 for offset in offsets):
            return source
        dynamic = [offset for offset in offsets if not isinstance(offset, int)]
        return self.add(
            tensor.ExtractSliceOp.create(
                operands=[source, *dynamic],
                result_types=[tensor_type(wanted, type_.element_type)],
                properties=self._slice_properties(offsets, sizes, (1, len(dynamic), 0, 0)),
            )
        )

    def insert(
        self, source: SSAValue, into: SSAValue, offsets: Sequence[Offset], sizes: Sequence[int]
    ) -> SSAValue:
        """`into` with a slice replaced by `source`."""
        if source.type == into.type and all(offset == 0 for offset in offsets):
            return source
        dynamic = [offset for offset in offsets if not isinstance(offset, int)]
        return self.add(
            tensor.InsertSliceOp.create(
                operands=[source, into, *dynamic],
                result_types=[into.type],
                properties=self._slice_properties(offsets, sizes, (1, 1, len(dynamic), 0, 0)),
            )
        )

    def _slice_properties(
        self, offsets: Sequence[Offset], sizes: Sequence[int], segments: tuple[int, ...]
    ) -> dict[str, Attribute]:
        return {
            "static_offsets": _integers(
                tuple(o if isinstance(o, int) else DYNAMIC for o in offsets)
            ),
            "static_sizes": _integers(tuple(sizes)),
            "static_strides": _integers((1,) * len(sizes)),
            "operandSegmentSizes": _segments(segments),
        }

    def pad(self, source: SSAValue, shape: Sequence[int], value: float = 0) -> SSAValue:
        """`source` grown at the end of each dimension to `shape`, filled with `value`."""
        type_ = source.type
        assert isinstance(type_, TensorType)
        if tuple(shape) == tuple(type_.get_shape()):
            return source
        high = tuple(new - old for new, old in zip(shape, type_.get_shape(), strict=True))
        return self.pad_around(source, (0,) * len(high), high, value)

    def pad_around(
        self, source: SSAValue, low: Sequence[int], high: Sequence[int], value: float = 0
    ) -> SSAValue:
        """`source` with a border of `value`."""
        type_ = source.type
        assert isinstance(type_, TensorType)
        shape = tuple(n + a + b for n, a, b in zip(type_.get_shape(), low, high, strict=True))
        element = type_.element_type
        literal = (
            IntegerAttr(int(value), element)
            if isinstance(element, (IntegerType, IndexType))
            else FloatAttr(float(value), element)
        )
        filler = self.add(
            arith.ConstantOp.create(result_types=[element], properties={"value": literal})
        )
        block = Block(arg_types=[INDEX] * len(shape))
        block.add_op(tensor.YieldOp(filler))
        return self.add(
            tensor.PadOp(
                source, [], [], Region(block), list(low), list(high), tensor_type(shape, element)
            )
        )

    def reshape(self, source: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`source` with leading dimensions merged (fewer dims) or split again (more dims)."""
        type_ = source.type
        assert isinstance(type_, TensorType)
        if tuple(shape) == tuple(type_.get_shape()):
            return source
        result = tensor_type(tuple(shape), type_.element_type)
        return self.add(
            UKernelLaunchOp.create(
                operands=[source],
                result_types=[result],
                properties={"symbol": _string("npu_uk_reshape")},
            )
        )

    def launch(
        self,
        symbol: str,
        operands: Sequence[SSAValue],
        result: TensorType,
        attributes: Mapping[str, Attribute],
    ) -> SSAValue:
        return self.add(
            UKernelLaunchOp.create(
                operands=list(operands),
                result_types=[result],
                properties={"symbol": _string(symbol)},
                attributes=dict(attributes),
            )
        )

    def finish(self, replaced: Operation, value: SSAValue) -> None:
        """Put everything where `replaced` stood and let `value` take the place of its result."""
        (operations,) = self._stack
        copy_locations(replaced, operations)
        if self._new_constants:
            first = self._entry.first_op
            if first is None:
                self._entry.add_ops(self._new_constants)
            else:
                self._entry.insert_ops_before(self._new_constants, first)
        if value.name_hint is None:
            value.name_hint = replaced.results[0].name_hint
        Rewriter.replace_op(replaced, operations, [value])


@cache
def _string(text: str) -> StringAttr:
    return StringAttr(text)


@cache
def _segments(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, values)
