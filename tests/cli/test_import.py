"""`tilewright import`: files written whole or not at all, coverage, errors with exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tilewright as package
from tilewright.dialects.parsing import parse_file
from tilewright.reference.executor import run

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tilewright(tilewright_command: Path) -> Command:
    def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [tilewright_command, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with model.onnx: y = gelu(x w + b), x of any batch size."""
    random = np.random.default_rng(0)
    weights = {
        "fc.weight": random.standard_normal((24, 40)).astype(np.float32),
        "fc.bias": random.standard_normal(40).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["h"], "fc"),
            helper.make_node("Gelu", ["h"], ["y"], "act"),
        ],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 40])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    onnx.save(proto, tmp_path / "model.onnx")
    return tmp_path


def test_module_and_weights_run_together(folder: Path, tilewright: Command) -> None:
    done = tilewright("import", "model.onnx", "-o", "out.mlir", "--shape", "batch=3", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in folder.iterdir()) == [
        "model.onnx", "out.mlir", "out.safetensors",
    ]  # fmt: skip
    assert "input x: 3x24xf32" in done.stderr
    assert "npu_uk_gelu_erf" in done.stderr
    assert "3 tensor ops: 3 for the NPU, 0 for the host" in done.stderr
    text = (folder / "out.mlir").read_text()
    assert 'loc("model.onnx#act":0:0)' in text
    x = np.linspace(-2, 2, 72, dtype=np.float32).reshape(3, 24)
    module = parse_file(str(folder / "out.mlir"))
    got = run(module, [x], weights=folder / "out.safetensors")[0]
    (wanted,) = ReferenceEvaluator(str(folder / "model.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(got, np.asarray(wanted), rtol=1e-5, atol=1e-5)


def test_the_same_input_gives_the_same_bytes(folder: Path, tilewright: Command) -> None:
    arguments = ["import", "model.onnx", "--shape", "batch=3", "-o"]
    assert tilewright(*arguments, "a.mlir", cwd=folder).returncode == 0
    # A process that hashes strings in other ways.
    command = [sys.executable, "-m", "tilewright", *arguments, "b.mlir"]
    source = Path(package.__file__).resolve().parent.parent
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(source)}, check=True)
    for suffix in ("mlir", "safetensors"):
        assert (folder / f"a.{suffix}").read_bytes() == (folder / f"b.{suffix}").read_bytes()


def test_json_has_specs_and_coverage_and_check_writes_nothing(
    folder: Path, tilewright: Command
) -> None:
    done = tilewright("import", "model.onnx", "--shape", "x=3x24", "--check", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert document["inputs"] == [{"name": "x", "shape": [3, 24], "dtype": "f32"}]
    assert document["outputs"] == [{"name": "y", "shape": [3, 40], "dtype": "f32"}]
    assert document["coverage"]["bound"] == 3
    assert document["coverage"]["unbound"] == 0
    assert document["weight_bytes"] == 4 * (24 * 40 + 40)
    assert [p.name for p in folder.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["model.onnx"], "TW6005"),
        (["model.onnx", "--shape", "batch=three"], "TW0020"),
        (["model.onnx", "--shape", "other=3", "--shape", "batch=3"], "TW6005"),
        (["none.onnx"], "TW6001"),
        (["model.pb"], "TW0020"),
        (["model.onnx", "--shape", "batch=3", "--weights", "no/such/w.safetensors"], "TW0011"),
    ],
)
def test_bad_input_is_one_error_and_nothing_is_written(
    folder: Path, tilewright: Command, arguments: list[str], code: str
) -> None:
    done = tilewright("import", *arguments, "-o", "out.mlir", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(code)
    assert "Traceback" not in done.stderr
    assert [p.name for p in folder.iterdir()] == ["model.onnx"]
