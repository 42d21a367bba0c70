"""Tensors without elements, as `x[:, :0]` gives them: the host has them, for there is nothing to compute."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder, Value


def _program(make, target: str) -> tw.Program:
    net = ModelBuilder("cuts", seed=2)
    for number, value in enumerate(make(net, net.input("x", (3, 40)))):
        net.output(f"y{number}", value)
    return tw.compile(net.build(), target=target)


def _cut(net: ModelBuilder, x: Value, rows: int = 3, columns: int = 0) -> Value:
    return net.slice(x, (0, 0), (rows, columns))


def _alone(net: ModelBuilder, x: Value) -> list[Value]:
    return [_cut(net, x)]


def _beside(net: ModelBuilder, x: Value) -> list[Value]:
    return [net.relu(x), _cut(net, net.relu(x)), net.softmax(_cut(net, x, 0, 40))]


def _summed(net: ModelBuilder, x: Value) -> list[Value]:
    """A product over no terms is zero, and can be added to what the device has."""
    weight = net.weight("w", np.zeros((0, 40), np.float32))
    return [net.matmul(_cut(net, x), weight) + net.relu(x)]


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1", "vpu40", "coral-highmem"])
@pytest.mark.parametrize(
    "make, shapes",
    [
        (_alone, [(3, 0)]),
        (_beside, [(3, 40), (3, 0), (0, 40)]),
        (_summed, [(3, 40)]),
    ],
)
def test_they_are_results_like_others(make, shapes: list[tuple[int, ...]], target: str):
    program = _program(make, target)
    x = np.random.default_rng(1).normal(size=(3, 40)).astype(np.float32)
    found = program(x)
    found = found if isinstance(found, tuple) else (found,)
    assert [part.shape for part in found] == shapes
    for part in found:
        wanted = np.maximum(x, 0) if part.size else part
        np.testing.assert_allclose(part, wanted, rtol=2**-7)
    assert program.verify().ok
