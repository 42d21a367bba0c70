"""Assembly text (`.S`) to a program.

    loop:                       # a label
        addi x1, x1, -1
        bne  x1, x0, loop
        .equ TILE, 1024         # a constant
        li   x2, 2 * TILE
        .dram 0x1000            # data to place in DRAM before the run
        .bf16 1.0, -2.5

Lines that hold nothing but an instruction with plain operands are read here by table
look-ups of whole tokens; everything else goes to `assembly.statements`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tilewright.errors import Location, TilewrightError, TilewrightErrors
from tilewright.targets.atlas.assembly.lexer import (
    LABEL,
    REGISTERS,
    blank_block_comments,
    parse_integer,
    split_lines,
    strip_comment,
)
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, load_number
from tilewright.targets.atlas.assembly.statements import MNEMONICS, read_line
from tilewright.targets.atlas.assembly.unit import MAX_INSTRUCTIONS, Unit, is_target
from tilewright.targets.atlas.encoding import operand_range
from tilewright.targets.atlas.isa import Kind, Operand
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program


def assemble(text: str, profile: Profile, source: str = "<assembly>") -> Program:
    """The program of an assembly text; all mistakes of the text are reported together."""
    if "/*" in text:
        text = blank_block_comments(text, source)
    unit = Unit(profile, source, split_lines(text, source))
    stopped = _read(unit)
    program = unit.finish()
    if unit.errors:
        errors = sorted(unit.errors, key=_reading_order)
        raise errors[0] if len(errors) == 1 else TilewrightErrors(errors, stopped)
    return program


def _reading_order(error: TilewrightError) -> tuple[int, int]:
    place = error.location
    return (place.line, place.column) if place else (0, 0)


# --- the fast path --------------------------------------------------------------------


class _Tokens(dict[str, Any]):
    """Remembers what each token means; unknown ones are worked out once.

    A token that is not plain raises KeyError, which sends its line to the careful path.
    """

    def __init__(self, meaning: Callable[[str], Any]) -> None:
        super().__init__()
        self.meaning = meaning

    def __missing__(self, token: str) -> Any:
        value = self.meaning(token)
        if value is None:
            raise KeyError(token)
        self[token] = value
        return value


def _register_tokens(kind: Kind) -> _Tokens:
    def meaning(token: str) -> int | None:
        found = REGISTERS.get(token.lower())
        return found[1] if found and found[0] is kind else None

    return _Tokens(meaning)


def _number_tokens(operand: Operand) -> _Tokens:
    low, high, step = operand_range(operand)

    def meaning(token: str) -> int | None:
        value = parse_integer(token)
        return value if value is not None and low <= value <= high and value % step == 0 else None

    return _Tokens(meaning)


def _address_tokens(numbers: _Tokens, registers: _Tokens) -> _Tokens:
    def meaning(token: str) -> tuple[int, int] | None:
        offset, bracket, rest = token.partition("(")
        if not bracket or not rest.endswith(")"):
            return None
        return numbers[offset or "0"], registers[rest[:-1]]

    return _Tokens(meaning)


# How a line is put together from its tokens.
_FIXED, _ONE, _TWO, _THREE, _ADDRESS, _BRANCH, _JUMP, _LOAD = range(8)
# Number of tokens, shape, opcode index, token tables (or the fixed row), channel.
_Entry = tuple[int, int, int, Any, int]


def _fast_table() -> dict[str, _Entry]:
    registers = {kind: _register_tokens(kind) for kind in Kind if kind is not Kind.IMM}
    numbers: dict[str, _Tokens] = {}

    def tokens(operand: Operand) -> _Tokens:
        if operand.immediate is None:
            return registers[operand.kind]
        return numbers.setdefault(operand.immediate.name, _number_tokens(operand))

    table: dict[str, _Entry] = {}
    addresses: dict[str, _Tokens] = {}
    for name, (row, channel) in MNEMONICS.items():
        operands = row.operands[:-1] if row.has_channel else row.operands
        last = channel or 0
        if row.memory and not row.has_channel:
            kind = operands[1].immediate
            assert kind is not None
            addresses.setdefault(kind.name, _address_tokens(tokens(operands[1]), registers[Kind.X]))
            pair = (tokens(operands[0]), addresses[kind.name])
            table[name] = (3, _ADDRESS, row.index, pair, 0)
        elif not operands:
            table[name] = (1, _FIXED, row.index, (row.index, last, 0, 0, 0), 0)
        elif is_target(row, operands[-1]):
            shape = _BRANCH if len(operands) == 3 else _JUMP
            table[name] = (len(operands) + 1, shape, row.index, tuple(map(tokens, operands)), 0)
        else:
            shape = (_ONE, _TWO, _THREE)[len(operands) - 1]
            table[name] = (
                len(operands) + 1,
                shape,
                row.index,
                tuple(map(tokens, operands)),
                last,
            )
    nop, move = PSEUDO["nop"], PSEUDO["mv"]
    table["nop"] = (1, _FIXED, nop.opcode.index, (nop.opcode.index, 0, 0, 0, 0), 0)
    pair = (registers[Kind.X], registers[Kind.X])
    table["mv"] = (3, _TWO, move.opcode.index, pair, 0)
    table["li"] = (3, _LOAD, 0, (registers[Kind.X], _Tokens(_load_number)), 0)
    return table


def _load_number(token: str) -> int | None:
    value = parse_integer(token)
    return value if value is not None and -(1 << 31) <= value < 1 << 32 else None


# Commas that stand where no operand is; lines with one are read carefully.
_STRAY_COMMA = re.compile(r",[ \t]*(?:,|$)|^[ \t]*[^\s,]+[ \t]*,", re.MULTILINE)


def _read(unit: Unit) -> bool:
    """Read all lines into the unit; True when it stopped early."""
    fast = _fast_table()
    rows, numbers, branches = unit.rows, unit.lines, unit.label_fixups
    add, add_line = rows.append, numbers.append
    number = 0
    for line in unit.text:
        number += 1
        if "#" in line or "//" in line:
            line = strip_comment(line)
        parts = line.replace(",", " ").split()
        if not parts:
            if "," not in line:
                continue
        else:
            entry = fast.get(parts[0])
            if entry is not None and entry[0] == len(parts) and not _suspicious(line, entry[0]):
                _, shape, index, tables, channel = entry
                try:
                    if shape == _THREE:
                        a, b, c = tables
                        add((index, a[parts[1]], b[parts[2]], c[parts[3]], channel))
                    elif shape == _ADDRESS:
                        a, b = tables
                        offset, base = b[parts[2]]
                        add((index, a[parts[1]], offset, base, 0))
                    elif shape == _TWO:
                        a, b = tables
                        add((index, a[parts[1]], b[parts[2]], 0, 0))
                    elif shape == _FIXED:
                        add(tables)
                    elif shape == _ONE:
                        add((index, tables[0][parts[1]], channel, 0, 0))
                    elif shape == _LOAD:
                        a, b = tables
                        for row in load_number(a[parts[1]], b[parts[2]]):
                            add(row)
                            add_line(number)
                        continue
                    else:
                        _branch(unit, add, branches, entry, parts, number)
                    add_line(number)
                    continue
                except KeyError:
                    pass
        try:
            read_line(unit, line, number)
        except TilewrightError as error:
            if unit.report(error):
                return True
        if len(rows) > MAX_INSTRUCTIONS:
            break
    if len(rows) > MAX_INSTRUCTIONS:
        unit.report(
            TilewrightError(
                "TW1015",
                f"the program has more than {MAX_INSTRUCTIONS} instructions",
                Location(unit.source, number),
            )
        )
    return False


def _suspicious(line: str, words: int) -> bool:
    """Whether commas stand elsewhere than between operands."""
    commas = line.count(",")
    return commas > max(words - 2, 0) or (
        commas < words - 2 and commas > 0 and _STRAY_COMMA.search(line) is not None
    )


def _branch(
    unit: Unit,
    add: Callable[[Any], None],
    branches: list[tuple[int, int, str, int]],
    entry: _Entry,
    parts: list[str],
    number: int,
) -> None:
    """A branch or jump: its last operand is a number or a label."""
    _, shape, index, tables, _ = entry
    target = parts[-1]
    try:
        offset = tables[-1][target]
    except KeyError:
        if LABEL.fullmatch(target) is None or target.lower() in REGISTERS:
            raise
        offset = None
    a = tables[0][parts[1]]
    b = tables[1][parts[2]] if shape == _BRANCH else offset or 0
    c = (offset or 0) if shape == _BRANCH else 0
    if offset is None:
        branches.append((len(unit.rows), (shape == _BRANCH and 2) or 1, target, number))
    add((index, a, b, c, 0))
