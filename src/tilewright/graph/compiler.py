"""From a model to a program: simplify, lower, calibrate, fold layers, place, generate, link."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import tilewright
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.graph.accuracy import meaning_of, measure, note_accuracy
from tilewright.graph.bounds import bound_of
from tilewright.graph.calibrate import calibrate, example_inputs
from tilewright.graph.calls import Call, Tensor
from tilewright.graph.capture import Graph, capture
from tilewright.graph.host import Parts, split_parts
from tilewright.graph.link import Generator, Linked, link
from tilewright.graph.lowering import Lowered, Lowering
from tilewright.graph.placement import Places, place, starved
from tilewright.graph.residence import base_room
from tilewright.graph.rounds import Folded
from tilewright.runtime.compiled_model import (
    CompiledModel,
    DevicePart,
    HostPart,
    Region,
    Rounds,
    Step,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.compiler import PlacedKernel
from tilewright.tile.layouts import Layout
from tilewright.transforms.simplify import simplify

TRIES = 24  # placements until every kernel has the room it needs
Progress = Callable[[str, str], None]  # phase, detail


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    fuse: keep intermediate results in VMEM and chains of operations in one kernel.
    host: layers the host runs on request. no_host: nothing may run on the host.
    accuracy: note how far every layer is from float32, on the first calibration sample.
    """

    fuse: bool = True
    host: tuple[str, ...] = ()
    no_host: bool = False
    rounds: bool = True
    instruction_memory: int = 32768
    seed: int = 0
    accuracy: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "fuse": self.fuse,
            "host": list(self.host),
            "no_host": self.no_host,
            "rounds": self.rounds,
            "seed": self.seed,
            "accuracy": self.accuracy,
        }


@dataclass
class _State:
    timing: dict[str, float] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)


def compile_model(
    model: Imported,
    profile: Profile,
    options: CompileOptions | None = None,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
    progress: Progress = lambda phase, detail: None,
) -> CompiledModel:
    """The program of a model, ready to run, save and verify."""
    options = options or CompileOptions()
    state = _State()

    @contextmanager
    def phase(name: str):
        progress(name, "")
        start = time.perf_counter()
        yield
        state.timing[name] = time.perf_counter() - start

    state.phases["imported"] = str(model.module)
    with phase("simplify"):
        simple = simplify(model)
        state.phases["simplified"] = str(simple.module)
    with phase("lower"):
        graph = capture(simple)
        lowered = Lowering(graph, options.fuse, set(options.host)).run()
        parts = split_parts(graph, lowered, simple.weights)
        if options.no_host and parts.reasons:
            _refuse_host(parts)
    with phase("calibrate"):
        samples = list(calibration) or [example_inputs(simple, options.seed)]
        calibrate(simple, lowered.magnitudes, samples)
    meanings = [meaning_of(call) for call in parts.calls if call.kernel != "copy"]
    with phase("fold layers"):
        folded = parts.fold(options.rounds)
    with phase("place and generate"):
        places, made = _generate(folded, parts, profile, options, progress)
    with phase("link"):
        result = _assemble(
            simple, graph, lowered, parts, folded, places, made, profile, options, state
        )
        _note_bound(result)
    if options.accuracy:
        with phase("accuracy"):
            note_accuracy(result, measure(result, simple, meanings, samples[0]))
    result.timing = dict(state.timing)
    return result


def _refuse_host(parts: Parts) -> None:
    node, reason = next(iter(parts.reasons.items()))
    raise TilewrightError(
        "TW1707",
        f"{node.layer or node.family} would run on the host: {reason}",
        node.location,
        f"{len(parts.reasons)} operations would; compile without --no-host to allow it",
    )


def _generate(
    folded: Folded, parts: Parts, profile: Profile, options: CompileOptions, progress: Progress
) -> tuple[Places, list[PlacedKernel]]:
    """Places and code; where a kernel needs more room, fewer tensors stay in VMEM."""
    generator = Generator(profile, folded.calls, folded.repeats)
    more: dict[int, int] = {}
    slack, borders = 0, parts.borders()
    for _ in range(TRIES):
        try:
            places = place(
                folded.calls, folded.repeats, profile, options.fuse, borders, more, slack
            )
        except TilewrightError as error:
            if error.code != "TW1406" and error.code != "TW1408":
                raise
            slack += profile.vmem_bytes // 32
            continue
        staged = starved(folded.calls, places, profile) if options.fuse else []
        if staged:
            _stage(folded, parts, staged[0])
            generator, more = Generator(profile, folded.calls, folded.repeats), {}
            borders = parts.borders()
            continue
        made, lacking = generator.lower(places)
        if not lacking:
            finished = []
            for call, kernel in zip(folded.calls, made, strict=True):
                progress("place and generate", call.name)
                finished.append(kernel.finish())
            return places, finished
        for index, bytes in lacking.items():
            more[index] = more.get(index, 0) + max(4096, bytes)
            if more[index] > 4 * profile.vmem_bytes:
                raise TilewrightError(
                    "TW1708",
                    f"{folded.calls[index].name} does not fit: it lacks {bytes // 1024} KiB of "
                    f"the {profile.vmem_bytes // 1024} KiB of VMEM of {profile.name}",
                )
    worst = max(folded.calls, key=base_room)
    raise TilewrightError(
        "TW1708",
        f"no placement leaves every kernel enough VMEM: {worst.name} needs about "
        f"{base_room(worst) // 1024} KiB for itself, {profile.name} has "
        f"{profile.vmem_bytes // 1024} KiB",
    )


def _stage(folded: Folded, parts: Parts, index: int) -> None:
    """Copy a call's left operand to VMEM first."""
    call = folded.calls[index]
    source = call.operands["a"]
    layout = source.layout
    out = Tensor(f"{source.name}.staged", layout, "activation", None, source.value, source.scale)
    options = {"rank": len(layout.shape), "dtype": layout.dtype}
    copy = Call(f"{source.name} to VMEM", "copy", {"x": source}, out, options)
    call.operands = {p: out if t is source else t for p, t in call.operands.items()}
    folded.calls.insert(index, copy)
    for repeat in folded.repeats:
        repeat.first += repeat.first > index
        repeat.end += repeat.end > index
    parts.spans = [(first + (first > index), end + (end > index)) for first, end in parts.spans]


def _assemble(
    model: Imported,
    graph: Graph,
    lowered: Lowered,
    parts: Parts,
    folded: Folded,
    places: Places,
    made: list,
    profile: Profile,
    options: CompileOptions,
    state: _State,
) -> CompiledModel:
    linked = Linked()
    runs: list[HostPart | DevicePart] = []
    for part in parts.sequence():
        if isinstance(part, HostPart):
            runs.append(part)
            continue
        order = link(
            folded.calls, made, folded.repeats, places, profile,
            part.first, part.end, linked, options.instruction_memory,
        )  # fmt: skip
        runs.append(DevicePart(tuple(order), part.inputs, part.outputs))
    regions, weights = _regions(folded, places, made)
    steps = [_step(call, index, linked, regions) for index, call in enumerate(folded.calls)]
    ports = parts.ports()
    state.phases["kernels"] = _listing(folded, places)
    for call, kernel in zip(folded.calls, made, strict=True):
        state.phases[f"schedule {call.name}"] = str(kernel.module)
    return CompiledModel(
        name=model.source,
        profile=profile,
        segments=linked.segments,
        regions=regions,
        steps=steps,
        rounds=[Rounds(r.count, r.first, r.end, r.names) for r in folded.repeats],
        ports=ports,
        inputs=tuple(spec.name for spec in model.inputs),
        outputs=tuple(spec.name for spec in model.outputs),
        parts=runs,
        weights=weights,
        host_module=parts.host_text(),
        host_weights=parts.host_weights,
        state=dict(model.state),
        provenance={
            "compiler": f"tilewright {tilewright.__version__}",
            "target": profile.name,
            "options": options.to_json(),
            "model": model.source,
            "model_hash": model_hash(model),
        },
        phases=state.phases,
        quantisation=_quantisation(folded),
    )


def _note_bound(model: CompiledModel) -> None:
    """Fill in what no program can beat, for every step and as a whole."""
    bound = bound_of(model)
    model.steps = [
        replace(step, bound=one.cycles)
        for step, one in zip(model.steps, bound.per_step, strict=True)
    ]
    model.provenance["bound"] = bound.total
    model.provenance["bound_cause"] = bound.cause
    model.provenance["bound_terms"] = bound.terms


def _regions(
    folded: Folded, places: Places, made: list
) -> tuple[dict[str, Region], dict[str, np.ndarray]]:
    regions: dict[str, Region] = {}
    weights: dict[str, np.ndarray] = {}
    rounds = {t: (r, n) for n, r in enumerate(folded.repeats) for t in r.weights}
    count = len(folded.calls)
    for call in folded.calls:
        for tensor in call.tensors.values():
            if tensor.name in regions:
                continue
            space = "vmem" if tensor in places.vmem else "dram"
            address = places.vmem.get(tensor, places.dram.get(tensor, 0))
            life = places.lives[tensor]
            whole = tensor.kind in ("weight", "constant", "input", "output")
            first, last = (0, count - 1) if whole else (life.first, life.last)
            if tensor in places.stays:
                last = places.stays[tensor].until
            turns, stride = 1, 0
            if tensor in rounds:
                repeat, number = rounds[tensor]
                turns, stride = repeat.count, places.stride[number]
            regions[tensor.name] = Region(
                tensor.name, space, address, tensor.layout, tensor.kind, first, last, turns, stride
            )  # pyright: ignore[reportArgumentType]
            if tensor.content is not None:
                every = rounds[tensor][0].weights[tensor] if tensor in rounds else [tensor]
                weights[tensor.name] = _packed(every)
    for call, kernel in zip(folded.calls, made, strict=True):
        for number, (address, content) in enumerate(kernel.data):
            name = f"{call.name}.constant{number}"
            while name in regions:
                name += "'"
            layout = Layout((len(content) // 32, 32), "fp8")
            regions[name] = Region(name, "dram", address, layout, "constant", 0, count - 1)
            weights[name] = np.frombuffer(content, np.uint8)
    return regions, weights


def _packed(tensors: list[Tensor]) -> np.ndarray:
    rows = []
    for tensor in tensors:
        assert tensor.content is not None
        array = np.asarray(tensor.content(), np.float32).reshape(tensor.layout.shape)
        rows.append(np.frombuffer(tensor.layout.pack(array), np.uint8))
    return rows[0] if len(rows) == 1 else np.stack(rows).reshape(-1)


def _step(call: Call, index: int, linked: Linked, regions: Mapping[str, Region]) -> Step:
    segment, first, end = linked.spans[index]
    operands = {parameter: tensor.name for parameter, tensor in call.tensors.items()}
    return Step(
        call.name, call.kernel, operands, call.all_options(), segment, first, end,
        call.sources, call.macs,
    )  # fmt: skip


def _listing(folded: Folded, places: Places) -> str:
    """The calls as text, one per line, with the place of every tensor."""
    rows = []
    for index, call in enumerate(folded.calls):
        for repeat in folded.repeats:
            if repeat.first == index:
                rows.append(f"rounds {repeat.count} {{  // {', '.join(repeat.names)}")

        def shown(tensor: Tensor) -> str:
            shape = "x".join(map(str, tensor.layout.shape))
            stay = places.stays.get(tensor)
            space = "dram" if stay is None else "vmem" if stay.whole else "vmem+dram"
            return f"%{tensor.name} : {shape}x{tensor.layout.dtype} {tensor.layout.order} {space}"

        inside = any(r.first <= index < r.end for r in folded.repeats)
        operands = ", ".join(f"{p} = {shown(t)}" for p, t in call.operands.items())
        options = json.dumps(call.all_options(), default=str)
        rows.append(
            f"{'  ' if inside else ''}{shown(call.output)} = {call.kernel}({operands}) {options}"
            f"  // {call.name}"
        )
        rows += ["}" for repeat in folded.repeats if repeat.end == index + 1]
    return "\n".join(rows) + "\n"


def _quantisation(folded: Folded) -> dict[str, Any]:
    """Formats and scales, by tensor."""
    result: dict[str, Any] = {}
    for call in folded.calls:
        if call.output.layout.dtype == "fp8":
            scale = call.output.scale
            result[call.output.name] = {
                "layer": call.name,
                "format": "f8E4M3FN",
                "scale": scale.scale() if scale else None,
                "largest": scale.largest if scale else None,
            }
    return result


def model_hash(model: Imported) -> str:
    """A hash of the model's operations and weights."""
    digest = hashlib.sha256(str(model.module).encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(model.weights[name]).tobytes())
    return digest.hexdigest()
