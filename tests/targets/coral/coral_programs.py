"""Programs made of words, without a toolchain: a small assembler and an ELF writer."""

from __future__ import annotations

import struct

from tilewright.targets.coral import _coral
from tilewright.targets.coral.machines import DEFAULT_MAP

MPAUSE, EBREAK, ECALL, WFI, NOP = 0x08000073, 0x00100073, 0x00000073, 0x10500073, 0x00000013


def addi(rd: int, rs1: int, value: int) -> int:
    return 0x13 | rd << 7 | rs1 << 15 | (value & 0xFFF) << 20


def lui(rd: int, value: int) -> int:
    return 0x37 | rd << 7 | (value & 0xFFFFF000)


def lw(rd: int, rs1: int, offset: int = 0) -> int:
    return 0x2003 | rd << 7 | rs1 << 15 | (offset & 0xFFF) << 20


def sw(rs2: int, rs1: int, offset: int = 0) -> int:
    return 0x2023 | (offset & 31) << 7 | rs1 << 15 | rs2 << 20 | (offset >> 5 & 127) << 25


def jal(rd: int, offset: int) -> int:
    return (
        0x6F
        | rd << 7
        | (offset >> 20 & 1) << 31
        | (offset >> 1 & 0x3FF) << 21
        | (offset >> 11 & 1) << 20
    ) | (offset >> 12 & 0xFF) << 12


def jalr(rd: int, rs1: int, offset: int = 0) -> int:
    return 0x67 | rd << 7 | rs1 << 15 | (offset & 0xFFF) << 20


def beq(rs1: int, rs2: int, offset: int) -> int:
    word = 0x63 | rs1 << 15 | rs2 << 20 | (offset >> 12 & 1) << 31 | (offset >> 5 & 63) << 25
    return word | (offset >> 1 & 15) << 8 | (offset >> 11 & 1) << 7


def csrrs(rd: int, csr: int, rs1: int = 0) -> int:
    return 0x2073 | rd << 7 | rs1 << 15 | csr << 20


def csrrw(rd: int, csr: int, rs1: int) -> int:
    return 0x1073 | rd << 7 | rs1 << 15 | csr << 20


def vsetvli(rd: int, rs1: int, vtype: int) -> int:
    return 0x7057 | rd << 7 | rs1 << 15 | vtype << 20


def machine(*words: int, **options: bool) -> _coral.Machine:
    """The default core with these words from address 0 on."""
    made = _coral.Machine(
        [(m.name, m.base, m.size, m.writable, m.timed) for m in DEFAULT_MAP], **options
    )
    made.write(0, struct.pack(f"<{len(words)}I", *words))
    made.start(0)
    return made


def ran(*words: int, limit: int = 10_000, **options: bool) -> _coral.Machine:
    made = machine(*words, **options)
    made.run(limit)
    return made


def elf_file(
    words: list[int],
    data: bytes = b"",
    symbols: dict[str, tuple[int, int, int]] | None = None,
    machine_number: int = 243,
    entry: int = 0,
) -> bytes:
    """An ELF file; symbols are name -> (address, size, type)."""
    code = struct.pack(f"<{len(words)}I", *words)
    names, table = b"\0", struct.pack("<IIIBBH", 0, 0, 0, 0, 0, 0)
    for name, (address, size, kind) in (symbols or {}).items():
        table += struct.pack("<IIIBBH", len(names), address, size, 0x10 | kind, 0, 1)
        names += name.encode() + b"\0"
    section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    segments = [(0, code, 5)] + ([(DEFAULT_MAP[1].base, data, 6)] if data else [])
    offset = 52 + 32 * len(segments)
    headers, blob = b"", b""
    places = []
    for address, content, flags in segments:
        places.append(offset + len(blob))
        headers += struct.pack(
            "<8I", 1, places[-1], address, address, len(content), len(content), flags, 4
        )
        blob += content + bytes(-len(content) % 4)
    parts = [table, names, section_names]
    offsets = []
    for part in parts:
        offsets.append(offset + len(blob))
        blob += part + bytes(-len(part) % 4)
    sections = bytes(40)
    sections += struct.pack("<10I", 1, 1, 6, 0, places[0], len(code), 0, 0, 4, 0)
    sections += struct.pack("<10I", 7, 2, 0, 0, offsets[0], len(table), 3, 1, 4, 16)
    sections += struct.pack("<10I", 15, 3, 0, 0, offsets[1], len(names), 0, 0, 1, 0)
    sections += struct.pack("<10I", 23, 3, 0, 0, offsets[2], len(section_names), 0, 0, 1, 0)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack(
        "<HHIIIIIHHHHHH",
        2,
        machine_number,
        1,
        entry,
        52,
        offset + len(blob),
        0,
        52,
        32,
        len(segments),
        40,
        5,
        4,
    )
    return header + headers + blob + sections
