"""Which instructions of a program the core lacks, found in the linked file by our own decoder."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.coral import _coral
from tilewright.targets.coral.elf import Elf
from tilewright.targets.coral.machines import CoralMachine

# Numbers of native/coral/instructions.hpp.
EXTENSIONS = ("base", "m", "f", "zbb", "zba", "zicsr", "vector", "vector_float")
FUSED = frozenset(["fmadd.s", "fmsub.s", "fnmsub.s", "fnmadd.s"])


@dataclass(frozen=True, slots=True)
class Finding:
    """One instruction that must not run."""

    address: int
    word: int
    reason: str
    function: str | None

    def __str__(self) -> str:
        where = f" in {self.function}" if self.function else ""
        return f"{self.address:#x}{where}: {self.reason} ({self.word:08x})"


def scan(elf: Elf, machine: CoralMachine) -> list[Finding]:
    """Every word of executable sections that the machine cannot run, or must not.

    Words of zero are padding. On the zve32x core a fused multiply-add may read a stale register
    and a float vector instruction hangs; both count as missing.
    """
    findings = []
    for section in elf.sections:
        if not section.executable:
            continue
        for offset in range(0, len(section.data) - 3, 4):
            word = int.from_bytes(section.data[offset : offset + 4], "little")
            reason = _reason(word, machine)
            if word and reason:
                address = section.address + offset
                findings.append(Finding(address, word, reason, elf.nearest(address)))
    return findings


def _reason(word: int, machine: CoralMachine) -> str | None:
    if word & 3 != 3:
        return "a compressed instruction"
    row = _coral.decode(word)
    if row is None:
        return "no instruction of the core"
    name, extension = row[0], EXTENSIONS[row[3]]
    if extension == "zba" and not machine.zba:
        return f"{name} (Zba)"
    if extension == "vector" and not machine.vector:
        return f"{name} (vector)"
    if extension == "vector_float" and not machine.vector_float:
        return f"{name} (float vectors hang this core)"
    if name in FUSED and not machine.vector_float and machine.vector:
        return f"{name} (erratum E1: the second source may be stale)"
    return None
