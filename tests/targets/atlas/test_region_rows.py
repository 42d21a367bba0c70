"""Some rows of an array, written into what a region holds of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.targets.artifact import Port
from tilewright.targets.atlas.artifact.atlas_artifact import Region
from tilewright.targets.atlas.artifact.region_rows import lines_of_rows, row_dimension
from tilewright.targets.atlas.artifact.region_values import region_codes
from tilewright.targets.port_encoding import Encoding
from tilewright.tile.layouts import Layout


def region(layout: Layout, **more: Any) -> Region:
    return Region("kept", "dram", 0, layout, "state", **more)


def places(kind: str, batch: int, rows: int, heads: int, width: int) -> tuple[Port, Region]:
    """A cache of so many rows, in one of the ways in which it may lie on the device."""
    flat, apart = (batch, rows, heads * width), (batch, heads, rows, width)
    split = (batch, rows, heads, width)
    encodings = {
        "plain": (flat, None, Layout(flat, "bf16")),
        "grouped": (split, None, Layout(flat, "bf16")),
        "columns": (
            split,
            Encoding(4.0, split, (0, 2, 3, 1)),
            Layout((batch, heads, width, rows), "fp8", "panels"),
        ),
        "values": (flat, Encoding(0.5, split, (0, 2, 1, 3)), Layout(apart, "fp8")),
        "columns of heads": (
            apart,
            Encoding(4.0, apart, (0, 1, 3, 2)),
            Layout((batch, heads, width, rows), "fp8", "panels"),
        ),
    }
    shape, encoding, layout = encodings[kind]
    return Port("kept", shape, "f32", "kept", None, encoding), region(layout)


def packed(port: Port, place: Region, value: np.ndarray) -> bytearray:
    return bytearray(place.layout.pack(region_codes(port, place, value)[0]))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["plain", "grouped", "columns", "values", "columns of heads"]),
    st.tuples(
        st.integers(1, 2), st.integers(1, 140), st.integers(1, 3), st.sampled_from([3, 32, 40, 64])
    ),
    st.data(),
)
def test_rows_end_up_where_a_whole_write_puts_them(
    kind: str, sizes: tuple[int, int, int, int], data: st.DataObject
) -> None:
    port, place = places(kind, *sizes)
    draw = np.random.default_rng(sum(sizes))
    before, after = draw.normal(scale=30, size=(2, *port.shape)).astype(np.float32)
    dimension = row_dimension(port, place)
    assert dimension is not None
    assert dimension == (2 if kind == "columns of heads" else 1)
    first = data.draw(st.integers(0, sizes[1] - 1))
    end = data.draw(st.integers(first + 1, sizes[1]))
    part = (slice(None),) * dimension
    mixed = before.copy()
    mixed[(*part, slice(first, end))] = after[(*part, slice(first, end))]
    memory = packed(port, place, before)
    written = 0
    for at, raw in lines_of_rows(port, place, mixed, first, end):
        memory[at : at + len(raw)] = raw
        written += len(raw)
    assert memory == packed(port, place, mixed)
    lines = -(-end // 32) - first // 32
    assert written == len(memory) * lines // -(-sizes[1] // 32)


@pytest.mark.parametrize(
    ("port", "place"),
    [
        # Rows are not lines of tiles where they are grouped otherwise,
        (Port("kept", (4, 8, 16), "f32", "kept"), region(Layout((1, 32, 16), "bf16"))),
        # where one array is for all iterations,
        (
            Port("kept", (2, 8, 16), "f32", "kept"),
            region(Layout((8, 16), "bf16"), count=2, stride=4096),
        ),
        # and where there are no rows.
        (Port("kept", (40,), "f32", "kept"), region(Layout((40,), "bf16"))),
        (Port("kept", (8, 16), "f32", "kept"), region(Layout((8, 16), "bf16", "rows"))),
    ],
)
def test_what_has_no_rows_is_written_whole(port: Port, place: Region) -> None:
    assert row_dimension(port, place) is None
