"""Software pipelining of a straight loop body by shifting part of it one iteration ahead.

before: loop T times: body
after:  first; loop T - 1 times: rest and the next iteration's first; rest

`first` holds whatever the rest depends on and nothing that depends on the rest, so running it
for the next iteration keeps the order of all dependences. Scheduled together, both halves fill
each other's idle ticks: the initiation interval falls towards the busiest unit. Tensor values
that pass from one half to the other keep registers of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.targets.atlas.codegen.graph import Node, build
from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.list_schedule import Schedule
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Op, Part, Range, Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

REGISTERS = REGISTER_COUNT[Kind.M]


@dataclass(frozen=True)
class Bound:
    """Ticks that no initiation interval of a body can go below, and why."""

    ticks: int
    cause: str  # a unit, "issue" or "recurrence"


@dataclass(frozen=True)
class Shift:
    """A body cut in two, and the kernel that overlaps the halves.

    crossing: tensor registers with a value on the way from `first` to `rest`.
    """

    first: Code
    rest: Code
    kernel: Code
    crossing: tuple[Register, ...]


def lower_bound(code: Code) -> Bound:
    """The smallest initiation interval the units and the carried values allow."""
    profile, distances = code.profile, Distances(code.profile)
    busy = {"issue": len(code.ops) + 2}  # two more for the counter and the branch
    for op in code.ops:
        unit = profile.timing_of(op.opcode).unit
        if op.opcode.timing == "dma_transfer":
            busy["DMA"] = busy.get("DMA", 0) + profile.dma.ticks(op.bytes)
            busy["issue"] += op.site is None  # and its wait
        elif unit not in ("SCALAR", "DECODE", "DMA"):
            busy[unit] = busy.get(unit, 0) + distances.interval(op.opcode)
    # The graph takes longer than all else, and only ways between carried tiles are looked for in it.
    busy["recurrence"] = _recurrence(build(code), distances) if _carries_tiles(code) else 0
    cause = max(busy, key=lambda name: busy[name])
    return Bound(busy[cause], cause)


def _carries_tiles(code: Code) -> bool:
    """Whether a tile is in the same register when the next iteration starts."""
    parts = (part for op in code.ops for part in op.operands if isinstance(part, Part))
    return any(part.register.kind is Kind.M and part.register.carried for part in parts)


def _recurrence(nodes: list[Node], distances: Distances) -> int:
    """Longest way from a read of a carried tile to its next value, and back to that read."""
    readers: dict[tuple[Register, int], list[Node]] = defaultdict(list)
    writers: dict[tuple[Register, int], Node] = {}
    for node in nodes:
        for register, low, count, reads, writes in node.rows:
            if register.kind is Kind.M and register.carried:
                for part in range(low, low + count):
                    if reads and (register, part) not in writers:
                        readers[register, part].append(node)
                    if writes:
                        writers[register, part] = node
    longest = 0
    order = _in_order(nodes)
    ways: dict[int, list[int]] = {}
    for key, writer in writers.items():
        for reader in readers[key]:
            if reader.index not in ways:
                ways[reader.index] = _ways_from(reader, order)
            way = ways[reader.index][writer.index]
            if way >= 0:
                back = distances.shared_register(writer.op.opcode, reader.op.opcode)
                longest = max(longest, way + back)
    return longest


def _in_order(nodes: list[Node]) -> list[Node]:
    """Nodes, each after all it depends on."""
    missing = {node.index: len(node.before) for node in nodes}
    ready = [node for node in nodes if not node.before]
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        for later, _ in node.after:
            missing[later.index] -= 1
            if not missing[later.index]:
                ready.append(later)
    return order


def _ways_from(start: Node, order: list[Node]) -> list[int]:
    """Longest way in ticks from a node to every node, -1 where there is none."""
    ways = [-1] * len(order)
    ways[start.index] = 0
    for node in order:
        if ways[node.index] >= 0:
            for later, distance in node.after:
                ways[later.index] = max(ways[later.index], ways[node.index] + distance)
    return ways


def moving(code: Code) -> dict[Register, int]:
    """Scalar registers that hold another address in each iteration, with the bytes between two
    iterations (0: not known)."""
    steps: dict[Register, list[int]] = {}
    for op in code.ops:
        for r in _written(op):
            if r.kind is Kind.X and r.carried:
                steps.setdefault(r, []).append(_step(op, r))
    found = {r: amounts[0] if len(amounts) == 1 else 0 for r, amounts in steps.items()}
    for op in code.ops:  # addresses computed from pointers, in program order
        behind = [r for r in _read(op) if r in found]
        if behind:
            step = found[behind[0]] if op.opcode.mnemonic in ("add", "addi") else 0
            step = step if len(behind) == 1 else 0
            found |= {r: step for r in _written(op) if r.kind is Kind.X and r not in found}
    return found


def _step(op: Op, pointer: Register) -> int:
    """What an instruction adds to a pointer, 0 if it does something else."""
    given = [v.register.constant if isinstance(v, Part) else v for v in op.operands[2:]]
    if op.opcode.mnemonic not in ("add", "addi") or _read(op)[:1] != [pointer]:
        return 0
    amount = given[0] or 0
    return amount - (1 << 32) if amount >= 1 << 31 else amount


def aged(op: Op, turn: int, moved: dict[Register, int]) -> tuple[Range, ...]:
    """The op's memory ranges as of iteration `turn`, for telling whether iterations collide."""
    found = []
    for touched in op.ranges:
        at = _address(op, touched)
        stride = moved.get(at, 0) if at is not None else 0
        found.append(replace(touched, turn=turn, moving=at in moved, stride=stride))
    return tuple(found)


def _address(op: Op, touched: Range) -> Register | None:
    """The scalar register behind a memory range of the op."""
    outside = touched.space.startswith("dram")
    if op.site is not None:
        return op.site.dram if outside else op.site.vmem
    parts = [p.register for p in op.operands if isinstance(p, Part) and p.register.kind is Kind.X]
    if op.opcode.timing == "dma_transfer":
        return parts[outside] if op.opcode.effect == "dma.load" else parts[not outside]
    return parts[0] if parts else None


def _written(op: Op) -> list[Register]:
    return _registers(op, writes=True)


def _read(op: Op) -> list[Register]:
    return _registers(op, writes=False)


def _registers(op: Op, writes: bool) -> list[Register]:
    return [
        value.register
        for operand, value in zip(op.opcode.operands, op.operands, strict=True)
        if isinstance(value, Part) and (operand.writes if writes else operand.reads)
    ]


def shifts(code: Code, plain: Schedule, free: int) -> Iterator[Shift]:
    """Ways to cut the body, the most promising first; `free` tensor registers can be given to
    values that cross."""
    if len(code.ops) > TUNING.shifted_ops or not _is_movable(code):
        return
    cutter = _Cutter(code, plain)
    end = max(1, plain.finish)
    found: dict[frozenset[int], float] = {}
    for k in range(1, TUNING.shift_cuts):
        tick, place = end * k // TUNING.shift_cuts, len(code.ops) * k // TUNING.shift_cuts
        by_time = {i for i, t in enumerate(cutter.ticks) if t < tick}
        by_order = set(range(place))
        for wanted in (by_time, by_order):
            chosen = cutter.close(wanted)
            if chosen and chosen not in found and len(chosen) < len(code.ops):
                crossing = sum(r.size for r in cutter.shared(chosen) if r.kind is Kind.M)
                if crossing <= free:
                    found[chosen] = cutter.estimate(chosen, crossing)
    for chosen in sorted(found, key=lambda c: found[c]):
        yield cutter.cut(chosen)


def _is_movable(code: Code) -> bool:
    """Whether repeated transfers only store from buffers that stay where they are: the waits
    for others say nothing about the buffers of the next iteration."""
    moved = moving(code)
    return all(op.site.store and op.site.vmem not in moved for op in code.ops if op.site)


def interleaved(kernel: Code, cut: int, free: int, carried: set[Register]) -> Code | None:
    """The kernel with the halves before and after place `cut` advancing side by side.

    The scheduler gives out matrix slots and tensor registers in program order, so a half that
    came second would wait for them until the other is through. Each half keeps its own order,
    and with `free` tensor registers no place waits for itself; None where that cannot be.
    """
    nodes = [node for node in build(kernel) if node.transfer is None]
    place = {node.op: k for k, node in enumerate(nodes)}
    needs = [
        {place[b.op if b.transfer is None else b.transfer.op] for b, _ in node.before}
        for node in nodes
    ]
    room = _Room(kernel, free, carried)
    result = Code(kernel.profile)
    done: set[int] = set()

    def add(k: int) -> None:
        done.add(k)
        room.take(k)
        result.ops.append(replace(kernel.ops[k], order=len(result.ops)))

    def is_ready(k: int) -> bool:
        """Whether all the op needs is there; pointers are moved as early as it takes."""
        for need in sorted(needs[k] - done):
            if nodes[need].unit != "SCALAR" or not is_ready(need):
                return False
            add(need)
        return room.fits(k)

    following, ends = [0, cut], [cut, len(nodes)]
    while len(result.ops) < len(nodes):
        for half in (0, 1):
            while following[half] < ends[half] and following[half] in done:
                following[half] += 1
        shares = sorted(
            (1 - (ends[half] - following[half]) / (ends[half] - half * cut), half)
            for half in (0, 1)
            if following[half] < ends[half]
        )
        half = next((h for _, h in shares if is_ready(following[h])), None)
        if half is None:
            return None
        if following[half] not in done:
            add(following[half])
    return result


class _Room:
    """Slots and tensor registers in use while code is put in order."""

    def __init__(self, code: Code, free: int, carried: set[Register]) -> None:
        self.free: dict[tuple[Kind, int | None], int] = {(Kind.M, None): free}
        self.touches: list[list[Register]] = []
        self.left: dict[Register, int] = defaultdict(int)
        self.open: set[Register] = set()
        for op in code.ops:
            registers = [
                r
                for r in dict.fromkeys([*_read(op), *_written(op)])
                if r.kind in (Kind.M, Kind.W, Kind.ACC) and not r.carried and r not in carried
            ]
            self.touches.append(registers)
            for register in registers:
                self.left[register] += 1
                if register.kind is not Kind.M:
                    self.free[register.kind, register.unit] = REGISTER_COUNT[register.kind]

    def fits(self, k: int) -> bool:
        """Whether what the op uses first can be given to it."""
        wanted: dict[tuple[Kind, int | None], int] = defaultdict(int)
        for register in self.touches[k]:
            if register not in self.open:
                wanted[register.kind, register.unit] += register.size
        return all(self.free[key] >= count for key, count in wanted.items())

    def take(self, k: int) -> None:
        for register in self.touches[k]:
            key = (register.kind, register.unit)
            if register not in self.open:
                self.open.add(register)
                self.free[key] -= register.size
            self.left[register] -= 1
            if not self.left[register]:
                self.free[key] += register.size


class _Cutter:
    """Cuts one body into what may run an iteration ahead and the rest."""

    def __init__(self, code: Code, plain: Schedule) -> None:
        self.code = code
        self.moved = moving(code)
        self.nodes = [node for node, _, _ in plain.dispatched if node.transfer is None]
        place = {node.op: k for k, node in enumerate(self.nodes)}
        assert [node.op for node in self.nodes] == code.ops
        self.ticks = [0] * len(code.ops)
        self.ends = [0] * len(code.ops)
        for node, tick, done in plain.dispatched:
            if node.transfer is None:
                self.ticks[place[node.op]], self.ends[place[node.op]] = tick, done
        # What each op needs, waits looked through.
        self.needs: list[list[int]] = []
        for node in self.nodes:
            before = [b if b.transfer is None else b.transfer for b, _ in node.before]
            self.needs.append(sorted({place[b.op] for b in before}))
        self.touches = [dict.fromkeys([*_read(op), *_written(op)]) for op in code.ops]
        self.groups = self._groups()
        self.bound = lower_bound(code).ticks

    def _groups(self) -> list[set[int]]:
        """Ops that must stay in one half: of a weight slot or accumulator, of an address."""
        groups: dict[Register, set[int]] = defaultdict(set)
        self.definition: dict[Register, int] = {}
        self.pointer_writers: dict[Register, list[int]] = defaultdict(list)
        for k, op in enumerate(self.code.ops):
            for register in self.touches[k]:
                if register.is_constant or register.kind is Kind.M:
                    continue
                if register.kind is not Kind.X or not register.carried:
                    groups[register].add(k)
            for register in _written(op):
                if register.kind is Kind.X:
                    self.definition[register] = k
                    if register.carried:
                        self.pointer_writers[register].append(k)
        # Of an address computed again in the rest: its computation, the moves of its pointers,
        # its users.
        self.repeated = []
        for register, users in groups.items():
            if self._again(register):
                at = self.definition[register]
                moves = {w for r in _read(self.code.ops[at]) for w in self.pointer_writers[r]}
                self.repeated.append((at, moves, users))
        # Repeated transfers, and what moves their pointers, stay in their iteration.
        owned = {r for op in self.code.ops if op.site for r in (op.site.vmem, op.site.dram)}
        self.fixed = {
            k for k, op in enumerate(self.code.ops) if op.site or owned.intersection(_written(op))
        }
        return [group for register, group in groups.items() if not self._again(register)]

    def _again(self, register: Register) -> bool:
        """Whether an address is a pointer plus a constant, cheap to compute in both halves."""
        if register.kind is not Kind.X or register not in self.definition:
            return False
        op = self.code.ops[self.definition[register]]
        return all(r.carried or r.is_constant for r in _read(op))

    def close(self, wanted: set[int]) -> frozenset[int]:
        """The largest part of `wanted` that can run an iteration ahead."""
        chosen = wanted - self.fixed
        while True:
            before = len(chosen)
            for k, needs in enumerate(self.needs):
                if k in chosen and not chosen.issuperset(needs):
                    chosen.discard(k)
            for group in self.groups:
                if not group <= chosen:
                    chosen -= group
            for at, moves, users in self.repeated:
                # Computed once more in the rest: its pointer must not have moved by then.
                if at in chosen and moves & chosen and not users <= chosen:
                    chosen.discard(at)
            if len(chosen) == before:
                return frozenset(chosen)

    def shared(self, chosen: frozenset[int]) -> list[Register]:
        """Registers both halves use, but for what every iteration finds anyway."""
        inside = {r: None for k in sorted(chosen) for r in self.touches[k]}
        outside = {r for k, rs in enumerate(self.touches) if k not in chosen for r in rs}
        return [r for r in inside if r in outside and not r.carried and not r.is_constant]

    def estimate(self, chosen: frozenset[int], crossing: int) -> float:
        """Ticks the kernel is hoped to take: even halves and few crossing registers are best."""
        rest = [k for k in range(len(self.ticks)) if k not in chosen]
        longest = max(self.bound, self._span(sorted(chosen)), self._span(rest))
        return longest * (1 + crossing / REGISTERS / 4)

    def _span(self, part: list[int]) -> int:
        """Ticks a half took in the plain schedule, but for the few operations that nothing held
        back and that ran long before the others."""
        early = TUNING.early_share * sum(self.ends[k] - self.ticks[k] for k in part)
        start = 0
        for k in sorted(part, key=lambda k: self.ticks[k]):
            early -= self.ends[k] - self.ticks[k]
            start = self.ticks[k]
            if early < 0:
                break
        return max(self.ends[k] for k in part) - start

    def cut(self, chosen: frozenset[int]) -> Shift:
        first = sorted(chosen)
        rest = [k for k in range(len(self.code.ops)) if k not in chosen]
        shared = self.shared(chosen)
        copies = {r: Register(Kind.X, name=r.name) for r in shared if r.kind is Kind.X}
        rest = sorted([*rest, *(self.definition[r] for r in copies)])
        crossing = [r for r in shared if r.kind is Kind.M]
        crossing.sort(key=lambda r: -r.size)  # pairs first, so they stay aligned
        return Shift(
            self._code([(k, 1) for k in first], {}),
            self._code([(k, 0) for k in rest], copies),
            self._code([(k, 0) for k in rest] + [(k, 1) for k in first], copies),
            tuple(crossing),
        )

    def _code(self, rows: list[tuple[int, int]], copies: dict[Register, Register]) -> Code:
        """The ops of these places, each as of its iteration."""
        code = Code(self.code.profile)
        for k, turn in rows:
            op = self.code.ops[k]
            operands = tuple(
                Part(copies[p.register], p.index)
                if turn == 0 and isinstance(p, Part) and p.register in copies
                else p
                for p in op.operands
            )
            ranges = aged(op, turn, self.moved)
            order = len(code.ops)
            origin = (op, turn)
            code.ops.append(
                replace(op, operands=operands, ranges=ranges, order=order, origin=origin)
            )
        return code
