"""The kernels command."""

import json

import pytest
from click.testing import CliRunner

from tilewright.cli import app
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.cli.kernels import command


def invoke(*arguments):
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def test_is_a_command():
    assert "kernels" in app.list_commands(None)  # type: ignore[arg-type]


def test_list():
    shown = invoke("list").output
    assert "matmul" in shown and "a: fp8[M, K], b: fp8[K, N] -> out: bf16[M, N]" in shown
    rows = json.loads(invoke("list", "--json").output)
    assert {"kernel", "signature", "doc", "sizes", "cases"} <= set(rows[0])
    cases = json.loads(invoke("list", "--cases", "--json").output)
    assert {"name": "SmolVLAMatmul", "cycles": 2332}.items() <= {
        k: v for c in cases if c["name"] == "SmolVLAMatmul" for k, v in c.items()
    }.items()


def test_bench_json_keys():
    rows = json.loads(invoke("bench", "--case", "SmolVLAMatmul", "--json").output)
    wanted = {
        "kernel", "case", "profile", "shapes", "cycles", "bound", "ratio", "optimal",
        "reference_cycles", "instructions",
    }  # fmt: skip
    assert len(rows) == 1 and wanted <= set(rows[0])
    row = rows[0]
    assert (row["kernel"], row["case"], row["profile"]) == ("matmul", "SmolVLAMatmul", "atlas-v1")
    assert row["shapes"] == {"a": [32, 32], "b": [32, 32], "out": [32, 32]}
    assert row["bound"] <= row["cycles"] < row["reference_cycles"] == 2332


def test_bench_selects():
    rows = json.loads(invoke("bench", "silu", "--profile", "atlas-v0", "--json").output)
    assert [row["case"] for row in rows] == ["silu"]
    rows = json.loads(invoke("bench", "silu", "--shape", "M=96,N=32", "--json").output)
    assert rows[0]["shapes"]["x"] == [96, 32] and rows[0]["reference_cycles"] is None


def test_bench_table():
    shown = invoke("bench", "softmax").output
    assert "published" in shown and "geometric mean" in shown


def test_show(tmp_path):
    shown = invoke("show", "softmax", "--shape", "M=64,N=32").output
    assert "64x32" in shown and "cycles, bound" in shown
    assert "vexp.bf16" in invoke("show", "softmax", "--asm").output
    assert "vexp.bf16 vd=" in invoke("show", "softmax", "--asm", "--profile", "atlas-v0").output
    assert "tw.row_max" in invoke("show", "softmax", "--source").output
    picture = tmp_path / "softmax.svg"
    invoke("show", "softmax", "--timeline", str(picture))
    assert picture.read_text().startswith("<svg")


def test_check():
    assert "12 of 12 checks hold" in invoke("check", "silu").output
    rows = json.loads(invoke("check", "silu", "--profile", "atlas-v1", "--json").output)
    assert len(rows) == 6 and all(row["ok"] for row in rows)


def test_a_failed_check_ends_with_1(monkeypatch):
    from tilewright.targets.atlas.kernels import references, registry

    wrong = references.Reference(lambda profile, x: x, None)
    kernel = registry.entry("silu").kernel
    monkeypatch.setattr(registry, "_recorded", lambda name: (kernel, wrong))
    result = invoke("check", "silu", "--profile", "atlas-v1")
    assert result.exit_code == 1 and "FAIL silu atlas-v1 fixed: out[0, 0]" in result.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "nothing"), "TW0051"),
        (("bench", "matmul", "--shape", "M"), "TW0050"),
        (("bench", "matmul", "--shape", "Q=3"), "TW0052"),
        (("bench", "--case", "nothing"), "TW0054"),
        (("bench", "--shape", "M=3"), "TW0055"),
        (("show", "matmul_acc_mid", "--source"), "TW0056"),
        (("show", "matmul", "--profile", "atlas-v9"), "TW0060"),
    ],
)
def test_bad_input(arguments, code):
    with pytest.raises(TilewrightError) as caught:
        invoke(*arguments)
    assert caught.value.code == code


def test_export(tmp_path):
    target = tmp_path / "manifest.json"
    invoke("export", "silu", "matmul", "-o", str(target))
    data = json.loads(target.read_text())
    assert data["schema_version"] == 1 and set(data["kernels"]) == {"silu", "matmul"}
    assert json.loads(invoke("export", "silu").output)["kernels"]["silu"]["tile_shape"] == [32, 32]
