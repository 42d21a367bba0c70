"""The Atlas instruction set: one table that everything else is derived from.

A row says how an instruction is written, encoded, timed (by naming a timing class that
a profile maps to a unit and a latency), what it touches and what it does. Assembler,
encoder, lint, scheduler, both simulators and the ISA pages in the documentation read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from tilewright.targets.atlas.bitfields import FORMATS, Immediate, immediates


class Kind(Enum):
    """What an operand names."""

    X = "x"  # scalar register
    E = "e"  # scale register
    M = "m"  # tensor register
    W = "w"  # weight slot of a matrix unit
    ACC = "acc"  # accumulator of a matrix unit
    IMM = "imm"  # number

    __hash__ = object.__hash__  # one object per kind; the default goes through the name


REGISTER_COUNT = {Kind.X: 32, Kind.E: 32, Kind.M: 64, Kind.W: 2, Kind.ACC: 2}


class Span(Enum):
    """How many consecutive tensor registers an operand covers."""

    ONE = "one"  # one register
    TWO = "two"  # a pair, on every profile
    TILE = "tile"  # the registers of one bf16 vector operand: profile.tile_registers


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: its key in the text form, the bit field it occupies, how it is used."""

    key: str
    kind: Kind
    field: str
    access: str  # "r", "w", "rw", or "" for a number
    span: Span = Span.ONE
    # Registers held against other units; only the transpose holds more than it touches.
    footprint: Span | None = None
    immediate: Immediate | None = None

    @property
    def reads(self) -> bool:
        return "r" in self.access

    @property
    def writes(self) -> bool:
        return "w" in self.access


@dataclass(frozen=True)
class Opcode:
    """One row of the table."""

    mnemonic: str
    format: str
    fixed: dict[str, int]  # constant bit fields, the major opcode included
    operands: tuple[Operand, ...]  # in assembly order
    timing: str  # timing class, a key of Profile.timing
    effect: str  # which function of `semantics` runs it
    meaning: str  # one line for people
    record: str  # operand record of the text form: scalar, vector, matrix, dma
    feature: str | None = None  # only on profiles that have this feature
    memory: str | None = None  # "scalar load", "tensor store", "dma load", …
    bytes: int = 0  # of a scalar or tensor memory access
    mxu: int | None = None  # which matrix unit
    # Field names of operands that differ on profiles whose fp8 pop does not scale.
    index: int = field(default=-1, compare=False)

    @cached_property
    def is_transfer(self) -> bool:
        """Whether this can redirect the instruction stream."""
        return self.timing == "branch"

    @cached_property
    def is_conditional(self) -> bool:
        return self.is_transfer and self.mnemonic.startswith("b")

    @cached_property
    def has_channel(self) -> bool:
        return self.record == "dma"

    @cached_property
    def syntax(self) -> str:
        """How to write it, e.g. `vload mD, imm(xA)`."""
        mnemonic = self.mnemonic + (".ch<K>" if self.has_channel else "")
        shown = [o for o in self.operands if o.key != "channel"]
        if self.memory and not self.has_channel:
            data, _, address = shown
            return f"{mnemonic} {_symbol(data)}, imm({_symbol(address)})"
        return " ".join([mnemonic, ", ".join(_symbol(o) for o in shown)]).strip()

    def operand(self, key: str) -> Operand:
        return next(o for o in self.operands if o.key == key)

    def __hash__(self) -> int:
        return hash(self.mnemonic)


# What stands for a number in a syntax line, where its kind is not a good name.
_SHOWN = {
    "imm12": "imm", "shamt5": "shamt", "branch13": "target", "jump21": "target", "delay12": "N",
    "pattern16": "imm16", "integer16": "imm16", "csr12": "csr", "uimm5": "uimm",
}  # fmt: skip


def _symbol(operand: Operand) -> str:
    """A placeholder such as xD or imm in a syntax line."""
    if operand.immediate is not None:
        return _SHOWN.get(operand.immediate.name, operand.immediate.name)
    letter = {"rd": "D", "vd": "D", "rs1": "A", "vs1": "A", "rs2": "B", "vs2": "B", "es1": "K"}
    return operand.kind.value + letter[operand.key]


# --- building blocks of rows ---------------------------------------------------------


def _x(key: str, access: str) -> Operand:
    return Operand(key, Kind.X, key, access)


def _e(key: str, access: str, bits: str) -> Operand:
    return Operand(key, Kind.E, bits, access)


def _m(key: str, access: str, span: Span, bits: str | None = None) -> Operand:
    return Operand(key, Kind.M, bits or key, access, span)


def _slot(kind: Kind, key: str, access: str, bits: str | None = None) -> Operand:
    return Operand(key, kind, bits or key, access)


def _imm(name: str, key: str = "imm", bits: str = "imm") -> Operand:
    return Operand(key, Kind.IMM, bits, "", immediate=immediates[name])


_RD, _RS1, _RS2 = _x("rd", "w"), _x("rs1", "r"), _x("rs2", "r")
_CHANNEL = _imm("channel3", "channel", "funct3")


def _scalar(
    mnemonic: str,
    format: str,
    fixed: dict[str, int],
    operands: tuple[Operand, ...],
    meaning: str,
    timing: str = "scalar",
    **more: object,
) -> Opcode:
    return Opcode(
        mnemonic,
        format,
        fixed,
        operands,
        timing,
        mnemonic,
        meaning,
        "scalar",
        **more,  # type: ignore[arg-type]
    )


def _alu_immediate(mnemonic: str, funct3: int, meaning: str) -> Opcode:
    fixed = {"opcode": 0x13, "funct3": funct3}
    return _scalar(mnemonic, "I", fixed, (_RD, _RS1, _imm("imm12")), meaning)


def _shift_immediate(mnemonic: str, funct3: int, upper: int, meaning: str) -> Opcode:
    fixed = {"opcode": 0x13, "funct3": funct3, "imm[11:5]": upper}
    return _scalar(mnemonic, "I", fixed, (_RD, _RS1, _imm("shamt5", "imm", "imm[4:0]")), meaning)


def _alu(mnemonic: str, funct3: int, funct7: int, meaning: str) -> Opcode:
    fixed = {"opcode": 0x33, "funct3": funct3, "funct7": funct7}
    return _scalar(mnemonic, "R", fixed, (_RD, _RS1, _RS2), meaning)


def _branch(mnemonic: str, funct3: int, condition: str) -> Opcode:
    operands = (_RS1, _RS2, _imm("branch13"))
    meaning = f"if {condition}: go to own address + offset after the delay slots"
    return _scalar(mnemonic, "SB", {"opcode": 0x63, "funct3": funct3}, operands, meaning, "branch")


def _csr(mnemonic: str, funct3: int, meaning: str) -> Opcode:
    source = _RS1
    if mnemonic.endswith("i"):
        source = _imm("uimm5", "rs1", "rs1")
    operands = (_RD, source, _imm("csr12"))
    fixed = {"opcode": 0x73, "funct3": funct3}
    return _scalar(mnemonic, "CSR", fixed, operands, meaning, feature="csr")


def _load(mnemonic: str, funct3: int, size: int, meaning: str) -> Opcode:
    target = _e("rd", "w", "rd") if mnemonic == "seld" else _RD
    return _scalar(
        mnemonic,
        "I",
        {"opcode": 0x03, "funct3": funct3},
        (target, _imm("imm12"), _RS1),
        meaning,
        "scalar_load",
        memory="scalar load",
        bytes=size,
    )


def _store(mnemonic: str, funct3: int, size: int) -> Opcode:
    return _scalar(
        mnemonic,
        "S",
        {"opcode": 0x23, "funct3": funct3},
        (_RS2, _imm("imm12"), _RS1),
        f"VMEM[x[rs1] + sext12(imm)] = low {8 * size} bits of x[rs2]",
        "scalar_store",
        memory="scalar store",
        bytes=size,
    )


def _tensor_memory(mnemonic: str, funct2: int, access: str, meaning: str) -> Opcode:
    return Opcode(
        mnemonic,
        "VLS",
        {"opcode": 0x07, "funct2": funct2},
        (_m("vd", access, Span.ONE), _imm("row12", "imm12"), _RS1),
        "tensor_load" if access == "w" else "tensor_store",
        mnemonic,
        meaning,
        "vector",
        memory="tensor load" if access == "w" else "tensor store",
        bytes=1024,
    )


def _matrix(
    mxu: int, name: str, k: int, operands: tuple[Operand, ...], timing: str, meaning: str
) -> Opcode:
    return Opcode(
        f"{name}.mxu{mxu}",
        "VR",
        {"opcode": 0x77, "funct7": 2 * k + mxu},
        operands,
        timing,
        name,
        meaning.format(n=mxu),
        "matrix" if name.startswith("vmatmul") else "vector",
        mxu=mxu,
    )


def _matrix_unit(n: int) -> list[Opcode]:
    source, pair = _m("vs1", "r", Span.ONE), _m("vs1", "r", Span.TWO)
    weight = _slot(Kind.W, "vs2", "r")
    # The text form names the popped accumulator vs1; its bit field is vs2.
    popped = _slot(Kind.ACC, "vs1", "r", "vs2")
    acc = _slot(Kind.ACC, "vd", "w")
    return [
        _matrix(n, "vmatpush.weight", 0, (_slot(Kind.W, "vd", "w"), source), "push",
                "mxu{n}.w[vd] = bytes of m[vs1]"),
        _matrix(n, "vmatpush.acc.fp8", 1, (acc, source), "push",
                "mxu{n}.acc[vd] = fp8 tile m[vs1], widened to bf16"),
        _matrix(n, "vmatpush.acc.bf16", 2, (acc, pair), "push_wide",
                "mxu{n}.acc[vd] = bf16 tile (m[vs1], m[vs1+1])"),
        _matrix(n, "vmatpop.fp8.acc", 3,
                (_m("vd", "w", Span.ONE), popped, _e("es1", "r", "vs1")), "pop",
                "m[vd] = fp8 of mxu{n}.acc[vs1], divided by e and truncated where the profile scales"),
        _matrix(n, "vmatpop.bf16.acc", 4, (_m("vd", "w", Span.TWO), popped), "pop_wide",
                "(m[vd], m[vd+1]) = mxu{n}.acc[vs1]"),
        _matrix(n, "vmatmul", 5, (acc, source, weight), f"matmul_mxu{n}",
                "mxu{n}.acc[vd] = fp8 m[vs1] @ mxu{n}.w[vs2]"),
        _matrix(n, "vmatmul.acc", 6, (_slot(Kind.ACC, "vd", "rw"), source, weight),
                f"matmul_mxu{n}", "mxu{n}.acc[vd] += fp8 m[vs1] @ mxu{n}.w[vs2]"),
    ]  # fmt: skip


def _vector(
    mnemonic: str,
    funct7: int,
    operands: tuple[Operand, ...],
    timing: str,
    meaning: str,
    feature: str | None = None,
) -> Opcode:
    fixed = {"opcode": 0x57, "funct7": funct7}
    return Opcode(
        mnemonic, "VR", fixed, operands, timing, mnemonic, meaning, "vector", feature=feature
    )


_TILE_D = _m("vd", "w", Span.TILE)
_TILE_A = _m("vs1", "r", Span.TILE)
_TILE_B = _m("vs2", "r", Span.TILE)


def _binary(name: str, funct7: int, meaning: str) -> Opcode:
    return _vector(f"{name}.bf16", funct7, (_TILE_D, _TILE_A, _TILE_B), "vector", meaning)


def _unary(
    name: str, funct7: int, meaning: str, timing: str = "vector", feature: str | None = None
) -> Opcode:
    return _vector(f"{name}.bf16", funct7, (_TILE_D, _TILE_A), timing, meaning, feature)


def _fill(name: str, funct3: int, meaning: str) -> Opcode:
    immediate = "pattern16" if name == "vli.all" else "integer16"
    return Opcode(
        name,
        "VI",
        {"opcode": 0x5F, "funct3": funct3},
        (_m("vd", "w", Span.ONE), _imm(immediate)),
        "fill",
        name,
        meaning,
        "vector",
    )


def _dma(
    name: str, opcode: int, funct7: int, operands: tuple[Operand, ...], timing: str, meaning: str
) -> Opcode:
    fixed = {"opcode": opcode, "funct7": funct7}
    memory = {"dma.load": "dma load", "dma.store": "dma store"}.get(name)
    return Opcode(
        name, "R", fixed, (*operands, _CHANNEL), timing, name, meaning, "dma", memory=memory
    )


# --- the table ------------------------------------------------------------------------

_ROWS: list[Opcode] = [
    _alu_immediate("addi", 0, "x[rd] = x[rs1] + sext12(imm)"),
    _alu_immediate("slti", 2, "x[rd] = x[rs1] < sext12(imm), signed"),
    _alu_immediate("sltiu", 3, "x[rd] = x[rs1] < sext12(imm), unsigned"),
    _alu_immediate("xori", 4, "x[rd] = x[rs1] xor sext12(imm)"),
    _alu_immediate("ori", 6, "x[rd] = x[rs1] or sext12(imm)"),
    _alu_immediate("andi", 7, "x[rd] = x[rs1] and sext12(imm)"),
    _shift_immediate("slli", 1, 0x00, "x[rd] = x[rs1] << shamt"),
    _shift_immediate("srli", 5, 0x00, "x[rd] = x[rs1] >> shamt, zeros in"),
    _shift_immediate("srai", 5, 0x20, "x[rd] = x[rs1] >> shamt, sign in"),
    _alu("add", 0, 0x00, "x[rd] = x[rs1] + x[rs2]"),
    _alu("sub", 0, 0x20, "x[rd] = x[rs1] - x[rs2]"),
    _alu("sll", 1, 0x00, "x[rd] = x[rs1] << x[rs2][4:0]"),
    _alu("slt", 2, 0x00, "x[rd] = x[rs1] < x[rs2], signed"),
    _alu("sltu", 3, 0x00, "x[rd] = x[rs1] < x[rs2], unsigned"),
    _alu("xor", 4, 0x00, "x[rd] = x[rs1] xor x[rs2]"),
    _alu("srl", 5, 0x00, "x[rd] = x[rs1] >> x[rs2][4:0], zeros in"),
    _alu("sra", 5, 0x20, "x[rd] = x[rs1] >> x[rs2][4:0], sign in"),
    _alu("or", 6, 0x00, "x[rd] = x[rs1] or x[rs2]"),
    _alu("and", 7, 0x00, "x[rd] = x[rs1] and x[rs2]"),
    _scalar("lui", "U", {"opcode": 0x37}, (_RD, _imm("imm20")), "x[rd] = imm << 12"),
    _scalar("auipc", "U", {"opcode": 0x17}, (_RD, _imm("imm20")),
            "x[rd] = (imm << 12) + own address"),
    _branch("beq", 0, "x[rs1] == x[rs2]"),
    _branch("bne", 1, "x[rs1] != x[rs2]"),
    _branch("blt", 4, "x[rs1] < x[rs2], signed"),
    _branch("bge", 5, "x[rs1] >= x[rs2], signed"),
    _branch("bltu", 6, "x[rs1] < x[rs2], unsigned"),
    _branch("bgeu", 7, "x[rs1] >= x[rs2], unsigned"),
    _scalar("jal", "UJ", {"opcode": 0x6F}, (_RD, _imm("jump21")),
            "x[rd] = address of the first delay slot; go to own address + offset", "branch"),
    _scalar("jalr", "I", {"opcode": 0x67, "funct3": 0}, (_RD, _RS1, _imm("imm12")),
            "x[rd] = address of the first delay slot; go to x[rs1] + offset", "branch"),
    _scalar("delay", "I", {"opcode": 0x67, "funct3": 1, "rs1": 0, "rd": 0}, (_imm("delay12"),),
            "hold decode for N more ticks, then do nothing", "delay"),
    _scalar("seli", "I", {"opcode": 0x03, "funct3": 7, "rs1": 0},
            (_e("rd", "w", "rd"), _imm("imm12")), "e[rd] = imm[7:0]"),
    _csr("csrrw", 1, "x[rd] = csr; csr = x[rs1]"),
    _csr("csrrs", 2, "x[rd] = csr; csr = csr or x[rs1]"),
    _csr("csrrc", 3, "x[rd] = csr; csr = csr and not x[rs1]"),
    _csr("csrrwi", 5, "x[rd] = csr; csr = uimm"),
    _csr("csrrsi", 6, "x[rd] = csr; csr = csr or uimm"),
    _csr("csrrci", 7, "x[rd] = csr; csr = csr and not uimm"),
    _scalar("ecall", "I", {"opcode": 0x73, "funct3": 0, "imm[11:0]": 0, "rs1": 0, "rd": 0}, (),
            "halt, where the profile halts"),
    _scalar("ebreak", "I", {"opcode": 0x73, "funct3": 0, "imm[11:0]": 1, "rs1": 0, "rd": 0}, (),
            "halt, where the profile halts"),
    _scalar("fence", "I", {"opcode": 0x0F, "funct3": 0, "imm[11:0]": 0, "rs1": 0, "rd": 0}, (),
            "nothing"),
    _load("lb", 0, 1, "x[rd] = signed byte at VMEM[x[rs1] + sext12(imm)]"),
    _load("lh", 1, 2, "x[rd] = signed half at VMEM[x[rs1] + sext12(imm)]"),
    _load("lw", 2, 4, "x[rd] = word at VMEM[x[rs1] + sext12(imm)]"),
    _load("lbu", 4, 1, "x[rd] = unsigned byte at VMEM[x[rs1] + sext12(imm)]"),
    _load("lhu", 5, 2, "x[rd] = unsigned half at VMEM[x[rs1] + sext12(imm)]"),
    _load("seld", 6, 1, "e[rd] = byte at VMEM[x[rs1] + sext12(imm)]"),
    _store("sb", 0, 1),
    _store("sh", 1, 2),
    _store("sw", 2, 4),
    _tensor_memory("vload", 0, "w", "m[vd] = 1024 bytes at VMEM[x[rs1] + 32*imm]"),
    _tensor_memory("vstore", 1, "r", "1024 bytes at VMEM[x[rs1] + 32*imm] = m[vd]"),
    *_matrix_unit(0),
    *_matrix_unit(1),
    _binary("vadd", 0x00, "a + b per element"),
    _binary("vsub", 0x02, "a - b per element"),
    _binary("vmul", 0x03, "a * b per element"),
    _binary("vminimum", 0x04, "smaller of a and b per element, NaN if either is"),
    _binary("vmaximum", 0x06, "larger of a and b per element, NaN if either is"),
    _unary("vredsum", 0x01, "sum of each column, in all rows", "reduce_columns"),
    _unary("vredmin", 0x05, "minimum of each column, in all rows", "reduce_columns"),
    _unary("vredmax", 0x07, "maximum of each column, in all rows", "reduce_columns"),
    _unary("vredsum.row", 0x21, "sum of each row, in all columns", "sum_rows"),
    _unary("vredmin.row", 0x24, "minimum of each row, in all columns", "extreme_rows"),
    _unary("vredmax.row", 0x26, "maximum of each row, in all columns", "extreme_rows"),
    _vector("vmov", 0x40, (_m("vd", "w", Span.ONE), _m("vs1", "r", Span.ONE)), "vector",
            "copy of one register, raw"),
    _unary("vrecip", 0x41, "1 / a per element"),
    _unary("vexp", 0x42, "e to the a per element"),
    _unary("vexp2", 0x43, "2 to the a per element"),
    _vector("vpack.bf16.fp8", 0x44,
            (_m("vd", "w", Span.ONE), _m("vs1", "r", Span.TWO, "vs2"), _e("es1", "r", "vs1")),
            "vector", "m[vd] = fp8 of the bf16 tile times e"),
    _vector("vunpack.fp8.bf16", 0x45,
            (_m("vd", "w", Span.TWO), _m("vs1", "r", Span.ONE, "vs2"), _e("es1", "r", "vs1")),
            "vector", "(m[vd], m[vd+1]) = bf16 of the fp8 tile divided by e"),
    _unary("vrelu", 0x48, "a if a > 0, else 0, per element; -0 and NaN stay"),
    _unary("vsin", 0x49, "sin a per element"),
    _unary("vcos", 0x4A, "cos a per element"),
    _unary("vtanh", 0x4B, "tanh a per element"),
    _unary("vlog2", 0x4C, "log2 a per element"),
    _unary("vsqrt", 0x4D, "square root of a per element"),
    _unary("vsquare", 0x4E, "a * a per element", feature="square_cube"),
    _unary("vcube", 0x4F, "(a * a) * a per element, rounded twice", feature="square_cube"),
    _fill("vli.all", 0, "every element of one register = imm (bits or integer, by profile)"),
    _fill("vli.row", 1, "row 0 = integer imm, other elements 0"),
    _fill("vli.col", 2, "column 0 = integer imm, other elements 0"),
    _fill("vli.one", 3, "element (0, 0) = integer imm, other elements 0"),
    Opcode("vtrpose.xlu", "VR", {"opcode": 0x6B, "funct7": 0},
           (Operand("vd", Kind.M, "vd", "w", Span.ONE, footprint=Span.TILE),
            Operand("vs1", Kind.M, "vs1", "r", Span.ONE, footprint=Span.TILE)),
           "vector", "vtrpose.xlu", "transpose of a 32x32 byte tile", "vector"),
    _dma("dma.load", 0x7B, 0, (_x("rd", "r"), _RS1, _RS2), "dma_transfer",
         "VMEM[x[rd]…] = DRAM[{base, x[rs1]}…], x[rs2] bytes"),
    _dma("dma.store", 0x7B, 1, (_x("rd", "r"), _RS1, _RS2), "dma_transfer",
         "DRAM[{base, x[rd]}…] = VMEM[x[rs1]…], x[rs2] bytes"),
    _dma("dma.config", 0x7F, 0, (_RS1,), "dma_config", "dma.base = x[rs1], in queue order"),
    _dma("dma.wait", 0x7F, 1, (), "dma_wait", "hold decode until the channel is idle"),
]  # fmt: skip

OPCODES: tuple[Opcode, ...] = tuple(_ROWS)
for _index, _row in enumerate(OPCODES):
    object.__setattr__(_row, "index", _index)

BY_MNEMONIC: dict[str, Opcode] = {row.mnemonic: row for row in OPCODES}
MAX_OPERANDS = max(len(row.operands) for row in OPCODES)

# Keys of each operand record of the text form, in the order they are printed.
RECORD_KEYS: dict[str, tuple[str, ...]] = {
    "scalar": ("rd", "rs1", "rs2", "imm"),
    "vector": ("vd", "vs1", "vs2", "rs1", "rs2", "es1", "base", "offset", "imm12", "imm"),
    "matrix": ("vd", "vs1", "vs2", "rd", "rs1", "rs2"),
    "dma": ("rd", "rs1", "rs2", "size", "channel"),
}

__all__ = [
    "BY_MNEMONIC",
    "FORMATS",
    "MAX_OPERANDS",
    "OPCODES",
    "RECORD_KEYS",
    "REGISTER_COUNT",
    "Kind",
    "Opcode",
    "Operand",
    "Span",
]
