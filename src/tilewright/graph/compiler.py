"""From a model to a program: simplify, lower, calibrate, fold layers, place, generate, link, check."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tilewright
from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.graph.accuracy import meaning_of, measure, note_accuracy
from tilewright.graph.assemble import assemble
from tilewright.graph.bounds import bound_of
from tilewright.graph.calibrate import calibrate, example_inputs
from tilewright.graph.capture import capture
from tilewright.graph.fitting import fit
from tilewright.graph.host import Parts, split_parts
from tilewright.graph.kernels_products import mark_products
from tilewright.graph.lowering import Lowering
from tilewright.graph.meanings import meanings_of
from tilewright.graph.placement import Places
from tilewright.graph.rounds import Folded
from tilewright.runtime.check import require
from tilewright.runtime.compiled_model import CompiledModel
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.compiler import PlacedKernel
from tilewright.transforms.simplify import simplify

SCALES = ("channel", "tensor")
Progress = Callable[[str, str], None]  # phase, detail


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    fuse: keep intermediate results in VMEM and chains of operations in one kernel.
    host: layers the host runs on request. no_host: nothing may run on the host.
    keep: layers whose products are as precise as bf16: operands are split into two fp8 parts.
    scales: of weights, one per "channel" or one per "tensor".
    accuracy: note how far every layer is from float32, on the first calibration sample.
    """

    fuse: bool = True
    host: tuple[str, ...] = ()
    no_host: bool = False
    keep: tuple[str, ...] = ()
    scales: str = "channel"
    rounds: bool = True
    instruction_memory: int = 32768
    seed: int = 0
    accuracy: bool = False

    def __post_init__(self) -> None:
        if self.scales not in SCALES:
            raise TilewrightError(
                "TW1711",
                f"there are no scales per {self.scales}",
                hint=f"use {' or '.join(SCALES)}",
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "fuse": self.fuse,
            "host": list(self.host),
            "no_host": self.no_host,
            "keep": list(self.keep),
            "scales": self.scales,
            "rounds": self.rounds,
            "seed": self.seed,
            "accuracy": self.accuracy,
        }


def compile_model(
    model: Imported,
    profile: Profile,
    options: CompileOptions | None = None,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
    progress: Progress = lambda phase, detail: None,
) -> CompiledModel:
    """The program of a model, ready to run, save and verify."""
    options = options or CompileOptions()
    timing: dict[str, float] = {}
    phases = {"imported": print_module(model.module)}

    @contextmanager
    def phase(name: str):
        progress(name, "")
        start = time.perf_counter()
        yield
        timing[name] = time.perf_counter() - start

    with phase("simplify"):
        simple = simplify(model)
        phases["simplified"] = print_module(simple.module)
    with phase("lower"):
        graph = capture(simple)
        lowered = Lowering(
            graph, profile, options.fuse, options.host, options.keep, options.scales == "tensor"
        ).run()
        parts = split_parts(graph, lowered, simple.weights)
        if options.no_host and parts.reasons:
            _refuse_host(parts)
    with phase("calibrate"):
        meanings_of_inputs = meanings_of(graph)
        samples = list(calibration) or [example_inputs(simple, options.seed, meanings_of_inputs)]
        calibrate(simple, lowered.magnitudes, samples)
    meanings = [meaning_of(call) for call in parts.calls if call.kernel != "copy"]
    with phase("fold layers"):
        folded = parts.fold(options.rounds)
    with phase("place and generate"):
        places, made = _generate(folded, parts, profile, options, progress)
    with phase("link"):
        result = assemble(
            simple, parts, folded, places, made, profile, options.instruction_memory, phases
        )
    result.provenance = {
        "compiler": f"tilewright {tilewright.__version__}",
        "target": profile.name,
        "options": options.to_json(),
        "model": model.source,
        "model_hash": model_hash(simple),
        "samples": {name: meaning.to_json() for name, meaning in meanings_of_inputs.items()},
    }
    with phase("check"):
        require(result)
    _note_bound(result)
    if options.accuracy:
        with phase("accuracy"):
            note_accuracy(result, measure(result, simple, meanings, samples[0]))
    result.timing = timing
    return result


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
    """Places and code."""
    mark_products(folded.calls, profile)
    places, made = fit(folded, parts, profile, options.fuse)
    finished = []
    for call, kernel in zip(folded.calls, made, strict=True):
        progress("place and generate", call.name)
        finished.append(kernel.finish())
    return places, finished


def model_hash(model: Imported) -> str:
    """A hash of the model's operations and weights."""
    digest = hashlib.sha256(str(model.module).encode())
    for name in sorted(model.weights):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(model.weights[name]).tobytes())
    return digest.hexdigest()
