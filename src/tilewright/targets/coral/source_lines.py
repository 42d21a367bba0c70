"""Which line of C an instruction comes from: the line table of DWARF 4 in a program file."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass

from tilewright.targets.coral.elf import Elf

MOST_ROWS = 200_000


@dataclass(frozen=True, slots=True)
class SourceLine:
    file: str
    line: int


class _Cursor:
    """Reads numbers of a section that may be damaged; what is missing raises IndexError."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            raise IndexError
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def unsigned(self) -> int:
        result = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def text(self) -> str:
        end = self.data.index(0, self.at)
        found = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return found


class LineTable:
    """Addresses in order, each with the line that begins there."""

    def __init__(self, elf: Elf) -> None:
        self.rows: list[tuple[int, SourceLine | None]] = []
        section = next((s for s in elf.sections if s.name == ".debug_line"), None)
        if section is not None:
            cursor = _Cursor(section.data)
            try:
                while cursor.at < len(section.data) and len(self.rows) < MOST_ROWS:
                    self._unit(cursor)
            except (IndexError, ValueError, struct.error):
                pass  # a damaged table tells what it could
        self.rows.sort(key=lambda row: row[0])
        self._addresses = [address for address, _ in self.rows]

    def at(self, address: int) -> SourceLine | None:
        place = bisect_right(self._addresses, address) - 1
        return self.rows[place][1] if place >= 0 else None

    def _unit(self, cursor: _Cursor) -> None:
        length = cursor.number("<I")
        end = cursor.at + length
        version = cursor.number("<H")
        if version not in (2, 3, 4):
            cursor.at = end
            return
        header = cursor.number("<I")
        program = cursor.at + header
        minimum = cursor.number("<B")
        if version == 4:
            cursor.number("<B")
        cursor.number("<B")
        base, span, first = cursor.number("<b"), cursor.number("<B"), cursor.number("<B")
        lengths = [cursor.number("<B") for _ in range(max(first - 1, 0))]
        while cursor.data[cursor.at]:
            cursor.text()
        cursor.at += 1
        files = [""]
        while cursor.data[cursor.at]:
            files.append(cursor.text())
            for _ in range(3):
                cursor.unsigned()
        cursor.at = program
        self._program(cursor, end, files, (minimum, base, max(span, 1), first, lengths))

    def _program(self, cursor: _Cursor, end: int, files: list[str], header: tuple) -> None:
        minimum, base, span, first, lengths = header
        address, file, line = 0, 1, 1

        def row(stop: bool = False) -> None:
            name = files[file] if 0 <= file < len(files) else ""
            self.rows.append((address, None if stop else SourceLine(name, line)))

        while cursor.at < end and len(self.rows) < MOST_ROWS:
            code = cursor.number("<B")
            if code >= first:
                step = code - first
                address += step // span * minimum
                line += base + step % span
                row()
            elif code == 0:
                size = cursor.unsigned()
                after = cursor.at + size
                extended = cursor.number("<B")
                if extended == 1:
                    row(stop=True)
                    address, file, line = 0, 1, 1
                elif extended == 2:
                    address = cursor.number("<I")
                cursor.at = after
            elif code == 1:
                row()
            elif code == 2:
                address += cursor.unsigned() * minimum
            elif code == 3:
                line += cursor.signed()
            elif code == 4:
                file = cursor.unsigned()
            elif code == 8:
                address += (255 - first) // span * minimum
            elif code == 9:
                address += cursor.number("<H")
            else:
                for _ in range(lengths[code - 1] if code <= len(lengths) else 0):
                    cursor.unsigned()
