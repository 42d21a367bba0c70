"""Values on their way: what a caller gives, and what a port holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.artifact import Port
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.port_types import FLOATS, PORT_TYPES, converts, port_type, rounded

Given = Mapping[str, Any] | Sequence[Any]


def named_inputs(model: CompiledModel[Any], given: Given) -> dict[str, np.ndarray]:
    """The given inputs by name, checked and in the types of their ports.

    A sequence is in the order of the model's inputs, with or without those that are state. Inputs
    that are not state have to be there.
    """
    own = [name for name in model.inputs if name not in model.state]
    if not isinstance(given, Mapping):
        names = list(model.inputs) if len(given) == len(model.inputs) else own
        if len(given) != len(names):
            raise TilewrightError(
                "TW3120",
                f"{len(given)} inputs were given, {model.name} takes {len(own)}",
                hint=_inputs_hint(model),
            )
        given = dict(zip(names, given, strict=True))
    for name in given:
        if name not in model.inputs:
            raise TilewrightError(
                "TW3120", f"{model.name} has no input {str(name)!r}", hint=_inputs_hint(model)
            )
    for name in own:
        if name not in given:
            raise TilewrightError(
                "TW3121",
                f"the input {describe(model.ports[name])} is missing",
                hint=_inputs_hint(model),
            )
    return {name: as_port(model.ports[name], value) for name, value in given.items()}


def as_port(port: Port, value: Any) -> np.ndarray:
    """A caller's value as the port takes it; lists and numbers are converted, arrays checked."""
    wanted = PORT_TYPES[port.dtype]
    plain = not hasattr(value, "dtype")  # lists and numbers have no type of their own
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TilewrightError(
            "TW3122", f"the input {describe(port)} was given something that is no array: {error}"
        ) from None
    if array.shape != port.shape:
        hint = None
        if array.size == np.prod(port.shape, dtype=np.int64):
            hint = "it has the right number of elements: reshape it"
        shape = "x".join(map(str, array.shape)) or "a scalar"
        raise TilewrightError(
            "TW3122", f"the input {describe(port)} was given with shape {shape}", hint=hint
        )
    if plain and array.dtype.kind in "iubf":
        converted = rounded(array, port.dtype)
        # Python's floats are rounded where a narrower float is taken; whole numbers stay as they are.
        if port.dtype in FLOATS or np.array_equal(converted, array):
            return converted
    if array.dtype.kind == wanted.kind and wanted.kind in "iu":  # numpy's own whole numbers are i64
        narrow = rounded(array, port.dtype)
        if np.array_equal(narrow, array):
            return narrow
    if not converts(array.dtype, port.dtype):
        raise TilewrightError(
            "TW3123",
            f"the input {describe(port)} was given as {_named(array.dtype)}",
            hint=f"convert it: x.astype({_spelling(wanted)})"
            + (", of a torch tensor x.float()" if port.dtype == "f32" else ""),
        )
    return rounded(array, port.dtype)


def fitting(port: Port, array: np.ndarray, place: Location) -> np.ndarray:
    """A value from a file, which has to be exactly what the port holds."""
    wanted = PORT_TYPES[port.dtype]
    if port.dtype == "i1" and array.dtype == np.uint8 and array.max(initial=0) <= 1:
        array = array.view(wanted)
    if array.shape != port.shape or array.dtype != wanted:
        raise TilewrightError("TW3152", f"the state {port.name} has another shape or type", place)
    return np.array(array)


def describe(port: Port) -> str:
    """`x: 1x64x576xf32`."""
    return f"{port.name}: {'x'.join([*map(str, port.shape), port.dtype])}"


def _inputs_hint(model: CompiledModel[Any]) -> str:
    shown = [describe(model.ports[name]) for name in model.inputs]
    return f"inputs are {', '.join(shown)}" if shown else "it takes no inputs"


def _named(dtype: np.dtype[Any]) -> str:
    """The type of an array, whose whole numbers are no index."""
    return "i64" if dtype == np.int64 else port_type(dtype)


def _spelling(dtype: np.dtype[Any]) -> str:
    return f"np.{dtype.name}" if hasattr(np, dtype.name) else f"ml_dtypes.{dtype.name}"
