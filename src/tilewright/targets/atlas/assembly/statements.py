"""One line of assembly: labels, directives, instructions, pseudo instructions.

This is the careful path: it knows all syntax and describes mistakes. The assembler
takes plain lines on a faster path of its own and comes here for everything else.
"""

from __future__ import annotations

from difflib import get_close_matches

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembly.data import (
    FLOATS,
    INTEGERS,
    MAX_DATA_BYTES,
    float_bytes,
    integer_bytes,
    parse_float,
)
from tilewright.targets.atlas.assembly.expression import Expression, Parser
from tilewright.targets.atlas.assembly.lexer import (
    REGISTER_LIKE,
    REGISTERS,
    Token,
    tokenize,
)
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, SPECIAL, Pseudo, load_number
from tilewright.targets.atlas.assembly.symbols import Symbol
from tilewright.targets.atlas.assembly.unit import (
    Fixup,
    Load,
    Unit,
    check_load,
    check_operand,
    is_target,
)
from tilewright.targets.atlas.isa import (
    BY_MNEMONIC,
    MAX_OPERANDS,
    REGISTER_COUNT,
    Kind,
    Opcode,
    Operand,
)

CHANNELS = 8
# Every way to write a mnemonic: DMA instructions carry their channel in the name.
MNEMONICS: dict[str, tuple[Opcode, int | None]] = {}
for _row in BY_MNEMONIC.values():
    if _row.has_channel:
        for _channel in range(CHANNELS):
            MNEMONICS[f"{_row.mnemonic}.ch{_channel}"] = (_row, _channel)
    else:
        MNEMONICS[_row.mnemonic] = (_row, None)

_KIND_WORDS = {
    Kind.X: "a scalar register (x0 to x31)",
    Kind.E: "a scale register (e0 to e31)",
    Kind.M: "a tensor register (m0 to m63)",
    Kind.W: "a weight slot (w0 or w1)",
    Kind.ACC: "an accumulator (acc0 or acc1)",
}
_TEXT_FORM = "this looks like the key=value text form; such files end in .txt"
_PLACEMENTS = {".dram": "dram", ".vmem": "vmem"}
DIRECTIVES = (
    *_PLACEMENTS, *INTEGERS, *FLOATS, ".zero", ".fill", ".balign", ".equ", ".text",
)  # fmt: skip


def read_line(unit: Unit, line: str, number: int) -> None:
    """Add a line (without comment) to the unit."""
    place = unit.place(number)
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
        _directive(unit, parser, token, name)
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
        hint = _TEXT_FORM
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


# --- operands -------------------------------------------------------------------------


def _separator(parser: Parser, syntax: str) -> None:
    """Between two operands: a comma, or just space."""
    if parser.accept(",") and (parser.at_end or parser.token.text == ","):
        raise parser.error("TW1002", "an operand is missing after the comma", hint=syntax)


def _too_few(parser: Parser, syntax: str, name: str) -> TilewrightError:
    return parser.error("TW1004", f"{name} needs more operands", hint=f"write {syntax}")


def _check_end(parser: Parser, syntax: str, name: str) -> None:
    if not parser.at_end:
        message = f"unexpected {parser.token.text[:40]!r} after the operands of {name}"
        raise parser.error("TW1004", message, hint=f"write {syntax}")


def _register(parser: Parser, kind: Kind, name: str, syntax: str) -> int:
    """The index of a register of a kind."""
    if parser.at_end:
        raise _too_few(parser, syntax, name)
    token = parser.token
    found = REGISTERS.get(token.text.lower())
    if found is None:
        shown = token.text[:40]
        like = REGISTER_LIKE.fullmatch(token.text.lower())
        if like and token.kind == "name":
            prefix = like.group(1)
            last = REGISTER_COUNT[Kind(prefix)] - 1
            raise parser.error(
                "TW1005",
                f"there is no register {shown}",
                hint=f"registers are {prefix}0 to {prefix}{last}",
            )
        message = f"{name} takes {_KIND_WORDS[kind]} here, not {shown!r}"
        hint = f"write {syntax}"
        if any(following.text == "=" for following in parser.tokens):
            hint = _TEXT_FORM
        raise parser.error("TW1003", message, hint=hint)
    if found[0] is not kind:
        message = f"{name} takes {_KIND_WORDS[kind]} here, not {token.text}"
        raise parser.error("TW1003", message, hint=f"write {syntax}")
    parser.position += 1
    return found[1]


def _instruction(
    unit: Unit, parser: Parser, row: Opcode, channel: int | None, token: Token
) -> None:
    name, syntax = token.text, row.syntax
    if channel is not None:
        syntax = syntax.replace("<K>", str(channel))
    values: list[int | Expression] = []
    operands = row.operands[:-1] if row.has_channel else row.operands
    if row.memory and not row.has_channel:
        values.append(_register(parser, operands[0].kind, name, syntax))
        _separator(parser, syntax)
        values.extend(_memory(parser, name, syntax))
    else:
        for place, operand in enumerate(operands):
            if place:
                _separator(parser, syntax)
            if parser.at_end and operand.key == "es1" and _may_omit_scale(unit, row):
                values.append(0)
            elif operand.kind is Kind.IMM:
                if parser.at_end:
                    raise _too_few(parser, syntax, name)
                values.append(_number(parser, operand, name, syntax))
            elif row.mnemonic == "jalr" and place == 1 and _starts_number(parser):
                offset, base = _memory(parser, name, "jalr xD, imm(xA)")
                values.extend((base, offset))
                break
            else:
                values.append(_register(parser, operand.kind, name, syntax))
    _check_end(parser, syntax, name)
    if channel is not None:
        values.append(channel)
    emit(unit, row, values, parser.place.line)


def _may_omit_scale(unit: Unit, row: Opcode) -> bool:
    return row.mnemonic.startswith("vmatpop.fp8") and unit.profile.pop_fp8 == "cast"


def _starts_number(parser: Parser) -> bool:
    return not parser.at_end and parser.token.text.lower() not in REGISTERS


def _number(parser: Parser, operand: Operand, name: str, syntax: str) -> int | Expression:
    found = REGISTERS.get(parser.token.text.lower())
    if found is not None:
        # The five-bit number of csrrwi and friends may be written as a register.
        if operand.immediate and operand.immediate.name == "uimm5" and found[0] is Kind.X:
            parser.position += 1
            return found[1]
        message = f"{name} takes a number here, not the register {parser.token.text}"
        raise parser.error("TW1003", message, hint=f"write {syntax}")
    return parser.expression()


def _memory(parser: Parser, name: str, syntax: str) -> tuple[Expression, int]:
    """`imm(xA)`: the offset and the register; the offset may be left out."""
    if parser.at_end:
        raise _too_few(parser, syntax, name)
    following = parser.tokens[min(parser.position + 1, len(parser.tokens) - 1)]
    if parser.token.text == "(" and following.text.lower() in REGISTERS:
        offset = Expression((("number", 0, parser.token.column),), parser.token.column)
    elif parser.token.text.lower() in REGISTERS:
        message = f"{name} takes an address here, not the register {parser.token.text}"
        raise parser.error("TW1003", message, hint=f"write {syntax}")
    else:
        offset = parser.expression()
    if not parser.accept("("):
        raise parser.error("TW1004", f"{name} needs a base register", hint=f"write {syntax}")
    base = _register(parser, Kind.X, name, syntax)
    if not parser.accept(")"):
        raise parser.error("TW1002", "expected ) after the base register", hint=f"write {syntax}")
    return offset, base


def emit(unit: Unit, row: Opcode, values: list[int | Expression], line: int) -> None:
    """Add an instruction; operands that need labels are filled in at the end."""
    slot = len(unit.rows)
    numbers = [0] * MAX_OPERANDS
    waiting = []
    for place, (operand, value) in enumerate(zip(row.operands, values, strict=True)):
        if isinstance(value, Expression):
            constant = value.constant
            if constant is None and not unit.symbols.depends_on_code(value):
                known = unit.symbols.evaluate(value, unit.place(line), slot)
                if not (known.weight and is_target(row, operand)):
                    constant = known.number
            if constant is None:
                waiting.append(Fixup(slot, place, value, line))
                continue
            check_operand(row, operand, constant, unit.place(line, value.column))
            value = constant
        numbers[place] = value
    unit.fixups.extend(waiting)
    unit.rows.append((row.index, numbers[0], numbers[1], numbers[2], numbers[3]))
    unit.lines.append(line)


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
            _separator(parser, syntax)
        if letter in "TN":
            if parser.at_end:
                raise _too_few(parser, syntax, token.text)
            given[letter] = parser.expression()
        else:
            given[letter] = _register(parser, Kind.X, token.text, syntax)
    _check_end(parser, syntax, token.text)
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
        _check_end(parser, syntax, token.text)
        _needs_links(unit, parser, token)
        # The link names the first delay slot of the call, which has already run.
        behind = unit.profile.delay_slots * unit.profile.pc_step
        emit(unit, BY_MNEMONIC["jalr"], [0, 1, behind], line)
        return
    register = _register(parser, Kind.X, token.text, syntax)
    _separator(parser, syntax)
    if parser.at_end:
        raise _too_few(parser, syntax, token.text)
    expression = parser.expression()
    _check_end(parser, syntax, token.text)
    if unit.symbols.depends_on_code(expression):
        unit.loads.append(Load(len(unit.rows), register, expression, line))
        unit.rows.append((0, 0, 0, 0, 0))
        unit.lines.append(line)
        return
    value = unit.symbols.evaluate(expression, parser.place).number
    check_load(value, unit.place(line, expression.column))
    for row in load_number(register, value):
        unit.rows.append(row)
        unit.lines.append(line)


# --- directives -----------------------------------------------------------------------


def _directive(unit: Unit, parser: Parser, token: Token, name: str) -> None:
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
    _check_end(parser, f"{name} …", name)


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
        raise TilewrightError("TW1006", f"{count} must be {expected}", where)
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
            _separator(parser, f"{name} value, value, …")
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
