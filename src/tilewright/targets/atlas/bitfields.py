"""Bit layouts of the 32-bit instruction words, and the ranges of immediates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Immediate:
    """A kind of number: what the assembler accepts and how wide its bit field is.

    `signed` says how a decoder reads the field back; numbers outside that reading but
    inside the range (4095 for a 12-bit signed field) encode to the same bits.
    """

    name: str
    low: int
    high: int
    bits: int
    signed: bool
    step: int = 1  # values must be multiples of this
    exact: bool = False  # numbers the decoder would read otherwise have no word

    def decode(self, pattern: int) -> int:
        if self.signed and pattern >> (self.bits - 1):
            return pattern - (1 << self.bits)
        return pattern


immediates: dict[str, Immediate] = {
    kind.name: kind
    for kind in (
        Immediate("imm12", -2048, 4095, 12, True),
        Immediate("row12", 0, 4095, 12, False),  # tensor offsets count 32-byte rows
        Immediate("shamt5", 0, 31, 5, False),
        Immediate("branch13", -4096, 4094, 13, True, step=2),
        Immediate("imm20", -524288, 1048575, 20, False),
        Immediate("jump21", -1048576, 1048574, 21, True, step=2),
        Immediate("pattern16", -32768, 65535, 16, False),
        Immediate("integer16", -32768, 32767, 16, True),
        Immediate("csr12", 0, 4095, 12, False),
        Immediate("uimm5", 0, 31, 5, False),
        # A program may say a negative delay, which is illegal when executed.
        Immediate("delay12", -2048, 4095, 12, False, exact=True),
        Immediate("channel3", 0, 7, 3, False),
    )
}

# A format is a list of pieces, high bits first. A piece is (field, top bit of the field's
# value it holds, highest word bit, lowest word bit): `("imm", 11, 31, 25)` puts value bits
# 11..5 into word bits 31..25.
Piece = tuple[str, int, int, int]

FORMATS: dict[str, tuple[Piece, ...]] = {
    "R": (
        ("funct7", 6, 31, 25),
        ("rs2", 4, 24, 20),
        ("rs1", 4, 19, 15),
        ("funct3", 2, 14, 12),
        ("rd", 4, 11, 7),
        ("opcode", 6, 6, 0),
    ),
    "I": (
        ("imm", 11, 31, 20),
        ("rs1", 4, 19, 15),
        ("funct3", 2, 14, 12),
        ("rd", 4, 11, 7),
        ("opcode", 6, 6, 0),
    ),
    "S": (
        ("imm", 11, 31, 25),
        ("rs2", 4, 24, 20),
        ("rs1", 4, 19, 15),
        ("funct3", 2, 14, 12),
        ("imm", 4, 11, 7),
        ("opcode", 6, 6, 0),
    ),
    "SB": (
        ("imm", 12, 31, 31),
        ("imm", 10, 30, 25),
        ("rs2", 4, 24, 20),
        ("rs1", 4, 19, 15),
        ("funct3", 2, 14, 12),
        ("imm", 4, 11, 8),
        ("imm", 11, 7, 7),
        ("opcode", 6, 6, 0),
    ),
    "U": (("imm", 19, 31, 12), ("rd", 4, 11, 7), ("opcode", 6, 6, 0)),
    "UJ": (
        ("imm", 20, 31, 31),
        ("imm", 10, 30, 21),
        ("imm", 11, 20, 20),
        ("imm", 19, 19, 12),
        ("rd", 4, 11, 7),
        ("opcode", 6, 6, 0),
    ),
    "VLS": (
        ("imm", 11, 31, 20),
        ("rs1", 4, 19, 15),
        ("funct2", 1, 14, 13),
        ("vd", 5, 12, 7),
        ("opcode", 6, 6, 0),
    ),
    "VR": (
        ("funct7", 6, 31, 25),
        ("vs2", 5, 24, 19),
        ("vs1", 5, 18, 13),
        ("vd", 5, 12, 7),
        ("opcode", 6, 6, 0),
    ),
    "VI": (("imm", 15, 31, 16), ("funct3", 2, 15, 13), ("vd", 5, 12, 7), ("opcode", 6, 6, 0)),
}
FORMATS["CSR"] = FORMATS["I"]
