"""From an order of tasks to a plan: addresses, transfers, spills and times.

Memory is given out in the given order; time follows from it. A task starts when its inputs are
there, its engine is idle (gaps in the past count) and the space it takes is free. A transfer
decided late may therefore still run early, in idle time of its port: prefetches and early
write-backs need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.scheduling.plan import TASK, Plan, Policy, Step
from tilewright.targets.vpu.scheduling.residency import NEVER, Residency

_RETRIED = 4  # deferred loads tried again after every task


def decode(problem: Problem, order: Sequence[int], policy: Policy) -> Plan:
    """The plan that an order of all tasks leads to; raises `NoRoom` where it leads nowhere."""
    return _Decoder(problem, order, policy).run()


class _Decoder(Residency):
    def run(self) -> Plan:
        for position, task in enumerate(self.order):
            self.position = position
            if self.done[task]:
                continue
            if self.tasks[task].source and self.policy.defer:
                if not self._prefetch(task):
                    self.deferred.append(task)
                continue
            self._demand(task)
            if self.deferred:
                self._retry()
        for task in self.deferred:
            if not self.done[task]:
                self._demand(task)
        makespan = max((step.end for step in self.steps), default=0)
        return Plan(self.steps, makespan, self.fragmentation)

    # --- Loads ahead of time ---------------------------------------------------------------

    def _prefetch(self, task: int) -> bool:
        """Run a load if there is room that nobody needs sooner."""
        if any(not self.done[other] for other in self.problem.predecessors[task]):
            return False
        needed: dict[int, int] = {}
        for root in self.problem.write_roots[task]:
            if self.address[root] is None:
                if self.begun[root]:
                    return False
                tile = self.tile_of[root]
                needed[tile] = needed.get(tile, 0) + self.problem.sizes[root]
        upcoming = self._upcoming() if self.policy.reserve else {}
        for tile, size in needed.items():
            if self.memories[tile].free_bytes - size < upcoming.get(tile, 0):
                return False
        found = []
        for root in self.problem.write_roots[task]:
            if self.address[root] is None:
                if not self._place_free(root, 0):
                    for other in found:  # one of several buffers has no room: undo the rest
                        self._release(other)
                    return False
                found.append(root)
        self._commit(task)
        return True

    def _upcoming(self) -> dict[int, int]:
        """Bytes per tile that the next computing task still has to get."""
        for place in range(self.position + 1, min(self.position + 65, len(self.order))):
            task = self.order[place]
            if self.done[task] or self.tasks[task].source:
                continue
            result: dict[int, int] = {}
            for root in (*self.problem.read_roots[task], *self.problem.write_roots[task]):
                if self.address[root] is None:
                    tile = self.tile_of[root]
                    result[tile] = result.get(tile, 0) + self.problem.sizes[root]
            for root in self.problem.write_roots[self.order[self.position]]:
                if root in self.problem.read_roots[task] and self.address[root] is None:
                    result[self.tile_of[root]] -= self.problem.sizes[root]
            return result
        return {}

    def _retry(self) -> None:
        tried = 0
        kept = []
        for task in self.deferred:
            if self.done[task]:
                continue
            if tried < _RETRIED:
                tried += 1
                if self._prefetch(task):
                    continue
                tried = _RETRIED  # what is needed first comes first
            kept.append(task)
        self.deferred = kept

    # --- One task --------------------------------------------------------------------------

    def _demand(self, task: int) -> None:
        """Run a task now: bring its inputs, make room for its outputs."""
        chain = [task]  # loads that were deferred, in the order of their dependences
        while chain:
            missing = [p for p in self.problem.predecessors[chain[-1]] if not self.done[p]]
            if missing:
                chain.append(missing[0])
            else:
                self._run(chain.pop())

    def _run(self, task: int) -> None:
        pinned = {*self.problem.read_roots[task], *self.problem.write_roots[task]}
        ready = max((self.ends[p] for p in self.problem.predecessors[task]), default=0)
        if not self._bring(task, pinned, ready):
            self._compact(task, pinned)
        if not self.done[task]:
            self._commit(task)

    def _bring(self, task: int, pinned: set[int], ready: int) -> bool:
        problem = self.problem
        missing = [
            root
            for root in dict.fromkeys((*problem.read_roots[task], *problem.write_roots[task]))
            if self.address[root] is None and self.begun[root]
        ]
        for root in missing:
            if not self._place(root, pinned, 0):
                return False
            self._reload(root)
        fresh = [root for root in problem.write_roots[task] if self.address[root] is None]
        pair = self._in_place_pair(task, fresh, pinned, ready) if problem.in_place[task] else None
        if pair is not None:
            fresh.remove(pair[1])
        fresh.sort(key=lambda root: -problem.sizes[root])
        if not all(self._place(root, pinned, ready) for root in fresh):
            return False
        if pair is not None:
            self._hand_over(task, *pair)
        return True

    def _in_place_pair(
        self, task: int, fresh: list[int], pinned: set[int], ready: int
    ) -> tuple[int, int] | None:
        """An input that dies here, or can be had again, and the output that takes its place."""
        problem = self.problem
        for source, target in problem.in_place[task]:
            address = self.address[source]
            if target not in fresh or address is None or address % problem.aligns[target]:
                continue
            last = self.uses_left[source] == 1
            if not last and self._copy_since(source) is None:
                continue
            window = self._free_window(target, ready)
            if window is not None:
                if not last:
                    continue
                if not self.policy.eager_in_place and max(window.available, ready) < max(
                    self.last_use[source], ready
                ):
                    continue
            elif not last:
                other = self.memories[self.tile_of[target]].find(
                    problem.sizes[target], problem.aligns[target], ready, self.policy.fit,
                    victim=lambda root: None if root in pinned else self._victim(root),
                )  # fmt: skip
                if other is not None and other.cost < (self._victim(source) or (0, 0.0))[1]:
                    continue
            return source, target
        return None

    def _commit(self, task: int) -> None:
        """Give a task its time; everything it needs has an address."""
        problem, item = self.problem, self.tasks[task]
        ready = max((self.ends[p] for p in problem.predecessors[task]), default=0)
        addresses: dict[int, int] = {}
        for root in problem.read_roots[task]:
            ready = max(ready, self.arrival[root])
            addresses[root] = self.address[root]  # type: ignore[assignment]
        for root in problem.write_roots[task]:
            addresses[root] = self.address[root]  # type: ignore[assignment]
            ready = max(ready, self.arrival[root], self.space_since[root])
        if self.policy.serial:
            ready = max(ready, self.serial_end)
        start, units = self._slot(item.engine, item.tile, ready, item.cycles, item.ports)
        end = start + item.cycles
        self.serial_end = end
        self.done[task] = True
        self.ends[task] = end
        self.steps.append(Step(TASK, task, units, start, end, addresses))
        if self.handed is not None and self.handed[0] == task:
            _, source, target = self.handed
            self.handed = None
            # The rest of a larger input is free when the task ends.
            self.memories[self.tile_of[target]].settle(NEVER, end)
            self.address[source] = None
        for root in problem.write_roots[task]:
            self.writers_left[root] -= 1
            self.last_write[root] = max(self.last_write[root], end)
            self.begun[root] = True
            self.last_use[root] = max(self.last_use[root], end)
            if not self.problem.loaded[root]:
                self.copy[root] = None
        for root in problem.read_roots[task]:
            self.last_use[root] = max(self.last_use[root], end)
            if item.sink and self.copy[root] is None and self._stores_whole(task, root):
                self.copy[root] = end
        for root in dict.fromkeys((*problem.read_roots[task], *problem.write_roots[task])):
            self.uses_left[root] -= 1
            if not self.uses_left[root] and self.address[root] is not None:
                self._release(root)
