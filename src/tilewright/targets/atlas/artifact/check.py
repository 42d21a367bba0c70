"""Whether an Atlas program fits together: an independent look at what the compiler planned.

Nothing here knows how the program was made. It sees places, live ranges, code sizes and names, and
reports everything that would make a run read or write the wrong bytes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.io.json_tables import MAX_ENTRIES
from tilewright.targets.artifact import DevicePart, Finding, HostPart, Port
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact, Entry, Region, is_result
from tilewright.targets.atlas.artifact.check_values import check_values
from tilewright.targets.atlas.artifact.contents import ORDERS, SPACES
from tilewright.targets.port_types import FLOATS
from tilewright.tile.layouts import TILE_BYTES

MAX_OPERANDS = 256
_BEFORE = -1


def check(
    model: AtlasArtifact, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
) -> Iterator[Finding]:
    """Everything that is wrong; nothing if it fits together."""
    mine = [part for part in parts if isinstance(part, DevicePart)]
    for look in (
        lambda: _places(model),
        lambda: _steps(model),
        lambda: _ports(model, ports),
        lambda: _entries(model, mine, ports),
    ):
        findings = list(look())
        yield from findings
        if findings:
            return  # later looks rely on what earlier ones found in order
    findings = [*_weights(model), *_overlaps(model)]
    yield from findings
    if not findings:
        yield from check_values(model, mine, ports)


# --- places and steps -------------------------------------------------------------------


def _places(model: AtlasArtifact) -> Iterator[Finding]:
    """Regions inside the memories, code inside the instruction memory."""
    sizes = {"dram": model.profile.dram_bytes, "vmem": model.profile.vmem_bytes}
    pieces = 0
    for name, region in model.regions.items():
        layout = region.layout
        known = layout.dtype in TILE_BYTES and layout.order in ORDERS and region.space in SPACES
        if not known or not layout.shape or min(layout.shape) < 1 or region.name != name:
            yield _bad(
                "TW3110", f"the region {name} has no valid layout or another name than its key"
            )
            continue
        if region.kind == "state" and region.space != "dram":
            yield _bad("TW3110", f"the region {name} is state, which stays in DRAM only")
            continue
        if layout.arrangement is not None and layout.arrangement.stored != layout.shape:
            yield _bad("TW3110", f"the region {name} has an arrangement of another shape")
            continue
        pieces += region.count
        if region.count < 1 or pieces > MAX_ENTRIES:
            yield _bad("TW3110", f"the region {name} stands for {region.count} tensors")
        elif region.count > 1 and region.stride < layout.bytes:
            yield _bad(
                "TW3110",
                f"the iterations of region {name} overlap: each has {layout.bytes:,} bytes, "
                f"the next one begins after {region.stride:,}",
            )
        elif region.address < 0 or region.address + region.bytes > sizes[region.space]:
            yield _bad(
                "TW3111",
                f"the region {name} ends at byte {region.address + region.bytes:,} of "
                f"{region.space.upper()}, {model.profile.name} has {sizes[region.space]:,}",
                "the model needs more memory than the machine has",
            )
        if not 0 <= region.first <= region.last < max(1, len(model.steps)):
            yield _bad("TW3110", f"the region {name} is not live during any steps of the model")
    for number, program in enumerate(model.segments):
        if 4 * len(program) > model.profile.imem_bytes:
            yield _bad(
                "TW3116",
                f"segment {number} has {4 * len(program):,} bytes of code, the instruction memory "
                f"of {model.profile.name} {model.profile.imem_bytes:,}",
            )
        for data in program.data:
            if data.address < 0 or data.address + len(data.bytes) > sizes[data.space]:
                yield _bad("TW3111", f"segment {number} places data outside {data.space.upper()}")


def _steps(model: AtlasArtifact) -> Iterator[Finding]:
    """Steps inside their segments, layer loops inside the steps, operands that exist and are live."""
    for number, step in enumerate(model.steps):
        what = f"step {number} ({step.name})"
        if not 0 <= step.segment < len(model.segments):
            yield _bad("TW3114", f"{what} is in segment {step.segment}, which does not exist")
        elif not 0 <= step.first_word < step.end_word <= len(model.segments[step.segment]):
            yield _bad(
                "TW3114",
                f"{what} has the words {step.first_word} to {step.end_word} of segment "
                f"{step.segment}, which has {len(model.segments[step.segment])}",
            )
        if len(step.operands) > MAX_OPERANDS:
            yield _bad("TW3114", f"{what} has {len(step.operands)} operands")
        for parameter, name in step.operands.items():
            region = model.regions.get(name)
            if region is None:
                yield _bad("TW3114", f"{what} has no region {name!r} for its operand {parameter}")
            elif region.kind == "state" and is_result(parameter):
                yield _bad("TW3114", f"{what} writes {name}, which is state that stays")
            elif not region.first <= number <= region.last:
                yield _bad(
                    "TW3114",
                    f"{what} uses {name}, which is live from step {region.first} to {region.last}",
                )
        yield from _prefetched(model, number)
    end = total = 0
    for loop in model.loops:
        inside = model.steps[loop.first : loop.end]
        if not end <= loop.first < loop.end <= len(model.steps) or loop.count < 1:
            yield _bad(
                "TW3114",
                f"the iterations of steps {loop.first} to {loop.end} are out of order or "
                f"outside the {len(model.steps)} steps",
            )
            return
        if loop.names and len(loop.names) != loop.count:
            yield _bad(
                "TW3114",
                f"{loop.count} iterations have {len(loop.names)} names, from step {loop.first} on",
            )
        for step in inside:
            for name in step.operands.values():
                region = model.regions.get(name)
                if region is not None and region.count not in (1, loop.count):
                    yield _bad(
                        "TW3114",
                        f"{name} has {region.count} tensors, step {step.name} runs {loop.count} iterations",
                    )
        end = loop.end
        total += loop.count * len(inside)
    if total > MAX_ENTRIES:
        yield _bad("TW3114", f"the iterations amount to {total:,} steps")


def _prefetched(model: AtlasArtifact, number: int) -> Iterator[Finding]:
    """Copies of weights: in VMEM, of bytes that exist, brought once and found by those that read the
    weights."""
    step = model.steps[number]
    what = f"step {number} ({step.name})"
    for name in (*step.brings, *step.finds):
        region = model.regions.get(name)
        if region is None or region.copied is None:
            yield _bad("TW3114", f"{what} has no copy {name!r} of weights")
            continue
        rows, source = region.copied, model.regions.get(region.copied.region)
        if source is None or source.kind not in ("weight", "constant") or source.space != "dram":
            yield _bad(
                "TW3114", f"{name} is a copy of {rows.region}, which is no region of weights"
            )
        elif rows.end > source.layout.bytes or min(rows.offset, rows.stride) < 0:
            yield _bad("TW3114", f"{name} is a copy of bytes outside of {rows.region}")
        elif region.space != "vmem" or region.count != 1:
            yield _bad("TW3114", f"{name} is a copy of weights outside of VMEM")
        elif region.layout.bytes != rows.rows * rows.bytes:
            yield _bad("TW3114", f"{name} has other bytes than it is a copy of")
        elif not region.first <= number <= region.last:
            yield _bad("TW3114", f"{what} uses {name} while it is not live")
        elif name in step.finds and rows.region not in step.operands.values():
            yield _bad("TW3114", f"{what} finds {name}, but does not read {rows.region}")


# --- ports, parts, weights --------------------------------------------------------------


def _ports(model: AtlasArtifact, ports: Mapping[str, Port]) -> Iterator[Finding]:
    for name, port in ports.items():
        if port.tensor is None:
            continue
        region = model.regions[port.tensor]
        count = region.count if port.iteration is None else 1
        if math.prod(port.shape) != count * math.prod(region.layout.given):
            yield _bad(
                "TW3115",
                f"the port {name} has shape {_sizes(port.shape)}, its region "
                f"{_sizes(region.layout.given)}" + (f" x {count}" if count > 1 else ""),
            )
        elif port.encoding is not None and (
            port.encoding.stored != region.layout.given or count > 1
        ):
            yield _bad(
                "TW3115",
                f"the encoding of the port {name} makes {_sizes(port.encoding.stored)}, its region is "
                f"{_sizes(region.layout.given)}",
            )
        elif port.dtype not in (*FLOATS, "i1"):
            yield _bad("TW3115", f"the port {name} is {port.dtype}, the device holds floats only")


def _entries(
    model: AtlasArtifact, parts: Sequence[DevicePart], ports: Mapping[str, Port]
) -> Iterator[Finding]:
    """Every part has its own entry and fills its regions; segments run in the order of their steps."""
    order: list[int] = []
    if sorted(part.entry for part in parts) != sorted(model.entries):
        yield _bad("TW3115", "the device parts of the model are not the entries of its program")
        return
    for number, part in enumerate(parts):
        entry = model.entries[part.entry]
        for names, regions in ((part.inputs, entry.inputs), (part.outputs, entry.outputs)):
            if tuple(ports[name].tensor for name in names) != regions:
                yield _bad("TW3115", f"device part {number} has other places than its entry")
        if set(order) & set(entry.segments):
            yield _bad("TW3115", f"part {number} runs a segment that belongs to another part")
        order += entry.segments
    if any(segment not in range(len(model.segments)) for segment in order):
        yield _bad("TW3115", "a part runs a segment that does not exist")
        return
    yield from _order(model, order)


def _order(model: AtlasArtifact, order: list[int]) -> Iterator[Finding]:
    """Segments come in the order of the steps in them, each run with at least its own."""
    at = 0
    for index, turn, step in model.calls():
        # A loop within a segment stays in it; one over several segments runs each once an iteration.
        while at < len(order) and order[at] != step.segment:
            at += 1
        if at == len(order):
            which = f"step {index} ({step.name})" + (f" of iteration {turn}" if turn else "")
            yield _bad("TW3115", f"{which} is in no part, or the segments are out of order")
            return


def _weights(model: AtlasArtifact) -> Iterator[Finding]:
    for name, raw in model.weights.items():
        region = model.regions.get(name)
        if region is None or region.kind not in ("weight", "constant"):
            yield _bad("TW3113", f"there are weights for {name!r}, which is no region for weights")
        elif raw.dtype != np.uint8 or raw.shape != (region.count * region.layout.bytes,):
            yield _bad(
                "TW3113",
                f"the weights of {name} have {raw.nbytes:,} bytes, its region "
                f"{region.count * region.layout.bytes:,}",
            )
    for name, region in model.regions.items():
        wanted = region.space == "dram" and region.kind in ("weight", "constant")
        if wanted and name not in model.weights:
            yield _bad("TW3113", f"the weights of {name} are missing")


# --- overlaps ---------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class _Life:
    """One tensor: from when to when its bytes must not be touched.

    Step n is the time 2n; inputs arrive before a step and outputs are read behind one.
    """

    first: int
    last: int
    address: int
    end: int
    name: str


def _overlaps(model: AtlasArtifact) -> Iterator[Finding]:
    """Two tensors in the same bytes at the same time."""
    spans = entry_spans(model)
    for space in SPACES:
        lives = []
        for region in model.regions.values():
            if region.space == space:
                first, last = lifetime(model, region, spans)
                for turn in range(region.count):
                    at = region.at(turn)
                    lives.append(_Life(first, last, at, at + region.layout.bytes, region.name))
        lives += _data_lives(model, space)
        yield from _sweep(model, space, lives)


def _data_lives(model: AtlasArtifact, space: str) -> Iterator[_Life]:
    """Data that comes with the code of a segment: it arrives before its first step."""
    for number, program in enumerate(model.segments):
        mine = [index for index, step in enumerate(model.steps) if step.segment == number]
        first, last = (mine[0], mine[-1]) if mine else (0, len(model.steps))
        for data in program.data:
            if data.space == space and data.bytes:
                end = data.address + len(data.bytes)
                name = f"the data of segment {number}"
                yield _Life(2 * first - 1, 2 * last + 1, data.address, end, name)


def _sweep(model: AtlasArtifact, space: str, lives: list[_Life]) -> Iterator[Finding]:
    """Walk up the addresses; those present at an address must be live at different times."""
    events = sorted(
        [(life.end, 0, life) for life in lives] + [(life.address, 1, life) for life in lives]
    )
    present: list[_Life] = []
    for _, begins, life in events:
        at = bisect_left(present, life)
        if not begins:
            del present[at]
            continue
        before, after = at - 1, at
        while before >= 0 and present[before].last >= life.first:
            if not _in_place(model, present[before], life):
                yield _overlap(space, present[before], life)
                return
            before -= 1
        while after < len(present) and present[after].first <= life.last:
            if not _in_place(model, life, present[after]):
                yield _overlap(space, life, present[after])
                return
            after += 1
        insort(present, life)


def _in_place(model: AtlasArtifact, old: _Life, new: _Life) -> bool:
    """Whether a step reads the one for the last time and writes the other over it, or fills the buffer
    in which it has found weights with those of the next step."""
    if old.last != new.first or old.address != new.address or old.name == new.name:
        return False
    step, between = divmod(old.last, 2)
    if between or not 0 <= step < len(model.steps) or new.end > old.end:
        return False
    found = model.steps[step]
    if old.name in found.finds and new.name in found.brings:
        return True
    written = {name for parameter, name in found.operands.items() if is_result(parameter)}
    return {old.name, new.name} <= set(found.operands.values()) and (
        old.name not in written or new.name not in written
    )


def _overlap(space: str, one: _Life, other: _Life) -> Finding:
    start, end = max(one.address, other.address), min(one.end, other.end)
    first, last = max(one.first, other.first), min(one.last, other.last)
    return _bad(
        "TW3112",
        f"{one.name} and {other.name} share the bytes {start:#x} to {end:#x} of {space.upper()} "
        f"while both are live (steps {max(first, 0) // 2} to {last // 2})",
    )


def lifetime(
    model: AtlasArtifact, region: Region, spans: list[tuple[Entry, int, int]]
) -> tuple[int, int]:
    """From when to when a region's bytes must stay, in the times of `_Life`.

    Weights stay for ever: they are written once. So does state, from run to run. Inputs are there before their part begins,
    outputs are read when it has ended. What a loop reads from outside it reads in every iteration,
    and what every iteration writes for later stays until the last one.
    """
    if region.space == "dram" and region.kind in ("weight", "constant", "state"):
        return _BEFORE, 2 * len(model.steps)
    first, last = region.first, region.last
    for loop in model.loops:
        final = loop.end - 1
        if first < loop.first <= last < final:
            last = final
        if loop.first < first <= final < last and region.count > 1:
            first = loop.first
    first, last = 2 * first, 2 * last
    for entry, begin, end in spans:
        if region.name in entry.inputs:
            first = min(first, 2 * begin - 1)
        if region.name in entry.outputs:
            last = max(last, 2 * end - 1)
    if region.kind in ("weight", "constant"):
        first = _BEFORE
    return first, last


def entry_spans(model: AtlasArtifact) -> list[tuple[Entry, int, int]]:
    """Entries with their first step and the step after their last."""
    result = []
    for entry in model.entries.values():
        mine = [n for n, step in enumerate(model.steps) if step.segment in entry.segments]
        if mine:
            result.append((entry, mine[0], mine[-1] + 1))
    return result


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _bad(code: str, message: str, hint: str | None = None) -> Finding:
    return Finding(code, message, hint=hint)
