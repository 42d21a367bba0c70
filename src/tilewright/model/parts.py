"""A model cut into parts: functions of one module for the host and for the device, and their ports.

The module has `@main`, which takes and returns what the model does and is nothing but calls of the
parts in order. The reference executor runs it as it is; a runtime runs the parts one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    ModuleOp,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    func,
)
from tilewright.errors import TilewrightError
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
        """The weights that functions of the host name, and first values of the model's own memory."""
        from tilewright.model.weights import named_weights

        used = {name for op in self.functions(HOST) for name in named_weights(op)}
        named = {name: array for name, array in self.weights.items() if name in used}
        return named | first_values(self.state, self.weights)


def first_values(
    state: Mapping[str, str], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What a model's own memory holds before the first call; where nothing is said it is zero.

    Copies: a live module goes on changing its own.
    """
    found = {name: np.array(weights[name]) for name in state if name in weights}
    return {name: array for name, array in found.items() if array.any()}


def parts_of(module: ModuleOp, weights: dict[str, np.ndarray], source: str = "") -> Parts:
    """A module in parts, such as one that was parsed: `@main` says in which order they run, the
    attributes of the others where, and what their ports are called."""
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, func.FuncOp)}
    main = functions.get("main")
    last = None if main is None else main.body.block.last_op
    if main is None or not isinstance(last, func.ReturnOp):
        raise TilewrightError("TW1716", "a model in parts has a function @main that returns")
    rows: list[Part] = []
    ports: dict[str, Port] = {}
    names: dict[SSAValue, str] = {}
    for call in main.body.block.ops:
        if not isinstance(call, func.CallOp):
            continue
        name = call.callee.string_value()
        function = functions.get(name)
        if function is None or not place_of(function):
            raise TilewrightError("TW1716", f"@main calls {name}, which is no part of a model")
        inputs, outputs = (texts_of(function, a) for a in (INPUT_PORTS, OUTPUT_PORTS))
        rows.append(Part(name, place_of(function), inputs, outputs, texts_of(function, REASONS)))
        for ports_here, values in ((inputs, call.operands), (outputs, call.results)):
            for port, value in zip(ports_here, values, strict=False):
                names[value] = port
                ports[port] = _port(port, value)
    taken, given = (
        tuple(
            TensorSpec(port.name, port.shape, port.dtype)
            for number, value in enumerate(values)
            for port in [_port(names.get(value, f"argument{number}"), value)]
        )
        for values in (main.body.block.args, last.operands)
    )
    return Parts(module, weights, taken, given, ports, tuple(rows), source)


def _port(name: str, value: SSAValue) -> Port:
    kind = value.type
    assert isinstance(kind, TensorType)
    return Port(name, tuple(kind.get_shape()), str(kind.element_type), kind)


def place_of(function: func.FuncOp) -> str:
    """host, device, or nothing for @main."""
    value = function.attributes.get(PLACE)
    return value.data if isinstance(value, StringAttr) else ""


def texts_of(op: Operation, attribute: str) -> tuple[str, ...]:
    """An attribute that lists texts, such as the reasons of a host function."""
    value = op.attributes.get(attribute)
    if not isinstance(value, ArrayAttr):
        return ()
    return tuple(text.data for text in value if isinstance(text, StringAttr))
