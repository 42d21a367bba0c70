"""DDR tensors of a graph: parts that loads and stores name, and the order among them."""

from __future__ import annotations

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.address_edges import WAW, address_edges
from tilewright.targets.vpu.task_list import Range
from tilewright.targets.vpu.tile_graph import Span, Task, TileGraph


def tensor_predecessors(
    graph: TileGraph, reads: list[list[Span]], writes: list[list[Span]]
) -> list[set[int]]:
    """Per task the earlier ones that store what it loads, or load what it overwrites."""
    if not graph.tensors and not any(task.outside for task in graph.tasks):
        return [set() for _ in graph.tasks]
    sizes = {}
    names = {buffer.id for buffer in graph.buffers}
    for tensor in graph.tensors:
        if tensor.id in sizes or tensor.id in names:
            raise TilewrightError("TW7022", f"two buffers or tensors are called {tensor.id!r}")
        sizes[tensor.id] = tensor.bytes
    for task, read, write in zip(graph.tasks, reads, writes, strict=True):
        if task.outside:
            _check(task, write if task.source else read, sizes)
    accesses = []
    for task in graph.tasks:
        parts = [
            Range(part.tensor, part.offset, part.bytes, part.count, part.stride)
            for part in task.outside
        ]
        accesses.append((parts, []) if task.source else ([], parts))
    result = []
    for task, found in zip(graph.tasks, address_edges(accesses), strict=True):
        for before, kind in found:
            if kind == WAW:
                raise TilewrightError(
                    "TW7025",
                    f"tasks {graph.tasks[before].id!r} and {task.id!r} store the same bytes",
                )
        result.append({before for before, _ in found})
    return result


def _check(task: Task, spans: list[Span], sizes: dict[str, int]) -> None:
    place = f"task {task.id!r}"
    if not (task.source or task.sink) or len(task.outside) != len(spans):
        raise TilewrightError("TW7028", f"{place} needs one tensor part for each of its operands")
    for part, span in zip(task.outside, spans, strict=True):
        if part.tensor not in sizes:
            raise TilewrightError("TW7028", f"{place} uses {part.tensor!r}, which is no tensor")
        if part.bytes * part.count != span.bytes * span.count:
            raise TilewrightError(
                "TW7028",
                f"{place} moves {part.bytes * part.count} bytes to {span.bytes * span.count}",
            )
        if part.end > sizes[part.tensor] or (part.count > 1 and part.stride < part.bytes):
            raise TilewrightError("TW7028", f"{place} leaves the tensor {part.tensor!r}")
