"""`--fix`: the smallest waiting, in the right place, in the author's own text."""

from __future__ import annotations

import pytest
from machine_programs import random_program

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.lint.repair import Edits, Fixed, apply, fix
from tilewright.targets.atlas.lint.source import fixed_source
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text_isa import parse_text_isa

STEPS = 20_000  # far more than random programs that end run; those that do not are left soon

V0, V1 = load_profile("atlas-v0"), load_profile("atlas-v1")


def repaired(text: str) -> str:
    program = assemble(text, V1)
    result = fix(program, V1)
    assert result.after.clean, result.after.findings
    source, kept = fixed_source(text, program, result, V1)
    assert kept
    again = assemble(source, V1)
    assert again.same_code(result.program)
    assert lint(again, V1).clean
    return source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("vload m0, 0(x0)\nvadd.bf16 m2, m0, m4\n", "vload m0, 0(x0)\ndelay 32\nvadd.bf16 m2, m0, m4\n"),
        (
            "vload m0, 0(x0)\ndelay 2   # short\nvload m1, 0(x0)\n",
            "vload m0, 0(x0)\ndelay 32   # short\nvload m1, 0(x0)\n",
        ),
        ("lw x1, 0(x0)\naddi x2, x1, 1\n", "lw x1, 0(x0)\ndelay 0\naddi x2, x1, 1\n"),
        (
            "li x1, 1024\ndma.load.ch3 x0, x0, x1\nvload m0, 0(x0)\n",
            "li x1, 1024\ndma.load.ch3 x0, x0, x1\ndma.wait.ch3\nvload m0, 0(x0)\n",
        ),
        (
            "li x1, 1024\ndma.store.ch3 x0, x0, x1\n# the end\n",
            "li x1, 1024\ndma.store.ch3 x0, x0, x1\ndma.wait.ch3\n# the end\n",
        ),
        ("vli.all m0, 1\necall\nnop\nnop\n", "vli.all m0, 1\ndelay 62\necall\nnop\nnop\n"),
        (
            "li x1, 3\nloop: addi x1, x1, -1\nbne x1, x0, loop\nnop\n",
            "li x1, 3\nloop: addi x1, x1, -1\nbne x1, x0, loop\nnop\nnop\n",
        ),
    ],
)  # fmt: skip
def test_small_repairs(before: str, after: str) -> None:
    assert repaired(before).replace("    ", "") == after


def test_waiting_goes_before_the_label_when_only_the_entry_needs_it() -> None:
    text = """\
    li x5, 3            # count
    vload m0, 0(x0)     # entry
loop:                   # body
    vmatmul.mxu1 acc0, m0, w0
    addi x5, x5, -1
    bne  x5, x0, loop
    delay 31
    nop
"""
    assert repaired(text) == text.replace("loop:      ", "    delay 32\nloop:      ")


def test_waiting_goes_behind_the_label_when_the_way_back_needs_it() -> None:
    text = """\
    li x5, 3
loop: vload m0, 0(x0)   # body
    addi x5, x5, -1
    bne  x5, x0, loop
    addi x6, x6, 1
    addi x7, x7, 1
"""
    expected = text.replace("loop: vload", "loop:\n    delay 28\n    vload")
    assert repaired(text) == expected


def test_slots_grow_instead_of_being_pushed_out() -> None:
    text = """\
    li x5, 3
loop:
    addi x5, x5, -1
    bne  x5, x0, loop
    nop                 # slot
    vload m0, 0(x0)
"""
    assert repaired(text) == text.replace("nop   ", "delay 30   ")


def test_a_slot_without_room_waits_before_the_branch() -> None:
    text = "vload m0, 0(x0)\nbeq x0, x0, 12\nvload m1, 0(x0)\nnop\nnop\n"
    assert repaired(text).split("\n")[1].strip() == "delay 31"


def test_between_two_slots_there_is_no_place() -> None:
    text = "beq x0, x0, 12\nvload m1, 0(x0)\nvload m2, 0(x0)\nnop\n"
    result = fix(assemble(text, V1), V1)
    assert [f.code for f in result.after.errors] == ["TW2001"]
    assert result.program.same_code(assemble(text, V1))


def test_what_has_no_place_does_not_hide_what_has() -> None:
    """The wait the second slot lacks cannot be inserted; the hazard behind it still is cured."""
    text = """\
    li x1, 64
    beq x0, x0, 12
    dma.store.ch1 x0, x0, x1
    addi x0, x1, 0
    dma.store.ch0 x0, x0, x1
    dma.wait.ch0
"""
    changed = text.replace("addi x0", "addi x1")
    assert fix(assemble(text, V1), V1).after.clean
    result = fix(assemble(changed, V1), V1)
    assert [f.code for f in result.after.errors] == ["TW2009"]
    assert "both stand in the delay slots" in str(result.after.errors[0].hint)
    assert len(result.program) == len(assemble(text, V1)) + 1


def test_a_jump_that_needs_waiting_twice() -> None:
    """Waiting before the branch changes how much its target lacks on the way of the jump."""
    text = """\
    li x3, 1
    vload m0, 32(x0)
    bne x3, x0, over
    vadd.bf16 m8, m10, m8
    sw x3, 4(x0)
    nop
over:
    vmatpush.weight.mxu0 w0, m8
    vmatmul.mxu0 acc0, m0, w0
"""
    lines = [line.strip() for line in repaired(text).split("\n")]
    assert lines[2] == "delay 30"  # before the branch: the LSU is busy for the store
    assert lines[lines.index("over:") + 1] == "delay 63"


def test_numeric_offsets_and_labels_follow() -> None:
    text = """\
    li x5, 2
    addi x5, x5, -1
    vload m0, 0(x0)
    vadd.bf16 m2, m0, m4    # inserted before this
    bne  x5, x0, -12        # a number
    delay 70
    nop
end:
"""
    result = repaired(text)
    assert "bne  x5, x0, -16        # a number" in result


def test_what_waiting_cannot_cure_is_left() -> None:
    result = fix(assemble("vadd.bf16 m63, m0, m2\nvload m0, 0(x0)\nvload m1, 0(x0)", V1), V1)
    assert [f.code for f in result.after.errors] == ["TW2021"]
    assert len(result.program) == 4


def test_programs_that_compute_jumps_are_not_moved() -> None:
    text = "li x1, 20\njalr x0, x1, 0\nnop\nnop\nnop\nvload m0, 0(x0)\nvload m1, 0(x0)"
    result = fix(assemble(text, V1), V1)
    assert result.frozen
    assert result.program.same_code(assemble(text, V1))


def test_silent_order_on_v0() -> None:
    text = "vmatmul.mxu0 vd=0, vs1=0, vs2=0\nvmatpop.fp8.acc.mxu0 vd=2, vs1=0"
    result = fix(parse_text_isa(text, V0), V0)
    assert result.after.clean
    assert result.program[1].operands == (14,)  # the smallest delay


def test_data_and_labels_stay() -> None:
    text = "a:\nvload m0, 0(x0)\nb:\nvload m1, 0(x0)\n.dram 64\n.word 7\n"
    result = fix(assemble(text, V1), V1)
    assert result.program.labels == {"a": 0, "b": 2}
    assert result.program.data == assemble(text, V1).data


def one_tick_less(program: Program, result: Fixed) -> list[Program]:
    """The repaired program with one tick, or one wait, of the repair taken away."""
    fewer = []
    for name in ("falling", "shared"):
        for index, pause in getattr(result.edits, name).items():
            if pause.ticks:
                pause.ticks -= 1
                fewer.append(apply(program, result.edits))
                pause.ticks += 1
            for channel in sorted(pause.waits):
                pause.waits.remove(channel)
                fewer.append(apply(program, result.edits))
                pause.waits.add(channel)
            assert index <= len(program)
    for index in result.edits.longer:
        result.edits.longer[index] -= 1
        fewer.append(apply(program, result.edits))
        result.edits.longer[index] += 1
    return fewer


@pytest.mark.parametrize("profile", [V0, V1], ids=["v0", "v1"])
def test_random_repairs_are_clean_and_minimal(profile: Profile) -> None:
    tried = 0
    for seed in range(400, 520):
        program = random_program(seed, profile, size=25)
        result = fix(program, profile, STEPS)
        if not result.edits or not result.after.clean:
            continue
        assert result.minimal
        for shorter in one_tick_less(program, result):
            tried += 1
            assert not lint(shorter, profile, STEPS).clean, seed
    assert tried > 5


def test_nothing_to_do() -> None:
    program = assemble("nop", V1)
    result = fix(program, V1)
    assert result.program is program
    assert result.edits == Edits()
