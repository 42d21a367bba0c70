"""Queries, keys and values side by side in one row: each is a part of it, the first one too."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (1, 3), (5, 1)])
def test_parts_of_a_packed_row(rows: int, count: int) -> None:
    net = ModelBuilder("packed", seed=3)
    packed = net.linear(net.input("x", (3, rows, 40)), 288, "qkv")
    query, key, value = (
        net.heads(net.slice(packed, (0, 0, first), (3, rows, 96)), count) for first in (0, 96, 192)
    )
    net.output("y", net.attention(query, key, value))
    model = net.build()
    found = tw.compile(model).verify(original=model)
    assert found.ok and found.cosine is not None and found.cosine > 0.99, found.text()
