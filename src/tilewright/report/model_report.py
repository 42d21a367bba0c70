"""What a report of a compiled model says, as plain data.

`collect` in `collect_report.py` fills it from a compiled model, a run and a verification;
`model_page.py` writes it as a page; `to_json` is what scripts read. Times are ticks of the
machine, sizes are bytes, shares are between 0 and 1, None means not known.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.trace.model import Activity

FORMAT = 2  # of the JSON form
LATENCY = "latency"  # binds a step in which no unit is busy for half of the time
BUSY_ENOUGH = 0.5


# --- what a run and a verification give -------------------------------------------------


@dataclass(frozen=True)
class CallFigures:
    """One step carried out once: when, and what the units did meanwhile."""

    step: int
    turn: int  # the layer iteration, 0 outside of loops
    start: int
    end: int
    busy: dict[str, int]  # unit -> ticks
    loaded: int = 0  # bytes from DRAM
    stored: int = 0  # bytes to DRAM

    @property
    def cycles(self) -> int:
        return self.end - self.start

    def binding(self) -> tuple[str, float]:
        """The busiest unit and its share of the time, or `latency` where none is busy enough."""
        return binding_of(self.busy, self.cycles)


@dataclass(frozen=True)
class RunFigures:
    """A run of the whole model."""

    cycles: int
    calls: list[CallFigures]
    busy: dict[str, int]
    loaded: int
    stored: int
    instructions: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # ticks without issue, by cause
    activity: Activity | None = None
    inputs: str = ""  # where the inputs came from
    profiles: dict[str, str] = field(default_factory=dict)  # where the time went, as text


@dataclass(frozen=True)
class Errors:
    """How far computed values are from others."""

    name: str
    exact: bool | None = None  # against the reference of the quantised model, bit by bit
    max_abs: float | None = None  # the rest against float32
    relative: float | None = None  # norm of the difference over norm of the values
    cosine: float | None = None


@dataclass(frozen=True)
class LayerErrors:
    """Errors of one layer's result, with the formats and scales it was computed in."""

    errors: Errors
    step: int | None = None
    turn: int = 0
    formats: str = ""
    scales: str = ""
    status: str = ""  # what the comparison says, where yes and no are not enough
    source: str = ""  # "calibration" for errors that the compiler measured, not this run


@dataclass(frozen=True)
class AccuracyFigures:
    """What a verification found."""

    exact: bool | None
    outputs: list[Errors]
    layers: list[LayerErrors] = field(default_factory=list)  # in the order of execution
    against: str = ""  # what the float32 values came from
    difference: str = ""  # the first step that differs, when not exact
    notes: list[str] = field(default_factory=list)


# --- what the page shows ----------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """The beginning of a long text."""

    name: str
    text: str
    lines: int  # of the whole
    left_out: int = 0


@dataclass(frozen=True)
class StepRow:
    """One kernel call of the program."""

    name: str
    kernel: str
    operands: dict[str, str]
    options: dict[str, Any]
    sources: list[str]
    macs: int
    bound: int
    assembly: Text


@dataclass(frozen=True)
class LayerLoopRow:
    """Steps `first` to `end` (exclusive) run once for each name."""

    first: int
    end: int
    names: list[str]


@dataclass(frozen=True)
class RegionRow:
    """A tensor's place; `first` and `last` are the steps its content matters in.

    With `count` > 1 there is one for every layer iteration, `stride` bytes apart; other tensors may lie in
    between. `bytes` counts them all, `end` is one past the last byte of the last one.
    """

    name: str
    space: str
    address: int
    end: int
    bytes: int
    kind: str
    shape: list[int]
    dtype: str
    encoding: str  # number format and layout
    first: int
    last: int
    count: int
    stride: int


@dataclass(frozen=True)
class MemoryUse:
    """How much of a memory the tensors of a model take."""

    space: str
    capacity: int
    top: int  # one past the highest byte
    peak_live: int  # most bytes needed at one step
    peak_step: int
    regions: int


@dataclass(frozen=True)
class PortRow:
    """A value that enters, leaves, or passes between host and device."""

    name: str
    direction: str  # input, output, between
    shape: list[int]
    dtype: str
    region: str | None
    place: str


@dataclass(frozen=True)
class PartRow:
    """A stretch of the model on one side, in the order of execution."""

    side: str  # host or device
    what: str  # the host's function, or the artifact's entry
    inputs: list[str]
    outputs: list[str]
    operations: int
    reasons: list[str]  # why on the host


@dataclass(frozen=True)
class ReportData:
    """Everything a report says about one compiled model."""

    name: str
    target: str
    target_text: str
    version: str
    units: list[str]
    provenance: dict[str, Any]
    inputs: list[str]
    outputs: list[str]
    ports: list[PortRow]
    state: dict[str, str]
    parts: list[PartRow]
    host_operations: int
    device_operations: int
    host_share: float
    host_share_of: str  # what the share is counted in
    steps: list[StepRow]
    layer_loops: list[LayerLoopRow]
    regions: list[RegionRow]
    memories: list[MemoryUse]
    code_bytes: list[int]  # of each piece of code
    code_limit: int
    macs: int
    macs_per_cycle: float  # the most the machine can do
    bound: int  # 0 if that of a step is not known
    bound_of: str  # what the bound stands on
    bound_terms: dict[str, int]  # ticks each resource needs at least, where the compiler says so
    losses: dict[str, str]  # causes of idle ticks, as people read them
    run: RunFigures | None
    accuracy: AccuracyFigures | None
    not_verified: str  # why there is no accuracy
    layers: list[LayerErrors]  # of the verification, or what is known from quantisation
    phases: list[Text]
    timing: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that JSON does not have are text."""
        return {"format": FORMAT, **_plain(asdict(self))}

    @property
    def ratio(self) -> float | None:
        """Measured cycles over the bound."""
        if self.run is None or not self.bound:
            return None
        return self.run.cycles / self.bound

    def turn_name(self, step: int, turn: int) -> str:
        """The name of a layer iteration of the step, such as layers.3; nothing outside of loops."""
        for loop in self.layer_loops:
            if loop.first <= step < loop.end:
                return loop.names[turn]
        return ""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def binding_of(busy: dict[str, int], cycles: int) -> tuple[str, float]:
    """The unit that is busy longest and its share, or `latency` where none is busy enough."""
    if not busy or cycles <= 0:
        return LATENCY, 0.0
    unit = max(busy, key=lambda name: busy[name])
    share = min(busy[unit] / cycles, 1.0)
    return (unit if share >= BUSY_ENOUGH else LATENCY), share
