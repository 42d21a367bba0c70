"""ELF files of the core: ELF32, little endian, RISC-V. Anything in them may be damaged.

Error codes: TW5002 not an ELF file this core runs, TW5003 damaged, TW5004 outside of the memory
map, TW5005 a symbol that is missing or has another size.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.errors import Location, TilewrightError
from tilewright.targets.coral.machines import CoralMachine, Memory

MACHINE_RISCV = 243
MOST_BYTES = 64 * 1024 * 1024
FLAG_COMPRESSED = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes to load; `size` may be larger than the bytes, the rest is never written."""

    address: int
    data: bytes
    size: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    address: int
    size: int
    kind: str  # "object", "func", "none", ...


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    address: int
    size: int
    flags: int
    data: bytes = field(repr=False)

    @property
    def executable(self) -> bool:
        return bool(self.flags & 4)

    @property
    def writable(self) -> bool:
        return bool(self.flags & 1)


@dataclass(frozen=True)
class Elf:
    """What a program file says."""

    source: str
    entry: int
    segments: tuple[Segment, ...]
    symbols: dict[str, Symbol]
    sections: tuple[Section, ...]

    def symbol(self, name: str) -> Symbol:
        found = self.symbols.get(name)
        if found is None:
            near = [n for n in self.symbols if n.startswith(("input_", "output_"))]
            hint = (
                f"it has {', '.join(sorted(near)[:8])}" if near else "it has no input_N, output_N"
            )
            raise TilewrightError(
                "TW5005", f"the program has no symbol {name}", Location(self.source), hint
            )
        return found

    def nearest(self, address: int) -> str | None:
        """`symbol` or `symbol+offset` at an address, for messages."""
        best = self._ordered()
        place = bisect_right([s.address for s in best], address) - 1
        if place < 0:
            return None
        symbol = best[place]
        distance = address - symbol.address
        if distance and symbol.size and distance >= symbol.size and distance > 4096:
            return None
        return symbol.name if not distance else f"{symbol.name}+{distance:#x}"

    def functions(self) -> list[Symbol]:
        """Functions by address, each ending where the next begins if it states no size."""
        return [s for s in self._ordered() if s.kind == "func"]

    def _ordered(self) -> list[Symbol]:
        named = [s for s in self.symbols.values() if s.kind in ("func", "object", "none")]
        return sorted(named, key=lambda s: (s.address, s.kind == "func", s.size, s.name))


SYMBOL_KINDS = {0: "none", 1: "object", 2: "func", 3: "section", 4: "file"}


class _Reader:
    """Reads fixed records of a file that may end anywhere."""

    def __init__(self, source: str, data: bytes) -> None:
        self.source = source
        self.data = data

    def fail(self, message: str, code: str = "TW5003", hint: str | None = None) -> TilewrightError:
        return TilewrightError(code, message, Location(self.source), hint)

    def part(self, offset: int, size: int, what: str) -> bytes:
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise self.fail(f"the ELF file is damaged: {what} lies outside of the file")
        return self.data[offset : offset + size]

    def unpack(self, form: str, offset: int, what: str) -> tuple[int, ...]:
        return struct.unpack(form, self.part(offset, struct.calcsize(form), what))


def read_elf(path: str | Path) -> Elf:
    """The program in a file."""
    try:
        size = Path(path).stat().st_size
        if size > MOST_BYTES:
            raise TilewrightError(
                "TW5002",
                f"the file has {size} bytes, programs have at most {MOST_BYTES}",
                Location(str(path)),
            )
        data = Path(path).read_bytes()
    except OSError as error:
        raise TilewrightError(
            "TW0010", f"cannot read the file: {error.strerror or error}", Location(str(path))
        ) from None
    return parse_elf(data, str(path))


def parse_elf(data: bytes, source: str = "program") -> Elf:
    """The program in bytes."""
    reader = _Reader(source, data)
    if data[:4] != b"\x7fELF":
        raise reader.fail("this is not an ELF file", "TW5002")
    if len(data) < 52:
        raise reader.fail("the ELF file is damaged: its header is cut off")
    if data[4] != 1 or data[5] != 1:
        kind = {(2, 1): "64-bit", (1, 2): "big-endian", (2, 2): "64-bit big-endian"}
        what = kind.get((data[4], data[5]), "unknown")
        raise reader.fail(
            f"the ELF file is {what}, the core runs 32-bit little-endian programs",
            "TW5002",
            "compile for riscv32",
        )
    header = reader.unpack("<HHIIIIIHHHHHH", 16, "the header")
    (
        kind,
        machine,
        _,
        entry,
        phoff,
        shoff,
        flags,
        _,
        phentsize,
        phnum,
        shentsize,
        shnum,
        shstrndx,
    ) = header
    if machine != MACHINE_RISCV:
        raise reader.fail(
            f"the ELF file is for machine {machine}, not RISC-V ({MACHINE_RISCV})", "TW5002"
        )
    if kind != 2:
        raise reader.fail(
            "the ELF file is not an executable",
            "TW5002",
            "link it with a start-up file and a script",
        )
    if flags & FLAG_COMPRESSED:
        raise reader.fail(
            "the program uses compressed instructions, which the core lacks",
            "TW5002",
            "compile without the C extension",
        )
    segments = _segments(reader, phoff, phentsize, phnum)
    sections = _sections(reader, shoff, shentsize, shnum, shstrndx)
    symbols = _symbols(reader, shoff, shentsize, shnum)
    return Elf(source, entry, tuple(segments), symbols, tuple(sections))


def _segments(reader: _Reader, phoff: int, phentsize: int, phnum: int) -> list[Segment]:
    if phnum and phentsize < 32:
        raise reader.fail("the ELF file is damaged: program headers of an impossible size")
    made: list[Segment] = []
    for k in range(phnum):
        fields = reader.unpack("<IIIIIIII", phoff + k * phentsize, f"program header {k}")
        kind, offset, vaddr, _, filesz, memsz, flags, _ = fields
        if kind != 1 or memsz == 0:
            continue
        if filesz > memsz:
            raise reader.fail(f"the ELF file is damaged: segment {k} has more bytes than memory")
        content = reader.part(offset, filesz, f"segment {k}")
        made.append(Segment(vaddr, content, memsz, bool(flags & 1)))
    if not made:
        raise reader.fail("the ELF file has nothing to load", "TW5002")
    return made


def _section_headers(
    reader: _Reader, shoff: int, shentsize: int, shnum: int
) -> list[tuple[int, ...]]:
    if not shnum:
        return []
    if shentsize < 40:
        raise reader.fail("the ELF file is damaged: section headers of an impossible size")
    return [
        reader.unpack("<IIIIIIIIII", shoff + k * shentsize, f"section header {k}")
        for k in range(shnum)
    ]


def _text(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    return table[offset : end if end >= 0 else len(table)].decode("utf-8", "replace")


def _sections(
    reader: _Reader, shoff: int, shentsize: int, shnum: int, shstrndx: int
) -> list[Section]:
    headers = _section_headers(reader, shoff, shentsize, shnum)
    names = b""
    if shstrndx < len(headers):
        names = reader.part(headers[shstrndx][4], headers[shstrndx][5], "the section names")
    made = []
    for header in headers:
        name, kind, flags, address, offset, size = header[:6]
        content = b"" if kind in (0, 8) else reader.part(offset, size, "a section")
        made.append(Section(_text(names, name), address, size, flags, content))
    return made


def _symbols(reader: _Reader, shoff: int, shentsize: int, shnum: int) -> dict[str, Symbol]:
    headers = _section_headers(reader, shoff, shentsize, shnum)
    found: dict[str, tuple[int, Symbol]] = {}
    for header in headers:
        if header[1] != 2:
            continue
        offset, size, link, entry_size = header[4], header[5], header[6], header[9]
        if entry_size != 16 or size % 16 or link >= len(headers):
            raise reader.fail("the ELF file is damaged: its symbol table makes no sense")
        table = reader.part(offset, size, "the symbol table")
        names = reader.part(headers[link][4], headers[link][5], "the symbol names")
        for name, value, extent, info, _, shndx in struct.iter_unpack("<IIIBBH", table):
            text = _text(names, name)
            kind = SYMBOL_KINDS.get(info & 15, "other")
            if not text or shndx == 0 or kind in ("section", "file") or text.startswith("$"):
                continue
            binding = info >> 4
            if text not in found or binding > found[text][0]:
                found[text] = (binding, Symbol(text, value, extent, kind))
    return {name: symbol for name, (_, symbol) in sorted(found.items())}


def check_loadable(elf: Elf, machine: CoralMachine, memories: tuple[Memory, ...]) -> None:
    """Every segment inside one memory, the entry where code is fetched."""
    place = Location(elf.source)
    for segment in elf.segments:
        end = segment.address + segment.size
        if not any(m.base <= segment.address and end <= m.base + m.size for m in memories):
            shown = ", ".join(f"{m.name} {m.base:#x}..{m.base + m.size:#x}" for m in memories)
            hint = f"{machine.name} has {shown}"
            if end <= 0x20_0000 and not machine.high_memory:
                hint += "; a program linked for high memory runs on coral-highmem"
            raise TilewrightError(
                "TW5004",
                f"a segment of the program at {segment.address:#x}..{end:#x} lies outside of the "
                "memory map",
                place,
                hint,
            )
    if not 0 <= elf.entry - machine.code.base < machine.code.size or elf.entry % 4:
        raise TilewrightError(
            "TW5004", f"the entry point {elf.entry:#x} is not in instruction memory", place
        )
