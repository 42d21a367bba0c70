"""Parts of the event simulation: locks, results, the engine that runs processes, DRAM."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError

Process = Generator["float | Lock", None, None]


class Lock:
    """A counting lock; waiting processes get units in order."""

    __slots__ = ("name", "value", "waiting")

    def __init__(self, name: str, value: int = 0) -> None:
        self.name = name
        self.value = value
        self.waiting: deque[Process] = deque()


@dataclass(frozen=True)
class Interval:
    """Something busy on a resource, in cycles."""

    resource: str
    start: float
    end: float
    label: str


@dataclass
class TimeResult:
    """Time of a design and what was busy in it."""

    cycles: float
    seconds: float
    busy: dict[str, float]  # resource -> cycles
    bytes: dict[str, int]  # FIFO -> bytes moved
    dram_bytes: dict[str, int]
    intervals: list[Interval] = field(default_factory=list)

    @property
    def critical(self) -> str:
        return max(self.busy, key=lambda name: self.busy[name])

    def stall(self, resource: str) -> float:
        return self.cycles - self.busy[resource]


class Deadlock(TilewrightError):
    """Nothing can move and not everything is done."""


class Engine:
    """Processes that wait for time or for locks; the earliest goes on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.heap: list[tuple[float, int, Process]] = []
        self.ready: deque[Process] = deque()
        self.sequence = 0

    def give(self, lock: Lock, units: int = 1) -> None:
        """Release units of a lock; those who wait get them in order."""
        while units and lock.waiting:
            self.ready.append(lock.waiting.popleft())
            units -= 1
        lock.value += units

    def run_all(self) -> set[int]:
        """Run until nothing can move; the identities of processes that ended."""
        ready, heap = self.ready, self.heap
        ended: set[int] = set()
        while ready or heap:
            if ready:
                process = ready.popleft()
            else:
                self.now, _, process = heapq.heappop(heap)
            try:
                wanted = process.send(None)
            except StopIteration:
                ended.add(id(process))
                continue
            if isinstance(wanted, Lock):
                wanted.waiting.append(process)
            else:
                self.sequence += 1
                heapq.heappush(heap, (self.now + wanted, self.sequence, process))
        return ended


class Dram:
    """One server; channels with a request wait their turn round robin."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.busy = 0.0
        self.idle = True
        self.waiting: deque[Lock] = deque()

    def serve(self, name: str, cycles: float) -> Process:
        """Wait for the turn, then for the service."""
        if not self.idle:
            turn = Lock(name)
            self.waiting.append(turn)
            yield turn
        self.idle = False
        yield cycles
        self.busy += cycles
        if self.waiting:
            self.engine.give(self.waiting.popleft())
        else:
            self.idle = True
