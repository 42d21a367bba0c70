"""Verifying a compiled model: the device against the references, and both against float32.

    verify(load("block.twb")).ok

The same inputs go through the simulator and through the machine's reference device, which computes
every step without the program and its memory. Every bit of the outputs has to agree, every step has
to find its operands as the reference has them, and what the program must not touch has to be what it
was when all is done. When something differs, the results of every step are looked at to find the
first step that is wrong for the operands it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.garbage import rare_cycle_collection
from tilewright.reference.bits import equal_bits
from tilewright.runtime.example_inputs import example_inputs, meanings
from tilewright.runtime.host_parts import host_strays
from tilewright.runtime.noise import UNKNOWN, Limit
from tilewright.runtime.original import Original, find_original, run_original
from tilewright.runtime.session import Session
from tilewright.runtime.values import named_inputs
from tilewright.runtime.verification import (
    Accuracy,
    LayerCheck,
    OutputCheck,
    Verification,
    accuracy,
    compare_bits,
    ordinary,
    unlike,
)
from tilewright.runtime.watch import Compared, Expected
from tilewright.targets.artifact import (
    Artifact,
    Audited,
    DevicePart,
    Keeps,
    Precise,
    Progress,
)
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.execution import execute
from tilewright.targets.port_types import FLOATS

TELLING = 0.9  # a limit below this cosine says little
NARROW_STEPS = 4  # last places that a number of a narrow format may be off after a few steps


@rare_cycle_collection()
def verify(
    model: CompiledModel[Any],
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    per_layer: bool = False,
    original: Any = None,
    machine: str | None = None,
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
    session = Session(model, machine, progress, max_cycles, poisoned=True)
    chosen = {**example_inputs(model, "random", seed), **(inputs or {})}
    values = session.complete(named_inputs(model, chosen))
    wanted, expected = _reference(session, values, per_layer)
    watch = Compared(wanted)
    actual = session.compute(values, watch)
    outputs = [_output(name, expected[name], actual[name]) for name in model.outputs]
    hazards, notes = [], []
    strays = [*watch.strays, *host_strays(model, expected, notes)]
    device = session.device() if any(isinstance(p, DevicePart) for p in model.parts) else None
    strays += _moved_state(session, values)
    if isinstance(device, Audited):
        strays += [finding.message for finding in device.audit()]
        for finding in device.hazards():
            (hazards if finding.error else notes).append(finding.message)
    wrong = bool(strays) or any(output.difference is not None for output in outputs)
    if wrong and not per_layer:
        wanted, _ = _reference(session, values, True)
        watch = Compared(wanted)
        session.compute(values, watch)
    layers = watch.layers() if wanted.keep else []
    first = next((layer for layer in layers if layer.status == "differs"), None)
    result = Verification(
        model=model.name,
        target=model.artifact.target,
        machine=machine or getattr(device, "simulator", "default"),
        inputs=_described(model, inputs, seed),
        cycles=session.cycles,
        outputs=outputs,
        layers=layers,
        first=first,
        strays=strays,
        hazards=hazards,
        notes=notes,
        results=actual,
    )
    if wrong and first is None:
        result.notes.append(
            "every step computes what it should from what it finds, but it does not find what it should"
            if strays
            else "every step that could be looked at is right for the operands it had; the error is in "
            "a step whose result was not readable, or behind the last one"
        )
    if original is None:
        original = find_original(model, result.notes)
    if original is not None:
        found = run_original(model, original, values, wanted if layers else None)
        result.exact = found.outputs
        _add_accuracy(result, model, found, actual, wanted)
        _judge(result, found, min_cosine, model.artifact)
    return result


def _reference(
    session: Session, values: dict[str, np.ndarray], keep: bool
) -> tuple[Expected, dict[str, np.ndarray]]:
    """What the model should do, and its outputs."""
    model = session.model
    wanted = Expected(model.artifact, keep, session.options.progress)
    return wanted, execute(model, values, session.host, model.artifact.reference, wanted)


def _moved_state(session: Session, values: Mapping[str, np.ndarray]) -> list[str]:
    """State on the device that is not what a reference device holds when the same was handed over."""
    model, found = session.model, []
    for part in model.parts:
        names = part.inputs if isinstance(part, DevicePart) else ()
        for name in names:
            port, device = model.ports[name], session.device()
            if name not in values or not isinstance(device, Keeps) or not device.keeps(port):
                continue
            reference = model.artifact.reference()
            reference.write(port, values[name])
            wrong = int((~equal_bits(reference.read(port), device.read(port))).sum())
            if wrong:
                found.append(f"{wrong:,} numbers of the state {name} are not what was handed over")
    return found


def _output(name: str, expected: np.ndarray, actual: np.ndarray) -> OutputCheck:
    return OutputCheck(name, actual.size, compare_bits(expected, actual))


def _described(model: CompiledModel[Any], inputs: Mapping[str, Any] | None, seed: int) -> str:
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
    model: CompiledModel[Any],
    original: Original,
    actual: dict[str, np.ndarray],
    wanted: Expected,
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
        replace(layer, accuracy=_layer_accuracy(model, layer, original, wanted))
        for layer in result.layers
    ]


def _judge(
    result: Verification, original: Original, min_cosine: float | None, artifact: Artifact
) -> None:
    """Give every output that float32 says something about the limit it has to keep."""
    result.outputs = [
        replace(output, limit=limit.cosine, limit_relative=limit.relative)
        if (limit := _limit(output, original, min_cosine, artifact)) is not None
        else output
        for output in result.outputs
    ]
    result.notes += [note for output in result.outputs if (note := _lost(output))]
    for output in result.outputs:
        if output.accuracy is None:
            continue
        count = unlike(result.results[output.name], original.outputs[output.name])
        if count:
            result.notes.append(
                f"{output.name}: {count:,} numbers are infinite or NaN here or in float32, not in both; "
                "the others were compared"
            )


def _lost(output: OutputCheck) -> str | None:
    """Said of an output within limits that are too wide to mean much: right, but of no use."""
    seen, limit = output.accuracy, output.limit
    if seen is None or limit is None or not output.close or max(limit, seen.cosine) >= TELLING:
        return None
    return (
        f"{output.name} is far from float32, and rounding alone explains that: numbers that nearly "
        "cancel, or masks that hide everything, lose their digits in narrow formats; per_layer=True "
        "shows where, and host=[…] computes layers in float32"
    )


def _limit(
    output: OutputCheck, original: Original, min_cosine: float | None, artifact: Artifact
) -> Limit | None:
    if output.accuracy is None:
        return None
    if min_cosine is not None:
        return Limit(min_cosine)
    if isinstance(artifact, Precise) and artifact.float_error is not None:
        return _float_limit(original.outputs[output.name], artifact.float_error)
    return original.limits.get(output.name, Limit(UNKNOWN))


def _float_limit(exact: np.ndarray, error: float) -> Limit:
    """Every number of an output off by as much as the largest may be.

    A model in a narrow format rounds to it in every step, whatever the machine computes in.
    """
    error = max(error, NARROW_STEPS * float(ml_dtypes.finfo(exact.dtype).eps))
    exact = exact.astype(np.float64)
    exact = exact[ordinary(exact)]
    length = float(np.linalg.norm(exact))
    if length == 0:
        return Limit(-1.0)
    most = error * max(1.0, float(np.abs(exact).max()))
    relative = most * exact.size**0.5 / length
    return Limit(max(-1.0, 1 - relative**2), relative)


def _layer_accuracy(
    model: CompiledModel[Any], layer: LayerCheck, original: Original, wanted: Expected
) -> Accuracy | None:
    """A step's result against the value it stands for, if there is one."""
    if layer.call not in original.layers:
        return None
    values = wanted.values[wanted.order[layer.call]]
    operands = model.artifact.steps[layer.step].operands
    parameter = next(p for p in values.writes if operands.get(p, p) == layer.region)
    if parameter != next(iter(values.writes)):
        return None  # said of the first place already
    numbers = values.writes[parameter].astype(np.float64)
    # Narrow formats hold multiples of a scale.
    note = model.quantisation.get(layer.region)
    noted = note.get("scale") if isinstance(note, dict) else None
    scale = values.scales.get(parameter, noted)
    if isinstance(scale, int | float):
        numbers = numbers * scale
    return accuracy(numbers, original.layers[layer.call])
