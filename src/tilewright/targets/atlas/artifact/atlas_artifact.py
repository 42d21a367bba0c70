"""An Atlas program: code, memory map, weights, and the steps the code carries out.

Tensors on the device have a region: a place in DRAM or VMEM and a layout of whole tiles. Code is in
segments that fit into the instruction memory; an entry runs some of them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewright.io.archive import Member
from tilewright.targets.artifact import (
    Bound,
    Device,
    DeviceOptions,
    DevicePart,
    Finding,
    HostPart,
    LayerLoop,
    Port,
    Tensor,
    calls,
)
from tilewright.targets.artifact import Step as NeutralStep
from tilewright.targets.atlas.artifact.value_graph import ValueGraph
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program
from tilewright.tile.layouts import Layout

if TYPE_CHECKING:
    from tilewright.targets.atlas.artifact.reference_device import Reference
    from tilewright.targets.target import Description

RESULT = "out"  # operand of a step that it writes; others are called out_…
COPY = "out copy"  # operand of a step whose result goes to VMEM and to DRAM: the second place
REARRANGED = ("project", "split_heads")  # kept as products want it: heads or halves apart
WORD = 4  # bytes of an instruction
Space = Literal["dram", "vmem"]
# State is an input that stays from run to run: nothing else ever lies where it does.
Kind = Literal["input", "state", "output", "weight", "constant", "activation"]


def copy_of(result: str) -> str:
    """The operand that is the second place of a result."""
    return f"{result} copy"


def is_result(parameter: str) -> bool:
    """Whether a step writes an operand."""
    return parameter == RESULT or parameter.startswith(
        (
            f"{RESULT}_",
            f"{RESULT} ",
        )
    )


@dataclass(frozen=True)
class Rows:
    """Bytes of a region of weights: `rows` times `bytes` from byte `offset` on, `stride` from one to the
    next."""

    region: str
    offset: int
    bytes: int
    rows: int
    stride: int

    @property
    def end(self) -> int:
        """Behind the last byte, from the start of the region."""
        return self.offset + (self.rows - 1) * self.stride + self.bytes

    def of(self, raw: np.ndarray) -> np.ndarray:
        """These bytes of all bytes of one iteration."""
        starts = self.offset + self.stride * np.arange(self.rows)[:, None]
        return raw[starts + np.arange(self.bytes)].reshape(-1)


@dataclass(frozen=True)
class Region:
    """A tensor's place on the device, or of a copy of some of its bytes.

    With `count` > 1 it is one tensor per iteration of the loop its steps are in: iteration i finds
    its own at `address + i * stride`.
    """

    name: str
    space: Space
    address: int
    layout: Layout
    kind: Kind
    first: int = 0  # steps during which its content matters, inclusive
    last: int = 0
    count: int = 1
    stride: int = 0
    copied: Rows | None = None  # it holds no tensor but these bytes of one, close together

    @property
    def bytes(self) -> int:
        """From its first byte to its last, all iterations included."""
        return self.stride * (self.count - 1) + self.layout.bytes

    def at(self, turn: int) -> int:
        """The address in one iteration."""
        return self.address + (turn * self.stride if self.count > 1 else 0)

    def tensor(self) -> Tensor:
        """The region as people see it."""
        layout = self.layout
        shown = f"{layout.dtype} {layout.order}"
        if layout.arrangement is not None:
            shown += f" of {'x'.join(map(str, layout.given))}"
        return Tensor(
            self.name, self.space, self.address, layout.bytes, shown, self.kind, self.first,
            self.last, self.count, self.stride, tuple(layout.shape), layout.dtype,
        )  # fmt: skip


@dataclass(frozen=True)
class Step(NeutralStep):
    """One kernel call: what the instructions `first_word` to `end_word` of its segment do."""

    segment: int = 0
    first_word: int = 0
    end_word: int = 0
    brings: tuple[str, ...] = ()  # regions with copies of weights that it makes for later steps
    finds: tuple[str, ...] = ()  # those it reads instead of the weights themselves


@dataclass(frozen=True)
class Entry:
    """Segments run one after the other, memory kept in between."""

    segments: tuple[int, ...]
    inputs: tuple[str, ...]  # regions that are filled before it runs
    outputs: tuple[str, ...]  # regions that are read behind it


@dataclass
class AtlasArtifact:
    """All of it."""

    profile: Profile
    segments: list[Program]
    regions: dict[str, Region]
    steps: list[Step]
    loops: list[LayerLoop]
    entries: dict[str, Entry]
    weights: dict[str, np.ndarray]  # region -> bytes (uint8) of its tensors, one after the other
    graph: ValueGraph | None = None  # what it computes, apart from where; not of hand-made models
    least: Bound | None = None
    references: Mapping[str, Reference] | None = None  # of kernels that are not the library's

    @property
    def target(self) -> str:
        return self.profile.name

    @property
    def family(self) -> str:
        return "atlas"

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return {name: region.tensor() for name, region in self.regions.items()}

    def calls(self) -> Iterator[tuple[int, int, Step]]:
        """(step index, layer iteration, step) in the order of execution."""
        return ((index, turn, self.steps[index]) for index, turn, _ in calls(self))

    def bound(self) -> Bound | None:
        return self.least

    def members(self) -> list[Member]:
        from tilewright.targets.atlas.artifact.members import members_of

        return members_of(self)

    def check(
        self, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
    ) -> Iterator[Finding]:
        from tilewright.targets.atlas.artifact.check import check

        return check(self, parts, ports)

    def listing(self) -> str:
        from tilewright.targets.atlas.model.listing import listing

        return listing(self)

    def device(self, options: DeviceOptions) -> Device:
        from tilewright.targets.atlas.artifact.device import AtlasDevice

        return AtlasDevice(self, options)

    def reference(self) -> Device:
        from tilewright.targets.atlas.artifact.reference_device import ReferenceDevice

        return ReferenceDevice(self)

    # --- what it offers besides ---------------------------------------------------------

    def describe(self) -> Description:
        from tilewright.targets.atlas.atlas_target import AtlasTarget

        return AtlasTarget(self.profile).describe()

    @property
    def code_bytes(self) -> list[int]:
        return [WORD * len(program) for program in self.segments]

    @property
    def weight_bytes(self) -> int:
        return sum(raw.nbytes for raw in self.weights.values())

    def calls_of(self, entry: str) -> int:
        segments = self.entries[entry].segments
        return sum(step.segment in segments for _, _, step in self.calls())

    def excerpt(self, step: int, most: int) -> tuple[list[str], int]:
        from tilewright.targets.atlas.model.listing import excerpt

        return excerpt(self, self.steps[step], most)

    def recompute(
        self, step: int, iteration: int, operands: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        from tilewright.targets.atlas.artifact.reference_device import recompute

        return recompute(self, step, iteration, operands)


def compiled_parts(
    ports: Mapping[str, Port], parts: Sequence[HostPart | tuple[tuple[int, ...], Any, Any]]
) -> tuple[list[HostPart | DevicePart], dict[str, Entry]]:
    """Parts and entries of a model whose device parts are (segments, inputs, outputs), of ports."""
    made: list[HostPart | DevicePart] = []
    entries: dict[str, Entry] = {}
    for part in parts:
        if isinstance(part, HostPart):
            made.append(part)
            continue
        segments, inputs, outputs = part
        name = f"part{len(made)}"
        made.append(DevicePart(name, tuple(inputs), tuple(outputs)))
        places = [tuple(ports[p].tensor or "" for p in names) for names in (inputs, outputs)]
        entries[name] = Entry(tuple(segments), *places)
    return made, entries
