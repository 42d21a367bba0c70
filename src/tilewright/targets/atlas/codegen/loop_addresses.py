"""What scalar registers hold in a loop body: pointers that step, and sums of pointers.

Read from the body in program order: which pointer moves how, and the value of every address as
a constant plus pointers as of a number of moves.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from tilewright.targets.atlas.codegen.virtual import Code, Op, Part, Register, Site
from tilewright.targets.atlas.isa import Kind


@dataclass(frozen=True, slots=True)
class Term:
    """A pointer after so many of its moves in the iteration, shifted left."""

    pointer: Register
    moves: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    constant: int = 0
    terms: tuple[Term, ...] = ()

    def plus(self, other: Sum) -> Sum:
        return Sum(self.constant + other.constant, (*self.terms, *other.terms))

    def shifted(self, bits: int) -> Sum:
        terms = tuple(Term(t.pointer, t.moves, t.shift + bits) for t in self.terms)
        return Sum(self.constant << bits, terms)


@dataclass(frozen=True, slots=True)
class Move:
    """So many times in an iteration: pointer += step, or pointer = step - pointer."""

    op: Op
    step: int
    toggles: bool
    times: int = 1


@dataclass
class Addresses:
    """Of a loop body.

    uses: per instruction, the value of each scalar operand by its position. moves: pointers
    that step. targets: the DRAM address of each start of a repeated transfer.
    """

    uses: dict[Op, dict[int, Sum]] = field(default_factory=dict)
    moves: dict[Register, Move] = field(default_factory=dict)
    targets: dict[Op, Sum] = field(default_factory=dict)


def signed(value: int) -> int:
    """A 32-bit pattern as a number."""
    return value - (1 << 32) if value >= 1 << 31 else value


def addresses(code: Code) -> Addresses | None:
    """None where scalar code does something else than stepping and adding."""
    reader = _Reader(code)
    return reader.found if reader.read() else None


class _Reader:
    def __init__(self, code: Code) -> None:
        self.code = code
        self.found = Addresses()
        self.values: dict[Register, Sum] = {}
        self.moves: dict[Register, int] = defaultdict(int)
        self.sites = {op.site.dram: op.site for op in code.ops if op.site}
        self.fixed = {op.site.vmem for op in code.ops if op.site}
        self.pending: dict[Site, Sum] = {}  # addresses of transfers not yet started

    def read(self) -> bool:
        for op in self.code.ops:
            if self.code.profile.timing_of(op.opcode).unit == "SCALAR":
                if not self._scalar(op):
                    return False
            elif op.site is None:
                parts = enumerate(op.operands)
                uses = {
                    k: self._value(p.register)
                    for k, p in parts
                    if isinstance(p, Part) and p.register.kind is Kind.X
                }
                self.found.uses[op] = uses
            elif op.opcode.timing == "dma_transfer":
                if op.site not in self.pending:
                    return False
                self.found.targets[op] = self.pending.pop(op.site)
        return not any(pointer in self.fixed for pointer in self.found.moves)

    def _value(self, register: Register) -> Sum:
        if register.constant is not None:
            return Sum(signed(register.constant))
        if register.carried:
            return Sum(0, (Term(register, self.moves[register]),))
        return self.values[register]

    def _move(self, pointer: Register, move: Move) -> bool:
        known = self.found.moves.get(pointer, move)
        if (known.step, known.toggles) != (move.step, move.toggles):
            return False
        self.moves[pointer] += 1
        self.found.moves[pointer] = replace(move, times=self.moves[pointer])
        return True

    def _scalar(self, op: Op) -> bool:
        name = op.opcode.mnemonic
        if name not in ("addi", "add", "slli", "sub"):
            return False
        target, first, second = op.operands
        assert isinstance(target, Part) and isinstance(first, Part)
        if name == "sub":
            assert isinstance(second, Part)
            swapped = target.register.carried and second.register is target.register
            if not swapped or first.register.constant is None:
                return False
            return self._move(target.register, Move(op, signed(first.register.constant), True))
        if target.register.carried and first.register is target.register:
            constant = second if isinstance(second, int) else second.register.constant
            if constant is None or name == "slli":
                return False
            return self._move(target.register, Move(op, signed(constant), False))
        value = self._value(first.register)
        if name == "slli":
            assert isinstance(second, int)
            value = value.shifted(second)
        else:
            value = value.plus(
                Sum(second) if isinstance(second, int) else self._value(second.register)
            )
        if not target.register.carried:
            self.values[target.register] = value
            return True
        site = self.sites.get(target.register)
        if site is None or site in self.pending:
            return False
        self.pending[site] = value
        return True
