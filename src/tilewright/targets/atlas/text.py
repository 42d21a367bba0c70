"""One instruction as people write it, for messages, tables and traces."""

from __future__ import annotations

from tilewright.targets.atlas.isa import Kind, Operand
from tilewright.targets.atlas.program import Program

WORD = 4  # branch offsets count bytes, whatever the pc of the profile counts


def instruction_text(program: Program, index: int, labels: dict[int, str] | None = None) -> str:
    """`vload m0, 4(x1)`; a branch names its label where `labels` (index → name) has one."""
    instruction = program[index]
    opcode = instruction.opcode

    def shown(operand: Operand, value: int) -> str:
        if operand.kind is not Kind.IMM:
            return f"{operand.kind.value}{value}"
        form = operand.immediate.name if operand.immediate else ""
        if labels and form in ("branch13", "jump21"):
            return labels.get(index + value // WORD, str(value))
        if form == "pattern16":
            return hex(value & 0xFFFF)
        return str(value)

    pairs = zip(opcode.operands, instruction.operands, strict=True)
    parts = [shown(operand, value) for operand, value in pairs]
    if opcode.has_channel:
        channel = parts.pop()
        return f"{opcode.mnemonic}.ch{channel} {', '.join(parts)}".rstrip()
    if opcode.memory:
        data, offset, base = parts
        return f"{opcode.mnemonic} {data}, {offset}({base})"
    return f"{opcode.mnemonic} {', '.join(parts)}".rstrip()


def label_names(program: Program) -> dict[int, str]:
    """Instruction index → the first label that names it."""
    names: dict[int, str] = {}
    for name, index in program.labels.items():
        names.setdefault(index, name)
    return names
