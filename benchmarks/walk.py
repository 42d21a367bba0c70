"""The way of a torch matmul and GELU from `tw.compile` to cycles, from a real trace.

    python benchmarks/walk.py [--target atlas-v1] [--files]

Every call of a function of the package is seen (`sys.setprofile`). A room is a folder of
`src/tilewright`; its place on the way is where it is first called. Rooms that all others use
(errors, dialects, io, reference arithmetic, planning) are libraries: they are counted, not walked.
`back` counts how often a room further up was entered again, from below, after the way had left it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import tilewright as tw

ROOT = Path(tw.__file__).parent
LIBRARIES = ("errors", "dialects", "io", "reference", "planning", "extensions", "trace")


def room_of(path: Path) -> str:
    """The folder of a file, two levels deeper for machines: targets/atlas/codegen."""
    room, *inner = path.relative_to(ROOT).with_suffix("").parts
    if room == "targets" and len(inner) > 1:
        return "/".join((room, *inner[: 2 if len(inner) > 2 else 1]))
    return room


class Walk:
    """Files in the order in which they are first called, and who called into which room."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}  # file -> its room, in order
        self.entries: Counter[tuple[str, str]] = Counter()  # (room above, room) of calls across
        self.rooms: dict[str, str] = {}  # of files seen, "" for others

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        room = self._room(frame.f_code.co_filename)
        if not room:
            return
        self.files.setdefault(frame.f_code.co_filename, room)
        back = frame.f_back
        caller = self._room(back.f_code.co_filename) if back is not None else ""
        if caller and caller != room:
            self.entries[caller, room] += 1

    def _room(self, file: str) -> str:
        if file not in self.rooms:
            path = Path(file)
            self.rooms[file] = room_of(path) if ROOT in path.parents else ""
        return self.rooms[file]

    def table(self) -> list[tuple[str, list[str]]]:
        """Rooms in order with their files, libraries left out."""
        found: dict[str, list[str]] = {}
        for file, room in self.files.items():
            found.setdefault(room, []).append(Path(file).relative_to(ROOT).as_posix())
        return [(room, files) for room, files in found.items() if room not in LIBRARIES]

    def back(self, order: list[str]) -> dict[str, int]:
        """For each room the rooms further down that call up into it."""
        place = {room: k for k, room in enumerate(order)}
        calls: Counter[str] = Counter()
        for caller, room in self.entries:
            if caller in place and room in place and place[caller] > place[room]:
                calls[room] += 1
        return dict(calls)


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--files", action="store_true", help="name every file")
    arguments = parser.parse_args()
    import torch  # pyright: ignore[reportMissingImports]

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.gelu(self.linear(x), approximate="tanh")

    torch.manual_seed(0)
    model, inputs = Layer().eval(), (torch.randn(64, 64),)
    tw.compile(model, inputs, target=arguments.target)  # what is imported on the way is imported
    walk = Walk()
    sys.setprofile(walk.see)
    try:
        program = tw.compile(model, inputs, target=arguments.target)
        cycles = program.cycles
    finally:
        sys.setprofile(None)
    rows = walk.table()
    back = walk.back([room for room, _ in rows])
    libraries = [f for f, room in walk.files.items() if room in LIBRARIES]
    print(f"{arguments.target}: {cycles:,} cycles; {len(rows)} rooms, "
          f"{sum(len(files) for _, files in rows)} files; "
          f"libraries: {len(libraries)} files")  # fmt: skip
    print("| | room | files | first | called from below by |\n|---|---|---|---|---|")
    for number, (room, files) in enumerate(rows, 1):
        print(f"| {number} | `{room}` | {len(files)} | `{files[0]}` | {back.get(room, 0)} |")
        if arguments.files:
            print(*(f"    {file}" for file in files), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
