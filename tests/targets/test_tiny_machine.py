"""The interface of machines, shown by the smallest one: every room above knows nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tilewright as tw
import tiny_machine
from tilewright.cli import app
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.targets import registry


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that brings the machine."""
    point = EntryPoint("tiny", "tiny_machine:FAMILY", registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    monkeypatch.setattr(registry, "_broken", {})
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


def network() -> Imported:
    net = ModelBuilder("network", seed=1)
    x = net.input("x", (6, 20))
    hidden = net.softmax(net.relu(net.linear(x, 12, "up")))
    net.output("y", net.binary("elementwise_add", net.linear(hidden, 20, "down", bias=False), x))
    return net.build()


X = np.linspace(-3, 2, 120, dtype=np.float32).reshape(6, 20)


def test_compile_run_save_load_verify_report(tmp_path: Path) -> None:
    program = tw.compile(network(), target="tiny-1")
    weights = network().weights
    h = np.maximum(X @ weights["up.weight"].T + weights["up.bias"], 0)
    e = np.exp(h - h.max(1, keepdims=True))
    expected = (e / e.sum(1, keepdims=True)) @ weights["down.weight"].T + X
    y = program(X)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    program.save(tmp_path / "network.twb")
    again = tw.load(tmp_path / "network.twb")
    assert np.array_equal(again(X), y)
    assert again.cycles == program.cycles == sum(s.bound for s in program.model.artifact.steps) > 5
    found = again.verify({"x": X}, original=network(), per_layer=True)
    assert found.ok and found.cosine is not None and found.cosine > 0.999999, found.text()
    assert [layer.status for layer in found.layers] == ["equal"] * 5
    summary = again.report(tmp_path / "page.html")
    assert summary.bound == again.cycles and summary.utilisation == {"ALU": 1.0}
    assert [part["reasons"] for part in summary.host] == [["softmax: tiny-1 has no softmax"]]
    assert "tiny-1" in (tmp_path / "page.html").read_text()
    assert "npu_kernel.matmul" in again.asm and "RAM" in str(again.memory_map)
    with pytest.raises(TilewrightError, match=r"TW4004.*tiny-1"):
        again.session.trace()


def test_a_wrong_place_is_found_and_named() -> None:
    """Two tensors in the same bytes: the device is wrong, its reference is not."""
    program = tw.compile(network(), target="tiny-1")
    artifact = program.model.artifact
    product, last = artifact.steps[3:]
    tensors, out = artifact.tensors, product.operands["out"]
    tensors[out] = replace(tensors[out], address=tensors["x"].address)
    found = program.verify({"x": X})
    assert not found.ok and last.operands["x1"] == "x"
    assert any(f"({last.name}) finds something else" in stray for stray in found.strays)


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = tw.compile(network(), target="tiny-1")
    add = program.model.artifact.steps[1]
    wrong = {**tiny_machine.KERNELS, "elementwise_add": lambda a, b: a - b}

    class Wrong(tiny_machine.TinyDevice):
        def run(self, part, watch=None):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tiny_machine, "KERNELS", wrong)
                super().run(part, watch)

    monkeypatch.setattr(tiny_machine.TinyArtifact, "device", lambda self, options: Wrong(self))
    found = program.verify({"x": X})
    assert not found.ok and found.first is not None
    assert (found.first.name, found.first.kernel) == (add.name, add.kernel)
    assert "steps:" in found.text() and "inherits" in found.text()


def test_the_commands_know_it_too(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text(
        "func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
        '  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%x)'
        " : tensor<4x8xf32> -> tensor<4x8xf32>\n  func.return %r : tensor<4x8xf32>\n}\n"
    )
    bundle = str(tmp_path / "m.twb")
    run = CliRunner().invoke
    made = run(app, ["compile", str(tmp_path / "model.mlir"), "--target", "tiny-1", "-o", bundle])
    assert made.exit_code == 0, made.output
    assert (
        json.loads(run(app, ["run", bundle, "--seed", "0", "--json"]).stdout)["target"] == "tiny-1"
    )
    checked = run(app, ["verify", bundle, "--json"])
    assert checked.exit_code == 0 and json.loads(checked.stdout)["ok"], checked.output
    page = run(app, ["report", bundle, "-o", str(tmp_path / "p.html")])
    assert page.exit_code == 0, page.output
    assert "tiny-1" in run(app, ["targets"]).stdout
    refused = run(app, ["lint", bundle])
    assert isinstance(refused.exception, TilewrightError) and refused.exception.code == "TW0064"


def test_bundles_that_are_wrong_or_whose_machine_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tw.compile(network(), target="tiny-1")
    program.save(tmp_path / "m.twb")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [])
    registry._installed.cache_clear()
    with pytest.raises(TilewrightError, match=r"TW0063.*tiny-1.*'tiny' that is not here"):
        tw.load(tmp_path / "m.twb")
    broken = EntryPoint("tiny", "no_such_package_at_all:FAMILY", registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    registry._installed.cache_clear()
    with pytest.raises(TilewrightError, match=r"TW0063") as caught:
        tw.load(tmp_path / "m.twb")
    assert "cannot be loaded" in (caught.value.hint or "")
    assert tw.compile(network()).cycles > 0  # the others keep working
    program.model.ports["y"] = program.model.ports["x"]
    with pytest.raises(TilewrightError, match="TW3115"):
        program.save(tmp_path / "m.twb")
