"""Operands of a statement: registers, numbers, addresses, and the row they make."""

from __future__ import annotations

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembly.expression import Expression, Parser
from tilewright.targets.atlas.assembly.lexer import REGISTER_LIKE, REGISTERS
from tilewright.targets.atlas.assembly.unit import Fixup, Unit, check_operand, is_target
from tilewright.targets.atlas.isa import MAX_OPERANDS, REGISTER_COUNT, Kind, Opcode, Operand

_KIND_WORDS = {
    Kind.X: "a scalar register (x0 to x31)",
    Kind.E: "a scale register (e0 to e31)",
    Kind.M: "a tensor register (m0 to m63)",
    Kind.W: "a weight slot (w0 or w1)",
    Kind.ACC: "an accumulator (acc0 or acc1)",
}
TEXT_FORM = "this looks like the key=value text form; such files end in .txt"


def separator(parser: Parser, syntax: str) -> None:
    """Between two operands: a comma, or just space."""
    if parser.accept(",") and (parser.at_end or parser.token.text == ","):
        raise parser.error("TW1002", "an operand is missing after the comma", hint=syntax)


def too_few(parser: Parser, syntax: str, name: str) -> TilewrightError:
    return parser.error("TW1004", f"{name} needs more operands", hint=f"write {syntax}")


def check_end(parser: Parser, syntax: str, name: str) -> None:
    if not parser.at_end:
        message = f"unexpected {parser.token.text[:40]!r} after the operands of {name}"
        raise parser.error("TW1004", message, hint=f"write {syntax}")


def register(parser: Parser, kind: Kind, name: str, syntax: str) -> int:
    """The index of a register of a kind."""
    if parser.at_end:
        raise too_few(parser, syntax, name)
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
            hint = TEXT_FORM
        raise parser.error("TW1003", message, hint=hint)
    if found[0] is not kind:
        message = f"{name} takes {_KIND_WORDS[kind]} here, not {token.text}"
        raise parser.error("TW1003", message, hint=f"write {syntax}")
    parser.position += 1
    return found[1]


def number(parser: Parser, operand: Operand, name: str, syntax: str) -> int | Expression:
    found = REGISTERS.get(parser.token.text.lower())
    if found is not None:
        # The five-bit number of csrrwi and friends may be written as a register.
        if operand.immediate and operand.immediate.name == "uimm5" and found[0] is Kind.X:
            parser.position += 1
            return found[1]
        message = f"{name} takes a number here, not the register {parser.token.text}"
        raise parser.error("TW1003", message, hint=f"write {syntax}")
    return parser.expression()


def address(parser: Parser, name: str, syntax: str) -> tuple[Expression, int]:
    """`imm(xA)`: the offset and the register; the offset may be left out."""
    if parser.at_end:
        raise too_few(parser, syntax, name)
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
    base = register(parser, Kind.X, name, syntax)
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
