"""Sizes that torch calls u0, u1, … though the model itself decides them: places that a mask keeps.

    before: %index = aten.index.Tensor(%x, [None, %mask])      3 x u0 x 11, the mask is a constant
            %size = aten.sym_size.int(%index, 1)
    after:  u0 = 3, as the lowered index has it; %size = 3, and what reads it finds a number

A size that an input decides stays unknown, and whoever needs it says so.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.frontend.aten_graph import Node, Ref

UNKNOWN = -1  # in the shape of a value until its size is known

_CALLS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "neg": operator.neg, "sym_max": max, "sym_min": min,
}  # fmt: skip
_WRITTEN: dict[str, Callable[..., int]] = {
    "Add": lambda *n: sum(n), "Mul": lambda *n: math.prod(n), "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "Max": max, "Min": min,
}  # fmt: skip
_SYMBOL = re.compile(r"Symbol\('([^']+)'")


def by_data(texts: Sequence[int | str]) -> bool:
    """Whether all symbols of sizes are of the kind that data decides, not of dynamic shapes."""
    symbols = [s for text in texts for s in _SYMBOL.findall(str(text))]
    return bool(symbols) and all(re.fullmatch(r"u\d+", symbol) for symbol in symbols)


def is_number_call(target: str) -> bool:
    """Whether a call computes with sizes and makes no tensor."""
    library, _, name = target.rpartition(".")
    return target == "aten.sym_size.int" or (library in ("_operator", "torch") and name in _CALLS)


@dataclass
class Sizes:
    """What is known of symbols so far.

    texts: of values whose sizes have symbols, the sizes as sympy writes them out.
    """

    texts: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # values that are sizes

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a value, once all of its symbols are known."""
        found = [self._size(size) for size in self.texts[name]]
        return tuple(size for size in found if size is not None) if None not in found else None

    def settle(self, name: str, shape: tuple[int, ...]) -> bool:
        """Take symbols from the shape that a value turned out to have; whether it fits what is known."""
        described = self.texts[name]
        if len(described) != len(shape):
            return False
        for size, actual in zip(described, shape, strict=True):
            symbol = _SYMBOL.match(str(size))
            if symbol:
                self.known.setdefault(symbol[1], actual)
        return self.shape(name) == shape

    def with_numbers(self, node: Node) -> Node:
        """The call with numbers in the place of sizes that are known."""
        for name, value in node.arguments.items():
            if isinstance(value, list):
                node.arguments[name] = [self._number(item) for item in value]
            else:
                node.arguments[name] = self._number(value)
        return node

    def compute(self, node: Node, shape_of: Callable[[Ref], Sequence[int]]) -> None:
        """The number that a call computes of sizes."""
        if node.target == "aten.sym_size.int":
            found = shape_of(node.get("self"))[node.get("dim")]
        else:
            values = [v for v in node.arguments.values() if v is not None]
            found = _CALLS[node.target.rpartition(".")[2]](*values)
        self.numbers[node.results[0]] = int(found)

    def _number(self, value: Any) -> Any:
        return self.numbers.get(value.name, value) if isinstance(value, Ref) else value

    def _size(self, size: int | str) -> int | None:
        if isinstance(size, int):
            return size
        return _evaluated(ast.parse(size, mode="eval").body, self.known)


def _evaluated(text: ast.expr, known: dict[str, int]) -> int | None:
    """A size as sympy writes it out: Mul(Integer(3), Symbol('u0', integer=True))."""
    if not isinstance(text, ast.Call) or not isinstance(text.func, ast.Name):
        return None
    name, first = text.func.id, text.args[0] if text.args else None
    if name == "Integer":
        if isinstance(first, ast.UnaryOp) and isinstance(first.operand, ast.Constant):
            return -int(str(first.operand.value))
        return int(str(first.value)) if isinstance(first, ast.Constant) else None
    if name == "Symbol" and isinstance(first, ast.Constant):
        return known.get(str(first.value))
    values = [_evaluated(part, known) for part in text.args]
    if name not in _WRITTEN or None in values:
        return None
    return _WRITTEN[name](*values)
