"""What a tile graph means: which bytes tasks touch, who depends on whom, and whether it is sound.

The result speaks of tasks and buffers by index, which is what the scheduler works on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.machine import DDR_BYTES
from tilewright.targets.vpu.tensors import tensor_predecessors
from tilewright.targets.vpu.tile_graph import DMA, SHAVE, Span, Task, TileGraph


@dataclass(slots=True)
class Problem:
    """A checked graph, by index."""

    graph: TileGraph
    reads: list[list[Span]]  # per task
    writes: list[list[Span]]
    read_roots: list[tuple[int, ...]]  # per task, each root once
    write_roots: list[tuple[int, ...]]
    predecessors: list[tuple[int, ...]]
    successors: list[list[int]]
    readers: list[list[int]]  # per root, tasks in program order
    writers: list[list[int]]
    in_place: list[list[tuple[int, int]]]  # per task: (input root, output root)
    sizes: list[int]  # of roots
    aligns: list[int]
    loaded: list[bool]  # per root: all writers are loads
    reload_cycles: list[int]
    topological: list[int]  # program order, or one that `after` allows

    @property
    def tasks(self) -> list[Task]:
        return self.graph.tasks


def analyse(graph: TileGraph, in_place: bool = True) -> Problem:
    """Check a graph and find its dependences; errors say what would have to change."""
    roots = _index((buffer.id for buffer in graph.buffers), "buffer")
    tasks = _index((task.id for task in graph.tasks), "task")
    spans = _spans(graph, roots)
    reads = [[_span(spans, name, task) for name in task.reads] for task in graph.tasks]
    writes = [[_span(spans, name, task) for name in task.writes] for task in graph.tasks]
    machine = graph.machine
    for buffer in graph.buffers:
        if buffer.tile >= machine.tiles:
            raise TilewrightError(
                "TW7022",
                f"buffer {buffer.id!r} lies on tile {buffer.tile}, the machine has {machine.tiles}",
            )
    for task, read, write in zip(graph.tasks, reads, writes, strict=True):
        _check_task(graph, task, read, write)
    count = len(graph.buffers)
    readers: list[list[int]] = [[] for _ in range(count)]
    writers: list[list[int]] = [[] for _ in range(count)]
    read_roots, write_roots = [], []
    for index in range(len(graph.tasks)):
        read_roots.append(tuple(dict.fromkeys(span.root for span in reads[index])))
        write_roots.append(tuple(dict.fromkeys(span.root for span in writes[index])))
        for root in read_roots[-1]:
            readers[root].append(index)
        for root in write_roots[-1]:
            writers[root].append(index)
    data = _data_predecessors(graph, reads, writes, readers, writers)
    for task, before in enumerate(tensor_predecessors(graph, reads, writes)):
        data[task] |= before
    predecessors = _with_after(graph, tasks, data)
    successors: list[list[int]] = [[] for _ in graph.tasks]
    for index, before in enumerate(predecessors):
        for other in before:
            successors[other].append(index)
    order = _topological(graph, predecessors, successors)
    _check_program_order(graph, data)
    loaded = [
        bool(found) and all(graph.tasks[w].source is not None for w in found) for found in writers
    ]
    reload = [
        sum(graph.tasks[w].cycles for w in writers[r]) if loaded[r] else buffer.spill_cycles
        for r, buffer in enumerate(graph.buffers)
    ]
    return Problem(
        graph=graph,
        reads=reads,
        writes=writes,
        read_roots=read_roots,
        write_roots=write_roots,
        predecessors=[tuple(sorted(before)) for before in predecessors],
        successors=successors,
        readers=readers,
        writers=writers,
        in_place=[
            _in_place_pairs(graph, task, roots, writers) if in_place else [] for task in graph.tasks
        ],
        sizes=[buffer.bytes for buffer in graph.buffers],
        aligns=[max(buffer.align, machine.align) for buffer in graph.buffers],
        loaded=loaded,
        reload_cycles=reload,
        topological=order,
    )


def _index(names: Iterable[str], what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        if name in found:
            raise TilewrightError("TW7022", f"two {what}s are called {name!r}")
        found[name] = len(found)
    return found


def _spans(graph: TileGraph, roots: dict[str, int]) -> dict[str, Span]:
    """The bytes behind every name that a task may use."""
    spans = {
        buffer.id: Span(number, 0, buffer.bytes) for number, buffer in enumerate(graph.buffers)
    }
    _check_ddr(graph)
    for view in graph.views:
        if view.id in spans:
            raise TilewrightError("TW7022", f"two buffers or views are called {view.id!r}")
        if view.of not in roots:
            raise TilewrightError(
                "TW7022",
                f"view {view.id!r} is of {view.of!r}, which is no buffer",
                hint="a view is always of a buffer, never of another view",
            )
        span = Span(roots[view.of], view.offset, view.bytes, view.count, view.stride)
        size = graph.buffers[span.root].bytes
        if span.end > size:
            raise TilewrightError(
                "TW7022",
                f"view {view.id!r} ends at byte {span.end} of {view.of!r}, which has {size}",
            )
        spans[view.id] = span
    return spans


def _check_ddr(graph: TileGraph) -> None:
    """Tensors, and buffers that are loaded or stored by themselves, have to fit into DDR."""
    sizes = {buffer.id: buffer.bytes for buffer in graph.buffers}
    roots = {view.id: view.of for view in graph.views}
    moved: set[str] = set()
    for task in graph.tasks:
        if (task.source or task.sink) and not task.outside:
            moved.update(roots.get(name, name) for name in (*task.reads, *task.writes))
    total = sum(tensor.bytes for tensor in graph.tensors)
    total += sum(size for name, size in sizes.items() if name in moved)
    if total > DDR_BYTES:
        raise TilewrightError(
            "TW7022",
            f"what is loaded and stored has {total} bytes together, DDR {DDR_BYTES}",
            hint=f"{total - DDR_BYTES} bytes less would fit",
        )


def _span(spans: dict[str, Span], name: str, task: Task) -> Span:
    if name not in spans:
        raise TilewrightError(
            "TW7022", f"task {task.id!r} uses {name!r}, which is no buffer and no view"
        )
    return spans[name]


def _check_task(graph: TileGraph, task: Task, reads: list[Span], writes: list[Span]) -> None:
    machine, place = graph.machine, f"task {task.id!r}"
    if task.engine == DMA:
        if task.ports not in (1, machine.dma_ports):
            raise TilewrightError(
                "TW7023",
                f"{place} occupies {task.ports} ports, the machine has {machine.dma_ports}",
                hint="a transfer takes one port, or all of them",
            )
        if task.source and task.sink:
            raise TilewrightError("TW7023", f"{place} has both a source and a sink in DDR")
        if task.source and (reads or not writes):
            raise TilewrightError("TW7023", f"{place} is a load: it writes buffers and reads none")
        if task.sink and (writes or not reads):
            raise TilewrightError("TW7023", f"{place} is a store: it reads buffers, writes none")
    else:
        if task.source or task.sink or task.ports != 1:
            raise TilewrightError("TW7023", f"{place}: source, sink and ports belong to dma tasks")
        if task.tile >= machine.tiles:
            raise TilewrightError(
                "TW7023", f"{place} runs on tile {task.tile}, the machine has {machine.tiles}"
            )
        foreign = [span for span in reads if graph.buffers[span.root].tile != task.tile]
        if task.engine == SHAVE:
            foreign += [span for span in writes if graph.buffers[span.root].tile != task.tile]
        if foreign:
            buffer = graph.buffers[foreign[0].root]
            raise TilewrightError(
                "TW7023",
                f"{place} runs on tile {task.tile} and touches {buffer.id!r} on tile {buffer.tile}",
                hint="copy it with a dma task first",
            )
    if task.slots > machine.side_slots:
        raise TilewrightError(
            "TW7023",
            f"{place} counts {task.slots} slots, a barrier takes {machine.side_slots} on each side",
            hint=f"split the task, or give barriers {2 * task.slots} slots",
        )


def _in_place_pairs(
    graph: TileGraph, task: Task, roots: dict[str, int], writers: list[list[int]]
) -> list[tuple[int, int]]:
    pairs = []
    for source, target in task.in_place:
        place = f"task {task.id!r}: in_place ({source!r}, {target!r})"
        if source not in roots or target not in roots:
            raise TilewrightError("TW7024", f"{place} has to name whole buffers")
        if source not in task.reads or target not in task.writes:
            raise TilewrightError(
                "TW7024", f"{place}: the task has to read one and write the other"
            )
        first, second = graph.buffers[roots[source]], graph.buffers[roots[target]]
        if second.bytes > first.bytes:
            raise TilewrightError(
                "TW7024", f"{place}: the output has {second.bytes} bytes, the input {first.bytes}"
            )
        if first.tile == second.tile and len(writers[roots[target]]) == 1:
            pairs.append((roots[source], roots[target]))
    return pairs


def _data_predecessors(
    graph: TileGraph,
    reads: list[list[Span]],
    writes: list[list[Span]],
    readers: list[list[int]],
    writers: list[list[int]],
) -> list[set[int]]:
    before: list[set[int]] = [set() for _ in graph.tasks]
    for root, buffer in enumerate(graph.buffers):
        runs = _written_runs(graph, root, writers[root], writes)
        starts = [run[0] for run in runs]
        known: dict[Span, set[int]] = {}  # many tasks read the same part
        for reader in readers[root]:
            if len(writers[root]) == 1 and runs[0][:2] == (0, buffer.bytes):
                before[reader].add(writers[root][0])
            else:
                for span in reads[reader]:
                    if span.root == root:
                        if span not in known:
                            task = graph.tasks[reader]
                            known[span] = _writers_of(graph, task, span, runs, starts)
                        before[reader] |= known[span]
    for index, found in enumerate(before):
        if index in found:
            raise TilewrightError(
                "TW7025", f"task {graph.tasks[index].id!r} reads bytes that it writes itself"
            )
    return before


def _with_after(graph: TileGraph, tasks: dict[str, int], data: list[set[int]]) -> list[set[int]]:
    """Dependences of data and those that the graph adds."""
    before = [set(found) for found in data]
    for first, second in graph.after:
        for name in (first, second):
            if name not in tasks:
                raise TilewrightError("TW7022", f"after names {name!r}, which is no task")
        before[tasks[second]].add(tasks[first])
    return before


def _written_runs(
    graph: TileGraph, root: int, writers: list[int], writes: list[list[Span]]
) -> list[tuple[int, int, int]]:
    """(first, end, writer) of everything written into a buffer, sorted, no two overlapping."""
    runs = sorted(
        (first, end, writer)
        for writer in writers
        for span in writes[writer]
        if span.root == root
        for first, end in span.runs()
    )
    for left, right in pairwise(runs):
        if right[0] < left[1]:
            names = [graph.tasks[left[2]].id, graph.tasks[right[2]].id]
            raise TilewrightError(
                "TW7025",
                f"tasks {names[0]!r} and {names[1]!r} both write byte {right[0]} of "
                f"{graph.buffers[root].id!r}",
                hint="a byte is written once; give the second result a buffer of its own",
            )
    return runs


def _writers_of(
    graph: TileGraph, task: Task, span: Span, runs: list[tuple[int, int, int]], starts: list[int]
) -> set[int]:
    """Who writes the bytes of a span; bytes that nobody writes are an error."""
    found: set[int] = set()
    for first, end in span.runs():
        at = first
        position = max(0, bisect_right(starts, first) - 1)
        while at < end and position < len(runs) and runs[position][0] <= at:
            if runs[position][1] > at:
                found.add(runs[position][2])
                at = runs[position][1]
            position += 1
        if at < end:
            raise TilewrightError(
                "TW7025",
                f"task {task.id!r} reads byte {at} of {graph.buffers[span.root].id!r}, "
                "which no task writes",
                hint="load it first",
            )
    return found


def _topological(
    graph: TileGraph, predecessors: Sequence[Iterable[int]], successors: list[list[int]]
) -> list[int]:
    """Program order as far as dependences allow; a cycle is an error that names it."""
    waiting = [len(set(before)) for before in predecessors]
    ready = [index for index, left in enumerate(waiting) if not left]
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for other in successors[index]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, other)
    if len(order) < len(graph.tasks):
        stuck = {index for index, left in enumerate(waiting) if left}
        path = [min(stuck)]
        while True:
            path.append(min(p for p in predecessors[path[-1]] if p in stuck))
            if path[-1] in path[:-1]:
                break
        cycle = path[path.index(path[-1]) :][::-1]
        names = " -> ".join(graph.tasks[index].id for index in cycle)
        raise TilewrightError(
            "TW7026", f"the tasks depend on each other in a cycle: {names}",
            hint="one of these dependences has to go",
        )  # fmt: skip
    return order


def _check_program_order(graph: TileGraph, data: list[set[int]]) -> None:
    """A read stands behind the writes of its bytes."""
    for reader, found in enumerate(data):
        if found and max(found) > reader:
            writer = graph.tasks[max(found)]
            raise TilewrightError(
                "TW7025",
                f"task {graph.tasks[reader].id!r} reads what {writer.id!r} writes only later",
                hint="the order of tasks is program order: put the writer first",
            )
