"""The program between a model and C: values with element types, and nodes that compute them.

Images are NHWC with HWIO filters, so channels are contiguous; everything is dense and row-major.
An elementwise node reads its operands through accesses: for every dimension of the operand the
dimension of the result that indexes it, or None where the operand has one element there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError

Shape = tuple[int, ...]
Access = tuple[int | None, ...]

DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "i8": np.dtype(np.int8),
    "ui8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "i1": np.dtype(np.bool_),
}
C_TYPES = {
    "f32": "float",
    "i8": "int8_t",
    "ui8": "uint8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "i1": "uint8_t",
}

# Functions of one real number, which integers take by rounding or by a table.
REAL = frozenset(
    ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "recip", "tanh", "sigmoid"]
) | {"silu", "gelu_tanh", "gelu_erf", "erf", "floor", "ceil", "round"}
UNARY = REAL | {
    *("neg", "abs", "relu", "square", "cube"),
    *("cast", "logical_not", "clamp", "requant", "copy"),
}
BINARY = frozenset(["add", "sub", "mul", "div", "max", "min", "pow", "compare", "silu_gate"]) | {
    f"logical_{name}" for name in ("and", "or", "xor")
}
# Integer nodes of quantised programs that work element by element.
QUANTISED = frozenset(["q_add", "q_table", "q_quantise", "q_dequantise"])
ELEMENTWISE = UNARY | BINARY | QUANTISED | {"select", "fill", "iota"}


@dataclass(eq=False)
class Value:
    """A tensor; `data` makes it a constant. A quantised one has a scale and a zero point."""

    name: str
    shape: Shape
    dtype: str
    data: np.ndarray | None = None
    scale: float | None = None
    zero: int = 0

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPES[self.dtype].itemsize

    def __repr__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shape), self.dtype])}"


@dataclass(eq=False)
class Node:
    """One operation; `accesses` belong to elementwise ones."""

    kind: str
    inputs: list[Value]
    output: Value
    attributes: dict[str, Any] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    location: Location | None = None

    @property
    def elementwise(self) -> bool:
        return self.kind in ELEMENTWISE

    def __repr__(self) -> str:
        return f"{self.output} = {self.kind}({', '.join(v.name for v in self.inputs)})"


@dataclass
class Program:
    """Nodes in an order in which they can run."""

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]
    input_names: list[str]
    output_names: list[str]
    source: str = "model"

    def users(self) -> dict[Value, list[Node]]:
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                found.setdefault(value, []).append(node)
        return found

    def definitions(self) -> dict[Value, Node]:
        return {node.output: node for node in self.nodes}

    def constants(self) -> Iterator[Value]:
        seen: set[int] = set()
        values = [v for node in self.nodes for v in node.inputs] + list(self.outputs)
        for value in values:
            if value.data is not None and id(value) not in seen:
                seen.add(id(value))
                yield value

    def text(self) -> str:
        """The program as text, for `--dump-phases` and messages."""
        lines = [f"inputs {', '.join(map(repr, self.inputs))}"]
        for node in self.nodes:
            extra = {k: v for k, v in node.attributes.items() if not isinstance(v, np.ndarray)}
            lines.append(f"  {node!r} {extra or ''}".rstrip())
        lines.append(f"outputs {', '.join(map(repr, self.outputs))}")
        return "\n".join(lines) + "\n"


def identity(rank: int) -> Access:
    return tuple(range(rank))


def refuse(
    message: str, location: Location | None = None, hint: str | None = None
) -> TilewrightError:
    """An operation this target does not compile."""
    return TilewrightError("TW5020", message, location, hint)


def check_dtype(dtype: str, what: str, location: Location | None = None) -> None:
    if dtype not in DTYPES:
        raise TilewrightError(
            "TW5021",
            f"{what} has element type {dtype}, the core has {', '.join(DTYPES)}",
            location,
            "convert the model to f32 or int8 first",
        )
