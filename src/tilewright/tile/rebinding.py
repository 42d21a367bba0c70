"""Variables of the author's function that change from one step of a loop to the next.

A loop of the program is traced once, so every step does what the first one did. Where the body reads
a variable that it sets only afterwards, Python would give it the value of the step before.
"""

from __future__ import annotations

import dis
import os
import sys
from types import CodeType, FrameType
from typing import Any

_HERE = os.path.dirname(__file__) + os.sep
_PLAIN = (int, float, str, bool, bytes)
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")


def looping_frame() -> FrameType | None:
    """The function whose loop asks for the next step: the innermost outside of the tile language."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame


def variables() -> dict[str, Any]:
    """The variables of the function that loops, as they are now."""
    frame = looping_frame()
    return dict(frame.f_locals) if frame is not None else {}


def changed(before: dict[str, Any]) -> str | None:
    """A variable that the body of the loop has read and then set anew, if there is one."""
    frame = looping_frame()
    if frame is None:
        return None
    after = frame.f_locals
    names = [n for n, old in before.items() if n in after and not _same(old, after[n])]
    if not names:
        return None
    return next((n for n in names if reads_first(frame.f_code, frame.f_lasti, n)), None)


def _same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, tuple | list):
        return len(old) == len(new) and all(map(_same, old, new))
    return isinstance(old, _PLAIN) and bool(old == new)


def reads_first(code: CodeType, at: int, name: str) -> bool:
    """Whether the body of the loop at an instruction may read a variable that it has not set.

    at: the instruction that asks for the next step. Where it is none of a `for`, nothing is known
    of a body, and the answer is no.
    """
    instructions = list(dis.get_instructions(code))
    place = {instruction.offset: k for k, instruction in enumerate(instructions)}
    if at not in place or instructions[place[at]].opname != "FOR_ITER":
        return False
    waiting, seen = [place[at] + 1], {place[at]}
    while waiting:
        k = waiting.pop()
        if k in seen or k >= len(instructions):
            continue
        seen.add(k)
        instruction = instructions[k]
        reads, sets = _effect(instruction, name)
        if reads:
            return True
        if sets or instruction.opname in _ENDS:
            continue
        if instruction.opname == "FOR_ITER":
            waiting.append(k + 1)  # a loop inside is taken to have a step
            continue
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            target = instructions[place[instruction.argval]]
            ended = target.opname == "FOR_ITER" and place[target.offset] != place[at]
            waiting.append(place[target.argval if ended else target.offset])
        if not instruction.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD")):
            waiting.append(k + 1)
    return False


def _effect(instruction: dis.Instruction, name: str) -> tuple[bool, bool]:
    """Whether an instruction reads a variable, or else sets it."""
    kind, value = instruction.opname, instruction.argval
    both = value if isinstance(value, tuple) else (value,)
    if name not in both or not any(part in kind for part in ("FAST", "DEREF", "CLOSURE")):
        return False, False
    if len(both) == 2:  # two in one: what stands first happens first
        kind = kind if both[0] == name else kind[kind.index("_", 5) + 1 :]
    reads = kind.startswith("LOAD") and kind != "LOAD_FAST_AND_CLEAR"
    return reads, not reads
