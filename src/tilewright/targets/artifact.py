"""What a machine makes of a model and what runs it: the interface of every target.

A compiled model is a list of parts. The host computes some of them with the reference executor;
the others are entries of an artifact, the machine's own program. Values between the parts, and in
and out of the model, are ports. The rooms above the machines (`runtime`, `report`, `cli`) know
nothing else of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from tilewright.io.archive import Member
    from tilewright.trace.model import TraceModel

Progress = Callable[[int, int, int], None]  # steps done, steps in all, cycles (0: nothing runs)


# --- the model around the machine -------------------------------------------------------


@dataclass(frozen=True)
class Port:
    """A value between the outside, the host parts and the device."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # as MLIR spells it: f32, bf16, i64, i1
    tensor: str | None = None  # of the artifact, when the device reads or writes it


@dataclass(frozen=True)
class HostPart:
    """A function of the host module, run by the reference executor."""

    function: str
    inputs: tuple[str, ...]  # ports
    outputs: tuple[str, ...]
    reasons: tuple[str, ...] = ()  # why this is not on the device, one per operation


@dataclass(frozen=True)
class DevicePart:
    """An entry of the artifact; the device's memory is kept from one part to the next."""

    entry: str  # the artifact's own name for it
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


# --- what the machine's program consists of ---------------------------------------------


@dataclass(frozen=True)
class Step:
    """One piece of work of the machine that people know by name, such as a kernel call."""

    name: str  # the layer, as the model names it
    kernel: str
    operands: Mapping[str, str] = field(default_factory=dict)  # parameter -> tensor
    options: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    sources: tuple[str, ...] = ()  # operations of the model it stands for
    macs: int = 0  # multiplications, without padding
    bound: int = 0  # cycles no program for this step can beat; 0: not known


@dataclass(frozen=True)
class LayerLoop:
    """Steps `first` to `end` (exclusive) are carried out `count` times: identical layers."""

    count: int
    first: int
    end: int
    names: tuple[str, ...] = ()  # of the iterations, such as layers.0, layers.1


@dataclass(frozen=True)
class Tensor:
    """A tensor's place in a memory of the machine; in a layer loop one per iteration."""

    name: str
    space: str  # a memory of the target
    address: int
    bytes: int
    encoding: str  # number format, scale and layout, for people
    kind: str  # input, output, weight, constant, activation
    first: int = 0  # steps during which its content matters, inclusive
    last: int = 0
    count: int = 1
    stride: int = 0


@dataclass(frozen=True)
class Bound:
    """Cycles that no correct program for this model and machine can beat."""

    cycles: int
    cause: str = ""  # what it comes from, such as the bytes that have to be loaded
    terms: Mapping[str, int] = field(default_factory=dict)  # cause -> cycles
    ignores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something an independent check of an artifact has to say."""

    code: str
    message: str
    error: bool = True  # else a remark


# --- running ----------------------------------------------------------------------------


@dataclass(frozen=True)
class StepCall:
    """One execution of a step: when, and what the machine did meanwhile.

    Cycles count from the start of the run of the model, over all its parts.
    """

    step: int
    iteration: int  # of the layer loop it is in
    name: str
    start: int
    end: int
    busy: Mapping[str, int]  # unit -> cycles
    loaded: int = 0  # bytes from the large memory
    stored: int = 0  # bytes to it
    instructions: int = 0


@dataclass
class Counters:
    """What the machine did in a run."""

    cycles: int = 0
    instructions: int = 0
    loaded: int = 0
    stored: int = 0
    busy: dict[str, int] = field(default_factory=dict)  # unit -> cycles
    lost: dict[str, int] = field(default_factory=dict)  # cycles without issue, by cause


@dataclass(frozen=True)
class StepValues:
    """What a step read and wrote, as bit patterns, by parameter; what cannot be seen is left out."""

    step: int
    iteration: int
    reads: Mapping[str, np.ndarray]
    writes: Mapping[str, np.ndarray]


Watch = Callable[[StepValues], None]


class Device(Protocol):
    """Memory and units that run an artifact; what is in memory stays between runs."""

    def begin(self) -> None:
        """A new run of the model: cycles and calls count from here."""
        ...

    def write(self, port: Port, value: np.ndarray) -> None: ...
    def read(self, port: Port) -> np.ndarray: ...
    def run(self, part: DevicePart, watch: Watch | None = None) -> None: ...

    @property
    def cycles(self) -> int: ...
    @property
    def calls(self) -> Sequence[StepCall]: ...
    @property
    def counters(self) -> Counters: ...
    def trace(self) -> TraceModel | None:
        """What happened when in the last run, if the machine can say."""
        ...


@dataclass(frozen=True)
class DeviceOptions:
    """How to run: which of the machine's simulators, and when to give up."""

    simulator: str | None = None  # by default the fastest that is there
    poisoned: bool = False  # memory that nothing has written holds what shows when it is read
    max_cycles: int | None = None
    progress: Progress | None = None


class Artifact(Protocol):
    """A program for a machine, of one or several entries that share memory."""

    @property
    def target(self) -> str:
        """The machine's name."""
        ...

    @property
    def family(self) -> str: ...
    @property
    def steps(self) -> Sequence[Step]: ...
    @property
    def loops(self) -> Sequence[LayerLoop]: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    def members(self) -> Iterable[Member]:
        """Its files in a bundle; `Target.read` takes them back."""
        ...

    def check(self, parts: Sequence[HostPart | DevicePart]) -> Iterator[Finding]:
        """Whether it can be right at all: by code that shares nothing with what made it."""
        ...

    def bound(self) -> Bound | None: ...
    def listing(self) -> str:
        """The program as people read it: assembly, task list, C, MLIR."""
        ...

    def device(self, options: DeviceOptions) -> Device: ...
    def reference(self) -> Device:
        """The same work by references, value by value, without the machine's program or memory."""
        ...
