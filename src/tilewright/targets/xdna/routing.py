"""Routes of the streams through the switches: vertical first, then along the row.

A broadcast is a tree and uses an edge once. Going south and going along a row therefore never mix:
results of the cores reach their memory tile straight down their own column.
"""

from __future__ import annotations

from collections import defaultdict

from tilewright.targets.xdna.design import Design, Tile

Edge = tuple[Tile, str]  # the tile a stream leaves, and the side


def route(source: Tile, target: Tile) -> list[Edge]:
    """Edges from one tile to another."""
    edges: list[Edge] = []
    column, row = source.column, source.row
    while row != target.row:
        up = target.row > row
        edges.append((Tile(column, row), "north" if up else "south"))
        row += 1 if up else -1
    while column != target.column:
        right = target.column > column
        edges.append((Tile(column, row), "east" if right else "west"))
        column += 1 if right else -1
    return edges


def edge_streams(design: Design) -> dict[Edge, set[str]]:
    """FIFOs over each edge."""
    streams: dict[Edge, set[str]] = defaultdict(set)
    for fifo in design.fifos:
        for consumer in fifo.consumers:
            for edge in route(fifo.producer, consumer):
                streams[edge].add(fifo.name)
    return dict(streams)
