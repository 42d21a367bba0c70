"""Whether a design is well formed: names, tiles, links, reorders and steps that fit together."""

from __future__ import annotations

from collections import Counter

from tilewright.targets.xdna.design import (
    Acquire,
    Call,
    Design,
    Fifo,
    Link,
    Release,
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
from tilewright.targets.xdna.problem import MAX_ELEMENTS, WEIGHT_BITS

MAX_DEPTH = 4096


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
        if not 1 <= fifo.depth <= MAX_DEPTH or not fifo.consumers:
            problems.append(f"FIFO @{fifo.name} has no consumer or {fifo.depth} slots")
        if fifo.object.bytes > device.tile["memory"].memory_bytes:
            problems.append(f"objects of FIFO @{fifo.name} are larger than any memory")
        if fifo.producer in fifo.consumers or len(set(fifo.consumers)) < len(fifo.consumers):
            problems.append(f"FIFO @{fifo.name} ends twice in the same tile")
        if fifo.from_stream and len(fifo.from_stream) != len(fifo.consumers):
            problems.append(f"FIFO @{fifo.name} reorders for {len(fifo.from_stream)} consumers")
        if SHIM_ROW in (c.row for c in fifo.consumers) and len(fifo.consumers) > 1:
            problems.append(f"FIFO @{fifo.name} is a broadcast to a shim")
    problems += [
        f"buffer {buffer.name} has {buffer.count} elements, {MAX_ELEMENTS} are followed"
        for buffer in design.buffers
        if buffer.count > MAX_ELEMENTS
    ]
    ends = Counter(name for link in design.links for name in link.inputs)
    starts = Counter(name for link in design.links for name in link.outputs)
    for many in (ends, starts):
        problems += [f"FIFO @{name} is linked twice" for name, count in many.items() if count > 1]
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
            if isinstance(statement, Call):
                problems += _call_problems(design, core.tile, statement)
            elif isinstance(statement, Acquire | Release) and statement.fifo not in design.by_name:
                problems.append(f"core {core.tile} uses @{statement.fifo}, which is not declared")
    problems += _step_problems(design)
    return problems


def _call_problems(design: Design, tile: Tile, call: Call) -> list[str]:
    """Operands of a kernel whose meaning is known have its sizes and types."""
    kernel = design.kernel_by_name.get(call.kernel)
    if kernel is None:
        return [f"core {tile} calls @{call.kernel}, which is not declared"]
    missing = [name for name, _ in call.operands if name not in design.by_name]
    if missing:
        return [f"core {tile} uses @{missing[0]}, which is not declared"]
    if kernel.kind == "opaque":
        return []
    c = (kernel.m * kernel.n, kernel.output)
    packed = kernel.weights in ("int4", "ternary")
    b_count = (
        kernel.k * kernel.n * WEIGHT_BITS[kernel.weights] // 8 if packed else kernel.k * kernel.n
    )
    expected = [
        (kernel.m * kernel.k, kernel.inputs),
        (b_count, "i8" if packed else kernel.inputs),
        c,
    ]
    if kernel.kind == "zero":
        expected = [c]
    objects = [design.fifo(name).object for name, _ in call.operands]
    if [(o.count, o.element) for o in objects] != expected:
        return [f"core {tile} calls @{call.kernel} with objects of other sizes or types"]
    *read, written = (design.fifo(name) for name, _ in call.operands)
    if written.producer != tile or any(tile not in fifo.consumers for fifo in read):
        return [f"core {tile} calls @{call.kernel} with an object of the wrong direction"]
    return []


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
        if not (
            link.residency.room == 0 or link.residency.objects <= link.residency.room <= MAX_DEPTH
        ):
            problems.append(f"the panel at @{ends[0]} has {link.residency.room} objects of room")
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
            if step.sweeps not in _sweeps(design, step.fifo):
                problems.append(f"@{step.fifo} has no panel to send {step.sweeps} times")
            elif step.sweeps - 2 > design.device.max_repeat:
                problems.append(f"@{step.fifo} repeats a task {step.sweeps - 2} times")
    return problems


def _sweeps(design: Design, fifo: str) -> range:
    """How often a resident panel may be sent: as often as the link says, in a staggered design
    also a part of that."""
    link = design.link_out_of.get(fifo)
    if link is None or link.residency is None:
        return range(0)
    most = link.residency.sweeps
    if design.gemm is None or not design.gemm.stagger:
        return range(most, most + 1)
    return range(2, most + 1) if most == design.gemm.row_tiles else range(0)
