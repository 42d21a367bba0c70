"""Where tile operations go: into a trace, or straight to numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.codegen import nest
from tilewright.targets.atlas.codegen.eager_tiles import EagerTiles
from tilewright.targets.atlas.codegen.nest import Affine, Value, Variable
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.blocks import Block, Single, whole
from tilewright.tile.cells import PARK, Cell, TileArray
from tilewright.tile.layouts import SIDE, Layout

LOWEST = -3.0e38  # stands in for minus infinity: it survives a subtraction


class Backend:
    """What a trace and an eager run share."""

    def __init__(self, profile: Profile, code: CodeType) -> None:
        self.profile, self.code = profile, code
        # Rows that share weights: the faster matrix unit takes two, the slower one.
        both = profile.timing["matmul_mxu0"].latency > 2 * profile.timing["matmul_mxu1"].latency
        self.units = (1, 1, 0) if both else (0, 1)

    def line(self) -> int:
        """The author's line that is running."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.code:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def error(self, code: str, message: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError(code, message, Location(self.code.co_filename, self.line()), hint)

    def depth(self) -> int:
        """How many loops of the program are open."""
        return 0

    # --- to be provided ---

    def compute(
        self, body: Callable, inputs: list[Any], dtype: str, cost: int = 2, **options: Any
    ) -> Any:
        raise AssertionError

    def use(self, cell: Cell) -> Any:
        raise AssertionError

    def fresh(self, cell: Cell) -> Any:
        raise AssertionError

    def keep(self, value: Any, count: int) -> Cell:
        raise AssertionError

    def later(self, compute: Callable[[], Any], count: int) -> Cell:
        """A cell of a macro tile of `count` tiles, computed now or when it is first used."""
        return self.keep(compute(), count)

    # --- masks and constants ---

    def constant(self, value: float) -> TileArray:
        made = lambda: self.compute(lambda t: t.constant(value), [], "bf16", 0)  # noqa: E731
        return TileArray(self, [[Cell(fetch=made)]], "bf16", [SIDE], [SIDE], "number")

    def masked(self, value: Any, valid: int, kind: str) -> Any:
        """The tile with columns beyond `valid` replaced by what the reduction ignores."""
        if valid >= SIDE:
            return value
        keep = self.pattern([1.0] * valid + [0.0] * (SIDE - valid))
        kept = self.compute(lambda t, x, m: t.mul(x, m), [value, keep], "bf16", 2)
        if kind == "sum":
            return kept
        far = LOWEST if kind == "max" else -LOWEST
        fill = self.pattern([0.0] * valid + [far] * (SIDE - valid))
        return self.compute(lambda t, x, m: t.add(x, m), [kept, fill], "bf16", 2)

    def pattern(self, row: list[float]) -> Any:
        """A tile whose rows all hold these numbers."""
        raise AssertionError


class Tracer(Backend):
    """Records statements."""

    def __init__(self, profile: Profile, code: CodeType, patterns: Patterns) -> None:
        super().__init__(profile, code)
        self.stack: list[list[nest.Statement]] = [[]]
        self.patterns = patterns

    def depth(self) -> int:
        return len(self.stack) - 1

    @property
    def statements(self) -> list[nest.Statement]:
        return self.stack[0]

    def _source(self) -> str:
        return str(self.line())

    def compute(
        self, body: Callable, inputs: list[Any], dtype: str, cost: int = 2, **options: Any
    ) -> Value:
        result = Value(dtype)
        options["cost"] = cost
        self.stack[-1].append(nest.Compute(body, tuple(inputs), (result,), options, self._source()))
        return result

    def use(self, cell: Cell) -> Value:
        """The tile at this point of the program, read again only where it has to be."""
        depth = len(self.stack) - 1
        if cell.value is not None and cell.depth == depth:
            return cell.value
        if cell.value is not None and cell.fetch is None:
            return self._unpark(cell, depth)
        assert cell.fetch is not None
        if not cell.caches:
            return cell.fetch()
        cell.value, cell.depth = cell.fetch(), depth
        return cell.value

    def fresh(self, cell: Cell) -> Value:
        """The tile, read anew if it comes from memory."""
        if cell.fetch is not None:
            return cell.fetch()
        return self.use(cell)

    def _unpark(self, cell: Cell, depth: int) -> Value:
        if cell.slot is None:
            # Computed outside the loop we are in: leave it in VMEM before the loop starts.
            cell.slot = nest.Slot(2048 if cell.value.dtype == "bf16" else 1024)
            outer = self.stack[cell.depth]
            outer.append(nest.Park(cell.value, cell.slot, self._source()))
        return self._take(cell.slot, cell.value.dtype)

    def keep(self, value: Value, count: int) -> Cell:
        """A cell for a computed tile; one of many goes to VMEM."""
        if count <= PARK or value.dtype not in ("bf16", "fp8"):
            return Cell(value=value, depth=len(self.stack) - 1)
        slot = nest.Slot(2048 if value.dtype == "bf16" else 1024)
        self.stack[-1].append(nest.Park(value, slot, self._source()))
        return Cell(fetch=lambda: self._take(slot, value.dtype), caches=False)

    def later(self, compute: Callable[[], Value], count: int) -> Cell:
        """One of many tiles is computed when first used and waits in VMEM for further uses."""
        if count <= PARK:
            return self.keep(compute(), count)
        slots: list[nest.Slot] = []

        def fetch() -> Value:
            if slots:
                return self._take(slots[0], dtype[0])
            value = compute()
            dtype.append(value.dtype)
            slots.append(nest.Slot(2048 if value.dtype == "bf16" else 1024))
            self.stack[-1].append(nest.Park(value, slots[0], self._source()))
            return value

        dtype: list[str] = []
        return Cell(fetch=fetch, caches=False)

    def _take(self, slot: nest.Slot, dtype: str) -> Value:
        result = Value(dtype)
        self.stack[-1].append(nest.Unpark(result, slot, self._source()))
        return result

    def read(self, layout: Layout, offset: Affine, row: bool) -> Value:
        result = Value(layout.dtype)
        self.stack[-1].append(nest.Read(result, offset, layout.tile_bytes, self._source(), row))
        return result

    def write(self, layout: Layout, offset: Affine, value: Value) -> None:
        self.stack[-1].append(nest.Write(value, offset, layout.tile_bytes, self._source()))

    def pattern(self, row: list[float]) -> Value:
        offset = self.patterns.offset(row)
        return self.read(Layout((SIDE, SIDE), "bf16"), Affine(offset), row=False)

    def blocks(self, extent: int, size: int, unroll: bool) -> Iterator[Block]:
        tiles, step = -(-extent // SIDE), size // SIDE
        full = tiles // step
        if unroll:
            for k in range(full):
                yield Block(k * step, step, extent)
        elif full:
            variable = Variable(full)
            self.stack.append([])
            yield Block(0, step, extent, variable)
            body = self.stack.pop()
            self.stack[-1].append(nest.For(variable, body))
        if tiles % step:
            yield Block(full * step, tiles % step, extent)

    def indices(self, extent: int, unroll: bool) -> Iterator[Single]:
        if unroll:
            for k in range(extent):
                yield Single(k, extent)
            return
        variable = Variable(extent)
        self.stack.append([])
        yield Single(0, extent, variable)
        body = self.stack.pop()
        self.stack[-1].append(nest.For(variable, body))


class Patterns:
    """Mask tiles a kernel needs in DRAM, behind its tensors."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.rows: list[tuple[float, ...]] = []

    def offset(self, row: list[float]) -> int:
        key = tuple(row)
        if key not in self.rows:
            self.rows.append(key)
        return self.base + 2048 * self.rows.index(key)

    def data(self) -> bytes:
        layout = Layout((SIDE, SIDE), "bf16")
        return b"".join(layout.pack(np.tile(np.array(r), (SIDE, 1))) for r in self.rows)


class Runner(Backend):
    """Runs at once on numpy, with the profile's arithmetic."""

    def __init__(self, profile: Profile, code: CodeType) -> None:
        super().__init__(profile, code)
        self.tiles = EagerTiles(profile)
        self.memory = np.zeros(0, np.uint8)

    def compute(
        self, body: Callable, inputs: list[Any], dtype: str, cost: int = 2, **options: Any
    ) -> Any:
        return body(self.tiles, *inputs, **options)

    def use(self, cell: Cell) -> Any:
        if cell.value is None:
            assert cell.fetch is not None
            cell.value = cell.fetch()
        return cell.value

    fresh = use

    def keep(self, value: Any, count: int) -> Cell:
        return Cell(value=value)

    def read(self, layout: Layout, offset: Affine, row: bool) -> np.ndarray:
        raw = self.memory[offset.constant : offset.constant + layout.tile_bytes]
        if layout.dtype == "fp8":
            return raw.reshape(SIDE, SIDE).copy()
        if layout.order == "halves":
            return np.tile(raw.view("<u2").reshape(SIDE, SIDE // 2), (1, 2))
        halves = raw.view("<u2").reshape(2, SIDE, SIDE // 2)
        tile = np.concatenate([halves[0], halves[1]], axis=1)
        return self.tiles.columns("sum", tile) if row else tile

    def write(self, layout: Layout, offset: Affine, value: np.ndarray) -> None:
        if layout.order == "halves":
            value = np.ascontiguousarray(value[:, : SIDE // 2], "<u2").view(np.uint8)
        elif layout.dtype == "bf16":
            value = np.stack([value[:, : SIDE // 2], value[:, SIDE // 2 :]])
            value = np.ascontiguousarray(value, "<u2").view(np.uint8)
        start = offset.constant
        self.memory[start : start + layout.tile_bytes] = value.reshape(-1)

    def pattern(self, row: list[float]) -> np.ndarray:
        from tilewright.tile.layouts import to_codes

        return np.tile(to_codes(np.array(row), "bf16"), (SIDE, 1))

    def blocks(self, extent: int, size: int, unroll: bool) -> Iterator[Block]:
        tiles, step = -(-extent // SIDE), size // SIDE
        for start in range(0, tiles, step):
            yield Block(start, min(step, tiles - start), extent)

    def indices(self, extent: int, unroll: bool) -> Iterator[Single]:
        for k in range(extent):
            yield Single(k, extent)


def block_of(index: object, extent: int, backend: Backend) -> Block:
    """What an author wrote between brackets, as a block of a tile dimension."""
    if isinstance(index, Block):
        if index.extent != extent:
            raise backend.error(
                "TW1604",
                f"a block of a dimension of {index.extent} indexes a dimension of {extent}",
            )
        return index
    if isinstance(index, slice) and index == slice(None):
        return whole(extent)
    raise backend.error("TW1605", f"{index!r} does not index a tile dimension", "use tw.grid or :")
