"""Complex values of an exported graph as pairs of real ones, before the graph is imported.

before: z = aten.view_as_complex.default(x); y = aten.mul.Tensor(z, w)
after:  z.real, z.imag = aten.select.int(x, -1, 0), (x, -1, 1); y.real = z.real w.real - z.imag w.imag; …

A part that is zero everywhere is not written down. Fourier transforms, whose sizes are known, are
products with constant matrices. Inputs and outputs of the model stay real: they say so with a hint.

Error codes: TW6101 a call that has no form in real numbers, TW6113 a complex input, output or state.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError, plain_reason
from tilewright.frontend.aten_graph import (
    BY_NAME,
    ILL_FITTING,
    LOAD_WITH_TORCH,
    ExportedGraph,
    Node,
    Ref,
    ScalarType,
    TensorInfo,
)

PARTS = {"complex<f32>": "f32", "complex<f64>": "f64"}
INPUT = "take torch.view_as_real(x) as the input and call torch.view_as_complex on it in the model"
OUTPUT = "return torch.view_as_real(y), whose last dimension holds real and imaginary parts"

IN_PARTS = "write it in real and imaginary parts: torch.view_as_real gives both"


@dataclass(frozen=True)
class Pair:
    """The parts of a complex value; None stands for zeros."""

    real: Any
    imaginary: Any = None


Lower = Callable[["Splitter", Node], Any]
CALLS: dict[str, Lower] = {}

# Calls that do the same to both parts.
ALIKE = frozenset(
    f"aten.{name}"
    for name in (
        "view.default", "reshape.default", "_unsafe_view.default", "permute.default",
        "transpose.int", "t.default", "expand.default", "slice.Tensor", "select.int",
        "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "clone.default",
        "alias.default", "detach.default", "contiguous.default", "cat.default", "stack.default",
        "flip.default", "roll.default", "repeat.default", "index_select.default", "index.Tensor",
        "gather.default", "sum.default", "sum.dim_IntList", "mean.default", "mean.dim",
        "neg.default", "split.Tensor", "split_with_sizes.default", "chunk.default", "unbind.int",
        "unfold.default", "diagonal.default", "movedim.int", "where.self", "cumsum.default",
        "lift_fresh_copy.default", "tril.default", "triu.default", "as_strided.default",
        "embedding.default", "_reshape_alias.default", "narrow.default", "flatten.using_ints",
        "slice_scatter.default", "select_scatter.default", "copy.default",
    )
)  # fmt: skip


def handles(*targets: str) -> Callable[[Lower], Lower]:
    """Register how calls of complex values are written in real ones."""

    def register(function: Lower) -> Lower:
        for target in targets:
            CALLS[f"aten.{target}"] = function
        return function

    return register


def is_complex(kind: ScalarType) -> bool:
    return kind.name in PARTS


def can_split(target: str) -> bool:
    """Whether a call of complex values can be written in real ones."""
    for name in ("calls", "fourier"):  # they fill the table
        importlib.import_module(f"tilewright.frontend.aten_complex_{name}")
    return target in CALLS or target in ALIKE


def without_complex(graph: ExportedGraph, nodes: Sequence[Node]) -> Sequence[Node]:
    """The live nodes of a graph without complex values; the graph's tables grow by the parts."""
    if not any(is_complex(info.dtype) for info in graph.values.values()):
        return nodes
    return Splitter(graph).run(nodes)


class Splitter:
    """The nodes written so far, and what has become of the complex values."""

    def __init__(self, graph: ExportedGraph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.pairs: dict[str, Pair] = {}
        self.node = Node("", "", {}, ())
        self.made = 0

    def run(self, nodes: Sequence[Node]) -> Sequence[Node]:
        self._check_edges(nodes)
        self._split_constants()
        for node in nodes:
            self.node = node
            names = (*node.references(), *node.results)
            if any(is_complex(self.graph.values[n].dtype) for n in names if n in self.graph.values):
                self._rewrite(node)
            else:
                self.nodes.append(node)
        return self.nodes

    def _check_edges(self, nodes: Sequence[Node]) -> None:
        graph = self.graph
        makers = {name: node for node in nodes for name in node.results}
        for name in [*graph.inputs, *graph.mutated.values()]:
            if is_complex(graph.values[name].dtype):
                where = Location(graph.source)
                raise TilewrightError("TW6113", f"{name} is complex", where, INPUT)
        for name, value in graph.outputs:
            if isinstance(value, Ref) and is_complex(graph.values[value.name].dtype):
                message = f"the output {name} is complex"
                if value.name in makers:
                    raise makers[value.name].error("TW6113", message, OUTPUT)
                raise TilewrightError("TW6113", message, Location(graph.source), OUTPUT)

    def _split_constants(self) -> None:
        graph = self.graph
        for table in (graph.weights, graph.literals):
            for name, title in list(table.items()):
                info = graph.values[name]
                if not is_complex(info.dtype):
                    continue
                del table[name]
                array = graph.tensors[title]
                parts = []
                for part, values in (("real", np.real(array)), ("imaginary", np.imag(array))):
                    key, kind = f"{name}.{part}", self.part_kind(info.dtype)
                    table[key] = f"{title}.{part}"
                    graph.values[key] = TensorInfo(info.shape, kind)
                    graph.tensors[table[key]] = np.ascontiguousarray(values, kind.storage)
                    parts.append(Ref(key))
                self.pairs[name] = Pair(*parts)

    def part_kind(self, kind: ScalarType) -> ScalarType:
        """The element type of the parts of a complex type; real types are their own."""
        return BY_NAME[PARTS[kind.name]] if is_complex(kind) else kind

    def _rewrite(self, node: Node) -> None:
        if not can_split(node.target):
            raise node.error(
                "TW6101",
                f"{node.target} of complex numbers has no mapping",
                IN_PARTS if self.graph.live else LOAD_WITH_TORCH,
            )
        try:
            if node.target in ALIKE:
                self._alike(node)
            else:
                self._settle(node.results[0], CALLS[node.target](self, node))
        except ILL_FITTING as error:
            raise node.ill_fitting(plain_reason(error)) from error

    def _settle(self, name: str, found: Any) -> None:
        """Give the result of a call its name; a real result keeps that which the graph has."""
        if is_complex(self.graph.values[name].dtype):
            self.pairs[name] = found if isinstance(found, Pair) else Pair(found)
        else:
            value = found.real if isinstance(found, Pair) else found
            self.nodes.append(
                replace(self.node, target="aten.clone.default", arguments={"self": value})
            )

    def _alike(self, node: Node) -> None:
        """The same call for both parts, with zeros only where another operand has the part."""
        given = [self.pair(Ref(name)) for name in node.references() if self._is_pair(name)]
        parts = []
        for part in ("real", "imaginary"):
            if part == "imaginary" and all(pair.imaginary is None for pair in given):
                parts.append([None] * len(node.results))
                continue
            taken = {key: self._part_of(key, value, part) for key, value in node.arguments.items()}
            names = tuple(f"{name}.{part}" for name in node.results)
            for name, key in zip(node.results, names, strict=True):
                info = self.graph.values[name]
                self.graph.values[key] = TensorInfo(info.shape, self.part_kind(info.dtype))
            made = replace(node, name=f"{node.name}.{part}", arguments=taken, results=names)
            self.nodes.append(made)
            parts.append([Ref(name) for name in names])
        for name, real, imaginary in zip(node.results, *parts, strict=True):
            self.pairs[name] = Pair(real, imaginary)

    def _is_pair(self, name: str) -> bool:
        return name in self.pairs

    def _part_of(self, key: str, value: Any, part: str) -> Any:
        """An argument with complex values in it replaced by one of their parts."""
        if isinstance(value, Ref) and self._is_pair(value.name):
            found = getattr(self.pairs[value.name], part)
            return self.zeros(value.name) if found is None else found
        if isinstance(value, Ref) and part == "imaginary" and key in ("self", "other", "src"):
            return self.zeros(value.name) if self.info(value).dtype.is_float else value
        if isinstance(value, (list, tuple)):
            return [self._part_of("self", item, part) for item in value]
        if isinstance(value, ScalarType):
            return self.part_kind(value)
        return value

    # ------------------------------------------------------------------- what calls are made of

    def pair(self, value: Any) -> Pair:
        """An argument as a pair: a complex value, a real one, or a number."""
        if isinstance(value, Ref):
            return self.pairs.get(value.name, Pair(value))
        if isinstance(value, complex):
            return Pair(value.real, value.imag)
        return Pair(value)

    def zeros(self, like: str) -> Ref:
        info = self.graph.values[like]
        found = TensorInfo(info.shape, self.part_kind(info.dtype))
        return self.call("aten.full.default", found, size=list(found.shape), fill_value=0.0, dtype=found.dtype)  # fmt: skip

    def info(self, value: Ref) -> TensorInfo:
        return self.graph.values[value.name]

    def result(self) -> TensorInfo:
        """The shape of the current node's result, with the element type of its parts."""
        info = self.graph.values[self.node.results[0]]
        return TensorInfo(info.shape, self.part_kind(info.dtype))

    def call(self, target: str, info: TensorInfo, /, **arguments: Any) -> Ref:
        """One more call beside the current node."""
        self.made += 1
        name = f"{self.node.name}.{self.made}"
        self.graph.values[name] = info
        made = replace(self.node, target=target, name=name, arguments=arguments, results=(name,))
        self.nodes.append(made)
        return Ref(name)

    def constant(self, array: Any, kind: ScalarType) -> Ref:
        """A tensor that is known now."""
        self.made += 1
        name = f"{self.node.name}.{self.made}"
        self.graph.values[name] = TensorInfo(array.shape, kind)
        self.graph.literals[name] = name
        self.graph.tensors[name] = np.ascontiguousarray(array, kind.storage)
        return Ref(name)

    def binary(self, operation: str, a: Any, b: Any, info: TensorInfo) -> Any:
        """A call of two operands, each a value or a number."""
        if not isinstance(a, Ref) and not isinstance(b, Ref):
            return {"add": a + b, "sub": a - b, "mul": a * b}[operation]
        if not isinstance(a, Ref):
            a = self.call("aten.full.default", TensorInfo((), info.dtype), size=[], fill_value=float(a), dtype=info.dtype)  # fmt: skip
        kind = "Tensor" if isinstance(b, Ref) else "Scalar"
        return self.call(f"aten.{operation}.{kind}", info, self=a, other=b)

    def added(self, terms: Iterable[tuple[int, Any]], info: TensorInfo) -> Any:
        """The sum of terms with signs; None where there is nothing to add."""
        total: Any = None
        for sign, term in terms:
            if term is None:
                continue
            if total is None:
                total = term if sign > 0 else self.negated(term)
            else:
                total = self.binary("add" if sign > 0 else "sub", total, term, info)
        return total

    def negated(self, value: Any) -> Any:
        if not isinstance(value, Ref):
            return None if value is None else -value
        return self.call("aten.neg.default", self.info(value), self=value)
