"""One source for Atlas and the VPU: values against eager runs and numpy, lists against the verifier."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import TilewrightError

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from flash_attention import exact, flash_attention


def drawn(h: int, m: int, n: int, d: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = ((m, 0.15), (n, 1), (n, 1))
    return [random.normal(size=(h, rows, d)) * scale for rows, scale in sizes]


def check(kernel, arrays, target="vpu40", timing=1, **more) -> np.ndarray:
    """Compiled equals eager to the bit, under modelled and other times; the list is clean."""
    wanted = kernel.eager(*arrays, target=target, **more)
    made = kernel.compile(*arrays, target=target, **more)
    found = made.run(*arrays)
    assert found.tobytes() == wanted.tobytes()
    if target.startswith("vpu"):
        assert made.lint().clean, str(made.lint())
        assert made.run(*arrays, timing=timing).tobytes() == wanted.tobytes()
    return found.astype(np.float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("target", "allowed", "more"),
    [
        ("atlas-v1", 0.2, {}),
        ("vpu40", 0.005, {}),
        ("vpu50", 0.005, {"side": 32}),
        ("vpu40", 0.05, {"formats": {"q": "i8:0.005", "k": "i8:0.035"}}),
        ("vpu37", 0.2, {"formats": {"operand": "i8:0.03", "q": "i8:0.005"}, "side": 48}),
    ],
)
def test_flash_attention(target: str, allowed: float, more: dict, causal: bool) -> None:
    q, k, v = drawn(2, 37, 70, 24)
    found = check(flash_attention, (q, k, v), target, causal=causal, **more)
    assert found.shape == (2, 37, 24)
    assert np.abs(found - exact(q, k, v, causal)).max() < allowed


def test_low_scores_beside_padding() -> None:
    """exp of what lies beyond the last key is infinite in f16 where all scores are far below 0."""
    q, k, v = drawn(1, 20, 40, 16)
    q, k = np.abs(q) * 11, -np.abs(k) - 0.6
    scores = np.einsum("hmd,hnd->hmn", q, k)
    assert scores.max() < -11 and scores.max(-1).min() > -90
    found = check(flash_attention, (q, k, v), causal=False, side=32)
    assert np.abs(found - exact(q, k, v, False)).max() < 0.05


def test_product_in_f16() -> None:
    """Sums are f32 in the order of the inner dimension, rounded once, whatever the tiles are."""

    @tw.kernel
    def product(
        a: tw.operand["M", "K"], b: tw.operand["K", "N"], c: tw.value["N"], out: tw.value["M", "N"]
    ):
        for m in tw.grid(out.M, 2 * tw.side()):
            for n in tw.grid(out.N):
                acc = tw.zeros()
                for k in tw.steps(a.K):
                    acc += a[m, k] @ b[k, n]
                out[m, n] = tw.gelu(acc + c[n])

    random = np.random.default_rng(1)
    a, b, c = random.normal(size=(70, 45)), random.normal(size=(45, 33)), random.normal(size=33)
    found = check(product, (a, b, c), side=32)
    sums = np.zeros((70, 33), np.float32)
    left, right = (x.astype(np.float16).astype(np.float32) for x in (a, b))
    for k in range(45):
        sums += left[:, k, None] * right[None, k]
    x = sums.astype(np.float16).astype(np.float32) + c.astype(np.float16).astype(np.float32)
    x = x.astype(np.float16).astype(np.float64)
    wanted = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert np.array_equal(found, wanted.astype(np.float16).astype(np.float64))
    assert np.array_equal(found, check(product, (a, b, c), side=16))
    assert product(a, b, c).shape == (70, 33)  # the same source on Atlas


@pytest.mark.parametrize("formats", [None, {"operand": "i8:0.03"}])
def test_sums_through_loops(formats: dict | None) -> None:
    """A sum is rounded once, also where its steps are not written out, and on top of a tile."""

    @tw.kernel
    def product(a: tw.operand["M", "K"], b: tw.operand["K", "N"], out: tw.value["M", "N"]):
        for m in tw.grid(out.M):
            for n in tw.grid(out.N):
                acc, more = tw.zeros(unit=1), tw.accumulator(tw.full(0.3))
                for k in tw.grid(a.K):
                    acc += a[m, k] @ b[k, n]
                for k in tw.steps(a.K, unroll=False):
                    more += a[m, k] @ b[k, n]
                out[m, n] = acc * more

    random = np.random.default_rng(5)
    a, b = random.normal(size=(16, 200)), random.normal(size=(200, 16))
    found = check(product, (a, b), side=16, formats=formats)
    if formats:
        a, b = (np.clip(np.rint(x / 0.03), -128, 127) * 0.03 for x in (a, b))
    assert np.abs(found - (a @ b) * (a @ b + 0.3)).max() < 2


def test_product_in_i8() -> None:
    """Whole numbers are exact; steps multiply into the one factor behind the sum."""

    @tw.kernel
    def product(a: tw.operand["M", "K"], b: tw.operand["K", "N"], out: tw.value["M", "N"]):
        for m in tw.grid(out.M):
            out[m, :] = a[m, :] @ b[:, :]

    random = np.random.default_rng(2)
    a = random.integers(-128, 128, (40, 70)).astype(np.int8)
    b = random.integers(-128, 128, (70, 20)).astype(np.int8)
    found = check(product, (a, b), formats={"a": "i8:0.01", "b": "i8:0.02"}, side=32)
    sums = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32)
    assert np.array_equal(found, (sums * np.float32(0.01 * 0.02)).astype(np.float16).astype(float))


def test_reductions_rows_columns_and_stages() -> None:
    """Softmax of rows, sums of columns, a column and a row as results, a tensor in between."""

    @tw.kernel
    def several(
        x: tw.value["M", "N"], gain: tw.value["M", 1], out_soft: tw.value["M", "N"],
        out_low: tw.value["M", 1], out_sum: tw.value["N"],
    ):  # fmt: skip
        kept = tw.scratch(tw.value[x.M, x.N])
        for m in tw.grid(x.M):
            e = tw.exp(x[m, :] - tw.row_max(x[m, :]))
            kept[m, :] = e / tw.row_sum(e)
            out_low[m, :] = tw.row_min(x[m, :]) * gain[m, :]
        total = tw.state(0.0)
        for m in tw.grid(x.M, unroll=True):
            out_soft[m, :] = tw.maximum(kept[m, :] * 2.0 - 0.125, 0.0)
            total.set(tw.col_sum(kept[m, :]) + total)
        out_sum[:] = total

    random = np.random.default_rng(3)
    x, gain = random.normal(size=(50, 41)) * 3, random.normal(size=(50, 1))
    wanted = several.eager(x, gain, target="vpu40", side=32)
    made = several.compile(x, gain, target="vpu40", side=32)
    found = made.run(x, gain)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, wanted, strict=True))
    assert made.lint().clean
    soft = np.exp(x - x.max(1, keepdims=True))
    soft /= soft.sum(1, keepdims=True)
    for got, want in zip(
        found, (np.maximum(soft * 2 - 0.125, 0), x.min(1, keepdims=True) * gain, soft.sum(0)),
        strict=True,
    ):  # fmt: skip
        assert got.shape == want.shape
        assert np.abs(got.astype(float) - want).max() < 0.02


def test_copies_transposes_and_computed_right_operands() -> None:
    @tw.kernel
    def mixed(x: tw.operand["M", "K"], y: tw.operand["M", "K"], out: tw.value["M", "M"],
              out_copy: tw.value["M", "K"]):  # fmt: skip
        for m in tw.grid(x.M):
            for n in tw.grid(x.M):
                right = tw.to_operand(tw.relu(tw.to_value(y[n, :])) + 1.0)
                out[m, n] = x[m, :] @ right.T
            out_copy[m, :] = tw.to_value(x[m, :])

    random = np.random.default_rng(4)
    x, y = random.normal(size=(40, 45)), random.normal(size=(40, 45))
    made = mixed.compile(x, y, target="vpu40", side=32)
    found, copy = made.run(x, y)
    eager = mixed.eager(x, y, target="vpu40", side=32)
    assert (found.tobytes(), copy.tobytes()) == tuple(e.tobytes() for e in eager)
    assert made.lint().clean and np.array_equal(copy, x.astype(np.float16))
    assert np.abs(found.astype(float) - x @ (np.maximum(y, 0) + 1).T).max() < 0.1


def test_looking_at_it(tmp_path: Path) -> None:
    made = flash_attention.compile(H=1, M=20, N=20, D=16, target="vpu40", side=32)
    assert "scf.for" in flash_attention.ir(H=3, M=200, N=20, D=16, target="vpu40")
    assert "tensor<32x32xf16>" in made.ir and "matmul" in made.asm and made.cycles > 0
    assert made.timeline(tmp_path / "a.svg").read_text().startswith("<svg")
    engines = {item.engine for item in made.program.tasks.tasks.values()}
    assert engines == {"dma", "dpu", "shave"}


def test_a_broken_list_is_found() -> None:
    """The check has teeth: a load that nobody waits for."""
    made = flash_attention.compile(H=1, M=20, N=20, D=16, target="vpu40", side=32)
    for item in made.program.tasks.tasks.values():
        if item.engine == "dpu" and item.waits:
            object.__setattr__(item, "waits", ())
            break
    assert not made.lint().clean


@tw.kernel
def spelled(a: tw.fp8["M", "K"], out: tw.bf16["M", "K"]):
    for m in tw.grid(a.M):
        out[m, :] = tw.to_bf16(a[m, :])


@tw.kernel
def doubled(x: tw.value["M", "N"], out: tw.value["M", "N"]):
    for m in tw.grid(x.M, 32):
        out[m, :] = x[m, :] * 2.0


@pytest.mark.parametrize(
    ("compile", "code", "message"),
    [
        (lambda: spelled.compile(M=8, K=8, target="vpu40"), "TW1653",
         "parameter a of spelled is fp8, which vpu40 does not have"),
        (lambda: doubled.compile(M=8, N=8, target="vpu40"), "TW1623",
         "a block of 32 elements is not a multiple of 64"),
        (lambda: doubled.compile(M=8, N=8, target="vpu40", side=20), "TW1654",
         "tiles of vpu40 cannot be 20 wide"),
        (lambda: doubled.compile(M=8, N=8, side=64), "TW1654",
         "tiles of atlas-v1 are 32 wide, not 64"),
        (lambda: doubled.compile(M=8, N=8, target="vpu40", formats={"x": "i8:0.1"}), "TW1652",
         "parameter x of doubled cannot be i8:0.1"),
        (lambda: doubled.compile(M=8, N=8, target="vpu40", formats={"y": "f16"}), "TW1652",
         "doubled has no parameter y whose format could be f16"),
        (lambda: doubled.compile(M=8, N=8, formats={"x": "i8"}), "TW1652",
         "'i8' is no format of this machine for x"),
        (lambda: flash_attention.compile(H=1, M=8, N=8, D=8, target="vpu40",
                                         formats={"q": "i8:0.1"}), "TW1611",
         "a matrix product does not take i8:0.1 and f16 tiles"),
    ],
)  # fmt: skip
def test_mistakes(compile, code: str, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        compile()
    assert (caught.value.code, caught.value.message) == (code, message)
