"""What one instruction of a program does to the pipeline, worked out once from the table.

Registers of every kind are bits of one integer, so that "do these two touch the same
register" is one `&`: tensor registers first, then x, e, weight slots, accumulators, dma.base.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from tilewright.targets.atlas.isa import OPCODES, Kind
from tilewright.targets.atlas.lint.scalar import sign_extend_12
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

X_BIT, E_BIT, W_BIT, ACC_BIT, BASE_BIT = 64, 96, 128, 132, 136
TENSOR_MASK = (1 << 64) - 1
X_MASK = ((1 << 32) - 1) << X_BIT
E_MASK = ((1 << 32) - 1) << E_BIT


class Role(IntEnum):
    """How decode treats an instruction."""

    SCALAR = 0  # executes at once
    DELAY = 1
    TRANSFER = 2
    HALT = 3
    WAIT = 4
    DMA = 5
    UNIT = 6  # accepted by a unit, completes later
    ILLEGAL = 7


@dataclass(slots=True)
class Facts:
    """One instruction on one profile."""

    mnemonic: str
    shown: str  # mnemonic as people write it, channel included
    role: Role
    unit: str
    position: int  # of the unit within a tick
    latency: int
    interval: int
    reads: int  # registers, as bits
    writes: int
    held: int  # tensor registers held against other units
    pair_range: bool  # a pair starts at m63
    memory: str | None  # "scalar", "tensor", "dma" or None
    stores: bool  # writes VMEM
    size: int  # bytes of a scalar or tensor access
    rd: int = 0
    rs1: int = 0
    rs2: int = 0
    immediate: int = 0  # ready to use: sign-extended, or in bytes
    has_immediate: bool = False
    channel: int = 0


def register_names(bits: int) -> list[str]:
    """Names of the registers in a bit set: `m2`, `x5`, `mxu0.acc1`."""
    names = []
    while bits:
        bit = (bits & -bits).bit_length() - 1
        bits &= bits - 1
        if bit < X_BIT:
            names.append(f"m{bit}")
        elif bit < E_BIT:
            names.append(f"x{bit - X_BIT}")
        elif bit < W_BIT:
            names.append(f"e{bit - E_BIT}")
        elif bit < BASE_BIT:
            name, number = ("w", bit - W_BIT) if bit < ACC_BIT else ("acc", bit - ACC_BIT)
            names.append(f"mxu{number // 2}.{name}{number % 2}")
        else:
            names.append("dma.base")
    return names


def facts_of_program(program: Program, profile: Profile) -> list[Facts]:
    """Facts of every instruction; equal instructions share one object."""
    known: dict[tuple[int, ...], Facts] = {}
    result = []
    for opcode, operands in zip(program.opcodes.tolist(), program.operands.tolist(), strict=True):
        key = (opcode, *operands)
        facts = known.get(key)
        if facts is None:
            facts = known[key] = _facts(opcode, key[1:], profile)
        result.append(facts)
    return result


@lru_cache(maxsize=1 << 15)  # the same instructions come again in every program of a machine
def _facts(index: int, values: tuple[int, ...], profile: Profile) -> Facts:
    opcode = OPCODES[index]
    timing = profile.timing_of(opcode)
    role = _role(opcode.mnemonic, opcode.timing, timing.unit, profile)
    if not profile.has(opcode):
        role = Role.ILLEGAL
    reads = writes = held = 0
    pair_range = False
    fields: dict[str, int] = {}
    for operand, value in zip(opcode.operands, values, strict=False):
        fields[operand.key] = value
        bits = 0
        match operand.kind:
            case Kind.X:
                bits = (1 << (X_BIT + value)) if value else 0
            case Kind.E:
                bits = 1 << (E_BIT + value)
                if opcode.effect == "vmatpop.fp8.acc" and profile.pop_fp8 == "cast":
                    bits = 0
            case Kind.W:
                bits = 1 << (W_BIT + 2 * (opcode.mxu or 0) + value)
            case Kind.ACC:
                bits = 1 << (ACC_BIT + 2 * (opcode.mxu or 0) + value)
            case Kind.M:
                span, footprint = profile.span(operand), profile.footprint(operand)
                bits = (((1 << span) - 1) << value) & TENSOR_MASK
                held |= (((1 << footprint) - 1) << value) & TENSOR_MASK
                reach = span if profile.conflict == "ignore" else footprint
                pair_range |= value + reach > 64
            case Kind.IMM:
                pass
        reads |= bits if operand.reads else 0
        writes |= bits if operand.writes else 0
    if opcode.mnemonic == "dma.config":
        writes |= 1 << BASE_BIT
    elif role is Role.DMA:
        reads |= 1 << BASE_BIT
    memory = opcode.memory.split()[0] if opcode.memory else None
    stores = opcode.memory in ("scalar store", "tensor store", "dma load")
    channel = fields.get("channel", 0)
    return Facts(
        opcode.mnemonic,
        f"{opcode.mnemonic}.ch{channel}" if opcode.has_channel else opcode.mnemonic,
        role,
        timing.unit,
        profile.position.get(timing.unit, -1),
        timing.latency,
        timing.interval,
        reads,
        writes,
        held,
        pair_range,
        memory,
        stores,
        opcode.bytes,
        rd=fields.get("rd", 0),
        rs1=fields.get("rs1", 0),
        rs2=fields.get("rs2", 0),
        immediate=_immediate(opcode.mnemonic, opcode.format, fields),
        has_immediate="imm" in fields,
        channel=channel,
    )


def _role(mnemonic: str, timing: str, unit: str, profile: Profile) -> Role:
    if timing == "delay":
        return Role.DELAY
    if timing == "branch":
        return Role.TRANSFER
    if timing == "dma_wait":
        return Role.WAIT
    if unit == "DMA":
        return Role.DMA
    if mnemonic in ("ecall", "ebreak") and profile.halts:
        return Role.HALT
    return Role.SCALAR if unit == "SCALAR" else Role.UNIT


def _immediate(mnemonic: str, form: str, fields: dict[str, int]) -> int:
    if mnemonic in ("vload", "vstore"):
        return 32 * (fields["imm12"] & 4095)
    number = fields.get("imm", 0)
    if mnemonic in ("delay", "slli", "srli", "srai") or form in ("SB", "UJ", "U", "CSR", "VI"):
        return number
    return sign_extend_12(number)
