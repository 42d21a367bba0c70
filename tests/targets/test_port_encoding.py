"""Numbers of a port in the order and in the multiples in which a tensor has them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.targets.port_encoding import Encoding

KEYS = Encoding(4.0, (1, 3, 2, 5), (0, 2, 3, 1))


def test_keys_are_turned_and_scaled() -> None:
    array = np.arange(30, dtype=np.float32).reshape(1, 3, 10)
    stored = KEYS.encoded(array)
    assert stored.shape == KEYS.stored == (1, 2, 5, 3)
    assert stored[0, 1, 4, 2] == 4 * array[0, 2, 9]
    assert np.array_equal(KEYS.decoded(stored).reshape(array.shape), array)
    some = KEYS.of_rows(1, 2).encoded(array[:, 1:])
    assert np.array_equal(some, stored[..., 1:])


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (Encoding(4.0, (1, 3, 10), (0, 1, 1)), "order"),
        (Encoding(4.0, (1, 3, 11), (0, 1, 2)), "shape"),
        (Encoding(4.0, (-1, -3, 10), (0, 1, 2)), "shape"),
        (Encoding(3.0, (1, 3, 10), (0, 1, 2)), "power of two"),
        (Encoding(-2.0, (1, 3, 10), (0, 1, 2)), "power of two"),
        (Encoding(math.nan, (1, 3, 10), (0, 1, 2)), "power of two"),
        (Encoding(math.inf, (1, 3, 10), (0, 1, 2)), "power of two"),
    ],
)
def test_what_cannot_be_is_said(encoding: Encoding, said: str) -> None:
    assert KEYS.wrong((1, 3, 10)) is None
    assert said in (encoding.wrong((1, 3, 10)) or "")
