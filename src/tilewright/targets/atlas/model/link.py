"""Kernels put together to one program: code after code, rounds as a loop around it.

Every kernel starts with idle units and ends when its transfers are done, but for those that share
their code with the next one (`joining.py`) and stay with it in one segment. Scalar registers belong
to the running kernel; what a round needs to know is one word in VMEM, the distance of its weights
from those of the first round. A program longer than the instruction memory is cut into segments
that are loaded one after the other, all memories kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.compile_kernel import Placement
from tilewright.targets.atlas.codegen.constants import load_constant
from tilewright.targets.atlas.codegen.emit import fill
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.codegen.prefetch import Prefetch
from tilewright.targets.atlas.codegen.routine import LAYER_WORD, PointersExceeded
from tilewright.targets.atlas.model.blocking import padded
from tilewright.targets.atlas.model.buffer_assignment import (
    BESIDE,
    LAST,
    PAGE,
    BufferAssignment,
    PrefetchedRows,
)
from tilewright.targets.atlas.model.handing_over import transfer_of
from tilewright.targets.atlas.model.kernel_code import (
    KernelCode,
    Lacking,
    LaunchRefused,
    Pending,
    Source,
    stored,
)
from tilewright.targets.atlas.model.kernel_records import build
from tilewright.targets.atlas.model.launches import Launch, LayerLoop, StoredTensor
from tilewright.targets.atlas.model.lower_launch import Traces, lower_launch
from tilewright.targets.atlas.model.padding_moves import Moves
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.tile.layouts import Layout

WORD = 4  # bytes of an instruction
APART = ("chain",)  # kernels of several layers


@dataclass
class Linked:
    """The code of a program, segment by segment."""

    segments: list[Program] = field(default_factory=list)
    order: list[int] = field(default_factory=list)  # segments as they run
    spans: list[tuple[int, int, int]] = field(default_factory=list)  # call -> segment, words
    data: list[list[tuple[int, bytes]]] = field(default_factory=list)  # call -> constants in DRAM
    dram_end: int = 0


@dataclass
class Generator:
    """Traces and compiles calls.

    A trace does not depend on places and is kept, for all calls of the same kernel; so is what was
    made of it at the same places, here and on disk.
    """

    profile: Profile
    calls: Sequence[Launch]
    layer_loops: Sequence[LayerLoop[StoredTensor]]
    traces: Traces = field(default_factory=dict)
    made: dict[tuple, KernelCode | Pending | Lacking] = field(default_factory=dict)

    def lower(
        self, places: BufferAssignment, short: Collection[int] = ()
    ) -> tuple[list[KernelCode | Pending], dict[int, int]]:
        """Every call at its place, and bytes of VMEM that calls lack for good code; 0 for those that
        have the room, but cannot bring to others what they should.

        short: calls whose loop bodies may be short.
        """
        turning = {t for repeat in self.layer_loops for t in repeat.own}
        moves = Moves.of(self.calls, places)
        end, made, lacking = places.dram_end, [], {}
        for index, call in enumerate(self.calls):
            kernel = build(call.kernel, call.options)
            layouts = kernel.layouts({p: t.layout.shape for p, t in call.tensors.items()})
            for parameter, tensor in call.tensors.items():
                if layouts[parameter] != tensor.layout:
                    raise AssertionError(f"{call.name}: {parameter} is {tensor.layout}")
            tensors, stacked = {}, bool(call.way.get("stacked"))
            for parameter, tensor in call.tensors.items():
                stacks = stacked and len(tensor.layout.shape) == 3 and not tensor.layout.is_vector
                inside = moves.inside(call, parameter, tensor)
                found = _placed(tensor, places, index, tensor in turning, inside)
                found = replace(found, unwritten=tensor in moves.unwritten)
                tensors[parameter] = _stacked(found) if stacks else found
            placement = Placement(
                tensors,
                end,
                places.areas[index],
                tables=True,
                found=tuple(
                    _source(p, places, turning) for p in places.prefetched if p.reader == index
                ),
                brings=tuple(
                    _source(p, places, turning)
                    for p in (*places.prefetched, *places.begun)
                    if p.carrier == index and p.way == BESIDE
                ),
                begun=tuple(
                    transfer_of(p, places, turning) for p in places.begun if p.reader == index
                ),
                following=tuple(
                    transfer_of(p, places, turning)
                    for p in places.begun
                    if p.carrier == index and p.way == LAST
                ),
            )
            joins = any(index in run for run in places.joined)
            try:
                result = self._known(index, placement, index in short, joins)
            except TilewrightError as error:
                if placement.brings and isinstance(error, PointersExceeded):
                    lacking[index] = 0  # it has no registers for what it brings to others
                    continue
                if call.kernel in APART:  # several layers, which can also be computed one by one
                    raise LaunchRefused(error, index) from error
                raise _in_model(error, call, end, self.profile) from None
            if isinstance(result, Lacking):
                area = places.areas[index]
                lacking[index] = result.wanted - (area.end - area.start)
                continue
            end = -(-result.end // PAGE) * PAGE
            made.append(result)
        return made, lacking

    def _known(
        self,
        index: int,
        placement: Placement,
        short: bool,
        joins: bool,
    ) -> KernelCode | Pending | Lacking:
        """A call at its places, or what it lacks; computed once for the same places."""
        places = tuple(placement.tensors.items())
        call = self.calls[index]
        key = (
            call,
            repr(call.options),  # calls that lack room are cut in another way
            short,
            places,
            placement.constants,
            placement.area,
            placement.found,
            placement.brings,
            placement.begun,
            placement.following,
            joins,
        )
        if key not in self.made:
            short = short or self._has_all(placement)
            source = Source(call.kernel, call.options, placement, self.profile, short)
            self.made[key] = stored(source, lambda: lower_launch(source, self.traces), joins)
        return self.made[key]

    def _has_all(self, placement: Placement) -> bool:
        """Whether there is no more VMEM that a call could ask for."""
        area = placement.area
        assert area is not None
        return area.end - area.start >= self.profile.vmem_bytes - 2 * PAGE


def _in_model(error: TilewrightError, call: Launch, end: int, profile: Profile) -> TilewrightError:
    """What a kernel says of its own place, said of the model."""
    if error.code != "TW1638":
        return error
    return TilewrightError(
        "TW1705",
        f"the model needs more than the {profile.dram_bytes:,} bytes of DRAM that {profile.name} has: "
        f"tensors and tables up to {call.name} take {end:,}, and {call.name} needs tables or room of "
        "its own",
    )


def _placed(
    tensor: StoredTensor, places: BufferAssignment, call: int, turning: bool, inside: bool
) -> Placed:
    """Where a call finds a tensor; inside: only what lies inside its edges moves."""
    padding = not inside or tensor.layout.arrangement is not None
    if not places.on_chip(tensor, call):
        positive = tensor.kind == "weight" and tensor.layout.is_vector
        return Placed(
            tensor.layout, places.dram[tensor], rounds=turning, padding=padding, positive=positive
        )
    stay = places.stays[tensor]
    copy = places.dram[tensor] if call == stay.first and not stay.whole else None
    return Placed(tensor.layout, places.vmem[tensor], on_chip=True, copy=copy, padding=padding)


def _stacked(one: Placed) -> Placed:
    """Matrices of a batch as one, each with its padding below the one before."""
    assert isinstance(one.layout, Layout)
    batch, rows, columns = one.layout.shape
    below = replace(one.layout, shape=(1, batch * padded(rows), columns))
    return replace(one, layout=below, unwritten=False)


def _source(
    one: PrefetchedRows, places: BufferAssignment, turning: Collection[StoredTensor]
) -> Prefetch:
    """What moves for prefetched rows of a tensor, and where to."""
    start = places.dram[one.tensor] + one.offset
    rounds = one.tensor in turning
    return Prefetch(start, one.address, one.bytes, one.rows, one.stride, rounds)


def link(
    calls: Sequence[Launch],
    made: Sequence[KernelCode],
    layer_loops: Sequence[LayerLoop[StoredTensor]],
    places: BufferAssignment,
    profile: Profile,
    first: int,
    end: int,
    into: Linked,
    limit: int | None = None,
) -> list[int]:
    """Add the code of calls `first` to `end`; the segments it became, in the order they run.

    limit: instructions of a segment, by default all that instruction memory holds.
    """
    limit = profile.imem_bytes // WORD if limit is None else limit
    for index in range(first, end):
        count = len(_settled(made[index], profile))
        if count > limit:
            raise TilewrightError(
                "TW1706",
                f"{calls[index].name} takes {count} instructions, the instruction memory of "
                f"{profile.name} holds {limit}",
            )
    order: list[int] = []
    at = first
    block: list[_Piece] = []
    while at < end:
        repeat = next((r for r in layer_loops if r.first == at), None)
        if repeat is None:
            block.append(_Piece(at, _settled(made[at], profile), made[at].open))
            at += 1
            continue
        number = list(layer_loops).index(repeat)
        stride = places.stride[number]
        body = [_Piece(k, _settled(made[k], profile)) for k in range(repeat.first, repeat.end)]
        step = _next_round(stride, profile)
        length = sum(len(p.program) for p in body) + len(step) + 64
        reset = _Piece(-1, _reset(profile))
        if length <= limit:
            loop = _loop(body, stride, repeat.count, profile)
            if sum(len(p.program) for p in block) + length + 16 > limit:
                order += _close(block, into, limit)
                block = []
            block += [reset, *loop]
        else:
            block.append(reset)
            order += _close(block, into, limit)
            block = []
            # The order of segments counts the rounds here; only weights need the offset.
            tail = [_Piece(-1, step)] if repeat.own else []
            turns = _close([*body, *tail], into, limit)
            order += turns * repeat.count
        at = repeat.end
    order += _close(block, into, limit)
    into.order += order
    return order


@dataclass
class _Piece:
    call: int  # -1: between calls
    program: Program
    open: bool = False  # the next piece goes on with its registers and units


def _close(pieces: list[_Piece], into: Linked, limit: int) -> list[int]:
    """Segments of the pieces, each at most `limit` words."""
    order: list[int] = []
    current: list[_Piece] = []

    def finish() -> None:
        if not current:
            return
        number, at = len(into.segments), 0
        for piece in current:
            if piece.call >= 0:
                while len(into.spans) <= piece.call:
                    into.spans.append((0, 0, 0))
                into.spans[piece.call] = (number, at, at + len(piece.program))
            at += len(piece.program)
        into.segments.append(_joined([p.program for p in current]))
        order.append(number)
        current.clear()

    unit: list[_Piece] = []  # pieces that stay together
    for piece in pieces:
        unit.append(piece)
        if piece.open:
            continue
        if sum(len(p.program) for p in [*current, *unit]) > limit:
            finish()
        current.extend(unit)
        unit = []
    finish()
    return order


def _joined(programs: Sequence[Program]) -> Program:
    return Program(
        np.concatenate([p.opcodes for p in programs]),
        np.concatenate([p.operands for p in programs]),
        np.concatenate([p.lines for p in programs]),
        "<model>",
    )


def _settled(code: KernelCode, profile: Profile) -> Program:
    """The program, followed by the time its last instructions may still take."""
    program = code.program
    if code.open:
        return program
    return _joined([program, _rows(fill(_unsettled(program, profile)))])


def _unsettled(program: Program, profile: Profile) -> int:
    """Ticks from the end of a program until all that it started is done.

    Loops jump back only, so what was carried out last is what stands last: each instruction took
    a tick at least, a delay as many as it says. Where instructions wait for their unit, nobody
    knows when they started.
    """
    longest = max(timing.latency for timing in profile.timing.values()) + 1
    if profile.busy_unit != "fault":
        return longest
    rest, elapsed = 0, 0
    for index in reversed(range(len(program))):
        instruction = program[index]
        opcode = instruction.opcode
        elapsed += 1 + (instruction.operands[0] if opcode.timing == "delay" else 0)
        rest = max(rest, profile.timing_of(opcode).latency + 1 - elapsed)
        if elapsed >= longest:
            break
    return rest


def _rows(rows: list[Instruction]) -> Program:
    return Program.from_instructions(rows)


def _reset(profile: Profile) -> Program:
    return _rows([Instruction.of("sw", 0, LAYER_WORD, 0), *fill(4)])


def _next_round(stride: int, profile: Profile) -> Program:
    """Move on to the weights of the next round."""
    return _rows(
        [
            Instruction.of("lw", 1, LAYER_WORD, 0),
            *load_constant(2, stride),
            *fill(4),
            Instruction.of("add", 1, 1, 2),
            Instruction.of("sw", 1, LAYER_WORD, 0),
            *fill(4),
        ]
    )


def _loop(body: list[_Piece], stride: int, count: int, profile: Profile) -> list[_Piece]:
    """The pieces, and a jump back to the first until all rounds are done."""
    length = sum(len(p.program) for p in body)
    rows = list(_next_round(stride, profile))
    rows += load_constant(3, stride * count)
    slots = [Instruction.of("delay", 0)] * profile.delay_slots
    # Leave when the offset has reached the end; otherwise jump, which reaches further.
    rows += [Instruction.of("beq", 1, 3, 4 * (2 * len(slots) + 2)), *slots]
    rows += [Instruction.of("jal", 0, -4 * (length + len(rows))), *slots]
    return [*body, _Piece(-1, _rows(rows))]
