"""Code of launches that do not depend on each other, generated on all cores.

Processes of their own take one unit after the other: a launch, or a run of launches that share their
code. They are started only when there is work for seconds, are told everything through a pipe, and run
none of the program that started us. What they make is what this process would make, byte for byte; a
unit whose process fails, or that is refused there, is generated here, where its error belongs.

    TILEWRIGHT_JOBS     processes at the most, this one included: as many as there are cores

Error codes: TW0079 a number of processes that is none.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import IO

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.model.kernel_code import KernelCode, Source, from_bytes

JOBS = "TILEWRIGHT_JOBS"
PATIENCE = 1.5  # seconds of work after which others are asked to help
_SIZE = struct.Struct("<Q")
_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from tilewright.targets.atlas.model.worker_process import serve; serve()"
)


@dataclass(frozen=True)
class Unit:
    """Launches whose code is made together; `first` is the number of the first of them."""

    first: int
    sources: tuple[Source, ...]
    limit: int  # instructions that one piece of a program may have


Make = Callable[[Unit], list[KernelCode]]


def processes() -> int:
    """How many processes may work at once, this one included."""
    text = os.environ.get(JOBS, "").strip()
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if not text.isdecimal() or not 0 < int(text) <= 1024:
        raise TilewrightError(
            "TW0079", f"{JOBS} is {text!r}, which is no number of processes", hint="such as 1 or 8"
        )
    return int(text)


def generate(
    units: Sequence[Unit], make: Make, known: Callable[[Unit, list[KernelCode]], object]
) -> dict[int, list[KernelCode]]:
    """The code of every unit by its first launch. known: told of what others have made.

    Units are begun in their order and the first one that is refused ends the work, so that the same
    error is raised however many processes there are.
    """
    helpers = processes() - 1
    team = _Team(units)
    done: dict[int, list[KernelCode]] = {}
    began = time.monotonic()
    try:
        while (unit := team.take()) is not None:
            try:
                done[unit.first] = make(unit)
            except TilewrightError:
                for earlier in team.failures(unit):
                    make(earlier)
                raise
            left = len(team.waiting)
            if helpers and left > 1 and time.monotonic() - began > PATIENCE:
                team.start(min(helpers, left))
                helpers = 0
        for unit in team.failures(None):
            done[unit.first] = make(unit)
        for unit, code in team.made:
            known(unit, code)
            done[unit.first] = code
    finally:
        team.stop()
    return done


class _Team:
    """Processes that help, each with a thread here that gives it units."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.waiting = deque(units)
        self._place = {unit.first: place for place, unit in enumerate(units)}
        self.made: list[tuple[Unit, list[KernelCode]]] = []
        self._failed: list[Unit] = []
        self._threads: list[threading.Thread] = []
        self._running: list[subprocess.Popen[bytes]] = []

    def take(self) -> Unit | None:
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def start(self, count: int) -> None:
        for _ in range(count):
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", _START.format(path=sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                return
            self._running.append(process)
            self._threads.append(threading.Thread(target=self._serve, args=(process,), daemon=True))
            self._threads[-1].start()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Give a process units until none is left, or it fails."""
        assert process.stdin is not None and process.stdout is not None
        while (unit := self.take()) is not None:
            try:
                send(process.stdin, pickle.dumps((unit, asdict(TUNING))))
                code = _read_code(process.stdout, len(unit.sources))
            except (OSError, EOFError, pickle.PicklingError, TypeError, AttributeError):
                code = None
            if code is None:
                self._failed.append(unit)
                return
            self.made.append((unit, code))

    def failures(self, before: Unit | None) -> list[Unit]:
        """Units that others could not make, in their order, after all have come to an end.

        before: there is one that was refused, so that only earlier ones are of interest.
        """
        if before is not None:
            self.waiting.clear()
        for thread in self._threads:
            thread.join()
        end = len(self._place) if before is None else self._place[before.first]
        failed = sorted(self._failed, key=lambda unit: self._place[unit.first])
        return [unit for unit in failed if self._place[unit.first] < end]

    def stop(self) -> None:
        self.waiting.clear()
        for process in self._running:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            process.wait()


def send(pipe: IO[bytes], raw: bytes) -> None:
    pipe.write(_SIZE.pack(len(raw)) + raw)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    raw = pipe.read(_SIZE.unpack(head)[0])
    if len(raw) < _SIZE.unpack(head)[0]:
        raise EOFError
    return raw


def _read_code(pipe: IO[bytes], count: int) -> list[KernelCode] | None:
    """What a process has made of a unit of so many launches; none if it could not."""
    found = [from_bytes(receive(pipe)) for _ in range(count)]
    code = [one for one in found if isinstance(one, KernelCode)]
    return code if len(code) == count else None
