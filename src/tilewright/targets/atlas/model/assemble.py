"""A compiled model put together: code, regions, steps, ports, and the texts people read."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.model.parts import INPUT_PORTS, OUTPUT_PORTS, PLACE, REASONS
from tilewright.model.parts import Parts as Encoded
from tilewright.targets.artifact import HostPart, LayerLoop, Port
from tilewright.targets.atlas.artifact.atlas_artifact import (
    REARRANGED,
    AtlasArtifact,
    Region,
    Rows,
    Step,
    compiled_parts,
    copy_of,
)
from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment, PrefetchedRows
from tilewright.targets.atlas.model.kernel_code import KernelCode
from tilewright.targets.atlas.model.launches import Launch, LaunchProgram, StoredTensor
from tilewright.targets.atlas.model.link import Linked, link
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.compiled_model import CompiledModel
from tilewright.tile.layouts import Layout

NOTHING = np.zeros(0, np.uint8)  # content that was let go


def assemble(
    encoded: Encoded,
    program: LaunchProgram,
    places: BufferAssignment,
    made: list[KernelCode],
    profile: Profile,
    instruction_memory: int,
    phases: dict[str, str],
    release: bool = False,
) -> CompiledModel[AtlasArtifact]:
    """The model with its code linked; provenance and second opinions are left to the caller.

    release: weights of the program are not needed any more, and are let go on the way.
    """
    linked = Linked()
    runs: list[HostPart | tuple[tuple[int, ...], Any, Any]] = []
    for part in encoded.parts:
        if part.on_host:
            runs.append(HostPart(part.function, part.inputs, part.outputs, part.reasons))
            continue
        order = link(
            program.launches, made, program.layer_loops, places, profile,
            *program.spans[part.function], linked, instruction_memory,
        )  # fmt: skip
        runs.append((tuple(order), part.inputs, part.outputs))
    regions, weights = _regions(program, places, made, release)
    steps = [_step(call, index, linked, places) for index, call in enumerate(program.launches)]
    ports = {
        name: Port(
            name,
            port.shape,
            port.dtype,
            program.ports.get(name),
            program.turns.get(name),
            program.encodings.get(name),
        )
        for name, port in encoded.ports.items()
    }
    sequence, entries = compiled_parts(ports, runs)
    phases["kernels"] = _listing(program, places)
    for call, kernel in zip(program.launches, made, strict=True):
        phases[f"schedule {call.name}"] = kernel.schedule
    return CompiledModel(
        name=encoded.source,
        artifact=AtlasArtifact(
            profile=profile,
            segments=linked.segments,
            regions=regions,
            steps=steps,
            loops=[LayerLoop(r.count, r.first, r.end, r.names) for r in program.layer_loops],
            entries=entries,
            weights=weights,
        ),
        ports=ports,
        inputs=tuple(spec.name for spec in encoded.inputs),
        outputs=tuple(spec.name for spec in encoded.outputs),
        parts=sequence,
        host_module=_host_text(encoded),
        host_weights=encoded.host_weights,
        state=dict(encoded.state),
        phases=phases,
        quantisation=_quantisation(program),
    )


def _host_text(encoded: Encoded) -> str:
    """The functions of the host as MLIR, without notes."""
    module = encoded.host_module
    for function in module.ops:
        for note in (PLACE, INPUT_PORTS, OUTPUT_PORTS, REASONS):
            function.attributes.pop(note, None)
    return print_module(module) if list(module.ops) else ""


def _regions(
    program: LaunchProgram, places: BufferAssignment, made: list[KernelCode], release: bool
) -> tuple[dict[str, Region], dict[str, np.ndarray]]:
    """The place of every tensor, and the bytes of those that have a content.

    release: nobody will ask for the contents again, so that they make room for the bytes.
    """
    regions: dict[str, Region] = {}
    weights: dict[str, np.ndarray] = {}
    rounds = {t: (r, n) for n, r in enumerate(program.layer_loops) for t in r.own}
    count = len(program.launches)
    uses = Counter(one for loop in program.layer_loops for e in loop.own.values() for one in e)
    uses.update(
        t for t in {t for c in program.launches for t in c.tensors.values()} - rounds.keys()
    )
    shared = {tensor for tensor, times in uses.items() if times > 1}
    for tensor in dict.fromkeys(t for call in program.launches for t in call.tensors.values()):
        life, stay = places.lives[tensor], places.stays.get(tensor)
        if stay is not None:
            name = on_chip_name(tensor, places)
            place = places.vmem[tensor]
            regions[name] = Region(
                name, "vmem", place, tensor.layout, "activation", stay.first, stay.until
            )
        if stay is not None and stay.whole:
            continue
        whole = tensor.kind != "activation"
        first, last = (0, count - 1) if whole else (life.first, life.last)
        turns, stride = 1, 0
        if tensor in rounds:
            repeat, number = rounds[tensor]
            turns, stride = repeat.count, places.stride[number]
        place, name = places.dram[tensor], tensor.name
        regions[name] = Region(
            name, "dram", place, tensor.layout, tensor.kind, first, last, turns, stride
        )
        if tensor.content is not None:
            every = rounds[tensor][0].own[tensor] if tensor in rounds else [tensor]
            last = release and not shared.intersection(every)
            weights[name] = _packed(every, last)
            if last:
                tensor.content = NOTHING  # it stands for the first of them
    for one in (*places.prefetched, *places.begun):
        name = prefetched_name(one)
        rows = Rows(one.tensor.name, one.offset, one.bytes, one.rows, one.stride)
        regions[name] = Region(
            name, "vmem", one.address, _flat(one.size), "activation", one.carrier, one.reader,
            copied=rows,
        )  # fmt: skip
    for call, kernel in zip(program.launches, made, strict=True):
        for number, (address, content) in enumerate(kernel.data):
            name = f"{call.name}.constant{number}"
            while name in regions:
                name += "'"
            layout = _flat(len(content))
            regions[name] = Region(name, "dram", address, layout, "constant", 0, count - 1)
            weights[name] = np.frombuffer(content, np.uint8)
    return regions, weights


def _flat(bytes: int) -> Layout:
    """Bytes one behind the other."""
    return Layout((bytes // 32, 32), "fp8")


def prefetched_name(one: PrefetchedRows) -> str:
    """The name of the place of prefetched rows."""
    return f"{one.tensor.name}@vmem{one.offset}for{one.reader}"


def on_chip_name(tensor: StoredTensor, places: BufferAssignment) -> str:
    """The name of a tensor's place in VMEM; one that is in DRAM too has two places."""
    return tensor.name if places.stays[tensor].whole else f"{tensor.name}@vmem"


def _packed(tensors: list[StoredTensor], last: bool) -> np.ndarray:
    """The bytes of tensors side by side; after the last use their contents are let go one by one."""
    size = tensors[0].layout.bytes
    packed = np.empty((len(tensors), size), np.uint8)
    for row, tensor in zip(packed, tensors, strict=True):
        assert tensor.content is not None
        row[:] = np.frombuffer(tensor.layout.pack(tensor.content), np.uint8)
        if last:
            tensor.content = NOTHING
    return packed.reshape(-1)


def _step(call: Launch, index: int, linked: Linked, places: BufferAssignment) -> Step:
    segment, first, end = linked.spans[index]
    operands, copies = {}, [*places.prefetched, *places.begun]
    for parameter, tensor in call.tensors.items():
        here = places.on_chip(tensor, index)
        operands[parameter] = on_chip_name(tensor, places) if here else tensor.name
    for result, tensor in call.results.items():
        stay = places.stays.get(tensor)
        if stay is not None and not stay.whole:
            operands[copy_of(result)] = tensor.name
    return Step(
        call.name, call.kernel, operands, call.options, call.sources, call.macs,
        rearranged=call.kernel in REARRANGED, segment=segment, first_word=first, end_word=end,
        brings=tuple(prefetched_name(p) for p in copies if p.carrier == index),
        finds=tuple(prefetched_name(p) for p in copies if p.reader == index),
    )  # fmt: skip


def _listing(program: LaunchProgram, places: BufferAssignment) -> str:
    """The calls as text, one per line, with the place of every tensor."""
    rows = []
    for index, call in enumerate(program.launches):
        for repeat in program.layer_loops:
            if repeat.first == index:
                rows.append(f"rounds {repeat.count} {{  // {', '.join(repeat.names)}")

        def shown(tensor: StoredTensor) -> str:
            shape = "x".join(map(str, tensor.layout.shape))
            stay = places.stays.get(tensor)
            space = "dram" if stay is None else "vmem" if stay.whole else "vmem+dram"
            return f"%{tensor.name} : {shape}x{tensor.layout.dtype} {tensor.layout.order} {space}"

        inside = any(r.first <= index < r.end for r in program.layer_loops)
        operands = ", ".join(f"{p} = {shown(t)}" for p, t in call.operands.items())
        options = json.dumps(call.options, default=str)
        left = ", ".join(shown(tensor) for tensor in call.results.values())
        rows.append(
            f"{'  ' if inside else ''}{left} = {call.kernel}({operands}) {options}  // {call.name}"
        )
        rows += ["}" for repeat in program.layer_loops if repeat.end == index + 1]
    return "\n".join(rows) + "\n"


def _quantisation(program: LaunchProgram) -> dict[str, Any]:
    """Formats and scales, by tensor."""
    result: dict[str, Any] = {}
    for launch in program.launches:
        for tensor in launch.results.values():  # all of one scale
            if tensor.layout.dtype == "fp8":
                result[tensor.name] = {
                    "layer": launch.name,
                    "format": "f8E4M3FN",
                    "scale": launch.scale,
                    "largest": launch.largest,
                }
    return result
