"""`tilewright asm`, `disasm` and `isa` as a user calls them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from commands import exit_code
from tilewright.cli import main
from tilewright.targets.atlas.isa import BY_MNEMONIC
from tilewright.targets.atlas.isa_pages import pages

DOCS = Path(__file__).parents[2] / "docs" / "isa"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.S"
    path.write_text("loop: addi x1, x1, -1\nbne x1, x0, loop\nnop\nnop\n")
    return path


def test_asm_through_every_form_and_back(kernel: Path, capsys):
    current = kernel
    for suffix in (".hex", ".bin", ".json", ".txt", ".S", ".bin"):
        following = kernel.with_name(f"next{suffix}")
        assert exit_code("asm", current, "-o", following) == 0
        current = following
    assert kernel.with_name("next.hex").read_text().splitlines()[0] == "fff08093"
    capsys.readouterr()
    assert exit_code("disasm", current) == 0
    assert capsys.readouterr().out == (
        "L0:\n    addi x1, x1, -1\n    bne x1, x0, L0\n    nop\n    nop\n"
    )


def test_asm_without_output_checks(kernel: Path, capsys):
    assert exit_code("asm", kernel) == 0
    assert capsys.readouterr().out == f"{kernel}: 4 instructions, no mistakes\n"


def test_asm_json(kernel: Path, capsys):
    out = kernel.with_name("k.bin")
    assert exit_code("asm", kernel, "-o", out, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["instructions"] == 4
    assert summary["bytes_written"] == 16 == out.stat().st_size
    assert (summary["form"], summary["profile"], summary["labels"]) == ("binary", "atlas-v1", 1)


def test_asm_mistakes(kernel: Path, capsys):
    kernel.write_text("addi x1, x2\nvload m64, 0(x0)\n")
    out = kernel.with_name("k.bin")
    assert exit_code("asm", kernel, "-o", out) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"TW1004 {kernel}:1:12  addi needs more operands",
        "        hint: write addi xD, xA, imm",
        f"TW1005 {kernel}:2:7  there is no register m64",
        "        hint: registers are m0 to m63",
    ]
    assert not out.exists()
    assert exit_code("asm", kernel, "--json") == 2
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [(e["code"], e["line"], e["column"]) for e in errors] == [
        ("TW1004", 1, 12),
        ("TW1005", 2, 7),
    ]


def test_bad_command_lines(kernel: Path, capsys):
    assert exit_code("asm") == 2
    assert exit_code("asm", kernel, "--profile", "atlas-v9") == 2
    assert exit_code("asm", kernel, "-o", kernel.with_name("k.elf")) == 2
    assert exit_code("asm", kernel.with_name("none.S")) == 2
    assert exit_code("disasm", kernel, "--from", "binary") == 2
    assert exit_code("isa", "vaddd") == 2
    assert "did you mean" in capsys.readouterr().err


def test_disasm_columns_and_files(kernel: Path, capsys):
    assert exit_code("disasm", kernel, "--addresses", "--words", "--abi") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "loop:"
    assert out[1].split() == ["addi", "ra,", "ra,", "-1", "#", "0x0000", "fff08093"]
    target = kernel.with_name("k.txt")
    assert exit_code("disasm", kernel, "-o", target, "--profile", "atlas-v0") == 0
    assert target.read_text().splitlines()[1] == "bne rd=0, rs1=1, rs2=0, imm=-1"
    capsys.readouterr()
    assert exit_code("disasm", kernel, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == {"loop": 0}


def test_isa_lists_and_looks_up(capsys):
    assert exit_code("isa") == 0
    listing = capsys.readouterr().out
    assert all(row.syntax in listing for row in BY_MNEMONIC.values())
    assert exit_code("isa", "vmatmul.mxu1", "--profile", "atlas-v1") == 0
    assert "MXU1 35" in capsys.readouterr().out
    assert exit_code("isa", "vadd.bf16", "dma.load.ch3", "li", "--json") == 0
    entries = json.loads(capsys.readouterr().out)["instructions"]
    assert [e["mnemonic"] for e in entries] == ["vadd.bf16", "dma.load.ch<K>", "addi", "lui"]
    assert (entries[0]["unit"], entries[0]["latency"]) == ("VPU", 66)
    assert entries[1]["latency"] is None


def test_isa_markdown(capsys):
    assert exit_code("isa", "--markdown", "vmatmul.mxu1") == 0
    assert capsys.readouterr().out.startswith("## vmatmul.mxu1\n")
    assert exit_code("isa", "--markdown") == 0
    assert capsys.readouterr().out.startswith("# The Atlas instruction set\n")


def test_standard_input_and_output(monkeypatch, capfdbinary):
    def pipe(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    pipe(b"nop\n")
    assert exit_code("asm", "-", "-o", "-", "--to", "hex") == 0
    assert capfdbinary.readouterr().out == b"00000013\n"
    pipe(b"00000013\n")
    assert exit_code("disasm", "-") == 0
    assert capfdbinary.readouterr().out == b"    nop\n"
    pipe(b"addx\n")
    assert exit_code("asm", "-") == 2
    assert b"TW1001 <stdin>:1:1" in capfdbinary.readouterr().err


def test_isa_profiles_and_differences(tmp_path: Path, capsys):
    assert exit_code("isa", "--profiles") == 0
    assert capsys.readouterr().out.split()[0] == "atlas-v0"
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "atlas-v1"\n[timing]\nmatmul_mxu0 = ["MXU", 64]\n')
    assert exit_code("isa", "--compare", "atlas-v1", mine, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["parameters"] == {"timing.matmul_mxu0": ["MXU 96", "MXU 64"]}
    assert list(result["instructions"]) == ["vmatmul.mxu0", "vmatmul.acc.mxu0"]
    assert exit_code("isa", "--compare", "atlas-v1", "atlas-v1") == 0
    assert "do not differ" in capsys.readouterr().out


def test_checked_in_pages_are_current():
    written = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert written == pages(), "run: tilewright isa --write-docs docs/isa"


def test_parameters_are_named_as_in_a_profile_file(tmp_path: Path, capsys):
    """Each line of the listing, written into a file, is a profile that differs in nothing."""
    for name in ("atlas-v0", "atlas-v1"):
        assert exit_code("isa", "--profiles", "--profile", name, "--json") == 0
        listed = json.loads(capsys.readouterr().out)
        tables: dict[str, list[str]] = {}
        for key, value in listed.items():
            table, dot, key_in_table = key.partition(".")
            if not dot:
                continue
            if table == "timing":
                unit, ticks = value.split()
                value = [unit, int(ticks)]
            tables.setdefault(table, []).append(f"{key_in_table} = {json.dumps(value)}")
        text = "\n".join(f"[{table}]\n" + "\n".join(rows) for table, rows in tables.items())
        mine = tmp_path / f"{name}-again.toml"
        mine.write_text(f'base = "{name}"\n{text}\n')
        assert exit_code("isa", "--compare", name, mine) == 0
        assert "do not differ" in capsys.readouterr().out


def test_every_instruction_is_on_a_page():
    text = "".join(pages().values())
    assert all(f"## {mnemonic}\n" in text for mnemonic in BY_MNEMONIC)


def test_editor_grammar(tmp_path: Path, capsys):
    assert exit_code("isa", "--write-editor", tmp_path) == 0
    grammar = json.loads((tmp_path / "syntaxes" / "atlas.tmLanguage.json").read_text())
    rules = [rule for rule in grammar["patterns"] if "match" in rule]

    def scope(word: str) -> str | None:
        for rule in rules:
            found = re.search(rule["match"], word)
            if found and found.group() == word:
                return rule["name"]
        return None

    assert scope("vadd.bf16") == "support.function.vector"
    assert scope("vmatmul.acc.mxu0") == "support.function.matrix"
    assert scope("dma.load.ch3") == "support.function.dma"
    assert scope("dma.load.ch9") is None
    assert scope("m63") == scope("a0") == "variable.register"
    assert scope("m64") is None
    assert scope(".bf16") == "keyword.directive"
    assert scope("bne") == "keyword.control"
    assert scope("0x1F") == "constant.numeric"
    for mnemonic in BY_MNEMONIC:
        name = mnemonic + (".ch0" if BY_MNEMONIC[mnemonic].has_channel else "")
        assert scope(name) is not None, mnemonic


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shift.S", "slli x1, x2, 40"),
        ("delay.S", "delay 9999"),
        ("twice.txt", "addi rd=1, rd=2, imm=5"),
        ("channel.txt", "dma.wait.ch<N> channel=9"),
        ("word.hex", "ffffffff"),
    ],
)
def test_ranges_repeated_keys_and_unknown_words_come_with_a_hint(
    name, text, tmp_path, capsys
) -> None:
    from tilewright.cli import main

    file = tmp_path / name
    file.write_text(text + "\n")
    with pytest.raises(SystemExit) as stop:
        main(["asm", str(file), "-o", str(tmp_path / "out.S")])
    assert stop.value.code == 2
    assert "hint:" in capsys.readouterr().err


def test_numbers_that_wrap_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2048 in twelve signed bits is -2048: every command that reads the program says so."""
    source = tmp_path / "wraps.txt"
    source.write_text("addi rd=1, imm=2047\naddi rd=2, imm=2048\n")
    words = "addi reads 2048 as -2048"
    for arguments in (
        ["asm", str(source), "-o", str(tmp_path / "out.bin"), "--profile", "atlas-v0"],
        ["sim", str(source), "--profile", "atlas-v0"],
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code in (0, None)
        assert f"warning TW2035 {source}:2  {words}" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["lint", str(source), "--profile", "atlas-v0"])
    assert stop.value.code == 1 and words in capsys.readouterr().out
