"""Instruction words: known values, every field, and what the decoder refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_strategies import canonical, programs

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.encoding import LAYOUTS, decode, encode
from tilewright.targets.atlas.isa import BY_MNEMONIC, OPCODES, Kind
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction, Program

V1 = load_profile("atlas-v1")
V0 = load_profile("atlas-v0")

WORDS = [
    line.split("\t")
    for line in (Path(__file__).parent / "instruction_words.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def one(text: str) -> int:
    words = encode(assemble(text, V1))
    assert len(words) == 1
    return int(words[0])


def test_every_instruction_has_its_example_word():
    seen = set()
    for text, word in WORDS:
        program = assemble(text, V1)
        assert encode(program, V1).tolist() == [int(word, 16)], text
        assert decode(encode(program), V1).same_code(program), text
        seen.add(program[0].opcode.mnemonic)
    assert seen == set(BY_MNEMONIC)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("sw x3, 16(x2)", 0x00312823),
        ("beq x1, x2, -4", 0xFE208EE3),
        ("vadd.bf16 m2, m4, m6", 0x00308157),
        ("vmatmul.mxu0 acc0, m1, w0", 0x14002077),
        ("addi x3, x2, 5", 0x00510193),
        ("fence", 0x0000000F),
        ("csrrci x5, x3, 0xC00", 0xC001F2F3),
        ("vli.one m8, -1", 0xFFFF645F),
    ],
)
def test_words_the_public_encoders_got_wrong(text: str, word: int):
    assert one(text) == word


def test_all_six_bits_of_tensor_registers_survive():
    for row in OPCODES:
        for slot, operand in enumerate(row.operands):
            if operand.kind is not Kind.M:
                continue
            for register in range(32, 63):
                values = [0] * len(row.operands)
                values[slot] = register
                program = Program.from_instructions([Instruction(row, tuple(values))])
                assert decode(encode(program), V1)[0].operands[slot] == register


def test_config_and_wait_differ_on_every_channel():
    words = {one(f"dma.config.ch{k} x0") for k in range(8)}
    words |= {one(f"dma.wait.ch{k}") for k in range(8)}
    assert len(words) == 16


def test_no_word_means_two_instructions():
    """Wherever two rows agree on the bits both fix, they are the same row."""
    for a, first in enumerate(LAYOUTS):
        for second in LAYOUTS[a + 1 :]:
            both = first.mask & second.mask
            assert first.match & both != second.match & both


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs(words=True, data=False, pairs=62))
def test_decode_inverts_encode(program: Program):
    words = encode(program, V1)
    back = decode(words, V1)
    assert back.same_code(canonical(program))
    assert np.array_equal(encode(back), words)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40), st.booleans())
def test_a_word_decodes_exactly_or_is_refused(words: list[int], known: bool):
    if known:  # words that share an opcode with an instruction, so that more of them decode
        words = [w & ~0x7F | LAYOUTS[w % len(LAYOUTS)].match & 0x7F for w in words]
    for word in words:
        array = np.array([word], np.uint32)
        try:
            program = decode(array, V1)
        except TilewrightError as error:
            assert error.code in {"TW1041", "TW1042", "TW1043", "TW1044"}
        else:
            assert int(encode(program)[0]) == word


@pytest.mark.parametrize(
    ("word", "code", "text"),
    [
        (0x00000000, "TW1042", "is not an instruction"),
        (0xFFFFFFFF, "TW1042", "is not an instruction"),
        (0x0200207F | 1 << 20, "TW1043", "looks like dma.wait"),
        (0x04001067 | 1 << 7, "TW1043", "looks like delay"),
        (0x14002077 | 0b10 << 7, "TW1044", "register acc2"),
        (one("vpack.bf16.fp8 m8, m36, e3") | 1 << 18, "TW1044", "register e35"),
        (one("vadd.bf16 m63, m0, m2"), "TW1041", "m63 has no partner"),
    ],
)
def test_refused_words(word: int, code: str, text: str):
    good = one("nop")
    with pytest.raises(TilewrightError) as caught:
        decode(np.array([good, word], np.uint32), V1, "k.bin")
    assert caught.value.code == code
    assert text in caught.value.message
    assert "number 1, byte offset 0x4" in caught.value.message


def test_pairs_depend_on_the_profile():
    word = encode(assemble("vadd.bf16 m63, m63, m63", V0), V0)
    assert decode(word, V0)[0].operands == (63, 63, 63)
    with pytest.raises(TilewrightError, match="no partner"):
        encode(assemble("vadd.bf16 m63, m0, m2", V1), V1)
    with pytest.raises(TilewrightError, match="no partner"):
        decode(encode(assemble("vmatpop.bf16.acc.mxu0 m63, acc0", V0)), V0)


def test_fills_read_back_as_the_profile_means_them():
    word = encode(assemble("vli.all m0, -100", V0), V0)
    assert decode(word, V0)[0].operands == (0, -100)
    assert decode(word, V1)[0].operands == (0, 0xFF9C)
    pattern = assemble("vli.all m0, 0xC2C8", V1)
    assert decode(encode(pattern, V1), V1)[0].operands == (0, 0xC2C8)
    with pytest.raises(TilewrightError, match="imm is 49864, must be from -32768 to 32767"):
        encode(pattern, V0)


def test_numbers_without_a_word_are_refused():
    with pytest.raises(TilewrightError, match="cannot be encoded: imm is -1"):
        encode(assemble("delay -1", V1))
    bad = Program.from_instructions([Instruction.of("addi", 32, 0, 0)])
    with pytest.raises(TilewrightError, match="rd is 32"):
        encode(bad)
    odd = Program.from_instructions([Instruction.of("beq", 0, 0, 3)])
    with pytest.raises(TilewrightError, match="a multiple of 2"):
        encode(odd)
