"""Random kernels: whatever an author writes, eager and compiled give the same bits, lint-clean."""

from __future__ import annotations

import os
import secrets
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import kernel_checks
import kernel_generator
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.targets.atlas.codegen.tuning import tuned

UNARY = (
    tw.exp, tw.tanh, tw.sin, tw.relu, tw.square, tw.abs, tw.sigmoid, tw.recip, tw.silu, tw.gelu,
)  # fmt: skip
REDUCTIONS = (tw.row_sum, tw.row_max, tw.row_min, tw.col_sum, tw.col_max, tw.col_min)


def _add(a: Any, b: Any) -> Any:
    return a + b


def _subtract(a: Any, b: Any) -> Any:
    return a - b


def _multiply(a: Any, b: Any) -> Any:
    return a * b


BINARY = (_add, _subtract, _multiply, tw.maximum, tw.minimum)


class Author:
    """Makes the same choices in every run of a kernel."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def begin(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def below(self, count: int) -> int:
        return int(self.random.integers(count))

    def expression(self, pool: list[Any], length: int) -> Any:
        """Combine tiles for a while; what comes out is a full tile."""
        pool = list(pool)
        for _ in range(length):
            kind = self.below(10)
            a, b = pool[self.below(len(pool))], pool[self.below(len(pool))]
            if kind < 4:
                made = BINARY[self.below(len(BINARY))](a, b)
            elif kind < 7:
                made = UNARY[self.below(len(UNARY))](a)
            elif kind < 9:
                made = REDUCTIONS[self.below(len(REDUCTIONS))](pool[0])
            else:
                made = a * float(self.random.normal())
            pool.append(made)
        result = pool[0]
        for tile in pool[-3:]:
            result = tw.tanh(result + tile)
        return result


def in_a_grid(author: Author, rows: int, columns: int, unroll: Any) -> tw.Kernel:
    @tw.kernel
    def gridded(
        x: tw.bf16["M", "N"],
        y: tw.bf16["M", "N"],
        f: tw.fp8["M", "K"],
        g: tw.fp8["N", "K"],
        v: tw.bf16["N"],
        c: tw.bf16["M", 1],
        out: tw.bf16["M", "N"],
    ):
        for m in tw.grid(out.M, rows, unroll=unroll):
            column = tw.exp(c[m, :])
            for n in tw.grid(out.N, columns):
                author.begin()
                pool = [x[m, n], y[m, n], v[n], column]
                pool.append((f[m, :] @ g[n, :].T) * 0.05)
                out[m, n] = author.expression(pool, 8)

    return gridded


def with_states(author: Author, rows: int, columns: int, unroll: Any) -> tw.Kernel:
    @tw.kernel
    def stateful(
        x: tw.bf16["M", "N"],
        y: tw.bf16["M", "N"],
        f: tw.fp8["M", "N"],
        g: tw.fp8["N", "K"],
        v: tw.bf16["N"],
        c: tw.bf16["M", 1],
        out: tw.bf16["M", "K"],
        out_last: tw.bf16["M", 1],
    ):
        for m in tw.grid(out.M, rows):
            top, mixed, total = tw.state(c[m, :]), tw.state(0.0), tw.zeros()
            for n in tw.steps(x.N, columns, unroll=unroll):
                author.begin()
                p = author.expression([x[m, n], y[m, n], v[n], c[m, :]], 5)
                best = tw.maximum(top, tw.row_max(p))
                product = tw.to_fp8(tw.exp(p - best)) @ g[n, :]
                mixed.set(mixed * tw.exp(top - best) + product)
                total += f[m, n] @ g[n, :]
                if author.below(2):
                    top.set(best)
            out[m, :] = mixed * 0.1 + total
            out_last[m, :] = tw.row_max(mixed) + top

    return stateful


def check(make: Any, seed: int, profile: str, loops: bool = False) -> None:
    """One kernel on one machine; `loops`: every loop of the IR stays a loop of the program."""
    random = np.random.default_rng(seed)
    m, n, k = (int(v) for v in random.integers(1, (100, 200, 70)))
    rows, columns = (int(v) for v in random.choice([32, 64], 2))
    unroll = [False, True, 2, 3][random.integers(4)]
    kernel = make(Author(seed), rows, columns, unroll)
    if make is in_a_grid:
        shapes = [(m, n), (m, n), (m, k), (n, k), (n,), (m, 1)]
    else:
        shapes = [(m, n), (m, n), (m, n), (n, k), (n,), (m, 1)]
    arrays = [random.normal(size=shape) for shape in shapes]
    kept = tuned(straight_instructions=1, body_instructions=1) if loops else nullcontext()
    with kept:
        compiled = kernel.compile(*arrays, target=profile)
    results, wanted = compiled.run(*arrays), kernel.eager(*arrays, profile=profile)
    for got, want in zip(_several(results), _several(wanted), strict=True):
        assert np.array_equal(got.astype(np.float32), want.astype(np.float32), equal_nan=True)
    assert compiled.lint().clean


def _several(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def test_random_nests() -> None:
    """Some of what `benchmarks/random_kernels.py` checks, of fresh seeds unless in CI."""
    first = 0 if os.environ.get("CI") else secrets.randbelow(1 << 31)
    print(f"seeds from {first} on")
    for seed in range(first, first + 25):
        outcome = kernel_checks.check(kernel_generator.make(seed))
        assert not outcome.failed, f"seed {seed}: {outcome}"


def test_failures_are_made_smaller() -> None:
    """A kernel that is wrong as long as it has a product keeps little else."""
    spec = next(s for s in map(kernel_generator.make, range(100)) if "product" in str(s))

    def check(spec: kernel_generator.Spec) -> kernel_checks.Outcome:
        return kernel_checks.Outcome("wrong" if "product" in str(spec) else "ok")

    with patch.object(kernel_checks, "check", check):
        less = kernel_checks.shrunk(spec, "wrong")
    assert str(less).count("Op(") == 1 and len(less.sections) == 1
    assert eval(kernel_generator.shown(less), dict(vars(kernel_generator))) == less


@pytest.mark.parametrize("make", [in_a_grid, with_states])
@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    profile=st.sampled_from(["atlas-v0", "atlas-v1"]),
    loops=st.booleans(),
)
def test_random_kernels(make: Any, seed: int, profile: str, loops: bool) -> None:
    check(make, seed, profile, loops)
