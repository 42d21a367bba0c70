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
from tilewright.targets.atlas.assembly.directives import read_plain_data
from tilewright.targets.atlas.assembly.lexer import (
    LABEL,
    REGISTERS,
    blank_block_comments,
    parse_integer,
    split_lines,
    strip_comment,
)
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, Row, load_number
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

    The comma behind an operand belongs to its token, unless it is the last operand. A token
    that is not plain raises KeyError, which sends its line to the careful path.
    """

    def __init__(self, meaning: Callable[[str], Any], last: bool) -> None:
        super().__init__()
        self.meaning = meaning
        self.last = last

    def __missing__(self, token: str) -> Any:
        value = self.meaning(token if self.last else token.removesuffix(","))
        if value is None:
            raise KeyError(token)
        self[token] = value
        return value


def _register_meaning(kind: Kind) -> Callable[[str], int | None]:
    def meaning(token: str) -> int | None:
        found = REGISTERS.get(token.lower())
        return found[1] if found and found[0] is kind else None

    return meaning


def _number_meaning(operand: Operand) -> Callable[[str], int | None]:
    low, high, step = operand_range(operand)

    def meaning(token: str) -> int | None:
        value = parse_integer(token)
        return value if value is not None and low <= value <= high and value % step == 0 else None

    return meaning


def _address_meaning(operand: Operand) -> Callable[[str], tuple[int, int] | None]:
    number, register = _number_meaning(operand), _register_meaning(Kind.X)

    def meaning(token: str) -> tuple[int, int] | None:
        offset, bracket, rest = token.partition("(")
        if not bracket or not rest.endswith(")"):
            return None
        value, base = number(offset or "0"), register(rest[:-1])
        return None if value is None or base is None else (value, base)

    return meaning


# How a line is put together from its tokens.
_FIXED, _ONE, _TWO, _THREE, _ADDRESS, _BRANCH, _JUMP, _LOAD = range(8)
# Number of tokens, shape, opcode index, token tables (or the fixed row), channel.
_Entry = tuple[int, int, int, Any, int]


def _fast_table() -> dict[str, _Entry]:
    shared: dict[tuple[str, bool], _Tokens] = {}

    def tokens(operand: Operand, last: bool) -> _Tokens:
        if operand.immediate is None:
            name, meaning = operand.kind.value, _register_meaning(operand.kind)
        else:
            name, meaning = operand.immediate.name, _number_meaning(operand)
        return shared.setdefault((name, last), _Tokens(meaning, last))

    def address(operand: Operand) -> _Tokens:
        assert operand.immediate is not None
        key = (f"{operand.immediate.name}(x)", True)
        return shared.setdefault(key, _Tokens(_address_meaning(operand), True))

    table: dict[str, _Entry] = {}
    for name, (row, channel) in MNEMONICS.items():
        operands = row.operands[:-1] if row.has_channel else row.operands
        count = len(operands)
        tables: Any = tuple(tokens(o, i == count - 1) for i, o in enumerate(operands))
        if row.memory and not row.has_channel:
            count, shape = 2, _ADDRESS
            tables = (tokens(operands[0], False), address(operands[1]))
        elif not operands:
            shape, tables = _FIXED, (row.index, channel or 0, 0, 0, 0)
        elif is_target(row, operands[-1]):
            shape = _BRANCH if count == 3 else _JUMP
        else:
            shape = (_ONE, _TWO, _THREE)[count - 1]
        table[name] = (1 + count, shape, row.index, tables, channel or 0)
    table["nop"] = (1, _FIXED, 0, (PSEUDO["nop"].opcode.index, 0, 0, 0, 0), 0)
    move = PSEUDO["mv"].opcode
    table["mv"] = (3, _TWO, move.index, (table["add"][3][0], table["add"][3][2]), 0)
    table["li"] = (3, _LOAD, 0, (table["add"][3][0], _Tokens(_load_number, True)), 0)
    return table


def _load_number(token: str) -> int | None:
    value = parse_integer(token)
    return value if value is not None and -(1 << 31) <= value < 1 << 32 else None


# Commas that stand where no operand is; lines with one are read carefully.
_STRAY_COMMA = re.compile(r",[ \t]*(?:,|$)|^[ \t]*[^\s,]+[ \t]*,")


def _words(line: str) -> list[str]:
    """The words of a line whose commas do not stick to the operands in front of them."""
    if "," not in line or _STRAY_COMMA.search(line):
        return []
    return line.replace(",", " ").split()


_REMEMBERED = 100_000  # lines


def _extent(unit: Unit) -> tuple[int, ...]:
    """How much of everything but instructions has been read."""
    data = unit.data
    return (
        len(unit.fixups),
        len(unit.loads),
        len(unit.symbols.table),
        len(unit.pending),
        len(data.sections),
        data.total,
    )


def _read(unit: Unit) -> bool:
    """Read all lines into the unit; True when it stopped early."""
    fast = _fast_table()
    rows, numbers = unit.rows, unit.lines
    add, add_line = rows.append, numbers.append
    remembered: dict[str, list[Row]] = {}
    number = 0
    for line in unit.text:
        number += 1
        if "#" in line or "//" in line:
            line = strip_comment(line)
        parts = line.split()
        if not parts:
            continue
        entry = fast.get(parts[0]) or fast.get(parts[0].lower())
        if entry is not None and entry[0] != len(parts):
            parts = _words(line)
        if entry is not None and entry[0] == len(parts):
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
                    _branch(unit, entry, parts, number)
                add_line(number)
                continue
            except KeyError:
                pass
        elif entry is None and parts[0][0] == "." and read_plain_data(unit, line):
            continue
        known = remembered.get(line)
        if known is not None:
            rows.extend(known)
            numbers.extend([number] * len(known))
            continue
        before, start = _extent(unit), len(rows)
        try:
            read_line(unit, line, number)
        except TilewrightError as error:
            if unit.report(error):
                return True
            continue
        # A line that only added instructions adds the same ones wherever it stands.
        if before == _extent(unit) and len(rows) > start and len(remembered) < _REMEMBERED:
            remembered[line] = rows[start:]
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


def _branch(unit: Unit, entry: _Entry, parts: list[str], number: int) -> None:
    """A branch or jump: its last operand is a number or a label."""
    _, shape, index, tables, _ = entry
    values = [tables[slot][parts[slot + 1]] for slot in range(len(tables) - 1)]
    target = parts[-1]
    if LABEL.fullmatch(target) and target.lower() not in REGISTERS:
        unit.label_fixups.append((len(unit.rows), len(values), target, number))
        values.append(0)
    else:
        values.append(tables[-1][target])
    if shape == _JUMP:
        values.append(0)
    unit.rows.append((index, values[0], values[1], values[2], 0))
