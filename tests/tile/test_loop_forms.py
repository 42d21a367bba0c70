"""Indices of loops divided by numbers, and blocks before the first block: loops of another form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.tile as tw
from tilewright.errors import TilewrightError

RANDOM = np.random.default_rng(11)
TARGETS = ["atlas-v1", "atlas-v0", "vpu40"]


def same_as_eager(kernel: tw.Kernel, *arrays: np.ndarray, target: str, **more: Any) -> np.ndarray:
    compiled = kernel.compile(*arrays, target=target, **more)
    assert compiled.lint().clean
    found = compiled.run(*arrays)
    wanted = kernel.eager(*arrays, target=target, **more)
    assert found.tobytes() == wanted.tobytes()
    return np.asarray(found).astype(np.float64)


@tw.kernel
def members(
    x: tw.value["G", "M", "N"], y: tw.value["B", "M", "N"], out: tw.value["H", "M", "N"], *,
    group: int, other: int,
):  # fmt: skip
    """Every head with the numbers of its group, and those of its place in another one."""
    for h in tw.each(out.H):
        for m in tw.grid(out.M):
            out[h, m, :] = x[h // group, m, :] + y[h % other, m, :]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("heads", "group", "other"),
    [(8, 4, 4), (8, 2, 4), (8, 4, 2), (12, 6, 2), (5, 2, 3), (12, 4, 6), (9, 3, 9), (7, 7, 1)],
)
def test_divided_indices(heads: int, group: int, other: int, target: str) -> None:
    x = RANDOM.integers(-9, 10, (-(-heads // group), 40, 33)).astype(np.float32)
    y = RANDOM.integers(-9, 10, (other, 40, 33)).astype(np.float32) * 16
    places = np.arange(heads)
    kernel = members.given(group=group, other=other)
    found = same_as_eager(kernel, x, y, target=target, H=heads)
    assert np.array_equal(found, x[places // group] + y[places % other])


@tw.kernel
def pairs(x: tw.value["G", "M", "N"], out: tw.value["B", "H", "M", "N"]):
    """Divided inside of another loop, after the index was moved and stretched."""
    for b in tw.each(out.B):
        for h in tw.each(out.H):
            for m in tw.grid(out.M):
                out[b, h, m, :] = x[(b * 6 + 2 * h + 1) // 3, m, :] * 2.0


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_of_indices_is_divided(target: str) -> None:
    x = RANDOM.integers(-9, 10, (9, 33, 32)).astype(np.float32)
    b, h = np.mgrid[:4, :3]
    found = same_as_eager(pairs, x, target=target, B=4, H=3)
    assert np.array_equal(found, 2 * x[(b * 6 + 2 * h + 1) // 3])


def test_groups_are_loops_and_not_written_out() -> None:
    kernel = members.given(group=4, other=4)
    assert kernel.ir(G=16, B=4, H=64, M=32, N=32).count("scf.for") == 2
    assert kernel.ir(G=16, B=4, H=64, M=320, N=32).count("scf.for") == 3
    assert kernel.given(group=5).ir(G=16, B=4, H=60, M=32, N=32).count("scf.for") == 0


@tw.kernel
def sums_before(x: tw.value["M", "N"], out: tw.value["M", "N"], *, block: int, part: int):
    """Each block with all that come before it, of which the first has none."""
    for m in tw.grid(x.M, block):
        total = tw.scratch(tw.value[block, 32], on_chip=True)
        for r in tw.grid(m.size):
            total[r, :] = x[r.within(m), :] * 1.0
        for c in tw.before(m, part):
            for r in tw.grid(c.size):
                total[r, :] = total[r, :] + x[r.within(c), :]
        for r in tw.grid(m.size):
            out[r.within(m), :] = total[r, :] * 1.0


@tw.kernel
def decayed(
    q: tw.operand["M", "D"], k: tw.operand["M", "D"], v: tw.operand["M", "E"],
    decay: tw.value["M", "M"], out: tw.value["M", "E"], *, block: int, part: int,
):  # fmt: skip
    """Retention: a sum over what came before, begun by the first block that there is."""
    for m in tw.grid(q.M, block):
        mixed = tw.state(0.0)
        for c in tw.before(m, part):
            weights = (q[m, :] @ k[c, :].T) * decay[m, c]
            mixed.set(mixed + tw.to_operand(weights) @ v[c, :])
        own = (q[m, :] @ k[m, :].T) * decay[m, m]
        out[m, :] = mixed + tw.to_operand(own) @ v[m, :]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "tiles", "parts"), [(330, 1, 1), (400, 2, 1), (640, 2, 2), (64, 1, 1)]
)
def test_retention(rows: int, tiles: int, parts: int, target: str) -> None:
    side = 64 if target == "vpu40" else 32
    q, k, v = (RANDOM.normal(size=(rows, n)) / 4 for n in (40, 40, 50))
    age = np.arange(rows)[:, None] - np.arange(rows)
    decay = np.where(age >= 0, 0.97 ** np.abs(age), 0)
    kernel = decayed.given(block=side * tiles, part=side * parts)
    found = same_as_eager(kernel, q, k, v, decay, target=target)
    wanted = ((q @ k.T) * decay) @ v
    assert np.abs(found - wanted).max() < 0.12 * np.abs(wanted).max()


@pytest.mark.parametrize("target", ["atlas-v1", "atlas-v0"])
@pytest.mark.parametrize(("rows", "block", "part"), [(32, 32, 32), (256, 64, 32), (512, 64, 64)])
def test_sums_of_all_before(rows: int, block: int, part: int, target: str) -> None:
    """Small whole numbers, so that sums are exact."""
    x = RANDOM.integers(-4, 5, (rows, 32)).astype(np.float32)
    kernel = sums_before.given(block=block, part=part)
    compiled = kernel.compile(x, target=target)
    found = np.asarray(compiled.run(x), np.float64)
    wanted = x.reshape(-1, block, 32).copy()
    for number in range(1, len(wanted)):
        seen = x.reshape(-1, block, 32)[:number].reshape(number, -1, part, 32).sum((0, 1))
        wanted[number, :part] += seen
    assert np.array_equal(found, wanted.reshape(x.shape))
    assert np.array_equal(found, np.asarray(kernel.eager(x, profile=target), np.float64))


def test_parts_larger_than_the_steps_around_them() -> None:
    with pytest.raises(TilewrightError, match="in steps of 64 elements") as caught:
        decayed.given(block=32, part=64).compile(M=512, D=32, E=32)
    assert caught.value.code == "TW1604"
