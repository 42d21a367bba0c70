"""The table of contents of a bundle: a compiled model without its code, weights and texts, as JSON.

`manifest_of` writes it, `read_manifest` reads it back and takes nothing on trust: every value has
the type and range its field has, unknown and missing fields are errors. Whether the parts fit
together is the business of `check`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.runtime.compiled_model import (
    CompiledModel,
    DevicePart,
    HostPart,
    Port,
    Region,
    Rounds,
    Step,
)
from tilewright.runtime.manifest_values import FIRST_VERSION, read_values, values_of
from tilewright.targets.atlas.profile import MAX_DRAM, parse_profile
from tilewright.targets.atlas.profile_text import profile_text
from tilewright.targets.atlas.program import Program
from tilewright.tile.layouts import TILE_BYTES, Layout

FORMAT = "tilewright.bundle"
VERSION = 2
ORDERS = ("tiles", "panels", "rows", "halves")
KINDS = ("input", "output", "weight", "constant", "activation")
SPACES = ("dram", "vmem")
MAX_RANK = 16
MAX_ENTRIES = 1 << 20  # of any list or table
MAX_NAME = 1024


# --- writing ----------------------------------------------------------------------------


def manifest_of(model: CompiledModel) -> dict[str, Any]:
    """The manifest; timings of the compilation are left out, so that equal models look equal."""
    return plain(
        {
            "format": FORMAT,
            "version": VERSION,
            "name": model.name,
            "profile": {"name": model.profile.name, "toml": profile_text(model.profile)},
            "segments": [_segment(program) for program in model.segments],
            "regions": {name: _region(region) for name, region in model.regions.items()},
            "steps": [_step(step) for step in model.steps],
            "rounds": [
                {"count": r.count, "first": r.first, "end": r.end, "names": r.names}
                for r in model.rounds
            ],
            "ports": {
                name: {"shape": p.shape, "dtype": p.dtype, "region": p.region}
                for name, p in model.ports.items()
            },
            "inputs": model.inputs,
            "outputs": model.outputs,
            "parts": [_part(part) for part in model.parts],
            "state": model.state,
            "phases": list(model.phases),
            "provenance": model.provenance,
            "quantisation": model.quantisation,
            "values": values_of(model.graph),
        },
        "the model",
    )


def plain(value: Any, where: str) -> Any:
    """The value as JSON holds it; what JSON cannot hold is an error that says where it is."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    raise TilewrightError("TW3107", f"{where} is {value!r}, which a bundle cannot hold")


def _segment(program: Program) -> dict[str, Any]:
    data = [{"space": d.space, "address": d.address, "bytes": len(d.bytes)} for d in program.data]
    return {
        "words": len(program),
        "source": program.source,
        "labels": program.labels,
        "data": data,
    }


def _region(region: Region) -> dict[str, Any]:
    return {
        "space": region.space,
        "address": region.address,
        "shape": region.layout.shape,
        "dtype": region.layout.dtype,
        "order": region.layout.order,
        **_arrangement(region.layout),
        "kind": region.kind,
        "first": region.first,
        "last": region.last,
        "count": region.count,
        "stride": region.stride,
    }


def _arrangement(layout: Layout) -> dict[str, Any]:
    """How arrays of another shape are stored in a region, where that is so."""
    if layout.arrangement is None:
        return {}
    from tilewright.targets.atlas.kernels.arrangements import written

    return {"arrangement": written(layout.arrangement)}


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "kernel": step.kernel,
        "operands": step.operands,
        "options": step.options,
        "segment": step.segment,
        "first_word": step.first_word,
        "end_word": step.end_word,
        "sources": step.sources,
        "macs": step.macs,
        "bound": step.bound,
    }


def _part(part: HostPart | DevicePart) -> dict[str, Any]:
    if isinstance(part, HostPart):
        result: dict[str, Any] = {"kind": "host", "function": part.function}
        result["reasons"] = part.reasons
    else:
        result = {"kind": "device", "segments": part.segments}
    return {**result, "inputs": part.inputs, "outputs": part.outputs}


# --- reading ----------------------------------------------------------------------------


class Table:
    """One object of the manifest, read field by field."""

    def __init__(self, value: Any, where: str, place: Location) -> None:
        self.where, self.place = where, place
        if not isinstance(value, dict):
            raise self.bad("is not an object")
        self.values, self.unread = value, set(value)

    def bad(self, reason: str) -> TilewrightError:
        return TilewrightError(
            "TW3104", f"the manifest is malformed: {self.where} {reason}", self.place
        )

    def take(self, key: str) -> Any:
        if key not in self.values:
            raise self.bad(f"lacks {key!r}")
        self.unread.discard(key)
        return self.values[key]

    def done(self) -> None:
        if self.unread:
            raise self.bad(f"has an unknown field {min(self.unread)!r}"[:200])

    def integer(self, key: str, low: int = 0, high: int = MAX_DRAM) -> int:
        value = self.take(key)
        if type(value) is not int or not low <= value <= high:
            raise self.bad(f"has {key} {_show(value)}, must be a number from {low} to {high}")
        return value

    def text(self, key: str, most: int = MAX_NAME) -> str:
        return self._name(key, self.take(key), most)

    def _name(self, key: str, value: Any, most: int = MAX_NAME) -> str:
        if not isinstance(value, str) or len(value) > most or not _is_unicode(value):
            raise self.bad(f"has {key} {_show(value)}, must be a text of at most {most} characters")
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.take(key)
        if value not in allowed:
            raise self.bad(f"has {key} {_show(value)}, must be {' or '.join(allowed)}")
        return value

    def list(self, key: str, most: int = MAX_ENTRIES) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list) or len(value) > most:
            raise self.bad(f"has {key} that is no list of at most {most} entries")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        return tuple(self._name(key, item) for item in self.list(key))

    def numbers(self, key: str, most: int, high: int = MAX_DRAM) -> tuple[int, ...]:
        values = self.list(key, most)
        if any(type(n) is not int or not 0 <= n <= high for n in values):
            raise self.bad(f"has {key} {_show(values)}, must be numbers from 0 to {high}")
        return tuple(values)

    def table(self, key: str) -> dict[str, Any]:
        """A JSON object with any content, its keys checked."""
        value = self.take(key)
        if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
            raise self.bad(f"has {key} that is no object of at most {MAX_ENTRIES} entries")
        for name in value:
            self._name(f"in {key} a name", name)
        return value

    def texts(self, key: str) -> dict[str, str]:
        return {name: self._name(key, text) for name, text in self.table(key).items()}

    def inner(self, where: str, value: Any) -> Table:
        return Table(value, where, self.place)

    def each(self, key: str, noun: str, read: Callable[[Table], Any]) -> list[Any]:
        """A list of objects, all read the same way."""
        found = []
        for number, item in enumerate(self.list(key)):
            table = self.inner(f"{noun} {number}", item)
            found.append(read(table))
            table.done()
        return found


def read_manifest(
    document: Any, place: Location
) -> tuple[CompiledModel, list[dict[str, Any]], list[str]]:
    """The model without code, weights and texts; its segments; the names of its phases."""
    top = Table(document, "it", place)
    if top.take("format") != FORMAT:
        raise TilewrightError("TW3101", "this is not a Tilewright bundle", place)
    version = top.integer("version", 1)
    if version > VERSION:
        raise TilewrightError(
            "TW3103",
            f"the bundle has format version {version}, this release reads up to {VERSION}",
            place,
            hint="use a newer release of Tilewright, or compile the model again with this one",
        )
    profile = top.inner("profile", top.take("profile"))
    machine = parse_profile(profile.text("toml", 1 << 20), f"{place.file} (profile)")
    if profile.text("name") != machine.name:
        raise profile.bad("has another name than its text")
    profile.done()
    segments = top.each("segments", "segment", _read_segment)
    steps = top.each("steps", "step", _read_step)
    rounds = top.each("rounds", "rounds", _read_rounds)
    parts = top.each("parts", "part", _read_part)
    regions = {}
    for name, value in top.table("regions").items():
        regions[name] = _read_region(top.inner(f"region {name!r}", value), name)
    ports = {}
    for name, value in top.table("ports").items():
        ports[name] = _read_port(top.inner(f"port {name!r}", value), name)
    model = CompiledModel(
        name=top.text("name"),
        profile=machine,
        segments=[],
        regions=regions,
        steps=steps,
        rounds=rounds,
        ports=ports,
        inputs=top.names("inputs"),
        outputs=top.names("outputs"),
        parts=parts,
        weights={},
        state=top.texts("state"),
        provenance=top.table("provenance"),
        quantisation=top.table("quantisation"),
        graph=read_values(top) if version >= FIRST_VERSION else None,
    )
    phases = list(top.names("phases"))
    top.done()
    return model, segments, phases


def _read_segment(table: Table) -> dict[str, Any]:
    words = table.integer("words", 0, 1 << 28)
    labels = table.table("labels")
    if any(type(at) is not int or not 0 <= at <= words for at in labels.values()):
        raise table.bad("has a label that is not an instruction")
    data = []
    for number, item in enumerate(table.list("data")):
        block = table.inner(f"{table.where} data {number}", item)
        space, address = block.choice("space", SPACES), block.integer("address")
        data.append((space, address, block.integer("bytes")))
        block.done()
    return {"words": words, "source": table.text("source"), "labels": dict(labels), "data": data}


def _read_region(table: Table, name: str) -> Region:
    shape = _shape(table, 1)
    dtype = table.choice("dtype", tuple(TILE_BYTES))
    order = table.choice("order", ORDERS)
    if not shape:
        raise table.bad("has no dimensions")
    region = Region(
        name=name,
        space=cast(Any, table.choice("space", SPACES)),
        address=table.integer("address"),
        layout=_read_arrangement(table, Layout(shape, dtype, order)),
        kind=cast(Any, table.choice("kind", KINDS)),
        first=table.integer("first"),
        last=table.integer("last"),
        count=table.integer("count", 1, MAX_ENTRIES),
        stride=table.integer("stride"),
    )
    table.done()
    return region


def _read_arrangement(table: Table, layout: Layout) -> Layout:
    """The layout with its arrangement, if it has one: it must make just the stored shape."""
    if "arrangement" not in table.values:
        return layout
    from tilewright.targets.atlas.kernels.arrangements import read

    try:
        arrangement = read(table.take("arrangement"))
    except ValueError as error:
        raise table.bad(str(error)) from None
    if not hasattr(arrangement, "stored"):  # a window
        raise table.bad("has an arrangement of no known kind")
    if arrangement.stored != layout.shape or math.prod(arrangement.shape) > MAX_DRAM:
        raise table.bad(f"has an arrangement that does not make {_show(list(layout.shape))}")
    return replace(layout, arrangement=arrangement)


def _shape(table: Table, smallest: int) -> tuple[int, ...]:
    shape = table.numbers("shape", MAX_RANK)
    if any(n < smallest for n in shape) or math.prod(max(1, n) for n in shape) > MAX_DRAM:
        raise table.bad(f"has shape {_show(list(shape))}, which no machine can hold")
    return shape


def _read_port(table: Table, name: str) -> Port:
    region = table.take("region")
    if region is not None and not isinstance(region, str):
        raise table.bad(f"has region {_show(region)}, must be a name or null")
    port = Port(name, _shape(table, 0), table.text("dtype", 32), region)
    table.done()
    return port


def _read_step(table: Table) -> Step:
    return Step(
        name=table.text("name"),
        kernel=table.text("kernel"),
        operands=table.texts("operands"),
        options=table.table("options"),
        segment=table.integer("segment"),
        first_word=table.integer("first_word"),
        end_word=table.integer("end_word"),
        sources=table.names("sources"),
        macs=table.integer("macs", 0, 1 << 62),
        bound=table.integer("bound", 0, 1 << 62),
    )


def _read_rounds(table: Table) -> Rounds:
    return Rounds(
        count=table.integer("count", 1, MAX_ENTRIES),
        first=table.integer("first"),
        end=table.integer("end"),
        names=table.names("names"),
    )


def _read_part(table: Table) -> HostPart | DevicePart:
    if table.choice("kind", ("host", "device")) == "host":
        function, reasons = table.text("function"), table.names("reasons")
        return HostPart(function, table.names("inputs"), table.names("outputs"), reasons)
    segments = table.numbers("segments", MAX_ENTRIES)
    return DevicePart(segments, table.names("inputs"), table.names("outputs"))


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; JSON can spell halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _show(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."
