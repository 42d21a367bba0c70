"""Attention over whole heads against a reference written from the machine's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.kernels import attention as library
from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.tile.layouts import to_codes

HIDDEN = -3.0e38


def tiles(codes: np.ndarray) -> np.ndarray:
    """Padded with zeros to whole tiles."""
    rows, columns = (-(-n // 32) * 32 for n in codes.shape)
    padded = np.zeros((rows, columns), codes.dtype)
    padded[: codes.shape[0], : codes.shape[1]] = codes
    return padded


def row_extreme(tile: np.ndarray) -> np.ndarray:
    return arith.reduce_extreme(tile, 1, larger=True)


def row_sum(tile: np.ndarray, profile: Profile) -> np.ndarray:
    if profile.tile_registers == 2:
        return arith.row_sum(tile, profile.row_sum)
    left, right = (arith.row_sum(tile[:, s], profile.row_sum) for s in (slice(16), slice(16, 32)))
    half = arith.add(left, right)
    return np.concatenate([half, half], axis=1)


def constant(value: float) -> np.ndarray:
    return np.full((32, 32), to_codes(np.array([value]), "bf16")[0], np.uint16)


def head(q, kt, v, mask: np.ndarray | None, profile: Profile) -> np.ndarray:
    """One block of 32 queries: fp8 q [32, D], kt [D, N], v [N, E]; mask [32, N] or None."""
    keys = kt.shape[1]
    q8, k8, v8 = tiles(q), tiles(kt), tiles(v)
    scores, largest = [], None
    for j in range(0, k8.shape[1], 32):
        score = None
        for d in range(0, q8.shape[1], 32):
            score = arith.matmul(q8[:, d : d + 32], k8[d : d + 32, j : j + 32], score)
        assert score is not None
        if mask is not None:
            score = arith.add(score, tiles(to_codes(mask, "bf16"))[:, j : j + 32])
        scores.append(score)
        best = score
        if keys - j < 32:
            inside = score.copy()
            inside[:, keys - j :] = to_codes(np.array([HIDDEN]), "bf16")[0]
            best = row_extreme(inside)
        largest = best if largest is None else arith.extreme(largest, best, larger=True)
    assert largest is not None
    top = row_extreme(largest)
    total = rest = None
    results: list[Any] = [None] * (v8.shape[1] // 32)
    for index, score in enumerate(scores):
        power = arith.unary_table("vexp")[arith.subtract(score, top)]
        p8 = arith.pack(power, 1)
        for e in range(len(results)):
            block = v8[32 * index : 32 * index + 32, 32 * e : 32 * e + 32]
            results[e] = arith.matmul(p8, block, results[e])
        left = keys - 32 * index
        if left < 32:
            seen = arith.unpack(p8, 1)
            seen[:, left:] = 0
            rest = row_sum(seen, profile)
        else:
            total = arith.matmul(p8, np.full((32, 32), 0x38, np.uint8), total)
    sums = [s for s in (None if total is None else row_extreme(total), rest) if s is not None]
    whole = sums[0] if len(sums) == 1 else arith.add(sums[0], sums[1])
    share = arith.unary_table("vrecip")[whole]
    if mask is not None:
        height = arith.subtract(top, constant(HIDDEN / 3))
        share = arith.multiply(
            share, arith.extreme(arith.relu(height), constant(1.0), larger=False)
        )
    return np.concatenate([arith.multiply(r, share) for r in results], axis=1)


CASES = [
    ("attention", (2, 1, 64, 64), 96, 64),
    ("attention", (1, 3, 50, 64), 113, 64),
    ("attention", (1, 1, 1, 32), 70, 32),  # one query, as in decoding
    ("attention", (1, 1, 40, 128), 64, 128),
    ("attention_causal", (1, 2, 96, 64), 96, 64),
    ("attention_key_mask", (1, 2, 40, 64), 70, 64),
    ("attention_mask", (1, 2, 40, 96), 70, 32),
]


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(("name", "queries", "keys", "width"), CASES)
def test_bits(name: str, queries: tuple[int, ...], keys: int, width: int, target: str) -> None:
    kernel = getattr(library, name)
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
    compiled = kernel.compile(target, **kernel.shapes_of((q, kt, v, *extra)))
    got = compiled.run(q, kt, v, *extra)
    for g in range(groups):
        k8, v8 = to_codes(kt[g], "fp8"), to_codes(v[g], "fp8")
        for r in range(repeats):
            for m in range(0, rows, 32):
                q8 = to_codes(q[g, r, m : m + 32], "fp8")
                block = None if mask is None else mask[m : m + 32]
                wanted = head(tiles(q8)[:, :depth], k8, v8, block, profile)[: len(q8), :width]
                part = got[g, r, m : m + 32].view(np.uint16)
                assert np.array_equal(part, wanted), (g, r, m)
    if name == "attention_mask":
        assert not got[:, :, 3].astype(np.float32).any()
