"""Writing text results: all or nothing."""

from __future__ import annotations

import sys

from tilewright.io import file_access


def write_atomically(path: str, text: str) -> None:
    """Write `text` to a file, or to standard output for `-`; a file is replaced in one step."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        file_access.write_atomically(path, text.encode("utf-8"))
