"""The core by hand: faults, traps, bounds, counters, control registers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from coral_programs import (
    EBREAK,
    ECALL,
    MPAUSE,
    NOP,
    WFI,
    addi,
    beq,
    csrrs,
    csrrw,
    jal,
    jalr,
    lui,
    lw,
    machine,
    ran,
    sw,
    vsetvli,
)

DATA = 0x10000


def kind(done) -> str | None:
    """What ended a run, if not the program."""
    return done.fault[0] if done.fault else None


MODES = [{"timing": False}, {"timing": True}]


@pytest.mark.parametrize("mode", MODES)
def test_halts_are_told_apart(mode):
    done = ran(addi(5, 0, 7), MPAUSE, **mode)
    assert done.halted and done.fault is None and done.x[5] == 7 and done.instructions == 2
    broken = ran(EBREAK, **mode)
    assert broken.halted and broken.fault == ("ebreak", 0, 0) and broken.instructions == 0
    assert ran(WFI, **mode).fault == ("wfi", 0, 0)
    assert ran(NOP, ECALL, **mode).fault == ("ecall", 4, 0)
    assert ran(jal(0, 0), limit=50, **mode).fault == ("max_instructions", 0, 0)


@pytest.mark.parametrize("mode", MODES)
def test_bounds_are_exact(mode):
    end = DATA + 0x8000
    for offset, inside in ((-4, True), (-3, False), (-1, False), (0, False)):
        load = ran(lui(5, end), lw(6, 5, offset), MPAUSE, **mode)
        store = ran(lui(5, end), sw(0, 5, offset), MPAUSE, **mode)
        address = end + offset
        assert load.fault == (None if inside else ("load_bounds", 4, address))
        assert store.fault == (None if inside else ("store_bounds", 4, address))
    below = ran(lui(5, DATA), lw(6, 5, -1), MPAUSE, **mode)
    assert below.fault == ("load_bounds", 4, DATA - 1)
    # Instruction memory can be read, not written.
    assert ran(lw(6, 0, 0), MPAUSE, **mode).x[6] == lw(6, 0, 0)
    assert ran(sw(0, 0, 64), MPAUSE, **mode).fault == ("store_bounds", 0, 64)
    # The host's window and holes answer nothing.
    assert ran(lui(5, 0x30000), lw(6, 5, 0), **mode).fault == ("load_bounds", 4, 0x30000)
    # Misaligned data works.
    assert (
        ran(lui(5, DATA), addi(6, 0, -1), sw(6, 5, 3), lw(7, 5, 2), MPAUSE, **mode).x[7]
        == 0xFFFFFF00
    )


@pytest.mark.parametrize("mode", MODES)
def test_fetch(mode):
    assert ran(lui(5, DATA), jalr(0, 5), **mode).fault == ("fetch_bounds", DATA, DATA)
    assert ran(jalr(1, 0, 6), **mode).fault == ("misaligned_fetch", 0, 6)
    assert ran(jalr(1, 0, 6), **mode).x[1] == 0
    assert ran(beq(0, 0, 6), **mode).fault == ("misaligned_fetch", 0, 6)
    assert ran(jal(0, 6), **mode).fault == ("misaligned_fetch", 0, 6)
    # What was never loaded is zero, which is no instruction.
    assert ran(NOP, **mode).fault == ("illegal", 4, 0)
    assert ran(jal(0, 4096), **mode).fault == ("illegal", 4096, 0)
    assert ran(jal(0, -8), **mode).fault == ("fetch_bounds", 0xFFFFFFF8, 0xFFFFFFF8)
    whole = [NOP] * 2048
    assert ran(*whole, **mode).fault == ("fetch_bounds", 8192, 8192)


@pytest.mark.parametrize("mode", MODES)
def test_traps_can_be_vectored(mode):
    handler = [csrrs(10, 0x342), csrrs(11, 0x341), csrrs(12, 0x343), MPAUSE]
    words = [addi(5, 0, 64), csrrw(0, 0x305, 5), 0xFFFFFFFF]
    words += [NOP] * (16 - len(words)) + handler
    done = ran(*words, vector_traps=True, **mode)
    assert done.halted and done.x[10:13] == [2, 8, 0xFFFFFFFF]
    # A handler that faults itself ends by the limit, not never.
    assert kind(ran(0xFFFFFFFF, vector_traps=True, limit=1000, **mode)) == "max_instructions"
    assert ran(EBREAK, vector_traps=True, **mode).fault == ("ebreak", 0, 0)


def test_control_registers():
    assert ran(csrrs(5, 0x301), MPAUSE).x[5] == 0x40201120
    assert ran(csrrs(5, 0xC22), MPAUSE).x[5] == 16
    assert ran(csrrs(5, 0xFC0), MPAUSE).x[5] == 0
    assert ran(addi(6, 0, 5), csrrw(0, 0x7C3, 6), csrrs(5, 0x7C3), MPAUSE).x[5] == 5
    for number in (0xC00, 0xC02, 0xF14, 0x344, 0x180):
        assert kind(ran(csrrs(5, number), MPAUSE)) == "illegal"
    assert kind(ran(csrrw(0, 0xC22, 5), MPAUSE)) == "illegal"
    assert ran(NOP, NOP, csrrs(5, 0xB02), MPAUSE).x[5] == 2
    # Without the cycle model cycles are instructions.
    assert ran(NOP, NOP, csrrs(5, 0xB00), MPAUSE, timing=False).x[5] == 2


def test_what_the_machine_lacks_is_illegal():
    sh2add, vfadd, vadd = 0x2062C333 & 0xFFFFFFFF, 0x02009057 | 2 << 20, 0x02008057 | 2 << 20
    setting = [addi(5, 0, 4), vsetvli(6, 5, 0xD0)]
    assert kind(ran(sh2add, MPAUSE)) == "illegal"
    assert ran(sh2add, MPAUSE, zba=True).fault is None
    assert ran(*setting, vfadd, MPAUSE).fault == ("illegal", 8, vfadd)
    assert ran(*setting, vfadd, MPAUSE, vector_float=True).fault is None
    assert ran(*setting, vadd, MPAUSE).fault is None
    assert kind(ran(*setting, MPAUSE, vector=False)) == "illegal"
    assert kind(ran(vadd, MPAUSE)) == "illegal"  # vill after reset


def test_vtype_rules():
    for width in range(4):
        for field in range(8):
            log = field - 8 if field >= 4 else field
            done = ran(addi(5, 0, 1000), vsetvli(6, 5, width << 3 | field), csrrs(7, 0xC21), MPAUSE)
            legal = width <= 2 and field != 4 and log >= width - 2
            most = int(16 / (1 << width) * 2.0**log) if legal else 0
            assert done.x[6] == most, (width, field)
            assert (done.x[7] == 0x80000000) is not legal


def test_reserved_rounding_modes():
    static = 0x00008053 | 5 << 12
    dynamic = 0x00008053 | 7 << 12
    assert kind(ran(static, MPAUSE)) == "illegal"
    for mode, fine in ((0, True), (4, True), (5, False), (7, False)):
        done = ran(addi(5, 0, mode), csrrw(0, 0x002, 5), dynamic, MPAUSE)
        assert (done.fault is None) is fine


def test_conversions_with_their_own_rounding():
    """vfcvt.rtz and vfncvt.rtz, which the oracle cannot run."""
    values = np.array([1.9, -1.9, 3e9, np.nan], dtype=np.float32)
    for word, wanted in (
        (0x4A039057 | 1 << 25 | 1 << 20 | 2 << 7, [1, -1, 2**31 - 1, 2**31 - 1]),
        (0x4A031057 | 1 << 25 | 1 << 20 | 2 << 7, [1, 0, 3_000_000_000, 2**32 - 1]),
    ):
        made = machine(
            addi(5, 0, 4),
            vsetvli(0, 5, 0xD0),
            lui(6, DATA),
            0x02036087,
            word,
            0x02036127,
            MPAUSE,
            vector_float=True,
        )
        made.write(DATA, values.tobytes())
        made.run(100)
        assert made.fault is None
        got = np.frombuffer(made.read(DATA, 16), dtype=np.uint32)
        assert got.tolist() == [v & 0xFFFFFFFF for v in wanted]


def test_counts_and_ring():
    words = [addi(5, 0, 10), addi(5, 5, -1), 0xFE029EE3, MPAUSE]  # bnez t0, -4
    for mode in MODES:
        done = ran(*words, **mode)
        assert done.counts() == [1, 10, 10, 1] and done.instructions == 22
        assert done.taken_branches == 9
        assert dict(done.classes()) == {"alu": 11, "branch": 10, "system": 1}
        recent = done.recent_pcs()
        assert recent[-3:] == [4, 8, 12] and len(recent) == 22


def test_vector_accesses_are_checked_before_they_write():
    # vse32 of 4 elements over the end of data memory: nothing is stored.
    words = [
        addi(5, 0, 4),
        vsetvli(0, 5, 0xD0),
        lui(6, DATA + 0x8000),
        addi(6, 6, -8),
        0x02036027,
        MPAUSE,
    ]
    done = ran(*words)
    assert done.fault == ("store_bounds", 16, DATA + 0x8000)
    assert done.read(DATA + 0x7FF8, 8) == bytes(8)
    # Masked-off elements are not checked; v0 is 0 after reset.
    assert ran(*words[:4], 0x00036027, MPAUSE).fault is None


def test_optional_checks():
    uninitialised = ran(lui(5, DATA), lw(6, 5, 0), MPAUSE, check_uninitialised=True)
    assert uninitialised.fault == ("uninitialised_read", 4, DATA)
    assert ran(lui(5, DATA), sw(0, 5), lw(6, 5), MPAUSE, check_uninitialised=True).fault is None
    made = machine(lui(5, DATA), sw(0, 5, 8), MPAUSE, check_readonly=True)
    made.add_readonly(DATA + 8, DATA + 12)
    made.run(10)
    assert made.fault == ("readonly_write", 4, DATA + 8)
    flw_a5, flw_a6 = 0x0002A787, 0x0042A807
    fused = 0x7107F743 & 0xFFFFFFFF  # fmadd.s fa4, fa5, fa6, fa4
    stale = ran(lui(5, DATA), flw_a5, flw_a6, fused, MPAUSE, check_fused=True)
    assert kind(stale) == "fused_hazard"


def test_stack_range():
    body = [addi(2, 2, -64), addi(2, 2, 64), MPAUSE]
    for mode in MODES:
        made = machine(lui(2, DATA + 0x1000), jal(1, 4), *body, **mode)
        made.set_stack(DATA + 0xF00, DATA + 0x1000, 8)
        made.run(100)
        assert made.fault is None and made.stack_low == DATA + 0x1000 - 64
        made = machine(lui(2, DATA + 0x1000), jal(1, 4), addi(2, 2, -512), MPAUSE, **mode)
        made.set_stack(DATA + 0xF00, DATA + 0x1000, 8)
        made.run(100)
        assert made.fault == ("stack_range", 8, DATA + 0x1000 - 512)


def test_bad_arguments_are_refused():
    made = machine(MPAUSE)
    with pytest.raises(IndexError):
        made.write(0x50000, b"x")
    with pytest.raises(IndexError):
        made.read(0x7FFFFFFF, 4)
    with pytest.raises(ValueError):
        made.set_owners([3], 2)
    assert struct.unpack("<I", made.read(0, 4)) == (MPAUSE,)
