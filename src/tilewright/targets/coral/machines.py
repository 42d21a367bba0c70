"""The Coral machines as data: instruction set, memory map, what the toolchain is told.

Two cores are never approximated: a float vector instruction hangs the zve32x core without a trap,
and matrix tiles exist only in an experimental one. What a machine lacks is illegal on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import TilewrightError


@dataclass(frozen=True, slots=True)
class Memory:
    """A stretch of the address space."""

    name: str
    base: int
    size: int
    writable: bool = True
    timed: bool = True


KILO = 1024
MEGA = 1024 * 1024

DEFAULT_MAP = (
    Memory("ITCM", 0x0000_0000, 8 * KILO, writable=False),
    Memory("DTCM", 0x0001_0000, 32 * KILO),
)
HIGH_MAP = (
    Memory("ITCM", 0x0000_0000, MEGA, writable=False),
    Memory("DTCM", 0x0010_0000, MEGA),
)
# Reached through the bus; the cycle model does not time them.
EXTERNAL = Memory("EXTMEM", 0x2000_0000, 4 * MEGA, timed=False)
DDR = Memory("DDR", 0x8000_0000, 128 * MEGA, timed=False)


@dataclass(frozen=True, slots=True)
class CoralMachine:
    """One variant of the core."""

    name: str
    memories: tuple[Memory, Memory]
    external: tuple[Memory, ...] = ()
    vector: bool = True
    vector_float: bool = False
    zba: bool = False

    @property
    def code(self) -> Memory:
        return self.memories[0]

    @property
    def data(self) -> Memory:
        return self.memories[1]

    @property
    def far(self) -> int:
        """Addresses from here on are behind the bus, which is not timed."""
        return EXTERNAL.base

    @property
    def high_memory(self) -> bool:
        return self.code.size > 8 * KILO

    @property
    def cpu(self) -> str:
        """The toolchain's name of the instruction set."""
        parts = ["generic_rv32+m+f+zicsr+zbb"]
        if self.zba:
            parts.append("zba")
        if self.vector:
            parts += ["zve32f" if self.vector_float else "zve32x", "zvl128b"]
        return "+".join(parts)


MACHINES: dict[str, CoralMachine] = {
    machine.name: machine
    for machine in (
        CoralMachine("coral", DEFAULT_MAP),
        CoralMachine("coral-highmem", HIGH_MAP, (EXTERNAL, DDR)),
        CoralMachine("coral-zve32f", DEFAULT_MAP, vector_float=True, zba=True),
        CoralMachine(
            "coral-zve32f-highmem", HIGH_MAP, (EXTERNAL, DDR), vector_float=True, zba=True
        ),
        CoralMachine("coral-scalar", DEFAULT_MAP, vector=False, zba=True),
    )
}


def machine_named(name: str) -> CoralMachine:
    """The machine of a name, or an error that lists them."""
    if name in MACHINES:
        return MACHINES[name]
    hint = f"choose one of {', '.join(MACHINES)}"
    if "vme" in name.lower():
        raise TilewrightError(
            "TW5001", f"{name}: matrix tiles (VME) are experimental and unsupported", hint=hint
        )
    raise TilewrightError("TW5001", f"there is no Coral machine {name}", hint=hint)
