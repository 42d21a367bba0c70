"""Inputs that nobody gave: they mean what the model takes; and the limit that `verify` judges by."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiling import compile
from tilewright.dialects.xdsl_api import TensorType, f32
from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.model.sample_values import KINDS, Meaning, draw
from tilewright.runtime.example_inputs import example_inputs, meanings


@pytest.mark.parametrize("shape", [(), (1,), (9,), (2, 9), (3, 1, 6, 6), (2, 1, 4, 9), (2, 9, 4)])
@pytest.mark.parametrize("kind", ["", *KINDS])
@pytest.mark.parametrize("is_float", [True, False])
def test_numbers_have_the_shape_and_the_range(shape, kind, is_float):
    meaning = Meaning(kind, 50) if kind else None
    for seed in range(5):
        numbers = draw(shape, is_float, meaning, np.random.default_rng(seed))
        assert numbers.shape == shape and np.isfinite(numbers).all()
        if kind == "ids" and not is_float:
            assert ((numbers >= 0) & (numbers < 50)).all()
        if kind == "positions":
            assert ((numbers >= 0) & (numbers < 50)).all()
            if shape and shape[-1] > 1:
                assert (np.diff(numbers, axis=-1) == 1).all()
        if kind == "mask" and shape and shape[-1] > 1:
            counts = numbers.sum(-1)
            assert (counts >= 1).all() and (counts < shape[-1]).all()
            assert (np.diff(numbers, axis=-1) <= 0).all()


def test_a_file_cannot_say_nonsense():
    for value in (None, 3, {}, {"kind": "ids", "below": -1}, {"kind": "ids", "below": True},
                  {"kind": "x"}, {"kind": "ids", "below": 2**40}, ["ids"]):  # fmt: skip
        assert Meaning.from_json(value) is None
    assert Meaning.from_json(Meaning("ids", 7).to_json()) == Meaning("ids", 7)
    pixels = Meaning("numbers", mean=127.5, spread=70.0, least=0.0, most=255.0)
    assert Meaning.from_json(pixels.to_json()) == pixels
    for wrong in ({"mean": 300.0}, {"spread": 0.0}, {"most": float("inf")}, {"least": "0"}):
        assert Meaning.from_json({**pixels.to_json(), **wrong}) is None
    huge = Meaning.from_json({**pixels.to_json(), "least": -1e29, "most": 1e29})
    assert draw((9,), False, huge, np.random.default_rng(0)).dtype == np.int64


@pytest.mark.parametrize("target", ["atlas-v1", "vpu40", "xdna2"])
def test_numbers_are_as_large_as_the_samples(target):
    """Scales from pixels say nothing about normal numbers: those would all be rounded to zero."""
    net = ModelBuilder("pixels", seed=1)
    x = net.input("x", (5, 33))
    net.output("y", net.linear(net.relu(net.linear(x, 65, "up")), 9, "down"))
    random = np.random.default_rng(0)
    for scale, numbers in ((2000, random.random((5, 33))), (1e-5, random.normal(size=(5, 33)))):
        sample = (numbers * scale).astype(np.float32)
        program = compile(net.build(), sample, target=target)
        found = program.verify()
        assert found.ok, found.text()
        drawn = example_inputs(program.model, "random", 1)["x"]
        assert sample.min() <= np.float32(drawn.min()) < np.float32(drawn.max()) <= sample.max()
        assert 0.5 * sample.std() < drawn.std() < 1.5 * sample.std()
    program = compile(net.build(), random.standard_normal((5, 33)).astype(np.float32))
    assert meanings(program.model) == {}


def rotated() -> ModelBuilder:
    """Positions become angles when the model runs, tokens rows of a table."""
    net = ModelBuilder("rotated", seed=2)
    tokens, at = net.input("tokens", (6,), "i64"), net.input("at", (6, 1), "i64")
    x = net.embedding(tokens, 77, 32, "embed")
    turns = net._call("cast", [at], (6, 1))
    table = net.weight("f", (1e4 ** -(np.arange(32) / 32)).astype(np.float32).reshape(1, 32))
    kind = TensorType(f32, [6, 32])
    angles = Value(net, net._intents.matmul(turns.value, table.value, kind))
    waves = net.unary("elementwise_cos", angles)
    net.output("y", net.linear(x * waves, 48, "layer"))
    return net


def test_meanings_are_found_in_the_graph():
    program = compile(rotated().build())
    found = {name: str(meaning) for name, meaning in meanings(program.model).items()}
    assert found == {"tokens": "ids below 77", "at": "ascending positions below 4096"}
    drawn = example_inputs(program.model, "random", 0)
    assert drawn["tokens"].max() > 1 and drawn["at"].max() > 100
    result = program.verify()
    assert result.ok and "ids below 77" in result.inputs and "positions" in result.inputs
    output = result.outputs[0]
    assert output.limit is not None and 0.98 < output.limit < output.accuracy.cosine  # type: ignore[union-attr]


def test_values_far_from_float32_are_not_verified(monkeypatch):
    """Angles in bf16, as they were: every bit is as the references say, and the result is wrong."""
    imported = rotated().build()
    monkeypatch.setattr("tilewright.targets.atlas.model.lowering.angles_of", lambda graph: set())
    given = {"tokens": np.arange(6), "at": np.arange(6).reshape(6, 1) * 700}
    result = compile(imported).verify(given)
    assert all(output.difference is None for output in result.outputs)
    assert not result.close and not result.ok and "TOO FAR FROM FLOAT32" in result.text()
    monkeypatch.undo()
    assert compile(imported).verify(given).ok


def test_a_result_of_half_the_size_is_too_far():
    """Its cosine is perfect."""
    net = ModelBuilder("half", seed=3)
    x = net.input("x", (9, 32))
    net.output("y", net.linear(x, 48, "layer"))
    imported = net.build()
    program = compile(imported)
    weights = {name: array * 0.5 for name, array in imported.weights.items()}
    imported.weights.update(weights)
    result = program.verify()
    assert result.cosine is not None and result.cosine > 0.999 and not result.ok
    assert program.verify(min_cosine=0.99).ok


def test_the_limit_follows_the_model():
    """What cancels may be far off; one layer may not."""
    net = ModelBuilder("cancels", seed=4)
    x = net.input("x", (40, 64))
    one = net.linear(x, 64, "layer")
    weight = net.weights["layer.weight"]
    kind = TensorType(f32, [40, 64])
    other = net.weight("again", (weight * 1.01).astype(np.float32))
    two = Value(net, net._intents.matmul(x.value, other.value, kind, transpose_rhs=True))
    net.output("y", one)
    net.output("z", one - two)
    result = compile(net.build()).verify()
    single, cancelled = result.outputs
    assert single.limit is not None and cancelled.limit is not None
    assert single.limit > 0.98 > cancelled.limit and result.ok
