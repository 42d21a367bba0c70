"""The cycle model against measured programs, and against the table it was made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coral_programs import MPAUSE, addi, csrrs, lui, lw, machine, sw, vsetvli

from tilewright.targets.coral.machines import MACHINES
from tilewright.targets.coral.simulator import CoralSimulator
from tilewright.targets.coral.toolchain import compile_c, toolchain_missing

SOURCE = (Path(__file__).parent / "calibration.c").read_text()
GRAY = """
#define DTCM_IO __attribute__((section(".data"), aligned(16), used))
float input_0[48] DTCM_IO, output_0[16] DTCM_IO;
static const float w[3] __attribute__((aligned(16))) = {0.299f, 0.587f, 0.114f};
int main(void) {
  for (int p = 0; p < 16; ++p) {
    float acc = 0.0f;
    for (int ch = 0; ch < 3; ++ch) acc += input_0[ch * 16 + p] * w[ch];
    output_0[p] = acc;
  }
  return 0;
}
"""
# kind, more flags, instructions, measured cycles, tolerance
POINTS = [
    (0, (), 88_512, 150_248, 0.03),
    (1, (), 88_527, 138_199, 0.03),
    (1, ("-fvectorize",), 25_249, 42_858, 0.03),
    (2, (), 2_618, 5_150, 0.03),
    (3, (), 70, 370, 0.10),
    (4, (), 143, 306, 0.10),
    (5, (), 736, 1_079, 0.10),
]


@pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
@pytest.mark.parametrize(("kind", "flags", "instructions", "cycles", "tolerance"), POINTS)
def test_measured_programs(kind, flags, instructions, cycles, tolerance):
    types = ("float", "float") if kind == 0 else ("int8_t", "int32_t")
    defines = (f"-DKIND={kind}", f"-DTI={types[0]}", f"-DTO={types[1]}")
    build = compile_c(SOURCE, MACHINES["coral"], flags=(*defines, *flags))
    simulator = CoralSimulator.load(build.elf)
    rng = np.random.default_rng(kind)
    a, b = rng.integers(-128, 128, (16, 48)), rng.integers(-128, 128, (48, 16))
    element = np.float32 if kind == 0 else np.int8
    for name, array in (("input_0", a), ("input_1", b)):
        if name in simulator.elf.symbols:
            simulator.write(name, array.astype(element))
    outcome = simulator.run()
    assert outcome.ok and outcome.region_instructions == instructions
    assert outcome.region_cycles == pytest.approx(cycles, rel=tolerance)
    if kind < 3:
        got = simulator.read("output_0", np.float32 if kind == 0 else np.int32, (16, 16))
        assert np.array_equal(got, a @ b)


@pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
def test_grayscale_point():
    simulator = CoralSimulator.load(compile_c(GRAY, MACHINES["coral"]).elf)
    symbols = simulator.elf.symbols
    assert [symbols[n].address for n in ("main", "input_0", "output_0", "_ret", "__stack_top")] == [
        *(0xE0, 0x10000, 0x100C0, 0x10100, 0x10910)
    ]
    simulator.write("input_0", (np.arange(48) / 16).astype(np.float32))
    outcome = simulator.run()
    assert outcome.region_instructions == 229
    assert outcome.region_cycles == pytest.approx(367, rel=0.1)
    words = simulator.read("output_0", np.uint32)
    assert [f"{w:08x}" for w in words[:4]] == ["3f50a3d7", "3f60a3d7", "3f70a3d6", "3f8051ec"]


def per_copy(word: int, *before: int, count: int = 64) -> float:
    """Cycles of each of many copies in a row, between two reads of the counter."""
    made = machine(
        lui(5, 0x10000), *before, csrrs(6, 0xB00), *[word] * count, csrrs(7, 0xB00), MPAUSE
    )
    made.write(0x10000, bytes(4096))
    made.run(10_000)
    assert made.fault is None
    return (made.x[7] - made.x[6]) / count


def test_the_table():
    assert per_copy(addi(10, 11, 1)) == pytest.approx(0.5, abs=0.2)
    assert per_copy(addi(10, 10, 1)) == pytest.approx(1, abs=0.2)
    assert per_copy(0x02B58533) == pytest.approx(1, abs=0.2)  # mul a0, a1, a1
    assert per_copy(0x02A50533) == pytest.approx(2, abs=0.2)  # mul a0, a0, a0
    assert per_copy(lw(10, 5)) == pytest.approx(4, abs=0.2)
    assert per_copy(sw(10, 5)) == pytest.approx(2, abs=0.2)
    assert per_copy(0x00B57553) == pytest.approx(2, abs=0.2)  # fadd.s
    assert per_copy(0x18B57553) == pytest.approx(19, abs=0.5)  # fdiv.s
    length = addi(11, 0, 64)
    for field, vadd, vle in ((0, 0.75, 5), (1, 1, 9), (2, 2, 17), (3, 4, 33)):
        setting = (length if field < 3 else addi(11, 0, 128), vsetvli(0, 11, field))
        assert per_copy(0x03080457, *setting) == pytest.approx(
            vadd, abs=0.3
        )  # vadd.vv v8, v16, v16
        assert per_copy(0x02028407, *setting) == pytest.approx(vle, abs=0.3)  # vle8.v v8, (t0)
    strided = 0x0AB28407  # vlse8.v v8, (t0), a1: the stride is a1
    for stride, cycles in ((2, 6), (4, 8), (8, 12), (16, 20)):
        setting = (addi(11, 0, 16), vsetvli(0, 11, 0), addi(11, 0, stride))
        assert per_copy(strided, *setting) == pytest.approx(cycles, abs=0.3)
