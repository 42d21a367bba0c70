"""Virtual code: instructions of the table over virtual registers, in program order.

The order says what the code means; when each instruction issues, which registers and DMA
channels it gets and where waits and delays go is decided later. Memory operands name byte
ranges of VMEM and DRAM; the scalar registers that hold addresses are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.targets.atlas.isa import BY_MNEMONIC, Kind, Opcode
from tilewright.targets.atlas.profile import Profile

ROW = 32  # bytes; tensor addresses count rows
REGISTER_BYTES = 1024
# Reach of a tensor address above its base register.
WINDOW = 4096 * ROW


@dataclass(eq=False, slots=True)
class Register:
    """A virtual register.

    kind: m (one or two tensor registers), w or acc (of one matrix unit), x or e (constants).
    """

    kind: Kind
    size: int = 1
    unit: int | None = None  # matrix unit of w and acc
    constant: int | None = None  # value of x and e
    name: str = ""

    def part(self, index: int) -> Part:
        """One tensor register of a pair."""
        if not 0 <= index < self.size:
            raise ValueError(f"register {self.name or self.kind} has no part {index}")
        return Part(self, index)


@dataclass(frozen=True, slots=True)
class Part:
    """A virtual register from its `index`-th tensor register on."""

    register: Register
    index: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a memory that an instruction reads or writes."""

    space: str  # vmem, dram
    start: int
    bytes: int
    write: bool

    def overlaps(self, other: Range) -> bool:
        return (
            self.space == other.space
            and self.start < other.start + other.bytes
            and other.start < self.start + self.bytes
        )


@dataclass(eq=False, slots=True)
class Op:
    """One virtual instruction; operands as in the table, registers in place of numbers."""

    opcode: Opcode
    operands: tuple[Part | int, ...]
    ranges: tuple[Range, ...] = ()
    order: int = 0
    source: str = ""  # where the author wrote it
    waits_for: Op | None = None  # dma.wait: the transfer

    @property
    def bytes(self) -> int:
        """Size of a DMA transfer."""
        return self.ranges[0].bytes

    def registers(self) -> Iterator[tuple[Part, int, bool, bool]]:
        """(first part, how many, reads, writes) of each register operand, by the table's spans.

        Spans of bf16 vector operands depend on the profile and are resolved by the caller.
        """
        for operand, value in zip(self.opcode.operands, self.operands, strict=True):
            if isinstance(value, Part):
                yield value, 1, operand.reads, operand.writes


@dataclass
class Code:
    """A straight piece of virtual code under construction."""

    profile: Profile
    ops: list[Op] = field(default_factory=list)
    source: str = ""  # stamped on the ops made next
    _constants: dict[tuple[Kind, int], Register] = field(default_factory=dict)

    def tile(self, name: str = "") -> Register:
        """A pair of tensor registers: one bf16 tile."""
        return Register(Kind.M, 2, name=name)

    def half(self, name: str = "") -> Register:
        """One tensor register: an fp8 tile, or half a bf16 tile."""
        return Register(Kind.M, 1, name=name)

    def weight(self, unit: int) -> Register:
        return Register(Kind.W, 1, unit)

    def accumulator(self, unit: int) -> Register:
        return Register(Kind.ACC, 1, unit)

    def constant(self, kind: Kind, value: int) -> Register:
        """The scalar or scale register that holds a constant; equal constants share one."""
        key = (kind, value)
        if key not in self._constants:
            self._constants[key] = Register(kind, 1, constant=value)
        return self._constants[key]

    def emit(self, mnemonic: str, *operands: Register | Part | int, ranges: tuple[Range, ...] = ()):
        """Append an instruction; a register stands for its first part."""
        parts = tuple(Part(o) if isinstance(o, Register) else o for o in operands)
        opcode = BY_MNEMONIC[mnemonic]
        if len(parts) != len(opcode.operands):
            raise ValueError(f"{mnemonic} takes {len(opcode.operands)} operands")
        op = Op(opcode, parts, ranges, len(self.ops), self.source)
        self.ops.append(op)
        return op

    def scale(self, value: int) -> Register:
        return self.constant(Kind.E, value)

    # --- memory ---

    def _base(self, address: int) -> tuple[Register, int]:
        """A base register and row offset that reach a VMEM address."""
        window = address // WINDOW * WINDOW
        return self.constant(Kind.X, window), (address - window) // ROW

    def vload(self, target: Register | Part, address: int) -> Op:
        base, rows = self._base(address)
        touched = (Range("vmem", address, REGISTER_BYTES, False),)
        return self.emit("vload", target, rows, base, ranges=touched)

    def vstore(self, source: Register | Part, address: int) -> Op:
        base, rows = self._base(address)
        touched = (Range("vmem", address, REGISTER_BYTES, True),)
        return self.emit("vstore", source, rows, base, ranges=touched)

    def dma_load(self, vmem: int, dram: int, count: int) -> Op:
        """Start a transfer; readers of the bytes wait for it by themselves."""
        x = [self.constant(Kind.X, v) for v in (vmem, dram, count)]
        touched = (Range("vmem", vmem, count, True), Range("dram", dram, count, False))
        return self.emit("dma.load", *x, 0, ranges=touched)

    def dma_store(self, dram: int, vmem: int, count: int) -> Op:
        x = [self.constant(Kind.X, v) for v in (dram, vmem, count)]
        touched = (Range("vmem", vmem, count, False), Range("dram", dram, count, True))
        return self.emit("dma.store", *x, 0, ranges=touched)
