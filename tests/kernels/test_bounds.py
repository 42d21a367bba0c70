"""Programs against the bounds of the library, at random sizes."""

from __future__ import annotations

import os
import secrets

import numpy as np
import pytest
from bound_attacks import LOCAL, Target, attack, packed_programs, random_target

from tilewright.targets.atlas.kernels.registry import ENTRIES


def test_no_kernel_beats_its_bound_at_random_sizes():
    """Some of what `benchmarks/bounds.py` does, of fresh seeds unless in CI."""
    seed = 0 if os.environ.get("CI") else secrets.randbelow(1 << 31)
    print(f"seed {seed}")
    for number in range(12):
        which, profile, sizes = random_target(np.random.default_rng([seed, number]))
        target = Target(which, profile, sizes)
        assert target.cycles >= target.bound, (which.name, profile, sizes)


@pytest.mark.parametrize(
    ("name", "profile", "sizes"),
    [
        ("relu", "atlas-v1", {"M": 32, "N": 16}),
        ("relu", "atlas-v0", {"M": 1, "N": 200}),
        ("elementwise_add", "atlas-v1", {"M": 5, "N": 33}),
        ("requant", "atlas-v1", {"M": 32, "N": 32}),
    ],
)
def test_programs_that_try(name, profile, sizes):
    """Faster programs than the library's exist, but none below the bound."""
    target = Target(ENTRIES[name], profile, sizes)
    assert attack(target, 25, seed=1) >= target.bound


def test_packed_programs_are_right_and_faster():
    """Rows of many tiles in one register: what padding hides is worth a lot."""
    target = Target(ENTRIES["relu"], "atlas-v0", {"M": 1, "N": 200})
    found = [target.cycles_of(program) for program in packed_programs(target)]
    right = [cycles for cycles in found if cycles is not None]
    assert found and right == found
    assert target.bound <= min(right) < target.cycles / 2
    assert set(LOCAL) <= set(ENTRIES)


def test_pieces_smaller_than_registers_are_faster():
    """While one piece is computed another one moves: bounds must not wait for whole registers."""
    target = Target(ENTRIES["relu"], "atlas-v1", {"M": 32, "N": 16})
    found = [target.cycles_of(program) for program in packed_programs(target)]
    assert target.bound <= min(n for n in found if n is not None) < target.cycles - 100
