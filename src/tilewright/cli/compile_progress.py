"""The progress of `tilewright compile` on a terminal: phases done, and what is being worked on."""

from __future__ import annotations

import sys
from typing import Any

PHASES = (
    "import", "simplify", "lower", "calibrate", "fold layers", "place and generate", "link", "check",
    "accuracy", "steer", "run and verify", "write",
)  # fmt: skip


class CompileProgress:
    """A bar on standard error; nothing where nobody watches.

    with CompileProgress() as progress: progress("lower", "mlp.gate_proj")
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> CompileProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.fields[phase]:<18}"),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                TextColumn("{task.fields[detail]}", markup=False),  # names may have brackets
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=len(PHASES), phase="", detail="")
        return self

    def __call__(self, phase: str, detail: str) -> None:
        if self._bar is not None:
            done = PHASES.index(phase) if phase in PHASES else None
            self._bar.update(self._task, completed=done, phase=phase, detail=detail[:60])

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
