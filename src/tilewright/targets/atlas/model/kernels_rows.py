"""Kernels that make one number of many: reductions of rows, of columns and over a batch."""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.long_rows import JOIN, ROWS, over, too_long
from tilewright.targets.atlas.model.kernel_options import MoveOptions, ReduceOptions
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.tile.arrays import spread
from tilewright.tile.blocks import Block, whole
from tilewright.tile.layouts import SIDE
from tilewright.tile.masks import keep, turned

Tensors = dict[str, Any]

COLUMNS: dict[str, Callable[[Any], Any]] = {
    "sum": tw.col_sum,
    "max": tw.col_max,
    "min": tw.col_min,
}
REDUCED = 3  # copies of a row of tiles on chip in a reduction


def reduce(o: ReduceOptions):
    """The sum, mean, largest or smallest number (`kind`) of x [B, M, K] along `along`:

    "row": [B, M, 1]. "lines": the same numbers as [G, R, M], each matrix a row, B = G * R.
    "column": [G, R, K]. "batch": [P * S, M, K] of a batch of P * Q * S, by `split` (P, Q, S).
    """
    mean, along = o["kind"] == "mean", o["along"]
    kind = "sum" if o["kind"] == "mean" else o["kind"]
    out = {
        "row": tw.bf16["B", "M", "L"],
        "lines": tw.bf16["G", "R", "M"],
        "column": tw.bf16["G", "R", "K"],
        "batch": tw.bf16["C", "M", "K"],
    }[along]

    def finished(total: Any, count: int) -> Any:
        return total * (1 / count) if mean else total

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]

        def of_row(b: Any, m: Any) -> Any:
            """One number of every row m."""
            if o["passes"] and too_long(x.K, REDUCED):
                return over(kind, x.K, lambda n: x[b, m, n])
            return ROWS[kind](x[b, m, :])

        def line(b: Any, n: Any) -> Any:
            """The numbers of one matrix, side by side."""
            if along == "lines":
                return turned(finished(ROWS[kind](x[b, n, :]), x.K))
            return finished(COLUMNS[kind](x[b, :, n]), x.M)

        if along == "row":
            for b in tw.each(x.B):
                for m in tw.grid(x.M):
                    out[b, m, :] = finished(of_row(b, m), x.K)
        elif along == "batch":
            first, count, inner = needed(o["split"], "split")
            for p in tw.each(first):
                for s in tw.each(inner):
                    for m in tw.grid(x.M):
                        for n in tw.grid(x.K):
                            total = x[p * (count * inner) + s, m, n]
                            for q in range(1, count):
                                other = x[p * (count * inner) + s + q * inner, m, n]
                                total = JOIN[kind](total, other)
                            out[p * inner + s, m, n] = finished(total, count)
        else:
            for g in tw.each(out.G):
                for rows in whole(out.R).parts():
                    for n in tw.grid(out.shape[-1]):
                        lines = (
                            line(g * out.R + (rows.start * SIDE + r), n) for r in range(rows.size)
                        )
                        out[g, rows, n] = below_each_other(lines, rows)

    return {"x": tw.bf16["B", "M", "K"], "out": out}, body


def below_each_other(lines: Iterable[Any], rows: Block) -> Any:
    """A tile with these rows; NaN in one spoils its column."""
    total = None
    for number, line in enumerate(lines):
        if rows.extent == 1:
            return line
        part = keep(spread(line.tiles(), 1, 1), np.arange(SIDE) == number)
        total = part if total is None else total + part
    assert total is not None
    return replace(total, rows=[rows.size])


def line_of(x: Any, g: Any, row: int, columns: Any) -> Any:
    """One row of x [P, Q, N], to be repeated down a tile; NaN elsewhere in a tile spoils it."""
    rows = Block(row // SIDE, 1, x.Q)
    tile = x[g, rows, columns]
    if rows.size > 1:
        tile = keep(tile, np.arange(SIDE) == row % SIDE)
    return tw.col_sum(tile)


def move(o: MoveOptions):
    """Parts of x0, x1, … put together, tile by tile.

    pieces: (number of the operand, its first matrix and how far the next one is, the same of the
    result, how many, the tile down and across where it starts in the operand, the same in the
    result, its rows and columns). dtype: of all of them, "fp8" or else bf16.
    """
    count, kind = o["count"], tw.fp8 if o["dtype"] == "fp8" else tw.bf16
    specs = {f"x{k}": kind[f"B{k}", f"M{k}", f"N{k}"] for k in range(count)}

    def body(t: Tensors) -> None:
        out = t["out"]

        def at(x: Any, matrix: Any, m: Block, n: Block, tile: Any) -> tuple[Any, Block, Block]:
            down, across = (
                replace(block, start=block.start + start, extent=extent)
                for block, start, extent in zip((m, n), tile, x.shape[1:], strict=True)
            )
            return matrix, down, across

        for number, source, target, matrices, origin, place, rows, columns in o["pieces"]:
            x = t[f"x{number}"]
            for b in tw.each(matrices):
                for m in tw.grid(rows):
                    for n in tw.grid(columns):
                        tile = x[at(x, b * source[1] + source[0], m, n, origin)].tiles()
                        tile = replace(tile, rows=[m.valid(0)], columns=[n.valid(0)])
                        out[at(out, b * target[1] + target[0], m, n, place)] = tile

    return {**specs, "out": kind["B", "M", "N"]}, body
