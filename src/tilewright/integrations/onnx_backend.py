"""Tilewright as an ONNX backend: `prepare(model)`, `run_model`, `run_node`, `supports_device`.

A thin layer over `read_onnx` and the reference executor (device "CPU") or the compiler and the simulated
machine (devices "ATLAS-V0" and "ATLAS-V1"), with the interface of `onnx.backend.base.Backend`. Inputs that
decide shapes are fixed to their values when a model runs; each combination of input shapes and such
values is imported once, and compiled once with ranges from the inputs it first meets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.frontend.onnx import NeedsValues, OnnxModel, read_onnx
from tilewright.frontend.onnx_file import onnx_package
from tilewright.frontend.onnx_values import Array, stored

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from tilewright.program import Program

DEVICES = ("CPU", "ATLAS-V0", "ATLAS-V1")


class Prepared:
    """A model ready to run."""

    def __init__(self, model: ModelProto, device: str = "CPU") -> None:
        self.model, self.device = model, _kind(device)
        initialisers = {tensor.name for tensor in model.graph.initializer}
        self.names = [i.name for i in model.graph.input if i.name not in initialisers]
        self.fixed: set[str] = set()  # inputs found to decide shapes
        self.programs: dict[Any, OnnxModel] = {}
        self.compiled: dict[int, Program] = {}  # by the identity of what was imported

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_: Any) -> tuple[Array, ...]:
        """The outputs for inputs given in order or by name."""
        from tilewright.reference.executor import run

        given = self._by_name(inputs)
        program = self.program(given)
        feeds = [stored(given[spec.name]) for spec in program.inputs]
        if self.device != "CPU":
            return self._on_device(program, feeds)
        return tuple(run(program.module, feeds, weights=program.weights))

    def _on_device(self, model: OnnxModel, feeds: list[Array]) -> tuple[Array, ...]:
        from tilewright.compiling import compile

        if id(model) not in self.compiled:
            self.compiled[id(model)] = compile(model, tuple(feeds), self.device.lower())
        results = self.compiled[id(model)](*feeds)
        return results if isinstance(results, tuple) else (results,)

    def _by_name(self, inputs: Sequence[Any] | Mapping[str, Any]) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self.names):
                raise TilewrightError(
                    "TW6010", f"{len(inputs)} inputs were given, the model takes {len(self.names)}"
                )
            inputs = dict(zip(self.names, inputs, strict=True))
        missing = [name for name in self.names if name not in inputs]
        if missing:
            raise TilewrightError("TW6010", f"no value was given for {', '.join(missing)}")
        return {name: np.asarray(inputs[name]) for name in self.names}

    def program(self, given: Mapping[str, Array]) -> OnnxModel:
        """The module for inputs of these shapes, with those fixed that decide shapes."""
        while True:
            shapes = {n: tuple(a.shape) for n, a in given.items() if n not in self.fixed}
            values = {n: given[n] for n in self.names if n in self.fixed}
            key = (
                tuple(sorted(shapes.items())),
                tuple((n, v.shape, v.tobytes()) for n, v in values.items()),
            )
            if key in self.programs:
                return self.programs[key]
            try:
                self.programs[key] = read_onnx(self.model, shapes, values)
            except NeedsValues as error:
                if error.names <= self.fixed:
                    raise
                self.fixed |= error.names


def prepare(model: ModelProto, device: str = "CPU", **_: Any) -> Prepared:
    """The model ready to run."""
    _check_device(device)
    return Prepared(model, device)


def run_model(model: ModelProto, inputs: Sequence[Any], device: str = "CPU", **_: Any):
    """The outputs of a model for inputs in order."""
    return prepare(model, device).run(inputs)


def run_node(
    node: NodeProto,
    inputs: Sequence[Any],
    device: str = "CPU",
    outputs_info: Any = None,
    opset_version: int = 23,
    **_: Any,
) -> tuple[Array, ...]:
    """The outputs of a single node for inputs in order; empty input names take none."""
    onnx_package()
    from onnx import helper

    from tilewright.frontend.onnx_values import number_of_array

    _check_device(device)
    arrays = [np.asarray(value) for value in inputs]
    names = list(dict.fromkeys(name for name in node.input if name))
    if len(names) != len(arrays):
        raise TilewrightError(
            "TW6010", f"{len(arrays)} inputs were given, the node takes {len(names)}"
        )
    infos = []
    for name, array in zip(names, arrays, strict=True):
        number = number_of_array(array)
        if number is None:
            raise TilewrightError("TW6008", f"the input {name} holds {array.dtype}")
        infos.append(helper.make_tensor_value_info(name, number, array.shape))
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, results)
    opset = helper.make_opsetid("", opset_version)
    return Prepared(helper.make_model(graph, opset_imports=[opset]), device).run(arrays)


def supports_device(device: str) -> bool:
    """Whether programs run there: the executor on the CPU, the others on simulated machines."""
    return _kind(device) in DEVICES


def _kind(device: str) -> str:
    return device.partition(":")[0].upper()


def _check_device(device: str) -> None:
    if not supports_device(device):
        raise TilewrightError(
            "TW6010", f"there is no device {device}", hint=f"devices: {', '.join(DEVICES)}"
        )
