"""From a model to a program: simplify, lower, calibrate, fold layers, place, generate, link, check."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import tilewright
from tilewright.dialects.printing import print_module
from tilewright.dialects.work_estimate import share_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import calibrate, example_inputs
from tilewright.model.capture import capture
from tilewright.model.digest import model_hash
from tilewright.model.meanings import meanings_of
from tilewright.model.options import CompileOptions, Progress
from tilewright.model.parts import Parts as Encoded
from tilewright.model.parts import first_values
from tilewright.model.simplify import simplify
from tilewright.model.smooth import smooth
from tilewright.targets.artifact import Bound
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.model.accuracy import meaning_of, measure, note_accuracy
from tilewright.targets.atlas.model.assemble import assemble
from tilewright.targets.atlas.model.bounds import bound_of
from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment, may_join
from tilewright.targets.atlas.model.calls import Call, let_go_of_codes
from tilewright.targets.atlas.model.decode import read_launches
from tilewright.targets.atlas.model.encode import encode
from tilewright.targets.atlas.model.fitting import fit
from tilewright.targets.atlas.model.heads import FEWER_KEYS
from tilewright.targets.atlas.model.host import Parts, split_parts
from tilewright.targets.atlas.model.joining import finish
from tilewright.targets.atlas.model.kernel_code import KernelCode, LaunchRefused
from tilewright.targets.atlas.model.kernels_products import mark_products
from tilewright.targets.atlas.model.launches import Launch, LaunchProgram
from tilewright.targets.atlas.model.lowering import IN_PASSES, Lowering
from tilewright.targets.atlas.model.row_layout import lower
from tilewright.targets.atlas.model.values import host_graph, value_graph
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.checking import require
from tilewright.targets.compiled_model import CompiledModel


def compile_model(
    model: Imported,
    profile: Profile,
    options: CompileOptions | None = None,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
    progress: Progress = lambda phase, detail: None,
) -> CompiledModel[AtlasArtifact]:
    """The program of a model, ready to run, save and verify."""
    options = options or CompileOptions()
    timing: dict[str, float] = {}
    phases = {"imported": print_module(model.module)}

    @contextmanager
    def phase(name: str):
        progress(name, "")
        start = time.perf_counter()
        yield
        timing[name] = timing.get(name, 0.0) + time.perf_counter() - start

    with phase("simplify"):
        simple = simplify(model)
        phases["simplified"] = print_module(simple.module)
        graph = capture(simple)
        meanings_of_inputs = meanings_of(graph)
        samples = list(calibration) or [example_inputs(simple, options.seed, meanings_of_inputs)]
        provenance: dict[str, Any] = {
            "compiler": f"tilewright {tilewright.__version__}",
            "target": profile.name,
            "options": options.to_json(),
            "model": model.source,
            "model_hash": model_hash(simple, phases["simplified"]),
            "samples": {name: meaning.to_json() for name, meaning in meanings_of_inputs.items()},
        }
    if options.smooth is not None:
        with phase("smooth"):
            smoothed = smooth(simple, samples, options.smooth)
            simple, graph = smoothed.model, capture(smoothed.model)
            provenance["smoothed"] = smoothed.to_json()
            phases["smoothed"] = print_module(simple.module)
    # Results of several layers that cannot be one kernel, and of rows that cannot be on the chip whole.
    refused: Counter[SSAValue] = Counter()

    def lowering(merge: bool) -> Lowering:
        per_tensor = options.scales == "tensor"
        return Lowering(
            graph,
            profile,
            options.fuse,
            options.host,
            options.keep,
            per_tensor,
            options.range_rule,
            merge,
            refused,
            {*simple.state, *simple.resident},
        )

    while True:
        with phase("lower"):
            lowered = lower(graph, lowering)
            parts = split_parts(graph, lowered, simple.weights)
            if options.no_host and parts.reasons:
                _refuse_host(parts)
        with phase("calibrate"):
            floats = calibrate(simple, lowered.observers, samples, graph.outputs)
            graph.constants.forget()
        meanings = [meaning_of(call) for call in parts.calls if call.kernel != "copy"]
        with phase("fold layers"):
            joins = options.fuse and may_join(profile)
            # What iterations carry may stay on chip where it leaves calls room for their work.
            small = profile.vmem_bytes // 5 if options.fuse else 0
            folded = parts.fold(
                options.layer_loops is not False, options.layer_loops or not joins, small
            )
        with phase("encode"):
            encoded = encode(simple, parts, folded)
            phases["encoded"] = print_module(encoded.module)
            program = read_launches(encoded)
        try:
            with phase("place and generate"):
                places, made = _generate(program, profile, options, progress)
            break
        except LaunchRefused as error:
            launch = program.launches[error.launch]
            joined = _refused_with(launch, parts)
            if all(refused[value] > TRIED_AGAIN.get(launch.kernel, 0) for value in joined):
                raise
            refused.update(joined)
    with phase("link"):
        graph_of_values = value_graph(parts, program)
        # From here on the program is the one that has the weights: one tensor of them is there twice.
        let_go_of_codes({t for call in parts.calls for t in call.operands.values()})
        encoded = replace(encoded, weights=encoded.host_weights)
        memory = options.instruction_memory
        result = assemble(encoded, program, places, made, profile, memory, phases, release=True)
        result.artifact.graph = graph_of_values
        result.host_graph = host_graph(parts)
        result.host_weights = result.host_weights | first_values(simple.state, simple.weights)
    result.provenance = {
        **provenance,
        "host_share": share_of(encoded.host_module, simple.module),
    }
    with phase("check"):
        require(result)
    _note_bound(result.artifact, made)
    if options.accuracy:
        with phase("accuracy"):
            note_accuracy(result, measure(result, simple, meanings, samples[0]))
    result.timing, result.floats = timing, floats
    return result


def _note_bound(artifact: AtlasArtifact, made: Sequence[KernelCode]) -> None:
    """Fill in what no program can beat, for every step and as a whole.

    A step that shares a schedule with the one before has none: some of it is done by then.
    """
    bound = bound_of(artifact)
    begun = [k > 0 and made[k - 1].open for k in range(len(made))]
    artifact.steps = [
        replace(step, bound=0 if shared else one.cycles)
        for step, one, shared in zip(artifact.steps, bound.per_step, begun, strict=True)
    ]
    artifact.least = Bound(bound.total, bound.cause, bound.terms)


CUT_BY = (
    "image",
    "out",
    "window",
    "filters",
    "groups",
    "deep",
    "pool",
)  # what a convolution's cut depends on


# How often kernels that have no room are lowered in yet another way: convolutions in parts before they
# are for the host, attention with fewer keys at a time.
TRIED_AGAIN = {"conv2d": 1, "attention": len(FEWER_KEYS) - 1}


def _refused_with(launch: Launch, parts: Parts) -> set[SSAValue]:
    """What kernels of several layers, or of whole rows on the chip, of the same sizes as this one
    compute; nothing if it is none."""
    sizes = {name: tensor.layout for name, tensor in launch.tensors.items()}

    def is_like(call: Call) -> bool:
        if call.kernel != launch.kernel:
            return False
        if call.kernel == "chain":
            return call.all_options()["parts"] == launch.options["parts"]
        if call.kernel == "conv2d":
            own = call.all_options()
            return all(own.get(n, 0) == launch.options.get(n, 0) for n in CUT_BY)
        same = {name: tensor.layout for name, tensor in call.tensors.items()} == sizes
        whole = call.kernel in IN_PASSES and not call.options.get("passes")
        return (call.kernel in ("attention", "attention_linear") or whole) and same

    same = [call for call in parts.calls if is_like(call)]
    return {call.output.value for call in same if call.output.value is not None}


def _refuse_host(parts: Parts) -> None:
    node, reason = next(iter(parts.reasons.items()))
    raise TilewrightError(
        "TW1707",
        f"{node.layer or node.family} would run on the host: {reason}",
        node.location,
        f"{len(parts.reasons)} operations would; compile without --no-host to allow it",
    )


def compile_encoded(
    encoded: Encoded, profile: Profile, options: CompileOptions | None = None
) -> CompiledModel[AtlasArtifact]:
    """The program of an encoded module, such as one that was parsed from the phase of this name."""
    options = options or CompileOptions()
    program = read_launches(encoded)
    places, made = _generate(program, profile, options)
    memory = options.instruction_memory
    result = assemble(encoded, program, places, made, profile, memory, {})
    require(result)
    _note_bound(result.artifact, made)
    return result


def _generate(
    program: LaunchProgram,
    profile: Profile,
    options: CompileOptions,
    progress: Progress = lambda phase, detail: None,
) -> tuple[BufferAssignment, list[KernelCode]]:
    """Buffer assignment and code."""
    mark_products(program.launches, profile)
    places, made = fit(program, profile, options.fuse)
    known = sum(isinstance(kernel, KernelCode) for kernel in made)
    finished = finish(
        made,
        places.joined,
        options.instruction_memory,
        lambda k: progress("place and generate", program.launches[k].name),
        [k for k, launch in enumerate(program.launches) if launch.kernel == "chain"],
    )
    if known:
        progress("place and generate", f"{known} of {len(made)} kernels were known")
    return places, finished
