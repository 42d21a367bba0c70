"""Task lists: queues of tasks with addresses, and the barriers between them.

This is what the machine runs. A list says nothing about why a task stands where it stands; the
verifier and the simulator take it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.targets.vpu.machine import Machine

DDR = "ddr"


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes in a memory: `count` runs, `stride` apart."""

    space: str
    address: int
    bytes: int
    count: int = 1
    stride: int = 0

    def runs(self) -> list[tuple[int, int]]:
        """(first, end) of every run, adjacent runs joined."""
        if self.count == 1 or self.stride == self.bytes:
            return [(self.address, self.address + self.bytes * self.count)]
        return [
            (self.address + k * self.stride, self.address + k * self.stride + self.bytes)
            for k in range(self.count)
        ]

    @property
    def end(self) -> int:
        return self.address + (self.count - 1) * self.stride + self.bytes


@dataclass(frozen=True, slots=True)
class ListTask:
    """One entry of a queue; `task` names a task of the graph, `buffer` what a spill moves."""

    kind: str
    engine: str
    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()
    waits: tuple[int, ...] = ()
    posts: tuple[int, ...] = ()
    cycles: int = 1
    slots: int = 1
    tile: int = 0
    task: str | None = None
    buffer: str | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """A virtual barrier: who counts on it, in slots, and which physical one stands for it."""

    physical: int | None
    producers: int
    consumers: int


@dataclass(slots=True)
class TaskList:
    """Queues, tasks and barriers; barrier n has the virtual id n."""

    machine: Machine
    queues: dict[str, list[str]]
    tasks: dict[str, ListTask]
    barriers: list[Barrier] = field(default_factory=list)
    ddr: dict[str, tuple[int, int]] = field(default_factory=dict)
    order: list[str] | None = None
    after: list[tuple[str, str]] = field(default_factory=list)

    def engines_behind(self, queue: str) -> int:
        """How many engines take tasks from one queue."""
        return self.machine.shaves if queue.startswith("shave") else 1

    def places(self) -> dict[str, list[str]]:
        """The queues in which every task stands."""
        found: dict[str, list[str]] = {name: [] for name in self.tasks}
        for queue, names in self.queues.items():
            for name in names:
                found[name].append(queue)
        return found
