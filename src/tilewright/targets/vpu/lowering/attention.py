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
from typing import Any

from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.attention_paths import (
    DECOMPOSED,
    FLASH,
    Heads,
    choose_path,
    heads_of,
    next_keys_fit,
    row_parts,
    rows_of_a_part,
    state_bytes,
    state_room,
)
from tilewright.targets.vpu.lowering.chip import Chip, Operand
from tilewright.targets.vpu.lowering.groups import Group, steps
from tilewright.targets.vpu.lowering.network import Call

_QUERIES = 5  # percent of CMX for queries of a tile that come together


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
    fit = rows_of_a_part(chip.machine, shape, path.name, block, most)
    for head in range(shape.groups):
        chains: list[list[Iterator[None]]] = [[]]  # each list goes through the keys together
        held = dict.fromkeys((tile for _, tile in group.blocks), 0)  # bytes of state
        for rows, tile in group.blocks:
            if next_keys_fit(chip.machine, shape, path.name, block):
                _queries(chip, call.operands["q"], shape, head, rows, tile)
            for part in row_parts(chip.machine, shape, rows, fit):
                state = state_bytes(shape, len(part) * shape.shared)
                if path.name == DECOMPOSED or held[tile] + state > state_room(chip.machine):
                    chains.append([])
                    held = dict.fromkeys(held, 0)
                held[tile] += state
                chains[-1].append(
                    _attend(chip, call, shape, path.name, block, head, part, tile, group)
                )
        for together in chains:
            _in_step(together)
        yield (head + 1) * shape.shared * shape.width


def _queries(chip: Chip, name: str, shape: Heads, head: int, rows: range, tile: int) -> None:
    """Queries of all parts of a tile in one transfer, if they are in DDR and take little room."""
    span = shape.shared * shape.width
    if len(rows) * span * chip.values[name].size <= chip.machine.cmx_bytes * _QUERIES // 100:
        chip.fetch(name, rows, range(head * span, (head + 1) * span), tile)


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
