"""Language models of fixed shapes, on two machines: what must not depend on how tokens are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.compiling.decoders import Rehearsal, compile_weights
from tilewright.compiling.entries import compile_entries
from tilewright.errors import TilewrightError
from tilewright.frontend.decoder import Capacity, decoder, drawn_weights, head
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.runtime.llm.alignment import HIDDEN, inputs
from tilewright.runtime.llm.contract import Variant, contract_of
from tilewright.runtime.llm.prefix_cache import PrefixCache, rolling
from tilewright.runtime.llm.sampling import Sampling
from tilewright.runtime.llm.session import LanguageModel
from tilewright.runtime.llm.speculative import Speculation, speculate
from tilewright.targets.compiled_model import CompiledEntries

CONFIG = DecoderConfig("llama", 61, 64, 96, 2, 2, 1, 64, tied=False)
CHUNK, WHOLE, SLOTS, MORE = 4, 12, 16, 24
TARGETS = ("atlas-v1", "vpu40")
# How far logits may be apart for other cuts of the same tokens, in parts of the largest one: entry
# points have scales of their own, so that fp8 and int8 round at other places.
BOUND = 0.12
FEW = settings(max_examples=3, deadline=None)
PROMPTS = st.lists(st.integers(0, CONFIG.vocabulary - 1), min_size=1, max_size=10)


@pytest.fixture(scope="module", params=TARGETS)
def program(request: pytest.FixtureRequest) -> CompiledEntries:
    """Prefill whole and in chunks, generate one or two tokens at two capacities."""
    weights = drawn_weights(CONFIG, seed=3)
    shapes = {
        "prefill": (CHUNK, MORE - CHUNK, 1),
        "prefill_whole": (WHOLE, 0, 1),
        "generate_16": (2, SLOTS - 2, 2),
        "generate_24": (2, MORE - 2, 2),
    }
    models = {
        name: decoder(CONFIG, weights, tokens, past, rows, MORE)
        for name, (tokens, past, rows) in shapes.items()
    }
    models["head"] = head(CONFIG, weights, 2)
    random = np.random.default_rng(0).integers(0, CONFIG.vocabulary, 16).tolist()
    rehearsal = Rehearsal(models, random)
    samples = {name: rehearsal.samples(name, {}) for name in models}
    samples["prefill_whole"] = [
        inputs(Variant("", WHOLE, 0, 1), random[:WHOLE], 0, "f32"),
    ]
    made, _ = compile_entries(models, None, request.param, samples)
    return made


def only(program: CompiledEntries, *names: str) -> CompiledEntries:
    return CompiledEntries(program.name, {name: program.entries[name] for name in (*names, "head")})


MODELS: dict[tuple, LanguageModel] = {}


def model_of(program: CompiledEntries, *names: str, number: int = 0) -> LanguageModel:
    """A language model with some of the entry points; made once, because weights are placed then."""
    key = (program.target, names, number)
    if key not in MODELS:
        MODELS[key] = LanguageModel(only(program, *names))
    return MODELS[key]


def close(one: np.ndarray, other: np.ndarray) -> bool:
    return float(np.abs(one - other).max()) <= BOUND * float(np.abs(other).max())


def sure(logits: np.ndarray) -> bool:
    """Whether the best token is the best by more than the bound."""
    second, best = np.sort(logits)[-2:]
    return bool(best - second > BOUND * np.abs(logits).max())


# --- alignment --------------------------------------------------------------------------


def test_tokens_lie_to_the_right() -> None:
    """The table of the specification: a prompt of 3 in 8 places, then single tokens."""
    prefill = Variant("prefill", 8, 0, 1)
    given = inputs(prefill, [7, 8, 9], 0, "f32")
    assert given["ids"].tolist() == [[0, 0, 0, 0, 0, 7, 8, 9]]
    assert given["positions"].tolist() == [[0, 0, 0, 0, 0, 0, 1, 2]]
    assert (given["mask"][0, 7] == 0).astype(int).tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert (given["mask"][0, 5] == 0).astype(int).tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert given["mask"].min() == HIDDEN
    step = Variant("generate", 1, 7, 1)
    for stored, row in ((3, [1, 1, 1, 0, 0, 0, 0, 1]), (4, [1, 1, 1, 1, 0, 0, 0, 1])):
        given = inputs(step, [5], stored, "i1")
        assert given["mask"][0, 0].astype(int).tolist() == row
        assert given["positions"].tolist() == [[stored]]


def test_no_row_of_attention_is_empty() -> None:
    for stored in (0, 3):
        mask = inputs(Variant("prefill", 6, 4, 1), [1, 2], stored, "i1")["mask"][0]
        assert mask.any(1).all()
        padding = range(4, 8)  # columns of new tokens that are not there
        assert not mask[4:, list(padding)].any()


@settings(max_examples=40, deadline=None)
@given(
    tokens=st.integers(1, 6),
    past=st.integers(0, 8),
    window=st.integers(1, 9),
    numbers=st.tuples(st.integers(0, 8), st.integers(1, 6)),
)
def test_a_window_hides_what_is_further_back(
    tokens: int, past: int, window: int, numbers: tuple[int, int]
) -> None:
    """Token by token: which places among all tokens so far each new one sees."""
    stored, count = min(numbers[0], past), min(numbers[1], tokens)
    given = inputs(Variant("", tokens, past, 1, (window,)), [7] * count, stored, "i1")
    mask, whole = given[f"mask.{window}"][0], given["mask"][0]
    assert not (mask & ~whole).any() and mask.any(1).all()
    of_column = [*range(past), *range(stored - (tokens - count), stored + count)]
    for new in range(count):
        row, place = tokens - count + new, stored + new
        seen = {of_column[column] for column in np.flatnonzero(mask[row])}
        assert seen == set(range(max(0, place - window + 1), place + 1))


# --- properties on machines -------------------------------------------------------------


@FEW
@given(prompt=PROMPTS)
def test_chunks_give_what_the_whole_gives(program: CompiledEntries, prompt: list[int]) -> None:
    whole = model_of(program, "prefill_whole", "generate_24")
    chunked = model_of(program, "prefill", "generate_24")
    one, other = whole.prefill(prompt), chunked.prefill(prompt)
    assert close(other, one)
    if sure(one):
        assert one.argmax() == other.argmax()


@FEW
@given(prompt=PROMPTS)
def test_variants_give_the_same_tokens(program: CompiledEntries, prompt: list[int]) -> None:
    """Small slots first and larger ones on the way, or the largest from the beginning."""
    both = model_of(program, "prefill", "generate_16", "generate_24")
    largest = model_of(program, "prefill", "generate_24")
    for one, other in zip(both.stream(prompt, 6), largest.stream(prompt, 6), strict=True):
        assert close(one.logits, other.logits)
        if one.token != other.token:
            assert not sure(other.logits)
            break


@FEW
@given(
    prompt=PROMPTS,
    wrong=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    next_one=st.integers(0, 60),
)
def test_trimmed_tokens_were_never_there(
    program: CompiledEntries, prompt: list[int], wrong: list[int], next_one: int
) -> None:
    one, other = (model_of(program, "prefill", "generate_24", number=n) for n in range(2))
    one.prefill(prompt)
    one.extend(wrong)
    one.trim(len(prompt))
    other.prefill(prompt)
    np.testing.assert_array_equal(one.extend([next_one]), other.extend([next_one]))
    assert one.cache.tokens == other.cache.tokens


@FEW
@given(
    shared=st.lists(st.integers(0, 60), min_size=CHUNK, max_size=10),
    first=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    second=st.lists(st.integers(0, 60), min_size=1, max_size=4),
)
def test_a_hit_gives_what_a_miss_gives(
    program: CompiledEntries, shared: list[int], first: list[int], second: list[int]
) -> None:
    """With blocks as long as chunks nothing is cut otherwise: bit for bit."""
    with_cache = model_of(program, "prefill", "generate_24", number=1)
    with_cache.prefix = PrefixCache(CHUNK, 8)
    with_cache.prefill([*shared, *first])
    before = with_cache.cycles
    hit = with_cache.prefill([*shared, *second])
    spent = with_cache.cycles - before
    miss = model_of(program, "prefill", "generate_24")
    already = miss.cycles
    np.testing.assert_array_equal(hit, miss.prefill([*shared, *second]))
    assert with_cache.prefix is not None
    assert spent < miss.cycles - already
    with_cache.prefix, hits = None, with_cache.prefix.hits
    assert hits >= 1
    for name, rows in with_cache.cache.rows.items():
        count = with_cache.cache.stored
        np.testing.assert_array_equal(rows[:count], miss.cache.rows[name][:count])


@FEW
@given(prompt=PROMPTS)
def test_speculation_changes_no_token(program: CompiledEntries, prompt: list[int]) -> None:
    """With a draft that may be wrong, every token is the best of its logits, or as good as that."""
    model, draft = (
        model_of(program, "prefill", "generate_24"),
        model_of(program, "prefill", "generate_16"),
    )
    figures = Speculation()
    found = list(speculate(model, draft, prompt, 5, figures=figures))
    assert len(found) == 5 and figures.accepted <= figures.guessed
    assert model.cache.tokens == [*prompt, *found][: model.cache.stored]
    for one, token in zip(model.stream(prompt, 5), found, strict=True):
        if one.token != token:
            assert not sure(one.logits)
            break


def test_wrong_guesses_are_dropped(program: CompiledEntries) -> None:
    """A draft that never guesses right costs calls, not tokens."""
    model = model_of(program, "prefill", "generate_24")

    class Wrong(LanguageModel):
        def extend(self, tokens: Sequence[int]) -> np.ndarray:
            self.cache.append(
                tokens,
                {n: np.zeros((1, len(tokens), *r.shape[1:])) for n, r in self.cache.rows.items()},
            )
            return np.eye(CONFIG.vocabulary)[[60]]

    draft, figures = Wrong(only(program, "prefill", "generate_24")), Speculation()
    found = list(speculate(model, draft, [3, 1, 4], 6, figures=figures))
    assert figures.accepted == found[1:].count(60) or 60 in found
    assert figures.calls >= 5 - figures.accepted
    for one, token in zip(model.stream([3, 1, 4], 6), found, strict=True):
        if one.token != token:
            assert not sure(one.logits)
            break


def test_the_references_choose_the_same_tokens(program: CompiledEntries) -> None:
    """The same quantised model in numpy, token for token."""
    parts = only(program, "prefill", "generate_16", "generate_24")
    prompt = [3, 1, 4, 1, 5, 9, 2]
    fast = model_of(program, "prefill", "generate_16", "generate_24")
    slow = LanguageModel(parts, referenced=True)
    for one, other in zip(fast.stream(prompt, 10), slow.stream(prompt, 10), strict=True):
        assert one.token == other.token and one.cycles > 0
        np.testing.assert_array_equal(one.logits, other.logits)


def test_far_from_float32_it_is_not(program: CompiledEntries) -> None:
    """Logits of the device against the entry points in float32."""
    weights = drawn_weights(CONFIG, seed=3)
    exact = decoder(CONFIG, weights, WHOLE, 0, 1, MORE)
    from tilewright.reference.executor import Executor

    prompt = [3, 1, 4, 1, 5, 9, 2]
    sample = inputs(Variant("", WHOLE, 0, 1), prompt, 0, "f32")
    arrays = Executor(exact.module, exact.weights).run(
        [sample[s.name] for s in exact.inputs], "main"
    )
    hidden = arrays[[s.name for s in exact.outputs].index("hidden")]
    wanted = hidden[0, 0] @ weights["lm_head.weight"].T
    found = model_of(program, "prefill_whole", "generate_24").prefill(prompt)
    assert float(found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted)) > 0.99


# --- errors -----------------------------------------------------------------------------


def test_a_full_cache_is_an_error(program: CompiledEntries) -> None:
    model = model_of(program, "prefill", "generate_24")
    with pytest.raises(TilewrightError, match="KV cache is full: 0 of 24") as caught:
        model.prefill([1] * 25)
    assert caught.value.code == "TW3161"
    with pytest.raises(TilewrightError, match="KV cache is full: 23 of 24"):
        model.generate([1] * 20, 10)
    with pytest.raises(TilewrightError, match="position 30 is behind"):
        model.trim(30)
    for bad in ([], [61], [-1]):
        with pytest.raises(TilewrightError, match="token"):
            model.prefill(bad)


def test_what_is_no_language_model(program: CompiledEntries) -> None:
    with pytest.raises(TilewrightError, match="no entry points named prefill and generate"):
        contract_of(only(program))
    with pytest.raises(TilewrightError, match="does not give logits"):
        entries = {n: program.entries[n] for n in ("prefill", "generate_16")}
        contract_of(CompiledEntries("headless", entries))
    with pytest.raises(TilewrightError, match="need a prefill in chunks that they divide"):
        LanguageModel(program, prefix=PrefixCache(3))


def test_windows_have_masks_of_their_own() -> None:
    """Layers that see three tokens, and scores with a cap, on a machine: what lies further back
    changes nothing; with layers that see everything it does."""
    config = replace(CONFIG, layers=1, windows=(3,), score_cap=4.0, score_scale=0.2)
    for changed, far in ((config, False), (replace(config, windows=(0,)), True)):
        tiny = compile_weights(changed, drawn_weights(config), Capacity(4, (12,)), "vpu40")
        model = LanguageModel(tiny.program)
        reasons = [part["reasons"] for part in tiny["generate"].report().host]
        assert "rope" not in str(reasons)  # nothing in between layers is left to the host
        assert model.contract.generate[0].windows == (() if far else (3,))
        one, two = (model.prefill([first, 5, 6, 7, 8, 9]) for first in (1, 40))
        assert np.array_equal(one, two) != far
        wrong = CompiledEntries("wrong", dict(tiny.program.entries))
        entry = wrong.entries["generate"]
        ports = {**entry.ports, "mask.x": entry.ports["mask"]}
        wrong.entries["generate"] = replace(entry, ports=ports, inputs=(*entry.inputs, "mask.x"))
        with pytest.raises(TilewrightError, match="inputs that no language model takes"):
            contract_of(wrong)


def test_there_is_nothing_to_speculate() -> None:
    tiny = compile_weights(CONFIG, drawn_weights(CONFIG), Capacity(4, (8,)), "vpu40")
    model = LanguageModel(tiny.program)
    with pytest.raises(TilewrightError, match="nothing to speculate"):
        list(speculate(model, model, [1], 2))


@pytest.mark.parametrize(
    "shape", [{"prompt": 0}, {"slots": ()}, {"slots": (8, 8)}, {"prompt": 9, "slots": (8,)}]
)
def test_shapes_that_cannot_be(shape: dict) -> None:
    with pytest.raises(TilewrightError):
        Capacity(**{"prompt": 4, "slots": (8,), **shape})


# --- pieces -----------------------------------------------------------------------------


def test_prefixes_are_compared_token_by_token() -> None:
    """A hash that is always the same finds nothing that is not there."""
    cache = PrefixCache(2, 8, one=lambda token: 0)
    cache.insert([1, 2, 3, 4], lambda a, b: {"x": np.arange(a, b)})
    assert [t for t, _ in cache.lookup([1, 2, 3, 4, 5])] == [(1, 2), (3, 4)]
    assert [t for t, _ in cache.lookup([3, 4, 3, 4, 5])] == []
    assert [t for t, _ in cache.lookup([1, 2, 1, 2, 5])] == [(1, 2)]
    assert rolling([1, 2]) == 31 * hash(1) + hash(2)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=12),
    blocks=st.integers(1, 5),
)
def test_a_prefix_cache_holds_what_was_there(rows: list[list[int]], blocks: int) -> None:
    """Against a list of everything ever inserted; never more blocks than allowed."""
    cache = PrefixCache(2, blocks)
    for tokens in rows:
        for number, (part, held) in enumerate(cache.lookup(tokens)):
            first = 2 * number
            assert part == tuple(tokens[first : first + 2])
            assert held["x"].tolist() == [tuple(tokens[: n + 1]) for n in (first, first + 1)]
        assert 2 * (len(list(cache.lookup(tokens)))) < len(tokens)

        def copies(a: int, b: int, tokens: list[int] = tokens) -> dict[str, np.ndarray]:
            found = np.empty(b - a, object)
            found[:] = [tuple(tokens[: n + 1]) for n in range(a, b)]
            return {"x": found}

        cache.insert(tokens, copies)
        assert len(cache) <= blocks


def test_the_least_recently_used_leaf_goes() -> None:
    cache = PrefixCache(1, 3)
    for tokens in ([1, 2], [3], [1]):  # [1] is used again, [1, 2] is its leaf
        cache.insert(tokens, lambda a, b: {})
    cache.insert([4], lambda a, b: {})
    assert cache.evicted == 1 and len(cache) == 3
    assert len(list(cache.lookup([1, 2, 0]))) == 1
    assert len(list(cache.lookup([3, 0]))) == 1


def test_draws_depend_on_seed_and_position_only() -> None:
    logits = np.array([0.0, 1.0, 2.0, -1.0])
    sampling = Sampling(1.0, seed=5)
    first = [sampling.choose(logits, n) for n in range(200)]
    assert first == [sampling.choose(logits, n) for n in range(200)]
    assert first != [Sampling(1.0, seed=6).choose(logits, n) for n in range(200)]
    share = np.bincount(first, minlength=4) / 200
    assert np.abs(share - sampling.probabilities(logits)).max() < 0.12
    assert {Sampling(1.0, top_k=1, seed=n).choose(logits, 0) for n in range(20)} == {2}
    assert {Sampling(1.0, top_p=0.1, seed=n).choose(logits, 0) for n in range(20)} == {2}
    assert Sampling().choose(np.array([1.0, np.nan, 3.0]), 0) == 2
    mistakes: list[dict[str, Any]] = [
        {"temperature": -1},
        {"temperature": np.nan},
        {"top_p": 0},
        {"top_k": -1},
    ]
    for bad in mistakes:
        with pytest.raises(TilewrightError):
            Sampling(**bad)
    with pytest.raises(TilewrightError, match="no logit"):
        Sampling().choose(np.array([np.nan]), 3)
