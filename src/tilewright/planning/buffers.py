"""Buffers: what memory planning places.

Error codes: TW1401 a buffer that cannot be, TW1402 two buffers of one name, TW1403 an in-place
reuse that cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.errors import TilewrightError


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes of `region` that hold a value during the steps [lower, upper).

    `offset` fixes its place. `reuses` names buffers it may lie on exactly: one that is read for
    the last time by the step that writes this buffer, and that is at least as large.
    """

    name: str
    size: int
    lower: int
    upper: int
    alignment: int = 1
    region: str = "memory"
    offset: int | None = None
    reuses: tuple[str, ...] = ()

    def overlaps_in_time(self, other: Buffer) -> bool:
        return self.lower < other.upper and other.lower < self.upper


def align_up(value: int, alignment: int) -> int:
    """The first multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def check_buffers(buffers: Sequence[Buffer]) -> None:
    """Raise the first error in a set of buffers."""
    by_name: dict[str, Buffer] = {}
    for buffer in buffers:
        if buffer.name in by_name:
            raise TilewrightError(
                "TW1402",
                f"two buffers are called {buffer.name}",
                hint="give every buffer a name of its own",
            )
        by_name[buffer.name] = buffer
        if problem := _problem(buffer):
            raise TilewrightError("TW1401", f"buffer {buffer.name} {problem[0]}", hint=problem[1])
    for buffer in buffers:
        for name in buffer.reuses:
            _check_reuse(buffer, by_name.get(name), name)


def _problem(buffer: Buffer) -> tuple[str, str] | None:
    if buffer.size < 0:
        return f"has the size {buffer.size}", "sizes are bytes, zero or more"
    if buffer.alignment < 1:
        return f"has the alignment {buffer.alignment}", "alignments are bytes, one or more"
    if buffer.lower >= buffer.upper:
        return (
            f"is live over [{buffer.lower}, {buffer.upper}), which is empty",
            "the upper end of a lifetime is the first step at which the buffer is dead",
        )
    if buffer.offset is not None and buffer.offset < 0:
        return f"is fixed at {buffer.offset}", "offsets are zero or more"
    if buffer.offset is not None and buffer.offset % buffer.alignment:
        return (
            f"is fixed at {buffer.offset}, which is no multiple of its alignment "
            f"{buffer.alignment}",
            "move it or lower its alignment",
        )
    return None


def _check_reuse(buffer: Buffer, reused: Buffer | None, name: str) -> None:
    problem = None
    if reused is None:
        problem = "which does not exist"
    elif reused.region != buffer.region:
        problem = f"which is in the region {reused.region}, not {buffer.region}"
    elif reused.size < buffer.size:
        problem = f"which is smaller: {reused.size} bytes, {buffer.size} are needed"
    elif reused.upper - 1 != buffer.lower or reused.lower >= buffer.lower:
        problem = f"which is not read for the last time at step {buffer.lower}"
    if problem:
        raise TilewrightError(
            "TW1403",
            f"buffer {buffer.name} may not reuse {name}, {problem}",
            hint="a buffer takes the place of one whose last reader is the step that writes it",
        )


def peak_of(buffers: Iterable[Buffer], offsets: dict[str, int]) -> int:
    """The end of the highest buffer."""
    return max((offsets[b.name] + b.size for b in buffers), default=0)
