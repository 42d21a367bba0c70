"""Directives: constants, and data to place in memory before the run."""

from __future__ import annotations

import re
from difflib import get_close_matches

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembly.data import (
    FLOATS,
    INTEGERS,
    MAX_DATA_BYTES,
    float_bytes,
    integer_bytes,
    parse_float,
    round_floats,
)
from tilewright.targets.atlas.assembly.expression import Expression, Parser
from tilewright.targets.atlas.assembly.lexer import Token
from tilewright.targets.atlas.assembly.operands import check_end, separator
from tilewright.targets.atlas.assembly.symbols import Symbol
from tilewright.targets.atlas.assembly.unit import Unit

_PLACEMENTS = {".dram": "dram", ".vmem": "vmem"}
DIRECTIVES = (
    *_PLACEMENTS, *INTEGERS, *FLOATS, ".zero", ".fill", ".balign", ".equ", ".text",
)  # fmt: skip


def read_directive(unit: Unit, parser: Parser, token: Token) -> None:
    """Act on a directive whose name has been taken."""
    name = token.text.lower()
    place = unit.place(parser.place.line, token.column)
    if name not in DIRECTIVES:
        close = get_close_matches(name[:40], DIRECTIVES, 1)
        hint = f"did you mean {close[0]}?" if close else f"directives are {', '.join(DIRECTIVES)}"
        raise parser.error("TW1011", f"there is no directive {token.text[:40]}", token.column, hint)
    if name == ".equ":
        _constant(unit, parser)
    elif name in _PLACEMENTS:
        unit.data.start(_PLACEMENTS[name], _known(unit, parser), place)
        unit.pending.clear()
    elif name == ".text":
        unit.pending.clear()
    elif name in (".zero", ".fill", ".balign"):
        _repeat(unit, parser, name)
    else:
        _values(unit, parser, name)
    check_end(parser, f"{name} …", name)


def _constant(unit: Unit, parser: Parser) -> None:
    name = parser.take()
    if name.kind != "name":
        raise parser.error("TW1002", "expected a name", name.column, "write .equ NAME, value")
    if not (parser.accept(",") or parser.accept("=")) and parser.at_end:
        raise parser.error("TW1004", ".equ needs a value", hint="write .equ NAME, value")
    expression = parser.expression()
    place = unit.place(parser.place.line, name.column)
    if not unit.symbols.depends_on_code(expression):
        number = unit.symbols.evaluate(expression, parser.place)
        if number.weight == 0:
            expression = Expression((("number", number.number, name.column),), name.column)
    unit.symbols.define(name.text, Symbol("constant", len(unit.rows), place, expression))


def _known(unit: Unit, parser: Parser) -> int:
    """A number that must be known now."""
    if parser.at_end:
        raise parser.error("TW1004", "a number is missing here")
    return unit.symbols.evaluate(parser.expression(), parser.place).number


def _bind_labels(unit: Unit) -> None:
    """Labels between a placement and its data name the data, not the code."""
    section = unit.data.section
    for name in unit.pending:
        symbol = unit.symbols.table[name]
        if section is not None and symbol.value == len(unit.rows):
            unit.symbols.table[name] = Symbol("data", section.cursor, symbol.place)
    unit.pending.clear()


def _repeat(unit: Unit, parser: Parser, name: str) -> None:
    where = unit.place(parser.place.line, parser.token.column)
    count = _known(unit, parser)
    if not 0 <= count <= MAX_DATA_BYTES or (name == ".balign" and count not in _POWERS):
        expected = "a power of two" if name == ".balign" else f"from 0 to {MAX_DATA_BYTES}"
        raise TilewrightError(
            "TW1006", f"{count} must be {expected}", where, f"{name} takes {expected}"
        )
    value = b"\0"
    if name == ".fill" or (name == ".zero" and parser.token.text == ","):
        if not parser.accept(","):
            raise parser.error("TW1004", ".fill needs a value", hint="write .fill COUNT, VALUE")
        where_value = unit.place(parser.place.line, parser.token.column)
        value = integer_bytes(_known(unit, parser), 1, where_value)
    if name == ".balign":
        section = unit.data.reserve(0, where)
        count = -section.cursor % count
    section = unit.data.reserve(count, where)
    if name != ".balign":
        _bind_labels(unit)
    section.bytes.extend(value * count)


_POWERS = {1 << n for n in range(21)}


def _values(unit: Unit, parser: Parser, name: str) -> None:
    size = INTEGERS.get(name) or FLOATS[name][0].itemsize
    first = True
    while first or not parser.at_end:
        if not first:
            separator(parser, f"{name} value, value, …")
        where = unit.place(parser.place.line, parser.token.column)
        section = unit.data.reserve(size, where)
        if first:
            _bind_labels(unit)
        if name in INTEGERS:
            section.bytes.extend(integer_bytes(_known(unit, parser), size, where))
        else:
            value = parse_float(parser)
            if isinstance(value, Expression):
                value = float(unit.symbols.evaluate(value, parser.place).number)
            section.bytes.extend(float_bytes(value, name, where))
        first = False


# --- plain lists of numbers, read in one go -------------------------------------------

_PLAIN = re.compile(r"[ \t]*(\.[a-z0-9]+)[ \t]+([-+0-9a-fA-FxXn.,infa \t]+)")
_LEADING_ZERO = re.compile(r"(?<![0-9.eE+\-xXa-fA-F])[-+]?0[0-9]")


def read_plain_data(unit: Unit, line: str) -> bool:
    """Place a line of plain numbers; False leaves the line to `read_directive`."""
    match = _PLAIN.fullmatch(line)
    section = unit.data.section
    if match is None or section is None or _LEADING_ZERO.search(match.group(2)):
        return False
    name, words = match.group(1), match.group(2).split(",")
    try:
        if name in INTEGERS:
            size = INTEGERS[name]
            numbers = [int(word, 0) for word in words]
            low, high = -(1 << (8 * size - 1)), (1 << (8 * size)) - 1
            if min(numbers) < low or max(numbers) > high:
                return False
            content = b"".join([(n & high).to_bytes(size, "little") for n in numbers])
        elif name in FLOATS:
            rounded = round_floats(np.array([float(word) for word in words]), name)
            if rounded is None:
                return False
            content = rounded.tobytes()
        else:
            return False
        section = unit.data.reserve(len(content), unit.place(0))
    except (ValueError, TilewrightError):
        return False
    _bind_labels(unit)
    section.bytes.extend(content)
    return True
