"""Attention over whole heads against a reference written from the machine's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.targets.atlas.kernels import attention as library
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.model.references_attention import HIDDEN, Source, attention
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.blocks import Block
from tilewright.tile.layouts import SIDE, to_codes

CASES = [
    ("attention", (2, 1, 64, 64), 96, 64),
    ("attention", (1, 3, 50, 64), 113, 64),
    ("attention", (1, 1, 1, 32), 70, 32),  # one query, as in decoding
    ("attention", (1, 1, 40, 128), 64, 128),
    ("attention_causal", (1, 2, 96, 64), 96, 64),
    ("attention_causal", (1, 2, 70, 64), 113, 64),
    ("attention_causal", (1, 1, 100, 32), 40, 32),  # the first queries see nothing
    ("attention_key_mask", (1, 2, 40, 64), 70, 64),
    ("attention_mask", (1, 2, 40, 96), 70, 32),
]


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(("name", "queries", "keys", "width"), CASES)
def test_bits(name: str, queries: tuple[int, ...], keys: int, width: int, target: str) -> None:
    kernel = entry(name).kernel
    profile = load_profile(target)
    groups, repeats, rows, depth = queries
    random = np.random.default_rng(keys)
    q = random.normal(size=queries) / np.sqrt(depth)
    kt = random.normal(size=(groups, depth, keys))
    v = random.normal(size=(groups, keys, width))
    mask, extra = None, ()
    if name == "attention_causal":
        late = np.arange(keys)[None] > np.arange(rows)[:, None] + keys - rows
        mask = np.where(late, HIDDEN, 0.0)
    elif name == "attention_key_mask":
        extra = (np.where(np.arange(keys) < keys - 20, 0.0, HIDDEN),)
        mask = np.tile(extra[0], (rows, 1))
    elif name == "attention_mask":
        mask = np.where(random.random((rows, keys)) < 0.5, 0.0, HIDDEN)
        mask[3] = HIDDEN  # sees nothing
        extra = (mask,)
    shapes: dict[str, Any] = dict(kernel.shapes_of((q, kt, v, *extra)))
    compiled = kernel.compile(target, **shapes)
    got = compiled.run(q, kt, v, *extra)
    for g in range(groups):
        k8, v8 = to_codes(kt[g], "fp8"), to_codes(v[g], "fp8")
        for r in range(repeats):
            for m in range(0, rows, 32):
                q8 = to_codes(q[g, r, m : m + 32], "fp8")
                part = None if mask is None else to_codes(mask[m : m + 32], "bf16")
                kind = None if part is None else "full"
                wanted = attention(profile, q8, [Source(k8, v8, part)], kind)
                rows_got = got[g, r, m : m + 32].view(np.uint16)
                assert np.array_equal(rows_got, wanted), (g, r, m)
    if name == "attention_mask":
        assert not got[:, :, 3].astype(np.float32).any()


def test_attention_of_a_vision_block_is_fast() -> None:
    """Two of the twelve heads of 1024 x 64: the vector unit is busy most of the time."""
    random = np.random.default_rng(0)
    q = random.normal(size=(2, 1, 1024, 64)) / 8
    kt, v = random.normal(size=(2, 64, 1024)), random.normal(size=(2, 1024, 64))
    shapes: dict[str, Any] = dict(entry("attention").kernel.shapes_of((q, kt, v)))
    compiled = entry("attention").kernel.compile(**shapes)
    got = compiled.run(q, kt, v).astype(np.float64)
    first = 2 * 64 * 1024 // 2  # ticks until the keys and values of the first head are there
    assert compiled.cycles is not None and compiled.cycles < first + 2 * 300_000
    scores = q @ kt[:, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    ideal = weights / weights.sum(-1, keepdims=True) @ v[:, None]
    assert np.abs(got - ideal).max() < 0.05


@given(queries=st.integers(1, 300), keys=st.integers(1, 300))
def test_tiles_left_out_are_seen_by_nobody(queries: int, keys: int) -> None:
    sees = np.arange(keys)[None] <= np.arange(queries)[:, None] + keys - queries
    for number in range(-(-queries // SIDE)):
        block = Block(number, 1, queries)
        tiles = library.reach(block, queries, keys)
        rows = sees[number * SIDE : (number + 1) * SIDE]
        if tiles is None:
            assert not rows.any(axis=1).all()
        else:
            assert rows.any(axis=1).all()
            assert rows[:, (tiles - 1) * SIDE :].any() and not rows[:, tiles * SIDE :].any()


def test_many_blocks_under_a_causal_mask_share_a_loop() -> None:
    assert library.together_causal(241, 241) is True
    assert library.together_causal(1024, 1024) == 4
    assert library.together_causal(800, 800, 64) is True
    assert library.together_causal(800, 800, 65) == 4
    assert library.together_causal(832, 832, 64) == 4
    assert library.reach(Block(3, 1, 1024), 1024, 1024) is None
