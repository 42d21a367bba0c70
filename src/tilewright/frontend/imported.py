"""What every model front end returns: a module, its weights beside it, and what goes in and out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import ModuleOp
from tilewright.errors import TilewrightError
from tilewright.io.safetensors_file import save_safetensors

Array = np.ndarray[Any, np.dtype[Any]]
LARGEST_TENSOR = 1 << 31  # elements; several times what any machine here can hold


def check_size(name: str, shape: Sequence[int]) -> None:
    """Refuse a tensor that is too large for every machine, before anyone makes it."""
    if math.prod(shape) > LARGEST_TENSOR:
        sizes = "x".join(map(str, shape))
        raise TilewrightError(
            "TW0016",
            f"{name} has the shape {sizes}, tensors have at most {LARGEST_TENSOR} elements",
        )


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output: its name, shape, and element type as MLIR spells it."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        check_size(self.name, self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shape), self.dtype])}"

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}


@dataclass
class Imported:
    """A model as one function `@main`; `dense_resource<name>` in it stands for `weights[name]`.

    `state` names the inputs that are the model's own memory, such as caches kept in buffers, and
    the output that holds each one's next value; their first values are in `weights`. `resident` names
    further inputs that change little from call to call: state of others, rows of caches.
    """

    module: ModuleOp
    weights: dict[str, Array]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    source: str
    state: dict[str, str] = field(default_factory=dict)
    folded: tuple[str, ...] = ()  # nodes of the model that were computed at import
    resident: frozenset[str] = frozenset()

    def save_weights(self, path: str | Path) -> None:
        """Write the weights as a safetensors file, in order of their names."""
        save_safetensors(path, self.weights)
