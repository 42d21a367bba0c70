"""One function of the device, compiled: its network, its task list, and how the two belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.artifact import VpuProgram, tuples
from tilewright.targets.vpu.lowering.network import Call, Network, Value
from tilewright.targets.vpu.operations.numbers import DTYPES

_MOST_ELEMENTS = 1 << 34  # of a value


@dataclass(frozen=True, slots=True)
class Place:
    """Rows and columns of a value that a task computes."""

    value: str
    rows: range
    columns: range


@dataclass(slots=True)
class CompiledEntry:
    """A task list with what is known about it."""

    name: str
    network: Network
    program: VpuProgram
    inputs: dict[str, str]  # port -> value
    outputs: dict[str, str]
    homes: dict[str, tuple[str, int, int]]  # value of a port -> tensor, offset, pitch (elements)
    owners: dict[str, int]  # graph task -> call
    places: dict[str, Place] = field(default_factory=dict)  # graph task -> what its output is
    bound: int = 0
    state: tuple[str, ...] = ()  # inputs that stay in DDR from run to run

    def macs(self, call: Call) -> int:
        """Multiplications of a call, without padding."""
        values = self.network.values
        result = values[call.result]
        if call.family in ("linear", "convolution"):
            weight = values[call.operands["weight"]]
            return prod(result.shape) * prod(weight.shape[1:])
        if call.family == "matmul":
            return prod(result.shape) * values[call.operands["x"]].shape[-1]
        if call.family == "attention":
            q, k = values[call.operands["q"]], values[call.operands["k"]]
            heads = int(call.attributes["heads"])
            each = q.width // heads + result.width // heads
            return heads * q.rows * k.rows * each
        return 0

    def image(self) -> np.ndarray:
        """DDR before a run: constants where they belong."""
        ddr = self.program.tasks.ddr
        size = max((place + size for place, size in ddr.values()), default=0)
        memory = np.zeros(size, np.uint8)
        for name, content in self.program.constants.items():
            place, length = ddr[name]
            memory[place : place + len(content)] = np.frombuffer(content, np.uint8)
            assert len(content) <= length
        return memory

    def state_ranges(self) -> list[tuple[str, int, int]]:
        """State with the bytes of DDR from its first to behind its last."""
        found = []
        for port in self.state:
            value = self.network.values[self.inputs[port]]
            tensor, offset, pitch = self.homes[value.name]
            first = self.program.tasks.ddr[tensor][0] + offset * value.size
            end = first + ((value.rows - 1) * pitch + value.width) * value.size
            found.append((port, first, end))
        return found

    def view_of(self, memory: np.ndarray, name: str) -> np.ndarray:
        """A port's value in DDR in its own dimensions, without copying."""
        rows = self.rows_of(memory, name)
        value = self.network.values[name]
        pitch, strides = rows.strides[0], [value.size]
        for size in reversed(value.shape[1:]):
            strides.append(pitch if len(strides) == 1 else strides[-1] * size)
        return np.lib.stride_tricks.as_strided(rows, value.shape, strides[::-1])

    def rows_of(self, memory: np.ndarray, name: str) -> np.ndarray:
        """The rows of a port's value in DDR, without copying."""
        value = self.network.values[name]
        tensor, offset, pitch = self.homes[name]
        place, size = self.program.tasks.ddr[tensor]
        whole = memory[place : place + size].view(DTYPES[value.dtype])[offset:]
        return np.lib.stride_tricks.as_strided(
            whole, (value.rows, value.width), (pitch * value.size, value.size)
        )


# --- As JSON -------------------------------------------------------------------------------------


def entry_json(entry: CompiledEntry) -> dict[str, Any]:
    """Everything but the task list and the contents of constants."""
    network = entry.network
    return {
        "name": entry.name,
        "values": [
            [value.name, list(value.shape), value.dtype, _scale(value), value.data is not None]
            for value in network.values.values()
        ],
        "calls": [
            [call.name, call.family, dict(call.operands), call.result, dict(call.attributes),
             list(call.sources)]
            for call in network.calls
        ],
        "network_inputs": network.inputs,
        "network_outputs": network.outputs,
        "inputs": entry.inputs,
        "outputs": entry.outputs,
        "homes": {name: list(home) for name, home in entry.homes.items()},
        "owners": entry.owners,
        "places": {
            task: [p.value, p.rows.start, p.rows.stop, p.columns.start, p.columns.stop]
            for task, p in entry.places.items()
        },
        "bound": entry.bound,
        **({"state": list(entry.state)} if entry.state else {}),
    }  # fmt: skip


def _scale(value: Value) -> Any:
    if value.scale is None:
        return None
    return float(value.scale) if np.ndim(value.scale) == 0 else np.asarray(value.scale).tolist()


def entry_from(
    document: Any, program: VpuProgram, constants: Mapping[str, np.ndarray]
) -> CompiledEntry:
    """An entry from its JSON, its task list and the constants of its network; checked."""
    bad = TilewrightError("TW7034", "this compiled VPU model is damaged", hint="compile it again")
    try:
        network = Network()
        for name, shape, dtype, scale, known in document["values"]:
            if dtype not in DTYPES or not _is_shape(shape) or not _is_scale(scale):
                raise bad
            data = None
            if known:
                data = constants[f"{document['name']}/{name}"]
                if data.dtype != DTYPES[dtype] or data.shape != tuple(shape):
                    raise bad
            scale = np.asarray(scale) if isinstance(scale, list) else scale
            network.values[str(name)] = Value(str(name), tuple(map(int, shape)), dtype, scale, data)
        for name, family, operands, result, attributes, sources in document["calls"]:
            unknown = set(operands.values()) | {result}
            if not unknown <= network.values.keys() or not isinstance(attributes, dict):
                raise bad
            network.calls.append(
                Call(name, family, operands, result, tuples(attributes), tuple(sources))
            )
        network.inputs, network.outputs = document["network_inputs"], document["network_outputs"]
        entry = CompiledEntry(
            document["name"], network, program, document["inputs"], document["outputs"],
            {name: (home[0], int(home[1]), int(home[2])) for name, home in document["homes"].items()},
            {task: int(call) for task, call in document["owners"].items()},
            {
                task: Place(value, range(int(a), int(b)), range(int(c), int(d)))
                for task, (value, a, b, c, d) in document["places"].items()
            },
            int(document["bound"]),
            tuple(document.get("state", ())),
        )  # fmt: skip
        _check(entry, bad)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise bad from None
    return entry


def _check(entry: CompiledEntry, bad: TilewrightError) -> None:
    network, ddr = entry.network, entry.program.tasks.ddr
    if len(set(entry.state)) != len(entry.state) or not set(entry.state) <= entry.inputs.keys():
        raise bad
    for name in (*entry.inputs.values(), *entry.outputs.values()):
        value = network.values[name]
        tensor, offset, pitch = entry.homes[name]
        size = ddr[tensor][1]
        end = (offset + (value.rows - 1) * pitch + value.width) * value.size
        if offset < 0 or pitch < value.width or end > size:
            raise bad
    if any(not 0 <= call < len(network.calls) for call in entry.owners.values()):
        raise bad
    for place in entry.places.values():
        value = network.values[place.value]
        for part, size in ((place.rows, value.rows), (place.columns, value.width)):
            if not 0 <= part.start <= part.stop <= size:
                raise bad
    for item in entry.program.tasks.tasks.values():
        place = entry.places.get(item.task) if item.task else None
        if place is None:
            continue
        wanted = len(place.rows) * len(place.columns) * network.values[place.value].size
        if not item.writes or item.writes[0].bytes * item.writes[0].count != wanted:
            raise bad


def _is_shape(value: Any) -> bool:
    """Sizes of a tensor that memory could hold."""
    whole = isinstance(value, list) and all(type(n) is int and n > 0 for n in value)
    return whole and prod(value) <= _MOST_ELEMENTS


def _is_scale(value: Any) -> bool:
    """None, a number, or one for every channel."""
    every = value if isinstance(value, list) else [value]
    numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in every)
    return value is None or (bool(every) and numbers)
