"""Is a design legal? Every limit of the array, and every rule of FIFOs and tasks, by name.

The checker starts from the design and its lowering and recomputes what they should be; it shares
nothing with the mapper that made them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError, TilewrightErrors
from tilewright.targets.xdna.descriptors import encode, legalise_one
from tilewright.targets.xdna.design import (
    Call,
    Design,
    Fifo,
    Link,
    Replay,
    SetParameter,
    Start,
    Tile,
    Transfer,
    is_memory,
    statements,
    stream_order,
)
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.events import simulate_time
from tilewright.targets.xdna.kernel_time import kernel_time
from tilewright.targets.xdna.lowering import DmaEnd, Lowering, lower
from tilewright.targets.xdna.programs import CoreTrace, trace_core
from tilewright.targets.xdna.routing import edge_streams
from tilewright.targets.xdna.tokens import check_tokens
from tilewright.targets.xdna.values import dram_counts

LOCK_LIMIT = 63


@dataclass(frozen=True)
class Check:
    """One limit: what the design uses of it. `detail` says what is wrong if it is."""

    name: str
    used: float
    limit: float
    ok: bool
    detail: str = ""

    def to_json(self) -> dict[str, object]:
        made: dict[str, object] = {
            "name": self.name,
            "used": self.used,
            "limit": self.limit,
            "ok": self.ok,
        }
        return {**made, "detail": self.detail} if self.detail else made


def check_design(
    design: Design, lowering: Lowering | None = None, deadlock: bool = True
) -> list[Check]:
    """All checks; a design that is not even well formed gets the check `structure` alone."""
    problems = structure_problems(design)
    if problems:
        return [Check("structure", len(problems), 0, False, "; ".join(problems[:4]))]
    checks = [Check("structure", 0, 0, True)]
    if lowering is None:
        try:
            lowering = lower(design)
        except TilewrightError as error:
            return [*checks, Check("descriptor_fields", 1, 0, False, error.message)]
    checks += _resources(design, lowering)
    checks.append(_consistency(design, lowering))
    checks.append(_descriptor_words(design, lowering))
    checks.append(_descriptor_walks(design, lowering))
    checks += _memory(design, lowering)
    if design.gemm is not None:
        checks.append(_declared_memory(design, lowering))
    checks.append(_transfers(design))
    checks += _routing(design)
    checks += _programs(design)
    try:
        traces = {core.tile: trace_core(design, core) for core in design.cores}
    except TilewrightError as error:
        return [*checks, Check("core_programs", 1, 0, False, error.message)]
    checks.append(Check("core_programs", 0, 0, True))
    checks.append(_balance(design, traces))
    checks += _tokens(design, traces)
    checks.append(_coverage(design))
    if deadlock and all(check.ok for check in checks):
        checks.append(_deadlock(design))
    return checks


def require(checks: list[Check]) -> None:
    """Raise what is wrong, all of it."""
    errors = [
        TilewrightError(
            "TW8046",
            f"check {check.name} failed: {check.detail or f'{check.used} of {check.limit}'}",
        )
        for check in checks
        if not check.ok
    ]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise TilewrightErrors(errors)


# -- structure --------------------------------------------------------------------------------


def structure_problems(design: Design) -> list[str]:
    """Names, tiles, links and reorders that do not fit together."""
    device = design.device
    problems: list[str] = []
    names = Counter(fifo.name for fifo in design.fifos)
    problems += [f"FIFO @{name} is declared twice" for name, many in names.items() if many > 1]
    rows = device.core_rows + 2
    for fifo in design.fifos:
        for tile in (fifo.producer, *fifo.consumers):
            if not (0 <= tile.column < device.columns and 0 <= tile.row < rows):
                problems.append(f"FIFO @{fifo.name} ends at {tile}, which {device.name} has not")
        if fifo.depth < 1 or not fifo.consumers:
            problems.append(f"FIFO @{fifo.name} has no slot or no consumer")
        if fifo.from_stream and len(fifo.from_stream) != len(fifo.consumers):
            problems.append(f"FIFO @{fifo.name} reorders for {len(fifo.from_stream)} consumers")
        if SHIM_ROW in (c.row for c in fifo.consumers) and len(fifo.consumers) > 1:
            problems.append(f"FIFO @{fifo.name} is a broadcast to a shim")
    if problems:
        return problems
    for link in design.links:
        problems += _link_problems(design, link)
    if not problems:
        for fifo in design.fifos:
            problems += _reorder_problems(design, fifo)
    tiles = Counter(core.tile for core in design.cores)
    problems += [f"tile {tile} has two cores" for tile, many in tiles.items() if many > 1]
    for core in design.cores:
        if core.tile.row < 2:
            problems.append(f"tile {core.tile} has no core")
        for statement in statements(core.body):
            if isinstance(statement, Call) and statement.kernel not in design.kernel_by_name:
                problems.append(
                    f"core {core.tile} calls @{statement.kernel}, which is not declared"
                )
    problems += _step_problems(design)
    return problems


def _link_problems(design: Design, link: Link) -> list[str]:
    ends = [*link.inputs, *link.outputs]
    missing = [name for name in ends if name not in design.by_name]
    if missing:
        return [f"a link names @{missing[0]}, which is not declared"]
    if len(link.inputs) != 1 and len(link.outputs) != 1:
        return [f"the link to @{link.outputs[0]} is neither a split nor a join"]
    tiles = {tile for name in link.inputs for tile in design.fifo(name).consumers}
    tiles |= {design.fifo(name).producer for name in link.outputs}
    if len(tiles) != 1 or not is_memory(next(iter(tiles))):
        return [f"the link from @{link.inputs[0]} does not meet in one memory tile"]
    parts = max(len(link.inputs), len(link.outputs))
    if parts > 1 and len(link.offsets) != parts:
        return [f"the link at @{ends[0]} has {parts} parts and {len(link.offsets)} offsets"]
    problems = []
    if parts > 1:
        segments = design.segments(link)
        if link.offsets[0] != 0 or any(count < 1 for count in segments):
            problems.append(f"the offsets of the link at @{ends[0]} do not rise from 0")
        elif link.join:
            for name, count in zip(link.inputs, segments, strict=True):
                if design.fifo(name).object.count != count:
                    problems.append(
                        f"@{name} brings {design.fifo(name).object.count} elements into a part of {count}"
                    )
        else:
            for name, count in zip(link.outputs, segments, strict=True):
                if count % design.fifo(name).object.count:
                    problems.append(f"a part of {count} elements is no whole object of @{name}")
    elif design.fifo(link.inputs[0]).object.bytes % design.fifo(link.outputs[0]).object.bytes:
        problems.append(f"objects of @{link.outputs[0]} do not divide those of @{link.inputs[0]}")
    if link.residency is not None:
        if link.residency.sweeps < 2 or min(link.residency.slots) < 1 or parts > 1:
            problems.append(f"the panel at @{ends[0]} is not one that is sent at least twice")
        owner = design.memory_fifo(link)
        if owner.depth != len(link.residency.slots):
            problems.append(
                f"@{owner.name} has depth {owner.depth} and {len(link.residency.slots)} panel slots"
            )
    elements = {design.fifo(name).object.element for name in ends}
    if len(elements) > 1:
        problems.append(f"the link at @{ends[0]} joins different element types")
    return problems


def _reorder_problems(design: Design, fifo: Fifo) -> list[str]:
    """Each reorder has to visit every element of its object or part exactly once."""
    problems = []
    link = design.link_out_of.get(fifo.name)
    sent = {fifo.object.count}
    if link is not None:
        segments = design.segments(link)
        sent = set(segments) if link.join else {segments[link.outputs.index(fifo.name)]}
    for count in sent:
        if fifo.to_stream and not stream_order(fifo.to_stream, count).covers(count, exactly=True):
            problems.append(
                f"the order in which @{fifo.name} leaves does not visit its {count} elements once"
            )
    for dimensions in set(fifo.from_stream):
        if dimensions and not stream_order(dimensions, fifo.object.count).covers(
            fifo.object.count, exactly=True
        ):
            problems.append(f"the order in which @{fifo.name} arrives does not fill its objects")
    return problems


def _step_problems(design: Design) -> list[str]:
    problems = []
    cores = {core.tile for core in design.cores}
    for step in design.runtime:
        if isinstance(step, SetParameter | Start):
            if step.tile not in cores:
                problems.append(f"the controller speaks to core {step.tile}, which has no program")
            continue
        fifo = design.by_name.get(step.fifo)
        if fifo is None:
            problems.append(f"the runtime sequence names @{step.fifo}, which is not declared")
        elif isinstance(step, Transfer):
            shim = fifo.producer.row == SHIM_ROW or fifo.consumers[0].row == SHIM_ROW
            if not shim:
                problems.append(
                    f"@{fifo.name} does not end at a shim, the controller cannot fill it"
                )
            if step.buffer not in design.buffer_by_name:
                problems.append(f"a transfer of @{fifo.name} names buffer {step.buffer}")
        elif isinstance(step, Replay):
            link = design.link_out_of.get(step.fifo)
            if link is None or link.residency is None or link.residency.sweeps != step.sweeps:
                problems.append(f"@{step.fifo} has no panel to send {step.sweeps} times")
    return problems


# -- resources --------------------------------------------------------------------------------


def _worst(name: str, used: dict[Tile, int], limit: dict[Tile, int], what: str) -> Check:
    """The tile that uses most of a limit."""
    tile = max(used, key=lambda t: (used[t] / max(1, limit[t]), t))
    ok = used[tile] <= limit[tile]
    detail = f"tile {tile} needs {used[tile]} {what}, it has {limit[tile]}" if not ok else ""
    return Check(name, used[tile], limit[tile], ok, detail)


def _resources(design: Design, lowering: Lowering) -> list[Check]:
    checks = []
    by_tile: dict[Tile, list[DmaEnd]] = defaultdict(list)
    for end in lowering.ends:
        by_tile[end.tile].append(end)
    for kind, row in (("shim", 0), ("memory", 1), ("core", 2)):
        tiles = {t: e for t, e in by_tile.items() if min(t.row, 2) == row}
        if not tiles:
            continue
        limits = design.device.tile[kind]
        for direction in ("S2MM", "MM2S"):
            used = {t: sum(e.direction == direction for e in ends) for t, ends in tiles.items()}
            limit = dict.fromkeys(tiles, limits.channels(direction))
            checks.append(
                _worst(f"{kind}_{direction.lower()}_channels", used, limit, f"{direction} channels")
            )
        if kind == "shim":
            used = {}
            for tile in tiles:
                ids = [
                    step.descriptor
                    for step in design.runtime
                    if isinstance(step, Transfer) and _shim(design, step) == tile
                ]
                used[tile] = max(ids, default=-1) + 1
            limit = dict.fromkeys(tiles, limits.descriptors)
            checks.append(_worst("shim_descriptors", used, limit, "descriptors"))
            continue
        for parity, label in ((0, "even"), (1, "odd")) if limits.parity else ((None, ""),):
            used = {
                t: sum(
                    len(e.descriptors) for e in ends if parity is None or e.channel % 2 == parity
                )
                for t, ends in tiles.items()
            }
            room = limits.descriptors // (2 if limits.parity else 1)
            name = f"{kind}_descriptors" + (f"_{label}_channels" if label else "")
            checks.append(_worst(name, used, dict.fromkeys(tiles, room), "descriptors"))
        locks = Counter(pair.tile for pair in lowering.locks)
        used = {t: 2 * locks[t] for t in tiles}
        checks.append(_worst(f"{kind}_locks", used, dict.fromkeys(tiles, limits.locks), "locks"))
    values = [max(p.free_value, p.full_value) for p in lowering.locks]
    most = max(values, default=0)
    checks.append(
        Check("lock_values", most, LOCK_LIMIT, most <= LOCK_LIMIT and min(values, default=0) >= 0)
    )
    return checks


def _shim(design: Design, step: Transfer) -> Tile:
    fifo = design.fifo(step.fifo)
    return fifo.producer if fifo.producer.row == SHIM_ROW else fifo.consumers[0]


def _consistency(design: Design, lowering: Lowering) -> Check:
    """depth = buffers = descriptors per segment = initial free count, at every end."""
    problems = []
    pairs = {pair.name: pair for pair in lowering.locks}
    placed = {buffer.name for buffer in lowering.buffers}
    for end in lowering.ends:
        if end.tile.row == SHIM_ROW:
            continue
        fifo = design.fifo(end.fifo)
        link = design.link_into.get(fifo.name) if end.tile in fifo.consumers else None
        if link is None and end.tile == fifo.producer:
            link = design.link_out_of.get(fifo.name)
        depth = fifo.depth if link is None else design.memory_fifo(link).depth
        expected = depth
        if end.resident:
            expected = 2 * depth + 1
        per_segment = len(end.descriptors) / max(1, end.segments)
        where = f"@{end.fifo} at {end.tile}"
        if per_segment != expected:
            problems.append(
                f"{where} has {per_segment:g} descriptors per segment for depth {depth}"
            )
        if len(set(end.buffers)) != depth or not set(end.buffers) <= placed:
            problems.append(f"{where} has {len(end.buffers)} buffers for depth {depth}")
        for name in end.locks:
            pair = pairs.get(name)
            if pair is None or pair.free_value != depth or pair.full_value != 0:
                problems.append(f"the locks of {where} do not begin with {depth} free slots")
    ok = not problems
    return Check("fifo_consistency", len(problems), 0, ok, "; ".join(problems[:3]))


def _descriptor_words(design: Design, lowering: Lowering) -> Check:
    """Every descriptor has register words, no id is used twice, locks exist."""
    problems = []
    ids: dict[tuple[Tile, int], str] = {}
    for end in lowering.ends:
        kind = design.device.kind(end.tile.row)
        for use in end.descriptors:
            try:
                encode(use.descriptor, kind)
            except TilewrightError as error:
                problems.append(f"@{end.fifo} at {end.tile}: {error.message}")
            half = kind.descriptors // 2
            if kind.parity and use.identity // half != end.channel % 2:
                problems.append(
                    f"@{end.fifo} at {end.tile}: descriptor {use.identity} is of the other parity"
                )
            if (end.tile, use.identity) in ids:
                problems.append(f"descriptor {use.identity} of {end.tile} has two owners")
            ids[end.tile, use.identity] = end.fifo
    return Check("descriptor_fields", len(problems), 0, not problems, "; ".join(problems[:3]))


def _descriptor_walks(design: Design, lowering: Lowering) -> Check:
    """The descriptors of each slot, one after the other, walk the object as the FIFO says."""
    problems = []
    places = {buffer.name: buffer for buffer in lowering.buffers}
    expected_of: dict[tuple[object, ...], np.ndarray] = {}
    for end in lowering.ends:
        if end.tile.row == SHIM_ROW:
            continue
        fifo = design.fifo(end.fifo)
        roles = ("first", "replay", "last") if end.resident else ("",)
        for role in roles:
            slots = [0] if role == "replay" else range(len(end.buffers))
            for slot in slots:
                uses = [u for u in end.descriptors if (u.slot, u.role) == (slot, role)]
                place = places.get(end.buffers[slot]) if slot < len(end.buffers) else None
                if not uses or place is None or place.holder is None:
                    problems.append(f"slot {slot} of @{end.fifo} at {end.tile} is never moved")
                    continue
                start = place.address
                if is_memory(end.tile):
                    beside = place.holder.column - end.tile.column + 1
                    start += beside * design.device.kind(end.tile.row).memory_bytes
                panel = _panel_of(design, fifo, end.tile) is not None
                reorder = (
                    end.direction
                    if end.direction == "MM2S"
                    else fifo.arriving(fifo.consumers.index(end.tile))
                )
                key = (end.fifo, reorder, role, slot if panel else 0)
                if key not in expected_of:
                    expected_of[key] = _expected_words(design, fifo, end.tile, slot, role)
                walked = np.concatenate([u.descriptor.pattern().walk() for u in uses]) - start // 4
                if not np.array_equal(walked, expected_of[key]):
                    problems.append(f"slot {slot} of @{end.fifo} at {end.tile} is walked otherwise")
                takes = role in ("", "first")
                gives = role in ("", "last")
                if any((u.descriptor.acquire is not None) != takes for u in uses) or any(
                    (u.descriptor.release is not None) != gives for u in uses
                ):
                    problems.append(f"slot {slot} of @{end.fifo} at {end.tile} misuses its locks")
    return Check("descriptor_walks", len(problems), 0, not problems, "; ".join(problems[:3]))


def _panel_of(design: Design, fifo: Fifo, tile: Tile) -> Link | None:
    link = design.link_into.get(fifo.name) if tile in fifo.consumers else None
    if link is None and tile == fifo.producer:
        link = design.link_out_of.get(fifo.name)
    return link if link is not None and link.residency is not None else None


def _expected_words(design: Design, fifo: Fifo, tile: Tile, slot: int, role: str) -> np.ndarray:
    """Words of a slot's buffer in the order a FIFO's end visits them, written out."""
    leaving = tile == fifo.producer
    dimensions = fifo.to_stream if leaving else fifo.arriving(fifo.consumers.index(tile))
    link = (design.link_out_of if leaving else design.link_into).get(fifo.name)
    if link is None or not is_memory(tile):
        order = stream_order(dimensions, fifo.object.count).walk()
    elif link.residency is not None:
        count = design.memory_fifo(link).object.count
        slots = link.residency.slots
        many = sum(slots) if role == "replay" else slots[slot]
        one = stream_order(dimensions, count).walk()
        order = (np.arange(many)[:, None] * count + one).reshape(-1)
    else:
        segments = design.segments(link)
        offsets = link.offsets if len(segments) > 1 else (0,)
        whole = design.memory_fifo(link).name == fifo.name
        if whole and link.join:
            parts = zip(offsets, segments, strict=True)
            order = np.concatenate([o + stream_order(dimensions, n).walk() for o, n in parts])
        elif whole:
            order = stream_order(dimensions, sum(segments)).walk()
        else:
            i = (link.inputs if link.join else link.outputs).index(fifo.name)
            order = offsets[i] + stream_order(dimensions, segments[i]).walk()
    size = fifo.object.element_bytes
    return order.reshape(-1, 4 // size)[:, 0] * size // 4 if size < 4 else order


def _memory(design: Design, lowering: Lowering) -> list[Check]:
    """Bytes, overlaps, alignment and reach of the buffers."""
    checks = []
    align = design.device.alignment
    stacks = {core.tile: core.stack_bytes for core in design.cores}
    lost = [b for b in lowering.buffers if b.holder is None]
    for kind, row in (("core", 2), ("memory", 1)):
        room = design.device.tile[kind].memory_bytes
        used: dict[Tile, int] = defaultdict(int)
        for buffer in lowering.buffers:
            if min(buffer.tile.row, 2) == row:
                used[buffer.holder or buffer.tile] += buffer.bytes
        for tile, stack in stacks.items():
            if row == 2:
                used[tile] += stack
        if used:
            name = "l1_bytes" if kind == "core" else "l2_bytes_per_tile"
            checks.append(_worst(name, dict(used), dict.fromkeys(used, room), "bytes"))
    problems = [f"buffer {b.name} of {b.bytes} bytes has no place" for b in lost]
    spans: dict[Tile, list[tuple[int, int, str]]] = defaultdict(list)
    for buffer in lowering.buffers:
        if buffer.holder is None:
            continue
        if (
            buffer.holder.row != buffer.tile.row
            or abs(buffer.holder.column - buffer.tile.column) > 1
        ):
            problems.append(f"buffer {buffer.name} lies in {buffer.holder}, out of reach")
        if buffer.address + buffer.bytes > design.device.kind(buffer.holder.row).memory_bytes:
            problems.append(f"buffer {buffer.name} ends beyond the memory of {buffer.holder}")
        if buffer.address < stacks.get(buffer.holder, 0):
            problems.append(f"buffer {buffer.name} lies in the stack of {buffer.holder}")
        if buffer.tile.row >= 2 and buffer.address % align:
            problems.append(
                f"buffer {buffer.name} at {buffer.address:#x} is not aligned to {align}"
            )
        spans[buffer.holder].append((buffer.address, buffer.address + buffer.bytes, buffer.name))
    for held in spans.values():
        held.sort()
        for (_, end, one), (start, _, other) in zip(held, held[1:], strict=False):
            if start < end:
                problems.append(f"buffers {one} and {other} overlap")
    checks.append(
        Check("buffer_placement", len(problems), 0, not problems, "; ".join(problems[:3]))
    )
    return checks


def _declared_memory(design: Design, lowering: Lowering) -> Check:
    """The buffers are those of the problem that the design says it solves, no fewer, no more."""
    assert design.gemm is not None
    gemm = design.gemm
    expected = {"core": gemm.rows * gemm.columns * (gemm.l1_bytes - gemm.stack_bytes)}
    if gemm.wide_sum and gemm.output != "f32":
        expected["core"] -= gemm.rows * gemm.columns * 4 * gemm.m * gemm.n
    expected["memory"] = gemm.l2_bytes
    problems = []
    for kind, memory in (("core", False), ("memory", True)):
        used = sum(b.bytes for b in lowering.buffers if is_memory(b.tile) == memory)
        if used != expected[kind]:
            problems.append(f"{kind} tiles hold {used} bytes, the design says {expected[kind]}")
    return Check("declared_memory", len(problems), 0, not problems, "; ".join(problems))


def _transfers(design: Design) -> Check:
    """Each shim transfer is one legal descriptor inside its buffer."""
    problems: list[str] = []
    seen: set[tuple[object, ...]] = set()
    shim = design.device.tile["shim"]
    for step in design.runtime:
        if not isinstance(step, Transfer):
            continue
        fifo, buffer = design.fifo(step.fifo), design.buffer_by_name[step.buffer]
        pattern = step.pattern
        if pattern.lowest < 0 or pattern.highest >= buffer.count:
            problems.append(f"a transfer of @{step.fifo} leaves buffer {step.buffer}: {pattern}")
        if buffer.element != fifo.object.element:
            problems.append(
                f"@{step.fifo} moves {fifo.object.element}, {step.buffer} is {buffer.element}"
            )
        key = (fifo.object.element_bytes, step.sizes, step.strides, step.offset % 4)
        if key not in seen:
            seen.add(key)
            try:
                legalise_one(pattern, fifo.object.element_bytes, shim, iteration=True)
            except TilewrightError as error:
                problems.append(f"@{step.fifo}: {error.message}")
            if step.sizes[0] > design.device.max_repeat:
                problems.append(f"@{step.fifo} repeats {step.sizes[0]} times")
        if not 0 <= step.descriptor < shim.descriptors:
            problems.append(f"@{step.fifo} uses descriptor {step.descriptor}")
    return Check("shim_transfers", len(problems), 0, not problems, "; ".join(problems[:3]))


def _routing(design: Design) -> list[Check]:
    """Streams over each edge of the switches against the ports there."""
    worst = Check("switch_edge_streams", 0, 1, True)
    for (tile, side), streams in edge_streams(design).items():
        ports = design.device.kind(tile.row).ports.get(side, (0, 0))[0]
        used = len(streams)
        if used / max(1, ports) > worst.used / max(1, worst.limit) or used > ports:
            detail = f"{used} streams leave {tile} to the {side}" if used > ports else ""
            worst = Check("switch_edge_streams", used, ports, used <= ports, detail)
            if not worst.ok:
                break
    return [worst]


def _programs(design: Design) -> list[Check]:
    """Bundles of the kernels against program memory."""
    room = design.device.tile["core"].program_bytes
    bundles = sum(
        kernel_time(kernel, design.device).bundles
        for kernel in design.kernels
        if kernel.kind == "multiply"
    )
    used = bundles * design.device.core.bundle_bytes
    return [Check("program_bytes", used, room, used <= room)] if design.kernels else []


# -- flow -------------------------------------------------------------------------------------


def _balance(design: Design, traces: dict[Tile, CoreTrace]) -> Check:
    """What enters each FIFO leaves it: whole objects, as many as the cores and drains take.

    A design that does not say what it computes may leave objects behind; whether they fit their
    slots is for the deadlock check.
    """
    problems = []
    left_over = []
    streams: dict[str, int] = {}

    def stream(name: str) -> int:
        """Elements that leave the producer of a FIFO."""
        if name in streams:
            return streams[name]
        streams[name] = 0  # a cycle ends here; the deadlock check names it
        fifo = design.fifo(name)
        link = design.link_out_of.get(name)
        if fifo.producer.row == SHIM_ROW:
            total = sum(move.pattern.count for move in design.transfers(name))
        elif link is not None:
            objects = [stream(i) // design.fifo(i).object.count for i in link.inputs]
            if len(set(objects)) > 1:
                problems.append(f"the parts joined into @{name} differ in number: {objects}")
            segments = design.segments(link)
            each = sum(segments) if link.join else segments[link.outputs.index(name)]
            total = objects[0] * each
            if link.residency is not None:
                pushes = [s for s in design.runtime if isinstance(s, Replay) and s.fifo == name]
                if len(pushes) * link.residency.objects != objects[0]:
                    problems.append(f"@{name} gets {objects[0]} objects for {len(pushes)} panels")
                total *= link.residency.sweeps
        else:
            trace = traces.get(fifo.producer)
            total = (trace.released.get(name, 0) if trace else 0) * fifo.object.count
        streams[name] = total
        return total

    for fifo in design.fifos:
        total = stream(fifo.name)
        if total % fifo.object.count:
            problems.append(f"@{fifo.name} ends in the middle of an object")
        for tile in fifo.consumers:
            if tile.row == SHIM_ROW:
                taken = sum(move.pattern.count for move in design.transfers(fifo.name))
                if taken != total:
                    problems.append(
                        f"@{fifo.name} carries {total} elements, its drains take {taken}"
                    )
            elif tile in traces:
                taken = traces[tile].acquired.get(fifo.name, 0)
                if taken * fifo.object.count != total:
                    allowed = design.gemm is None and taken * fifo.object.count < total
                    (left_over if allowed else problems).append(
                        f"@{fifo.name} brings {total // fifo.object.count} objects, core {tile}"
                        f" takes {taken}"
                    )
    detail = "; ".join((problems or left_over)[:3])
    return Check("flow_balance", len(problems), 0, not problems, detail)


def _tokens(design: Design, traces: dict[Tile, CoreTrace]) -> list[Check]:
    report = check_tokens(design, traces)
    most = max(report.most_outstanding.values(), default=0)
    queues = [p for p in report.problems if p.startswith("the queue")]
    others = [p for p in report.problems if not p.startswith("the queue")]
    return [
        Check("task_queue", most, design.device.outstanding, not queues, "; ".join(queues[:2])),
        Check("tokens", len(others), 0, not others, "; ".join(others[:3])),
    ]


def _coverage(design: Design) -> Check:
    """Drained buffers are written once everywhere, filled ones read equally often everywhere."""
    drained = {
        step.buffer
        for step in design.runtime
        if isinstance(step, Transfer) and not design.is_fill(design.fifo(step.fifo))
    }
    try:
        counts = dram_counts(design)
    except TilewrightError as error:
        return Check("dram_coverage", 1, 0, False, error.message)
    problems = []
    used = {step.buffer for step in design.runtime if isinstance(step, Transfer)}
    for name in used:
        low, high = int(counts[name].min()), int(counts[name].max())
        if name in drained and (low, high) != (1, 1):
            problems.append(f"elements of {name} are written {low} to {high} times")
        elif design.gemm is not None and low != high:
            problems.append(f"elements of {name} are read {low} to {high} times")
    if design.gemm is not None and not problems:
        sizes = {b.name: b.bytes for b in design.buffers}
        expected = design.gemm.dram_bytes()
        for name in used:
            times = int(counts[name].max())
            if times * sizes[name] != expected[name.lower()]:
                problems.append(f"{name} crosses DRAM {times} times, the policy says otherwise")
    return Check("dram_coverage", len(problems), 0, not problems, "; ".join(problems[:3]))


def _deadlock(design: Design) -> Check:
    try:
        simulate_time(design)
    except TilewrightError as error:
        return Check("deadlock", 1, 0, False, error.message)
    return Check("deadlock", 0, 0, True)
