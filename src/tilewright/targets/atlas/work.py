"""The work in a program: the distinct values that its results depend on.

A run is replayed (`replay.py`). From the results backwards it is then found out which elements of
which nodes are needed at all: padding, constants and tables are not. What remains are steps, each
with the share of an instruction that its elements take. Any program for the same formula has to do
them, however it is scheduled, wherever it keeps its data and whatever it puts side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.targets.atlas import content as facts
from tilewright.targets.atlas.content import Content
from tilewright.targets.atlas.demand import ALL, NONE, Mask, demand, mask, union
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.replay import (
    CHUNK,
    FROM_SUMS,
    ROW,
    Memory,
    Node,
    Replay,
    Tensor,
    whole,
)

__all__ = ["CHUNK", "ROW", "Memory", "Step", "Tensor", "Work", "whole", "work_of"]


@dataclass(eq=False, slots=True)
class Step:
    """One distinct piece of work.

    name: "load" (bytes from DRAM), "store" (bytes to DRAM), or the instruction without its unit.
    choices: the units that can do it. slots: which of `before` hand over inside a matrix unit.
    mixed: of which of `before` each row of the result needs all rows, not only its own.
    share: how much of an instruction its elements take.
    """

    name: str
    choices: tuple[Timing, ...]
    before: list[Step] = field(default_factory=list)
    slots: frozenset[int] = frozenset()
    mixed: frozenset[int] = frozenset()
    share: float = 1.0
    bytes: int = 0


@dataclass
class Work:
    """Steps in an order in which every step follows those it needs.

    products: instructions that the operands of all products take at least, each of their elements
    being on some side of one of them.
    """

    profile: Profile
    steps: list[Step]
    products: float = 0.0

    @property
    def loads(self) -> list[Step]:
        return [step for step in self.steps if step.name == "load"]

    @property
    def stores(self) -> list[Step]:
        return [step for step in self.steps if step.name == "store"]


def work_of(
    program: Program,
    profile: Profile,
    order: Sequence[int] | np.ndarray,
    outputs: Iterable[Tensor],
    kept: Iterable[tuple[int, int]] = (),
    memory: Memory | None = None,
) -> Work:
    """The work of one run.

    order: indices of the instructions in the order they were dispatched (a trace's `index`).
    outputs: every result in DRAM. kept: (matrix unit, accumulator) of every result that stays there.
    memory: what is in DRAM before; by default nothing is known of it.
    """
    replay = Replay(program, profile, memory)
    replay.run(order)
    return _Steps(replay, list(outputs), list(kept)).work()


class _Steps:
    """From nodes to steps: what is needed, backwards; then what remains, in order."""

    def __init__(self, replay: Replay, outputs: list[Tensor], kept: list[tuple[int, int]]) -> None:
        self.replay = replay
        self.wanted: dict[int, Mask] = {}  # value -> elements
        self.results = [piece for tensor in outputs for piece in replay.stored_rows(tensor)]
        for _, rows in self.results:
            by_value: dict[int, np.ndarray] = {}
            for value, part, elements in rows:
                bits = by_value.setdefault(value, np.zeros((ROW, ROW), bool))
                bits[part] |= elements
            for value, bits in by_value.items():
                self._want(value, mask(bits))
        for unit, place in kept:
            value = replay.slot.get((Kind.ACC, unit, place), -1)
            if value >= 0:
                self._want(value, ALL)
        # What hands over each node's results: its own step, or those of its operands.
        self.reach: dict[Node, list[tuple[Step, bool]]] = {}
        self.loads: dict[int, Step] = {}
        self.steps: list[Step] = []

    def _want(self, value: int, elements: Mask) -> None:
        if value != -1 and elements.any:
            self.wanted[value] = union(self.wanted.get(value, NONE), elements)

    def work(self) -> Work:
        demands = {}
        for node in reversed(self.replay.nodes):
            wanted = tuple(self.wanted.get(value, NONE) for value in node.targets)
            if any(w.any for w in wanted):
                demands[node] = self._demand(node, wanted)
        for node in self.replay.nodes:
            if node in demands:
                self._step(node, demands[node])
        for count, rows in self.results:
            before: dict[Step, None] = {}
            for value, _, _ in rows:
                before.update((step, None) for step, _ in self._reach(value))
            self.steps.append(Step("store", (), list(before), bytes=count))
        return Work(self.replay.profile, self.steps, self._products(demands))

    def _demand(self, node: Node, wanted: tuple[Mask, ...]) -> tuple[float, frozenset[int]]:
        """What a node's results take, after noting what it needs."""
        content_of = self.replay.content_of
        if node.name in ("vload", "vstore"):
            live = wanted[0].bits & ~_byte_constants(content_of(node.targets[0]))
            if node.name == "vstore":
                self._want(node.sources[0], mask(live))
                return float(live.sum()) / CHUNK, frozenset()
            needs: dict[int, np.ndarray] = {}
            for k, (value, part) in enumerate(node.rows):
                if live[k].any():
                    needs.setdefault(value, np.zeros((ROW, ROW), bool))[part] |= live[k]
            for value, bits in needs.items():
                self._want(value, mask(bits))
            return sum(float(bits.sum()) for bits in needs.values()) / CHUNK, frozenset()
        if not node.sources:
            return 0.0, frozenset()
        found = demand(
            node.name, wanted, tuple(self._given(node)), tuple(map(content_of, node.targets))
        )
        for source, elements in zip(node.sources, found.needs, strict=True):
            self._want(source, elements)
        return found.share, found.mixed

    def _given(self, node: Node) -> list[Content]:
        """What is known of the operands."""
        given = [self.replay.content_of(source) for source in node.sources]
        if node.sources[0] == -1 and node.name in FROM_SUMS:
            given[0] = facts.unknown_constant("sums")
        return given

    def _reach(self, value: int) -> list[tuple[Step, bool]]:
        """The steps that hand over a value, and whether a row of it needs all their rows."""
        if value >= 0:
            return self.reach[self.replay.owner[value]]
        if value == -1:
            return []
        elements = self.wanted.get(value, NONE).bits
        varying = elements & ~_byte_constants(self.replay.content_of(value))
        if not varying.any():
            return []
        if value not in self.loads:
            step = Step("load", (), bytes=ROW * int(varying.any(1).sum()))
            self.loads[value] = step
            self.steps.append(step)
        return [(self.loads[value], False)]

    def _step(self, node: Node, found: tuple[float, frozenset[int]]) -> None:
        share, mixed = found
        before: dict[Step, bool] = {}
        through: set[Step] = set()
        for place, source in enumerate(node.sources):
            if not self.wanted.get(source, NONE).any:
                continue
            for step, whole_rows in self._reach(source):
                before[step] = before.get(step, False) or whole_rows or place in mixed
                if place in node.slots:
                    through.add(step)
        if share <= 0:  # nothing is computed: what it hands on comes from its operands
            self.reach[node] = list(before.items())
            return
        rows = list(before)
        step = Step(
            node.name,
            node.choices,
            rows,
            frozenset(k for k, b in enumerate(rows) if b in through),
            frozenset(k for k, b in enumerate(rows) if before[b]),
            min(1.0, share),
        )
        self.steps.append(step)
        self.reach[node] = [(step, False)]

    def _products(self, demands: dict[Node, tuple[float, frozenset[int]]]) -> float:
        """The products that operands and sums take: each has 1024 elements on each side."""
        sides: list[set[int]] = [set(), set(), set()]
        for node, (share, _) in demands.items():
            if node.name.startswith("vmatmul") and share > 0:
                for side, value in zip(sides, (*node.sources[-2:], node.targets[0]), strict=True):
                    side.add(value)
        # Sums go on from product to product: only the last of a chain is one.
        started = {
            node.sources[0] for node in demands if node.name == "vmatmul.acc"
        }  # fmt: skip
        sides[2] -= started
        return max(
            sum(
                int((self.wanted[v].bits & ~_byte_constants(self.replay.content_of(v))).sum())
                for v in side
                if v in self.wanted
            )
            / CHUNK
            for side in sides
        )


def _byte_constants(content: Content) -> np.ndarray:
    """Which bytes (or sums) are constants."""
    return np.repeat(content.constant, 2, axis=1) if content.kind == "bf16" else content.constant
