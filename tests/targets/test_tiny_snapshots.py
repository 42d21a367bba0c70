"""Stopped runs of a machine that is not Atlas: what a device has to bring, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tiny_machine
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.io.archive import Member
from tilewright.runtime.session import Session
from tilewright.targets import artifact as interface
from tilewright.targets import registry
from tilewright.targets.artifact import DevicePart


class Stoppable(tiny_machine.TinyDevice):
    """The tiny machine between two of its steps."""

    done = 0  # steps of the entry that is being run
    packs = True

    def run_until(
        self, part: DevicePart, cycle: int, stop: Callable[[], bool] | None = None
    ) -> bool:
        steps = self.artifact.entries[part.entry]
        whole = self.artifact.entries
        while self.done < len(steps):
            if self.cycles >= cycle or (stop is not None and stop()):
                return False
            self.artifact.entries = {part.entry: steps[self.done : self.done + 1]}
            self.run(part)
            self.artifact.entries = whole
            self.done += 1
        self.done = 0
        return True

    @property
    def reached(self) -> int:
        return self.cycles

    def snapshot(self) -> object:
        return self.memory.copy(), len(self.calls), self.done

    def restore(self, snapshot: Any) -> None:
        memory, calls, self.done = snapshot
        self.memory, self.calls = memory.copy(), []
        for index, step in enumerate(self.artifact.steps[:calls]):
            span = (self.cycles, self.cycles + step.bound)
            busy = {"ALU": step.bound}
            self.calls.append(interface.StepCall(index, 0, step.name, *span, busy))

    def pack(self, snapshot: Any) -> list[Member]:
        memory, calls, done = snapshot
        return [Member("ram", [memory]), Member("place", [bytes([calls, done])])]

    def unpack(
        self, part: DevicePart, members: Mapping[str, np.ndarray], place: Location
    ) -> object:
        if {name: len(raw) for name, raw in members.items()} != {
            "ram": tiny_machine.RAM,
            "place": 2,
        }:
            raise ValueError("the memory is not that of a tiny machine")
        calls, done = members["place"].tolist()
        return members["ram"].copy(), calls, done


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    point = EntryPoint("tiny", "tiny_machine:FAMILY", registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    monkeypatch.setattr(registry, "_broken", {})
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


def test_any_machine_can_offer_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = ModelBuilder("network", seed=1)
    x = net.input("x", (6, 20))
    hidden = net.softmax(net.relu(net.linear(x, 12, "up")))
    net.output("y", net.binary("elementwise_add", net.linear(hidden, 20, "down", bias=False), x))
    program = tw.compile(net.build(), target="tiny-1")
    given = {"x": np.linspace(-3, 2, 120, dtype=np.float32).reshape(6, 20)}
    with pytest.raises(TilewrightError, match=r"TW3134.*tiny-1 cannot be stopped"):
        program.session.run_until(1, given)
    monkeypatch.setattr(tiny_machine.TinyArtifact, "device", lambda self, _: Stoppable(self))
    program.save(tmp_path / "n.twb")
    whole = Session(program.model)
    wanted = whole.run(given)["y"]
    for cycle in range(0, whole.cycles, 3):
        session = Session(program.model)
        session.save_snapshot(session.run_until(cycle, given), tmp_path / "h.twr")
        later = Session(tw.load(tmp_path / "n.twb").model)
        outputs = later.resume(later.load_snapshot(tmp_path / "h.twr")).outputs
        assert outputs is not None and np.array_equal(outputs["y"], wanted)
        assert later.cycles == whole.cycles and later.step_cycles == whole.step_cycles
    monkeypatch.setattr(tiny_machine, "RAM", 7)
    with pytest.raises(TilewrightError, match=r"TW3135.*tiny machine"):
        whole.load_snapshot(tmp_path / "h.twr")
