"""The key=value form: records, spellings, round trips, mistakes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from program_strategies import programs, same

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.isa import OPCODES, RECORD_KEYS
from tilewright.targets.atlas.isa_reference import example
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text_isa import parse_text_isa, print_text_isa, record_of, spelling

V0 = load_profile("atlas-v0")


def rows(text: str) -> list[tuple]:
    return [(i.opcode.mnemonic, *i.operands) for i in parse_text_isa(text, V0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dma.load.ch<N> rd=4, rs1=1, rs2=7, size=0, channel=3", ("dma.load", 4, 1, 7, 3)),
        ("dma.load.ch5 rd=4, rs1=1, rs2=7", ("dma.load", 4, 1, 7, 5)),
        ("dma.load.ch5 channel=5", ("dma.load", 0, 0, 0, 5)),
        ("dma.wait.ch<N> channel=2", ("dma.wait", 2)),
        ("vload vd=1, rs1=4, imm12=32", ("vload", 1, 32, 4)),
        ("vload imm12=32, rs1=4, vd=1, base=77, offset=5", ("vload", 1, 32, 4)),
        ("vmatmul.mxu0", ("vmatmul.mxu0", 0, 0, 0)),
        ("vli.all vd=3, imm=-100", ("vli.all", 3, -100)),
        ("addi rd=1 rs1=2 imm=0x10", ("addi", 1, 2, 16)),
        ("ADDI RD=1, imm = -5", ("addi", 1, 0, -5)),
        ("addi rd=1, rs2=9, imm=1  # rs2 is not used", ("addi", 1, 0, 1)),
        ("bne rs1=1, rs2=0, imm=-1", ("bne", 1, 0, -4)),
        ("jal rd=1, imm=4", ("jal", 1, 16)),
        ("jalr rd=1, rs1=7, imm=6", ("jalr", 1, 7, 6)),
        ("vpack.bf16.fp8 vd=2, vs1=0, es1=4", ("vpack.bf16.fp8", 2, 0, 4)),
        ("vmatpop.fp8.acc.mxu0 vd=2, vs1=1", ("vmatpop.fp8.acc.mxu0", 2, 1, 0)),
        ("csrrw rd=1, rs1=0, imm=5", ("csrrw", 1, 0, 5)),
        ("seli rd=5, imm=1", ("seli", 5, 1)),
        ("sw rs1=2, rs2=3, imm=16", ("sw", 3, 16, 2)),
    ],
)
def test_one_line(text: str, expected: tuple):
    assert rows(text) == [expected]


def test_every_key_of_the_record_is_printed_in_order():
    program = assemble("dma.store.ch2 x1, x2, x3 ; vload m1, 32(x4) ; beq x1, x2, -8", V0)
    assert print_text_isa(program).splitlines() == [
        "dma.store.ch<N> rd=1, rs1=2, rs2=3, size=0, channel=2",
        "vload vd=1, vs1=0, vs2=0, rs1=4, rs2=0, es1=0, base=0, offset=0, imm12=32, imm=0",
        "beq rd=0, rs1=1, rs2=2, imm=-2",
    ]


def test_every_instruction_in_every_key_order():
    shuffler = random.Random(7)
    for row in OPCODES:
        instruction = example(row)
        program = Program.from_instructions([instruction])
        record = record_of(row, instruction.operands, Location(""))
        assert tuple(record) == RECORD_KEYS[row.record]
        orders = [list(record), sorted(record)]
        orders += [shuffler.sample(list(record), len(record)) for _ in range(4)]
        for order in orders:
            text = f"{spelling(row)} " + ", ".join(f"{key}={record[key]}" for key in order)
            assert same(parse_text_isa(text, V0), program), text


@settings(max_examples=50, deadline=None, derandomize=True)
@given(programs(data=False))
def test_parse_inverts_print(program: Program):
    text = print_text_isa(program)
    back = parse_text_isa(text, V0)
    assert same(back, program)
    assert back.lines.tolist() == list(range(1, len(program) + 1))
    assert print_text_isa(back) == text


MISTAKES = [
    ("addx rd=1", "TW1001 k.txt:1:1  there is no instruction 'addx'", "did you mean add?"),
    ("addi rd=1, vd=2", "TW1021 k.txt:1:12  addi has no key 'vd'", "the keys of its record are rd, rs1, rs2, imm"),
    ("addi rd=1, rd=2", "TW1022 k.txt:1:12  the key 'rd' is given twice", "keep one of them"),
    ("addi rd=32", "TW1005 k.txt:1:6  there is no register x32 for rd of addi", "registers are x0 to x31"),
    ("vload vd=64", "TW1005 k.txt:1:7  there is no register m64 for vd of vload", "registers are m0 to m63"),
    ("addi rd=one", "TW1014 k.txt:1:9  'one' is not an integer", None),
    ("addi rd=", "TW1020 k.txt:1:6  the value of 'rd' is missing", None),
    ("addi rd=1, imm=5000", "TW1006 k.txt:1:12  5000 is out of range for addi, which takes -2048 to 4095", "li loads any 32-bit number"),
    ("bne imm=2000", "TW1006 k.txt:1:5  the target is 8000 bytes away, bne reaches -4096 to 4094", "branch the other way around a jal to the target"),
    ("addi x1, x0, 5", "TW1020 k.txt:1:6  expected key=value, not 'x1'", "write addi key=value, … with keys rd, rs1, rs2, imm; assembly files end in .S"),
    ("dma.load.ch3 channel=4", "TW1024 k.txt:1:14  the name says channel 3, the key says 4", None),
    ("dma.wait.ch<N> channel=8", "TW1006 k.txt:1:16  8 is out of range for dma.wait, which takes 0 to 7", "there are eight DMA channels"),
    ("dma.load rd=2, base=111, size=4, flag=9", "TW1023 k.txt:1:1  'dma.load' belongs to the compiler's abstract notation, which no machine executes", "print the program in its native form, with registers and channels assigned"),
    ("matmul.mxu0 rd=1, rs1=2, rs2=3", "TW1023 k.txt:1:1  'matmul.mxu0' belongs to the compiler's abstract notation, which no machine executes", "print the program in its native form, with registers and channels assigned"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES, ids=[m[0][:24] for m in MISTAKES])
def test_mistakes(text: str, message: str, hint: str | None):
    with pytest.raises(TilewrightError) as caught:
        parse_text_isa(text, V0, "k.txt")
    assert str(caught.value) == message + (f"\n        hint: {hint}" if hint else "")


def test_what_the_form_cannot_hold_is_an_error():
    with pytest.raises(TilewrightError, match="not a whole number of instructions"):
        print_text_isa(assemble("beq x0, x0, 6", V0))
    with pytest.raises(TilewrightError, match="cannot hold data"):
        print_text_isa(assemble("nop\n.dram 0\n.byte 1", V0))
