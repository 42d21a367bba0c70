"""Random Atlas programs, policies and profiles: the same seed always gives the same.

Programs have loops, forward branches, calls, DMA with and without waits, registers overwritten
in flight, halts and now and then every kind of fault. How often an operation is given the time
it needs (`patience`) varies from program to program, so that some run clean to their end and
some break every rule. Run them with a limit of cycles: few of them may loop for ever.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind, Opcode, Operand
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.program import Data, Instruction, Program

COUNTERS = (28, 29, 30, 31)  # loop counters; nothing else writes them
RESULTS = tuple(range(1, 10))
VMEM_BASES = (0, 10, 11, 12, 13, 14, 15)
DRAM_BASES = (0, 16, 17, 18)
COUNTS = (20, 21, 22, 23)
LINKS = (24, 25)
MEMORY = 16384  # programs stay inside this much of either memory, but for a few accidents

_SCALAR = [r for r in OPCODES if r.timing == "scalar" and r.effect not in ("ecall", "ebreak")]
_SCALAR_MEMORY = [r for r in OPCODES if r.timing in ("scalar_load", "scalar_store")]
_TENSOR_MEMORY = [r for r in OPCODES if r.timing in ("tensor_load", "tensor_store")]
_MATRIX = [r for r in OPCODES if r.mxu is not None]
_VECTOR = [
    r
    for r in OPCODES
    if r.record == "vector" and r.mxu is None and not r.memory
]  # fmt: skip
_BRANCHES = [r for r in OPCODES if r.is_conditional]


@dataclass
class _Builder:
    rng: random.Random
    profile: Profile
    patience: float  # how often an operation is given the time it takes
    mischief: float  # how often something odd is done on purpose
    size: int
    code: list[Instruction] = field(default_factory=list)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def emit(self, mnemonic: str, *operands: int) -> None:
        self.code.append(Instruction.of(mnemonic, *operands))

    def set_scalar(self, register: int, value: int) -> None:
        """Like the `li` of the assembler."""
        upper = (value + 0x800) >> 12
        if upper:
            self.emit("lui", register, upper)
            self.emit("addi", register, register, value - (upper << 12))
        else:
            self.emit("addi", register, 0, value)

    # --- operands ---

    def operand(self, opcode: Opcode, operand: Operand) -> int:
        rng = self.rng
        match operand.kind:
            case Kind.X:
                return self.scalar_register(opcode, operand)
            case Kind.E:
                return rng.randrange(4)
            case Kind.W | Kind.ACC:
                return rng.randrange(2)
            case Kind.M:
                if self.chance(self.mischief / 4):
                    return rng.choice((61, 62, 63))
                few = rng.choice((4, 16, 60))
                return rng.randrange(few)
        return self.immediate(opcode, operand)

    def scalar_register(self, opcode: Opcode, operand: Operand) -> int:
        rng = self.rng
        if opcode.memory and operand.reads:
            if opcode.record == "dma":
                inside = "rd" if opcode.effect == "dma.load" else "rs1"
                choice = {"rs2": COUNTS, inside: VMEM_BASES}.get(operand.key, DRAM_BASES)
                return rng.choice(choice)
            if operand.key == "rs1":
                return rng.choice(VMEM_BASES)
        if operand.writes:
            if self.chance(self.mischief):
                return rng.choice((*VMEM_BASES, *DRAM_BASES, *COUNTS))
            return rng.choice(RESULTS)
        return rng.randrange(28)

    def immediate(self, opcode: Opcode, operand: Operand) -> int:
        rng = self.rng
        kind = operand.immediate
        assert kind is not None
        if opcode.memory and kind.name == "imm12":
            step = 1 if self.chance(self.mischief) else opcode.bytes
            return step * rng.randrange(0, 64)
        if kind.name == "row12":
            return rng.choice((0, 0, 32, 64, rng.randrange(96)))
        if kind.name == "channel3":
            return rng.choice((0, 0, 1, 1, 2, rng.randrange(8)))
        if kind.name == "delay12":
            return rng.randrange(0, 40)
        return rng.randint(kind.low, kind.high)

    # --- statements ---

    def operation(self, opcode: Opcode) -> None:
        """One instruction, perhaps with the time it takes."""
        if not self.profile.has(opcode) and not self.chance(self.mischief / 4):
            return
        values = [self.operand(opcode, operand) for operand in opcode.operands]
        self.code.append(Instruction(opcode, tuple(values)))
        latency = self.profile.timing_of(opcode).latency
        if latency > 1 and self.chance(self.patience):
            self.emit("delay", max(0, latency + self.rng.choice((-3, -2, -2, -1, 0, 0, 5))))

    def simple(self) -> None:
        rows = self.rng.choices(
            (_SCALAR, _SCALAR_MEMORY, _TENSOR_MEMORY, _MATRIX, _VECTOR), (30, 10, 16, 18, 26)
        )[0]
        self.operation(self.rng.choice(rows))

    def new_base(self) -> None:
        """Change an address or count, whether or not something in flight uses it."""
        rng = self.rng
        register = rng.choice((*VMEM_BASES[1:], *DRAM_BASES[1:], *COUNTS))
        self.set_scalar(register, self.base_value(register))

    def base_value(self, register: int) -> int:
        rng = self.rng
        if self.chance(self.mischief / 3):
            return rng.choice((31, 100, -32, self.profile.vmem_bytes - 512, 0x7FFFFFE0))
        if register in COUNTS:
            return 32 * rng.choice((0, 1, 2, 5, 8, 32, 32, 64))
        if register in VMEM_BASES:
            return 1024 * rng.randrange(8) + 32 * rng.choice((0, 0, 0, rng.randrange(32)))
        return 32 * rng.randrange(MEMORY // 64)

    def transfer(self) -> None:
        name = self.rng.choices(("dma.load", "dma.store", "dma.config"), (6, 4, 1))[0]
        if name == "dma.config":
            source = 0 if not self.chance(self.mischief / 4) else self.rng.randrange(28)
            channel = self.rng.randrange(8)
            self.emit(name, source, channel)
        else:
            self.operation(BY_MNEMONIC[name])
            channel = self.code[-1].operands[-1]
        if self.chance(0.3):
            self.simple()
        if self.chance(max(self.patience, 0.3)):
            self.emit("dma.wait", channel)

    def slots(self) -> None:
        """Delay slots behind a control transfer; mischief may leave some out."""
        for _ in range(self.profile.delay_slots):
            if self.chance(self.mischief / 4):
                continue
            if self.chance(self.mischief / 4):
                self.oddity()
                continue
            before = len(self.code)
            row = self.rng.choice((*_SCALAR, BY_MNEMONIC["delay"], *_TENSOR_MEMORY))
            if self.profile.has(row):
                values = [self.operand(row, operand) for operand in row.operands]
                self.code.append(Instruction(row, tuple(values)))
            if len(self.code) == before:
                self.emit("addi", 0, 0, 0)

    def patch(self, at: int, target: int) -> None:
        """Give the transfer at `at` its offset, which is its last operand."""
        old = self.code[at]
        offset = 4 * (target - at)
        self.code[at] = Instruction(old.opcode, (*old.operands[:-1], offset))

    def loop(self, depth: int) -> None:
        counter = COUNTERS[depth]
        self.emit("addi", counter, 0, self.rng.randint(1, 5))
        start = len(self.code)
        self.block(depth + 1, self.rng.randint(1, 8))
        self.emit("addi", counter, counter, -1)
        self.emit("bne", counter, 0, 0)
        self.patch(len(self.code) - 1, start)
        self.slots()

    def skip(self, depth: int) -> None:
        """A forward branch over a few statements."""
        row = self.rng.choice(_BRANCHES)
        self.code.append(Instruction(row, (self.rng.randrange(28), self.rng.randrange(28), 0)))
        at = len(self.code) - 1
        self.slots()
        self.block(depth + 1, self.rng.randint(1, 4))
        self.patch(at, len(self.code))

    def jump(self) -> None:
        link = self.rng.choice((0, *LINKS))
        if self.chance(0.5):
            self.emit("jal", link, 0)
            at = len(self.code) - 1
            self.slots()
            self.simple()
            self.patch(at, len(self.code))
            return
        distance = self.profile.delay_slots + self.rng.randint(1, 3)
        target = (len(self.code) + 2 + distance) * self.profile.pc_step
        register = self.rng.choice(LINKS)
        self.emit("addi", register, 0, min(target, 2047))
        self.emit("jalr", link, register, 0)
        self.slots()
        for _ in range(self.rng.randint(0, 3)):
            self.emit("addi", self.rng.choice(RESULTS), 0, self.rng.randrange(100))

    def block(self, depth: int, statements: int) -> None:
        for _ in range(statements):
            if len(self.code) >= self.size:
                return
            kind = self.rng.random()
            if kind < 0.60:
                self.simple()
            elif kind < 0.72:
                self.transfer()
            elif kind < 0.80:
                self.new_base()
            elif kind < 0.85:
                self.emit("delay", self.rng.choice((0, 1, 5, 34, 66, self.rng.randrange(600))))
            elif kind < 0.87:
                self.emit("dma.wait", self.rng.randrange(8))
            elif kind < 0.92 and depth < len(COUNTERS):
                self.loop(depth)
            elif kind < 0.95 and depth < len(COUNTERS):
                self.skip(depth)
            elif kind < 0.97:
                self.jump()
            elif self.chance(2 * self.mischief):
                self.oddity()

    def oddity(self) -> None:
        """Something no sensible program has."""
        match self.rng.randrange(5):
            case 0:
                self.emit(self.rng.choice(("ecall", "ebreak")))
            case 1:
                self.emit("delay", -1)
            case 2:
                self.emit("jalr", 0, self.rng.randrange(28), self.rng.randrange(-64, 64))
            case 3:
                self.emit("beq", 0, 0, 4 * self.rng.randrange(-3, 8))
            case _:
                self.emit("jal", 1, 4 * self.rng.randrange(-3, 8))


def random_program(seed: int, profile: Profile, size: int | None = None) -> Program:
    """A program for this profile, of about `size` instructions, with its data."""
    rng = random.Random(f"program {seed}")
    patience = rng.choice((0.0, 0.5, 0.9, 1.0, 1.0))
    mischief = rng.choice((0.0, 0.0, 0.02, 0.1, 0.3))
    builder = _Builder(rng, profile, patience, mischief, size or rng.choice((6, 15, 30, 60)))
    for register in (*VMEM_BASES[1:], *DRAM_BASES[1:], *COUNTS):
        if rng.random() < 0.8:
            builder.set_scalar(register, builder.base_value(register))
    for register in range(4):
        if rng.random() < 0.7:
            builder.emit("seli", register, rng.choice((1, 1, 1, 2, 3, 0x7F, 255)))
    builder.size += len(builder.code)
    while len(builder.code) < builder.size:
        builder.block(0, 4)
    if rng.random() < 0.3:
        builder.emit("ecall")
    for _ in range(rng.choice((0, 0, 1, 2))):
        builder.emit("addi", 0, 0, 0)
    program = Program.from_instructions(builder.code, f"<random {seed}>")
    program.lines = np.arange(1, len(program) + 1, dtype=np.int32)
    program.data = _random_data(rng)
    return program


def _random_data(rng: random.Random) -> list[Data]:
    """Contents for the memories: numbers of ordinary size, or any bytes."""
    data = []
    for space in ("dram", "vmem"):
        generator = np.random.default_rng(rng.getrandbits(32))
        if rng.random() < 0.5:
            raw = generator.integers(0, 256, MEMORY, dtype=np.uint8).tobytes()
        else:
            values = generator.normal(0, 2, MEMORY // 2).astype(np.float32)
            raw = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        data.append(Data(space, 0, raw))
    return data


def random_policy(seed: int) -> Policy:
    """Settings of a run, the plain ones more often than the others."""
    rng = random.Random(f"policy {seed}")
    return Policy(
        hazards=rng.choice(("profile", "profile", "fault", "stall", "record")),
        initial=rng.choice(("zero", "zero", "poison", "random")),
        dma=rng.choice(("exact", "exact", "early", "late")),
        seed=rng.getrandbits(64),
        compat=rng.random() < 0.3,
    )


def random_profile(seed: int, base: Profile) -> Profile:
    """A machine derived from `base`: other latencies, pipelined units, other order and rules."""
    rng = random.Random(f"profile {seed}")
    timing = {}
    for name, entry in base.timing.items():
        unit, latency = entry.unit, entry.latency
        if name not in ("scalar", "branch", "delay") and rng.random() < 0.15:
            unit = rng.choice([u for u in base.units if u != "DMA"])
        if unit == "SCALAR":
            latency = 1
        else:
            latency = rng.choice((latency, latency, 1, 2, rng.randint(1, 100)))
        interval = latency
        if unit != "SCALAR" and rng.random() < 0.6:
            interval = rng.randint(1, latency)
        timing[name] = Timing(unit, latency, interval)
    others = list(base.units[1:])
    if rng.random() < 0.3:
        rng.shuffle(others)
    law = base.dma
    if rng.random() < 0.5:
        law = replace(
            law,
            link_bytes=rng.choice((0, 1, 4, 16)),
            link_ticks=rng.randint(0, 3),
            vmem_bytes=rng.choice((16, 32, 64)),
            config=rng.randint(1, 6),
            max_bytes=rng.choice((0, 0, 1024)),
        )
    return replace(
        base,
        name=f"{base.name}-{seed}",
        units=(base.units[0], *others),
        features=frozenset(f for f in ("csr", "square_cube") if rng.random() < 0.7),
        delay_slots=rng.choice((1, 2, 2, 2, 3, 8)),
        halts=rng.random() < 0.7,
        busy_unit=rng.choice(("fault", "stall")),
        conflict=rng.choice(("fault", "stall", "ignore")),
        delay_slot_transfer=rng.choice(("fault", "accept")),
        tile_registers=rng.choice((1, 2)),
        fill=rng.choice(("bits", "integer")),
        pop_fp8=rng.choice(("divide", "cast")),
        row_sum=rng.choice(("four_lanes", "two_lanes")),
        column_sum=rng.choice(("two_halves", "four_strides")),
        dma=law,
        timing=timing,
    )
