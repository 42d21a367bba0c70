"""The work in a program: the distinct values that its results depend on.

A run is replayed by value numbers instead of values. Every tensor operation becomes a node;
operations that compute the same thing from the same things are one node, copies and detours
through memory are none. From the results backwards it is then found out which elements of which
nodes are needed at all: padding, constants and tables are not. What remains are steps, each with
the share of an instruction that its elements take. Any program for the same formula has to do
them, however it is scheduled, wherever it keeps its data and whatever it puts side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas import content as facts
from tilewright.targets.atlas.content import Content
from tilewright.targets.atlas.demand import ALL, NONE, Mask, demand, mask, outcome, union
from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind, Opcode
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.program import Program

ROW = 32  # bytes that move together
CHUNK = 1024  # bytes of a tensor register
_ROWS = CHUNK // ROW
_FROM_SUMS = ("vmatpop.bf16.acc", "vmatpop.fp8.acc", "vmatmul.acc")  # operands in accumulators
_IN_ORDER = np.arange(_ROWS, dtype=np.int32).tobytes()


@dataclass(eq=False, slots=True)
class Step:
    """One distinct piece of work.

    name: "load" (bytes from DRAM), "store" (bytes to DRAM), or the instruction without its unit.
    choices: the units that can do it. slots: which of `before` hand over inside a matrix unit.
    mixed: of which of `before` each row of the result needs all rows, not only its own.
    share: how much of an instruction its elements take. operands: elements of both sides of a
    product that count.
    """

    name: str
    choices: tuple[Timing, ...]
    before: list[Step] = field(default_factory=list)
    slots: frozenset[int] = frozenset()
    mixed: frozenset[int] = frozenset()
    share: float = 1.0
    bytes: int = 0


@dataclass
class Work:
    """Steps in an order in which every step follows those it needs.

    products: instructions that the operands of all products take at least, each of their elements
    being on some side of one of them.
    """

    profile: Profile
    steps: list[Step]
    products: float = 0.0

    @property
    def loads(self) -> list[Step]:
        return [step for step in self.steps if step.name == "load"]

    @property
    def stores(self) -> list[Step]:
        return [step for step in self.steps if step.name == "store"]


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
        return padded.reshape(-1, ROW).any(1)


@dataclass(frozen=True)
class Memory:
    """What DRAM holds before a run: tensors (padding is zero) and constants; nothing else counts."""

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


def work_of(
    program: Program,
    profile: Profile,
    order: Sequence[int] | np.ndarray,
    outputs: Iterable[Tensor],
    kept: Iterable[tuple[int, int]] = (),
    memory: Memory | None = None,
) -> Work:
    """The work of one run.

    order: indices of the instructions in the order they were dispatched (a trace's `index`).
    outputs: every result in DRAM. kept: (matrix unit, accumulator) of every result that stays there.
    memory: what is in DRAM before; by default nothing is known of it.
    """
    return _Replay(program, profile, memory).run(order, list(outputs), list(kept))


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
class _Node:
    """An operation on values. rows: for a load from VMEM, (value, row of it) of each row."""

    name: str
    choices: tuple[Timing, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    slots: frozenset[int] = frozenset()
    rows: tuple[tuple[int, int], ...] = ()
    # What a step before others hand over: the node's own step, or those of its operands.
    reach: list[tuple[Step, bool]] = field(default_factory=list)


class _Replay:
    def __init__(self, program: Program, profile: Profile, memory: Memory | None) -> None:
        self.program, self.profile, self.memory = program, profile, memory
        self.x: list[int] = [0] * 32
        self.e: list[int] = [0] * 32
        self.m: list[int] = [-1] * 64
        self.slot: dict[tuple[Kind, int, int], int] = {}
        self.vmem = _Rows(profile.vmem_bytes // ROW, initial=False)
        self.dram = _Rows(1 << 10, initial=True)
        self.nodes: list[_Node] = []
        self.owner: list[_Node] = []  # value number -> the node that makes it
        self.content: list[Content] = []  # and what is known of it
        self.known: dict[object, tuple[int, ...]] = {}
        self.chunks: dict[int, Content] = {}

    def run(
        self,
        order: Sequence[int] | np.ndarray,
        outputs: list[Tensor],
        kept: list[tuple[int, int]],
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
        return _Steps(self, outputs, kept).work()

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
        if sources[0] == -1 and name in _FROM_SUMS:
            given[0] = facts.unknown_constant("sums")
        return outcome(name, tuple(given), count)

    def content_of(self, value: int) -> Content:
        """What is known of a value; negative ones are chunks of DRAM, or nothing."""
        if value >= 0:
            return self.content[value]
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
        node = _Node(name, choices, sources, targets, slots, rows)
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


class _Steps:
    """From nodes to steps: what is needed, backwards; then what remains, in order."""

    def __init__(self, replay: _Replay, outputs: list[Tensor], kept: list[tuple[int, int]]) -> None:
        self.replay = replay
        self.wanted: dict[int, Mask] = {}  # value -> elements
        self.results = [piece for tensor in outputs for piece in replay.stored_rows(tensor)]
        for _, rows in self.results:
            by_value: dict[int, np.ndarray] = {}
            for value, part, elements in rows:
                bits = by_value.setdefault(value, np.zeros((ROW, ROW), bool))
                bits[part] |= elements
            for value, bits in by_value.items():
                self._want(value, mask(bits))
        for unit, place in kept:
            value = replay.slot.get((Kind.ACC, unit, place), -1)
            if value >= 0:
                self._want(value, ALL)
        self.loads: dict[int, Step] = {}
        self.steps: list[Step] = []

    def _want(self, value: int, elements: Mask) -> None:
        if value != -1 and elements.any:
            self.wanted[value] = union(self.wanted.get(value, NONE), elements)

    def work(self) -> Work:
        demands = {}
        for node in reversed(self.replay.nodes):
            wanted = tuple(self.wanted.get(value, NONE) for value in node.targets)
            if any(w.any for w in wanted):
                demands[node] = self._demand(node, wanted)
        for node in self.replay.nodes:
            if node in demands:
                self._step(node, demands[node])
        for count, rows in self.results:
            before: dict[Step, None] = {}
            for value, _, _ in rows:
                before.update((step, None) for step, _ in self._reach(value))
            self.steps.append(Step("store", (), list(before), bytes=count))
        return Work(self.replay.profile, self.steps, self._products(demands))

    def _demand(self, node: _Node, wanted: tuple[Mask, ...]) -> tuple[float, frozenset[int]]:
        """What a node's results take, after noting what it needs."""
        content_of = self.replay.content_of
        if node.name in ("vload", "vstore"):
            live = wanted[0].bits & ~_byte_constants(content_of(node.targets[0]))
            if node.name == "vstore":
                self._want(node.sources[0], mask(live))
                return float(live.sum()) / CHUNK, frozenset()
            needs: dict[int, np.ndarray] = {}
            for k, (value, part) in enumerate(node.rows):
                if live[k].any():
                    needs.setdefault(value, np.zeros((ROW, ROW), bool))[part] |= live[k]
            for value, bits in needs.items():
                self._want(value, mask(bits))
            return sum(float(bits.sum()) for bits in needs.values()) / CHUNK, frozenset()
        if not node.sources:
            return 0.0, frozenset()
        found = demand(
            node.name, wanted, tuple(self._given(node)), tuple(map(content_of, node.targets))
        )
        for source, elements in zip(node.sources, found.needs, strict=True):
            self._want(source, elements)
        return found.share, found.mixed

    def _given(self, node: _Node) -> list[Content]:
        """What is known of the operands."""
        given = [self.replay.content_of(source) for source in node.sources]
        if node.sources[0] == -1 and node.name in _FROM_SUMS:
            given[0] = facts.unknown_constant("sums")
        return given

    def _reach(self, value: int) -> list[tuple[Step, bool]]:
        """The steps that hand over a value, and whether a row of it needs all their rows."""
        if value >= 0:
            return self.replay.owner[value].reach
        if value == -1:
            return []
        elements = self.wanted.get(value, NONE).bits
        varying = elements & ~_byte_constants(self.replay.content_of(value))
        if not varying.any():
            return []
        if value not in self.loads:
            step = Step("load", (), bytes=ROW * int(varying.any(1).sum()))
            self.loads[value] = step
            self.steps.append(step)
        return [(self.loads[value], False)]

    def _step(self, node: _Node, found: tuple[float, frozenset[int]]) -> None:
        share, mixed = found
        before: dict[Step, bool] = {}
        through: set[Step] = set()
        for place, source in enumerate(node.sources):
            if not self.wanted.get(source, NONE).any:
                continue
            for step, whole_rows in self._reach(source):
                before[step] = before.get(step, False) or whole_rows or place in mixed
                if place in node.slots:
                    through.add(step)
        if share <= 0:  # nothing is computed: what it hands on comes from its operands
            node.reach = list(before.items())
            return
        rows = list(before)
        step = Step(
            node.name,
            node.choices,
            rows,
            frozenset(k for k, b in enumerate(rows) if b in through),
            frozenset(k for k, b in enumerate(rows) if before[b]),
            min(1.0, share),
        )
        self.steps.append(step)
        node.reach = [(step, False)]

    def _products(self, demands: dict[_Node, tuple[float, frozenset[int]]]) -> float:
        """The products that operands and sums take: each has 1024 elements on each side."""
        sides: list[set[int]] = [set(), set(), set()]
        for node, (share, _) in demands.items():
            if node.name.startswith("vmatmul") and share > 0:
                for side, value in zip(sides, (*node.sources[-2:], node.targets[0]), strict=True):
                    side.add(value)
        # Sums go on from product to product: only the last of a chain is one.
        started = {
            node.sources[0] for node in demands if node.name == "vmatmul.acc"
        }  # fmt: skip
        sides[2] -= started
        return max(
            sum(
                int((self.wanted[v].bits & ~_byte_constants(self.replay.content_of(v))).sum())
                for v in side
                if v in self.wanted
            )
            / CHUNK
            for side in sides
        )


def _byte_constants(content: Content) -> np.ndarray:
    """Which bytes (or sums) are constants."""
    return np.repeat(content.constant, 2, axis=1) if content.kind == "bf16" else content.constant


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
