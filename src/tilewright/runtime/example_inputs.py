"""Inputs for a model when nobody has any: zeros, or numbers drawn from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.model.sample_values import Meaning, draw, named_meaning
from tilewright.targets.artifact import Port
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.port_types import FLOATS, PORT_TYPES, rounded

KINDS = ("zeros", "random")


def example_inputs(model: CompiledModel[Any], kind: str, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for every input that is not state; one input does not depend on the others."""
    known = meanings(model)
    return {
        name: example_input(model.ports[name], kind, seed, number, known.get(name))
        for number, name in enumerate(model.inputs)
        if name not in model.state
    }


def meanings(model: CompiledModel[Any]) -> dict[str, Meaning]:
    """What the inputs are for, as the compiler found out, or by their names."""
    noted = model.provenance.get("samples")
    found = {}
    for name in model.inputs:
        meaning = Meaning.from_json(noted.get(name)) if isinstance(noted, dict) else None
        if meaning is None:
            dtype = model.ports[name].dtype
            meaning = Meaning("mask") if dtype == "i1" else named_meaning(name, dtype in FLOATS)
        if meaning is not None:
            found[name] = meaning
    return found


def example_input(
    port: Port, kind: str, seed: int = 0, number: int = 0, meaning: Meaning | None = None
) -> np.ndarray:
    """Zeros, or random numbers that mean what the port takes, see `sample_values`."""
    if kind == "zeros":
        return np.zeros(port.shape, PORT_TYPES[port.dtype])
    random = np.random.default_rng([seed, number])
    drawn = draw(port.shape, port.dtype in FLOATS, meaning, random)
    if port.dtype in FLOATS:
        return rounded(drawn, port.dtype)
    return drawn.astype(PORT_TYPES[port.dtype])
