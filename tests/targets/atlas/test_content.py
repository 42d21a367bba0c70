"""What is claimed of elements before a run holds for whatever inputs come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from tilewright.targets.atlas import content as facts
from tilewright.targets.atlas.demand import ALL, demand, outcome

SHAPE = (32, 16)
SPECIAL = np.array([0.0, 1.0, np.inf, -np.inf, -3.0e38, 2.5], np.float32)
PAIRWISE = {
    "vadd.bf16": np.add,
    "vsub.bf16": np.subtract,
    "vmul.bf16": np.multiply,
    "vminimum.bf16": np.minimum,
    "vmaximum.bf16": np.maximum,
}


def operand(random: np.random.Generator) -> tuple[facts.Content, np.ndarray, np.ndarray]:
    """A content, and two registers it is true of."""
    constant = random.random(SHAPE) < random.choice([0.2, 0.8])
    fixed = rounded(random.choice(SPECIAL, SHAPE))
    high = np.where(constant, fixed, np.inf)
    low = np.where(constant, fixed, -np.inf)
    first, second = (np.where(constant, fixed, rounded(random.normal(size=SHAPE))) for _ in "ab")
    return facts.content("bf16", constant, low, high), first, second


def rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(bfloat16).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    names=st.lists(st.sampled_from(sorted(PAIRWISE)), min_size=1, max_size=4),
)
def test_claims_about_sums_and_extremes(seed, names):
    random = np.random.default_rng(seed)
    known, *runs = operand(random)
    numbers = np.ones(SHAPE, bool)  # elements for which nothing left out has happened
    for name in names:
        other, *others = operand(random)
        known, passes = facts.pairwise(name, known, other)
        before = runs
        with np.errstate(all="ignore"):
            runs = [rounded(PAIRWISE[name](a, b)) for a, b in zip(runs, others, strict=True)]
        numbers &= ~np.isnan(runs[0]) & ~np.isnan(runs[1])
        for a, b in zip(before, others, strict=True):  # what absorbs others meets ordinary ones
            large = np.maximum(np.abs(a), np.abs(b)) >= facts.HUGE
            numbers &= ~large | (np.minimum(np.abs(a), np.abs(b)) < 1e30)
        same = (runs[0] == runs[1]) | ~numbers
        assert same[known.constant].all()
        for values, a, b in zip(runs, before, others, strict=True):
            inside = (known.low <= values) & (values <= known.high)
            assert (inside | ~numbers).all()
            for number, source in ((1, a), (2, b)):
                handed = (passes == number) & numbers
                assert (values[handed] == source[handed]).all()


def test_masks_of_edges_are_no_work():
    """The smaller of x and (inf | 0), then the larger of that and (-inf | 0)."""
    x = facts.content(
        "bf16", np.zeros(SHAPE, bool), np.full(SHAPE, -np.inf), np.full(SHAPE, np.inf)
    )
    line = np.where(np.arange(16) < 5, np.inf, 0)
    top = facts.content("bf16", np.ones(SHAPE, bool), *[np.tile(line, (32, 1))] * 2)
    bottom = facts.content("bf16", np.ones(SHAPE, bool), *[np.tile(-line, (32, 1))] * 2)
    (less,) = outcome("vminimum.bf16", (x, top), 1)
    (masked,) = outcome("vmaximum.bf16", (less, bottom), 1)
    assert masked.constant[:, 5:].all() and not masked.constant[:, :5].any()
    found = demand("vmaximum.bf16", (ALL,), (less, bottom), (masked,))
    assert found.share == 0 and found.needs[0].bits[:, :10].all()
    assert not found.needs[0].bits[:, 10:].any()
    assert demand("vminimum.bf16", found.needs[:1], (x, top), (less,)).share == 0


@pytest.mark.parametrize(("rows", "deep", "columns"), [(32, 32, 32), (1, 32, 32), (3, 5, 7)])
def test_products_count_terms(rows, deep, columns):
    def side(down, across):
        fixed = np.ones((32, 32), bool)
        fixed[:down, :across] = False
        edge = np.where(fixed, 0, np.inf)
        return facts.content("fp8", fixed, -edge, edge)

    a, w = side(rows, deep), side(deep, columns)
    (sums,) = outcome("vmatmul", (a, w), 1)
    found = demand("vmatmul", (ALL,), (a, w), (sums,))
    assert found.share == rows * deep * columns / 32**3
    assert found.needs[0].bits.sum() == rows * deep
    assert found.needs[1].bits.sum() == deep * columns
