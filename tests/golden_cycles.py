"""Cycles of kernels and models, kept in `tests/data/golden_cycles.json`: a change of one shows.

    pytest tests/kernels/test_library.py tests/graph/test_golden_cycles.py --write-goldens

writes the cycles of the programs as they are now; the file's difference is what a review looks at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).parent / "data" / "golden_cycles.json"


@dataclass
class GoldenCycles:
    """The file, and what differs from it."""

    write: bool = False
    known: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, write: bool) -> GoldenCycles:
        return cls(write, json.loads(FILE.read_text()) if FILE.exists() else {})

    def check(self, rows: dict[str, int]) -> None:
        """Fail unless every program takes the cycles it is known to take."""
        if self.write:
            now = json.loads(FILE.read_text()) if FILE.exists() else {}
            FILE.write_text(json.dumps({**now, **rows}, indent=0, sort_keys=True) + "\n")
            return
        changed = [
            f"{name}: {self.known.get(name, 'not known')} -> {cycles}"
            for name, cycles in rows.items()
            if self.known.get(name) != cycles
        ]
        assert not changed, "other cycles than in golden_cycles.json:\n" + "\n".join(changed)
