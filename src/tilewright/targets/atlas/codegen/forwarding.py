"""Tiles that one kernel stores and the next one loads stay in their registers.

before: vstore a, place; ...; vload b, place; vadd c, b, b
after:  vstore a, place; ...; vadd c, a, a

The store stays: who reads the place later, and who looks at memory between two kernels, finds what is
due there. What a kernel stores and loads itself is left alone, for it has too few registers for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.targets.atlas.codegen.virtual import Op, Part, Register
from tilewright.targets.atlas.isa import BY_MNEMONIC, Kind
from tilewright.targets.atlas.profile import Profile

LOAD, STORE = BY_MNEMONIC["vload"], BY_MNEMONIC["vstore"]


def forwarded(
    ops: Sequence[Op], owner: Mapping[Op, int], profile: Profile, reach: int
) -> list[tuple[Op, int]]:
    """The instructions with their kernels, without loads of what is in a register; owner: the kernel
    of each. reach: kernels that lie between a store and such a load, at most, and one more."""
    return _Forwarding(_writes(ops, profile), owner, reach).run(ops)


def _writes(ops: Sequence[Op], profile: Profile) -> Counter[Part]:
    """How often each tensor register is written."""
    found: Counter[Part] = Counter()
    for op in ops:
        for operand, value in zip(op.opcode.operands, op.operands, strict=True):
            if isinstance(value, Part) and operand.writes and operand.kind is Kind.M:
                for index in range(profile.span(operand)):
                    found[Part(value.register, value.index + index)] += 1
    return found


@dataclass
class _Forwarding:
    """stored: what is in memory, by the first byte: the register it came from, and the kernel."""

    writes: Counter[Part]
    owner: Mapping[Op, int]
    reach: int
    stored: dict[int, tuple[Part, int]] = field(default_factory=dict)
    same: dict[Register, Register] = field(default_factory=dict)
    # Of a register that is being loaded: where its parts are already, and the loads.
    parts: dict[Register, dict[int, tuple[Part, Op]]] = field(default_factory=dict)
    left_out: set[Op] = field(default_factory=set)

    def run(self, ops: Sequence[Op]) -> list[tuple[Op, int]]:
        for op in ops:
            if op.opcode is LOAD:
                self._load(op)
            for part in op.ranges:
                if part.write and part.space == "vmem":
                    self._overwrite(part.start, part.start + part.bytes)
            if op.opcode is STORE:
                self._store(op)
        return [(renamed(op, self.same), self.owner[op]) for op in ops if op not in self.left_out]

    def _overwrite(self, start: int, end: int) -> None:
        gone = [at for at in self.stored if at < end and start < at + 1024]
        for at in gone:
            del self.stored[at]

    def _store(self, op: Op) -> None:
        source, place = op.operands[0], op.ranges[0]
        assert isinstance(source, Part)
        source = Part(self.same.get(source.register, source.register), source.index)
        if place.space == "vmem" and self.writes[source] == 1:
            self.stored[place.start] = source, self.owner[op]

    def _load(self, op: Op) -> None:
        """Note where a part of a register is already; if all of its parts are there, it is not needed."""
        target, place = op.operands[0], op.ranges[0]
        assert isinstance(target, Part)
        known = self.stored.get(place.start) if place.space == "vmem" else None
        if known is None or self.writes[target] != 1:
            return
        source, kernel = known
        if not 0 < self.owner[op] - kernel <= self.reach or source.index != target.index:
            return
        register = target.register
        parts = self.parts.setdefault(register, {})
        parts[target.index] = source, op
        sources = {part.register for part, _ in parts.values()}
        if len(parts) == register.size == source.register.size and len(sources) == 1:
            self.same[register] = source.register
            self.left_out.update(load for _, load in parts.values())


def renamed(op: Op, same: Mapping[Register, Register]) -> Op:
    """The instruction with other registers of the same content."""
    if not any(isinstance(value, Part) and value.register in same for value in op.operands):
        return op
    operands = [
        Part(same[value.register], value.index)
        if isinstance(value, Part) and value.register in same
        else value
        for value in op.operands
    ]
    return replace(op, operands=tuple(operands))
