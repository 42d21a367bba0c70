"""Pseudo instructions: other names for instructions of the table.

A row reads `name operands` → `instruction operands`. The letters say what may stand there:
D, A, B a scalar register, T a branch target, N a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.atlas.assembly.expression import split_lower, split_upper
from tilewright.targets.atlas.isa import BY_MNEMONIC, Opcode

_TABLE = """
nop            addi 0 0 0       do nothing
mv D A         addi D A 0       copy a register
not D A        xori D A -1      invert all bits
neg D A        sub D 0 A        change the sign
seqz D A       sltiu D A 1      1 if A is zero
snez D A       sltu D 0 A       1 if A is not zero
sltz D A       slt D A 0        1 if A is negative
sgtz D A       slt D 0 A        1 if A is positive
beqz A T       beq A 0 T        branch if zero
bnez A T       bne A 0 T        branch if not zero
blez A T       bge 0 A T        branch if zero or negative
bgez A T       bge A 0 T        branch if zero or positive
bltz A T       blt A 0 T        branch if negative
bgtz A T       blt 0 A T        branch if positive
bgt A B T      blt B A T        branch if A > B, signed
ble A B T      bge B A T        branch if A <= B, signed
bgtu A B T     bltu B A T       branch if A > B, unsigned
bleu A B T     bgeu B A T       branch if A <= B, unsigned
j T            jal 0 T          jump
jr A           jalr 0 A 0       jump to the address in a register
jal T          jal 1 T          jump, link in ra
jalr A         jalr 1 A 0       jump to the address in a register, link in ra
call T         jal 1 T          jump, link in ra
csrr D N       csrrs D 0 N      read a CSR
csrw N A       csrrw 0 A N      write a CSR
csrs N A       csrrs 0 A N      set bits of a CSR
csrc N A       csrrc 0 A N      clear bits of a CSR
"""


@dataclass(frozen=True, slots=True)
class Pseudo:
    """One name: the operands it takes and the instruction it becomes."""

    name: str
    operands: str  # letters, in the order written
    opcode: Opcode
    values: tuple[int | str, ...]  # numbers, or the letter of an operand
    meaning: str

    @property
    def syntax(self) -> str:
        return f"{self.name} {', '.join(_SHOWN[letter] for letter in self.operands)}".strip()

    @property
    def expansion(self) -> str:
        shown = []
        for operand, value in zip(self.opcode.operands, self.values, strict=True):
            if isinstance(value, str):
                shown.append(_SHOWN[value])
            else:
                shown.append(str(value) if operand.immediate else f"{operand.kind.value}{value}")
        return f"{self.opcode.mnemonic} {', '.join(shown)}".strip()


_SHOWN = {"D": "xD", "A": "xA", "B": "xB", "T": "target", "N": "csr"}


def _rows() -> dict[str, Pseudo]:
    rows = {}
    for line in _TABLE.strip().splitlines():
        written, expansion, meaning = line[:15].split(), line[15:32].split(), line[32:]
        values = tuple(v if v.isalpha() else int(v) for v in expansion[1:])
        name, letters = written[0], "".join(written[1:])
        rows[name] = Pseudo(name, letters, BY_MNEMONIC[expansion[0]], values, meaning)
    return rows


PSEUDO: dict[str, Pseudo] = _rows()

# Names that need more than a fixed expansion, with their syntax and meaning.
SPECIAL: dict[str, tuple[str, str]] = {
    "li": ("li xD, number", "load a 32-bit number: addi, lui, or lui and addi"),
    "la": ("la xD, label", "load the address of a label, the same as li"),
    "ret": ("ret", "jalr x0, x1, (delay slots in bytes): return behind the delay slots of a call"),
}

_ADDI, _LUI = BY_MNEMONIC["addi"].index, BY_MNEMONIC["lui"].index
Row = tuple[int, int, int, int, int]  # opcode index and four operands


def load_number(register: int, value: int, wide: bool = False) -> list[Row]:
    """The instructions of `li`; `wide` asks for two even if one would do.

    before: li x5, 0x12345FFF
    after:  lui x5, 0x12346; addi x5, x5, -1
    """
    value = ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    upper, lower = split_upper(value), split_lower(value)
    if not wide:
        if -2048 <= value <= 2047:
            return [(_ADDI, register, 0, value, 0)]
        if lower == 0:
            return [(_LUI, register, upper, 0, 0)]
    return [(_LUI, register, upper, 0, 0), (_ADDI, register, register, lower, 0)]


def words_of_load(value: int) -> int:
    """How many instructions `li` needs for a number."""
    return len(load_number(0, value))
