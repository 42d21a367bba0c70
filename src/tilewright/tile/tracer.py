"""Traces: the author's function, run once, leaves npu_schedule operations behind.

Every loop of the program is a scope with operations of its own. A tile is computed in the
scope where the author wrote it, when it is first used; outputs and carried tiles become
arguments and results of the loops that change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from tilewright.dialects.kernel_families import symbol_for
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    BlockArgument,
    DenseArrayBase,
    FileLineColLoc,
    FloatAttr,
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
    bf16,
    f8E4M3FN,
    f64,
    func,
    i32,
    i64,
    scf,
    tensor,
)
from tilewright.dialects.xdsl_api import (
    Block as IRBlock,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.arrays import Arithmetic, Cell, TileArray
from tilewright.tile.backend import Backend, Launch
from tilewright.tile.blocks import Block, Single
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.states import Carrier
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec

ELEMENTS = {"bf16": bf16, "fp8": f8E4M3FN}
SHAPES = {"full": (SIDE, SIDE), "row": (SIDE,), "column": (SIDE, 1), "half": (SIDE, SIDE // 2)}
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
    outputs: dict[str, SSAValue] = field(default_factory=dict)
    sums: dict[tuple[SSAValue, int, type], SSAValue] = field(default_factory=dict)

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class Tracer(Backend):
    """Records operations."""

    def __init__(self, profile: Profile, code: CodeType, name: str) -> None:
        super().__init__(profile, code)
        self.name = name
        self.top = Scope(IRBlock())
        self.inner = self.top  # where the author is
        self.current = self.top  # where operations go
        self.constants: dict[str, tuple[Tensor, np.ndarray]] = {}
        self.arguments: dict[str, SSAValue] = {}
        self._index: dict[int, SSAValue] = {}
        self._loops = 0
        self._line: int | None = None
        self.written_steps = 0  # the most steps written out

    # --- the function -------------------------------------------------------------------

    def bind(self, tensor: Tensor) -> None:
        """Make a tensor an argument of the function."""
        shape = tensor.layout.padded
        kind = TensorType(ELEMENTS[tensor.dtype], shape)
        argument = self.top.block.insert_arg(kind, len(self.top.block.args))
        argument.name_hint = tensor.name
        self.arguments[tensor.name] = argument
        if tensor.output:
            self.top.outputs[tensor.name] = argument

    def finish(self) -> None:
        """Complete the module with the traced function; outputs are arguments that it returns changed."""
        if self.inner is not self.top:
            raise self.error(
                "TW1633",
                "a loop of the program was left early",
                "loops run to their end: do not break or return inside them, or use unroll=True",
            )
        block = self.top.block
        results = list(self.top.outputs.values())
        block.add_op(func.ReturnOp(*results))
        kinds = ([a.type for a in block.args], [v.type for v in results])
        self.function = func.FuncOp(self.name, kinds, Region(block))
        self.function.location = self._location(self.code.co_firstlineno)
        self.module = ModuleOp([self.function])
        self.module.verify()

    def _location(self, line: int) -> FileLineColLoc:
        name = StringAttr(self.code.co_filename)
        return FileLineColLoc(name, IntAttr(line), IntAttr(0))

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
            op.results[0].name_hint = f"c{value}"
            self._index[value] = op.results[0]
        return self._index[value]

    # --- scopes and cells ---------------------------------------------------------------

    def scope(self) -> Scope:
        return self.inner

    def open_loops(self) -> list[int]:
        return [s.number for s in self.inner.chain() if s.parent is not None]

    def lazily(self, compute: Callable[[], Any]) -> Cell:
        line = self.line()

        def at_line() -> Any:
            before, self._line = self._line, line
            try:
                return compute()
            finally:
                self._line = before

        return Cell(compute=at_line, scope=self.inner)

    def use(self, cell: Cell) -> SSAValue:
        if cell.scope not in self.inner.chain():
            raise self.error(
                "TW1631",
                "this tile was computed in a loop that has ended",
                "carry it out of the loop with tw.state",
            )
        if cell.value is None:
            assert cell.compute is not None
            before, self.current = self.current, cell.scope
            try:
                cell.value = cell.compute()
            finally:
                self.current = before
        return cell.value

    # --- operations ---------------------------------------------------------------------

    def launcher(self, family: str, dtype: str, kind: str, **attributes: Any) -> Launch:
        result = TensorType(ELEMENTS[dtype], SHAPES[kind])
        given = {name: _attribute(value) for name, value in attributes.items()}
        if family.startswith("reduction_") and kind == "column":
            given["keepdims"] = UnitAttr()
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
        shape = tuple(result.get_shape())
        shapes = [_shape(v) for v in inputs]
        if family.startswith(("elementwise_", "cast")) and any(s != shape for s in shapes):
            maps = [AffineMapAttr(_map(s, shape)) for s in shapes]
            attributes = {**attributes, "operand_maps": ArrayAttr(maps)}
        op = UKernelLaunchOp.create(
            operands=list(inputs),
            result_types=[result],
            properties={"symbol": StringAttr(symbol_for(family))},
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
            attributes["slot"] = IntegerAttr(slot, i64)
        if first:
            attributes["unit"] = IntegerAttr(unit, i64)
        family = "matmul" + part.get((first, last), "_acc_mid")
        return self._launch(family, inputs, TensorType(bf16, SHAPES["full"]), attributes, line)

    # --- tensors ------------------------------------------------------------------------

    def constant_tensor(self, name: str, array: Callable[[], np.ndarray]) -> Tensor:
        if name not in self.constants:
            numbers = array()
            spec = TensorSpec("bf16", numbers.shape)
            made = Tensor(self, name, spec, Layout(numbers.shape, "bf16"))
            self.constants[name] = (made, numbers)
            self.bind(made)
        return self.constants[name][0]

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
            "static_offsets": DenseArrayBase.from_list(i64, static),
            "static_sizes": DenseArrayBase.from_list(i64, sizes),
            "static_strides": DenseArrayBase.from_list(i64, [1] * len(sizes)),
        }, dynamic

    def read(self, target: Tensor, index: list[Any], kind: str) -> SSAValue:
        shape = SHAPES[kind]
        properties, dynamic = self._slice(index, shape)
        segments = (1, len(dynamic), 0, 0)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, segments)
        op = tensor.ExtractSliceOp.create(
            operands=[self.arguments[target.name], *dynamic],
            result_types=[TensorType(ELEMENTS[target.dtype], shape)],
            properties=properties,
        )
        return self._emit(op)

    def write(self, target: Tensor, index: list[Any], kind: str, value: SSAValue) -> None:
        into = self._output(target.name, self.inner)
        properties, dynamic = self._slice(index, _shape(value))
        segments = (1, 1, len(dynamic), 0, 0)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, segments)
        op = tensor.InsertSliceOp.create(
            operands=[value, into, *dynamic], result_types=[into.type], properties=properties
        )
        self.inner.outputs[target.name] = self._emit(op)

    def _output(self, name: str, scope: Scope) -> SSAValue:
        """An output as it is now; loops that write to it carry it."""
        if name not in scope.outputs:
            assert scope.parent is not None
            before = self._output(name, scope.parent)
            scope.outputs[name] = self._argument(scope, before, name)
        return scope.outputs[name]

    def _argument(self, scope: Scope, before: SSAValue, name: str) -> BlockArgument:
        argument = scope.block.insert_arg(before.type, len(scope.block.args))
        argument.name_hint = name
        scope.arguments.append((argument, before))
        return argument

    # --- loops --------------------------------------------------------------------------

    def blocks(self, extent: int, size: int, unroll: bool | int) -> Iterator[Block]:
        step, tiles = size // SIDE, -(-extent // SIDE)
        for group in self._loop(extent // size, size, unroll):
            for k, variable in group:
                yield Block(k * step, step, extent, variable)
        for start in range(extent // size * step, tiles, step):
            yield Block(start, min(step, tiles - start), extent)

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        for group in self._loop(extent, 1, unroll):
            for k, variable in group:
                terms = () if variable is None else ((variable, 1),)
                yield Single(k, terms, extent - 1)

    def _loop(
        self, count: int, step: int, unroll: bool | int
    ) -> Iterator[list[tuple[int, SSAValue | None]]]:
        """Groups of steps: written out, or the body of a loop of the program.

        A step is a number, or a number beyond a loop variable that counts in units of `step`.
        """
        written = count if unroll is True else 0
        if not written and any(not c.shaped for c in self._carriers()):
            written = min(1, count)  # the first step says what the loop carries
        group = 1 if isinstance(unroll, bool) else unroll
        trips = (count - written) // group
        if trips < 2:
            written, trips = count, 0
        self.written_steps = max(self.written_steps, written if written > 1 else 0)
        yield [(k, None) for k in range(written)]
        if trips:
            scope = self._open()
            before = self._locals()
            variable = scope.block.args[0]
            yield [(k, variable) for k in range(group)]
            self._check_rebinding(scope, before)
            self._close(scope, written * step, (written + trips * group) * step, group * step)
        yield [(k, None) for k in range(written + trips * group, count)]

    def _carriers(self) -> list[Carrier]:
        scopes = set(map(id, self.inner.chain()))
        return [c for c in self.carriers if id(c.home) in scopes]

    def _open(self) -> Scope:
        self._loops += 1
        block = IRBlock(arg_types=[INDEX])
        block.args[0].name_hint = "i"
        self.inner = self.current = Scope(block, self.inner, self._loops)
        return self.inner

    def _close(self, scope: Scope, start: int, stop: int, step: int) -> None:
        assert self.inner is scope and scope.parent is not None
        following = {a: scope.outputs[name] for a, name in self._written(scope)}
        carried = []
        for carrier in scope.carriers:
            carrier.settle()
            assert carrier.held is not None
            _, entered = carrier.levels[-1]
            now = carrier.held
            pairs = [
                (old.value, self.use(new))
                for old, new in zip(_cells(entered), _cells(now), strict=True)
            ]
            following.update(pairs)
            carried.append((carrier, pairs))
        unchanged = {a: before for a, before in scope.arguments if following[a] is a}
        for argument, before in unchanged.items():
            argument.replace_all_uses_with(before)
            scope.block.erase_arg(argument)
        scope.arguments = [row for row in scope.arguments if row[0] not in unchanged]
        scope.block.add_op(scf.YieldOp.create(operands=[following[a] for a, _ in scope.arguments]))
        self.inner = self.current = scope.parent
        loop = scf.ForOp.create(
            operands=[
                *(self._constant(n) for n in (start, stop, step)),
                *(before for _, before in scope.arguments),
            ],
            result_types=[before.type for _, before in scope.arguments],
            regions=[Region(scope.block)],
        )
        self._emit(loop)
        results: dict[SSAValue, SSAValue] = {**unchanged}
        for (argument, _), result in zip(scope.arguments, loop.results, strict=True):
            results[argument] = result
        for argument, name in self._written(scope):
            self.inner.outputs[name] = results[argument]
        for carrier, pairs in carried:
            self._leave(carrier, [results[a] for a, _ in pairs])

    def _written(self, scope: Scope) -> list[tuple[SSAValue, str]]:
        names = {a.name_hint: a for a, before in scope.arguments}
        return [(names[n], n) for n in scope.outputs if n in names]

    # --- carried tiles ------------------------------------------------------------------

    def carry(self, carrier: Carrier) -> None:
        scopes = list(reversed(list(self.inner.chain())))
        if carrier.home not in scopes:
            raise self.error("TW1631", "this state belongs to a loop that has ended")
        around = [s for s, _ in carrier.levels]
        for scope in scopes[scopes.index(carrier.home) + 1 :]:
            if scope in around or not carrier.shaped:
                continue
            self._enter(carrier, scope)

    def _enter(self, carrier: Carrier, scope: Scope) -> None:
        """Tiles before the loop -> arguments of the loop's body."""
        inner = self.inner
        assert scope.parent is not None
        self.inner = self.current = scope.parent
        carrier.settle()
        held = carrier.held
        assert held is not None
        before = [self.use(cell) for cell in _cells(held)]
        self.inner = self.current = inner
        arguments = [self._argument(scope, value, "carried") for value in before]
        entered = _with_values(held, arguments, scope)
        carrier.levels.append((scope, entered))
        carrier.held = entered
        scope.carriers.append(carrier)

    def _leave(self, carrier: Carrier, results: list[SSAValue]) -> None:
        _, entered = carrier.levels.pop()
        carrier.held = _with_values(entered, results, self.inner)

    # --- variables that change in a loop ------------------------------------------------

    def _locals(self) -> dict[str, Any]:
        frame = self.frame()
        found = dict(frame.f_locals) if frame else {}
        return {n: v for n, v in found.items() if isinstance(v, Arithmetic)}

    def _check_rebinding(self, scope: Scope, before: dict[str, Any]) -> None:
        """A variable that one iteration reads and then sets would be read again in the next."""
        after = self._locals()
        for name, old in before.items():
            if isinstance(old, Carrier) or after.get(name) is old or name not in after:
                continue
            tiles = getattr(old, "computed", old)
            if isinstance(tiles, TileArray) and scope.number in tiles.used_in:
                raise self.error(
                    "TW1632",
                    f"{name} changes from one step of the loop to the next",
                    f"write {name} = tw.state(...) before the loop and {name}.set(...) in it",
                )


def _cells(tiles: TileArray) -> list[Cell]:
    return [cell for row in tiles.cells for cell in row]


def _with_values(like: TileArray, values: Sequence[SSAValue], scope: Scope) -> TileArray:
    supply = iter(values)
    cells = [[Cell(next(supply), scope=scope) for _ in row] for row in like.cells]
    return TileArray(like.backend, cells, like.dtype, like.rows, like.columns, like.kind)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def _map(shape: tuple[int, ...], result: tuple[int, ...]) -> AffineMap:
    """How an operand of this shape is read for a result of that shape."""
    rank = len(result)
    if shape == result:
        return AffineMap.identity(rank)
    d0, d1 = AffineDimExpr(0), AffineDimExpr(1)
    expressions = (d1,) if len(shape) == 1 else (d0, AffineConstantExpr(0))
    return AffineMap(rank, 0, expressions)


def _attribute(value: Any) -> Attribute:
    if value is True:
        return UnitAttr()
    if isinstance(value, tuple):
        return DenseArrayBase.from_list(i64, value)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return IntegerAttr(value, i64)
