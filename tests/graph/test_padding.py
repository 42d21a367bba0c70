"""Padding stays in DRAM: who leaves it there, and that nothing of it reaches a result."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runs import assert_same, content_among_nan, simulated

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment
from tilewright.targets.atlas.model.launches import Launch, StoredTensor
from tilewright.targets.atlas.model.padding_moves import READ_TILES, Moves, unwritten
from tilewright.targets.atlas.model.residency import ResidencyInterval
from tilewright.tile.layouts import Layout

CHAIN = {
    "out": "bf16",
    "program": [["add", "t0", ["x0", "x1"]], ["relu", "t1", ["t0"]], ["div", "t2", ["t1", "x1"]]],
}
# Name, options, shapes, tensors whose padding is NaN. Where a tile has 27 or 30 rows, leaving its padding out is
# not worth a transfer of its own; it has to be left out all the same.
STEP = {
    "program": [["add", "t0", ["x0", "p0"]], ["tanh", "t1", ["t0"]], ["mul", "t2", ["t1", "s1"]]],
    "next": ["t1", "t2"],
    "kept": 2,
}
PIECES = [
    [0, [1, 1], [0, 1], 2, [0, 1], [0, 0], 5, 64],
    [1, [0, 1], [0, 1], 2, [1, 0], [0, 2], 5, 32],
]
KERNELS = [
    ("norm", {"kind": "layer", "epsilon": 1e-5, "out": "fp8"}, {"x": (1, 50, 100)}, ("x", "out")),
    ("norm", {"kind": "rms", "epsilon": 1e-5, "out": "bf16"}, {"x": (2, 30, 40)}, ("x",)),
    ("quantise", {"factor": 0.25}, {"x": (2, 1, 80)}, ("x", "out")),
    ("copy", {"rank": 3, "dtype": "bf16"}, {"x": (1, 30, 80)}, ("x", "out")),
    ("residue", {"factor": 0.25}, {"x": (1, 18, 80)}, ("x", "high")),
    ("pointwise", CHAIN | {"inputs": [["x0", "full"], ["x1", "column"]]},
     {"x0": (2, 18, 40), "x1": (2, 18, 1)}, ("x0", "x1", "out")),
    ("pointwise", CHAIN | {"inputs": [["x0", "full"], ["x1", "line"]], "out": "fp8"},
     {"x0": (2, 30, 10), "x1": (2, 1, 10)}, ("x0", "x1", "out")),
    ("softmax", {}, {"x": (2, 5, 70)}, ("x", "out")),
    ("softmax", {}, {"x": (1, 30, 10)}, ("x", "out")),
    ("reduce", {"kind": "max", "along": "row", "lines": 30},
     {"x": (2, 30, 10), "out": (2, 30, 1)}, ("x", "out")),
    ("reduce", {"kind": "mean", "along": "column", "lines": 2},
     {"x": (2, 5, 70), "out": (1, 2, 70)}, ("x", "out")),
    ("reduce", {"kind": "sum", "along": "lines", "lines": 2},
     {"x": (2, 5, 70), "out": (1, 2, 5)}, ("x", "out")),
    ("reduce", {"kind": "min", "along": "batch", "lines": 5, "split": [1, 2, 1]},
     {"x": (2, 5, 70), "out": (1, 5, 70)}, ("x", "out")),
    ("product", {"left": "plain", "right": "transposed", "out": "bf16", "factor": 0.5},
     {"a": (2, 5, 50), "b": (2, 10, 50)}, ("a", "b", "out")),
    ("product", {"left": "transposed", "right": "plain", "out": "fp8", "factor": 0.5},
     {"a": (2, 50, 5), "b": (2, 50, 10)}, ("a", "b", "out")),
    ("split_heads", {"out": "columns", "heads": 2},
     {"x": (1, 27, 128), "out": (1, 2, 64, 27)}, ("x",)),
    ("linear", {"scale": True, "bias": True, "residual": True, "out": "bf16"},
     {"a": (1, 50, 112), "w": (112, 200)}, ("a", "w", "residual", "out")),
    ("linear", {"heads": True, "scale": True, "out": "fp8"},
     {"a": (1, 3, 1, 32), "w": (96, 70)}, ("a", "out")),
    ("gated", {"scale": True, "bias": True}, {"a": (1, 30, 48), "w_gate": (48, 64)},
     ("a", "w_gate", "w_up", "out")),
    ("project", {"scale": True, "bias": True, "rope": "shared", "out": "columns"},
     {"a": (1, 18, 80), "w": (2, 80, 64), "cos": (18, 32)}, ("a", "w")),
    # The rotation's tables are narrower than the heads they turn, and 0 beyond their edge.
    ("project", {"scale": True, "rope": "shared", "out": "heads"},
     {"a": (1, 18, 64), "w": (1, 64, 64), "cos": (18, 12)}, ("a", "cos", "sin", "out")),
    ("move", {"count": 2, "pieces": PIECES, "dtype": "bf16"},
     {"x0": (3, 5, 100), "x1": (2, 37, 32), "out": (2, 5, 96)}, ("x0", "x1", "out")),
    ("recurrent", STEP, {"x": (3, 5, 64), "w": (1, 40, 40), "s0": (1, 5, 40), "s1": (1, 5, 40), "out": (3, 5, 104)},
     ("x", "s0", "s1", "out")),
    ("recurrent", STEP | {"backward": True, "bias": [0]},
     {"x": (2, 33, 64), "w": (1, 33, 33), "s0": (1, 33, 33), "s1": (1, 33, 33), "out": (2, 33, 97)}, ("x", "s0", "out")),
    ("attention", {"mask": "causal"},
     {"q": (1, 2, 18, 64), "kt": (1, 1, 64, 50), "v": (1, 1, 50, 64)}, ("q", "v", "out")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "shapes", "bare"), KERNELS)
def test_kernels_leave_padding_alone(name, options, shapes, bare):
    assert name in READ_TILES
    assert_same(*simulated(name, options, shapes, bare=bare))


def test_padding_is_filled_with_nan():
    """What the tests above rely on: every row outside, none inside."""
    layout = Layout((1, 3, 12), "bf16")
    codes = np.arange(36, dtype=np.uint16).reshape(layout.shape)
    found = content_among_nan(layout, layout.pack(codes))
    assert np.array_equal(layout.unpack(found).view(np.uint16), codes)
    assert np.count_nonzero(np.frombuffer(found, np.uint16) == 0xFFFF) == 32 * 32 - 3 * 16


def call(kernel: str, rows: int, out: StoredTensor, **options) -> Launch:
    operands = {
        "a": StoredTensor("a", Layout((1, rows, 96), "fp8"), "activation"),
        "w": StoredTensor("w", Layout((96, 64), "fp8", "panels"), "weight"),
    }
    return Launch(kernel, kernel, operands, out, options, (), 0, None, None)


def result(rows: int) -> StoredTensor:
    return StoredTensor("y", Layout((1, rows, 64), "bf16"), "output")


def test_who_leaves_padding_in_dram():
    few, many = call("linear", 50, result(50)), call("linear", 509, result(509))
    moves = Moves(frozenset(), frozenset())
    assert moves.inside(few, "a", few.operands["a"])
    assert not moves.inside(many, "a", many.operands["a"])  # not worth transfers of its own there
    assert moves.inside(call("norm", 241, result(241)), "a", many.operands["a"])
    assert moves.inside(few, "w", few.operands["w"])
    assert not moves.inside(call("linear", 50, result(50), together=3), "w", few.operands["w"])
    assert not moves.inside(few, "out", few.output)
    assert unwritten([few, many], BufferAssignment()) == {few.output}
    alone = Moves(frozenset(), frozenset({few.output}))
    assert alone.inside(few, "out", few.output)


def test_results_that_others_read_in_other_ways_are_written_whole():
    made = call("linear", 1, result(1))
    for kernel, expected in (("split_heads", {made.output}), ("rope", set())):
        reader = Launch(kernel, kernel, {"x": made.output}, result(64), {}, (), 0, None, None)
        assert unwritten([made, reader], BufferAssignment()) == expected


@pytest.mark.parametrize("option", [{"together": 3}, {"resident": True}, {"stacked": True}])
def test_results_for_readers_of_whole_tiles_are_written_whole(option):
    """But where what is beyond the edge gets no further than to DRAM that nobody looks at."""
    made = call("linear", 50, result(50))
    readers = [call("linear", 50, result(50), **option) for _ in range(2)]
    for reader, source in zip(readers, (made, readers[0]), strict=True):
        reader.operands = {**reader.operands, "a": source.output}
    calls = [made, *readers]
    assert unwritten(calls, BufferAssignment()) == {one.output for one in calls}
    stay = ResidencyInterval(readers[1].output, 2, 2, whole=True)
    assert not unwritten(calls, BufferAssignment(stays={readers[1].output: stay})) - {
        readers[1].output
    }


def test_a_model_of_one_row_moves_little_more_than_its_weights():
    net = ModelBuilder("row")
    x = net.input("x", (1, 1, 96))
    y = net.linear(net.rms_norm(x, "norm"), 160, "first", bias=False)
    net.output("y", net.linear(y, 96, "second", bias=False) + x)
    program = tw.compile(net.build())
    assert program.verify().ok
    weights = 2 * 96 * 160
    assert program.report().dram_bytes < 1.2 * weights


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_a_few_rows_meet_scales_and_biases(rows: int, profile: str):
    """A row of scales is loaded once per row of the result, or spread over all of them."""
    net = ModelBuilder("few", seed=rows)
    x = net.input("x", (rows, 40))
    y = net.relu(net.linear(x, 48, "first"))
    y = net.layer_norm(net.linear(y, 40, "second") + x, "norm")
    net.output("y", net.linear(y, 10, "third"))
    model = net.build()
    for fuse in (True, False):
        program = tw.compile(model, target=profile, fuse=fuse)
        found = program.verify(per_layer=True)
        assert found.ok, found.first
