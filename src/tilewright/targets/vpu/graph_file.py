"""Tile graphs as JSON files: `tilewright-vpu-graph`, version 1. Unknown keys are errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.io.json_tables import load_document
from tilewright.targets.vpu.machine import machine_from
from tilewright.targets.vpu.tile_graph import DMA, ENGINES, Buffer, Task, TileGraph, View

FORMAT = "tilewright-vpu-graph"
LARGEST = 1 << 30
_MOST = 1 << 53  # what every JSON reader keeps exactly


def read_graph(path: str) -> TileGraph:
    """The graph in a file."""
    try:
        return graph_from(read_json(path))
    except TilewrightError as error:
        raise error.at(Location(path)) from None


def read_json(path: str) -> Any:
    """Any JSON file; a key that stands twice in one object is an error."""
    return load_document(decode_text(read_bytes(path, LARGEST), path), path)


def graph_from(value: Any) -> TileGraph:
    """A graph from parsed JSON."""
    check_format(value, FORMAT)
    check_keys(value, "the graph", {"format", "version", "target", "buffers", "tasks"},
               {"views", "after"})  # fmt: skip
    machine = machine_from(value["target"])
    buffers = [_buffer(item) for item in objects(value["buffers"], "buffers")]
    views = [_view(item) for item in objects(value.get("views", []), "views")]
    tasks = [_task(item) for item in objects(value["tasks"], "tasks")]
    after = [pair(item, "after") for item in sequence(value.get("after", []), "after")]
    return TileGraph(machine, buffers, tasks, views, after)


def graph_json(graph: TileGraph) -> dict[str, Any]:
    """The graph as JSON; values that are defaults are left out.

    Study files have neither tensors nor operations: those are in what the compiler writes.
    """
    if graph.tensors or any(task.operation is not None for task in graph.tasks):
        raise TilewrightError("TW7027", "a graph with DDR tensors or operations is no study file")
    result: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "target": graph.machine.to_json(),
        "buffers": [],
        "tasks": [],
    }
    for buffer in graph.buffers:
        entry: dict[str, Any] = {"id": buffer.id, "bytes": buffer.bytes}
        _put(entry, "spill_cycles", buffer.spill_cycles, 1)
        _put(entry, "align", buffer.align, 0)
        _put(entry, "tile", buffer.tile, 0)
        result["buffers"].append(entry)
    if graph.views:
        result["views"] = []
        for view in graph.views:
            entry = {"id": view.id, "of": view.of, "offset": view.offset, "bytes": view.bytes}
            _put(entry, "count", view.count, 1)
            _put(entry, "stride", view.stride, 0)
            result["views"].append(entry)
    for task in graph.tasks:
        entry = {"id": task.id, "engine": task.engine, "reads": list(task.reads)}
        entry |= {"writes": list(task.writes), "cycles": task.cycles}
        _put(entry, "source", task.source, None)
        _put(entry, "sink", task.sink, None)
        if task.engine == DMA:
            entry["ports"] = task.ports
        _put(entry, "in_place", [list(p) for p in task.in_place], [])
        _put(entry, "slots", task.slots, 1)
        _put(entry, "tile", task.tile, 0)
        result["tasks"].append(entry)
    if graph.after:
        result["after"] = [list(item) for item in graph.after]
    return result


def _put(entry: dict[str, Any], key: str, value: Any, default: Any) -> None:
    if value != default:
        entry[key] = value


def _buffer(item: Mapping[str, Any]) -> Buffer:
    name = named(item, "a buffer")
    place = f"buffer {name!r}"
    check_keys(item, place, {"id", "bytes"}, {"spill_cycles", "align", "tile"})
    align = number(item, "align", place, 1, default=0)
    if align & (align - 1):
        raise TilewrightError("TW7021", f"{place}: an alignment of {align} is no power of two")
    return Buffer(
        name,
        number(item, "bytes", place, 1),
        number(item, "spill_cycles", place, 1, default=1),
        align,
        number(item, "tile", place, 0, default=0),
    )


def _view(item: Mapping[str, Any]) -> View:
    name = named(item, "a view")
    place = f"view {name!r}"
    check_keys(item, place, {"id", "of", "offset", "bytes"}, {"count", "stride"})
    count = number(item, "count", place, 1, default=1)
    size = number(item, "bytes", place, 1)
    stride = number(item, "stride", place, 0, default=0)
    if count > 1 and stride < size:
        raise TilewrightError(
            "TW7021", f"{place}: runs of {size} bytes overlap at a stride of {stride}"
        )
    of = text(item, "of", place)
    return View(name, of, number(item, "offset", place, 0), size, count, stride if count > 1 else 0)


def _task(item: Mapping[str, Any]) -> Task:
    name = named(item, "a task")
    place = f"task {name!r}"
    check_keys(
        item,
        place,
        {"id", "engine", "reads", "writes", "cycles"},
        {"source", "sink", "ports", "in_place", "slots", "tile"},
    )
    engine = text(item, "engine", place)
    if engine not in ENGINES:
        raise TilewrightError(
            "TW7021", f"{place}: there is no engine {engine!r}", hint="engines: dma, dpu, shave"
        )
    for key in ("source", "sink"):
        if item.get(key) not in (None, "ddr"):
            raise TilewrightError("TW7021", f'{place}: {key} can only be "ddr"')
    pairs = [
        pair(entry, f"{place}: in_place") for entry in sequence(item.get("in_place", []), place)
    ]
    return Task(
        name,
        engine,
        tuple(names(item, "reads", place)),
        tuple(names(item, "writes", place)),
        number(item, "cycles", place, 1),
        item.get("source"),
        item.get("sink"),
        number(item, "ports", place, 1, default=1),
        tuple(pairs),
        number(item, "slots", place, 1, default=1),
        number(item, "tile", place, 0, default=0),
    )


# --- Checks of JSON, shared with task lists --------------------------------------------------


def check_format(value: Any, expected: str) -> None:
    """An object that says it is of this format, version 1."""
    if not isinstance(value, Mapping):
        raise TilewrightError("TW7020", f"this is no {expected} file: it holds no object")
    if value.get("format") != expected:
        found = value.get("format")
        raise TilewrightError("TW7020", f"this is no {expected} file: its format is {found!r}")
    if value.get("version") != 1 or isinstance(value.get("version"), bool):
        raise TilewrightError(
            "TW7020",
            f"version {value.get('version')!r} of {expected} is unknown",
            hint="this program reads version 1",
        )


def check_keys(
    value: Mapping[str, Any], place: str, required: Iterable[str], optional: Iterable[str]
) -> None:
    for key in required:
        if key not in value:
            raise TilewrightError("TW7021", f"{place}: the key {key!r} is missing")
    unknown = sorted(set(value) - set(required) - set(optional))
    if unknown:
        known = ", ".join(sorted({*required, *optional}))
        raise TilewrightError(
            "TW7021", f"{place}: unknown key {unknown[0]!r}", hint=f"known keys are {known}"
        )


def sequence(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise TilewrightError("TW7021", f"{place}: expected a list, not {_short(value)}")
    return value


def objects(value: Any, place: str) -> list[Mapping[str, Any]]:
    for item in sequence(value, place):
        if not isinstance(item, Mapping):
            raise TilewrightError("TW7021", f"{place}: expected objects, not {_short(item)}")
    return value


def names(item: Mapping[str, Any], key: str, place: str) -> list[str]:
    values = sequence(item[key], f"{place}: {key}")
    for value in values:
        if not isinstance(value, str):
            raise TilewrightError("TW7021", f"{place}: {key} holds names, not {_short(value)}")
    return values


def pair(value: Any, place: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(v, str) for v in value):
        raise TilewrightError("TW7021", f"{place}: expected pairs of names, not {_short(value)}")
    return value[0], value[1]


def named(item: Mapping[str, Any], what: str) -> str:
    name = item.get("id")
    if not isinstance(name, str) or not name:
        raise TilewrightError("TW7021", f"{what} has no id, or one that is no text")
    return name


def text(item: Mapping[str, Any], key: str, place: str) -> str:
    value = item[key]
    if not isinstance(value, str):
        raise TilewrightError("TW7021", f"{place}: {key} has to be text, not {_short(value)}")
    return value


def number(
    item: Mapping[str, Any], key: str, place: str, least: int, default: int | None = None
) -> int:
    """A whole number of at least `least`."""
    if key not in item and default is not None:
        return default
    value = item[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise TilewrightError(
            "TW7021",
            f"{place}: {key} has to be a whole number of at least {least}, not {_short(value)}",
        )
    return value


def _short(value: Any) -> str:
    found = json.dumps(value) if not isinstance(value, float) else repr(value)
    return found if len(found) <= 40 else found[:37] + "..."
