"""Paths of attention: what they cost, what they need of CMX, and which one to take.

Keys and values of a head pass through CMX in blocks; the query rows of a tile are taken in parts
that fit beside them. What is modelled is what the memory scheduler makes of the tasks: blocks come
as there is room for them, parts share the engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.chip import padded
from tilewright.targets.vpu.lowering.groups import pieces, steps
from tilewright.targets.vpu.lowering.network import Call, Value
from tilewright.targets.vpu.machine import Machine

DECOMPOSED, FLASH, INCREMENTAL = "decomposed", "flash", "incremental"
PATHS = (DECOMPOSED, FLASH, INCREMENTAL)
_BOTH = 32  # lines from which on a part is split between the SHAVEs of a tile
_STATE = 30  # percent of CMX for the state of chains that go through the keys together
_CROWDED = 1.15  # parts wait for each other's room where keys fill most of CMX
_LARGEST = 85  # percent of CMX that one query row and a block of keys may take
_BESIDE, _ALONE = 45, 90  # percent of CMX for a part: two at a time, or one


@dataclass(frozen=True, slots=True)
class Heads:
    """The shape of an attention call; `shared` query heads use one head of keys and values."""

    queries: int
    keys: int
    groups: int
    shared: int
    width: int
    value_width: int
    causal: bool
    valid: int  # keys from here on are padding
    factor: float

    def visible(self, rows: range) -> int:
        """Keys that any of some query rows sees."""
        seen = self.valid
        if self.causal:
            seen = min(seen, rows.stop + self.keys - self.queries)
        return max(1, seen)


@dataclass(frozen=True, slots=True)
class Path:
    """A way to compute attention: keys per block (all of them when decomposed) and its cost."""

    name: str
    block: int
    cycles: int


def heads_of(values: dict[str, Value] | Any, call: Call) -> Heads:
    q, k, v = (values[call.operands[role]] for role in ("q", "k", "v"))
    heads, groups = int(call.attributes["heads"]), int(call.attributes["groups"])
    width = q.width // heads
    given = call.attributes.get("scale")
    return Heads(
        queries=q.rows,
        keys=k.rows,
        groups=groups,
        shared=heads // groups,
        width=width,
        value_width=v.rows // groups,
        causal=bool(call.attributes.get("causal")),
        valid=min(k.rows, int(call.attributes.get("valid_keys") or k.rows)),
        factor=float(1 / sqrt(width) if given is None else given),
    )


@lru_cache(maxsize=1 << 14)
def path_engines(
    machine: Machine, shape: Heads, name: str, block: int, rows: int
) -> tuple[int, int, int]:
    """Cycles of a tile's DPU and of one of its SHAVEs for all heads, and of the longest chain."""
    lines = rows * shape.shared
    keys = shape.visible(range(max(0, shape.queries - rows), shape.queries))
    dpu = shave = longest = latency = 0
    for part in steps(range(keys), block):
        work = _block_cycles(machine, shape, name, lines, len(part))
        dpu, shave = dpu + work[0], shave + work[1]
        longest, latency = max(longest, sum(work)), latency + sum(work)
    if name == FLASH:
        shave += costs.vector_cycles(machine, "normalise", lines * shape.value_width, 32)
    chain = longest if name == DECOMPOSED else latency
    return dpu * shape.groups, -(-shave * shape.groups // machine.shaves), chain


def path_cycles(machine: Machine, shape: Heads, name: str, block: int, rows: int) -> int:
    """Modelled cycles of one tile's work on `rows` query rows of all heads.

    Blocks of keys come one after the other, as there is room for them; the parts of the rows that
    fit beside each other share the engines, and every part goes from one to the next.
    """
    keys = shape.visible(range(max(0, shape.queries - rows), shape.queries))
    fit = rows_of_a_part(machine, shape, name, block, rows)
    parts = len(row_parts(machine, shape, range(rows), fit))
    lines = -(-rows // parts) * shape.shared
    count = parts
    if name != DECOMPOSED:
        passes = min(parts, -(-parts * state_bytes(shape, lines) // state_room(machine)))
        count = -(-parts // passes)
    room = machine.cmx_bytes * _ALONE // 100
    moved = 2 * block * (shape.width + shape.value_width)
    own = path_bytes(shape, name, block, lines) - moved
    halves = max(2, 2 * (room - min(parts, 2) * own) // moved)  # blocks of keys or of values
    beside = max(1, min(parts, (room - halves // 2 * moved) // own))
    ports = [0.0] * min(2, machine.dma_ports)
    busy = end = 0.0
    left: list[float] = []  # when keys and values of a block are no longer needed
    for _ in range(shape.groups):
        chain = 0.0
        for piece in steps(range(keys), block) * -(-parts // count):
            there = []
            for width in (shape.width, shape.value_width):
                number = len(left) + len(there)
                port = number % len(ports)
                if number >= halves:
                    ports[port] = max(ports[port], left[number - halves])
                size = 2 * len(piece) * width
                ports[port] += costs.dma_cycles(machine, costs.DRAM, costs.CMX, size)
                there.append(ports[port])
            dpu, shave = _block_cycles(machine, shape, name, lines, len(piece))
            step = max(dpu, shave / machine.shaves)
            busy = max(busy, there[0]) if not left else busy
            begin = max(there[0], chain, busy)
            busy += count * step
            chain = begin + max(count * max(step, (dpu + shave) / beside), dpu + shave)
            chain = max(chain, there[1] + dpu / 2)
            left += [chain - shave - dpu / 2 if dpu else chain, chain]
        if name == FLASH:
            chain += costs.vector_cycles(machine, "normalise", lines * shape.value_width, 32)
        end = max(end, chain)
    if parts > 1 and not next_keys_fit(machine, shape, name, block):
        end *= _CROWDED
    return int(end)


def _block_cycles(
    machine: Machine, shape: Heads, name: str, lines: int, size: int
) -> tuple[int, int]:
    """DPU and SHAVE cycles of one block of keys for one group of heads."""
    if name == INCREMENTAL:
        return 0, costs.partial_attention_cycles(machine, lines, size, shape.width)
    first = costs.matmul_cycles(machine, lines, shape.width, size, 2, 2)
    second = costs.matmul_cycles(machine, lines, size, shape.value_width, 2, 2)
    if name == DECOMPOSED:
        vector = costs.vector_cycles(machine, "softmax", lines * size, 16, lines)
    else:
        vector = costs.vector_cycles(machine, "online_softmax", lines * size, 32, lines)
        vector += costs.vector_cycles(machine, "accumulate", lines * shape.value_width, 32)
    return first + second, vector


def path_bytes(shape: Heads, name: str, block: int, lines: int) -> int:
    """CMX that the tasks of one block of keys need at once."""
    operands = 2 * block * (shape.width + shape.value_width) + 2 * lines * shape.width
    scores = 4 * lines * block  # s and p
    if name == DECOMPOSED:
        return operands + scores + 2 * lines * shape.value_width
    return operands + state_bytes(shape, lines) + (scores if name == FLASH else 0)


def state_bytes(shape: Heads, lines: int) -> int:
    return lines * (12 + 8 * shape.value_width)


def rows_of_a_part(machine: Machine, shape: Heads, name: str, block: int, rows: int) -> int:
    """Query rows of a part: the next keys fit beside two of them, else at least the second part."""
    if next_keys_fit(machine, shape, name, block):
        return _lines(shape, name, block, rows, machine.cmx_bytes * _BESIDE // 100)
    return max(1, _lines(shape, name, block, 2 * rows, machine.cmx_bytes * _ALONE // 100) // 2)


def next_keys_fit(machine: Machine, shape: Heads, name: str, block: int) -> bool:
    """Whether there is room for the next block of keys while one is at work."""
    return path_bytes(shape, name, block, shape.shared) <= machine.cmx_bytes * _BESIDE // 100


def fits(machine: Machine, shape: Heads, name: str, block: int) -> bool:
    """Whether a block of keys fits with one query row."""
    return path_bytes(shape, name, block, shape.shared) <= machine.cmx_bytes * _LARGEST // 100


@lru_cache(maxsize=4096)
def choose_path(machine: Machine, shape: Heads, rows: int, wanted: str | None = None) -> Path:
    """The path with the smallest modelled cost among those that fit; `wanted` overrides."""
    if wanted is not None and wanted not in PATHS:
        raise TilewrightError(
            "TW7084", f"there is no attention path {wanted!r}", hint=f"paths are {', '.join(PATHS)}"
        )
    budget = machine.cmx_bytes * _LARGEST // 100
    found: list[tuple[int, int, Path]] = []
    smallest = 0
    for rank, name in enumerate(PATHS):
        if wanted not in (None, name):
            continue
        for block in _blocks(shape.valid, name):
            needed = path_bytes(shape, name, block, shape.shared)
            smallest = min(needed, smallest or needed)
            if not fits(machine, shape, name, block):
                continue
            cycles = path_cycles(machine, shape, name, block, rows)
            found.append((cycles, rank, Path(name, block, cycles)))
    if not found:
        raise TilewrightError(
            "TW7080",
            f"attention over {shape.keys} keys needs {smallest} bytes of CMX at once, "
            f"{budget} may be used",
            hint="let the compiler choose the path" if wanted else None,
        )
    return min(found, key=lambda entry: entry[:2])[2]


def _blocks(keys: int, name: str) -> list[int]:
    """Lengths of key blocks to try: multiples of 16, evenly over the keys."""
    if name == DECOMPOSED:
        return [keys]
    found = []
    for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        size = padded(-(-keys // count))
        if size not in found:
            found.append(size)
    return found


def _lines(shape: Heads, name: str, block: int, rows: int, budget: int) -> int:
    """Query rows (at most `rows`) whose lines fit with a block of keys; 0: not even one."""
    if path_bytes(shape, name, block, shape.shared) > budget:
        return 0
    low, high = 1, rows
    while low < high:
        middle = (low + high + 1) // 2
        if path_bytes(shape, name, block, middle * shape.shared) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def row_parts(machine: Machine, shape: Heads, rows: range, fit: int) -> list[range]:
    """Query rows of one tile in parts that fit, for all of its SHAVEs."""
    return [
        half
        for part in pieces(rows, -(-len(rows) // fit))
        for half in pieces(part, machine.shaves if len(part) * shape.shared >= _BOTH else 1)
    ]


def state_room(machine: Machine) -> int:
    return machine.cmx_bytes * _STATE // 100
