"""What the model that was compiled gives in float32, as a whole and layer by layer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.noise import Limit, limits
from tilewright.runtime.watch import Expected
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.port_types import PORT_TYPES, rounded

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported

Arrays = dict[str, np.ndarray]


@dataclass
class Original:
    """Outputs in float32 by name, and what steps stand for by the number of their call."""

    source: str
    outputs: Arrays
    layers: dict[int, np.ndarray]
    limits: dict[str, Limit] = field(default_factory=dict)  # see `noise`; empty: not known


def find_original(model: CompiledModel[Any], notes: list[str]) -> Imported | None:
    """The model a bundle was compiled from, if its file is still there and still the same."""
    named = model.provenance.get("model")
    if not isinstance(named, str) or not named:
        notes.append(
            "no comparison with float32: the bundle does not say what it was compiled from"
        )
        return None
    if not os.path.isfile(named):
        # A factory is code: it runs only when somebody names it.
        notes.append(
            f"no comparison with float32: {named} is not a file here; name it with --model"
        )
        return None
    from tilewright.frontend.models import import_model

    shapes = model.provenance.get("shapes")
    try:
        imported = import_model(named, shapes if isinstance(shapes, dict) else None)
    except TilewrightError as error:
        notes.append(f"no comparison with float32: {named} cannot be read: {error.message}")
        return None
    if not is_same(model, imported):
        notes.append(f"no comparison with float32: {named} has changed since it was compiled")
        return None
    return imported


def is_same(model: CompiledModel[Any], imported: Imported) -> bool:
    """Whether this is the model that was compiled, by the hash in its provenance."""
    from tilewright.model.digest import former_model_hash, model_hash
    from tilewright.model.simplify import simplify

    noted, simple = model.provenance.get("model_hash"), simplify(imported)
    return any(hashed(simple) == noted for hashed in (model_hash, former_model_hash))


def run_original(
    model: CompiledModel[Any], original: Any, values: Arrays, wanted: Expected | None = None
) -> Original:
    """Run what was compiled on the same inputs.

    `original` is a function from arrays (in the model's order) to one array or several, a mapping
    of outputs already known, or an imported module; only that has values for the steps of a run.
    """
    if isinstance(original, Mapping):
        return Original("given values", _named(model, list(original.values()), original), {})
    if hasattr(original, "module") and hasattr(original, "weights"):
        return _run_imported(model, original, values, wanted)
    if not callable(original):
        raise TilewrightError(
            "TW3142",
            f"a model given as {type(original).__name__} cannot be run in float32",
            hint="give a function on arrays, an imported model, or its outputs by name",
        )
    result = _call(original, [values[name] for name in model.inputs if name not in model.state])
    name = getattr(original, "__name__", type(original).__name__)
    return Original(name, _named(model, result, None), {})


def _as_stored(model: CompiledModel[Any], imported: Imported) -> Imported:
    """The original with weights in the format they were compiled in: what rounding may explain."""
    from tilewright.model.microscale import microscaled
    from tilewright.reference.microscaling import FORMATS

    noted = model.provenance.get("weights")
    form = noted.get("format") if isinstance(noted, dict) else None
    if not isinstance(form, str) or form not in FORMATS:
        return imported
    kept = noted.get("keep") if isinstance(noted, dict) else None
    keep = [str(layer) for layer in kept] if isinstance(kept, list) else []
    return microscaled(imported, form, keep).model


def _call(function: Callable[..., Any], arrays: list[np.ndarray]) -> list[Any]:
    result = function(*arrays)
    if isinstance(result, Mapping):
        return list(result.values())
    return list(result) if isinstance(result, list | tuple) else [result]


def _named(
    model: CompiledModel[Any], results: list[Any], given: Mapping[str, Any] | None
) -> Arrays:
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
    model: CompiledModel[Any], imported: Imported, values: Arrays, wanted: Expected | None
) -> Original:
    from tilewright.runtime.counterparts import find_counterparts, run_tapped

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
    layers: dict[int, np.ndarray] = {}
    if wanted is not None:
        from tilewright.model.simplify import simplify

        imported = simplify(imported)  # steps name the operations that are left then
        found = find_counterparts(model, wanted, imported)
        own, seen = run_tapped(imported, inputs, found.distinct())
        layers = {number: seen[value] for number, value in found.values.items()}
    else:
        own, _ = run_tapped(imported, inputs, [])
    outputs = _named(model, own, None)
    try:
        given = dict(zip(outputs, limits(_as_stored(model, imported), inputs, own), strict=True))
    except TilewrightError:  # a module of other operations than kernels on whole tensors
        given = {}
    return Original(imported.source, outputs, layers, given)
