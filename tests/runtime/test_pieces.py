"""Bytes that lie apart, read like the array of them all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import Location, TilewrightError
from tilewright.io.pieces import Pieces
from tilewright.io.tensor_blob import read_tensors, tensor_pieces


@given(st.lists(st.binary(max_size=9), max_size=6), st.data())
def test_every_range_is_that_of_all_bytes(parts: list[bytes], data: st.DataObject) -> None:
    found, whole = Pieces([np.frombuffer(part, np.uint8) for part in parts]), b"".join(parts)
    assert len(found) == found.size == len(whole) and found.tobytes() == whole
    bound = st.none() | st.integers(-40, 40)
    key = slice(data.draw(bound), data.draw(bound))
    assert found[key].dtype == np.uint8 and found[key].tobytes() == whole[key]


def test_tensors_of_pieces_share_their_memory() -> None:
    tensors = {"a": np.arange(12.0).reshape(3, 4), "b": np.ones((5, 2), np.float32)}
    raw = [
        np.frombuffer(p, np.uint8) if isinstance(p, bytes) else p.reshape(-1).view(np.uint8)
        for p in tensor_pieces(tensors, "it")
    ]
    found = read_tensors(Pieces(raw), "it", Location("it"))
    for name, array in tensors.items():
        assert np.array_equal(found[name], array) and np.shares_memory(found[name], array)


def test_pieces_that_are_cut_short_are_an_error() -> None:
    header, *arrays = tensor_pieces({"a": np.arange(12.0)}, "it")
    assert isinstance(header, bytes) and isinstance(arrays[0], np.ndarray)
    short = [np.frombuffer(header, np.uint8), arrays[0].view(np.uint8)[:-1]]
    with pytest.raises(TilewrightError) as error:
        read_tensors(Pieces(short), "it", Location("it"))
    assert error.value.code == "TW3106"


def test_bytes_are_read_in_their_order() -> None:
    with pytest.raises(ValueError):
        Pieces([np.zeros(4, np.uint8)])[::2]
