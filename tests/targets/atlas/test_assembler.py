"""Assembly text: syntax, expansion, layout, data, and the mistakes it reports."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError, TilewrightErrors
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.assembly.data import FLOATS
from tilewright.targets.atlas.assembly.pseudo import PSEUDO
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Data

V1 = load_profile("atlas-v1")
V0 = load_profile("atlas-v0")


def rows(text: str, profile=V1) -> list[tuple]:
    return [(i.opcode.mnemonic, *i.operands) for i in assemble(text, profile)]


# --- instructions and pseudo instructions ---------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("li x5, 42", [("addi", 5, 0, 42)]),
        ("li x5, 0x12345678", [("lui", 5, 0x12345), ("addi", 5, 5, 0x678)]),
        ("li x5, 0x12345FFF", [("lui", 5, 0x12346), ("addi", 5, 5, -1)]),
        ("li x5, 0x40000", [("lui", 5, 0x40)]),
        ("li t0, -2048", [("addi", 5, 0, -2048)]),
        ("li t0, 2048", [("lui", 5, 1), ("addi", 5, 5, -2048)]),
        ("li x5, 0xFFFFFFFF", [("addi", 5, 0, -1)]),
        ("li x5, -0x80000000", [("lui", 5, 0x80000)]),
        ("li x5, 0x7FFFFFFF", [("lui", 5, 0x80000), ("addi", 5, 5, -1)]),
        ("nop", [("addi", 0, 0, 0)]),
        ("mv a0, sp", [("addi", 10, 2, 0)]),
        ("not x1, x2", [("xori", 1, 2, -1)]),
        ("neg x1, x2", [("sub", 1, 0, 2)]),
        ("seqz x1, x2", [("sltiu", 1, 2, 1)]),
        ("snez x1, x2", [("sltu", 1, 0, 2)]),
        ("bgtz x1, 8", [("blt", 0, 1, 8)]),
        ("blez x1, 8", [("bge", 0, 1, 8)]),
        ("bgt x1, x2, 8", [("blt", 2, 1, 8)]),
        ("bleu x1, x2, 8", [("bgeu", 2, 1, 8)]),
        ("j -8", [("jal", 0, -8)]),
        ("jal 16", [("jal", 1, 16)]),
        ("jr ra", [("jalr", 0, 1, 0)]),
        ("jalr t0", [("jalr", 1, 5, 0)]),
        ("jalr x1, -4(x5)", [("jalr", 1, 5, -4)]),
        ("ret", [("jalr", 0, 1, 8)]),
        ("csrr x1, 0xC00", [("csrrs", 1, 0, 0xC00)]),
        ("csrrwi x1, 3, 5", [("csrrwi", 1, 3, 5)]),
        ("csrrwi x1, x3, 5", [("csrrwi", 1, 3, 5)]),
        ("lui x6, -1", [("lui", 6, -1)]),
        ("addi x1, x0, 4095", [("addi", 1, 0, 4095)]),
        ("lw x1, (x2)", [("lw", 1, 0, 2)]),
        ("lw x1, -4(sp)", [("lw", 1, -4, 2)]),
        ("sw a0, 2*4 + 1 (fp)", [("sw", 10, 9, 8)]),
        ("vload m0, 32(x1)", [("vload", 0, 32, 1)]),
        ("VADD.BF16 M1 m2\tm3", [("vadd.bf16", 1, 2, 3)]),
        ("dma.load.ch3 x1, x2, x3", [("dma.load", 1, 2, 3, 3)]),
        ("DMA.Wait.CH7", [("dma.wait", 7)]),
        ("vmatpop.fp8.acc.mxu1 m1, acc1, e2", [("vmatpop.fp8.acc.mxu1", 1, 1, 2)]),
        ("delay 0x10", [("delay", 16)]),
        ("delay 0b11 ; delay 0o17", [("delay", 3), ("delay", 15)]),
        ("addi x1 x0 -1", [("addi", 1, 0, -1)]),
        ("vli.all m0, 0xFF80", [("vli.all", 0, 0xFF80)]),
    ],
)
def test_one_line(text: str, expected: list[tuple]):
    assert rows(text) == expected


def test_every_pseudo_instruction_is_its_expansion():
    for pseudo in PSEUDO.values():
        letters = {"D": "x5", "A": "x6", "B": "x7", "T": "8", "N": "12"}
        written = f"{pseudo.name} {', '.join(letters[x] for x in pseudo.operands)}"
        name, _, operands = pseudo.expansion.partition(" ")
        for shown, value in zip(("xD", "xA", "xB", "target", "csr"), letters.values(), strict=True):
            operands = operands.replace(shown, value)
        expansion = f"{name} {operands}"
        assert rows(written) == rows(expansion), pseudo.name


def test_scale_of_the_fp8_pop_may_be_left_out_where_it_is_not_used():
    assert rows("vmatpop.fp8.acc.mxu0 m1, acc0", V0) == [("vmatpop.fp8.acc.mxu0", 1, 0, 0)]
    with pytest.raises(TilewrightError, match="more operands"):
        assemble("vmatpop.fp8.acc.mxu0 m1, acc0", V1)


def test_call_and_ret_need_byte_addresses():
    with pytest.raises(TilewrightError, match="does not work on atlas-v0"):
        assemble("ret", V0)


# --- labels, constants, expressions ---------------------------------------------------


def test_labels_and_offsets():
    program = assemble(
        """
        start:  li x2, 0x12345678   # two words
        loop:
            addi x1, x1, -1
            bne x1, x0, loop        // back one
            beq x0, x0, end
            nop
            nop
        end:
        """,
        V1,
        "k.S",
    )
    assert program.labels == {"start": 0, "loop": 2, "end": 7}
    assert program[3].operands == (1, 0, -4)
    assert program[4].operands == (0, 0, 12)
    assert program.lines.tolist() == [2, 2, 4, 5, 6, 7, 8]
    assert str(program.location(3)) == "k.S:5"


def test_backward_branch_over_three_instructions():
    assert rows("a:\nnop\nnop\nnop\nbeq x0, x0, a")[-1] == ("beq", 0, 0, -12)


def test_branch_to_label_arithmetic_and_here():
    assert rows("a: nop\nbeq x0, x0, a + 8")[-1] == ("beq", 0, 0, 4)
    assert rows("nop\nbeq x0, x0, . + 8")[-1] == ("beq", 0, 0, 8)
    assert rows("a: nop\nb: beq x0, x0, b - a")[-1] == ("beq", 0, 0, 4)


def test_label_addresses_count_in_the_profile_but_offsets_in_bytes():
    text = "nop\nli x1, here\nhere: jr x1\nnop\nnop\nj here"
    assert rows(text, V1)[1] == ("addi", 1, 0, 8)
    assert rows(text, V0)[1] == ("addi", 1, 0, 2)
    assert rows(text, V1)[-1] == rows(text, V0)[-1] == ("jal", 0, -12)


def test_loads_of_labels_grow_only_when_they_must():
    near = "li x1, end\n" + "nop\n" * 100 + "end:"
    assert rows(near)[0] == ("addi", 1, 0, 404)
    far = "li x1, end\n" + "nop\n" * 1000 + "end:"
    # With two words the label is at 4008.
    assert rows(far)[:2] == [("lui", 1, 1), ("addi", 1, 1, 4008 - 4096)]
    program = assemble(far, V1)
    assert program.labels["end"] == len(program) == 1002
    assert rows(far)[2:] == [("addi", 0, 0, 0)] * 1000
    assert program.lines.tolist() == [1, 1, *range(2, 1002)]


def test_constants_and_expressions():
    text = """
        .equ TILE, 1024
        .equ TWICE = TILE * 2
        .equ SIZE, end - start       # labels further down
        li x1, TWICE + (3 << 2) - ~0 & 0xFFF
        addi x2, x0, -7 / 2
        addi x3, x0, -7 % 3
        lui x4, %hi(0x12345FFF)
        addi x4, x4, %lo(0x12345FFF)
    start:
        addi x5, x0, SIZE
    end:
        andi x6, x6, 1 | 6 ^ 2
    """
    values = rows(text)
    assert values[:2] == [("lui", 1, 1), ("addi", 1, 1, 2061 - 4096)]
    assert values[-6:] == [
        ("addi", 2, 0, -3),
        ("addi", 3, 0, -1),
        ("lui", 4, 0x12346),
        ("addi", 4, 4, -1),
        ("addi", 5, 0, 4),
        ("andi", 6, 6, 5),
    ]


def test_repeated_lines_mean_what_they_mean_where_they_stand():
    text = ".equ N, 4\n" + "addi x1, x0, N*2\nj . + N\nli x2, .\n" * 2
    assert rows(text) == [
        *(("addi", 1, 0, 8), ("jal", 0, 4), ("addi", 2, 0, 8)),
        *(("addi", 1, 0, 8), ("jal", 0, 4), ("addi", 2, 0, 20)),
    ]
    assert assemble(text, V1).lines.tolist() == [2, 3, 4, 5, 6, 7]


def test_commas_stand_between_operands_only():
    for text in ("addi x1,x2,3", "addi x1 , x2 , 3", "addi x1 x2,3", "addi\tx1, x2 3"):
        assert rows(text) == [("addi", 1, 2, 3)]
    for text in ("addi ,x1,x2,3", "addi, x1, x2, 3", "addi x1,x2,3,", "addi x1,,x2 3", ",", "nop,"):
        with pytest.raises(TilewrightError):
            assemble(text, V1)


def test_comments_of_all_kinds():
    text = "nop # one, two,\nnop // three ;\n/* four\n, five */ nop\n# /* not open\nnop"
    program = assemble(text, V1)
    assert program.lines.tolist() == [1, 2, 4, 6]


def test_line_ends_of_other_systems():
    assert assemble("nop\r\nnop\r\n", V1).lines.tolist() == [1, 2]
    assert assemble("nop\rnop", V1).lines.tolist() == [1, 2]


# --- data -----------------------------------------------------------------------------


def test_data_directives():
    program = assemble(
        """
            li x1, weights
        .dram 0x100
        weights:
            .byte 1, 2, -1
            .half 0x1234
            .balign 8
            .word 0xDEADBEEF, -1
            .bf16 1.0, -inf, 3, 1e-3
            .fp8 1.0, -448, 0.0625
            .float 0.1
            .zero 3
            .fill 2, 0xAB
        .vmem 64
        bias: .dword 5
            li x2, bias + 4
        """,
        V1,
    )
    expected = bytes([1, 2, 255, 0x34, 0x12, 0, 0, 0]) + bytes.fromhex("efbeadde ffffffff")
    expected += bytes.fromhex("803f 80ff 4040 833a") + bytes.fromhex("38 fe 18")
    expected += bytes.fromhex("cdcccc3d") + bytes(3) + b"\xab\xab"
    assert program.data == [
        Data("dram", 0x100, expected),
        Data("vmem", 64, (5).to_bytes(8, "little")),
    ]
    assert [i.operands for i in program] == [(1, 0, 0x100), (2, 0, 68)]
    assert program.labels == {}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=8),
    st.sampled_from([".bf16", ".fp8", ".float"]),
)
def test_fractions_round_to_the_nearest_even(values: list[float], directive: str):
    dtype, largest = FLOATS[directive]
    values = [math.copysign(min(abs(v), largest), v) for v in values]
    listed = ", ".join(map(repr, values))
    (block,) = assemble(f".dram 0\n{directive} {listed}", V1).data
    patterns = np.frombuffer(block.bytes, dtype)
    width = dtype.itemsize
    if directive == ".float":
        assert patterns.tolist() == [float(np.float32(value)) for value in values]
        return
    with np.errstate(invalid="ignore"):
        grid = np.arange(1 << 8 * width, dtype=f"u{width}").view(dtype).astype(np.float64)
    grid = grid[np.isfinite(grid)]
    for value, pattern in zip(values, patterns, strict=True):
        got = float(pattern)
        distance = np.abs(grid - value)
        assert abs(got - value) == distance.min()
        if (distance == distance.min()).sum() > 1 and got != 0:  # a tie
            assert pattern.view(f"u{width}") % 2 == 0


def test_ties_are_not_decided_by_an_earlier_rounding():
    """1 + 2^-8 + 2^-40 is above the middle of two bf16 numbers, but not as fp32."""
    text = f".dram 0\n.bf16 {1 + 2**-8 + 2**-40!r}, {1 + 2**-8!r}"
    (block,) = assemble(text, V1).data
    assert block.bytes == bytes.fromhex("813f 803f")


def test_data_lines_read_in_one_go_mean_the_same():
    plain = ".dram 0\nhere: .zero 0\n.byte 1, -2, 0xFF\n.half 7\n.bf16 1.5, -inf, 3, nan\n.fp8 2\n.float 1e-3"
    careful = (
        plain.replace(", ", " , (0) + ").replace("(0) + -inf", "-inf").replace("(0) + nan", "nan")
    )
    careful = (
        careful.replace("1.5", "+1.5").replace(".half 7", ".half 7 ; ").replace("fp8 2", "fp8 1+1")
    )
    assert assemble(careful, V1).data == assemble(plain, V1).data


def test_label_before_a_placement_names_code():
    program = assemble("nop\nend:\n.dram 0\n.byte 1", V1)
    assert program.labels == {"end": 1}


# --- mistakes -------------------------------------------------------------------------

MISTAKES = [
    ("addx x1, x2", "TW1001 k.S:1:1  there is no instruction 'addx'", "did you mean add?"),
    ("vadd.bf1 m1, m2, m3", "TW1001 k.S:1:1  there is no instruction 'vadd.bf1'", "did you mean vadd.bf16?"),
    ("dma.load x1, x2, x3", "TW1001 k.S:1:1  there is no instruction 'dma.load'", "name a channel: dma.load.ch0 to dma.load.ch7"),
    ("dma.wait.ch8", "TW1001 k.S:1:1  there is no instruction 'dma.wait.ch8'", "channels are .ch0 to .ch7"),
    ("addi x1, x2, 5000", "TW1006 k.S:1:14  5000 is out of range for addi, which takes -2048 to 4095", "li loads any 32-bit number"),
    ("addi x1, x32, 0", "TW1005 k.S:1:10  there is no register x32", "registers are x0 to x31"),
    ("vmatmul.mxu0 acc2, m0, w0", "TW1005 k.S:1:14  there is no register acc2", "registers are acc0 to acc1"),
    ("vadd.bf16 m1, x2, m3", "TW1003 k.S:1:15  vadd.bf16 takes a tensor register (m0 to m63) here, not x2", "write vadd.bf16 mD, mA, mB"),
    ("addi x1, x2", "TW1004 k.S:1:12  addi needs more operands", "write addi xD, xA, imm"),
    ("addi x1, x2, 3, 4", "TW1004 k.S:1:15  unexpected ',' after the operands of addi", "write addi xD, xA, imm"),
    ("addi x1, x2, x3", "TW1003 k.S:1:14  addi takes a number here, not the register x3", "write addi xD, xA, imm"),
    ("beq x1, x2, 3", "TW1007 k.S:1:13  the offset 3 of beq is odd", "instructions are 4 bytes each"),
    ("beq x1, x2, 4096", "TW1006 k.S:1:13  the target is 4096 bytes away, beq reaches -4096 to 4094", "branch the other way around a jal to the target"),
    ("beq x1, x2, lop\nloop:", "TW1009 k.S:1:13  'lop' is not defined", "did you mean 'loop'?"),
    ("a:\nnop\na:", "TW1008 k.S:3:1  'a' is defined twice", "the first definition is in line 1"),
    ("vload m0, -1(x0)", "TW1006 k.S:1:11  -1 is out of range for vload, which takes 0 to 4095", "tensor offsets count 32-byte rows and are not negative"),
    ("vli.row m0, 40000", "TW1006 k.S:1:13  40000 is out of range for vli.row, which takes -32768 to 32767", "the number is an integer; only vli.all takes a bit pattern"),
    ("lw x1, 4", "TW1004 k.S:1:9  lw needs a base register", "write lw xD, imm(xA)"),
    ("addi x1,, x2, 3", "TW1002 k.S:1:9  an operand is missing after the comma", "addi xD, xA, imm"),
    ("nop ; add one", "TW1003 k.S:1:11  add takes a scalar register (x0 to x31) here, not 'one'", "write add xD, xA, xB"),
    ("nop ; increments", "TW1001 k.S:1:7  there is no instruction 'increments'", "; separates instructions, comments start with #"),
    ("slli x1, x1, 32", "TW1006 k.S:1:14  32 is out of range for slli, which takes 0 to 31", "registers have 32 bits"),
    ("li x1, 0x100000000", "TW1006 k.S:1:8  4294967296 does not fit into 32 bits", "li loads 32-bit numbers"),
    ("addi x1, x0, 010", "TW1014 k.S:1:14  010 is not a number", "write 10 or, for octal, 0o10"),
    ("addi x1, x0, 0xZZ", "TW1014 k.S:1:14  0xZZ is not a number", "write 12, 0x1F, 0b101 or 0o17"),
    ("li x1, 4 / (2 - 2)", "TW1010 k.S:1:10  division by zero", None),
    ("li x1, 1 << 99", "TW1010 k.S:1:10  the shift amount 99 is not from 0 to 63", None),
    (".equ A, B\n.equ B, A\nli x1, A", "TW1010 k.S:2:9  'A' is defined through itself, or through too many others", None),
    ("sp: nop", "TW1017 k.S:1:1  'sp' is the name of a register, it cannot be a label or constant", "names are letters, digits, _ and . and do not start with a digit"),
    (".byte 1", "TW1012 k.S:1:7  there is no place for this data yet", "put .dram ADDRESS or .vmem ADDRESS on a line before it"),
    (".vmem 0xFFFFF\n.half 1", "TW1013 k.S:2:7  address 0x100000 is outside the 0x100000 bytes of vmem on atlas-v1", None),
    (".dram 0\n.word 1\n.dram 3\n.byte 1", "TW1013 k.S:3:1  the data at dram address 0x3 overlaps other data", "the other data is placed in line 1"),
    (".dram 0\n.byte 256", "TW1006 k.S:2:7  256 does not fit into 1 bytes", "-128 to 255"),
    (".dram 0\n.fp8 449.0", "TW1006 k.S:2:6  449 does not fit .fp8", "the largest is 448"),
    (".wrod 1", "TW1011 k.S:1:1  there is no directive .wrod", "did you mean .word?"),
    ("addi rd=1, imm=2", "TW1003 k.S:1:6  addi takes a scalar register (x0 to x31) here, not 'rd'", "this looks like the key=value text form; such files end in .txt"),
    ("/* open", "TW1002 k.S:1:1  the comment /* is never closed", "end it with */"),
    ("nop\nnop €", "TW1002 k.S:2:5  unexpected character '€'", "comments start with #"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES, ids=[m[0][:24] for m in MISTAKES])
def test_mistakes(text: str, message: str, hint: str | None):
    with pytest.raises(TilewrightError) as caught:
        assemble(text, V1, "k.S")
    assert str(caught.value) == message + (f"\n        hint: {hint}" if hint else "")


def test_several_mistakes_are_reported_in_order_up_to_a_limit():
    with pytest.raises(TilewrightErrors) as caught:
        assemble("beq x0, x0, gone\nnop\naddx\nvload m64, 0(x0)", V1, "k.S")
    assert [(e.code, e.location.line) for e in caught.value.errors if e.location] == [
        ("TW1009", 1),
        ("TW1001", 3),
        ("TW1005", 4),
    ]
    with pytest.raises(TilewrightErrors) as caught:
        assemble("addx\n" * 1000, V1, "k.S")
    assert len(caught.value.errors) == 20
    assert str(caught.value).endswith("stopped after 20 mistakes")


def test_hostile_expressions_end_quickly():
    for text in (
        "li x1, " + "(" * 5000,
        "li x1, " + "-" * 5000 + "1",
        "li x1, " + "~(" * 3000,
        "li x1, 1" + "*99999999" * 3000,
        "li x1, " + "9" * 60000,
        "li x1, 0x" + "f" * 60000,
        "\n".join(f".equ a{i + 1}, a{i} + a{i}" for i in range(60)) + "\n.equ a0, z\nz: li x1, a60",
        "x" * 100000,
    ):
        with pytest.raises(TilewrightError):
            assemble(text, V1)
    assert rows("li x1, 1" + "+1" * 3000)[0] == ("lui", 1, 1)
