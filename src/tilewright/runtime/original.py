"""What the model that was compiled gives in float32, as a whole and layer by layer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.compiled_model import CompiledModel
from tilewright.runtime.port_types import PORT_TYPES
from tilewright.runtime.values import rounded

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported

Arrays = dict[str, np.ndarray]


@dataclass
class Original:
    """Outputs in float32 by name, and the values of layers by the model's names for them."""

    source: str
    outputs: Arrays
    layers: dict[str, list[np.ndarray]]


def model_hash(path: str | Path) -> str:
    """SHA-256 of a model's file, as bundles keep it in provenance["model_hash"]."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_original(model: CompiledModel, notes: list[str]) -> Imported | None:
    """The model a bundle was compiled from, if it is still there and still the same."""
    named, known = model.provenance.get("model"), model.provenance.get("model_hash")
    if not isinstance(named, str) or not named:
        notes.append(
            "no comparison with float32: the bundle does not say what it was compiled from"
        )
        return None
    path = Path(named)
    if not path.is_file():
        # A factory is code: it runs only when somebody names it.
        notes.append(f"no comparison with float32: {named} is not here; name it with --model")
        return None
    if known != model_hash(path):
        notes.append(f"no comparison with float32: {named} has changed since it was compiled")
        return None
    from tilewright.frontend.models import import_model

    return import_model(named)


def run_original(
    model: CompiledModel, original: Any, values: Arrays, layers: bool = False
) -> Original:
    """Run what was compiled on the same inputs.

    `original` is a function from arrays (in the model's order) to one array or several, a mapping
    of outputs already known, or an imported module.
    """
    if isinstance(original, Mapping):
        return Original("given values", _named(model, list(original.values()), original), {})
    if hasattr(original, "module") and hasattr(original, "weights"):
        return _run_imported(model, original, values, layers)
    if not callable(original):
        raise TilewrightError(
            "TW3142",
            f"a model given as {type(original).__name__} cannot be run in float32",
            hint="give a function on arrays, an imported model, or its outputs by name",
        )
    result = _call(original, [values[name] for name in model.inputs if name not in model.state])
    name = getattr(original, "__name__", type(original).__name__)
    return Original(name, _named(model, result, None), {})


def _call(function: Callable[..., Any], arrays: list[np.ndarray]) -> list[Any]:
    result = function(*arrays)
    if isinstance(result, Mapping):
        return list(result.values())
    return list(result) if isinstance(result, list | tuple) else [result]


def _named(model: CompiledModel, results: list[Any], given: Mapping[str, Any] | None) -> Arrays:
    """Results by output name: as they are named, or in the order of the outputs."""
    if given is not None and set(given) <= set(model.outputs):
        arrays = {name: np.asarray(value) for name, value in given.items()}
    else:
        own = [name for name in model.outputs if name not in model.state.values()]
        names = list(model.outputs) if len(results) == len(model.outputs) else own
        if len(results) != len(names):
            raise TilewrightError(
                "TW3142",
                f"the original model gives {len(results)} results, the compiled one {len(own)}",
            )
        arrays = {name: np.asarray(value) for name, value in zip(names, results, strict=True)}
    for name, array in arrays.items():
        wanted = model.ports[name].shape
        if array.shape != wanted:
            raise TilewrightError(
                "TW3142",
                f"the original model gives {name} with shape {list(array.shape)}, the compiled "
                f"one with {list(wanted)}",
            )
    return arrays


def _run_imported(
    model: CompiledModel, imported: Imported, values: Arrays, layers: bool
) -> Original:
    from tilewright.reference.executor import Executor

    names = [spec.name for spec in imported.inputs]
    if set(names) != set(model.inputs):
        if len(names) != len(model.inputs):
            raise TilewrightError(
                "TW3142",
                f"the original model takes {len(names)} inputs, the compiled one {len(model.inputs)}",
            )
        values = {name: values[mine] for name, mine in zip(names, model.inputs, strict=True)}
    inputs = []
    for spec in imported.inputs:
        array = values[spec.name]
        if array.shape != spec.shape or spec.dtype not in PORT_TYPES:
            raise TilewrightError(
                "TW3142",
                f"the original model takes {spec}, the compiled one an array of shape "
                f"{list(array.shape)}",
                hint="it is not the model this was compiled from",
            )
        inputs.append(rounded(array, spec.dtype))
    if layers:
        module, function, found = _tapped(imported)
        results = Executor(module, imported.weights).run(inputs, function)
    else:
        found = []
        results = Executor(imported.module, imported.weights).run(inputs)
    own = results[: len(results) - len(found)]
    kept: dict[str, list[np.ndarray]] = {}
    for name, array in zip(found, results[len(own) :], strict=True):
        kept.setdefault(name, []).append(array)
    return Original(imported.source, _named(model, own, None), kept)


def _tapped(imported: Imported) -> tuple[Any, str, list[str]]:
    """The module with a function that also returns every value that has a layer's name."""
    from tilewright.dialects.xdsl_api import FunctionType, StringAttr, func

    module = imported.module.clone()
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    main = next((f for f in functions if f.sym_name.data == "main"), functions[0])
    block = main.body.block
    last = block.last_op
    assert last is not None
    extra, names = [], []
    for op in block.ops:
        name = op.attributes.get("tw.layer")
        if isinstance(name, StringAttr) and len(op.results) == 1:
            extra.append(op.results[0])
            names.append(name.data)
    results = [*last.operands, *extra]
    last.detach()
    block.add_op(func.ReturnOp(*results))
    main.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in results]
    )
    return module, main.sym_name.data, names
