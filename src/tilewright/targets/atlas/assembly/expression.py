"""Expressions: parsed to postfix code, evaluated when all names are known.

Postfix code keeps evaluation free of recursion, however long an expression is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.assembly.lexer import REGISTERS, Token, parse_integer

MAX_DEPTH = 64  # nesting of parentheses and signs
LIMIT = 1 << 64  # magnitude no intermediate result may reach


class Value(NamedTuple):
    """A number, and how often the address of the program's start is in it.

    A label has weight 1, the difference of two labels weight 0: this tells a branch
    target from a branch offset. Labels of data weigh DATA, so that they are neither.
    """

    number: int
    weight: int = 0


DATA = 1 << 20

# One step of postfix code: ("number", n, column), ("name", text, column), (operator, None, column).
Step = tuple[str, int | str | None, int]


@dataclass(frozen=True, slots=True)
class Expression:
    steps: tuple[Step, ...]
    column: int

    @property
    def constant(self) -> int | None:
        """Its value when it is a plain number."""
        if len(self.steps) == 1 and self.steps[0][0] == "number":
            return self.steps[0][1]  # type: ignore[return-value]
        return None


_PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}


class Parser:
    """Reads the tokens of one line from left to right."""

    def __init__(self, tokens: list[Token], place: Location) -> None:
        self.tokens = tokens
        self.position = 0
        self.place = place

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != "end":
            self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind == "operator":
            self.position += 1
            return True
        return False

    @property
    def at_end(self) -> bool:
        return self.token.kind == "end" or self.token.text == ";"

    def error(
        self, code: str, message: str, column: int | None = None, hint: str | None = None
    ) -> TilewrightError:
        where = self.token.column if column is None else column
        return TilewrightError(
            code, message, Location(self.place.file, self.place.line, where), hint
        )

    def expression(self) -> Expression:
        """One expression; stops at the first token that cannot continue it."""
        column = self.token.column
        steps: list[Step] = []
        self._binary(0, 0, steps)
        return Expression(_fold(steps), column)

    def _binary(self, level: int, depth: int, steps: list[Step]) -> None:
        self._unary(depth, steps)
        while True:
            operator = self.token
            strength = _PRECEDENCE.get(operator.text, -1) if operator.kind == "operator" else -1
            if strength <= level:
                return
            self.position += 1
            self._binary(strength, depth + 1, steps)
            steps.append((operator.text, None, operator.column))

    def _unary(self, depth: int, steps: list[Step]) -> None:
        if depth > MAX_DEPTH:
            raise self.error("TW1010", f"the expression is nested more than {MAX_DEPTH} deep")
        token = self.token
        if token.kind == "number":
            self.position += 1
            value = parse_integer(token.text)
            if value is None:
                raise self._bad_number(token)
            steps.append(("number", value, token.column))
        elif token.kind == "float":
            raise self.error(
                "TW1014",
                f"{token.text} is not an integer",
                hint="fractions are only allowed in .bf16, .fp8 and .float",
            )
        elif token.kind == "name":
            if token.text.lower() in REGISTERS:
                raise self.error("TW1003", f"expected a number, not the register {token.text}")
            self.position += 1
            steps.append(("name", token.text, token.column))
        elif token.text == ".":
            self.position += 1
            steps.append(("name", ".", token.column))
        elif token.text in ("-", "+", "~"):
            self.position += 1
            self._unary(depth + 1, steps)
            if token.text != "+":
                steps.append(("negate" if token.text == "-" else "invert", None, token.column))
        elif token.text in ("(", "%hi", "%lo"):
            self.position += 1
            if token.text != "(":
                self.accept("(")
            self._binary(0, depth + 1, steps)
            if not self.accept(")"):
                raise self.error("TW1002", "expected ) to close the parenthesis")
            if token.text != "(":
                steps.append((token.text, None, token.column))
        else:
            found = f"not {token.text!r}" if token.kind != "end" else "the line ends here"
            raise self.error("TW1002", f"expected a number, {found}")

    def _bad_number(self, token: Token) -> TilewrightError:
        text = token.text if len(token.text) <= 40 else token.text[:40] + "…"
        hint = "write 12, 0x1F, 0b101 or 0o17"
        if token.text.isdigit() and token.text.startswith("0"):
            hint = f"write {token.text.lstrip('0')[:40]} or, for octal, 0o{token.text.lstrip('0')[:40]}"
        return self.error("TW1014", f"{text} is not a number", token.column, hint)


def _fold(steps: list[Step]) -> tuple[Step, ...]:
    """Constant code as one number, where that cannot fail."""
    if len(steps) == 2 and steps[1][0] == "negate" and steps[0][0] == "number":
        return (("number", -steps[0][1], steps[1][2]),)  # type: ignore[operator]
    return tuple(steps)


def evaluate(expression: Expression, lookup: Callable[[str, int], Value], place: Location) -> Value:
    """The value; `lookup(name, column)` gives the value of a name or raises."""
    stack: list[Value] = []
    for operation, argument, column in expression.steps:
        if operation == "number":
            value = Value(argument)  # type: ignore[arg-type]
        elif operation == "name":
            value = lookup(argument, column)  # type: ignore[arg-type]
        elif operation in _ONE:
            a = stack.pop()
            value = _ONE[operation](a)
        else:
            b, a = stack.pop(), stack.pop()
            try:
                value = _TWO[operation](a, b)
            except (ZeroDivisionError, ValueError) as error:
                where = Location(place.file, place.line, column)
                text = "division by zero" if isinstance(error, ZeroDivisionError) else str(error)
                raise TilewrightError("TW1010", text, where) from None
        if not -LIMIT < value.number < LIMIT:
            raise TilewrightError(
                "TW1010",
                "the value does not fit into 64 bits",
                Location(place.file, place.line, column),
            )
        stack.append(value)
    return stack[0]


def split_upper(value: int) -> int:
    """The `lui` part of a 32-bit number whose `addi` part is `split_lower`."""
    return ((value + 0x800) >> 12) & 0xFFFFF


def split_lower(value: int) -> int:
    """The low twelve bits of a number, as the signed number `addi` adds."""
    return ((value & 0xFFF) ^ 0x800) - 0x800


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shift(a: int, b: int, left: bool) -> int:
    if not 0 <= b <= 63:
        raise ValueError(f"the shift amount {b} is not from 0 to 63")
    return a << b if left else a >> b


_ONE: dict[str, Callable[[Value], Value]] = {
    "negate": lambda a: Value(-a.number, -a.weight),
    "invert": lambda a: Value(~a.number),
    "%hi": lambda a: Value(split_upper(a.number)),
    "%lo": lambda a: Value(split_lower(a.number)),
}
_TWO: dict[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: Value(a.number + b.number, a.weight + b.weight),
    "-": lambda a, b: Value(a.number - b.number, a.weight - b.weight),
    "*": lambda a, b: Value(a.number * b.number),
    "/": lambda a, b: Value(_divide(a.number, b.number)),
    "%": lambda a, b: Value(a.number - b.number * _divide(a.number, b.number)),
    "<<": lambda a, b: Value(_shift(a.number, b.number, True)),
    ">>": lambda a, b: Value(_shift(a.number, b.number, False)),
    "&": lambda a, b: Value(a.number & b.number),
    "|": lambda a, b: Value(a.number | b.number),
    "^": lambda a, b: Value(a.number ^ b.number),
}
