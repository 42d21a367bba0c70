"""Scales moved into weights: the float model gives the same bits, and rounding costs less."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from model_machines import SHAVED
from random_networks_text import random_network

import tilewright as tw
from tilewright.cli import main
from tilewright.compiling import compile_imported
from tilewright.dialects.verification import verify_module
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.model.prepare import prepare
from tilewright.model.simplify import simplify
from tilewright.model.smooth import SMOOTHED, smooth
from tilewright.reference.executor import Executor, run
from tilewright.runtime.verify import verify

F = np.float32
LARGE = [3, 17, 40]  # channels


def block(layers: int = 2, norm: str = "rms", tokens: int = 32, width: int = 64) -> Imported:
    """Attention and a gated MLP (rms), or a plain one (layer), with large channels in the stream."""
    net = ModelBuilder("block", seed=2)
    x = net.input("x", (1, tokens, width))
    make = net.rms_norm if norm == "rms" else net.layer_norm
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            h = make(x, "norm1")
            q, k, v = (net.heads(net.linear(h, width, name, bias=False), 2) for name in "qkv")
            x = x + net.linear(net.attention(q, k, v), width, "out")
            h = make(x, "norm2")
            if norm == "rms":
                h = net.silu_gate(net.linear(h, 96, "gate"), net.linear(h, 96, "up"))
            else:
                h = net.relu(net.linear(h, 96, "up"))
            x = x + net.linear(h, width, "down")
    net.output("y", net.linear(make(x, "last"), 40, "head"))
    model = net.build()
    for name, array in model.weights.items():
        if name.endswith(
            ("q.weight", "k.weight", "v.weight", "gate.weight", "up.weight", "head.weight")
        ):
            array[:, LARGE] *= F(
                2.0**-9
            )  # as training makes them, so that large channels matter little
    return model


def rows(seed: int, tokens: int = 32, width: int = 64) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((1, tokens, width)).astype(F)
    x[..., LARGE] *= F(700)
    return x


def outlier_mlp() -> Imported:
    """A factory: a norm whose input has large channels, two products."""
    net = ModelBuilder("outlier_mlp", seed=4)
    x = net.input("x", (20, 96))
    h = net.relu(net.linear(net.rms_norm(x, "norm"), 160, "up", bias=False))
    net.output("y", net.linear(h, 64, "down", bias=False))
    model = net.build()
    model.weights["up.weight"][:, LARGE] *= F(2.0**-12)
    return model


def wide(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of all sizes, with large channels, zeros and rows of zeros."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape) * 2.0 ** random.integers(-20, 20, shape)
    x[..., :: max(1, shape[-1] // 3)] *= 2.0**12
    x[random.random(shape) < 0.05] = 0
    x[..., 0, :] = 0
    return x.astype(F)


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_float_model_gives_the_same_bits(norm: str, alpha: float) -> None:
    model = simplify(block(norm=norm))
    before = {name: array.copy() for name, array in model.weights.items()}
    found = smooth(model, [{"x": rows(1)}], alpha)
    verify_module(found.model.module)
    for x in (rows(1), rows(2), wide(3, (1, 32, 64)), wide(4, (1, 32, 64))):
        (wanted,) = run(model.module, [x], weights=model.weights)
        (given,) = run(found.model.module, [x], weights=found.model.weights)
        assert given.tobytes() == wanted.tobytes()
    families = [text.split(": ")[1] for text in found.values]
    assert families.count(f"{norm}_norm") == 5  # two in each layer, and the last
    assert families.count("silu_gate" if norm == "rms" else "elementwise_relu") == 2
    assert str(found.model.module).count(SMOOTHED) == 5
    changed = [n for n in found.model.weights if n not in before]
    assert len(changed) >= 16
    assert all(np.array_equal(model.weights[n], array) for n, array in before.items())


def test_every_network_gives_the_same_bits() -> None:
    """Random networks, most of which have a place or two."""
    moved = 0
    for seed in range(24):
        model = simplify(random_network(seed))
        random = np.random.default_rng(seed)
        samples = [
            {s.name: random.standard_normal(s.shape).astype(F) * F(30) for s in model.inputs}
            for _ in range(2)
        ]
        found = smooth(model, samples[:1], 0.5)
        moved += len(found.values)
        for sample in samples:
            inputs = [sample[s.name] for s in model.inputs]
            wanted = run(model.module, inputs, weights=model.weights)
            given = run(found.model.module, inputs, weights=found.model.weights)
            for a, b in zip(wanted, given, strict=True):
                assert a.tobytes() == b.tobytes(), seed
    assert moved > 10


@given(st.integers(0, 10**6), st.floats(0, 1))
@settings(max_examples=15, deadline=None)
def test_scales_bring_ranges_together(seed: int, alpha: float) -> None:
    random = np.random.default_rng(seed)
    net = ModelBuilder("one", seed=seed % 97)
    x = net.input("x", (6, 24))
    net.output("y", net.linear(net.rms_norm(x, "norm"), 8, "fc"))
    model = net.build()
    sample = (random.standard_normal((6, 24)) * 10.0 ** random.uniform(-2, 2, 24)).astype(F)
    found = smooth(simplify(model), [{"x": sample}], alpha)
    weights, gain = found.model.weights, model.weights["norm.weight"]
    scales = gain / weights.get("norm.weight.smooth", gain)
    assert np.array_equal(scales, 2.0 ** np.rint(np.log2(scales)))
    normed = sample / np.sqrt((sample.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
    a = np.abs(normed * model.weights["norm.weight"]).max(0)
    w = np.abs(model.weights["fc.weight"]).max(0)
    ratio = np.log2(a**alpha / w ** (1 - alpha)) - np.log2(scales)
    assert np.ptp(ratio) <= 1 + 1e-6  # the same for all but for the rounding to powers of two


def test_what_others_read_stays() -> None:
    """Norms that a sum, an output, a computed product or a turned one reads; products read twice."""
    net = ModelBuilder("others")
    x = net.input("x", (1, 8, 32))
    a = net.rms_norm(x, "added")
    net.output("sum", net.linear(a, 32, "fc1") + a)
    b = net.rms_norm(x, "shown")
    net.output("b", b)
    net.output("fc2", net.linear(b, 16, "fc2"))
    c = net.rms_norm(x, "squared")
    net.output("square", net.matmul(c, net.transpose(c, (0, 2, 1))))
    d = net.linear(x, 32, "twice")
    net.output("d", net.linear(d, 8, "reads") + net.linear(net.gelu(d), 8, "reads_too"))
    model = simplify(net.build())
    found = smooth(model, [{"x": wide(1, (1, 8, 32))}], 0.5)
    assert found.values == [] and set(found.model.weights) == set(model.weights)


def test_norms_without_large_channels_stay() -> None:
    net = ModelBuilder("even")
    x = net.input("x", (64, 32))
    net.output("y", net.linear(net.rms_norm(x, "norm"), 64, "fc"))
    model = simplify(net.build())
    sample = np.random.default_rng(0).uniform(-1, 1, (64, 32)).astype(F)
    found = smooth(model, [{"x": sample}], 0.5)
    assert found.values == [] and SMOOTHED not in str(found.model.module)


def test_scales_that_would_round_do_not_move() -> None:
    net = ModelBuilder("tiny")
    x = net.input("x", (4, 8))
    net.output("y", net.linear(net.rms_norm(x, "norm"), 8, "fc"))
    model = net.build()
    model.weights["norm.weight"][:] = F(1e-44)  # no room below
    sample = (10.0 ** np.arange(-2, 6) * np.ones((4, 8))).astype(F)
    found = smooth(simplify(model), [{"x": sample}], 1.0)
    assert found.values == []


# --- what it is for -----------------------------------------------------------------------


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(found, np.float64) - wanted) / np.linalg.norm(wanted))


def test_int8_loses_less_beside_large_channels() -> None:
    model, x = block(1), rows(1)
    (wanted,) = run(model.module, [x], weights=model.weights)
    errors = []
    for alpha in (None, 0.5):
        prepared = prepare(model, SHAVED, CompileOptions(smooth=alpha), [{"x": rows(9)}, {"x": x}])
        assert ("smoothed" in prepared.phases) == (alpha is not None)
        errors.append(
            error(run(prepared.parts.module, [x], weights=prepared.parts.weights)[0], wanted)
        )
    assert errors[1] < 0.5 * errors[0]


def test_fp8_loses_less_and_stays_exact(tmp_path: Path) -> None:
    model = outlier_mlp()
    x = np.random.default_rng(1).standard_normal((20, 96)).astype(F)
    x[:, LARGE] *= F(4000)
    (wanted,) = Executor(model.module, model.weights).run([x])
    plain = tw.compile(model, calibrate={"x": x})
    program = tw.compile(model, calibrate={"x": x}, smooth=0.5)
    assert error(program(x), wanted) < 0.5 * error(plain(x), wanted)
    verified = program.verify({"x": x}, per_layer=True)
    assert verified.ok, verified.text()
    compared = [one.accuracy.cosine for one in verified.layers if one.accuracy is not None]
    assert compared and min(compared) > 0.98  # values with other scales are not compared
    assert program.model.provenance["smoothed"]["values"][0] == "norm: rms_norm"
    program.save(tmp_path / "p.twb")
    again = tw.load(tmp_path / "p.twb")
    assert np.asarray(again(x)).tobytes() == np.asarray(program(x)).tobytes()
    hosted = tw.compile(model, calibrate={"x": x}, smooth=0.5, host=["norm"])
    assert hosted.verify({"x": x}).ok


def test_identical_layers_stay_loops() -> None:
    options = CompileOptions(smooth=0.5, layer_loops=True)
    compiled = compile_imported(block(3), options=options, samples=[{"x": rows(1)}])
    assert max(loop.count for loop in compiled.artifact.loops) == 3
    assert verify(compiled, {"x": rows(2)}).ok


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for smoothness, status in (("0.5", 0), ("1.5", 2), ("much", 2)):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(["compile", "test_smooth:outlier_mlp", "-o", str(tmp_path / "o.twb"), "--json",
                  "--smooth", smoothness])  # fmt: skip
        assert caught.value.code == status
        if not status:
            assert json.loads(capsys.readouterr().out)["provenance"]["options"]["smooth"] == 0.5
    with pytest.raises(tw.TilewrightError, match="no part of a range"):
        tw.compile(outlier_mlp(), smooth=-0.1)
