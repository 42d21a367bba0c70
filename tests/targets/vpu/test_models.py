"""Whole models on the VPU: compile, run, save, load, verify, report; the host by plan."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.dialects.intents import integers
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.reference.executor import run

pytestmark = pytest.mark.usefixtures("little_search")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.targets.vpu.model.compiler._BUDGET", 0)


def perceptron() -> Imported:
    net = ModelBuilder("perceptron", seed=1)
    x = net.input("x", (19, 70))
    hidden = net.gelu(net.linear(x, 100, "up"))
    net.output("y", net.linear(net.layer_norm(hidden, "norm"), 41, "down"))
    return net.build()


def images() -> Imported:
    net = ModelBuilder("images", seed=2)
    x = net.input("x", (1, 3, 18, 22))
    h = net.relu(net.conv2d(x, 20, 3, "stem", stride=2, padding=1))
    h = net.max_pool(h, 2, 2)
    k = net.conv2d(h, 20, 3, "inner", padding=1)
    h = net.relu(k + h)
    h = net.average_pool(h, 2, 2)
    h = net.reshape(h, (1, int(np.prod(h.shape))))
    net.output("y", net.linear(h, 10, "head"))
    return net.build()


def decoder() -> Imported:
    net = ModelBuilder("decoder", seed=4)
    x = net.input("x", (1, 37, 96))
    tables = net.rotary_tables(37, 32)
    normed = net.rms_norm(x, "norm1")
    q = net.rope(net.heads(net.linear(normed, 128, "q", bias=False), 4), tables)
    k = net.rope(net.heads(net.linear(normed, 64, "k", bias=False), 2), tables)
    v = net.heads(net.linear(normed, 64, "v", bias=False), 2)
    x = x + net.linear(net.attention(q, k, v, causal=True), 96, "o", bias=False)
    gate, up = (net.linear(net.rms_norm(x, "norm2"), 160, name) for name in ("gate", "up"))
    net.output("y", x + net.linear(net.silu_gate(gate, up), 96, "down", bias=False))
    return net.build()


def joined() -> Imported:
    """What is only moved or pooled before it is encoded; elements of images; three heads in one."""
    net = ModelBuilder("joined", seed=6)
    x = net.input("x", (1, 3, 20, 28))
    a = net.conv2d(x, 8, 3, "first", stride=2, padding=1)
    a = a + net.binary("elementwise_mul", a, 0.25)
    h = net.conv2d(net.concat([a, net.relu(a)], 1), 12, 3, "second", padding=1)
    h = net.conv2d(net.max_pool(net.relu(h), 2, 2), 8, 1, "third")
    net.output("h", h)
    rows = net.linear(net.reshape(h, (1, 8, 35)), 144, "qkv")
    q, k, v = (net.heads(net.slice(rows, (0, 0, n), (1, 8, 48)), 3) for n in (0, 48, 96))
    net.output("y", net.linear(net.attention(q, k, v), 20, "out"))
    return net.build()


def given_bias() -> Imported:
    """A convolution whose bias is not a constant."""
    net = ModelBuilder("given_bias", seed=7)
    x, bias = net.input("x", (1, 6, 9, 11)), net.input("bias", (10,))
    kernel = net.drawn("kernel", (10, 6, 3, 3), 0.2)
    more = {"strides": integers([1, 1]), "padding": integers([1, 1, 1, 1])}
    net.output("y", net.relu(net._call("conv2d", [x, kernel, bias], (1, 10, 9, 11), more)))
    return net.build()


@pytest.mark.parametrize("build", [perceptron, images, decoder, joined, given_bias])
def test_models_run_and_verify(build: Callable[[], Imported], tmp_path: Path) -> None:
    model = build()
    program = tw.compile(model, target="vpu40")
    reasons = [r for part in program.model.parts for r in getattr(part, "reasons", ())]
    assert all("handed over" in reason or "taken back" in reason for reason in reasons)
    program.save(tmp_path / "model.twb")
    again = tw.load(tmp_path / "model.twb")
    found = again.verify(original=model, per_layer=True)
    assert found.ok and found.cosine is not None and found.cosine > 0.99, found.text()
    assert sum(layer.status == "equal" for layer in found.layers) > len(found.layers) // 3
    summary = again.report(tmp_path / "page.html")
    assert 0 < summary.bound <= again.cycles and set(summary.utilisation) == {"DMA", "DPU", "SHAVE"}
    assert all(share <= 1 for share in summary.utilisation.values())
    assert "queue dpu0" in again.asm


def test_a_run_has_a_timeline(tmp_path: Path) -> None:
    program = tw.compile(images(), target="vpu40")
    program(np.random.default_rng(1).standard_normal((1, 3, 18, 22)).astype(np.float32))
    trace = program.session.trace()
    assert trace.end == program.cycles
    per_track: dict[int, list[tuple[int, int]]] = {}
    for entry in trace.slices:
        per_track.setdefault(entry.track, []).append((entry.start, entry.end))
    for spans in per_track.values():  # an engine does one thing at a time
        spans.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert {"dma0", "dpu0", "shave0 engine 1"} <= {track.name for track in trace.tracks}
    assert any(entry.arguments.get("call") == "stem" for entry in trace.slices)
    part = program.session.trace((100, 900))
    assert 0 < len(part.slices) < len(trace.slices)
    assert all(entry.end > 100 and entry.start < 900 for entry in part.slices)


def test_what_the_machine_lacks_is_the_hosts() -> None:
    net = ModelBuilder("mixed", seed=5)
    ids = net.input("ids", (1, 9), "i64")
    x = net.embedding(ids, 30, 32, "embed")
    net.output("y", net.linear(x, 16, "up"))
    model = net.build()
    program = tw.compile(model, target="vpu37")
    reasons = [r for part in program.model.parts for r in getattr(part, "reasons", ())]
    assert any("embed" in reason and "the VPU" in reason for reason in reasons), reasons
    assert program.verify(original=model).ok
    with pytest.raises(TilewrightError, match="the VPU"):
        tw.compile(model, target="vpu37", no_host=True)


def test_a_damaged_list_is_found(tmp_path: Path) -> None:
    """A task list that loses a wait does not pass the check of the bundle."""
    from dataclasses import replace

    from tilewright.targets.checking import check

    compiled = tw.compile(perceptron(), target="vpu40").model
    assert check(compiled) == []
    (entry,) = compiled.artifact.entries.values()
    tasks = entry.program.tasks.tasks
    name = next(n for n, item in tasks.items() if item.waits)
    tasks[name] = replace(tasks[name], waits=())
    assert check(compiled)


def test_a_wrong_kernel_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.targets.vpu.operations import shave, table

    program = tw.compile(perceptron(), target="vpu40")
    wrong = table.TaskOperation("shave", lambda a, o: [shave.layer_norm(a, o)[0] * 0])
    monkeypatch.setitem(table.OPERATIONS, "layer_norm", wrong)
    found = program.verify()
    assert not found.ok and found.first is not None and found.first.kernel == "layer_norm"


@pytest.mark.parametrize("calibrate", [None, "one"])
def test_few_numbers_do_not_set_ranges_alone(calibrate: str | None) -> None:
    """A layer of six columns: other inputs than the one seen saturate, unless more are drawn."""
    net = ModelBuilder("small", seed=3)
    net.output("y", net.linear(net.relu(net.linear(net.input("x", (1, 6)), 9, "up")), 4, "down"))
    random = np.random.default_rng(7)
    sample = None if calibrate is None else random.standard_normal((1, 6)).astype(np.float32)
    model = net.build()
    program = tw.compile(model, target="vpu40", calibrate=sample)
    rows = [random.standard_normal((1, 6)).astype(np.float32) for _ in range(40)]
    got = np.concatenate([program(row) for row in rows]).ravel()
    want = np.concatenate([run(model.module, [row], weights=model.weights)[0] for row in rows])
    want = want.astype(np.float32).ravel()
    cosine = got @ want / (np.linalg.norm(got) * np.linalg.norm(want))
    assert cosine > (0.999 if calibrate is None else 0.995)  # 0.91 and 0.96 from one sample alone


def test_a_weight_for_every_batch() -> None:
    net = ModelBuilder("experts", seed=4)
    random = np.random.default_rng(0)
    weight = net.weight("w", random.standard_normal((3, 20, 9)).astype(np.float32))
    net.output("y", net.relu(net.matmul(net.input("x", (3, 7, 20)), weight)))
    found = tw.compile(net.build(), target="vpu40").verify()
    assert found.ok and found.cosine is not None and found.cosine > 0.999


def test_a_number_added_from_the_left(tmp_path: Path) -> None:
    (tmp_path / "sum.mlir").write_text("""
func.func @main(%x: tensor<3x40xf32>) -> tensor<3x40xf32> {
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x) {scalar_lhs = 1.5 : f32} : tensor<3x40xf32> -> tensor<3x40xf32>
  %z = npu_kernel.ukernel_generic "npu_uk_elementwise_tanh"(%y) : tensor<3x40xf32> -> tensor<3x40xf32>
  return %z : tensor<3x40xf32>
}
""")
    program = tw.compile(str(tmp_path / "sum.mlir"), target="vpu40")
    assert program.verify(seed=0).ok
    x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    np.testing.assert_allclose(program(x), np.tanh(x + 1.5), atol=0.01)
