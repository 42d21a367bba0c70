"""A compiled model: a machine's artifact, and everything around it that no machine knows.

Everything here is plain data. A model is a list of parts, run in order: the host computes some
values, the device the others. `runtime/bundle.py` writes and reads it, `runtime/session.py` runs it,
targets make it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from tilewright.targets.artifact import Artifact, DevicePart, HostPart, Port

Made = TypeVar("Made", bound=Artifact, covariant=True)


@dataclass
class CompiledModel(Generic[Made]):
    """All of it."""

    name: str
    artifact: Made
    ports: dict[str, Port]
    inputs: tuple[str, ...]  # ports, in the order of the model's arguments
    outputs: tuple[str, ...]
    parts: list[HostPart | DevicePart]
    host_module: str = ""  # MLIR text
    host_weights: dict[str, np.ndarray] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)  # input -> output that the next call takes
    provenance: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)  # IR after each phase
    quantisation: dict[str, Any] = field(default_factory=dict)  # per tensor: formats, scales, error
    timing: dict[str, float] = field(default_factory=dict)  # seconds of each phase of compilation
