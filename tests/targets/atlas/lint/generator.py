"""Small random programs that come close to hazards: some clean, some not."""

from __future__ import annotations

import random

from tilewright.targets.atlas.isa import OPCODES, Kind, Opcode
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction, Program

_SKIPPED = {"ecall", "ebreak", "jalr", "jal", "dma.config", "delay", "dma.wait", "fence"}
_ADDRESSES = (5, 6, 7)  # x registers that hold VMEM or DRAM addresses
_COUNTS = (8, 9)  # x registers that hold byte counts


def _instruction(rng: random.Random, profile: Profile, row: Opcode, tidy: bool) -> Instruction:
    values = []
    for operand in row.operands:
        match operand.kind:
            case Kind.X:
                if row.has_channel:
                    values.append(rng.choice(_COUNTS if operand.key == "rs2" else _ADDRESSES))
                elif row.memory and operand.key == "rs1":
                    values.append(rng.choice(_ADDRESSES))
                elif operand.writes and not (not tidy and rng.random() < 0.2):
                    values.append(rng.choice((10, 11, 12)))
                else:
                    values.append(rng.choice((0, 5, 6, 8, 10, 11, 12)))
            case Kind.E:
                values.append(rng.randrange(2))
            case Kind.M:
                values.append(63 if not tidy and rng.random() < 0.01 else rng.randrange(16))
            case Kind.W | Kind.ACC:
                values.append(rng.randrange(2))
            case Kind.IMM:
                values.append(_immediate(rng, row, operand.key, tidy))
    return Instruction(row, tuple(values))


def _immediate(rng: random.Random, row: Opcode, key: str, tidy: bool) -> int:
    if key == "channel":
        return rng.randrange(3)
    if row.memory:
        if row.bytes == 1024:
            return 32 * rng.randrange(4)
        slip = 0 if tidy or rng.random() < 0.9 else 1
        return row.bytes * rng.randrange(0, 8) + slip
    return rng.randrange(16)


def random_program(
    rng: random.Random, profile: Profile, *, loops: bool = False, tidy: bool | None = None
) -> Program:
    """A program of some 5 to 40 instructions; `tidy` ones wait and delay generously."""
    tidy = rng.random() < 0.5 if tidy is None else tidy
    rows = [r for r in OPCODES if r.mnemonic not in _SKIPPED and not r.is_transfer]
    rows = [r for r in rows if profile.has(r) or (not tidy and rng.random() < 0.02)]
    weights = [6 if r.memory else 1 for r in rows]
    code: list[Instruction] = [
        Instruction.of("addi", 5, 0, 1024 * rng.randrange(2)),
        Instruction.of("lui", 6, 1),
        Instruction.of("lui", 7, 2 if tidy or rng.random() < 0.95 else profile.vmem_bytes >> 12),
        Instruction.of("addi", 8, 0, 32 * rng.randrange(5)),
        Instruction.of("addi", 9, 0, rng.choice((64, 1024)) + (not tidy and rng.random() < 0.05)),
        Instruction.of("seli", 0, 1),
    ]
    for _ in range(rng.randrange(1, 4 if loops else 2)):
        body: list[Instruction] = []
        for _ in range(rng.randrange(1, 12)):
            row = rng.choices(rows, weights)[0]
            body.append(_instruction(rng, profile, row, tidy))
            if rng.random() < (0.85 if tidy else 0.4):
                body.append(_pause(rng, tidy))
            if rng.random() < (0.5 if tidy else 0.2) or (tidy and row.has_channel):
                body.append(Instruction.of("dma.wait", rng.randrange(3)))
            if not tidy and rng.random() < 0.03:
                body.append(Instruction.of("dma.config", 0, rng.randrange(3)))
        if loops and rng.random() < 0.8:
            body = _loop(rng, body, tidy)
        code += body
    if rng.random() < 0.2:
        code += [Instruction.of("ecall"), Instruction.of("addi", 0, 0, 0)]
    return Program.from_instructions(code)


def _pause(rng: random.Random, tidy: bool) -> Instruction:
    longest = rng.choice((4, 40, 140, 1200)) if not tidy else rng.choice((140, 600, 1200))
    return Instruction.of("delay", rng.randrange(longest // 2 if tidy else 0, longest))


def _loop(rng: random.Random, body: list[Instruction], tidy: bool) -> list[Instruction]:
    """Repeat a body: counted, or as long as a byte in memory says."""
    count = 13
    slots = [_pause(rng, tidy), Instruction.of("addi", 10, 10, 1)]
    rng.shuffle(slots)
    if rng.random() < 0.3:
        body = [*body, Instruction.of("addi", 7, 7, 1024)]
    if rng.random() < 0.3 and len(body) > 3:  # leave early, or skip, on an unknown condition
        at = rng.randrange(len(body))
        skip = rng.randrange(3, len(body) - at + 3) if len(body) - at > 0 else 3
        test = [
            Instruction.of("lbu", 14, 0, 0),
            Instruction.of("delay", 3),
            Instruction.of("bne", 14, 0, 4 * skip),
            Instruction.of("addi", 0, 0, 0),
            Instruction.of("addi", 0, 0, 0),
        ]
        body = [*body[:at], *test, *body[at:]]
    if rng.random() < 0.2:
        turn = [
            Instruction.of("lbu", count, 4, 0),
            Instruction.of("delay", 3),
        ]
    else:
        turn = [Instruction.of("addi", count, count, -1)]
    jump = Instruction.of("bne", count, 0, -4 * (len(body) + len(turn)))
    return [Instruction.of("addi", count, 0, rng.randrange(1, 7)), *body, *turn, jump, *slots]
