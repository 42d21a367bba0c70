"""Runs that the command line stops and goes on with: options that fit together, Ctrl-C, what is said."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import click
import numpy as np

from tilewright.cli import print_json
from tilewright.errors import Location, TilewrightError
from tilewright.runtime.resuming import NEVER, RunSnapshot
from tilewright.runtime.session import Session
from tilewright.runtime.snapshot_files import read_header, require_savable
from tilewright.targets.artifact import calls

INTERRUPTED = 130  # exit code of a program that Ctrl-C ends

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Interruption:
    """Ctrl-C as a wish to stop: the first one is noted, the next one interrupts as it always does.

    with Interruption() as asked: session.resume(run, stop=asked)
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: _Handler = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self.__exit__()

    def __call__(self) -> bool:
        return self.asked


@dataclass
class Stops:
    """Where a run stops and from where it goes on, as the command line says."""

    after: int | None  # cycles
    snapshot: str | None  # file to write
    resumed: str | None  # file to go on from
    interrupted: bool = False

    @property
    def used(self) -> bool:
        return self.snapshot is not None or self.resumed is not None

    def check(self, begins: Mapping[str, Any]) -> None:
        """Options that fit together, and a place for the file: looked at before hours of work.

        begins: options that say how a run begins, which one that goes on has behind it.
        """
        if self.after is not None and self.snapshot is None:
            raise TilewrightError(
                "TW3134", "--stop-after needs --snapshot", hint="name a file to go on from"
            )
        given = [name for name, value in begins.items() if value]
        if self.resumed is not None and given:
            raise TilewrightError(
                "TW3134",
                f"{given[0]} and --resume exclude each other",
                hint="a run goes on with the inputs and the state it began with",
            )
        if self.snapshot is not None:
            folder = os.path.dirname(os.path.realpath(self.snapshot))
            usable = os.path.isdir(folder) and os.access(folder, os.W_OK)
            if os.path.isdir(self.snapshot) or not usable:
                raise TilewrightError(
                    "TW0011", "no file can be written there", Location(self.snapshot)
                )

    def entry(self) -> str | None:
        """The entry point whose run goes on."""
        return None if self.resumed is None else read_header(self.resumed).entry

    def run(self, session: Session, given: Mapping[str, np.ndarray]) -> RunSnapshot:
        """Begin or go on; what is stopped is written."""
        if self.snapshot is not None:
            require_savable(session)
        if self.resumed is not None:
            run = session.load_snapshot(self.resumed)
        else:
            run = session.start(given)
        cycle = NEVER if self.after is None else self.after
        if self.snapshot is None:
            return session.resume(run, cycle)
        with Interruption() as asked:
            run = session.resume(run, cycle, asked)
        if not run.finished:
            self.interrupted = asked() and run.cycle < cycle
            session.save_snapshot(run, self.snapshot)
        return run

    def tell(self, session: Session, run: RunSnapshot, bundle: str, as_json: bool) -> int:
        """Say where the run was stopped and how to go on; the exit code."""
        model, file = session.model, self.snapshot or ""
        done, steps = session.device().calls, sum(1 for _ in calls(model.artifact))
        if as_json:
            print_json(
                {
                    "model": model.name,
                    "target": model.artifact.target,
                    "stopped": True,
                    "interrupted": self.interrupted,
                    "cycles": run.cycle,
                    "steps_done": len(done),
                    "steps": steps,
                    "calls": [call.to_json() for call in done],
                    "files": [file],
                }
            )
        else:
            where = f"{run.cycle:,} cycles, with {len(done)} of {steps} steps done"
            click.echo(f"{model.name} on {model.artifact.target}: stopped after {where}")
            click.echo(f"wrote {file}")
            click.echo(f"to go on: tilewright run {bundle} --resume {file}")
        return INTERRUPTED if self.interrupted else 0
