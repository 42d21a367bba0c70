"""Whether an overlapped loop addresses what its body says: fill, loop and drain, run on numbers.

Nothing here knows how pointers were placed. The body is run iteration by iteration, as written,
and the loop pass by pass, as emitted, both on the scalar registers only. Every access of every
iteration has to find the same addresses in both, registers keep them until the access is done (of
a transfer: until the wait for it), and pointers end where the body leaves them.

Pointers start at random numbers: addresses are sums of pointers and constants modulo 2^32, and two
different sums give different numbers. The passes of a loop are alike, so a few of them are enough.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.targets.atlas.codegen.virtual import Code, Op, Part, Register
from tilewright.targets.atlas.isa import OPCODES, Kind
from tilewright.targets.atlas.program import Instruction

if TYPE_CHECKING:
    from tilewright.targets.atlas.codegen.list_schedule import Setting
    from tilewright.targets.atlas.codegen.modulo_loop import Overlapped, Row

MASK = (1 << 32) - 1
LOOPED = 4  # passes of the loop that are run

# By instruction of the table: which operands are scalar registers, and which is a channel.
_ADDRESSES = [[k for k, o in enumerate(row.operands) if o.kind is Kind.X] for row in OPCODES]
_CHANNELS = [[k for k, o in enumerate(row.operands) if o.key == "channel"] for row in OPCODES]

Number = int | None  # None: unknown
Access = tuple[Op, int]  # an instruction of the body, and its iteration


def wrong_access(loop: Overlapped, body: Code, trips: int, setting: Setting) -> str | None:
    """The first difference, in words; None if the loop addresses what the body says."""
    few = min(trips, loop.stages + LOOPED + (trips - loop.stages) % 2)
    run = LoopRun.of(body, few, setting)
    for number, rows in _passes(loop, few):
        for row in rows:
            run.now = number * loop.interval + row.tick
            problem = _issue(run, row, number, few)
            if problem is not None:
                return problem
    run.busy.clear()  # the machine drains before what comes behind
    for instruction in loop.after:
        run.scalar(instruction)
    return run.ending(setting)


def _issue(run: LoopRun, row: Row, number: int, trips: int) -> str | None:
    """Carry out a row of a pass; what is wrong with it."""
    if row.op is None:
        return run.scalar(row.instruction)
    (stage,) = row.stages
    iteration = number - stage
    return run.access(row.instruction, row.op, iteration) if 0 <= iteration < trips else None


def _passes(loop: Overlapped, trips: int) -> Iterator[tuple[int, list[Row]]]:
    """All passes as they are run, with their numbers."""
    full = loop.stages - 1
    written = list(loop.passes(trips))
    yield from enumerate(written[:full])
    for number in range(full, trips):
        yield number, written[full]
    yield from enumerate(written[full + 1 :], trips)


def compute(name: str, first: Number, second: Number) -> Number:
    """What a scalar instruction gives; `second` is a register or the immediate."""
    if name == "lui":
        return None if second is None else (second << 12) & MASK
    if first is None or second is None:
        return None
    if name in ("add", "addi"):
        return (first + second) & MASK
    if name == "sub":
        return (first - second) & MASK
    if name == "slli":
        return (first << second) & MASK
    return None


@dataclass
class _Body:
    """The body in program order."""

    code: Code
    pointers: dict[Register, Number]
    found: dict[Access, dict[int, Number]] = field(default_factory=dict)

    def run(self, iteration: int) -> None:
        values: dict[Register, Number] = {}

        def read(part: Part | int) -> Number:
            if isinstance(part, int):
                return part
            register = part.register
            if register.constant is not None:
                return register.constant & MASK
            return self.pointers.get(register) if register.carried else values.get(register)

        for op in self.code.ops:
            if self.code.profile.timing_of(op.opcode).unit == "SCALAR":
                target, first, second = op.operands
                assert isinstance(target, Part)
                made = compute(op.opcode.mnemonic, read(first), read(second))
                into = self.pointers if target.register.carried else values
                into[target.register] = made
                continue
            places = _ADDRESSES[op.opcode.index]
            self.found[op, iteration] = {k: read(op.operands[k]) for k in places}


@dataclass
class LoopRun:
    """A loop as emitted, instruction by instruction, beside its body as written."""

    code: Code
    body: _Body
    registers: dict[int, Number]
    now: int = 0
    busy: dict[int, int] = field(default_factory=dict)  # register -> tick until which it is read
    flying: dict[int, dict[int, Number]] = field(default_factory=dict)  # channel -> its registers
    done: set[Access] = field(default_factory=set)

    @classmethod
    def of(cls, code: Code, trips: int, setting: Setting) -> LoopRun:
        """The body run `trips` times, and the registers as the loop finds them."""
        numbers = random.Random(len(code.ops))
        start = {pointer: numbers.getrandbits(32) for pointer in setting.pointers}
        body = _Body(code, dict(start))
        for iteration in range(trips):
            body.run(iteration)
        registers: dict[int, Number] = {r: v & MASK for r, v in setting.constants.x.items()}
        registers |= {place: start[pointer] for pointer, place in setting.pointers.items()}
        registers[0] = 0
        return cls(code, body, registers)

    def access(self, instruction: Instruction, op: Op, iteration: int) -> str | None:
        """Carry out an instruction of the body, as of one iteration; what is wrong with it."""
        opcode, what = op.opcode, f"{instruction.opcode.mnemonic} of iteration {iteration}"
        # Waits have no address, and the first of a repeated transfer is left out.
        addresses = self.body.found.get((op, iteration), {})
        if (op, iteration) in self.done:
            return f"{what} is done twice"
        self.done.add((op, iteration))
        if instruction.opcode is not opcode:
            return f"{what} is {opcode.mnemonic} in the body"
        for k, operand in enumerate(opcode.operands):
            place, written = instruction.operands[k], op.operands[k]
            if operand.kind is Kind.X:
                wanted = addresses.get(k)
                if wanted is None or self.registers.get(place) != wanted:
                    return f"{what} finds another address in x{place}"
            elif isinstance(written, int) and operand.key != "channel" and written != place:
                return f"{what} has {place} where the body has {written}"
        return self.read(instruction)

    def ending(self, setting: Setting) -> str | None:
        """What is wrong when the loop is over: something was not done, or pointers are elsewhere."""
        for op, iteration in self.body.found.keys() - self.done:
            if op.opcode.timing != "dma_wait":
                return f"{op.opcode.mnemonic} of iteration {iteration} is never done"
        for pointer, place in setting.pointers.items():
            if self.registers.get(place) != self.body.pointers[pointer]:
                return f"x{place} ({pointer.name or 'a pointer'}) is not where the body leaves it"
        return None

    def read(self, instruction: Instruction) -> str | None:
        """Note the registers of a transfer; at the wait they still hold what they held."""
        opcode = instruction.opcode
        held = [instruction.operands[k] for k in _ADDRESSES[opcode.index]]
        channels = [instruction.operands[k] for k in _CHANNELS[opcode.index]]
        if not channels:
            done = self.now + self.code.profile.timing_of(opcode).latency
            for place in held:
                self.busy[place] = max(done, self.busy.get(place, 0))
            return None
        if opcode.timing == "dma_transfer":
            self.flying[channels[0]] = {place: self.registers.get(place) for place in held}
            return None
        for place, value in self.flying.pop(channels[0], {}).items():
            if self.registers.get(place) != value:
                return f"x{place} changes while the transfer on channel {channels[0]} reads it"
        return None

    def scalar(self, instruction: Instruction) -> str | None:
        """Carry out an instruction on scalar registers; what is wrong with it."""
        if instruction.opcode.operands[0].kind is not Kind.X:
            return None  # a scale register
        name, (target, *rest) = instruction.opcode.mnemonic, instruction.operands
        kinds = [operand.kind for operand in instruction.opcode.operands[1:]]
        values = [
            self.registers.get(value) if kind is Kind.X else value
            for kind, value in zip(kinds, rest, strict=True)
        ]
        if name == "lui":
            values = [0, *values]
        if not target:
            return None
        made, before = compute(name, values[0], values[1]), self.registers.get(target)
        if self.now < self.busy.get(target, 0) and made != before:
            return f"x{target} changes while an access still reads it"
        self.registers[target] = made
        return None
