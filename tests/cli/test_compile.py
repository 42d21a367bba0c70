"""`tilewright compile`: what it writes runs and verifies; what cannot be compiled leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import tilewright as tw
from commands import exit_code
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported

DATA = Path(__file__).resolve().parent.parent / "data" / "pt2"
MLP = DATA / "mlp.pt2"
LOST = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = arith.constant dense_resource<lost.weight> : tensor<8x8xf32>
  %y = npu_kernel.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


def compile_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, dict]:
    capsys.readouterr()
    status = exit_code("compile", *arguments, "--json")
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in; `shapes_model:…` are factories there."""
    (tmp_path / "factories").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small() -> Imported:
    """A factory: `tilewright compile test_compile:small`."""
    net = ModelBuilder("small")
    x = net.input("x", (40, 48))
    net.output("y", net.linear(net.relu(net.linear(x, 64, "up")), 48, "down"))
    return net.build()


# --- what comes out ---------------------------------------------------------------------


def test_the_summary_tells_steps_sizes_host_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("compile", MLP, "-o", "mlp.twb") == 0
    printed = capsys.readouterr()
    assert printed.err == ""  # progress is for terminals
    for word in (
        "step",
        "instructions",
        "kernel",
        "VMEM",
        "DRAM",
        "code",
        "weights",
        "seconds",
        "wrote",
    ):
        assert word in printed.out
    assert "wrote    mlp.twb" in printed.out
    status, document = compile_json(capsys, MLP, "-o", "mlp.twb")
    assert status == 0
    program = tw.load("mlp.twb")
    assert [step["layer"] for step in document["steps"]] == [
        s.name for s in program.model.artifact.steps
    ]
    words = sum(step["instructions"] for step in document["steps"])
    assert 0 < 4 * words <= sum(document["code"]["bytes"])
    assert document["weights"]["bytes"] == program.model.artifact.weight_bytes > 0
    assert document["file_bytes"] == Path("mlp.twb").stat().st_size
    assert document["memory"]["dram"]["used"] <= document["memory"]["dram"]["bytes"]
    phases = {"import", "simplify", "lower", "calibrate", "place and generate", "link", "write"}
    assert phases <= set(document["seconds"])
    assert document["provenance"]["model"] == str(MLP)


def test_what_is_written_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("compile", MLP, "-o", "mlp.twb") == 0
    assert exit_code("verify", "mlp.twb") == 0
    shown = capsys.readouterr().out
    assert "exact" in shown and "cosine 0.99" in shown


def test_the_same_model_gives_the_same_bytes() -> None:
    assert exit_code("compile", MLP, "-o", "one.twb") == 0
    assert exit_code("compile", MLP, "-o", "two.twb") == 0
    assert Path("one.twb").read_bytes() == Path("two.twb").read_bytes()


def test_every_phase_can_be_dumped() -> None:
    Path("phases").mkdir()
    Path("phases/99-old.mlir").write_text("of an earlier dump")
    Path("phases/notes.txt").write_text("mine")
    assert exit_code("compile", MLP, "-o", "mlp.twb", "--dump-phases", "phases") == 0
    names = sorted(path.name for path in Path("phases").iterdir())
    assert names[0] == "00-imported.mlir" and "notes.txt" in names and "99-old.mlir" not in names
    assert any("simplified" in name for name in names) and any("kernels" in n for n in names)
    assert "npu_kernel.matmul" in Path("phases/00-imported.mlir").read_text()


def test_a_report_on_the_way() -> None:
    assert exit_code("compile", MLP, "-o", "mlp.twb", "--report", "mlp.html") == 0
    page = Path("mlp.html").read_text()
    assert page.lower().startswith("<!doctype html>") and "mlp.pt2" in page


def test_factories_of_the_builder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    status, document = compile_json(capsys, "test_compile:small", "-o", "small.twb", "--no-host")
    assert status == 0 and document["host"] == {"share": 0.0, "parts": []}
    y = tw.load("small.twb")(np.ones((40, 48), np.float32))
    assert y.shape == (40, 48)


def test_fusion_saves_traffic() -> None:
    assert exit_code("compile", MLP, "-o", "fused.twb") == 0
    assert exit_code("compile", MLP, "-o", "unfused.twb", "--no-fuse") == 0
    fused, unfused = tw.load("fused.twb").report(), tw.load("unfused.twb").report()
    assert fused.dram_bytes < unfused.dram_bytes
    assert fused.cycles < unfused.cycles


def test_a_profile_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fast.toml").write_text('base = "atlas-v1"\n[dma]\nlink_bytes = 64\n')
    assert exit_code("compile", MLP, "-o", "a.twb") == 0
    assert exit_code("compile", MLP, "-o", "b.twb", "--profile", "fast.toml") == 0
    assert tw.load("b.twb").cycles < tw.load("a.twb").cycles


# --- host -------------------------------------------------------------------------------


def test_layers_on_the_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    status, document = compile_json(
        capsys, "test_compile:small", "-o", "small.twb", "--host", "down"
    )
    assert status == 0
    # 40 x 64 x 48 products twice; the bias of a layer and the ReLU are the rest.
    assert 0.45 < document["host"]["share"] < 0.55
    reasons = [reason for part in document["host"]["parts"] for reason in part["reasons"]]
    assert "down: asked for" in reasons
    assert exit_code("verify", "small.twb") == 0


def test_no_host_is_an_error_that_names_the_layer(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = compile_json(capsys, DATA / "indexing.pt2", "-o", "a.twb", "--no-host")
    assert status == 2
    (error,) = document["errors"]
    assert error["code"] == "TW1707" and "would run on the host" in error["message"]
    assert not Path("a.twb").exists()


# --- calibration ------------------------------------------------------------------------


def scales(capsys: pytest.CaptureFixture[str], *options: str | Path) -> dict[str, float]:
    status, document = compile_json(capsys, "test_compile:small", "-o", "a.twb", *options)
    assert status == 0, document
    return {name: entry["largest"] for name, entry in document["quantisation"].items()}


def test_ranges_come_from_the_samples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    usual = scales(capsys)
    numbers = np.random.default_rng(5).standard_normal((40, 48)).astype(np.float32)
    large = 100 * numbers
    np.savez("large.npz", x=large)
    save_file({"x": large}, "large.safetensors")
    wide = scales(capsys, "--calibrate", "large.npz")
    assert all(wide[name] > 10 * usual[name] for name in usual)
    assert scales(capsys, "--calibrate", "large.safetensors") == wide
    Path("samples").mkdir()
    np.savez("samples/1.npz", x=numbers)
    np.savez("samples/2.npz", x=large)
    assert scales(capsys, "--calibrate", "samples") == wide
    np.savez("stacked.npz", x=np.stack([large, numbers]))
    assert scales(capsys, "--calibrate", "stacked.npz") == wide
    more = scales(capsys, "--calibrate-seed", "0", "--calibrate-count", "3")
    assert all(more[name] >= usual[name] for name in usual) and more != usual


def test_the_worst_layers_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = compile_json(capsys, MLP, "-o", "mlp.twb", "--accuracy")
    assert status == 0
    worst = min(note["cosine"] for note in document["quantisation"].values())
    assert 0.99 < worst < 1
    assert exit_code("compile", MLP, "-o", "mlp.twb", "--accuracy") == 0
    assert f"cosine {worst:.6f}" in capsys.readouterr().out
    assert tw.load("mlp.twb").model.quantisation == document["quantisation"]


# --- what cannot be compiled ------------------------------------------------------------


@pytest.fixture
def bad(folder: Path) -> Path:
    """Files that are no models or samples, and machines that are too small."""
    (folder / "cut.pt2").write_bytes(MLP.read_bytes()[:3000])
    (folder / "cut.onnx").write_bytes(b"\x08\x07\x12")
    (folder / "cut.mlir").write_text("func.func @main(%x: tensor<4x4xf32>) -> ")
    (folder / "text.txt").write_text("a model?")
    (folder / "lost.mlir").write_text(LOST)
    (folder / "empty").mkdir()
    (folder / "broken.npz").write_bytes(b"PK\x03\x04 and then nothing")
    (folder / "broken.safetensors").write_bytes(b"\xff" * 20)
    np.savez(folder / "stranger.npz", other=np.zeros(3, np.float32))
    np.savez(folder / "objects.npz", x=np.array([{}], dtype=object))
    for memory, size in (("vmem", 4096), ("dram", 1024), ("imem", 512)):
        text = f'base = "atlas-v1"\n[memory]\n{memory}_bytes = {size}\n'
        (folder / f"{memory}.toml").write_text(text)
    (folder / "typo.toml").write_text('base = "atlas-v1"\nvmem = 3\n')
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["none.pt2"], "TW0010"),
        (["cut.pt2"], "TW6110"),
        (["none.mlir"], "TW0010"),
        (["text.txt"], "TW0020"),
        (["empty"], "TW0020"),
        (["some.package"], "TW0020"),
        (["weights.pt"], "TW0020"),
        (["cut.mlir"], "TW1210"),
        (["lost.mlir"], "TW6208"),
        (["no.module:here"], "TW6122"),
        ([MLP, "--shape", "x=3"], "TW0020"),
        ([MLP, "--target", "atlas-v9"], "TW0060"),
        ([MLP, "--target", "typo.toml"], "TW1105"),
        ([MLP, "--target", "vmem.toml"], "TW1708"),
        ([MLP, "--target", "dram.toml"], "TW1705"),
        ([MLP, "--target", "imem.toml"], "TW1706"),
        ([MLP, "--host", "no.such.layer"], "TW0045"),
        ([MLP, "--calibrate", "none.npz"], "TW0040"),
        ([MLP, "--calibrate", "empty"], "TW0040"),
        ([MLP, "--calibrate", "text.txt"], "TW0040"),
        ([MLP, "--calibrate", "broken.npz"], "TW0041"),
        ([MLP, "--calibrate", "objects.npz"], "TW0041"),
        ([MLP, "--calibrate", "stranger.npz"], "TW0042"),
        ([MLP, "--calibrate", "broken.safetensors"], "TW3106"),
        ([MLP, "--report", "no/folder.html"], "TW0011"),
        ([MLP, "--report", "out.twb"], "TW0011"),
        ([MLP, "--dump-phases", "text.txt"], "TW0011"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(Path(v).name for v in value),
)
def test_bad_input(
    arguments: list[str | Path], code: str, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out.twb").write_text("what was there before")
    before = sorted(str(path) for path in bad.rglob("*"))
    status, document = compile_json(capsys, *arguments, "-o", "out.twb")
    assert status == 2
    assert document["errors"][0]["code"] == code
    assert Path("out.twb").read_text() == "what was there before"
    assert sorted(str(path) for path in bad.rglob("*")) == before


def test_limits_name_the_layer_and_the_number(
    bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("compile", MLP, "-o", "out.twb", "--target", "imem.toml") == 2
    message = capsys.readouterr().err
    layers = [step.name for step in tw.compile(MLP).model.artifact.steps]
    assert any(layer in message for layer in layers) and "holds 128" in message
    assert exit_code("compile", MLP, "-o", "out.twb", "--target", "dram.toml") == 2
    assert "has 1,024" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["no/folder/a.twb", "empty"])
def test_places_that_cannot_be_written(target: str, bad: Path) -> None:
    assert exit_code("compile", MLP, "-o", target) == 2


def test_the_model_is_never_replaced(bad: Path) -> None:
    Path("mine.pt2").write_bytes(MLP.read_bytes())
    assert exit_code("compile", "mine.pt2", "-o", "mine.pt2") == 2
    assert Path("mine.pt2").read_bytes() == MLP.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-o", "a.twb", "--quantize", "int8"],
        ["-o", "a.twb", "--calibrate", "x.npz", "--calibrate-seed", "1"],
        ["-o", "a.twb", "--host", "fc", "--no-host"],
        ["-o", "a.twb", "--calibrate-count", "0"],
        ["-o", "a.twb", "--what"],
    ],
)
def test_bad_options(arguments: list[str]) -> None:
    assert exit_code("compile", MLP, *arguments) == 2
    assert not Path("a.twb").exists()


def test_the_bare_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("compile") == 2
    assert "Missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("weights.pt", "weights alone are no model"),
        ("net.tflite", "convert it to ONNX first"),
        ("some.package", "write some.package:FUNCTION"),
        (".", "a language model's has a config.json"),
    ],
)
def test_what_people_have_instead_of_a_model(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("compile", name, "-o", "a.twb") == 2
    assert hint in capsys.readouterr().err


def test_targets_in_capitals_are_found_among_the_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("compile", MLP, "-o", "a.twb", "--target", "ATLAS-V1") == 2
    assert "did you mean atlas-v1" in capsys.readouterr().err


def test_operators_and_shapes_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    unknown = helper.make_node("Det", ["x"], ["y"], name="layer.det")
    counted = helper.make_node("NonZero", ["x"], ["y"], name="layer.nonzero")
    for node, code in ((unknown, "TW6006"), (counted, "TW6007")):
        graph = helper.make_graph([node], "g", [x], [y])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
        status, document = compile_json(capsys, "m.onnx", "-o", "m.twb")
        assert status == 2 and document["errors"][0]["code"] == code
        assert "layer." in json.dumps(document)
        assert not Path("m.twb").exists()


def test_symbolic_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])],
        [numpy_helper.from_array(w, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
    assert exit_code("compile", "m.onnx", "-o", "m.twb") == 2
    assert "batch" in capsys.readouterr().err
    assert exit_code("compile", "m.onnx", "-o", "m.twb", "--shape", "batch=5") == 0
    assert exit_code("verify", "m.twb") == 0
    assert "against float32" in capsys.readouterr().out  # found again with its size
