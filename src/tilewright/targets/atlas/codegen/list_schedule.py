"""List scheduling of straight virtual code on one profile, with registers and channels.

The scheduler (native/atlas_codegen) walks time. At each tick it issues the ready instruction with
the longest way to the end whose unit, registers, slots and channel are free; scalar constants are
made in idle ticks before they are needed. Transfers that start and end in the code have exact
times, so waits for them are placed where they do not block. Ticks count from the piece's own start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen import _codegen
from tilewright.targets.atlas.codegen.constants import Constants
from tilewright.targets.atlas.codegen.graph import Node, build
from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind, Operand
from tilewright.targets.atlas.program import Instruction

# Tensor registers left free by work that runs further ahead than so many instructions.
RESERVES = (
    (0, 0), (16, 128), (16, 32), (32, 96), (24, 64), (24, 32), (16, 0), (32, 0), (64, 0),
)  # fmt: skip
PAIRS = REGISTER_COUNT[Kind.M] // 2

# As in native/atlas_codegen: kinds of units, of registers, of files, of operands, flags of nodes.
_UNITS = {"DMA": 1, "SCALAR": 2, "DECODE": 3}
_KINDS = {Kind.M: 0, Kind.W: 1, Kind.ACC: 1, Kind.X: 2}
_FILES = {Kind.X: 0, Kind.E: 1}
_NUMBER, _CHANNEL, _CONSTANT, _ADDRESS, _PLACE = range(5)
_REPEATED, _STORES, _WAITS, _PREFETCHES, _CLOSING, _LOADS_TENSOR = (1 << k for k in range(6))


@dataclass(slots=True)
class Issue:
    """One instruction with its final operands and the tick it dispatches."""

    tick: int
    instruction: Instruction
    source: str = ""


@dataclass
class Setting:
    """What a straight piece finds when it starts."""

    constants: Constants = field(default_factory=Constants)
    pointers: dict[Register, int] = field(default_factory=dict)
    carried: dict[Register, int] = field(default_factory=dict)
    channels: list[int] = field(default_factory=lambda: list(range(8)))
    idle: bool = False  # the DMA engine has nothing else to do, so transfer times are exact


@dataclass
class Schedule:
    """Instructions in order of dispatch.

    finish: the tick by which every operation but repeated transfers has completed.
    dispatched: (node, tick, completion) of every instruction of the code.
    places: the tensor register, slot or accumulator of every virtual one.
    """

    issues: list[Issue]
    finish: int
    dispatched: list[tuple[Node, int, int]]
    places: dict[Register, int]


class OutOfRegisters(TilewrightError):
    """Nothing can be issued any more."""

    def __init__(self) -> None:
        super().__init__(
            "TW1450",
            "the code needs more tensor registers or slots than the machine has",
            hint="use smaller tiles, or store intermediate tiles to memory",
        )


def schedule(
    code: Code,
    setting: Setting | None = None,
    spread: int = 0,
    plan: list[int] | None = None,
    tries: int = len(RESERVES),
) -> Schedule:
    """Schedule the code; `spread` varies the order among near equals (0: none). A plan gives
    the tick at which each node of the graph should issue, and so the order.

    Where work that runs ahead takes the registers of the work it waits for, it is done again
    with less running ahead, up to so many `tries` in all.
    """
    return _Problem(code, setting or Setting(), spread, plan).solve(tries)


class _Problem:
    """The code as numbers, for the native scheduler."""

    def __init__(self, code: Code, setting: Setting, spread: int, plan: list[int] | None) -> None:
        self.profile, self.setting = code.profile, setting
        self.distances = Distances(code.profile)
        self.spread, self.plan = spread, plan
        self.nodes = build(code)
        self.units: dict[str, int] = {}
        self.queues: dict[tuple[Kind, int | None], int] = {}
        self.numbers: dict[Register, int] = {}
        self.registers: list[tuple[int, int, int, bool, int]] = []

    def solve(self, tries: int) -> Schedule:
        nodes, constants = self.nodes, self.setting.constants
        taken = {
            pair
            for register, place in self.setting.carried.items()
            for pair in (place // 2, (place + register.size - 1) // 2)
        }
        rows = [[(self._number(r), first, n) for r, first, n, _, _ in node.rows] for node in nodes]
        operands = [
            [
                self._operand(operand, value)
                for operand, value in zip(node.op.opcode.operands, node.op.operands, strict=True)
            ]
            for node in nodes
        ]
        found = _codegen.list_schedule(
            self._nodes(),
            [[(later.index, distance) for later, distance in node.after] for node in nodes],
            rows,
            operands,
            self.registers,
            sum(1 << pair for pair in range(PAIRS) if pair not in taken),
            self.setting.channels,
            (list(constants.x.items()), list(constants.e.items()), constants.used, constants.clock),
            list(constants.reserved),
            [(_FILES[kind], place) for kind, place in constants.pinned],
            self._limits(),
            list(RESERVES[:tries]),
        )
        if found is None:
            raise OutOfRegisters()
        issues, steps, physical, dispatch, completion, places, finish, held = found
        x, e, constants.used, constants.clock = held
        constants.x, constants.e = dict(x), dict(e)
        return Schedule(
            [
                self._issue(tick, nodes[index], step, physical[index])
                for (tick, index), step in zip(issues, steps, strict=True)
            ],
            finish,
            list(zip(nodes, dispatch, completion, strict=True)),
            {r: places[k] for r, k in self.numbers.items() if r.kind is not Kind.X},
        )

    def _issue(self, tick: int, node: Node, step: tuple[int, int, int], operands: list) -> Issue:
        making, place, value = step
        if making < 0:
            instruction = Instruction(node.op.opcode, tuple(operands))
        elif making == 0:
            instruction = Instruction.of("seli", place, value)
        elif making == 2:
            instruction = Instruction.of("lui", place, value)
        else:
            instruction = Instruction.of("addi", place, 0 if making == 1 else place, value)
        return Issue(tick, instruction, node.op.source)

    def _limits(self) -> tuple[int, int, int, int, int, bool, bool, int]:
        # Repeated stores of the iteration before are still on their way.
        sites = {n.op.site for n in self.nodes if n.op.site is not None and n.op.site.store}
        return (
            TUNING.window_instructions,
            TUNING.window_ahead,
            TUNING.transfer_haste,
            TUNING.spare_channels,
            TUNING.result_registers,
            self.setting.idle,
            self.distances.holds,
            sum(self.profile.dma.ticks(site.bytes) for site in sites) - 1,
        )

    def _nodes(self) -> list[tuple[int, ...]]:
        ranks = [self._rank(node) for node in self.nodes]
        order = {rank: k for k, rank in enumerate(sorted(set(ranks)))}
        rows = []
        for node, rank in zip(self.nodes, ranks, strict=True):
            op, timing = node.op, self.profile.timing_of(node.op.opcode)
            rows.append(
                (
                    self.units.setdefault(node.unit, len(self.units)),
                    _UNITS.get(node.unit, 0),
                    op.order,
                    node.path,
                    order[rank],
                    self.plan[node.index] if self.plan is not None else 0,
                    node.transfer.index if node.transfer is not None else -1,
                    op.site.channel if op.site is not None else -1,
                    self.profile.dma.ticks(op.bytes) if timing.unit == "DMA" else 0,
                    timing.latency,
                    timing.interval,
                    self.distances.place(op.opcode),
                    _flags(node),
                )
            )
        return rows

    def _rank(self, node: Node) -> tuple:
        if self.plan is not None:
            return (-self.plan[node.index],)
        dma = node.op.opcode.timing == "dma_transfer"
        path = node.path
        if dma and node.op.opcode.effect == "dma.load":
            # One engine: first what has the longest way after its transfer, however long that is.
            path -= self.profile.dma.ticks(node.op.bytes)
        jitter = (node.index * 2654435761 ^ self.spread * 40503) & 0xFF if self.spread else 0
        idle_wait = _is_closing_wait(node)
        # Loads go first where nothing else runs: stores can hide the work after the last load.
        load = self.setting.idle and node.op.opcode.effect == "dma.load"
        return (dma, load, not idle_wait, path + jitter, -node.op.order)

    def _number(self, register: Register) -> int:
        """The number of a register, the next one where it is new."""
        if register not in self.numbers:
            self.numbers[register] = len(self.numbers)
            queue = -1
            if register.kind in (Kind.W, Kind.ACC):
                queue = self.queues.setdefault((register.kind, register.unit), len(self.queues))
            place = self.setting.carried.get(register, -1)
            kind = _KINDS[register.kind]
            self.registers.append((kind, register.size, queue, register.carried, place))
        return self.numbers[register]

    def _operand(self, operand: Operand, value: Part | int) -> tuple[int, int, int]:
        """How the operand gets its number."""
        if operand.key == "channel":
            return _CHANNEL, 0, 0
        if isinstance(value, int):
            return _NUMBER, value, 0
        register = value.register
        if register.constant is not None:
            return _CONSTANT, _FILES[register.kind], register.constant
        if register.kind is Kind.X and register.carried:
            return _NUMBER, self.setting.pointers[register], 0
        kind = _ADDRESS if register.kind is Kind.X else _PLACE
        return kind, self._number(register), value.index


def _flags(node: Node) -> int:
    op = node.op
    return (
        _REPEATED * (op.site is not None)
        + _STORES * (op.site is not None and op.site.store)
        + _WAITS * (op.opcode.timing == "dma_wait")
        + _PREFETCHES * _is_prefetch(node)
        + _CLOSING * _is_closing_wait(node)
        + _LOADS_TENSOR * (op.opcode.memory == "tensor load")
    )


def _is_prefetch(node: Node) -> bool:
    """Whether the transfer is for a later piece: nothing here waits for its bytes."""
    return node.op.opcode.effect == "dma.load" and all(
        later.transfer is node and not later.after for later, _ in node.after
    )


def _is_closing_wait(node: Node) -> bool:
    """A wait that nothing in the code depends on."""
    return node.transfer is not None and not node.after
