"""Samples of language models that come from the model's own results, which are computed once."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tilewright.compiling import decoders
from tilewright.compiling.decoders import Rehearsal, compile_weights
from tilewright.compiling.entries import compile_entries
from tilewright.frontend.decoder import Capacity, decoder_entries, drawn_weights
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.frontend.samples import Following
from tilewright.model.digest import model_hash, remembered_digests
from tilewright.reference.executor import Executor

CONFIG = DecoderConfig("llama", 61, 64, 96, 2, 2, 1, 64, tied=False)
CAPACITY = Capacity(prompt=4, slots=(16,))
PROMPT = list(range(3, 15))  # three chunks


def rehearsal() -> Rehearsal:
    return Rehearsal(decoder_entries(CONFIG, drawn_weights(CONFIG, 3), CAPACITY, "m"), PROMPT)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a rehearsal itself has run a model."""
    counted = [0]
    real = decoders._run

    def run(model: Any, sample: Any) -> Any:
        arrays = {name: sample[name] for name in sample}  # what it needs is computed before
        counted[0] += 1
        return real(model, arrays)

    monkeypatch.setattr(decoders, "_run", run)
    return counted


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_chunks_are_those_behind_each_other(order: tuple[int, ...], runs: list[int]) -> None:
    mine = rehearsal()
    samples = mine.samples("prefill", {})
    assert len(samples) == 3 and runs == [0]
    assert isinstance(samples[1], Following) and set(samples[1]) == set(samples[0])
    model = mine.models["prefill"]
    held: dict[str, list[np.ndarray]] = {}
    wanted = []
    for first in (0, 4, 8):
        part = PROMPT[first : first + 4]
        wanted.append(decoders._sample(decoders._variant("prefill", model), model, part, held))
        executor = Executor(model.module, model.weights)
        names = [spec.name for spec in model.outputs]
        results = executor.run([wanted[-1][spec.name] for spec in model.inputs], "main")
        decoders._keep(held, dict(zip(names, results, strict=True)), 4)
    for number in order:
        for name, array in wanted[number].items():
            assert np.array_equal(samples[number][name], array), (number, name)
    assert runs == [2]
    assert len(mine._results("prefill", {})) == 3
    assert runs == [3]


def test_results_in_one_go_are_computed_once(runs: list[int]) -> None:
    mine = rehearsal()
    assert len(mine._results("prefill", {})) == 3
    assert runs == [3] and len(mine.ran["prefill"]) == 3


def test_calibration_hands_on_what_it_computes(runs: list[int]) -> None:
    models = rehearsal().models
    mine = Rehearsal(models, PROMPT)
    samples = {name: partial(mine.samples, name) for name in models}
    made, _ = compile_entries(models, None, "atlas-v1", samples)
    assert runs == [0]
    assert len(made.entries["prefill"].floats) == 3
    early = rehearsal().samples("prefill", {})
    for given, own in zip(mine.found["prefill"], early, strict=True):
        for name in own:  # the model before it was simplified gives the same but for roundings
            assert np.allclose(given[name], own[name], rtol=1e-4, atol=1e-4), name


def test_results_decide_once() -> None:
    asked = []

    def make(results: Any) -> dict[str, np.ndarray]:
        asked.append(results)
        return {"x": np.ones(2)}

    sample = Following(("x",), make)
    assert "x" in sample and "y" not in sample and list(sample) == ["x"] and not asked
    assert sample.behind({"y": np.zeros(1)}) is sample.behind(None)
    assert sample["x"].sum() == 2 and len(asked) == 1 and asked[0] is not None


def test_the_same_program_every_time() -> None:
    def content() -> dict[str, bytes]:
        made = compile_weights(CONFIG, drawn_weights(CONFIG, 3), CAPACITY, prompt=PROMPT).program
        return {
            f"{entry}.{name}": np.asarray(array).tobytes()
            for entry, one in made.entries.items()
            for name, array in one.artifact.weights.items()
        }

    assert content() == content()


def test_digests_are_remembered_for_one_compile_only() -> None:
    model = rehearsal().models["prefill"]
    name = max(model.weights, key=lambda n: np.size(model.weights[n]))
    array = np.asarray(model.weights[name])
    first = model_hash(model)
    with remembered_digests():
        assert model_hash(model) == first == model_hash(model)
        for other in (array + 1, array.T.copy().reshape(array.shape), array[::-1]):
            changed = {**model.weights, name: other}
            found = model_hash(type(model)(**{**vars(model), "weights": changed}))
            assert found != first
    array[...] += 1
    assert model_hash(model) != first
