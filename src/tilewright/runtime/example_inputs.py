"""Inputs for a model when nobody has any: zeros, or numbers drawn from a seed."""

from __future__ import annotations

import numpy as np

from tilewright.runtime.compiled_model import CompiledModel, Port
from tilewright.runtime.port_types import FLOATS, PORT_TYPES
from tilewright.runtime.values import rounded

KINDS = ("zeros", "random")


def example_inputs(model: CompiledModel, kind: str, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for every input that is not state; one input does not depend on the others."""
    return {
        name: example_input(model.ports[name], kind, seed, number)
        for number, name in enumerate(model.inputs)
        if name not in model.state
    }


def example_input(port: Port, kind: str, seed: int = 0, number: int = 0) -> np.ndarray:
    """Zeros, or random: normal floats, cosines where the name says so, integers 0 and 1 that any
    table has, masks that keep everything."""
    wanted = PORT_TYPES[port.dtype]
    if kind == "zeros":
        return np.zeros(port.shape, wanted)
    random = np.random.default_rng([seed, number])
    if port.dtype == "i1":
        return np.ones(port.shape, wanted)
    if port.dtype not in FLOATS:
        return random.integers(0, 2, port.shape).astype(wanted)
    for suffix, function in (("cos", np.cos), ("sin", np.sin)):
        if port.name == suffix or port.name.endswith("_" + suffix):
            return rounded(function(random.uniform(0, 2 * np.pi, port.shape)), port.dtype)
    return rounded(random.standard_normal(port.shape), port.dtype)
