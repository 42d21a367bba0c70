"""Blocks of real models with made-up weights and inputs, for running them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.context import Context
from xdsl.dialects import builtin

from tilewright.frontend.mlir import read_model
from tilewright.reference import dtypes
from tilewright.reference.executor import functions_of

FOLDER = Path(__file__).parent.parent / "data" / "mlir"


@dataclass
class Block:
    """A module with weights for its `dense_resource` names and inputs for its arguments."""

    module: builtin.ModuleOp
    weights: dict[str, np.ndarray]
    inputs: list[np.ndarray]


def read_block(path: Path, context: Context, seed: int = 0) -> Block:
    """A block from a file; the same seed gives the same bytes."""
    module = read_model(path, context).module
    generator = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    for op in module.walk():
        value = op.properties.get("value") if op.name == "arith.constant" else None
        if isinstance(value, builtin.DenseResourceAttr):
            # Matrices of unit gain, vectors (norm weights, biases) of ordinary size.
            shape = tuple(value.type.get_shape())
            gain = max(1, shape[-1]) ** -0.5 if len(shape) > 1 else 1.0
            name = value.resource_handle.data
            weights[name] = made_up(generator, shape, dtypes.element_type(value.type), gain)  # pyright: ignore
    (function,) = functions_of(module).values()
    inputs = []
    for argument in function.regions[0].blocks[0].args:
        shape = argument.type.get_shape() if isinstance(argument.type, builtin.TensorType) else ()
        element = dtypes.element_type(argument.type)
        inputs.append(made_up(generator, tuple(shape), element, 1.0))
    return Block(module, weights, inputs)


def made_up(
    generator: np.random.Generator, shape: tuple[int, ...], element: dtypes.ElementType, gain: float
) -> np.ndarray:
    """Random values of a type: normal floats, mostly true masks, small integers."""
    if element.is_float:
        values = generator.standard_normal(shape, dtype=np.float32) * np.float32(gain)
        return dtypes.stored(values, element)
    if element.kind == "bool":
        return np.asarray(generator.random(shape) < 0.8)
    return generator.integers(0, 8, shape).astype(element.storage)
