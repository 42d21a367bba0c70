"""Blocks of a matrix product, chosen by what they cost in transfers and in the matrix units.

One operand stays on chip a block at a time, the other streams past it in panels of 32. Every
block reads the whole streamed operand again, so blocks are as large as VMEM and the length of a
loop body allow, and of equal size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.tile_machine import active_profile
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.blocks import Block
from tilewright.tile.layouts import SIDE

TILE = SIDE * SIDE  # bytes of an fp8 tile
BODY = 1000  # products one loop body may hold
SHORT = 300  # products in the body of a loop that streams A
RESERVE = 64 * 1024  # VMEM for results and constants


@dataclass(frozen=True)
class Blocking:
    """rows: rows of A that stay while B streams; columns: columns of B that stay while A does."""

    rows: int = 0
    columns: int = 0
    bytes: int = 0  # moved in all
    ticks: float = 0.0  # expected


def choose_blocking(m: int, k: int, n: int, profile: Profile) -> Blocking:
    """The cheapest blocking of an m x k by k x n product."""
    down, deep, across = (-(-size // SIDE) for size in (m, k, n))
    found: list[Blocking] = []
    results = 2 * down * across * TILE
    # A streamed panel is there twice: in use, and being loaded.
    room = (profile.vmem_bytes - RESERVE) // TILE - 2 * deep
    largest = max(1, min(room // deep, BODY // deep))
    for kept, streamed, by_rows in ((down, across, True), (across, down, False)):
        blocks = -(-kept // min(kept, largest))
        size = -(-kept // blocks)
        moved = (kept + blocks * streamed) * deep * TILE + results
        transfers = moved / TILE * profile.dma.ticks(TILE)
        products = down * across * deep * _product_ticks(size if by_rows else 1, profile)
        ticks = max(transfers, products)
        rows, columns = (size * SIDE, 0) if by_rows else (0, size * SIDE)
        found.append(Blocking(rows, columns, moved, ticks))
    # Rows of A lie together in DRAM: of two equal plans the one that streams them has an edge,
    # as long as its body is short.
    stream_a = across * deep <= SHORT
    return min(found, key=lambda b: (b.ticks, b.rows if stream_a else b.columns))


def blocks(m: int, k: int, n: int) -> Iterator[tuple[Block, Block]]:
    """Loops over blocks of the result: (rows, columns), the order and sizes the cheapest ones."""
    plan = choose_blocking(m, k, n, active_profile())
    if plan.rows:
        for rows in tw.grid(m, plan.rows, padded=True):
            for columns in tw.grid(n):
                yield rows, columns
    else:
        for columns in tw.grid(n, plan.columns, padded=True):
            for rows in tw.grid(m):
                yield rows, columns


def _product_ticks(rows: int, profile: Profile) -> float:
    """Matrix unit time of one product when so many rows share the weights of a push."""
    push, timing = profile.timing["push"].latency, profile.timing
    slow, fast = timing["matmul_mxu0"].latency, timing["matmul_mxu1"].latency
    if rows >= 3 and slow > 2 * fast:
        return (push + max(slow, 2 * fast)) / 3
    if rows >= 2:
        return (push + 2 * fast) / 2
    return push + fast
