"""Values on their way: what a caller gives, what a port holds, what lies in a region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.compiled_model import CompiledModel, Port, Region
from tilewright.runtime.port_types import FLOATS, PORT_TYPES, converts, port_type
from tilewright.tile.layouts import NUMPY, to_codes

Given = Mapping[str, Any] | Sequence[Any]


def named_inputs(model: CompiledModel, given: Given) -> dict[str, np.ndarray]:
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
    if not converts(array.dtype, port.dtype):
        raise TilewrightError(
            "TW3123",
            f"the input {describe(port)} was given as {port_type(array.dtype)}",
            hint=f"convert it: x.astype({_spelling(wanted)})",
        )
    return rounded(array, port.dtype)


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in the numpy type of a port; floats are rounded once, fp8 saturates."""
    wanted = PORT_TYPES[dtype]
    if array.dtype == wanted:
        return array
    if dtype in ("bf16", "f8E4M3FN"):
        name = "bf16" if dtype == "bf16" else "fp8"
        # Unsigned integers would be taken for bit patterns.
        return to_codes(array.astype(np.float64), name).view(wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(wanted)


def describe(port: Port) -> str:
    """`x: 1x64x576xf32`."""
    return f"{port.name}: {'x'.join([*map(str, port.shape), port.dtype])}"


def _inputs_hint(model: CompiledModel) -> str:
    shown = [describe(model.ports[name]) for name in model.inputs]
    return f"inputs are {', '.join(shown)}" if shown else "it takes no inputs"


def _spelling(dtype: np.dtype[Any]) -> str:
    return f"np.{dtype.name}" if hasattr(np, dtype.name) else f"ml_dtypes.{dtype.name}"


# --- regions ----------------------------------------------------------------------------


def region_codes(region: Region, array: np.ndarray) -> list[np.ndarray]:
    """The bit patterns of a port's array in its region, one array per round."""
    numbers = array if array.dtype.kind not in "biu" else array.astype(np.float32)
    codes = to_codes(numbers, region.layout.dtype)
    return list(codes.reshape(region.count, *region.layout.given))


def port_array(port: Port, region: Region, codes: Sequence[np.ndarray]) -> np.ndarray:
    """The array of a port from the bit patterns in its region."""
    whole = np.stack(list(codes)) if region.count > 1 else codes[0]
    numbers = np.ascontiguousarray(whole).view(NUMPY[region.layout.dtype]).reshape(port.shape)
    if port.dtype == "i1":
        return numbers != 0
    return rounded(numbers.astype(np.float32), port.dtype)


def weight_codes(region: Region, raw: np.ndarray, turn: int) -> np.ndarray:
    """The bit patterns of one round of a region of weights."""
    at = turn * region.layout.bytes
    return unpack_codes(region, raw[at : at + region.layout.bytes].tobytes())


def unpack_codes(region: Region, raw: bytes) -> np.ndarray:
    """Bit patterns of a tensor, from its bytes in memory."""
    numbers = region.layout.unpack(raw)
    return numbers.view(np.uint16 if region.layout.dtype == "bf16" else np.uint8)


def comparable(region: Region, codes: np.ndarray) -> np.ndarray:
    """The bit patterns of a value as `stored_codes` reads them from its region."""
    return codes if _reads_back(region) else region.layout.arranged(codes)


def stored_codes(region: Region, raw: bytes) -> np.ndarray:
    """The bit patterns of a value from its bytes; as they are stored, where an array given once is
    stored in several places."""
    if _reads_back(region):
        return unpack_codes(region, raw)
    plain = replace(region, layout=replace(region.layout, arrangement=None))
    return unpack_codes(plain, raw)


def _reads_back(region: Region) -> bool:
    return getattr(region.layout.arrangement, "reads_back", True)
