"""What each instruction does to the state, one short function per effect of the table.

An effect runs at the instruction's completion: it reads all operands and writes all results
at once. Control transfers return their target in pc units; others return None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.isa import OPCODES, Opcode
from tilewright.targets.atlas.state import COMPAT_BITS, M32, SparseMemory, State

ROW_BYTES = 32
COMPAT_LIMIT = 1 << (COMPAT_BITS - 1)


class MachineFault(Exception):
    """A rule broken while executing; the machine adds tick and instruction."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


@dataclass(slots=True)
class Site:
    """Where an instruction executes: its own address and the one being fetched, in pc units."""

    own: int
    fetch: int


Effect = Callable[[State, Opcode, tuple[int, ...], Site], "int | None"]
EFFECTS: dict[str, Effect] = {}


def effect(*names: str) -> Callable[[Effect], Effect]:
    def register(function: Effect) -> Effect:
        for name in names:
            EFFECTS[name] = function
        return function

    return register


def sign_extend(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# --- scalar arithmetic ----------------------------------------------------------------


def _shift_right_signed(s: State, register: int, amount: int) -> int:
    if s.compat:
        if s.profile.accidents.sra_unbounded:
            return s.x[register] >> amount
        return (sign_extend(s.x[register], 32) >> amount) & M32
    return s.signed(register) >> amount


def _amount(s: State, register: int) -> int:
    """Shift amount: low five bits of a register; compat uses all of it, as the public model."""
    amount = s.x[register]
    if not s.compat:
        return amount & 31
    if amount < 0:
        raise MachineFault("illegal", f"by {amount}: the public model rejects it")
    return amount


def _signed_amount(s: State, register: int) -> int:
    """Shift amount of sra: compat uses all of the register only where the shift is unbounded."""
    unbounded = s.compat and s.profile.accidents.sra_unbounded
    return _amount(s, register) if unbounded else s.x[register] & 31


def _shift_left(s: State, register: int, amount: int) -> int:
    """A left shift that never makes more digits than show that the result is too large."""
    return s.x[register] << min(amount, COMPAT_BITS)


_ALU: dict[str, Callable[[State, int, int], int]] = {
    "add": lambda s, a, b: s.x[a] + s.x[b],
    "sub": lambda s, a, b: s.x[a] - s.x[b],
    "xor": lambda s, a, b: s.x[a] ^ s.x[b],
    "or": lambda s, a, b: s.x[a] | s.x[b],
    "and": lambda s, a, b: s.x[a] & s.x[b],
    "slt": lambda s, a, b: int(s.signed(a) < s.signed(b)),
    "sltu": lambda s, a, b: int(s.unsigned(s.x[a]) < s.unsigned(s.x[b])),
    "sll": lambda s, a, b: _shift_left(s, a, _amount(s, b)),
    "srl": lambda s, a, b: s.x[a] >> _amount(s, b),
    "sra": lambda s, a, b: _shift_right_signed(s, a, _signed_amount(s, b)),
    "addi": lambda s, a, i: s.x[a] + sign_extend(i, 12),
    "xori": lambda s, a, i: s.x[a] ^ sign_extend(i, 12),
    "ori": lambda s, a, i: s.x[a] | sign_extend(i, 12),
    "andi": lambda s, a, i: s.x[a] & sign_extend(i, 12),
    "slti": lambda s, a, i: int(s.signed(a) < sign_extend(i, 12)),
    "sltiu": lambda s, a, i: int(s.unsigned(s.x[a]) < s.unsigned(sign_extend(i, 12))),
    "slli": lambda s, a, i: s.x[a] << i,
    "srli": lambda s, a, i: s.x[a] >> i,
    "srai": lambda s, a, i: _shift_right_signed(s, a, i),
}


@effect(*_ALU)
def _alu(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    try:
        value = _ALU[row.effect](s, ops[1], ops[2])
    except MachineFault as fault:
        raise MachineFault(fault.kind, f"{row.mnemonic} {fault.message}") from None
    if s.compat and ops[0] and not -COMPAT_LIMIT <= value < COMPAT_LIMIT:
        # The public model's integers have no end; ours say so instead of being others.
        raise MachineFault(
            "illegal", f"{row.mnemonic} has a result of more than {COMPAT_BITS} bits"
        )
    s.write_x(ops[0], value)


@effect("lui")
def _lui(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.write_x(ops[0], (ops[1] << 12) & ((1 << 64) - 1))


@effect("auipc")
def _auipc(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    base = site.fetch + s.profile.accidents.auipc_from_fetch if s.compat else site.own
    # The public model takes 32 bits of the immediate before it adds.
    upper = (ops[1] << 12) & M32 if s.compat else ops[1] << 12
    s.write_x(ops[0], upper + base)


@effect("seli")
def _seli(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    _write_e(s, ops[0], ops[1] & 0xFF)


def _write_e(s: State, register: int, value: int) -> None:
    # The public model drops the write when the x register of that number holds the value.
    if not (s.compat and s.x[register] == value):
        s.e[register] = value


@effect("csrrw", "csrrs", "csrrc", "csrrwi", "csrrsi", "csrrci")
def _csr(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    target, source, number = ops
    value = source if row.effect.endswith("i") else s.x[source]
    old = int(s.csr[number])
    match row.effect[4]:
        case "w":
            new = value
        case "s":
            new = old | value
        case _:
            new = old & ~value
    s.csr[number] = new if s.compat else new & M32
    s.write_x(target, old)


@effect("delay", "fence", "ecall", "ebreak")
def _nothing(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    return None


# --- control transfer -----------------------------------------------------------------

_CONDITION: dict[str, Callable[[State, int, int], bool]] = {
    "beq": lambda s, a, b: s.x[a] == s.x[b],
    "bne": lambda s, a, b: s.x[a] != s.x[b],
    "blt": lambda s, a, b: s.signed(a) < s.signed(b),
    "bge": lambda s, a, b: s.signed(a) >= s.signed(b),
    "bltu": lambda s, a, b: s.unsigned(s.x[a]) < s.unsigned(s.x[b]),
    "bgeu": lambda s, a, b: s.unsigned(s.x[a]) >= s.unsigned(s.x[b]),
}


def _relative(s: State, site: Site, offset: int) -> int:
    """Own address plus an offset of bytes, in pc units."""
    steps = offset if s.profile.pc_step == 4 else offset // 4
    if s.compat and s.profile.accidents.branch_from_fetch:
        return site.fetch + steps - 2 * s.profile.pc_step
    return site.own + steps


@effect(*_CONDITION)
def _branch(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> int | None:
    if not _CONDITION[row.effect](s, ops[0], ops[1]):
        return None
    return _relative(s, site, ops[2])


def _link(s: State, site: Site) -> int:
    if s.compat:
        return site.fetch + s.profile.accidents.link_from_fetch
    return site.own + s.profile.pc_step


@effect("jal")
def _jal(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> int:
    offset = ops[1]
    if s.compat and s.profile.pc_step == 4:
        offset = sign_extend(offset, 20)  # the public model drops the top bit
    s.write_x(ops[0], _link(s, site))
    return _relative(s, site, offset)


@effect("jalr")
def _jalr(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> int:
    target = s.address(ops[1], sign_extend(ops[2], 12))
    if s.compat:
        target += s.profile.accidents.jalr_offset
    s.write_x(ops[0], _link(s, site))
    return target


# --- memory ---------------------------------------------------------------------------


def checked_range(s: State, memory: SparseMemory, start: int, count: int, align: int) -> int:
    """The start of a legal access, or a fault."""
    if not s.compat and (start % align or (align == ROW_BYTES and count % align)):
        raise MachineFault(
            "misaligned",
            f"{memory.space} access of {count} bytes at {start:#x} is not a multiple of {align}",
        )
    if s.compat and start < 0 and memory.space == "vmem":
        start += memory.size  # the public model indexes from the end
    if start < 0 or count < 0 or start + count > memory.size:
        raise MachineFault(
            "bounds",
            f"{memory.space} access of {count} bytes at {start:#x} is outside its {memory.size} bytes",
        )
    return start


@effect("lb", "lh", "lw", "lbu", "lhu", "seld")
def _load(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    target, offset, base = ops
    start = s.address(base, sign_extend(offset, 12))
    start = checked_range(s, s.vmem, start, row.bytes, row.bytes)
    if s.compat and s.profile.accidents.misaligned_load_faults and start % row.bytes:
        raise MachineFault(
            "misaligned", f"{row.mnemonic} at {start:#x}: the public model rejects it"
        )
    value = int.from_bytes(s.vmem.read(start, row.bytes).tobytes(), "little")
    if row.effect == "seld":
        _write_e(s, target, value)
    else:
        s.write_x(
            target, sign_extend(value, 8 * row.bytes) if row.effect in ("lb", "lh") else value
        )


@effect("sb", "sh", "sw")
def _store(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    source, offset, base = ops
    value = s.x[source] & ((1 << (8 * row.bytes)) - 1)
    if s.compat and row.bytes > 1 and value >> (8 * row.bytes - 1):
        raise MachineFault("illegal", f"{row.mnemonic} of {value:#x}: the public model rejects it")
    start = s.address(base, sign_extend(offset, 12))
    start = checked_range(s, s.vmem, start, row.bytes, row.bytes)
    s.vmem.write(start, np.frombuffer(value.to_bytes(row.bytes, "little"), np.uint8))


def tensor_address(s: State, ops: tuple[int, ...]) -> int:
    return s.address(ops[2], ROW_BYTES * (ops[1] & 0xFFF))


@effect("vload")
def _vload(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    start = checked_range(s, s.vmem, tensor_address(s, ops), 1024, ROW_BYTES)
    s.m[ops[0]] = s.vmem.read(start, 1024)


@effect("vstore")
def _vstore(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    start = checked_range(s, s.vmem, tensor_address(s, ops), 1024, ROW_BYTES)
    s.vmem.write(start, s.m[ops[0]])


@effect("dma.load", "dma.store")
def _transfer(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    vmem, dram = (ops[0], ops[1]) if row.effect == "dma.load" else (ops[1], ops[0])
    count = s.x[ops[2]]
    limit = s.profile.dma.max_bytes
    if limit and count > limit:
        raise MachineFault("bounds", f"a transfer of {count} bytes exceeds the {limit} allowed")
    accident = s.compat and s.profile.accidents.zero_byte_store_faults
    if accident and count == 0 and row.effect == "dma.store":
        raise MachineFault("bounds", "the public model rejects a store of 0 bytes")
    inside = checked_range(s, s.vmem, s.x[vmem], count, ROW_BYTES)
    outside = checked_range(s, s.dram, (s.dma_base << 32) + s.x[dram], count, ROW_BYTES)
    if row.effect == "dma.load":
        s.vmem.write(inside, s.dram.read(outside, count))
    else:
        s.dram.write(outside, s.vmem.read(inside, count))


@effect("dma.config")
def _config(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.dma_base = s.x[ops[0]] & M32


@effect("dma.wait")
def _wait(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    return None


# --- matrix units ---------------------------------------------------------------------


def _unit(row: Opcode) -> int:
    assert row.mxu is not None
    return row.mxu


@effect("vmatpush.weight")
def _push_weight(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.w[_unit(row), ops[0]] = s.m[ops[1]]


@effect("vmatpush.acc.fp8")
def _push_fp8(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.acc[_unit(row), ops[0]] = arith.f32_to_bf16(arith.fp8_to_f32(s.bytes_of(ops[1])))


@effect("vmatpush.acc.bf16")
def _push_bf16(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.acc[_unit(row), ops[0]] = s.tile(ops[1], 2)


@effect("vmatpop.bf16.acc")
def _pop_bf16(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.write_tile(ops[0], s.acc[_unit(row), ops[1]])


@effect("vmatpop.fp8.acc")
def _pop_fp8(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    tile = s.acc[_unit(row), ops[1]]
    if s.profile.pop_fp8 == "divide":
        codes = arith.truncate_to_fp8(tile, int(s.e[ops[2]]))
    else:
        codes = arith.bf16_to_fp8(tile)
    s.m[ops[0]] = codes.reshape(-1)


@effect("vmatmul", "vmatmul.acc")
def _matmul(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    unit = _unit(row)
    previous = s.acc[unit, ops[0]] if row.effect == "vmatmul.acc" else None
    weights = s.w[unit, ops[2]].reshape(32, 32)
    s.acc[unit, ops[0]] = arith.matmul(s.bytes_of(ops[1]), weights, previous)


# --- vector unit ----------------------------------------------------------------------

_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "vadd.bf16": arith.add,
    "vsub.bf16": arith.subtract,
    "vmul.bf16": arith.multiply,
    "vminimum.bf16": lambda a, b: arith.extreme(a, b, larger=False),
    "vmaximum.bf16": lambda a, b: arith.extreme(a, b, larger=True),
}


@effect(*_BINARY)
def _vector_binary(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    n = s.profile.tile_registers
    s.write_tile(ops[0], _BINARY[row.effect](s.tile(ops[1], n), s.tile(ops[2], n)))


_UNARY: dict[str, Callable[[State, np.ndarray], np.ndarray]] = {
    "vrelu.bf16": lambda s, a: arith.relu(a),
    "vsquare.bf16": lambda s, a: arith.multiply(a, a),
    "vcube.bf16": lambda s, a: arith.multiply(arith.multiply(a, a), a),
    "vredsum.bf16": lambda s, a: arith.column_sum(a, s.profile.column_sum),
    "vredmin.bf16": lambda s, a: arith.reduce_extreme(a, 0, larger=False),
    "vredmax.bf16": lambda s, a: arith.reduce_extreme(a, 0, larger=True),
    "vredsum.row.bf16": lambda s, a: arith.row_sum(a, s.profile.row_sum),
    "vredmin.row.bf16": lambda s, a: arith.reduce_extreme(a, 1, larger=False),
    "vredmax.row.bf16": lambda s, a: arith.reduce_extreme(a, 1, larger=True),
}
for _name in ("vrecip", "vexp", "vexp2", "vsin", "vcos", "vtanh", "vlog2", "vsqrt"):
    _UNARY[f"{_name}.bf16"] = lambda s, a, name=_name: arith.unary_table(name)[a]


@effect(*_UNARY)
def _vector_unary(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.write_tile(ops[0], _UNARY[row.effect](s, s.tile(ops[1], s.profile.tile_registers)))


@effect("vmov")
def _vmov(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.m[ops[0]] = s.m[ops[1]]


@effect("vpack.bf16.fp8")
def _vpack(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.m[ops[0]] = arith.pack(s.tile(ops[1], 2), int(s.e[ops[2]])).reshape(-1)


@effect("vunpack.fp8.bf16")
def _vunpack(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.write_tile(ops[0], arith.unpack(s.bytes_of(ops[1]), int(s.e[ops[2]])))


@effect("vtrpose.xlu")
def _vtrpose(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    s.m[ops[0]] = s.bytes_of(ops[1]).T.copy().reshape(-1)


@effect("vli.all", "vli.row", "vli.col", "vli.one")
def _fill(s: State, row: Opcode, ops: tuple[int, ...], site: Site) -> None:
    target, immediate = ops
    if row.effect == "vli.all" and s.profile.fill == "bits":
        pattern = immediate & 0xFFFF
    else:
        pattern = arith.integer_to_bf16(immediate)
    tile = np.zeros((32, 16), np.uint16)
    match row.effect:
        case "vli.all":
            tile[:] = pattern
        case "vli.row":
            tile[0, :] = pattern
        case "vli.col":
            tile[:, 0] = pattern
        case _:
            tile[0, 0] = pattern
    s.write_tile(target, tile)


_missing = [row.mnemonic for row in OPCODES if row.effect not in EFFECTS]
assert not _missing, f"instructions without semantics: {_missing}"
