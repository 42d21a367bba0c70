"""Copies to VMEM that are made beside the loop that follows them.

before: loop that copies a tensor from DRAM to VMEM; loop that does not touch the copy
after:  the second loop, in each iteration of which the next bytes of the copy arrive

The transfers go straight to their place, so they take nothing but the DMA engine's time. What is
not a slice for every iteration is loaded behind the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.targets.atlas.codegen.nest import (
    LAYER,
    Affine,
    For,
    Read,
    Statement,
    Variable,
    Write,
    all_statements,
)
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.virtual import ROW, Code, Place


@dataclass(frozen=True)
class Copy:
    """Bytes in DRAM, and where in VMEM they go; the source may lie elsewhere in each round.

    rows: so many times, `stride` bytes from one to the next at the source, close together in VMEM.
    """

    source: Affine
    target: int
    bytes: int
    rows: int = 1
    stride: int = 0

    def row(self, number: int) -> Copy:
        """One of the rows."""
        source = self.source.shifted(number * self.stride)
        return Copy(source, self.target + number * self.bytes, self.bytes)


class Slices:
    """A copy by equal slices, one for each of so many iterations; of copies of rows, rows each and
    slices of those that are left over.

    rest: what no iteration loads.
    """

    def __init__(self, copy: Copy, iterations: int, routine: Routine) -> None:
        self.copy = copy
        whole = copy.rows // iterations
        self.walks: list[_Walk] = []
        if whole and copy.rows > 1:
            rows = [copy.row(number) for number in range(whole)]
            self.walks.append(_Walk(rows, copy.bytes, whole * copy.bytes, whole * copy.stride))
        left = [copy.row(number) for number in range(whole * iterations, copy.rows)]
        if copy.rows == 1:
            left = [copy]
        size = copy.bytes // (iterations * ROW) * ROW
        if left and size:
            self.walks.append(_Walk(left, size, size, size))
        done = size * iterations
        self.rest = [
            Copy(one.source.shifted(done), one.target + done, one.bytes - done)
            for one in left
            if done < one.bytes
        ]
        for walk in self.walks:
            walk.begin(routine)

    def load(self, code: Code) -> None:
        """Start the transfers of the next slices."""
        for walk in self.walks:
            walk.load(code)


class _Walk:
    """Transfers of equal size that move on by the same steps in every iteration."""

    def __init__(self, parts: Sequence[Copy], size: int, step: int, source_step: int) -> None:
        self.parts, self.size, self.step, self.source_step = parts, size, step, source_step

    def begin(self, routine: Routine) -> None:
        first = self.parts[0]
        self.target = self.source = routine.pointer(first.target)
        self.behind = first.target  # where the pointer to sources starts
        if first.source.terms or self.step != self.source_step:
            self.behind = 0 if first.source.terms else first.source.constant
            self.source = routine.pointer(self.behind)
        if first.source.terms:
            routine.by_layer.add(self.source)

    def load(self, code: Code) -> None:
        first = self.parts[0].target
        name = f"beside {first} {self.step}"
        for part in self.parts:
            inside = Place(self.target, name, part.target - first)
            outside = Place(self.source, f"dram {name}", part.source.constant - self.behind)
            code.dma_load(inside, outside, self.size)
        code.advance(self.target, self.step)
        if self.source is not self.target:
            code.advance(self.source, self.source_step)


def set_aside(
    statements: Sequence[Statement],
) -> tuple[list[Statement], dict[Variable, list[Copy]]]:
    """The statements without such copies, and the copies by the loops beside which they are made.

    Where that loop is unrolled, its copies are made before everything else: only those that no
    earlier statement has to do with.
    """
    rest: list[Statement] = []
    beside: dict[Variable, list[Copy]] = {}
    waiting: list[tuple[Statement, Copy]] = []
    for s in statements:
        copy = _copied(s) if isinstance(s, For) else None
        if copy is not None:
            waiting.append((s, copy))
            continue
        around = [s] if not isinstance(s, For) or s.unroll is False else [s, *rest]
        keep = [(k, c) for k, c in waiting if not (isinstance(s, For) and _is_apart(around, c))]
        rest += [loop for loop, _ in keep]
        if isinstance(s, For) and len(keep) < len(waiting):
            beside[s.variable] = [c for loop, c in waiting if (loop, c) not in keep]
        waiting = []
        rest.append(s)
    return [*rest, *(loop for loop, _ in waiting)], beside


def with_calm_reads(statements: Sequence[Statement]) -> list[Statement]:
    """Reads of what nothing here writes, as of any tensor: in any order, and once for several."""
    written = [_reach(s) for s in all_statements(statements) if isinstance(s, Write) and s.on_chip]

    def calm(s: Statement) -> Statement:
        if isinstance(s, For):
            return replace(s, body=[calm(inner) for inner in s.body])
        if not isinstance(s, Read) or not s.changing or not s.on_chip:
            return s
        low, high = _reach(s)
        if any(start < high and low < end for start, end in written):
            return s
        return replace(s, changing=0)

    return [calm(s) for s in statements]


def _copied(loop: For) -> Copy | None:
    """What a loop copies from DRAM to VMEM, byte by byte in order, if it does nothing else."""
    moves = list(_moves(loop.body))
    if not moves or loop.variable.count is not None or None in moves:
        return None
    variables = _variables(loop)
    first = moves[0]
    assert first is not None
    rounds = tuple(term for term in first[0].offset.terms if term[0] is LAYER)
    pairs: list[tuple[int, int]] = []
    sizes = {move[0].bytes for move in moves if move is not None}
    for move in moves:
        assert move is not None
        read, write = move
        if tuple(term for term in read.offset.terms if term[0] is LAYER) != rounds:
            return None
        pairs += zip(_places(read.offset, variables), _places(write.offset, variables), strict=True)
    pairs = sorted(dict.fromkeys(pairs))
    (size,) = sizes if len(sizes) == 1 else (0,)
    in_order = all(
        one[0] + size == other[0] and one[1] + size == other[1]
        for one, other in itertools.pairwise(pairs)
    )
    if not size or not in_order:
        return None
    source, target = pairs[0]
    return Copy(Affine(source, rounds), target, size * len(pairs))


def _moves(body: Sequence[Statement]) -> Iterator[tuple[Read, Write] | None]:
    """A read from DRAM and the write of that tile to VMEM, one by one; None for anything else."""
    reads: dict[object, Read] = {}
    for s in body:
        if isinstance(s, For) and s.variable.count is None and not s.carried:
            yield from _moves(s.body)
        elif isinstance(s, Read) and not (s.on_chip or s.row or s.pieces or s.copies > 1):
            reads[s.result] = s
        elif isinstance(s, Write) and s.on_chip and not s.pieces and s.value in reads:
            read = reads.pop(s.value)
            yield (read, s) if read.bytes == s.bytes else None
        else:
            yield None
    if reads:
        yield None


def _variables(loop: For) -> list[Variable]:
    return [s.variable for s in all_statements([loop]) if isinstance(s, For)]


def _places(offset: Affine, variables: Sequence[Variable]) -> Iterator[int]:
    """All addresses of an access in a loop nest."""
    used = [v for v in variables if offset.factor(v)]
    for index in itertools.product(*(range(v.trips) for v in used)):
        yield offset.constant + sum(offset.factor(v) * k for v, k in zip(used, index, strict=True))


def _is_apart(statements: Sequence[Statement], copy: Copy) -> bool:
    """Whether statements leave the bytes of a copy alone, at their source and on chip."""
    low, high = copy.source.constant, copy.source.constant + copy.bytes
    for s in all_statements(statements):
        if not isinstance(s, Read | Write):
            continue
        start, end = _reach(s)
        if s.on_chip:
            if start < copy.target + copy.bytes and copy.target < end:
                return False
        elif isinstance(s, Write) and start < high and low < end:
            return False
    return True


def _reach(s: Read | Write) -> tuple[int, int]:
    """The bytes that an access may touch in any iteration."""
    steps = [f * (v.trips - 1) for v, f in s.offset.terms if v is not LAYER]
    low = s.offset.constant + sum(min(0, step) for step in steps)
    return low, s.offset.constant + sum(max(0, step) for step in steps) + s.bytes
