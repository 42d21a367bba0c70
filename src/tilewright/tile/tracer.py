"""Traces: the author's function, run once, leaves npu_schedule operations behind.

Every loop of the program is a scope with operations of its own. A tile is computed in the
scope where the author wrote it, when it is first used; outputs and carried tiles become
arguments and results of the loops that change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.dialects.xdsl_api import (
    Block as IRBlock,
)
from tilewright.dialects.xdsl_api import (
    Region,
    SSAValue,
    scf,
)
from tilewright.tile.arrays import Arithmetic, Cell, TileArray
from tilewright.tile.blocks import Block, Single
from tilewright.tile.rebinding import changed, variables
from tilewright.tile.recorder import INDEX, Recorder, Scope
from tilewright.tile.states import Carrier


class Tracer(Recorder):
    """Runs the author's loops once each."""

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
        count = tiles // step if padded else extent // size
        for group in self._loop(count, size, unroll):
            for k, variable in group:
                yield Block(k * step, step, extent, variable, side=self.side)
        for start in range(count * step, tiles, step):
            yield Block(start, min(step, tiles - start), extent, side=self.side)

    def blocks_before(self, block: Block, size: int) -> Iterator[Block]:
        known, (variable, *others) = block.start * self.side, block.variables
        if others or known < size or known % size:
            raise self.error(
                "TW1604",
                f"before a block that follows a loop come whole blocks of {size} elements, one at least",
                "loop from the second block on, in steps of so many elements",
            )
        scope = self._open()
        seen, held = self._locals(), variables()
        yield Block(0, size // self.side, block.extent, scope.block.args[0], side=self.side)
        self._check_rebinding(scope, seen, held)
        self._close(scope, 0, Single(known, ((variable, 1),)), size)

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        for group in self._loop(extent, 1, unroll):
            for k, variable in group:
                terms = () if variable is None else ((variable, 1),)
                yield Single(k, terms, extent - 1)

    def _loop(
        self, count: int, step: int, unroll: bool | int
    ) -> Iterator[list[tuple[int, SSAValue | None]]]:
        """Groups of steps: unrolled, or the body of a loop of the program.

        A step is a number, or a number beyond a loop variable that counts in units of `step`.
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
            yield [(k, variable) for k in range(group)]
            self._check_rebinding(scope, before, held)
            self._close(scope, written * step, (written + trips * group) * step, group * step)
        yield [(k, None) for k in range(written + trips * group, count)]

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
