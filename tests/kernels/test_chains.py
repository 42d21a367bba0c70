"""Chains along K and along the keys, in one program, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.targets.atlas.kernels.measure import execute
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.profile import load_profile


def check(name: str, target: str, **sizes: int) -> None:
    which = entry(name)
    compiled = which.build(target, sizes)
    inputs = which.sample(sizes, seed=1)
    got = execute(which, compiled, inputs).results()[0]
    wanted = which.reference.exact(load_profile(target), *inputs)
    assert np.array_equal(got, np.asarray(wanted).reshape(got.shape))


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("tiles", [2, 3, 4, 8, 64])
def test_sums_along_k(tiles: int, target: str) -> None:
    check("matmul", target, M=32, K=32 * tiles, N=32)


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("tiles", [2, 3, 8])
def test_running_softmax_along_the_keys(tiles: int, target: str) -> None:
    check("flash_attention_bf16", target, M=32, D=64, S=32 * tiles)


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_norm_cast_product_and_sum_in_one_program(target: str) -> None:
    check("mini_block", target, M=64, K=32, N=32)
