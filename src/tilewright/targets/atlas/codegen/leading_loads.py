"""What a routine loads before its first loop, and could as well find in VMEM.

before: loads of the first tiles; loop that works on them while it loads the next
after:  the loop, where a kernel that ran before has put these tiles into their place

Nothing but the loads goes: buffers lie where they were, and are filled again as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.targets.atlas.codegen.routine import Loop, Routine
from tilewright.targets.atlas.codegen.tail_loads import Transfer
from tilewright.targets.atlas.codegen.virtual import (
    REGISTER_BYTES,
    ROW,
    Code,
    Op,
    Part,
    Register,
)

MOST = 64  # transfers of one routine that are told of, the largest
WORD = 1 << 32


def leading_loads(routine: Routine) -> list[Transfer]:
    """Loads in front of all loops into places that nothing else there writes, by their places."""
    found = sorted((transfer for _, _, transfer in _alone(routine)), key=lambda t: -t.bytes)
    return sorted(found[:MOST], key=lambda t: t.vmem)


def leave_out(routine: Routine, there: Sequence[Transfer]) -> None:
    """Take out the leading loads of what is in VMEM by then."""
    gone: dict[int, set[int]] = {}
    for code, op, transfer in _alone(routine):
        if any(one.covers(transfer) for one in there):
            gone.setdefault(id(code), set()).add(id(op))
    for item in routine.items:
        if isinstance(item, Code) and id(item) in gone:
            item.ops = [op for op in item.ops if id(op) not in gone[id(item)]]
            for number, op in enumerate(item.ops):
                op.order = number


def _alone(routine: Routine) -> Iterator[tuple[Code, Op, Transfer]]:
    """Leading loads whose place in VMEM no other leading instruction writes."""
    loads: list[tuple[Code, Op, Transfer]] = []
    written: list[tuple[int, int, Op]] = []
    values = _Values(routine)
    for item in routine.items:
        if isinstance(item, Loop):
            break
        for op in item.ops:
            values.follow(op)
            transfer = values.load(op)
            if transfer is None and op.opcode.mnemonic not in ("vstore", "dma.load"):
                continue
            start = values.stored(op) if transfer is None else transfer.vmem
            if start is None:
                return  # it may write anywhere
            size = REGISTER_BYTES if transfer is None else transfer.bytes
            written.append((start, start + size, op))
            if transfer is not None:
                loads.append((item, op, transfer))
    for code, op, transfer in loads:
        if not any(other is not op and transfer.overlaps(a, b) for a, b, other in written):
            yield code, op, transfer


class _Values:
    """What scalar registers hold in front of the first loop, and whether it moves with rounds."""

    def __init__(self, routine: Routine) -> None:
        self.known: dict[Register, tuple[int, bool] | None] = {
            pointer: (start, pointer in routine.by_layer)
            for pointer, start in routine.pointers.items()
        }

    def of(self, value: Part | int) -> tuple[int, bool] | None:
        if isinstance(value, int):
            return value, False
        if value.register.constant is not None:
            return value.register.constant, False
        return self.known.get(value.register)

    def follow(self, op: Op) -> None:
        """Take note of what a scalar instruction computes."""
        if op.opcode.mnemonic not in ("add", "addi", "sub"):
            for operand, value in zip(op.opcode.operands, op.operands, strict=True):
                if operand.writes and isinstance(value, Part) and value.register in self.known:
                    self.known[value.register] = None
            return
        target, *sources = op.operands
        assert isinstance(target, Part)
        first, second = (self.of(source) for source in sources)
        self.known[target.register] = None
        if first is None or second is None or (first[1] and second[1]):
            return
        if op.opcode.mnemonic == "sub":
            if not second[1]:
                self.known[target.register] = (first[0] - second[0]) % WORD, first[1]
            return
        self.known[target.register] = (first[0] + second[0]) % WORD, first[1] or second[1]

    def load(self, op: Op) -> Transfer | None:
        """A transfer to VMEM, if both of its places are known."""
        if op.opcode.effect != "dma.load" or op.site is not None:
            return None
        inside, outside = self.of(op.operands[0]), self.of(op.operands[1])
        if inside is None or outside is None or inside[1]:
            return None
        return Transfer(inside[0], outside[0], op.bytes, outside[1])

    def stored(self, op: Op) -> int | None:
        """Where in VMEM an instruction writes a tensor register."""
        if op.opcode.mnemonic != "vstore":
            return None
        base, rows = self.of(op.operands[2]), op.operands[1]
        if base is None or base[1] or not isinstance(rows, int):
            return None
        return base[0] + rows * ROW
