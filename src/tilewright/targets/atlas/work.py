"""The work in a program: the distinct values that its results depend on.

A run is replayed by value numbers instead of values. Every tensor operation becomes one step;
operations that compute the same thing from the same things are one step, copies and detours
through memory are none, and what no result depends on is left out. What remains is what any
program for the same formula has to do, however it is scheduled and wherever it keeps its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind, Opcode
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.program import Program

ROW = 32  # bytes that move together
CHUNK = 1024  # bytes of a tensor register
_ROWS = CHUNK // ROW
_IN_ORDER = np.arange(_ROWS, dtype=np.int32).tobytes()


@dataclass(eq=False, slots=True)
class Step:
    """One distinct piece of work.

    name: "load" (bytes from DRAM), "store" (bytes to DRAM), or the instruction without its unit.
    choices: the units that can do it. slots: which of `before` hand over inside a matrix unit.
    """

    name: str
    choices: tuple[Timing, ...]
    before: list[Step] = field(default_factory=list)
    slots: frozenset[int] = frozenset()
    bytes: int = 0


@dataclass
class Work:
    """Steps in an order in which every step follows those it needs."""

    profile: Profile
    steps: list[Step]

    @property
    def loads(self) -> list[Step]:
        return [step for step in self.steps if step.name == "load"]

    @property
    def stores(self) -> list[Step]:
        return [step for step in self.steps if step.name == "store"]


def work_of(
    program: Program,
    profile: Profile,
    order: Sequence[int] | np.ndarray,
    outputs: Iterable[tuple[int, int]],
    kept: Iterable[tuple[int, int]] = (),
) -> Work:
    """The work of one run.

    order: indices of the instructions in the order they were dispatched (a trace's `index`).
    outputs: (DRAM address, bytes) of every result.
    kept: (matrix unit, accumulator) of every result that stays there.
    """
    return _Replay(program, profile).run(order, outputs, kept)


class _Memory:
    """Which value each row of a memory holds: value number, and which row of that value."""

    def __init__(self, rows: int, initial: bool) -> None:
        self.initial = initial
        self.value = np.zeros(0, np.int64)
        self.part = np.zeros(0, np.int32)
        self._grow(rows)

    def _grow(self, rows: int) -> None:
        old = len(self.value)
        fresh = np.arange(old, rows, dtype=np.int64)
        # DRAM starts with data: chunk k is value -2 - k. VMEM starts empty: value -1.
        value = -2 - fresh // _ROWS if self.initial else np.full(rows - old, -1, np.int64)
        self.value = np.concatenate([self.value, value])
        self.part = np.concatenate([self.part, (fresh % _ROWS).astype(np.int32)])

    def span(self, address: int, count: int) -> slice:
        """Rows of a byte range, which must be aligned."""
        if address % ROW or count % ROW or address < 0:
            raise _unknown(f"{count} bytes at {address:#x}")
        if (address + count) // ROW > len(self.value):
            self._grow(max(2 * len(self.value), (address + count) // ROW))
        return slice(address // ROW, (address + count) // ROW)


def _unknown(what: str) -> TilewrightError:
    return TilewrightError("TW1460", f"the work of the program cannot be derived: {what}")


class _Replay:
    def __init__(self, program: Program, profile: Profile) -> None:
        self.program, self.profile = program, profile
        self.x: list[int] = [0] * 32
        self.e: list[int] = [0] * 32
        self.m: list[int] = [-1] * 64
        self.slot: dict[tuple[Kind, int, int], int] = {}
        self.vmem = _Memory(profile.vmem_bytes // ROW, initial=False)
        self.dram = _Memory(1 << 10, initial=True)
        self.steps: list[Step] = []
        self.owner: list[Step] = []  # value number -> the step that makes it
        self.known: dict[object, list[int]] = {}
        self.load_steps: dict[int, Step] = {}
        self.load_rows: dict[int, set[int]] = {}
        self.rows_of: dict[Step, list[tuple[int, int]]] = {}  # DRAM rows a vload brings in

    def run(
        self,
        order: Sequence[int] | np.ndarray,
        outputs: Iterable[tuple[int, int]],
        kept: Iterable[tuple[int, int]],
    ) -> Work:
        rows = self.program.operands.tolist()
        opcodes = self.program.opcodes.tolist()
        for index in np.asarray(order).tolist():
            opcode = OPCODES[opcodes[index]]
            values = rows[index][: len(opcode.operands)]
            if opcode.record == "scalar":
                self._scalar(opcode, values)
            elif opcode.record == "dma":
                self._transfer(opcode, values)
            elif opcode.memory:
                self._tensor_memory(opcode, values)
            else:
                self._tensor(opcode, values)
        return self._finish(outputs, kept)

    # --- instructions -------------------------------------------------------------------

    def _scalar(self, opcode: Opcode, values: list[int]) -> None:
        name = opcode.mnemonic
        if opcode.is_transfer or name in ("delay", "fence", "ecall", "ebreak"):
            if name in ("jal", "jalr") and values[0]:
                raise _unknown("a link address")
            return
        if name == "seli":
            self.e[values[0]] = values[1] & 0xFF
            return
        target = values[0]
        if name == "lui":
            result = values[1] << 12
        elif name in _IMMEDIATE:
            low = ((values[2] & 0xFFF) ^ 0x800) - 0x800 if name not in _SHIFTS else values[2]
            result = _IMMEDIATE[name](self.x[values[1]], low)
        elif name in _REGISTER:
            result = _REGISTER[name](self.x[values[1]], self.x[values[2]])
        else:
            raise _unknown(f"{name} computes a scalar")
        if target:
            self.x[target] = result & 0xFFFFFFFF

    def _transfer(self, opcode: Opcode, values: list[int]) -> None:
        if opcode.timing == "dma_wait":
            return
        if opcode.timing != "dma_transfer":
            raise _unknown("dma.config changes addresses")
        target, source, count = (self.x[v] for v in values[:3])
        load = opcode.memory == "dma load"
        to, origin = (self.vmem, self.dram) if load else (self.dram, self.vmem)
        here, there = to.span(target, count), origin.span(source, count)
        to.value[here], to.part[here] = origin.value[there], origin.part[there]

    def _tensor_memory(self, opcode: Opcode, values: list[int]) -> None:
        register, rows, base = values
        span = self.vmem.span(self.x[base] + ROW * rows, CHUNK)
        if opcode.memory == "tensor store":
            self.vmem.value[span] = self.m[register]
            self.vmem.part[span] = np.arange(_ROWS)
            return
        value, part = self.vmem.value[span], self.vmem.part[span]
        first = int(value[0])
        if first >= -1 and part.tobytes() == _IN_ORDER and (value == first).all():
            self.m[register] = first  # what a register held before
            return
        key = ("vload", value.tobytes(), part.tobytes())
        if key not in self.known:
            before: dict[Step, None] = {}
            needed = []
            for v, p in zip(value.tolist(), part.tolist(), strict=True):
                if v < -1:
                    needed.append((-2 - v, p))
                    before[self._load(-2 - v)] = None
                elif v >= 0:
                    before[self._stored(v)] = None
            step = self._step("vload", (self.profile.timing_of(opcode),), list(before))
            self.rows_of[step] = needed
            self.known[key] = self._values(step, 1)
        self.m[register] = self.known[key][0]

    def _tensor(self, opcode: Opcode, values: list[int]) -> None:
        if opcode.mnemonic == "vmov":
            self.m[values[0]] = self.m[values[1]]
            return
        name = opcode.effect
        sources: list[int] = []
        numbers: list[int] = []
        slots: set[int] = set()
        targets: list[tuple[Kind, int, int]] = []
        for operand, number in zip(opcode.operands, values, strict=True):
            if operand.kind is Kind.IMM:
                numbers.append(number)
            elif operand.kind is Kind.E:
                numbers.append(self.e[number])
            elif operand.kind is Kind.M:
                span = self.profile.span(operand)
                if operand.reads:
                    sources += self.m[number : number + span]
                if operand.writes:
                    targets += [(Kind.M, number + k, 0) for k in range(span)]
            else:
                key = (operand.kind, opcode.mxu or 0, number)
                if operand.reads:
                    slots.add(len(sources))
                    sources.append(self.slot.get(key, -1))
                if operand.writes:
                    targets.append(key)
        key = (name, tuple(numbers), tuple(sources))
        if key not in self.known:
            before: list[Step] = []
            through: set[int] = set()
            for place, source in enumerate(sources):
                if source >= 0 and self.owner[source] not in before:
                    if place in slots:
                        through.add(len(before))
                    before.append(self.owner[source])
            step = self._step(name, self._choices(opcode), before)
            step.slots = frozenset(through)
            self.known[key] = self._values(step, len(targets))
        for (kind, number, slot), value in zip(targets, self.known[key], strict=True):
            if kind is Kind.M:
                self.m[number] = value
            else:
                self.slot[(kind, number, slot)] = value

    # --- steps and values ---------------------------------------------------------------

    def _choices(self, opcode: Opcode) -> tuple[Timing, ...]:
        if opcode.mxu is None:
            return (self.profile.timing_of(opcode),)
        rows = [BY_MNEMONIC[f"{opcode.effect}.mxu{n}"] for n in range(2)]
        return tuple(dict.fromkeys(self.profile.timing_of(row) for row in rows))

    def _step(self, name: str, choices: tuple[Timing, ...], before: list[Step]) -> Step:
        step = Step(name, choices, before)
        self.steps.append(step)
        return step

    def _values(self, step: Step, count: int) -> list[int]:
        first = len(self.owner)
        self.owner += [step] * count
        return list(range(first, first + count))

    def _load(self, chunk: int) -> Step:
        if chunk not in self.load_steps:
            self.load_steps[chunk] = self._step("load", (), [])
        return self.load_steps[chunk]

    def _stored(self, value: int) -> Step:
        """The step that brings a register's value to VMEM."""
        key = ("vstore", value)
        if key not in self.known:
            timing = self.profile.timing_of(BY_MNEMONIC["vstore"])
            step = self._step("vstore", (timing,), [self.owner[value]])
            self.known[key] = self._values(step, 1)
        return self.owner[self.known[key][0]]

    def _finish(self, outputs: Iterable[tuple[int, int]], kept: Iterable[tuple[int, int]]) -> Work:
        stores = []
        direct: dict[int, set[int]] = {}  # input rows that go straight to an output
        for address, count in outputs:
            for start in range(address, address + count, CHUNK):
                size = min(CHUNK, address + count - start)
                span = self.dram.span(start, -(-size // ROW) * ROW)
                before: dict[Step, None] = {}
                rows = zip(
                    self.dram.value[span].tolist(), self.dram.part[span].tolist(), strict=True
                )
                for value, part in rows:
                    if value >= 0:
                        before[self._stored(value)] = None
                    elif value < -1:
                        before[self._load(-2 - value)] = None
                        direct.setdefault(-2 - value, set()).add(part)
                stores.append(Step("store", (), list(before), bytes=size))
        live: dict[Step, None] = {}
        held = [self.slot.get((Kind.ACC, unit, slot), -1) for unit, slot in kept]
        stack = [*stores, *(self.owner[value] for value in held if value >= 0)]
        while stack:
            step = stack.pop()
            if step not in live:
                live[step] = None
                stack += step.before
        used = {chunk: set(rows) for chunk, rows in direct.items()}
        for step in live:
            for chunk, part in self.rows_of.get(step, ()):
                used.setdefault(chunk, set()).add(part)
        for chunk, step in self.load_steps.items():
            step.bytes = ROW * len(used.get(chunk, ()))
        ordered = [step for step in self.steps if step in live]
        return Work(self.profile, [*ordered, *stores])


_SHIFTS = ("slli", "srli", "srai")


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


_REGISTER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "xor": lambda a, b: a ^ b,
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "sll": lambda a, b: a << (b & 31),
    "srl": lambda a, b: a >> (b & 31),
    "sra": lambda a, b: _signed(a) >> (b & 31),
    "slt": lambda a, b: int(_signed(a) < _signed(b)),
    "sltu": lambda a, b: int(a < b),
}
_IMMEDIATE = {
    "addi": _REGISTER["add"],
    "xori": lambda a, b: a ^ (b & 0xFFFFFFFF),
    "ori": lambda a, b: a | (b & 0xFFFFFFFF),
    "andi": lambda a, b: a & (b & 0xFFFFFFFF),
    "slti": lambda a, b: int(_signed(a) < b),
    "sltiu": lambda a, b: int(a < (b & 0xFFFFFFFF)),
    "slli": lambda a, b: a << b,
    "srli": lambda a, b: a >> b,
    "srai": lambda a, b: _signed(a) >> b,
}
