"""From an exported graph of ATen calls to kernel intents.

before: aten.linear.default(input=x, weight=p_fc1_weight, bias=p_fc1_bias)
after:  %w = arith.constant dense_resource<fc1.weight> : tensor<64x32xf32>
        %y = npu_kernel.matmul %x, %w {transpose_rhs, tw.layer = "fc1"} : …

Calls that a kernel family stands for stay whole. What depends on no input and no parameter is
computed here, by the reference executor. Dead calls are never looked at. The table of targets is
spread over the `aten_ops_*` files.

Error codes: TW6101 a call without a mapping, TW6102 a shape that depends on data, TW6103 a call
with arguments that have no mapping, TW6104 a graph that contradicts itself, TW6105 a dynamic size,
TW6106 a call that writes in place, TW6107 a model in training mode.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.parsing import verify_module
from tilewright.dialects.xdsl_api import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    arith,
    func,
)
from tilewright.errors import TilewrightError, TilewrightErrors, plain_reason
from tilewright.frontend.aten_builder import (
    TARGETS,
    Assembly,
    Importer,
    Lower,
    Undefined,
    Value,
    identifier,
    scalar_attribute,
)
from tilewright.frontend.aten_complex import can_split, without_complex
from tilewright.frontend.aten_graph import (
    ILL_FITTING,
    LOAD_WITH_TORCH,
    ExportedGraph,
    Node,
    Ref,
    TensorInfo,
)
from tilewright.frontend.aten_sizes import is_number_call
from tilewright.frontend.aten_writes import without_writes
from tilewright.frontend.imported import Array, Imported, TensorSpec
from tilewright.transforms.known_values import once

OPERATOR_FILES = (
    "elementwise", "activations", "movement", "borders", "rows", "products", "recurrent",
    "windows", "resize", "creation", "indexing", "lookup", "order", "composites", "saved",
)  # fmt: skip
INLINE_ELEMENTS = 16  # constants up to this size stand in the text of the module

# Checks and markers that compute nothing; the first keeps dead branches alive.
IGNORED = frozenset(
    [
        "aten._assert_tensor_metadata.default",
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
    ]
)


def load_targets() -> dict[str, Lower]:
    """The table of calls with all its files loaded."""
    for name in OPERATOR_FILES:
        importlib.import_module(f"tilewright.frontend.aten_ops_{name}")
    return TARGETS


def composites() -> Any:
    """The file that knows second names; it is loaded with the table."""
    return importlib.import_module("tilewright.frontend.aten_ops_composites")


def is_mapped(target: str, complex_values: bool = False) -> bool:
    """Whether a call has a mapping, under this name or another; complex values have their own."""
    name = composites().first_name(target)
    return can_split(name) if complex_values else name in load_targets()


def import_graph(graph: ExportedGraph) -> Imported:
    """The graph as a module; raises errors that name the layer and the user's line."""
    load_targets()
    functional = without_writes(graph)
    check_functional(functional)
    nodes = [composites().with_first_name(node) for node in live_nodes(graph, functional)]
    parts = without_complex(graph, nodes)
    if parts is not nodes:  # products with a part that nobody reads
        nodes = live_nodes(graph, parts)
    check_targets(nodes, graph)
    return GraphImporter(graph).run(nodes)


def live_nodes(graph: ExportedGraph, nodes: Sequence[Node]) -> list[Node]:
    """The nodes that the outputs depend on, in order."""
    needed = {value.name for _, value in graph.outputs if isinstance(value, Ref)}
    needed.update(graph.mutated.values())
    live: list[Node] = []
    for node in reversed(nodes):
        if node.target not in IGNORED and needed.intersection(node.results):
            live.append(node)
            needed.update(node.references())
    return live[::-1]


def check_functional(nodes: Sequence[Node]) -> None:
    """Refuse calls that write in place: what they change may be read where no result leads."""
    errors: dict[str, TilewrightError] = {}
    for node in nodes:
        name = node.target.split(".")[1] if "." in node.target else node.target
        if name.endswith("_") and not name.startswith("_") and node.target not in TARGETS:
            errors.setdefault(
                node.target,
                node.error(
                    "TW6106",
                    f"{node.target} writes in place",
                    "save the functional form: torch.export.export(…).run_decompositions({})",
                ),
            )
    _raise_all(errors)


def _raise_all(errors: dict[str, TilewrightError]) -> None:
    if errors:
        found = list(errors.values())
        raise found[0] if len(found) == 1 else TilewrightErrors(found)


DATA_DEPENDENT = frozenset(
    ["unique", "unique_dim", "_unique2", "unique_consecutive",
     "nonzero_static", "repeat_interleave.Tensor"]
)  # fmt: skip


RANDOM = frozenset(
    ["rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal",
     "bernoulli", "multinomial", "poisson", "uniform", "exponential", "gamma"]
)  # fmt: skip
PACKED = frozenset(["_pack_padded_sequence", "_pad_packed_sequence"])
PAD = "run the layer on the padded input, and mask what lies behind the ends"
DRAW_OUTSIDE = "a compiled model gives the same outputs for the same inputs: draw them outside and pass them in"


# Calls that torch has no simpler ones for, besides those whose names begin like this.
WHOLE = frozenset(
    ["lgamma", "mvlgamma", "digamma", "polygamma", "erfinv", "i0", "geqrf", "ormqr", "cholesky_solve",
     "cholesky_inverse", "lu_unpack", "triangular_solve", "logdet", "slogdet", "igamma", "igammac"]
)  # fmt: skip
WHOLE_LIBRARIES = ("linalg_", "_linalg_", "special_", "_fft_")


def _own_function(target: str) -> str:
    return (
        f"compute it outside and pass it in, or give the exported program with a function of simpler "
        f"calls in its place: program.run_decompositions({{torch.ops.{target}: function}})"
    )


def _unmapped(node: Node, graph: ExportedGraph) -> TilewrightError:
    """A call that is not in the table. The model's own call is what can be replaced, not what torch
    made of it."""
    called = graph.written.get(node.name, node.target)
    name = called.partition(".")[2].partition(".")[0]
    if graph.live:
        nor = "" if called == node.target else f", nor has {node.target}, which torch makes of it"
        why = f"{called} has no mapping{nor or ', and torch does not break it up'}"
        return node.error("TW6101", why, _own_function(called))
    whole = name in WHOLE or name.startswith(WHOLE_LIBRARIES)
    hint = _own_function(called) if whole else LOAD_WITH_TORCH
    return node.error("TW6101", f"{called} has no mapping", hint)


def check_targets(nodes: Sequence[Node], graph: ExportedGraph) -> None:
    """Refuse what has no mapping, every kind of call once, before anything is built."""
    errors: dict[str, TilewrightError] = {}
    for node in nodes:
        if node.target in TARGETS or node.target in errors or is_number_call(node.target):
            continue
        name, _, overload = node.target.partition(".")[2].partition(".")
        if name in DATA_DEPENDENT or f"{name}.{overload}" in DATA_DEPENDENT:
            error = node.error(
                "TW6102",
                f"{node.target} gives a shape that depends on the data",
                "replace it by a mask of fixed size, such as torch.where",
            )
        elif name in PACKED:
            error = node.error("TW6102", f"{node.target} takes as many rows as an input says", PAD)
        elif name in RANDOM:
            error = node.error("TW6101", f"{node.target} draws random numbers", DRAW_OUTSIDE)
        else:
            error = _unmapped(node, graph)
        errors[node.target] = error
    _raise_all(errors)


class GraphImporter(Importer):
    """The driver: arguments and constants first, then every node, then constants settled."""

    def __init__(self, graph: ExportedGraph) -> None:
        super().__init__(graph)
        self.names: dict[SSAValue, str] = {}
        self.weights: dict[str, Array] = {}
        self.folded: list[str] = []
        self.last_literal: Operation | None = None

    def run(self, nodes: Sequence[Node]) -> Imported:
        for node in nodes:
            self.needed.update(node.references())
        state = self._arguments()
        self._constants()
        for node in nodes:
            self.node = self.sizes.with_numbers(node)
            if is_number_call(node.target):
                self.sizes.compute(node, lambda x: shape_of(self.tensor(x)))
                continue
            found = self._lower(node)
            for name, value in zip(node.results, found, strict=True):
                if value is not None:
                    self.values[name] = value
            if all(not isinstance(v, SSAValue) or v in self.known for v in found):
                self.folded.append(node.name)
        self.node = None
        return self._finish(state)

    def contents(self, value: SSAValue) -> Array | None:
        """Of a weight too: which places a mask keeps is part of the model."""
        name = self.names.get(value)
        return self.known.get(value) if name is None else self.graph.tensors[name]

    def _arguments(self) -> dict[str, str]:
        """Block arguments for inputs and for buffers the model changes; buffer -> value name."""
        graph = self.graph
        buffers = {fqn: name for name, fqn in {**graph.weights, **graph.literals}.items()}
        state = {fqn: buffers[fqn] for fqn in graph.mutated}
        for name in [*graph.inputs, *state.values()]:
            type_ = self.type_of(graph.values[name])
            argument = self.block.insert_arg(type_, len(self.block.args))
            argument.name_hint = identifier(name)
            self.values[name] = argument
        for fqn in state:
            self.weights[fqn] = graph.tensors[fqn]
        return state

    def _constants(self) -> None:
        """Parameters become named weights, lifted constants known values, if anything reads them."""
        graph = self.graph
        for name, fqn in {**graph.weights, **graph.literals}.items():
            if name not in self.needed or name in self.values:
                continue
            array = graph.tensors[fqn]
            value = self.resource(fqn, TensorInfo(array.shape, graph.values[name].dtype))
            self.values[name] = value
            self.names[value] = fqn
            if name in graph.literals:
                self.known[value] = array
            else:
                self.weights[fqn] = array

    def _lower(self, node: Node) -> Sequence[Value | None]:
        try:
            lowered = TARGETS[node.target](self, node)
        except TilewrightError as error:
            layer = f"layer {node.layer}: " if node.layer else ""
            if node.location:
                error.at(node.location)
            if layer and not error.message.startswith(layer):
                error.message = f"{layer}{error.message}"
            raise
        except ILL_FITTING as error:
            raise node.ill_fitting(plain_reason(error)) from error
        alone = isinstance(lowered, (SSAValue, Undefined, Assembly))
        found: list[Value | None] = [lowered] if alone else list(lowered)
        if len(found) != len(node.results):
            raise node.error(
                "TW6104", f"{node.target} has {len(found)} results, {len(node.results)} are named"
            )
        for name, value in zip(node.results, found, strict=True):
            if value is not None and not self._as_said(name, self.info(value)):
                raise node.error(
                    "TW6104",
                    f"{node.target} gives {self.info(value)}, "
                    f"the graph says that {name} is {self.graph.values[name]}",
                    "the file may be damaged, or made by another version of torch",
                )
        return found

    def _as_said(self, name: str, found: TensorInfo) -> bool:
        """Whether a value is what the graph says of it; sizes that it did not know are known then."""
        said = self.graph.values[name]
        if name not in self.graph.unknown:
            return found == said
        return found.dtype == said.dtype and self.sizes.settle(name, found.shape)

    def _finish(self, state: dict[str, str]) -> Imported:
        results: list[SSAValue] = []
        outputs: list[TensorSpec] = []
        after = [(f"{fqn}.next", Ref(value)) for fqn, value in self.graph.mutated.items()]
        for name, value in [*self.graph.outputs, *after]:
            if isinstance(value, Ref):
                result = self.tensor(value)
            else:
                result = self.constant(np.asarray(value))
            results.append(result)
            info = self.info(result)
            outputs.append(TensorSpec(name, info.shape, info.dtype.name))
        terminator = func.ReturnOp(*results)
        self.block.add_op(terminator)
        self._settle_constants()
        self._drop_dead()
        kinds = (
            [argument.type for argument in self.block.args],
            [r.type for r in terminator.operands],
        )
        main = func.FuncOp("main", kinds, Region(self.block))
        module = ModuleOp([main])
        verify_module(module)
        names = [*self.graph.inputs, *state]
        inputs = [
            TensorSpec(name, info.shape, info.dtype.name)
            for name, info in zip(names, map(self.info, self.block.args), strict=True)
        ]
        return Imported(
            module,
            self.weights,
            tuple(inputs),
            tuple(outputs),
            self.graph.source,
            {fqn: f"{fqn}.next" for fqn in state},
            folded=tuple(self.folded),
        )

    def _settle_constants(self) -> None:
        """Put a constant in place of every known value that something unknown reads."""
        made: dict[tuple[object, ...], SSAValue] = {}
        for op in list(self.block.ops):
            if not op.results or op.results[0] not in self.known:
                continue
            value = op.results[0]
            if all(
                u.operation.results and u.operation.results[0] in self.known for u in value.uses
            ):
                continue
            array = self.known[value]
            held = once(array)  # its shape says along which axes it repeats
            key = (array.dtype.str, str(array.dtype), array.shape, held.shape, held.tobytes())
            if key not in made:
                made[key] = self._written(value, array, op)
            value.replace_all_uses_with(made[key])
        for op in reversed(list(self.block.ops)):
            if op.results and op.results[0] in self.known and not list(op.results[0].uses):
                self._erase(op)

    def _written(self, value: SSAValue, array: Array, before: Operation) -> SSAValue:
        """A known array as an op: a fill, a short literal, or a named weight."""
        type_ = tensor_type(value)
        name = self.names.get(value)
        raw = np.ascontiguousarray(once(array))
        flat = raw.reshape(-1)
        words = flat.view(f"u{flat.dtype.itemsize}")
        op: Operation
        if name is None and flat.size and (words == words[0]).all():
            number = scalar_attribute(flat[0], type_.element_type)
            op = UKernelGenericOp("npu_uk_fill", [], type_, {"value": number})
        elif (
            name is None
            and array.size <= INLINE_ELEMENTS
            and flat.dtype.kind in "ibf"
            and (flat.dtype.kind != "f" or np.isfinite(flat).all())
        ):
            numbers = [int(v) if flat.dtype.kind in "ib" else float(v) for v in array.reshape(-1)]
            op = arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, numbers))  # type: ignore[arg-type]
        else:
            name = name or f"literal.{sum(key.startswith('literal.') for key in self.weights)}"
            # ascontiguousarray gives a number a dimension
            self.weights[name] = np.ascontiguousarray(array).reshape(array.shape)
            op = arith.ConstantOp(DenseResourceAttr.from_params(name, type_), type_)
        # Constants stand first, so that equal ones are shared wherever they are read.
        if self.last_literal is None:
            first = self.block.first_op
            assert first is not None
            self.block.insert_op_before(op, first)
        else:
            self.block.insert_op_after(op, self.last_literal)
        self.last_literal = op
        op.location = before.location
        return op.results[0]

    def _drop_dead(self) -> None:
        for op in reversed(list(self.block.ops)):
            if op.results and not any(list(r.uses) for r in op.results):
                self._erase(op)
        read = {
            op.value.resource_handle.data
            for op in self.block.ops
            if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseResourceAttr)
        }
        kept = read | set(self.graph.mutated)
        self.weights = {name: array for name, array in self.weights.items() if name in kept}

    def _erase(self, op: Operation) -> None:
        op.detach()
        op.erase()
