"""Arithmetic of intents, counted by hand."""

from __future__ import annotations

import pytest

from tilewright.dialects.work_estimate import arithmetic_of
from tilewright.frontend.builder import ModelBuilder, Value


def counted(build, *shapes: tuple[int, ...]) -> int:
    net = ModelBuilder("net")
    y: Value = build(net, *(net.input(f"x{k}", shape) for k, shape in enumerate(shapes)))
    net.output("y", y)
    return arithmetic_of(net.build().module)


@pytest.mark.parametrize(
    ("build", "shapes", "count"),
    [
        (lambda n, x: n.linear(x, 5, "fc", bias=False), [(3, 7)], 2 * 3 * 7 * 5),
        (lambda n, x: n.linear(x, 5, "fc"), [(3, 7)], 2 * 3 * 7 * 5 + 15),
        (lambda n, x, y: x + y, [(3, 7), (3, 7)], 21),
        (lambda n, x: n.reshape(n.transpose(x, (1, 0)), (21,)), [(3, 7)], 0),
        (lambda n, x: n.softmax(x), [(3, 7)], 4 * 21),
        (lambda n, x: n.conv2d(x, 4, 3, "c", bias=False), [(1, 2, 5, 5)], 2 * 4 * 9 * 2 * 9),
        (lambda n, x: n.max_pool(x, 2), [(1, 2, 4, 4)], 8 * 4),
        (
            lambda n, q, k, v: n.attention(q, k, v),
            [(1, 3, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8)],
            2 * 3 * 5 * (16 + 16 + 5),
        ),
    ],
)
def test_counts(build, shapes, count: int) -> None:
    assert counted(build, *shapes) == count
