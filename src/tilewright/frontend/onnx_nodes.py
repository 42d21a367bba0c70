"""What the mappings of ONNX operators work with: nodes, scopes of names, problems, the table.

Error codes: TW6006 an operator without a mapping, TW6009 a node that breaks the rules of ONNX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.frontend.onnx_values import Value

if TYPE_CHECKING:
    from tilewright.frontend.onnx_lowering import Lowering

OPERATOR_FILES = (
    "elementwise", "movement", "lookup", "rows", "products", "windows", "spread", "sampling", "quantised", "control",
    "recurrent", "linear",
)  # fmt: skip

# Attributes that change nothing in what these mappings compute: precisions are at least as asked for.
HARMLESS = frozenset(
    ["stash_type", "softmax_precision", "kernel_shape", "storage_order", "seed", "momentum"]
)  # fmt: skip


class Problem(Exception):
    """A node has no mapping: the code, the reason, what to do."""

    def __init__(
        self, code: str, reason: str, hint: str | None = None, needs: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(reason)
        self.code, self.reason, self.hint = code, reason, hint
        self.needs = needs  # inputs of the model that would have to be known


def unsupported(reason: str, hint: str | None = None) -> NoReturn:
    raise Problem("TW6006", reason, hint)


def front(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise Problem("TW6009", f"axis {axis} is outside rank {rank}")
    return axis % rank


@dataclass
class Node:
    """One node with its inputs looked up; missing optional inputs are None."""

    operator: str
    name: str
    operands: list[Value | None]
    output_names: list[str]
    attributes: dict[str, Any]
    version: int
    domain: str = ""
    proto: Any = None
    # What the mapping has looked at: anything else would be dropped without a word.
    seen: set[str | int] = field(default_factory=set)

    @property
    def inputs(self) -> list[Value | None]:
        """All inputs, for operators that take any number."""
        self.seen.update(range(len(self.operands)))
        return self.operands

    def input(self, index: int) -> Value | None:
        self.seen.add(index)
        return self.operands[index] if index < len(self.operands) else None

    def required(self, index: int) -> Value:
        value = self.input(index)
        if value is None:
            raise Problem("TW6009", f"input {index} is missing")
        return value

    def has_output(self, index: int) -> bool:
        return index < len(self.output_names) and bool(self.output_names[index])

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return self.attributes.get(name, default)

    def check_all_seen(self, results: int, defaults: dict[str, Any]) -> None:
        """Refuse a node with an attribute, input or output that the mapping left out."""
        for name, value in self.attributes.items():
            if name not in self.seen and name not in HARMLESS and value != defaults.get(name):
                unsupported(
                    f"the attribute {name} of {self.operator}-{self.version} has no mapping"
                )
        for index, operand in enumerate(self.operands):
            if operand is not None and index not in self.seen:
                unsupported(f"input {index} of {self.operator}-{self.version} has no mapping")
        for index in range(results, len(self.output_names)):
            if self.has_output(index):
                unsupported(f"output {index} of {self.operator}-{self.version} has no mapping")


Lower = Callable[["Lowering", Node], Value | Sequence[Value]]
OPERATORS: dict[str, Lower] = {}


def lowers(*operators: str) -> Callable[[Lower], Lower]:
    """Register how operators are lowered; those of another domain have its name in front."""

    def register(function: Lower) -> Lower:
        for operator in operators:
            OPERATORS[operator] = function
        return function

    return register


def load_operators() -> dict[str, Lower]:
    """The table of operators with all its files loaded."""
    for name in OPERATOR_FILES:
        importlib.import_module(f"tilewright.frontend.onnx_ops_{name}")
    return OPERATORS


@dataclass
class Scope:
    """The names of one graph or function body; an inner graph also sees the outer one."""

    values: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    absent: frozenset[str] = frozenset()  # optional inputs of a function that were not given

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None
