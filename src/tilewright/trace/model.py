"""A run as tracks of slices and counters: what every trace writer and picture starts from.

Times are ticks; a slice covers start…end without end. Machines build this, `perfetto` and
`timeline` write it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Track:
    """A row of the picture. Slices of one track do not overlap, except by nesting."""

    name: str
    group: str  # what the row belongs to: issue, units, memory
    detail: str = ""


@dataclass(slots=True)
class Slice:
    """Something that took time on a track."""

    track: int
    start: int
    end: int
    name: str  # the mnemonic
    category: str  # decides the colour
    text: str = ""  # the instruction as written
    source: str = ""  # file:line
    arguments: dict[str, int | str] = field(default_factory=dict)
    flow_out: int = 0  # an arrow with this number starts here…
    flow_in: int = 0  # …or ends here


@dataclass(frozen=True)
class Mark:
    """Something that happened at one moment, such as a fault."""

    track: int
    tick: int
    name: str
    text: str


@dataclass(frozen=True)
class Counter:
    """A value over time: (tick, value) where it changes."""

    name: str
    unit: str
    points: list[tuple[int, int]]


@dataclass
class TraceModel:
    """Everything drawn of one run."""

    title: str
    subtitle: str
    start: int
    end: int
    tracks: list[Track]
    slices: list[Slice]
    marks: list[Mark]
    counters: list[Counter]


@dataclass(frozen=True)
class Activity:
    """How busy each unit was over time: equal pieces of the run, busy ticks in each."""

    ticks: int  # length of a piece
    busy: dict[str, list[int]]
