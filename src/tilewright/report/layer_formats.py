"""The formats and scales of each layer: from the tensors of its step, and from the compiler's notes.

The compiler notes a small table for every tensor, or layer, that it quantised or measured: strings
are formats, what is called a scale is one, errors have the names they have everywhere else, and
`by_iteration` has the errors of each layer iteration where there are several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewright.report.model_report import Errors, LayerErrors
from tilewright.targets.compiled_model import CompiledModel

CALIBRATION = "calibration"  # where errors come from that the compiler measured
_ERRORS = ("max_abs", "relative", "cosine")
_BY_ITERATION = ("by_iteration", "by_round")  # the second name in older bundles
_NOT_FORMATS = (*_ERRORS, *_BY_ITERATION, "worst", "layer")


def with_formats(model: CompiledModel[Any], layers: list[LayerErrors]) -> list[LayerErrors]:
    """The layers with formats and scales, and errors where only the compiler measured them.

    Without layers: what the compiler noted.
    """
    if not layers:
        return [row for name, note in model.quantisation.items() for row in _noted(name, note)]
    notes = {_plain(name): note for name, note in model.quantisation.items()}
    return [_filled(model, notes, layer) for layer in layers]


def _filled(model: CompiledModel[Any], notes: Mapping[str, Any], layer: LayerErrors) -> LayerErrors:
    layer = replace(
        layer,
        formats=layer.formats or _formats(model, layer),
        scales=layer.scales or ", ".join(_scales_of(model, notes, layer)),
    )
    if layer.errors.cosine is None and layer.errors.relative is None and layer.step is not None:
        result = model.artifact.steps[layer.step].operands.get("out", "")
        measured = _measured(notes.get(_plain(result)), layer.turn)
        if measured:
            errors = _errors(layer.errors.name, layer.errors.exact, measured)
            return replace(layer, errors=errors, source=CALIBRATION)
    return layer


def _measured(note: Any, turn: int) -> dict[str, float]:
    """The errors a note has for one layer iteration."""
    if not isinstance(note, dict):
        return {}
    iterations = _iterations(note)
    if (
        isinstance(iterations, list)
        and turn < len(iterations)
        and isinstance(iterations[turn], dict)
    ):
        note = iterations[turn]
    elif turn:
        return {}
    return {key: float(note[key]) for key in _ERRORS if _is_number(note.get(key))}


def _iterations(note: dict[str, Any]) -> Any:
    """What a note says of every layer iteration."""
    return next((note[key] for key in _BY_ITERATION if key in note), None)


def _errors(name: str, exact: bool | None, found: dict[str, float]) -> Errors:
    return Errors(name, exact, *(found.get(key) for key in _ERRORS))


def _formats(model: CompiledModel[Any], layer: LayerErrors) -> str:
    """`a fp8, b fp8, out bf16`: how the operands of the step are kept."""
    if layer.step is None:
        return ""
    operands, tensors = model.artifact.steps[layer.step].operands, model.artifact.tensors
    return ", ".join(
        f"{parameter} {tensors[region].dtype}"
        for parameter, region in operands.items()
        if region in tensors
    )


def _scales_of(
    model: CompiledModel[Any], notes: Mapping[str, Any], layer: LayerErrors
) -> Iterator[str]:
    """Scales of the operands' tensors, else what is noted for the layer by one of its names."""
    names = [layer.errors.name]
    found = False
    if layer.step is not None:
        step = model.artifact.steps[layer.step]
        for parameter, region in step.operands.items():
            note = notes.get(_plain(region))
            if isinstance(note, dict):
                for scale in _all_scales(note):
                    found = True
                    yield f"{parameter} {scale}"
        for loop in model.artifact.loops:
            if loop.first <= layer.step < loop.end and loop.names:
                names.append(f"{loop.names[layer.turn]}.{step.name}")
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


def _noted(name: str, note: Any) -> Iterator[LayerErrors]:
    """A note as rows of its own, one per layer iteration where it has several."""
    formats, scales = described(note)
    iterations = _iterations(note) if isinstance(note, dict) else None
    if isinstance(iterations, list) and all(isinstance(row, dict) for row in iterations):
        for turn, row in enumerate(iterations):
            errors = _errors(str(row.get("name", name)), None, _measured(note, turn))
            yield LayerErrors(errors, None, turn, formats, scales, source=CALIBRATION)
        return
    errors = _errors(name, None, _measured(note, 0))
    source = CALIBRATION if errors.cosine is not None or errors.relative is not None else ""
    yield LayerErrors(errors, formats=formats, scales=scales, source=source)


def described(note: Any) -> tuple[str, str]:
    """{"x": "fp8", "x_scale": [0.1, 0.3]} -> "x fp8", "x_scale 2 from 0.1 to 0.3"."""
    if not isinstance(note, dict):
        return str(note), ""
    formats: list[str] = []
    scales: list[str] = []
    for key, value in note.items():
        if key in _NOT_FORMATS:
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
            formats.append(str(value) if key == "format" else f"{key} {value}")
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
