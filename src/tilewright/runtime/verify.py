"""Verifying a compiled model: the device against the references, and both against float32.

    verify(load("block.twb")).ok

The same inputs go through the simulator and, operation by operation, through the model's graph of
values, which knows no regions and no rounds. Every bit of the outputs has to agree, every step has
to find its operands in memory as the graph has them, and the weights have to be what they were when
all is done. When something differs, the memory of the device is looked at after every step to find
the first step whose result is wrong for the inputs it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.runtime.compiled_model import COPY, CompiledModel, DevicePart
from tilewright.runtime.device import Progress
from tilewright.runtime.example_inputs import example_inputs, meanings
from tilewright.runtime.host_parts import host_strays
from tilewright.runtime.noise import UNKNOWN, Limit
from tilewright.runtime.original import Original, find_original, run_original
from tilewright.runtime.port_types import FLOATS
from tilewright.runtime.reference_run import Reference, ReferenceRun, library_references
from tilewright.runtime.session import Session
from tilewright.runtime.values import named_inputs
from tilewright.runtime.verification import (
    Accuracy,
    LayerCheck,
    OutputCheck,
    Verification,
    accuracy,
    compare_bits,
)
from tilewright.runtime.watch_inputs import InputWatch, Watches
from tilewright.runtime.watch_steps import StepWatch
from tilewright.targets.atlas.machines import native_missing
from tilewright.targets.atlas.model.lint_model import hazards_of
from tilewright.targets.atlas.policy import Policy
from tilewright.tile.layouts import NUMPY

# Memory that nothing has written is NaN: a program that reads it does not go unnoticed.
POLICY = Policy(initial="poison")


def verify(
    model: CompiledModel,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    per_layer: bool = False,
    original: Any = None,
    machine: str | None = None,
    references: Mapping[str, Reference] | None = None,
    progress: Progress | None = None,
    min_cosine: float | None = None,
    max_cycles: int | None = None,
) -> Verification:
    """Run a model on the simulator and compare it bit by bit with the references.

    inputs: arrays by name; random ones of `seed` for those that are not given.
    per_layer: compare the result of every step, not only the outputs.
    original: what was compiled (see `original.run_original`), for errors against float32; by
        default the file that the model's provenance names, if it is there unchanged.
    min_cosine: how close to float32 every output has to be; by default as close as rounding to fp8
        explains, see `noise`.
    max_cycles: fail where the device takes longer.
    """
    session = Session(model, machine, POLICY, progress, max_cycles)
    chosen = {**example_inputs(model, "random", seed), **(inputs or {})}
    values = session.complete(named_inputs(model, chosen))
    known = references if references is not None else library_references(model)

    run = ReferenceRun(session, known, keep=per_layer, progress=progress)
    expected = run.run(values)
    watch = StepWatch(run) if per_layer else None
    inputs_watch = InputWatch(run)
    actual = session.compute(values, Watches([inputs_watch, *([watch] if watch else [])]))
    outputs = [_output(name, expected[name], actual[name]) for name in model.outputs]
    host_notes: list[str] = []
    strays = [str(one) for one in inputs_watch.wrong] + host_strays(model, run.ports, host_notes)
    if any(isinstance(part, DevicePart) for part in model.parts):
        changed = inputs_watch.weights(session.device())
        strays += [f"the weights {name} were overwritten" for name in changed]
    wrong = bool(strays) or any(output.difference is not None for output in outputs)
    if wrong and watch is None:
        run = ReferenceRun(session, known, keep=True, progress=progress)
        run.run(values)
        watch = StepWatch(run)
        session.compute(values, watch)
    layers = watch.layers() if watch is not None else []
    first = next((layer for layer in layers if layer.status == "differs"), None)
    hazards, doubts = hazards_of(model, session.statistics.instructions)
    result = Verification(
        model=model.name,
        profile=model.profile.name,
        machine=machine or ("native" if native_missing() is None else "python"),
        inputs=_described(model, inputs, seed),
        cycles=session.cycles,
        outputs=outputs,
        layers=layers,
        first=first,
        strays=strays,
        hazards=hazards,
        notes=[*host_notes, *(f"lint cannot decide: {doubt}" for doubt in doubts)],
    )
    if wrong and first is None:
        result.notes.append(
            "every step finds what its region holds, but that is not the value it should hold"
            if strays
            else "every step that could be looked at is right for the inputs it had; the error is in a "
            "step whose result was not readable, or behind the last one"
        )
    if model.graph is None and len(model.steps) > 1:
        result.notes.append("the model has no graph of values: regions were taken at their word")
    if original is None:
        original = find_original(model, result.notes)
    if original is not None:
        found = run_original(model, original, values, run.calls if layers else ())
        _add_accuracy(result, model, found, actual, run)
        _judge(result, found, min_cosine)
    return result


def _output(name: str, expected: np.ndarray, actual: np.ndarray) -> OutputCheck:
    return OutputCheck(name, actual.size, compare_bits(expected, actual))


def _described(model: CompiledModel, inputs: Mapping[str, Any] | None, seed: int) -> str:
    own = [name for name in model.inputs if name not in model.state]
    given = [name for name in own if name in (inputs or {})]
    if not own:
        return "its own state"
    if len(given) == len(own):
        return "given inputs"
    known = meanings(model)
    meant = ", ".join(f"{n}: {known[n]}" for n in own if n in known and n not in given)
    rest = f"random inputs of seed {seed}" + (f" ({meant})" if meant else "")
    return f"{rest} but for {', '.join(given)}" if given else rest


# --- against float32 --------------------------------------------------------------------


def _add_accuracy(
    result: Verification,
    model: CompiledModel,
    original: Original,
    actual: dict[str, np.ndarray],
    run: ReferenceRun,
) -> None:
    """Note how far outputs, and layers with a counterpart, are from float32."""
    result.original = original.source
    result.outputs = [
        replace(output, accuracy=accuracy(actual[output.name], original.outputs[output.name]))
        if output.name in original.outputs and model.ports[output.name].dtype in FLOATS
        else output
        for output in result.outputs
    ]
    result.layers = [
        replace(layer, accuracy=_layer_accuracy(model, layer, original, run))
        for layer in result.layers
    ]


def _judge(result: Verification, original: Original, min_cosine: float | None) -> None:
    """Give every output that float32 says something about the limit it has to keep."""
    result.outputs = [
        replace(output, limit=limit.cosine, limit_relative=limit.relative)
        if (limit := _limit(output, original, min_cosine)) is not None
        else output
        for output in result.outputs
    ]


def _limit(output: OutputCheck, original: Original, min_cosine: float | None) -> Limit | None:
    if output.accuracy is None:
        return None
    if min_cosine is not None:
        return Limit(min_cosine)
    if not np.isfinite(original.outputs[output.name].astype(np.float64)).all():
        return None  # there is no angle to infinity
    return original.limits.get(output.name, Limit(UNKNOWN))


def _layer_accuracy(
    model: CompiledModel, layer: LayerCheck, original: Original, run: ReferenceRun
) -> Accuracy | None:
    """A step's result against the value it stands for, if there is one."""
    if layer.call not in original.layers:
        return None
    region, call = model.regions[layer.region], run.calls[layer.call]
    assert call.results is not None
    parameter = next(p for p, (name, _) in call.writes.items() if name == layer.region)
    if parameter == COPY:
        return None  # said of the first place already
    codes = np.ascontiguousarray(call.results[parameter])
    values = codes.view(NUMPY[region.layout.dtype]).astype(np.float64)
    # fp8 tensors hold multiples of a scale.
    note = model.quantisation.get(layer.region)
    scale = note.get("scale") if isinstance(note, dict) else None
    if model.graph is not None and call.output is not None:
        scale = model.graph.scales.get(call.output)
    if region.layout.dtype == "fp8" and isinstance(scale, int | float):
        values *= scale
    return accuracy(values, original.layers[layer.call])
