"""From an order of tasks to a plan: addresses, transfers, spills and times.

Memory is given out in the given order; time follows from it. A task starts when its inputs are
there, its engine is idle (gaps in the past count) and the space it takes is free. A transfer
decided late may therefore still run early, in idle time of its port: prefetches and early
write-backs need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.scheduling.plan import RELOAD, TASK, WRITE, Plan, Policy, Step
from tilewright.targets.vpu.scheduling.tile_memory import TileMemory
from tilewright.targets.vpu.scheduling.timeline import Timeline, earliest_together
from tilewright.targets.vpu.tile_graph import DMA, DPU

_NEVER = 1 << 60
_RETRIED = 4  # deferred loads tried again after every task


class NoRoom(Exception):
    """An order under which some task finds no room, whatever leaves."""

    def __init__(self, task: int, root: int) -> None:
        super().__init__()
        self.task, self.root = task, root


def decode(problem: Problem, order: Sequence[int], policy: Policy) -> Plan:
    """The plan that an order of all tasks leads to; raises `NoRoom` where it leads nowhere."""
    return _Decoder(problem, order, policy).run()


class _Decoder:
    def __init__(self, problem: Problem, order: Sequence[int], policy: Policy) -> None:
        self.problem, self.order, self.policy = problem, order, policy
        graph = problem.graph
        machine = graph.machine
        self.tasks = graph.tasks
        self.tile_of = [buffer.tile for buffer in graph.buffers]
        self.memories = [TileMemory(machine.cmx_bytes) for _ in range(machine.tiles)]
        self.ports = [Timeline() for _ in range(machine.dma_ports)]
        self.dpus = [[Timeline() for _ in range(machine.dpus)] for _ in range(machine.tiles)]
        self.shaves = [[Timeline() for _ in range(machine.shaves)] for _ in range(machine.tiles)]
        roots = len(graph.buffers)
        self.address: list[int | None] = [None] * roots
        self.space_since = [0] * roots  # until then the space is another buffer's
        self.last_use = [0] * roots  # end of the latest access of the current residence
        self.last_write = [0] * roots
        self.arrival = [0] * roots  # end of the reload of the current residence
        self.copy: list[int | None] = [None] * roots  # since when DDR holds the whole buffer
        self.written_back = [False] * roots
        self.begun = [False] * roots  # whether a first writer has run
        self.writers_left = [len(found) for found in problem.writers]
        self.uses_left = [
            len(set(r) | set(w)) for r, w in zip(problem.readers, problem.writers, strict=True)
        ]
        self.high = self._ends()
        self.done = [False] * len(self.tasks)
        self.ends = [0] * len(self.tasks)
        self.steps: list[Step] = []
        self.position = 0
        self.handed: tuple[int, int, int] | None = None  # task, input, output in its place
        self.serial_end = 0
        self.deferred: list[int] = []
        self.fragmentation: list[float] = []
        places = [0] * len(self.tasks)
        for place, task in enumerate(order):
            places[task] = place
        self.places = places
        self.uses: list[list[int]] = []  # per root: its tasks, the latest first
        for reads, writes in zip(problem.readers, problem.writers, strict=True):
            self.uses.append(sorted({*reads, *writes}, key=lambda t: -places[t]))

    def _ends(self) -> list[bool]:
        """Which buffers go to the upper end of memory; what lives together is kept apart."""
        problem, policy = self.problem, self.policy
        high = [False] * len(problem.sizes)
        if policy.ends == "kind":
            high = [not loaded for loaded in problem.loaded]
        elif policy.ends == "parity":
            for task in problem.topological:
                inputs = [high[root] for root in problem.read_roots[task]]
                for root in problem.write_roots[task]:
                    high[root] = bool(inputs) and not inputs[0]
        for root in policy.flipped:
            high[root] = not high[root]
        return high

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
        if self.policy.reserve:
            upcoming = self._upcoming(needed)
        else:
            upcoming = {}
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

    def _upcoming(self, needed: dict[int, int]) -> dict[int, int]:
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
            self._compact(task, pinned, ready)
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

    def _hand_over(self, task: int, source: int, target: int) -> None:
        address = self.address[source]
        assert address is not None
        self.address[target] = address
        self.space_since[target] = self.last_use[target] = self.last_use[source]
        self.arrival[target] = 0
        memory = self.memories[self.tile_of[target]]
        memory.hand_over(address, target, self.problem.sizes[target], _NEVER)
        self.handed = (task, source, target)

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
            segments = self.memories[self.tile_of[target]].segments
            for segment in segments:  # the rest of a larger input is free when the task ends
                if segment.owner < 0 and segment.since == _NEVER:
                    segment.since = end
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

    def _slot(
        self, engine: str, tile: int, ready: int, cycles: int, ports: int
    ) -> tuple[int, tuple[int, ...]]:
        if engine == DMA:
            units = self.ports
            if ports > 1:
                start = earliest_together(units, ready, cycles)
                for unit in units:
                    unit.take(start, cycles)
                return start, tuple(range(len(units)))
        else:
            units = self.dpus[tile] if engine == DPU else self.shaves[tile]
        start, best = min((unit.earliest(ready, cycles), n) for n, unit in enumerate(units))
        units[best].take(start, cycles)
        return start, (best,)

    # --- Memory ------------------------------------------------------------------------------

    def _free_window(self, root: int, ready: int):
        memory = self.memories[self.tile_of[root]]
        size = self.problem.sizes[root]
        if memory.free_bytes < size:
            return None
        return memory.find(size, self.problem.aligns[root], ready, self.policy.fit, self.high[root])

    def _place_free(self, root: int, ready: int) -> bool:
        window = self._free_window(root, ready)
        if window is None:
            return False
        self._settle(root, window.address, window.available)
        return True

    def _place(self, root: int, pinned: set[int], ready: int) -> bool:
        """Give a buffer an address, making room if there is none."""
        if self._place_free(root, ready):
            return True
        memory = self.memories[self.tile_of[root]]
        if memory.free_bytes:
            self.fragmentation.append(1 - memory.largest_free() / memory.free_bytes)
        window = memory.find(
            self.problem.sizes[root],
            self.problem.aligns[root],
            ready,
            self.policy.fit,
            self.high[root],
            victim=lambda other: None if other in pinned else self._victim(other),
        )
        if window is None:
            return False
        available = window.available
        for other in window.victims:
            available = max(available, self._evict(other))
        # Several free segments may lie in the window: the latest of them counts.
        self._settle(root, window.address, available)
        return True

    def _settle(self, root: int, address: int, available: int) -> None:
        self.address[root] = address
        self.space_since[root] = self.last_use[root] = available
        self.arrival[root] = 0
        self.memories[self.tile_of[root]].take(root, address, self.problem.sizes[root])

    def _release(self, root: int) -> None:
        memory = self.memories[self.tile_of[root]]
        address = self.address[root]
        assert address is not None
        horizon = min(port.frontier for port in self.ports)
        memory.release(address, self.last_use[root], horizon)
        self.address[root] = None

    def _copy_since(self, root: int) -> int | None:
        """Since when DDR holds a buffer; None if it does not, or not all of it is there yet."""
        if self.writers_left[root]:
            return None
        return 0 if self.problem.loaded[root] else self.copy[root]

    def _victim(self, root: int) -> tuple[int, float] | None:
        """(when the space would be free, cost) of evicting a buffer; None if it has to stay."""
        if self.writers_left[root]:
            return None
        cycles = self.problem.reload_cycles[root]
        available = self.last_use[root]
        if self._copy_since(root) is None:
            if self.written_back[root]:
                return None
            spill = self.problem.graph.buffers[root].spill_cycles
            available = max(available, self.last_write[root] + spill)
            cycles += spill
        distance = 1 + max(0, self._next_use(root) - self.position)
        if self.policy.victims == "furthest":
            return available, 1.0 / distance
        return available, cycles / distance

    def _next_use(self, root: int) -> int:
        uses = self.uses[root]
        while uses and self.done[uses[-1]]:
            uses.pop()
        return self.places[uses[-1]] if uses else _NEVER

    def _evict(self, root: int) -> int:
        """Let a buffer leave; returns when its space is free. Clean data is dropped."""
        if self._copy_since(root) is None:
            store = self._pending_store(root)
            if store is not None:
                self._commit(store)
                if self.address[root] is None:  # it was the last use
                    return self.last_use[root]
            else:
                self._write_back(root)
        self._release(root)
        return self.last_use[root]

    def _pending_store(self, root: int) -> int | None:
        """A store of the whole buffer that could run now and saves the write-back."""
        for task in reversed(self.uses[root]):
            if (
                not self.done[task]
                and self.tasks[task].sink
                and self._stores_whole(task, root)
                and self.problem.read_roots[task] == (root,)
                and all(self.done[p] for p in self.problem.predecessors[task])
            ):
                return task
        return None

    def _stores_whole(self, task: int, root: int) -> bool:
        size = self.problem.sizes[root]
        return any(
            span.root == root and span.offset == 0 and span.count == 1 and span.bytes == size
            for span in self.problem.reads[task]
        )

    def _write_back(self, root: int) -> None:
        cycles = self.problem.graph.buffers[root].spill_cycles
        ready = max(self.last_write[root], self.arrival[root])
        if self.policy.serial:
            ready = max(ready, self.serial_end)
        start, units = self._slot(DMA, 0, ready, cycles, 1)
        end = start + cycles
        self.serial_end = end
        address = self.address[root]
        assert address is not None
        self.steps.append(Step(WRITE, root, units, start, end, {root: address}))
        self.copy[root] = end
        self.written_back[root] = True
        self.last_use[root] = max(self.last_use[root], end)

    def _reload(self, root: int) -> None:
        cycles = self.problem.reload_cycles[root]
        since = 0 if self.problem.loaded[root] else self.copy[root]
        assert since is not None
        ready = max(since, self.space_since[root])
        if self.policy.serial:
            ready = max(ready, self.serial_end)
        start, units = self._slot(DMA, 0, ready, cycles, 1)
        end = start + cycles
        self.serial_end = end
        address = self.address[root]
        assert address is not None
        self.steps.append(Step(RELOAD, root, units, start, end, {root: address}))
        self.arrival[root] = end
        self.last_use[root] = end

    def _compact(self, task: int, pinned: set[int], ready: int) -> None:
        """The operands lie so that the rest finds no room: let all leave, then bring them in."""
        problem = self.problem
        tiles = {self.tile_of[root] for root in pinned}
        for root, address in enumerate(list(self.address)):
            if address is None or self.tile_of[root] not in tiles:
                continue
            if self._victim(root) is not None:
                self._evict(root)
            elif root not in pinned and self._partly_written(root):
                self._evict_partly_written(root)
        if self.done[task]:
            return
        operands = sorted(
            (root for root in pinned if self.address[root] is None),
            key=lambda root: (-problem.aligns[root], -problem.sizes[root]),
        )
        pairs = [p for p in problem.in_place[task] if p[1] in operands]
        for chosen in (None, *pairs):
            left = [root for root in operands if chosen is None or root != chosen[1]]
            if all(self._fits_in_turn(left, tile) for tile in tiles):
                break
        else:
            raise NoRoom(task, operands[0] if operands else next(iter(pinned)))
        for root in left:
            if not self._place_first(root):
                raise NoRoom(task, root)
            if self.begun[root]:
                self._reload(root)
        if chosen is not None:
            source, target = chosen
            again = self.uses_left[source] > 1 and self._copy_since(source) is None
            if again or (self.address[source] or 0) % problem.aligns[target]:
                raise NoRoom(task, target)
            self._hand_over(task, source, target)

    def _fits_in_turn(self, roots: list[int], tile: int) -> bool:
        own = [root for root in roots if self.tile_of[root] == tile]
        memory = self.memories[tile]
        gaps = []
        for segment in memory.segments:
            if segment.owner < 0:
                if gaps and gaps[-1][1] == segment.address:
                    gaps[-1][1] = segment.end
                else:
                    gaps.append([segment.address, segment.end])
        for root in own:
            align, size = self.problem.aligns[root], self.problem.sizes[root]
            for gap in gaps:
                start = -(-gap[0] // align) * align
                if start + size <= gap[1]:
                    gap[0] = start + size
                    break
            else:
                return False
        return True

    def _place_first(self, root: int) -> bool:
        memory = self.memories[self.tile_of[root]]
        window = memory.find(self.problem.sizes[root], self.problem.aligns[root], 0, "first")
        if window is None:
            return False
        self._settle(root, window.address, window.available)
        return True

    def _partly_written(self, root: int) -> bool:
        """Whether a buffer whose writers have not all run may leave: once, as a last resort."""
        return bool(self.writers_left[root]) and self.begun[root] and not self.written_back[root]

    def _evict_partly_written(self, root: int) -> None:
        if not self.problem.loaded[root]:
            self._write_back(root)
        self._release(root)
