"""Plans: what the scheduler decides, before it becomes a task list."""

from __future__ import annotations

from dataclasses import dataclass, field

TASK, WRITE, RELOAD = "task", "write", "reload"


@dataclass(slots=True)
class Step:
    """A task of the graph, or a spill, with engine, time and the addresses of its buffers."""

    kind: str
    index: int  # of the task, or of the buffer that is written or reloaded
    units: tuple[int, ...]  # ports, or the DPU of its tile
    start: int
    end: int
    addresses: dict[int, int]  # root -> address


@dataclass(slots=True)
class Plan:
    """Steps in the order in which they were decided; times are modelled ones."""

    steps: list[Step]
    makespan: int
    fragmentation: list[float] = field(default_factory=list)  # at each failed allocation


@dataclass(frozen=True, slots=True)
class Policy:
    """How the decoder decides where an order of tasks leaves it a choice."""

    fit: str = "earliest"
    ends: str = "low"  # where buffers go: "low", loads low and results high ("kind"), or "parity"
    flipped: frozenset[int] = frozenset()  # buffers that go to the other end
    victims: str = "weighted"  # by cost over distance to the next use; or "furthest"
    defer: bool = True  # a load that finds no room waits until somebody needs it
    reserve: bool = True  # a load leaves room for the next task that computes
    eager_in_place: bool = True  # reuse an input's space even when other space is free earlier
    serial: bool = False  # every task after the one before, the baseline
