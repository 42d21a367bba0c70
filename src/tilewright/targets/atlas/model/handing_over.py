"""First tiles of weights that the call before loads, while its last iterations are worked on.

At the end of a call the DMA engine has nothing to do for as long as the last tiles are computed on,
and the next call begins by waiting for its own. They come to the very place where that call would
load them, so it takes VMEM that the call before does not use: the next one works elsewhere in VMEM where
that is needed and both have room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.compile_kernel import Use
from tilewright.targets.atlas.codegen.tail_loads import Transfer
from tilewright.targets.atlas.model.buffer_assignment import (
    BESIDE,
    BEYOND,
    KIB,
    LAST,
    BufferAssignment,
    PrefetchedRows,
    gaps,
)
from tilewright.targets.atlas.model.launches import LaunchProgram, StoredTensor
from tilewright.targets.atlas.profile import Profile

WORTH = 1000  # ticks of transfers, and for which a last iteration computes, that are worth it
HIDES = 2  # times the ticks of a last iteration that transfers beside it may take
IDLE = 0.9  # of the time of the busiest unit that is counted on
SPARE = 64 * KIB  # bytes that a call has beyond its room where it works elsewhere


def hand_over(
    program: LaunchProgram, places: BufferAssignment, uses: Sequence[Use], profile: Profile
) -> BufferAssignment:
    """Places with the first tiles of calls that those before them load."""
    choice = _Choice(program, replace(places, areas=list(places.areas), begun=[]), uses, profile)
    for reader in range(1, len(program.launches)):
        choice.look_at(reader)
    return choice.places


def without_begun(places: BufferAssignment, readers: set[int], before: BufferAssignment):
    """The places without what these calls would find, and with their areas as they were."""
    areas = [before.areas[k] if k in readers else area for k, area in enumerate(places.areas)]
    begun = [one for one in places.begun if one.reader not in readers]
    return replace(places, areas=areas, begun=begun)


def in_vain(
    places: BufferAssignment, uses: Sequence[Use], turning: set[StoredTensor], profile: Profile
) -> set[int]:
    """Calls that do not load first what was loaded for them, or not to that place, or whose place is
    not free before."""

    def comes(one: PrefetchedRows) -> bool:
        if one.way == BEYOND:
            moved = transfer_of(one, places, turning)
            return any(other.covers(moved) for other in uses[one.carrier].beyond)
        return _is_free(one, free_of(one.carrier, places, uses, profile))

    return {
        one.reader
        for one in places.begun
        if not comes(one)
        or not _is_loaded(transfer_of(one, places, turning), uses[one.reader].leading)
    }


def free_of(
    index: int, places: BufferAssignment, uses: Sequence[Use], profile: Profile
) -> list[Area]:
    """VMEM in which a call neither works nor leaves anything."""
    area, use = places.areas[index], uses[index]
    low, high = area.start + use.room - use.upper, area.end - use.upper
    parts = [
        Area(max(start, gap.start), min(end, gap.end))
        for gap in gaps(index, places, profile)
        for start, end in ((gap.start, area.start), (low, high), (area.end, gap.end))
    ]
    return [part for part in parts if part.start < part.end]


def _is_free(one: PrefetchedRows, free: Sequence[Area]) -> bool:
    return any(gap.start <= one.address and one.address + one.size <= gap.end for gap in free)


def transfer_of(
    one: PrefetchedRows, places: BufferAssignment, turning: Collection[StoredTensor]
) -> Transfer:
    """What moves for the first tiles of a call."""
    start = places.dram[one.tensor] + one.offset
    return Transfer(one.address, start, one.size, one.tensor in turning)


def _is_loaded(whole: Transfer, leading: Sequence[Transfer]) -> bool:
    return sum(one.bytes for one in leading if whole.covers(one)) == whole.bytes


@dataclass
class _Choice:
    program: LaunchProgram
    places: BufferAssignment
    uses: Sequence[Use]
    profile: Profile

    def __post_init__(self) -> None:
        loops = self.program.layer_loops
        self.areas = list(self.places.areas)  # where calls worked when it was seen what they use
        self.turning = {t for loop in loops for t in loop.own}
        self.starts = {loop.first for loop in loops} | {loop.end for loop in loops}
        self.starts |= set(self.program.borders())

    def look_at(self, reader: int) -> None:
        """Let the call before load what this one would begin with, where that is worth it."""
        places, carrier = self.places, reader - 1
        alone = not any(carrier in run or reader in run for run in places.joined)
        loads = list(self._weights(reader)) if alone and reader not in self.starts else []
        free = free_of(carrier, places, self.uses, self.profile) if loads else []
        best: tuple[int, Area, list[PrefetchedRows]] | None = None
        for area in self._areas(reader, loads, free) if loads else ():
            shift = area.start - places.areas[reader].start
            found = self._worthwhile(carrier, list(self._found(loads, shift, free)))
            size = sum(one.size for one in found)
            if size and (best is None or size > best[0]):
                best = size, area, found
        if best is not None:
            places.areas[reader] = best[1]
            places.begun += _side_by_side(best[2])

    def _worthwhile(self, carrier: int, found: list[PrefetchedRows]) -> list[PrefetchedRows]:
        """What of it pays, and how it comes: beside all of a call's work where that leaves the engine
        idle, else beside the last of it."""
        loads = [one for one in found if one.way == LAST]
        size, rest = sum(one.size for one in loads), [one for one in found if one.way == BEYOND]
        if not size or self.profile.dma.ticks(size) < WORTH:
            return rest
        if size <= self._idle(carrier):
            return [*rest, *(replace(one, way=BESIDE) for one in loads)]
        # What is more than the last iterations hide would be waited for here instead of there.
        ending, hidden = self.uses[carrier].ending, 0
        for one in loads if ending >= WORTH else ():
            hidden += self.profile.dma.ticks(one.size)
            if hidden > HIDES * ending:
                break
            rest.append(one)
        return rest

    def _found(
        self, loads: Sequence[PrefetchedRows], shift: int, free: Sequence[Area]
    ) -> Iterator[PrefetchedRows]:
        """What a call that works so many bytes further on would find there."""
        for one in loads:
            moved = replace(one, address=one.address + shift)
            if any(o.covers(self._transfer(moved)) for o in self._beyond(one.carrier)):
                yield replace(moved, way=BEYOND)
            elif _is_free(moved, free):
                yield moved

    def _transfer(self, one: PrefetchedRows) -> Transfer:
        return transfer_of(one, self.places, self.turning)

    def _beyond(self, index: int) -> Iterator[Transfer]:
        """What a call loads in the end that lies behind its weights."""
        shift = self.places.areas[index].start - self.areas[index].start
        for one in self.uses[index].beyond:
            yield replace(one, vmem=one.vmem + shift)

    def _idle(self, index: int) -> float:
        """Bytes that a call could load while it computes, at least."""
        use, rate = self.uses[index], self.profile.dma.ticks(1 << 20) / (1 << 20)
        brings = sum(one.size for one in self.places.prefetched if one.carrier == index)
        return IDLE * use.busy / rate - use.moved - brings

    def _areas(
        self, reader: int, loads: Sequence[PrefetchedRows], free: Sequence[Area]
    ) -> Iterator[Area]:
        """Where a call may work, as it is and elsewhere."""
        area = self.places.areas[reader]
        yield area
        least = min(self.uses[reader].room + SPARE, area.end - area.start)
        starts = [-(-part.start // KIB) * KIB for part in free]
        for one in loads:
            moved = self._transfer(one)
            for other in self._beyond(one.carrier):
                if other.dram <= moved.dram < other.dram + other.bytes:
                    place = other.vmem + moved.dram - other.dram
                    starts.append(area.start + place - moved.vmem)
        for gap in gaps(reader, self.places, self.profile):
            for start in dict.fromkeys((-(-gap.start // KIB) * KIB, *starts)):
                if gap.start <= start <= gap.end - least:
                    yield Area(start, gap.end)

    def _weights(self, reader: int) -> Iterator[PrefetchedRows]:
        """What a call loads first of weights, where it does so now."""
        places = self.places
        operands = self.program.launches[reader].operands.values()
        weights = [t for t in dict.fromkeys(operands) if t.kind in ("weight", "constant")]
        whole = [one for one in self.uses[reader].leading if one.bytes % KIB == 0]
        for one in whole:
            for tensor in weights:
                offset = one.dram - places.dram[tensor]
                inside = offset >= 0 and offset + one.bytes <= tensor.layout.bytes
                if inside and one.rounds == (tensor in self.turning):
                    yield PrefetchedRows(
                        tensor, reader - 1, reader, one.vmem, offset, one.bytes, 1, 0, LAST
                    )


def _side_by_side(found: Sequence[PrefetchedRows]) -> list[PrefetchedRows]:
    """Rows that follow each other in both memories as one."""
    result: list[PrefetchedRows] = []
    for one in sorted(found, key=lambda o: (o.tensor.name, o.offset)):
        last = result[-1] if result else None
        if (
            last is not None
            and (last.tensor, last.way) == (one.tensor, one.way)
            and last.offset + last.bytes == one.offset
            and last.address + last.bytes == one.address
        ):
            result[-1] = replace(last, bytes=last.bytes + one.bytes)
        else:
            result.append(one)
    return result
