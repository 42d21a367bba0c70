"""Compat mode follows the public model where its numbers have no end and its loads complain."""

from __future__ import annotations

import pytest
from support import MACHINES, Machine, machine_with

WIDE = "has a result of more than 128 bits"
REJECTED = "the public model rejects it"
RUNS: list[tuple[str, str, dict[str, int]]] = [
    # auipc takes 32 bits of its immediate before it adds the address.
    ("atlas-v1", "auipc x1, -1\nnop\nnop", {"x1": 0xFFFFF000}),
    ("atlas-v1", "nop\nauipc x1, 0x80000\nnop\nnop", {"x1": 0x80000004}),
    ("atlas-v0", "auipc rd=1, imm=-1\naddi\naddi", {"x1": 0xFFFFF002}),
    # CSRs hold the number that was written, not 32 bits of it.
    ("atlas-v1", "addi x1, x0, -5\ncsrrw x0, x1, 7\ncsrrw x2, x0, 7", {"x2": -5, "csr7": 0}),
    ("atlas-v1", "addi x1, x0, -2\ncsrrwi x0, 3, 7\ncsrrc x0, x1, 7\ncsrrs x2, x1, 7\ncsrrs x3, x0, 7",
     {"x2": 1, "x3": -1}),
    ("atlas-v1", "lui x1, -1\ncsrrw x0, x1, 9\ncsrrs x2, x0, 9", {"x2": 2**64 - 4096}),
    # Shifts take all of a register.
    ("atlas-v1", "addi x1, x0, 1\naddi x2, x0, 128\nsrl x3, x1, x2\nsll x4, x0, x2", {"x3": 0, "x4": 0}),
    ("atlas-v1", "addi x1, x0, -7\naddi x2, x0, 1000\nsrl x3, x1, x2", {"x3": -1}),
    ("atlas-v1", "addi x1, x0, 3\naddi x2, x0, 100\nsll x3, x1, x2\nsrl x4, x3, x2", {"x3": 3 << 100, "x4": 3}),
    ("atlas-v1", "addi x1, x0, -1\naddi x2, x0, 127\nsll x3, x1, x2", {"x3": -(2**127)}),
    ("atlas-v1", "addi x1, x0, 9\naddi x2, x0, 33\nsra x3, x1, x2", {"x3": 4}),  # five bits of it
    ("atlas-v0", "addi rd=1, imm=-9\naddi rd=2, imm=200\nsra rd=3, rs1=1, rs2=2", {"x3": -1}),
    ("atlas-v0", "addi rd=1, imm=9\naddi rd=2, imm=33\nsra rd=3, rs1=1, rs2=2", {"x3": 0}),
    # What goes to x0 is not looked at; aligned loads and bytes are fine.
    ("atlas-v1", "addi x1, x0, 1\naddi x2, x0, 500\nsll x0, x1, x2", {"x0": 0}),
    ("atlas-v1", "lb x1, 3(x0)\nnop\nnop\nlw x3, 4(x0)\nnop\nnop\nlh x4, 2(x0)", {"x1": 0, "x4": 0}),
    ("atlas-v0", "lw rd=1, imm=2", {"x1": 0}),
]  # fmt: skip
FAULTS = [
    ("addi x1, x0, 1\naddi x2, x0, 128\nsll x3, x1, x2", "illegal", "sll " + WIDE),
    ("addi x1, x0, 1\naddi x2, x0, 127\nsll x3, x1, x2", "illegal", "sll " + WIDE),
    ("addi x1, x0, 1\naddi x2, x0, 126\nsll x3, x1, x2\nadd x3, x3, x3", "illegal", "add " + WIDE),
    (
        "addi x1, x0, -1\naddi x2, x0, 127\nsll x3, x1, x2\naddi x3, x3, -1",
        "illegal",
        "addi " + WIDE,
    ),
    ("addi x1, x0, -1\naddi x2, x0, 127\nsll x3, x1, x2\nsub x3, x0, x3", "illegal", "sub " + WIDE),
    ("addi x1, x0, 1\naddi x2, x0, 120\nsll x3, x1, x2\nslli x3, x3, 9", "illegal", "slli " + WIDE),
    ("addi x1, x0, -3\nsll x3, x1, x1", "illegal", "sll by -3: " + REJECTED),
    ("addi x1, x0, -3\nsrl x0, x1, x1", "illegal", "srl by -3: " + REJECTED),
    ("lw x1, 2(x0)", "misaligned", "lw at 0x2: " + REJECTED),
    ("lh x1, 1(x0)", "misaligned", "lh at 0x1: " + REJECTED),
    ("lhu x1, 3(x0)", "misaligned", "lhu at 0x3: " + REJECTED),
]


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run[1].replace("\n", "; "))
def test_values(run: tuple[str, str, dict[str, int]], kind: type[Machine]) -> None:
    profile, text, wanted = run
    machine = machine_with(kind, text, profile, compat=True)
    assert machine.run().fault is None
    assert {name: machine.read_register(name) for name in wanted} == wanted


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("run", FAULTS, ids=lambda run: run[0].replace("\n", "; "))
def test_faults(run: tuple[str, str, str], kind: type[Machine]) -> None:
    text, fault, message = run
    found = machine_with(kind, text, compat=True).run().fault
    assert found is not None and found.kind == fault
    assert message in found.message


@pytest.mark.parametrize("kind", MACHINES)
def test_registers_set_by_hand(kind: type[Machine]) -> None:
    """A debugger writes CSRs as wide as they are."""
    for compat, wanted in ((True, -3), (False, 2**32 - 3)):
        machine = machine_with(kind, "csrrs x1, x0, 5", compat=compat)
        machine.write_register("csr5", -3)
        machine.run()
        assert machine.read_register("csr5") == machine.read_register("x1") == wanted
