"""Some rows of a port's array, written where they lie in its region.

Rows of an array are lines of tiles of its region: rows of a matrix, or columns of one that is stored
transposed. New rows of a cache are a line or two; the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from tilewright.targets.artifact import Port
from tilewright.targets.atlas.artifact.atlas_artifact import Region
from tilewright.targets.atlas.artifact.region_values import region_codes
from tilewright.tile.layouts import SIDE, Layout


def row_dimension(port: Port, region: Region) -> int | None:
    """The dimension of a port's array whose rows are lines of tiles of its region."""
    layout = region.layout
    several = region.count > 1 and port.iteration is None
    plain = layout.arrangement is None and layout.order in ("tiles", "panels")
    if several or not plain or len(layout.shape) < 2:
        return None
    line = _line_dimension(layout)
    if port.encoding is None:
        shape, dimension = layout.shape, line
    else:
        shape, dimension = port.encoding.shape, port.encoding.order[line]
    # What lies behind the rows may be grouped in another way.
    same = port.shape[: dimension + 1] == shape[: dimension + 1]
    return dimension if same and prod(port.shape) == prod(shape) else None


def lines_of_rows(
    port: Port, region: Region, value: np.ndarray, first: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """Where in the region to write which bytes, for the rows `first` to `end` (exclusive)."""
    layout, dimension = region.layout, row_dimension(port, region)
    assert dimension is not None, "the region has no rows"
    low = first // SIDE * SIDE
    high = min(-(-end // SIDE) * SIDE, port.shape[dimension])
    line, encoding = _line_dimension(layout), port.encoding
    shape = (*layout.shape[:line], high - low, *layout.shape[line + 1 :])
    part = Layout(shape, layout.dtype, layout.order)
    rows = value[(slice(None),) * dimension + (slice(low, high),)]
    some = None if encoding is None else encoding.of_rows(dimension, high - low)
    (codes,) = region_codes(
        replace(port, encoding=some), replace(region, layout=part, count=1), rows
    )
    raw = part.pack(codes)
    outer = prod(layout.leading)
    size, whole = len(raw) // outer, layout.bytes // outer
    start = low // SIDE * (whole // _lines(layout))
    for lead in range(outer):
        yield lead * whole + start, raw[lead * size : (lead + 1) * size]


def _line_dimension(layout: Layout) -> int:
    """The dimension of a stored tensor along which whole lines of tiles follow each other."""
    return len(layout.shape) - (1 if layout.order == "panels" else 2)


def _lines(layout: Layout) -> int:
    down, across = layout.grid
    return across if layout.order == "panels" else down
