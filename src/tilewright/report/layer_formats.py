"""The formats and scales of each layer: from the tensors of its step, and from calibration.

The compiler notes a small table for every tensor, or layer, that it quantised: strings are formats,
what is called a scale is one, and errors have the names they have everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilewright.report.model_report import Errors, LayerErrors
from tilewright.runtime.compiled_model import CompiledModel

_ERRORS = ("max_abs", "relative", "cosine")


def with_formats(model: CompiledModel, layers: list[LayerErrors]) -> list[LayerErrors]:
    """The layers with their formats and scales; without layers, what the compiler quantised."""
    if not layers:
        return [_noted(name, note) for name, note in model.quantisation.items()]
    notes = {_plain(name): note for name, note in model.quantisation.items()}
    return [
        replace(
            layer,
            formats=layer.formats or _formats(model, layer),
            scales=layer.scales or ", ".join(_scales_of(model, notes, layer)),
        )
        for layer in layers
    ]


def _formats(model: CompiledModel, layer: LayerErrors) -> str:
    """`a fp8, b fp8, out bf16`: how the operands of the step are kept."""
    if layer.step is None:
        return ""
    operands = model.steps[layer.step].operands
    return ", ".join(
        f"{parameter} {model.regions[region].layout.dtype}"
        for parameter, region in operands.items()
        if region in model.regions
    )


def _scales_of(model: CompiledModel, notes: dict[str, Any], layer: LayerErrors) -> Iterator[str]:
    """Scales of the operands' tensors, else what is noted for the layer by one of its names."""
    names = [layer.errors.name]
    found = False
    if layer.step is not None:
        step = model.steps[layer.step]
        for parameter, region in step.operands.items():
            note = notes.get(_plain(region))
            if isinstance(note, dict):
                for scale in _all_scales(note):
                    found = True
                    yield f"{parameter} {scale}"
        for rounds in model.rounds:
            if rounds.first <= layer.step < rounds.end and rounds.names:
                names.append(f"{rounds.names[layer.turn]}.{step.name}")
        names += [step.name, *step.sources]
    note = next((notes[_plain(name)] for name in names if _plain(name) in notes), None)
    if note is not None and not found:
        scales = described(note)[1]
        if scales:
            yield scales


def _all_scales(note: dict[str, Any]) -> list[str]:
    """The scales of a tensor's own note, without their name."""
    return [
        text.removeprefix("scale ")
        for key, value in note.items()
        if "scale" in key
        for text in _scales(key, value)
    ]


def _plain(name: str) -> str:
    return name.replace("/", ".")


def _noted(name: str, note: Any) -> LayerErrors:
    formats, scales = described(note)
    numbers = {}
    if isinstance(note, dict):
        numbers = {key: note[key] for key in _ERRORS if _is_number(note.get(key))}
    return LayerErrors(Errors(name, **numbers), formats=formats, scales=scales)


def described(note: Any) -> tuple[str, str]:
    """{"x": "fp8", "x_scale": [0.1, 0.3]} -> "x fp8", "x_scale 2 from 0.1 to 0.3"."""
    if not isinstance(note, dict):
        return str(note), ""
    formats: list[str] = []
    scales: list[str] = []
    for key, value in note.items():
        if key in _ERRORS:
            continue
        if "scale" in key:
            scales += _scales(key, value)
        elif isinstance(value, dict):
            inner_formats, inner_scales = described(value)
            formats += [f"{key} {inner_formats}"] if inner_formats else []
            scales += [f"{key} {inner_scales}"] if inner_scales else []
        elif isinstance(value, bool):
            formats += [key] if value else []
        elif _is_number(value):
            formats.append(f"{key} {value:.4g}")
        elif value is not None:
            formats.append(f"{key} {value}")
    return ", ".join(formats), ", ".join(scales)


def _scales(key: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [text for name, inner in value.items() for text in _scales(name, inner)]
    if _is_number(value):
        return [f"{key} {value:.4g}"]
    if isinstance(value, list | tuple) and value and all(_is_number(item) for item in value):
        return [f"{key} {len(value):,} from {min(value):.4g} to {max(value):.4g}"]
    return [f"{key} {value}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
