"""Ranges by maximum, percentile and least squared error: against plain numpy on all the numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from model_machines import SHAVED, WHOLE
from waist_models import MLP, imported

import tilewright as tw
from tilewright.cli import main
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.model.prepare import prepare
from tilewright.model.ranges import Histogram, Range, RangeRule, channel_peaks
from tilewright.reference.executor import Executor, run
from tilewright.targets.atlas.model.narrow_ranges import NarrowRange, channel_scales, narrowed
from tilewright.targets.coral.evaluate import evaluate
from tilewright.targets.coral.from_kernels import program_of
from tilewright.targets.coral.optimise import fold_constants, optimise
from tilewright.targets.coral.quantise import quantise

F = np.float32


def spiky(seed: int, count: int = 20_000, spike: float = 300.0) -> np.ndarray:
    """Normal numbers, a few of them very large, some 0."""
    random = np.random.default_rng(seed)
    numbers = random.standard_normal(count)
    numbers[:: count // 5] *= spike
    numbers[7::11] = 0
    return numbers


def seen(rule: str, *arrays: np.ndarray) -> Range:
    found = Range(rule=RangeRule.parse(rule))
    for array in arrays:
        found.observe(array)
    return found


@pytest.mark.parametrize("percentile", [90, 99, 99.9])
def test_percentiles_are_those_of_the_numbers_that_are_not_zero(percentile: float) -> None:
    numbers = spiky(1) - 0.3 * (spiky(1) != 0)
    whole = numbers[numbers != 0]
    low, high = seen(f"percentile:{percentile}", numbers).limits(symmetric=True)
    assert high == -low == pytest.approx(np.percentile(np.abs(whole), percentile), rel=0.01)
    low, high = seen(f"percentile:{percentile}", numbers).limits(symmetric=False)
    wanted = np.percentile(whole, [100 - percentile, percentile])
    assert [low, high] == pytest.approx(wanted, rel=0.01)
    mostly = np.zeros(100_000)
    mostly[:10] = np.arange(1, 11)
    assert seen("percentile:50", mostly).limits(False) == (0.0, pytest.approx(5, rel=0.01))


def test_everything_is_in_the_range_of_the_maximum_and_of_all_percent() -> None:
    numbers = spiky(2)
    ends = numbers.min(), numbers.max()
    assert seen("max", numbers).limits(False) == ends
    assert seen("percentile:100", numbers).limits(False) == pytest.approx(ends, rel=0.005)
    for rule in ("max", "percentile", "mse"):
        assert seen(rule).limits(False) == (0, 0)
        assert seen(rule, np.zeros(3), np.full(2, np.nan)).limits(True) == (0, 0)
        low, high = seen(rule, np.full(9, 3.0)).limits(False)
        assert (low, high) == (0, pytest.approx(3, rel=0.005))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.sampled_from(["mse", "percentile"]))
@settings(max_examples=8, deadline=None)
def test_order_and_grouping_of_samples_do_not_matter(seeds: list[int], rule: str) -> None:
    arrays = [spiky(seed, 200) for seed in seeds]
    whole = seen(rule, np.concatenate(arrays))
    merged = Range(rule=RangeRule.parse(rule))
    for array in reversed(arrays):
        merged.merge(seen(rule, array))
    assert merged.limits(False) == whole.limits(False) == seen(rule, *arrays).limits(False)


def int8_error(numbers: np.ndarray, low: float, high: float) -> float:
    """Affine codes, straight from their definition."""
    step = (high - low) / 255
    zero = round(-128 - low / step)
    codes = np.clip(np.round(numbers / step) + zero, -128, 127)
    return float((((codes - zero) * step - numbers) ** 2).sum())


@pytest.mark.parametrize("spike", [1.0, 20.0, 300.0])
def test_the_least_squared_error_is_nearly_that_of_a_fine_search(spike: float) -> None:
    random = np.random.default_rng(3)
    numbers = np.abs(spiky(4, 4000, spike)) ** 1.5 * random.choice([1.0, -0.2], 4000)
    low, high = seen("mse", numbers).limits(symmetric=False)
    found = int8_error(numbers, low, high)
    fine = np.geomspace(0.004, 1, 24)
    best = min(
        int8_error(numbers, numbers.min() * a, numbers.max() * b) for a in fine for b in fine
    )
    assert found <= 1.08 * best
    assert found <= int8_error(numbers, numbers.min(), numbers.max())


def test_weights_of_the_least_squared_error_beat_their_maximum_in_every_channel() -> None:
    random = np.random.default_rng(5)
    weights = random.standard_t(4, (6, 20_000)) * 10.0 ** np.arange(-3, 3)[:, None]
    weights[2] = 0

    def errors(peaks: np.ndarray) -> np.ndarray:
        step = (np.where(peaks > 0, peaks, 1) / 127)[:, None]
        return ((np.clip(np.round(weights / step), -127, 127) * step - weights) ** 2).sum(1)

    most, least = channel_peaks(weights, 0), channel_peaks(weights, 0, RangeRule("mse"))
    assert np.array_equal(most, np.abs(weights).max(1))
    assert np.array_equal(channel_peaks(weights, 0, RangeRule("percentile")), most)
    assert (errors(least) <= errors(most)).all() and (errors(least) < errors(most)).sum() >= 4
    assert np.array_equal(channel_peaks(weights.T, -1, RangeRule("mse")), least)
    assert channel_peaks(weights, None).item() == np.abs(weights).max()


@pytest.mark.parametrize("text", ["", "median", "max:3", "percentile:", "percentile:12", "mse:1"])
def test_rules_that_are_none(text: str) -> None:
    with pytest.raises(tw.TilewrightError, match="TW1711"):
        CompileOptions(ranges=text)


# --- machines with int8 -------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SHAVED, WHOLE], ids=lambda m: m.name)
def test_rare_spikes_cost_int8_less_when_they_may_saturate(machine) -> None:
    """One value in a thousand: to cut it off is no gain in squared error, but in all other values."""
    random = np.random.default_rng(6)
    calm = random.standard_normal((40, 24)).astype(F)
    samples = [{"x": calm[5 * k : 5 * k + 5].copy()} for k in range(8)]
    samples[3]["x"][2, 7] = 60.0
    errors = {}
    for rule in ("max", "percentile:99.5", "mse"):
        prepared = prepare(imported(MLP), machine, CompileOptions(ranges=rule), samples)
        x = samples[0]["x"]
        exact = run(prepared.model.module, [x], weights=prepared.model.weights)[0]
        found = run(prepared.parts.module, [x], weights=prepared.parts.weights)[0]
        errors[rule] = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    assert errors["percentile:99.5"] < errors["max"] / 3
    assert errors["mse"] < 1.3 * errors["max"]


def test_coral_takes_the_same_rules() -> None:
    net = ModelBuilder("two", seed=3)
    x = net.input("x", (4, 24))
    net.output("y", net.linear(net.relu(net.linear(x, 32, "a")), 16, "b"))
    program = optimise(fold_constants(program_of(net.build())), fold_scales=False)
    random = np.random.default_rng(8)
    samples = [[random.standard_normal((4, 24)).astype(F)] for _ in range(20)]
    samples[4][0][1, 1] = 90.0
    (exact,) = evaluate(program, samples[0])
    errors = []
    for text in ("max", "percentile:99.5", "mse"):
        made = quantise(program, samples, RangeRule.parse(text))
        (given,), (output,) = made.inputs, made.outputs
        assert given.scale is not None and output.scale is not None
        codes = np.clip(np.rint(samples[0][0] / given.scale) + given.zero, -128, 127)
        (found,) = evaluate(made, [codes.astype(np.int8).reshape(given.shape)])
        numbers = (found.astype(F) - output.zero) * output.scale
        errors.append(float(np.linalg.norm(numbers.reshape(exact.shape) - exact)))
    assert errors[1] < errors[0] / 3 and errors[2] < 1.5 * errors[0]


# --- Atlas: fp8 ---------------------------------------------------------------------------


def fp8(numbers: np.ndarray) -> np.ndarray:
    return np.clip(numbers, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


def test_fp8_scales_use_the_range_that_sums_leave() -> None:
    numbers = spiky(9, 64 * 200, 1000.0).reshape(200, 64)
    largest = float(np.abs(numbers).max())
    widest = 2.0 ** np.ceil(np.log2(largest / 16))
    observers = {}
    for text in ("mse", "percentile:99.9"):
        observers[text] = NarrowRange(RangeRule.parse(text))
        observers[text].observe(numbers)
    rows = np.abs(numbers).sum(1).max()
    errors = {}
    for text, observer in observers.items():
        scale = narrowed(widest, [observer])
        assert scale < widest and np.log2(scale) % 1 == 0
        assert 8 * rows * 16 / scale <= 65504  # with weights of 16 and eightfold rows
        errors[text] = ((fp8(numbers / scale) * scale - numbers) ** 2).sum()
    assert errors["mse"] <= ((fp8(numbers / widest) * widest - numbers) ** 2).sum()
    tight = NarrowRange(RangeRule("mse"), bound=1e9)
    tight.observe(numbers)
    assert narrowed(widest, [tight]) == widest
    together = narrowed(widest, [*observers.values(), tight])
    assert together == widest
    empty = NarrowRange(RangeRule("mse"))
    empty.observe(np.zeros((2, 3), F))
    assert narrowed(1.0, [empty]) == 1.0 and narrowed(1.0, [NarrowRange(RangeRule("mse"))]) == 1.0


@pytest.mark.parametrize("shape", [(96, 40), (3, 96, 32)])
def test_fp8_weights_of_the_least_squared_error(shape: tuple[int, ...]) -> None:
    weights = np.random.default_rng(2).standard_normal(shape).astype(F)
    weights[..., 5] = 0

    def errors(scales: np.ndarray) -> np.ndarray:
        spread = scales if len(shape) > 2 else scales[None]
        return ((fp8(weights / spread) * spread - weights) ** 2).sum(-2)

    most, least = (channel_scales(weights, RangeRule(kind)) for kind in ("max", "mse"))
    assert (errors(least) <= errors(most)).all()
    assert errors(least).sum() < 0.97 * errors(most).sum()
    assert (np.abs(weights / least) <= 16).all()  # sums are no larger than they were
    assert (least.view(np.uint32) & 0xFFFF == 0).all()


def outliers() -> Imported:
    """A factory: a norm and a product; three channels of its inputs are large."""
    net = ModelBuilder("outliers", seed=4)
    x = net.input("x", (20, 96))
    net.output("y", net.linear(net.rms_norm(x, "norm"), 64, "up", bias=False))
    model = net.build()
    model.weights["up.weight"][:, [3, 40, 77]] *= F(2.0**-12)
    return model


def large_channels(seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((20, 96)).astype(F)
    x[:, [3, 40, 77]] *= F(4000)
    return x


@pytest.mark.parametrize("rule", ["max", "percentile:95", "mse"])
def test_programs_of_every_rule_are_exact_and_never_infinite(rule: str) -> None:
    """Calibrated with outliers, run on rows whose sums are as large as rows of a norm can have."""
    model, x = outliers(), large_channels(1)
    program = tw.compile(model, calibrate={"x": x}, ranges=rule)
    verified = program.verify({"x": x})
    assert all(output.difference is None for output in verified.outputs)
    assert verified.ok == (rule != "max")  # small values are lost beside large ones
    worst = np.sign(model.weights["up.weight"][:20]).astype(F)  # sums of one sign
    found = np.asarray(program(worst))
    (wanted,) = Executor(model.module, model.weights).run([worst])
    assert np.isfinite(found).all()
    cosine = float((found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted))
    assert cosine > (0.99 if rule == "max" else 0.9)  # what is beyond the range saturates
    (wanted,) = Executor(model.module, model.weights).run([x])
    found = np.asarray(program(x))
    error = float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
    assert error > 0.15 if rule == "max" else error < 0.08
    assert program.model.provenance["options"].get("ranges", "max") == rule


def test_the_histogram_counts_by_size() -> None:
    histogram = Histogram()
    histogram.add(np.array([1.0, 1.001, -2.0, 0.0, 1e300]))
    assert histogram.counts.sum() == 5
    numbers = sorted(histogram.numbers())
    assert numbers[0] == pytest.approx(-2, rel=0.004)
    assert numbers[-1] == pytest.approx(3.4e38, rel=0.01)


# --- the command --------------------------------------------------------------------------


def compiled(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["compile", *arguments])
    printed = capsys.readouterr()
    return int(caught.value.code or 0), printed.out + printed.err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = "test_ranges:outliers", str(tmp_path / "o.twb")
    status, text = compiled(capsys, model, "-o", out, "--ranges", "percentile:99.5", "--json")
    assert status == 0
    assert json.loads(text)["provenance"]["options"]["ranges"] == "percentile:99.5"
    status, text = compiled(capsys, model, "-o", out, "--ranges", "widest")
    assert status == 2 and "percentile:P" in text
    for machine in ("coral", "xdna1"):
        status, text = compiled(capsys, model, "-o", out, "--target", machine, "--ranges", "mse")
        assert status == 2 and "TW0068" in text, text
