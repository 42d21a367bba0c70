"""The dependence graph of straight virtual code: what must keep its order, and how far apart."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.virtual import (
    CHANGING,
    WAW,
    Code,
    Op,
    Part,
    Range,
    Register,
    Site,
    changing_tensor,
)
from tilewright.targets.atlas.isa import BY_MNEMONIC, Kind
from tilewright.targets.atlas.profile import Profile


@dataclass(eq=False, slots=True)
class Node:
    """An instruction with its neighbours: (node, smallest distance)."""

    op: Op
    index: int
    before: list[tuple[Node, int]] = field(default_factory=list)
    after: list[tuple[Node, int]] = field(default_factory=list)
    wait: Node | None = None  # of a transfer: the node that waits for it
    transfer: Node | None = None  # of a wait
    rows: list[tuple[Register, int, int, bool, bool]] = field(default_factory=list)
    unit: str = "DECODE"
    path: int = 0  # ticks from its dispatch to the end, at least


def touched(op: Op, profile: Profile) -> list[tuple[Register, int, int, bool, bool]]:
    """(register, first part, parts, reads, writes) of every register operand but constants."""
    rows = []
    if op.site is not None and op.opcode.timing == "dma_wait":
        # Until the wait, the transfer still reads its pointers.
        rows = [(pointer, 0, 1, True, False) for pointer in (op.site.vmem, op.site.dram)]
    accesses = profile.accesses_of(op.opcode)
    for (count, reads, writes), value in zip(accesses, op.operands, strict=True):
        if isinstance(value, Part) and value.register.constant is None:
            rows.append((value.register, value.index, count, reads, writes))
    return rows


def build(code: Code) -> list[Node]:
    """Nodes of the code in program order, waits included, edges for every dependence."""
    return _Builder(code).build()


class _Builder:
    def __init__(self, code: Code) -> None:
        self.code = code
        self.profile = code.profile
        self.distances = Distances(code.profile)
        self._rules = {
            Kind.M: self.distances.shared_register,
            Kind.W: self.distances.shared_slot,
            Kind.ACC: self.distances.shared_slot,
            Kind.X: self.distances.pointer,
        }
        self.nodes: list[Node] = []
        self.site_ops: dict[Site, Node] = {}
        # Per register part: the last writer, and the readers since.
        self.writer: dict[tuple[Register, int], Node] = {}
        self.readers: dict[tuple[Register, int], list[Node]] = defaultdict(list)
        # Memory accesses so far that later ones may depend on.
        ranges = sum(len(op.ranges) for op in code.ops)
        self.accesses = _Accesses(ranges, self.distances.loads_exclude)

    def build(self) -> list[Node]:
        for op in self.code.ops:
            node = self._add(op)
            self._register_edges(node)
            self._memory_edges(node)
            if op.site is not None:
                if op.site in self.site_ops:  # one channel: wait and start alternate
                    self._edge(self.site_ops[op.site], node, 1)
                self.site_ops[op.site] = node
        for node in list(self.nodes):
            if node.op.opcode.timing == "dma_transfer" and node.op.site is None:
                self._wait_of(node)
        self._measure_paths()
        return self.nodes

    def _add(self, op: Op) -> Node:
        node = Node(op, len(self.nodes))
        node.rows = touched(op, self.profile)
        node.unit = self.profile.timing_of(op.opcode).unit
        self.nodes.append(node)
        return node

    def _edge(self, a: Node, b: Node, distance: int) -> None:
        a.after.append((b, distance))
        b.before.append((a, distance))

    def _register_edges(self, node: Node) -> None:
        rows = node.rows
        edges: dict[int, tuple[Node, int]] = {}
        for register, first, count, reads, writes in rows:
            rule = self._rules[register.kind]
            for index in range(first, first + count):
                key = (register, index)
                if node.op.site is not None and node.op.opcode.timing == "dma_wait":
                    # The wait stands for the transfer it waits for.
                    self.readers[key] = [
                        r for r in self.readers[key] if r.op.site is not node.op.site
                    ]
                earlier = [self.writer[key]] if key in self.writer else []
                if writes:
                    earlier += self.readers[key]
                for other in earlier:
                    if other.op.site is not None and other.op.opcode.timing == "dma_transfer":
                        raise ValueError("a pointer of a transfer may move only after its wait")
                    if other is not node:
                        distance = rule(other.op.opcode, node.op.opcode)
                        known = edges.get(other.index, (other, 0))[1]
                        edges[other.index] = (other, max(known, distance))
                if writes:
                    self.writer[key] = node
                    self.readers[key] = []
                if reads:
                    self.readers[key].append(node)
        for other, distance in edges.values():
            self._edge(other, node, distance)

    def _memory_edges(self, node: Node) -> None:
        if not node.op.ranges:
            return
        is_dma = node.op.opcode.timing == "dma_transfer"
        for other in self.accesses.near(node):
            relation = _relation(other.op, node.op, self.distances.loads_exclude)
            if relation is None:
                continue
            if other.op.site is not None:
                self._edge(other, node, 1)
            elif other.op.opcode.timing == "dma_transfer":
                if relation == "dram":
                    self._edge(other, node, 1)  # the engine keeps their order
                else:
                    self._edge(self._wait_of(other), node, 1)
            else:
                count = node.op.bytes if is_dma else 0
                rule = self.distances.shared_vmem
                self._edge(other, node, rule(other.op.opcode, node.op.opcode, count))
        self.accesses.add(node)

    def _wait_of(self, transfer: Node) -> Node:
        """The wait for a transfer, made when first needed."""
        if transfer.wait is None:
            op = Op(
                BY_MNEMONIC["dma.wait"],
                (0,),
                order=transfer.op.order,
                source=transfer.op.source,
            )
            wait = self._add(op)
            wait.transfer = transfer
            transfer.wait = wait
            # The transfer reads its addresses until it is done.
            wait.rows = [(r, 0, 1, True, False) for r, *_ in transfer.rows]
            for register, *_ in wait.rows:
                self.readers[(register, 0)].append(wait)
            ticks = self.profile.dma.ticks(transfer.op.bytes)
            self._edge(transfer, wait, ticks + 1)
        return transfer.wait

    def _measure_paths(self) -> None:
        """Longest way to the end from each node, in ticks after its dispatch.

        A unit does one thing at a time: what comes first in the program is followed by all the
        unit has to do after it (stores follow each other through the DMA engine). Counting that
        makes early results urgent, so other units get work while later ones are computed.
        """
        tail: dict[int, int] = {}
        total: dict[str, int] = defaultdict(int)
        for node in sorted(self.nodes, key=lambda n: -n.op.order):
            if node.op.opcode.effect == "dma.store":
                total["DMA"] += self.profile.dma.ticks(node.op.bytes)
            elif node.unit in ("DMA", "SCALAR", "DECODE"):
                continue
            else:
                total[node.unit] += self.distances.interval(node.op.opcode)
            tail[node.index] = total[node.unit]
        for node in _reverse_topological(self.nodes):
            count = node.op.bytes if node.op.opcode.timing == "dma_transfer" else 0
            own = tail.get(node.index, self.distances.latency(node.op.opcode, count))
            node.path = max([own, *(d + later.path for later, d in node.after)])


class _Accesses:
    """Memory accesses in program order, as columns: which of them a new one may have to follow.

    `near` leaves out pairs that plainly have nothing in common; `_relation` looks at the rest.
    """

    def __init__(self, ranges: int, loads_exclude: bool) -> None:
        self.nodes: list[Node] = []
        self.loads_exclude = loads_exclude
        self.count = 0
        self.spaces: dict[str, int] = {}
        self.owner, self.space, self.start, self.end, self.turn = np.zeros((5, ranges), np.int64)
        self.kind = np.zeros(ranges, np.int8)
        self.matters, self.moving = np.zeros((2, ranges), np.bool_)

    def add(self, node: Node) -> None:
        for part in node.op.ranges:
            at, self.count = self.count, self.count + 1
            self.owner[at], self.space[at] = len(self.nodes), self._number(part.space)
            self.start[at], self.end[at] = part.start, part.start + part.bytes
            self.turn[at], self.moving[at] = part.turn, part.moving
            self.kind[at] = _rewritten(part)
            self.matters[at] = part.write or node.op.opcode.has_channel or self.loads_exclude
        self.nodes.append(node)

    def near(self, node: Node) -> list[Node]:
        """Those that may share bytes with this one, of which at least one writes or holds them."""
        now = slice(self.count)
        owners: set[int] = set()
        for part in node.op.ranges:
            found = self.space[now] == self._number(part.space)
            found &= self.start[now] < part.start + part.bytes
            found &= self.end[now] > part.start
            if kind := _rewritten(part):
                found |= self.kind[now] == kind
            if part.moving:
                found |= self.moving[now] & (self.turn[now] != part.turn)
            if not part.write and not node.op.opcode.has_channel:
                found &= self.matters[now]
            owners.update(self.owner[now][found].tolist())
        return [self.nodes[owner] for owner in sorted(owners)]

    def _number(self, space: str) -> int:
        return self.spaces.setdefault(space, len(self.spaces))


def _rewritten(part: Range) -> int:
    """Which bytes that are written more than once these may be: a number, 0 if none."""
    return 1 + changing_tensor(part.space) if part.space.startswith((CHANGING, WAW)) else 0


def _relation(a: Op, b: Op, loads_exclude: bool) -> str | None:
    """Why b must follow a: through "vmem" or "dram" bytes; None if they are independent."""
    found = None
    both_dma = a.opcode.has_channel and b.opcode.has_channel
    for x in a.ranges:
        for y in b.ranges:
            # A transfer holds its VMEM bytes even against readers.
            held = loads_exclude or a.opcode.has_channel or b.opcode.has_channel
            held = held and not x.space.startswith("dram")
            if x.overlaps(y) and (x.write or y.write or held):
                if not x.space.startswith("dram"):
                    return "vmem"
                found = "dram" if both_dma else found
    return found


def _reverse_topological(nodes: list[Node]) -> list[Node]:
    waiting = {node.index: len(node.after) for node in nodes}
    ready = [node for node in nodes if not node.after]
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        for earlier, _ in node.before:
            waiting[earlier.index] -= 1
            if not waiting[earlier.index]:
                ready.append(earlier)
    assert len(order) == len(nodes), "the dependence graph has a cycle"
    return order
