"""A network becomes a tile graph: regions, groups of rows, tasks, and stores of what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.errors import TilewrightError
from tilewright.garbage import no_cycle_collection
from tilewright.targets.vpu.lowering import images, movement
from tilewright.targets.vpu.lowering.attention import attention, attention_steps
from tilewright.targets.vpu.lowering.attention_paths import heads_of
from tilewright.targets.vpu.lowering.attention_trials import decided
from tilewright.targets.vpu.lowering.chip import CHANNELS, EXACT, Chip
from tilewright.targets.vpu.lowering.groups import Group, groups
from tilewright.targets.vpu.lowering.linear import (
    accumulated_steps,
    chunk_columns,
    inner_depth,
    linear,
    linear_steps,
    may_accumulate,
)
from tilewright.targets.vpu.lowering.network import Call, Network
from tilewright.targets.vpu.lowering.padding import with_masks
from tilewright.targets.vpu.lowering.regions import (
    ELEMENTS,
    ROWS,
    Region,
    column_block,
    element_unit,
    regions,
    resolved,
)
from tilewright.targets.vpu.lowering.rows import element_call, rope, row_call
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.tile_graph import NO_STREAM

_SMALL = 7  # percent of CMX that a block may take which waits for the next region

RowLowering = Callable[[Chip, Call, Group], None]
WholeLowering = Callable[[Chip, Call], None]
ROW_LOWERINGS: dict[str, RowLowering] = {
    **dict.fromkeys(ELEMENTS, element_call),
    **dict.fromkeys(ROWS, row_call),
    "linear": linear,
    "rope": rope,
    "attention": attention,
}
WHOLE_LOWERINGS: dict[str, WholeLowering] = {
    "convolution": images.convolution,
    "pool": images.pool,
    "matmul": movement.matmul,
    "reshape": movement.reshape,
    "slice": movement.slice_,
    "concat": movement.concat,
    "transpose": movement.transpose,
    "broadcast": movement.broadcast,
}


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What a user may decide instead of the cost model."""

    fused: bool = True
    groups: int | None = None  # of rows, per region
    attention: str | None = None  # path
    valid: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of padded inputs, per axis


@dataclass(slots=True)
class Lowered:
    """A tile graph, and the network it computes, with every choice made."""

    chip: Chip
    network: Network
    regions: list[Region]


@no_cycle_collection()
def lower(network: Network, machine: Machine, options: LoweringOptions | None = None) -> Lowered:
    """The tile graph of a network."""
    options = options or LoweringOptions()
    network = decided(_with_path(network, options.attention), machine)
    if options.valid:
        network = with_masks(network, options.valid).network
    chip = Chip(machine, network.values)
    users: dict[str, list[tuple[Call, str]]] = {}
    for call in network.calls:
        for role, name in call.operands.items():
            users.setdefault(name, []).append((call, role))
    found = regions(network, machine, options.fused, options.groups)
    for name in network.inputs:
        chip.home(name)
    for region, following in zip(found, [*found[1:], None], strict=True):
        resolved(network, machine, region)
        _region(chip, network, region, following, users, options.fused)
    for name in network.outputs:
        chip.flush(name)
    final = [call for region in found for call in region.calls]
    return Lowered(chip, replace(network, calls=final), found)


def _with_path(network: Network, path: str | None) -> Network:
    if path is None:
        return network
    calls = [
        replace(call, attributes={**call.attributes, "path": path})
        if call.family == "attention"
        else call
        for call in network.calls
    ]
    return replace(network, calls=calls)


def _region(
    chip: Chip,
    network: Network,
    region: Region,
    following: Region | None,
    users: dict[str, list[tuple[Call, str]]],
    fused: bool,
) -> None:
    if region.rows is None:
        (call,) = region.calls
        chip.steps.append((call.result, len(chip.tasks)))
        if call.family not in WHOLE_LOWERINGS:
            raise TilewrightError("TW7085", f"the VPU has no {call.family!r}")
        WHOLE_LOWERINGS[call.family](chip, call)
        if not fused:
            _leave(chip, region.calls)
        return
    made = groups(chip.machine, region.rows, region.count)
    chip.several = len(made) > 1
    _blocks(chip, network, region, users, made)
    for number, group in enumerate(made):
        chip.row_blocks = () if group.by_columns else group.blocks
        chip.stream = number if chip.several else NO_STREAM
        for chain in column_chains(chip, region.calls, group):
            if len(chain) > 1:
                _chain(chip, chain, group)
                continue
            chip.steps.append((chain[0].result, len(chip.tasks)))
            ROW_LOWERINGS[chain[0].family](chip, chain[0], group)
        if chip.several:
            _hand_on(chip, region, following, users)
    chip.row_blocks = ()
    chip.stream, chip.several = NO_STREAM, False
    if not fused:
        _leave(chip, region.calls)


def _hand_on(
    chip: Chip, region: Region, following: Region | None, users: dict[str, list[tuple[Call, str]]]
) -> None:
    """What a group leaves for later regions waits in DDR: the other groups need the room.

    Small blocks that only the group's next region takes, row by row, stay where they are.
    """
    inside = {call.result for call in region.calls}
    behind: set[str] = set()
    if following is not None and (following.rows, following.count) == (region.rows, region.count):
        behind = {call.result for call in following.calls}
    for name in sorted(inside):
        later = [(call, role) for call, role in users.get(name, ()) if call.result not in inside]
        if not later and name in users:
            continue
        stays = bool(later) and all(
            call.result in behind and role not in ("k", "v") for call, role in later
        )
        largest = max((chip.bytes_of(block) for block in chip.blocks.get(name, ())), default=0)
        if stays and largest <= chip.machine.cmx_bytes * _SMALL // 100:
            continue
        chip.flush(name)
        chip.forget(name)


def column_chains(chip: Chip, calls: Sequence[Call], group: Group) -> list[list[Call]]:
    """Products and what is done to their results column by column: these go together."""
    chains: list[list[Call]] = []
    width = 0
    for call in calls:
        step = chip.column_blocks.get(call.result, 0)
        columns = chip.values[call.result].width
        if not group.by_columns and call.family == "linear" and step > 0:
            open_chain = bool(chains) and width == columns and _only_products(chains[-1])
            same = open_chain and chip.column_blocks[chains[-1][0].result] == step
            if same and chains[-1][0].operands["x"] == call.operands["x"]:
                chains[-1].append(call)
            else:
                chains.append([call])
            width = columns
            continue
        made = {entry.result for entry in chains[-1]} if width else set()
        if _closes(chip, call, made, group, chains[-1] if chains else []):
            chains[-1].append(call)
            width = 0
            continue
        local = call.family in ELEMENTS or call.family == "rope"
        if local and width == columns and made & set(call.operands.values()):
            chains[-1].append(call)
            continue
        chains.append([call])
        width = 0
    return chains


def _closes(chip: Chip, call: Call, made: set[str], group: Group, chain: Sequence[Call]) -> bool:
    """Whether a call takes the end of a chain column by column, to make something else of it."""
    if call.family == "attention" and call.operands["q"] in made:
        shape = heads_of(chip.values, call)
        return chip.column_blocks[chain[0].result] == shape.shared * shape.width
    rows = max(len(block) for block, _ in group.blocks)
    return (
        call.family == "linear"
        and call.operands["x"] in made
        and chip.column_blocks.get(call.operands["x"]) == EXACT
        and chain[-1].result == call.operands["x"]
        and may_accumulate(chip, call, rows)
    )


def _only_products(chain: Sequence[Call]) -> bool:
    return all(call.family == "linear" for call in chain)


def _is_summed_up(
    chip: Chip, region: Region, users: Sequence[tuple[Call, str]], name: str, rows: int
) -> bool:
    """Whether the only user of a value is the next call, a product that takes it in blocks."""
    results = [call.result for call in region.calls]
    if len(users) != 1 or users[0][0].result not in results or name not in results:
        return False
    user = users[0][0]
    place = results.index(name)
    made_of = set(region.calls[place].operands.values())
    products = {call.result for call in region.calls if call.family == "linear"}
    return (
        place + 1 < len(results)
        and results[place + 1] == user.result
        and users[0][1] == "x"
        and bool(made_of & products)
        and may_accumulate(chip, user, rows)
    )


def _chain(chip: Chip, chain: Sequence[Call], group: Group) -> None:
    """Column block by column block through all calls of a chain."""
    width = chip.values[chain[0].result].width
    step = chip.column_blocks[chain[0].result]
    made = {call.result for call in chain}
    running: dict[str, Iterator[int]] = {}
    for call in chain:
        if call.family == "attention":
            running[call.result] = attention_steps(chip, call, group)
        elif call.family == "linear" and call.operands["x"] in made:
            running[call.result] = accumulated_steps(chip, call, group, step)
        elif call.family == "linear":
            running[call.result] = linear_steps(chip, call, group)
    done = dict.fromkeys(running, 0)
    last = chain[-1] if chain[-1].result in running and len(chain) > len(running) else None

    def advance(call: Call, stop: int) -> None:
        chip.steps.append((call.result, len(chip.tasks)))
        while done[call.result] < stop:
            done[call.result] = next(running[call.result])

    for first in range(0, width, step):
        part = range(first, min(width, first + step))
        for call in chain:
            if call is last:
                advance(call, first)  # one block behind: its operand comes from another engine
            elif call.result in running:
                advance(call, part.stop)
            else:
                chip.steps.append((call.result, len(chip.tasks)))
                (rope if call.family == "rope" else element_call)(chip, call, group, part)
    if last is not None:
        advance(last, width)
    for steps in running.values():
        for _ in steps:  # nothing is left; a generator is run to its end
            raise AssertionError("columns behind the last block")


def _leave(chip: Chip, calls: Sequence[Call]) -> None:
    """Without fusion results go to DDR and come back from there."""
    for call in calls:
        chip.flush(call.result)
        chip.forget(call.result)
    chip.copies.clear()


def _blocks(
    chip: Chip,
    network: Network,
    region: Region,
    users: dict[str, list[tuple[Call, str]]],
    made: Sequence[Group],
) -> None:
    """How the results of a region are cut into blocks of columns."""
    rows = max(len(block) for group in made for block, _ in group.blocks)
    for call in region.calls:
        if call.family == "linear" and (call.attributes.get("transposed") or made[0].by_columns):
            chip.column_blocks[call.result] = EXACT
            continue
        if made[0].by_columns and call.family in ELEMENTS | {"rope", "attention"}:
            chip.column_blocks[call.result] = EXACT
            continue
        reading = users.get(call.result, ())
        if reading and all(c.family == "attention" and role == "k" for c, role in reading):
            width = heads_of(network.values, reading[0][0]).width
            source = call.operands.get("x", "")
            in_heads = chip.column_blocks.get(source) == width
            in_heads &= any(entry.result == source for entry in region.calls)
            if call.family == "rope" and in_heads and call.result not in network.outputs:
                chip.home_blocks[call.result] = width  # one head is one transfer without gaps
        unit = element_unit(rows)
        if call.family == "linear":
            weight = chip.values[call.operands["weight"]]
            columns, inner = weight.shape
            depth = inner_depth(chip, inner, weight.size)
            step = chunk_columns(chip, columns, depth * weight.size)
            unit = -(-unit // step) * step
        width = column_block(network, users, call.result, unit)
        if width % CHANNELS:
            width = 0
        if call.family in ELEMENTS | {"rope"} and (
            width or _is_summed_up(chip, region, users.get(call.result, ()), call.result, rows)
        ):
            width = EXACT  # as the blocks they are computed from
        chip.column_blocks[call.result] = width
