"""Keys that are left out of attention: their weight is exactly zero for every query."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.reference import attention, dtypes
from tilewright.reference.attention import scores, update, weighing_keys


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6))
def test_whoever_is_left_out_weighs_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, keys, size = random.integers(1, [6, 20, 9])
    scale = float(random.choice([0.125, 1.0, -3.0]))
    q = random.normal(0, random.choice([0.1, 3, 40]), (2, rows, size)).astype(np.float32)
    k = random.normal(0, random.choice([0.1, 3, 40]), (2, keys, size)).astype(np.float32)
    v = random.normal(size=(2, keys, 3)).astype(np.float32)
    low = random.choice([-30000.0, -np.inf, -3e38, -900.0, -800.0, -5.0])
    mask = np.where(random.random((rows, keys)) < 0.5, low, random.normal(0, 2, (rows, keys)))
    mask[:, random.random(keys) < 0.5] = low
    mask = (mask + random.choice([0.0, 1e4, -2e5])).astype(np.float32)
    kept = weighing_keys(q, k, v, scale, mask)
    assert kept.any()
    for head in range(2):
        score = scores(q[head], k[head], scale, dtypes.F32, mask, dtypes.F32).astype(np.float64)
        top = score.max(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            weights = np.exp(score - np.where(np.isneginf(top), 0.0, top))
        assert (weights[:, ~kept] == 0).all()
        whole = update(None, score, v[head]).result()
        part = update(None, score[:, kept], v[head][kept]).result()
        np.testing.assert_allclose(part, whole, rtol=1e-12, atol=1e-12)


def test_slots_of_a_cache_that_nobody_reads_are_left_out() -> None:
    q, k = np.ones((1, 4, 8), np.float32), np.ones((1, 12, 8), np.float32)
    mask = np.full((1, 4, 12), -30000, np.float32)
    mask[..., :3] = 0
    kept = weighing_keys(q, k, k, 0.3, mask)
    assert kept.tolist() == [True] * 3 + [False] * 9
    lowest = np.full_like(mask, -30000)  # all alike: all weigh the same
    assert weighing_keys(q, k, k, 0.3, lowest).all()
    assert weighing_keys(q, k, k, 0.3, np.full_like(mask, -np.inf)).all()


@pytest.mark.parametrize("spoiled", ["q", "k", "v", "mask"])
@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_numbers_that_are_none_keep_all_keys_they_reach(spoiled: str, what: float) -> None:
    arrays = {name: np.ones((1, 4, 8), np.float32) for name in "qkv"}
    arrays["mask"] = np.zeros((1, 4, 4), np.float32)
    arrays["mask"][..., 2:] = -30000
    arrays[spoiled][0, 0, 1] = what
    with np.errstate(all="ignore"):
        kept = attention.weighing_keys(arrays["q"], arrays["k"], arrays["v"], 1.0, arrays["mask"])
    assert kept.all()
