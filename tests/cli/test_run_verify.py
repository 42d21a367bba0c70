"""`tilewright run` and `tilewright verify` on bundles of library kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from commands import run_command
from tilewright.io.tensor_files import read_tensor
from tilewright.runtime.bundle import load, save
from tilewright.runtime.session import Session
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.model.kernel_model import kernel_model
from tilewright.targets.atlas.program import Instruction, Program

A = np.random.default_rng(1).normal(size=(33, 40)).astype(np.float32)
B = np.random.default_rng(2).normal(size=(40, 50)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(
        kernel_model(entry("gemm").kernel.compile(a=A.shape, b=B.shape), {"b": B}),
        tmp_path / "g.twb",
    )
    np.save(tmp_path / "a.npy", A)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expected() -> np.ndarray:
    return Session(load("g.twb")).run(a=A)["out"]


def test_run(folder: Path, capsys: Any) -> None:
    status, out, _ = run_command(
        capsys, "run", "g.twb", "--input", "a=a.npy", "--output", "out=y.npy", "--steps"
    )
    assert status == 0
    assert np.array_equal(np.load("y.npy"), expected())
    assert "gemm (library/gemm)" in out
    assert "wrote y.npy" in out


def test_run_as_json(folder: Path, capsys: Any) -> None:
    status, out, _ = run_command(capsys, "run", "g.twb", "--seed", "3", "-o", "results", "--json")
    document = json.loads(out)
    assert status == 0
    assert document["cycles"] == document["calls"][0]["cycles"] > 0
    assert document["results"]["out"]["shape"] == [33, 50]
    assert document["files"] == ["results/out.npy"]
    again = run_command(capsys, "run", "g.twb", "--seed", "3", "-o", "all.safetensors", "--json")
    assert json.loads(again[1])["results"] == document["results"]
    stored = read_tensor("all.safetensors#out").array
    assert np.array_equal(stored, np.load("results/out.npy"))
    assert not np.array_equal(stored, expected())


def test_every_form_of_input(folder: Path, capsys: Any) -> None:
    from safetensors.numpy import save_file

    save_file({"a": A, "other": B}, "in.safetensors")
    Path("a.bin").write_bytes(A.tobytes())
    np.save("half.npy", A.astype(ml_dtypes.bfloat16))
    for given in ("a=a.npy", "a=in.safetensors", "a=in.safetensors#a", "in.safetensors", "a=a.bin"):
        status, _, err = run_command(capsys, "run", "g.twb", "-i", given, "-o", "out=y.npy")
        assert status == 0, err
        assert np.array_equal(np.load("y.npy"), expected()), given
    assert run_command(capsys, "run", "g.twb", "-i", "a=half.npy")[0] == 0
    run_command(capsys, "run", "g.twb", "-i", "a=zeros", "-o", "out=y.npy")
    assert not np.load("y.npy").any()
    run_command(capsys, "run", "g.twb", "-i", "a=random", "-o", "out=y.npy")
    first = np.load("y.npy")
    run_command(capsys, "run", "g.twb", "--seed", "0", "-o", "out=y.npy")
    assert np.array_equal(first, np.load("y.npy")) and first.any()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "TW3121"),
        (["-i", "a"], "TW0031"),
        (["-i", "q=a.npy"], "TW3120"),
        (["-i", "a=a.npy", "-i", "a=zeros"], "TW0031"),
        (["-i", "a=missing.npy"], "TW0020"),
        (["-i", "a=small.npy"], "TW3122"),
        (["-i", "a=wide.npy"], "TW3123"),
        (["-i", "a=short.bin"], "TW3122"),
        (["-i", "a=a.npy", "-o", "q=y.npy"], "TW0032"),
        (["-i", "a=a.npy", "-o", "out=y.txt"], "TW0032"),
        (["-i", "a=a.npy", "-o", "g.twb"], "TW0032"),
        (["-i", "a=a.npy", "--trace-window", "0:5"], "TW4003"),
        (["-i", "a=a.npy", "--trace", "t.json", "--trace-window", "9:5"], "TW4003"),
    ],
)
def test_mistakes(folder: Path, capsys: Any, arguments: list[str], code: str) -> None:
    np.save("small.npy", A[:5])
    np.save("wide.npy", A.astype(np.float64))
    Path("short.bin").write_bytes(b"abc")
    before = sorted(p.name for p in folder.iterdir())
    status, out, err = run_command(capsys, "run", "g.twb", *arguments)
    assert status == 2
    assert err.startswith(code), err
    assert out == ""
    assert sorted(p.name for p in folder.iterdir()) == before
    status, out, _ = run_command(capsys, "run", "g.twb", *arguments, "--json")
    assert json.loads(out)["errors"][0]["code"] == code


def test_trace(folder: Path, capsys: Any) -> None:
    arguments = ["run", "g.twb", "--seed", "0", "--trace", "t.json", "--trace-window", "0:2000"]
    assert run_command(capsys, *arguments)[0] == 0
    assert json.loads(Path("t.json").read_text())["traceEvents"]


def test_verify(folder: Path, capsys: Any) -> None:
    status, out, _ = run_command(capsys, "verify", "g.twb")
    assert status == 0
    assert "output out: exact" in out and out.rstrip().endswith("verified")
    status, out, _ = run_command(
        capsys, "verify", "g.twb", "-i", "a=a.npy", "--per-layer", "--machine", "python", "--json"
    )
    document = json.loads(out)
    assert (status, document["ok"], document["inputs"]) == (0, True, "given inputs")
    assert [layer["status"] for layer in document["layers"]] == ["equal"]


def test_distance_to_float32(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.dialects.parsing import parse_text
    from tilewright.frontend.imported import Imported, TensorSpec

    status, out, _ = run_command(capsys, "verify", "g.twb", "--min-cosine", "0.9")
    assert status == 1 and "no original model" in out
    text = """func.func @main(%a: tensor<33x40xf32>) -> tensor<33x50xf32> {
      %b = arith.constant dense_resource<b> : tensor<40x50xf32>
      %y = npu_kernel.matmul %a, %b : tensor<33x40xf32>, tensor<40x50xf32> -> tensor<33x50xf32>
      func.return %y : tensor<33x50xf32>
    }"""
    specs = (TensorSpec("a", (33, 40), "f32"),), (TensorSpec("out", (33, 50), "f32"),)
    model = Imported(parse_text(text), {"b": B}, *specs, "text")
    monkeypatch.setattr("tilewright.frontend.models.import_model", lambda name: model)
    for cosine, wanted in (("0.99", 0), ("0.99999", 1)):
        status, out, _ = run_command(
            capsys, "verify", "g.twb", "--model", "m", "--min-cosine", cosine
        )
        assert status == wanted, out
        assert "against float32 (text):" in out and ("TOO FAR" in out) == bool(wanted)
    status, out, _ = run_command(
        capsys, "verify", "g.twb", "--model", "m", "--min-cosine", "0.99999", "--json"
    )
    document = json.loads(out)
    assert (status, document["ok"], document["close_enough"]) == (1, False, False)
    assert document["outputs"][0]["exact"] and not document["outputs"][0]["close"]
    assert 0.99 < document["outputs"][0]["accuracy"]["cosine"] < 1


def test_verify_of_a_wrong_program(folder: Path, capsys: Any) -> None:
    """A bundle whose code is not what its step says."""
    other = load("g.twb")
    words = [*other.artifact.segments[0]]
    at = next(i for i, w in enumerate(words) if w.opcode.mnemonic.startswith("vmatmul"))
    values = list(words[at].operands)
    values[1] = 60  # a register nobody has loaded
    words[at] = Instruction(words[at].opcode, tuple(values))
    other.artifact.segments = [Program.from_instructions(words)]
    save(other, "wrong.twb")
    status, out, _ = run_command(capsys, "verify", "wrong.twb")
    assert status == 1
    assert "first wrong step: 0 (gemm, kernel library/gemm) in out" in out
    assert "NOT VERIFIED" in out
    status, out, _ = run_command(capsys, "verify", "wrong.twb", "--json")
    document = json.loads(out)
    assert status == 1 and document["first_difference"]["region"] == "out"
    assert document["outputs"][0]["difference"]["index"]


def test_programs_that_fault(folder: Path, capsys: Any) -> None:
    status, _, err = run_command(capsys, "run", "g.twb", "--seed", "0", "--max-cycles", "10")
    assert status == 1 and err.startswith("TW3131")
    model = load("g.twb")
    words = [*model.artifact.segments[0]]
    words[1:1] = [Instruction.of("vload", 0, 0, 0), Instruction.of("vload", 1, 0, 0)]
    model.artifact.segments = [Program.from_instructions(words[: len(model.artifact.segments[0])])]
    save(model, "bad.twb")
    for command in ("run", "verify"):
        status, _, err = run_command(capsys, command, "bad.twb", "--seed", "0")
        assert status == 1 and err.startswith("TW3130  the program faulted in step 0 (gemm")
        status, out, _ = run_command(capsys, command, "bad.twb", "--seed", "0", "--json")
        assert status == 1 and json.loads(out)["errors"][0]["code"] == "TW3130"


def test_bad_bundles(folder: Path, capsys: Any) -> None:
    Path("text.twb").write_text("hello")
    Path("cut.twb").write_bytes(Path("g.twb").read_bytes()[:-7])
    for name, code in (("text.twb", "TW3101"), ("cut.twb", "TW3102"), ("no.twb", "TW0010")):
        for command in ("run", "verify"):
            status, _, err = run_command(capsys, command, name)
            assert status == 2 and err.startswith(f"{code} {name}")
