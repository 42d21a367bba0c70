"""Instruction words: programs to 32-bit patterns and back, derived from the table.

Both directions work on whole columns, one instruction of the table at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.bitfields import FORMATS
from tilewright.targets.atlas.isa import (
    MAX_OPERANDS,
    OPCODES,
    REGISTER_COUNT,
    Kind,
    Opcode,
    Operand,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

# Value bits [low, low + width) of a field live in word bits [place, place + width).
Placement = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """The bits of one instruction: constant ones, and where each operand goes."""

    mask: int  # bits that identify the instruction
    match: int  # their value
    reserved: int  # bits nobody uses; must be zero
    operands: tuple[tuple[Placement, ...], ...]


def placements(format: str, name: str) -> tuple[Placement, ...]:
    """Where the bits of a field such as `rd`, `imm` or `imm[11:5]` lie in the word."""
    base, _, bits = name.partition("[")
    high, low = 63, 0
    if bits:
        first, _, last = bits.rstrip("]").partition(":")
        high, low = int(first), int(last or first)
    found = []
    for field, top, word_high, word_low in FORMATS[format]:
        if field != base:
            continue
        bottom = top - (word_high - word_low)
        upper, lower = min(top, high), max(bottom, low)
        if upper >= lower:
            found.append((lower - low, upper - lower + 1, word_low + lower - bottom))
    return tuple(found)


def _bits(places: tuple[Placement, ...]) -> int:
    return sum(((1 << width) - 1) << place for _, width, place in places)


def _put(value: int, places: tuple[Placement, ...]) -> int:
    word = 0
    for low, width, place in places:
        word |= ((value >> low) & ((1 << width) - 1)) << place
    return word


def _layout(row: Opcode) -> Layout:
    mask = match = 0
    for name, value in row.fixed.items():
        places = placements(row.format, name)
        mask |= _bits(places)
        match |= _put(value, places)
    operands = tuple(placements(row.format, operand.field) for operand in row.operands)
    used = mask
    for places in operands:
        used |= _bits(places)
    return Layout(mask, match, 0xFFFFFFFF & ~used, operands)


LAYOUTS: tuple[Layout, ...] = tuple(_layout(row) for row in OPCODES)


def operand_range(operand: Operand) -> tuple[int, int, int]:
    """Smallest and largest value of an operand, and the step between values."""
    if operand.immediate is not None:
        return operand.immediate.low, operand.immediate.high, operand.immediate.step
    return 0, REGISTER_COUNT[operand.kind] - 1, 1


def operand_name(operand: Operand, value: int) -> str:
    """An operand as it is written in assembly: `x5`, `acc1`, `-2`."""
    return str(value) if operand.kind is Kind.IMM else f"{operand.kind.value}{value}"


def _is_integer_fill(operand: Operand, profile: Profile | None) -> bool:
    """Whether a fill that elsewhere takes a bit pattern takes a signed integer here."""
    return (
        profile is not None
        and profile.fill == "integer"
        and operand.immediate is not None
        and operand.immediate.name == "pattern16"
    )


# --- encoding -------------------------------------------------------------------------


def encode(program: Program, profile: Profile | None = None) -> np.ndarray:
    """The words of a program, uint32 [n].

    With a profile, pair registers without a partner are refused, as the decoder does, and
    so are fills whose word would read back as another integer.
    """
    words = np.zeros(len(program), np.uint32)
    for index in np.unique(program.opcodes).tolist():
        row, layout = OPCODES[index], LAYOUTS[index]
        where = np.flatnonzero(program.opcodes == index)
        result = np.full(len(where), layout.match, np.uint32)
        for slot, operand in enumerate(row.operands):
            column = program.operands[where, slot]
            _check_column(program, row, operand, where, column, profile)
            pattern = column.astype(np.uint32)
            for low, width, place in layout.operands[slot]:
                part = (pattern >> np.uint32(low)) & np.uint32((1 << width) - 1)
                result |= part << np.uint32(place)
        words[where] = result
    return words


def _check_column(
    program: Program,
    row: Opcode,
    operand: Operand,
    where: np.ndarray,
    column: np.ndarray,
    profile: Profile | None,
) -> None:
    low, high, step = operand_range(operand)
    if operand.immediate is not None and operand.immediate.exact:
        low = 0
    if _is_integer_fill(operand, profile):
        high = (1 << 15) - 1
    bad = (column < low) | (column > high)
    if step > 1:
        bad |= column % step != 0
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        value = int(column[at])
        multiple = f", a multiple of {step}" if step > 1 else ""
        raise TilewrightError(
            "TW1040",
            f"{row.mnemonic} cannot be encoded: {operand.key} is {value}, "
            f"must be from {low} to {high}{multiple}",
            program.location(int(where[at])),
        )
    if profile is not None and operand.kind is Kind.M and profile.span(operand) > 1:
        alone = column + profile.span(operand) > REGISTER_COUNT[Kind.M]
        if alone.any():
            at = int(where[np.flatnonzero(alone)[0]])
            raise _no_partner(row, operand, profile, program.location(at))


def _no_partner(
    row: Opcode, operand: Operand, profile: Profile, place: Location
) -> TilewrightError:
    last = REGISTER_COUNT[Kind.M] - 1
    return TilewrightError(
        "TW1041",
        f"{row.mnemonic} needs a pair of registers in {operand.key}, "
        f"m{last} has no partner on {profile.name}",
        place,
        hint=f"use m0 to m{last - 1}; no instruction word exists for this",
    )


# --- decoding -------------------------------------------------------------------------


def decode(
    words: np.ndarray,
    profile: Profile | None = None,
    source: str = "<words>",
    lines: np.ndarray | None = None,
) -> Program:
    """The program of an array of words; numbers get their canonical reading.

    `lines` are line numbers of the words in their file, for error messages.
    """
    words = np.ascontiguousarray(words, np.uint32)
    opcodes = np.full(len(words), 255, np.uint8)
    operands = np.zeros((len(words), MAX_OPERANDS), np.int32)
    numbers = np.zeros(len(words), np.int32) if lines is None else lines.astype(np.int32)
    program = Program(opcodes, operands, numbers, source)
    bad = np.zeros(len(words), bool)
    majors = words & np.uint32(0x7F)
    places = {int(major): np.flatnonzero(majors == major) for major in np.unique(majors)}
    for row, layout in zip(OPCODES, LAYOUTS, strict=True):
        candidates = places.get(layout.match & 0x7F)
        if candidates is None:
            continue
        group = words[candidates]
        hit = (group & np.uint32(layout.mask)) == np.uint32(layout.match)
        if not hit.any():
            continue
        where, group = candidates[hit], group[hit]
        opcodes[where] = row.index
        bad[where] |= (group & np.uint32(layout.reserved)) != 0
        for slot, operand in enumerate(row.operands):
            column = _gather(group, operand, layout.operands[slot], profile)
            low, high, _ = operand_range(operand)
            if operand.kind is not Kind.IMM:
                bad[where] |= (column < low) | (column > high)
            if profile is not None and operand.kind is Kind.M and profile.span(operand) > 1:
                bad[where] |= column + profile.span(operand) > REGISTER_COUNT[Kind.M]
            operands[where, slot] = column
    bad |= opcodes == 255
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise _explain(int(words[at]), at, program, profile)
    return program


def _gather(
    group: np.ndarray,
    operand: Operand,
    places: tuple[Placement, ...],
    profile: Profile | None = None,
) -> np.ndarray:
    value = np.zeros(len(group), np.uint32)
    for low, width, place in places:
        part = (group >> np.uint32(place)) & np.uint32((1 << width) - 1)
        value |= part << np.uint32(low)
    column = value.astype(np.int64)
    if operand.immediate is not None and (
        operand.immediate.signed or _is_integer_fill(operand, profile)
    ):
        sign = 1 << (operand.immediate.bits - 1)
        column = (column ^ sign) - sign
    return column.astype(np.int32)


def _explain(word: int, index: int, program: Program, profile: Profile | None) -> TilewrightError:
    """Why a word is not an instruction."""
    line = int(program.lines[index])
    place = Location(program.source, line)
    which = f"the word {word:#010x} (number {index}, byte offset {4 * index:#x})"
    best: Opcode | None = None
    for row, layout in zip(OPCODES, LAYOUTS, strict=True):
        if (word & layout.mask) == layout.match:
            best = row
            break
        # The same instruction but for constant fields that are always zero.
        strong = 0
        for name in row.fixed:
            if name in ("opcode", "funct2", "funct3", "funct7"):
                strong |= _bits(placements(row.format, name))
        if best is None and (word & strong) == (layout.match & strong):
            best = row
    if best is None:
        return TilewrightError(
            "TW1042",
            f"{which} is not an instruction",
            place,
            "the file holds little-endian 32-bit words of code only; see tilewright isa",
        )
    layout = LAYOUTS[best.index]
    wrong = ((word ^ layout.match) & layout.mask) | (word & layout.reserved)
    if wrong:
        return TilewrightError(
            "TW1043",
            f"{which} looks like {best.mnemonic} but has bits set in an unused field",
            place,
            hint=f"without bits {wrong:#010x} it is {best.syntax}",
        )
    for slot, operand in enumerate(best.operands):
        if operand.kind is Kind.IMM:
            continue
        value = int(_gather(np.array([word], np.uint32), operand, layout.operands[slot])[0])
        if value >= REGISTER_COUNT[operand.kind]:
            return TilewrightError(
                "TW1044",
                f"{which} is {best.mnemonic} with register {operand_name(operand, value)}, "
                f"which does not exist",
                place,
                hint=f"registers {operand.kind.value}0 to "
                f"{operand.kind.value}{REGISTER_COUNT[operand.kind] - 1} exist",
            )
        if (
            profile is not None
            and operand.kind is Kind.M
            and value + profile.span(operand) > REGISTER_COUNT[Kind.M]
        ):
            error = _no_partner(best, operand, profile, place)
            error.message = f"{which} is reserved: {error.message}"
            return error
    raise AssertionError("every rejected word has a reason")
