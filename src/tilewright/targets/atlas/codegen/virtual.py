"""Virtual code: instructions of the table over virtual registers, in program order.

The order says what the code means; when each instruction issues, which registers and DMA
channels it gets and where waits and delays go is decided later. Memory operands name byte
ranges of VMEM and DRAM; the scalar registers that hold addresses are made from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from tilewright.targets.atlas.isa import BY_MNEMONIC, Kind, Opcode
from tilewright.targets.atlas.profile import Profile

ROW = 32  # bytes; tensor addresses count rows
REGISTER_BYTES = 1024
# Reach of a tensor address above its base register.
WINDOW = 4096 * ROW
ALL = 1 << 40  # more bytes than any buffer has
RESIDENT = "resident"  # how names of tensors that stay in VMEM start
CHANGING = f"{RESIDENT} changing"  # and of those that the same program reads and writes
WAW = "dram ordered"  # and of places in DRAM that are written more than once


class OutOfReach(ValueError):
    """An offset that tensor addresses cannot have."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"offset {offset} is out of a pointer's reach")
        self.offset = offset


@dataclass(eq=False, slots=True)
class Register:
    """A virtual register.

    kind: m (one or two tensor registers), w or acc (of one matrix unit), x or e. An x or e with
    a constant is made where it is needed; other x registers hold addresses computed from pointers.
    A carried register (every pointer, some tensor registers) keeps its place through a loop.
    """

    kind: Kind
    size: int = 1
    unit: int | None = None  # matrix unit of w and acc
    constant: int | None = None  # value of x and e
    carried: bool = False
    name: str = ""

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

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


@lru_cache(1024)
def changing_tensor(space: str) -> int:
    """The number of a tensor that the program reads and writes, of the name of its space."""
    return int(space.removeprefix(CHANGING).split()[0]) if space.startswith(CHANGING) else 0


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a memory that an instruction reads or writes.

    turn: the iteration of a loop, where instructions of two iterations share a piece of code.
    moving: the address differs between iterations, by `stride` bytes if that is known.
    """

    space: str  # vmem, dram
    start: int
    bytes: int
    write: bool
    turn: int = 0
    moving: bool = False
    stride: int = 0

    def overlaps(self, other: Range) -> bool:
        for kind in (CHANGING, WAW):
            if self.space.startswith(kind) and other.space.startswith(kind):
                alike = changing_tensor(self.space) == changing_tensor(other.space)
                return alike and self._may_overlap(other)
        if self.turn != other.turn and self.moving and other.moving:
            # What one iteration calls this buffer may be another buffer of the next.
            apart = ("dram", RESIDENT)
            outside = self.space.startswith(apart), other.space.startswith(apart)
            return self.space == other.space or outside == (False, False)
        return (
            self.space == other.space
            and self.start < other.start + other.bytes
            and other.start < self.start + self.bytes
        )

    def _may_overlap(self, other: Range) -> bool:
        """The same where bytes are written again: what is not known to be apart may be the same bytes."""
        if self.space != other.space:
            return True
        if self.turn == other.turn or not (self.moving or other.moving):
            return self.start < other.start + other.bytes and other.start < self.start + self.bytes
        if not self.stride or self.stride != other.stride:
            return True
        # Any number of iterations lies between both.
        now, then = (self, other) if self.turn < other.turn else (other, self)
        first = then.start + then.stride
        return first < now.start + now.bytes if now.stride > 0 else first + then.bytes > now.start


@dataclass(eq=False, slots=True)
class Site:
    """A transfer that a loop repeats on a channel of its own: wait, move the pointers, start."""

    channel: int
    store: bool
    vmem: Register  # pointers
    dram: Register
    bytes: int


@dataclass(eq=False, slots=True)
class Op:
    """One virtual instruction; operands as in the table, registers in place of numbers."""

    opcode: Opcode
    operands: tuple[Part | int, ...]
    ranges: tuple[Range, ...] = ()
    order: int = 0
    source: str = ""  # where the author wrote it
    site: Site | None = None  # of a repeated transfer and its waits
    # In code that mixes iterations: the instruction of the loop body, and how many iterations ahead.
    origin: tuple[Op, int] | None = None

    @property
    def bytes(self) -> int:
        """Size of a DMA transfer."""
        return self.site.bytes if self.site else self.ranges[0].bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes at a pointer plus a constant; `buffer` names what the pointer walks over.

    Places of different buffers never overlap; places of one buffer overlap by their offsets.
    The name of a DRAM buffer starts with "dram", that of a tensor in VMEM with RESIDENT.
    """

    pointer: Register
    buffer: str
    offset: int = 0


def shifted(at: int | Place, bytes: int) -> int | Place:
    """The place some bytes further on."""
    if isinstance(at, Place):
        return Place(at.pointer, at.buffer, at.offset + bytes)
    return at + bytes


NEXT = "next"  # source of loads for the next iteration, which a last one does without


@dataclass
class Code:
    """A straight piece of virtual code under construction."""

    profile: Profile
    ops: list[Op] = field(default_factory=list)
    source: str = ""  # stamped on the ops made next
    # Fills of half a tile, with the store and the load by which the other half is made.
    fills: dict[Op, tuple[Op, Op]] = field(default_factory=dict)
    # Tables by their addresses: what they are, their bytes, and the stores that make them.
    tables: dict[int, tuple[object, int, list[Op]]] = field(default_factory=dict)
    _constants: dict[tuple[Kind, int], Register] = field(default_factory=dict)
    _far: dict[tuple[Register, int], Register] = field(default_factory=dict)
    _zero: Register | None = None

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

    def emit(
        self, mnemonic: str, *operands: Register | Part | int, ranges: tuple[Range, ...] = ()
    ) -> Op:
        """Append an instruction; a register stands for its first part."""
        parts = tuple(Part(o) if isinstance(o, Register) else o for o in operands)
        opcode = BY_MNEMONIC[mnemonic]
        if len(parts) != len(opcode.operands):
            raise ValueError(f"{mnemonic} takes {len(opcode.operands)} operands")
        op = Op(opcode, parts, ranges, len(self.ops), self.source)
        self.ops.append(op)
        return op

    def zero(self) -> Register:
        """One tensor register of zeros, the same for all that are to be cleared."""
        if self._zero is None:
            self._zero = self.half()
            self.emit("vli.all", self._zero, 0)
        return self._zero

    def scale(self, value: int) -> Register:
        return self.constant(Kind.E, value)

    # --- memory ---

    def _base(self, address: int) -> tuple[Register, int]:
        """A base register and row offset that reach a VMEM address."""
        window = address // WINDOW * WINDOW
        return self.constant(Kind.X, window), (address - window) // ROW

    def vload(self, target: Register | Part, at: int | Place) -> Op:
        """Read one tensor register from VMEM."""
        base, rows, touched = self._tensor_place(at, write=False)
        return self.emit("vload", target, rows, base, ranges=(touched,))

    def vstore(self, source: Register | Part, at: int | Place) -> Op:
        """Write one tensor register to VMEM."""
        base, rows, touched = self._tensor_place(at, write=True)
        return self.emit("vstore", source, rows, base, ranges=(touched,))

    def _tensor_place(self, at: int | Place, write: bool) -> tuple[Register, int, Range]:
        if isinstance(at, Place):
            window = at.offset // WINDOW * WINDOW
            base = at.pointer
            if window:
                if (base, window) not in self._far:
                    self._far[base, window] = self.address(base, window)
                base = self._far[base, window]
            touched = Range(at.buffer, at.offset, REGISTER_BYTES, write)
            return base, (at.offset - window) // ROW, touched
        base, rows = self._base(at)
        return base, rows, Range("vmem", at, REGISTER_BYTES, write)

    def dma_load(self, vmem: int | Place, dram: int | Place, count: int) -> None:
        """Start a transfer, in pieces where the machine limits its length; readers of the bytes
        wait for it by themselves."""
        for at, piece in self._pieces(count):
            inside, held = self._byte_place("vmem", shifted(vmem, at), piece, write=True)
            outside, read = self._byte_place("dram", shifted(dram, at), piece, write=False)
            size = self.constant(Kind.X, piece)
            self.emit("dma.load", inside, outside, size, 0, ranges=(held, read))

    def dma_store(self, dram: int | Place, vmem: int | Place, count: int) -> None:
        """Start a transfer out, in pieces where the machine limits its length."""
        for at, piece in self._pieces(count):
            inside, held = self._byte_place("vmem", shifted(vmem, at), piece, write=False)
            outside, written = self._byte_place("dram", shifted(dram, at), piece, write=True)
            size = self.constant(Kind.X, piece)
            self.emit("dma.store", outside, inside, size, 0, ranges=(held, written))

    def _pieces(self, count: int) -> list[tuple[int, int]]:
        """(offset, bytes) of the transfers that move `count` bytes."""
        limit = self.profile.dma.max_bytes // ROW * ROW or count
        return [(at, min(limit, count - at)) for at in range(0, count, limit)]

    def _byte_place(
        self, space: str, at: int | Place, count: int, write: bool
    ) -> tuple[Register, Range]:
        """The register that holds the address, and the bytes."""
        if isinstance(at, int):
            return self.constant(Kind.X, at), Range(space, at, count, write)
        address = self.address(at.pointer, at.offset)
        return address, Range(at.buffer, at.offset, count, write)

    def address(self, pointer: Register, offset: int) -> Register:
        """A register with pointer + offset; the pointer may move afterwards."""
        result = Register(Kind.X)
        if -2048 <= offset <= 2047:
            self.emit("addi", result, pointer, offset)
        else:
            self.emit("add", result, pointer, self.constant(Kind.X, offset & 0xFFFFFFFF))
        return result

    # --- loops: pointers and repeated transfers ---

    def advance(self, pointer: Register, step: int) -> None:
        """pointer += step."""
        if not step:
            return
        self._forget(pointer)
        if -2048 <= step <= 2047:
            self.emit("addi", pointer, pointer, step)
        else:
            self.emit("add", pointer, pointer, self.constant(Kind.X, step & 0xFFFFFFFF))

    def toggle(self, pointer: Register, total: int) -> None:
        """Swap between two addresses that add up to `total`."""
        self._forget(pointer)
        self.emit("sub", pointer, self.constant(Kind.X, total), pointer)

    def _forget(self, pointer: Register) -> None:
        """Addresses computed from the pointer so far are of its old value."""
        self._far = {key: r for key, r in self._far.items() if key[0] is not pointer}

    def wait(self, site: Site, buffers: tuple[str, ...] = ()) -> Op:
        """Wait for the site's transfer of the iteration before; then its bytes are in `buffers`,
        its pointers may move and its channel is free."""
        ranges = tuple(Range(name, 0, ALL, True) for name in buffers)
        op = self.emit("dma.wait", site.channel, ranges=ranges)
        op.site = site
        return op

    def start(self, site: Site, buffer: str) -> Op:
        """Start the site's transfer from or into a buffer; no other transfer of the loop may
        touch its DRAM bytes."""
        count = self.constant(Kind.X, site.bytes)
        touched = (Range(buffer, 0, ALL, not site.store),)
        if site.store:
            op = self.emit("dma.store", site.dram, site.vmem, count, site.channel, ranges=touched)
        else:
            op = self.emit("dma.load", site.vmem, site.dram, count, site.channel, ranges=touched)
        op.site = site
        return op
