"""Caches that stay on the device while tokens come and go, in chunks longer than a tile too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.compiling.decoders import compile_weights
from tilewright.frontend.decoder import Capacity, drawn_weights
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.runtime.llm.prefix_cache import PrefixCache
from tilewright.runtime.llm.session import LanguageModel
from tilewright.targets.compiled_model import CompiledEntries

CONFIG = DecoderConfig("llama", 61, 64, 96, layers=1, heads=2, groups=1, head=64, tied=False)
CHUNK, SLOTS = 36, 80


@pytest.fixture(scope="module", params=["atlas-v0", "atlas-v1", "vpu40"])
def program(request: pytest.FixtureRequest) -> CompiledEntries:
    capacity = Capacity(prompt=CHUNK, slots=(SLOTS,))
    return compile_weights(CONFIG, drawn_weights(CONFIG), capacity, request.param).program


def tokens(seed: int, count: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 61, count).tolist()


class Forgetful(LanguageModel):
    """One whose devices hold nothing from call to call."""

    def extend(self, tokens: Sequence[int]) -> np.ndarray:
        for session in self.sessions.values():
            session.resident.forget()
        return super().extend(tokens)


MODELS: dict[tuple[str, type, int], LanguageModel] = {}


def model_of(program: CompiledEntries, kind: type[LanguageModel], number: int = 0) -> LanguageModel:
    key = (program.target, kind, number)
    if key not in MODELS:
        MODELS[key] = kind(program)
    return MODELS[key]


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 70), st.integers(0, 60), st.integers(0, 9))
def test_what_stays_is_what_would_be_written(
    program: CompiledEntries, length: int, kept: int, seed: int
) -> None:
    """Prompts in chunks, tokens that are trimmed and others in their place, another prompt."""
    kinds = (LanguageModel, Forgetful)
    one, other = (model_of(program, kind) for kind in kinds)
    for model in (one, other):
        model.prefill(tokens(seed, length))
    for model in (one, other):
        model.extend([7])
        model.trim(min(kept, length))
    for number in range(2):
        following = [seed + number]
        np.testing.assert_array_equal(one.extend(following), other.extend(following))
    again = tokens(seed + 1, 40)
    np.testing.assert_array_equal(one.prefill(again), other.prefill(again))


def test_a_token_writes_its_own_rows_only(program: CompiledEntries) -> None:
    model = LanguageModel(program)
    model.prefill(tokens(0, 40))
    model.extend([1])  # the first in a memory of its own: all of it
    generate = model.sessions["generate"].resident
    before = generate.rows_written
    for token in (2, 3):
        model.extend([token])
    assert generate.rows_written - before == 2 * 2  # keys and values
    kinds = [t.kind for t in program.entries["generate"].artifact.tensors.values()]
    assert kinds.count("state") >= 2


def test_hits_and_references_agree_bit_for_bit(program: CompiledEntries) -> None:
    """A chunk reads its cache in fp8 too, whatever its length."""
    shared, last = tokens(4, CHUNK), tokens(5, 6)
    model = model_of(program, LanguageModel, 1)
    model.prefix = PrefixCache(CHUNK, 4)
    model.prefill([*shared, 1])
    hit = model.prefill([*shared, *last])
    assert model.prefix.hits == 1
    np.testing.assert_array_equal(hit, model_of(program, LanguageModel).prefill([*shared, *last]))
    exact = LanguageModel(program, referenced=True)
    np.testing.assert_array_equal(hit, exact.prefill([*shared, *last]))
    np.testing.assert_array_equal(model.extend([3]), exact.extend([3]))
