"""The table of contents of an Atlas program: all but its code and weights, as JSON.

`contents_of` writes it, `read_contents` reads it back and takes nothing on trust. Whether the pieces
fit together is the business of `check`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any, cast

from tilewright.io.json_tables import MAX_ENTRIES, Table, plain, shown
from tilewright.targets.artifact import Bound, LayerLoop
from tilewright.targets.atlas.artifact.atlas_artifact import (
    REARRANGED,
    AtlasArtifact,
    Entry,
    Region,
    Rows,
    Step,
)
from tilewright.targets.atlas.artifact.values_json import read_values, values_of
from tilewright.targets.atlas.profile import MAX_DRAM, parse_profile
from tilewright.targets.atlas.profile_text import profile_text
from tilewright.targets.atlas.program import Program
from tilewright.tile.layouts import TILE_BYTES, Layout

ORDERS = ("tiles", "panels", "rows", "halves")
KINDS = ("input", "state", "output", "weight", "constant", "activation")
SPACES = ("dram", "vmem")
PREFETCHED = ("brings", "finds")  # regions of a step that hold copies of weights


# --- writing ----------------------------------------------------------------------------


def contents_of(artifact: AtlasArtifact) -> dict[str, Any]:
    """The table of contents."""
    least = artifact.least
    return plain(
        {
            "profile": {"name": artifact.profile.name, "toml": profile_text(artifact.profile)},
            "segments": [_segment(program) for program in artifact.segments],
            "regions": {name: _region(region) for name, region in artifact.regions.items()},
            "steps": [_step(step) for step in artifact.steps],
            "loops": [
                {"count": r.count, "first": r.first, "end": r.end, "names": r.names}
                for r in artifact.loops
            ],
            "entries": {
                name: {"segments": e.segments, "inputs": e.inputs, "outputs": e.outputs}
                for name, e in artifact.entries.items()
            },
            "bound": None
            if least is None
            else {"cycles": least.cycles, "cause": least.cause, "terms": least.terms},
            "values": values_of(artifact.graph),
        },
        "the program",
    )


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
        **({} if region.copied is None else {"copied": asdict(region.copied)}),
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
        **{name: value for name in PREFETCHED if (value := getattr(step, name))},
    }


# --- reading ----------------------------------------------------------------------------


def read_contents(top: Table) -> tuple[AtlasArtifact, list[dict[str, Any]]]:
    """The program without code and weights, and what its segments are."""
    profile = top.inner("profile", top.take("profile"))
    machine = parse_profile(profile.text("toml", 1 << 20), f"{top.place.file} (profile)")
    if profile.text("name") != machine.name:
        raise profile.bad("has another name than its text")
    profile.done()
    segments = top.each("segments", "segment", _read_segment)
    artifact = AtlasArtifact(
        profile=machine,
        segments=[],
        regions={
            name: _read_region(top.inner(f"region {name!r}", value), name)
            for name, value in top.table("regions").items()
        },
        steps=top.each("steps", "step", _read_step),
        loops=top.each("loops", "loop", _read_loop),
        entries={
            name: _read_entry(top.inner(f"entry {name!r}", value))
            for name, value in top.table("entries").items()
        },
        weights={},
        graph=read_values(top),
        least=_read_bound(top),
    )
    top.done()
    return artifact, segments


def _read_bound(top: Table) -> Bound | None:
    value = top.take("bound")
    if value is None:
        return None
    table = top.inner("bound", value)
    terms = table.table("terms")
    if any(type(n) is not int or n < 0 for n in terms.values()):
        raise table.bad("has a term that is no number of cycles")
    bound = Bound(table.integer("cycles", 0, 1 << 62), table.text("cause"), terms)
    table.done()
    return bound


def _read_entry(table: Table) -> Entry:
    entry = Entry(
        table.numbers("segments", MAX_ENTRIES), table.names("inputs"), table.names("outputs")
    )
    table.done()
    return entry


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
    shape = table.shape(1)
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
        copied=_read_rows(table),
    )
    table.done()
    return region


def _read_rows(table: Table) -> Rows | None:
    """Which bytes of another region a region is a copy of, if it is one."""
    if "copied" not in table.values:
        return None
    inner = table.inner(f"{table.where} copied", table.take("copied"))
    rows = Rows(
        inner.text("region"),
        inner.integer("offset"),
        inner.integer("bytes", 1),
        inner.integer("rows", 1, MAX_ENTRIES),
        inner.integer("stride"),
    )
    inner.done()
    return rows


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
        raise table.bad(f"has an arrangement that does not make {shown(list(layout.shape))}")
    return replace(layout, arrangement=arrangement)


def _read_step(table: Table) -> Step:
    kernel = table.text("kernel")
    prefetched = {name: table.names(name) for name in PREFETCHED if name in table.values}
    return Step(
        **prefetched,
        name=table.text("name"),
        kernel=kernel,
        rearranged=kernel in REARRANGED,
        operands=table.texts("operands"),
        options=table.table("options"),
        segment=table.integer("segment"),
        first_word=table.integer("first_word"),
        end_word=table.integer("end_word"),
        sources=table.names("sources"),
        macs=table.integer("macs", 0, 1 << 62),
        bound=table.integer("bound", 0, 1 << 62),
    )


def _read_loop(table: Table) -> LayerLoop:
    return LayerLoop(
        count=table.integer("count", 1, MAX_ENTRIES),
        first=table.integer("first"),
        end=table.integer("end"),
        names=table.names("names"),
    )
