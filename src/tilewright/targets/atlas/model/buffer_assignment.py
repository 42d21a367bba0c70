"""Where tensors live: in VMEM between the kernels that make and read them, or in DRAM.

Vertical fusion is a question of place: a result that stays in VMEM until its readers are done
costs no transfer. `residence` chooses these; the memory planner finds addresses, and its checker
confirms them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from tilewright.errors import TilewrightError
from tilewright.planning.buffers import Buffer
from tilewright.planning.plan import Plan, plan
from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.model.calls import Call
from tilewright.targets.atlas.model.launches import Launch, LayerLoop, StoredTensor
from tilewright.targets.atlas.model.residency import (
    Candidate,
    Demands,
    ResidencyInterval,
    base_room,
    choose,
    rounded,
    staged_bytes,
    times_read,
)
from tilewright.targets.atlas.profile import Profile

KIB = 1024
PAGE = 4096  # tensors in DRAM start at multiples of this
ONE_BODY = 480  # tiles of an operand that one loop body holds
WORD = 1024  # VMEM kept for the offset of iterations
# Calls that share a piece of code: bytes of the tensors of one and of all, how many, and the VMEM
# that each has at least and uses at most before the next one.
MOST, ALTOGETHER, LONGEST = 64 * KIB, 256 * KIB, 16
ROOMY, LEAST_APART = 192 * KIB, 24 * KIB


@dataclass
class LiveRange:
    """Calls between which a tensor's content matters, inclusive, and how often it moves."""

    first: int
    last: int
    reads: int = 0


# How a call brings what others need: beside its work, beside the last of it, or by the loads that it
# makes in the end for an iteration that does not come.
BESIDE, LAST, BEYOND = "beside", "last", "beyond"


@dataclass(frozen=True)
class PrefetchedRows:
    """Rows of a constant that call `carrier` brings to VMEM for call `reader`: `rows` times `bytes` from
    byte `offset` on, `stride` from one to the next, close together there."""

    tensor: StoredTensor
    carrier: int
    reader: int
    address: int
    offset: int
    bytes: int
    rows: int
    stride: int
    way: str = BESIDE

    @property
    def size(self) -> int:
        return self.rows * self.bytes


@dataclass
class BufferAssignment:
    """Addresses of everything."""

    vmem: dict[StoredTensor, int] = field(default_factory=dict)
    dram: dict[StoredTensor, int] = field(default_factory=dict)
    areas: list[Area] = field(default_factory=list)  # VMEM for each call to work in
    stride: dict[int, int] = field(
        default_factory=dict
    )  # repeat number -> bytes between iterations
    dram_end: int = 0
    lives: dict[StoredTensor, LiveRange] = field(default_factory=dict)
    stays: dict[StoredTensor, ResidencyInterval] = field(default_factory=dict)
    joined: list[range] = field(default_factory=list)  # calls that may share a piece of code
    prefetched: list[PrefetchedRows] = field(default_factory=list)
    begun: list[PrefetchedRows] = field(default_factory=list)  # in the room of their readers

    def on_chip(self, tensor: StoredTensor, call: int) -> bool:
        """Whether a call finds the tensor in VMEM."""
        stay = self.stays.get(tensor)
        return stay is not None and stay.first <= call <= stay.until


def live_ranges(
    calls: Sequence[Launch], layer_loops: Sequence[LayerLoop[StoredTensor]]
) -> dict[StoredTensor, LiveRange]:
    """The lifetime of every tensor that is not a weight."""
    lives: dict[StoredTensor, LiveRange] = {}
    for index, call in enumerate(calls):
        for parameter, tensor in call.tensors.items():
            life = lives.setdefault(tensor, LiveRange(index, index))
            life.last = index
            life.reads += parameter not in call.results
            if tensor.kind in ("input", "state"):
                life.first = 0
            if tensor.kind == "output":
                life.last = len(calls) - 1
    for repeat in layer_loops:
        for tensor, life in lives.items():
            inside = life.first < repeat.end and life.last >= repeat.first
            crosses = life.first < repeat.first or life.last >= repeat.end
            written_late = _carried(tensor, calls, repeat)
            if inside and (crosses or written_late):
                life.first = min(life.first, repeat.first)
                life.last = max(life.last, repeat.end - 1)
    return lives


def _carried(
    tensor: StoredTensor, calls: Sequence[Launch], repeat: LayerLoop[StoredTensor]
) -> bool:
    """Whether a round leaves the tensor to the next one."""
    body = range(repeat.first, repeat.end)
    writes = [k for k in body if tensor in calls[k].results.values()]
    reads = [k for k in body if tensor in calls[k].operands.values()]
    return bool(writes and reads and min(reads) <= max(writes))


def place(
    calls: Sequence[Launch],
    layer_loops: Sequence[LayerLoop[StoredTensor]],
    profile: Profile,
    fuse: bool = True,
    borders: Sequence[int] = (),
    demands: Demands | None = None,
) -> BufferAssignment:
    """Addresses for all tensors of a program.

    borders: calls before which the host takes over; nothing stays in VMEM across. demands: what
    calls are known to need beyond the estimate.
    """
    demands = demands or Demands()
    places = BufferAssignment(lives=live_ranges(calls, layer_loops))
    capacity = profile.vmem_bytes - WORD - demands.slack
    lives = places.lives
    found = _candidates(calls, layer_loops, lives, borders, profile) if fuse else {}
    stays = choose(calls, found, capacity, demands, profile)
    room = [_room(k, call, stays, demands.more, profile, capacity) for k, call in enumerate(calls)]
    if fuse and may_join(profile):
        places.joined = small_runs(calls, layer_loops, borders)
    try:
        planned = _planned(stays, room, places, profile)
    except TilewrightError:
        if not places.joined:
            raise
        places.joined = []
        planned = _planned(stays, room, places, profile)
    for k, stay in enumerate(stays):
        places.vmem[stay.tensor] = planned.offsets[f"t{k}"] + WORD
        places.stays[stay.tensor] = stay
    for k in range(len(calls)):
        places.areas.append(_widest(k, planned.offsets[f"work{k}"] + WORD, places, profile))
    for run in places.joined:
        _apart(run, room, places, profile)
    _place_dram(calls, layer_loops, places, profile)
    return places


def _planned(
    stays: Sequence[ResidencyInterval],
    room: Sequence[int],
    places: BufferAssignment,
    profile: Profile,
) -> Plan:
    """Offsets in VMEM of what stays, and of the rooms of calls."""
    buffers = []
    for k, stay in enumerate(stays):
        first, last = _together(places.joined, stay.first, stay.until)
        buffers.append(Buffer(f"t{k}", rounded(stay.tensor), first, last + 1, 1024))
    buffers += [Buffer(f"work{k}", n, k, k + 1, 1024) for k, n in enumerate(room)]
    return plan(buffers, profile.vmem_bytes - WORD, 1024, strategy="auto")


def may_join(profile: Profile) -> bool:
    """Whether calls may share a schedule: instructions take the time they are known to take."""
    return profile.busy_unit == "fault"


def small_runs(
    calls: Sequence[Launch], layer_loops: Sequence[LayerLoop[StoredTensor]], borders: Sequence[int]
) -> list[range]:
    """Calls that follow each other in one part of the model, outside of loops, on little data."""
    runs: list[range] = []
    inside = {k for loop in layer_loops for k in range(loop.first, loop.end)}
    first, bytes = 0, 0
    for k in range(len(calls) + 1):
        mine = MOST if k in inside or k == len(calls) else bytes_of(calls[k])
        full = bytes + mine > ALTOGETHER or k - first >= LONGEST
        if mine >= MOST or k in borders or full:
            if k - first > 1:
                runs.append(range(first, k))
            first, bytes = k + (mine >= MOST), 0
        bytes += mine if mine < MOST else 0
    return runs


def is_small(call: Call | Launch) -> bool:
    """Whether a call may share its code with its neighbours."""
    return bytes_of(call) < MOST


def bytes_of(call: Call | Launch) -> int:
    return sum(tensor.layout.bytes for tensor in call.tensors.values())


def _together(runs: Sequence[range], first: int, last: int) -> tuple[int, int]:
    """From call to call, with all of the runs of both: their code is mixed."""
    first = next((run.start for run in runs if first in run), first)
    return first, next((run.stop - 1 for run in runs if last in run), last)


def _apart(run: range, room: Sequence[int], places: BufferAssignment, profile: Profile) -> None:
    """Let calls of a run work in places of their own, as far as there is room."""
    used = 0
    for k in run:
        area = largest(k, places, profile)
        if area.end - area.start - used < max(ROOMY, 4 * room[k]):
            used = 0
        places.areas[k] = Area(area.start + used, area.end)
        used += max(LEAST_APART, room[k])


def starved(calls: Sequence[Launch], places: BufferAssignment, profile: Profile) -> list[int]:
    """Calls that fetch their whole left operand again for every panel of weights, because it is
    not in VMEM, although it would fit."""
    found = []
    for index, call in enumerate(calls):
        a = call.operands.get("a")
        once = call.way.get("rows") or call.way.get("resident")
        if a is None or once or places.on_chip(a, index):
            continue
        tiles = a.layout.bytes // 1024
        beside = max(base_room(call, profile), 128 * KIB)  # panels of weights, and what waits
        if tiles > ONE_BODY and rounded(a) + beside <= profile.vmem_bytes:
            found.append(index)
    return found


def _candidates(
    calls: Sequence[Launch],
    layer_loops: Sequence[LayerLoop[StoredTensor]],
    lives: dict[StoredTensor, LiveRange],
    borders: Sequence[int],
    profile: Profile,
) -> dict[StoredTensor, Candidate]:
    """Results that could stay in VMEM.

    What iterations of a loop read from before it, or leave to each other, stays through all of the
    loop or not at all. Outputs of the model stay outside of loops only, and go to DRAM as well.
    """
    found = {}
    for tensor, life in lives.items():
        if tensor.kind not in ("activation", "output"):
            continue
        makers = [k for k, call in enumerate(calls) if tensor in call.results.values()]
        readers = [k for k, call in enumerate(calls) if tensor in call.operands.values()]
        if not makers or not readers or min(readers) <= makers[0] or life.first != makers[0]:
            continue
        leaves = tensor.kind == "output"
        last = readers[-1] if leaves else life.last
        if any(life.first < border <= last for border in borders):
            continue
        if leaves:
            inside = any(
                loop.first <= k < loop.end for loop in layer_loops for k in (*makers, last)
            )
            if len(makers) == 1 and not inside:
                ends = tuple(_ends(calls, readers, tensor, profile))
                found[tensor] = Candidate(makers[0], ends, leaves=True)
        elif any(loop.first <= readers[-1] and makers[0] < loop.first for loop in layer_loops):
            in_place = any(tensor in calls[k].operands.values() for k in makers)
            if not in_place:
                found[tensor] = Candidate(makers[0], ((life.last, len(readers) + len(makers)),))
        elif len(makers) == 1 and life.last == readers[-1]:
            ends = _ends(calls, readers, tensor, profile)
            ends[-1] = (readers[-1], ends[-1][1] + 1)
            found[tensor] = Candidate(makers[0], tuple(ends))
    return found


def _ends(
    calls: Sequence[Launch], readers: Sequence[int], tensor: StoredTensor, profile: Profile
) -> list[tuple[int, int]]:
    """The last calls of possible stays, and how often a tensor is read up to there."""
    times = accumulate(times_read(calls[reader], tensor, profile) for reader in readers)
    return list(zip(readers, times, strict=True))


def _room(
    index: int,
    call: Launch,
    stays: Sequence[ResidencyInterval],
    more: dict[int, int],
    profile: Profile,
    capacity: int,
) -> int:
    """VMEM a call gets at least for itself."""
    here = {s.tensor for s in stays if s.first <= index <= s.until}
    held = sum(rounded(t) for t in here)
    need = base_room(call, profile) + more.get(index, 0)
    need += sum(staged_bytes(call, p, t) for p, t in call.tensors.items() if t not in here)
    return max(1024, min(need, capacity - held) // 1024 * 1024)


def gaps(index: int, places: BufferAssignment, profile: Profile) -> list[Area]:
    """What is free of VMEM while a call runs, but for the call's own work."""
    held = [(WORD, WORD), (profile.vmem_bytes, profile.vmem_bytes)]
    held += [
        (one.address, one.address + one.size)
        for one in places.prefetched
        if one.carrier <= index <= one.reader
    ]
    for tensor, address in places.vmem.items():
        stay = places.stays[tensor]
        first, last = _together(places.joined, stay.first, stay.until)
        if first <= index <= last:
            held.append((address, address + rounded(tensor)))
    return [Area(low, high) for (_, low), (high, _) in pairwise(sorted(held))]


def largest(index: int, places: BufferAssignment, profile: Profile) -> Area:
    """The largest gap between what stays while a call runs."""
    return max(gaps(index, places, profile), key=lambda gap: gap.end - gap.start)


def _widest(index: int, start: int, places: BufferAssignment, profile: Profile) -> Area:
    """All of the gap around a call's work area."""
    low, high = WORD, profile.vmem_bytes
    for tensor, address in places.vmem.items():
        stay = places.stays[tensor]
        first, last = _together(places.joined, stay.first, stay.until)
        if first <= index <= last:
            end = address + rounded(tensor)
            if end <= start:
                low = max(low, end)
            else:
                high = min(high, address)
    return Area(low, high)


def _place_dram(
    calls: Sequence[Launch],
    layer_loops: Sequence[LayerLoop[StoredTensor]],
    places: BufferAssignment,
    profile: Profile,
) -> None:
    """Weights one after the other, those of loops iteration by iteration; activations share memory."""
    end = 0

    def put(tensor: StoredTensor, at: int) -> int:
        places.dram[tensor] = at
        return at + -(-tensor.layout.bytes // PAGE) * PAGE

    turning = {t for repeat in layer_loops for t in repeat.own}
    fixed = dict.fromkeys(
        t
        for call in calls
        for t in call.tensors.values()
        if t.kind in ("weight", "constant") and t not in turning
    )
    for tensor in _matrices_first(fixed, calls):
        end = put(tensor, end)
    for number, repeat in enumerate(layer_loops):
        start = end
        for tensor in _matrices_first(repeat.own, calls):
            end = put(tensor, end)
        # Rounds count by their distance, so those without weights have one too.
        places.stride[number] = (end - start) or PAGE
        end = start + (end - start) * repeat.count
    rest = [
        t
        for t in places.lives
        if t not in places.dram and not (t in places.stays and places.stays[t].whole)
    ]
    buffers = []
    for k, tensor in enumerate(rest):
        first, last = _together(
            places.joined, places.lives[tensor].first, places.lives[tensor].last
        )
        size = -(-tensor.layout.bytes // PAGE) * PAGE
        stays = tensor.kind in ("input", "state", "output")
        upper = len(calls) if stays else last + 1
        lower = 0 if stays else first
        buffers.append(Buffer(f"d{k}", size, lower, upper, PAGE))
    found = plan(buffers, None, PAGE, strategy="best-fit") if buffers else None
    peak = end
    for k, tensor in enumerate(rest):
        assert found is not None
        places.dram[tensor] = end + found.offsets[f"d{k}"]
        peak = max(peak, places.dram[tensor] + buffers[k].size)
    places.dram_end = peak
    if peak > profile.dram_bytes:
        raise _too_large(peak, end, layer_loops, places, profile)


def _matrices_first(tensors: Iterable[StoredTensor], calls: Sequence[Launch]) -> list[StoredTensor]:
    """Vectors of large products last, so that behind a call's weights lie those of the next one, which
    loads of one block too many bring."""
    last = {
        vector
        for call in calls
        if any(t.kind == "weight" and t.layout.bytes >= MOST for t in call.operands.values())
        for vector in call.operands.values()
        if vector.layout.is_vector
    }
    return sorted(tensors, key=lambda tensor: tensor in last)


def _too_large(
    peak: int,
    weights: int,
    layer_loops: Sequence[LayerLoop],
    places: BufferAssignment,
    profile: Profile,
) -> TilewrightError:
    """By how much, what takes the room, and how many layers would fit."""
    over = peak - profile.dram_bytes
    largest = max(places.dram, key=lambda t: t.layout.bytes)
    hint = (
        f"weights and layers take {weights:,} bytes, what is computed {peak - weights:,}; the largest "
        f"tensor is {largest.name} with {largest.layout.bytes:,} bytes"
    )
    for number, repeat in enumerate(layer_loops):
        fewer = -(-over // places.stride[number])
        if repeat.own and fewer < repeat.count:
            hint += f"; it would fit with {repeat.count - fewer} of the {repeat.count} iterations of layers"
            break
    return TilewrightError(
        "TW1705",
        f"the model needs {peak:,} bytes of DRAM, {profile.name} has {profile.dram_bytes:,}: "
        f"{over:,} too many",
        hint=hint,
    )
