"""What moves between DRAM and the chip: no padding, no second transfer of what stays, no idle end."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.model.link import _unsettled
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction, Program

ROW = 32  # bytes of a row of half a tile


@pytest.mark.parametrize("shape", [(3, 7, 5), (1, 1, 40), (2, 33, 17), (20, 1, 10)])
def test_padding_of_inputs_and_outputs_stays_where_it_is(shape: tuple[int, int, int]):
    """Of every tile the rows and halves that are inside the tensor move, in and out."""
    net = ModelBuilder("sum", seed=0)
    x, y = net.input("x", shape), net.input("y", shape)
    net.output("z", x + y)
    program = tw.compile(net.build())
    assert program.verify().ok
    rows, halves = shape[0] * shape[1], -(-shape[2] // 16)
    assert program.report().dram_bytes == 3 * rows * halves * ROW


def test_rows_of_ragged_inputs_are_normed_and_multiplied():
    """Sums over columns of which only some were loaded: the others are zero, not left over."""
    net = ModelBuilder("rows", seed=0)
    x = net.input("x", (3, 9, 21))
    net.output("y", net.linear(net.layer_norm(x, "norm"), 13, "linear"))
    net.output("z", net.softmax(x))
    assert tw.compile(net.build()).verify().ok


def test_an_output_that_is_read_again_stays_on_chip_too():
    net = ModelBuilder("twice", seed=0)
    hidden = net.linear(net.input("x", (6, 40)), 24, "first")
    net.output("hidden", hidden)
    net.output("y", net.linear(hidden, 8, "second"))
    program = tw.compile(net.build())
    artifact = program.model.artifact
    reads = [
        artifact.regions[name].space
        for step in artifact.steps
        for parameter, name in step.operands.items()
        if name.split("@")[0] == artifact.steps[1].operands["out copy"] and parameter != "out copy"
    ]
    assert reads == ["vmem"] * len(reads) and len(reads) == 2
    assert program.verify().ok


def _program(*rows: tuple) -> Program:
    return Program.from_instructions([Instruction.of(*row) for row in rows])


def test_the_end_of_a_program_waits_for_what_is_still_running():
    v1 = load_profile("atlas-v1")
    add = ("vadd.bf16", 0, 2, 4)
    store = ("vstore", 0, 0, 1)
    assert _unsettled(_program(), v1) == 0
    assert _unsettled(_program(add), v1) == 66
    assert _unsettled(_program(add, ("delay", 9)), v1) == 56
    assert _unsettled(_program(add, ("delay", 9), store), v1) == 55  # the addition, not the store
    assert _unsettled(_program(add, ("delay", 200)), v1) == 0
    # Where instructions wait for their unit, all of them may still be waiting.
    assert _unsettled(_program(add, ("delay", 200)), load_profile("atlas-v0")) > 0
