"""Heads of queries, keys and values as kernels of whole models: projected, normed, rotated, split and merged."""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.image_blocks import loaded, stored
from tilewright.targets.atlas.model.kernel_options import (
    FromHeadsOptions,
    ProjectOptions,
    SplitHeadsOptions,
)
from tilewright.targets.atlas.model.kernels import Tensors, given
from tilewright.targets.atlas.model.kernels_linear import (
    in_groups,
    row_blocks,
    rows_in_parts,
    scaled,
)
from tilewright.targets.atlas.model.kernels_matrices import by_heads as by_heads_of
from tilewright.targets.atlas.model.kernels_products import HIGH
from tilewright.targets.atlas.model.kernels_resident import by_heads
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.tile.blocks import Block, whole
from tilewright.tile.layouts import SIDE
from tilewright.tile.types import TensorSpec


def split_heads(o: SplitHeadsOptions):
    """fp8 heads of x [B, M, C] times factor, each a whole number of tiles wide; `out` and `rope` as
    for project."""
    factor, kind = o["factor"], o["out"]
    heads = o["heads"]
    spec = {
        "heads": tw.fp8["B", heads, "M", "D"],
        "columns": tw.fp8["B", heads, "D", "M"].panels(),
        "values": tw.fp8["B", heads, "M", "D"],
    }[kind]

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]
        width, late = x.C // heads // SIDE, not o["rope"]
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                for h in range(heads):
                    parts = []
                    for d in whole(out.D).parts():
                        y = x[b, m, Block(h * width + d.start, 1, x.C)]
                        parts.append(y if late or factor == 1.0 else y * factor)
                    if o["rope"]:
                        parts = _rotated(t, b, m, parts)
                    for d, y in zip(whole(out.D).parts(), parts, strict=True):
                        codes = stored(y, factor if late else 1.0, "fp8")
                        if kind == "columns":
                            out[b, h, d, m] = codes.T
                        else:
                            out[b, h, m, d] = codes

    return given(x=tw.bf16["B", "M", "C"], **_rotations(o), out=spec), body


def from_heads(o: FromHeadsOptions):
    """bf16 [B * H, M, E] of fp8 heads [B, H, M, D] times factor; D is E, the `width`, in whole tiles"""
    factor = o["factor"]

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]
        for b in tw.each(x.B):
            for h in tw.each(x.H):
                for m in tw.grid(x.M):
                    for n in tw.grid(out.E):
                        y = loaded(x[b, h, m, replace(n, extent=x.D)], factor).tiles()
                        out[b * x.H + h, m, n] = replace(y, columns=[n.valid(0)])

    return given(x=tw.fp8["B", "H", "M", "D"], out=tw.bf16["C", "M", "E"]), body


def project(o: ProjectOptions):
    """Heads of queries, keys or values: fp8 of (a @ w * scale + bias), rotated if `rope`;
    together: so many heads side by side for every two tiles of rows. rows: as for gated.
    resident: as for linear.

    out: "heads" is [B, H, M, D]; "columns" is [B, H, D, M] in panels, keys as attention wants
    them; "values" is [B, H, M, D]. With rope a head's first half and
    second half are pairs, each a whole number of tiles wide; rotated: the columns of these halves,
    if more follow that are not rotated. norm: the epsilon of an rms norm of each head of `width`
    columns that are not padding, before the rotation, times `gain`, plus `shift` if asked for.
    """
    kind = o["out"]
    out = {
        "heads": tw.fp8["B", "H", "M", "D"],
        "columns": tw.fp8["B", "H", "D", "M"].panels(),
        "values": tw.fp8["B", "H", "M", "D"],
    }[kind]
    row = tw.bf16["H", "D"].separate()
    specs = given(
        a=tw.fp8["B", "M", "K"],
        w=tw.fp8["H", "K", "D"].panels(),
        scale=row if o["scale"] else None,
        bias=row if o["bias"] else None,
        gain=tw.bf16["D"] if o["norm"] else None,
        shift=tw.bf16["D"] if o["shift"] else None,
        **_rotations(o),
        out=out,
    )

    def body(t: Tensors) -> None:
        a, w, out = t["a"], t["w"], t["out"]
        rows = row_blocks(a.M, -(-a.K // SIDE) * -(-w.D // SIDE))
        across = whole(w.D).parts()

        def finish(
            b: Any, h: Any, m: Any, parts: list[Any], angles: tuple[Any, ...] | None = None
        ) -> None:
            """angles: tables that are on chip, and where in them the rows are."""
            parts = [
                scaled(t, y, (h, d), ("scale", "bias")) for d, y in zip(across, parts, strict=True)
            ]
            if o["norm"]:
                parts = _normed_head(t, o, across, parts)
            if o["rope"]:
                turning = (o["rotated"] or len(parts) * SIDE) // SIDE
                tables, place = angles or (t, m)
                parts = _rotated(tables, b, place, parts[:turning]) + parts[turning:]
            for d, y in zip(across, parts, strict=True):
                if kind == "columns":
                    out[b, h, d, m] = tw.to_fp8(y).T
                else:
                    out[b, h, m, d] = tw.to_fp8(y)

        deep = whole(w.K).parts()

        def side_by_side(
            b: Any, heads: list[Any], m: Any, left: list[Any], angles: tuple[Any, ...] | None = None
        ) -> None:
            columns = [[w[h, k, d] for k in deep] for h in heads for d in across]
            for h, sums in in_groups(tw.row_products(left, columns), len(across)):
                finish(b, heads[h], m, sums, angles)

        def heads_together() -> Iterator[list[Any]]:
            count = needed(o["together"], "together")
            for g in tw.each(w.H // count):
                yield [g * count + k for k in range(count)]

        if o["together"] and not o["rows"]:
            for heads in heads_together():
                for b in tw.each(a.B):
                    for m in tw.grid(a.M, HIGH * SIDE, padded=True):
                        side_by_side(b, heads, m, [a[b, m, k] for k in deep])
            return
        if o["resident"]:
            by_heads(t, finish)
            return
        if o["matrices"] > 1:
            tables = _tables_in_parts(t, o)
            _fill_tables(t, tables, 0, whole(a.M))
            block = row_blocks(a.M, -(-a.K // SIDE) * len(across))
            by_heads_of(t, o["matrices"], block, tables, finish)
            return
        if o["rows"]:
            tables = _tables_in_parts(t, o)
            for b, m, left in rows_in_parts(a, o["rows"]):
                _fill_tables(t, tables, b, m)
                if o["together"]:
                    for heads in heads_together():
                        for r in tw.grid(m.size, HIGH * SIDE):
                            parts = [left[r, k] for k in deep]
                            side_by_side(b, heads, r.within(m), parts, (tables, r))
                    continue
                block = row_blocks(m.size, -(-a.K // SIDE) * len(across))
                for h in tw.each(w.H):
                    for r in tw.grid(m.size, block):
                        parts = [left[r, :] @ w[h, :, d] for d in across]
                        finish(b, h, r.within(m), parts, (tables, r))
            return
        for h in tw.each(w.H):
            for b in tw.each(a.B):
                for m in tw.grid(a.M, rows):
                    finish(b, h, m, [a[b, m, :] @ w[h, :, d] for d in across])

    return specs, body


def _normed_head(t: Tensors, o: ProjectOptions, across: list[Block], parts: list[Any]) -> list[Any]:
    """The tiles of a head, normed together; its padding is 0 and stays so."""
    tiles = [replace(y.tiles(), columns=[SIDE]) for y in parts]
    squares = tw.square(tiles[0])
    for y in tiles[1:]:
        squares = squares + tw.square(y)
    scale = tw.rsqrt(tw.row_sum(squares) * (1 / o["width"]) + o["norm"])
    found = []
    for d, y in zip(across, tiles, strict=True):
        y = y * scale * t["gain"][d]
        found.append(y + t["shift"][d] if "shift" in t else y)
    return found


def _rotations(o: ProjectOptions | SplitHeadsOptions) -> dict[str, TensorSpec | None]:
    """The tables of a rotation."""
    table = tw.bf16["B", "M", "P"] if o["rope"] == "batch" else tw.bf16["M", "P"]
    return dict.fromkeys(("cos", "sin"), table if o["rope"] else None)


def _tables_in_parts(t: Tensors, o: ProjectOptions) -> Tensors:
    """Room on chip for the rows of a part, in the tables of a rotation."""
    if not o["rope"]:
        return {}
    rows, wide = t["cos"].shape[-2], -(-t["cos"].P // SIDE) * SIDE
    spec = tw.bf16[min(o["rows"], rows), wide]
    return {name: tw.scratch(spec, on_chip=True) for name in ("cos", "sin")}


def _fill_tables(t: Tensors, tables: Tensors, b: Any, m: Block) -> None:
    """Bring rows of the tables of a rotation to the chip."""
    for name, table in tables.items():
        for r in tw.grid(m.size):
            angles = _angles(t[name], b, r.within(m), slice(None)).tiles()
            table[r, :] = replace(angles, columns=[SIDE] * angles.grid[1])


def _angles(table: Any, b: Any, m: Any, columns: Any) -> Any:
    """Rows of a table, which may have a batch."""
    return table[(b, m, columns) if len(table.shape) == 3 else (m, columns)]


def _rotated(t: Tensors, b: Any, m: Any, parts: list[Any]) -> list[Any]:
    half = len(parts) // 2
    first, second = [], []
    for d, (x, y) in enumerate(zip(parts[:half], parts[half:], strict=True)):
        columns = Block(d, 1, t["cos"].shape[-1])
        # Beyond its edge a table is 0, and so is the head, which is whole tiles wide.
        cos, sin = (
            replace(_angles(t[n], b, m, columns).tiles(), columns=[SIDE]) for n in ("cos", "sin")
        )
        x, y = x.tiles(), y.tiles()
        first.append(x * cos - y * sin)
        second.append(y * cos + x * sin)
    return first + second
