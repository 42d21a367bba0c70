"""Loops that a kernel needs in another form than it was traced in.

What an author writes is one loop; what its body does with the index decides what the program has:
`h // 4` two loops, of groups and of their members, blocks before the first block one iteration of
its own. A trace notices when it comes to that place, and the kernel is traced once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

from tilewright.errors import TilewrightError

# A loop, by where it stands: the author's line, and those of functions in between.
Place = tuple[tuple[CodeType, int], ...]


@dataclass
class LoopForms:
    """How the loops of a kernel are traced that need more than one plain loop."""

    members: dict[Place, tuple[int, ...]] = field(default_factory=dict)  # counts, largest first
    written_out: set[Place] = field(default_factory=set)
    first_apart: dict[Place, int] = field(default_factory=dict)  # so many iterations

    def divide(self, place: Place, extent: int, count: int) -> bool:
        """Split a loop so that its index can be divided by a count. False: it already is."""
        if place in self.written_out:
            return False
        known = self.members.get(place, ())
        wanted = sorted({*known, count}, reverse=True)
        steps = [extent, *wanted]
        nested = all(a % b == 0 for a, b in zip(steps, wanted, strict=False))
        if count in known or not nested:
            self.written_out.add(place)
        else:
            self.members[place] = tuple(wanted)
        return True

    def part_first(self, place: Place, count: int) -> bool:
        """Trace the first iterations of a loop apart. False: they already are."""
        if self.first_apart.get(place, 0) >= count:
            return False
        self.first_apart[place] = count
        return True


@dataclass(frozen=True)
class Around:
    """What is known of a loop variable: where its loop stands, and which values it takes."""

    place: Place
    first: int
    last: int
    step: int
    stride: int  # of the author's index for each one of it
    extent: int  # of that index


class OtherForm(TilewrightError):
    """A loop was given another form: the kernel has to be traced again."""

    def __init__(self) -> None:
        super().__init__("TW1627", "a loop of this kernel needs another form than it was traced in")
