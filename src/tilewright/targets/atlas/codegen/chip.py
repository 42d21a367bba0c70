"""What lowering keeps track of on the chip: VMEM, pointers, constants, and the bytes that move."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.copies_beside import Copy, Slices
from tilewright.targets.atlas.codegen.nest import (
    LAYER,
    Affine,
    Pieces,
    Read,
    Reload,
    Spill,
    SpillSlot,
    Value,
    Variable,
    Write,
)
from tilewright.targets.atlas.codegen.routine import Loop, Routine
from tilewright.targets.atlas.codegen.tiles import Tile, Tiles, bf16_bits
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import (
    CHANGING,
    REGISTER_BYTES,
    RESIDENT,
    WAW,
    Code,
    Place,
    Register,
    shifted,
)
from tilewright.targets.atlas.profile import Profile


class VmemExceeded(TilewrightError):
    """The kernel's tiles do not fit on the chip."""

    def __init__(self, profile: Profile, bytes: int, source: str, wanted: int = 0) -> None:
        super().__init__(
            "TW1454",
            f"needs {bytes / 2**20:.2f} MiB of VMEM, {profile.name} has "
            f"{profile.vmem_bytes / 2**20:.2f} MiB",
            hint="this line's tiles take most of it: use smaller blocks, fewer steps unrolled "
            "(unroll) or less depth",
        )
        self.source = source  # the line whose tiles take most
        self.wanted = wanted  # bytes the kernel would use for itself


@dataclass
class Run:
    """Bytes that are contiguous in DRAM and move in one transfer."""

    offset: Affine
    bytes: int
    reads: list[Read] = field(default_factory=list)
    buffer: int = 0  # VMEM address (of the first half when doubled)
    row: bool = False  # a row, to be repeated down the tile
    pieces: Pieces | None = None  # what of it is loaded, all if None
    blank: bool = False  # the rest has to be zero
    copies: int = 1  # of its pieces, one below the other


@dataclass
class ConstantPool:
    """Constants that no instruction makes: half tiles in DRAM, copied to VMEM at the start."""

    dram: int
    values: list[float] = field(default_factory=list)

    def data(self) -> bytes:
        """The bytes to place at `dram`."""
        halves = [struct.pack("<H", bf16_bits(v)) * (REGISTER_BYTES // 2) for v in self.values]
        return b"".join(halves)


@dataclass(frozen=True)
class Area:
    """The bytes of VMEM a kernel may use for itself."""

    start: int
    end: int


class Chip:
    """VMEM, pointers and constants of one routine under construction."""

    def __init__(
        self,
        profile: Profile,
        pool: ConstantPool,
        area: Area | None = None,
        defers: bool = True,
    ) -> None:
        self.profile, self.pool = profile, pool
        self.defers = defers  # results of an iteration leave while the next one computes
        self.area = area or Area(0, profile.vmem_bytes)
        self.routine = Routine(profile)
        self.ceiling = self.area.end  # constants sit above
        self.top = self.peak = self.area.start  # VMEM in use, now and at most
        self.by_line: dict[str, int] = {}  # bytes given out, by the author's line
        # Pointers that follow loop variables; those of results may lag behind.
        self.bases: dict[tuple[tuple[tuple[Variable, int], ...], bool], Register] = {}
        # Inner loops, which leave the pointers that follow them alone as they were.
        self.homes: dict[Variable, list[Code | Loop]] = {}
        self.slots: dict[SpillSlot, int] = {}
        self.turned: set[Value] = set()  # tiles that get transposed
        self.copies: list[Copy] = []  # to be made beside the next loop body
        self.copied: dict[Copy, list[Copy]] = {}  # what loops have not loaded of them

    def pooled(self, index: int) -> int:
        return self.area.end - (index + 1) * REGISTER_BYTES

    def tiles(self, code: Code) -> Tiles:
        tiles = Tiles(code)
        tiles._make_constant = lambda value: self.constant(tiles, value)
        return tiles

    def constant(self, tiles: Tiles, value: float, into: Tile | None = None) -> Tile:
        """Fill a tile with a number: by instructions where they can, else from the pool."""
        if tiles.can_fill(value):
            return self._copied_fill(tiles, value, into) or tiles.fill(value, into)
        if value not in self.pool.values:
            self.pool.values.append(value)
            self.ceiling = self.pooled(len(self.pool.values) - 1)
        tile = into or tiles.new()
        for part in range(2):
            tiles.code.vload(tile.half(part), self.pooled(self.pool.values.index(value)))
        return tile

    def _copied_fill(self, tiles: Tiles, value: float, into: Tile | None) -> Tile | None:
        """The same with one fill: the other half is loaded from a copy, which leaves the vector
        unit free. None where that takes its time too, or room that is scarce."""
        load = self.profile.timing["tensor_load"].unit
        pairs = self.profile.tile_registers == 2 and self.profile.fill == "bits"
        if not pairs or load == "VPU" or self.ceiling - self.top < TUNING.roomy_bytes:
            return None
        tile, code = into or tiles.new(), tiles.code
        at = self.allocate(REGISTER_BYTES, source=code.source)
        half = code.emit("vli.all", tile.half(0), bf16_bits(value))
        code.fills[half] = code.vstore(tile.half(0), at), code.vload(tile.half(1), at)
        return tile

    def resident(self, offset: Affine, changing: int = 0) -> int | Place:
        """The address of a tile of a tensor that stays in VMEM."""
        if changing:
            base = self.base(offset.terms)
            return Place(base, f"{CHANGING} {changing} {id(base)}", offset.constant)
        if not offset.terms:
            return offset.constant
        return Place(self.base(offset.terms), f"{RESIDENT} {id(offset.terms)}", offset.constant)

    def fetch_resident(self, code: Code, tiles: Tiles, values: dict, read: Read) -> None:
        """Bring a tile of a tensor in VMEM into registers."""
        code.source = read.source
        self._take(tiles, values, read, self.resident(read.offset, read.changing))

    def store_resident(self, code: Code, tiles: Tiles, tile: Any, write: Write) -> None:
        """Put a tile of a tensor in VMEM into its place."""
        code.source = write.source
        tiles.store(tile, self.resident(write.offset, write.changing), write.bytes)

    def park(self, code: Code, tiles: Tiles, values: dict, s: Spill | Reload) -> None:
        """Tiles that wait in VMEM."""
        code.source = s.source
        if s.slot not in self.slots:
            self.slots[s.slot] = self.allocate(s.slot.bytes, source=s.source)
        if isinstance(s, Spill):
            tiles.store(values[s.value], self.slots[s.slot])
        else:
            values[s.result] = tiles.load(self.slots[s.slot], s.result.dtype)

    def base(self, terms: tuple[tuple[Variable, int], ...], result: bool = False) -> Register:
        """The pointer that follows a combination of loop variables; constants are added to it.

        Results that leave late have a pointer of their own, so that what is read next need not
        wait for them.
        """
        if (terms, result) not in self.bases:
            alone = len(terms) == 1 and terms[0][0] in self.homes
            pointer = self.routine.pointer(0, home=self.homes[terms[0][0]] if alone else None)
            self.bases[terms, result] = pointer
            if any(variable is LAYER for variable, _ in terms):
                self.routine.by_layer.add(pointer)
        return self.bases[terms, result]

    def dram(self, offset: Affine, ordered: bool = False, result: bool = False) -> int | Place:
        """An address in DRAM; ordered: of a result that may be written over others; result: of
        one that leaves late in other iterations."""
        if not offset.terms and not ordered:
            return offset.constant
        base = self.base(offset.terms, result)
        return Place(base, f"{WAW if ordered else 'dram'} {id(base)}", offset.constant)

    def step_bases(self, code: Code, variable: Variable, times: int = 1) -> None:
        """Move every pointer that follows the variable by one step."""
        for (terms, _), pointer in self.bases.items():
            factor = next((f for v, f in terms if v is variable), 0)
            if factor:
                code.advance(pointer, factor * times)

    def slices(self, loops: list[Variable]) -> list[Slices]:
        """What iterations of a body in these loops load of copies that wait to be made."""
        if not self.copies or any(variable.count is not None for variable in loops):
            return []
        count = math.prod(variable.trips for variable in loops)
        found = [Slices(copy, count, self.routine) for copy in self.copies]
        self.copied |= {s.copy: s.rest for s in found}
        self.copies = []
        return found

    def allocate(self, bytes: int, align: int = 1024, source: str = "") -> int:
        start = -(-self.top // align) * align
        self.top = start + bytes
        self.peak = max(self.peak, self.top)
        self.by_line[source] = self.by_line.get(source, 0) + bytes
        return start

    def runs(
        self, reads: Iterable[Read], longest: int | None = None, apart: bool = False
    ) -> list[Run]:
        """Reads grouped into transfers: the same bytes once, neighbours together (with `apart`
        also those that are not read one right after the other)."""
        limit = self.profile.dma.max_bytes or 1 << 30
        longest = self.merge_limit() if longest is None else longest
        first: dict[Any, dict[int, Run]] = {}
        order: list[Run] = []
        for read in reads:
            kind = (read.offset.terms, read.row, read.pieces, read.copies)
            by_constant = first.setdefault(kind, {})
            run = by_constant.get(read.offset.constant)
            if run is None:
                run = Run(
                    read.offset, read.bytes, row=read.row, pieces=read.pieces, copies=read.copies
                )
                by_constant[read.offset.constant] = run
                order.append(run)
            run.reads.append(read)
            run.blank |= read.pieces is not None and read.blank
        order = joined(order)
        merged: list[Run] = []
        ends: dict[Any, Run] = {}  # runs that may grow, by where they end
        for run in order:
            last = None
            if run.pieces is None:
                last = ends.pop((run.offset.terms, run.offset.constant), None)
            if not apart:
                ends.clear()
            if last is not None and last.bytes + run.bytes <= min(limit, longest):
                last.bytes += run.bytes
                last.reads += run.reads
            else:
                last = run
                merged.append(run)
            if run.pieces is None:
                ends[run.offset.terms, last.offset.constant + last.bytes] = last
        return merged

    def merge_limit(self) -> int:
        """Longest transfer worth making: long ones keep short ones waiting."""
        return 4096

    def load(
        self, code: Code, run: Run, target: int | Place, ahead: int = 0, piece: int = 0
    ) -> None:
        """Start the transfers of a run, `ahead` bytes further on, cut into pieces if wanted."""
        offset = run.offset.shifted(ahead)
        pieces = run.pieces or ((0, run.bytes),)
        if piece and run.pieces is None:
            pieces = tuple((at, piece) for at in range(0, run.bytes, piece))
        for copy in range(run.copies):
            for at, count in pieces:
                place = shifted(target, at + copy * count)
                code.dma_load(place, self.dram(offset.shifted(at)), count)

    def clear(self, code: Code, place: int | Place, count: int) -> None:
        """Zero bytes of VMEM, for tiles of which only a row is loaded."""
        for at in range(0, count, REGISTER_BYTES):
            code.vstore(code.zero(), shifted(place, at))

    def fetch(
        self, code: Code, tiles: Tiles, values: dict, read: Read, run: Run, buffer: int | Place
    ) -> None:
        """Bring a tile from its buffer into registers."""
        code.source = read.source
        shift = read.offset.constant - run.offset.constant
        at = (
            Place(buffer.pointer, buffer.buffer, buffer.offset + shift)
            if isinstance(buffer, Place)
            else buffer + shift
        )
        self._take(tiles, values, read, at)

    def _take(self, tiles: Tiles, values: dict, read: Read, at: int | Place) -> None:
        if read.result.dtype == "bf16" and read.bytes == REGISTER_BYTES:
            tile = tiles.load_half(at)
        else:
            tile = tiles.load(at, read.result.dtype, pair=read.result in self.turned)
        values[read.result] = tiles.columns("sum", tile) if read.row else tile


def joined(runs: list[Run]) -> list[Run]:
    """Runs that share bytes (windows over rows) become one that covers them all."""
    result: list[Run] = []
    last: dict[Any, Run] = {}  # per pointer, by increasing address
    for run in sorted(runs, key=lambda r: r.offset.constant):
        other = last.get(run.offset.terms)
        if (
            run.pieces
            or other is None
            or run.offset.constant >= other.offset.constant + other.bytes
        ):
            result.append(run)
            if not run.pieces:
                last[run.offset.terms] = run
            continue
        end = run.offset.constant + run.bytes - other.offset.constant
        other.bytes = max(other.bytes, end)
        other.reads += run.reads
    place = {id(run): k for k, run in enumerate(runs)}
    return sorted(result, key=lambda run: place[id(run)])
