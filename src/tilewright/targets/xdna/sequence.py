"""The runtime sequence: which walk of which host buffer the controller pushes when.

Tasks come in groups that the cores consume together. A channel holds five tasks and a descriptor
may be rewritten only after its task; the controller learns of that from the tokens of C, because
a finished C means that the A and B behind it have been read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.descriptors import legalise_one
from tilewright.targets.xdna.design import (
    ELEMENT_BYTES,
    Await,
    Replay,
    SetParameter,
    Start,
    Step,
    Tile,
    Transfer,
)
from tilewright.targets.xdna.device import FIRST_CORE_ROW, ArrayDevice
from tilewright.targets.xdna.problem import Gemm

WINDOW = 5  # groups in flight: five descriptors each for A, B and C
PING, PONG = 0, 8  # first descriptors of the two halves


@dataclass(frozen=True)
class Walk:
    offset: int
    sizes: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]


def runtime_steps(gemm: Gemm, device: ArrayDevice) -> tuple[Step, ...]:
    """Parameters, barriers, then the transfers."""
    steps: list[Step] = []
    for column in range(gemm.columns):
        for row in range(gemm.rows):
            tile = Tile(column, FIRST_CORE_ROW + row)
            steps.append(SetParameter(tile, 0, gemm.steps))
            steps.append(SetParameter(tile, 1, gemm.row_tiles * gemm.column_tiles))
            steps.append(Start(tile))
    whole_rows = gemm.policy == "stock" and gemm.synchronisation != "rolling"
    if whole_rows and _row_blocks_fit(gemm, device):
        steps += _halves(gemm, device)
    elif gemm.synchronisation == "sequential":
        steps += _sequential(gemm)
    else:
        steps += _rolling(gemm)
    return tuple(steps)


# -- walks ------------------------------------------------------------------------------------


def a_rows(gemm: Gemm, block: int, carrier: int) -> Walk:
    """All of a row block of A, once per column tile."""
    _, K, _ = gemm.padded
    height = gemm.m * gemm.rows_per_a
    index = block * gemm.a_columns + carrier
    return Walk(
        index * height * K,
        (gemm.column_tiles, gemm.steps, height, gemm.k),
        (0, gemm.k, K, 1),
    )


def b_rows(gemm: Gemm, column: int) -> Walk:
    """The columns of B that array column `column` multiplies, all column tiles."""
    _, K, N = gemm.padded
    across = gemm.n * gemm.columns
    if gemm.packed:
        panel = _packed(gemm, K * gemm.n)
        return Walk(
            column * panel, (gemm.column_tiles, 1, 1, panel), (gemm.columns * panel, 0, 0, 1)
        )
    if gemm.b_layout == "row":
        return Walk(
            column * gemm.n,
            (gemm.column_tiles, gemm.steps, gemm.k, gemm.n),
            (across, gemm.k * N, N, 1),
        )
    return Walk(
        column * gemm.n * K,
        (gemm.column_tiles, gemm.steps, gemm.n, gemm.k),
        (across * K, gemm.k, K, 1),
    )


def c_rows(gemm: Gemm, block: int, blocks: int, column: int) -> Walk:
    """C of `blocks` row blocks, all column tiles; column-major C goes one block at a time."""
    M, _, N = gemm.padded
    height, across = gemm.rows * gemm.m, gemm.n * gemm.columns
    if gemm.c_layout == "row":
        return Walk(
            block * height * N + column * gemm.n,
            (blocks, gemm.column_tiles, height, gemm.n),
            (height * N if blocks > 1 else 0, across, N, 1),
        )
    return Walk(
        block * height + column * gemm.n * M,
        (gemm.column_tiles, gemm.rows, gemm.n, gemm.m),
        (M * across, gemm.m, M, 1),
    )


def a_panel(gemm: Gemm, block: int, carrier: int, many: int = 1) -> Walk:
    """Row panels of A, memory-tile object after object; `many` row blocks."""
    _, K, _ = gemm.padded
    height, wide = gemm.m * gemm.rows_per_a, gemm.object_k
    index = block * gemm.a_columns + carrier
    down = gemm.rows * gemm.m * K if many > 1 else 0
    return Walk(index * height * K, (many, K // wide, height, wide), (down, wide, K, 1))


def b_panel(gemm: Gemm, tile: int, column: int, many: int = 1) -> Walk:
    """Column panels of B; `many` column tiles."""
    _, K, N = gemm.padded
    index, wide = tile * gemm.columns + column, gemm.object_k_b
    if gemm.packed:
        panel = _packed(gemm, K * gemm.n)
        across = gemm.columns * panel if many > 1 else 0
        return Walk(index * panel, (many, 1, 1, panel), (across, 0, 0, 1))
    across = gemm.columns * gemm.n if many > 1 else 0
    if gemm.b_layout == "row":
        return Walk(index * gemm.n, (many, K // wide, wide, gemm.n), (across, wide * N, N, 1))
    return Walk(index * gemm.n * K, (many, K // wide, gemm.n, wide), (across * K, wide, K, 1))


def c_tile(gemm: Gemm, block: int, tile: int, column: int, down: int = 1, across: int = 1) -> Walk:
    """Output tiles of a column of cores: `down` row blocks or `across` column tiles."""
    M, _, N = gemm.padded
    height, index = gemm.rows * gemm.m, tile * gemm.columns + column
    many = max(down, across)
    if gemm.c_layout == "row":
        step = height * N if down > 1 else gemm.columns * gemm.n
        return Walk(
            block * height * N + index * gemm.n,
            (many, 1, height, gemm.n),
            (step if many > 1 else 0, 0, N, 1),
        )
    step = height if down > 1 else gemm.columns * gemm.n * M
    return Walk(
        block * height + index * gemm.n * M,
        (many, gemm.rows, gemm.n, gemm.m),
        (step if many > 1 else 0, gemm.m, M, 1),
    )


def _packed(gemm: Gemm, elements: int) -> int:
    """Elements of the host buffer that hold so many weights."""
    return elements if gemm.pretiled else gemm.weight_bytes(elements)


def _move(fifo: str, buffer: str, walk: Walk, descriptor: int, token: bool = False) -> Transfer:
    return Transfer(fifo, buffer, walk.offset, walk.sizes, walk.strides, descriptor, token)


# -- the IRON schedule: row blocks in two halves ----------------------------------------------


def _single(walk: Walk, element: str, device: ArrayDevice) -> bool:
    """Whether one shim descriptor does the walk."""
    try:
        legalise_one(
            Transfer("", "", walk.offset, walk.sizes, walk.strides, 0).pattern,
            ELEMENT_BYTES[element],
            device.tile["shim"],
            iteration=True,
        )
    except TilewrightError:
        return False
    return True


def _row_blocks_fit(gemm: Gemm, device: ArrayDevice) -> bool:
    """Whether the walks over all column tiles are single descriptors."""
    b_element = "i8" if gemm.packed and not gemm.pretiled else gemm.inputs
    return (
        _single(a_rows(gemm, 0, 0), gemm.inputs, device)
        and _single(b_rows(gemm, 0), b_element, device)
        and _single(c_rows(gemm, 0, 1, 0), gemm.output, device)
    )


def _halves(gemm: Gemm, device: ArrayDevice) -> list[Step]:
    """Two row blocks at a time, ping and pong, with the tokens of C between them."""
    per_half = 1 if gemm.c_layout == "col" or gemm.synchronisation == "sequential" else 2
    together = gemm.c_layout == "row" and _single(c_rows(gemm, 0, per_half, 0), gemm.output, device)
    halves: list[list[Step]] = []
    tokens: list[list[Step]] = []
    for first in range(0, gemm.row_tiles, per_half):
        blocks = min(per_half, gemm.row_tiles - first)
        base = PING if len(halves) % 2 == 0 else PONG
        half: list[Step] = []
        awaited: list[Step] = []
        for column in range(gemm.columns):
            name = f"c_l2l3_{column}"
            if together:
                half.append(_move(name, "C", c_rows(gemm, first, blocks, column), base, True))
                awaited.append(Await(name))
                continue
            for j in range(blocks):
                identity = base if j == 0 else base + 1 + 2 * per_half
                half.append(_move(name, "C", c_rows(gemm, first + j, 1, column), identity, True))
                awaited.append(Await(name))
        for j in range(blocks):
            for i in range(gemm.a_columns):
                walk = a_rows(gemm, first + j, i)
                half.append(_move(f"a_l3l2_{i}", "A", walk, base + 1 + 2 * j))
            for column in range(gemm.columns):
                walk = b_rows(gemm, column)
                half.append(_move(f"b_l3l2_{column}", "B", walk, base + 2 + 2 * j))
        halves.append(half)
        tokens.append(awaited)
    return _synchronised(gemm.synchronisation, halves, tokens)


def _synchronised(kind: str, halves: list[list[Step]], tokens: list[list[Step]]) -> list[Step]:
    """Halves in order, with the awaits the variant puts between them."""
    steps: list[Step] = []
    awaited = 0
    for index, half in enumerate(halves):
        if kind == "previous_half" and index >= 2:
            steps += tokens[index - 2]
            awaited = index - 1
        steps += half
        if kind == "sequential" or (kind == "own_half" and index >= 1):
            steps += [step for late in tokens[awaited : index + 1] for step in late]
            awaited = index + 1
    return steps + [step for late in tokens[awaited:] for step in late]


# -- one output tile at a time ----------------------------------------------------------------


@dataclass
class _Group:
    """The tasks behind the next output tiles of every core."""

    block: int
    tile: int
    panel: int | None = None  # number of the resident panel that begins here
    down: int = 1
    across: int = 1


def _groups(gemm: Gemm) -> list[list[_Group]]:
    """The groups of each column; columns differ in when they change resident panels of B."""
    if gemm.policy == "resident_b":
        return [_resident_b_groups(gemm, column) for column in range(gemm.columns)]
    groups = []
    for block in range(gemm.row_tiles):
        for tile in range(0, gemm.column_tiles, gemm.batch):
            begins = gemm.policy == "resident_a" and tile == 0
            across = min(gemm.batch, gemm.column_tiles - tile)
            groups.append(_Group(block, tile, block if begins else None, across=across))
    return [groups] * gemm.columns


def _resident_b_groups(gemm: Gemm, column: int) -> list[_Group]:
    """All rows again and again; panels of B in the segments of the column."""
    each = len(gemm.row_groups())
    groups = []
    for number, (first, end, tile) in enumerate(gemm.segments(column)):
        for index in range(first, end):
            block = index % each * gemm.batch
            down = min(gemm.batch, gemm.row_tiles - block)
            groups.append(_Group(block, tile, number if index == first else None, down=down))
    return groups


def _tasks(gemm: Gemm, group: _Group, column: int, slot: int) -> list[Step]:
    """C, A and B of one group on the shim of one column."""
    carrier = {gemm.a_column(i): i for i in range(gemm.a_columns)}.get(column)
    down, across = group.down, group.across
    walk = c_tile(gemm, group.block, group.tile, column, down, across)
    steps: list[Step] = [_move(f"c_l2l3_{column}", "C", walk, slot, True)]
    if carrier is not None and (gemm.policy != "resident_a" or group.panel is not None):
        at = slot if gemm.policy != "resident_a" or group.panel is None else group.panel % WINDOW
        walk = a_panel(gemm, group.block, carrier, down)
        steps.append(_move(f"a_l3l2_{carrier}", "A", walk, WINDOW + at))
    if gemm.policy != "resident_b" or group.panel is not None:
        at = slot if gemm.policy != "resident_b" or group.panel is None else group.panel % WINDOW
        walk = b_panel(gemm, group.tile, column, across)
        steps.append(_move(f"b_l3l2_{column}", "B", walk, 2 * WINDOW + at))
    return steps


def _replays(gemm: Gemm, column: int) -> str | None:
    """The FIFO whose panel the memory tile of a column replays."""
    if gemm.policy == "resident_b":
        return f"b_l2l1_{column}"
    if gemm.policy == "resident_a":
        for i in range(gemm.a_columns):
            if gemm.a_column(i) == column:
                return f"a_l2l1_{i}"
    return None


def _rolling(gemm: Gemm) -> list[Step]:
    """A window of five groups: a retired C lets its column's next three descriptors go."""
    groups = _groups(gemm)
    steps: list[Step] = []
    pending = {
        column: _panel_pushes(gemm, column, groups[column]) for column in range(gemm.columns)
    }

    def replay(column: int, issued: int, retired: int) -> None:
        queue = pending[column]
        while queue and queue[0][0] <= issued and queue[0][1] <= retired:
            steps.append(queue.pop(0)[2])

    first = 0
    if gemm.policy.startswith("resident"):
        # Nothing is in flight yet: what the cores wait for goes before the drains.
        tasks = [_tasks(gemm, groups[column][0], column, 0) for column in range(gemm.columns)]
        steps += [step for found in tasks for step in found[1:]]
        for column in range(gemm.columns):
            replay(column, 0, -WINDOW)
        steps += [found[0] for found in tasks]
        first = 1
    many = len(groups[0])
    for index in range(first, many):
        for column in range(gemm.columns):
            if index >= WINDOW:
                steps.append(Await(f"c_l2l3_{column}"))
            steps += _tasks(gemm, groups[column][index], column, index % WINDOW)
            replay(column, index, index - WINDOW)
    for index in range(max(0, many - WINDOW), many):
        for column in range(gemm.columns):
            steps.append(Await(f"c_l2l3_{column}"))
            replay(column, many, index)
    return steps


def _panel_pushes(gemm: Gemm, column: int, groups: list[_Group]) -> list[tuple[int, int, Replay]]:
    """For each resident panel: the group it begins with, the group whose C has to be retired
    before its tasks are pushed (the memory tile's queue holds five), and the push."""
    fifo = _replays(gemm, column)
    if fifo is None:
        return []
    starts = [index for index, group in enumerate(groups) if group.panel is not None]
    pushes: list[tuple[int, int, Replay]] = []
    for start, end in zip(starts, [*starts[1:], len(groups)], strict=True):
        sweeps = sum(group.down * group.across for group in groups[start:end])
        after = -WINDOW - 1
        if pushes:
            # Two sweeps are two tasks, more are three; the queue takes five. So the panel before
            # the last has to be gone, or the first sweep of the last one.
            before, _, push = pushes[-1]
            after = before if min(3, push.sweeps) + min(3, sweeps) > 5 else before - 1
        pushes.append((start, after, Replay(fifo, sweeps)))
    return pushes


def _sequential(gemm: Gemm) -> list[Step]:
    """One task each of A, B and C per shim, all tokens, then the next."""
    steps: list[Step] = []
    for index, group in enumerate(_groups(gemm)[0]):
        for column in range(gemm.columns):
            steps += _tasks(gemm, group, column, index % WINDOW)
            fifo = _replays(gemm, column)
            if fifo is not None and group.panel is not None:
                steps.append(Replay(fifo, gemm.sweeps))
        steps += [Await(f"c_l2l3_{column}") for column in range(gemm.columns)]
    return steps
