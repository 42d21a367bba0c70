"""One file that holds several: an uncompressed zip, written in one step and read by mapping it.

Any zip tool opens it. What is written depends on the members' names and bytes only. Reading takes
nothing on trust: every offset and size is checked against the file, every byte against its
checksum, and nothing is unpacked, so a small file never becomes a large one.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.deferred import blocks_of
from tilewright.io.file_access import replaced

ALIGNMENT = 64  # members start at multiples of this, so that arrays in them can be used in place
MAX_MEMBERS = 1 << 16
MAX_NAME = 512

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_PADDING = 0xD935  # number of the extra field that aligns members, as Android's tools use it


@dataclass(frozen=True)
class Member:
    """A file to be: its bytes in pieces."""

    name: str
    pieces: list[bytes | np.ndarray]

    @property
    def size(self) -> int:
        return sum(p.nbytes if isinstance(p, np.ndarray) else len(p) for p in self.pieces)


# --- writing ----------------------------------------------------------------------------


def write_archive(path: str | Path, members: Iterable[Member]) -> None:
    """Write the members; the file has either its old content or all of the new one."""
    with replaced(path) as file, zipfile.ZipFile(file, "w") as archive:
        for member in members:
            _write_member(archive, file.tell(), member)


def _write_member(archive: zipfile.ZipFile, offset: int, member: Member) -> None:
    info = zipfile.ZipInfo(member.name)  # the time is the first a zip can say: 1980
    info.create_system, info.external_attr = 3, 0o644 << 16
    info.file_size = member.size
    large = member.size * 1.05 > zipfile.ZIP64_LIMIT  # then two sizes of 8 bytes follow the name
    start = offset + _LOCAL.size + len(member.name.encode()) + (20 if large else 0) + 6
    info.extra = struct.pack("<3H", _PADDING, 2 + -start % ALIGNMENT, ALIGNMENT)
    info.extra += bytes(-start % ALIGNMENT)
    with archive.open(info, "w", force_zip64=large) as out:
        for piece in member.pieces:
            if isinstance(piece, bytes):
                out.write(piece)
                continue
            for block in blocks_of(piece):
                out.write(block)


# --- reading ----------------------------------------------------------------------------


def read_archive(path: str | Path, what: str) -> dict[str, np.ndarray]:
    """The members by name, as bytes of the mapped file. `what` names the kind of file in errors."""
    return _Reader(str(path), what).members()


class _Reader:
    def __init__(self, path: str, what: str) -> None:
        self.place, self.what = Location(path), what
        try:
            size = os.stat(path).st_size
            if not os.path.isfile(path):
                raise TilewrightError("TW3101", "this is not a file", self.place)
            self.raw = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise TilewrightError(
                "TW0010", f"cannot read the file: {reason or error}", self.place
            ) from None

    def members(self) -> dict[str, np.ndarray]:
        count, size, offset = self._directory()
        found: dict[str, np.ndarray] = {}
        spans = []
        at = offset
        for _ in range(count):
            fields = self._unpack(_ENTRY, at, offset + size, b"PK\x01\x02")
            name, begin, end = self._entry(at, fields)
            if name in found:
                raise self._bad(f"it has two members named {name!r}")
            spans.append((begin, end, name))
            found[name] = self.raw[begin:end]
            if zlib.crc32(found[name].data) != fields[7]:
                raise self._bad(f"the content of {name} does not have its checksum")
            at += _ENTRY.size + sum(fields[10:13])
        if at != offset + size:
            raise self._bad("its table of members has another length than it says")
        spans.sort()
        for (_, end, name), (begin, _, other) in pairwise(spans):
            if begin < end:
                raise self._bad(f"its members {name!r} and {other!r} overlap")
        return found

    def _directory(self) -> tuple[int, int, int]:
        """Number of entries, bytes and place of the table of members, at the end of the file."""
        if self.raw[:4].tobytes() != b"PK\x03\x04":
            raise TilewrightError(
                "TW3101", f"this is not {self.what}", self.place, "tilewright compile makes them"
            )
        end = len(self.raw) - _END.size
        if end < 0 or self.raw[end : end + 4].tobytes() != b"PK\x05\x06":
            raise self._bad(
                "it does not end as it should", "the file is cut short or was appended to"
            )
        fields = _END.unpack(self.raw[end:].tobytes())
        count, size, offset = fields[4:7]
        before = end - _LOCATOR_64.size
        if before >= 0 and self.raw[before : before + 4].tobytes() == b"PK\x06\x07":
            locator = self._unpack(_LOCATOR_64, before, end, b"PK\x06\x07")
            large = self._unpack(_END_64, locator[2], end, b"PK\x06\x06")
            count, size, offset = large[7:10]
            end = locator[2]
        if count > MAX_MEMBERS or offset + size != end:
            raise self._bad("its table of members is not where it says")
        return count, size, offset

    def _entry(self, at: int, fields: tuple) -> tuple[str, int, int]:
        """Name, first byte and end of a member."""
        flags, method = fields[3:5]
        packed, size, length, extra_length = fields[8:12]
        start = fields[16]
        if length > MAX_NAME:
            raise self._bad("it has a member with a very long name")
        names = at + _ENTRY.size
        name = self._name(names, length)
        extra = self.raw[names + length : names + length + extra_length].tobytes()
        if 0xFFFFFFFF in (packed, size, start):
            packed, size, start = self._sizes_64(extra, packed, size, start)
        if method or flags & ~0x800 or packed != size:
            raise self._bad(f"{name} is compressed or encrypted")
        local = self._unpack(_LOCAL, start, len(self.raw), b"PK\x03\x04")
        begin = start + _LOCAL.size + local[9] + local[10]
        if local[9] != length or self._name(start + _LOCAL.size, length) != name:
            raise self._bad(f"{name} has another name where it begins")
        if begin + size > len(self.raw):
            raise self._bad(f"{name} would end behind the end of the file")
        return name, begin, begin + size

    def _sizes_64(self, extra: bytes, packed: int, size: int, start: int) -> tuple[int, int, int]:
        """Sizes and offset that need more than 32 bits, from the extra field made for them."""
        at = 0
        while at + 4 <= len(extra):
            number, length = struct.unpack_from("<2H", extra, at)
            if number == 1 and at + 4 + length <= len(extra) and length % 8 == 0:
                values = list(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
                result = []
                for value in (size, packed, start):
                    if value == 0xFFFFFFFF:
                        if not values:
                            break
                        value = values.pop(0)
                    result.append(value)
                if len(result) == 3:
                    return result[1], result[0], result[2]
            at += 4 + length
        raise self._bad("the sizes of a large member are missing")

    def _name(self, at: int, length: int) -> str:
        raw = self.raw[at : at + length].tobytes()
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self._bad("the name of a member is not text") from None

    def _unpack(self, form: struct.Struct, at: int, end: int, mark: bytes) -> tuple:
        if at < 0 or at + form.size > end or self.raw[at : at + 4].tobytes() != mark:
            raise self._bad("a part of the file is not where it should be")
        return form.unpack(self.raw[at : at + form.size].tobytes())

    def _bad(self, reason: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError("TW3102", f"the file is damaged: {reason}", self.place, hint)
