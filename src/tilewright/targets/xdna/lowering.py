"""What a design costs on each tile: channels, descriptors, buffers with addresses, locks.

Each end of a FIFO gets a DMA channel in the order the FIFOs are declared, a buffer and a descriptor
per slot, and a pair of locks (free slots, full slots). Linked FIFOs share the buffers and locks of
their memory tile; a split or join has a descriptor per buffer and a lock pair per segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.descriptors import Descriptor, LockUse, legalise_one
from tilewright.targets.xdna.design import Design, Fifo, Link, Tile, is_memory, stream_order
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.patterns import Pattern
from tilewright.targets.xdna.problem import round_up


@dataclass(frozen=True)
class BufferPlace:
    """A buffer, the tile whose DMA uses it and where it lies (None: nowhere, it did not fit)."""

    name: str
    fifo: str
    tile: Tile
    bytes: int
    holder: Tile | None
    address: int


@dataclass(frozen=True)
class LockPair:
    tile: Tile
    name: str
    free: int  # ids
    full: int
    free_value: int  # initial values
    full_value: int = 0


@dataclass(frozen=True)
class DescriptorUse:
    """A descriptor of a channel: its id, the slot it moves and its role in a resident panel."""

    identity: int
    descriptor: Descriptor
    slot: int
    segment: int
    role: str = ""  # "", or "first", "replay", "last" sweep


@dataclass(frozen=True)
class DmaEnd:
    """One end of a FIFO on a DMA channel."""

    fifo: str
    tile: Tile
    direction: str  # S2MM or MM2S
    channel: int
    segments: int
    descriptors: tuple[DescriptorUse, ...]
    buffers: tuple[str, ...]
    locks: tuple[str, ...]
    resident: bool = False


@dataclass(frozen=True)
class Lowering:
    ends: tuple[DmaEnd, ...]
    buffers: tuple[BufferPlace, ...]
    locks: tuple[LockPair, ...]

    def at(self, tile: Tile) -> list[DmaEnd]:
        return [end for end in self.ends if end.tile == tile]

    def end(self, fifo: str, tile: Tile, direction: str) -> DmaEnd:
        for end in self.ends:
            if (end.fifo, end.tile, end.direction) == (fifo, tile, direction):
                return end
        raise TilewrightError("TW8040", f"FIFO @{fifo} has no {direction} end at {tile}")


@dataclass
class _Allocation:
    """Buffers of one end that lie together."""

    names: list[str]
    sizes: list[int]
    fifo: str
    tile: Tile
    movable: bool = True

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


def lower(design: Design) -> Lowering:
    """Channels, descriptors, buffers and locks of a design."""
    channels = _channels(design)
    allocations = _allocations(design, channels)
    buffers = _place(design, allocations)
    address = {b.name: b.address + _window(design, b) for b in buffers}
    locks: list[LockPair] = []
    counts: dict[Tile, int] = defaultdict(int)

    def pair(tile: Tile, name: str, depth: int) -> LockPair:
        number = counts[tile]
        counts[tile] += 1
        made = LockPair(tile, name, 2 * number, 2 * number + 1, depth)
        locks.append(made)
        return made

    pairs: dict[tuple[str, Tile], list[LockPair]] = {}
    for fifo in design.fifos:
        for tile in (fifo.producer, *fifo.consumers):
            if tile.row == SHIM_ROW:
                continue
            link = _link_at(design, fifo, tile)
            if link is None:
                pairs[fifo.name, tile] = [pair(tile, f"{fifo.name}@{tile}", fifo.depth)]
                continue
            memory = design.memory_fifo(link)
            key = (f"link:{memory.name}", tile)
            if key not in pairs:
                pairs[key] = [
                    pair(tile, f"{memory.name}.{i}@{tile}", memory.depth)
                    for i in range(len(design.segments(link)))
                ]
            pairs[fifo.name, tile] = pairs[key]
    identities = _Identities(design)
    ends = []
    for fifo, tile, direction in _all_ends(design):
        channel = channels[fifo.name, tile, direction]
        if tile.row == SHIM_ROW:
            ends.append(DmaEnd(fifo.name, tile, direction, channel, 1, (), (), ()))
            continue
        ends.append(_end(design, fifo, tile, direction, channel, address, pairs, identities))
    return Lowering(tuple(ends), tuple(buffers), tuple(locks))


def _all_ends(design: Design) -> Iterator[tuple[Fifo, Tile, str]]:
    for fifo in design.fifos:
        yield fifo, fifo.producer, "MM2S"
        for consumer in fifo.consumers:
            yield fifo, consumer, "S2MM"


def _channels(design: Design) -> dict[tuple[str, Tile, str], int]:
    """Channel numbers in order of declaration, per tile and direction."""
    used: dict[tuple[Tile, str], int] = defaultdict(int)
    channels = {}
    for fifo, tile, direction in _all_ends(design):
        channels[fifo.name, tile, direction] = used[tile, direction]
        used[tile, direction] += 1
    return channels


def _link_at(design: Design, fifo: Fifo, tile: Tile) -> Link | None:
    """The link that shares this end of a FIFO, if any."""
    link = design.link_into.get(fifo.name) if tile in fifo.consumers else None
    if link is None and tile == fifo.producer:
        link = design.link_out_of.get(fifo.name)
    return link if is_memory(tile) else None


def _allocations(
    design: Design, channels: dict[tuple[str, Tile, str], int]
) -> dict[Tile, list[_Allocation]]:
    """Buffers each tile needs, in order of declaration."""
    found: dict[Tile, list[_Allocation]] = defaultdict(list)
    done: set[tuple[str, Tile]] = set()
    for fifo, tile, _ in _all_ends(design):
        if tile.row == SHIM_ROW:
            continue
        link = _link_at(design, fifo, tile)
        owner = fifo if link is None else design.memory_fifo(link)
        if (owner.name, tile) in done:
            continue
        done.add((owner.name, tile))
        reach = design.device.kind(tile.row).neighbour_channels
        ends = [owner.name] if link is None else [*link.inputs, *link.outputs]
        movable = is_memory(tile) and all(
            channels[name, tile, direction] < reach
            for name in ends
            for direction in ("S2MM", "MM2S")
            if (name, tile, direction) in channels
        )
        names = [f"{owner.name}_{slot}@{tile}" for slot in range(owner.depth)]
        if link is not None and link.residency is not None:
            sizes = [objects * owner.object.bytes for objects in link.residency.slots]
            unused = max(0, link.residency.room - link.residency.objects)
            sizes[-1] += unused * owner.object.bytes
            found[tile].append(_Allocation(names, sizes, owner.name, tile, movable))
            continue
        for name in names:
            found[tile].append(_Allocation([name], [owner.object.bytes], owner.name, tile, movable))
    return found


def _place(design: Design, allocations: dict[Tile, list[_Allocation]]) -> list[BufferPlace]:
    """Addresses: everything at home if it fits, what does not in a neighbouring memory tile."""
    align = design.device.alignment
    held: dict[Tile, list[_Allocation]] = {t: list(a) for t, a in allocations.items()}
    stacks = {core.tile: core.stack_bytes for core in design.cores}
    sums = _sum_bytes(design)
    start = {t: round_up(stacks.get(t, 0), align) + sums.get(t, 0) for t in held}

    def used(tile: Tile) -> int:
        return start.get(tile, 0) + sum(round_up(a.bytes, align) for a in held.get(tile, []))

    def room(tile: Tile) -> int:
        return design.device.kind(tile.row).memory_bytes - used(tile)

    for tile in sorted(t for t in held if is_memory(t)):
        neighbours = [
            Tile(c, tile.row)
            for c in (tile.column + 1, tile.column - 1)
            if 0 <= c < design.device.columns
        ]
        # The smallest buffer that makes the rest fit; else the largest that a neighbour takes.
        while room(tile) < 0:
            moves = [
                (a, n)
                for a in held[tile]
                if a.movable and a.tile == tile
                for n in neighbours
                if room(n) >= round_up(a.bytes, align)
            ]
            if not moves:
                break
            enough = [m for m in moves if round_up(m[0].bytes, align) >= -room(tile)]
            chosen, target = (
                min(enough, key=lambda m: m[0].bytes)
                if enough
                else max(moves, key=lambda m: m[0].bytes)
            )
            held[tile].remove(chosen)
            held.setdefault(target, []).append(chosen)
    places = []
    for holder, items in sorted(held.items()):
        address = start.get(holder, 0)
        limit = design.device.kind(holder.row).memory_bytes
        for item in items:
            for name, size in zip(item.names, item.sizes, strict=True):
                fits = address + size <= limit
                places.append(
                    BufferPlace(name, item.fifo, item.tile, size, holder if fits else None, address)
                )
                address += size
            address = round_up(address, align)
    return places


def _sum_bytes(design: Design) -> dict[Tile, int]:
    """Room for f32 sums beside a narrower C."""
    kernels = [k for k in design.kernels if k.kind == "multiply" and k.wide_sum]
    if not kernels or kernels[0].output == "f32":
        return {}
    size = 4 * max(kernel.m * kernel.n for kernel in kernels)
    return {core.tile: size for core in design.cores}


def _window(design: Design, buffer: BufferPlace) -> int:
    """Where a memory tile's DMA sees the memory of a tile: west, its own, east, one after another."""
    if not is_memory(buffer.tile) or buffer.holder is None:
        return 0
    beside = buffer.holder.column - buffer.tile.column
    return (beside + 1) * design.device.kind(buffer.tile.row).memory_bytes


class _Identities:
    """Descriptor ids: in order per tile; where parity counts, odd channels own the upper half."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.used: dict[tuple[Tile, int], int] = defaultdict(int)

    def take(self, tile: Tile, channel: int) -> int:
        kind = self.design.device.kind(tile.row)
        half = channel % 2 if kind.parity else 0
        number = self.used[tile, half]
        self.used[tile, half] += 1
        return number + half * (kind.descriptors // 2)


def _end(
    design: Design,
    fifo: Fifo,
    tile: Tile,
    direction: str,
    channel: int,
    address: dict[str, int],
    pairs: dict[tuple[str, Tile], list[LockPair]],
    identities: _Identities,
) -> DmaEnd:
    """Descriptors of one end: one per slot and segment."""
    link = _link_at(design, fifo, tile)
    owner = fifo if link is None else design.memory_fifo(link)
    kind = design.device.kind(tile.row)
    walks = _slot_walks(design, fifo, tile, direction, link)
    locks = pairs[fifo.name, tile]
    uses: list[DescriptorUse] = []
    names = [f"{owner.name}_{slot}@{tile}" for slot in range(owner.depth)]
    resident = link is not None and link.residency is not None
    for slot, segment, role, pattern in walks:
        try:
            made = legalise_one(pattern, owner.object.element_bytes, kind)
        except TilewrightError as error:
            raise TilewrightError(
                error.code,
                f"FIFO @{fifo.name}, {direction} of tile {tile}: {error.message}",
                hint=error.hint,
            ) from None
        pair = locks[segment]
        take, give = (pair.free, pair.full) if direction == "S2MM" else (pair.full, pair.free)
        uses.append(
            DescriptorUse(
                identities.take(tile, channel),
                replace(
                    made,
                    base=made.base + address[names[slot]] // 4,
                    acquire=None if role in ("replay", "last") else LockUse(take, 1),
                    release=None if role in ("first", "replay") else LockUse(give, 1),
                ),
                slot,
                segment,
                role,
            )
        )
    used = tuple(dict.fromkeys(locks[segment].name for _, segment, _, _ in walks))
    return DmaEnd(
        fifo.name,
        tile,
        direction,
        channel,
        len({segment for _, segment, _, _ in walks}),
        tuple(uses),
        tuple(names),
        used,
        resident and direction == "MM2S",
    )


def _slot_walks(
    design: Design, fifo: Fifo, tile: Tile, direction: str, link: Link | None
) -> list[tuple[int, int, str, Pattern]]:
    """(slot, segment, role, walk inside the slot's buffer) of one end."""
    if direction == "MM2S":
        dimensions = fifo.to_stream
    else:
        dimensions = fifo.arriving(fifo.consumers.index(tile))
    if link is None:
        pattern = stream_order(dimensions, fifo.object.count)
        return [(slot, 0, "", pattern) for slot in range(fifo.depth)]
    owner = design.memory_fifo(link)
    segments = design.segments(link)
    offsets = link.offsets if len(segments) > 1 else (0,)
    if link.residency is not None:
        return _resident_walks(link, owner, direction, dimensions)
    walks: list[tuple[int, Pattern]] = []
    if fifo.name == owner.name:
        # The whole object, a descriptor per segment: a join's pattern is that of one segment.
        for i, (offset, count) in enumerate(zip(offsets, segments, strict=True)):
            if link.join:
                walks.append((i, stream_order(dimensions, count).moved(offset)))
            elif len(segments) == 1:
                walks.append((i, stream_order(dimensions, count)))
            else:
                whole = stream_order(dimensions, owner.object.count)
                walks.append((i, whole.compose(Pattern((count,), (1,), offset))))
    else:
        names = link.inputs if link.join else link.outputs
        i = names.index(fifo.name)
        walks.append((i, stream_order(dimensions, segments[i]).moved(offsets[i])))
    return [(slot, segment, "", walk) for slot in range(owner.depth) for segment, walk in walks]


def _resident_walks(
    link: Link, owner: Fifo, direction: str, dimensions: tuple[tuple[int, int], ...]
) -> list[tuple[int, int, str, Pattern]]:
    """Slots of a panel: filled one by one, sent slot by slot first and last, whole in between."""
    assert link.residency is not None
    one = stream_order(dimensions, owner.object.count)

    def objects(many: int) -> Pattern:
        return Pattern((many, *one.sizes), (owner.object.count, *one.strides)).canonical()

    slots = link.residency.slots
    filled = [(slot, 0, "", objects(many)) for slot, many in enumerate(slots)]
    if direction == "S2MM":
        return filled
    return [
        *((slot, 0, "first", walk) for slot, _, _, walk in filled),
        (0, 0, "replay", objects(link.residency.objects)),
        *((slot, 0, "last", walk) for slot, _, _, walk in filled),
    ]
