"""Loops over a tensor's dimensions, and how a kernel is steered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.tile.backend import Backend, active
from tilewright.tile.blocks import Block, Single

MOST_ITERATIONS = 1 << 20


def side() -> int:
    """The side of a tile on the machine that the kernel is compiled for; blocks are multiples."""
    return active().side


def _size(backend: Backend, size: int | None) -> int:
    """The size of a block, checked; one tile where none is given."""
    side = backend.side
    if size is None:
        return side
    if not isinstance(size, int) or size < side or size % side:
        raise backend.error(
            "TW1623",
            f"a block of {size} elements is not a multiple of {side}",
            f"use {side}, {2 * side}, {3 * side}, …",
        )
    return size


def _extent(backend: Backend, extent: Any, step: int = 1) -> int:
    """The size of a dimension that a loop goes through by steps, checked."""
    whole = isinstance(extent, (int, np.integer)) and not isinstance(extent, bool)
    if not whole or extent < 1:
        raise backend.error("TW1644", f"{extent!r} is not the size of a dimension")
    if extent > MOST_ITERATIONS * step:
        raise backend.error(
            "TW1644",
            f"a dimension of {float(extent):.3g} elements takes more than {MOST_ITERATIONS:,} iterations",
            "use larger blocks" if step > 1 else "cut the dimension in two",
        )
    return int(extent)


def _check_unroll(backend: Backend, unroll: Any) -> None:
    if not isinstance(unroll, int) or unroll < 0:
        raise backend.error("TW1634", f"unroll is True, False or a number of steps, not {unroll!r}")


def grid(
    extent: int, size: int | None = None, unroll: bool | int = False, padded: bool = False
) -> Iterator[Block]:
    """Blocks of `size` elements along a dimension: a loop of the program, and what is left.

    unroll: True writes all blocks out, a number that many per iteration.
    padded: a last tile that is only partly inside counts as whole, so that a block that ends
    with it is an iteration like the others. For dimensions whose elements do not meet: what is
    computed from the padding stays in the padding.
    """
    backend = active()
    size = _size(backend, size)
    extent = _extent(backend, extent, size)
    _check_unroll(backend, unroll)
    if unroll is False:
        unroll = -(-backend.depth // 2)
    return backend.blocks(extent, size, unroll, padded)


def before(block: Block, size: int | None = None) -> Iterator[Block]:
    """Blocks of `size` elements from the beginning of a dimension up to a block of it.

    A block that follows a loop has more of them before it in every iteration: one at least, and only
    whole ones. Otherwise what is left is a block of its own.
    """
    backend = active()
    size = _size(backend, size)
    if not isinstance(block, Block) or block.shift is not None or block.factor != 1:
        raise backend.error("TW1604", "blocks come before a block of whole tiles")
    if block.variables:
        return backend.blocks_before(block, size)
    return _known_before(block, size)


def _known_before(block: Block, size: int) -> Iterator[Block]:
    step = size // block.side
    whole = block.start // step * step
    if whole:
        around = Block(0, whole, block.extent, side=block.side)
        for part in grid(whole * block.side, size):
            yield part.within(around)
    if whole < block.start:
        yield Block(whole, block.start - whole, block.extent, side=block.side)


def steps(
    extent: int, size: int | None = None, unroll: bool | int | None = None
) -> Iterator[Block]:
    """Blocks along a dimension that are added up or carried on, one after the other.

    Up to 64 are unrolled in one body; more become a loop with 8 of them in its body. Where
    VMEM is too small for that, fewer.
    unroll: True, False or a number of steps, to decide that yourself.
    """
    backend = active()
    size = _size(backend, size)
    extent = _extent(backend, extent, size)
    if unroll is None:
        limit = backend.step_limit
        unroll = True if extent // size <= limit else max(1, limit // 8)
    _check_unroll(backend, unroll)
    return backend.blocks(extent, size, unroll)


def each(extent: int, unroll: bool | int = False) -> Iterator[Single]:
    """Every index of a leading dimension."""
    backend = active()
    extent = _extent(backend, extent)
    _check_unroll(backend, unroll)
    return backend.indices(extent, unroll)


class options:
    """Steer what follows in the kernel, or the body of a `with` statement.

    units: the matrix unit of each of a few products that share an operand, as 1 or (1, 1, 0).
    stationary: "weights" (rows share the pushed right operand) or "activations" (columns share
        the left one).
    depth: blocks of a loop that are on chip at a time, 2 or more: half of them are loaded while
        the others are worked on, so an odd number gives room for one more.
    """

    def __init__(
        self,
        units: int | tuple[int, ...] | None = None,
        stationary: str | None = None,
        depth: int | None = None,
    ) -> None:
        backend = self.backend = active()
        self.before = (backend.units, backend.stationary, backend.depth)
        if units is not None:
            chosen = tuple(units) if isinstance(units, tuple | list) else (units,)
            numbers = [unit for unit in chosen if isinstance(unit, int)]
            counts = [numbers.count(unit) for unit in (0, 1)]
            if not chosen or sum(counts) != len(chosen) or max(counts) > 2:
                raise backend.error(
                    "TW1635",
                    f"units {units} do not name matrix units",
                    "units are 0 and 1, each with two accumulators: (1, 1, 0)",
                )
            backend.units = chosen
        if stationary is not None:
            if not isinstance(stationary, str) or stationary not in ("weights", "activations"):
                raise backend.error(
                    "TW1636", f'stationary is "weights" or "activations", not {stationary!r}'
                )
            backend.stationary = stationary
        if depth is not None:
            if isinstance(depth, bool) or not isinstance(depth, int) or depth < 2:
                raise backend.error("TW1637", f"depth is a number from 2 on, not {depth!r}")
            backend.depth = depth

    def __enter__(self) -> options:
        return self

    def __exit__(self, *_: object) -> None:
        self.backend.units, self.backend.stationary, self.backend.depth = self.before
