"""A model cut into parts: functions of one module for the host and for the device, and their ports.

The module has `@main`, which takes and returns what the model does and is nothing but calls of the
parts in order. The reference executor runs it as it is; a runtime runs the parts one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tilewright.dialects.xdsl_api import ArrayAttr, ModuleOp, StringAttr, TensorType, func
from tilewright.frontend.imported import TensorSpec

HOST, DEVICE = "host", "device"
HOST_REASON = "tw.host"  # attribute of an operation that the host runs, before partition
PLACE, REASONS = "tw.place", "tw.reasons"  # attributes of the functions
INPUT_PORTS, OUTPUT_PORTS = "tw.inputs", "tw.outputs"


@dataclass(frozen=True)
class Port:
    """A value between the outside, the host parts and the device."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # of the codes, as MLIR spells it: f32, f16, i8, i64, i1
    type: TensorType  # with number format and scale


@dataclass(frozen=True)
class Part:
    """A function of the host or of the device, with the ports it reads and fills."""

    function: str
    place: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reasons: tuple[str, ...] = ()  # why operations are the host's: one for each

    @property
    def on_host(self) -> bool:
        return self.place == HOST


@dataclass
class Parts:
    """The whole: `dense_resource<name>` in the module stands for `weights[name]`."""

    module: ModuleOp
    weights: dict[str, np.ndarray]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    ports: dict[str, Port]
    parts: tuple[Part, ...]
    source: str = ""
    state: dict[str, str] = field(default_factory=dict)  # as in Imported

    def function(self, name: str) -> func.FuncOp:
        return next(f for f in self.functions() if f.sym_name.data == name)

    def functions(self, place: str = "") -> Iterator[func.FuncOp]:
        for op in self.module.ops:
            if isinstance(op, func.FuncOp) and (not place or place_of(op) == place):
                yield op

    @property
    def host_parts(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.on_host)

    @property
    def device_parts(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if not part.on_host)

    @property
    def host_module(self) -> ModuleOp:
        """The functions of the host alone, as a bundle keeps them."""
        return ModuleOp([op.clone() for op in self.functions(HOST)])

    @property
    def host_weights(self) -> dict[str, np.ndarray]:
        """The weights that functions of the host name."""
        from tilewright.model.weights import named_weights

        used = {name for op in self.functions(HOST) for name in named_weights(op)}
        return {name: array for name, array in self.weights.items() if name in used}


def place_of(function: func.FuncOp) -> str:
    """host, device, or nothing for @main."""
    value = function.attributes.get(PLACE)
    return value.data if isinstance(value, StringAttr) else ""


def texts_of(function: func.FuncOp, attribute: str) -> tuple[str, ...]:
    """An attribute that lists texts, such as the reasons of a host function."""
    value = function.attributes.get(attribute)
    if not isinstance(value, ArrayAttr):
        return ()
    return tuple(text.data for text in value if isinstance(text, StringAttr))
