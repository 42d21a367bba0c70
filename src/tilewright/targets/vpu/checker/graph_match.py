"""A task list beside its graph: which buffer every range is, and whether it is the right one."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.vpu.checker.findings import Findings
from tilewright.targets.vpu.task_list import DDR, ListTask, Range, TaskList
from tilewright.targets.vpu.tile_graph import Outside, Task, TileGraph


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a list together with what it is of which buffer."""

    range: Range
    buffer: int
    base: int  # where the buffer's first byte would be


@dataclass(slots=True)
class Meaning:
    """What a list's task does to buffers, as its graph says."""

    reads: list[Part]
    writes: list[Part]
    copies: int | None = None  # a spill moves this buffer, whatever is in it
    loads: bool = False
    stores: bool = False
    in_place: tuple[tuple[int, int], ...] = ()
    again: bool = False  # a reload from tensors: it defines nothing for the first time


class Matcher:
    """Names of the graph by number, and the shape behind every name."""

    def __init__(self, graph: TileGraph, tasks: TaskList) -> None:
        self.graph, self.tasks = graph, tasks
        self.buffers = {buffer.id: n for n, buffer in enumerate(graph.buffers)}
        self.by_id = {task.id: task for task in graph.tasks}
        self.shapes = {
            b.id: (n, 0, b.bytes, 1, 0) for n, b in enumerate(graph.buffers)
        }  # name -> buffer, offset, bytes, count, stride
        self.tensors = {t.id: len(graph.buffers) + n for n, t in enumerate(graph.tensors)}
        for view in graph.views:
            self.shapes[view.id] = (
                self.buffers[view.of], view.offset, view.bytes, view.count, view.stride,
            )  # fmt: skip

        self.loads: dict[str, list[tuple[str, Outside]]] = {}  # what tensors fill a buffer
        for task in graph.tasks:
            for label, part in zip(task.writes, task.outside if task.source else (), strict=False):
                root = graph.buffers[self.shapes[label][0]].id
                self.loads.setdefault(root, []).append((label, part))

    def meaning(self, name: str, item: ListTask, findings: Findings) -> Meaning | None:
        """The buffers of a task's ranges; None, and a finding, if list and graph disagree."""
        if item.task is None and item.buffer is None:
            findings.add("V7", f"task {name} names neither a task of the graph nor a buffer", name)
            return None
        if item.task is None:
            return self._spill(name, item, findings)
        if item.task not in self.by_id:
            findings.add("V7", f"task {name} stands for {item.task!r}, which the graph lacks", name)
            return None
        task = self.by_id[item.task]
        if item.engine != task.engine or (task.engine != "dma" and item.tile != task.tile):
            findings.add("V7", f"task {name} runs on the wrong engine or tile", name)
            return None
        if task.outside:
            return self._with_tensors(name, item, task, findings)
        reads = self._parts(name, item.reads, task.writes if task.source else task.reads,
                            bool(task.source), findings)  # fmt: skip
        writes = self._parts(name, item.writes, task.reads if task.sink else task.writes,
                             bool(task.sink), findings)  # fmt: skip
        if reads is None or writes is None:
            return None
        pairs = tuple((self.buffers[a], self.buffers[b]) for a, b in task.in_place)
        return Meaning(reads, writes, None, bool(task.source), bool(task.sink), pairs)

    def _with_tensors(
        self, name: str, item: ListTask, task: Task, findings: Findings
    ) -> Meaning | None:
        """A load or store whose other side is in tensors of the graph."""
        inner, outer = (item.writes, item.reads) if task.source else (item.reads, item.writes)
        wanted = task.writes if task.source else task.reads
        inside = self._parts(name, inner, wanted, False, findings)
        outside = self._tensor_parts(name, outer, task.outside, findings)
        if inside is None or outside is None:
            return None
        if task.source:
            return Meaning(outside, inside, loads=True)
        return Meaning(inside, outside, stores=True)

    def _tensor_parts(
        self, name: str, ranges: tuple[Range, ...], wanted: tuple[Outside, ...], findings: Findings
    ) -> list[Part] | None:
        parts = []
        for item, part in zip(ranges, wanted, strict=False):
            base = self.tasks.ddr.get(part.tensor, (-1, 0))[0]
            right = Range(DDR, base + part.offset, part.bytes, part.count, part.stride)
            if item != right:
                findings.add("V4", f"task {name} misses its part of tensor {part.tensor!r}", name)
                return None
            parts.append(Part(item, self.tensors[part.tensor], base))
        if len(ranges) != len(wanted):
            findings.add("V4", f"task {name} has {len(ranges)} ranges, not {len(wanted)}", name)
            return None
        return parts

    def _spill(self, name: str, item: ListTask, findings: Findings) -> Meaning | None:
        if item.buffer not in self.buffers:
            findings.add("V7", f"task {name} moves {item.buffer!r}, which the graph lacks", name)
            return None
        pairs = self.loads.get(item.buffer, []) if item.buffer not in self.tasks.ddr else []
        if pairs and item.engine == "dma":
            inside = self._parts(name, item.writes, tuple(p[0] for p in pairs), False, findings)
            outside = self._tensor_parts(name, item.reads, tuple(p[1] for p in pairs), findings)
            if inside is None or outside is None:
                return None
            return Meaning(outside, inside, again=True)
        if len(item.reads) != 1 or len(item.writes) != 1 or item.engine != "dma":
            findings.add("V4", f"spill {name} has to be one transfer of a whole buffer", name)
            return None
        outside = [item.reads[0].space == DDR, item.writes[0].space == DDR]
        reads = self._parts(name, item.reads, (item.buffer,), outside[0], findings)
        writes = self._parts(name, item.writes, (item.buffer,), outside[1], findings)
        if outside[0] == outside[1]:
            findings.add("V4", f"spill {name} does not go between CMX and DDR", name)
            return None
        if reads is None or writes is None:
            return None
        return Meaning(reads, writes, copies=self.buffers[item.buffer])

    def _parts(
        self,
        name: str,
        ranges: tuple[Range, ...],
        wanted: tuple[str, ...],
        outside: bool,
        findings: Findings,
    ) -> list[Part] | None:
        if len(ranges) != len(wanted):
            findings.add(
                "V4",
                f"task {name} has {len(ranges)} ranges where the graph has {len(wanted)}",
                name,
            )
            return None
        parts = []
        for item, label in zip(ranges, wanted, strict=True):
            buffer, offset, size, count, stride = self.shapes[label]
            if (item.bytes, item.count, item.stride) != (size, count, stride):
                findings.add(
                    "V4",
                    f"task {name} touches {item.bytes} x {item.count} bytes of {label!r}, "
                    f"which has {size} x {count}",
                    name,
                )
                return None
            root = self.graph.buffers[buffer]
            space = DDR if outside else self.tasks.machine.space(root.tile)
            if item.space != space:
                findings.add("V1", f"task {name} has {label!r} in {item.space}, not {space}", name)
                return None
            base = item.address - offset
            align = max(root.align, self.tasks.machine.align)
            if not outside and (base % align or base < 0):
                findings.add(
                    "V1", f"task {name} has {root.id!r} at {base}, no multiple of {align}", name
                )
            parts.append(Part(item, buffer, base))
        return parts
