"""Whether a compiled model fits together: an independent look at what the compiler planned.

Nothing here knows how the model was made. It sees places, live ranges, code sizes and names, and
reports everything that would make a run read or write the wrong bytes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.errors import Location, TilewrightError, TilewrightErrors
from tilewright.runtime.check_values import check_values
from tilewright.runtime.compiled_model import CompiledModel, DevicePart, HostPart, Region
from tilewright.runtime.manifest import MAX_ENTRIES, ORDERS, SPACES
from tilewright.runtime.port_types import FLOATS, PORT_TYPES
from tilewright.tile.layouts import TILE_BYTES

MAX_OPERANDS = 256
MAX_FINDINGS = 20
_BEFORE = -1


def check(model: CompiledModel) -> list[TilewrightError]:
    """Everything that is wrong with a model, at most 20 findings; empty if it fits together."""
    findings: list[TilewrightError] = []
    for part in (_places, _steps, _ports, _parts, _weights, _overlaps, check_values):
        for finding in part(model):
            findings.append(finding)
            if len(findings) == MAX_FINDINGS:
                return findings
        if findings and part not in (_weights, _overlaps):
            break  # later parts rely on what earlier ones found in order
    return findings


def require(model: CompiledModel, place: Location | None = None) -> None:
    """Raise what is wrong with a model."""
    findings = check(model)
    if findings:
        for finding in findings:
            if place is not None:
                finding.at(place)
        raise findings[0] if len(findings) == 1 else TilewrightErrors(findings)


# --- places and steps -------------------------------------------------------------------


def _places(model: CompiledModel) -> Iterator[TilewrightError]:
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
        if layout.arrangement is not None and layout.arrangement.stored != layout.shape:
            yield _bad("TW3110", f"the region {name} has an arrangement of another shape")
            continue
        pieces += region.count
        if region.count < 1 or pieces > MAX_ENTRIES:
            yield _bad("TW3110", f"the region {name} stands for {region.count} tensors")
        elif region.count > 1 and region.stride < layout.bytes:
            yield _bad(
                "TW3110",
                f"the rounds of region {name} overlap: each has {layout.bytes:,} bytes, "
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


def _steps(model: CompiledModel) -> Iterator[TilewrightError]:
    """Steps inside their segments, rounds inside the steps, operands that exist and are live."""
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
            elif not region.first <= number <= region.last:
                yield _bad(
                    "TW3114",
                    f"{what} uses {name}, which is live from step {region.first} to {region.last}",
                )
    end = total = 0
    for rounds in model.rounds:
        inside = model.steps[rounds.first : rounds.end]
        if not end <= rounds.first < rounds.end <= len(model.steps) or rounds.count < 1:
            yield _bad(
                "TW3114",
                f"the rounds of steps {rounds.first} to {rounds.end} are out of order or "
                f"outside the {len(model.steps)} steps",
            )
            return
        if rounds.names and len(rounds.names) != rounds.count:
            yield _bad(
                "TW3114",
                f"{rounds.count} rounds have {len(rounds.names)} names, from step {rounds.first} on",
            )
        for step in inside:
            for name in step.operands.values():
                region = model.regions.get(name)
                if region is not None and region.count not in (1, rounds.count):
                    yield _bad(
                        "TW3114",
                        f"{name} has {region.count} tensors, step {step.name} runs {rounds.count} rounds",
                    )
        end = rounds.end
        total += rounds.count * len(inside)
    if total > MAX_ENTRIES:
        yield _bad("TW3114", f"the rounds amount to {total:,} steps")


# --- ports, parts, weights --------------------------------------------------------------


def _ports(model: CompiledModel) -> Iterator[TilewrightError]:
    for name, port in model.ports.items():
        if port.name != name or port.dtype not in PORT_TYPES:
            yield _bad(
                "TW3115", f"the port {name} has type {port.dtype!r} or another name than its key"
            )
        if port.region is None:
            continue
        region = model.regions.get(port.region)
        if region is None:
            yield _bad(
                "TW3115", f"the port {name} lies in region {port.region!r}, which does not exist"
            )
        elif math.prod(port.shape) != region.count * math.prod(region.layout.given):
            yield _bad(
                "TW3115",
                f"the port {name} has shape {_sizes(port.shape)}, its region "
                f"{_sizes(region.layout.given)}"
                + (f" x {region.count}" if region.count > 1 else ""),
            )
        elif port.dtype not in (*FLOATS, "i1"):
            yield _bad("TW3115", f"the port {name} is {port.dtype}, the device holds floats only")
    for names, noun in ((model.inputs, "input"), (model.outputs, "output")):
        for name in names:
            if name not in model.ports:
                yield _bad("TW3115", f"the {noun} {name!r} is not a port")
        if noun == "input" and len(set(names)) != len(names):
            yield _bad("TW3115", "an input has the name of another")
    for into, out in model.state.items():
        first, second = model.ports.get(into), model.ports.get(out)
        if into not in model.inputs or second is None or first is None:
            yield _bad("TW3115", f"the state {into!r} is no input or {out!r} is no port")
        elif (first.shape, first.dtype) != (second.shape, second.dtype):
            yield _bad(
                "TW3115", f"the state {into} and its next value {out} differ in shape or type"
            )


def _parts(model: CompiledModel) -> Iterator[TilewrightError]:
    """Every value is there before it is needed; segments run in the order of their steps."""
    known = set(model.inputs)
    order: list[int] = []
    for number, part in enumerate(model.parts):
        for name in (*part.inputs, *part.outputs):
            port = model.ports.get(name)
            if port is None:
                yield _bad("TW3115", f"part {number} has no port {name!r}")
            elif isinstance(part, DevicePart) and port.region is None:
                yield _bad("TW3115", f"part {number} runs on the device, {name} has no place there")
        for name in part.inputs:
            if name not in known:
                yield _bad("TW3115", f"part {number} needs {name} before it is computed")
        known.update(part.outputs)
        if isinstance(part, DevicePart):
            if set(order) & set(part.segments):
                yield _bad("TW3115", f"part {number} runs a segment that belongs to another part")
            order += part.segments
        elif isinstance(part, HostPart) and not model.host_module:
            yield _bad(
                "TW3115", f"part {number} runs {part.function} on the host, there is no host module"
            )
    for name in (*model.outputs, *model.state.values()):
        if name not in known:
            yield _bad("TW3115", f"nothing computes the output {name}")
    if any(segment not in range(len(model.segments)) for segment in order):
        yield _bad("TW3115", "a part runs a segment that does not exist")
        return
    yield from _order(model, order)


def _order(model: CompiledModel, order: list[int]) -> Iterator[TilewrightError]:
    """Segments come in the order of the steps in them, each run with at least its own."""
    at = 0
    for index, turn, step in model.calls():
        # A loop within a segment stays in it; one over several segments runs each once a round.
        while at < len(order) and order[at] != step.segment:
            at += 1
        if at == len(order):
            which = f"step {index} ({step.name})" + (f" of round {turn}" if turn else "")
            yield _bad("TW3115", f"{which} is in no part, or the segments are out of order")
            return


def _weights(model: CompiledModel) -> Iterator[TilewrightError]:
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


def _overlaps(model: CompiledModel) -> Iterator[TilewrightError]:
    """Two tensors in the same bytes at the same time."""
    spans = part_spans(model)
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


def _data_lives(model: CompiledModel, space: str) -> Iterator[_Life]:
    """Data that comes with the code of a segment: it arrives before its first step."""
    for number, program in enumerate(model.segments):
        mine = [index for index, step in enumerate(model.steps) if step.segment == number]
        first, last = (mine[0], mine[-1]) if mine else (0, len(model.steps))
        for data in program.data:
            if data.space == space and data.bytes:
                end = data.address + len(data.bytes)
                name = f"the data of segment {number}"
                yield _Life(2 * first - 1, 2 * last + 1, data.address, end, name)


def _sweep(model: CompiledModel, space: str, lives: list[_Life]) -> Iterator[TilewrightError]:
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


def _in_place(model: CompiledModel, old: _Life, new: _Life) -> bool:
    """Whether a step reads the one for the last time and writes the other over it."""
    if old.last != new.first or old.address != new.address or old.name == new.name:
        return False
    step, between = divmod(old.last, 2)
    if between or not 0 <= step < len(model.steps) or new.end > old.end:
        return False
    return {old.name, new.name} <= set(model.steps[step].operands.values())


def _overlap(space: str, one: _Life, other: _Life) -> TilewrightError:
    start, end = max(one.address, other.address), min(one.end, other.end)
    first, last = max(one.first, other.first), min(one.last, other.last)
    return _bad(
        "TW3112",
        f"{one.name} and {other.name} share the bytes {start:#x} to {end:#x} of {space.upper()} "
        f"while both are live (steps {max(first, 0) // 2} to {last // 2})",
    )


def lifetime(
    model: CompiledModel, region: Region, spans: list[tuple[DevicePart, int, int]]
) -> tuple[int, int]:
    """From when to when a region's bytes must stay, in the times of `_Life`.

    Weights stay for ever: they are written once. Inputs are there before their part begins,
    outputs are read when it has ended. What a loop reads from outside it reads in every round,
    and what every round writes for later stays until the last one.
    """
    if region.space == "dram" and region.kind in ("weight", "constant"):
        return _BEFORE, 2 * len(model.steps)
    first, last = region.first, region.last
    for rounds in model.rounds:
        final = rounds.end - 1
        if first < rounds.first <= last < final:
            last = final
        if rounds.first < first <= final < last and region.count > 1:
            first = rounds.first
    first, last = 2 * first, 2 * last
    for part, begin, end in spans:
        if region.name in (model.ports[name].region for name in part.inputs):
            first = min(first, 2 * begin - 1)
        if region.name in (model.ports[name].region for name in part.outputs):
            last = max(last, 2 * end - 1)
    if region.kind in ("weight", "constant"):
        first = _BEFORE
    return first, last


def part_spans(model: CompiledModel) -> list[tuple[DevicePart, int, int]]:
    """Device parts with their first step and the step after their last."""
    result = []
    for part in model.parts:
        if isinstance(part, DevicePart):
            mine = [n for n, step in enumerate(model.steps) if step.segment in part.segments]
            if mine:
                result.append((part, mine[0], mine[-1] + 1))
    return result


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _bad(code: str, message: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError(code, message, hint=hint)
