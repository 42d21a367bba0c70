"""The references of whole models' kernels: agreement with the simulator on random calls, and speed.

    python benchmarks/graph_references.py --count 1000

Calls have random options, shapes and places on both profiles; every bit of a result has to agree.
The second table is how fast products of whole matrices are followed exactly, against the definition
tile by tile.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

import click
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "graph"))

from kernel_runs import assert_same, mask, simulated
from test_references import PROFILES, calls

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE, product

SIZES = [(256, 256, 256), (1024, 768, 768), (1024, 768, 3072), (241, 960, 2560)]


@click.command()
@click.option("--count", default=1000, help="How many random calls.")
@click.option("--first-seed", default=0, help="What the calls are drawn from.")
def main(count: int, first_seed: int) -> None:
    """Compare kernels with their references, then time the references' products."""
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    agree(count, first_seed)
    speed()


def agree(count: int, first_seed: int) -> None:
    """Run random calls on the simulator and compare every bit."""
    seen: Counter[str] = Counter()
    started = time.process_time()

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @seed(first_seed)
    @given(call=calls(), profile=st.sampled_from(PROFILES), number=st.integers(0, 1 << 20))
    def check(call, profile: str, number: int) -> None:
        name, options, shapes, on_chip = call
        seen[f"{name} on {profile}"] += 1
        found = simulated(
            name, options, shapes, profile, on_chip, dict.fromkeys(("mask", "mask1"), mask), number
        )
        assert_same(*found)

    check()
    seconds = time.process_time() - started
    print(f"{seen.total()} calls agree bit for bit, {seconds:.0f} s of processor time")
    for name, times in sorted(seen.items()):
        print(f"  {times:6}  {name}")


def speed() -> None:
    """Time exact products of usual data."""
    random = np.random.default_rng(0)
    print(f"\n{'product':>16} {'seconds':>8} {'GMAC/s':>7} {'over tile by tile':>18}")
    tile = [_codes(random, (SIDE, SIDE)) for _ in range(2)]
    started = time.process_time()
    for _ in range(50):
        arith.matmul(*tile)
    one = (time.process_time() - started) / 50
    for rows, deep, columns in SIZES:
        a, w = _codes(random, (rows, deep)), _codes(random, (deep, columns))
        started = time.process_time()
        product(a, w)
        seconds = time.process_time() - started
        work = rows * deep * columns
        ratio = one * work / SIDE**3 / seconds
        name = f"{rows}x{deep}x{columns}"
        print(f"{name:>16} {seconds:8.2f} {work / seconds / 1e9:7.2f} {ratio:17.1f}x")


def _codes(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return arith.bf16_to_fp8(arith.f64_to_bf16(random.standard_normal(shape) * 4))


if __name__ == "__main__":
    main()
