"""The machine, event by event: engines pull the heads of their queues, barriers hold them back.

Nothing here knows how a list was made. A list that cannot finish ends in `Run.stuck`, which says
for every queue what its head waits for; it never hangs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from typing import Protocol

from tilewright.targets.vpu.task_list import DDR, TaskList

_END, _CLEAR, _START = 0, 1, 2  # kinds of events, in the order in which one cycle handles them


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is timed; the defaults are the modelled machine."""

    durations: Sequence[int] | None = None  # cycles per task instead of the modelled ones
    shuffle_ties: int | None = None  # a seed: decide ties at random
    shared_dram: bool = False  # transfers with DDR share its bandwidth


@dataclass(frozen=True, slots=True)
class Stuck:
    """A queue that could not go on."""

    queue: str
    task: str
    reason: str


@dataclass(slots=True)
class Run:
    """What happened, by index of the task in the list."""

    names: list[str]
    start: list[int]  # -1: never started
    end: list[int]
    makespan: int
    stuck: list[Stuck] = field(default_factory=list)
    cause: list[tuple[str, int]] = field(default_factory=list)  # what held a task back last


class Observer(Protocol):
    """Sees every start and end in order; the value machine is one."""

    def start(self, task: int, cycle: int) -> None: ...

    def end(self, task: int, cycle: int) -> None: ...


def jittered(tasks: TaskList, seed: int, least: float = 0.2, most: float = 5.0) -> list[int]:
    """Cycles for every task, each stretched or shrunk by a random factor."""
    generator = random.Random(seed)
    return [
        max(1, round(task.cycles * least * (most / least) ** generator.random()))
        for task in tasks.tasks.values()
    ]


def simulate(
    tasks: TaskList, options: Options | None = None, observer: Observer | None = None
) -> Run:
    """Run a list to its end, or to where nothing can move any more."""
    return _Machine(tasks, options or Options(), observer).run()


class _Machine:
    def __init__(self, tasks: TaskList, options: Options, observer: Observer | None) -> None:
        self.tasks = tasks
        self.observer = observer
        self.names = list(tasks.tasks)
        index = {name: number for number, name in enumerate(self.names)}
        items = list(tasks.tasks.values())
        self.items = items
        self.cycles = list(options.durations or [task.cycles for task in items])
        count = len(items)
        # Queues and engines: the two agents of a DMA port are two queues of one engine.
        self.queue_names = list(tasks.queues)
        self.queues = [[index[name] for name in names] for names in tasks.queues.values()]
        self.heads = [0] * len(self.queues)
        engine_of: dict[str, int] = {}
        self.engine = []
        self.free: list[int] = []
        self.engine_queues: list[list[int]] = []
        self.pops_at_start = []
        for number, name in enumerate(self.queue_names):
            engine = engine_of.setdefault(name.removesuffix(".cmx"), len(self.free))
            if engine == len(self.free):
                self.free.append(tasks.engines_behind(name))
                self.engine_queues.append([])
            self.engine.append(engine)
            self.engine_queues[engine].append(number)
            self.pops_at_start.append(tasks.engines_behind(name) > 1)
        for queues in self.engine_queues:  # the DDR agent first
            queues.sort(key=lambda number: self.queue_names[number].endswith(".cmx"))
        self.standing: list[list[int]] = [[] for _ in range(count)]
        for number, queue in enumerate(self.queues):
            for task in queue:
                self.standing[task].append(number)
        # Barriers.
        self.waiting: list[list[int]] = [[] for _ in tasks.barriers]
        self.posting: list[list[int]] = [[] for _ in tasks.barriers]
        for number, task in enumerate(items):
            for barrier in task.waits:
                self.waiting[barrier].append(number)
            for barrier in task.posts:
                self.posting[barrier].append(number)
        self.producers = [barrier.producers for barrier in tasks.barriers]
        self.consumers = [barrier.consumers for barrier in tasks.barriers]
        self.mapped = [barrier.physical is None for barrier in tasks.barriers]
        self.cleared = [False] * len(tasks.barriers)
        self.next_use: dict[int, int] = {}
        last: dict[int, int] = {}
        self.first_uses: list[int] = []
        for number, barrier in enumerate(tasks.barriers):
            if barrier.physical is None:
                self.first_uses.append(number)
            elif barrier.physical in last:
                self.next_use[last[barrier.physical]] = number
            else:
                self.first_uses.append(number)
            if barrier.physical is not None:
                last[barrier.physical] = number
        # What holds a task back: queues it does not head, waits not over, posts not mapped.
        self.blockers = [
            len(self.standing[n]) + len(task.waits) + len(task.posts)
            for n, task in enumerate(items)
        ]
        self.ready_at = [-1] * count
        self.start = [-1] * count
        self.end = [-1] * count
        self.cause: list[tuple[str, int]] = [("head", -1)] * count
        self.now = 0
        self.events: list[tuple[int, int, int, int]] = []
        self.touched: set[int] = set()  # engines that may start something
        self.random = None
        if options.shuffle_ties is not None:
            self.random = random.Random(options.shuffle_ties)
        self.issue = tasks.machine.issue_latency
        self.latency = tasks.machine.barrier_latency
        self.sharing = _Sharing(tasks) if options.shared_dram else None

    def run(self) -> Run:
        for barrier in self.first_uses:
            self._map(barrier)
        for number, queue in enumerate(self.queues):
            if queue:
                self._unblock(queue[0], "head", number)
        self._start_ready()
        events = self.events
        while events:
            self.now = events[0][0]
            while events and events[0][0] == self.now:
                _, kind, number, stamp = heappop(events)
                if kind == _END:
                    if self.sharing is None or self.sharing.current(number, stamp):
                        self._finish(number)
                elif kind == _CLEAR:
                    self._clear(number)
                else:
                    self._begin(number)
            self._start_ready()
        return Run(
            self.names,
            self.start,
            self.end,
            max(self.end, default=0) if self.end else 0,
            self._stuck(),
            self.cause,
        )

    def _unblock(self, task: int, why: str, what: int) -> None:
        self.blockers[task] -= 1
        if not self.blockers[task] and self.standing[task]:
            self.ready_at[task] = self.now
            self.cause[task] = (why, what)
            self.touched.add(self.engine[self.standing[task][0]])

    def _map(self, barrier: int) -> None:
        self.mapped[barrier] = True
        for task in self.posting[barrier]:
            if self.start[task] < 0:
                self._unblock(task, "map", barrier)
        if self.producers[barrier] <= 0:
            self._clear(barrier)

    def _clear(self, barrier: int) -> None:
        """No producer is left: whoever waits may go."""
        if not self.cleared[barrier] and self.mapped[barrier]:
            self.cleared[barrier] = True
            for task in self.waiting[barrier]:
                self._unblock(task, "wait", barrier)

    def _start_ready(self) -> None:
        while self.touched:
            engines = sorted(self.touched)
            self.touched.clear()
            if self.random is not None:
                self.random.shuffle(engines)
            for engine in engines:
                while self.free[engine]:
                    chosen = self._candidate(engine)
                    if chosen < 0:
                        break
                    self._dispatch(chosen)

    def _candidate(self, engine: int) -> int:
        """The head that could start first; of equals, that of the DDR agent."""
        best, best_key = -1, (0, 0.0)
        for rank, number in enumerate(self.engine_queues[engine]):
            queue, head = self.queues[number], self.heads[number]
            if head >= len(queue):
                continue
            task = queue[head]
            if self.blockers[task] or self.start[task] >= 0 or self.ready_at[task] < 0:
                continue
            if any(not self.free[self.engine[other]] for other in self.standing[task]):
                continue
            key = (self.ready_at[task], self.random.random() if self.random else float(rank))
            if best < 0 or key < best_key:
                best, best_key = task, key
        return best

    def _dispatch(self, task: int) -> None:
        for number in self.standing[task]:
            self.free[self.engine[number]] -= 1
        if self.now > self.ready_at[task]:
            self.cause[task] = ("engine", self.engine[self.standing[task][0]])
        self.ready_at[task] = -1
        if self.issue:
            heappush(self.events, (self.now + self.issue, _START, task, 0))
        else:
            self._begin(task)

    def _begin(self, task: int) -> None:
        self.start[task] = self.now
        if self.observer is not None:
            self.observer.start(task, self.now)
        for number in self.standing[task]:
            if self.pops_at_start[number]:
                self._pop(number)
        for barrier in self.items[task].waits:
            self.consumers[barrier] -= self.items[task].slots
            if self.consumers[barrier] <= 0 and self.mapped[barrier]:
                self._pass_on(barrier)
        if self.sharing is not None:
            for number, when, stamp in self.sharing.begin(task, self.now, self.cycles[task]):
                heappush(self.events, (when, _END, number, stamp))
        else:
            heappush(self.events, (self.now + self.cycles[task], _END, task, 0))

    def _pass_on(self, barrier: int) -> None:
        """The physical id goes to its next use; whoever still counts on this one never starts."""
        following = self.next_use.get(barrier)
        if following is None:
            return
        self.mapped[barrier] = False
        for task in (*self.waiting[barrier], *self.posting[barrier]):
            if self.start[task] < 0:
                self.blockers[task] += 1
        self._map(following)

    def _finish(self, task: int) -> None:
        self.end[task] = self.now
        if self.observer is not None:
            self.observer.end(task, self.now)
        if self.sharing is not None:
            for number, when, stamp in self.sharing.finish(task, self.now):
                heappush(self.events, (when, _END, number, stamp))
        for number in self.standing[task]:
            self.free[self.engine[number]] += 1
            self.touched.add(self.engine[number])
            if not self.pops_at_start[number]:
                self._pop(number)
        for barrier in self.items[task].posts:
            self.producers[barrier] -= self.items[task].slots
            if self.producers[barrier] <= 0:
                if self.latency:
                    heappush(self.events, (self.now + self.latency, _CLEAR, barrier, 0))
                else:
                    self._clear(barrier)

    def _pop(self, number: int) -> None:
        self.heads[number] += 1
        queue = self.queues[number]
        if self.heads[number] < len(queue):
            self._unblock(queue[self.heads[number]], "head", number)

    def _stuck(self) -> list[Stuck]:
        found = []
        for number, queue in enumerate(self.queues):
            if self.heads[number] >= len(queue):
                continue
            task = queue[self.heads[number]]
            item = self.items[task]
            reasons = []
            for barrier in item.waits:
                if not self.cleared[barrier]:
                    left = self.producers[barrier]
                    reasons.append(
                        f"barrier {barrier} has {left} producer slots left"
                        if self.mapped[barrier]
                        else f"barrier {barrier} is not mapped"
                    )
                elif not self.mapped[barrier]:
                    reasons.append(f"barrier {barrier} was given away before")
            reasons += [f"barrier {b} is not mapped" for b in item.posts if not self.mapped[b]]
            if not reasons:
                reasons.append("it does not head all of its queues")
            found.append(Stuck(self.queue_names[number], self.names[task], "; ".join(reasons)))
        return found


class _Sharing:
    """Transfers with DDR slow each other down when together they exceed its bandwidth."""

    def __init__(self, tasks: TaskList) -> None:
        rates = tasks.machine.rates
        total = Fraction(rates.dram_mbps, rates.dpu_mhz)
        port = min(total, rates.dma_bytes / rates.clock_ratio)
        self.alone = total / port  # transfers that run at full speed together
        self.counts = [
            task.engine == "dma" and any(r.space == DDR for r in (*task.reads, *task.writes))
            for task in tasks.tasks.values()
        ]
        self.left: dict[int, Fraction] = {}
        self.stamp: dict[int, int] = {}
        self.since = 0

    def current(self, task: int, stamp: int) -> bool:
        return self.stamp.get(task, stamp) == stamp

    def begin(self, task: int, now: int, cycles: int) -> list[tuple[int, int, int]]:
        if not self.counts[task]:
            return [(task, now + cycles, 0)]
        self._advance(now)
        self.left[task] = Fraction(cycles)
        return self._ends(now)

    def finish(self, task: int, now: int) -> list[tuple[int, int, int]]:
        if not self.counts[task]:
            return []
        self._advance(now)
        del self.left[task]
        self.stamp[task] = -1  # ends that were planned before no longer count
        return self._ends(now)

    def _speed(self) -> Fraction:
        return min(Fraction(1), self.alone / len(self.left)) if self.left else Fraction(1)

    def _advance(self, now: int) -> None:
        done = (now - self.since) * self._speed()
        for task in self.left:
            self.left[task] = max(Fraction(0), self.left[task] - done)
        self.since = now

    def _ends(self, now: int) -> list[tuple[int, int, int]]:
        """New ends of all transfers; the stamp tells old ends from new ones."""
        speed = self._speed()
        result = []
        for task, left in self.left.items():
            self.stamp[task] = self.stamp.get(task, 0) + 1
            result.append((task, now + -(-left // speed), self.stamp[task]))
        return result
