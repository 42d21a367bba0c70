"""A run replayed by value numbers instead of values.

Every tensor operation becomes a node; operations that compute the same thing from the same things
are one node, copies and detours through memory are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas import content as facts
from tilewright.targets.atlas.content import Content
from tilewright.targets.atlas.demand import outcome
from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind, Opcode
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.program import Program

ROW = 32  # bytes that move together
CHUNK = 1024  # bytes of a tensor register
FROM_SUMS = ("vmatpop.bf16.acc", "vmatpop.fp8.acc", "vmatmul.acc")  # operands in accumulators
_ROWS = CHUNK // ROW
_IN_ORDER = np.arange(_ROWS, dtype=np.int32).tobytes()


@dataclass(frozen=True)
class Tensor:
    """Bytes of DRAM that a formula reads or writes: which of them are elements, not padding.

    An address and a mask, or all of so many bytes.
    """

    address: int
    elements: np.ndarray  # bool, one for each byte

    @property
    def rows(self) -> np.ndarray:
        """Which pieces of 32 bytes have elements."""
        padded = np.zeros(-(-len(self.elements) // ROW) * ROW, bool)
        padded[: len(self.elements)] = self.elements
        return np.logical_or.reduce(padded.reshape(-1, ROW), axis=1)


@dataclass(frozen=True)
class Memory:
    """What is there before a run: tensors in DRAM (padding is zero) and constants; nothing else
    counts, and VMEM is empty."""

    tensors: Sequence[Tensor]
    constants: Sequence[tuple[int, bytes]] = ()

    def chunk(self, number: int) -> Content:
        """What is known of 1024 bytes."""
        start = number * CHUNK
        raw, fixed = np.zeros(CHUNK, np.uint8), np.ones(CHUNK, bool)
        for tensor in self.tensors:
            first, last = start - tensor.address, start + CHUNK - tensor.address
            if last > 0 and first < len(tensor.elements):
                part = tensor.elements[max(0, first) : last]
                fixed[max(0, -first) : max(0, -first) + len(part)] &= ~part
        for address, data in self.constants:
            first, last = start - address, start + CHUNK - address
            if last > 0 and first < len(data):
                part = np.frombuffer(data[max(0, first) : last], np.uint8)
                raw[max(0, -first) : max(0, -first) + len(part)] = part
        return facts.bytes_of(raw, fixed)


def whole(address: int, count: int) -> Tensor:
    """A tensor without padding."""
    return Tensor(address, np.ones(count, bool))


class _Rows:
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


@dataclass(eq=False, slots=True)
class Node:
    """An operation on values. rows: for a load from VMEM, (value, row of it) of each row."""

    name: str
    choices: tuple[Timing, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    slots: frozenset[int] = frozenset()
    rows: tuple[tuple[int, int], ...] = ()


class Replay:
    def __init__(self, program: Program, profile: Profile, memory: Memory | None) -> None:
        self.program, self.profile, self.memory = program, profile, memory
        self.x: list[int] = [0] * 32
        self.e: list[int] = [0] * 32
        self.m: list[int] = [-1] * 64
        self.slot: dict[tuple[Kind, int, int], int] = {}
        self.vmem = _Rows(profile.vmem_bytes // ROW, initial=False)
        self.dram = _Rows(1 << 10, initial=True)
        self.nodes: list[Node] = []
        self.owner: list[Node] = []  # value number -> the node that makes it
        self.content: list[Content] = []  # and what is known of it
        self.known: dict[object, tuple[int, ...]] = {}
        self.chunks: dict[int, Content] = {}

    def run(self, order: Sequence[int] | np.ndarray) -> None:
        """Carry out instructions in the order of their dispatch."""
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
        if opcode.memory == "scalar store":
            self._word(opcode, values)
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

    def _word(self, opcode: Opcode, values: list[int]) -> None:
        """A scalar store: it makes constants, the numbers of a formula are none."""
        source, offset, base = values
        at = self.x[base] + offset
        span = self.vmem.span(at // ROW * ROW, ROW)
        value, part = int(self.vmem.value[span.start]), int(self.vmem.part[span.start])
        before = facts.gathered(((self.content_of(value), part),) * _ROWS)
        found = facts.with_bytes(
            before, at % ROW, self.x[source].to_bytes(4, "little"), opcode.bytes
        )
        if not found.constant.all():
            raise _unknown(f"{opcode.mnemonic} changes what is no constant")
        self.vmem.value[span.start] = self._node("constant", (), (), (found,))[0]
        self.vmem.part[span.start] = 0

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
            held = tuple(
                (self._stored(v) if v >= 0 else v, p)
                for v, p in zip(value.tolist(), part.tolist(), strict=True)
            )
            sources = tuple(dict.fromkeys(v for v, _ in held))
            found = facts.gathered(tuple((self.content_of(v), p) for v, p in held))
            timing = (self.profile.timing_of(opcode),)
            self.known[key] = self._node("vload", timing, sources, (found,), rows=held)
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
            found = self._outcome(opcode, numbers, sources, len(targets))
            choices = self._choices(opcode, numbers)
            self.known[key] = self._node(name, choices, tuple(sources), found, frozenset(slots))
        for (kind, number, slot), value in zip(targets, self.known[key], strict=True):
            if kind is Kind.M:
                self.m[number] = value
            else:
                self.slot[(kind, number, slot)] = value

    # --- nodes and values ---------------------------------------------------------------

    def _outcome(
        self, opcode: Opcode, numbers: list[int], sources: list[int], count: int
    ) -> tuple[Content, ...]:
        name = opcode.effect
        if name.startswith("vli."):
            bits = name == "vli.all" and self.profile.fill == "bits"
            pattern = numbers[0] & 0xFFFF if bits else int(arith.integer_to_bf16(numbers[0]))
            return (facts.filled(pattern, name.removeprefix("vli.")),) * count
        given = [self.content_of(source) for source in sources]
        if sources[0] == -1 and name in FROM_SUMS:
            given[0] = facts.unknown_constant("sums")
        return outcome(name, tuple(given), count)

    def content_of(self, value: int) -> Content:
        """What is known of a value; negative ones are chunks of DRAM, or nothing."""
        if value >= 0:
            return self.content[value]
        if value == -1 and self.memory is None:  # VMEM may hold inputs as well
            return facts.bytes_of(np.zeros(CHUNK, np.uint8), np.zeros(CHUNK, bool))
        if value == -1:
            return facts.unknown_constant("raw")
        if value not in self.chunks:
            number = -2 - value
            memory = self.memory or Memory([whole(number * CHUNK, CHUNK)])
            self.chunks[value] = memory.chunk(number)
        return self.chunks[value]

    def _choices(self, opcode: Opcode, numbers: list[int]) -> tuple[Timing, ...]:
        own = self.profile.timing_of(opcode)
        if opcode.mxu is None:
            if opcode.effect == "vunpack.fp8.bf16" and numbers[-1] == self.profile.unit_scale:
                # An accumulator that starts as fp8 leaves as bf16: another way, on another unit.
                ways = [self.profile.timing[n].latency for n in ("push", "pop_wide")]
                return (replace(own, latency=min(own.latency, sum(ways) - 2), interval=0),)
            return (own,)
        rows = [BY_MNEMONIC[f"{opcode.effect}.mxu{n}"] for n in range(2)]
        return tuple(dict.fromkeys(self.profile.timing_of(row) for row in rows))

    def _node(
        self,
        name: str,
        choices: tuple[Timing, ...],
        sources: tuple[int, ...],
        found: tuple[Content, ...],
        slots: frozenset[int] = frozenset(),
        rows: tuple[tuple[int, int], ...] = (),
    ) -> tuple[int, ...]:
        """A node, and the numbers of its values."""
        first = len(self.owner)
        targets = tuple(range(first, first + len(found)))
        node = Node(name, choices, sources, targets, slots, rows)
        self.nodes.append(node)
        self.owner += [node] * len(found)
        self.content += found
        return targets

    def _stored(self, value: int) -> int:
        """A register's value in VMEM."""
        key = ("vstore", value)
        if key not in self.known:
            timing = self.profile.timing_of(BY_MNEMONIC["vstore"])
            self.known[key] = self._node("vstore", (timing,), (value,), (self.content[value],))
        return self.known[key][0]

    def stored_rows(self, tensor: Tensor) -> list[tuple[int, list[tuple[int, int, np.ndarray]]]]:
        """For each 1024 bytes of a result: bytes that move, and (value, row, elements) of each."""
        found = []
        end = tensor.address + len(tensor.elements)
        for start in range(tensor.address, end, CHUNK):
            size = min(CHUNK, end - start)
            span = self.dram.span(start, -(-size // ROW) * ROW)
            first = start - tensor.address
            rows = []
            for k, (value, part) in enumerate(
                zip(self.dram.value[span].tolist(), self.dram.part[span].tolist(), strict=True)
            ):
                piece = tensor.elements[first + k * ROW : first + (k + 1) * ROW]
                if piece.any():
                    elements = np.zeros(ROW, bool)
                    elements[: len(piece)] = piece
                    rows.append((self._stored(value) if value >= 0 else value, part, elements))
            if rows:
                found.append((ROW * len(rows), rows))
        return found


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
