"""Data directives: what `.dram`, `.vmem`, `.byte`, `.bf16` and friends place in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.assembly.expression import Expression, Parser
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Data

MAX_DATA_BYTES = 1 << 28  # of one program

# Directive -> bytes of one value, for integers.
INTEGERS = {".byte": 1, ".half": 2, ".word": 4, ".dword": 8}
# Directive -> (element type, largest finite value), for fractions.
FLOATS = {
    ".bf16": (np.dtype(ml_dtypes.bfloat16), float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    ".fp8": (np.dtype(ml_dtypes.float8_e4m3fn), 448.0),
    ".float": (np.dtype(np.float32), float(np.finfo(np.float32).max)),
}


@dataclass
class Section:
    """A run of bytes under construction."""

    space: str
    address: int
    place: Location
    bytes: bytearray = field(default_factory=bytearray)

    @property
    def cursor(self) -> int:
        return self.address + len(self.bytes)


class DataBuilder:
    """Collects data; one section per `.dram` or `.vmem` line."""

    def __init__(self, profile: Profile) -> None:
        self.sizes = {"dram": profile.dram_bytes, "vmem": profile.vmem_bytes}
        self.profile = profile
        self.sections: list[Section] = []
        self.total = 0

    @property
    def section(self) -> Section | None:
        return self.sections[-1] if self.sections else None

    def start(self, space: str, address: int, place: Location) -> None:
        """Continue at another address."""
        if not 0 <= address <= self.sizes[space]:
            raise self._outside(space, address, place)
        self.sections.append(Section(space, address, place))

    def reserve(self, count: int, place: Location) -> Section:
        """The current section, after checking that `count` more bytes fit."""
        section = self.section
        if section is None:
            raise TilewrightError(
                "TW1012",
                "there is no place for this data yet",
                place,
                hint="put .dram ADDRESS or .vmem ADDRESS on a line before it",
            )
        if section.cursor + count > self.sizes[section.space]:
            raise self._outside(section.space, section.cursor + count - 1, place)
        if self.total + count > MAX_DATA_BYTES:
            raise TilewrightError(
                "TW1013",
                f"the data of this program exceeds {MAX_DATA_BYTES >> 20} MiB",
                place,
                hint="place large data when the program is run, from a file of its own",
            )
        self.total += count
        return section

    def _outside(self, space: str, address: int, place: Location) -> TilewrightError:
        size = self.sizes[space]
        return TilewrightError(
            "TW1013",
            f"address {address:#x} is outside the {size:#x} bytes of {space} on {self.profile.name}",
            place,
        )

    def finish(self) -> list[Data]:
        """All data, in the order written; overlaps are an error."""
        kept = [section for section in self.sections if section.bytes]
        ordered = sorted(kept, key=lambda s: (s.space, s.address))
        for before, after in pairwise(ordered):
            if before.space == after.space and before.cursor > after.address:
                later = max(before, after, key=lambda s: (s.place.line, s.place.column))
                other = before if later is after else after
                line = other.place.line
                raise TilewrightError(
                    "TW1013",
                    f"the data at {after.space} address {after.address:#x} overlaps other data",
                    later.place,
                    hint=f"the other data is placed in line {line}" if line else None,
                )
        return [Data(s.space, s.address, bytes(s.bytes)) for s in kept]


def check_blocks(blocks: list[Data], profile: Profile, place: Location) -> list[Data]:
    """Blocks that came from a file: those with content, all inside memory and apart."""
    builder = DataBuilder(profile)
    for block in blocks:
        builder.start(block.space, block.address, place)
        builder.reserve(len(block.bytes), place).bytes.extend(block.bytes)
    return builder.finish()


def integer_bytes(value: int, size: int, place: Location) -> bytes:
    """A number as `size` little-endian bytes; signed and unsigned readings are accepted."""
    low, high = -(1 << (8 * size - 1)), (1 << (8 * size)) - 1
    if not low <= value <= high:
        raise TilewrightError(
            "TW1006", f"{value} does not fit into {size} bytes", place, hint=f"{low} to {high}"
        )
    return (value & high).to_bytes(size, "little")


def float_bytes(value: float, directive: str, place: Location) -> bytes:
    """A number rounded to nearest even in the directive's format."""
    rounded = round_floats(np.array([value], np.float64), directive)
    if rounded is None:
        largest = FLOATS[directive][1]
        raise TilewrightError(
            "TW1006",
            f"{value:g} does not fit {directive}",
            place,
            hint=f"the largest is {largest:g}",
        )
    return rounded.tobytes()


def round_floats(values: np.ndarray, directive: str) -> np.ndarray | None:
    """Numbers rounded to nearest even in a format; None if one is too large for it."""
    dtype, largest = FLOATS[directive]
    finite = np.isfinite(values)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        if dtype != np.float32:
            # Through fp32 rounded to odd, so that the second rounding is the only one.
            away = finite & (np.abs(single.astype(np.float64)) > np.abs(values))
            truncated = np.where(away, np.nextafter(single, np.float32(0)), single)
            inexact = finite & (truncated.astype(np.float64) != values)
            single = (truncated.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
        rounded = single.astype(dtype)
        if directive == ".fp8":
            too_large = np.abs(values) > largest  # there is no infinity
        else:
            too_large = finite & ~np.isfinite(rounded.astype(np.float32))
    return None if too_large.any() else rounded


def parse_float(parser: Parser) -> float | Expression:
    """A number for a float directive: a fraction, `inf`, `nan`, or an integer expression."""
    start = parser.position
    sign = 1.0
    while parser.token.text in ("-", "+") and parser.token.kind == "operator":
        sign = -sign if parser.take().text == "-" else sign
    token = parser.token
    if token.kind == "float" or token.text.lower() in ("inf", "nan", "infinity"):
        parser.take()
        return math.copysign(float(token.text), sign)
    parser.position = start
    return parser.expression()
