"""Products of any size: how they are cut, the values, the bound."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.model.blocking import cut
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import to_codes


def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """bf16 patterns of a @ b as a matrix unit adds them up, tile by tile along K."""
    (m, k), n = a.shape, b.shape[1]
    down, deep, across = (-(-size // 32) for size in (m, k, n))
    x = np.zeros((32 * down, 32 * deep), np.uint8)
    y = np.zeros((32 * deep, 32 * across), np.uint8)
    x[:m, :k], y[:k, :n] = to_codes(a, "fp8"), to_codes(b, "fp8")
    result = np.zeros((32 * down, 32 * across), np.uint16)
    for r in range(0, 32 * down, 32):
        for c in range(0, 32 * across, 32):
            acc = None
            for s in range(0, 32 * deep, 32):
                acc = arith.matmul(x[r : r + 32, s : s + 32], y[s : s + 32, c : c + 32], acc)
            assert acc is not None
            result[r : r + 32, c : c + 32] = acc
    return result[:m, :n]


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("shape", [(32, 32, 32), (50, 97, 70), (1, 200, 33), (130, 64, 260)])
def test_values(shape: tuple[int, int, int], target: str) -> None:
    m, k, n = shape
    random = np.random.default_rng(m * n)
    a, b = random.normal(size=(m, k)), random.normal(size=(k, n))
    compiled = entry("gemm").kernel.compile(target, a=a.shape, b=b.shape)
    assert np.array_equal(compiled.run(a, b).view(np.uint16), expected(a, b))


def test_large_product_runs_at_the_speed_of_its_transfers() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(512, 512)), random.normal(size=(512, 512))
    compiled = entry("gemm").kernel.compile(a=a.shape, b=b.shape)
    result = compiled.run(a, b).view(np.uint16)
    assert np.array_equal(result[:32, -32:], expected(a[:32], b[:, -32:]))
    traffic = (512 * 512 * 2 + 512 * 512 * 2) // 2
    assert compiled.cycles is not None
    assert traffic < compiled.cycles < 1.06 * traffic
    assert len(compiled.program) * 4 < 32 * 1024


def test_parts_know_vmem_and_traffic() -> None:
    """A product that fits is in one part; of one that does not, rows come in parts of the same size."""
    profile = load_profile("atlas-v1")
    assert cut(512, 512, 512, profile, sums=False) is None
    parts = cut(816, 2048, 2048, profile, sums=False)
    assert parts is not None
    assert parts.rows == 13 * 32 and not parts.depth  # A in two blocks, B read twice
