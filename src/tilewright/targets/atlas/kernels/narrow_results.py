"""Convolutions of few filters whose results lie side by side in tiles (`narrow_images.py`).

    for every stored tile:
        sums = 0
        for every tile of pixels in it:
            for all taps and channels:
                sums += pixels @ filters in the columns of its place

Products with filters of other places add zeros. These are exact but for one thing: a sum that is there
already becomes fp16 once more, which makes 65,536 infinite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.image_blocks import (
    Blocking,
    Cost,
    Phases,
    apart,
    pixel_blocks,
)
from tilewright.targets.atlas.kernels.images import SIDE, Image
from tilewright.targets.atlas.kernels.narrow_images import NarrowImage
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block

if TYPE_CHECKING:
    from tilewright.targets.atlas.kernels.convolution import Plan

Phase = tuple[int, int]


@dataclass(frozen=True)
class StoredTile:
    """A tile that is stored: of which phase of what is stored, where, and (place, phase, pixels) of all
    tiles of pixels in it."""

    phase: Phase
    at: Block
    members: tuple[tuple[int, Phase, Block], ...]


def check_narrow(plan: Plan) -> None:
    """An error unless a convolution can make such an image."""
    dense = plan.filters.groups == 1 and not (plan.diagonal or plan.deep)
    if not dense or plan.gate is not None or plan.added is not None:
        raise TilewrightError(
            "TW1675", "tiles of pixels side by side from groups, gates, sums or parts",
            hint="store the result one tile after the other",
        )  # fmt: skip


def phase_groups(out: NarrowImage, groups: list[Phases]) -> bool:
    """Whether phases that share tiles are computed together."""
    across = out.beside[0]
    return all(
        sum(phase[0] == a and phase[1] // across == c for phase in group) in (0, across)
        for group in groups
        for a, c in {(phase[0], phase[1] // across) for phase in out.each_phase()}
    )


def stored_cost(out: NarrowImage, cost: Cost) -> Cost:
    """The cost of a tile of pixels as that of a stored tile."""
    across, each = out.beside
    return replace(
        cost, shared=cost.shared * each, own=cost.own * each, halo=-(-cost.halo // each),
        fixed=cost.fixed * out.places, writes=-(-cost.writes // across),
        steps=cost.steps * each, phases=-(-cost.phases // across),
    )  # fmt: skip


def run_narrow(
    plan: Plan, cut: tuple[Blocking, list[Phases]], images: list[Any], w: Any, out: Any,
    scale: Any, bias: Any,
) -> None:  # fmt: skip
    """The kernel."""
    narrow = plan.out
    assert isinstance(narrow, NarrowImage)
    blocking, groups = cut
    count = len(active().units)
    for b in tw.each(narrow.batch or 1):
        rows = plan.rows(Block(0, 1, SIDE), scale, bias)
        for phases in groups:
            for tiles in _blocks(narrow, phases, blocking.tiles):
                for first in range(0, len(tiles), count):
                    group = tiles[first : first + count]
                    for one, y in made(plan, images, w, b, group, rows):
                        out[b, one.phase[0], one.phase[1], one.at, Block(0, 1, SIDE)] = y


def _blocks(out: NarrowImage, phases: Phases, most: int) -> Iterator[list[StoredTile]]:
    """All stored tiles of some phases, so many of each at a time."""
    across, each = out.beside
    heads = [(a, c // across) for a, c in phases if not c % across]
    whole = out.tiles // each
    if whole:
        for block in pixel_blocks(replace(out.grid, height=whole), most):
            tiles = [(head, part) for head in heads for part in block.parts()]
            yield [stored_tile(out, head, part, block.tiles) for head, part in tiles]
    if out.tiles % each:  # places stay empty
        at = Block(whole, 1, out.stored[3], None, 0)
        yield [stored_tile(out, head, at, 1) for head in heads]


def stored_tile(out: NarrowImage, head: Phase, at: Block, step: int) -> StoredTile:
    """What lies at a block of what is stored, `step` tiles of which are an iteration of its loop."""
    each, members = out.beside[1], []
    for place, phase, tile in out.members(head, 0 if at.variables else at.start):
        if not at.variables:
            pixels = Block(tile, 1, out.tiles * SIDE, None, 0)
        elif each == 1:
            pixels = at
        else:
            pixels = at.times_as_fast(each, step * SIDE, (at.start * each + tile) * SIDE)
        members.append((place, phase, pixels))
    return StoredTile(head, at, tuple(members))


def made(
    plan: Plan, images: list[Any], w: Any, b: Any, group: Sequence[StoredTile], rows: Any
) -> Iterator[tuple[StoredTile, Any]]:
    """What is stored at some tiles."""
    steps = list(plan._steps(Block(0, plan.filters.depth, plan.image.stored[-1])))
    products = (
        (k, plan._seen(images, b, tiles, *step), filters(plan, w, step[0], step[1], k))
        for k, tiles in _in_turn(group) for step in steps
    )  # fmt: skip
    yield from added_up(plan, group, products, rows)


def filters(plan: Plan, w: Any, tap: Phase, channels: int, place: int) -> Any:
    """Filters of a tap for a tile of channels, in the columns of a place."""
    return w[
        tap[0], tap[1], Block(channels, 1, plan.filters.stored[2]), Block(place, 1, w.shape[-1])
    ]


def _in_turn(group: Sequence[StoredTile]) -> Iterator[tuple[int, list[tuple[Phase, Block]]]]:
    """Place by place, the tiles of pixels of all stored tiles of a group, which have the same places."""
    for members in zip(*(one.members for one in group), strict=True):
        yield members[0][0], [(phase, pixels) for _, phase, pixels in members]


def added_up(
    plan: Plan, group: Sequence[StoredTile], products: Iterator[tuple[int, Any, Any]], rows: Any
) -> Iterator[tuple[StoredTile, Any]]:
    """What is stored for sums of products of stacked tiles of pixels and filters."""
    total = tw.zeros()
    for _, pixels, placed in products:
        total += pixels @ placed
    for one, sums in apart(total, list(group)):
        yield one, plan.finished(sums, rows, Block(0, 1, SIDE), one.phase)


def grid_of(out: Image) -> Image:
    """An image whose tiles are those that are stored of a result."""
    return out.grid if isinstance(out, NarrowImage) else out
