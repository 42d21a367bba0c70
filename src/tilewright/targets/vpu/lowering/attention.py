"""Attention in three ways: decomposed, as a flash chain over blocks of keys, or step by step.

Query heads that share keys lie side by side in a row, so the rows of a block times the heads of a
group are the rows of one product: keys and values are shared without copies.

| path | per block of rows and group of heads |
|---|---|
| decomposed | scores (DPU), softmax (SHAVE), times values (DPU) |
| flash | per block of keys: scores (DPU), online softmax (SHAVE), times values (DPU), accumulate (SHAVE) |
| incremental | per block of keys: one SHAVE task, products included |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.chip import Chip, Operand, padded
from tilewright.targets.vpu.lowering.groups import Group, pieces, steps
from tilewright.targets.vpu.lowering.network import Call, Value
from tilewright.targets.vpu.machine import Machine

DECOMPOSED, FLASH, INCREMENTAL = "decomposed", "flash", "incremental"
PATHS = (DECOMPOSED, FLASH, INCREMENTAL)
_BOTH = 32  # lines from which on a part is split between the SHAVEs of a tile
_STATE = 30  # percent of CMX for the state of chains that go through the keys together
_QUERIES = 5  # percent of CMX for queries of a tile that come together
_CROWDED = 1.15  # parts wait for each other's room where keys fill most of CMX
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


# --- What the paths cost -------------------------------------------------------------------------


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
    fit = _fitting(machine, shape, name, block, rows)
    parts = len(_parts(machine, shape, range(rows), fit))
    lines = -(-rows // parts) * shape.shared
    count = parts
    if name != DECOMPOSED:
        passes = min(parts, -(-parts * _state_bytes(shape, lines) // _held(machine)))
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
    if parts > 1 and not _next_keys_fit(machine, shape, name, block):
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
    return operands + _state_bytes(shape, lines) + (scores if name == FLASH else 0)


def _state_bytes(shape: Heads, lines: int) -> int:
    return lines * (12 + 8 * shape.value_width)


def _fitting(machine: Machine, shape: Heads, name: str, block: int, rows: int) -> int:
    """Query rows of a part: the next keys fit beside two of them, else at least the second part."""
    if _next_keys_fit(machine, shape, name, block):
        return _lines(shape, name, block, rows, machine.cmx_bytes * _BESIDE // 100)
    return max(1, _lines(shape, name, block, 2 * rows, machine.cmx_bytes * _ALONE // 100) // 2)


def _next_keys_fit(machine: Machine, shape: Heads, name: str, block: int) -> bool:
    """Whether there is room for the next block of keys while one is at work."""
    return path_bytes(shape, name, block, shape.shared) <= machine.cmx_bytes * _BESIDE // 100


@lru_cache(maxsize=4096)
def choose_path(machine: Machine, shape: Heads, rows: int, wanted: str | None = None) -> Path:
    """The path with the smallest modelled cost among those that fit; `wanted` overrides."""
    if wanted is not None and wanted not in PATHS:
        raise TilewrightError(
            "TW7084", f"there is no attention path {wanted!r}", hint=f"paths are {', '.join(PATHS)}"
        )
    budget = machine.cmx_bytes * 85 // 100
    found: list[tuple[int, int, Path]] = []
    smallest = 0
    for rank, name in enumerate(PATHS):
        if wanted not in (None, name):
            continue
        for block in _blocks(shape.valid, name):
            lines = _lines(shape, name, block, rows, budget)
            needed = path_bytes(shape, name, block, shape.shared)
            smallest = min(needed, smallest or needed)
            if not lines:
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


# --- Tasks ---------------------------------------------------------------------------------------


def attention(chip: Chip, call: Call, group: Group) -> None:
    """Rows of queries of one group of rows, all heads."""
    for _ in attention_steps(chip, call, group):
        pass


def attention_steps(chip: Chip, call: Call, group: Group) -> Iterator[int]:
    """The same, one group of heads after the other: after each, how many columns of q it took."""
    shape = heads_of(chip.values, call)
    most = max(len(rows) for rows, _ in group.blocks)
    path = choose_path(chip.machine, shape, most, call.attributes.get("path"))
    block = int(call.attributes.get("block") or path.block)
    fit = _fitting(chip.machine, shape, path.name, block, most)
    for head in range(shape.groups):
        chains: list[list[Iterator[None]]] = [[]]  # each list goes through the keys together
        held = dict.fromkeys((tile for _, tile in group.blocks), 0)  # bytes of state
        for rows, tile in group.blocks:
            if _next_keys_fit(chip.machine, shape, path.name, block):
                _queries(chip, call.operands["q"], shape, head, rows, tile)
            for part in _parts(chip.machine, shape, rows, fit):
                state = _state_bytes(shape, len(part) * shape.shared)
                if path.name == DECOMPOSED or held[tile] + state > _held(chip.machine):
                    chains.append([])
                    held = dict.fromkeys(held, 0)
                held[tile] += state
                chains[-1].append(
                    _attend(chip, call, shape, path.name, block, head, part, tile, group)
                )
        for together in chains:
            _in_step(together)
        yield (head + 1) * shape.shared * shape.width


def _parts(machine: Machine, shape: Heads, rows: range, fit: int) -> list[range]:
    """Query rows of one tile in parts that fit, for all of its SHAVEs."""
    return [
        half
        for part in pieces(rows, -(-len(rows) // fit))
        for half in pieces(part, machine.shaves if len(part) * shape.shared >= _BOTH else 1)
    ]


def _queries(chip: Chip, name: str, shape: Heads, head: int, rows: range, tile: int) -> None:
    """Queries of all parts of a tile in one transfer, if they are in DDR and take little room."""
    span = shape.shared * shape.width
    if len(rows) * span * chip.values[name].size <= chip.machine.cmx_bytes * _QUERIES // 100:
        chip.fetch(name, rows, range(head * span, (head + 1) * span), tile)


def _held(machine: Machine) -> int:
    return machine.cmx_bytes * _STATE // 100


def _in_step(chains: list[Iterator[None]]) -> None:
    """Chains side by side, block of keys by block: keys are there for all, and leave for good."""
    while chains:
        chains = [chain for chain in chains if next(chain, _END) is not _END]


_END = object()


def _attend(
    chip: Chip,
    call: Call,
    shape: Heads,
    path: str,
    block: int,
    head: int,
    rows: range,
    tile: int,
    group: Group,
) -> Iterator[None]:
    """The tasks of some query rows, block of keys by block."""
    q, result = chip.values[call.operands["q"]], chip.values[call.result]
    lines = len(rows) * shape.shared
    span = shape.shared * shape.width
    queries = chip.fetch(q.name, rows, range(head * span, (head + 1) * span), tile)
    queries = queries.shaped(lines, shape.width)
    out_span = shape.shared * shape.value_width
    out = chip.target(
        result.name, rows, range(head * out_span, (head + 1) * out_span), tile
    ).shaped(lines, shape.value_width)
    unit = float(result.scale) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]
    tasks = _Attend(chip, call, shape, head, rows, tile, group, queries, out, unit)
    if path == DECOMPOSED:
        tasks.decomposed()
    else:
        yield from tasks.chain(block, path == FLASH)


@dataclass(frozen=True, slots=True)
class _Attend:
    """The tasks of some query rows and one group of heads."""

    chip: Chip
    call: Call
    shape: Heads
    head: int
    rows: range
    tile: int
    group: Group
    queries: Operand
    out: Operand
    unit: float

    @property
    def lines(self) -> int:
        return len(self.rows) * self.shape.shared

    def operands(self, keys: range) -> tuple[Operand, Operand]:
        """Keys [keys, E] and values [Ev, keys], the same transfer for all tiles of the group."""
        chip, shape, head = self.chip, self.shape, self.head
        tiles = list(dict.fromkeys(tile for _, tile in self.group.blocks))
        k = chip.fetch_all(
            self.call.operands["k"],
            keys,
            range(head * shape.width, (head + 1) * shape.width),
            tiles,
        )
        down = range(head * shape.value_width, (head + 1) * shape.value_width)
        v = chip.fetch_all(self.call.operands["v"], down, keys, tiles)
        return k[self.tile], v[self.tile]

    def mask(self, keys: range) -> tuple[list[Operand], dict[str, Any]]:
        """Causal and padding rules as options, a mask tensor as an operand."""
        shape = self.shape
        options: dict[str, Any] = {"shared": shape.shared}
        if shape.causal:
            options["causal"] = (self.rows.start + shape.keys - shape.queries, keys.start)
        if keys.stop > shape.valid:
            options["valid"] = shape.valid - keys.start
        if "mask" not in self.call.operands:
            return [], options
        mask = self.chip.values[self.call.operands["mask"]]
        rows = self.rows if mask.rows > 1 else range(1)
        options["operands"] = ("mask",)
        return [self.chip.fetch(mask.name, rows, keys, self.tile)], options

    def scores(self, k: Operand, keys: range) -> Operand:
        chip, machine = self.chip, self.chip.machine
        made = chip.scratch("scores", "f16", (self.lines, len(keys)), self.tile)
        cycles = costs.matmul_cycles(machine, self.lines, self.shape.width, len(keys), 2, 2)
        chip.task("matmul", [self.queries, k], [made], cycles, self.tile)
        return made

    def decomposed(self) -> None:
        chip, machine, shape = self.chip, self.chip.machine, self.shape
        keys = range(shape.visible(self.group_rows()))
        k, v = self.operands(keys)
        own = range(min(len(keys), shape.visible(self.rows)))
        scores = self.scores(_rows(chip, k, own), own)
        more, options = self.mask(own)
        weights = chip.scratch("weights", "f16", scores.shape, self.tile)
        cycles = costs.vector_cycles(machine, "softmax", self.lines * len(own), 16, self.lines)
        chip.task("softmax", [scores, *more], [weights], cycles, self.tile,
                  ((scores.root, weights.root),), factor=shape.factor, **options)  # fmt: skip
        cycles = costs.matmul_cycles(machine, self.lines, len(own), shape.value_width, 2, 2)
        chip.task("matmul", [weights, _columns(chip, v, own)], [self.out], cycles, self.tile,
                  **self._rounding())  # fmt: skip

    def group_rows(self) -> range:
        """All tiles of the group load the same keys."""
        return self.group.rows

    def _rounding(self) -> dict[str, Any]:
        if self.out.dtype != "i8":
            return {}
        return {"factor": 1.0 / self.unit}

    def chain(self, block: int, on_dpu: bool) -> Iterator[None]:
        """State (m, l, o) threaded through blocks of keys."""
        chip, machine, shape, tile = self.chip, self.chip.machine, self.shape, self.tile
        lines, width = self.lines, shape.value_width
        state: list[Operand] | None = None
        limit = shape.visible(self.group_rows())
        own = shape.visible(self.rows)
        blocks = [keys for keys in steps(range(limit), block) if keys.start < own]
        for number, keys in enumerate(blocks):
            if number:
                yield
            k, v = self.operands(keys)
            more, options = self.mask(keys)
            options["factor"] = shape.factor
            fresh = list(self._state())
            first = state is None
            if not on_dpu:
                last = number == len(blocks) - 1
                outputs = [self.out] if last else fresh
                options["first"], options["last"] = first, last
                cycles = costs.partial_attention_cycles(machine, lines, len(keys), shape.width)
                pairs = () if first or last else _pairs(state, fresh)
                chip.task("partial_attention", [self.queries, k, v, *(state or []), *more],
                          outputs, cycles, tile, pairs, **options, **self._vector_scale())  # fmt: skip
                state = fresh
                continue
            scores = self.scores(k, keys)
            weights = chip.scratch("weights", "f16", scores.shape, tile)
            decay = chip.scratch("decay", "f32", (lines,), tile)
            cycles = costs.vector_cycles(machine, "online_softmax", lines * len(keys), 32, lines)
            chip.task(
                "online_softmax", [scores, *([] if first else state[:2]), *more],  # type: ignore[index]
                [weights, decay, *fresh[:2]], cycles, tile, ((scores.root, weights.root),),
                first=first, **options,
            )  # fmt: skip
            product = chip.scratch("product", "f32", (lines, width), tile)
            cycles = costs.matmul_cycles(machine, lines, len(keys), width, 2, 2)
            chip.task("matmul", [weights, v], [product], cycles, tile)
            if first:
                fresh[2] = product
            else:
                assert state is not None
                cycles = costs.vector_cycles(machine, "accumulate", lines * width, 32)
                chip.task("accumulate", [state[2], decay, product], [fresh[2]], cycles, tile,
                          ((state[2].root, fresh[2].root),))  # fmt: skip
            state = fresh
        if on_dpu:
            assert state is not None
            cycles = costs.vector_cycles(machine, "normalise", lines * width, 32)
            chip.task("normalise", [state[2], state[1]], [self.out], cycles, tile,
                      **self._vector_scale())  # fmt: skip

    def _state(self) -> Iterator[Operand]:
        """Maximum, sum and output of every line."""
        yield self.chip.scratch("maximum", "f32", (self.lines,), self.tile)
        yield self.chip.scratch("total", "f32", (self.lines,), self.tile)
        yield self.chip.scratch("output", "f32", (self.lines, self.shape.value_width), self.tile)

    def _vector_scale(self) -> dict[str, Any]:
        return {"output_scale": self.unit} if self.out.dtype == "i8" else {}


def _pairs(before: list[Operand] | None, after: list[Operand]) -> tuple[tuple[str, str], ...]:
    if before is None:
        return ()
    return tuple((old.root, new.root) for old, new in zip(before, after, strict=True))


def _rows(chip: Chip, operand: Operand, rows: range) -> Operand:
    """The first rows of a fetched operand."""
    return _part(chip, operand, rows, range(operand.shape[1]))


def _columns(chip: Chip, operand: Operand, columns: range) -> Operand:
    return _part(chip, operand, range(operand.shape[0]), columns)


def _part(chip: Chip, operand: Operand, rows: range, columns: range) -> Operand:
    if (len(rows), len(columns)) == operand.shape:
        return operand
    return chip.narrowed(operand, rows, columns)
