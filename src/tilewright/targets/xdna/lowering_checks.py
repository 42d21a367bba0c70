"""Checks of a lowering: what each tile has room for, and whether it is the design's lowering.

Walks, counts and sizes are computed again from the design and written out; nothing of the code
that made the lowering is used.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.check import Check, worst
from tilewright.targets.xdna.descriptors import encode
from tilewright.targets.xdna.design import (
    Design,
    Fifo,
    Link,
    Tile,
    Transfer,
    is_memory,
    stream_order,
)
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.lowering import DmaEnd, Lowering

LOCK_LIMIT = 63


def resources(design: Design, lowering: Lowering) -> list[Check]:
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
                worst(f"{kind}_{direction.lower()}_channels", used, limit, f"{direction} channels")
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
            checks.append(worst("shim_descriptors", used, limit, "descriptors"))
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
            checks.append(worst(name, used, dict.fromkeys(tiles, room), "descriptors"))
        locks = Counter(pair.tile for pair in lowering.locks)
        used = {t: 2 * locks[t] for t in tiles}
        checks.append(worst(f"{kind}_locks", used, dict.fromkeys(tiles, limits.locks), "locks"))
    values = [max(p.free_value, p.full_value) for p in lowering.locks]
    most = max(values, default=0)
    checks.append(
        Check("lock_values", most, LOCK_LIMIT, most <= LOCK_LIMIT and min(values, default=0) >= 0)
    )
    return checks


def _shim(design: Design, step: Transfer) -> Tile:
    fifo = design.fifo(step.fifo)
    return fifo.producer if fifo.producer.row == SHIM_ROW else fifo.consumers[0]


def consistency(design: Design, lowering: Lowering) -> Check:
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


def descriptor_words(design: Design, lowering: Lowering) -> Check:
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


def descriptor_walks(design: Design, lowering: Lowering) -> Check:
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


def memory(design: Design, lowering: Lowering) -> list[Check]:
    """Bytes, overlaps, alignment and reach of the buffers."""
    checks = []
    align = design.device.alignment
    stacks = {core.tile: core.stack_bytes for core in design.cores}
    lost = [b for b in lowering.buffers if b.holder is None]
    # f32 sums beside a narrower C lie in the core as well.
    wide = [k for k in design.kernels if k.kind == "multiply" and k.wide_sum and k.output != "f32"]
    sums = max((4 * kernel.m * kernel.n for kernel in wide), default=0)
    for kind, row in (("core", 2), ("memory", 1)):
        room = design.device.tile[kind].memory_bytes
        used: dict[Tile, int] = defaultdict(int)
        for buffer in lowering.buffers:
            if min(buffer.tile.row, 2) == row:
                used[buffer.holder or buffer.tile] += buffer.bytes
        for tile, stack in stacks.items():
            if row == 2:
                used[tile] += stack + sums
        if used:
            name = "l1_bytes" if kind == "core" else "l2_bytes_per_tile"
            checks.append(worst(name, dict(used), dict.fromkeys(used, room), "bytes"))
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
        for (_, end, one), (start, _, other) in itertools.pairwise(held):
            if start < end:
                problems.append(f"buffers {one} and {other} overlap")
    checks.append(
        Check("buffer_placement", len(problems), 0, not problems, "; ".join(problems[:3]))
    )
    return checks


def declared_memory(design: Design, lowering: Lowering) -> Check:
    """The buffers are those of the problem that the design says it solves, no fewer, no more."""
    assert design.gemm is not None
    gemm = design.gemm
    expected = {"core": gemm.rows * gemm.columns * (gemm.l1_bytes - gemm.stack_bytes)}
    if gemm.wide_sum and gemm.output != "f32":
        expected["core"] -= gemm.rows * gemm.columns * 4 * gemm.m * gemm.n
    expected["memory"] = gemm.l2_bytes
    problems = [
        f"core {core.tile} has {core.stack_bytes} bytes of stack, the policy {gemm.stack_bytes}"
        for core in design.cores
        if core.stack_bytes != gemm.stack_bytes
    ]
    for kind, memory in (("core", False), ("memory", True)):
        used = sum(b.bytes for b in lowering.buffers if is_memory(b.tile) == memory)
        if used != expected[kind]:
            problems.append(f"{kind} tiles hold {used} bytes, the design says {expected[kind]}")
    return Check("declared_memory", len(problems), 0, not problems, "; ".join(problems))
