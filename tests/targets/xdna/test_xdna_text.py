"""Texts: MLIR written and read back, kernel source, pictures, the command."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from tilewright.cli import main
from tilewright.errors import TilewrightError
from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.gemm import plan_gemm
from tilewright.targets.xdna.kernel_source import kernel_source
from tilewright.targets.xdna.mlir_emit import SYNTAXES, emit_mlir
from tilewright.targets.xdna.mlir_parse import parse_design
from tilewright.targets.xdna.report import values_agree

BY_HAND = """
module {
  aie.device(npu2) {
    func.func private @add(memref<16x32xi8>)  // nothing says what it does
    %s = aie.tile(0, 0)
    %l2 = aie.tile(0, 1)
    %c = aie.tile(0, 2)
    aie.objectfifo @in3(%s, {%l2}, 2 : i32) : !aie.objectfifo<memref<512xi8>>
    aie.objectfifo @in2(%l2 dimensionsToStream [<size = 2, stride = 256>, <size = 4, stride = 8>,
        <size = 8, stride = 32>, <size = 8, stride = 1>], {%c}, 2 : i32)
        : !aie.objectfifo<memref<16x32xi8>>
    aie.objectfifo.link [@in3] -> [@in2]([] [])
    %k = aie.core(%c) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %four = arith.constant 4 : index
      scf.for %i = %zero to %four step %one {
        %v = aie.objectfifo.acquire @in2(Consume, 1) : !aie.objectfifosubview<memref<16x32xi8>>
        %t = aie.objectfifo.subview.access %v[0]
            : !aie.objectfifosubview<memref<16x32xi8>> -> memref<16x32xi8>
        func.call @add(%t) : (memref<16x32xi8>) -> ()
        aie.objectfifo.release @in2(Consume, 1)
      }
      aie.end
    } {link_with = "add.o", stack_size = 3328 : i32}
    aiex.runtime_sequence(%x: memref<2048xi8>) {
      aiex.npu.dma_memcpy_nd(%x[0, 0, 0, 0][1, 4, 16, 32][0, 32, 128, 1])
          {id = 1 : i64, issue_token = true, metadata = @in3} : memref<2048xi8>
      aiex.npu.dma_wait {symbol = @in3}
    }
  }
}
"""
DESIGNS = {
    "stock": {"tile": (16, 16, 16), "policy": "stock", "columns": 4, "c_layout": "col"},
    "wide_k": {"tile": (16, 32, 16), "policy": "wide_k", "columns": 2, "dtype": "bf16"},
    "resident_a": {"tile": (16, 32, 16), "policy": "resident_a", "columns": 4, "out": "i16"},
    "ternary": {"tile": (16, 32, 16), "policy": "resident_b", "columns": 1, "dtype": "ternary"},
    "staggered": {"tile": (16, 32, 16), "policy": "resident_b", "columns": 4, "stagger": True},
}


def run(arguments: list[str], capsys) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    code = stop.value.code
    return (code if isinstance(code, int) else 0), capsys.readouterr().out


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_design_survives_its_text(name: str, syntax: str) -> None:
    design = plan_gemm(300, 100, 200, **DESIGNS[name])
    text = emit_mlir(design, syntax)
    assert parse_design(text) == design
    assert emit_mlir(design, syntax) == text


def test_spellings() -> None:
    design = plan_gemm(300, 100, 200, **DESIGNS["stock"])
    old, new = (emit_mlir(design, syntax) for syntax in SYNTAXES)
    assert "aiex.runtime_sequence" in old and "aiex.npu.dma_memcpy_nd" in old
    assert " aie.runtime_sequence" in new and "aiex.dma_configure_task_for" in new
    assert "([] [])" in old and "([] [0])" in new
    assert "stack_size = 3328 : i32" in old
    with pytest.raises(TilewrightError, match="no syntax"):
        emit_mlir(design, "1999")


def test_a_design_written_by_hand_is_checked() -> None:
    design = parse_design(BY_HAND)
    assert [c.name for c in check_design(design) if not c.ok] == []


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("stride = 256>", "stride = 255>", "structure"),
        ("<size = 8, stride = 32>", "<size = 8, stride = 31>", "structure"),
        ("[1, 4, 16, 32]", "[1, 3, 16, 32]", "flow_balance"),
        ("[0, 32, 128, 1])", "[0, 32, 130, 1])", "shim_transfers"),
        ("constant 4 : index", "constant 5 : index", "flow_balance"),
        ("constant 4 : index", "constant 1 : index", None),  # what is left fits the slots
        ("aiex.npu.dma_wait {symbol = @in3}", "", "tokens"),
        ("{id = 1 : i64", "{id = 99 : i64", "shim_descriptors"),
        ("[1, 4, 16, 32]", "[8, 4, 16, 32]", "deadlock"),
        ("[1, 4, 16, 32][0, 32, 128, 1]", "[1, 4, 16, 32][0, 32, 129, 1]", "shim_transfers"),
        ("{%c}, 2 : i32", "{%c}, 999 : i32", "core_descriptors"),
        ("        aie.objectfifo.release @in2(Consume, 1)\n", "", "core_programs"),
    ],
)
def test_changes_of_a_text_are_found(old: str, new: str, check: str | None) -> None:
    assert old in BY_HAND
    checks = check_design(parse_design(BY_HAND.replace(old, new)))
    found = [c.name for c in checks if not c.ok]
    assert (check in found) if check else found == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("aie.objectfifo.link", "aie.cascade", "aie.cascade"),
        ("%c}", "%d}", "no tile %d"),
        ("@in2(Consume, 1)", "@out(Consume, 1)", "no FIFO @out"),
        ("(Consume, 1)", "(Produce, 1)", "not at the Produce end"),
        ("i8>>", "q8>>", "is no array of"),
        ("npu2", "npu7", "no device"),
        ("func.call @add(%t)", "func.call @add(%v)", "%v is no object"),
        ("aie.end\n", "aie.use_lock(%l, AcquireGreaterEqual, 1)\n aie.end\n", "no lock"),
        ("metadata = @in3", "origin = @in3", "names no FIFO"),
        ("%x[0, 0, 0, 0]", "%y[0, 0, 0, 0]", "no buffer %y"),
        ("memref<2048xi8>) {", "memref<1024xi8>) {", "has 1024 elements"),
        (
            "%v[0]\n            : !aie.objectfifosubview<memref<16x32",
            "%v[0]\n : !aie.objectfifosubview<memref<8x64",
            "another type",
        ),
        ("module {", "module { ?", "unexpected character"),
        ("[1, 4, 16, 32]", "[1, 4, 16, 0]", "empty transfer"),
    ],
)
def test_bad_texts_are_named_with_their_line(old: str, new: str, sentence: str) -> None:
    with pytest.raises(TilewrightError) as error:
        parse_design(BY_HAND.replace(old, new, 1), "hand.mlir")
    assert sentence in error.value.message
    assert error.value.location is not None and error.value.location.line > 0


def test_links_into_another_tile_are_found() -> None:
    """Also where pushes of resident panels are compared with what the design lowers to."""
    design = plan_gemm(96, 64, 96, tile=(16, 32, 16), policy="resident_a", columns=4)
    text = emit_mlir(design)
    assert "-> [@c_l2l3_0]" in text and "tilewright.replay" in text
    checks = check_design(parse_design(text.replace("-> [@c_l2l3_0]", "-> [@a_l3l2_0]")))
    assert [c.name for c in checks if not c.ok] == ["structure"]
    assert "does not meet in one memory tile" in checks[0].detail


def test_cut_texts_never_crash() -> None:
    for end in range(0, len(BY_HAND), 61):
        with pytest.raises(TilewrightError):
            parse_design(BY_HAND[:end])


@pytest.mark.parametrize("seed", range(6))
def test_changed_texts_get_a_verdict(seed: int) -> None:
    """Random numbers and words of a text changed: refused, or judged; nothing falls over."""
    choose = random.Random(seed)
    policy = "resident_b" if seed % 2 else "stock"
    design = plan_gemm(128, 64, 32, tile=(16, 32, 16), policy=policy, columns=1)
    text = emit_mlir(design, SYNTAXES[seed // 2 % 2])
    words = list(re.finditer(r"[%@!\w.]+", text))
    for _ in range(12):
        word, other = choose.choice(words), choose.choice(words).group()
        if word.group().isdigit():
            other = str(choose.choice([0, 1, int(word.group()) + 1, int(word.group()) * 2, 10**12]))
        changed = text[: word.start()] + other + text[word.end() :]
        try:
            parsed = parse_design(changed)
            if all(check.ok for check in check_design(parsed)) and parsed.gemm is not None:
                assert values_agree(parsed) in (True, False)
        except TilewrightError:
            continue


def test_kernel_source_covers_every_kernel() -> None:
    for options in DESIGNS.values():
        design = plan_gemm(300, 100, 200, **options)
        source = kernel_source(design)
        for kernel in design.kernels:
            assert f"void {kernel.name}(" in source
        assert source.count("{") == source.count("}") and source.count("(") == source.count(")")
    assert "0x0C" in kernel_source(plan_gemm(300, 100, 200, **DESIGNS["ternary"]))


def test_the_command_reports_checks_simulates_and_emits(tmp_path: Path, capsys) -> None:
    arguments = ["xdna", "gemm", "-M", "200", "-K", "100", "-N", "150", "--tile", "16,32,16"]
    arguments += ["--policy", "wide_k", "--columns", "2", "--check", "--simulate", "values"]
    arguments += ["--simulate", "time", "--dispatch", "0.001", "--emit", str(tmp_path), "--json"]
    code, out = run(arguments, capsys)
    data = json.loads(out)
    assert code == 0 and data["exact"] is True and data["source"] == "events"
    assert {"tops", "seconds", "bound", "binding", "tile", "policy", "l1_bytes", "l2_bytes"} <= set(
        data
    )
    assert set(data["bound"]) == {"compute", "channel", "dram"}
    assert set(data["dram_bytes"]) == {"a", "b", "c"} and data["kernel_macs_per_cycle"] > 0
    assert all(set(c) >= {"name", "used", "limit", "ok"} for c in data["checks"])
    assert data["seconds"] > 0.001 and data["binding"] in data["bound"]
    assert data["tops"] == pytest.approx(2 * 200 * 100 * 150 / data["seconds"] / 1e12)
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"design.mlir", "kernels.cc", "descriptors.txt", "dataflow.svg", "timeline.svg",
                     "report.json"}  # fmt: skip
    for picture in ("dataflow.svg", "timeline.svg"):
        assert (tmp_path / picture).read_text().startswith("<svg")
    words = re.findall(
        r"bd \d+[^:]*: ((?:[0-9a-f]{8} ?)+)", (tmp_path / "descriptors.txt").read_text()
    )
    assert len(words) > 50
    code, out = run(["xdna", "check", str(tmp_path / "design.mlir"), "--json"], capsys)
    assert code == 0 and json.loads(out)["exact"] is True


def test_check_finds_a_changed_depth_offset_or_parameter(tmp_path: Path, capsys) -> None:
    design = plan_gemm(300, 100, 200, **DESIGNS["resident_a"])
    text = emit_mlir(design)
    changes = [
        (r"(@c_l1l2_0_0\(%tile_0_2, \{%tile_0_1\}), 1 :", r"\1, 2 :"),
        (r"offset = 0 len", "offset = 16 len"),
        (r"rtp_write\(@rtp_0_2, 0, \d+\)", "rtp_write(@rtp_0_2, 0, 3)"),
        (r"tilewright.sweeps = \d+ : i32\}", "tilewright.sweeps = 9 : i32}"),
        (r"      aiex.dma_await_task\(%task_\d+\)\n", ""),
    ]
    for pattern, put in changes:
        changed = re.sub(pattern, put, text, count=1)
        assert changed != text
        file = tmp_path / "changed.mlir"
        file.write_text(changed)
        code, _ = run(["xdna", "check", str(file), "--json"], capsys)
        assert code != 0, pattern


def test_the_command_refuses_with_code_and_hint(capsys) -> None:
    base = ["xdna", "gemm", "-M", "64", "-K", "64", "-N", "64", "--json"]
    for more, code in (
        (["--tile", "64;64"], "TW8080"),
        (["--tile", "20,20,20", "--policy", "stock"], "TW8030"),
        (["--device", "npu5"], "TW8001"),
        (["--bandwidth", "-3"], "TW8080"),
        (["--dtype", "ternary", "--out", "i8"], "TW8030"),
    ):
        status, out = run([*base, *more], capsys)
        assert status == 2
        error = json.loads(out)["errors"][0]
        assert error["code"] == code and error["message"]


def test_the_command_without_a_tile_searches(capsys) -> None:
    code, out = run(["xdna", "gemm", "-M", "128", "-K", "128", "-N", "256"], capsys)
    assert code == 0 and "TOPS" in out and "BAD" not in out
