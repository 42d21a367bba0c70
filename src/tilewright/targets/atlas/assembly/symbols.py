"""Names of a program: labels of code and of data, and constants."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.assembly.expression import DATA, Expression, Value, evaluate
from tilewright.targets.atlas.assembly.lexer import LABEL, REGISTERS

MAX_CHAIN = 64  # constants defined through each other


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name stands for: a place in the code, in memory, or an expression."""

    kind: str  # "code", "data", "constant"
    value: int  # slot of the code, or address
    place: Location
    expression: Expression | None = None


class Symbols:
    """Definitions, and the values of expressions over them."""

    def __init__(self) -> None:
        self.table: dict[str, Symbol] = {}
        self.addresses: list[int] | None = None  # slot -> instruction index, once known
        self.unit = 4  # what one instruction adds to an address
        # Values of constants under the present addresses, by name and unit: without it a
        # chain of constants that use each other twice would take exponential time.
        self.known: dict[tuple[str, int], Value] = {}

    def set_addresses(self, addresses: list[int]) -> None:
        self.addresses = addresses
        self.known.clear()

    def define(self, name: str, symbol: Symbol) -> None:
        if name.lower() in REGISTERS or LABEL.fullmatch(name) is None:
            what = "the name of a register" if name.lower() in REGISTERS else "not a name"
            raise TilewrightError(
                "TW1017",
                f"{name!r} is {what}, it cannot be a label or constant",
                symbol.place,
                hint="names are letters, digits, _ and . and do not start with a digit",
            )
        earlier = self.table.get(name)
        if earlier is not None:
            raise TilewrightError(
                "TW1008",
                f"{name!r} is defined twice",
                symbol.place,
                hint=f"the first definition is in line {earlier.place.line}",
            )
        self.table[name] = symbol

    def evaluate(
        self, expression: Expression, place: Location, here: int | None = None, unit: int = 0
    ) -> Value:
        """The value of an expression.

        `here` is the slot `.` stands for. `unit` is what an instruction counts in
        addresses (default: the profile's). Before the code is laid out labels are an error.
        """
        return self._evaluate(expression, place, here, unit or self.unit, 0)

    def _evaluate(
        self, expression: Expression, place: Location, here: int | None, unit: int, depth: int
    ) -> Value:
        def lookup(name: str, column: int) -> Value:
            where = Location(place.file, place.line, column)
            if name == ".":
                if here is None or self.addresses is None:
                    raise _too_early("the address of this line", where)
                return Value(self.addresses[here] * unit, 1)
            symbol = self.table.get(name)
            if symbol is None:
                raise self._undefined(name, where)
            if symbol.kind == "data":
                return Value(symbol.value, DATA)
            if symbol.kind == "code":
                if self.addresses is None:
                    raise _too_early(f"the address of {name!r}", where)
                return Value(self.addresses[symbol.value] * unit, 1)
            if (name, unit) in self.known:
                return self.known[name, unit]
            if depth >= MAX_CHAIN:
                raise TilewrightError(
                    "TW1010",
                    f"{name!r} is defined through itself, or through too many others",
                    where,
                )
            assert symbol.expression is not None
            value = self._evaluate(symbol.expression, symbol.place, symbol.value, unit, depth + 1)
            self.known[name, unit] = value
            return value

        return evaluate(expression, lookup, place)

    def depends_on_code(self, expression: Expression) -> bool:
        """Whether the value can change with the layout of the code, or is not known yet."""
        pending = [expression]
        seen: set[str] = set()
        while pending:
            for operation, name, _ in pending.pop().steps:
                if operation != "name" or name in seen:
                    continue
                symbol = self.table.get(str(name))
                if name == "." or symbol is None or symbol.kind == "code":
                    return True
                seen.add(str(name))
                if symbol.expression is not None:
                    pending.append(symbol.expression)
        return False

    def _undefined(self, name: str, where: Location) -> TilewrightError:
        close = get_close_matches(name[:60], list(self.table)[:2000], 1)
        hint = f"did you mean {close[0]!r}?" if close else "a label is written NAME: on a line"
        shown = name if len(name) <= 60 else name[:60] + "…"
        return TilewrightError("TW1009", f"{shown!r} is not defined", where, hint)


def _too_early(what: str, where: Location) -> TilewrightError:
    return TilewrightError(
        "TW1009",
        f"{what} is not known here",
        where,
        hint="sizes and addresses of data cannot depend on labels of code",
    )
