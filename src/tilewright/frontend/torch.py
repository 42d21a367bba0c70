"""Importing live PyTorch modules: export, make functional, hand the graph to the ATen importer.

    imported = import_module(model, (x,))
    imported = import_program(torch.export.export(model, (x,)))

Needs `pip install tilewright[torch]`; torch is imported when a function here is called.

Error codes: TW6120 torch is not installed, TW6121 the model cannot be exported.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import logging
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.aten import import_graph, is_mapped
from tilewright.frontend.aten_graph import (
    BY_TORCH,
    ExportedGraph,
    Node,
    Ref,
    ScalarType,
    TensorInfo,
    dynamic_size,
    own_place,
    place_of,
)
from tilewright.frontend.aten_sizes import UNKNOWN, by_data
from tilewright.frontend.imported import Array, Imported
from tilewright.frontend.torch_decompositions import own_decompositions
from tilewright.frontend.torch_eager import check_runs
from tilewright.frontend.torch_outputs import plain_outputs, writes_parameters
from tilewright.frontend.torch_plain import has_complex, is_getitem, is_plain, without_dropout

# torch may be missing, and this file has its name: its types are written as Any.
Module = Any
ExportedProgram = Any
LOGS_OF_ERRORS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
DECOMPOSED = 8  # times that calls are decomposed which decomposing brought up


def load_torch() -> Any:
    """The torch package, or an error that says how to get it."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise TilewrightError(
            "TW6120",
            f"PyTorch models need torch, which cannot be imported ({error})",
            hint="pip install tilewright[torch]; saved .pt2 programs need no torch",
        ) from None


def import_method(
    method: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> Imported:
    """A method of a module as if it were its `forward`; parameters keep the names of the module."""
    owner = method.__self__
    kind = type(owner)
    stand_in = copy.copy(owner)  # shares parameters and parts with the module
    stand_in.__class__ = type(kind.__name__, (kind,), {"forward": method.__func__})
    name = source or f"{type(owner).__qualname__}.{method.__name__}"
    return import_module(stand_in, args, kwargs, name)


def import_module(
    module: Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> Imported:
    """The module as it runs on these example inputs, in eval mode.

    The module itself is not changed for the caller: its mode is put back afterwards. One that
    prepares its parameters in its first call is taken as it is after that, in a copy.
    """
    torch = load_torch()
    _check_kind(torch, module, source or type(module).__qualname__)
    source = source or type(module).__qualname__
    named: dict[str, Any] = dict(kwargs or {})
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad(), plain_outputs(torch, module), quiet():
            args, named = distinct(torch, (tuple(args), named))
            program = torch.export.export(module, args, named)
            if writes_parameters(program):
                prepared = copy.deepcopy(module)
                prepared(*args, **named)
                program = torch.export.export(prepared, args, named)
        return import_program(program, source)
    except TilewrightError as error:
        if error.code == "TW6104":  # what is damaged in a file is an input that does not fit here
            check_runs(torch, module, args, named, source)
        raise
    except Exception as error:
        check_runs(torch, module, args, named, source)
        raise export_error(error, source) from error
    finally:
        for part, mode in modes:
            part.training = mode


def _check_kind(torch: Any, module: Module, source: str) -> None:
    """Refuse modules that torch.export cannot take, with what to give in their place."""
    for name, part in module.named_modules():
        layer = f"layer {name}: " if name else ""
        if isinstance(part, torch.jit.ScriptModule):
            raise TilewrightError(
                "TW6121", f"{layer}{type(part).__name__} is a script, which torch.export cannot trace",
                Location(source), "give the module as it was before torch.jit.script or torch.jit.trace",
            )  # fmt: skip
        if type(part).__module__.startswith("torch.ao.nn.quantized"):
            raise TilewrightError(
                "TW6121", f"{layer}{type(part).__name__} keeps its weights in a form of its own",
                Location(source), "give the module before torch.ao.quantization converted it; "
                "the machine chooses number formats itself",
            )  # fmt: skip


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that torch gives about its own code, and what it logs of errors that it
    raises as well."""
    loggers = [logging.getLogger(name) for name in LOGS_OF_ERRORS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def distinct(torch: Any, tree: Any) -> Any:
    """The inputs with every tensor an object of its own: export merges equal objects."""
    seen: set[int] = set()

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) in seen:
                return leaf.clone()
            seen.add(id(leaf))
        return leaf

    return torch.utils._pytree.tree_map(copy, tree)


def export_error(error: Exception, source: str) -> TilewrightError:
    """What torch.export said, in one sentence, at the user's line."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    code, hint = "TW6121", "torch.export must be able to trace the model; see the chained error"
    if "data-dependent" in text or "unbacked" in text.lower():
        code = "TW6102"
        hint = "a shape or branch depends on data; use a mask of fixed size, such as torch.where"
    frames = "".join(traceback.format_tb(error.__traceback__))
    place = place_of(text) or own_place(frames) or Location(source)
    return TilewrightError(code, f"torch.export cannot trace the model: {first}", place, hint)


def import_program(program: ExportedProgram, source: str = "ExportedProgram") -> Imported:
    """An exported program; it is made functional first, and what has no mapping is decomposed as
    torch itself does it: recurrent layers, for one.

    Both trace it anew, which takes longer than exporting it, so what needs neither is taken as it is.
    """
    torch = load_torch()
    if is_plain(torch, program):
        with contextlib.suppress(TilewrightError):  # torch may say it otherwise
            return import_graph(graph_of(program, source))
    try:
        with torch.no_grad(), quiet():
            whole = without_dropout(torch, program)
            functional = _known_calls(torch, whole.run_decompositions({}))
    except Exception as error:
        try:  # torch loses count of sizes where a mask is used twice; many programs need no more
            return import_graph(graph_of(program, source))
        except TilewrightError:
            raise export_error(error, source) from error
    graph = graph_of(functional, source)
    graph.written = _written_calls(program, functional)
    return import_graph(graph)


def _written_calls(program: ExportedProgram, functional: ExportedProgram) -> dict[str, str]:
    """The model's call that each node of the functional program comes from."""
    calls = {
        node.name: str(node.target)
        for node in program.graph.nodes
        if hasattr(node.target, "_schema")
    }
    found = {}
    for node in functional.graph.nodes:
        origin = next(iter(node.meta.get("from_node") or ()), None)
        while origin is not None and origin.from_node:
            origin = origin.from_node[0]
        if origin is not None and origin.name in calls:
            found[node.name] = calls[origin.name]
    return found


def _known_calls(torch: Any, program: ExportedProgram) -> ExportedProgram:
    """The program with calls that have no mapping in the simpler calls torch has for them."""
    known, own = torch.export.default_decompositions(), own_decompositions(torch)
    for _ in range(DECOMPOSED):
        nodes = [node for node in program.graph.nodes if hasattr(node.target, "_schema")]
        unknown = {
            node.target
            for node in nodes
            if not is_mapped(str(node.target), has_complex(torch, node))
        }
        table = torch._decomp.get_decompositions(list(unknown))
        table |= {call: known[call] for call in unknown if call in known}
        table |= {call: own[call] for call in unknown if call in own}
        if not table:
            break
        program = program.run_decompositions(table)
    return program


# --------------------------------------------------------------------------- the graph


def graph_of(program: ExportedProgram, source: str) -> ExportedGraph:
    """A functional program in neutral form; weights are views of the tensors, not copies."""
    torch = load_torch()
    graph = ExportedGraph(source, [], {}, [], [], live=True)
    parts: dict[tuple[str, int], str] = {}  # (node, index) -> the getitem that reads it
    for node in program.graph.nodes:
        if node.op == "call_function" and is_getitem(node):
            parts.setdefault((node.args[0].name, node.args[1]), node.name)
    aliases = {
        node.name: parts[node.args[0].name, node.args[1]]
        for node in program.graph.nodes
        if node.op == "call_function" and is_getitem(node)
    }
    for node in program.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                graph.values[node.name] = _info(value, node.name, None, source)
        elif node.op == "call_function" and not is_getitem(node):
            graph.nodes.append(_node(torch, node, graph, parts, aliases))
    _inputs(program, graph)
    _outputs(torch, program, graph, aliases)
    return graph


def _node(
    torch: Any,
    node: Any,
    graph: ExportedGraph,
    parts: dict[tuple[str, int], str],
    aliases: dict[str, str],
) -> Node:
    stack = node.meta.get("nn_module_stack") or {}
    layer = next(reversed(stack.values()))[0] if stack else ""
    target = node.target
    schema = getattr(target, "_schema", None)
    name = str(target) if schema is not None else _own_name(target)
    made = Node(
        name,
        node.name,
        {},
        (),
        layer,
        place_of(node.meta.get("stack_trace")) or Location(graph.source),
    )
    names = [a.name for a in schema.arguments] if schema is not None else []
    for position, argument in enumerate(node.args):
        key = names[position] if position < len(names) else f"argument_{position}"
        made.arguments[key] = _argument(torch, argument, made, aliases)
    for key, argument in node.kwargs.items():
        made.arguments[key] = _argument(torch, argument, made, aliases)
    value = node.meta.get("val")
    results: list[str] = []
    values = value if isinstance(value, (list, tuple)) else [value]
    for index, item in enumerate(values):
        if isinstance(item, torch.Tensor):
            alone = not isinstance(value, (list, tuple))
            result: str = (
                node.name if alone else parts.get((node.name, index), f"{node.name}.{index}")
            )
            graph.values[result] = _info(item, result, made, graph.source, graph.unknown)
            results.append(result)
        elif isinstance(item, (torch.SymInt, torch.SymFloat)):
            graph.values[node.name] = TensorInfo((), _number_type(node))
            results.append(node.name)
    return Node(made.target, made.name, made.arguments, tuple(results), layer, made.location)


def _own_name(target: Any) -> str:
    """The name of a function that is no call of torch's: sizes are computed with `operator`."""
    name = getattr(target, "__qualname__", str(target))
    library = getattr(target, "__module__", "")
    return f"{library}.{name}" if library in ("_operator", "torch") else name


def _info(
    value: Any,
    name: str,
    node: Node | None,
    source: str,
    unknown: dict[str, tuple[int | str, ...]] | None = None,
) -> TensorInfo:
    """What a tensor is; unknown: where the sizes of one go that data decides."""
    try:
        kind = scalar_type(value.dtype)
    except TilewrightError as error:
        if node is not None:
            raise node.error(error.code, f"{node.target}: {error.message}", error.hint) from None
        raise error.at(Location(source)) from None
    if any(type(size) is not int for size in value.shape):
        texts = tuple(_written(size) for size in value.shape)
        if all(isinstance(text, int) for text in texts):
            return TensorInfo(tuple(map(int, texts)), kind)
        if unknown is None or not by_data(texts):
            raise dynamic_size(name, list(value.shape), node, source)
        unknown[name] = texts
        return TensorInfo(tuple(s if isinstance(s, int) else UNKNOWN for s in texts), kind)
    return TensorInfo(tuple(value.shape), kind)


def _written(size: Any) -> int | str:
    """A size, one with symbols as sympy writes it out, which is how a saved program has it."""
    if type(size) is int:
        return size
    expression = size.node.expr
    return (
        int(expression)
        if expression.is_number
        else importlib.import_module("sympy").srepr(expression)
    )


def _number_type(node: Any) -> ScalarType:
    """What a number is that was taken out of a tensor; other numbers are sizes."""
    given = node.args[0].meta.get("val") if "item" in node.name or "scalar" in node.name else None
    return BY_TORCH["int64"] if given is None else scalar_type(given.dtype)


def scalar_type(dtype: Any) -> ScalarType:
    kind = BY_TORCH.get(str(dtype).removeprefix("torch."))
    if kind is None:
        hint = "use f32, bf16, f16, fp8, integers or complex numbers of f32 and f64"
        raise TilewrightError("TW6113", f"{dtype} has no counterpart", hint=hint)
    return kind


def _alias(aliases: dict[str, str], node: Any) -> str:
    """The name of a value; all that pick the same part of a node have one name."""
    name = str(node.name)
    return aliases.get(name, name)


def _argument(torch: Any, argument: Any, node: Node | None, aliases: dict[str, str]) -> Any:
    if isinstance(argument, torch.fx.Node):
        return Ref(_alias(aliases, argument))
    if isinstance(argument, (list, tuple)):
        return [_argument(torch, item, node, aliases) for item in argument]
    if isinstance(argument, torch.dtype):
        try:
            return scalar_type(argument)
        except TilewrightError as error:
            if node is None:
                raise
            raise node.error(error.code, f"{node.target}: {error.message}", error.hint) from None
    if isinstance(argument, (torch.device, torch.layout, torch.memory_format)):
        return None
    if isinstance(argument, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise dynamic_size("a size", [argument], node, "ExportedProgram")
    return argument


def _inputs(program: Any, graph: ExportedGraph) -> None:
    """Sort the placeholders into inputs, weights and literals, and find the tensors."""
    for spec in program.graph_signature.input_specs:
        name = getattr(spec.arg, "name", "")
        kind = spec.kind.name
        if kind == "USER_INPUT":
            if name in graph.values:
                graph.inputs.append(name)
            continue
        if kind == "TOKEN":  # the order of checks that raise errors, which are no part of the model
            continue
        literal = kind == "CONSTANT_TENSOR" or (kind == "BUFFER" and spec.persistent is False)
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            raise TilewrightError(
                "TW6113", f"the program has an input of kind {kind}", Location(graph.source)
            )
        (graph.literals if literal else graph.weights)[name] = spec.target
        tensor = program.state_dict.get(spec.target)
        tensor = program.constants[spec.target] if tensor is None else tensor
        graph.tensors[spec.target] = to_numpy(tensor)


def _outputs(torch: Any, program: Any, graph: ExportedGraph, aliases: dict[str, str]) -> None:
    (returned,) = next(n for n in program.graph.nodes if n.op == "output").args
    names = _output_names(torch, program)
    outputs: list[Any] = []
    for spec, value in zip(program.graph_signature.output_specs, returned, strict=True):
        kind = spec.kind.name
        if kind == "BUFFER_MUTATION":
            graph.mutated[spec.target] = _alias(aliases, value)
        elif kind == "USER_OUTPUT":
            outputs.append(_argument(torch, value, None, aliases))
        elif kind == "TOKEN":
            continue
        else:
            raise TilewrightError(
                "TW6113",
                f"the model changes a parameter when it is called, {spec.target}"
                if kind == "PARAMETER_MUTATION"
                else f"the program has an output of kind {kind}",
                Location(graph.source),
                "set max_norm=None after normalising the table once"
                if kind == "PARAMETER_MUTATION"
                else "export a model in eval mode that does not write to its inputs: x = x.clone() first",
            )
    if len(names) != len(outputs):
        names = [f"output_{i}" for i in range(len(outputs))]
    graph.outputs = [
        (name, value)
        for name, value in zip(names, outputs, strict=True)
        if isinstance(value, (Ref, bool, int, float))
    ]


def _output_names(torch: Any, program: Any) -> list[str]:
    """Names from the shape of what the model returns, as for a saved program."""
    from tilewright.frontend.pt2 import spec_names

    try:
        text = torch.utils._pytree.treespec_dumps(program.call_spec.out_spec)
        return spec_names(json.loads(text)[1])
    except (KeyError, TypeError, ValueError, AttributeError, NotImplementedError):
        return []


# --------------------------------------------------------------------------- tensors


_RAW = {
    "bfloat16": ("int16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": ("uint8", ml_dtypes.float8_e8m0fnu),
}


def to_numpy(tensor: Any) -> Array:
    """A tensor's values as numpy sees them; on the CPU without a copy."""
    torch = load_torch()
    if tensor.is_meta:
        raise TilewrightError(
            "TW6113",
            "a tensor of the model is on the device meta, where tensors have no numbers",
            hint="make the model on the CPU and load its weights before it is compiled",
        )
    tensor = tensor.detach().cpu()
    raw = _RAW.get(str(tensor.dtype).removeprefix("torch."))
    if raw is None:
        return tensor.resolve_conj().resolve_neg().numpy()
    return tensor.contiguous().view(getattr(torch, raw[0])).numpy().view(raw[1])


def from_numpy(array: Array) -> Any:
    """A tensor with the values of an array."""
    torch = load_torch()
    for name, (integer, kind) in _RAW.items():
        if array.dtype == np.dtype(kind):
            raw = np.ascontiguousarray(array).reshape(array.shape).view(integer)
            return torch.from_numpy(raw.copy()).view(getattr(torch, name))
    return torch.from_numpy(np.array(array))
