"""Whether a shifted loop addresses what its body says: first half, kernel and rest, run on numbers.

before: loop T times: body
after:  first; loop T - 1 times: kernel; rest

As for overlapped loops (`check_overlap`), the body is run as written and the pieces as they were
scheduled, on the scalar registers only. Which instruction of the body a scheduled one stands for, and
whether it is that of the next iteration, is only believed where it leads to the address, the
immediates and the number of times that the body has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.targets.atlas.codegen.check_overlap import LOOPED, LoopRun
from tilewright.targets.atlas.codegen.list_schedule import Schedule, Setting
from tilewright.targets.atlas.codegen.virtual import Code, Op

if TYPE_CHECKING:
    from tilewright.targets.atlas.codegen.shifted_loop import Choice

BRANCH = 2  # ticks of the counter and the branch at the end of a pass


def wrong_shift(choice: Choice, body: Code, trips: int, setting: Setting) -> str | None:
    """The first difference, in words; None if the shifted loop addresses what the body says."""
    few = min(trips, 2 + LOOPED + trips % 2)
    run = LoopRun.of(body, few, setting)
    start = 0
    # The halves of the kernel are of this iteration and of the next.
    pieces = [(choice.first, -1), *((choice.kernel, k) for k in range(few - 1))]
    for piece, iteration in [*pieces, (choice.rest, few - 1)]:
        length = choice.interval - BRANCH if piece is choice.kernel else piece.finish
        if piece is choice.rest:
            run.busy.clear()  # the machine drains before it
        problem = _run(run, piece, start, iteration)
        if problem is not None:
            return problem
        start += max(length, piece.issues[-1].tick + 1 if piece.issues else 0)
        start += BRANCH if piece is choice.kernel else 0
    return run.ending(setting)


def _run(run: LoopRun, piece: Schedule, start: int, iteration: int) -> str | None:
    """Carry out one piece; what is wrong with it."""
    by_tick: dict[int, Op] = {tick: node.op for node, tick, _ in piece.dispatched}
    for issue in piece.issues:
        run.now = start + issue.tick
        op = by_tick.get(issue.tick)
        if op is None or run.code.profile.timing_of(op.opcode).unit == "SCALAR":
            problem = run.scalar(issue.instruction)  # of the body, or a constant's
        elif op.origin is None:
            problem = run.read(issue.instruction)  # a wait that the scheduler put there
        else:
            original, ahead = op.origin
            problem = run.access(issue.instruction, original, iteration + ahead)
        if problem is not None:
            return problem
    return None
