"""Mistakes in loops whose iterations overlap, in both ways of making them.

The checks of addresses would refuse such loops; here they are asked, and the loop is taken all the
same: `Mistake.refused` says what they found.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from mutations import Mistake, kind

from tilewright.targets.atlas.codegen import (
    loop_shifting,
    modulo_loop,
    shifted_loop,
    straight_loop,
)
from tilewright.targets.atlas.codegen.list_schedule import Schedule
from tilewright.targets.atlas.codegen.modulo_scalars import Scalars
from tilewright.targets.atlas.codegen.virtual import Code, Part
from tilewright.targets.atlas.program import Instruction

ANY_GAIN = 1e6


def _asked(stack: ExitStack, mistake: Mistake, module: Any, name: str) -> None:
    """Ask a check, and go on whatever it says."""
    check = getattr(module, name)

    def ask(*arguments: Any) -> None:
        found = check(*arguments)
        if found is not None:
            mistake.refused.append(found)

    stack.enter_context(mock.patch.object(module, name, ask))


def _shifted(stack: ExitStack, mistake: Mistake) -> None:
    """All loops are shifted, none overlapped."""
    best = straight_loop.best_shift

    def always(body: Code, plain: Schedule, trips: int, carried: Any, setting: Any, *_: Any) -> Any:
        return best(body, plain, trips, carried, setting, ANY_GAIN)

    stack.enter_context(mock.patch.object(straight_loop, "overlapped", lambda *_: None))
    stack.enter_context(mock.patch.object(straight_loop, "best_shift", always))
    _asked(stack, mistake, shifted_loop, "wrong_shift")


def _is_step(op: Any) -> bool:
    """Whether a virtual instruction moves a pointer."""
    registers = [p.register for p in op.operands if isinstance(p, Part)]
    return op.opcode.mnemonic in ("addi", "add", "sub") and registers[0] in registers[1:]


@kind("loop")
def a_pointer_step_left_out_of_a_shifted_loop(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    """Of the loop, or of what comes behind it."""
    _shifted(stack, mistake)
    where = choose.choice(["kernel", "rest"])
    cut = loop_shifting._Cutter.cut

    def forgetful(self: Any, chosen: Any) -> Any:
        shift = cut(self, chosen)
        code: Code = getattr(shift, where)
        steps = [k for k, op in enumerate(code.ops) if _is_step(op)]
        if not steps:
            return shift
        at = choose.choice(steps)
        less = Code(code.profile)
        rows = [*code.ops[:at], *code.ops[at + 1 :]]
        less.ops = [replace(op, order=k) for k, op in enumerate(rows)]
        mistake.text = f"step {at} of {where}"
        return replace(shift, **{where: less})

    stack.enter_context(mock.patch.object(loop_shifting._Cutter, "cut", forgetful))
    stack.enter_context(mock.patch.object(shifted_loop, "interleaved", lambda kernel, *_: kernel))


@kind("loop")
def an_address_of_a_shifted_loop_off_by_one_row(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    _shifted(stack, mistake)
    scheduled = shifted_loop._scheduled

    def wrong(*arguments: Any) -> Any:
        choice = scheduled(*arguments)
        if choice is None:
            return None
        where = choose.choice(["first", "kernel", "rest"])
        piece: Schedule = getattr(choice, where)
        found = [
            k
            for k, issue in enumerate(piece.issues)
            if issue.instruction.opcode.mnemonic == "addi" and issue.instruction.operands[0]
        ]
        if not found:
            return choice
        at = choose.choice(found)
        old = piece.issues[at].instruction
        target, first, number = old.operands
        new = Instruction(old.opcode, (target, first, number + 32))
        issues = [*piece.issues]
        issues[at] = replace(piece.issues[at], instruction=new)
        mistake.text = f"{old} of {where}"
        return replace(choice, **{where: replace(piece, issues=issues)})

    stack.enter_context(mock.patch.object(shifted_loop, "_scheduled", wrong))


@kind("loop")
def a_pointer_that_stops_before_the_drain(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    _asked(stack, mistake, modulo_loop, "wrong_access")
    known = Scalars._go_on

    def stops(self: Scalars, pointer: Any, row: Any) -> None:
        if self.beyond.get(pointer, 0):
            mistake.text = "moves that go on while the loop runs out"
        else:
            known(self, pointer, row)

    stack.enter_context(mock.patch.object(Scalars, "_go_on", stops))


@kind("loop")
def a_scalar_left_out_of_an_overlapped_loop(
    choose: random.Random, stack: ExitStack, mistake: Mistake
) -> None:
    _asked(stack, mistake, modulo_loop, "wrong_access")
    known: Callable[..., Any] = modulo_loop._Assembly.loop

    def less(self: Any) -> Any:
        loop = known(self)
        scalars = [k for k, row in enumerate(loop.rows) if row.op is None] if loop else []
        if scalars:
            at = choose.choice(scalars)
            mistake.text = str(loop.rows[at].instruction)
            loop.rows = [row for k, row in enumerate(loop.rows) if k != at]
        return loop

    stack.enter_context(mock.patch.object(modulo_loop._Assembly, "loop", less))
