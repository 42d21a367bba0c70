"""Rows of a batch share tiles where nothing needs the matrices of the batch apart."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported


def rows(down: bool) -> Imported:
    """Operations on rows of a batch of short matrices; down: also a softmax along the matrix."""
    net = ModelBuilder("rows", seed=1)
    x = net.input("x", (5, 6, 20))
    y = net.layer_norm(net.linear(x, 20, "linear"), "norm")
    y = y + net.weight("places", np.linspace(-2, 2, 5 * 6 * 20, dtype=np.float32).reshape(5, 6, 20))
    y = net.softmax(net.relu(y)) * x
    if down:
        y = y + net.transpose(net.softmax(net.transpose(y, (0, 2, 1))), (0, 2, 1))
    net.output("y", net.linear(net.reshape(y, (30, 20)), 7, "head"))
    return net.build()


def _shapes(program: tw.Program) -> set[tuple[int, ...]]:
    regions = program.model.artifact.regions.values()
    return {r.layout.shape for r in regions if r.kind == "activation"}


def test_all_rows_lie_in_one_matrix():
    program = tw.compile(rows(down=False))
    assert {(1, 30, 20)} == _shapes(program)
    assert not program.report().host
    assert program.verify().ok
    x = np.random.default_rng(0).normal(size=(5, 6, 20)).astype(np.float32)
    assert program(x).shape == (30, 7)


def test_numbers_per_row_and_per_column_are_repeated_over_all_rows():
    net = ModelBuilder("repeated", seed=1)
    x, column, line = (
        net.input("x", (4, 3, 10)),
        net.input("c", (4, 3, 1)),
        net.input("l", (1, 1, 10)),
    )
    wide = [net.concat([part] * count, axis) for part, count, axis in ((column, 10, 2),)]
    net.output("y", net.relu(x) * wide[0] + net.concat([net.concat([line] * 3, 1)] * 4, 0))
    assert tw.compile(net.build()).verify().ok


def test_matrices_stay_apart_where_something_needs_them():
    program = tw.compile(rows(down=True))
    assert program.verify().ok
