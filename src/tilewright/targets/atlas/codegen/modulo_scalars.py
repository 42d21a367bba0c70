"""Scalar instructions of an overlapped loop: pointer moves, addresses and constants.

They go into idle ticks once everything else has its place. A pointer moves once in an interval;
an instruction that needs its value of another iteration gets it computed back, in a register of
its own: pointers step by constants. While the loop drains, pointers go on for as long as somebody
counts on them, and are put back behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.targets.atlas.codegen.constants import Constants, load_constant
from tilewright.targets.atlas.codegen.loop_addresses import Addresses, Move, Sum, Term
from tilewright.targets.atlas.codegen.loop_graph import Step
from tilewright.targets.atlas.codegen.modulo_place import Placement
from tilewright.targets.atlas.codegen.modulo_reservation_table import overlaps
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Op, Register
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.program import Instruction

HELPER = -1  # stands for a second register in a computation


class NoRoom(Exception):
    """Too few scalar registers or idle ticks."""


@dataclass
class Row:
    """An instruction of a pass: its tick there, and the stages that need it.

    first: the first iteration that has it. op: what it is in the body, if it is more than scalar.
    """

    tick: int
    instruction: Instruction
    stages: set[int]
    source: str = ""
    first: int = 0
    op: Op | None = None


@dataclass
class _Held:
    """A value in a scalar register, in ticks of the pass that uses it."""

    place: int
    start: int
    end: int
    rows: list[Row] = field(default_factory=list)


class Scalars:
    """Chooses registers and ticks for all scalar values of a placed body."""

    def __init__(
        self,
        placement: Placement,
        found: Addresses,
        constants: Constants,
        pointers: dict[Register, int],
    ) -> None:
        self.placement, self.found, self.pointers = placement, found, pointers
        self.interval, self.issue = placement.interval, placement.issue
        self.pinned = {v: r for r, v in constants.x.items()}
        self.scales = {v: r for r, v in constants.e.items()}
        taken = {*constants.reserved, *(r for k, r in constants.pinned if k is Kind.X), 0}
        self.arcs: dict[int, list[tuple[int, int]]] = {
            r: [] for r in range(1, 32) if r not in taken
        }
        self.rows: list[Row] = []
        self.held: dict[tuple[Sum, int | None], list[_Held]] = {}
        self.moved: dict[Register, int] = {}  # when each pointer moves, in its iteration
        self.moving: dict[Register, Row] = {}
        self.beyond: dict[Register, int] = {}  # moves after that of the own iteration, before a use
        self.after: list[Instruction] = []  # what puts pointers back behind the loop
        self.places: dict[Step, dict[int, int]] = {}

    def run(self) -> None:
        """Find a register for every operand, or raise NoRoom."""
        at = self.placement.at
        for pointer, move in self.found.moves.items():
            self._move(pointer, move)
        for step in self.placement.graph.steps:
            if step.node.op in self.found.targets:
                self._target(step, self.found.targets[step.node.op])
        steps = [s for s in self.placement.graph.steps if self.found.uses.get(s.node.op)]
        # Transfers keep their registers longest.
        for step in sorted(steps, key=lambda s: (not s.is_transfer, at[s] % self.interval)):
            end = at[step] + step.latency
            if step.is_transfer:
                end = next(at[s] for s, _, turns in step.after if s.node is step.node.wait) + 1
            uses = self.found.uses[step.node.op]
            self.places[step] = {
                k: self._operand(value, at[step], end, step.node.op.source)
                for k, value in uses.items()
            }
        for pointer, row in self.moving.items():
            self._go_on(pointer, row)

    # --- pointers -----------------------------------------------------------------------

    def _move(self, pointer: Register, move: Move) -> None:
        """Put the move of a pointer where its first user of the next iteration wants it."""
        at, interval = self.placement.at, self.interval
        ticks = [
            at[step] - term.moves // move.times * interval
            for step in self.placement.graph.steps
            for value in self._values(step)
            for term in value.terms
            if term.pointer is pointer
        ]
        first = min(ticks, default=0) + interval - 1 - TUNING.pointer_ahead
        tick = min(first, max(at.values()))  # not after everything else
        if tick < TUNING.pointer_ahead:
            raise NoRoom
        while not self.issue.is_free(tick):
            tick -= 1
        place = self.pointers[pointer]
        self.moved[pointer] = tick
        if move.toggles and move.times % 2 == 0:
            return
        step = move.step if move.toggles else move.step * move.times
        self.issue.take(tick)
        if move.toggles or not -2048 <= step <= 2047:
            constant = self._operand(Sum(abs(step)), tick, tick + 1, move.op.source)
            if move.toggles:
                instruction = Instruction.of("sub", place, constant, place)
            else:
                name = "add" if step >= 0 else "sub"
                instruction = Instruction.of(name, place, place, constant)
        else:
            instruction = Instruction.of("addi", place, place, step)
        row = Row(tick % interval, instruction, {tick // interval}, move.op.source)
        self.moving[pointer] = row
        self.rows.append(row)

    def _go_on(self, pointer: Register, row: Row) -> None:
        """Let a pointer move in the drain until its last use, and put it back behind the loop."""
        beyond = self.beyond.get(pointer, 0)
        if not beyond:
            return
        (stage,) = row.stages
        row.stages.update(range(stage, stage + beyond + 1))
        move, place = self.found.moves[pointer], self.pointers[pointer]
        if move.toggles:
            self.after += [row.instruction] if beyond % 2 else []
            if beyond % 2 and (constant := row.instruction.operands[1]) in self.arcs:
                self.after[-1:-1] = load_constant(constant, move.step & 0xFFFFFFFF)
            return
        self.after += self._plus(place, -beyond * move.step * move.times, next(iter(self.arcs), 0))

    def _note_use(self, value: Sum, tick: int) -> None:
        """Remember that a tick of the iteration counts on the moves before it."""
        for term in value.terms:
            if term.pointer in self.moving:
                done = (tick - 1 - self.moved[term.pointer]) // self.interval
                self.beyond[term.pointer] = max(self.beyond.get(term.pointer, 0), done)

    def _values(self, step: Step) -> list[Sum]:
        """Scalar values a step needs."""
        op = step.node.op
        values = list(self.found.uses.get(op, {}).values())
        return [*values, self.found.targets[op]] if op in self.found.targets else values

    def _moves_before(self, pointer: Register, tick: int) -> int:
        """Moves of the pointer done before a tick, counted from that of the own iteration."""
        done = (tick - 1 - self.moved[pointer]) // self.interval + 1
        return done * self.found.moves[pointer].times

    def _behind(self, term: Term, tick: int) -> int:
        """How many moves the pointer still has to go at a tick to have the term's value."""
        if term.pointer not in self.moved:
            return 0
        return term.moves - self._moves_before(term.pointer, tick)

    def _target(self, start: Step, value: Sum) -> None:
        """Set the address of a repeated transfer after the wait for the one before."""
        at, site = self.placement.at, start.node.op.site
        assert site is not None
        order = start.node.op.order
        waits = [
            s
            for s in self.placement.graph.steps
            if s.node.op.site is site and not s.is_transfer and s.node.op.order < order
        ]
        wait = max(waits, key=lambda s: s.node.op.order)
        stage = at[start] // self.interval
        base = stage * self.interval
        after = max(at[wait], at[start] - TUNING.scalar_reach)
        rows, _ = self._make(value, self.pointers[site.dram], at[start] - base, after - base, stage)
        for row in rows:
            row.source = start.node.op.source
            self.rows.append(row)

    # --- values -------------------------------------------------------------------------

    def _operand(self, value: Sum, tick: int, end: int, source: str) -> int:
        """The register that holds the value from `tick` to `end`, ticks of the iteration."""
        if not value.terms and value.constant in self.pinned:
            return self.pinned[value.constant]
        if not value.terms and value.constant & 0xFFFFFFFF in self.pinned:
            return self.pinned[value.constant & 0xFFFFFFFF]
        stage, base = tick // self.interval, tick // self.interval * self.interval
        if len(value.terms) == 1 and not value.constant and not value.terms[0].shift:
            (term,) = value.terms
            if self._behind(term, tick) == 0 == self._behind(term, end):
                self._note_use(value, tick)
                return self.pointers[term.pointer]
        tick, end = tick - base, end - base
        key = (value, stage if value.terms else None)
        for held in self.held.get(key, []):
            # What was made in the pass before is not there for the first iteration.
            there = held.start >= 0 or stage > 0
            if there and held.start <= tick and self._extend(held, end):
                for row in held.rows:
                    row.stages.add(stage - (row.tick > tick))
                return held.place
        place, held = self._new(value, tick, end, stage)
        for row in held.rows:
            row.source = source
        self.rows += held.rows
        self.held.setdefault(key, []).append(held)
        return place

    def _extend(self, held: _Held, end: int) -> bool:
        if end <= held.end:
            return True
        if end - held.start > self.interval or held.start < 0:
            return False
        own = (held.start, held.end)
        others = [arc for arc in self.arcs[held.place] if arc != own]
        if any(overlaps((held.start, end), arc, self.interval) for arc in others):
            return False
        self.arcs[held.place] = [*others, (held.start, end)]
        held.end = end
        return True

    def _new(self, value: Sum, tick: int, end: int, stage: int) -> tuple[int, _Held]:
        """Compute a value just before a tick of its pass, in a register that is free."""
        order = sorted(self.arcs, key=lambda r: (self._idle(r, tick), r))
        earliest = tick - TUNING.scalar_reach if stage else max(-1, tick - TUNING.scalar_reach)
        rows, start = self._make(value, HELPER - 1, tick, earliest, stage)
        if end - start > self.interval:
            raise NoRoom
        for place in order:
            if any(overlaps((start, end), arc, self.interval) for arc in self.arcs[place]):
                continue
            self.arcs[place].append((start, end))
            for row in rows:
                row.instruction = _renamed(row.instruction, HELPER - 1, place)
            return place, _Held(place, start, end, rows)
        raise NoRoom

    def _idle(self, place: int, tick: int) -> int:
        return min(((tick - end) % self.interval for _, end in self.arcs[place]), default=1 << 30)

    def _make(
        self, value: Sum, target: int, tick: int, after: int, stage: int
    ) -> tuple[list[Row], int]:
        """Instructions before `tick` and after `after`, ticks of the pass, and the first tick."""
        last = tick - 1
        while last > after:
            # What pointers lack does not change between the ticks of the computation.
            code = self._code(value, target, last + stage * self.interval)
            ticks: list[int] = []
            at = last
            while len(ticks) < len(code) and at > after:
                if self.issue.is_free(at):
                    ticks.append(at)
                at -= 1
            if len(ticks) < len(code):
                raise NoRoom
            ticks.reverse()
            base = stage * self.interval
            if (
                code
                == self._code(value, target, ticks[0] + base)
                == self._code(value, target, ticks[-1] + base)
            ):
                self._note_use(value, ticks[-1] + base)
                return self._rows(code, ticks, stage), ticks[0]
            last -= 1
        raise NoRoom

    def _rows(self, code: list[Instruction], ticks: list[int], stage: int) -> list[Row]:
        if any(HELPER in i.operands for i in code):
            span = (ticks[0], ticks[-1] + 1)
            for place, arcs in self.arcs.items():
                if not any(overlaps(span, arc, self.interval) for arc in arcs):
                    arcs.append(span)
                    code = [_renamed(i, HELPER, place) for i in code]
                    break
            else:
                raise NoRoom
        rows = []
        for tick, instruction in zip(ticks, code, strict=True):
            self.issue.take(tick)
            rows.append(Row(tick % self.interval, instruction, {stage - (tick < 0)}))
        return rows

    def _code(self, value: Sum, target: int, tick: int) -> list[Instruction]:
        """Instructions that make a value from what the pointers hold at a tick."""
        constant, terms = value.constant, []
        for term in value.terms:
            behind = self._behind(term, tick)
            move, sign = self.found.moves.get(term.pointer), 1
            if move is not None and move.toggles:
                sign = -1 if behind % 2 else 1
                constant += move.step << term.shift if behind % 2 else 0
            elif move is not None:
                constant += (behind * move.step) << term.shift
            terms.append((sign, self.pointers[term.pointer], term.shift))
        if not terms:
            return load_constant(target, constant & 0xFFFFFFFF)
        terms.sort(key=lambda t: -t[0])
        sign, place, shift = terms[0]
        code: list[Instruction] = []
        if sign < 0 or (constant > 2047 and not shift):
            # From the constant on.
            source = self.pinned.get(constant)
            if source is None:
                code += load_constant(target, constant & 0xFFFFFFFF)
                source = target
            constant = 0
        elif shift:
            code.append(Instruction.of("slli", target, place, shift))
            source, terms = target, terms[1:]
        else:
            small = constant if constant >= -2048 else 0
            if small or len(terms) == 1:
                code.append(Instruction.of("addi", target, place, small))
                constant, place = constant - small, target
            source, terms = place, terms[1:]
        for sign, place, shift in terms:
            if shift:
                code.append(Instruction.of("slli", HELPER, place, shift))
                place = HELPER
            code.append(Instruction.of("add" if sign > 0 else "sub", target, source, place))
            source = target
        if constant:
            code += self._plus(target, constant)
        return code

    def _plus(self, target: int, constant: int, helper: int = HELPER) -> list[Instruction]:
        """target += constant."""
        if -2048 <= constant <= 2047:
            return [Instruction.of("addi", target, target, constant)]
        name, place, code = "add" if constant > 0 else "sub", self.pinned.get(abs(constant)), []
        if place is None:
            code, place = load_constant(helper, abs(constant)), helper
        return [*code, Instruction.of(name, target, target, place)]


def _renamed(instruction: Instruction, name: int, place: int) -> Instruction:
    """The instruction with a register in place of its stand-in."""
    operands = tuple(
        place if value == name and operand.kind is Kind.X else value
        for operand, value in zip(instruction.opcode.operands, instruction.operands, strict=True)
    )
    return Instruction(instruction.opcode, operands)
