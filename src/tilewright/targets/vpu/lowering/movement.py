"""Calls that move data: views where the layout allows it, else transfers through CMX.

| call | as a view | else |
|---|---|---|
| reshape | always: the same bytes in DDR; blocks of whole rows stay on chip | |
| slice | whole rows and a range of columns | strided transfers |
| concat | parts are stored right where they belong | parts that lie elsewhere are copied |
| transpose | | strided transfers; SHAVEs where the last axis moves |
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd, prod

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.chip import CHANNELS, Block, Chip, Home, Operand
from tilewright.targets.vpu.lowering.groups import pieces, steps
from tilewright.targets.vpu.lowering.network import Call
from tilewright.targets.vpu.tile_graph import Outside


def _dense(chip: Chip, name: str) -> Home:
    """A value's place in DDR, all of it stored, rows behind each other."""
    chip.flush(name)
    assert _is_dense(chip, name), f"{name} is a view and has to be copied first"
    return chip.home(name)


def _is_dense(chip: Chip, name: str) -> bool:
    found, value = chip.homes.get(name), chip.values[name]
    return found is None or found.pitch == value.width or value.rows == 1


def reshape(chip: Chip, call: Call) -> None:
    """The same bytes under another shape."""
    name, result = call.operands["x"], chip.values[call.result]
    value = chip.values[name]
    if not _is_dense(chip, name):
        chip.flush(name)
        if result.width == value.width:
            home = chip.home(name)
            chip.homes[call.result] = Home(home.tensor, home.offset, home.pitch)
        else:
            _close_gaps(chip, call)
        return
    kept = []
    for block in chip.blocks.get(name, ()):
        first, stop = block.rows.start * value.width, block.rows.stop * value.width
        whole = len(block.columns) == value.width == block.pitch
        if whole and first % result.width == 0 and stop % result.width == 0:
            rows = range(first // result.width, stop // result.width)
            if len(rows) == 1 or result.width % 16 == 0:
                kept.append(
                    Block(call.result, rows, range(result.width), block.tile, block.buffer,
                          block.dtype, result.width)
                )  # fmt: skip
    if kept and sum(len(block.rows) for block in kept) == result.rows:
        chip.blocks[call.result] = kept
        home = chip.home(name)  # whoever stores a block stores it for both
        chip.homes[call.result] = Home(home.tensor, home.offset, result.width)
        return
    home = _dense(chip, name)
    chip.homes[call.result] = Home(home.tensor, home.offset, result.width)


def _close_gaps(chip: Chip, call: Call) -> None:
    """Rows that lie apart in DDR, behind each other: their bytes then have any shape."""
    value, result = chip.values[call.operands["x"]], chip.values[call.result]
    if value.width % CHANNELS or result.width % CHANNELS:
        home = chip.home(call.result)
        _copy_part(chip, value.name, home.tensor, 0, value.width, 0, 1, last=True)
        return
    unit = result.width // gcd(value.width, result.width)  # rows that are whole rows of the result
    most = max(1, chip.machine.cmx_bytes // 6 // (value.width * value.size * unit)) * unit
    even = -(-value.rows // chip.machine.tiles // unit) * unit
    made = chip.blocks.setdefault(call.result, [])
    for number, rows in enumerate(steps(range(value.rows), min(most, max(even, unit)))):
        block = chip.make(value.name, rows, range(value.width), number % chip.machine.tiles)
        chip.load(
            chip.part(value.name, rows, block.columns), [chip.view(block, rows, block.columns)]
        )
        first, stop = (n * value.width // result.width for n in (rows.start, rows.stop))
        made.append(
            replace(block, value=result.name, rows=range(first, stop),
                    columns=range(result.width), pitch=result.width)
        )  # fmt: skip


def _strides(shape: tuple[int, ...], pitch: int) -> list[int]:
    """Elements from index to index of a value whose rows lie `pitch` apart."""
    strides = [1]
    step = pitch
    for extent in reversed(shape[:-1]):
        strides.insert(0, step)
        step *= extent
    return strides


def slice_(chip: Chip, call: Call) -> None:
    name = call.operands["x"]
    value = chip.values[name]
    offsets, sizes = list(call.attributes["offsets"]), list(call.attributes["sizes"])
    every = list(call.attributes.get("steps") or [1] * len(sizes))
    chip.flush(name)
    home = chip.home(name)
    strides = _strides(value.shape, home.pitch)
    first = home.offset + sum(o * s for o, s in zip(offsets, strides, strict=True))
    steps_ = [s * e for s, e in zip(strides, every, strict=True)]
    if _rows_stay_together(value.shape, sizes, every):
        chip.homes[call.result] = Home(home.tensor, first, home.pitch)
        return
    affine(chip, call.result, Home(home.tensor, first, 0), tuple(sizes), steps_)


def _rows_stay_together(shape: tuple[int, ...], sizes: list[int], every: list[int]) -> bool:
    """Whether the rows that are left follow each other at one distance."""
    if any(step != 1 for step in every):
        return False
    partial = [d for d in range(len(sizes) - 1) if sizes[d] != shape[d]]
    return not partial or all(sizes[d] == 1 for d in range(partial[-1]))


def concat(chip: Chip, call: Call) -> None:
    result = chip.values[call.result]
    axis = int(call.attributes["axis"]) % len(result.shape)
    home = chip.home(call.result)
    at = 0
    for name in call.operands.values():
        part = chip.values[name]
        last = axis == len(result.shape) - 1
        ahead = prod(result.shape[:axis])
        stride = prod(result.shape[axis:])
        if last:
            offset, pitch = at, result.width
        else:
            offset, pitch = at * prod(result.shape[axis + 1 :]), result.width
        fresh = name not in chip.homes and part.data is None and name in chip.blocks
        if fresh and (last or ahead == 1):
            chip.homes[name] = Home(home.tensor, home.offset + offset, pitch)
            chip.flush(name)
        else:
            chip.flush(name)
            _copy_part(chip, name, home.tensor, home.offset + offset, pitch, stride, ahead, last)
        at += part.shape[axis]


def _copy_part(
    chip: Chip, name: str, tensor: str, offset: int, pitch: int, stride: int, ahead: int, last: bool
) -> None:
    """A part of a concatenation that lies somewhere else, by way of CMX."""
    value = chip.values[name]
    if last:
        blocks = [(range(value.rows), offset)]
    else:
        each = value.rows // ahead
        blocks = [(range(n * each, (n + 1) * each), offset + n * stride) for n in range(ahead)]
    limit = max(1, chip.machine.cmx_bytes // 6 // (value.width * value.size))
    number = 0
    for rows, first in blocks:
        for part in steps(rows, limit):
            tile = number % chip.machine.tiles
            number += 1
            operand = chip.fetch(name, part, range(value.width), tile)
            start = (first + (part.start - rows.start) * pitch) * value.size
            run = value.width * value.size
            if pitch == value.width or len(part) == 1:
                outside = Outside(tensor, start, run * len(part))
            else:
                outside = Outside(tensor, start, run, len(part), pitch * value.size)
            chip.store(operand, outside)


def affine(
    chip: Chip, result: str, source: Home, shape: tuple[int, ...], strides: list[int]
) -> None:
    """Elements at fixed distances per axis of the result: one transfer per two inner axes."""
    value = chip.values[result]
    size = value.size
    if len(shape) == 1:
        shape, strides = (1, *shape), [0, *strides]
    rows, width = shape[-2], shape[-1]
    most = max(1, chip.machine.cmx_bytes // 6 // (width * size))
    made = chip.blocks.setdefault(result, [])
    for number, index in enumerate(product(*(range(n) for n in shape[:-2]))):
        first = source.offset + sum(i * s for i, s in zip(index, strides[:-2], strict=True))
        for part in steps(range(rows), most):
            tile = (number + part.start // most) % chip.machine.tiles
            down = range(number * rows + part.start, number * rows + part.stop)
            block = chip.make(result, down, range(width), tile)
            start = first + part.start * strides[-2]
            if strides[-1] == 1 or width == 1:
                target = chip.view(block, down, range(width))
                _load_rows(chip, source.tensor, start, width, len(part), strides[-2], size, target,
                           block)  # fmt: skip
            else:
                for row in part:
                    target = chip.view(block, range(number * rows + row, number * rows + row + 1),
                                       range(width))  # fmt: skip
                    at = (first + row * strides[-2]) * size
                    _load(chip, Outside(source.tensor, at, size, width, strides[-1] * size), target)
            made.append(block)


def _load_rows(
    chip: Chip, tensor: str, start: int, width: int, count: int, stride: int, size: int,
    target: Operand, block: Block,
) -> None:  # fmt: skip
    if stride == width or count == 1:
        _load(chip, Outside(tensor, start * size, width * size * count), target)
    elif stride >= width:
        _load(chip, Outside(tensor, start * size, width * size, count, stride * size), target)
    else:  # the same row again and again, or rows that overlap
        for row in range(count):
            at = block.rows.start + row
            own = chip.view(block, range(at, at + 1), range(width))
            _load(chip, Outside(tensor, (start + row * stride) * size, width * size), own)


def _load(chip: Chip, part: Outside, target: Operand) -> None:
    chip.load(part, [target])


def transpose(chip: Chip, call: Call) -> None:
    """Another order of axes; where the last axis moves, blocks are turned by SHAVEs."""
    name = call.operands["x"]
    value, result = chip.values[name], chip.values[call.result]
    order = list(call.attributes["permutation"])
    chip.flush(name)
    home = chip.home(name)
    strides = _strides(value.shape, home.pitch)
    if order[-1] == len(order) - 1:
        moved = [strides[d] for d in order]
        affine(chip, call.result, home, result.shape, moved)
        return
    _turn(chip, call.result, home, value.shape, strides, order)


def _turn(
    chip: Chip, result: str, home: Home, shape: tuple[int, ...], strides: list[int], order: list[int]
) -> None:  # fmt: skip
    """2-D blocks of (the result's last axis, the source's last axis), turned on chip."""
    value = chip.values[result]
    last = len(shape) - 1
    across = order[-1]  # source axis that becomes the last one
    outer = [d for d in order if d not in (last, across)]
    out_strides = _strides(value.shape, value.width)
    target_home = chip.home(result)
    size = value.size
    step = 64
    number = 0
    chip.blocks.pop(result, None)
    for index in product(*(range(shape[d]) for d in outer)):
        source = home.offset + sum(i * strides[d] for i, d in zip(index, outer, strict=True))
        places = [order.index(d) for d in outer]
        target = target_home.offset + sum(
            i * out_strides[p] for i, p in zip(index, places, strict=True)
        )
        for down in steps(range(shape[across]), step):
            for along in steps(range(shape[last]), step):
                tile = number % chip.machine.tiles
                number += 1
                block = chip.scratch("turned", value.dtype, (len(down), len(along)), tile)
                at = source + down.start * strides[across] + along.start
                chip.load(_runs(home.tensor, at, len(along), len(down), strides[across], size),
                          [block])  # fmt: skip
                made = chip.scratch("turned", value.dtype, (len(along), len(down)), tile)
                cycles = costs.vector_cycles(
                    chip.machine, "transpose", len(down) * len(along), 8 * size
                )
                chip.task("transpose", [block], [made], cycles, tile, permutation=(1, 0))
                place = order.index(last)
                to = target + along.start * out_strides[place] + down.start
                chip.store(made, _runs(target_home.tensor, to, len(down), len(along),
                                       out_strides[place], size))  # fmt: skip


def _runs(tensor: str, first: int, width: int, count: int, stride: int, size: int) -> Outside:
    if count == 1 or stride == width:
        return Outside(tensor, first * size, width * size * count)
    return Outside(tensor, first * size, width * size, count, stride * size)


def broadcast(chip: Chip, call: Call) -> None:
    """A value repeated along axes."""
    name = call.operands["x"]
    value, result = chip.values[name], chip.values[call.result]
    chip.flush(name)
    home = chip.home(name)
    own = _strides(value.shape, home.pitch)
    lead = len(result.shape) - len(value.shape)
    strides = [0] * lead + [
        0 if n == 1 and result.shape[lead + d] != 1 else own[d] for d, n in enumerate(value.shape)
    ]
    if strides[-1] == 0 and result.shape[-1] > 1:
        raise TilewrightError("TW7085", f"{call.name}: one element repeated along a row")
    affine(chip, call.result, home, result.shape, strides)


def matmul(chip: Chip, call: Call) -> None:
    """[.., M, K] times [.., N, K] of activations: batches and rows over tiles."""
    x, y, result = (chip.values[n] for n in (call.operands["x"], call.operands["y"], call.result))
    rows, inner, columns = x.shape[-2], x.shape[-1], y.shape[-2]
    batch = result.rows // rows
    if y.rows not in (columns, columns * batch):
        raise TilewrightError("TW7085", f"{call.name}: batches of {x.shape} and {y.shape} differ")
    budget = chip.machine.cmx_bytes * 20 // 100
    across = max(16, min(columns, budget // (inner * y.size) // 16 * 16))
    down = max(1, min(rows, budget // (inner * x.size), budget // (across * result.size)))
    if (
        across + down
    ) * inner * x.size + down * across * result.size > chip.machine.cmx_bytes * 9 // 10:
        raise TilewrightError(
            "TW7080", f"{call.name}: a product of {inner} terms does not fit into CMX"
        )
    if batch < chip.machine.tiles:
        down = min(down, max(16, -(-rows // -(-chip.machine.tiles // batch))))
    options = {}
    unit = float(result.scale) if result.dtype == "i8" else 1.0  # type: ignore[arg-type]
    if "factor" in call.attributes or result.dtype == "i8":
        options["factor"] = float(call.attributes.get("factor", 1.0)) / unit
    number = 0
    for index in range(batch):
        shared = index if y.rows > columns else 0
        for part in pieces(range(rows), -(-rows // down)):
            tile = number % chip.machine.tiles
            number += 1
            left_rows = range(index * rows + part.start, index * rows + part.stop)
            chip.row_blocks = ((left_rows, tile),)
            for cut in steps(range(columns), across):
                left = chip.fetch(x.name, left_rows, range(inner), tile)
                right_rows = range(shared * columns + cut.start, shared * columns + cut.stop)
                right = chip.fetch(y.name, right_rows, range(inner), tile)
                target = chip.target(result.name, left_rows, cut, tile)
                cycles = costs.matmul_cycles(chip.machine, len(part), inner, len(cut), 2, 2)
                chip.task("matmul", [left, right], [target], cycles, tile, **options)
    chip.row_blocks = ()
