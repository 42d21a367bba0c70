"""Coral as a target: from a model at the waist to an artifact of ELFs.

What the core cannot run stays with the host by the plan that `model.prepare` makes; every run of
operations between two host parts becomes one ELF.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.dialects.xdsl_api import ModuleOp, StringAttr, func
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.io.pieces import Content
from tilewright.model.calibrate import example_inputs, input_meanings
from tilewright.model.capture import Constants, Graph, Node, dtype_of
from tilewright.model.options import CompileOptions, Progress
from tilewright.model.partition import COPIED, main_of
from tilewright.model.parts import DEVICE, Part, Parts
from tilewright.model.prepare import Machine, Prepared, prepare
from tilewright.model.sample_values import with_others_like_it
from tilewright.targets.artifact import DevicePart, HostPart, Port
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.coral.artifact import CoralArtifact, Entry, read_artifact
from tilewright.targets.coral.budget import check_ports
from tilewright.targets.coral.compile import CoralModel, CoralOptions, compile_model
from tilewright.targets.coral.describe import describe
from tilewright.targets.coral.device import ReferenceDevice
from tilewright.targets.coral.from_kernels import Adapter
from tilewright.targets.coral.machines import CoralMachine, machine_named
from tilewright.targets.coral.program import DTYPES
from tilewright.targets.coral.tensors import steps_of, tensors_of
from tilewright.targets.target import Description


def find(name: str | Path) -> CoralTarget:
    """A machine by its name."""
    return CoralTarget(machine_named(str(name)))


class CoralTarget:
    """One variant of the core, to compile for."""

    family = "coral"
    number_formats = ("int8", "none")
    calibrated_formats = ("int8",)
    calibration_samples = 32  # when nobody gives any

    def __init__(self, machine: CoralMachine) -> None:
        self.machine = machine

    @property
    def name(self) -> str:
        return self.machine.name

    def describe(self) -> Description:
        return describe(self.machine)

    def check_sizes(self, model: Imported, quantize: str | None) -> None:
        """Refuse inputs and outputs that no arrangement could place, before any work."""
        floats = "i8" if quantize == "int8" else "f32"
        ports = []
        for spec in (*model.inputs, *model.outputs):
            dtype = floats if spec.dtype == "f32" else spec.dtype
            size = DTYPES[dtype].itemsize if dtype in DTYPES else 1
            ports.append((str(spec), prod(spec.shape) * size))
        check_ports(ports, self.machine, Location(model.source))

    def read(self, members: Mapping[str, Content], place: Location) -> CoralArtifact:
        return read_artifact(members, place)

    def compile(
        self,
        model: Imported,
        options: CompileOptions,
        samples: Sequence[Mapping[str, np.ndarray]],
        progress: Progress,
    ) -> CompiledModel[CoralArtifact]:
        """The programs of a model; fails with a table when one does not fit."""
        chosen = coral_options(options)
        if not samples and chosen.precision == "int8":
            count = self.calibration_samples
            samples = [example_inputs(model, options.seed + k) for k in range(count)]
        elif len(samples) == 1 and chosen.precision == "int8":
            count, known = self.calibration_samples, input_meanings(model)
            samples = with_others_like_it(samples[0], count, options.seed, known)
        prepared = prepare(model, Machine(self.name, refusal), options, samples, progress)
        began = time.perf_counter()
        parts = _whole(prepared)
        entries: list[Entry] = []
        phases = dict(prepared.phases)
        quantisation: dict[str, Any] = {}
        values = [dict(sample) for sample in prepared.samples]
        for part in parts.parts:
            if part.on_host:
                _run_host(parts, part, values)
                continue
            own = [[sample[name] for name in part.inputs] for sample in values]
            made = compile_model(
                function_model(parts, part),
                self.machine,
                chosen,
                own,
                lambda text, part=part: progress(text, part.function),
            )
            entry = _entry(part, made)
            entries.append(entry)
            suffix = "" if len(parts.device_parts) == 1 else f" {part.function}"
            for name, text in made.phases.items():
                stem, _, kind = name.partition(".")
                phases[f"{stem}{suffix}.{kind or 'txt'}"] = text
            instructions = (f"{x.address:8x}: {x.word:08x}  {x.text}\n" for x in entry.lines)
            phases[f"5-instructions{suffix}.txt"] = "".join(instructions)
            _run_device(self.machine, entry, part, values)
            for name, level in made.sqnr.items():
                quantisation[name] = {"format": "int8", "sqnr_db": level}
        artifact = CoralArtifact(self.machine, entries)
        return CompiledModel(
            name=Path(model.source).name or "model",
            artifact=artifact,
            ports=_ports(parts, entries),
            inputs=tuple(spec.name for spec in parts.inputs),
            outputs=tuple(spec.name for spec in parts.outputs),
            parts=[_part(part) for part in parts.parts],
            host_module=print_module(parts.host_module) if parts.host_parts else "",
            host_weights=dict(parts.host_weights),
            state=dict(parts.state),
            provenance={"target": self.name, **prepared.provenance(), **_said(chosen)},
            phases=phases,
            quantisation=quantisation,
            timing={**prepared.timing, "build": time.perf_counter() - began},
        )


def _whole(prepared: Prepared) -> Parts:
    """The parts of a model; one for the device where the host would only copy outputs."""
    parts = prepared.parts
    if not parts.host_parts or any(not text.endswith(COPIED) for text in prepared.reasons):
        return parts
    model = prepared.model if prepared.smoothed is None else prepared.smoothed.model
    inputs, outputs = (tuple(s.name for s in specs) for specs in (model.inputs, model.outputs))
    function = main_of(model.module).clone()
    function.properties["sym_name"] = StringAttr("device_0")
    part = Part("device_0", DEVICE, inputs, outputs)
    ports = {name: port for name, port in parts.ports.items() if name in {*inputs, *outputs}}
    return replace(
        parts, module=ModuleOp([function]), weights=model.weights, parts=(part,), ports=ports
    )


def coral_options(options: CompileOptions) -> CoralOptions:
    """What people asked for, as the compiler takes it."""
    precision = "int8" if options.quantize == "int8" else "keep"
    return CoralOptions(precision, fuse=options.fuse, ranges=options.ranges)


def refusal(node: Node) -> str | None:
    """Why the core cannot run an operation, in a sentence."""
    graph = Graph(ModuleOp([]), {}, [], [node], Constants())
    adapter = Adapter(graph, "")
    place = node.location or Location("<model>")
    try:
        for value in (*dict.fromkeys(node.operands), node.result):
            if dtype_of(value) not in DTYPES:
                return f"the core has no {dtype_of(value)}"
            adapter.declare(value, adapter.fresh("value"), "an operand", place)
        adapter.current = node
        adapter.convert(node)
    except TilewrightError as error:
        return error.message.removeprefix(f"{node.family}: ")
    return None


def function_model(parts: Parts, part: Part) -> Imported:
    """A device function as a model of its own."""
    function = parts.function(part.function).clone()
    assert isinstance(function, func.FuncOp)
    function.properties["sym_name"] = StringAttr("main")
    specs = [
        tuple(TensorSpec(n, parts.ports[n].shape, parts.ports[n].dtype) for n in names)
        for names in (part.inputs, part.outputs)
    ]
    return Imported(ModuleOp([function]), parts.weights, specs[0], specs[1], parts.source)


def _entry(part: Part, made: CoralModel) -> Entry:
    steps = steps_of(made, part.function)
    return Entry(
        part.function,
        made.build.elf,
        made.source,
        made.program,
        steps,
        tensors_of(made, part.function),
        {**made.sizes, "fits": made.fits},
        {name: level for name, level in made.sqnr.items() if np.isfinite(level)},
    )


def _run_host(parts: Parts, part: Part, values: list[dict[str, np.ndarray]]) -> None:
    """Calibration samples through a host part."""
    if part is parts.parts[-1]:
        return
    from tilewright.reference.executor import Executor

    executor = Executor(parts.module, parts.weights)
    for sample in values:
        results = executor.run([sample[name] for name in part.inputs], part.function)
        sample.update(zip(part.outputs, results, strict=True))


def _run_device(
    machine: CoralMachine, entry: Entry, part: Part, values: list[dict[str, np.ndarray]]
) -> None:
    """Calibration samples through a device part, by its reference."""
    device = ReferenceDevice(CoralArtifact(machine, [entry]))
    for sample in values:
        device.values = dict(sample)
        device.run(DevicePart(part.function, part.inputs, part.outputs))
        sample.update(device.values)


def _part(part: Part) -> HostPart | DevicePart:
    if part.on_host:
        return HostPart(part.function, part.inputs, part.outputs, part.reasons)
    return DevicePart(part.function, part.inputs, part.outputs)


def _ports(parts: Parts, entries: Sequence[Entry]) -> dict[str, Port]:
    """Every port with the symbol that holds it, of the program that writes it or first reads it."""
    tensors: dict[str, str] = {}
    programs = {entry.name: entry for entry in entries}
    for part in parts.device_parts:
        for stem, names in (("input", part.inputs), ("output", part.outputs)):
            for index, name in enumerate(names):
                tensors.setdefault(name, f"{programs[part.function].name}.{stem}_{index}")
    return {
        port.name: Port(port.name, port.shape, port.dtype, tensors.get(port.name))
        for port in parts.ports.values()
    }


def _said(options: CoralOptions) -> dict[str, Any]:
    from tilewright.targets.coral.toolchain import toolchain_version

    said = {"precision": options.precision, "fuse": options.fuse, "stack": options.stack}
    return {
        "options": said if options.ranges == "max" else {**said, "ranges": options.ranges},
        "toolchain": toolchain_version(),
    }
