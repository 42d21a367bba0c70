"""What runs where, and in which order: parts of the model for the host and for the device.

The host computes what no device kernel does (index arithmetic, lookups, conversions of masks) with
the reference executor. `partition` says what belongs to which part; here parts get their functions
and the ports between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr, FloatAttr, f32

from tilewright.dialects.intents import integers
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Block,
    Region,
    SSAValue,
    TensorType,
    arith,
    func,
)
from tilewright.model.capture import Graph, Node, dtype_of, shape_of
from tilewright.targets.artifact import HostPart
from tilewright.targets.atlas.model.calls import Call, Tensor
from tilewright.targets.atlas.model.layer_loops import Folded, fold_layers
from tilewright.targets.atlas.model.lowering import HOST_WEIGHT, HostValue, Lowered
from tilewright.targets.atlas.model.partition import DeviceWork, HostWork, partition
from tilewright.targets.port_encoding import Encoding
from tilewright.tile.masks import LOWEST

IMAGES = {
    "image": "scaled to the range of fp8 and stored with 32 channels a pixel",
    "unfolded": "scaled to the range of fp8 and stored with each pixel's window as its channels",
}

_OWN = "kept as fp8 with a scale of its own"
CACHES = {  # of [B, M, H, D], or of heads [B, H, M, D]
    "columns": f"{_OWN}, each head transposed",
    "values": f"{_OWN}, each head apart",
    "columns of heads": f"{_OWN}, each head transposed",
    "values of heads": _OWN,
}


@dataclass
class DeviceCalls:
    """Calls `first` to `end` (exclusive) of the folded program."""

    first: int
    end: int
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class Parts:
    """The order of work, before and after layers are folded."""

    def __init__(self, graph: Graph, lowered: Lowered, weights: dict[str, np.ndarray]) -> None:
        self.graph, self.lowered, self.weights = graph, lowered, weights
        self.reasons = lowered.host
        self.port_of: dict[Any, str] = {}  # value, or tensor the host fills -> port
        self.host_weights: dict[str, np.ndarray] = {}
        self._names: set[str] = set()
        self.functions: dict[str, func.FuncOp] = {}
        self.rows = partition(graph, lowered, self._direct())
        self._name_ports()

    # --- order ------------------------------------------------------------------------------

    def _direct(self) -> set[Tensor]:
        """Tensors that take an input of the model as it is: one per input."""
        direct: dict[SSAValue, Tensor] = {}
        for row in self.lowered.inputs:
            plain = not row.conversion and row.columns is None
            if row.value in self.graph.inputs and (plain or _is_encoded(row)):
                direct.setdefault(row.value, row.tensor)
        return set(direct.values())

    @property
    def encodings(self) -> dict[Tensor, Encoding]:
        """Of the inputs that lie on the device in an encoding of their own, once ranges are known."""
        direct = self._direct()
        return {
            row.tensor: _encoding(row)
            for row in self.lowered.inputs
            if row.tensor in direct and row.conversion
        }

    @property
    def calls(self) -> list[Call]:
        return [call for row in self.rows if isinstance(row, DeviceWork) for call in row.calls]

    def fold(self, wanted: bool, short: bool, small: int) -> Folded:
        """All calls, with identical layers of each part written once; short: also a few small ones.
        small: bytes of a carried tensor that may stay on chip, at most."""
        rows = [row.calls for row in self.rows if isinstance(row, DeviceWork)]
        result = fold_layers(rows, self.lowered.outputs.values(), wanted, short, small)
        self.spans: list[tuple[int, int]] = list(result.spans)
        self.renamed, self.apart = result.renamed, result.apart
        return result

    # --- ports ------------------------------------------------------------------------------

    def _unique(self, name: str) -> str:
        base, count = name, 0
        while name in self._names:
            count += 1
            name = f"{base}~{count}"
        self._names.add(name)
        return name

    def _name_ports(self) -> None:
        graph = self.graph
        for value, name in graph.inputs.items():
            self._names.add(name)
            self.port_of[value] = name
        for name, value in graph.outputs:
            if value not in self.port_of and value not in graph.constants:
                self._names.add(name)
                self.port_of[value] = name
        for value in self.lowered.outputs:
            if value not in self.port_of:
                self.port_of[value] = self._unique(self.lowered.outputs[value].name)
        for node in self.lowered.host:
            if node.result not in self.port_of:
                self.port_of[node.result] = self._unique(node.result.name_hint or node.family)
        direct = self._direct()
        for row in self.lowered.inputs:
            if row.tensor in direct:
                self.port_of[row.tensor] = self.port_of[row.value]
            else:
                self.port_of[row.tensor] = self._unique(f"{row.tensor.name}.device")

    # --- parts ------------------------------------------------------------------------------

    def sequence(self) -> list[HostPart | DeviceCalls]:
        """The parts in order; host parts get their functions."""
        wanted = self._wanted_ports()
        result: list[HostPart | DeviceCalls] = []
        spans = iter(self.spans)
        for row in self.rows:
            if isinstance(row, HostWork):
                result.append(self._host_part(row, wanted))
            else:
                first, end = next(spans)
                result.append(DeviceCalls(first, end, *self._device_ports(row)))
        return result

    def _device_ports(self, row: DeviceWork) -> tuple[tuple[str, ...], tuple[str, ...]]:
        used = {t for call in row.calls for t in call.operands.values()}
        inputs = [self.port_of[h.tensor] for h in self.lowered.inputs if h.tensor in used]
        made = {tensor for call in row.calls for tensor in call.results.values()}
        outputs = [
            self.port_of[value] for value, tensor in self.lowered.outputs.items() if tensor in made
        ]
        return tuple(dict.fromkeys(inputs)), tuple(dict.fromkeys(outputs))

    def _wanted_ports(self) -> set[SSAValue]:
        """Host results that leave the function that makes them."""
        where: dict[Node, int] = {}
        for index, row in enumerate(self.rows):
            for node in row.nodes if isinstance(row, HostWork) else ():
                where[node] = index
        wanted = {value for _, value in self.graph.outputs}
        for index, row in enumerate(self.rows):
            if isinstance(row, HostWork):
                for node in row.nodes:
                    for value in node.operands:
                        maker = self.graph.definition.get(value)
                        if maker in where and where[maker] != index:
                            wanted.add(value)
                for entry in row.converted:
                    maker = self.graph.definition.get(entry.value)
                    if maker in where and where[maker] != index:
                        wanted.add(entry.value)
        return wanted

    def _host_part(self, row: HostWork, wanted: set[SSAValue]) -> HostPart:
        made = {node.result for node in row.nodes}
        reads: dict[SSAValue, None] = {}
        for value in [
            *(v for node in row.nodes for v in node.operands),
            *(entry.value for entry in row.converted),
            *(value for _, value in row.copied),
        ]:
            if value not in made and value not in self.graph.constants:
                reads[value] = None
        block = Block(arg_types=[value.type for value in reads])
        known: dict[SSAValue, SSAValue] = dict(zip(reads, block.args, strict=True))

        def get(value: SSAValue) -> SSAValue:
            if value not in known:
                op = value.owner
                assert isinstance(op, arith.ConstantOp)
                copy = op.clone()
                block.add_op(copy)
                known[value] = copy.results[0]
                if isinstance(op.value, DenseResourceAttr):
                    name = op.value.resource_handle.data
                    handle = f"{HOST_WEIGHT}{name}"  # a name MLIR takes whatever it is
                    copy.properties["value"] = DenseResourceAttr.from_params(handle, op.value.type)
                    self.host_weights[handle] = np.asarray(self.weights[name])
            return known[value]

        for node in row.nodes:
            mapper = {value: get(value) for value in node.operands}
            copy = node.op.clone(value_mapper=dict(mapper))
            block.add_op(copy)
            known[node.result] = copy.results[0]
        names, results = [], []
        for node in row.nodes:
            if node.result in wanted:
                names.append(self.port_of[node.result])
                results.append(known[node.result])
        for entry in row.converted:
            names.append(self.port_of[entry.tensor])
            results.append(_converted(block, get(entry.value), entry))
        for name, value in row.copied:
            names.append(name)
            results.append(get(value))
        block.add_op(func.ReturnOp(*results))
        name = f"host{len(self.functions)}"
        types = ([value.type for value in reads], [value.type for value in results])
        self.functions[name] = func.FuncOp(name, types, Region([block]))
        reasons = tuple(
            f"{node.layer or node.family}: {self.reasons[node]}" for node in row.nodes
        ) + tuple(f"{e.tensor.name}: {_meaning(e)}" for e in row.converted)
        inputs = tuple(self.port_of[value] for value in reads)
        return HostPart(name, inputs, tuple(names), reasons)


def split_parts(graph: Graph, lowered: Lowered, weights: dict[str, np.ndarray]) -> Parts:
    """Who does what, in which order."""
    return Parts(graph, lowered, weights)


def _meaning(entry: HostValue) -> str:
    same = shape_of(entry.value) == entry.tensor.layout.given
    return {
        "mask": "a boolean mask becomes numbers added to the scores",
        "heads": "heads are put side by side",
        "clip": "minus infinity becomes the lowest number the device can subtract",
        "": "handed over as it is" if same else "reshaped for the device",
        **CACHES,
        **IMAGES,
    }[entry.conversion]


def _converted(block: Block, value: SSAValue, entry: HostValue) -> SSAValue:
    """The value as the device wants it: f32 of its tensor's shape."""
    assert isinstance(value.type, TensorType)
    shape = tuple(value.type.get_shape())
    if entry.conversion == "mask":
        attributes = {"scalar_a": FloatAttr(0.0, f32), "scalar_b": FloatAttr(LOWEST, f32)}
        value = _add(block, "npu_uk_select", [value], TensorType(f32, shape), attributes)
    else:
        if dtype_of(value) != "f32":
            value = _add(block, "npu_uk_cast", [value], TensorType(f32, shape), {})
        if entry.conversion == "clip":
            lowest = {"scalar_rhs": FloatAttr(LOWEST, f32)}
            value = _add(block, "npu_uk_elementwise_max", [value], TensorType(f32, shape), lowest)
    if entry.conversion in IMAGES:
        assert entry.tensor.scale is not None
        share = {"scalar_rhs": FloatAttr(1.0 / entry.tensor.scale.scale(), f32)}
        value = _add(block, "npu_uk_elementwise_mul", [value], TensorType(f32, shape), share)
    if entry.columns is not None:
        start, end = entry.columns
        sizes = (*shape[:-1], end - start)
        offsets = (*(0 for _ in shape[:-1]), start)
        cut = {"offsets": integers(offsets), "sizes": integers(sizes)}
        value, shape = _add(block, "npu_uk_slice", [value], TensorType(f32, sizes), cut), sizes
    if entry.conversion == "heads":
        order, sizes = (0, 2, 1, 3), tuple(shape[d] for d in (0, 2, 1, 3))
        turned = {"permutation": integers(order)}
        value = _add(block, "npu_uk_transpose", [value], TensorType(f32, sizes), turned)
        shape = sizes
    if entry.conversion in CACHES:
        assert entry.factor is not None
        share = {"scalar_rhs": FloatAttr(entry.factor.number(), f32)}
        value = _add(block, "npu_uk_elementwise_mul", [value], TensorType(f32, shape), share)
        turned = entry.conversion.startswith("columns")
        apart = entry.conversion.endswith("of heads")
        batch, heads, *matrix = entry.tensor.layout.shape
        width, rows = matrix if turned else reversed(matrix)
        given = (batch, heads, rows, width) if apart else (batch, rows, heads, width)
        if given != shape:
            value = _add(block, "npu_uk_reshape", [value], TensorType(f32, given), {})
        order = (0, 1, 2, 3) if apart else (0, 2, 1, 3)
        order = (*order[:2], order[3], order[2]) if turned else order
        shape = (batch, heads, *matrix)
        if order != (0, 1, 2, 3):
            how = {"permutation": integers(order)}
            value = _add(block, "npu_uk_transpose", [value], TensorType(f32, shape), how)
    wanted = entry.tensor.layout.given
    if wanted != shape:
        value = _add(block, "npu_uk_reshape", [value], TensorType(f32, wanted), {})
    return value


def _is_encoded(entry: HostValue) -> bool:
    """Whether a cache stays on the device, in the encoding that it has there."""
    return entry.conversion in CACHES and entry.tensor.kind == "state"


def _encoding(entry: HostValue) -> Encoding:
    """The same as `_converted` makes of a cache, for whoever writes it to the device."""
    assert entry.factor is not None
    turned = entry.conversion.startswith("columns")
    batch, heads, *matrix = entry.tensor.layout.shape
    width, rows = matrix if turned else reversed(matrix)
    if entry.conversion.endswith("of heads"):
        shape, order = (batch, heads, rows, width), (0, 1, 2, 3)
    else:
        shape, order = (batch, rows, heads, width), (0, 2, 1, 3)
    order = (*order[:2], order[3], order[2]) if turned else order
    return Encoding(entry.factor.number(), shape, order)


def _add(
    block: Block, symbol: str, inputs: Sequence[SSAValue], kind: TensorType, attributes: dict
) -> SSAValue:
    op = UKernelGenericOp(symbol, list(inputs), kind, attributes)
    block.add_op(op)
    return op.result
