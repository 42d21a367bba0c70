"""Tokens of one line of assembly, with their columns."""

from __future__ import annotations

import re
from typing import NamedTuple

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind
from tilewright.targets.riscv_registers import ABI_NAMES

MAX_NUMBER_DIGITS = 80  # longer literals are nonsense, and slow to convert
MAX_LINE = 1 << 16
MAX_LINES = 1 << 24


def split_lines(text: str, source: str) -> list[str]:
    """The lines of a text; a line too long to be meant is an error."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_LINES and text.count("\n") > MAX_LINES:
        raise TilewrightError(
            "TW1015", f"the file has more than {MAX_LINES} lines", Location(source)
        )
    lines = text.split("\n")
    if len(text) > MAX_LINE and max(map(len, lines)) > MAX_LINE:
        number, line = next((n, li) for n, li in enumerate(lines, 1) if len(li) > MAX_LINE)
        raise TilewrightError(
            "TW1018",
            f"the line has {len(line)} characters, at most {MAX_LINE} are read",
            Location(source, number),
        )
    return lines


class Token(NamedTuple):
    kind: str  # "name", "number", "float", "operator", "end"
    text: str
    column: int  # from 1


# No alternative can start where another failed half-way, so matching is linear.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\f\v]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_.$]*(?:<N>)?|\.[A-Za-z_][A-Za-z0-9_.]*)
  | (?P<float>[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[1-9][0-9_]*[eE][-+]?[0-9]+
      |0[eE][-+]?[0-9]+|\.[0-9]+(?:[eE][-+]?[0-9]+)?)
  | (?P<number>[0-9][0-9A-Za-z_]*)
  | (?P<operator><<|>>|%(?:hi|lo)(?=[ \t]*\()|[-+*/%&|^~(),:;=.])
    """,
    re.VERBOSE,
)


def tokenize(line: str, place: Location) -> list[Token]:
    """The tokens of a line without comments, an "end" token last."""
    tokens = []
    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            shown = line[position]
            raise TilewrightError(
                "TW1002",
                f"unexpected character {shown!r}",
                Location(place.file, place.line, position + 1),
                hint="comments start with #",
            )
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(Token(kind, match.group(), position + 1))
        position = match.end()
    tokens.append(Token("end", "", len(line.rstrip()) + 1))
    return tokens


def strip_comment(line: str) -> str:
    """The line up to its `#` or `//` comment."""
    if "#" in line:
        line = line[: line.index("#")]
    if "//" in line:
        line = line[: line.index("//")]
    return line


def blank_block_comments(text: str, source: str) -> str:
    """The text with `/* … */` replaced by spaces, so that lines and columns stay."""
    pieces = []
    position = 0
    while (start := text.find("/*", position)) >= 0:
        # A comment that starts inside a line comment is part of that comment.
        line_start = text.rfind("\n", 0, start) + 1
        before = text[max(line_start, position) : start]
        if "#" in before or "//" in before:
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            pieces.append(text[position:end])
            position = end
            continue
        end = text.find("*/", start + 2)
        if end < 0:
            line = text.count("\n", 0, start) + 1
            raise TilewrightError(
                "TW1002",
                "the comment /* is never closed",
                Location(source, line, start - line_start + 1),
                hint="end it with */",
            )
        pieces.append(text[position:start])
        pieces.append("".join("\n" if c == "\n" else " " for c in text[start : end + 2]))
        position = end + 2
    pieces.append(text[position:])
    return "".join(pieces)


def parse_integer(text: str) -> int | None:
    """The value of `12`, `-0x1F`, `0b101`, `0o17`; None when it is no integer."""
    if len(text) > MAX_NUMBER_DIGITS or not text.isascii():
        return None
    try:
        return int(text, 0)
    except ValueError:
        return None


# Every register name, lower case, to what it names.
REGISTERS: dict[str, tuple[Kind, int]] = {
    f"{kind.value}{index}": (kind, index)
    for kind, count in REGISTER_COUNT.items()
    for index in range(count)
}
REGISTERS |= {name: (Kind.X, index) for index, name in enumerate(ABI_NAMES)}
REGISTERS["fp"] = (Kind.X, 8)

LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
REGISTER_LIKE = re.compile(r"(x|e|m|w|acc)([0-9]+)")
