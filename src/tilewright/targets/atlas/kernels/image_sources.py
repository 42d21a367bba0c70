"""Images that a convolution reads as if they were one: side by side along their channels, each
enlarged by repeating its pixels.

An image of P phases whose pixels are repeated f times down is, seen with f P phases, the same pixels
again: phase a of what is seen is phase a // f of the image, at the same places. So nothing has to be
stored for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.images import Image, Tap, Window

Phase = tuple[int, int]


@dataclass(frozen=True)
class Source:
    """An image, and how often its pixels are repeated down and across."""

    image: Image
    enlarged: Phase = (1, 1)

    @property
    def seen(self) -> Image:
        """The enlarged image; its phase images are those of the image."""
        (down, across), (a, b) = self.enlarged, self.image.phase_count
        return replace(
            self.image, height=self.image.height * down, width=self.image.width * across,
            phases=(a * down, b * across), seen=(),
        )  # fmt: skip

    def at(self, window: Window, phase: Phase, tap: Phase) -> Tap:
        """Where a tap of a result's phase is in the image."""
        found = window.place(self.seen, phase, tap)
        down, across = self.enlarged
        return replace(found, row=found.row // down, column=found.column // across)


def joined(sources: Sequence[Source]) -> Image:
    """What is seen of all of them."""
    first, *others = (source.seen for source in sources)
    for other in others:
        if any(getattr(first, name) != getattr(other, name) for name in ALIKE):
            raise TilewrightError(
                "TW1672", "images side by side that differ in size, phases, pitch or batch"
            )
    channels = first.channels + sum(other.channels for other in others)
    return replace(first, channels=channels)


ALIKE = ("height", "width", "phases", "pitch", "batch", "dtype", "first")
