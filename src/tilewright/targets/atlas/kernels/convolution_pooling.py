"""What a convolution leaves: its image, the largest numbers of windows of it, or both.

Windows that lie side by side (as far apart as they are wide) see one phase of the image with every tap,
and all of them at the place of the result: pooling is a maximum of tiles of phases there, element by
element, wherever phases begin. So tiles are pooled as soon as they are made, before they are rounded to
fp8, and the image needs to be stored only for those that read it besides.

    for the tiles of a window's phases:       # phase (a, b) of the result, taps (i, j)
        y = convolution at phase (a * height + i, b * width + j)
        out_image[y's phase] = y              # if somebody reads it
        best = max(best, y)
    out[a, b] = best
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.image_blocks import kept_rows, stored, write_border
from tilewright.targets.atlas.kernels.images import (
    LOWEST,
    SIDE,
    Image,
    Window,
    check_result,
    image_type,
)
from tilewright.tile.blocks import Block
from tilewright.tile.types import TensorSpec

if TYPE_CHECKING:
    from tilewright.targets.atlas.kernels.convolution import Plan

IMAGE = "out_image"  # the parameter of an image that is stored beside what is pooled of it
Phase = tuple[int, int]


@dataclass(frozen=True)
class Pool:
    """The largest numbers of windows side by side, which are stored as `out`.

    kept: the image that they are of is stored as well.
    """

    window: Window
    out: Image
    kept: bool = True

    def check(self, image: Image, nonnegative: bool) -> None:
        """An error unless they can be found while an image is made. nonnegative: no number of it is
        negative, so that zeros may lie beyond its edges."""
        window = self.window
        sizes, sides = (window.height, window.width), window.sides
        if not is_side_by_side(window):
            raise _refused(f"of {sizes[0]}x{sizes[1]} with steps of {window.steps}")
        if any(sides) and not nonnegative:
            raise _refused("that leave an image of negative numbers")
        if image.dtype != "fp8" or self.out.dtype != "fp8":
            raise _refused("of an image in bf16")
        if any(n % size for n, size in zip(image.phase_count, sizes, strict=True)):
            raise _refused(f"of {sizes[0]}x{sizes[1]} over {image.phase_count} phases")
        check_result(image, window, image.channels, self.out)

    def seen_by(self, phase: Phase) -> tuple[Phase, Phase]:
        """The phase of the result that sees a phase of the image, and with which tap."""
        (a, b), high, wide = phase, self.window.height, self.window.width
        return (a // high, b // wide), (a % high, b % wide)

    def phases_of(self, phase: Phase) -> list[Phase]:
        """The phases of the image that a phase of the result sees, tap by tap."""
        (a, b), high, wide = phase, self.window.height, self.window.width
        return [(a * high + i, b * wide + j) for i, j in self.window.taps]

    def is_first(self, phase: Phase) -> bool:
        return self.seen_by(phase)[1] == (0, 0)

    def is_last(self, phase: Phase) -> bool:
        return self.seen_by(phase)[1] == (self.window.height - 1, self.window.width - 1)

    def has_whole_windows(self, phases: Sequence[Phase]) -> bool:
        """Whether all phases of every window are among some, if one is."""
        taps = len(self.window.taps)
        return len({self.seen_by(phase)[0] for phase in phases}) * taps == len(phases)

    def by_windows(self, tiles: list[tuple[Phase, Any]]) -> list[tuple[Phase, Any]]:
        """Tiles of phases with those next to each other that windows see together."""
        found: dict[tuple, list[tuple[Phase, Any]]] = {}
        for phase, place in tiles:
            found.setdefault((*self.seen_by(phase)[0], place), []).append((phase, place))
        return [one for window in found.values() for one in window]

    def writes(self, phases: int) -> int:
        """Tiles that are written of so many phases at one place."""
        return phases * self.kept + phases // len(self.window.taps)


def is_side_by_side(window: Window) -> bool:
    """Whether windows touch and do not overlap, and begin with the image."""
    alike = window.steps == (window.height, window.width) and window.spacing == (1, 1)
    return alike and not any(window.sides[:2])


def results_of(image: Image, pool: Pool | None) -> dict[str, TensorSpec]:
    """The parameters of what a kernel leaves that makes an image."""
    if pool is None:
        return {"out": image_type(image)}
    return {**({IMAGE: image_type(image)} if pool.kept else {}), "out": image_type(pool.out)}


@dataclass
class Results:
    """Where tiles of a plan's result go, in image b of a batch: to the image, and to what is pooled.

    given: the tensors of the kernel's results, by name.
    """

    plan: Plan
    given: dict[str, Any]
    b: Any
    best: dict[tuple, Any] = field(default_factory=dict)  # of windows some taps of which were seen

    @property
    def image(self) -> Any:
        """The tensor of the image, None where it is not stored."""
        return self.given["out"] if self.plan.pool is None else self.given.get(IMAGE)

    def write_borders(self) -> None:
        """Fill what holds nothing but border."""
        if self.image is not None:
            write_border(self.image, self.b, self.plan.out)
        if self.plan.pool is not None:
            write_border(self.given["out"], self.b, self.plan.pool.out)

    def put(self, phase: Phase, place: Block, part: Block, n: Block, y: Any) -> None:
        """Store a tile of pixels of a phase for some filters. place: where it is, counted from the first
        pixel; part: a place whose rows are pixels where those of this one are."""
        plan, image = self.plan, self.image
        if image is not None:
            image[self.b, phase[0], phase[1], place + plan.out.lead, n] = plan.rounded(y)
        if plan.pool is not None:
            self._pool(plan, plan.pool, phase, place, part, n, y)

    def _pool(
        self, plan: Plan, pool: Pool, phase: Phase, place: Block, part: Block, n: Block, y: Any
    ) -> None:
        (a, c), _ = pool.seen_by(phase)
        key = a, c, place.start, place.shift, n.start
        # Taps come in reading order: of equal zeros the sign of the last one counts.
        y = y if pool.is_first(phase) else tw.maximum(self.best.pop(key), y)
        if not pool.is_last(phase):
            self.best[key] = y
            return
        out = pool.out
        if not place.variables and place.start * SIDE + (place.shift or 0) >= _end(out):
            return  # rows of the image that no window sees
        kept = kept_rows(out, part, (a, c))
        if out.fill != plan.out.fill or any(
            (kept_rows(plan.out, part, seen) & ~kept).any() for seen in pool.phases_of((a, c))
        ):  # else they hold what belongs there already
            y = tw.keep(y, kept, LOWEST if out.fill == "lowest" else 0.0)
        y = stored(y, plan.last_factor, out.dtype)
        self.given["out"][self.b, a, c, place + out.lead, n] = y


def _end(image: Image) -> int:
    """Pixels of a phase up to the end of its last row."""
    return image.rows * image.pitch


def _refused(why: str) -> TilewrightError:
    return TilewrightError(
        "TW1675", f"a convolution that pools windows {why}", hint="pool the image by itself"
    )
