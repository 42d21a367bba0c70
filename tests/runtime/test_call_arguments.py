"""Calls with dictionaries, lists and tuples of arrays, as the function that was compiled takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder

X, Y, Z = (np.full((2, 3), k, np.float32) for k in (1.0, 2.0, 4.0))


def program(*names: str) -> Any:
    """x - 2 y + 3 z, with inputs of these names."""
    net = ModelBuilder("numbers", seed=1)
    x, y, z = (net.input(name, (2, 3)) for name in names)
    net.output("out", x - y - y + z + z + z)
    return tw.compile(net.build(), target="coral-highmem")


@pytest.mark.parametrize(
    ("names", "arguments"),
    [
        (("d.a", "d.b", "z"), ({"b": Y, "a": X}, Z)),  # sorted keys
        (("d_b", "d_a", "z"), ({"b": X, "a": Y}, Z)),  # as they stand there
        (("d.a.0", "d.a.1", "d.b"), ({"a": [X, Y], "b": Z},)),
        (("t.0", "t.1.0", "t.1.1"), ((X, (Y, Z)),)),
        (("x", "y", "z"), (X.tolist(), Y.tolist(), Z)),  # lists of numbers are arrays
    ],
)
def test_trees(names: tuple[str, ...], arguments: tuple[Any, ...]) -> None:
    assert np.array_equal(program(*names)(*arguments), X - 2 * Y + 3 * Z)


def test_other_keys() -> None:
    with pytest.raises(TilewrightError, match=r"the arrays a, c, b are not those"):
        program("d.a", "d.b", "z")({"a": X, "c": Y, "b": Z})
