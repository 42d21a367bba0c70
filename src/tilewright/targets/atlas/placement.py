"""Where files meet memory: `FILE@ADDR`, `ADDR:BYTES=FILE`, `FILE@ADDR:rtol,atol`.

ADDR is a DRAM byte address (1024, 0x400), or `vmem:ADDR` for VMEM.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.errors import TilewrightError
from tilewright.io.tensor_files import Tensor, check_writable, read_tensor
from tilewright.reference.tolerance import Tolerance
from tilewright.targets.atlas.profile import Profile

_NUMBER = r"(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9][0-9_]*)"
_PLACE = rf"(?:(?P<space>vmem|dram):)?(?P<address>{_NUMBER})"
_MEMORY = re.compile(rf"(?P<file>.+)@{_PLACE}", re.DOTALL)
_EXPECT = re.compile(rf"(?P<file>.+)@{_PLACE}(?::(?P<rtol>[^,:]*),(?P<atol>[^,:]*))?", re.DOTALL)
_DUMP = re.compile(rf"{_PLACE}:(?P<count>{_NUMBER})=(?P<file>.+)", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """A byte address in "dram" or "vmem"."""

    space: str
    address: int

    def __str__(self) -> str:
        return f"{'vmem:' if self.space == 'vmem' else ''}{self.address:#x}"


@dataclass(frozen=True)
class Placement:
    """A file's bytes, to be placed in memory before the run."""

    tensor: Tensor
    place: Place


@dataclass(frozen=True)
class Dump:
    """A range of memory to write to a file after the run."""

    place: Place
    count: int
    file: str


@dataclass(frozen=True)
class Expectation:
    """An array that memory must hold after the run; exact without a tolerance."""

    tensor: Tensor
    place: Place
    tolerance: Tolerance | None = None


def parse_place(text: str) -> Place:
    """`0x400`, `vmem:64` → a place."""
    match = re.fullmatch(_PLACE, text.strip())
    if not match:
        raise TilewrightError(
            "TW3030",
            f"{text!r} is no address",
            hint="write a DRAM byte address such as 0x1000, or vmem:0x400 for VMEM",
        )
    return _place(match)


def parse_memory(text: str) -> Placement:
    """`weights.npy@0x1000` → its array and place."""
    match = _MEMORY.fullmatch(text)
    if not match:
        raise _malformed("--mem", text, "FILE@ADDR", "weights.npy@0x1000 or image.bin@vmem:0")
    place = _place(match)
    return Placement(read_tensor(match["file"]), place)


def parse_dump(text: str) -> Dump:
    """`0x2000:2048=out.bin` → range and file."""
    match = _DUMP.fullmatch(text)
    if not match:
        raise _malformed("--dump", text, "ADDR:BYTES=FILE", "0x2000:2048=result.npy")
    place, count = _place(match), _integer(match["count"])
    check_writable(match["file"], count)
    return Dump(place, count, match["file"])


def parse_expectation(text: str) -> Expectation:
    """`want.npy@0x2000:1e-2,1e-3` → array, place, tolerance."""
    match = _EXPECT.fullmatch(text)
    if not match:
        example = "want.npy@0x2000 (bit by bit) or want.npy@0x2000:1e-2,1e-3"
        raise _malformed("--expect", text, "FILE@ADDR[:rtol,atol]", example)
    place = _place(match)
    tolerance = None
    if match["rtol"] is not None:
        tolerance = Tolerance(_error_bound(match["rtol"], text), _error_bound(match["atol"], text))
    tensor = read_tensor(match["file"])
    if tolerance and not tensor.typed:
        raise TilewrightError(
            "TW3032",
            f"raw bytes have no element type to compare {match['file']!r} with a tolerance",
            hint="name the type, as in FILE#bf16@ADDR:rtol,atol, or use .npy or .safetensors",
        )
    return Expectation(tensor, place, tolerance)


def check_places(
    profile: Profile,
    placements: Sequence[Placement],
    dumps: Sequence[Dump],
    expectations: Sequence[Expectation],
) -> None:
    """Refuse ranges outside memory and placements over each other."""
    ranges = [
        *((p.tensor.name, p.place, p.tensor.size) for p in placements),
        *((d.file, d.place, d.count) for d in dumps),
        *((e.tensor.name, e.place, e.tensor.size) for e in expectations),
    ]
    for name, place, count in ranges:
        size = profile.vmem_bytes if place.space == "vmem" else profile.dram_bytes
        if place.address + count > size:
            raise TilewrightError(
                "TW3033",
                f"{name}: {count} bytes at {place} do not fit {place.space.upper()}, "
                f"which has {size} bytes on {profile.name}",
            )
    for space in ("dram", "vmem"):
        taken = sorted(
            (p.place.address, p.place.address + p.tensor.size, p.tensor.name)
            for p in placements
            if p.place.space == space and p.tensor.size
        )
        for (_, end, one), (start, _, other) in pairwise(taken):
            if start < end:
                raise TilewrightError(
                    "TW3034",
                    f"{other} at {start:#x} overlaps {one}, which ends at {end:#x} "
                    f"in {space.upper()}",
                )


def _place(match: re.Match[str]) -> Place:
    return Place(match["space"] or "dram", _integer(match["address"]))


def _integer(text: str) -> int:
    try:
        if len(text) > 40:
            raise ValueError
        return int(text, 10 if text.isdecimal() else 0)
    except ValueError:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise TilewrightError("TW3030", f"{shown!r} is no address or size") from None


def _error_bound(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise TilewrightError(
            "TW3031",
            f"{text!r} in {whole!r} is no tolerance",
            hint="rtol and atol are numbers of 0 or more, such as 1e-2,1e-3",
        )
    return value


def _malformed(option: str, text: str, form: str, example: str) -> TilewrightError:
    shown = text if len(text) <= 80 else text[:80] + "…"
    return TilewrightError(
        "TW3030", f"{option} {shown!r} is not {form}", hint=f"for example {option} {example}"
    )
