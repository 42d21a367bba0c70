"""Batches of any size on entry points that were compiled for some.

Error codes: TW3153 a batch that no entry point computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.compiled_model import CompiledEntries

Run = Callable[[str, dict[str, np.ndarray]], Mapping[str, np.ndarray]]


def entry_name(size: int) -> str:
    """The entry point for a batch size."""
    return f"batch_{size}"


@dataclass(frozen=True)
class Batches:
    """Which sizes there are, and which ports have the batch as their first dimension.

    separate: rows do not see each other, so that a batch may be cut and filled up.
    """

    sizes: tuple[int, ...]  # ascending
    inputs: frozenset[str]
    outputs: frozenset[str]
    separate: bool

    @staticmethod
    def of(program: CompiledEntries) -> Batches | None:
        """The sizes of a program whose entry points are one model for several of them."""
        notes = [model.provenance.get("batch") for model in program.entries.values()]
        if not all(isinstance(note, Mapping) for note in notes):
            return None
        rows: list[Mapping[str, Any]] = [note for note in notes if note]
        sizes = [row.get("size") for row in rows]
        if [entry_name(size) for size in sizes if isinstance(size, int)] != list(program.entries):
            return None
        return Batches(
            tuple(sorted(int(size) for size in sizes if size)),
            frozenset(rows[0].get("inputs", ())),
            frozenset(rows[0].get("outputs", ())),
            all(row.get("separate") is True for row in rows),
        )

    def pieces(self, rows: int) -> list[tuple[int, int, int]]:
        """How a batch is computed: size of the entry point, first row and number of rows of each
        piece. As many as possible are of the largest size, the last is filled up."""
        if rows in self.sizes:
            return [(rows, 0, rows)]
        if not self.separate or rows < 1:
            shown = ", ".join(map(str, self.sizes))
            reason = "" if rows < 1 else ", and rows of a batch depend on each other"
            raise TilewrightError(
                "TW3153",
                f"the program has no entry point for a batch of {rows}{reason}",
                hint=f"it is compiled for {shown}",
            )
        found, start = [], 0
        while start < rows:
            left = rows - start
            size = next((size for size in self.sizes if size >= left), self.sizes[-1])
            found.append((size, start, min(size, left)))
            start += size
        return found

    def run(self, given: Mapping[str, np.ndarray], run: Run) -> dict[str, np.ndarray]:
        """The outputs of a batch of any size, by `run` on entry points."""
        counts = {name: len(given[name]) for name in sorted(self.inputs) if name in given}
        if len(set(counts.values())) != 1:
            shown = ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
            raise TilewrightError("TW3153", f"inputs have different numbers of rows: {shown}")
        found: list[Mapping[str, np.ndarray]] = []
        for size, start, rows in self.pieces(next(iter(counts.values()))):
            at = np.minimum(start + np.arange(size), start + rows - 1)
            piece = {n: a[at] if n in self.inputs else a for n, a in given.items()}
            results = run(entry_name(size), piece)
            found.append({n: a[:rows] if n in self.outputs else a for n, a in results.items()})
        return {
            name: np.concatenate([piece[name] for piece in found])
            if name in self.outputs
            else found[0][name]
            for name in found[0]
        }
