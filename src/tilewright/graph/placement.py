"""Where tensors live: in VMEM between the kernels that make and read them, or in DRAM.

Vertical fusion is a question of place: a result that stays in VMEM until its readers are done
costs no transfer. VMEM goes to the tensors that save most transfer time per byte held, as long as
every kernel keeps the room it works in; the memory planner then finds addresses, and its checker
confirms them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.graph.calls import Call, Tensor
from tilewright.graph.rounds import Repeat
from tilewright.planning.buffers import Buffer
from tilewright.planning.plan import plan
from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.profile import Profile

KIB = 1024
PAGE = 4096  # tensors in DRAM start at multiples of this
WORD = 1024  # VMEM kept for the rounds' offset


@dataclass
class Life:
    """Calls between which a tensor's content matters, inclusive, and how often it moves."""

    first: int
    last: int
    reads: int = 0


@dataclass
class Places:
    """Addresses of everything."""

    vmem: dict[Tensor, int] = field(default_factory=dict)
    dram: dict[Tensor, int] = field(default_factory=dict)
    areas: list[Area] = field(default_factory=list)  # VMEM for each call to work in
    stride: dict[int, int] = field(default_factory=dict)  # repeat number -> bytes between rounds
    dram_end: int = 0
    lives: dict[Tensor, Life] = field(default_factory=dict)


def lives_of(
    calls: Sequence[Call], repeats: Sequence[Repeat], parts: Sequence[int]
) -> dict[Tensor, Life]:
    """The lifetime of every tensor that is not a weight."""
    lives: dict[Tensor, Life] = {}
    for index, call in enumerate(calls):
        for parameter, tensor in call.tensors.items():
            life = lives.setdefault(tensor, Life(index, index))
            life.last = index
            life.reads += parameter != "out"
            if tensor.kind == "input":
                life.first = 0
            if tensor.kind == "output":
                life.last = len(calls) - 1
    for repeat in repeats:
        for tensor, life in lives.items():
            inside = life.first < repeat.end and life.last >= repeat.first
            crosses = life.first < repeat.first or life.last >= repeat.end
            written_late = _carried(tensor, calls, repeat)
            if inside and (crosses or written_late):
                life.first = min(life.first, repeat.first)
                life.last = max(life.last, repeat.end - 1)
    return lives


def _carried(tensor: Tensor, calls: Sequence[Call], repeat: Repeat) -> bool:
    """Whether a round leaves the tensor to the next one."""
    body = range(repeat.first, repeat.end)
    writes = [k for k in body if calls[k].output is tensor]
    reads = [k for k in body if tensor in calls[k].operands.values()]
    return bool(writes and reads and min(reads) <= max(writes))


def working_bytes(call: Call) -> int:
    """VMEM a call wants for itself, about: its streamed panels twice, results, tiles that wait."""
    kib = 64 * KIB
    for parameter in ("w", "w_gate", "w_up"):
        if parameter in call.operands:
            layout = call.operands[parameter].layout
            deep = -(-layout.shape[-2] // 32) * 1024
            wide = -(-layout.shape[-1] // 32) if call.kernel == "project" else 1
            kib += 2 * deep * wide
    for tensor in call.tensors.values():
        if tensor.kind != "weight":
            width = -(-tensor.layout.shape[-1] // 32)
            kib += 2 * min(16, width) * tensor.layout.tile_bytes
    return -(-kib // KIB) * KIB


def place(
    calls: Sequence[Call],
    repeats: Sequence[Repeat],
    profile: Profile,
    fuse: bool = True,
    parts: Sequence[int] = (),
    wanted: dict[int, int] | None = None,
) -> Places:
    """Addresses for all tensors of a program.

    parts: calls before which the host takes over; nothing stays in VMEM across. wanted: bytes
    calls are known to need for themselves.
    """
    places = Places(lives=lives_of(calls, repeats, parts))
    room = [max(working_bytes(call), (wanted or {}).get(k, 0)) for k, call in enumerate(calls)]
    room = [min(n, profile.vmem_bytes - 2 * WORD) for n in room]
    chosen = _choose(calls, places.lives, profile, room, parts) if fuse else []
    while True:
        buffers = [
            Buffer(f"t{k}", _rounded(t.layout.bytes), life.first, life.last + 1, 1024)
            for k, (t, life) in enumerate((t, places.lives[t]) for t in chosen)
        ]
        buffers += [Buffer(f"work{k}", n, k, k + 1, 1024) for k, n in enumerate(room)]
        try:
            found = plan(buffers, profile.vmem_bytes - WORD, 1024, strategy="auto")
            break
        except TilewrightError:
            if not chosen:
                raise
            chosen.pop()  # the one that helps least
    for k, tensor in enumerate(chosen):
        places.vmem[tensor] = found.offsets[f"t{k}"] + WORD
    for k in range(len(calls)):
        places.areas.append(_widest(k, found.offsets[f"work{k}"] + WORD, places, profile))
    _place_dram(calls, repeats, places, profile)
    return places


def _rounded(bytes: int) -> int:
    return -(-bytes // 1024) * 1024


def _choose(
    calls: Sequence[Call],
    lives: dict[Tensor, Life],
    profile: Profile,
    room: list[int],
    parts: Sequence[int],
) -> list[Tensor]:
    """Tensors for VMEM, the most useful first."""
    free = [profile.vmem_bytes - WORD - n for n in room]

    def worth(tensor: Tensor) -> float:
        life = lives[tensor]
        return (1 + life.reads) / (life.last - life.first + 1)

    candidates = [
        tensor
        for tensor, life in lives.items()
        if tensor.kind == "activation" and not any(life.first < part <= life.last for part in parts)
    ]
    chosen = []
    for tensor in sorted(candidates, key=lambda t: (-worth(t), t.layout.bytes, t.name)):
        life, size = lives[tensor], _rounded(tensor.layout.bytes)
        span = range(life.first, life.last + 1)
        if all(free[k] >= size for k in span):
            chosen.append(tensor)
            for k in span:
                free[k] -= size
    return chosen


def _widest(index: int, start: int, places: Places, profile: Profile) -> Area:
    """All of the gap around a call's work area."""
    low, high = WORD, profile.vmem_bytes
    for tensor, address in places.vmem.items():
        life = places.lives[tensor]
        if life.first <= index <= life.last:
            end = address + _rounded(tensor.layout.bytes)
            if end <= start:
                low = max(low, end)
            else:
                high = min(high, address)
    return Area(low, high)


def _place_dram(
    calls: Sequence[Call], repeats: Sequence[Repeat], places: Places, profile: Profile
) -> None:
    """Weights one after the other, those of rounds round by round; activations share memory."""
    end = 0

    def put(tensor: Tensor, at: int) -> int:
        places.dram[tensor] = at
        return at + -(-tensor.layout.bytes // PAGE) * PAGE

    turning = {t for repeat in repeats for t in repeat.weights}
    fixed = dict.fromkeys(
        t
        for call in calls
        for t in call.tensors.values()
        if t.kind in ("weight", "constant") and t not in turning
    )
    for tensor in fixed:
        end = put(tensor, end)
    for number, repeat in enumerate(repeats):
        start = end
        for tensor in repeat.weights:
            end = put(tensor, end)
        places.stride[number] = end - start
        end = start + (end - start) * repeat.count
    rest = [t for t in places.lives if t not in places.vmem and t not in places.dram]
    buffers = []
    for k, tensor in enumerate(rest):
        life = places.lives[tensor]
        size = -(-tensor.layout.bytes // PAGE) * PAGE
        upper = len(calls) if tensor.kind in ("input", "output") else life.last + 1
        lower = 0 if tensor.kind in ("input", "output") else life.first
        buffers.append(Buffer(f"d{k}", size, lower, upper, PAGE))
    found = plan(buffers, None, PAGE, strategy="best-fit") if buffers else None
    peak = end
    for k, tensor in enumerate(rest):
        assert found is not None
        places.dram[tensor] = end + found.offsets[f"d{k}"]
        peak = max(peak, places.dram[tensor] + buffers[k].size)
    places.dram_end = peak
    if peak > profile.dram_bytes:
        largest = max(places.dram, key=lambda t: t.layout.bytes)
        raise TilewrightError(
            "TW1705",
            f"the model needs {peak / 2**20:.1f} MiB of DRAM, {profile.name} has "
            f"{profile.dram_bytes / 2**20:.1f} MiB",
            hint=f"the largest tensor is {largest.name} with {largest.layout.bytes / 2**20:.1f} MiB",
        )
