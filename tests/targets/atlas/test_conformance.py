"""The machines against known micro-programs: cycles, faults and state, exactly."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import MACHINES, Machine, get_tile, machine_with

TABLE = tomllib.loads((Path(__file__).parent / "conformance.toml").read_text())


def prepare(machine: Machine, initial: str) -> None:
    if initial == "ramps":
        i = np.arange(8192)
        machine.write("vmem", 0, (i % 256).astype(np.uint8).tobytes())
        machine.write("dram", 0, ((7 * i + 3) % 256).astype(np.uint8).tobytes())
        return
    for setting in filter(None, initial.split(", ")):
        place, _, value = setting.partition("=")
        filled = bytes([int(value, 16)]) * 1024
        if place.startswith("dram:"):
            machine.write("dram", int(place[5:]), filled)
        else:
            machine.write_register(place, filled)


def check(machine: Machine, case: dict[str, Any], compat: bool) -> None:
    outcome = machine.run()
    if "fault" in case:
        assert outcome.fault is not None
        assert (outcome.fault.kind, outcome.fault.cycle) == (
            case["fault"]["kind"],
            case["fault"]["tick"],
        )
        return
    assert (outcome.fault, outcome.cycles) == (None, case["cycles"])
    for name, text in case.get("registers", {}).items():
        got, wanted = machine.read_register(name), int(text, 0)
        assert isinstance(got, int)
        if compat and case.get("compat"):
            assert got == wanted, name
        else:
            assert got % 2**32 == wanted % 2**32, name
    for place, wanted in case.get("bytes", {}).items():
        space, _, offset = place.partition(":")
        if space in ("dram", "vmem"):
            got = machine.read(space, int(offset), len(wanted))
        else:
            register = machine.read_register(space)
            assert isinstance(register, bytes)
            got = register[int(offset) : int(offset) + len(wanted)]
        assert list(got) == wanted, place
    for place, wanted in case.get("elements", {}).items():
        register, _, element = place.partition(":")
        i, j = (int(n) for n in element.split(","))
        pattern = get_tile(machine, int(register[1:]), 1)[i, j]
        assert (np.uint32(pattern) << 16).view(np.float32) == wanted, place


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("case", TABLE["case"], ids=lambda c: c["id"])
def test_case(case: dict[str, Any], kind: type[Machine]) -> None:
    modes = (True,) if case.get("compat") else (True, False)
    for compat in modes:
        machine = machine_with(kind, case["program"], case["profile"], compat=compat)
        prepare(machine, case.get("initial", ""))
        check(machine, case, compat)


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("pair", TABLE["pair"], ids=lambda p: p["about"].replace(" ", "-"))
def test_smallest_delay(pair: dict[str, Any], kind: type[Machine]) -> None:
    """The delay given runs clean in the given cycles; one tick less faults."""

    def run(delay: int):
        text = f"{pair['before']}delay {delay}\n{pair['after']}\n"
        return machine_with(kind, text).run()

    outcome = run(pair["delay"])
    assert (outcome.fault, outcome.cycles) == (None, pair["cycles"])
    if "earlier" in pair:
        fault = run(pair["delay"] - 1).fault
        assert fault is not None
        assert (fault.kind, fault.cycle) == (pair["earlier"]["kind"], pair["earlier"]["tick"])


WHOLE_PROGRAMS = [
    ("vadd.bf16 m6, m0, m2 ; delay 5 ; vmatmul.mxu0 acc0, m4, w0 ; delay 32", 105),
    ("vmatpush.weight.mxu0 w0, m0 ; delay 64 ; vmatmul.mxu0 acc0, m0, w0 ; delay 64", 164),
    ("vmatmul.mxu0 acc0, m0, w0 ; delay 128 ; vmatpop.bf16.acc.mxu0 m4, acc0 ; delay 64", 198),
]


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(("text", "cycles"), WHOLE_PROGRAMS)
def test_clean_pairs_on_different_units(text: str, cycles: int, kind: type[Machine]) -> None:
    outcome = machine_with(kind, text.replace(" ; ", "\n")).run()
    assert (outcome.fault, outcome.cycles) == (None, cycles)


@pytest.mark.parametrize("kind", MACHINES)
def test_transfer_may_end_exactly_at_the_end_of_dram(kind: type[Machine]) -> None:
    text = "li x1, 0x40000000\nli x2, 32\nsub x3, x1, x2\ndma.load.ch0 x0, {}, {}\n"
    assert machine_with(kind, text.format("x1", "x0")).run().fault is None
    assert machine_with(kind, text.format("x3", "x2")).run().fault is None
    fault = machine_with(kind, text.format("x1", "x2")).run().fault
    assert fault is not None and fault.kind == "bounds"


@pytest.mark.parametrize("kind", MACHINES)
def test_scalar_load_sees_a_transfer_only_after_it_is_done(kind: type[Machine]) -> None:
    text = """
        addi x1, x0, 1024
        addi x2, x0, 0
        addi x3, x0, 0
        dma.config.ch0 x0
        dma.wait.ch0
        delay 1
        dma.load.ch0 x0, x0, x1
        lw x4, 0(x0)
        delay 516
        lw x5, 0(x0)
    """
    machine = machine_with(kind, text)
    machine.write("dram", 0, b"\x01\x02\x03\x04")
    outcome = machine.run()
    assert outcome.cycles == 534
    assert machine.read_register("x4") == 0
    assert machine.read_register("x5") == 0x04030201
