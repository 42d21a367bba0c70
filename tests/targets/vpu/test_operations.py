"""Task operations against plain loops that round where the definitions say so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.operations import dpu, shave
from tilewright.targets.vpu.operations.numbers import lane_sum, rounded
from tilewright.targets.vpu.operations.table import OPERATIONS, operation, run

F = np.float32


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bits, where NaN equals NaN."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)
    if found.dtype.kind == "f":
        numbers = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


def loop_sum(values: np.ndarray) -> np.float32:
    lanes = [F(0)] * 32
    for place, value in enumerate(values):
        lanes[place % 32] = F(lanes[place % 32] + F(value))
    width = 16
    while width:
        lanes = [F(lanes[j] + lanes[j + width]) for j in range(width)]
        width //= 2
    return lanes[0]


def loop_exp(value: np.float32) -> np.float32:
    return F(math.exp(float(value))) if value > -np.inf else F(0)


def test_sums_run_over_32_lanes(rng) -> None:
    for length in (1, 31, 32, 33, 100, 257):
        values = (rng.standard_normal(length) * 10.0 ** rng.integers(-3, 4, length)).astype(F)
        assert lane_sum(values) == loop_sum(values)


def test_rounding_to_i8_and_f16() -> None:
    values = np.array([0.5, 1.5, -0.5, 127.5, 300, -300, np.nan, np.inf], F)
    assert rounded(values, "i8").tolist() == [0, 2, 0, 127, 127, -128, 0, 127]
    half = rounded(np.array([1e6, -1e6, 6e-8, np.nan, 65519.9], F), "f16")
    assert half.view(np.uint16).tolist() == [0x7C00, 0xFC00, 1, 0x7E00, 0x7BFF]


@pytest.mark.parametrize("output", ["i8", "f16", "f32"])
def test_int8_products(rng, output: str) -> None:
    first = rng.integers(-128, 128, (5, 70), dtype=np.int8)
    second = rng.integers(-128, 128, (9, 70), dtype=np.int8)
    bias = rng.integers(-(10**6), 10**6, 9, dtype=np.int32)
    scale = (rng.random(9) * 1e-3).astype(F)
    (found,) = dpu.matmul(
        [first, second, bias, scale],
        {"operands": ("bias", "scale"), "output": output, "relu": True},
    )
    wanted = np.zeros((5, 9), F)
    for m in range(5):
        for n in range(9):
            total = sum(int(a) * int(w) for a, w in zip(first[m], second[n], strict=True))
            wanted[m, n] = max(F(F(total + int(bias[n])) * scale[n]), F(0))
    same(found, rounded(wanted, output))


def test_long_sums_of_extremes_are_exact() -> None:
    for left, right in ((-128, -128), (127, -128), (127, 127)):
        first = np.full((2, 5000), left, np.int8)
        second = np.full((3, 5000), right, np.int8)
        (found,) = dpu.matmul([first, second], {"output": "i32"})
        assert (found == 5000 * left * right).all()


def test_f16_products_add_in_order(rng) -> None:
    first = (rng.standard_normal((4, 37)) * 50).astype(np.float16)
    second = (rng.standard_normal((3, 37)) * 50).astype(np.float16)
    (found,) = dpu.matmul([first, second], {"output": "f16"})
    wanted = np.zeros((4, 3), F)
    for m in range(4):
        for n in range(3):
            total = F(0)
            for k in range(37):
                total = F(total + F(F(first[m, k]) * F(second[n, k])))
            wanted[m, n] = total
    same(found, rounded(wanted, "f16"))


def test_splitting_the_inner_axis_changes_no_bit(rng) -> None:
    first = rng.standard_normal((3, 50)).astype(np.float16)
    second = rng.standard_normal((4, 50)).astype(np.float16)
    (whole,) = dpu.matmul([first, second], {"output": "f16"})
    (partial,) = dpu.matmul([first[:, :17], second[:, :17]], {"output": "f32"})
    (joined,) = dpu.matmul(
        [first[:, 17:], second[:, 17:], partial],
        {"operands": ("accumulator",), "output": "f16"},
    )
    same(joined, whole)
    ints = (
        rng.integers(-128, 128, (3, 50), dtype=np.int8),
        rng.integers(-128, 128, (4, 50), dtype=np.int8),
    )
    scale = np.full(4, 0.01, F)
    (whole,) = dpu.matmul([*ints, scale], {"operands": ("scale",), "output": "i8"})
    (partial,) = dpu.matmul([a[:, :17] for a in ints], {"output": "i32"})
    (joined,) = dpu.matmul(
        [*(a[:, 17:] for a in ints), partial, scale],
        {"operands": ("accumulator", "scale"), "output": "i8"},
    )
    same(joined, whole)


def test_sums_that_leave_i32_are_errors() -> None:
    ones = np.full((1, 100), 127, np.int8)
    bias = np.array([2**31 - 1000], np.int32)
    with pytest.raises(TilewrightError, match="leaves i32"):
        dpu.matmul([ones, ones, bias], {"operands": ("bias",), "output": "i32"})
    with pytest.raises(TilewrightError, match="131072 products"):
        dpu.matmul([ones, ones], {"output": "i32", "summed": 131072})


@pytest.mark.parametrize("kind", ["i8", "f16"])
@pytest.mark.parametrize(("strides", "padding"), [((1, 1), (1, 1, 1, 1)), ((2, 3), (2, 0, 1, 1))])
def test_convolutions_skip_padding(rng, kind: str, strides, padding) -> None:
    if kind == "i8":
        image = rng.integers(-128, 128, (7, 8, 5), dtype=np.int8)
        weights = rng.integers(-128, 128, (4, 3, 3, 5), dtype=np.int8)
        extra, output = {"operands": ("scale",)}, "i8"
        more = [np.full(4, 0.003, F)]
    else:
        image = rng.standard_normal((7, 8, 5)).astype(np.float16)
        weights = rng.standard_normal((4, 3, 3, 5)).astype(np.float16)
        weights[0, 0, 0, 0] = np.inf  # times skipped padding it must not become NaN
        extra, output, more = {}, "f16", []
    options = {**extra, "output": output, "strides": strides, "padding": padding}
    (found,) = dpu.convolution([image, weights, *more], options)
    wanted = np.zeros(found.shape, F)
    for oy in range(found.shape[0]):
        for ox in range(found.shape[1]):
            for oc in range(4):
                total = 0 if kind == "i8" else F(0)
                for ky in range(3):
                    for kx in range(3):
                        y, x = oy * strides[0] + ky - padding[0], ox * strides[1] + kx - padding[1]
                        if not (0 <= y < 7 and 0 <= x < 8):
                            continue
                        for ic in range(5):
                            if kind == "i8":
                                total += int(image[y, x, ic]) * int(weights[oc, ky, kx, ic])
                            else:
                                with np.errstate(all="ignore"):
                                    product = F(image[y, x, ic]) * F(weights[oc, ky, kx, ic])
                                    total = F(total + product)
                wanted[oy, ox, oc] = F(F(total) * F(0.003)) if kind == "i8" else total
    same(found, rounded(wanted, output))


def test_pooling(rng) -> None:
    image = rng.integers(-128, 128, (6, 5, 3), dtype=np.int8)
    options = {"kernel": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "output": "i8"}
    (largest,) = dpu.pool([image], {**options, "function": "max"})
    (average,) = dpu.pool([image], {**options, "function": "average"})
    for oy in range(largest.shape[0]):
        for ox in range(largest.shape[1]):
            area = image[max(0, 2 * oy - 1) : 2 * oy + 2, max(0, 2 * ox - 1) : 2 * ox + 2]
            assert (largest[oy, ox] == area.max(axis=(0, 1))).all()
            count = area.shape[0] * area.shape[1]
            scaled = area.sum(axis=(0, 1), dtype=np.int64).astype(F) * F(1 / count)
            same(average[oy, ox], rounded(scaled, "i8"))


def test_softmax_rows(rng) -> None:
    values = (rng.standard_normal((4, 45)) * 4).astype(np.float16)
    mask = np.where(rng.random((4, 45)) < 0.3, -np.inf, 0).astype(np.float16)
    mask[2] = -np.inf
    (found,) = shave.softmax([values, mask], {"factor": 0.125, "output": "f16"})
    wanted = np.zeros((4, 45), F)
    for row in (0, 1, 3):
        t = [F(F(F(x) * F(0.125)) + F(a)) for x, a in zip(values[row], mask[row], strict=True)]
        powers = np.array([loop_exp(F(x - max(t))) for x in t], F)
        wanted[row] = powers / loop_sum(powers)
    same(found, rounded(wanted, "f16"))


@pytest.mark.parametrize("output", ["f16", "i8"])
def test_norms(rng, output: str) -> None:
    values = rng.standard_normal((3, 50)).astype(np.float16)
    weight, bias = (rng.standard_normal(50).astype(np.float16) for _ in range(2))
    options = {"epsilon": 1e-5, "output": output, "output_scale": 0.02}
    (rms,) = shave.rms_norm([values, weight], options)
    (layer,) = shave.layer_norm([values, weight, bias], options)
    unit = F(1 / 0.02) if output == "i8" else F(1)
    for row in range(3):
        x = values[row].astype(F)
        r = F(1) / np.sqrt(F(loop_sum(x * x) / F(50)) + F(1e-5))
        same(rms[row], rounded(x * r * weight.astype(F) * unit, output))
        d = x - F(loop_sum(x) / F(50))
        r = F(1) / np.sqrt(F(loop_sum(d * d) / F(50)) + F(1e-5))
        same(layer[row], rounded((d * r * weight.astype(F) + bias.astype(F)) * unit, output))


@pytest.mark.parametrize(
    ("name", "function"),
    [("tanh", math.tanh), ("silu", lambda x: x / (1 + math.exp(-x))),
     ("gelu_erf", lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
     ("sigmoid", lambda x: 1 / (1 + math.exp(-x)))],
)  # fmt: skip
def test_unary_functions_round_once(name: str, function) -> None:
    patterns = np.arange(0, 65536, 97, dtype=np.uint16)
    values = patterns.view(np.float16)
    values = values[np.isfinite(values) & (abs(values.astype(F)) < 600)]
    (found,) = shave.unary([values], {"function": name, "output": "f16"})
    wanted = np.array([np.float64(function(float(x))) for x in values]).astype(np.float16)
    difference = found.view(np.int16).astype(int) - wanted.view(np.int16).astype(int)
    assert abs(difference).max() == 0


def test_rope_and_gate(rng) -> None:
    x = rng.standard_normal((3, 8)).astype(np.float16)
    cos, sin = (rng.standard_normal((3, 4)).astype(np.float16) for _ in range(2))
    (halves,) = shave.rope([x, cos, sin], {"output": "f16"})
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    (pairs,) = shave.rope([x[:, order], cos, sin], {"output": "f16", "interleaved": True})
    same(pairs, halves[:, order])
    a, b = x[:, :4].astype(F), x[:, 4:].astype(F)
    c, s = cos.astype(F), sin.astype(F)
    same(halves[:, :4], (a * c - b * s).astype(np.float16))
    same(halves[:, 4:], (b * c + a * s).astype(np.float16))
    (gated,) = shave.silu_gate([x, x], {"output": "f32"})
    for found, value in zip(gated.ravel(), x.ravel(), strict=True):
        g = F(value)
        assert found == F(F(g / F(F(1) + loop_exp(F(-g)))) * g)


@pytest.mark.parametrize("block", [1, 3, 7, 16, 40])
def test_online_softmax_is_softmax(rng, block: int) -> None:
    """Blocks of any length, ragged and fully masked ones included, within the bound of f16."""
    queries, keys, width = 6, 40, 16
    q, k = (rng.standard_normal((n, width)).astype(np.float16) for n in (queries, keys))
    v = rng.standard_normal((keys, width)).astype(np.float16)
    mask = np.triu(np.full((queries, keys), -np.inf, F), 30).astype(np.float16)
    mask[2] = -np.inf
    m, total = np.full(queries, -np.inf, F), np.zeros(queries, F)
    o = np.zeros((queries, width), F)
    for first in range(0, keys, block):
        part = slice(first, first + block)
        (s,) = dpu.matmul([q, k[part]], {"output": "f16", "factor": 0.25})
        p, a, m, total = shave.online_softmax([s, m, total, mask[:, part]], {"output": "f16"})
        (pv,) = dpu.matmul([p, np.ascontiguousarray(v[part].T)], {"output": "f32"})
        (o,) = shave.accumulate([o, a, pv], {})
    (found,) = shave.normalise([o, total], {"output": "f16"})
    scores = q.astype(np.float64) @ k.astype(np.float64).T * 0.25
    exact = np.zeros((queries, width))
    for row in range(queries):
        if row != 2:
            weights = np.exp(scores[row] + mask[row].astype(np.float64))
            exact[row] = weights @ v.astype(np.float64) / weights.sum()
    limit = 2.0**-10 * (2 + abs(scores).max()) * abs(exact).max()
    assert abs(found.astype(np.float64) - exact).max() <= limit
    assert not found[2].any()


def test_records_check_formats_and_shapes(rng) -> None:
    record = operation("matmul", [("i8", (2, 16)), ("i8", (3, 16))], [("i32", (2, 3))])
    first, second = (rng.integers(-128, 128, (n, 16), dtype=np.int8) for n in (2, 3))
    (content,) = run(
        "matmul", [a.reshape(-1).view(np.uint8) for a in (first, second)], [24], record.attributes
    )
    same(content.view(np.int32).reshape(2, 3), first.astype(np.int32) @ second.astype(np.int32).T)
    with pytest.raises(TilewrightError, match="no task operation"):
        operation("mystery", [], [("f16", ())])
    assert {entry.engine for entry in OPERATIONS.values()} == {"dpu", "shave"}
