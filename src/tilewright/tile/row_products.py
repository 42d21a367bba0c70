"""Products of one block of rows with several columns, on both matrix units at once.

Every column is one sum over K, added up in order. Loading is what limits matrix units of such
speed: a pushed weight serves as many rows as a unit has accumulators, and a tile of the rows
should serve all columns before it leaves its register. So K is cut into parts, and in each part
every column gets its share of the steps before the next part begins. The faster unit takes more
columns than the slower one; a sum that has to make room for another waits as a tile and comes
back, perhaps on the other unit, which changes nothing in it.

Products are recorded in the order of their expected time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from tilewright.tile.arrays import TileArray
from tilewright.tile.backend import active
from tilewright.tile.products import Accumulation

UNITS = (0, 1)
HELD = 16  # tiles of the rows that stay in registers, at most


@dataclass(frozen=True)
class Costs:
    """Ticks of each unit for one step of a column, and for taking its sums out or putting them
    back."""

    step: tuple[int, int]
    switch: int


@dataclass(frozen=True)
class Piece:
    """Steps of one column on one unit, from a tick on."""

    unit: int
    column: int
    steps: range
    start: int


@dataclass(frozen=True)
class Plan:
    """Pieces of each unit in order, and the ticks they take."""

    pieces: tuple[list[Piece], list[Piece]]
    ticks: int


def row_products(
    rows: Sequence[TileArray], columns: Sequence[Sequence[TileArray]]
) -> Iterator[tuple[int, TileArray]]:
    """(number of a column, its sum) as the sums get ready.

    rows: the tiles of the rows along K, each at most two tiles high. columns: the tiles of every
    column along K.
    """
    deep = len(rows)
    for column in columns:
        if len(column) != deep or not deep:
            raise active().error(
                "TW1650", f"a column of {len(column)} tiles does not meet rows of {deep}"
            )
    high = len(rows[0].rows)
    costs = active().machine.product_costs(high)
    sums: dict[int, Accumulation] = {}
    for _, piece, step in _in_time(best_plan(len(columns), deep, high, costs), costs):
        column = piece.column
        if step is None and piece.steps.stop == deep:
            yield column, sums.pop(column).tiles()
        elif step is None:  # it makes room for another
            sums[column] = _continued(sums[column], None)
        else:
            if column not in sums or sums[column].unit is None:
                sums[column] = _continued(sums.get(column), piece.unit)
            sums[column] += rows[step] @ columns[column][step]


def _in_time(plan: Plan, costs: Costs) -> list[tuple[int, Piece, int | None]]:
    """(tick, piece, step) of all steps in order, and where a unit lets go of a column, no step."""
    events: list[tuple[int, Piece, int | None]] = []
    for unit in UNITS:
        pieces = plan.pieces[unit]
        for piece, following in zip_longest(pieces, pieces[1:]):
            cost = costs.step[unit]
            events += [(piece.start + k * cost, piece, s) for k, s in enumerate(piece.steps)]
            here = following and (following.column, following.steps.start)
            if here != (piece.column, piece.steps.stop):
                events.append((piece.start + len(piece.steps) * cost, piece, None))
    return sorted(events, key=lambda event: event[0])


def _continued(sums: Accumulation | None, unit: int | None) -> Accumulation:
    """An accumulator that starts with what there is."""
    result = Accumulation(active(), unit)
    if sums is not None:
        result.held = sums.tiles()
    return result


def best_plan(columns: int, deep: int, rows: int, costs: Costs) -> Plan:
    """The plan that takes the fewest ticks; of equal ones that with the fewest parts."""
    fewest = -(-deep * rows // HELD)
    plans = [make_plan(columns, deep, parts, costs) for parts in range(fewest, fewest + 3)]
    return min(plans, key=lambda plan: plan.ticks)


def make_plan(columns: int, deep: int, parts: int, costs: Costs) -> Plan:
    """Columns dealt out to the units, part by part, so that both get done early."""
    state = _State([0, 0], [None, None], [0] * columns, ([], []))
    for first, last in pairwise(sorted({deep * part // parts for part in range(parts + 1)})):
        ways = [state.after(range(first, last), slow, costs) for slow in range(columns + 1)]
        state = min(ways, key=lambda way: max(way.free))
    return Plan(state.pieces, max(state.free) + costs.switch)


@dataclass
class _State:
    """What the units have done after some parts.

    free: when each unit is done; inside: the column whose sums it holds; known: when a column
    has had all its steps so far.
    """

    free: list[int]
    inside: list[int | None]
    known: list[int]
    pieces: tuple[list[Piece], list[Piece]]

    def after(self, steps: range, slow: int, costs: Costs) -> _State:
        """After one more part, of which the slower unit takes so many columns."""
        before, after = self.pieces, _State([*self.free], [*self.inside], [*self.known], ([], []))
        # Each unit begins with the column it has inside and leaves the other its own.
        wish = sorted(
            range(len(self.known)), key=lambda c: (c == self.inside[1], c != self.inside[0], -c)
        )
        fast = sorted(wish[slow:], key=lambda c: (c != self.inside[1], c))
        for unit, columns in ((0, wish[:slow]), (1, fast)):
            for column in columns:
                after._take(unit, column, steps, costs)
        after.pieces = (before[0] + after.pieces[0], before[1] + after.pieces[1])
        return after

    def _take(self, unit: int, column: int, steps: range, costs: Costs) -> None:
        free, inside = self.free, self.inside
        if inside[unit] != column:
            free[unit] += costs.switch if inside[unit] is not None else 0
            if inside[1 - unit] == column:
                inside[1 - unit] = None
                free[1 - unit] += costs.switch
            if steps.start:  # the sums come back, once they are out
                free[unit] = max(free[unit], self.known[column] + costs.switch) + costs.switch
            inside[unit] = column
        self.pieces[unit].append(Piece(unit, column, steps, free[unit]))
        free[unit] += len(steps) * costs.step[unit]
        self.known[column] = free[unit]
