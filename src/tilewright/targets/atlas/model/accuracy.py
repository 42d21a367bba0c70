"""How far every layer of a compiled model is from float32.

The model is run twice on the same inputs: step by step by the references, which give what the
device gives bit for bit, and as it was imported, in float32. The result of each step is brought
back to the value it stands for (scales divided out, heads put back in order) and compared with it.
A layer's error includes what it inherits from the layers before.

    measured = measure(compiled, model, meanings, inputs)   # worst first
    note_accuracy(compiled, measured)                       # into its notes on quantisation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.calibrate import observe
from tilewright.targets.artifact import StepValues, call_name
from tilewright.targets.atlas.artifact.atlas_artifact import COPY
from tilewright.targets.atlas.model.calls import ONE, Call, Function, Times, scale_of
from tilewright.targets.execution import HostFunctions, execute, first_state
from tilewright.targets.port_types import rounded

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported
    from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
    from tilewright.targets.compiled_model import CompiledModel

FORMATS = {"fp8": "f8E4M3FN", "bf16": "bf16"}


@dataclass(frozen=True)
class Meaning:
    """What the result of a call stands for: a function of a value of the model."""

    value: SSAValue
    function: Function | None  # of the value, before comparing
    read: Function  # from the numbers in the result to the value


@dataclass(frozen=True)
class LayerAccuracy:
    """The error of one step's result.

    relative: root mean square of the error over that of the value.
    """

    step: int
    turn: int
    name: str  # with the name of its layer iteration
    region: str
    cosine: float
    max_abs: float
    relative: float

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "cosine": self.cosine,
            "max_abs": self.max_abs,
            "relative": self.relative,
        }


def meaning_of(call: Call) -> Meaning | None:
    """What the result of a call stands for, if it is a value of the model in some form."""
    out = call.output
    if out.value is None:
        return None
    scale = out.scale
    if out.undo is not None:
        return Meaning(out.value, None, out.undo)
    if scale is None:
        return Meaning(out.value, None, Times(ONE)) if out.layout.dtype == "bf16" else None
    read = Times(scale_of(scale))
    if scale.function is not None:  # a norm whose weight is part of the next product
        return Meaning(scale.value, scale.function, read)
    return Meaning(out.value, None, read)


@dataclass
class _Kept:
    """A watch that keeps everything."""

    calls: list[StepValues] = field(default_factory=list)

    def __call__(self, values: StepValues) -> None:
        self.calls.append(values)

    def expected(self, step: int, iteration: int) -> Mapping[str, np.ndarray]:
        return {}


def measure(
    compiled: CompiledModel[AtlasArtifact],
    model: Imported,
    meanings: Sequence[Meaning | None],
    inputs: Mapping[str, np.ndarray],
) -> list[LayerAccuracy]:
    """The error of every step that stands for a value, the worst first.

    meanings: of the calls as they are carried out, without copies.
    """
    artifact, run = compiled.artifact, _Kept()
    values = {
        name: rounded(np.asarray(inputs[name]), compiled.ports[name].dtype)
        if name in inputs
        else first_state(compiled, name)
        for name in compiled.inputs
    }
    execute(compiled, values, HostFunctions(compiled), artifact.reference, run)
    calls = [call for call in run.calls if artifact.steps[call.step].kernel != "copy"]
    pairs = [(c, m) for c, m in zip(calls, meanings, strict=True) if m is not None]
    true = observe(model, (meaning.value for _, meaning in pairs), [inputs])[0]
    found = []
    for call, meaning in pairs:
        operands = artifact.steps[call.step].operands
        region = operands.get(COPY, operands["out"])  # the tensor's own name
        numbers = call.writes["out"].astype(np.float64)
        expected = np.asarray(true[meaning.value], np.float32)
        if meaning.function is not None:
            expected = meaning.function(expected)
        errors = compared(meaning.read(numbers), expected)
        name = call_name(artifact, call.step, call.iteration)
        found.append(LayerAccuracy(call.step, call.iteration, name, region, *errors))
    return sorted(found, key=lambda layer: (layer.cosine, -layer.relative))


def compared(found: np.ndarray, expected: np.ndarray) -> tuple[float, float, float]:
    """(cosine, largest absolute error, relative error); two zeros are equal, NaN is not."""
    a, b = found.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    error, lengths = a - b, (float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    off = float(np.linalg.norm(error))
    largest = float(np.abs(error).max(initial=0.0))
    if not np.isfinite(off):
        return 0.0, float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)
    if not lengths[0] or not lengths[1]:
        return (1.0 if off == 0 else 0.0), largest, (0.0 if off == 0 else 1.0)
    return float(a @ b) / (lengths[0] * lengths[1]), largest, off / lengths[1]


def note_accuracy(
    compiled: CompiledModel[AtlasArtifact], measured: Sequence[LayerAccuracy]
) -> None:
    """Add errors to the model's notes on quantisation, by tensor: the worst of its iterations,
    and each one's where there are several."""
    rows: dict[str, list[LayerAccuracy]] = {}
    for layer in measured:
        rows.setdefault(layer.region, []).append(layer)
    for region, layers in rows.items():
        worst = layers[0]
        dtype = compiled.artifact.regions[region].layout.dtype
        note = compiled.quantisation.setdefault(
            region, {"layer": compiled.artifact.steps[worst.step].name, "format": FORMATS[dtype]}
        )
        note |= {"cosine": worst.cosine, "max_abs": worst.max_abs, "relative": worst.relative}
        if len(layers) > 1:
            note["worst"] = worst.name
            in_order = sorted(layers, key=lambda layer: (layer.turn, layer.step))
            note["by_iteration"] = [layer.to_json() for layer in in_order]
