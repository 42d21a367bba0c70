"""Lowering of what makes one number of many, repeats one, or puts them elsewhere: reductions,
broadcasts, slices, concatenations and reshapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node, dtype_of, shape_of
from tilewright.targets.atlas.model.calls import Tensor, Unsupported
from tilewright.targets.atlas.model.matching import canonical
from tilewright.tile.layouts import SIDE

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

REDUCTIONS = ("reduction_sum", "reduction_mean", "reduction_max", "reduction_min")
SHARE = 3  # part of VMEM for the tiles that one tile of results is made of: one of so many
TILE = 2048  # bytes
LINES = 16  # rows that are put together one by one, at most
PIECES = 16  # loops of one kernel, at most
TAKEN = 4  # rows that are taken apart, at most

Shape = tuple[int, ...]


class Rearranging:
    """Makes calls of kernels whose results have other shapes than their operands."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering

    def of(self, node: Node, shape: tuple[int, int, int]) -> Tensor | None:
        """The result of a node, if it is of this sort."""
        if node.family in REDUCTIONS:
            return self._reduced(node)
        if node.family == "slice":
            return self._part(node, shape)
        if node.family == "concat":
            return self._joined(node, shape)
        return None

    # --- reductions ---------------------------------------------------------------------------

    def _reduced(self, node: Node) -> Tensor:
        """A reduction, one dimension after the other."""
        source = node.inputs["x"]
        sizes = shape_of(source)
        if "init" in node.inputs:
            raise Unsupported(f"{node.family} that starts from another value")
        if dtype_of(source) not in ("f32", "bf16", "f16", "f64"):
            raise Unsupported(f"{dtype_of(source)} values are not for the NPU")
        axes = sorted({axis % len(sizes) for axis in node.call.integers("axes") or ()})
        keep = node.call.flag("keepdims")
        steps: list[tuple[Shape, Shape, int]] = []
        for axis in reversed(axes):
            smaller = (*sizes[:axis], *([1] if keep else []), *sizes[axis + 1 :])
            steps.append((sizes, smaller, axis))
            sizes = smaller
        plans = [self._step(node, *step) for step in steps]
        tensor = self.at.bf16(source)
        for (_, after, axis), options in zip(steps, plans, strict=True):
            if options is None:
                continue
            last = after == sizes
            name = self.at.hint(node.result) + ("" if last else f".{axis}")
            out = self.at.activation(
                name, self.at.canonical(after), "bf16", value=node.result if last else None
            )
            kind = node.family.removeprefix("reduction_")
            tensor = self.at.call(
                node.layer or kind, "reduce", {"x": tensor}, out, (node,), kind=kind, **options
            )
        return tensor

    def _step(self, node: Node, sizes: Shape, smaller: Shape, axis: int) -> dict | None:
        """Options of the kernel that reduces one dimension; None: it leaves everything as it is."""
        batch, rows, width = self.at.canonical(sizes)
        after = self.at.canonical(smaller)
        spelt = "x".join(map(str, sizes))
        if sizes[axis] == 1 and after == (batch, rows, width):
            return None
        down = [d for d in range(len(sizes) - 1) if sizes[d] != 1 or not self.at.collapse][-1:]
        if axis == len(sizes) - 1:
            if after == (batch, rows, 1):
                self._fits(node, spelt, axis, 1, -(-width // SIDE))
                return {"along": "row"}
            self._refuse_merged(node.inputs["x"])
            fits, along, deep = after == (*after[:2], rows), "lines", width
        elif [axis] == down and self._is_one_matrix(node.inputs["x"]):
            fits, along, deep = after == (*after[:2], width), "column", rows
        else:
            self._refuse_merged(node.inputs["x"])
            inner = math.prod(sizes[axis + 1 : down[0]]) if down else 1
            if after[1:] != (rows, width) or not down or axis > down[0]:
                raise Unsupported(f"{node.family} over dimension {axis} of {spelt}")
            self._fits(node, spelt, axis, 1, sizes[axis])
            first = batch // (sizes[axis] * inner)
            return {"along": "batch", "split": [first, sizes[axis], inner]}
        if not fits or after[0] * after[1] != batch:
            raise Unsupported(f"{node.family} over dimension {axis} of {spelt}")
        self._fits(node, spelt, axis, after[1], -(-deep // SIDE))
        return {"along": along, "lines": after[1]}

    def _refuse_merged(self, *values: SSAValue) -> None:
        """Refuse values of several matrices whose rows lie in one."""
        if not all(self._is_one_matrix(value) for value in values):
            raise Unsupported("matrices of a batch whose rows lie below each other")

    def _is_one_matrix(self, value: SSAValue) -> bool:
        return not self.at.merge or canonical(shape_of(value), self.at.collapse)[0] == 1

    def _fits(self, node: Node, spelt: str, axis: int, lines: int, deep: int) -> None:
        """Whether there is room for what one tile of results is made of, and the masks of rows."""
        room = min(lines, SIDE) * (deep * TILE + (TILE if lines > 1 else 0))
        if lines > LINES or room * SHARE > self.at.profile.vmem_bytes:
            raise Unsupported(
                f"{node.family} over dimension {axis} of {spelt} needs too many tiles at a time"
            )

    # --- parts and joins ----------------------------------------------------------------------

    def _dimensions(self, sizes: Shape) -> tuple[list[int], int | None]:
        """The dimensions of a batch, and that of rows."""
        wide = [d for d in range(len(sizes) - 1) if sizes[d] != 1 or not self.at.collapse]
        return (wide[:-1], wide[-1]) if wide else ([], None)

    def _moved(
        self, node: Node, sources: list[SSAValue], shape: tuple[int, int, int], pieces: list
    ) -> Tensor:
        if len(pieces) > PIECES:
            raise Unsupported(f"a {node.family} of {len(pieces)} pieces")
        for source in sources:
            if dtype_of(source) not in ("f32", "bf16", "f16", "f64"):
                raise Unsupported(f"{dtype_of(source)} values are not for the NPU")
        operands = {f"x{k}": self.at.bf16(source) for k, source in enumerate(sources)}
        out = self.at.activation(self.at.hint(node.result), shape, "bf16", value=node.result)
        return self.at.call(
            node.layer or node.family, "move", operands, out, (node,),
            count=len(operands), pieces=pieces,
        )  # fmt: skip

    def joined_fp8(self, node: Node, shape: tuple[int, int, int]) -> Tensor | None:
        """A concat of slices of one value, moved as fp8 in one pass; None: it is something else."""
        parts = [self.at.graph.node_of(value, "slice") for value in node.operands]
        cut = [part for part in parts if part is not None]
        sources = {part.operands[0] for part in cut}
        if node.family != "concat" or len(cut) != len(parts) or len(sources) != 1:
            return None
        if any(self.at.reason_for_host(one) is not None for one in (node, *cut)):
            return None
        try:
            self._refuse_merged(node.result, *sources, *node.operands)
            joins = self._pieces_of_concat(node)
            places = [
                self._pieces_of_slice(part, self.at.canonical(shape_of(part.result)))
                for part in cut
            ]
        except Unsupported:
            return None
        if len(joins) > PIECES or [p[0] for p in joins] != list(range(len(cut))):
            return None
        pieces = []
        for join, (place, *others) in zip(joins, places, strict=True):
            if others or join[3] != 1 or place[3] != 1:
                return None  # several matrices
            _, source, _, _, origin, *_ = place
            pieces.append([0, source, *join[2:4], origin, *join[5:]])
        x = self.at.fp8(sources.pop())
        name = f"{self.at.hint(node.result)}.fp8"
        out = self.at.activation(name, shape, "fp8", value=node.result, scale=x.scale)
        return self.at.call(
            node.layer or node.family, "move", {"x0": x}, out, (*cut, node),
            count=1, pieces=pieces, dtype="fp8",
        )  # fmt: skip

    def _part(self, node: Node, shape: tuple[int, int, int]) -> Tensor:
        """A slice whose rows and columns start where tiles do."""
        return self._moved(node, [node.operands[0]], shape, self._pieces_of_slice(node, shape))

    def _pieces_of_slice(self, node: Node, shape: tuple[int, int, int]) -> list:
        source = node.operands[0]
        sizes, rank = shape_of(source), len(shape_of(source))
        offsets, counts = node.call.integers("offsets"), node.call.integers("sizes")
        steps = node.call.integers("strides") or (1,) * rank
        if offsets is None or counts is None or len(counts) != rank:
            raise Unsupported("a slice whose place is not known beforehand")
        if self.at.merge:
            return [_merged_slice(sizes, offsets, counts, steps)]
        batch, down = self._dimensions(sizes)
        rows = counts[down] if down is not None else 1
        matrices = math.prod(counts[d] for d in batch)
        tiled = [d for d in (down, rank - 1) if d is not None]
        starts = [offsets[d] for d in tiled]
        if any(start % SIDE for start in starts) or any(
            steps[d] != 1 and counts[d] != 1 for d in tiled
        ):
            places = ", ".join(map(str, starts))
            raise Unsupported(f"a slice from {places} on, where no tile begins, moves values")
        if shape != (matrices, rows, counts[-1]):
            raise Unsupported("a slice to single rows moves values between tiles")
        indices = np.zeros((), np.int64)
        for d in batch:
            line = offsets[d] + steps[d] * np.arange(counts[d])
            indices = indices[..., None] * sizes[d] + line
        origin = [starts[0] // SIDE if down is not None else 0, starts[-1] // SIDE]
        pieces, done = [], 0
        for first, step, count in _progressions([int(k) for k in indices.reshape(-1)]):
            pieces.append([0, [first, step], [done, 1], count, origin, [0, 0], rows, counts[-1]])
            done += count
        return pieces

    def _joined(self, node: Node, shape: tuple[int, int, int]) -> Tensor:
        """Parts that begin where tiles do."""
        return self._moved(node, node.operands, shape, self._pieces_of_concat(node))

    def _pieces_of_concat(self, node: Node) -> list:
        sizes, sources = shape_of(node.result), node.operands
        rank = len(sizes)
        axis = node.call.axis(rank)
        if self.at.merge:
            return _merged_concat([shape_of(source) for source in sources], axis)
        batch, down = self._dimensions(sizes)
        pieces: list = []
        start = 0
        for k, source in enumerate(sources):
            mine = shape_of(source)
            count = math.prod(mine[d] for d in batch)
            rows = mine[down] if down is not None else 1
            if self.at.canonical(mine) != (count, rows, mine[-1]):
                raise Unsupported("a concat of single rows moves values between tiles")
            place = [start // SIDE if axis == down else 0, start // SIDE if axis == rank - 1 else 0]
            if axis in (down, rank - 1):
                if start % SIDE:
                    raise Unsupported(
                        f"a concat of parts from {start} on, where no tile begins, moves values"
                    )
                pieces.append([k, [0, 1], [0, 1], count, [0, 0], place, rows, mine[-1]])
            elif axis in batch:
                inner = math.prod(sizes[d] for d in batch if d > axis)
                length, whole = mine[axis] * inner, sizes[axis] * inner
                for p in range(count // length):
                    target = [p * whole + start * inner, 1]
                    pieces.append(
                        [k, [p * length, 1], target, length, [0, 0], place, rows, mine[-1]]
                    )
            else:
                raise Unsupported("a concat of one part")
            start += mine[axis]
        return pieces

    def regrouped(self, node: Node, source: SSAValue, shape: tuple[int, int, int]) -> Tensor:
        """Whole tiles of rows of one batch that belong to matrices of another height."""
        self._refuse_merged(source, node.result)
        batch, rows, width = self.at.canonical(shape_of(source))
        taller = shape[1] >= rows
        several = shape[1] // rows if taller else rows // shape[1]
        if shape[0] * several != batch and batch * several != shape[0]:
            raise Unsupported(f"a reshape of {rows} rows to {shape[1]} moves values between tiles")
        high = min(rows, shape[1])
        pieces = []
        for j in range(several):
            apart, together = [j, several], [0, 1]
            tiles = [j * high // SIDE, 0]
            if taller:
                pieces.append([0, apart, together, shape[0], [0, 0], tiles, high, width])
            else:
                pieces.append([0, together, apart, batch, tiles, [0, 0], high, width])
        return self._moved(node, [source], shape, pieces)

    # --- values that are repeated -------------------------------------------------------------

    def spread(
        self,
        value: SSAValue,
        result: Shape,
        read: list[int],
        shape: tuple[int, int, int],
        split: dict[str, Any],
    ) -> tuple[str, Tensor]:
        """How a computed value that has some dimensions of a result is repeated over it."""
        last = len(result) - 1
        if self.at.merge:
            return self._spread_over_rows(value, result, read, shape)
        wide = [d for d in range(last) if result[d] != 1 or not self.at.collapse]
        batch, down = wide[:-1], wide[-1:]
        has_row = set(down) <= set(read) or shape[1] == 1
        has_column = last in read or shape[2] == 1
        form = {(1, 1): "full", (1, 0): "column", (0, 1): "line", (0, 0): "number"}[
            int(has_row), int(has_column)
        ]
        batch = [d for d in batch if result[d] != 1]
        mine = [d for d in read if d in batch]
        count = math.prod(result[d] for d in mine)
        part = self._part_of_batch(mine, batch)
        if part in ("outer", "inner"):
            inner = math.prod(result[d] for d in batch if (d in mine) == (part == "inner"))
            self._split(split, (shape[0] // inner, inner))
        stored = (count, shape[1] if has_row else 1, shape[2] if has_column else 1)
        canonical = self.at.canonical(shape_of(value))
        kind = f"{form}@{part}" if part else form
        if value in self.at.graph.inputs:
            return kind, self.at.from_host(value, stored)
        if canonical == stored:
            return kind, self.at.bf16(value)
        groups, lines, width = canonical
        if not has_row and not part and (groups * lines, width) == (count, stored[2]):
            if lines > TAKEN or groups > 1:
                raise Unsupported(f"{count} rows are too many to be repeated one by one")
            self._split(split, (groups, lines))
            return f"{form}@rows", self.at.bf16(value)
        sizes = ["x".join(map(str, s)) for s in (shape_of(value), result)]
        raise Unsupported(f"an operand of {sizes[0]} is repeated over {sizes[1]}")

    def _spread_over_rows(
        self, value: SSAValue, result: Shape, read: list[int], shape: tuple[int, int, int]
    ) -> tuple[str, Tensor]:
        """The same where all rows are one matrix: of the rows a value has all or none."""
        last = len(result) - 1
        lead = [d for d in range(last) if result[d] != 1]
        mine = [d for d in read if d != last]
        if mine not in (lead, []):
            raise Unsupported("an operand is repeated over some of the rows of a matrix")
        down, across = bool(mine) or shape[1] == 1, last in read or shape[2] == 1
        form = {(1, 1): "full", (1, 0): "column", (0, 1): "line", (0, 0): "number"}[
            int(down), int(across)
        ]
        stored = (1, shape[1] if down else 1, shape[2] if across else 1)
        if value in self.at.graph.inputs:
            return form, self.at.from_host(value, stored)
        if self.at.canonical(shape_of(value)) != stored:
            raise Unsupported("an operand is repeated over some of the rows of a matrix")
        return form, self.at.bf16(value)

    def _part_of_batch(self, mine: list[int], batch: list[int]) -> str:
        if mine == batch:
            return ""
        if not mine:
            return "one"
        if mine == batch[: len(mine)]:
            return "outer"
        if mine == batch[-len(mine) :]:
            return "inner"
        raise Unsupported("an operand is repeated over a dimension between two of a batch")

    def _split(self, split: dict[str, Any], wanted: tuple[int, int]) -> None:
        if split.setdefault("split", wanted) != wanted:
            raise Unsupported("operands are repeated over different parts of a batch")


def _merged_slice(
    sizes: Shape, offsets: Sequence[int], counts: Sequence[int], steps: Sequence[int]
) -> list:
    """The piece of a slice where all rows are one matrix: rows that follow each other."""
    rows = np.arange(math.prod(sizes[:-1])).reshape(sizes[:-1])
    for d in range(len(sizes) - 1):
        rows = rows.take(offsets[d] + steps[d] * np.arange(counts[d]), d)
    first, count, column = int(rows.flat[0]), rows.size, offsets[-1]
    in_order = np.array_equal(rows.reshape(-1), np.arange(first, first + count))
    if not in_order or (steps[-1] != 1 and counts[-1] != 1):
        raise Unsupported("a slice of some of the rows of a matrix moves values between tiles")
    if first % SIDE or column % SIDE:
        raise Unsupported(
            f"a slice from {first}, {column} on, where no tile begins, moves values between tiles"
        )
    return [0, [0, 1], [0, 1], 1, [first // SIDE, column // SIDE], [0, 0], count, counts[-1]]


def _merged_concat(sources: list[Shape], axis: int) -> list:
    """The pieces of a concat where all rows are one matrix: side by side, or one below the other."""
    across = axis == len(sources[0]) - 1
    if not across and math.prod(sources[0][:axis]) != 1:
        raise Unsupported("a concat of some of the rows of a matrix moves values between tiles")
    pieces, start = [], 0
    for k, mine in enumerate(sources):
        if start % SIDE:
            raise Unsupported(
                f"a concat of parts from {start} on, where no tile begins, moves values"
            )
        rows = math.prod(mine[:-1])
        place = [0, start // SIDE] if across else [start // SIDE, 0]
        pieces.append([k, [0, 1], [0, 1], 1, [0, 0], place, rows, mine[-1]])
        start += mine[-1] if across else rows
    return pieces


def _progressions(numbers: list[int]) -> list[tuple[int, int, int]]:
    """Numbers in order as (first, step, count)."""
    found: list[tuple[int, int, int]] = []
    while numbers:
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
        count = 1
        while count < len(numbers) and numbers[count] == numbers[0] + step * count:
            count += 1
        found.append((numbers[0], step, count))
        numbers = numbers[count:]
    return found
