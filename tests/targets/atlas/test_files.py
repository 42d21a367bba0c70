"""Program files: every form to every other, and files that are not what they say."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_strategies import canonical, programs, same

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.files import (
    FORMS,
    format_program,
    parse_program,
    profile_for,
    read_program,
    sniff,
    write_program,
)
from tilewright.targets.atlas.images import parse_hex
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Program

PROFILES = [load_profile("atlas-v0"), load_profile("atlas-v1")]
V0, V1 = PROFILES

SAMPLE = """
start: li x1, 1024
loop:
    dma.load.ch0 x0, x0, x1
    dma.wait.ch0
    vload m0, 0(x0)
    bne x1, x0, loop
    nop
    vmatpop.fp8.acc.mxu0 m1, acc0, e1
end:
"""


def convert(program: Program, form: str, profile) -> Program:
    return parse_program(format_program(program, form, profile), "k", profile, form)


# --- round trips ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(), st.sampled_from(PROFILES))
def test_assembly_and_json_keep_everything(program: Program, profile):
    for form in ("assembly", "json"):
        back = convert(program, form, profile)
        assert same(back, program)
        assert back.data == program.data
        assert program.labels.items() <= back.labels.items()
        assert format_program(back, form, profile) == format_program(
            convert(back, form, profile), form, profile
        )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(words=True, data=False, pairs=62), st.sampled_from(PROFILES))
def test_every_form_to_every_other(program: Program, profile):
    integer = profile.fill == "integer"
    expected = canonical(program, integer)
    forms = {form: convert(program, form, profile) for form in FORMS}
    for form in ("assembly", "text", "json"):
        assert same(forms[form], program)
    for first, second in itertools.permutations(FORMS, 2):
        there = convert(forms[first], second, profile)
        assert same(canonical(there, integer), expected), (first, second)
    assert same(forms["hex"], expected)
    assert same(forms["binary"], expected)


@pytest.mark.parametrize("suffix", [".S", ".s", ".txt", ".hex", ".bin", ".json"])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_files_by_suffix(tmp_path: Path, suffix: str, profile):
    program = assemble(SAMPLE, profile)
    path = tmp_path / f"kernel{suffix}"
    written = write_program(program, path, profile)
    assert written == path.stat().st_size
    assert read_program(path, profile).same_code(program)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_disassembly_text():
    program = assemble(SAMPLE, V1)
    assert disassemble(program) == (
        "start:\n    addi x1, x0, 1024\nloop:\n    dma.load.ch0 x0, x0, x1\n    dma.wait.ch0\n"
        "    vload m0, 0(x0)\n    bne x1, x0, loop\n    nop\n"
        "    vmatpop.fp8.acc.mxu0 m1, acc0, e1\nend:\n"
    )
    lines = disassemble(program, addresses=True, words=True, abi=True).splitlines()
    assert lines[1].split() == ["addi", "ra,", "zero,", "1024", "#", "0x0000", "40000093"]
    assert assemble("\n".join(lines), V1).same_code(program)


def test_targets_outside_the_program_stay_numbers():
    text = "    beq x0, x0, -8\n    beq x0, x0, 2\n    jal x0, L3\nL3:\n"
    program = assemble("beq x0,x0,-8\nbeq x0,x0,2\njal x0,4", V1)
    assert disassemble(program) == text


def test_generated_labels_avoid_the_programs_own():
    program = assemble("L1: nop\nbeq x0, x0, 0\n", V1)
    text = disassemble(program)
    assert "L1_:" in text
    assert assemble(text, V1).same_code(program)


def test_long_data_is_short_in_assembly():
    text = "nop\n.dram 0\n.byte 1, 2\n.zero 1000000\n.byte 3\n.fill 40, 7"
    program = assemble(text, V1)
    printed = disassemble(program)
    assert len(printed) < 300
    assert assemble(printed, V1).data == program.data


def test_forms_that_cannot_hold_data_say_so():
    program = assemble("nop\n.dram 0\n.byte 1", V1)
    for form in ("text", "hex", "binary"):
        with pytest.raises(TilewrightError, match=r"cannot hold data.*") as caught:
            format_program(program, form, V1)
        assert caught.value.hint == "write .S or .json instead"


def test_source_lines_survive_in_json(tmp_path: Path):
    program = assemble(SAMPLE, V1, "k.S")
    path = tmp_path / "k.json"
    write_program(program, path, V1)
    back = read_program(path, V1)
    assert back.lines.tolist() == program.lines.tolist()
    assert str(back.location(0)) == "k.S:2"


def test_json_names_its_profile(tmp_path: Path):
    path = tmp_path / "k.json"
    write_program(assemble("nop", V0), path, V0)
    assert profile_for(str(path), None).name == "atlas-v0"
    assert profile_for(str(path), "atlas-v1").name == "atlas-v1"
    assert profile_for("k.S", None).name == "atlas-v1"


def test_lists_as_kernel_manifests_have_them():
    listed = [
        {"mnemonic": "addi", "args": {"rd": 1, "imm": 5}},
        {"mnemonic": "dma.wait.ch<N>", "args": {"channel": 2}},
        {"mnemonic": "bne", "args": {"rs1": 1, "imm": -1}},
        {"mnemonic": "ecall"},
    ]
    for document in (listed, {"instructions": listed, "cycles": 5}):
        program = parse_program(json.dumps(document).encode(), "k.json", V0)
        assert [i.operands for i in program] == [(1, 0, 5), (2,), (1, 0, -4), ()]


def test_hex_with_addresses_and_comments():
    text = "// two words\n@1 00100073 # ebreak\n@0\n0x13\n"
    program = parse_hex(text, V1, "k.hex")
    assert [i.opcode.mnemonic for i in program] == ["addi", "ebreak"]
    assert program.lines.tolist() == [4, 2]


def test_forms_are_told_apart_by_content():
    assert sniff("# c\naddi rd=1, imm=5\n", "assembly") == "text"
    assert sniff("addi x1, x0, 5\n", "text") == "assembly"
    assert sniff("ecall\n", "text") == "text"
    assert sniff("ecall\n", "assembly") == "assembly"
    assert sniff(".equ A = 5\nnop", "assembly") == "assembly"
    assert sniff("loop:\n", "text") == "assembly"
    assert sniff("00510193\n", "text") == "hex"
    assert sniff('{"instructions": []}', None) == "json"
    assert parse_program(b"vload vd=1", "k.S", V0)[0].operands == (1, 0, 0)


def test_forms_that_do_not_exist(tmp_path: Path):
    with pytest.raises(TilewrightError, match="does not say which form"):
        write_program(assemble("nop", V1), tmp_path / "k.elf", V1)
    with pytest.raises(TilewrightError, match="no program form 'elf'"):
        parse_program(b"", "k.S", V1, "elf")
    assert list(tmp_path.iterdir()) == []


# --- bad files ------------------------------------------------------------------------

BAD = [
    ("k.S", b"\x00\x01\x02", "TW0013", "zero byte at offset 0x0"),
    ("k.S", b"nop\n\xff\xfe", "TW0013", "not UTF-8 text: byte 0xff at offset 0x4"),
    ("k.txt", b"addi rd=\xc3", "TW0013", "not UTF-8"),
    ("k.bin", b"\x13\x00\x00", "TW1052", "3 bytes"),
    ("k.bin", b"\x00" * 8, "TW1042", "0x00000000 (number 0"),
    ("k.hex", b"0051019\n", "TW1050", "'0051019' is not a word"),
    ("k.hex", b"00510193\n005101930\n", "TW1050", "'005101930' is not a word"),
    ("k.hex", b"00510193\nzzzzzzzz\n", "TW1050", "'zzzzzzzz' is not a word"),
    ("k.hex", b"@4\n00510193\n", "TW1051", "there is no word 0x0"),
    ("k.hex", b"00510193\n@0 00510193\n", "TW1051", "word 0x0 is given twice"),
    ("k.hex", b"@fffffffffffffffffff\n", "TW1050", "not a word"),
    ("k.json", b"{", "TW1057", "this is not JSON"),
    ("k.json", b"[" * 100000, "TW1057", "nested too deeply"),
    ("k.json", b"5", "TW1058", "an object or a list"),
    ("k.json", b"{}", "TW1058", "instructions is missing"),
    ("k.json", b'{"kernels": {}}', "TW1058", "instructions is missing"),
    ("k.json", b'{"schema": "x", "instructions": []}', "TW1058", "the schema is 'x'"),
    ("k.json", b'{"instructions": [], "instructions": []}', "TW1057", "twice"),
    ("k.json", b'[{"mnemonic": "addi", "args": {"rd": 1.5}}]', "TW1058", "rd of instruction 0 is 1.5"),
    ("k.json", b'[{"mnemonic": "addi", "args": {"rd": true}}]', "TW1058", "is True"),
    ("k.json", b'[{"mnemonic": "addi", "args": {"rd": 99}}]', "TW1005", "instruction 0: there is no register x99"),
    ("k.json", b'[{"mnemonic": "addx"}]', "TW1001", "instruction 0: there is no instruction 'addx'"),
    ("k.json", b'[{"mnemonic": "addi", "args": {"zz": 9}}]', "TW1021", "has no key 'zz'"),
    ("k.json", b"[" + b"9" * 5000 + b"]", "TW1057", "not usable JSON"),
    ("k.json", b'{"instructions": [], "labels": {"a": 1}}', "TW1058", "the label 'a'"),
    ("k.json", b'{"instructions": [], "labels": {"x1": 0}}', "TW1058", "'x1' cannot be the name"),
    ("k.json", b'{"instructions": [], "data": [{"space": "dram", "address": -1, "bytes": ""}]}', "TW1058", "cannot be placed"),
    ("k.json", b'{"instructions": [], "data": [{"space": "dram", "address": 0, "bytes": "?"}]}', "TW1058", "base64"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "code", "text"), BAD, ids=[f"{b[0]}-{b[2]}" for b in BAD]
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, code: str, text: str):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TilewrightError) as caught:
        read_program(path, V1)
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.file == str(path)


def test_missing_and_unreadable_files(tmp_path: Path):
    for path in (tmp_path / "none.S", tmp_path, Path("bad\0name.S")):
        with pytest.raises(TilewrightError) as caught:
            read_program(path, V1)
        assert caught.value.code == "TW0010"
    with pytest.raises(TilewrightError) as caught:
        write_program(assemble("nop", V1), tmp_path / "no" / "k.S", V1)
    assert caught.value.code == "TW0011"


@pytest.mark.parametrize("suffix", [".S", ".txt", ".hex", ".json", ".bin"])
def test_very_long_lines_end_quickly(tmp_path: Path, suffix: str):
    path = tmp_path / f"k{suffix}"
    for pattern in (b"a ", b"0", b",", b"("):
        path.write_bytes(pattern * (20_000_000 // len(pattern)))
        with pytest.raises(TilewrightError):
            read_program(path, V1)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "k.hex"
    path.write_text("old")
    with pytest.raises(TilewrightError):
        write_program(assemble("delay -1", V1), path, V1)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["k.hex"]


def test_a_write_that_breaks_off_leaves_nothing_behind(tmp_path: Path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(TilewrightError, match="No space left"):
        write_program(assemble("nop", V1), tmp_path / "k.S", V1)
    assert list(tmp_path.iterdir()) == []


# --- fuzzing --------------------------------------------------------------------------


def only_clear_errors(content: bytes, form: str | None, name: str = "k") -> None:
    """Reading either works or fails with an error that can be printed."""
    for profile in PROFILES:
        try:
            program = parse_program(content, name, profile, form)
        except TilewrightError as error:
            assert error.code.startswith("TW")
            assert len(str(error)) < 20_000
            str(error).encode()
        else:
            assert isinstance(program, Program)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.binary(max_size=200), st.sampled_from([None, *FORMS]))
def test_random_bytes(content: bytes, form: str | None):
    only_clear_errors(content, form)


_WORDS = [
    "addi", "li", "x1", "x99", "m3", "acc0", "w1", "e2", "vload", "beq", ",", " ", "(", ")", "#",
    ":", ";", "\n", "0x", "1e9", "-", "+", "~", "%hi", "%lo", "<<", ">>", "/", "/*", "*/", "//", ".",
    ".equ", ".dram", ".byte", ".fill", ".bf16", ".zero", ".balign", "nan", "inf", "loop", "rd=1",
    "imm", "=", "99999999999999999999", "dma.load.ch<N>", "dma.wait.ch1", "\t", "\x0b", "\u00a0", "{",
    "[", '"', "mnemonic", "@", "0", "00510193", "é", "\u0661", "jal", "jalr", "ret",
]  # fmt: skip


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(_WORDS), max_size=40).map(lambda words: " ".join(words)),
    st.sampled_from([None, *FORMS]),
)
def test_random_words(text: str, form: str | None):
    only_clear_errors(text.encode(), form)


def test_mutated_files():
    chooser = random.Random(11)
    originals = {form: format_program(assemble(SAMPLE, V1), form, V1) for form in FORMS}
    originals["assembly"] += b".equ A, 3*(4+1)\n.dram 0x10\n.bf16 1.0, 2\n.fill 4, A\n"
    for form, original in originals.items():
        for _ in range(250):
            content = bytearray(original)
            for _ in range(chooser.randint(1, 4)):
                at = chooser.randrange(len(content) or 1)
                kind = chooser.randrange(4)
                if kind == 0 and content:
                    content[at : at + 1] = bytes([chooser.randrange(256)])
                elif kind == 1:
                    del content[at : at + chooser.randint(1, 20)]
                elif kind == 2:
                    content[at:at] = bytes(chooser.choices(range(32, 127), k=3))
                else:
                    content[at:at] = content[at : at + chooser.randint(1, 30)]
            only_clear_errors(bytes(content), form)
            only_clear_errors(bytes(content), None)


def test_random_words_of_instructions_decode_or_are_refused():
    generator = np.random.default_rng(3)
    for _ in range(50):
        words = generator.integers(0, 2**32, 8, np.uint32)
        only_clear_errors(words.tobytes(), "binary")
