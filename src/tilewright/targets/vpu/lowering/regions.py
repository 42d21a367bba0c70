"""Vertical fusion: which calls go through CMX together, and in how many groups of rows.

A region is a run of calls that work row by row on the same rows. It is carried out group by
group; between its calls nothing leaves CMX unless the memory scheduler wants it to. Weights come
once per group, so more groups cost transfers and give engines more to overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.attention_paths import choose_path, heads_of, path_engines
from tilewright.targets.vpu.lowering.chip import CHANNELS
from tilewright.targets.vpu.lowering.groups import groups
from tilewright.targets.vpu.lowering.network import Call, Network, Value
from tilewright.targets.vpu.machine import Machine

ELEMENTS = {"unary", "binary", "bound", "cast", "scale", "select", "silu_gate"}
ROWS = {"softmax", "rms_norm", "layer_norm", "reduce"}
ROW_LOCAL = ELEMENTS | ROWS | {"linear", "rope", "attention"}
_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
_KEYS = 55  # percent of CMX that keys and values of all groups of rows may take
_HEADROOM = 5 / 4  # transfers come in bursts; plan for less than all of the ports


@dataclass(slots=True)
class Region:
    """Calls that are carried out together; `rows` is None for calls that mix rows."""

    calls: list[Call]
    rows: int | None
    count: int = 1  # groups of rows


def rows_of(values: Mapping[str, Value], call: Call) -> int | None:
    """The rows a call goes through one by one."""
    if call.family not in ROW_LOCAL:
        return None
    if call.family == "attention":
        return values[call.operands["q"]].rows
    if call.family in ("linear", "reduce", *ROWS, "rope"):
        return values[call.operands["x"]].rows
    return values[call.result].rows


def regions(network: Network, machine: Machine, fused: bool, count: int | None) -> list[Region]:
    """Calls in order, cut where rows mix; each region with its number of groups."""
    found: list[Region] = []
    for call in network.calls:
        rows = rows_of(network.values, call)
        if fused and call.family == "attention" and found and found[-1].rows == rows:
            _cut_behind(found, {call.operands["k"], call.operands["v"]})
        if (
            fused
            and found
            and rows is not None
            and found[-1].rows == rows
            and not _stage_ends(found[-1], call)
        ):
            trial = Region([*found[-1].calls, call], rows)
            if _accepted(network.values, machine, found[-1], trial, count):
                found[-1] = trial
                continue
        found.append(Region([call], rows))
    for rows in dict.fromkeys(region.rows for region in found):
        if rows is not None:
            own = [region for region in found if region.rows == rows]
            _set_counts(network.values, machine, own, count)
    return found


def _set_counts(
    values: Mapping[str, Value], machine: Machine, found: list[Region], count: int | None
) -> None:
    """One number of groups for all regions of the same rows, if some number fits them all.

    Their blocks are then the same, and what passes between them needs no transfer.
    """
    best: tuple[float, int] | None = None
    last = 0
    for number in (count,) if count else _COUNTS:
        made = groups(machine, found[0].rows or 1, number)
        if len(made) == last:
            break
        last = len(made)
        rows = max(len(block) for group in made for block, _ in group.blocks)
        alike = {_signature(values, region): region for region in found}
        free = bool(count) or made[0].by_columns
        if not free and not all(
            _fits(values, machine, region, rows, len(made)) for region in alike.values()
        ):
            continue
        weights = {key: 0 for key in alike}
        for region in found:
            weights[_signature(values, region)] += 1
        time = sum(
            weights[key] * modelled(values, machine, region, number)
            for key, region in alike.items()
        )
        if best is None or time < best[0]:
            best = (time, number)
        elif time > 2 * best[0]:
            break
    for region in found:
        region.count = best[1] if best else best_count(values, machine, region)


def _signature(values: Mapping[str, Value], region: Region) -> tuple[object, ...]:
    """What the modelled time of a region depends on."""
    return tuple(
        (call.family, values[call.result].shape, *(values[n].shape for n in call.operands.values()))
        for call in region.calls
    )


def _stage_ends(region: Region, call: Call) -> bool:
    """Whether the work of SHAVEs ends here: groups of rows overlap best if stages are their own.

    Attention keeps the SHAVEs busy, the products behind the next norm the DPUs. One group's
    attention can run beside another's products only if neither has to wait for its whole layer.
    """
    families = [entry.family for entry in region.calls]
    if call.family != "linear" or "attention" not in families:
        return False
    return any(family in ROWS for family in families[families.index("attention") :])


def _cut_behind(found: list[Region], needed: set[str]) -> None:
    """End a region where all of its rows are needed at once: behind the keys and values."""
    last = found[-1]
    places = [n for n, call in enumerate(last.calls) if call.result in needed]
    if places:
        rest = last.calls[places[-1] + 1 :]
        last.calls = last.calls[: places[-1] + 1]
        if rest:
            found.append(Region(rest, last.rows))
        else:
            found.append(Region([], last.rows))


def _accepted(
    values: Mapping[str, Value],
    machine: Machine,
    before: Region,
    merged: Region,
    count: int | None,
) -> bool:
    """Whether a region is modelled to be faster with one call more than beside it."""
    if not before.calls:
        return True
    alone = Region([merged.calls[-1]], merged.rows)

    def time(region: Region) -> float:
        return modelled(values, machine, region, count or best_count(values, machine, region))

    return time(merged) <= time(before) + time(alone)


def best_count(values: Mapping[str, Value], machine: Machine, region: Region) -> int:
    """The number of groups with the smallest modelled time among those that fit."""
    assert region.rows is not None
    best: tuple[float, int] | None = None
    last = 0
    for count in _COUNTS:
        made = groups(machine, region.rows, count)
        if len(made) == last:
            break
        last = len(made)
        rows = max(len(block) for group in made for block, _ in group.blocks)
        if not _fits(values, machine, region, rows, len(made)) and not made[0].by_columns:
            continue
        time = modelled(values, machine, region, count)
        if best is None or time < best[0]:
            best = (time, count)
        elif time > 2 * best[0]:
            break
    return best[1] if best is not None else last


def _fits(
    values: Mapping[str, Value], machine: Machine, region: Region, rows: int, count: int
) -> bool:
    """Whether the operands of every call fit beside two chunks of weights.

    Groups advance side by side, each with keys and values of its own.
    """
    budget = machine.cmx_bytes * 85 // 100
    for call in region.calls:
        if call.family == "attention" and count > 1:
            shape = heads_of(values, call)
            path = choose_path(machine, shape, rows, call.attributes.get("path"))
            size = 2 * path.block * (shape.width + shape.value_width)
            if count * size > machine.cmx_bytes * _KEYS // 100:
                return False
        operands = [values[name] for name in (*call.operands.values(), call.result)]
        if call.family in ELEMENTS | {"attention", "rope"}:
            continue  # these split what they work on
        size = sum(
            rows * value.width * value.size for value in operands if value.rows == region.rows
        )
        if call.family == "linear":
            size += 2 * machine.cmx_bytes * 14 // 100
        if size > budget:
            return False
    return True


def modelled(values: Mapping[str, Value], machine: Machine, region: Region, count: int) -> float:
    """Cycles of a region: its busiest engine, and what the others cannot hide behind it."""
    assert region.rows is not None
    made = groups(machine, region.rows, count)
    rows = [max(len(block) for block, _ in group.blocks) for group in made]
    dpu = shave = dma = 0.0
    inside = {call.result for call in region.calls}
    for call in region.calls:
        operands = [values[name] for name in call.operands.values()]
        for height in rows:
            work = _engines(values, machine, call, height, made[0].by_columns)
            dpu, shave, dma = dpu + work[0], shave + work[1], dma + work[2]
        for value in operands:
            if value.data is None and value.name not in inside and value.rows == region.rows:
                dma += _transfer(machine, value)
    users = {name for call in region.calls for name in call.operands.values()}
    for name in inside - users:
        dma += _transfer(machine, values[name])
    dma /= machine.dma_ports
    return max(dpu, shave, dma * _HEADROOM) + shave / len(made)


def _transfer(machine: Machine, value: Value) -> float:
    return costs.dma_cycles(machine, costs.DRAM, costs.CMX, value.rows * value.width * value.size)


def _engines(
    values: Mapping[str, Value], machine: Machine, call: Call, rows: int, by_columns: bool
) -> tuple[float, float, float]:
    """Cycles of one tile's DPU, of one of its SHAVEs, and of transfers of weights."""
    result = values[call.result]
    if call.family == "linear":
        x, weight = values[call.operands["x"]], values[call.operands["weight"]]
        columns, inner = weight.shape
        share = machine.tiles if by_columns else 1
        height = x.rows if by_columns else rows
        cycles = costs.matmul_cycles(
            machine, height, inner, -(-columns // share), x.size, weight.size
        )
        moved = costs.dma_cycles(machine, costs.DRAM, costs.CMX, columns * inner * weight.size)
        return cycles, 0.0, moved
    if call.family == "attention":
        shape = heads_of(values, call)
        path = choose_path(machine, shape, rows, call.attributes.get("path"))
        dpu, shave, _ = path_engines(machine, shape, path.name, path.block, rows)
        return dpu, shave, 0.0
    cost = call.family if call.family in costs.VECTOR_COSTS else "softmax"
    elements = rows * max(result.width, values[next(iter(call.operands.values()))].width)
    cycles = costs.vector_cycles(machine, cost, elements, 16, rows)
    return 0.0, cycles / machine.shaves, 0.0


def resolved(network: Network, machine: Machine, region: Region) -> None:
    """Attention calls of a region get their path and block of keys, for everybody to see."""
    if region.rows is None:
        return
    made = groups(machine, region.rows, region.count)
    most = max(len(block) for group in made for block, _ in group.blocks)
    for number, call in enumerate(region.calls):
        if call.family != "attention":
            continue
        shape = heads_of(network.values, call)
        path = choose_path(machine, shape, most, call.attributes.get("path"))
        attributes = {**call.attributes, "path": path.name}
        attributes.setdefault("block", path.block)
        region.calls[number] = Call(
            call.name, call.family, call.operands, call.result, attributes, call.sources
        )


def column_block(
    network: Network, users: Mapping[str, Sequence[tuple[Call, str]]], name: str, unit: int
) -> int:
    """How wide the blocks of a value may be: 0 where some user needs whole rows."""
    widths = []
    for call, role in users.get(name, ()):
        if call.family == "attention":
            shape = heads_of(network.values, call)
            if role not in ("q", "k"):
                return 0
            widths.append(shape.width * (shape.shared if role == "q" else 1))
        elif call.family == "rope" and role == "x":
            own = column_block(network, users, call.result, unit)
            widths.append(own or 0)
        elif call.family in ELEMENTS:
            widths.append(unit)
        else:
            return 0
    if not widths or 0 in widths:
        return 0
    return widths[0] if len(set(widths)) == 1 else 0


def element_unit(rows: int) -> int:
    """Columns that make an element-wise task long enough to be worth its entry."""
    return -(-4096 // max(1, rows) // CHANNELS) * CHANNELS or CHANNELS
