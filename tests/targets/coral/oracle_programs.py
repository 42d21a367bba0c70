"""Random programs for holding the simulator against an oracle.

A batch is many short programs in one image. Each sets all registers from memory, runs random
instructions (also reserved ones: a handler logs the trap and steps over), and stores its state.
Encodings come from the instruction table with random bits in the free places.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.targets.coral import _coral
from tilewright.targets.coral.machines import HIGH_MAP, CoralMachine
from tilewright.targets.coral.qemu import PARK_HALT, Qemu, park_jump
from tilewright.targets.coral.scan import EXTENSIONS

# Both zve32f and Zba, so that one batch covers every extension.
FUZZ_MACHINE = CoralMachine("coral-fuzz", HIGH_MAP, vector_float=True, zba=True)

DATA = HIGH_MAP[1].base
STATES = DATA  # initial states, reused by all programs at random offsets
STATES_SIZE = 0x10000
INDICES = DATA + 0x10000  # small 32-bit numbers, for indexed accesses
SCRATCH = DATA + 0x40000  # what body instructions load and store
SCRATCH_SIZE = 0x40000
RESULTS = DATA + 0x90000
RESULT_SIZE = 0x500
MOST_PROGRAMS = (DATA + HIGH_MAP[1].size - RESULTS) // RESULT_SIZE

# Registers bodies leave alone.
BASE, INDEX, STRIDE, LOG, TEMPORARY, HANDLER = 8, 9, 11, 29, 30, 31
RESERVED = frozenset([0, BASE, INDEX, STRIDE, LOG, TEMPORARY, HANDLER])
FREE = [r for r in range(32) if r not in RESERVED]
CSRS = (0x001, 0x002, 0x003, 0x009, 0x00A, 0x00F, 0x340, 0xC20, 0xC21, 0xC22)
SKIPPED = frozenset(
    ["ecall", "ebreak", "mret", "wfi", "mpause", "jalr", "jal", "auipc", "fence", "fence.i"]
)
VTYPES = [
    width << 3 | field
    for width in range(3)
    for field in (0, 1, 2, 3, 5, 6, 7)
    if (field - 8 if field >= 4 else field) >= width - 2
]
SPECIAL_FLOATS = (
    *(0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345),
    *(0x00000001, 0x807FFFFF, 0x00800000, 0x80800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000),
    *(0xBF800000, 0x3F000000, 0x4F000000, 0xCF000000, 0x4F800000, 0x33800000, 0x34000000),
)


@dataclass(frozen=True)
class Batch:
    """Code from address 0, data to load, and where the results lie."""

    code: tuple[int, ...]
    starts: tuple[int, ...]
    states: bytes
    indices: bytes
    scratch: bytes

    @property
    def image(self) -> bytes:
        return struct.pack(f"<{len(self.code)}I", *self.code)

    @property
    def results_size(self) -> int:
        return len(self.starts) * RESULT_SIZE


def _i(opcode: int, funct3: int, rd: int, rs1: int, immediate: int) -> int:
    return opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (immediate & 0xFFF) << 20


def _s(opcode: int, funct3: int, rs1: int, rs2: int, immediate: int) -> int:
    low, high = immediate & 31, immediate >> 5 & 0x7F
    return opcode | low << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | high << 25


def _li(register: int, value: int) -> list[int]:
    low = ((value & 0xFFF) ^ 0x800) - 0x800
    return [(value - low) & 0xFFFFF000 | 0x37 | register << 7, _i(0x13, 0, register, register, low)]


def _csrr(rd: int, csr: int) -> int:
    return _i(0x73, 2, rd, 0, csr)


def _csrw(csr: int, rs1: int) -> int:
    return _i(0x73, 1, 0, rs1, csr)


def _vector_whole(store: bool, register: int, base: int) -> int:
    return (0x27 if store else 0x07) | register << 7 | base << 15 | 0x02800000 | 7 << 29


def _handler() -> list[int]:
    """Log mcause and mtval, step over the instruction."""
    return [
        _csrr(TEMPORARY, 0x342),
        _s(0x23, 2, LOG, TEMPORARY, 0),
        _csrr(TEMPORARY, 0x343),
        _s(0x23, 2, LOG, TEMPORARY, 4),
        _i(0x13, 0, LOG, LOG, 8),
        _csrr(TEMPORARY, 0x341),
        _i(0x13, 0, TEMPORARY, TEMPORARY, 4),
        _csrw(0x341, TEMPORARY),
        0x30200073,
    ]


class _Writer:
    """One program: prologue, body, epilogue."""

    def __init__(self, rng: random.Random, rows: Sequence[tuple]) -> None:
        self.rng = rng
        self.rows = rows
        self.lmul = 0
        self.width = 8
        self.words: list[int] = []

    def prologue(self, result: int) -> None:
        rng, add = self.rng, self.words.append
        state = STATES + rng.randrange(0, STATES_SIZE - 0x800, 4)
        self.words += _li(TEMPORARY, state)
        for r in range(32):
            add(_i(0x07, 2, r, TEMPORARY, 4 * r))
        for r in FREE:
            add(_i(0x03, 2, r, TEMPORARY, 128 + 4 * r))
        self.words += _li(LOG, state + 256)
        for r in range(0, 32, 8):
            add(_vector_whole(False, r, LOG))
            add(_i(0x13, 0, LOG, LOG, 128))
        self.words += _li(BASE, SCRATCH + SCRATCH_SIZE // 2 + rng.randrange(64))
        self.words += _li(INDEX, INDICES + rng.randrange(0, 4096, 4))
        self.words += _li(
            STRIDE, rng.choice([0, 1, -1, 2, 3, 4, -7, 8, 16, 17, 64, -128]) & 0xFFFFFFFF
        )
        mode = rng.choice([0, 0, 0, 1, 2, 3, 4])
        self.words += _li(TEMPORARY, mode << 5)
        add(_csrw(0x003, TEMPORARY))
        add(_csrw(0x340, 0))
        self.words += _li(TEMPORARY, rng.randrange(8))
        add(_csrw(0x00F, TEMPORARY))
        self.words += _li(LOG, result + 0x380)
        self.setting()

    def setting(self) -> None:
        """A vtype, legal nearly always, and a length."""
        rng = self.rng
        vtype = rng.choice(VTYPES) | rng.randrange(4) << 6
        if rng.random() < 0.02:
            vtype = rng.randrange(1 << 11)
        self.remember(vtype)
        length = rng.choice([0, 1, 2, 3, 7, 16, 31, 128, rng.randrange(160)])
        self.words += _li(TEMPORARY, length)
        self.words.append(0x7057 | vtype << 20 | TEMPORARY << 15 | rng.choice(FREE) << 7)

    def remember(self, vtype: int) -> None:
        field = vtype & 7
        self.lmul = field - 8 if field >= 4 else field
        self.width = 8 << (vtype >> 3 & 7)

    def body(self, count: int) -> None:
        for _ in range(count):
            if self.rng.random() < 0.12:
                self.setting()
            self.instruction()

    def instruction(self) -> None:
        rng = self.rng
        name, mask, match, _, kind, extension = rng.choice(self.rows)
        word = rng.getrandbits(32) & ~mask & 0xFFFFFFFF | match
        if EXTENSIONS[extension] == "vector_float" and self.width < 32:
            # The emulator has 16-bit floats, which the core lacks: only what both have.
            halves = "vfncvt" in name or "vfwcvt" in name
            if halves != (self.width == 16):
                return
        vector = EXTENSIONS[extension].startswith("vector")
        if kind in ("vector_load", "vector_store"):
            self.vector_memory(name, word, mask)
            return
        if vector and kind != "vset" and rng.random() < 0.8:
            word = self.aligned(word, mask, kind)
        if kind in ("load", "float_load", "store", "float_store"):
            word = word & ~(31 << 15) | BASE << 15
        if kind == "csr":
            word = word & 0xFFFFF | rng.choice(CSRS) << 20
            # Only read: of some the emulator keeps bits that do not exist, a reserved rounding mode
            # ends it, and writing nothing to a read-only one passes there.
            if word >> 20 in (0x002, 0x003, 0x009, 0x00A, 0xC20, 0xC21, 0xC22):
                word = word & ~(7 << 12) & ~(31 << 15) | 2 << 12
        if kind == "branch":
            # Over the next instruction. (Of a target that is no word the emulator tells another
            # mtval than the specification.)
            word = word & ~0xFE000F80 | 8 << 7
        if kind == "vset":
            vtype = rng.choice(VTYPES)
            self.remember(vtype)
            if name == "vsetvl":
                self.words += _li(TEMPORARY, vtype)
                word = word & ~(31 << 20) | TEMPORARY << 20
            else:
                word = word & ~(0x3FF << 20) | vtype << 20
        writes_x = kind in (
            *("alu", "multiply", "divide", "load", "csr", "float_to_integer", "vset"),
            *("vector_to_scalar", "vector_mask_to_scalar"),
        )
        if writes_x:
            word = word & ~(31 << 7) | rng.choice(FREE) << 7
        self.words.append(word)
        if kind == "branch":
            self.words.append(_i(0x13, 0, rng.choice(FREE), rng.choice(FREE), rng.randrange(64)))

    def aligned(self, word: int, mask: int, kind: str) -> int:
        """Register numbers that fit the group size, where the encoding leaves them free."""
        log = max(self.lmul, 0) + (kind in ("vector_widen", "vector_narrow"))
        clear = (1 << min(log, 3)) - 1
        for position in (7, 15, 20):
            if mask >> position & 31 == 0 and not (position == 15 and word >> 12 & 7 >= 3):
                word &= ~(clear << position)
        return word

    def vector_memory(self, name: str, word: int, mask: int) -> None:
        rng = self.rng
        word = word & ~(31 << 15) | BASE << 15
        if rng.random() < 0.8:
            word = word & ~(7 << 7)
        if rng.random() < 0.7 and not mask >> 29:
            word &= 0x1FFFFFFF
        if "sse" in name or "lse" in name:
            word = word & ~(31 << 20) | STRIDE << 20
        if "xei" in name:
            # Fresh small indices.
            self.words.append(0x07 | 24 << 7 | 6 << 12 | INDEX << 15 | 0x02800000 | 7 << 29)
            word = word & ~(31 << 20) | rng.choice([24, 24, 24, 26, 28, 29]) << 20
            if rng.random() < 0.85 and name.startswith("vl"):
                word = word & ~(31 << 7) | rng.choice([8, 16]) << 7
        self.words.append(word)

    def epilogue(self, result: int) -> None:
        add = self.words.append
        # The log pointer counts traps; what is stored first keeps every register.
        self.words += _li(TEMPORARY, result)
        for r in range(1, 32):
            if r not in (TEMPORARY, HANDLER):
                add(_s(0x23, 2, TEMPORARY, r, 4 * r))
        for r in range(32):
            add(_s(0x27, 2, TEMPORARY, r, 128 + 4 * r))
        for k, csr in enumerate((0x003, 0x00F, 0xC20, 0xC21, 0x340)):
            add(_csrr(HANDLER, csr))
            add(_s(0x23, 2, TEMPORARY, HANDLER, 256 + 4 * k))
        add(_i(0x13, 0, TEMPORARY, TEMPORARY, 0x180))
        for r in range(0, 32, 8):
            add(_vector_whole(True, r, TEMPORARY))
            add(_i(0x13, 0, TEMPORARY, TEMPORARY, 128))


def chosen_rows(extensions: Sequence[str] = EXTENSIONS) -> list[tuple]:
    """Rows of the instruction table that random programs use.

    Conversions with their own rounding mode end QEMU 7.2 by an assertion of its own.
    """
    return [
        row
        for row in _coral.rows()
        if row[0] not in SKIPPED and ".rtz." not in row[0] and EXTENSIONS[row[5]] in extensions
    ]


def make_batch(seed: int, programs: int, length: int = 16) -> Batch:
    """Random programs; the same seed makes the same ones."""
    if not 0 < programs <= MOST_PROGRAMS:
        raise ValueError(f"a batch has 1 to {MOST_PROGRAMS} programs")
    rng = random.Random(seed)
    words = _handler()
    prologue = [
        *_li(TEMPORARY, 0),
        _csrw(0x305, TEMPORARY),
        *_li(TEMPORARY, 0x2200),
        _i(0x73, 2, 0, TEMPORARY, 0x300),
    ]
    entry = 4 * len(words)
    words = words + prologue
    starts = []
    # Rare rows as likely as families with many: choose the kind of instruction first.
    rows = chosen_rows()
    for index in range(programs):
        writer = _Writer(rng, rows)
        result = RESULTS + index * RESULT_SIZE
        starts.append(4 * len(words))
        writer.prologue(result)
        writer.body(length)
        writer.epilogue(result)
        words += writer.words
    words += [0x08000073, 0x0000006F]
    arrays = np.random.default_rng(seed)
    states = arrays.integers(0, 1 << 32, STATES_SIZE // 4, dtype=np.uint32)
    chosen = arrays.random(states.size)
    special = arrays.choice(np.array(SPECIAL_FLOATS, dtype=np.uint32), states.size)
    near = (arrays.standard_normal(states.size) * 100).astype(np.float32).view(np.uint32)
    small = arrays.integers(-200, 200, states.size).astype(np.uint32)
    states = np.where(chosen < 0.2, special, states)
    states = np.where((chosen > 0.5) & (chosen < 0.75), near, states)
    states = np.where(chosen > 0.85, small, states)
    indices = arrays.integers(0, 1 << 16, 0x2000, dtype=np.uint32)
    scratch = arrays.integers(0, 256, SCRATCH_SIZE, dtype=np.uint8)
    return Batch(
        tuple(words), (entry, *starts[1:]), states.tobytes(), indices.tobytes(), scratch.tobytes()
    )


def run_here(
    batch: Batch, agnostic_ones: bool = False, timing: bool = False
) -> tuple[bytes, bytes]:
    """Results and scratch memory after a run on our simulator."""
    machine = FUZZ_MACHINE
    core = _coral.Machine(
        [(m.name, m.base, m.size, m.writable, m.timed) for m in machine.memories],
        zba=True,
        vector_float=True,
        timing=timing,
        vector_traps=True,
        agnostic_ones=agnostic_ones,
    )
    core.write(0, batch.image)
    core.write(STATES, batch.states)
    core.write(INDICES, batch.indices)
    core.write(SCRATCH, batch.scratch)
    core.start(batch.starts[0])
    core.run(10_000_000)
    if not core.halted or core.fault:
        raise AssertionError(f"the batch did not end: {core.fault}, pc {core.pc:#x}")
    return core.read(RESULTS, batch.results_size), core.read(SCRATCH, SCRATCH_SIZE)


def run_there(batch: Batch, qemu: Qemu) -> tuple[bytes, bytes]:
    """The same on the oracle."""
    image = batch.image
    qemu.write(0, image[:-8] + park_jump(PARK_HALT))
    qemu.write(STATES, batch.states)
    qemu.write(INDICES, batch.indices)
    qemu.write(SCRATCH, batch.scratch)
    qemu.write(RESULTS, bytes(batch.results_size))
    qemu.clear_registers()  # the trap handler's is read before it is written
    stopped = qemu.go(batch.starts[0], 60)
    if stopped != PARK_HALT:
        raise AssertionError(f"the oracle did not reach the end, it stands at {stopped:#x}")
    return qemu.read(RESULTS, batch.results_size), qemu.read(SCRATCH, SCRATCH_SIZE)


def differing(batch: Batch, here: bytes, there: bytes) -> list[int]:
    """Programs whose stored state differs."""
    return [
        k
        for k in range(len(batch.starts))
        if here[k * RESULT_SIZE : (k + 1) * RESULT_SIZE]
        != there[k * RESULT_SIZE : (k + 1) * RESULT_SIZE]
    ]
