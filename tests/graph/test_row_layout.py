"""Rows of a batch share tiles where nothing needs the matrices of the batch apart."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_columns_are_cut_and_put_together_where_all_rows_lie_in_one_matrix(target):
    net = ModelBuilder("columns", seed=1)
    x = net.input("x", (7, 5, 64))
    first, second = (net.slice(net.relu(x), (0, 0, at), (7, 5, 32)) for at in (0, 32))
    net.output("a", net.relu(net.slice(net.relu(x), (0, 0, 0), (7, 5, 17))))
    net.output("b", net.relu(net.concat([second, net.relu(first)], 2)))
    net.output("c", net.slice(x, (3, 1, 0), (2, 3, 64)))  # rows between others: the host's
    program = tw.compile(net.build(), target=target)
    assert {(1, 35, 32), (1, 35, 64)} <= _shapes(program)
    assert program.verify().ok
    x = np.random.default_rng(0).normal(size=(7, 5, 64)).astype(np.float32)
    a, b, c = program(x)
    low, high = np.maximum(x[..., :32], 0), np.maximum(x[..., 32:], 0)
    np.testing.assert_allclose(a, low[..., :17], atol=0.02)
    np.testing.assert_allclose(b, np.concatenate([high, low], 2), atol=0.02)
    np.testing.assert_array_equal(c, x[3:5, 1:4])


def test_rows_that_start_where_tiles_do_are_cut_in_one_piece():
    net = ModelBuilder("rows of a batch", seed=1)
    x, y = net.input("x", (24, 4, 9)), net.input("y", (2, 4, 9))
    bent = net.relu(x)
    net.output("a", net.relu(net.slice(bent, (8, 0, 0), (13, 4, 9))))
    net.output("b", net.relu(net.concat([bent, y], 0)))
    program = tw.compile(net.build())
    regions = program.model.artifact.regions.values()
    assert {(1, 52, 9), (1, 104, 9)} <= {r.layout.shape for r in regions}
    assert not program.report().host
    assert program.verify().ok
    x, y = (
        np.random.default_rng(k).normal(size=(n, 4, 9)).astype(np.float32)
        for k, n in enumerate((24, 2))
    )
    a, b = program(x, y)
    np.testing.assert_allclose(a, np.maximum(x[8:21], 0), atol=0.02)
    np.testing.assert_allclose(b, np.maximum(np.concatenate([x, y]), 0), atol=0.02)
