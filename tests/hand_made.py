"""Compiled models for Atlas put together by hand, in the few words tests need."""

from __future__ import annotations

import copy
from typing import Any

from tilewright.targets.artifact import HostPart, LayerLoop
from tilewright.targets.atlas.artifact.atlas_artifact import (
    AtlasArtifact,
    Step,
    compiled_parts,
)
from tilewright.targets.compiled_model import CompiledModel

AtlasModel = CompiledModel[AtlasArtifact]
Segments = tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...]]


def kernel_step(
    name: str,
    kernel: str,
    operands: dict[str, str],
    options: dict[str, Any] | None = None,
    segment: int = 0,
    first: int = 0,
    end: int = 0,
    sources: tuple[str, ...] = (),
    macs: int = 0,
    bound: int = 0,
) -> Step:
    """A step by its place in the code."""
    return Step(
        name, kernel, operands, options or {}, sources, macs, bound,
        segment=segment, first_word=first, end_word=end,
    )  # fmt: skip


def on_device(
    segments: tuple[int, ...], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Segments:
    """A part of the model on the device: segments in the order they run, and its ports."""
    return segments, inputs, outputs


def compiled(
    name: str,
    profile: Any,
    segments: list[Any],
    regions: dict[str, Any],
    steps: list[Step],
    loops: list[LayerLoop],
    ports: dict[str, Any],
    parts: list[HostPart | Segments],
    weights: dict[str, Any],
    **rest: Any,
) -> AtlasModel:
    """A model; device parts are what `on_device` gives."""
    made, entries = compiled_parts(ports, parts)
    artifact = AtlasArtifact(profile, segments, regions, steps, loops, entries, weights)
    return CompiledModel(name=name, artifact=artifact, ports=ports, parts=made, **rest)


def set_parts(model: AtlasModel, parts: list[HostPart | Segments]) -> None:
    model.parts, model.artifact.entries = compiled_parts(model.ports, parts)


def copied(model: AtlasModel) -> AtlasModel:
    """A model with an artifact of its own, to be changed."""
    other = copy.copy(model)
    other.artifact = copy.copy(model.artifact)
    return other
