"""Runs that are stopped and gone on with: equal to runs that never stopped, in values and cycles."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.runtime.session import Session
from tilewright.targets.compiled_model import CompiledModel


def tagger() -> Imported:
    """A lookup and a sum on the host, layers in a loop on the device, the host once more, a head."""
    net = ModelBuilder("tagger", seed=5)
    tokens = net.input("tokens", (20,), "i64")
    x = net.embedding(tokens, 100, 64, "embed")
    for number in range(3):
        with net.layer(f"layers.{number}"):
            x = x + net.linear(net.relu(net.linear(net.rms_norm(x, "norm"), 96, "up")), 64, "down")
    x = net.linear(x, 64, "outside")
    net.output("tags", net.linear(x, 24, "head"))
    return net.build()


@cache
def compiled() -> CompiledModel[Any]:
    return tw.compile(tagger(), host=["outside"]).model


def inputs(seed: int) -> dict[str, np.ndarray]:
    return {"tokens": np.random.default_rng(seed).integers(0, 100, 20)}


def same(session: Session, outputs: Any, whole: Session, wanted: Any) -> None:
    assert {n: a.tobytes() for n, a in outputs.items()} == {
        n: a.tobytes() for n, a in wanted.items()
    }
    assert session.cycles == whole.cycles
    assert list(session.step_cycles) == list(whole.step_cycles)
    assert session.statistics == whole.statistics


def whole_run(seed: int, machine: str | None = None) -> tuple[Session, dict[str, np.ndarray]]:
    session = Session(compiled(), machine)
    return session, session.run(inputs(seed))


def test_a_run_that_stops_anywhere_ends_as_one_that_does_not() -> None:
    whole, wanted = whole_run(1)
    assert len([p for p in compiled().parts if type(p).__name__ == "DevicePart"]) == 2
    session = Session(compiled())
    places = np.random.default_rng(0).integers(0, whole.cycles, 6).tolist()
    starts = [call.start for call in whole.step_cycles]
    for cycle in [0, 1, whole.cycles - 1, *places, *starts[1:3], starts[-1]]:
        half = session.run_until(cycle, inputs(1))
        assert not half.finished and half.outputs is None and half.cycle == cycle
        session.run(inputs(2))  # something else meanwhile
        end = session.resume(half)
        assert end.finished and end.outputs is not None and end.cycle == whole.cycles
        same(session, end.outputs, whole, wanted)


def test_many_stops_many_resumptions_and_another_session() -> None:
    whole, wanted = whole_run(3)
    session, other = Session(compiled()), Session(compiled(), poisoned=True)
    at = session.run_until(100, **inputs(3))
    stops = [at]
    while not at.finished:
        at = session.resume(at, at.cycle + whole.cycles // 7)
        stops.append(at)
    assert len(stops) >= 8
    assert at.outputs is not None
    same(session, at.outputs, whole, wanted)
    for stop in (stops[2], stops[5], stops[2]):
        for one in (other, session):
            end = one.resume(stop)
            assert end.outputs is not None
            same(one, end.outputs, whole, wanted)
    assert session.resume(at) is at
    assert session.run_until(whole.cycles + 1, inputs(3)).finished


def test_both_machines_stop_alike() -> None:
    whole, wanted = whole_run(4)
    session = Session(compiled(), "python")
    half = session.run_until(whole.cycles // 3, inputs(4))
    end = session.resume(half)
    assert end.outputs is not None
    same(session, end.outputs, whole, wanted)


def test_what_cannot_be_stopped_or_resumed() -> None:
    session = Session(compiled())
    half = session.run_until(50, inputs(1))
    net = ModelBuilder("other")
    net.output("y", net.linear(net.input("x", (4, 32)), 16, "fc"))
    model = net.build()
    elsewhere = Session(tw.compile(model).model)
    with pytest.raises(tw.TilewrightError, match=r"TW3134.*another program"):
        elsewhere.resume(half)
    x = np.ones((4, 32), np.float32)
    with pytest.raises(tw.TilewrightError, match=r"TW3134.*cannot be stopped"):
        Session(tw.compile(model, target="vpu40").model).run_until(10, x=x)
    with pytest.raises(tw.TilewrightError, match=r"TW3134.*sampled"):
        Session(compiled(), sampled=True).run_until(10, inputs(1))
    with pytest.raises(tw.TilewrightError, match="TW3121"):
        session.run_until(10)
    limited = Session(compiled(), max_cycles=1000)
    with pytest.raises(tw.TilewrightError, match="TW3131"):
        limited.resume(half)
