"""Convolution as a sum of matrix products, one per tap of the window.

The image lies in DRAM as `images.py` says: 32 channels of one pixel are 32 bytes and pixels follow
each other, so the tile of 32 pixels under a tap starts at any pixel and the im2col matrix never
exists. Filters stay on chip while pixels stream past them.

    layer = conv2d(Image(56, 56, 64, border=(1, 1)), 128, Window(3, 3, padding=1))
    y = layer.kernel(x, w, bias)                # x [56, 56, 64], w [3, 3, 64, 128], bias [128]

Sums run in accumulators through all taps in reading order, channels in blocks of 32, and are
rounded to bf16 after every one. Taps outside of the image count as zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.tile_machine import Found, active_found, active_profile
from tilewright.targets.atlas.kernels.convolution_parts import (
    Parts,
    cut_of,
    in_ranges,
    run_in_parts,
)
from tilewright.targets.atlas.kernels.convolution_pooling import Pool, Results, results_of
from tilewright.targets.atlas.kernels.image_blocks import (
    TILE,
    Blocking,
    Cost,
    Phase,
    Phases,
    apart,
    choose,
    kept_rows,
    loaded,
    masks,
    own_tile,
    partition,
    pixel_blocks,
    stacked,
    stored,
    times,
)
from tilewright.targets.atlas.kernels.image_operands import (
    Channels,
    DenseFilters,
    Diagonals,
    Filters,
    JoinedFilters,
    Unfolded,
    UnfoldedAround,
    unfolded_columns,
)
from tilewright.targets.atlas.kernels.image_sources import Source, joined
from tilewright.targets.atlas.kernels.images import (
    LOWEST,
    SIDE,
    Image,
    Tap,
    Window,
    check_result,
    check_window,
    image_type,
    result_image,
    result_phases,
    round_up,
)
from tilewright.targets.atlas.kernels.narrow_images import NarrowImage, operand_types
from tilewright.targets.atlas.kernels.narrow_results import (
    check_narrow,
    grid_of,
    phase_groups,
    run_narrow,
    stored_cost,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.arrays import spread
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import Kernel, kernel_of
from tilewright.tile.types import TensorSpec

Panel = list[tuple[Block, Block]]  # tiles of filters, and the channels they see
Tiles = list[tuple[Phase, Block]]  # tiles of pixels of the result, with their phase
Step = tuple[
    Phase, int, int, Block
]  # tap, tile of what filters see, number of an image, tile of it
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: x,
    "relu": tw.relu,
    "relu6": lambda x: tw.minimum(tw.relu(x), 6.0),
    "silu": tw.silu,
    "gelu": tw.gelu,
    "sigmoid": tw.sigmoid,
    "tanh": tw.tanh,
    "hardsigmoid": lambda x: _hard_sigmoid(x),
    "hardswish": lambda x: x * _hard_sigmoid(x),
}


SIGNED = ("none", "silu", "gelu", "tanh", "hardswish")  # of +0 they are +0
NONNEGATIVE = ("relu", "relu6", "sigmoid", "hardsigmoid")


def _hard_sigmoid(x: Any) -> Any:
    return tw.minimum(tw.relu(x * (1 / 6) + 0.5), 1.0)


PRODUCT = 46.0  # ticks of a product of tiles, about
SEVERAL = 40.0  # the same where several tiles of filters see the same pixels
REPEATED = 3  # times a mask comes, on average, so that rows are masked once for all
OFTEN = 12  # the same where the vector unit has to make filters before that
MANY_TAPS = 12  # of such filters keep matrix units busier than the vector unit
GATE = 2.0**-4  # what numbers of a gate are multiplied by: calibrated ones are 1 at most then
SHARING = 8  # tiles of pixels for which filters of single channels are loaded once
SMALL = 4  # so many times an image fits into VMEM that stays there between kernels


@dataclass(frozen=True)
class Convolution:
    """A convolution of images of one size.

    kernel: takes x, or x0, x1, … of several images, w, and where wanted scale and bias (one number per filter),
    added and gate.
    """

    image: Image
    window: Window
    filters: Filters
    out: Image
    activation: str
    kernel: Kernel
    factor: float = 1.0
    plan: Plan | None = field(default=None, compare=False)
    unfolded: bool = False  # x comes with windows, or columns of them, as channels

    def blocking(self, profile: Profile, found: Found | None = None) -> Blocking | Parts:
        """How it is cut on a machine; an error where it does not fit."""
        assert self.plan is not None
        return self.plan.blocking(profile, found)


def conv2d(
    image: Image,
    filters: int,
    window: Window,
    *,
    groups: int = 1,
    bias: bool = True,
    scale: bool = False,
    activation: str = "none",
    factor: float = 1.0,
    out: Image | None = None,
    unfolded: bool | str = False,
    diagonal: bool | str = False,
    sources: Sequence[Source] = (),
    added: Image | None = None,
    share: float = 1.0,
    gate: Image | None = None,
    deep: int = 0,
    pool: Pool | None = None,
) -> Convolution:
    """activation(conv(x, w) * scale + bias + added * share) * factor, x an image and w
    [KH, KW, C / groups, N].

    groups: C and N are cut into as many parts that do not see each other; C of them is depthwise.
    out: how the result is stored; by default as fp8 with the border and pitch of the image; as a
    NarrowImage where only the host reads it.
    unfolded: the host stores every pixel's window as its channels, for first layers; "columns":
    only the columns of it; "around": with the border of the result.
    diagonal: of a depthwise convolution, w is stored as a row per tap, and made to tiles on the chip;
    "ones": all of w is 1 and not looked at, of a window of one tap.
    sources: of which images `image` is what is seen, side by side, each perhaps enlarged.
    added: an image like the result, but for its border. gate: an image of one pixel, whose channels
    times GATE multiply the filters that see them, which are rounded to fp8 again; of a window of one
    tap.
    deep: so many tiles of channels at a time, of all taps, with sums that wait on the chip: for filters
    or windows that do not fit there. Groups whose channels are no whole tiles then see all channels.
    pool: the largest numbers of windows are the kernel's result, and the image one beside it, `out_image`,
    if it is kept.
    """
    if activation not in ACTIVATIONS:
        raise TilewrightError(
            "TW1675", f"there is no activation {activation!r}", hint=f"use {', '.join(ACTIVATIONS)}"
        )
    given = Filters(window.height, window.width, image.channels, filters, groups)
    if deep:
        if diagonal or gate is not None:
            raise TilewrightError("TW1675", "filters made on the chip are there as a whole")
        sizes = window.height, window.width, image.channels, filters, groups
        given = given if in_ranges(given) else DenseFilters(*sizes)
    if unfolded:
        out = out or replace(result_of_unfolded(image, window), channels=filters)
        around = UnfoldedAround if unfolded == "around" else Unfolded
        source, rest = around(image, window, out), Window(1, 1)
        if unfolded == "columns":
            source, rest = unfolded_columns(image, window, out)
        plan = Plan(source.into, rest, source.filters(given), out, activation, factor)
        arranged: Any = source
    else:
        sources = tuple(sources)
        if sources:
            _check_sources(sources, image, groups)
            parts = tuple(source.image.channels for source in sources)
            sizes = window.height, window.width, image.channels, filters
            given = JoinedFilters(*sizes, parts=parts)
        for source in sources or (Source(image),):
            check_window(source.seen, window, "a convolution")
        out = out or result_image(image, window, filters)
        plan = Plan(image, window, given, out, activation, factor, sources=sources)
        arranged = image
    if diagonal and not groups == image.channels == filters:
        raise TilewrightError(
            "TW1675",
            f"{groups} groups of {image.channels} channels and {filters} filters are no diagonals",
            hint="only where every filter has a channel of its own",
        )
    if diagonal == "ones" and len(window.taps) != 1:
        raise TilewrightError("TW1675", "filters of ones see a single tap")
    if gate is not None:
        single = len(window.taps) == 1 == groups and not (unfolded or sources or diagonal)
        sizes = gate.height, gate.width, gate.channels, gate.batch or 1
        if not single or sizes != (1, 1, image.channels, image.batch or 1) or gate.fill != "zero":
            raise TilewrightError("TW1675", "a gate of what is no convolution of single pixels")
    plan = replace(
        plan, diagonal=diagonal, added=added, share=share, gate=gate, deep=deep, pool=pool
    )
    if pool is not None:
        if deep:
            raise TilewrightError("TW1675", "a convolution in parts of its channels does not pool")
        pool.check(out, activation in NONNEGATIVE)
    check_result(plan.image, plan.window, filters, out)
    if added is not None:
        check_result(plan.image, plan.window, filters, added)
    per_filter = tw.bf16[round_up(filters)].arranged(Channels(filters))
    weights = tw.fp8[plan.filters.stored].panels().arranged(plan.filters)
    if isinstance(out, NarrowImage):
        check_narrow(plan)
        weights, per_filter = operand_types(out, plan.filters)
    specs = {
        **{f"x{k}": image_type(source.image) for k, source in enumerate(plan.sources)},
        **({} if plan.sources else {"x": tw.fp8[plan.image.stored].panels().arranged(arranged)}),
        "w": _rows(window, filters) if diagonal else weights,
        **({"scale": per_filter} if scale else {}),
        **({"bias": per_filter} if bias else {}),
        **({} if added is None else {"added": image_type(added)}),
        **({} if gate is None else {"gate": image_type(gate)}),
        **results_of(out, pool),
    }
    kernel = kernel_of("conv2d", specs, plan.run)
    return Convolution(image, window, given, out, activation, kernel, factor, plan, bool(unfolded))


def _check_sources(sources: tuple[Source, ...], image: Image, groups: int) -> None:
    """An error unless an image is what is seen of some."""
    seen = joined(sources)
    names = ("height", "width", "channels", "phases", "pitch", "batch")
    if groups != 1 or any(getattr(seen, name) != getattr(image, name) for name in names):
        raise TilewrightError(
            "TW1675",
            f"a convolution of {groups} groups over {seen.height}x{seen.width}x{seen.channels} pixels "
            f"of {len(sources)} images as {image.height}x{image.width}x{image.channels}",
            hint="give joined(sources) as the image, and one group",
        )


def _bytes(image: Image) -> int:
    return math.prod(image.stored)


def _rows(window: Window, filters: int) -> TensorSpec:
    rows = Diagonals(window.height, window.width, filters)
    return tw.fp8[rows.stored].arranged(rows)


def result_of_unfolded(image: Image, window: Window) -> Image:
    """Like `result_image`, with phases only as far as the stride leaves some."""
    height, width = window.result(image.height, image.width)
    if any(n % s for n, s in zip(image.phase_count, window.steps, strict=True)):
        phases = (1, 1)
    else:
        phases = result_phases(image, window)
    return replace(image, height=height, width=width, phases=phases, pitch=0, fill="zero")


def _groups(out: Image) -> Iterator[list[Phases]]:
    """Phases of an image in groups, rows of them before parts of rows: all together, then halves,
    and so on."""
    down, across = out.phase_count
    sizes = [(n, across) for n in range(down, 0, -1) if down % n == 0]
    sizes += [(1, n) for n in range(across - 1, 0, -1) if across % n == 0]
    for high, wide in sizes:
        yield [
            [(a + i, c + j) for i in range(high) for j in range(wide)]
            for a in range(0, down, high) for c in range(0, across, wide)
        ]  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Scales and terms of some filters, if any.

    masked: both for tiles of which some rows are no pixels, zero in those; by these rows.
    """

    scale: Any
    bias: Any
    masked: dict[bytes, tuple[Any, Any]] = field(default_factory=dict)

    def applied(self, total: Any, kept: np.ndarray) -> Any:
        """Sums times scale, plus bias: zero where rows are not kept, as far as that is masked."""
        y = total if self.scale is None else total * self.scale
        y = y if self.bias is None else y + self.bias
        if not self.masked:
            return y
        tiles, cells = total.tiles(), list(y.cells)
        for r, line in enumerate(kept.reshape(-1, SIDE)):
            if not line.all():
                scale, bias = self.masked[line.tobytes()]
                own = replace(tiles, cells=[tiles.cells[r]], rows=[tiles.rows[r]])
                cells[r] = (own * scale + bias).cells[0]
        return replace(y, cells=cells)


@dataclass(frozen=True)
class Plan:
    """A convolution over images as they are stored."""

    image: Image
    window: Window
    filters: Filters
    out: Image
    activation: str
    factor: float
    diagonal: bool | str = False
    sources: tuple[Source, ...] = ()  # of what `image` is seen, if that is not an image itself
    added: Image | None = None
    share: float = 1.0  # of that
    gate: Image | None = None
    deep: int = (
        0  # tiles of channels whose products are added up, for all taps, before those of others
    )
    pool: Pool | None = None  # what is made of the result

    def run(
        self, w: Any, out: Any, scale: Any = None, bias: Any = None, added: Any = None,
        gate: Any = None, out_image: Any = None, **images: Any,
    ) -> None:  # fmt: skip
        """The kernel."""
        profile, here = active_profile(), active_found()
        if self.deep:
            parts = cut_of(self, profile, here)
            run_in_parts(self, parts, list(images.values()), w, out, (scale, bias, added))
            return
        blocking, groups = self.cut(profile, here)
        if isinstance(self.out, NarrowImage):
            run_narrow(self, (blocking, groups), list(images.values()), w, out, scale, bias)
            return
        lines = self.lines() if self.diagonal is True or self.gate is not None else []
        for b in tw.each(self.out.batch or 1):
            results = Results(self, {"out": out, "out_image": out_image}, b)
            results.write_borders()
            gains = self.gains(gate, b, lines)
            for panel in self._panels(blocking.panels):
                tiles = self.diagonals(w, panel, lines) if self.diagonal else None
                tiles = tiles if self.gate is None else self.gated(w, panel, gains)
                rows = [self.rows(n, scale, bias) for n, _ in panel]
                for phases, p in self._pixels(groups, blocking):
                    for group in self._together(phases, p, self._rows_together(panel)):
                        for k, total in self._sums(
                            list(images.values()), w, b, panel, group, tiles
                        ):
                            for (phase, part), sums in apart(total, group):
                                more = self.beside(added, b, phase, part, panel[k][0])
                                y = self.values(sums, rows[k], part, phase, more)
                                results.put(phase, part, part, panel[k][0], y)

    def _together(self, phases: Phases, p: Block, count: int) -> Iterator[Tiles]:
        """The tiles of a block of every phase, so many at a time."""
        tiles = [(phase, part) for phase in phases for part in p.parts()]
        tiles = tiles if self.pool is None else self.pool.by_windows(tiles)
        for first in range(0, len(tiles), count):
            yield tiles[first : first + count]

    def _rows_together(self, panel: Panel) -> int:
        """Tiles of pixels that share what matrix units hold: two where tiles of filters share them
        in turn, more where filters are made on the chip and loaded again for others, else as many as
        there are accumulators."""
        if self.diagonal is True:
            return SHARING
        return 2 if self._side_by_side(panel) else len(active().units)

    def _side_by_side(self, panel: Panel) -> bool:
        """Whether several tiles of filters see the same pixels, and units load by themselves."""
        own = active_profile().timing["push"].unit == "MXU"
        return own and len(panel) > 1 and self.filters.groups == 1

    def _sums(
        self, images: list[Any], w: Any, b: Any, panel: Panel, group: Tiles, made: Any
    ) -> Iterator[tuple[int, Any]]:
        """(number of a tile of filters in the panel, its sums for a group of tiles of pixels)."""
        if self._side_by_side(panel):
            seen = [self._seen(images, b, group, *step) for step in self._steps(panel[0][1])]
            columns = [
                [self._filter(w, n, tap, k, made) for tap, k, _, _ in self._steps(channels)]
                for n, channels in panel
            ]
            yield from tw.row_products(seen, columns)
            return
        for number, (n, channels) in enumerate(panel):
            total = tw.zeros()
            for step in self._steps(channels):
                tap, k, _, _ = step
                filters = self._filter(w, n, tap, k, made)
                total += self._seen(images, b, group, *step) @ filters
            yield number, total

    def _steps(self, channels: Block) -> Iterator[Step]:
        """Taps in reading order, and of each all channels, image by image."""
        for tap in self.window.taps:
            if not self.sources:
                yield from ((tap, k, 0, c) for k, c in enumerate(channels.parts()))
            k = 0
            for number, source in enumerate(self.sources):
                extent = source.image.stored[-1]
                for tile in range(extent // SIDE):
                    yield tap, k, number, Block(tile, 1, extent)
                    k += 1

    def _filter(self, w: Any, n: Block, tap: Phase, k: int, made: Any) -> Any:
        """Filters for tile k of the channels they see."""
        if made:
            return made[(n.start, tap) if self.gate is None else (n.start, k)]
        return w[tap[0], tap[1], Block(k, 1, self.filters.stored[2]), n]

    def _seen(
        self, images: list[Any], b: Any, group: Tiles, tap: Phase, k: int, number: int, c: Block
    ) -> Any:
        """What a tap sees of a tile of channels, at some tiles of pixels of the result."""
        source = self.sources[number] if self.sources else Source(self.image)
        found = []
        for phase, p in group:
            at = source.at(self.window, phase, tap)
            found.append(images[number][b, at.row, at.column, p + at.shift, c])
        return stacked(found)

    def _pixels(self, groups: list[Phases], blocking: Blocking) -> Iterator[tuple[Phases, Block]]:
        """Blocks of pixels of every group of phases."""
        for phases in groups:
            for p in pixel_blocks(self.out, blocking.tiles):
                yield phases, p

    def blocking(self, profile: Profile, found: Found | None = None) -> Blocking | Parts:
        """Tiles of pixels and panels of filters in one body."""
        return cut_of(self, profile, found) if self.deep else self.cut(profile, found)[0]

    def cut(
        self, profile: Profile, found: Found | None = None, most: int | None = None
    ) -> tuple[Blocking, list[Phases]]:
        """The same, and the phases that are computed together: all, or as many as have room. Where
        it is known what lies on the chip, as many as take the least time. most: groups of phases."""
        panels = -(-self.filters.filters // SIDE)
        ways: list[tuple[Blocking, list[Phases]]] = []
        refused = None
        for groups in _groups(self.out):
            if most is not None and len(groups) > most:
                continue
            if isinstance(self.out, NarrowImage) and not phase_groups(self.out, groups):
                continue
            if self.pool is not None and not all(map(self.pool.has_whole_windows, groups)):
                continue
            if found is not None and found.phases and len(groups[0]) > found.phases:
                continue
            costs = [self._cost(profile, one, found) for one in groups]
            cost = max(costs, key=lambda c: c.shared + c.own)
            try:
                chosen = choose(grid_of(self.out), panels, cost, profile, "a convolution", found)
                if found is None:
                    self._check_written(chosen, cost, profile)
                ways.append((chosen, groups))
            except TilewrightError as error:
                refused = error
            if ways and found is None:
                break
        if not ways:
            raise refused or TilewrightError(
                "TW1675", "a convolution that pools windows over more phases than one loop can take"
            )
        return min(ways, key=lambda way: way[0].ticks * len(way[1]))

    def _check_written(self, chosen: Blocking, cost: Cost, profile: Profile) -> None:
        """An error where tiles of filters of many groups are written out one after the other, with no
        loop between them: what all of them see lies on the chip together then."""
        if self.filters.groups == 1 or self._aligned:
            return
        loop = partition(self.out, chosen.tiles)
        if loop.looped > loop.size:
            return
        tiles = -(-self.filters.filters // SIDE)
        pixels = -(-self.out.rows * self.out.pitch // SIDE)
        loads = (cost.own + cost.writes) * pixels + cost.own * cost.halo // SIDE + cost.fixed
        written, room = loads * tiles * TILE, profile.vmem_bytes * 7 // 8
        if written > room:
            raise TilewrightError(
                "TW1674",
                f"a convolution of {self.filters.groups} groups needs {written / 2**20:.2f} MiB of "
                f"VMEM, {profile.name} has {room / 2**20:.2f} MiB for that",
                hint="use groups of whole tiles of channels",
            )

    def diagonals(self, w: Any, panel: list[tuple[Block, Block]], lines: list[Any]) -> dict:
        """Tiles of filters that see one channel each, by panel and tap: a row of w repeated, times
        the unit matrix."""
        unit, found = own_tile("unit", np.eye(SIDE)), {}
        taps = self.window.taps
        if self.diagonal == "ones":
            same = tw.park(tw.to_fp8(unit))
            return {(n.start, tap): same for (n, _), tap in product(panel, taps)}
        for (n, _), (k, tap) in product(panel, enumerate(taps)):
            row = tw.zeros()
            block = Block(k // SIDE, 1, len(taps))
            line = replace(lines[k % SIDE].tiles(), columns=[block.size], blank=(True, True))
            row += line @ w[block, n]
            found[n.start, tap] = tw.park(tw.to_fp8(row * unit))
        return found

    def gains(self, gate: Any, b: Any, lines: list[Any]) -> list[Any]:
        """Tiles with the numbers of 32 channels of a gate on their diagonals."""
        if self.gate is None:
            return []
        unit, found = own_tile("gate_unit", np.eye(SIDE) * GATE), []
        pixel, wide = Block(self.gate.lead // SIDE, 1, self.gate.pixels), self.gate.stored[-1]
        for k in range(wide // SIDE):
            row = tw.zeros()
            row += lines[0] @ gate[b, 0, 0, pixel, Block(k, 1, wide)]
            found.append(tw.park(tw.to_fp8(row * unit)))
        return found

    def gated(self, w: Any, panel: Panel, gains: list[Any]) -> dict:
        """Tiles of filters times the numbers of the channels they see, by panel and tile of channels."""
        found = {}
        for n, _ in panel:
            for k, gain in enumerate(gains):
                total = tw.zeros()
                total += gain @ self._filter(w, n, (0, 0), k, None)
                found[n.start, k] = tw.park(tw.to_fp8(total))
        return found

    def lines(self) -> list[Any]:
        """Tiles that repeat one row of what they are multiplied with."""
        rows = [np.arange(SIDE) == k for k in range(min(SIDE, len(self.window.taps)))]
        return [
            tw.park(tw.transpose(tw.to_fp8(tw.keep(tw.full(1.0), row, nonnegative=True))))
            for row in rows
        ]

    def rows(self, n: Block, scale: Any, bias: Any, park: bool = False) -> Rows:
        """Scales and terms of these filters. park: as tiles that all pixels share."""
        one, other = (None if row is None else row[n] for row in (scale, bias))
        if park:
            one, other = (None if row is None else tw.park(row) for row in (one, other))
        masked: dict[bytes, tuple[Any, Any]] = {}
        if one is None or other is None or not self._masks_rows():
            return Rows(one, other, masked)
        for line in masks(self.out):
            if line.tobytes() not in masked:
                wide = (spread(row.tiles(), 1, 1) for row in (one, other))
                first, second = (tw.park(tw.keep(tiles, line)) for tiles in wide)
                masked[line.tobytes()] = first, second
        return Rows(one, other, masked)

    def beside(self, added: Any, b: Any, phase: Phase, p: Block, n: Block) -> Any:
        """What is added to the sums of a block of pixels and these filters, if anything."""
        if self.added is None:
            return None
        return loaded(added[b, phase[0], phase[1], p + self.added.lead, n], self.share)

    def _masks_rows(self) -> bool:
        """Whether scales and terms are masked, instead of what is made of them: sums times zero,
        plus zero, are zero, and so is what activations make of it. Worth it where masks are few,
        and a tile that waits is not loaded by the vector unit."""
        if self.activation not in SIGNED:
            return False
        if self.added is not None and self.added.fill != "zero":
            return False
        if self.out.fill != "zero" or active_profile().timing["tensor_load"].unit == "VPU":
            return False
        deep = self.diagonal is True
        if deep and len(self.window.taps) > MANY_TAPS:
            return False
        lines = masks(self.out)
        few = len({line.tobytes() for line in lines})
        return len(lines) >= (OFTEN if deep else REPEATED) * few > 0

    def finished(
        self,
        total: Any,
        rows: Rows,
        p: Block,
        phase: tuple[int, int],
        added: Any = None,
        mask: Any = None,
    ) -> Any:
        """What is stored for the sums of a block of pixels."""
        return self.rounded(self.values(total, rows, p, phase, added, mask))

    def rounded(self, y: Any) -> Any:
        """Values as they are stored."""
        return stored(y, self.last_factor, self.out.dtype)

    @property
    def last_factor(self) -> float:
        """What values are multiplied by when they are rounded."""
        return 1.0 if self.out.fill == "lowest" else self.factor

    def values(
        self,
        total: Any,
        rows: Rows,
        p: Block,
        phase: tuple[int, int],
        added: Any = None,
        mask: Any = None,
    ) -> Any:
        """The values of the sums of a block of pixels, to which something may be added, before they are
        rounded. mask: a tile that is zero where there are no pixels."""  # fmt: skip
        kept = kept_rows(self.out, p, phase)
        y = rows.applied(total, kept)
        y = y if added is None else y + added
        if self.out.fill == "lowest":
            return tw.keep(times(ACTIVATIONS[self.activation](y), self.factor), kept, LOWEST)
        # What is cut off above and what is no pixel are one step.
        highest = 6.0 if self.activation == "relu6" else np.inf
        first = "relu" if self.activation == "relu6" else self.activation
        y = ACTIVATIONS[first](y)
        # Where the vector unit does not load, it is better spared.
        vector = active_profile().timing["tensor_load"].unit == "VPU"
        bare = self.activation in NONNEGATIVE
        if mask is not None:
            y = tw.minimum(y, highest) if np.isfinite(highest) else y
            y = y * mask
        elif not rows.masked:
            y = tw.keep(y, kept, nonnegative=bare, highest=highest, computed=vector)
        return y

    def at(self, phase: tuple[int, int], tap: tuple[int, int]) -> Tap:
        return self.window.place(self.image, phase, tap)

    @property
    def _aligned(self) -> bool:
        """Whether a tile of filters sees just the tile of channels of its own number."""
        tiles = range(-(-self.filters.filters // SIDE))
        return all(self.filters.tiles(t) == (t, t) for t in tiles)

    def _panels(self, count: int) -> Iterator[Panel]:
        """Blocks of filters that are computed together, and the channels they see."""
        filters, channels = round_up(self.filters.filters), self.image.stored[-1]
        if self.filters.groups == 1:
            for n in tw.grid(filters, count * SIDE):
                yield [(part, Block(0, channels // SIDE, channels)) for part in n.parts()]
        elif self._aligned:
            for n in tw.grid(filters, count * SIDE):
                yield [(part, part) for part in n.parts()]
        else:
            for tile in range(filters // SIDE):
                first, last = self.filters.tiles(tile)
                yield [(Block(tile, 1, filters), Block(first, last - first + 1, channels))]

    def _cost(self, profile: Profile, phases: Phases, found: Found | None = None) -> Cost:
        depth, taps = self.filters.depth, len(self.window.taps)
        alone = self.filters.groups > 1
        here = frozenset[str]() if found is None else found.tensors
        seen, halo = 0, 0  # tiles of the image that are not on chip, and pixels more of each
        for number, source in enumerate(self.sources or (Source(self.image),)):
            if (f"x{number}" if self.sources else "x") in here:
                continue
            channels = source.image.stored[-1] // SIDE if self.sources else depth
            reaches = list(self._reaches(source, phases))
            seen += len(reaches) * channels
            halo += sum(reaches) * channels
        ticks = PRODUCT if profile.timing["tensor_load"].latency > 16 else 32.0
        beside = 0 if self.added is None or "added" in here else len(phases)
        several = self.filters.groups == 1 and profile.timing["push"].unit == "MXU"
        cost = Cost(
            0 if alone else seen, (seen if alone else 0) + beside, -(-halo // max(seen, 1)),
            0 if self.diagonal else taps * depth,
            self._writes(len(phases), here),
            len(phases) * taps * depth, ticks, phases=len(phases),
            made=taps if self.diagonal is True else 0 if self.gate is None else depth,
            together=3 if ticks == PRODUCT else 1,
            several=SEVERAL if found is not None and several and ticks == PRODUCT else 0.0,
            loops=0 if found is None else len(self.out.each_phase()) // len(phases),
            small=found is None and not self.diagonal
            and max(map(_bytes, (self.image, self.out))) * SMALL <= profile.vmem_bytes,
        )  # fmt: skip
        return stored_cost(self.out, cost) if isinstance(self.out, NarrowImage) else cost

    def _writes(self, phases: int, here: frozenset[str]) -> int:
        """Tiles that leave the chip of so many phases at one place."""
        if self.pool is None:
            return 0 if "out" in here else phases * (1 + (self.out.dtype == "bf16"))
        image = 0 if "out_image" in here else phases * self.pool.kept
        return image + (0 if "out" in here else phases // len(self.pool.window.taps))

    def _reaches(self, source: Source, phases: Phases) -> Iterator[int]:
        """Of every phase of an image that is seen, from the first to the last pixel that one of a
        result sees."""
        shifts: dict[Phase, list[int]] = {}
        for phase, tap in product(phases, self.window.taps):
            at = source.at(self.window, phase, tap)
            shifts.setdefault((at.row, at.column), []).append(at.shift)
        for found in shifts.values():
            yield max(found) - min(found)
