"""Recording npu_schedule operations: launches, slices of tensors, index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    BlockArgument,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    arith,
    func,
    i32,
    tensor,
)
from tilewright.dialects.xdsl_api import (
    Block as IRBlock,
)
from tilewright.errors import TilewrightError
from tilewright.tile.attributes import (
    attribute,
    element,
    integer,
    integers,
    operand_maps,
    symbol,
    tile_type,
)
from tilewright.tile.backend import Backend, Launch
from tilewright.tile.blocks import Single
from tilewright.tile.layouts import Layout
from tilewright.tile.machine import TileMachine
from tilewright.tile.states import Carrier
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec

INDEX = IndexType()
DYNAMIC = -(2**63)


@dataclass(eq=False)
class Scope:
    """The function, or a loop of it, while it is traced."""

    block: IRBlock
    parent: Scope | None = None
    number: int = 0
    carriers: list[Carrier] = field(default_factory=list)
    # What the loop changes: block argument -> the value before the loop.
    arguments: list[tuple[BlockArgument, SSAValue]] = field(default_factory=list)
    outputs: dict[str, SSAValue] = field(default_factory=dict)  # as they are now, by name
    written: dict[str, BlockArgument] = field(default_factory=dict)  # outputs the loop changes
    read: set[str] = field(default_factory=set)  # outputs the loop reads
    sums: dict[tuple[SSAValue, int, type], SSAValue] = field(default_factory=dict)

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class Recorder(Backend):
    """Appends operations to the scope we are in."""

    def __init__(self, machine: TileMachine, code: CodeType, name: str) -> None:
        super().__init__(machine, code)
        self.name = name
        side = self.side
        self.shapes = {
            "full": (side, side),
            "row": (side,),
            "column": (side, 1),
            "half": (side, side // 2),
            "number": (side, 1),
        }
        self.top = Scope(IRBlock())
        self.inner = self.top  # where the author is
        self.current = self.top  # where operations go
        self.constants: dict[str, tuple[Tensor, np.ndarray]] = {}
        self.scratch: dict[str, Tensor] = {}
        self.arguments: dict[str, SSAValue] = {}
        self.results: list[str] = []  # outputs in the order of the parameters
        self._index: dict[int, SSAValue] = {}
        self.loops = 0  # opened so far
        self._line: int | None = None
        self._locations: dict[int, FileLineColLoc] = {}
        self.written_steps = 0  # the most steps unrolled
        self.read_back: set[str] = set()  # outputs that are read as well
        self.launches = 0
        self.most_launches: int | None = None  # beyond which no program comes of it

    # --- the function -------------------------------------------------------------------

    def bind(self, tensor: Tensor) -> None:
        """Make a tensor an argument of the function."""
        shape = tensor.layout.padded
        kind = TensorType(element(tensor.dtype), shape)
        argument = self.top.block.insert_arg(kind, len(self.top.block.args))
        argument.name_hint = tensor.name
        self.arguments[tensor.name] = argument
        if tensor.output:
            self.top.outputs[tensor.name] = argument
            if tensor.name not in self.scratch:
                self.results.append(tensor.name)

    def finish(self) -> None:
        """Complete the function, which returns its output arguments changed, and its module."""
        if self.inner is not self.top:
            raise self.error(
                "TW1633",
                "a loop of the program was left early",
                "loops run to their end: do not break or return inside them, or use unroll=True",
            )
        block = self.top.block
        results = [self.top.outputs[name] for name in self.results]
        block.add_op(func.ReturnOp(*results))
        kinds = ([a.type for a in block.args], [v.type for v in results])
        self.function = func.FuncOp(self.name, kinds, Region(block))
        self.function.location = self._location(self.code.co_firstlineno)
        self.module = ModuleOp([self.function])
        self.module.verify()

    def _location(self, line: int) -> FileLineColLoc:
        known = self._locations.get(line)
        if known is None:
            name = StringAttr(self.code.co_filename)
            known = self._locations[line] = FileLineColLoc(name, IntAttr(line), IntAttr(0))
        return known

    def _emit(self, op: Operation, line: int | None = None) -> Any:
        op.location = self._location(line or self._line or self.line())
        self.current.block.add_op(op)
        return op.results[0] if op.results else None

    def _constant(self, value: int) -> SSAValue:
        """An index constant; they stand at the top of the function."""
        if value not in self._index:
            op = arith.ConstantOp.create(
                result_types=[INDEX], properties={"value": IntegerAttr(value, INDEX)}
            )
            block, first = self.top.block, self.top.block.first_op
            if first is None:
                block.add_op(op)
            else:
                block.insert_op_before(op, first)
            op.results[0].name_hint = f"c{value}" if value >= 0 else f"minus{-value}"
            self._index[value] = op.results[0]
        return self._index[value]

    # --- operations ---------------------------------------------------------------------

    def launcher(self, family: str, dtype: str, kind: str, **attributes: Any) -> Launch:
        result = tile_type(dtype, self.shapes[kind])
        given = {name: attribute(value) for name, value in attributes.items()}
        if family.startswith("reduction_") and kind == "column":
            given["keepdims"] = UnitAttr()
        if ":" in dtype:  # a step, which types of the IR do not have
            given["tilewright.format"] = StringAttr(dtype)
        line = self._line or self.line()

        def launch(*inputs: SSAValue) -> SSAValue:
            return self._launch(family, inputs, result, given, line)

        return launch

    def _launch(
        self,
        family: str,
        inputs: tuple[SSAValue, ...],
        result: TensorType,
        attributes: dict[str, Attribute],
        line: int,
    ) -> SSAValue:
        self.launches += 1
        if self.most_launches is not None and self.launches > self.most_launches:
            raise self.error(
                "TW1680",
                f"unrolled, {self.name} is more than {self.most_launches:,} operations on "
                f"tiles; no instruction memory of {self.machine.name} holds them",
                "use loops (tw.grid) around smaller blocks",
            )
        shape = tuple(result.get_shape())
        shapes = [shape_of(v) for v in inputs]
        if family.startswith(("elementwise_", "cast")) and any(s != shape for s in shapes):
            attributes = {**attributes, "operand_maps": operand_maps(tuple(shapes), shape)}
        op = UKernelLaunchOp.create(
            operands=list(inputs),
            result_types=[result],
            properties={"symbol": symbol(family)},
            attributes=attributes,
        )
        return self._emit(op, line)

    def multiply(
        self, a: Any, b: Any, start: Any, first: bool, last: bool, slot: int, unit: int, line: int
    ) -> SSAValue:
        part = {(True, True): "", (True, False): "_acc_first", (False, True): "_acc_last"}
        inputs = (a, b) if start is None else (a, b, start)
        attributes: dict[str, Attribute] = {}
        if not (first and last):
            attributes["slot"] = integer(slot)
        if first:
            attributes["unit"] = integer(unit)
        family = "matmul" + part.get((first, last), "_acc_mid")
        return self._launch(
            family, inputs, tile_type(self.value, self.shapes["full"]), attributes, line
        )

    # --- tensors ------------------------------------------------------------------------

    def constant_tensor(
        self, name: str, array: Callable[[], np.ndarray], order: str = "tiles"
    ) -> Tensor:
        if name not in self.constants:
            numbers = array()
            spec = TensorSpec(self.value, numbers.shape, order)
            made = Tensor(
                self, name, spec, Layout(numbers.shape, self.value, order, side=self.side)
            )
            self.constants[name] = (made, numbers)
            self.bind(made)
        return self.constants[name][0]

    def scratch_tensor(
        self, kind: TensorSpec, shape: tuple[int, ...] | None = None, on_chip: bool = False
    ) -> Tensor:
        shape = shape or tuple(int(n) for n in kind.sizes)
        name = f"scratch_{len(self.scratch) + 1}"
        dtype = self.machine.formats.of(name, kind.dtype)
        layout = Layout(shape, dtype, kind.order, kind.arrangement, self.side)
        self.scratch[name] = Tensor(self, name, kind, layout, output=True, on_chip=on_chip)
        self.bind(self.scratch[name])
        return self.scratch[name]

    def _offsets(self, index: list[Any]) -> tuple[list[int], list[SSAValue]]:
        static, dynamic = [], []
        for place in index:
            if isinstance(place, Single) and place.terms:
                static.append(DYNAMIC)
                dynamic.append(self._sum(place))
            else:
                static.append(place.start if isinstance(place, Single) else place)
        return static, dynamic

    def _sum(self, place: Single) -> SSAValue:
        """start + the sum of factor * loop variable."""
        total: SSAValue | None = None
        for variable, factor in place.terms:
            value = variable if factor == 1 else self._operated(arith.MuliOp, variable, factor)
            total = value if total is None else self._emit(arith.AddiOp(total, value))
        assert total is not None
        return self._operated(arith.AddiOp, total, place.start) if place.start else total

    def _operated(self, kind: type, value: SSAValue, number: int) -> SSAValue:
        """value + number or value * number, once per scope."""
        key = (value, number, kind)
        for scope in self.current.chain():
            if key in scope.sums:
                return scope.sums[key]
        made = self._emit(kind(value, self._constant(number)))
        self.current.sums[key] = made
        return made

    def _slice(self, index: list[Any], shape: tuple[int, ...]) -> tuple[dict, list[SSAValue]]:
        static, dynamic = self._offsets(index)
        sizes = [1] * (len(index) - len(shape)) + list(shape)
        return {
            "static_offsets": integers(tuple(static)),
            "static_sizes": integers(tuple(sizes)),
            "static_strides": integers((1,) * len(sizes)),
        }, dynamic

    def read(self, target: Tensor, index: list[Any], kind: str) -> SSAValue:
        shape = self.shapes[kind]
        properties, dynamic = self._slice(index, shape)
        segments = (1, len(dynamic), 0, 0)
        properties["operandSegmentSizes"] = integers(segments, i32)
        op = tensor.ExtractSliceOp.create(
            operands=[self._source(target), *dynamic],
            result_types=[tile_type(target.dtype, shape)],
            properties=properties,
        )
        return self._emit(op)

    def _source(self, target: Tensor) -> SSAValue:
        """The tensor as it is now; what a loop reads of DRAM it must not write."""
        if not target.output:
            return self.arguments[target.name]
        if target.on_chip:
            return self._output(target.name, self.inner)
        self.read_back.add(target.name)
        for scope in self.inner.chain():
            if scope.parent is not None:
                if target.name in scope.written:
                    raise self._written_here(target.name)
                scope.read.add(target.name)
        found = (s.outputs[target.name] for s in self.inner.chain() if target.name in s.outputs)
        return next(found)

    def _written_here(self, name: str) -> TilewrightError:
        return self.error(
            "TW1629",
            f"{name} is read and written in one loop of the program",
            "carry what changes with tw.state or tw.zeros, read it in a loop of its own, or use "
            "unroll=True",
        )

    def write(self, target: Tensor, index: list[Any], kind: str, value: SSAValue) -> None:
        into = self._output(target.name, self.inner)
        properties, dynamic = self._slice(index, shape_of(value))
        segments = (1, 1, len(dynamic), 0, 0)
        properties["operandSegmentSizes"] = integers(segments, i32)
        op = tensor.InsertSliceOp.create(
            operands=[value, into, *dynamic], result_types=[into.type], properties=properties
        )
        self.inner.outputs[target.name] = self._emit(op)

    def _output(self, name: str, scope: Scope) -> SSAValue:
        """An output as it is now; loops that write to it carry it."""
        if name not in scope.outputs:
            assert scope.parent is not None
            if name in scope.read:
                raise self._written_here(name)
            before = self._output(name, scope.parent)
            scope.written[name] = self._argument(scope, before, name)
            scope.outputs[name] = scope.written[name]
        return scope.outputs[name]

    def _argument(self, scope: Scope, before: SSAValue, name: str) -> BlockArgument:
        argument = scope.block.insert_arg(before.type, len(scope.block.args))
        argument.name_hint = name
        scope.arguments.append((argument, before))
        return argument
