"""When a result can be there at the earliest: instructions one after the other, each waiting for what it needs.

A `Clock` is given to the formula of a kernel (`latencies.py`) in place of a machine. It does no
arithmetic; it adds up how long the way from the operands to the result takes at least, with the
distances between instructions that `targets/atlas/bound.py` derives from a profile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.targets.atlas.bound import (
    FIRST_DISPATCH,
    FIRST_TRANSFER,
    LAST_WAIT,
    WAIT,
    first_row,
    store_gap,
    unit_gap,
)
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.tile.bodies import BODIES
from tilewright.tile.layouts import SIDE


@dataclass(frozen=True)
class Moment:
    """When a value is there; by: the instruction that makes it, one of these, or none if it is bytes
    in memory."""

    done: int
    by: tuple[Timing, ...] = ()


Ready = Moment | None  # None: a constant, or a value of which nothing is known


class Clock:
    """The operations of a formula, as the time they take; last: of what is computed last, not first."""

    def __init__(self, profile: Profile, last: bool = False) -> None:
        self.profile, self.last = profile, last
        self._gaps: dict[tuple[tuple[Timing, ...], tuple[Timing, ...]], int] = {}
        self._load = profile.timing["tensor_load"]

    # --- the beginning and the end ---

    def arrived(self) -> Moment:
        """A value that a transfer brings."""
        return Moment(FIRST_TRANSFER + first_row(self.profile))

    def kept(self) -> Moment:
        """A value that is on chip from the start."""
        return Moment(FIRST_DISPATCH - WAIT)

    def loaded(self, moment: Moment) -> Moment:
        """The same in a register."""
        if moment.by:
            return moment
        return Moment(moment.done + unit_gap(self.profile, None, self._load), (self._load,))

    def left(self, moment: Moment) -> int:
        """When a program that ends with this value leaving the chip is over."""
        if not moment.by:
            return moment.done + WAIT + first_row(self.profile) + LAST_WAIT
        store = self.profile.timing["tensor_store"]
        return self._after((store,), moment).done + store_gap(self.profile, store) + LAST_WAIT

    # --- single instructions ---

    def _after(self, choices: tuple[Timing, ...], *moments: Moment) -> Moment:
        done = 0
        for moment in map(self.loaded, moments):
            key = moment.by, choices
            if key not in self._gaps:
                self._gaps[key] = min(
                    unit_gap(self.profile, a, b) for a in moment.by for b in choices
                )
            done = max(done, moment.done + self._gaps[key])
        return Moment(done, choices)

    def after(self, names: tuple[str, ...], *moments: Ready) -> Ready:
        """One instruction of these classes, on these values."""
        known = [moment for moment in moments if moment is not None]
        return self._after(tuple(self.profile.timing[n] for n in names), *known) if known else None

    def vector(self, *moments: Ready) -> Ready:
        """One operation element by element."""
        return self.after(("vector",), *moments)

    def product(self, left: Ready, right: Ready) -> Ready:
        """A product of matrices as it leaves a matrix unit: the faster one, with the better operand
        as the one that is pushed first."""
        if left is None and right is None:
            return None
        found: list[Moment] = []
        for unit in (0, 1):
            push, matmul, pop = (
                self._of_unit(name, unit) for name in ("push", f"matmul_mxu{unit}", "pop_wide")
            )
            for moving, pushed in ((left, right), (right, left)):
                ready = [] if pushed is None else [self._after((push,), pushed)]
                ready += [] if moving is None else [moving]
                found.append(self._after((pop,), self._after((matmul,), *ready)))
        by = dict.fromkeys(timing for moment in found for timing in moment.by)
        return Moment(min(moment.done for moment in found), tuple(by))

    def _of_unit(self, name: str, unit: int) -> Timing:
        timing = self.profile.timing[name]
        return replace(timing, unit=f"MXU{unit}") if timing.unit == "MXU" else timing

    # --- what formulas are made of ---

    def function(self, name: str, *moments: Ready) -> Ready:
        """An element-wise function by the operations it is defined with."""
        return BODIES[name if name in BODIES else f"elementwise_{name}"](
            _Operations(self), *moments
        )

    def chain(self, count: int, *moments: Ready) -> Ready:
        """So many element-wise operations, each on the result of the one before."""
        moment = self.vector(*moments) if count else soonest(*moments)
        for _ in range(count - 1):
            moment = self.vector(moment)
        return moment

    def joined(self, moment: Ready, extent: int) -> Ready:
        """Tiles side by side made one, two by two."""
        return self.chain((-(-extent // SIDE) - 1).bit_length(), moment)

    def row_sum(self, moment: Ready, width: int) -> Ready:
        """The sum of a row of so many elements."""
        return moment if width == 1 else self.after(("sum_rows",), self.joined(moment, width))

    def row_extreme(self, moment: Ready, width: int) -> Ready:
        return moment if width == 1 else self.after(("extreme_rows",), self.joined(moment, width))


class _Operations:
    """What a micro-kernel does to tiles (`tile/bodies.py`), as time."""

    def __init__(self, clock: Clock) -> None:
        self.profile = clock.profile
        self.add = self.sub = self.mul = self.maximum = self.minimum = self.square = clock.vector
        self._vector: Callable[..., Ready] = clock.vector

    def constant(self, value: float) -> Ready:
        return None

    def unary(self, name: str, a: Ready) -> Ready:
        return self._vector(a)

    def cube(self, a: Ready) -> Ready:
        once = self._vector(a)
        return once if "square_cube" in self.profile.features else self._vector(once, a)


def soonest(*moments: Ready) -> Ready:
    """The first of these values: what a result that is made of one of them waits for at least."""
    known = [moment for moment in moments if moment is not None]
    return min(known, key=lambda moment: moment.done) if len(known) == len(moments) else None
