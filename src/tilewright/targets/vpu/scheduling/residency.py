"""Who is in CMX while a plan is made, who leaves, and who comes back.

Clean data is dropped, dirty data is written back once; a store that would come anyway comes
first instead. Victims are those whose return is cheap and far away.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.scheduling.plan import RELOAD, WRITE, Policy, Step
from tilewright.targets.vpu.scheduling.tile_memory import Window, tile_memory
from tilewright.targets.vpu.scheduling.timeline import Timeline, earliest_together
from tilewright.targets.vpu.tile_graph import DMA, DPU

NEVER = 1 << 60


class NoRoom(Exception):
    """An order under which some task finds no room, whatever leaves."""

    def __init__(self, task: int, root: int) -> None:
        super().__init__()
        self.task, self.root = task, root


class Residency:
    """The state of memories and engines along an order of tasks."""

    def __init__(self, problem: Problem, order: Sequence[int], policy: Policy) -> None:
        self.problem, self.order, self.policy = problem, order, policy
        graph = problem.graph
        machine = graph.machine
        self.tasks = graph.tasks
        self.tile_of = [buffer.tile for buffer in graph.buffers]
        self.memories = [tile_memory(machine.cmx_bytes) for _ in range(machine.tiles)]
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
        places = [0] * len(self.tasks)
        for place, task in enumerate(order):
            places[task] = place
        self.places = places
        self.high = self._ends()
        self.done = [False] * len(self.tasks)
        self.ends = [0] * len(self.tasks)
        self.steps: list[Step] = []
        self.position = 0
        self.handed: tuple[int, int, int] | None = None  # task, input, output in its place
        self.serial_end = 0
        self.deferred: list[int] = []
        self.fragmentation: list[float] = []
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

    def _commit(self, task: int) -> None:
        """Give a task its time; the decoder says how."""
        raise NotImplementedError

    def _hand_over(self, task: int, source: int, target: int) -> None:
        address = self.address[source]
        assert address is not None
        self.address[target] = address
        self.space_since[target] = self.last_use[target] = self.last_use[source]
        self.arrival[target] = 0
        memory = self.memories[self.tile_of[target]]
        memory.hand_over(address, target, self.problem.sizes[target], NEVER)
        self.handed = (task, source, target)

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

    def _free_window(self, root: int, ready: int) -> Window | None:
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
        return self.places[uses[-1]] if uses else NEVER

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
        if self.tasks[task].outside:
            return False  # its place in a tensor is no copy to reload from
        return any(
            span.root == root and span.offset == 0 and span.count == 1 and span.bytes == size
            for span in self.problem.reads[task]
        )

    def _write_back(self, root: int) -> None:
        cycles = self.problem.graph.buffers[root].spill_cycles
        ready = max(self.last_write[root], self.arrival[root])
        end = self._transfer(WRITE, root, ready, cycles)
        self.copy[root] = end
        self.written_back[root] = True
        self.last_use[root] = max(self.last_use[root], end)

    def _reload(self, root: int) -> None:
        since = 0 if self.problem.loaded[root] else self.copy[root]
        assert since is not None
        ready = max(since, self.space_since[root])
        end = self._transfer(RELOAD, root, ready, self.problem.reload_cycles[root])
        self.arrival[root] = end
        self.last_use[root] = end

    def _transfer(self, kind: str, root: int, ready: int, cycles: int) -> int:
        """When a transfer between DDR and the buffer's place is over."""
        if self.policy.serial:
            ready = max(ready, self.serial_end)
        start, units = self._slot(DMA, 0, ready, cycles, 1)
        self.serial_end = end = start + cycles
        address = self.address[root]
        assert address is not None
        self.steps.append(Step(kind, root, units, start, end, {root: address}))
        return end

    def _compact(self, task: int, pinned: set[int]) -> None:
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
        gaps = [list(gap) for gap in self.memories[tile].gaps()]
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
