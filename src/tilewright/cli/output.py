"""Writing results: all or nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tilewright.errors import Location, TilewrightError


def write_atomically(path: str, text: str) -> None:
    """Write `text` to a file, or to standard output for `-`; a file is replaced in one step.

    Error code: TW0011 when the place cannot be written.
    """
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    target = Path(path)
    temporary = None
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        reason = error.strerror or "cannot be written"
        raise TilewrightError(
            "TW0011", f"cannot write the file: {reason}", Location(path)
        ) from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
