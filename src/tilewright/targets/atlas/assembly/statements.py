"""One line of assembly: labels, directives, instructions, pseudo instructions.

This is the careful path: it knows all syntax and describes mistakes. The assembler
takes plain lines on a faster path of its own and comes here for everything else.
"""

from __future__ import annotations

from difflib import get_close_matches

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembly.directives import read_directive
from tilewright.targets.atlas.assembly.expression import Expression, Parser
from tilewright.targets.atlas.assembly.lexer import REGISTERS, Token, tokenize
from tilewright.targets.atlas.assembly.operands import (
    TEXT_FORM,
    address,
    check_end,
    emit,
    number,
    register,
    separator,
    too_few,
)
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, SPECIAL, Pseudo, load_number
from tilewright.targets.atlas.assembly.symbols import Symbol
from tilewright.targets.atlas.assembly.unit import Load, Unit, check_load
from tilewright.targets.atlas.isa import BY_MNEMONIC, Kind, Opcode

CHANNELS = 8
# Every way to write a mnemonic: DMA instructions carry their channel in the name.
MNEMONICS: dict[str, tuple[Opcode, int | None]] = {}
for _row in BY_MNEMONIC.values():
    if _row.has_channel:
        for _channel in range(CHANNELS):
            MNEMONICS[f"{_row.mnemonic}.ch{_channel}"] = (_row, _channel)
    else:
        MNEMONICS[_row.mnemonic] = (_row, None)


def read_line(unit: Unit, line: str, line_number: int) -> None:
    """Add a line (without comment) to the unit."""
    place = unit.place(line_number)
    parser = Parser(tokenize(line, place), place)
    while True:
        _labels(unit, parser)
        if not parser.at_end:
            _statement(unit, parser)
        if not parser.accept(";"):
            break
    if parser.token.kind != "end":
        raise parser.error("TW1002", f"unexpected {parser.token.text!r}")


def _labels(unit: Unit, parser: Parser) -> None:
    while parser.token.kind == "name" and parser.tokens[parser.position + 1].text == ":":
        token = parser.take()
        parser.take()
        place = unit.place(parser.place.line, token.column)
        unit.symbols.define(token.text, Symbol("code", len(unit.rows), place))
        unit.pending.append(token.text)


def _statement(unit: Unit, parser: Parser) -> None:
    token = parser.take()
    if token.kind != "name":
        raise parser.error(
            "TW1002", f"expected an instruction, not {token.text[:40]!r}", token.column
        )
    name = token.text.lower()
    if name.startswith("."):
        read_directive(unit, parser, token)
        return
    pseudo = PSEUDO.get(name)
    if name in MNEMONICS and not (pseudo and _prefers_pseudo(parser, pseudo)):
        row, channel = MNEMONICS[name]
        _instruction(unit, parser, row, channel, token)
    elif pseudo is not None:
        _pseudo(unit, parser, pseudo, token)
    elif name in SPECIAL:
        _special(unit, parser, name, token)
    else:
        raise _unknown(parser, token)


def _unknown(parser: Parser, token: Token) -> TilewrightError:
    name = token.text.lower()
    shown = token.text if len(token.text) <= 40 else token.text[:40] + "…"
    base, _, channel = name.rpartition(".ch")
    if any(t.text == "=" for t in parser.tokens):
        hint = TEXT_FORM
    elif base in BY_MNEMONIC and channel:
        hint = f"channels are .ch0 to .ch{CHANNELS - 1}"
    elif name in BY_MNEMONIC:
        hint = f"name a channel: {name}.ch0 to {name}.ch{CHANNELS - 1}"
    else:
        known = [*MNEMONICS, *PSEUDO, *SPECIAL]
        close = get_close_matches(name[:40], known, 1)
        hint = f"did you mean {close[0]}?" if close else "tilewright isa lists all instructions"
        if not close and parser.position > 1 and parser.tokens[parser.position - 2].text == ";":
            hint = "; separates instructions, comments start with #"
    return parser.error("TW1001", f"there is no instruction {shown!r}", token.column, hint)


# --- instructions ---------------------------------------------------------------------


def _instruction(
    unit: Unit, parser: Parser, row: Opcode, channel: int | None, token: Token
) -> None:
    name, syntax = token.text, row.syntax
    if channel is not None:
        syntax = syntax.replace("<K>", str(channel))
    values: list[int | Expression] = []
    operands = row.operands[:-1] if row.has_channel else row.operands
    if row.memory and not row.has_channel:
        values.append(register(parser, operands[0].kind, name, syntax))
        separator(parser, syntax)
        values.extend(address(parser, name, syntax))
    else:
        for place, operand in enumerate(operands):
            if place:
                separator(parser, syntax)
            if parser.at_end and operand.key == "es1" and _may_omit_scale(unit, row):
                values.append(0)
            elif operand.kind is Kind.IMM:
                if parser.at_end:
                    raise too_few(parser, syntax, name)
                values.append(number(parser, operand, name, syntax))
            elif row.mnemonic == "jalr" and place == 1 and _starts_number(parser):
                offset, base = address(parser, name, "jalr xD, imm(xA)")
                values.extend((base, offset))
                break
            else:
                values.append(register(parser, operand.kind, name, syntax))
    check_end(parser, syntax, name)
    if channel is not None:
        values.append(channel)
    emit(unit, row, values, parser.place.line)


def _may_omit_scale(unit: Unit, row: Opcode) -> bool:
    return row.mnemonic.startswith("vmatpop.fp8") and unit.profile.pop_fp8 == "cast"


def _starts_number(parser: Parser) -> bool:
    return not parser.at_end and parser.token.text.lower() not in REGISTERS


# --- pseudo instructions --------------------------------------------------------------


def _prefers_pseudo(parser: Parser, pseudo: Pseudo) -> bool:
    """Whether `jal` or `jalr` stands with one operand only."""
    if pseudo.name == "jal":
        return not parser.at_end and parser.token.text.lower() not in REGISTERS
    following = parser.tokens[min(parser.position + 1, len(parser.tokens) - 1)]
    return following.kind == "end" or following.text == ";"


def _pseudo(unit: Unit, parser: Parser, pseudo: Pseudo, token: Token) -> None:
    given: dict[str, int | Expression] = {}
    syntax = pseudo.syntax
    for place, letter in enumerate(pseudo.operands):
        if place:
            separator(parser, syntax)
        if letter in "TN":
            if parser.at_end:
                raise too_few(parser, syntax, token.text)
            given[letter] = parser.expression()
        else:
            given[letter] = register(parser, Kind.X, token.text, syntax)
    check_end(parser, syntax, token.text)
    if pseudo.name == "call":
        _needs_links(unit, parser, token)
    values = [given[v] if isinstance(v, str) else v for v in pseudo.values]
    emit(unit, pseudo.opcode, values, parser.place.line)


def _needs_links(unit: Unit, parser: Parser, token: Token) -> None:
    if unit.profile.pc_step != 4:
        raise parser.error(
            "TW1016",
            f"{token.text} does not work on {unit.profile.name}: its link addresses are unusable",
            token.column,
            hint="jump with j, and keep the return address in a register yourself",
        )


def _special(unit: Unit, parser: Parser, name: str, token: Token) -> None:
    syntax, _ = SPECIAL[name]
    line = parser.place.line
    if name == "ret":
        check_end(parser, syntax, token.text)
        _needs_links(unit, parser, token)
        # The link names the first delay slot of the call, which has already run.
        behind = unit.profile.delay_slots * unit.profile.pc_step
        emit(unit, BY_MNEMONIC["jalr"], [0, 1, behind], line)
        return
    target = register(parser, Kind.X, token.text, syntax)
    separator(parser, syntax)
    if parser.at_end:
        raise too_few(parser, syntax, token.text)
    expression = parser.expression()
    check_end(parser, syntax, token.text)
    if unit.symbols.depends_on_code(expression):
        unit.loads.append(Load(len(unit.rows), target, expression, line))
        unit.rows.append((0, 0, 0, 0, 0))
        unit.lines.append(line)
        return
    value = unit.symbols.evaluate(expression, parser.place).number
    check_load(value, unit.place(line, expression.column))
    for row in load_number(target, value):
        unit.rows.append(row)
        unit.lines.append(line)
