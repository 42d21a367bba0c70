"""Repairs written into assembly text: lines are inserted, everything else stays as it was."""

from __future__ import annotations

import re

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.assembly.lexer import strip_comment
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.isa import OPCODES
from tilewright.targets.atlas.lint.repair import Edits, Fixed, Pause, longer_delay
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

_LABELS = re.compile(r"\s*(?:[A-Za-z_.$][\w.$]*\s*:\s*)+")
_DELAY = re.compile(r"(delay\s+)(.*?)(\s*)$", re.IGNORECASE)
_OFFSET = re.compile(
    r"(?<=[\s,])([-+]?\s*(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[0-9]+))(\s*)$"
)


def fixed_source(text: str, program: Program, fixed: Fixed, profile: Profile) -> tuple[str, bool]:
    """The text of the repaired program, and whether the author's own lines could be kept."""
    try:
        edited = _edit(text, program, fixed)
        if assemble(edited, profile, program.source).same_code(fixed.program):
            return edited, True
    except (TilewrightError, _CannotEdit):
        pass
    return disassemble(fixed.program), False


class _CannotEdit(Exception):
    """The text is written in a way that lines cannot be edited one by one."""


def _edit(text: str, program: Program, fixed: Fixed) -> str:
    edits = fixed.edits
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    count = len(program)
    first_of_line: dict[int, int] = {}
    for index, line in enumerate(program.lines.tolist()):
        if line <= 0 or line > len(lines):
            raise _CannotEdit
        first_of_line.setdefault(line, index)
    _edit_operands(lines, program, fixed)
    above: dict[int, list[str]] = {}  # by line number: inserted in front of the whole line
    inside: dict[int, list[str]] = {}  # between the labels of the line and its instruction
    for place, shared in ((edits.falling, False), (edits.shared, True)):
        for index, pause in place.items():
            if index == count:
                continue
            line = int(program.lines[index])
            if first_of_line[line] != index:
                raise _CannotEdit
            target = inside if shared else above
            spot = line if shared else _label_line(lines, line)
            target.setdefault(spot, []).extend(_texts(pause, _indent(lines[line - 1])))
    tail = _tail(edits, count, _indent(lines[int(program.lines[-1]) - 1]) if count else "    ")
    result: list[str] = []
    end = _end_line(lines, program, count)
    for number, line in enumerate(lines, 1):
        result += above.get(number, [])
        if number in inside:
            labels = _LABELS.match(strip_comment(line))
            if labels and labels.group().strip():
                result.append(line[: labels.end()].rstrip())
                line = "    " + line[labels.end() :]
            result += inside[number]
        result.append(line)
        if number == end:
            result += tail
    return newline.join(result)


def _edit_operands(lines: list[str], program: Program, fixed: Fixed) -> None:
    """Longer delays, and numeric branch offsets that have to reach further."""
    edits = fixed.edits
    for index, ticks in edits.longer.items():
        if ticks:
            line = int(program.lines[index]) - 1
            code = strip_comment(lines[line])
            rest = lines[line][len(code) :]
            number = longer_delay(program, index, edits).operands[0]
            match = _DELAY.search(code)
            if match:
                code = f"{code[: match.start(2)]}{number}{code[match.end(2) :]}"
            else:  # a nop
                labels = _LABELS.match(code)
                start = labels.end() if labels else len(code) - len(code.lstrip())
                blank = code[len(code.rstrip()) :]
                code = f"{code[:start]}delay {number}{blank}"
            lines[line] = code + rest
    moved = _moved_offsets(program, fixed)
    for index, offset in moved.items():
        line = int(program.lines[index]) - 1
        code = strip_comment(lines[line])
        match = _OFFSET.search(code)
        if match:  # otherwise it is a label, which moves by itself
            before = code[: match.start(1)]
            lines[line] = f"{before}{offset}{code[match.end(1) :]}{lines[line][len(code) :]}"


def _moved_offsets(program: Program, fixed: Fixed) -> dict[int, int]:
    """New offsets of the branches and jumps whose distance changed."""
    rows = [
        i for i, k in enumerate(fixed.program.opcodes.tolist())
        if OPCODES[k].is_transfer and OPCODES[k].mnemonic != "jalr"
    ]  # fmt: skip
    old_rows = [
        i for i, k in enumerate(program.opcodes.tolist())
        if OPCODES[k].is_transfer and OPCODES[k].mnemonic != "jalr"
    ]  # fmt: skip
    moved = {}
    for old, new in zip(old_rows, rows, strict=True):
        offset = fixed.program[new].operands[-1]
        if offset != program[old].operands[-1]:
            moved[old] = offset
    return moved


def _label_line(lines: list[str], line: int) -> int:
    """The first of the label lines that stand directly above a line, else the line itself."""
    first = line
    number = line - 1
    while number >= 1:
        code = strip_comment(lines[number - 1]).strip()
        if code and _LABELS.fullmatch(code):
            first = number
        elif code:
            break
        number -= 1
    return first


def _end_line(lines: list[str], program: Program, count: int) -> int:
    """The line behind which instructions at the end go: the last instruction or a label there."""
    last = int(program.lines[-1]) if count else len(lines)
    if any(index == count for index in program.labels.values()):
        for number in range(last + 1, len(lines) + 1):
            code = strip_comment(lines[number - 1]).strip()
            if code and _LABELS.fullmatch(code):
                last = number
            elif code:
                break
    return last


def _tail(edits: Edits, count: int, indent: str) -> list[str]:
    texts: list[str] = []
    for place in (edits.falling, edits.shared):
        if count in place:
            texts += _texts(place[count], indent)
    return texts + [f"{indent}nop"] * edits.nops


def _texts(pause: Pause, indent: str) -> list[str]:
    shown = []
    for instruction in pause.instructions():
        number = instruction.operands[0]
        name = instruction.opcode.mnemonic
        shown.append(
            f"{indent}dma.wait.ch{number}" if name == "dma.wait" else f"{indent}delay {number}"
        )
    return shown


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] or "    "
