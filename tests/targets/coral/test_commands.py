"""`tilewright coral compile` and `report`, and the lines of C behind instructions."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from coral_models import SMALL

from commands import run_command
from tilewright.targets.coral.compile import compile_model
from tilewright.targets.coral.source_lines import LineTable
from tilewright.targets.coral.toolchain import toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "gray.mlir"
    path.write_text(SMALL["gray_conv"]().stablehlo())
    return path


def test_compile_and_run(model_file, tmp_path, capsys):
    program, phases = tmp_path / "gray.elf", tmp_path / "phases"
    status, out, _ = run_command(
        capsys,
        "coral",
        "compile",
        str(model_file),
        "-o",
        str(program),
        "--dump-phases",
        str(phases),
        "--json",
    )
    document = json.loads(out)
    assert status == 0 and document["fits"] and document["verified"]["ok"]
    assert {"text", "constants", "data", "stack", "ops"} <= set(document["sizes"])
    assert document["sizes"]["ops"]["op_0_conv"] > 0
    assert document["outputs"][0]["symbol"] == "output_0"
    assert sorted(p.name for p in phases.iterdir()) == [
        *("1-program.txt", "2-optimised.txt", "4-model.c", "5-model.elf")
    ]
    given, wanted = tmp_path / "in.npy", tmp_path / "out.bin"
    image = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4) / 16
    np.save(given, image)
    arguments = (
        "--in",
        f"input_0={given}",
        "--out",
        f"output_0={wanted}",
        "--json",
        "--profile-pc",
    )
    status, out, _ = run_command(capsys, "coral", "sim", str(program), *arguments)
    rows = json.loads(out)["profile"]
    assert status == 0 and any((row["source"] or "").startswith("model.c:") for row in rows)
    got = np.frombuffer(wanted.read_bytes(), dtype=np.float32)
    assert np.allclose(got, np.einsum("chw,c->hw", image[0], [0.299, 0.587, 0.114]).reshape(-1))


def test_emit_and_report(model_file, tmp_path, capsys):
    source, text = tmp_path / "m.c", tmp_path / "m.s"
    assert (
        run_command(
            capsys,
            "coral",
            "compile",
            str(model_file),
            "--emit",
            "c",
            "-o",
            str(source),
            "--no-verify",
        )[0]
        == 0
    )
    assert "int main(void)" in source.read_text() and "DTCM_IO" in source.read_text()
    assert (
        run_command(
            capsys, "coral", "compile", str(model_file), "--emit", "asm", "-o", str(text), "--int8"
        )[0]
        == 0
    )
    assert "_q_conv" in text.read_text()
    status, out, _ = run_command(capsys, "coral", "report", str(model_file))
    assert status == 0 and "hot lines" in out and "a0 += v * q[0];" in out and "op_0_conv" in out


def test_calibration_file(model_file, tmp_path, capsys):
    samples = tmp_path / "samples.npz"
    name = SMALL["gray_conv"]().imported().inputs[0].name
    images = np.random.default_rng(0).random((40, 1, 3, 4, 4), dtype=np.float32)
    np.savez(samples, **{name: images})  # pyright: ignore[reportArgumentType]
    status, out, _ = run_command(
        capsys, "coral", "compile", str(model_file), "--int8", "--calibrate", str(samples), "--json"
    )
    inputs = json.loads(out)["inputs"]
    assert (
        status == 0
        and inputs[0]["zero"] == -128
        and inputs[0]["scale"] == pytest.approx(1 / 255, rel=0.02)
    )
    np.savez(samples, other=np.zeros(3))
    status, _, err = run_command(
        capsys, "coral", "compile", str(model_file), "--int8", "--calibrate", str(samples)
    )
    assert status == 2 and name in err


def test_over_budget_is_exit_code_2(tmp_path, capsys):
    path = tmp_path / "big.mlir"
    path.write_text(
        "func.func @main(%x: tensor<20000xf32>) -> tensor<20000xf32> {\n"
        "  %y = stablehlo.add %x, %x : tensor<20000xf32>\n  return %y : tensor<20000xf32>\n}\n"
    )
    status, _, err = run_command(capsys, "coral", "compile", str(path))
    assert status == 2 and "TW5030" in err and "coral-highmem" in err


def test_a_damaged_line_table_is_no_error():
    elf = compile_model(SMALL["gray_conv"]().imported()).elf
    lines = LineTable(elf)
    found = lines.at(elf.symbol("op_0_conv").address)
    assert found is not None and found.file == "model.c" and found.line > 0
    rng = random.Random(1)
    place = next(k for k, s in enumerate(elf.sections) if s.name == ".debug_line")
    for _ in range(200):
        data = bytearray(elf.sections[place].data)
        for _ in range(4):
            data[rng.randrange(len(data))] = rng.randrange(256)
        sections = list(elf.sections)
        sections[place] = replace(sections[place], data=bytes(data[: rng.randrange(len(data))]))
        LineTable(replace(elf, sections=tuple(sections))).at(64)
