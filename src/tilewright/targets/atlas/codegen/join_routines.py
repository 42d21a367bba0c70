"""Straight routines of several kernels in one schedule.

before: kernel, idle until its last instruction is done, kernel
after:  one piece of code; loads and constants of a kernel come under the work of those before it

Every access names its bytes, so dependences between kernels are those of their code. The result
is cut again where all that a kernel does is done: before that place stands some of what later
kernels do, and nothing of it after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.targets.atlas.codegen.constants import Constants
from tilewright.targets.atlas.codegen.emit import Writer
from tilewright.targets.atlas.codegen.list_schedule import (
    Issue,
    OutOfRegisters,
    Schedule,
    Setting,
    schedule,
)
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.virtual import REGISTER_BYTES, Code, Op, Part
from tilewright.targets.atlas.isa import BY_MNEMONIC
from tilewright.targets.atlas.program import Program

STORE = BY_MNEMONIC["vstore"]
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
    code = Code(kernels[0][0].profile)
    owner: dict[Op, int] = {}
    constants = _Constants()
    for number, routines in enumerate(kernels):
        for piece in _codes(routines):
            for op in constants.shared(piece):
                op.order, owner[op] = len(code.ops), number
                code.ops.append(op)
    try:
        found = schedule(code, Setting(Constants(), idle=True))
    except OutOfRegisters:
        return None
    ends = _ends(found, owner, len(kernels))
    return [
        _program(found.issues, begin, end, file)
        for begin, end, file in zip([0, *ends], ends, files, strict=False)
    ]


class _Constants:
    """Tiles of one number that are in memory: they are loaded rather than made again."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}  # bf16 pattern -> VMEM address of a register full of it

    def shared(self, code: Code) -> Iterator[Op]:
        """The instructions of a kernel, with loads in place of fills where that is possible."""
        loads: dict[Op, Op] = {}  # the load of an other half -> from where it is loaded now
        left_out: set[Op] = set()
        for op in code.ops:
            if op in left_out:
                continue
            if op in code.fills:
                store, load = code.fills[op]
                if (place := self.places.get(_pattern(op))) is not None:
                    left_out.add(store)
                    loads[load] = _loaded(code, load, place)
                    yield _loaded(code, op, place)
                    continue
            yield loads.get(op, op)
            self._overwritten(op)
            for half, (store, _) in code.fills.items() if op.opcode is STORE else ():
                if store is op:
                    self.places[_pattern(half)] = op.ranges[0].start

    def _overwritten(self, op: Op) -> None:
        for part in op.ranges:
            if part.write and part.space == "vmem":
                self.places = {
                    pattern: at
                    for pattern, at in self.places.items()
                    if at + REGISTER_BYTES <= part.start or part.start + part.bytes <= at
                }


def _pattern(fill: Op) -> int:
    pattern = fill.operands[1]
    assert isinstance(pattern, int)
    return pattern


def _loaded(code: Code, op: Op, at: int) -> Op:
    """A load from an address into the register that the instruction writes."""
    target = op.operands[0]
    assert isinstance(target, Part)
    load = Code(code.profile).vload(target, at)
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
