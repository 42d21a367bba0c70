"""Addresses of shifted loops: right in the first half, the loop and the rest, and found when not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from random_loops import ANY_GAIN, random_loop

from tilewright.targets.atlas.codegen import loop_shifting, shifted_loop, straight_loop
from tilewright.targets.atlas.codegen.check_shift import wrong_shift
from tilewright.targets.atlas.codegen.list_schedule import Schedule
from tilewright.targets.atlas.codegen.shifted_loop import Choice
from tilewright.targets.atlas.codegen.virtual import Code
from tilewright.targets.atlas.program import Instruction

PIECES = ("first", "kernel", "rest")
SCALARS = ("addi", "add", "sub", "lui")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list:
    """Every shift that was looked at, the arguments and what was found; each is refused, so that
    all are tried."""
    rows = []

    def noted(*arguments):
        found = wrong_shift(*arguments)
        rows.append((arguments, found))
        return found or "the next one"

    monkeypatch.setattr(shifted_loop, "wrong_shift", noted)
    monkeypatch.setattr(straight_loop, "overlapped", lambda *_: None)
    return rows


def broken_choices(choice: Choice, choose: random.Random) -> Iterator[tuple[str, Choice]]:
    """The pieces with one instruction left out, an address or an offset changed, or a half of the
    wrong iteration."""
    for name in PIECES:
        piece: Schedule = getattr(choice, name)
        moves = [k for k, i in enumerate(piece.issues) if _moves_pointer(i.instruction)]
        others = [k for k, i in enumerate(piece.issues) if _is_access(i.instruction)]
        for k in choose.sample(moves, min(4, len(moves))):
            issues = [*piece.issues[:k], *piece.issues[k + 1 :]]
            text = f"{name} without {piece.issues[k].instruction}"
            yield text, replace(choice, **{name: replace(piece, issues=issues)})
            old = piece.issues[k].instruction
            if old.opcode.mnemonic == "addi":
                target, first, number = old.operands
                new = Instruction(old.opcode, (target, first, number + 32))
                issues = [*piece.issues]
                issues[k] = replace(piece.issues[k], instruction=new)
                yield f"{name}: {new}", replace(choice, **{name: replace(piece, issues=issues)})
        for k in choose.sample(others, min(3, len(others))):
            issues = [*piece.issues[:k], *piece.issues[k + 1 :]]
            text = f"{name} without {piece.issues[k].instruction}"
            yield text, replace(choice, **{name: replace(piece, issues=issues)})


def _moves_pointer(instruction: Instruction) -> bool:
    name, operands = instruction.opcode.mnemonic, instruction.operands
    return name in SCALARS and name != "lui" and operands[0] in operands[1:]


def _is_access(instruction: Instruction) -> bool:
    return instruction.opcode.mnemonic in ("vload", "vstore", "dma.load", "dma.store")


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("seed", range(6))
def test_shifted_loops_are_right_and_broken_ones_are_found(profile, seed, judged):
    choose = random.Random(seed)
    random_loop(profile, seed, 3 + seed).compile(gain=ANY_GAIN)
    assert judged and not [found for _, found in judged if found]
    made = 0
    for (choice, body, trips, setting), _ in judged[-4:]:
        for text, broken in broken_choices(choice, choose):
            assert wrong_shift(broken, body, trips, setting), text
            made += 1
    assert made > 5


@pytest.mark.parametrize("where", ["kernel", "rest"])
@pytest.mark.parametrize("seed", range(4))
def test_a_cut_that_forgets_a_pointer_step_is_found(where, seed, judged, monkeypatch):
    """The step is missing before the piece is scheduled: what comes out is consistent in itself."""
    cut, forgotten = loop_shifting._Cutter.cut, []

    def forgetful(self, chosen):
        shift = cut(self, chosen)
        code: Code = getattr(shift, where)
        for k, op in enumerate(code.ops):
            registers = [getattr(p, "register", None) for p in op.operands]
            if op.opcode.mnemonic in SCALARS and registers[0] in registers[1:]:
                less = Code(code.profile)
                rows = [*code.ops[:k], *code.ops[k + 1 :]]
                less.ops = [replace(row, order=n) for n, row in enumerate(rows)]
                forgotten.append(shift)
                monkeypatch.setattr(shifted_loop, "interleaved", lambda kernel, *_: kernel)
                return replace(shift, **{where: less})
        return shift

    monkeypatch.setattr(loop_shifting._Cutter, "cut", forgetful)
    random_loop("atlas-v1", seed, 5).compile(gain=ANY_GAIN)
    assert forgotten and len(judged) == len(forgotten)
    assert all(found for _, found in judged)


@pytest.mark.parametrize("seed", range(4))
def test_a_half_of_another_iteration_is_found(seed, judged):
    """The kernel's first half as of this iteration instead of the next."""
    routine = random_loop("atlas-v1", seed, 6)
    routine.compile(gain=ANY_GAIN)
    made = 0
    for (choice, body, trips, setting), _ in judged:
        ahead = 0
        for node, _, _ in choice.kernel.dispatched:
            if node.op.origin is not None and node.op.origin[1] == 1:
                ahead += routine.profile.timing_of(node.op.opcode).unit != "SCALAR"
                node.op.origin = (node.op.origin[0], 0)
        # Where only address arithmetic runs ahead, nothing is claimed.
        assert (wrong_shift(choice, body, trips, setting) is not None) == (ahead > 0)
        made += ahead > 0
    assert made


def test_a_wrong_shift_is_not_taken(monkeypatch):
    """Without the check's consent the loop stays plain."""
    monkeypatch.setattr(straight_loop, "overlapped", lambda *_: None)
    routine = random_loop("atlas-v1", 3, 6)
    routine.compile(gain=ANY_GAIN)
    assert routine.intervals[0].stages == 2
    monkeypatch.setattr(shifted_loop, "wrong_shift", lambda *_: "an address")
    routine = random_loop("atlas-v1", 3, 6)
    routine.compile(gain=ANY_GAIN)
    assert routine.intervals[0].stages == 1
