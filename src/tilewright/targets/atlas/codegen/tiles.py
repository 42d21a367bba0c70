"""Operations on 32x32 tiles in registers, as virtual instructions of one profile.

A bf16 tile is a pair of tensor registers, an fp8 tile one. Where the vector unit works on
whole pairs an operation is one instruction, where it works on single registers it is one per
half; row reductions then combine the halves.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.targets.atlas.codegen.virtual import (
    REGISTER_BYTES,
    Code,
    Part,
    Place,
    Register,
    shifted,
)

LARGEST_FILL = 32767  # integers a fill instruction takes


@dataclass(frozen=True, slots=True)
class Tile:
    """A 32x32 tile in registers."""

    register: Register
    dtype: str  # "bf16" or "fp8"
    uniform: bool = False  # both halves of a bf16 tile are equal and share one register

    def half(self, index: int) -> Part:
        """The register of one half."""
        return self.register.part(0 if self.uniform else index)

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


def _as_integers(value: float) -> tuple[int, ...] | None:
    """The bf16 constant as an integer divided by powers of two, all small enough to fill with.

    0.5 -> (1, 2); 1e-6 -> (268, 16384, 16384). Products and reciprocals of these are exact.
    """
    number = struct.unpack("<f", struct.pack("<I", bf16_bits(value) << 16))[0]
    if math.isfinite(number) and number == int(number) and abs(number) <= LARGEST_FILL:
        return (int(number),)
    if not math.isfinite(number):
        return None
    top, bottom = number.as_integer_ratio()
    if bottom <= 1 << 14:
        return (top, bottom) if abs(top) <= LARGEST_FILL else None
    if bottom <= 1 << 28 and abs(top) < 1 << 14:
        shift = 28 - (bottom.bit_length() - 1)
        return (top << shift, 1 << 14, 1 << 14) if abs(top << shift) <= LARGEST_FILL else None
    return None


class Tiles:
    """Emits tile operations into virtual code."""

    def __init__(self, code: Code, constants: Callable[[float], Tile] | None = None) -> None:
        self.code = code
        self.profile = code.profile
        self._make_constant = constants or self.fill
        self._constants: dict[float, Tile] = {}
        self._pushed: dict[int, list[tuple[Tile, Register]]] = {}
        self._kept: list[Tile] = []  # tiles whose weight slot is theirs for good
        self._ones: Tile | None = None
        self.paired = False  # fp8 results get a pair of registers, as the transpose wants

    # --- registers and memory ---

    def new(self, dtype: str = "bf16") -> Tile:
        return Tile(self.code.tile() if dtype == "bf16" else self.code.half(), dtype)

    def load(self, at: int | Place, dtype: str = "bf16", pair: bool = False) -> Tile:
        """A tile from VMEM: fp8 row by row, bf16 as its left and right half.

        With `pair`, an fp8 tile gets a register pair, as the transpose wants.
        """
        tile = Tile(self.code.tile(), dtype) if pair else self.new(dtype)
        for part in range(tile.parts):
            self.code.vload(tile.register.part(part), shifted(at, part * REGISTER_BYTES))
        return tile

    def load_half(self, at: int | Place) -> Tile:
        """A bf16 tile whose halves are equal, from the one half in VMEM."""
        tile = self._narrow()
        for part in range(1 if tile.uniform else 2):
            self.code.vload(tile.half(part), at)
        return tile

    def store(self, tile: Tile, at: int | Place, bytes: int = 2048) -> None:
        """Tile to VMEM; with 1024 bytes only the left half of a bf16 tile."""
        for part in range(min(tile.parts, bytes // REGISTER_BYTES)):
            self.code.vstore(tile.half(part), shifted(at, part * REGISTER_BYTES))

    def constant(self, value: float) -> Tile:
        """A tile filled with one number, made once per piece of code."""
        if value not in self._constants:
            self._constants[value] = self._make_constant(value)
        return self._constants[value]

    def can_fill(self, value: float) -> bool:
        """Whether instructions can make the constant; else it has to come from memory."""
        return self.profile.fill == "bits" or _as_integers(value) is not None

    def fill(self, value: float, into: Tile | None = None) -> Tile:
        """A tile filled by instructions."""
        tile = into or self._narrow()
        if self.profile.fill == "bits":
            for part in range(1 if tile.uniform else 2):
                self.code.emit("vli.all", tile.half(part), bf16_bits(value))
            return tile
        factors = _as_integers(value)
        if factors is None:
            raise ValueError(f"this machine cannot make the constant {value}")
        result = self._integer(factors[0]) if factors[0] != 1 or len(factors) == 1 else None
        for power in factors[1:]:
            inverse = self.unary("recip", self._integer(power))
            result = inverse if result is None else self.mul(result, inverse)
        assert result is not None
        if into is None:
            return result
        for part in range(2):
            self.code.emit("vmov", into.half(part), result.half(part))
        return into

    def _integer(self, value: int) -> Tile:
        tile = self._narrow()
        for part in range(1 if tile.uniform else 2):
            self.code.emit("vli.all", tile.half(part), value)
        return tile

    def _narrow(self) -> Tile:
        """A new tile that is the same in both halves, where the vector unit works on halves."""
        if self.profile.tile_registers == 2:
            return self.new()
        return Tile(self.code.half(), "bf16", uniform=True)

    def _wide(self, tile: Tile) -> Tile:
        """The tile with both halves in registers of their own."""
        if not tile.uniform:
            return tile
        result = self.new()
        for part in range(2):
            self.code.emit("vmov", result.half(part), tile.half(part))
        return result

    def pinned_ones(self) -> Tile:
        """An fp8 tile of ones that keeps its weight slot."""
        if self._ones is None:
            self._ones = self.pack(self.constant(1.0))
            self._kept.append(self._ones)
        return self._ones

    # --- vector unit ---

    def _vector(self, mnemonic: str, *sources: Tile, into: Tile | None = None) -> Tile:
        uniform = into is None and all(tile.uniform for tile in sources)
        result = into or (self._narrow() if uniform else self.new())
        for part in range(0, 1 if result.uniform else 2, self.profile.tile_registers):
            self.code.emit(mnemonic, *(t.half(part) for t in (result, *sources)))
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
        partial = self._vector(f"vred{kind}.row.bf16", self._wide(a))
        if self.profile.tile_registers == 2:
            return partial
        combine = {"sum": "vadd.bf16", "max": "vmaximum.bf16", "min": "vminimum.bf16"}[kind]
        result = self._narrow()
        self.code.emit(combine, result.half(0), partial.half(0), partial.half(1))
        return result

    def columns(self, kind: str, a: Tile) -> Tile:
        """sum, max or min of each column, in all its rows."""
        return self._vector(f"vred{kind}.bf16", a)

    def move(self, a: Tile) -> Tile:
        result = self._narrow() if a.uniform else self.new(a.dtype)
        for part in range(1 if a.uniform else a.parts):
            self.code.emit("vmov", result.half(part), a.half(part))
        return result

    def pack(self, a: Tile, scale: int | None = None) -> Tile:
        """fp8 of a times an integer scale, by default the unit scale."""
        result, a = self.new("fp8"), self._wide(a)
        if self.paired:
            result = Tile(self.code.tile(), "fp8")
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
        kind, a = a.dtype, self._wide(a)
        self.code.emit(f"vmatpush.acc.{kind}.mxu{acc.unit}", acc.register, a.register)

    def pop(self, acc: Accumulator) -> Tile:
        result = self.new()
        self.code.emit(f"vmatpop.bf16.acc.mxu{acc.unit}", result.register, acc.register)
        return result
