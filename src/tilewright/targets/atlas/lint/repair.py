"""Insert the waiting a program lacks: the smallest delays, and DMA waits where they belong."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.targets.atlas.isa import OPCODES
from tilewright.targets.atlas.lint.analysis import STEP_LIMIT, lint
from tilewright.targets.atlas.lint.findings import NOTE, Report
from tilewright.targets.atlas.lint.session import Repairs
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction, Program

MAX_DELAY = 4095
MAX_ROUNDS = 24
UNDECIDED = ("TW2020", "TW2034")  # lint did not see the whole program
TRIM_STEPS = 2_000_000  # instructions lint may execute to prove the waiting minimal


@dataclass
class Pause:
    """Waiting in front of an instruction: DMA waits, then ticks."""

    waits: set[int] = field(default_factory=set)
    ticks: int = 0

    def instructions(self) -> list[Instruction]:
        code = [Instruction.of("dma.wait", channel) for channel in sorted(self.waits)]
        left = self.ticks
        while left > 0:
            step = min(left, MAX_DELAY + 1)
            code.append(Instruction.of("delay", step - 1))
            left -= step
        return code


@dataclass
class Edits:
    """Changes to a program, by instruction of the original; `len(program)` is its end."""

    falling: dict[int, Pause] = field(default_factory=dict)  # not executed when jumped to
    shared: dict[int, Pause] = field(default_factory=dict)  # executed on every way
    longer: dict[int, int] = field(default_factory=dict)  # ticks added to a delay or nop
    nops: int = 0  # at the end

    def __bool__(self) -> bool:
        return bool(self.nops or any(self.longer.values()) or self.inserts)

    @property
    def inserts(self) -> bool:
        return self.nops > 0 or any(
            p.waits or p.ticks for p in (*self.falling.values(), *self.shared.values())
        )


@dataclass
class Tried:
    """What earlier rounds of a repair learned, by instruction of the original."""

    # No place to wait in front of them: later rounds must not count on a cure.
    hopeless: set[int] = field(default_factory=set)
    # Ticks and waits last put on the way that does not jump.
    falling: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)


@dataclass
class Fixed:
    """A repaired program, what was done, and what lint says before and after."""

    program: Program
    edits: Edits
    before: Report
    after: Report
    minimal: bool  # every tick and wait was shown to be needed
    frozen: bool  # the program computes code addresses: nothing was inserted


def fix(program: Program, profile: Profile, limit: int = STEP_LIMIT) -> Fixed:
    """The program with the waiting it lacks.

    before: vload m0, 0(x1) ; vadd.bf16 m2, m0, m4
    after:  vload m0, 0(x1) ; delay 32 ; vadd.bf16 m2, m0, m4
    """
    before = lint(program, profile, limit)
    edits = Edits()
    fixed, after = program, before
    minimal = True
    frozen = _moved_addresses(program)
    if not before.clean:
        undecided = any(f.code in UNDECIDED for f in before.findings)
        tried = Tried()
        for _ in range(3 if undecided else MAX_ROUNDS):
            positions = _positions(program, edits)
            repairs = Repairs(hopeless={positions[index] for index in tried.hopeless})
            lint(fixed, profile, limit, repairs)
            if not repairs or not _adopt(edits, program, profile, repairs, frozen, tried):
                break
            fixed = apply(program, edits)
        after = lint(fixed, profile, limit)
        minimal = not undecided and _trim(program, profile, edits, after, limit)
        fixed = apply(program, edits)
        after = lint(fixed, profile, limit)
    return Fixed(fixed, edits, before, after, minimal, frozen)


def _moved_addresses(program: Program) -> bool:
    """Whether the program computes code addresses, which insertions would falsify."""
    return any(OPCODES[k].mnemonic == "jalr" for k in set(program.opcodes.tolist()))


# --- from needs to edits ----------------------------------------------------------------


def _adopt(
    edits: Edits,
    program: Program,
    profile: Profile,
    repairs: Repairs,
    frozen: bool,
    tried: Tried,
) -> bool:
    """Add what a round of lint asked for; False if that changed nothing."""
    positions = _positions(program, edits)
    origin = {position: index for index, position in positions.items()}
    changed = False
    if repairs.slots_missing and not frozen:
        edits.nops = max(edits.nops, _missing_slots(program, profile))
        changed = True
    targets = jump_targets(program)
    keys = sorted({*repairs.delays, *repairs.waits})
    for position, jumped in keys:
        index = origin.get(position)
        if index is None:
            continue
        others = {origin[o] for o in repairs.others.get(position, ()) if o in origin}
        ticks = repairs.delays.get((position, jumped), 0)
        waits = repairs.waits.get((position, jumped), set())
        entered = index in targets and (jumped or _in_vain(edits, tried, index, ticks, waits))
        if _pause(edits, program, profile, index, entered, ticks, waits, others, frozen):
            changed = True
        elif index < len(program) and index not in tried.hopeless:
            tried.hopeless.add(index)
            changed = True
    return changed


def _in_vain(edits: Edits, tried: Tried, index: int, ticks: int, waits: set[int]) -> bool:
    """Whether the same waiting was put on the way that does not jump, and did not help.

    Behind waiting that all ways share, lint cannot tell which way lacks more. Then the
    waiting is taken back, to join what they share.
    """
    wanted = (ticks, frozenset(waits))
    if index not in edits.shared or tried.falling.get(index) != wanted:
        tried.falling[index] = wanted
        return False
    if index in edits.falling:
        edits.falling[index].ticks -= ticks
        edits.falling[index].waits -= waits
    return True


def _pause(
    edits: Edits, program: Program, profile: Profile, index: int, jumped: bool, ticks: int,
    waits: set[int], others: set[int], frozen: bool,
) -> bool:  # fmt: skip
    """Put waiting in front of an instruction; False if there is no place for it."""
    owner = _slot_owner(program, profile, index)
    if owner is not None:
        # Nothing may be inserted here. An existing delay or nop of the slots can grow ...
        for slot in range(index - 1, owner, -1):
            if ticks and not waits and _is_idle(program, slot):
                return _grow(edits, program, slot, ticks)
            if slot in others:
                return False
        # ... or everything waits before the transfer.
        index, jumped = owner, owner in jump_targets(program)
    elif (
        ticks
        and not waits
        and not jumped
        and index
        and _mnemonic(program, index - 1) == "delay"
        and _slot_owner(program, profile, index - 1) is None
        and not edits.falling.get(index, Pause()).waits
    ):
        return _grow(edits, program, index - 1, ticks)
    if frozen:
        return False
    place = edits.shared if jumped else edits.falling
    pause = place.setdefault(index, Pause())
    pause.ticks += ticks
    pause.waits |= waits
    return True


def _grow(edits: Edits, program: Program, index: int, ticks: int) -> bool:
    before = _idle_ticks(program, index) + edits.longer.get(index, 0)
    if before + ticks > MAX_DELAY:
        return False
    edits.longer[index] = edits.longer.get(index, 0) + ticks
    return True


def jump_targets(program: Program) -> set[int]:
    """Instructions that branches and jal name, the end included."""
    targets = set()
    for index, instruction in enumerate(program):
        if instruction.opcode.is_transfer and instruction.opcode.mnemonic != "jalr":
            targets.add(index + instruction.operands[-1] // 4)
    targets.add(len(program))
    return targets


def _slot_owner(program: Program, profile: Profile, index: int) -> int | None:
    """The control transfer whose delay slots hold the instruction."""
    for before in range(index - 1, max(index - 1 - profile.delay_slots, -1), -1):
        if OPCODES[program.opcodes[before]].is_transfer:
            return before
    return None


def _missing_slots(program: Program, profile: Profile) -> int:
    count = len(program)
    for index in range(max(count - profile.delay_slots, 0), count):
        if OPCODES[program.opcodes[index]].is_transfer:
            return index + profile.delay_slots + 1 - count
    return 0


def _mnemonic(program: Program, index: int) -> str:
    return OPCODES[program.opcodes[index]].mnemonic


def _is_idle(program: Program, index: int) -> bool:
    """A delay, or a nop that a delay can replace."""
    name = _mnemonic(program, index)
    nop = name == "addi" and not program.operands[index].any()
    return nop or (name == "delay" and program.operands[index, 0] >= 0)


def _idle_ticks(program: Program, index: int) -> int:
    return int(program.operands[index, 0]) if _mnemonic(program, index) == "delay" else 0


# --- from edits to a program --------------------------------------------------------------


def longer_delay(program: Program, index: int, edits: Edits) -> Instruction:
    """The delay that stands for a delay or nop and its extra ticks."""
    return Instruction.of("delay", _idle_ticks(program, index) + edits.longer[index])


def _positions(program: Program, edits: Edits) -> dict[int, int]:
    """Where each instruction of the original stands in the edited program."""
    positions = {}
    shift = 0
    for index in range(len(program) + 1):
        for place in (edits.falling, edits.shared):
            if index in place:
                shift += len(place[index].instructions())
        positions[index] = index + shift
    return positions


def apply(program: Program, edits: Edits) -> Program:
    """The edited program; branch offsets and labels follow."""
    if not edits:
        return program
    positions = _positions(program, edits)
    landing = {}  # where a jump to an instruction lands
    for index, position in positions.items():
        inserted = edits.shared[index].instructions() if index in edits.shared else []
        landing[index] = position - len(inserted)
    count = len(program)
    code: list[Instruction] = []
    lines: list[int] = []
    for index, old in enumerate([*program, None]):
        line = int(program.lines[index]) if index < count else 0
        for place in (edits.falling, edits.shared):
            if index in place:
                inserted = place[index].instructions()
                code += inserted
                lines += [line] * len(inserted)
        if old is None:
            break
        if edits.longer.get(index):
            old = longer_delay(program, index, edits)
        elif old.opcode.is_transfer and old.opcode.mnemonic != "jalr":
            offset = old.operands[-1]
            target = index + offset // 4
            if 0 <= target <= count:
                offset = 4 * (landing[target] - positions[index]) + offset % 4
            old = Instruction(old.opcode, (*old.operands[:-1], offset))
        code.append(old)
        lines.append(line)
    for _ in range(edits.nops):
        code.append(Instruction.of("addi", 0, 0, 0))
        lines.append(0)
    result = Program.from_instructions(code, program.source)
    result.lines = np.array(lines, np.int32)
    result.labels = {name: landing.get(index, index) for name, index in program.labels.items()}
    result.data = list(program.data)
    return result


# --- nothing more than needed ----------------------------------------------------------------


def _trim(program: Program, profile: Profile, edits: Edits, after: Report, limit: int) -> bool:
    """Take away every tick and wait that is not needed; whether all could be tried."""
    allowed = _complaints(program, edits, after)
    budget = TRIM_STEPS

    def good() -> bool:
        nonlocal budget
        report = lint(apply(program, edits), profile, limit)
        budget -= report.steps + len(program)
        return _complaints(program, edits, report) <= allowed

    for place in (edits.shared, edits.falling):
        for index in sorted(place, reverse=True):
            pause = place[index]
            for channel in sorted(pause.waits):
                if budget < 0:
                    return False
                pause.waits.discard(channel)
                if not good():
                    pause.waits.add(channel)
            if budget < 0:
                return False
            pause.ticks = _least(pause.ticks, lambda n, pause=pause: _try(pause, n, good))
            if not pause.ticks and not pause.waits:
                del place[index]
    for index in sorted(edits.longer, reverse=True):
        if budget < 0:
            return False

        def attempt(ticks: int, index: int = index) -> bool:
            edits.longer[index] = ticks
            return good()

        edits.longer[index] = _least(edits.longer[index], attempt)
    return True


def _try(pause: Pause, ticks: int, good) -> bool:
    pause.ticks = ticks
    return good()


def _least(ticks: int, works) -> int:
    """The smallest count that works, when `ticks` does; mostly it is `ticks` itself."""
    if ticks == 0 or not works(ticks - 1):
        return ticks
    low, high = -1, ticks - 1  # low fails (or is nothing), high works
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def _complaints(program: Program, edits: Edits, report: Report) -> set[tuple[str, int, int]]:
    """Findings by instruction of the original."""
    origin = {position: index for index, position in _positions(program, edits).items()}
    return {
        (f.code, origin.get(f.index, -1), origin.get(f.other, -1))
        for f in report.findings
        if f.severity != NOTE
    }
