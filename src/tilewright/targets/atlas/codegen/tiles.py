"""Operations on 32x32 tiles in registers, as virtual instructions of one profile.

A bf16 tile is a pair of tensor registers, an fp8 tile one. Where the vector unit works on
whole pairs an operation is one instruction, where it works on single registers it is one per
half; row reductions then combine the halves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.targets.atlas.codegen.virtual import REGISTER_BYTES, Code, Place, Register

SIDE = 32


@dataclass(frozen=True, slots=True)
class Tile:
    """A 32x32 tile in registers."""

    register: Register
    dtype: str  # "bf16" or "fp8"

    @property
    def parts(self) -> int:
        """Tensor registers the tile fills; an fp8 tile may sit in the first of a pair."""
        return 2 if self.dtype == "bf16" else 1


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A sum of products in a matrix unit."""

    register: Register
    unit: int


def bf16_bits(value: float) -> int:
    """The bf16 pattern nearest to a number, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:
        return 0x7FC0
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


class Tiles:
    """Emits tile operations into virtual code."""

    def __init__(self, code: Code, constants: Callable[[float], Tile] | None = None) -> None:
        self.code = code
        self.profile = code.profile
        self._make_constant = constants or self.fill
        self._constants: dict[float, Tile] = {}
        self._pushed: dict[int, list[tuple[Tile, Register]]] = {}
        self._kept: list[Tile] = []  # tiles whose weight slot is theirs for good

    # --- registers and memory ---

    def new(self, dtype: str = "bf16") -> Tile:
        return Tile(self.code.tile() if dtype == "bf16" else self.code.half(), dtype)

    def load(self, at: int | Place, dtype: str = "bf16", pair: bool = False) -> Tile:
        """A tile from VMEM: fp8 row by row, bf16 as its left and right half.

        With `pair`, an fp8 tile gets a register pair, as the transpose wants.
        """
        tile = Tile(self.code.tile(), dtype) if pair else self.new(dtype)
        for part in range(tile.parts):
            self.code.vload(tile.register.part(part), _shifted(at, part))
        return tile

    def store(self, tile: Tile, at: int | Place, bytes: int = 2048) -> None:
        """Tile to VMEM; with 1024 bytes only the left half of a bf16 tile."""
        for part in range(min(tile.parts, bytes // REGISTER_BYTES)):
            self.code.vstore(tile.register.part(part), _shifted(at, part))

    def constant(self, value: float) -> Tile:
        """A tile filled with one number, made once per piece of code."""
        if value not in self._constants:
            self._constants[value] = self._make_constant(value)
        return self._constants[value]

    def can_fill(self, value: float) -> bool:
        """Whether an instruction can make the constant; else it has to come from memory."""
        return self.profile.fill == "bits" or (value == int(value) and abs(value) <= 32767)

    def fill(self, value: float, into: Tile | None = None) -> Tile:
        """A tile filled by instructions."""
        if not self.can_fill(value):
            raise ValueError(f"this machine fills registers with integers only, not {value}")
        tile = into or self.new()
        immediate = bf16_bits(value) if self.profile.fill == "bits" else int(value)
        for part in range(2):
            self.code.emit("vli.all", tile.register.part(part), immediate)
        return tile

    def pinned_ones(self) -> Tile:
        """An fp8 tile of ones that keeps its weight slot."""
        tile = self.pack(self.constant(1.0))
        self._kept.append(tile)
        return tile

    # --- vector unit ---

    def _vector(self, mnemonic: str, *sources: Tile, into: Tile | None = None) -> Tile:
        result = into or self.new()
        for part in range(0, 2, self.profile.tile_registers):
            operands = [t.register.part(part) for t in (result, *sources)]
            self.code.emit(mnemonic, *operands)
        return result

    def unary(self, name: str, a: Tile, into: Tile | None = None) -> Tile:
        """exp, exp2, recip, sqrt, tanh, sin, cos, log2, relu."""
        return self._vector(f"v{name}.bf16", a, into=into)

    def add(self, a: Tile, b: Tile, into: Tile | None = None) -> Tile:
        return self._vector("vadd.bf16", a, b, into=into)

    def sub(self, a: Tile, b: Tile, into: Tile | None = None) -> Tile:
        return self._vector("vsub.bf16", a, b, into=into)

    def mul(self, a: Tile, b: Tile, into: Tile | None = None) -> Tile:
        return self._vector("vmul.bf16", a, b, into=into)

    def maximum(self, a: Tile, b: Tile, into: Tile | None = None) -> Tile:
        return self._vector("vmaximum.bf16", a, b, into=into)

    def minimum(self, a: Tile, b: Tile, into: Tile | None = None) -> Tile:
        return self._vector("vminimum.bf16", a, b, into=into)

    def square(self, a: Tile) -> Tile:
        if "square_cube" in self.profile.features:
            return self._vector("vsquare.bf16", a)
        return self.mul(a, a)

    def cube(self, a: Tile) -> Tile:
        if "square_cube" in self.profile.features:
            return self._vector("vcube.bf16", a)
        return self.mul(self.mul(a, a), a)

    def rows(self, kind: str, a: Tile) -> Tile:
        """sum, max or min of each row, in all its columns."""
        partial = self._vector(f"vred{kind}.row.bf16", a)
        if self.profile.tile_registers == 2:
            return partial
        combine = {"sum": "vadd.bf16", "max": "vmaximum.bf16", "min": "vminimum.bf16"}[kind]
        result = self.new()
        left, right = partial.register.part(0), partial.register.part(1)
        for part in range(2):
            self.code.emit(combine, result.register.part(part), left, right)
        return result

    def columns(self, kind: str, a: Tile) -> Tile:
        """sum, max or min of each column, in all its rows."""
        return self._vector(f"vred{kind}.bf16", a)

    def move(self, a: Tile) -> Tile:
        result = self.new(a.dtype)
        for part in range(a.parts):
            self.code.emit("vmov", result.register.part(part), a.register.part(part))
        return result

    def pack(self, a: Tile, scale: int | None = None) -> Tile:
        """fp8 of a times an integer scale, by default the unit scale."""
        result = self.new("fp8")
        code = self.profile.unit_scale if scale is None else scale
        self.code.emit("vpack.bf16.fp8", result.register, a.register, self.code.scale(code))
        return result

    def unpack(self, a: Tile, scale: int | None = None) -> Tile:
        result = self.new()
        code = self.profile.unit_scale if scale is None else scale
        self.code.emit("vunpack.fp8.bf16", result.register, a.register, self.code.scale(code))
        return result

    def transpose(self, a: Tile) -> Tile:
        """Transpose of an fp8 tile.

        The transpose holds register pairs though it touches single registers, so both
        operands sit in pairs; `load` with room for a pair saves the copy.
        """
        source = a.register
        if source.size == 1:
            source = self.code.tile()
            self.code.emit("vmov", source.part(0), a.register)
        target = self.code.tile()
        self.code.emit("vtrpose.xlu", target.part(0), source.part(0))
        return Tile(target, "fp8")

    # --- matrix units ---

    def weight(self, b: Tile, unit: int) -> Register:
        """The tile in a weight slot; one pushed just before is used again."""
        recent = self._pushed.setdefault(unit, [])
        for tile, slot in recent:
            if tile is b:
                return slot
        slot = self.code.weight(unit)
        self.code.emit(f"vmatpush.weight.mxu{unit}", slot, b.register)
        # A unit has two slots: an older one may not be around any more.
        kept = [entry for entry in recent if any(entry[0] is tile for tile in self._kept)]
        others = [entry for entry in recent if entry not in kept]
        room = 1 - len(kept)
        self._pushed[unit] = [*kept, *(others[-room:] if room > 0 else []), (b, slot)]
        return slot

    def accumulator(self, unit: int = 1) -> Accumulator:
        return Accumulator(self.code.accumulator(unit), unit)

    def multiply(self, acc: Accumulator, a: Tile, weight: Register, first: bool) -> None:
        """acc = a @ weight, or acc += a @ weight."""
        name = "vmatmul" if first else "vmatmul.acc"
        self.code.emit(f"{name}.mxu{acc.unit}", acc.register, a.register, weight)

    def preset(self, acc: Accumulator, a: Tile) -> None:
        """acc = a."""
        kind = "bf16" if a.dtype == "bf16" else "fp8"
        self.code.emit(f"vmatpush.acc.{kind}.mxu{acc.unit}", acc.register, a.register)

    def pop(self, acc: Accumulator) -> Tile:
        result = self.new()
        self.code.emit(f"vmatpop.bf16.acc.mxu{acc.unit}", result.register, acc.register)
        return result


def _shifted(at: int | Place, part: int) -> int | Place:
    if isinstance(at, Place):
        return Place(at.pointer, at.buffer, at.offset + part * REGISTER_BYTES)
    return at + part * REGISTER_BYTES
