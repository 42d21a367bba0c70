"""A compiled model: a machine's artifact, and everything around it that no machine knows.

Everything here is plain data. A model is a list of parts, run in order: the host computes some
values, the device the others. `runtime/bundle.py` writes and reads it, `runtime/session.py` runs it,
targets make it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

import tilewright
from tilewright.dialects.printing import print_module
from tilewright.targets.artifact import Artifact, DevicePart, HostPart, Port

if TYPE_CHECKING:
    from tilewright.model.host_graph import HostGraph
    from tilewright.model.prepare import Prepared

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
    host_graph: HostGraph | None = None  # what the host computes, for a second opinion
    state: dict[str, str] = field(default_factory=dict)  # input -> output that the next call takes
    provenance: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)  # IR after each phase
    quantisation: dict[str, Any] = field(default_factory=dict)  # per tensor: formats, scales, error
    timing: dict[str, float] = field(default_factory=dict)  # seconds of each phase of compilation
    # Outputs in float on the samples of calibration, where the machine has kept them; not saved.
    floats: list[dict[str, np.ndarray]] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """Memory that entry points share and that stays between calls, by entry point and port.

    Every reader's input and every writer's output have one shape and one type; a value goes from
    the one to the other as it is.
    """

    readers: dict[str, str]  # entry point -> input
    writers: dict[str, str]  # entry point -> output


@dataclass
class CompiledEntries:
    """Several programs of one network for one machine, with memory they share.

    A state that an entry point reads is state of its model as well: its next value is what the
    entry point writes, or the input itself where it only reads.
    """

    name: str
    entries: dict[str, CompiledModel[Any]]
    state: dict[str, State] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(self.entries)}>"

    @property
    def family(self) -> str:
        return next(iter(self.entries.values())).artifact.family

    @property
    def target(self) -> str:
        return next(iter(self.entries.values())).artifact.target

    def read_by(self, entry: str) -> dict[str, str]:
        """The inputs of an entry point that are state, and which one each is."""
        return {s.readers[entry]: name for name, s in self.state.items() if entry in s.readers}

    def written_by(self, entry: str) -> dict[str, str]:
        """The outputs of an entry point that are the next value of state, and of which."""
        return {s.writers[entry]: name for name, s in self.state.items() if entry in s.writers}


def around(artifact: Made, found: Prepared) -> CompiledModel[Made]:
    """The model of an artifact whose entries are the device functions of a prepared model.

    A port is on the device if the artifact has a tensor of its name.
    """
    parts, tensors = found.parts, artifact.tensors
    return CompiledModel(
        name=found.model.source,
        artifact=artifact,
        ports={
            name: Port(name, port.shape, port.dtype, name if name in tensors else None)
            for name, port in parts.ports.items()
        },
        inputs=tuple(spec.name for spec in parts.inputs),
        outputs=tuple(spec.name for spec in parts.outputs),
        parts=[
            HostPart(part.function, part.inputs, part.outputs, part.reasons)
            if part.on_host
            else DevicePart(part.function, part.inputs, part.outputs)
            for part in parts.parts
        ],
        host_module=print_module(parts.host_module) if parts.host_parts else "",
        host_weights=parts.host_weights,
        state=dict(parts.state),
        provenance={"compiler": f"tilewright {tilewright.__version__}", **found.provenance()},
        phases=dict(found.phases),
        timing=dict(found.timing),
    )
