"""Traces: the author's function, run once, leaves npu_schedule operations behind.

Every loop of the program is a scope with operations of its own. A tile is computed in the
scope where the author wrote it, when it is first used; outputs and carried tiles become
arguments and results of the loops that change them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from tilewright.dialects.xdsl_api import (
    Block as IRBlock,
)
from tilewright.dialects.xdsl_api import (
    Region,
    SSAValue,
    scf,
)
from tilewright.tile.arrays import Arithmetic, Cell, TileArray
from tilewright.tile.backend import running
from tilewright.tile.blocks import Block, Single, Terms
from tilewright.tile.loop_forms import Around, LoopForms, OtherForm, Place
from tilewright.tile.rebinding import changed, variables
from tilewright.tile.recorder import INDEX, Recorder, Scope
from tilewright.tile.states import Carrier

if TYPE_CHECKING:
    from tilewright.tile.kernel import Kernel
    from tilewright.tile.layouts import Layout
    from tilewright.tile.machine import TileMachine


def traced(
    kernel: Kernel, layouts: dict[str, Layout], make: Callable[[LoopForms], Tracer]
) -> Tracer:
    """The trace of a kernel, with its function complete; again until its loops have their forms."""
    forms = LoopForms()
    while True:
        tracer = make(forms)
        tensors = kernel.tensors(tracer, layouts)
        for tensor in tensors.values():
            tracer.bind(tensor)
        with running(tracer):
            try:
                kernel.run_on(tensors)
            except OtherForm:
                continue
            tracer.finish()
        return tracer


class Tracer(Recorder):
    """Runs the author's loops once each."""

    def __init__(
        self, machine: TileMachine, code: CodeType, name: str, forms: LoopForms | None = None
    ) -> None:
        super().__init__(machine, code, name)
        self.forms = forms or LoopForms()
        self.around: dict[SSAValue, Around] = {}

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

    # --- loops --------------------------------------------------------------------------

    def blocks(
        self, extent: int, size: int, unroll: bool | int, padded: bool = False
    ) -> Iterator[Block]:
        step, tiles = size // self.side, -(-extent // self.side)
        count, place = tiles // step if padded else extent // size, self._place()
        apart = min(count, self.forms.first_apart.get(place, 0))
        for k in range(apart):
            yield Block(k * step, step, extent, side=self.side)
        for group in self._loop(count - apart, size, unroll, place):
            for k, variable in group:
                yield Block((apart + k) * step, step, extent, variable, side=self.side)
        for start in range(count * step, tiles, step):
            yield Block(start, min(step, tiles - start), extent, side=self.side)

    def blocks_before(self, block: Block, size: int) -> Iterator[Block]:
        known, (variable, *others) = block.start * self.side, block.variables
        around = self.around[variable]
        written = any(not c.shaped for c in self._carriers())  # the first says what is carried
        least = size * (1 + written)
        if not others and around.step % size == 0 and known < least:
            apart = -(-least // (block.tiles * self.side))
            if self.forms.part_first(around.place, apart):
                raise OtherForm
        if others or known < least or known % size or around.step % size:
            raise self.error(
                "TW1604",
                f"before a block that follows a loop come whole blocks of {size} elements, one at least",
                f"go through the loop around it in steps of {size} elements or a multiple",
            )
        if written:
            yield Block(0, size // self.side, block.extent, side=self.side)
        scope = self._open()
        seen, held = self._locals(), variables()
        yield Block(0, size // self.side, block.extent, scope.block.args[0], side=self.side)
        self._check_rebinding(scope, seen, held)
        self._close(scope, size * written, Single(known, ((variable, 1),)), size)

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        place = self._place()
        members = self.forms.members.get(place, ())
        if place in self.forms.written_out:
            members, unroll = (), True
        strides = (*members, 1)
        counts = [whole // part for whole, part in pairwise((extent, *strides))]
        yield from self._nested(list(zip(counts, strides, strict=True)), unroll, place, extent)

    def _nested(
        self, levels: list[tuple[int, int]], unroll: bool | int, place: Place, extent: int
    ) -> Iterator[Single]:
        """Indices as a loop of the program, or as loops in loops: counts and strides of each."""
        (count, stride), *inner = levels
        for group in self._loop(count, 1, unroll, place, (stride, extent)):
            for k, variable in group:
                terms = () if variable is None else ((variable, stride),)
                index = Single(k * stride, terms, (count - 1) * stride)
                if not inner:
                    yield index
                    continue
                for member in self._nested(inner, False, place, extent):
                    yield index + member

    def _loop(
        self,
        count: int,
        step: int,
        unroll: bool | int,
        place: Place,
        steps: tuple[int, int] = (1, 0),
    ) -> Iterator[list[tuple[int, SSAValue | None]]]:
        """Groups of steps: unrolled, or the body of a loop of the program.

        A step is a number, or a number beyond a loop variable that counts in units of `step`.
        steps: of an index that follows it, and the extent of that index.
        """
        written = count if unroll is True else 0
        if not written and any(not c.shaped for c in self._carriers()):
            written = min(1, count)  # the first step says what the loop carries
        group = max(1, int(unroll))
        trips = (count - written) // group
        if trips < 2:
            written, trips = count, 0
        self.written_steps = max(self.written_steps, written if written > 1 else 0)
        yield [(k, None) for k in range(written)]
        if trips:
            scope = self._open()
            before, held = self._locals(), variables()
            variable = scope.block.args[0]
            last = (written + (trips - 1) * group) * step
            self.around[variable] = Around(place, written * step, last, group * step, *steps)
            yield [(k, variable) for k in range(group)]
            self._check_rebinding(scope, before, held)
            self._close(scope, written * step, (written + trips * group) * step, group * step)
        yield [(k, None) for k in range(written + trips * group, count)]

    def divided(self, index: Single, count: int) -> tuple[tuple[int, Terms], tuple[int, Terms]]:
        whole = tuple((v, factor // count) for v, factor in index.terms if factor % count == 0)
        rest = tuple((v, factor) for v, factor in index.terms if factor % count)
        ends = [
            sorted((factor * self.around[v].first, factor * self.around[v].last))
            for v, factor in rest
        ]
        low, high = (index.start + sum(end[k] for end in ends) for k in (0, 1))
        if low // count == high // count:
            quotient = low // count
            return (quotient, whole), (index.start - quotient * count, rest)
        for variable, factor in rest:
            around = self.around[variable]
            part = count // math.gcd(factor, count) * around.stride
            if self.forms.divide(around.place, around.extent, part):
                raise OtherForm
        raise AssertionError("loops that are written out leave no variables to divide")

    def _place(self) -> Place:
        """Where the loop that begins stands."""
        found = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            found.append((frame.f_code, frame.f_lineno))
            if frame.f_code is self.code:
                return tuple(found)
            frame = frame.f_back
        return ()

    def _carriers(self) -> list[Carrier]:
        scopes = set(map(id, self.inner.chain()))
        return [c for c in self.carriers if id(c.home) in scopes]

    def _open(self) -> Scope:
        self.loops += 1
        block = IRBlock(arg_types=[INDEX])
        block.args[0].name_hint = "i"
        self.inner = self.current = Scope(block, self.inner, self.loops)
        return self.inner

    def _close(self, scope: Scope, start: int, stop: int | Single, step: int) -> None:
        assert self.inner is scope and scope.parent is not None
        following: dict[SSAValue, SSAValue] = {
            argument: scope.outputs[name] for name, argument in scope.written.items()
        }
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
                self._constant(start),
                self._sum(stop) if isinstance(stop, Single) else self._constant(stop),
                self._constant(step),
                *(before for _, before in scope.arguments),
            ],
            result_types=[before.type for _, before in scope.arguments],
            regions=[Region(scope.block)],
        )
        self._emit(loop)
        results: dict[SSAValue, SSAValue] = {**unchanged}
        for (argument, _), result in zip(scope.arguments, loop.results, strict=True):
            results[argument] = result
        for name, argument in scope.written.items():
            self.inner.outputs[name] = results[argument]
        for carrier, pairs in carried:
            self._leave(carrier, [results[a] for a, _ in pairs])

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

    def _check_rebinding(self, scope: Scope, before: dict[str, Any], held: dict[str, Any]) -> None:
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
        name = changed(held)
        if name is not None:
            raise self.error(
                "TW1632",
                f"{name} changes from one step of the loop to the next",
                "the loop is traced once, and every step of it does the same: a tile that changes "
                "is a tw.state, and unroll=True writes the steps out",
            )


def _cells(tiles: TileArray) -> list[Cell]:
    return [cell for row in tiles.cells for cell in row]


def _with_values(like: TileArray, values: Sequence[SSAValue], scope: Scope) -> TileArray:
    supply = iter(values)
    cells = [[Cell(next(supply), scope=scope) for _ in row] for row in like.cells]
    return TileArray(like.backend, cells, like.dtype, like.rows, like.columns, like.kind)
