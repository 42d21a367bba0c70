"""Code that other processes generate: the same bytes, the same errors, and never a wait for nobody."""

from __future__ import annotations

import io
import os
import pickle
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import networks
from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.runtime.bundle import save
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.model import joining, worker_process, workers
from tilewright.targets.atlas.model.workers import Unit, receive, send


def bundle(path: Path) -> bytes:
    save(compile_imported(networks.siglip(33, 64, 2, 96, layers=3), "atlas-v1"), path)
    return path.read_bytes()


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    """Two processes from the start; the units that the other one made."""
    made: list[Unit] = []
    monkeypatch.setenv(workers.JOBS, "2")
    monkeypatch.setattr(workers, "PATIENCE", 0.0)
    failures = workers._Team.failures

    def noted(self: workers._Team, before: Unit | None) -> list[Unit]:
        found = failures(self, before)
        made.extend(unit for unit, _ in self.made)
        return found

    monkeypatch.setattr(workers._Team, "failures", noted)
    return made


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process waits at its second unit until the other one has made all the rest."""
    made, calls, teams = joining._made, [], []

    def after_others(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            for team in teams:
                for thread in team._threads:
                    thread.join(60)
        return made(*arguments)  # type: ignore[arg-type]

    start = workers._Team.start

    def noted(self: workers._Team, count: int) -> None:
        teams.append(self)
        start(self, count)

    monkeypatch.setattr(workers._Team, "start", noted)
    monkeypatch.setattr(joining, "_made", after_others)


def test_what_others_make_is_the_same(
    tmp_path: Path, others: list[Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    several = bundle(tmp_path / "several.twb")
    assert others, "nothing was made by the other process"
    monkeypatch.undo()
    monkeypatch.setenv(workers.JOBS, "1")
    assert several == bundle(tmp_path / "one.twb")


@pytest.mark.parametrize("start", ["raise SystemExit", "print('hello')", "import no_such_module"])
def test_processes_that_end_leave_their_units_here(
    tmp_path: Path, others: list[Unit], monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(workers, "_START", start)
    several = bundle(tmp_path / "several.twb")
    assert not others
    monkeypatch.setenv(workers.JOBS, "1")
    assert several == bundle(tmp_path / "one.twb")


def test_the_first_refusal_is_raised_whoever_meets_it(
    others: list[Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units 0 to 5, of which 2 and 4 are refused: the error is that of 2 with any number of processes."""
    monkeypatch.setattr(workers, "_START", "raise SystemExit")  # whatever they take comes back
    units = [Unit(first, (None,), 0) for first in range(6)]  # type: ignore[arg-type]

    def make(unit: Unit) -> list[workers.KernelCode]:
        if unit.first in (2, 4):
            raise TilewrightError("TW0000", f"unit {unit.first}")
        return []

    for jobs in ("1", "2", "4"):
        monkeypatch.setenv(workers.JOBS, jobs)
        with pytest.raises(TilewrightError, match="unit 2"):
            workers.generate(units, make, lambda unit, code: None)


def test_a_worker_answers_every_launch_of_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused unit has an empty answer for each of its launches, and the next one is taken."""
    asked, answers = io.BytesIO(), io.BytesIO()
    for count in (1, 2):
        send(asked, pickle.dumps((Unit(0, tuple(range(count)), 0), asdict(TUNING))))  # type: ignore[arg-type]
    asked.seek(0)

    def refused(unit: Unit) -> list[workers.KernelCode]:
        raise TilewrightError("TW0000", "no")

    class Pipe:
        def __init__(self, buffer: io.BytesIO) -> None:
            self.buffer = buffer

    monkeypatch.setattr(worker_process, "made_of", refused)
    monkeypatch.setattr(sys, "stdin", Pipe(asked))
    monkeypatch.setattr(sys, "stdout", Pipe(answers))
    worker_process.serve()
    answers.seek(0)
    assert [receive(answers) for _ in range(3)] == [b""] * 3
    with pytest.raises(EOFError):
        receive(answers)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "99999"])
def test_a_number_of_processes_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workers.JOBS, text)
    with pytest.raises(TilewrightError) as found:
        workers.processes()
    assert found.value.code == "TW0079" and text in found.value.message


def test_without_a_number_there_are_as_many_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(workers.JOBS, raising=False)
    assert workers.processes() == len(os.sched_getaffinity(0))
