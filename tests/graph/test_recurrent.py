"""Recurrent layers whose steps are written out become one loop on the device."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.model.capture import capture
from tilewright.model.simplify import simplify
from tilewright.targets.atlas.model.recurrences import find_recurrences

INPUTS = 24


class Net:
    """A layer step by step, as importers write it."""

    def __init__(
        self, steps: int, batch: int, width: int, gates: int, backward: bool = False
    ) -> None:
        self.width = width
        self.net, self.steps, self.batch, self.gates = (
            ModelBuilder("layer", seed=3), steps, batch, gates,
        )  # fmt: skip
        random = np.random.default_rng(steps)
        self.arrays = {
            "input": random.normal(size=(INPUTS, gates * width)) / 4,
            "state": random.normal(size=(width, gates * width)) / 5,
            "input_bias": random.normal(size=gates * width) / 3,
            "state_bias": random.normal(size=gates * width) / 3,
        }
        self.weights = {
            name: self.net.weight(name, a.astype(np.float32)) for name, a in self.arrays.items()
        }
        self.x = self.net.input("x", (steps, batch, INPUTS))
        self.order = range(steps)[::-1] if backward else range(steps)
        product = self.net.matmul(self.x, self.weights["input"])
        self.projected = self.net._along(product, self.weights["input_bias"], 2, "add")

    def given(self, time: int) -> Value:
        sizes = (1, self.batch, self.gates * self.width)
        part = self.net.slice(self.projected, (time, 0, 0), sizes)
        return self.net.reshape(part, sizes[1:])

    def of_state(self, h: Value) -> Value:
        product = self.net.matmul(h, self.weights["state"])
        return self.net._along(product, self.weights["state_bias"], 1, "add")

    def gate(self, x: Value, number: int) -> Value:
        return self.net.slice(x, (0, number * self.width), (self.batch, self.width))

    def whole(self, states: dict[int, Value]) -> Value:
        sizes = (1, self.batch, self.width)
        return self.net.concat([self.net.reshape(states[t], sizes) for t in range(self.steps)], 0)


def lstm(steps: int, batch: int, width: int = 20, odd: int = -1, leak: bool = False):
    """A layer with its initial states as inputs; odd: a step that computes something else; leak: a
    gate is an output too."""
    of = Net(steps, batch, width, 4)
    net = of.net
    h, c = net.input("h", (batch, width)), net.input("c", (batch, width))
    states = {}
    for time in of.order:
        total = of.given(time) + of.of_state(h)
        i, f, g, o = (of.gate(total, k) for k in range(4))
        i, f, o = (net.unary("elementwise_sigmoid", gate) for gate in (i, f, o))
        g = net.unary("elementwise_tanh", g) if time != odd else net.relu(g)
        c = f * c + i * g
        h = o * net.unary("elementwise_tanh", c)
        states[time] = h
        if leak and time == 2:
            net.output("gate", o)
    net.output("y", of.whole(states))
    net.output("last", c)
    return net.build(), of


def gru(steps: int, batch: int, width: int, backward: bool):
    of = Net(steps, batch, width, 3, backward)
    net = of.net
    h = net.input("h", (batch, width))
    states = {}
    for time in of.order:
        x, p = of.given(time), of.of_state(h)
        reset, update = (
            net.unary("elementwise_sigmoid", of.gate(x, k) + of.gate(p, k)) for k in (0, 1)
        )
        new = net.unary("elementwise_tanh", of.gate(x, 2) + reset * of.gate(p, 2))
        h = new + update * (h - new)
        states[time] = h
    net.output("y", of.whole(states))
    return net.build(), of


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def _kernels(program: tw.Program) -> list[str]:
    return [step.kernel for step in program.model.artifact.steps]


@pytest.mark.parametrize("steps, batch, width", [(4, 3, 40), (7, 1, 20)])
def test_an_lstm_is_one_loop_and_right(steps: int, batch: int, width: int):
    model, of = lstm(steps, batch, width)
    program = tw.compile(model)
    assert _kernels(program).count("recurrent") == 1
    assert program.model.provenance["host_share"] == 0
    assert program.verify().ok
    random = np.random.default_rng(0)
    x, h, c = (
        random.normal(size=s).astype(np.float32)
        for s in ((steps, batch, INPUTS), (batch, width), (batch, width))
    )
    found, last = program(x, h, c)
    a = of.arrays
    for time in range(steps):
        total = x[time] @ a["input"] + a["input_bias"] + h @ a["state"] + a["state_bias"]
        i, f, g, o = np.split(total, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        assert _error(found[time], h) < 0.08
    assert _error(last, c) < 0.08


def test_code_does_not_grow_with_the_sequence():
    words = []
    for steps in (6, 24):
        artifact = tw.compile(lstm(steps, 2)[0]).model.artifact
        words.append(sum(step.end_word - step.first_word for step in artifact.steps))
        assert len(artifact.steps) == 5
    assert words[1] < 1.2 * words[0]


@pytest.mark.parametrize("backward", [False, True])
def test_a_gru_in_both_directions(backward: bool):
    program = tw.compile(gru(5, 33, 17, backward)[0])
    assert _kernels(program) == ["quantise", "linear", "recurrent"]
    assert program.verify().ok


@pytest.mark.parametrize("change", [{"odd": 3}, {"leak": True}])
def test_what_is_not_the_same_in_all_steps_stays_as_it_is_written(change: dict):
    model, _ = lstm(6, 3, **change)
    assert find_recurrences(capture(simplify(model))) == []
    assert len(find_recurrences(capture(simplify(lstm(6, 3)[0])))) == 1


@pytest.mark.parametrize("batch, width, kind", [(1, 32, lstm), (8, 64, lstm), (4, 96, gru)])
def test_a_step_takes_as_long_in_long_sequences_as_in_short_ones(batch: int, width: int, kind):
    """The inputs of all steps of the long one have no room in VMEM together."""
    per_step = []
    for steps in (20, 150):
        model, _ = kind(steps, batch, width) if kind is lstm else gru(steps, batch, width, False)
        program = tw.compile(model)
        assert _kernels(program).count("recurrent") == 1
        per_step.append(program.cycles / steps)
        if batch < 4:
            assert program.verify().ok
    assert per_step[1] < 1.2 * per_step[0]
