"""Words in files: hexadecimal text and little-endian binary."""

from __future__ import annotations

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.assembly.lexer import split_lines, strip_comment
from tilewright.targets.atlas.assembly.unit import MAX_INSTRUCTIONS
from tilewright.targets.atlas.encoding import decode, encode
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text_isa import refuse_data

_DIGITS = frozenset("0123456789abcdefABCDEF")


def print_hex(program: Program, profile: Profile | None) -> str:
    """One word of eight hexadecimal digits per line."""
    refuse_data(program, "the hex form")
    return "".join(f"{word:08x}\n" for word in encode(program, profile).tolist())


def parse_hex(text: str, profile: Profile | None, source: str = "<hex>") -> Program:
    """The program of a hex text.

    Words are separated by space or lines; `#` and `//` start comments; `@ADDRESS` sets the
    number of the next word, as memory images for `$readmemh` do.
    """
    lines = split_lines(text, source)
    if lines and not lines[-1]:
        lines.pop()
    words = _plain_words(lines)
    if words is not None:
        _check_count(len(words), source)
        return decode(words, profile, source, np.arange(1, len(words) + 1))
    words, numbers = _placed_words(lines, source)
    _check_count(len(words), source)
    return decode(words, profile, source, numbers)


def _check_count(count: int, source: str) -> None:
    if count > MAX_INSTRUCTIONS:
        message = f"the program has more than {MAX_INSTRUCTIONS} instructions"
        raise TilewrightError("TW1015", message, Location(source))


def _plain_words(lines: list[str]) -> np.ndarray | None:
    """The words of a text that has exactly eight digits on every line."""
    if any(len(line) != 8 for line in lines):
        return None
    joined = "".join(lines)
    if not joined.isascii() or not joined.isalnum():
        return None
    try:
        return np.frombuffer(bytes.fromhex(joined), ">u4").astype(np.uint32)
    except ValueError:
        return None


def _placed_words(lines: list[str], source: str) -> tuple[np.ndarray, np.ndarray]:
    """Words and their line numbers, in the order of their addresses."""
    words: list[int] = []
    places: list[int] = []
    numbers: list[int] = []
    cursor = 0
    for number, line in enumerate(lines, 1):
        if "#" in line or "//" in line:
            line = strip_comment(line)
        for token in line.split():
            place = Location(source, number, line.find(token) + 1)
            if token.startswith("@"):
                digits = token[1:].removeprefix("0x")
                if not 0 < len(digits) <= 8 or not _DIGITS.issuperset(digits):
                    raise _bad_word(token, place)
                cursor = int(digits, 16)
                continue
            words.append(_word(token, place))
            places.append(cursor)
            numbers.append(number)
            cursor += 1
    order = np.argsort(np.array(places, np.int64), kind="stable")
    sorted_places = np.array(places, np.int64)[order]
    wrong = np.flatnonzero(sorted_places != np.arange(len(places)))
    if len(wrong):
        first = int(wrong[0])
        place = Location(source, numbers[int(order[first])])
        if int(sorted_places[first]) < first:
            message = f"word {int(sorted_places[first]):#x} is given twice"
        else:
            message = f"there is no word {first:#x}; a program has words from 0 on without gaps"
        raise TilewrightError("TW1051", message, place, hint="@ADDRESS counts words, not bytes")
    return np.array(words, np.uint32)[order], np.array(numbers, np.int32)[order]


def _word(token: str, place: Location) -> int:
    prefixed = token[:2] in ("0x", "0X")
    digits = token[2:] if prefixed else token
    complete = 0 < len(digits) <= 8 if prefixed else len(digits) == 8
    if not complete or not _DIGITS.issuperset(digits):
        raise _bad_word(token, place)
    return int(digits, 16)


def _bad_word(token: str, place: Location) -> TilewrightError:
    shown = token if len(token) <= 24 else token[:24] + "…"
    return TilewrightError(
        "TW1050",
        f"{shown!r} is not a word of eight hexadecimal digits",
        place,
        hint="a shorter word needs 0x in front" if _DIGITS.issuperset(token[:8]) else None,
    )


def to_binary(program: Program, profile: Profile | None) -> bytes:
    """The words, four bytes each, low byte first."""
    refuse_data(program, "the binary form")
    return encode(program, profile).astype("<u4").tobytes()


def from_binary(content: bytes, profile: Profile | None, source: str = "<binary>") -> Program:
    """The program of a binary image."""
    if len(content) % 4:
        raise TilewrightError(
            "TW1052",
            f"the file has {len(content)} bytes, which is not a whole number of 4-byte words",
            Location(source),
            hint="it may be cut off, or not be a program",
        )
    _check_count(len(content) // 4, source)
    return decode(np.frombuffer(content, "<u4"), profile, source)
