"""A machine in one file: the smallest thing that is a target, and the template for another one.

One memory, four kernels on float32 by numpy; a step takes a cycle for every kilobyte of its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.printing import print_module
from tilewright.dialects.xdsl_api import DenseResourceAttr, ModuleOp, Operation, arith, func
from tilewright.io.archive import Member
from tilewright.io.json_tables import member_text
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.model.capture import Node, shape_of
from tilewright.model.parts import DEVICE, INPUT_PORTS, OUTPUT_PORTS, texts_of
from tilewright.model.prepare import Machine, prepare
from tilewright.targets import artifact as interface
from tilewright.targets.artifact import DevicePart, Finding, HostPart, Port, Step, Tensor
from tilewright.targets.checking import require
from tilewright.targets.compiled_model import CompiledModel, around
from tilewright.targets.target import Description, Family, Memory

FAMILY = Family("tiny", "numpy as a machine", ("tiny-1",), "tiny_machine:TinyTarget")
RAM = 1 << 16
KERNELS = {
    "matmul": lambda a, b: (a.astype(np.float64) @ b).astype(np.float32),
    "matmul_transposed": lambda a, b: (a.astype(np.float64) @ b.T).astype(np.float32),
    "elementwise_add": lambda a, b: a + b,
    "elementwise_relu": lambda a: np.maximum(a, np.float32(0)),
}


def supports(node: Node) -> str | None:
    """Why the host has to do it."""
    if node.family not in KERNELS:
        return f"tiny-1 has no {node.family}"
    plain = len(shape_of(node.operands[0])) == len(shape_of(node.result)) == 2
    if node.family != "matmul":
        plain &= all(node.reads(k) in ([0, 1], [1]) for k in range(len(node.operands)))
    return None if plain else "tiny-1 computes on matrices and rows only"


def kernel_of(op: Operation) -> str:
    if op.name == "npu_kernel.matmul":
        return "matmul_transposed" if "transpose_rhs" in op.properties else "matmul"
    return getattr(op.properties.get("symbol"), "data", op.name).removeprefix("npu_uk_")


class TinyArtifact:
    """The functions of the device, laid out: every value has a place of its own."""

    target, family, loops = "tiny-1", "tiny", ()

    def __init__(self, module: ModuleOp, weights: dict[str, np.ndarray]) -> None:
        self.module, self.weights = module, weights
        self.steps: list[Step] = []
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.entries: dict[str, range] = {}  # function -> its steps
        for function in module.ops:
            self._lay_out(cast(func.FuncOp, function))

    def _lay_out(self, function: func.FuncOp) -> None:
        block, first, name = function.body.block, len(self.steps), function.sym_name.data
        names: Any = dict(zip(block.args, texts_of(function, INPUT_PORTS), strict=True))
        *ops, last = block.ops
        names.update(zip(last.operands, texts_of(function, OUTPUT_PORTS), strict=True))
        for value in (*block.args, *(op.results[0] for op in ops)):
            names.setdefault(value, f"{name}.{len(names)}")
            shape, at = shape_of(value), max((one.end for one in self.tensors.values()), default=0)
            place = Tensor(names[value], "ram", at, 4 * math.prod(shape), "f32 rows", "activation")
            self.tensors.setdefault(place.name, replace(place, shape=shape, dtype="f32"))
        for op in ops:
            if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseResourceAttr):
                self.constants[names[op.result]] = self.weights[op.value.resource_handle.data]
            else:
                operands = {f"x{k}": names[value] for k, value in enumerate(op.operands)}
                operands["out"] = names[op.results[0]]
                cycles = sum(self.tensors[one].bytes for one in operands.values()) // 1024 + 1
                layer = getattr(op.attributes.get("tw.layer"), "data", kernel_of(op))
                self.steps.append(Step(layer, kernel_of(op), operands, bound=cycles))
        self.entries[name] = range(first, len(self.steps))

    def members(self) -> list[Member]:
        code = Member("program.mlir", [print_module(self.module).encode()])
        return [code, Member("weights", tensor_pieces(self.weights, "weights"))]

    def check(
        self, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
    ) -> Iterator[Finding]:
        if max((one.end for one in self.tensors.values()), default=0) > RAM:
            yield Finding("TINY1", f"the model takes more than {RAM:,} bytes")
        if not {step.kernel for step in self.steps} <= KERNELS.keys():
            yield Finding("TINY2", "there is a step of no kernel")
        if [part.entry for part in parts if isinstance(part, DevicePart)] != [*self.entries]:
            yield Finding("TINY3", "the parts of the model are not the functions of the program")
        if any(p.tensor and self.tensors[p.tensor].shape != p.shape for p in ports.values()):
            yield Finding("TINY4", "a port has another shape than its tensor")

    def bound(self) -> interface.Bound:
        return interface.Bound(sum(step.bound for step in self.steps), "the memory")

    def listing(self) -> str:
        return print_module(self.module)

    def device(self, options: interface.DeviceOptions) -> TinyDevice:
        return TinyDevice(self)

    def reference(self) -> TinyReference:
        return TinyReference(self)


class TinyReference:
    """Values by name: no memory, no time."""

    def __init__(self, artifact: TinyArtifact) -> None:
        self.artifact, self.values = artifact, dict[str, np.ndarray]()
        self.memory = np.zeros(RAM, np.uint8)  # of the device
        self.calls: list[interface.StepCall] = []

    def begin(self) -> None:
        self.calls = []
        for name, value in self.artifact.constants.items():
            self.put(name, value)

    def put(self, tensor: str, value: np.ndarray) -> None:
        self.values[tensor] = value

    def get(self, tensor: str) -> np.ndarray:
        return self.values[tensor]

    def write(self, port: Port, value: np.ndarray) -> None:
        self.put(port.tensor or "", value)

    def read(self, port: Port) -> np.ndarray:
        return self.get(port.tensor or "")

    def run(self, part: DevicePart, watch: interface.Watch | None = None) -> None:
        for index in self.artifact.entries[part.entry]:
            step, start = self.artifact.steps[index], self.cycles
            reads = {p: self.get(name) for p, name in step.operands.items() if p != "out"}
            self.put(step.operands["out"], KERNELS[step.kernel](*reads.values()))
            span, busy = (start, start + step.bound), {"ALU": step.bound}
            self.calls.append(interface.StepCall(index, 0, step.name, *span, busy))
            if watch is not None:
                out = self.get(step.operands["out"])
                watch(interface.StepValues(index, 0, reads, {"out": out}))

    @property
    def cycles(self) -> int:
        return self.calls[-1].end if self.calls else 0

    @property
    def counters(self) -> interface.Counters:
        return interface.Counters(self.cycles, len(self.calls), busy={"ALU": self.cycles})

    def trace(self) -> None:
        return None


class TinyDevice(TinyReference):
    """The same through a memory of bytes, where what lies in a wrong place shows."""

    def put(self, tensor: str, value: np.ndarray) -> None:
        place = self.artifact.tensors[tensor]
        self.memory[place.address : place.end] = np.frombuffer(value.tobytes(), np.uint8)

    def get(self, tensor: str) -> np.ndarray:
        place = self.artifact.tensors[tensor]
        return self.memory[place.address : place.end].view(np.float32).reshape(place.shape).copy()


@dataclass(frozen=True)
class TinyTarget:
    name: str
    family: str = "tiny"

    def describe(self) -> Description:
        memories, formats = (Memory("ram", RAM),), ("f32",)
        return Description(self.name, "tiny", "numpy", memories, formats, ("values",))

    def compile(self, model: Any, options: Any, samples: Any, progress: Any) -> CompiledModel[Any]:
        found = prepare(model, Machine("tiny-1", supports), options, samples, progress)
        code = ModuleOp([function.clone() for function in found.parts.functions(DEVICE)])
        compiled = around(TinyArtifact(code, found.parts.weights), found)
        require(compiled)
        return compiled

    def read(self, members: Mapping[str, np.ndarray], place: Any) -> TinyArtifact:
        module = parse_text(member_text(members, "program.mlir", place), str(place.file))
        verify_module(module)
        return TinyArtifact(module, read_tensors(members["weights"], "weights", place))
