"""What authors see: eager values, steering, loops, the public names, short kernels."""

from __future__ import annotations

import inspect
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tile_kernels as k
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw


def test_values_can_be_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """In an eager run tiles are numbers, loops are Python loops, print and asserts work."""
    seen = []

    @tw.kernel
    def looked_at(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            doubled = x[m, :] * 2.0
            seen.append(np.asarray(doubled))
            print(doubled, tw.row_sum(doubled))
            out[m, :] = doubled

    x = np.arange(40 * 3).reshape(40, 3)
    result = looked_at.eager(x)
    assert [tile.shape for tile in seen] == [(32, 3), (8, 3)]
    assert np.array_equal(np.concatenate(seen), x * 2) and np.array_equal(result, x * 2)
    printed = capsys.readouterr().out
    assert "<bf16 tile 32x3" in printed and "<bf16 tile 8x1 column" in printed


def test_traced_tiles_show_their_shape() -> None:
    shown = []

    @tw.kernel
    def shows(x: tw.fp8["M", "N"], out: tw.fp8["M", "N"]):
        for m in tw.grid(x.M, 64):
            shown.append(repr(x[m, :]))
            out[m, :] = x[m, :]

    shows.compile(M=128, N=40)
    assert shown == ["<fp8 tile 64x40>"]


def test_a_kernel_is_traced_once() -> None:
    calls = []

    @tw.kernel
    def traced(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        calls.append("function")
        for m in tw.grid(x.M):
            calls.append("loop")
            out[m, :] = x[m, :]

    traced.compile(M=320, N=32)
    assert calls == ["function", "loop"]


def loops(text: str) -> int:
    return text.count("scf.for")


def test_unroll_and_steps() -> None:
    def unrolled(unroll):
        @tw.kernel
        def copied(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
            for m in tw.grid(x.M, unroll=unroll):
                out[m, :] = x[m, :]

        return copied.ir(M=230, N=32)

    assert unrolled(False).count("tensor.insert_slice") == 2  # the body and what is left over
    assert unrolled(True).count("tensor.insert_slice") == 8
    assert unrolled(3).count("tensor.insert_slice") == 3 + 1 + 1
    assert loops(k.large_sum.ir(M=32, K=128, N=32)) == 0
    assert loops(k.flash_attention.ir(H=1, M=32, N=64 * 32, D=32)) == 0
    assert loops(k.flash_attention.ir(H=1, M=32, N=65 * 32, D=32)) == 1


def test_loop_order_and_depth_change_the_program_not_the_result() -> None:
    def variant(columns_first: bool, depth: int, units):
        @tw.kernel
        def product(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
            tw.options(depth=depth, units=units)
            first, second = (out.N, out.M) if columns_first else (out.M, out.N)
            for i in tw.grid(first, 64):
                for j in tw.grid(second, 64):
                    m, n = (j, i) if columns_first else (i, j)
                    out[m, n] = a[m, :] @ b[:, n]

        return product

    random = np.random.default_rng(1)
    a, b = random.normal(size=(640, 32)), random.normal(size=(32, 640))
    programs, results = set(), set()
    for choice in ((True, 2, 1), (False, 2, 1), (True, 4, 1), (True, 2, 0), (True, 2, (1, 0))):
        compiled = variant(*choice).compile(a, b)
        programs.add(compiled.asm)
        results.add(compiled.run(a, b).tobytes())
    assert len(programs) == 5 and len(results) == 1


def test_units_are_used_as_told() -> None:
    compiled = k.with_options.compile(M=64, K=64, N=64)
    compiled.run(np.zeros((64, 64)), np.zeros((64, 64)))
    busy = {name: unit.busy for name, unit in compiled.statistics.units.items()}
    assert busy["MXU1"] > 0 and busy["MXU0"] == 0


def test_products_that_are_added_as_they_come() -> None:
    """An accumulator bound to a unit, beside sums of its own in the same steps."""

    @tw.kernel
    def weighted(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(a.M):
            total, rows = tw.zeros(unit=0), tw.zeros(unit=1)
            for n in tw.steps(a.K):
                total += a[m, n] @ b[n, :]
                rows += a[m, n] @ tw.ones()
            out[m, :] = tw.park(total.tiles()) + rows

    random = np.random.default_rng(2)
    a, b = (random.integers(-2, 3, shape).astype(float) for shape in ((40, 96), (96, 32)))
    expected = a @ b + a.sum(1, keepdims=True)
    for profile in ("atlas-v1", "atlas-v0"):
        assert np.array_equal(weighted(a, b, target=profile).astype(float), expected)
        assert np.array_equal(weighted.eager(a, b, profile=profile).astype(float), expected)


def test_halves() -> None:
    @tw.kernel
    def sums(x: tw.bf16["M", "N"], out: tw.bf16["M", 16].halves()):
        for m in tw.grid(x.M):
            out[m, :] = tw.row_sum(x[m, :])

    @tw.kernel
    def centred(x: tw.bf16["M", "N"], mean: tw.bf16["M", 16].halves(), out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            out[m, :] = x[m, :] - mean[m, :]

    x = np.random.default_rng(3).integers(-3, 4, (50, 40)).astype(float)
    for profile in ("atlas-v1", "atlas-v0"):
        total = sums(x, target=profile)
        assert np.array_equal(total.astype(float), np.repeat(x.sum(1, keepdims=True), 16, 1))
        assert total.tobytes() == sums.eager(x, profile=profile).tobytes()
        result = centred(x, total, target=profile)
        assert np.array_equal(result.astype(float), x - x.sum(1, keepdims=True))
        assert result.tobytes() == centred.eager(x, total, profile=profile).tobytes()


def test_states_of_nested_loops() -> None:
    """A state carried through two loops of the program, one inside the other."""

    @tw.kernel
    def largest(x: tw.bf16["H", "M", "N"], out: tw.bf16[32, 1]):
        best = tw.state(-1000.0)
        for h in tw.each(x.H):
            for m in tw.grid(x.M):
                for n in tw.grid(x.N):
                    best.set(tw.maximum(best, tw.row_max(x[h, m, n])))
        out[:, :] = tw.maximum(best, best)

    x = np.random.default_rng(4).normal(size=(5, 160, 192)).astype(ml_dtypes.bfloat16)
    expected = x.reshape(5, 5, 32, 192).astype(float).max((0, 1, 3))[:, None]
    compiled = largest.compile(x)
    assert loops(compiled.ir) >= 3
    assert np.array_equal(compiled.run(x).astype(float), expected)
    assert np.array_equal(largest.eager(x).astype(float), expected)


def test_public_names_are_lazy() -> None:
    """`import tilewright` loads neither numpy nor xDSL; names appear when asked for."""
    program = (
        "import sys, tilewright as tw\n"
        "assert not {'numpy', 'xdsl', 'torch'} & set(sys.modules)\n"
        "assert callable(tw.kernel) and 'xdsl' not in sys.modules\n"
        "assert 'row_max' in dir(tw) and not hasattr(tw, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("kernel", "most"), [(k.linear_gelu, 12), (k.flash_attention, 25)])
def test_showcases_are_short(kernel: tw.Kernel, most: int) -> None:
    """Every line counts, decorator and signature included."""
    assert len(inspect.getsource(kernel.function).splitlines()) <= most


@settings(max_examples=12, deadline=None)
@given(
    m=st.integers(1, 70),
    n=st.integers(1, 70),
    inner=st.integers(1, 70),
    rows=st.sampled_from([32, 64]),
    profile=st.sampled_from(["atlas-v0", "atlas-v1"]),
)
def test_any_size(m: int, n: int, inner: int, rows: int, profile: str) -> None:
    @tw.kernel
    def normalised(a: tw.fp8["M", "K"], b: tw.fp8["N", "K"], out: tw.bf16["M", "N"]):
        for i in tw.grid(out.M, rows):
            s = a[i, :] @ b[:, :].T
            p = tw.exp(s - tw.row_max(s))
            out[i, :] = p * tw.recip(tw.row_sum(p)) - tw.col_min(p)

    random = np.random.default_rng([m, n, inner])
    a, b = random.normal(size=(m, inner)), random.normal(size=(n, inner))
    compiled = normalised(a, b, target=profile)
    assert compiled.tobytes() == normalised.eager(a, b, profile=profile).tobytes()


@pytest.mark.parametrize("shape", [(32, 32), (50, 70), (96, 33)])
def test_numbers_of_whole_tiles(shape: tuple[int, int]) -> None:
    """Reducing rows and then columns, or the other way round, gives one number."""

    @tw.kernel
    def centred(
        x: tw.bf16["M", "N"], out: tw.bf16["M", "N"], out_top: tw.bf16["N"],
        out_low: tw.bf16["M", 1], out_sum: tw.bf16["M", 16].halves(),
    ):  # fmt: skip
        top = tw.col_max(tw.row_max(x[:, :]))
        low = tw.row_min(tw.col_min(x[:, :]))
        total = tw.row_sum(tw.col_sum(x[:, :]))
        out[:, :] = (x[:, :] - top) * tw.abs(low) + (top - low)
        out_top[:] = top
        out_low[:, :] = low
        out_sum[:, :] = tw.maximum(total, -1000.0) * 1.0

    x = np.random.default_rng(0).integers(-4, 5, shape).astype(float)
    for profile in ("atlas-v0", "atlas-v1"):
        got = centred(x, target=profile)
        for one, other in zip(got, centred.eager(x, profile=profile), strict=True):
            assert one.tobytes() == other.tobytes()
        top, low = x.max(), x.min()
        assert np.array_equal(got[0].astype(float), (x - top) * abs(low) + (top - low))
        assert set(got[1].astype(float)) == {top} and set(got[2].astype(float).ravel()) == {low}
        assert abs(got[3].astype(float) - x.sum()).max() <= abs(x.sum()) / 64


@pytest.mark.parametrize(
    "function", [tw.exp, tw.silu, tw.gelu, lambda x: tw.to_bf16(tw.to_fp8(x, 4), 4), lambda x: -x]
)
@pytest.mark.parametrize("reductions", [(tw.col_sum, tw.row_max), (tw.row_sum, tw.col_max)])
def test_functions_of_a_single_number(function, reductions):
    """Rows of columns and columns of rows are single numbers, for casts and activations too."""

    @tw.kernel
    def numbers(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            tile = x[m, :] * 0.01
            out[m, :] = tile + function(reductions[0](reductions[1](tile)))

    x = np.random.default_rng(3).normal(size=(50, 40))
    assert numbers(x).tobytes() == numbers.eager(x).tobytes()
