"""Instances of memory planning as CSV: `id,lower,upper,size[,alignment][,offset]`.

The form of the public MiniMalloc benchmark suite. A name such as `A.1048576.csv` also gives the
capacity.

Error code: TW1409 a file that cannot be read as an instance.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.errors import Location, TilewrightError
from tilewright.planning.buffers import Buffer, check_buffers

REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "offset")


def read_instance(path: Path) -> tuple[list[Buffer], int | None]:
    """The buffers of a file, and the capacity its name gives."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TilewrightError(
            "TW1409", f"cannot read the instance: {error}", Location(str(path))
        ) from error
    buffers = parse_instance(text, str(path))
    parts = path.name.split(".")
    capacity = int(parts[-2]) if len(parts) > 2 and parts[-2].isdigit() else None
    return buffers, capacity


def parse_instance(text: str, file: str = "<text>") -> list[Buffer]:
    """The buffers of an instance, in file order."""
    reader = csv.DictReader(io.StringIO(text))
    columns = reader.fieldnames or []
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise TilewrightError(
            "TW1409",
            f"the first line has no column {missing[0]}",
            Location(file, 1),
            f"name the columns: {','.join(REQUIRED)}",
        )
    buffers: list[Buffer] = []
    for row in reader:
        values: dict[str, int] = {}
        for name in (*REQUIRED[1:], *OPTIONAL):
            value = row.get(name)
            if name in OPTIONAL and not value:
                continue
            try:
                values[name] = int(value or "")
            except ValueError:
                raise TilewrightError(
                    "TW1409",
                    f"{name} of buffer {row['id']} is {value!r}, an integer is needed",
                    Location(file, reader.line_num),
                ) from None
        buffers.append(Buffer(name=row["id"], **values))  # pyright: ignore[reportArgumentType]
    try:
        check_buffers(buffers)
    except TilewrightError as error:
        raise error.at(Location(file)) from None
    return buffers


def write_instance(buffers: Sequence[Buffer], offsets: Mapping[str, int] | None = None) -> str:
    """The CSV text of an instance, with offsets when a plan is given."""
    lines = ["id,lower,upper,size" + (",offset" if offsets is not None else "")]
    for b in buffers:
        line = f"{b.name},{b.lower},{b.upper},{b.size}"
        lines.append(line + (f",{offsets[b.name]}" if offsets is not None else ""))
    return "\n".join(lines) + "\n"
