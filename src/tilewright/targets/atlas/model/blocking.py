"""How a product that is too large for VMEM is cut into parts.

Two ways move the weights once per part of the rows. With whole rows of the left operand on chip,
few rows fit where it is deep. With the sums on chip instead, and the left operand passing by a few
columns at a time, few rows fit where the result is wide. Projections and gates keep whole rows. The
third way moves everything once, where the weights fit: a few rows at a time pass by all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE, Layout

KIB = 1024
WHOLE = 800  # tiles of a left operand that are held on chip at a time
PART = 832  # the same of a part of one, in whose loop body all of them are used
GROUP = 4  # tiles of rows in one loop body, with sums on chip
GROUPS = (GROUP, 5, 6, 3, 7, 11, 2)  # the same, where others would be left over
LONGEST = 800  # products of tiles in such a body
DEPTHS = (4, 3, 2)  # tiles of the contraction in one loop body, with sums on chip
RESULTS = 64 * KIB  # VMEM for results and tables of projections and gates, beside rows on chip
PASSING = 2  # tiles of rows in one loop body, with all weights on chip
SPARE = 28 * KIB  # VMEM for tiles that wait between uses, scales, and what the program keeps


@dataclass(frozen=True)
class Cut:
    """Rows of one part; depth: elements of the contraction at a time, with the sums on chip, or 0
    for whole rows of the left operand."""

    rows: int
    depth: int = 0


def cut(rows: int, deep: int, wide: int, profile: Profile, sums: bool = True) -> Cut | None:
    """The faster way to cut [rows, deep] @ [deep, wide], None if all rows fit; without `sums` whole
    rows of the left operand."""
    m, k, n = (-(-size // SIDE) for size in (rows, deep, wide))
    most = rows_on_chip(k, profile)
    if m <= most:
        return None
    most = rows_on_chip(k, profile, PART)
    parts = -(-m // max(1, most))
    found = Cut(-(-m // parts) * SIDE)
    best = _ticks(profile, m, k, n, parts, 0) if most else math.inf
    for count in range(1, parts + (not most)) if sums else ():
        even = -(-m // count)
        for height in (-(-even // GROUP) * GROUP, even) if GROUP < even < m else (even,):
            for depth in DEPTHS:
                if sums_bytes(height, depth, n) > profile.vmem_bytes:
                    continue
                passes = sum(
                    1 + rows_left_over(min(height, m - first), n, depth)
                    for first in range(0, m, height)
                )
                ticks = _ticks(profile, m, k, n, passes, depth)
                if ticks < best:
                    found, best = Cut(height * SIDE, depth * SIDE), ticks
    return found


def group_of(height: int, wide: int, depth: int) -> int:
    """Tiles of rows in one loop body, with sums on chip: all bodies alike if that can be, for what is
    left over would load all weights again; sizes in tiles."""
    if height <= GROUP:
        return height
    fitting = (g for g in GROUPS if height % g == 0 and g * wide * depth <= LONGEST)
    return next(fitting, GROUP)


def rows_left_over(height: int, wide: int, depth: int) -> bool:
    return height % group_of(height, wide, depth) > 0


def below_each_other(batch: int, rows: int, layout: Layout) -> int:
    """Rows of all matrices of a batch, each with its padding, where these lie as those of one matrix;
    0 where they do not, or there is one only."""
    plain = layout.arrangement is None and layout.order == "tiles" and len(layout.shape) == 3
    return batch * padded(rows) if batch > 1 and plain else 0


def weights_wait(rows: int, profile: Profile) -> bool:
    """Whether a tile of weights takes longer to arrive than so many rows take to pass by it."""
    return -(-rows // SIDE) * profile.timing["tensor_load"].interval * 4 / 3 < profile.dma.ticks(
        KIB
    )


def most_together(batch: int, fits: Callable[[int], bool]) -> int:
    """The most matrices of a batch that fit together, in as equal groups as there can be."""
    most = max((n for n in range(1, batch + 1) if fits(n)), default=1)
    return -(-batch // -(-batch // most))


def padded(size: int) -> int:
    """Rows or columns of whole tiles."""
    return -(-size // SIDE) * SIDE


def rows_on_chip(deep: int, profile: Profile, most: int = WHOLE) -> int:
    """Whole rows of the left operand that fit beside two columns of weights, the one in use and the
    one that arrives; sizes and the most of them in tiles."""
    beside = profile.vmem_bytes - SPARE - 2 * deep * KIB
    return max(0, min(most // deep, beside // (deep * KIB)))


def staged_rows(rows: int, deep: int, columns: int, together: int, profile: Profile) -> int | None:
    """Rows of one part of [rows, deep] that is brought to the chip before weights pass by, so many
    columns of tiles at a time, or more of them together where all parts are pairs of tiles; None if
    all rows fit."""
    m, k = -(-rows // SIDE), -(-deep // SIDE)
    if m <= rows_on_chip(k, profile) or deep == 1:  # a single column would be spread over its tile
        return None

    def most(columns: int) -> int:
        beside = profile.vmem_bytes - SPARE - RESULTS - 2 * columns * k * KIB
        return max(1, beside // (k * KIB))

    least = -(-m // most(columns))
    # Rows left over, of all or of a part, would load all weights again.
    for parts in range(least, 2 * least) if m % 2 == 0 else ():
        height = 2 * -(-m // (2 * parts))
        if height <= most(together):
            return height * SIDE
    return -(-m // least) * SIDE


def rows_pass_by(rows: int, deep: int, wide: int, other: int, part: int, profile: Profile) -> bool:
    """Whether [rows, deep] @ [deep, wide] is faster with all weights on chip than with them passing by
    parts of so many rows; other: bytes of its result and of what is added."""
    m, k, n = (-(-size // SIDE) for size in (rows, deep, wide))
    beside = profile.vmem_bytes - SPARE - (k * n + PASSING * k) * KIB
    load = profile.timing["tensor_load"]
    if beside < 0 or min(deep, wide) == 1 or load.unit == profile.timing["push"].unit:
        return False
    ticks, weights, left = profile.dma.ticks, k * n * KIB, m * k * KIB
    # A tile of rows is loaded for every column, and one of weights for every two tiles of rows.
    busy = m * k * n * load.interval * 7 / 4
    waits = 0 if beside >= PASSING * k * KIB else ticks(left)  # for rows, if no others arrive
    resident = ticks(weights) + max(ticks(left + other), waits + busy)
    moved = left + -(-rows // part) * weights + other
    return resident < max(ticks(moved), m * k * n * load.interval)


def sums_bytes(height: int, depth: int, wide: int) -> int:
    """VMEM for the sums, and twice for weights and left operand; sizes in tiles."""
    return (2 * height * wide + 2 * depth * (wide + GROUP)) * KIB + SPARE


def _ticks(profile: Profile, m: int, k: int, n: int, parts: int, depth: int) -> float:
    """About how long it takes: transfers, or loads of tiles beside the products they are for."""
    timing = profile.timing
    moved = profile.dma.ticks((m * k + parts * k * n) * KIB)
    load, push = timing["tensor_load"].interval, timing["pop_wide"].interval
    if not depth:
        each = load * 4 / 3
    else:  # sums come and go as two registers each
        each = load * (1 + 1 / depth + 1 / (4 * GROUP))
        each += 2 * push / depth if timing["push"].unit == timing["tensor_load"].unit else 0
    return max(moved, m * k * n * each)
