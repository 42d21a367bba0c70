"""What a machine makes of a model and what runs it: the interface of every target.

A compiled model is a list of parts. The host computes some of them with the reference executor;
the others are entries of an artifact, the machine's own program. Values between the parts, and in
and out of the model, are ports. The rooms above the machines (`runtime`, `report`, `cli`) know
nothing else of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    from tilewright.errors import Location
    from tilewright.io.archive import Member
    from tilewright.targets.port_encoding import Encoding
    from tilewright.targets.target import Description
    from tilewright.trace.model import Activity, TraceModel

Progress = Callable[[int, int, int], None]  # steps done, steps in all, cycles (0: nothing runs)


# --- the model around the machine -------------------------------------------------------


@dataclass(frozen=True)
class Port:
    """A value between the outside, the host parts and the device."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # as MLIR spells it: f32, bf16, i64, i1
    tensor: str | None = None  # of the artifact, when the device reads or writes it
    # Which one, of a tensor that every iteration of a layer loop has for itself; None: all of them.
    iteration: int | None = None
    encoding: Encoding | None = None  # of its numbers in the tensor; None: as they are


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
    rearranged: bool = False  # its result is not its last source's, element by element


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
    bytes: int  # of one
    encoding: str  # number format, scale and layout, for people
    kind: str  # input, output, weight, constant, activation; state: an input that stays
    first: int = 0  # steps during which its content matters, inclusive
    last: int = 0
    count: int = 1
    stride: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""  # of an element, as the machine's people call it

    @property
    def end(self) -> int:
        """One past the last byte of the last iteration's."""
        return self.address + self.stride * (self.count - 1) + self.bytes


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
    hint: str | None = None


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

    @property
    def cycles(self) -> int:
        return self.end - self.start

    def to_json(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "iteration": self.iteration,
            "name": self.name,
            "start": self.start,
            "end": self.end,
            "cycles": self.cycles,
            "busy": dict(self.busy),
            "dma_loaded": self.loaded,
            "dma_stored": self.stored,
            "instructions": self.instructions,
        }


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
    """What a step read and wrote, by parameter, in the machine's number formats.

    What cannot be seen is left out; a machine may tell of one step in several pieces, such as its
    operands when it begins and its results when they have arrived.
    """

    step: int
    iteration: int
    reads: Mapping[str, np.ndarray]
    writes: Mapping[str, np.ndarray]
    names: Mapping[str, str] = field(default_factory=dict)  # of the values that are read
    scales: Mapping[str, float] = field(
        default_factory=dict
    )  # what written numbers are multiples of


class Watch(Protocol):
    """Looks at every step of a run."""

    def __call__(self, values: StepValues) -> None: ...

    def expected(self, step: int, iteration: int) -> Mapping[str, np.ndarray]:
        """What the results should be, where that is known: a machine whose results arrive late
        looks until they are there."""
        ...


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
    window: tuple[int, int] | None = None  # cycles that `trace` will be asked for
    sampled: bool = False  # `activity` will be asked for


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

    def check(
        self, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
    ) -> Iterator[Finding]:
        """Whether it can be right at all: by code that shares nothing with what made it.

        Parts and ports fit each other; whether they fit the artifact is looked at here.
        """
        ...

    def bound(self) -> Bound | None: ...
    def listing(self) -> str:
        """The program as people read it: assembly, task list, C, MLIR."""
        ...

    def device(self, options: DeviceOptions) -> Device: ...
    def reference(self) -> Device:
        """The same work by references, value by value, without the machine's program or memory."""
        ...


# --- what an artifact or a device may offer besides -------------------------------------


@runtime_checkable
class Described(Artifact, Protocol):
    """An artifact that knows its machine, also where that is a user's own."""

    def describe(self) -> Description: ...


@runtime_checkable
class Inspectable(Described, Protocol):
    """An artifact that can show its code step by step."""

    @property
    def code_bytes(self) -> Sequence[int]:
        """Of each piece of code that is in the instruction memory at one time."""
        ...

    @property
    def weight_bytes(self) -> int: ...
    def calls_of(self, entry: str) -> int:
        """How many steps an entry carries out, every layer iteration counted."""
        ...

    def excerpt(self, step: int, most: int) -> tuple[Sequence[str], int]:
        """The first lines of a step's code, and how many it has."""
        ...


@runtime_checkable
class Emits(Artifact, Protocol):
    """An artifact that can be written in other forms than a bundle: `compile --emit`."""

    @property
    def emits(self) -> Sequence[str]: ...
    def emit(self, kind: str) -> bytes: ...


@runtime_checkable
class Summarised(Artifact, Protocol):
    """An artifact with something of its own to say in the summary of `compile --json`."""

    def summary(self) -> Mapping[str, Any]: ...


@runtime_checkable
class Precise(Artifact, Protocol):
    """An artifact that may compute in float32, where rounding explains very little."""

    @property
    def float_error(self) -> float | None:
        """The largest error of outputs over their largest value, or over 1; None: it quantises."""
        ...


@runtime_checkable
class Recomputes(Artifact, Protocol):
    """An artifact whose steps can be computed by their references for any operands."""

    def recompute(
        self, step: int, iteration: int, operands: Mapping[str, np.ndarray]
    ) -> Mapping[str, np.ndarray]:
        """The results of a step for operands as `StepValues` has them; weights are known."""
        ...


@runtime_checkable
class Keeps(Device, Protocol):
    """A device with inputs that nothing but `write` changes, from run to run: state.

    What it holds of them already need not be written again.
    """

    def keeps(self, port: Port) -> bool: ...
    def row_dimension(self, port: Port) -> int | None:
        """The dimension of a port's array along which some of it can be written; None: none."""
        ...

    def write_rows(self, port: Port, value: np.ndarray, first: int, end: int) -> None:
        """Write `first` to `end` (exclusive) of an array's rows along that dimension."""
        ...


@runtime_checkable
class Audited(Device, Protocol):
    """A device that looks at itself after a run."""

    def audit(self) -> Iterable[Finding]:
        """What is not in memory as it should be, such as weights that were overwritten."""
        ...

    def hazards(self) -> Iterable[Finding]:
        """What could go wrong in the program that ran, though it did not in this run."""
        ...


@runtime_checkable
class Profiled(Device, Protocol):
    """A device that can say in text where the time of its last run went."""

    def profiles(self) -> Mapping[str, str]: ...


@runtime_checkable
class Resumable(Device, Protocol):
    """A device that can stop at a cycle and go on later, also after other runs or as another one."""

    def run_until(
        self, part: DevicePart, cycle: int, stop: Callable[[], bool] | None = None
    ) -> bool:
        """Run an entry, or go on with it, to a cycle of the whole run; whether it came to its end.

        stop: asked now and then; the run stops soon after it gives True.
        """
        ...

    @property
    def reached(self) -> int:
        """The cycle of the whole run at which an entry was stopped."""
        ...

    def snapshot(self) -> object:
        """Everything that an entry in the middle of its run needs to go on."""
        ...

    def restore(self, snapshot: object) -> None: ...


@runtime_checkable
class Packs(Resumable, Protocol):
    """A device whose snapshots can be written to files.

    What the program itself says, such as its weights, need not be in them: whoever reads them has
    made sure that the program is the same.
    """

    @property
    def packs(self) -> bool:
        """Whether it can with the simulator and the options it has."""
        ...

    def pack(self, snapshot: object) -> Iterable[Member]: ...
    def unpack(
        self, part: DevicePart, members: Mapping[str, np.ndarray], place: Location
    ) -> object:
        """What `restore` takes, in the middle of an entry; ValueError for what is no snapshot."""
        ...


@runtime_checkable
class Sampled(Device, Protocol):
    """A device that notes how busy its units are over time (`DeviceOptions.sampled`)."""

    def activity(self) -> Activity | None: ...


# --- steps in the order of execution ----------------------------------------------------


def calls(artifact: Artifact) -> Iterator[tuple[int, int, Step]]:
    """(step index, layer iteration, step) in the order of execution."""
    starts = {loop.first: loop for loop in artifact.loops}
    steps, index = artifact.steps, 0
    while index < len(steps):
        loop = starts.get(index, LayerLoop(1, index, index + 1))
        for iteration in range(loop.count):
            for number in range(loop.first, loop.end):
                yield number, iteration, steps[number]
        index = loop.end


def call_name(artifact: Artifact, step: int, iteration: int) -> str:
    """The name of a step in one iteration: layers.3.mlp.gate, or `layers.3/gate` for the step gate."""
    return iteration_name(artifact, step, iteration, artifact.steps[step].name)


def iteration_name(artifact: Artifact, step: int, iteration: int, name: str) -> str:
    """A name that a step has in the first iteration, as it is in another one."""
    for loop in artifact.loops:
        if loop.first <= step < loop.end and loop.count > 1:
            if len(set(loop.names)) < loop.count:
                return f"iteration {iteration}/{name}"
            first, own = loop.names[0], loop.names[iteration]
            if name == first or name.startswith(f"{first}."):
                return own + name[len(first) :]
            return f"{own}/{name}"
    return name
