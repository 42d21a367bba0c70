"""Addresses of overlapped loops: right in fill, loop and drain, and found when they are not."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import pytest
from random_loops import ANY_GAIN, random_loop

from tilewright.frontend.builder import ModelBuilder
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.codegen import modulo_loop
from tilewright.targets.atlas.codegen.check_overlap import wrong_access
from tilewright.targets.atlas.codegen.modulo_scalars import Scalars
from tilewright.targets.atlas.model import row_layout
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list:
    """Every loop that was looked at: the arguments, and what was found."""
    rows = []

    def noted(*arguments):
        found = wrong_access(*arguments)
        rows.append((arguments, found))
        return found

    monkeypatch.setattr(modulo_loop, "wrong_access", noted)
    # Loops over the matrices of a batch are what this is about.
    monkeypatch.setattr(row_layout, "_may_gain", lambda *_: False)
    return rows


def linears(batch: int, count: int, normed: bool = False):
    net = ModelBuilder("linears", seed=1)
    x = net.input("x", (batch, 4, 32))
    y = net.layer_norm(x, "norm") if normed else x
    for number in range(count):
        y = net.linear(y, 32, f"linear{number}")
    net.output("y", x + y if normed else y)
    return net.build()


@pytest.mark.parametrize(
    ("batch", "count", "normed"), [(131, 2, False), (139, 2, False), (106, 3, False)]
)
def test_late_users_have_their_address_in_the_drain(batch, count, normed, judged):
    model = linears(batch, count, normed)
    result = verify(compile_model(model, load_profile("atlas-v1")), original=model)
    assert result.ok, result.text()
    assert judged and not [found for _, found in judged if found]
    assert any(loop.after for (loop, *_), _ in judged)  # somebody uses a pointer late


def test_a_pointer_that_stops_too_early_is_found(judged, monkeypatch):
    """Without the moves in the drain no such loop is taken, and the model is right all the same."""
    monkeypatch.setattr(Scalars, "_go_on", lambda *_: None)
    result = verify(compile_model(linears(131, 2), load_profile("atlas-v1")))
    assert [found for _, found in judged if found]
    assert result.ok


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("seed", range(6))
def test_loops_are_right_and_broken_ones_are_found(profile, seed, judged):
    """A scalar instruction left out or changed, or a move of a pointer that stops early."""
    choose = random.Random(seed)
    random_loop(profile, seed, 5 + seed).compile(gain=ANY_GAIN)
    assert not [found for _, found in judged if found]
    for (loop, body, trips, setting), _ in judged[:3]:
        scalars = [k for k, row in enumerate(loop.rows) if row.op is None]
        for index in choose.sample(scalars, min(6, len(scalars))):
            row = loop.rows[index]
            target, *rest = row.instruction.operands
            if row.instruction.opcode.mnemonic == "addi":
                broken = copy.copy(loop)
                other = Instruction(row.instruction.opcode, (target, rest[0], rest[1] + 32))
                broken.rows = [*loop.rows]
                broken.rows[index] = replace(row, instruction=other)
                assert wrong_access(broken, body, trips, setting), row
            broken = copy.copy(loop)
            broken.rows = [other for k, other in enumerate(loop.rows) if k != index]
            assert wrong_access(broken, body, trips, setting), row
        if loop.after:
            broken = copy.copy(loop)
            broken.after = []
            assert wrong_access(broken, body, trips, setting)
