"""What `tw.compile` takes: models of every kind as the compiler reads them, and samples of inputs.

Error codes: TW0043 something that is no model, TW0044 example inputs that are missing or too many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.frontend.model_language import Model
from tilewright.frontend.samples import Arrays, Following, read_samples, samples_of
from tilewright.model.calibrate import example_inputs

Shapes = Mapping[str, int | tuple[int, ...] | list[int]]
MODELS = (
    "give a torch module or jax function with example inputs, a torch.export program, an ONNX "
    "model, a function of tw.model's, a file (.onnx, .pt2, .mlir) or package.module:factory"
)


def as_imported(
    model: Any, inputs: Any = None, shapes: Shapes | None = None, weights: Any = None
) -> Imported:
    """Any model as the compiler takes it."""
    if isinstance(model, Imported):
        return model
    if isinstance(model, Model):
        return model.imported()
    if isinstance(model, str | Path):
        from tilewright.frontend.models import import_model

        return import_model(str(model), shapes)
    torch, onnx = sys.modules.get("torch"), sys.modules.get("onnx")
    if torch is not None and isinstance(model, torch.nn.Module):
        from tilewright.frontend.torch import import_module

        arguments, named = _torch_inputs(inputs)
        return import_module(model, arguments, named)
    if torch is not None and _is_method(model):
        from tilewright.frontend.torch import import_method

        arguments, named = _torch_inputs(inputs)
        return import_method(model, arguments, named)
    if torch is not None and isinstance(model, torch.export.ExportedProgram):
        from tilewright.frontend.torch import import_program

        return import_program(model)
    if onnx is not None and isinstance(model, onnx.ModelProto):
        from tilewright.frontend.onnx import read_onnx

        return read_onnx(model, shapes)
    if is_torch_function(model, inputs):
        from tilewright.frontend.torch import import_module
        from tilewright.frontend.torch_eager import as_module

        arguments, named = _torch_inputs(inputs)
        return import_module(as_module(torch, model), arguments, named)
    if is_function(model) and "jax" in sys.modules:
        return _from_jax(model, inputs, weights)
    raise _no_model(model)


def sizes_of_examples(model: Any, inputs: Any) -> Shapes | None:
    """Shapes of the inputs of an ONNX model whose sizes are open, where example inputs have them."""
    onnx = sys.modules.get("onnx")
    if inputs is None or not (
        (isinstance(model, str | Path) and Path(model).suffix == ".onnx")
        or (onnx is not None and isinstance(model, onnx.ModelProto))
    ):
        return None
    from tilewright.frontend.onnx_file import open_inputs

    names = open_inputs(model)
    if not any(names.values()):
        return None
    given = (
        inputs
        if isinstance(inputs, Mapping)
        else dict(zip(names, _leaves(inputs, False), strict=False))
    )
    found = {n: tuple(np.shape(x)) for n, x in given.items() if names.get(n)}
    return found or None


def _no_model(model: Any) -> TilewrightError:
    """Why something is no model, where that can be told."""
    kind = type(model).__name__
    if isinstance(model, type):
        message = f"{model.__name__} is a class, not a model: make one, {model.__name__}(…)"
    elif isinstance(model, Mapping):
        message = "a table of arrays is the weights of a model, not the model"
    elif is_function(model):
        message = "a function is a model with inputs that are tensors of torch or arrays of jax"
    else:
        message = f"{kind} is no model"
    return TilewrightError("TW0043", message, hint=MODELS)


def is_table_of_weights(model: Any) -> bool:
    """Whether a table holds arrays, as the state of a torch module does, and no models."""
    return isinstance(model, Mapping) and any(hasattr(value, "shape") for value in model.values())


def is_function(model: Any) -> bool:
    """Whether a model can only be a function of jax's or torch's."""
    alone = callable(model) and not isinstance(model, type)
    return alone and not hasattr(model, "forward") and not _is_method(model)


def is_torch_function(model: Any, inputs: Any) -> bool:
    """Whether a function takes tensors of torch; without jax it can take no other arrays."""
    torch = sys.modules.get("torch")
    if torch is None or not is_function(model) or inputs is None:
        return False
    leaves = list(_leaves(inputs, False))
    return "jax" not in sys.modules or any(isinstance(leaf, torch.Tensor) for leaf in leaves)


def sorted_by_jax(model: Any, inputs: Any) -> bool:
    """Whether tables among the inputs are in the order of their keys."""
    return is_function(model) and not is_torch_function(model, inputs)


def _is_method(model: Any) -> bool:
    """Whether a model is a method of a torch module."""
    torch = sys.modules.get("torch")
    owner = getattr(model, "__self__", None)
    return torch is not None and isinstance(owner, torch.nn.Module)


def _torch_inputs(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if inputs is None:
        raise TilewrightError(
            "TW0044",
            "a torch module is compiled for the shapes of example inputs, and there are none",
            hint="tw.compile(module, (x,)), or tw.compile(module, {'x': x}) by argument name",
        )
    if isinstance(inputs, Mapping):
        return (), {name: _tensor(value) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(_tensor(value) for value in inputs), {}
    return (_tensor(inputs),), {}


def _tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        from tilewright.frontend.torch import from_numpy

        return from_numpy(value)
    return value


def _from_jax(function: Callable[..., Any], inputs: Any, weights: Any) -> Imported:
    from tilewright.frontend.jax import import_jax

    if inputs is None:
        raise TilewrightError(
            "TW0044",
            "a function is compiled for the shapes of example inputs, and there are none",
            hint="tw.compile(function, (x,)), or tw.compile(function, (x,), weights=weights)",
        )
    if isinstance(inputs, Mapping):
        return import_jax(function, weights=weights, **inputs)
    given = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return import_jax(function, *given, weights=weights)


# --- samples ----------------------------------------------------------------------------


def samples_for(imported: Imported, calibrate: Any, inputs: Any, ordered: bool) -> list[Arrays]:
    if calibrate is not None:
        if isinstance(calibrate, str | Path):
            return read_samples(imported, [calibrate])
        rows = _rows(calibrate)
        if rows and all(isinstance(row, str | Path) for row in rows):
            return read_samples(imported, rows)
        found: list[Arrays] = []
        for row in rows:
            if isinstance(row, Following):  # its maker knows the model, and it may cost a run of it
                found.append(cast(Arrays, row))
            else:
                found += samples_of(imported, _named(imported, row, ordered))
        if not found:
            raise TilewrightError("TW0044", "there are no samples to calibrate with")
        return found
    if inputs is None or not all(hasattr(leaf, "__array__") for leaf in _leaves(inputs, ordered)):
        return []  # no examples, or shapes without values
    arrays = _named(imported, inputs, ordered)
    # Example inputs are often zeros or ones: they have shapes to tell, but no ranges.
    floats = [array for array in arrays.values() if array.dtype.kind in "fV"]
    if floats and not any(np.ptp(a.astype(np.float32)) > 0 for a in floats if a.size):
        drawn = example_inputs(imported)
        arrays = {n: drawn[n] if a.dtype.kind in "fV" else a for n, a in arrays.items()}
    return samples_of(imported, arrays)


def _rows(calibrate: Any) -> list[Any]:
    """Samples one by one: of a list, or of anything else that gives one after the other."""
    single = hasattr(calibrate, "shape") or isinstance(calibrate, tuple | Mapping | str | Path)
    return [calibrate] if single or not isinstance(calibrate, Iterable) else list(calibrate)


def _named(imported: Imported, given: Any, ordered: bool) -> dict[str, np.ndarray]:
    """Arrays by input name: given so, or in the model's order however they are nested."""
    own = [spec.name for spec in imported.inputs if spec.name not in imported.state]
    if isinstance(given, Mapping) and set(given) <= {spec.name for spec in imported.inputs}:
        return {name: _array(value) for name, value in given.items()}
    leaves = [_array(leaf) for leaf in _leaves(given, ordered)]
    if len(leaves) != len(own):
        raise TilewrightError(
            "TW0044",
            f"{len(leaves)} inputs were given, the model takes {len(own)}",
            hint=f"inputs are {', '.join(str(s) for s in imported.inputs if s.name in own)}",
        )
    return dict(zip(own, leaves, strict=True))


def _leaves(value: Any, ordered: bool) -> Iterator[Any]:
    """The arrays in nested inputs; jax takes tables in the order of their keys, torch as they are."""
    if isinstance(value, Mapping):
        for key in sorted(value) if ordered else value:
            yield from _leaves(value[key], ordered)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part, ordered)
    elif hasattr(value, "shape"):  # numbers and None are part of the model
        yield value


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        from tilewright.frontend.torch import to_numpy

        return to_numpy(value)
    return np.asarray(value)
