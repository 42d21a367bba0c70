"""The machine as lint sees it at one moment: scalar values, work in flight, what is known done.

Times are ticks on the state's own clock. Work in flight completes at a tick between `low` and
`high`; on a single path both are equal and everything is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.targets.atlas.lint.facts import X_BIT, X_MASK, Facts
from tilewright.targets.atlas.lint.values import Symbol, Value, normal
from tilewright.targets.atlas.lint.values import replace as replace_symbol

NEVER = -(1 << 60)  # a tick before everything


@dataclass(slots=True, frozen=True, eq=False)
class Operation:
    """An operation between its accept and the moment the program knows that it is done."""

    index: int  # instruction
    order: int  # of acceptance
    facts: Facts
    low: int  # completion tick, at the earliest and at the latest
    high: int
    start: Value = 0  # VMEM range as computed at accept
    length: Value = 0
    ticks: tuple[int, int] = (0, 0)  # engine time of a DMA, least and most

    @property
    def position(self) -> int:
        return self.facts.position


class State:
    """Everything lint tracks along one path (or a bundle of similar paths)."""

    __slots__ = (
        "base",
        "busy",
        "certain",
        "clear",
        "context",
        "engine",
        "entered",
        "flight",
        "horizon",
        "now",
        "open",
        "order",
        "ordered",
        "pc",
        "since",
        "unwaited",
        "window",
        "words",
        "written",
        "x",
    )

    def __init__(self, units: int, delay_slots: int) -> None:
        self.pc = 0
        self.window: tuple[int, ...] = tuple(range(1, delay_slots + 1))  # addresses behind pc
        self.since = delay_slots + 1  # instructions since the last control transfer
        self.entered = -1  # the transfer that led to pc, -1: fell through
        self.now = 2  # tick at which decode claims the instruction at pc
        self.x: list[Value] = [0] * 32
        self.base: Value = 0
        self.written = 0  # registers something wrote, as bits
        # Words of VMEM the program stored and may load again: (address, value), by address.
        self.words: tuple[tuple[int, Value], ...] = ()
        self.flight: list[Operation] = []
        self.horizon = 1 << 60  # no operation in flight completes surely before this tick
        self.unwaited: list[Operation] = []  # DMA done in time, but no wait says so
        self.busy = [(NEVER, NEVER)] * units  # unit takes the next operation from here
        self.engine = (NEVER, NEVER)  # completion of the last DMA operation
        self.clear = [(NEVER, NEVER)] * 8  # channel is idle from here
        self.open = 0  # channels with an operation since their last wait, as bits
        self.order = 0  # of the next operation
        self.ordered = True  # the orders of DMA operations are those of the queue
        # Loops being executed: (first instruction, number of the entry into it).
        self.context: tuple[tuple[int, int], ...] = ()
        self.certain = True  # no unknown branch and no summary on the way here

    def copy(self) -> State:
        other = State.__new__(State)
        for name in State.__slots__:
            value = getattr(self, name)
            setattr(other, name, list(value) if isinstance(value, list) else value)
        return other

    def node(self) -> tuple[object, ...]:
        """The place in the control-flow graph, delay slots in progress included."""
        return (self.pc, self.window, min(self.since, len(self.window) + 1))

    def shape(self) -> tuple[object, ...]:
        """Timing relative to now: equal shapes behave alike but for scalar values."""
        now = self.now
        return (
            tuple((o.index, o.low - now, o.high - now, o.ticks) for o in self.flight),
            tuple(o.index for o in self.unwaited),
            tuple((max(low - now, 0), max(high - now, 0)) for low, high in self.busy),
            tuple((max(low - now, 0), max(high - now, 0)) for low, high in self.clear),
            (max(self.engine[0] - now, -1), max(self.engine[1] - now, -1)),
            self.open,
            self.ordered,
            tuple(address for address, _ in self.words),
        )

    def slots(self) -> list[Value]:
        """Every value that joins and substitutions must treat together."""
        values = [*self.x, self.base]
        for operation in (*self.flight, *self.unwaited):
            values += (operation.start, operation.length)
        return values + [value for _, value in self.words]

    def set_slots(self, values: list[Value]) -> None:
        self.x = values[:32]
        self.base = values[32]
        place = 33
        for group in (self.flight, self.unwaited):
            for k, operation in enumerate(group):
                start, length = values[place : place + 2]
                place += 2
                if start is not operation.start or length is not operation.length:
                    group[k] = replace(operation, start=start, length=length)
        self.words = tuple(
            (address, value) for (address, _), value in zip(self.words, values[place:], strict=True)
        )

    def forget_scalars(self, live: int) -> None:
        """Clear the x registers that nothing will read: where they differ, paths do not."""
        for o in self.flight:  # operands are read on completion
            live |= (o.facts.reads & X_MASK) >> X_BIT
        self.x = [value if live >> k & 1 else 0 for k, value in enumerate(self.x)]

    def substitute(self, symbol: Symbol, by: Value) -> None:
        """Learn that `symbol` is `by` (a narrower symbol or a number)."""
        self.set_slots([normal(replace_symbol(value, symbol, by)) for value in self.slots()])

    def slip(self, ticks: int) -> None:
        """Up to `ticks` more have passed than the clock shows: everything may be done sooner."""
        if not ticks:
            return
        self.flight = [replace(o, low=o.low - ticks) for o in self.flight]
        self.busy = [(low - ticks, high) for low, high in self.busy]
        self.clear = [(low - ticks, high) for low, high in self.clear]
        self.engine = (self.engine[0] - ticks, self.engine[1])

    def rebase(self, now: int) -> None:
        """Move the clock to `now` without any time passing."""
        shift = now - self.now
        if not shift:
            return
        self.now = now
        self.flight = [replace(o, low=o.low + shift, high=o.high + shift) for o in self.flight]
        self.busy = [(low + shift, high + shift) for low, high in self.busy]
        self.clear = [(low + shift, high + shift) for low, high in self.clear]
        self.engine = (self.engine[0] + shift, self.engine[1] + shift)
        self.horizon = min((o.high for o in self.flight), default=1 << 60)
