"""Straight routines of several kernels in one schedule.

before: kernel, idle until its last instruction is done, kernel
after:  one piece of code; loads and constants of a kernel come under the work of those before it

Every access names its bytes, so dependences between kernels are those of their code. The result
is cut again where all that a kernel does is done: before that place stands some of what later
kernels do, and nothing of it after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.targets.atlas.codegen.constants import Constants
from tilewright.targets.atlas.codegen.emit import Writer
from tilewright.targets.atlas.codegen.forwarding import forwarded, renamed
from tilewright.targets.atlas.codegen.list_schedule import (
    Issue,
    OutOfRegisters,
    Schedule,
    Setting,
    schedule,
)
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import REGISTER_BYTES, Code, Op, Part, Register
from tilewright.targets.atlas.isa import BY_MNEMONIC
from tilewright.targets.atlas.program import Program

LOAD, FILL = BY_MNEMONIC["vload"], BY_MNEMONIC["vli.all"]
SETTLED = 2  # ticks after the completion of an instruction at which memory has its result


def is_straight(routines: Sequence[Routine]) -> bool:
    """Whether a kernel is nothing but instructions one after the other, at fixed addresses."""
    return all(
        isinstance(item, Code) and not routine.pointers and not routine.carried
        for routine in routines
        for item in routine.items
    )


def instructions(routines: Sequence[Routine]) -> int:
    return sum(len(code.ops) for code in _codes(routines))


def joined(kernels: Sequence[Sequence[Routine]], files: Sequence[str]) -> list[Program] | None:
    """A program per kernel, to be run one right after the other; None where registers do not
    suffice for all of them together."""
    # Registers of one number for all kernels that need it; what kernels hand on in registers.
    for keep, reach in ((True, TUNING.joined_reach), (True, 0), (False, 0)):
        try:
            return _joined(kernels, files, keep, reach)
        except OutOfRegisters:
            continue
    return None


def _joined(
    kernels: Sequence[Sequence[Routine]], files: Sequence[str], keep: bool, reach: int
) -> list[Program]:
    code = Code(kernels[0][0].profile)
    made: dict[Op, int] = {}
    constants = _Constants(keep)
    for number, routines in enumerate(kernels):
        for piece in _codes(routines):
            made.update(dict.fromkeys(constants.shared(piece), number))
    owner: dict[Op, int] = {}
    for op, number in forwarded(list(made), made, code.profile, reach):
        op.order, owner[op] = len(code.ops), number
        code.ops.append(op)
    found = schedule(code, Setting(Constants(), idle=True))
    ends = _ends(found, owner, len(kernels))
    return [
        _program(found.issues, begin, end, file)
        for begin, end, file in zip([0, *ends], ends, files, strict=False)
    ]


class _Constants:
    """Tiles of one number and tables that are in memory: they are not made again."""

    def __init__(self, keep: bool) -> None:
        # What it is (a bf16 pattern, for a register full of it, or a table) -> VMEM bytes.
        self.places: dict[object, range] = {}
        self.keep = keep
        self.registers: dict[int, Register] = {}  # patterns -> registers full of them, to the end

    def shared(self, code: Code) -> list[Op]:
        """The instructions of a kernel, with loads of what is known in place of making it."""
        left_out: set[Op] = set()
        moved: dict[range, int] = {}  # addresses of tables -> of the same ones elsewhere
        made: dict[Op, tuple[object, range]] = {}  # the last store of what is known from then on
        for start, (table, size, stores) in code.tables.items():
            known = self.places.get(table)
            if known is not None and not _writes(code, known, stores):
                moved[range(start, start + size)] = known.start
                left_out.update(stores)
            else:
                made[stores[-1]] = table, range(start, start + size)
        for half, (store, _) in code.fills.items():
            start = store.ranges[0].start
            made[store] = _pattern(half), range(start, start + REGISTER_BYTES)
        result: list[Op] = []
        for op in code.ops:
            if op in left_out:
                continue
            known = self.places.get(_pattern(op)) if op in code.fills else None
            if known is not None:
                # Both halves at once: rooms of kernels overlap, so the place may be written later.
                store, load = code.fills[op]
                left_out.update((store, load))
                result += [_loaded(code, half, known.start) for half in (op, load)]
                continue
            result.append(_moved(code, op, moved))
            self._overwritten(op)
            if op in made:
                what, place = made[op]
                self.places[what] = place
        result = _without_idle_fills(result)
        return self._kept(result) if self.keep else result

    def _kept(self, ops: list[Op]) -> list[Op]:
        """The instructions with registers of one number, zeros above all, from kernels before.

        A fill takes as long as any other vector instruction, and small kernels clear many tiles.
        """
        writers = Counter(register for op in ops for register in _written(op))
        same: dict[Register, Register] = {}
        result: list[Op] = []
        for op in ops:
            if op.opcode is FILL and (mine := _target(op).register).size == 1 == writers[mine]:
                known = self.registers.setdefault(_pattern(op), mine)
                if known is not mine:
                    same[mine] = known
                    continue
            result.append(renamed(op, same))
        return result

    def _overwritten(self, op: Op) -> None:
        for part in op.ranges:
            if part.write and part.space == "vmem":
                self.places = {
                    what: place
                    for what, place in self.places.items()
                    if place.stop <= part.start or part.start + part.bytes <= place.start
                }


def _writes(code: Code, place: range, but: Sequence[Op]) -> bool:
    """Whether a kernel writes to a place in VMEM, by other instructions than these."""
    return any(
        part.write
        and part.space == "vmem"
        and part.start < place.stop
        and place.start < part.start + part.bytes
        for op in code.ops
        if op not in but
        for part in op.ranges
    )


def _moved(code: Code, op: Op, moved: dict[range, int]) -> Op:
    """A load of a table from where it is already."""
    if op.opcode is LOAD:
        for place, start in moved.items():
            if op.ranges[0].start in place:
                return _loaded(code, op, op.ranges[0].start - place.start + start)
    return op


def _without_idle_fills(ops: list[Op]) -> list[Op]:
    """The instructions without fills of registers that nobody reads any more."""
    read = {
        value.register
        for op in ops
        for operand, value in zip(op.opcode.operands, op.operands, strict=True)
        if isinstance(value, Part) and operand.reads
    }
    return [op for op in ops if op.opcode is not FILL or _target(op).register in read]


def _written(op: Op) -> list[Register]:
    return [
        value.register
        for operand, value in zip(op.opcode.operands, op.operands, strict=True)
        if isinstance(value, Part) and operand.writes
    ]


def _pattern(fill: Op) -> int:
    pattern = fill.operands[1]
    assert isinstance(pattern, int)
    return pattern


def _target(op: Op) -> Part:
    target = op.operands[0]
    assert isinstance(target, Part)
    return target


def _loaded(code: Code, op: Op, at: int) -> Op:
    """A load from an address into the register that the instruction writes."""
    load = Code(code.profile).vload(_target(op), at)
    load.source = op.source
    return load


def _ends(found: Schedule, owner: dict[Op, int], count: int) -> list[int]:
    """The ticks by which all of a kernel is done, each after those before it."""
    ends = [0] * count
    for node, tick, done in found.dispatched:
        mine = owner[node.op if node.transfer is None else node.transfer.op]
        ends[mine] = max(ends[mine], tick + 1, done + SETTLED)
    for number in range(1, count):
        ends[number] = max(ends[number], ends[number - 1] + 1)
    ends[-1] = max(ends[-1], found.finish)
    return ends


def _program(issues: Sequence[Issue], begin: int, end: int, file: str) -> Program:
    """The instructions of some ticks."""
    writer = Writer()
    mine = [issue for issue in issues if begin <= issue.tick < end]
    writer.piece([Issue(i.tick - begin, i.instruction, i.source) for i in mine], end - begin)
    return writer.program(file)


def _codes(routines: Sequence[Routine]) -> list[Code]:
    return [item for routine in routines for item in routine.items if isinstance(item, Code)]
