"""Reading and writing files so that mistakes become errors a person can act on."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tilewright.errors import Location, TilewrightError


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a file, or of standard input for "-"; more than `limit` bytes are refused."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TilewrightError(
            "TW0010", f"cannot read the file: {reason or error}", Location(path)
        ) from None
    if len(content) > limit:
        raise TilewrightError(
            "TW0012",
            f"the file is larger than {limit >> 20} MiB, which is the most that is read",
            Location(path),
        )
    return content


def write_text(path: str, text: str) -> None:
    """Write `text` to a file, or to standard output for `-`; a file is replaced in one step."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_atomically(path, text.encode("utf-8"))


def decode_text(content: bytes, path: str) -> str:
    """The text of a UTF-8 file."""
    zero = content.find(0)
    if zero >= 0:
        raise TilewrightError(
            "TW0013",
            f"this is not a text file: it has a zero byte at offset {zero:#x}",
            Location(path),
            hint="binary programs end in .bin",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TilewrightError(
            "TW0013",
            f"this is not UTF-8 text: byte {content[error.start]:#04x} at offset {error.start:#x}",
            Location(path, line),
        ) from None


def write_atomically(path: str, content: bytes) -> None:
    """Write a file in one step: it has either its old content or all of the new one.

    Devices and pipes, which cannot be replaced, are written directly.
    """
    with replaced(path) as file:
        file.write(content)


@contextlib.contextmanager
def replaced(path: str | Path) -> Iterator[BinaryIO]:
    """A new content for a file, which takes the place of the old one when all of it is written."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.chmod(temporary, new_file_mode(target))
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TilewrightError(
            "TW0011", f"cannot write the file: {reason or error}", Location(str(path))
        ) from None


def new_file_mode(target: Path) -> int:
    """The permissions of a file that is about to be replaced or made."""
    if os.path.exists(target):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
