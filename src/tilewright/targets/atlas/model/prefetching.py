"""Weights that come to VMEM under the work of earlier calls.

While the vector unit or the matrix units keep a call busy, the DMA engine is idle; a later call of few
rows waits for its weights. Where VMEM has room from the one to the other, the earlier call brings the
first rows of tiles of all panels of these weights, so that each step of the later one waits for less.
What a call moves and the room it works in are known when it is lowered, how long it computes at
least from its formula.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.compile_kernel import Use
from tilewright.targets.atlas.model.bounds import terms_of
from tilewright.targets.atlas.model.buffer_assignment import (
    BufferAssignment,
    PrefetchedRows,
    gaps,
    largest,
)
from tilewright.targets.atlas.model.kernel_records import over_images, work_of
from tilewright.targets.atlas.model.launches import Launch, LaunchProgram, StoredTensor
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE

TILE = SIDE * SIDE  # bytes of a tile of weights
WORTH = 2000  # ticks that a later call has to gain
SPARE = 8 * 1024  # bytes of VMEM that calls keep beyond what they used without such weights
IDLE = 0.9  # of the idle time of the engine that is counted on
FAR = 24  # calls from the one that brings weights to the one that reads them, at most


def choose(
    program: LaunchProgram,
    places: BufferAssignment,
    uses: Sequence[Use],
    profile: Profile,
) -> list[PrefetchedRows]:
    """What calls bring for later ones, from the calls at their places and what these use."""
    return list(_Choice(program, replace(places, prefetched=[]), uses, profile).every())


def narrowed(
    places: BufferAssignment, found: list[PrefetchedRows], profile: Profile
) -> BufferAssignment:
    """The places with the prefetched rows, and what these leave to calls to work in."""
    result = replace(places, prefetched=found, areas=list(places.areas))
    for index in {k for one in found for k in range(one.carrier, one.reader + 1)}:
        result.areas[index] = largest(index, result, profile)
    return result


def without(found: Sequence[PrefetchedRows], calls: Collection[int]) -> list[PrefetchedRows]:
    """Those that do not lie in VMEM while any of these calls runs."""
    return [o for o in found if not any(o.carrier <= k <= o.reader for k in calls)]


def idle_readers(
    found: Sequence[PrefetchedRows], before: Sequence[Use], after: Sequence[Use]
) -> set[int]:
    """Calls that do not move as much less as was brought for them: they do not read it there."""
    brought: dict[int, int] = {}
    for one in found:
        brought[one.reader] = brought.get(one.reader, 0) + one.size
    return {k for k, size in brought.items() if before[k].moved - after[k].moved < size}


@dataclass
class _Choice:
    program: LaunchProgram
    places: BufferAssignment
    uses: Sequence[Use]
    profile: Profile
    idle: dict[int, float] = field(default_factory=dict)  # bytes that a call could still bring

    def __post_init__(self) -> None:
        self.rate = self.profile.dma.ticks(1 << 20) / (1 << 20)  # ticks per byte
        calls = zip(self.program.launches, self.uses, strict=True)
        self.busy = [max(use.busy, self._busy(call)) for call, use in calls]
        for index, use in enumerate(self.uses):
            left = self.busy[index] / self.rate - use.moved
            self.idle[index] = max(0.0, IDLE * left)

    def _busy(self, call: Launch) -> int:
        """Ticks that a call computes at least."""
        shapes = {p: tensor.layout.given for p, tensor in call.tensors.items()}
        return max(
            terms_of(
                self.profile, work_of(self.profile, call.kernel, call.options, shapes), 0
            ).values()
        )

    def every(self) -> Iterator[PrefetchedRows]:
        for reader, call in enumerate(self.program.launches):
            waits = self.uses[reader].moved - self.busy[reader] / self.rate
            if waits * self.rate < WORTH or any(reader in run for run in self.places.joined):
                continue
            for tensor in _weights(call):
                brought = 0  # tiles of every panel
                for carrier in self._carriers(reader):
                    while waits * self.rate >= WORTH:
                        found = self._rows(tensor, carrier, reader, brought, waits)
                        if found is None:
                            break
                        self.places.prefetched.append(found)
                        self.idle[carrier] -= found.size
                        brought += found.bytes // TILE
                        waits -= found.size
                        yield found

    def _carriers(self, reader: int) -> Iterator[int]:
        """Calls that may bring weights, the nearest first: before the host and ends of loops."""
        ends = {loop.first for loop in self.program.layer_loops} | {
            loop.end for loop in self.program.layer_loops
        }
        ends |= set(self.program.borders())
        for index in range(reader - 1, max(-1, reader - FAR - 1), -1):
            if index + 1 in ends:
                return
            if not any(index in run for run in self.places.joined):
                yield index

    def _rows(
        self, tensor: StoredTensor, carrier: int, reader: int, brought: int, waits: float
    ) -> PrefetchedRows | None:
        """The most that has room, of what is not brought yet."""
        deep, across = tensor.layout.grid
        stride = deep * TILE
        across *= tensor.layout.bytes // (stride * across)
        most = min(self.idle[carrier], waits) // (across * TILE)
        for tiles in range(min(int(most), deep - brought), 0, -1):
            address = self._address(tiles * TILE * across, carrier, reader)
            if address is not None:
                return PrefetchedRows(
                    tensor, carrier, reader, address, brought * TILE, tiles * TILE, across, stride
                )
        return None

    def _address(self, size: int, carrier: int, reader: int) -> int | None:
        """A place in VMEM that is free all the time, and leaves calls their room."""
        free = [gaps(k, self.places, self.profile) for k in range(carrier, reader + 1)]
        common = free[0]
        for some in free[1:]:
            common = _common(common, some)
        for gap in sorted(common, key=lambda gap: gap.end - gap.start):
            for start in (gap.start, (gap.end - size) // 1024 * 1024):
                if start < gap.start or start + size > gap.end:
                    continue
                if all(
                    self._suffices(carrier + k, some, start, start + size)
                    for k, some in enumerate(free)
                ):
                    return start
        return None

    def _suffices(self, index: int, free: Sequence[Area], start: int, end: int) -> bool:
        """Whether a call still has the room it works in, and some that it can do with."""
        area = self.places.areas[index]
        wanted = min(self.uses[index].room + SPARE, area.end - area.start)
        rest = [
            part
            for gap in free
            for part in (Area(gap.start, min(gap.end, start)), Area(max(gap.start, end), gap.end))
        ]
        return max(part.end - part.start for part in rest) >= wanted


def _common(some: Sequence[Area], others: Sequence[Area]) -> list[Area]:
    both = [Area(max(a.start, b.start), min(a.end, b.end)) for a in some for b in others]
    return [area for area in both if area.end > area.start]


def _weights(call: Launch) -> list[StoredTensor]:
    """Weights in panels that a call reads, the largest first."""
    found = {
        tensor
        for name, tensor in call.operands.items()
        if tensor.kind in ("weight", "constant")
        and tensor.layout.order == "panels"
        and tensor.layout.dtype == "fp8"
        and (tensor.layout.arrangement is None or over_images(call.kernel))
    }
    return sorted(found, key=lambda t: (-t.layout.bytes, t.name))
