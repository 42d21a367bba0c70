"""V1 to V4 and V7: ranges inside their memories, no races, every read sees what it should.

Tasks are visited in one order that happens-before allows. Between neighbouring accesses of a
byte the order has to be certain; then it is certain for all pairs, and what this one walk sees
is what every timing sees.
"""

from __future__ import annotations

from tilewright.targets.vpu.checker.findings import Findings
from tilewright.targets.vpu.checker.graph_match import Matcher, Meaning, Part
from tilewright.targets.vpu.checker.memory_cells import Cell, Cells, Tag
from tilewright.targets.vpu.checker.order import Known, Order
from tilewright.targets.vpu.machine import DDR_BYTES
from tilewright.targets.vpu.task_list import DDR, Range, TaskList
from tilewright.targets.vpu.tile_graph import TileGraph


def check_ranges(tasks: TaskList, graph: TileGraph | None, findings: Findings) -> bool:
    """V1: inside the memory, and aligned. Returns whether ranges can be looked at further."""
    machine = tasks.machine
    sizes = {DDR: DDR_BYTES} | {machine.space(t): machine.cmx_bytes for t in range(machine.tiles)}
    sound = True
    touched: dict[str, list[Range]] = {}
    for name, item in tasks.tasks.items():
        for entry in (*item.reads, *item.writes):
            if entry.space not in sizes:
                findings.add("V1", f"task {name} uses {entry.space}, which is no memory here", name)
                sound = False
            elif entry.end > sizes[entry.space]:
                findings.add(
                    "V1",
                    f"task {name} ends at byte {entry.end} of {entry.space}, which has "
                    f"{sizes[entry.space]}",
                    name,
                )
            touched.setdefault(entry.space, []).append(entry)
        if item.engine != "dma":
            own = machine.space(item.tile)
            wrong = [r for r in item.reads if r.space != own]
            wrong += [r for r in item.writes if r.space == DDR]
            if item.engine == "shave":
                wrong += [r for r in item.writes if r.space != own]
            if wrong:
                findings.add("V1", f"task {name} on {own} cannot reach {wrong[0].space}", name)
    for name, (address, size) in tasks.ddr.items():
        if address + size > DDR_BYTES:
            findings.add("V1", f"the copy of {name!r} ends behind DDR")
    if graph is None:
        _check_alignment(tasks, touched, findings)
    return sound


def _check_alignment(tasks: TaskList, touched: dict[str, list[Range]], findings: Findings) -> None:
    """Without a graph: a range begins aligned, or continues one that does (it is a view)."""
    align = tasks.machine.align
    crooked: set[tuple[str, int]] = set()
    for space, ranges in touched.items():
        if space == DDR:
            continue
        reach, root = -1, False  # how far ranges that hang together go, and from where
        for entry in sorted(ranges, key=lambda r: (r.address, -r.end)):
            if entry.address > reach:
                root = entry.address % align == 0
            if entry.address % align and not root:
                crooked.add((space, entry.address))
            reach = max(reach, entry.end)
    for name, item in tasks.tasks.items():
        for entry in (*item.reads, *item.writes):
            if (entry.space, entry.address) in crooked:
                findings.add(
                    "V1", f"task {name} uses address {entry.address}, no multiple of {align}", name
                )


class MemoryWalk:
    """The state of all memories along one legal order."""

    def __init__(
        self, tasks: TaskList, order: Order, graph: TileGraph | None, findings: Findings
    ) -> None:
        self.tasks, self.order, self.graph, self.findings = tasks, order, graph, findings
        self.spaces: dict[str, Cells] = {}
        self.meanings: list[Meaning | None] = [None] * order.count
        self.writers_left: list[int] = []
        self.loaded: set[int] = set()
        self.raced: set[tuple[int, int]] = set()
        if graph is not None:
            self._match(graph)

    def _match(self, graph: TileGraph) -> None:
        """Every task of the graph stands in the list once, with the right ranges."""
        matcher = Matcher(graph, self.tasks)
        count: dict[str, int] = {}
        self.writers_left = [0] * len(graph.buffers)
        for task in graph.tasks:
            for buffer in {matcher.shapes[name][0] for name in task.writes}:
                self.writers_left[buffer] += 1
                if task.source:
                    self.loaded.add(buffer)
        for number, (name, item) in enumerate(self.tasks.tasks.items()):
            self.meanings[number] = matcher.meaning(name, item, self.findings)
            if item.task is not None:
                count[item.task] = count.get(item.task, 0) + 1
        for task in graph.tasks:
            if count.get(task.id, 0) != 1:
                what = "stored" if task.sink else "run"
                times = count.get(task.id, 0)
                self.findings.add("V7", f"{task.id!r} is {what} {times} times instead of once")
        names = {name: (place, size) for name, (place, size) in self.tasks.ddr.items()}
        ddr = self.spaces.setdefault(DDR, Cells())
        stored = {part.tensor for task in graph.tasks if task.sink for part in task.outside}
        for name, (address, size) in names.items():
            buffer = matcher.buffers.get(name)
            if name in matcher.tensors:
                if name not in stored:  # an output is defined by its stores
                    for cell in ddr.between(address, address + size):
                        cell.tag = (matcher.tensors[name], address)
            elif buffer is None:
                self.findings.add("V4", f"ddr has a place for {name!r}, which the graph lacks")
            elif size != graph.buffers[buffer].bytes:
                self.findings.add("V4", f"the copy of {name!r} in ddr has the wrong size")
            elif buffer in self.loaded:  # inputs and constants are there from the beginning
                for cell in ddr.between(address, address + size):
                    cell.tag = (buffer, address)

    def visit(self, task: int, now: Known) -> None:
        """One task starts: look at what it reads, then at what it overwrites."""
        item, meaning = self.order.items[task], self.meanings[task]
        moved: list[tuple[int, int, Tag | None]] = []  # what a spill carries, from its start
        for position, entry in enumerate(item.reads):
            part = meaning.reads[position] if meaning else None
            for first, end in entry.runs():
                for cell in self._cells(entry.space).between(first, end):
                    self._read(task, cell, entry, part, meaning, now)
                    if meaning and meaning.copies is not None:
                        moved.append((cell.first - first, cell.end - first, cell.tag))
        if meaning:
            self._check_in_place(task, meaning)
        for position, entry in enumerate(item.writes):
            part = meaning.writes[position] if meaning else None
            tag = (part.buffer, part.base) if part else None
            for first, end in entry.runs():
                cells = self._cells(entry.space)
                for cell in cells.between(first, end):
                    self._overwrite(task, cell, now)
                cells.fill(first, end, task, tag)
        if meaning and meaning.copies is not None:
            self._carry(meaning, moved)
        if meaning:
            for buffer in {part.buffer for part in meaning.writes}:
                if meaning.copies is None and not meaning.stores and not meaning.again:
                    self.writers_left[buffer] -= 1

    def finish(self) -> None:
        """V7: every output still stands where it was stored."""
        for task, meaning in enumerate(self.meanings):
            if meaning is None or not meaning.stores:
                continue
            for part in meaning.writes:
                for first, end in part.range.runs():
                    for cell in self._cells(DDR).between(first, end):
                        if cell.tag != (part.buffer, part.base):
                            name = self.order.names[task]
                            self.findings.add(
                                "V7", f"what {name} stores at {cell.first} is overwritten", name
                            )

    def _cells(self, space: str) -> Cells:
        found = self.spaces.get(space)
        if found is None:
            found = self.spaces[space] = Cells()
        return found

    def _read(
        self,
        task: int,
        cell: Cell,
        entry: Range,
        part: Part | None,
        meaning: Meaning | None,
        now: Known,
    ) -> None:
        name = self.order.names[task]
        if cell.writer >= 0 and cell.writer != task:
            self._ordered(cell.writer, task, cell, "RAW", now)
        elif (
            cell.writer < 0 and entry.space != DDR and not (meaning and meaning.copies is not None)
        ):
            self.findings.add(
                "V7",
                f"task {name} reads {entry.space} {cell.first}..{cell.end}, never written",
                name,
            )
        cell.readers.append(task)
        if part is None or meaning is None:
            return
        wanted = (part.buffer, part.base)
        if cell.tag == wanted:
            return
        if meaning.copies is not None and self.writers_left[part.buffer] > 0:
            return  # a buffer that is still being filled may move; what it lacks stays undefined
        label = self._label(part.buffer)
        if cell.tag is None:
            if cell.writer < 0 and entry.space != DDR and meaning.copies is None:
                return  # reported above
            holds = "nothing"
        else:
            holds = repr(self._label(cell.tag[0]))
        self.findings.add(
            "V4",
            f"task {name} reads {label!r} at {entry.space} {cell.first}..{cell.end}, which holds "
            f"{holds}" + (" at another offset" if holds == repr(label) else ""),
            name,
        )

    def _label(self, number: int) -> str:
        """The name of a buffer, or of a tensor, which count on behind the buffers."""
        assert self.graph is not None
        buffers = self.graph.buffers
        if number < len(buffers):
            return buffers[number].id
        return self.graph.tensors[number - len(buffers)].id

    def _overwrite(self, task: int, cell: Cell, now: Known) -> None:
        waiting = [reader for reader in cell.readers if reader != task]
        for reader in waiting:
            self._ordered(reader, task, cell, "WAR", now)
        if not waiting and cell.writer >= 0 and cell.writer != task:
            self._ordered(cell.writer, task, cell, "WAW", now)

    def _ordered(self, first: int, second: int, cell: Cell, kind: str, now: Known) -> None:
        if self.order.ended(first, now) or (first, second) in self.raced:
            return
        self.raced.add((first, second))
        names = self.order.names[first], self.order.names[second]
        self.findings.add(
            "V3",
            f"{kind} race: {names[0]} and {names[1]} meet at bytes {cell.first}..{cell.end} and "
            "nothing orders them",
            *names,
        )
        mine, other = self.meanings[first], self.meanings[second]
        if mine and other and kind != "RAW":
            before = {p.buffer for p in (*mine.reads, *mine.writes)}
            after = {p.buffer for p in other.writes}
            if not before & after:
                self.findings.add(
                    "V2",
                    f"{names[1]} reuses bytes {cell.first}..{cell.end} while {names[0]} may still "
                    "use them",
                    *names,
                )

    def _check_in_place(self, task: int, meaning: Meaning) -> None:
        """V2: inputs and outputs of one task are apart, except for pairs that may share."""
        for read in meaning.reads:
            for write in meaning.writes:
                same = read.range.space == write.range.space
                if not same or read.range.end <= write.range.address:
                    continue
                if write.range.end <= read.range.address or not _overlap(read.range, write.range):
                    continue
                if (read.buffer, write.buffer) in meaning.in_place and read.base == write.base:
                    continue
                name = self.order.names[task]
                self.findings.add("V2", f"task {name} writes over what it reads", name)

    def _carry(self, meaning: Meaning, moved: list[tuple[int, int, Tag | None]]) -> None:
        """A spill leaves at its target exactly what was at its source."""
        source, target = meaning.reads[0], meaning.writes[0]
        cells = self._cells(target.range.space)
        for first, end, tag in moved:
            holds = tag == (source.buffer, source.base)
            start = target.range.address
            for cell in cells.between(start + first, start + end):
                cell.tag = (target.buffer, target.base) if holds else None


def _overlap(first: Range, second: Range) -> bool:
    others = second.runs()
    position = 0
    for start, end in first.runs():
        while position < len(others) and others[position][1] <= start:
            position += 1
        if position < len(others) and others[position][0] < end:
            return True
    return False
