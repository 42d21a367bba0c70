"""Values beside time: what a task list computes, byte by byte, under a given timing.

Memory starts as garbage. A task reads its inputs when it starts; from then until its end its
outputs hold poison, and inputs that change before it ends are a torn read. A missing edge
therefore shows in the numbers of some run, not only in the verifier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.simulator import Options, Run, simulate
from tilewright.targets.vpu.task_list import DDR, ListTask, Range, TaskList
from tilewright.targets.vpu.tile_graph import Operation

Bytes = np.ndarray  # of uint8
Kernel = Callable[[Sequence[Bytes], Sequence[int], Mapping[str, Any]], list[Bytes]]
_MOST_BYTES = 1 << 32


@dataclass(slots=True)
class Outcome:
    """The bytes that stores left in DDR, torn reads, and the run itself."""

    stored: dict[str, bytes]
    torn: list[str]
    run: Run
    ddr: Bytes = field(repr=False)


def run_values(
    tasks: TaskList,
    options: Options | None = None,
    operations: Mapping[str, Operation] | None = None,
    kernels: Mapping[str, Kernel] | None = None,
    ddr: Bytes | None = None,
    seed: int = 0,
) -> Outcome:
    """Run a list with values. `operations` says what graph tasks compute; others mix their inputs.

    `ddr` is the memory at the beginning; by default every buffer's copy has content of its own,
    whatever its address. Garbage and poison depend on `seed`,
    so results that depend on them differ between seeds.
    """
    machine = ValueMachine(tasks, operations or {}, kernels or {}, ddr, seed)
    run = simulate(tasks, options, machine)
    stored = {}
    for name, item in tasks.tasks.items():
        outside = [entry for entry in item.writes if entry.space == DDR]
        if outside and item.buffer is None:
            stored[item.task or name] = b"".join(machine.read(e).tobytes() for e in outside)
    return Outcome(stored, machine.torn, run, machine.spaces[DDR])


class ValueMachine:
    """Byte-addressed memories; an observer of the simulator."""

    def __init__(
        self,
        tasks: TaskList,
        operations: Mapping[str, Operation],
        kernels: Mapping[str, Kernel],
        ddr: Bytes | None,
        seed: int,
    ) -> None:
        self.items = list(tasks.tasks.values())
        self.names = list(tasks.tasks)
        self.operations, self.kernels = operations, kernels
        sizes: dict[str, int] = {DDR: 0}
        for item in self.items:
            for entry in (*item.reads, *item.writes):
                sizes[entry.space] = max(sizes.get(entry.space, 0), entry.end)
        if sum(sizes.values()) > _MOST_BYTES:
            raise TilewrightError("TW7060", "the list touches more memory than values are kept for")
        garbage = np.random.default_rng(seed + 1)
        self.spaces = {
            space: garbage.integers(0, 256, size, dtype=np.uint8) for space, size in sizes.items()
        }
        self.spaces[DDR] = np.random.default_rng(0).integers(0, 256, sizes[DDR], dtype=np.uint8)
        for name, (address, size) in tasks.ddr.items():  # the same wherever a buffer lies
            content = mix(name, [], [size])[0]
            self.spaces[DDR][address : address + size] = content[: max(0, sizes[DDR] - address)]
        if ddr is not None:
            self.spaces[DDR][: len(ddr)] = ddr[: sizes[DDR]]
        self.poison = garbage.integers(0, 256, 4099, dtype=np.uint8)
        self.taken: dict[int, list[Bytes]] = {}
        self.torn: list[str] = []

    def read(self, entry: Range) -> Bytes:
        """A copy of the bytes of a range, its runs one after the other."""
        memory = self.spaces[entry.space]
        if entry.count == 1:
            return memory[entry.address : entry.address + entry.bytes].copy()
        return self._runs(memory, entry).reshape(-1).copy()

    def write(self, entry: Range, content: Bytes) -> None:
        memory = self.spaces[entry.space]
        if entry.count == 1:
            memory[entry.address : entry.address + entry.bytes] = content
        else:
            self._runs(memory, entry)[...] = content.reshape(entry.count, entry.bytes)

    def _runs(self, memory: Bytes, entry: Range) -> Bytes:
        """The runs of a range as rows, without copying."""
        return np.lib.stride_tricks.as_strided(
            memory[entry.address :], (entry.count, entry.bytes), (entry.stride, 1)
        )

    def start(self, task: int, cycle: int) -> None:
        item = self.items[task]
        self.taken[task] = [self.read(entry) for entry in item.reads]
        for entry in item.writes:
            self.write(entry, np.resize(self.poison, entry.bytes * entry.count))

    def end(self, task: int, cycle: int) -> None:
        item = self.items[task]
        inputs = self.taken.pop(task)
        for number, entry in enumerate(item.reads):
            if any(_meet(entry, other) for other in item.writes):
                continue  # in place: its own poison is no tear
            if not np.array_equal(self.read(entry), inputs[number]):
                self.torn.append(self.names[task])
                inputs[number] = np.resize(self.poison, len(inputs[number]))
        sizes = [entry.bytes * entry.count for entry in item.writes]
        for entry, content in zip(item.writes, self._compute(item, inputs, sizes), strict=True):
            self.write(entry, content)

    def _compute(self, item: ListTask, inputs: list[Bytes], sizes: list[int]) -> list[Bytes]:
        operation = self.operations.get(item.task) if item.task is not None else None
        if operation is not None:
            return self.kernels[operation.name](inputs, sizes, operation.attributes)
        if item.engine == "dma" and len(inputs) in (1, len(sizes)):
            sources = inputs if len(inputs) == len(sizes) else inputs * len(sizes)
            if [len(source) for source in sources] == sizes:
                return sources
        return mix(item.task or item.buffer or item.kind, inputs, sizes)


def mix(name: str, inputs: Sequence[Bytes], sizes: Sequence[int]) -> list[Bytes]:
    """Bytes that depend on every input byte and on who computes them."""
    digest = hashlib.blake2b(name.encode(), digest_size=64)
    for content in inputs:
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content.tobytes())
    result = []
    for number, size in enumerate(sizes):
        block = hashlib.blake2b(digest.digest() + bytes([number % 256]), digest_size=61).digest()
        result.append(np.resize(np.frombuffer(block, np.uint8), size))
    return result


def _meet(first: Range, second: Range) -> bool:
    return first.space == second.space and first.address < second.end and second.address < first.end
