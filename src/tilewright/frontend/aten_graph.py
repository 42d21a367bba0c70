"""An exported PyTorch graph in a form that needs no torch: nodes, arguments by name, types.

The live reader (`torch.py`) and the reader of saved programs (`pt2.py`) both produce an
`ExportedGraph`; the importer (`aten.py`) reads nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dialects.xdsl_api import Attribute, IntegerType, VerifyException
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Array


@dataclass(frozen=True, slots=True)
class ScalarType:
    """An element type under its three names: ours, numpy's, torch's, and the code in a `.pt2` file."""

    name: str
    storage: np.dtype[Any]
    torch: str
    code: int

    @property
    def category(self) -> int:
        """0 truth values, 1 integers, 2 floats: the higher one wins when types meet."""
        return 0 if self.name == "i1" else 2 if self.is_float else 1

    @property
    def is_float(self) -> bool:
        return self.name[0] in "bf"


SCALAR_TYPES = [
    ScalarType(name, np.dtype(storage), torch, code)
    for name, storage, torch, code in (
        ("ui8", np.uint8, "uint8", 1), ("i8", np.int8, "int8", 2), ("i16", np.int16, "int16", 3),
        ("i32", np.int32, "int32", 4), ("i64", np.int64, "int64", 5),
        ("f16", np.float16, "float16", 6), ("f32", np.float32, "float32", 7),
        ("f64", np.float64, "float64", 8), ("i1", np.bool_, "bool", 12),
        ("bf16", ml_dtypes.bfloat16, "bfloat16", 13), ("ui16", np.uint16, "uint16", 28),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, "float8_e4m3fn", 29),
        ("f8E5M2", ml_dtypes.float8_e5m2, "float8_e5m2", 30),
        ("f8E8M0FNU", ml_dtypes.float8_e8m0fnu, "float8_e8m0fnu", 33),
        ("ui32", np.uint32, "uint32", 34), ("ui64", np.uint64, "uint64", 35),
    )
]  # fmt: skip
BY_NAME = {kind.name: kind for kind in SCALAR_TYPES}
# Values of a graph may have these until they are in parts (`aten_complex`).
COMPLEX_TYPES = [
    ScalarType("complex<f32>", np.dtype(np.complex64), "complex64", 10),
    ScalarType("complex<f64>", np.dtype(np.complex128), "complex128", 11),
]
BY_TORCH = {kind.torch: kind for kind in (*SCALAR_TYPES, *COMPLEX_TYPES)}
BY_CODE = {kind.code: kind for kind in (*SCALAR_TYPES, *COMPLEX_TYPES)}


def element_type(kind: ScalarType) -> Attribute:
    """The IR's element type."""
    from xdsl.dialects import builtin

    if kind.is_float:
        return getattr(builtin, kind.name)
    if kind.name.startswith("u"):
        return IntegerType(int(kind.name[2:]), builtin.Signedness.UNSIGNED)
    return IntegerType(int(kind.name[1:]))


# What a function of the table meets when arguments are missing or of the wrong kind.
ILL_FITTING = (
    KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError, ArithmeticError,
    MemoryError, VerifyException,
)  # fmt: skip

LOAD_WITH_TORCH = (
    "saved programs are read as they are: give tw.compile the program torch.export.load returns, "
    "and torch breaks up the calls it has simpler ones for"
)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape and element type of a value."""

    shape: tuple[int, ...]
    dtype: ScalarType

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.dtype.name])


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the graph, as an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """One call: what is called, with which arguments, and where in the user's model it stands.

    `results` are the names of its tensors in order. Arguments left at their default are absent.
    """

    target: str
    name: str
    arguments: dict[str, Any]
    results: tuple[str, ...]
    layer: str = ""
    location: Location | None = None

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default)

    def references(self) -> Iterator[str]:
        """The names of the values it reads."""
        for value in self.arguments.values():
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, Ref):
                    yield item.name

    def error(self, code: str, message: str, hint: str | None = None) -> TilewrightError:
        """An error that names the layer and points at the user's line."""
        layer = f"layer {self.layer}: " if self.layer else ""
        return TilewrightError(code, f"{layer}{message}", self.location, hint)

    def ill_fitting(self, reason: str) -> TilewrightError:
        """The error for arguments that are missing or of the wrong kind."""
        return self.error(
            "TW6104",
            f"the arguments of {self.target} do not fit it ({reason})",
            "the file may be damaged, or made by another version of torch",
        )


@dataclass
class ExportedGraph:
    """A functional graph: inputs, weights and constants in, tensors out.

    `weights` and `literals` map a value's name to the name the model gives it; `mutated` maps the
    model's name of a buffer to the value it holds afterwards. An output is a value or a number.
    `live`: torch was there, and what it can break up is in pieces. `parameters`: the values among the
    weights that no model changes, where the file tells. `unknown`: sizes of values that
    torch says data decides, with their symbols (`aten_sizes`). `written`: calls of the model by the names
    of those that torch made of them.
    """

    source: str
    nodes: list[Node]
    values: dict[str, TensorInfo]
    inputs: list[str]
    outputs: list[tuple[str, Ref | bool | int | float]]
    weights: dict[str, str] = field(default_factory=dict)
    literals: dict[str, str] = field(default_factory=dict)
    mutated: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, Array] = field(default_factory=dict)
    live: bool = False
    parameters: set[str] = field(default_factory=set)
    unknown: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)


_SYMBOL = re.compile(r"Symbol\('([^']+)'[^()]*\)")  # as sympy writes one out


def dynamic_size(
    name: str, sizes: Sequence[object], node: Node | None, source: str
) -> TilewrightError:
    """The error for a shape with symbols; torch calls those that depend on data u0, u1, …"""
    text = _SYMBOL.sub(r"\1", "x".join(map(str, sizes)))
    if any(re.search(r"\bu\d+\b", str(size)) for size in sizes):
        code, message = "TW6102", f"the shape of {name}, {text}, depends on the data"
        hint = "keep the shape fixed and use a mask, such as torch.where"
    else:
        code, message = "TW6105", f"{name} has the dynamic shape {text}"
        hint = "export with fixed sizes: leave dynamic_shapes out"
    if node is not None:
        return node.error(code, message, hint)
    return TilewrightError(code, message, Location(source), hint)


_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_TORCH_PARTS = ("/torch/", "\\torch\\")


def place_of(stack_trace: str | None) -> Location | None:
    """The user's innermost line of a stack trace: the last one outside torch itself, if any is."""
    frames = [Location(file, int(line)) for file, line in _FRAME.findall(stack_trace or "")]
    own = [f for f in frames if not any(part in f.file for part in _TORCH_PARTS)]
    return (own or frames or [None])[-1]


def own_place(stack_trace: str) -> Location | None:
    """The line of the model in a stack trace of its export: the last outside torch and this package."""
    frames = [Location(file, int(line)) for file, line in _FRAME.findall(stack_trace)]
    parts = (*_TORCH_PARTS, "/tilewright/", "\\tilewright\\")
    library = str(Path(os.__file__).parent)
    own = [
        frame
        for frame in frames
        if not any(part in frame.file for part in parts)
        and ("site-packages" in frame.file or not frame.file.startswith(library))
    ]
    return own[-1] if own else None
