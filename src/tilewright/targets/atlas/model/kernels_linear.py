"""Products of matrices as kernels of whole models: with a weight, of two activations, gated.

How rows are cut: over all of them for one panel of the weight after the other, over all panels for one
block of rows, or with the sums of a block on chip.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.blocking import blocks
from tilewright.targets.atlas.kernels.image_blocks import stored, times
from tilewright.targets.atlas.model.blocking import group_of
from tilewright.targets.atlas.model.kernel_options import (
    GatedOptions,
    LinearOptions,
    ProductOptions,
    norm_of,
)
from tilewright.targets.atlas.model.kernels import (
    LOW,
    UNARY,
    Tensors,
    given,
    normed_rows,
)
from tilewright.targets.atlas.model.kernels_matrices import by_columns as by_columns_of
from tilewright.targets.atlas.model.kernels_products import HIGH
from tilewright.targets.atlas.model.kernels_resident import by_columns
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.tile.arrays import as_tiles, kept_in_memory
from tilewright.tile.blocks import Block, whole
from tilewright.tile.layouts import SIDE

BODY = 480  # products of tiles in one loop body, at most
FINISHED = 4  # tiles of sums that leave in one step
SHARING = 8  # matrices of a batch in one loop body, at most
FEW_PARTS = 6  # of the rows, each with code of its own


def scaled(t: Mapping[str, Any], y: Any, columns: Any, names: tuple[str, str]) -> Any:
    """A product's tiles times the scales of its columns, plus its bias."""
    scale, bias = names
    if scale in t:
        y = y * t[scale][columns]
    if bias in t:
        y = y + t[bias][columns]
    return y


def _activated(o: LinearOptions, y: Any) -> Any:
    name = o["activation"]
    return UNARY[name](y) if name else y


def row_blocks(rows: int, deep: int) -> int:
    """Elements of the rows worked on in one loop body."""
    tiles = -(-rows // SIDE)
    most = max(1, BODY // deep)
    blocks = -(-tiles // most)
    return -(-tiles // blocks) * SIDE


def linear(o: LinearOptions):
    """activation(a @ w * scale + bias) * factor + residual.

    precise: "weights" adds a @ w_low / 16, "both" also a_low @ w / 16: what rounding to fp8 left out
    of w and a.
    heads: a is [B, H, M, D], the result of attention, and w has the rows of its heads one after
    the other. rows: pass over all panels of w for one block of so many rows after the other;
    without it over all rows for one panel after the other. depth: keep the sums of such a block on
    chip and add so many elements of the contraction at a time; w is then not in panels.
    together: so many columns of tiles side by side for every two tiles of rows. resident: all of w is
    brought to the chip first.
    """
    heads = bool(o["heads"])
    out = tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"]
    row = tw.bf16["N"]
    precise = o["precise"]
    left = tw.fp8["B", "H", "M", "D"] if heads else tw.fp8["B", "M", "K"]
    specs = given(
        a=left,
        a_low=left if precise == "both" else None,
        w=tw.fp8["K", "N"] if o["depth"] or o["blocks"] else tw.fp8["K", "N"].panels(),
        w_low=tw.fp8["K", "N"].panels() if precise else None,
        scale=row if o["scale"] else None,
        bias=row if o["bias"] else None,
        residual=tw.bf16["B", "M", "N"] if o["residual"] else None,
        out=out,
    )

    def body(t: Tensors) -> None:
        a, w, out = t["a"], t["w"], t["out"]
        deep = -(-w.K // SIDE) * {"both": 3, "weights": 2}.get(precise or "", 1)
        rows = o["rows"] or row_blocks(out.M, deep)

        def corrected(acc: Any, b: Any, m: Any, n: Any) -> Any:
            """The product with what its fp8 operands left out."""
            if not precise:
                return acc
            low = tw.zeros()
            for part, columns in _contraction(a, b, m, w.K, heads):
                low += part @ t["w_low"][columns, n]
            if precise == "both":
                for part, columns in _contraction(t["a_low"], b, m, w.K, heads):
                    low += part @ w[columns, n]
            return acc + low * (1 / LOW)

        def tile(b: Any, m: Any, n: Any, rows: Mapping[str, Any] = t) -> None:
            acc = tw.zeros()
            for part, columns in _contraction(a, b, m, w.K, heads):
                acc += part @ w[columns, n]
            finish(b, m, n, corrected(acc, b, m, n), rows)

        def side_by_side(b: Any, m: Any, columns: list[Block]) -> None:
            parts = list(_contraction(a, b, m, w.K, heads))
            left, right = [tiles for tiles, _ in parts], [k for _, k in parts]
            for c, y in tw.row_products(left, [[w[k, n] for k in right] for n in columns]):
                finish(b, m, columns[c], y)

        def finish(b: Any, m: Any, n: Any, total: Any, rows: Mapping[str, Any] = t) -> None:
            y = _activated(o, scaled(rows, total, n, ("scale", "bias")))
            factor = o["factor"]
            if "residual" in t:
                y, factor = times(y, factor) + t["residual"][b, m, n], 1.0
            out[b, m, n] = stored(y, factor, o["out"])

        if o["together"]:
            for n in tw.grid(out.N, o["together"] * SIDE, padded=True):
                for b in tw.each(out.B):
                    for m in tw.grid(out.M, HIGH * SIDE, padded=True):
                        side_by_side(b, m, n.parts())
        elif o["depth"]:
            add_in_parts(t, o, finish)
        elif o["blocks"]:
            for b in tw.each(out.B):
                for m, n in blocks(out.M, w.K, out.N):
                    tile(b, m, n)
        elif o["resident"]:
            by_columns(
                t,
                lambda b, m: _contraction(a, b, m, w.K, heads),
                lambda b, m, n, sums: finish(b, m, n, corrected(sums, b, m, n)),
            )
        elif not o["rows"]:
            for n in tw.grid(out.N):
                finishing = _spread_once(t, n) if out.B > 1 else t
                for b in tw.each(out.B, unroll=_matrices_in_a_body(out.M, deep)):
                    for m in tw.grid(out.M, rows):
                        tile(b, m, n, finishing)
        elif o["matrices"] > 1:
            block = row_blocks(out.M, deep)
            by_columns_of(
                t, o["matrices"], block, lambda x, b, m: _contraction(x, b, m, w.K, heads), finish
            )
        else:
            _rows_one_by_one(t, rows, tile)

    return specs, body


def _matrices_in_a_body(rows: int, deep: int) -> int:
    """Matrices of few rows that one loop body goes through: they share its weights, scales and biases,
    which would be loaded again for every one of them."""
    return max(1, min(SHARING, BODY // (deep * -(-rows // SIDE))))


def _rows_one_by_one(t: Tensors, rows: int, tile: Callable[[Any, Any, Any], None]) -> None:
    """Blocks of so many rows, each past all columns of weights."""
    for b in tw.each(t["out"].B):
        for m in tw.grid(t["out"].M, rows):
            for n in tw.grid(t["out"].N):
                tile(b, m, n)


def _spread_once(t: Tensors, n: Any) -> dict[str, Any]:
    """Scales and biases of columns n as tiles in VMEM, for all matrices of a batch."""
    return {
        name: {n: kept_in_memory(as_tiles(t[name][n]))} for name in ("scale", "bias") if name in t
    }


def product(o: ProductOptions):
    """a @ b * factor of two activations.

    left, right: "plain", or "transposed" where the operand has its last two dimensions swapped.
    shared: the operand, a or b, that is the same for all of the batch. rows, blocks: as for linear.
    """
    shared = o["shared"]
    specs = given(
        a=tw.fp8[
            ("A" if shared == "a" else "B", *(("K", "M") if o["left"] != "plain" else ("M", "K")))
        ],
        b=tw.fp8[
            ("A" if shared == "b" else "B", *(("N", "K") if o["right"] != "plain" else ("K", "N")))
        ],
        out=tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"],
    )
    factor = o["factor"]

    def body(t: Tensors) -> None:
        left, right, out = t["a"], t["b"], t["out"]

        def across() -> Iterator[tuple[Any, Any]]:
            """Blocks of the result: (rows, columns)."""
            if o["blocks"]:
                yield from blocks(out.M, left.K, out.N)
                return
            for m in tw.grid(out.M, o["rows"] or row_blocks(out.M, -(-left.K // SIDE))):
                for n in tw.grid(out.N):
                    yield m, n

        def first(batch: Any, m: Any, k: Any) -> Any:
            return left[batch, m, k] if o["left"] == "plain" else left[batch, k, m].T

        def second(batch: Any, k: Any, n: Any) -> Any:
            return right[batch, k, n] if o["right"] == "plain" else right[batch, n, k].T

        for b in tw.each(out.B):
            mine = 0 if shared == "a" else b
            other = 0 if shared == "b" else b
            for m, n in across():
                acc = tw.zeros()
                for k in tw.steps(left.K, unroll=True):
                    acc += first(mine, m, k) @ second(other, k, n)
                out[b, m, n] = stored(acc, factor, o["out"])

    return specs, body


def _contraction(a: Any, b: Any, m: Any, deep: int, heads: bool) -> Iterator[tuple[Any, Any]]:
    """(tiles of a, the rows of w they meet), all of the contraction."""
    if not heads:
        for k in tw.steps(deep, unroll=True):
            yield a[b, m, k], k
        return
    count, columns = a.shape[1], a.shape[-1]
    width = -(-columns // SIDE)
    for h in range(count):
        for d in range(width):
            yield a[b, h, m, Block(d, 1, columns)], Block(h * width + d, 1, deep)


def add_in_parts(t: Tensors, o: LinearOptions, finish: Callable[..., None]) -> None:
    """a @ w for one block of rows after the other, with the sums of a block on chip."""
    a, w, out = t["a"], t["w"], t["out"]
    wide = -(-out.N // SIDE) * SIDE  # a single column would be spread over its tile
    rows, depth = needed(o["rows"], "rows"), needed(o["depth"], "depth")
    sums = tw.scratch(tw.bf16[min(rows, out.M), wide], on_chip=True)
    for b in tw.each(out.B):
        for m in tw.grid(out.M, rows):
            group = SIDE * group_of(-(-m.size // SIDE), wide // SIDE, depth // SIDE)
            for r in tw.grid(m.size, group, padded=True):
                sums[r, :] = 0.0
            for k in tw.grid(w.K, depth):
                for r in tw.grid(m.size, group, padded=True):
                    left = a[b, r.within(m), k]
                    for n in whole(out.N).parts():
                        acc = tw.accumulator(sums[r, n])
                        acc += left @ w[k, n]
                        sums[r, n] = acc
            for r in tw.grid(m.size):
                for n in tw.grid(out.N, FINISHED * SIDE):
                    finish(b, r.within(m), n, sums[r, n])


def rows_in_parts(
    a: Any, rows: int, norm: Callable[[Any], Any] | None = None
) -> Iterator[tuple[Any, Block, Any]]:
    """Parts of so many rows of a [B, M, K]: the index in the batch, the part, and its rows, which are
    on chip while all weights pass by. A few parts are unrolled: a loop around all that is done with
    one needs many pointers, and many parts much room. norm: of whole rows, where a is bf16."""
    left = tw.scratch(tw.fp8[min(rows, a.M), a.K], on_chip=True)
    for b in tw.each(a.B):
        for m in tw.grid(a.M, rows, unroll=FEW_PARTS * rows >= a.M):
            for r in tw.grid(m.size):
                if norm is not None:
                    left[r, :] = tw.to_fp8(norm(a[b, r.within(m), :]))
                    continue
                for k in tw.grid(a.K, FINISHED * SIDE):
                    left[r, k] = a[b, r.within(m), k]
            yield b, m, left


def in_groups(products: Iterator[tuple[int, Any]], size: int) -> Iterator[tuple[int, list[Any]]]:
    """(number of a group, its sums) when all columns of a group of so many are ready."""
    ready: dict[int, Any] = {}
    for column, sums in products:
        ready[column] = sums
        group = range(column - column % size, column - column % size + size)
        if all(c in ready for c in group):
            yield column // size, [ready.pop(c) for c in group]


def gated(o: GatedOptions):
    """silu(a @ w_gate * scale_gate) * (a @ w_up * scale_up), as fp8; together: so many columns of
    tiles of both side by side for every two tiles of rows. rows: all weights for one part of so many
    rows after the other. norm, epsilon, norm_factor, with rows: a is bf16 and normed so on its way."""
    row = tw.bf16["N"]
    specs = given(
        a=tw.bf16["B", "M", "K"] if o["norm"] else tw.fp8["B", "M", "K"],
        w_gate=tw.fp8["K", "N"].panels(),
        w_up=tw.fp8["K", "N"].panels(),
        scale_gate=row if o["scale"] else None,
        scale_up=row if o["scale"] else None,
        bias_gate=row if o["bias"] else None,
        bias_up=row if o["bias"] else None,
        out=tw.fp8["B", "M", "N"],
    )

    def body(t: Tensors) -> None:
        a, out = t["a"], t["out"]
        rows = row_blocks(out.M, 2 * -(-a.K // SIDE))
        both = (t["w_gate"], t["w_up"])

        def finish(b: Any, m: Any, n: Any, gate: Any, up: Any) -> None:
            gate = scaled(t, gate, n, ("scale_gate", "bias_gate"))
            up = scaled(t, up, n, ("scale_up", "bias_up"))
            out[b, m, n] = tw.to_fp8(UNARY[o["activation"]](gate) * up)

        deep = whole(a.K).parts()

        def normed(values: Any) -> Any:
            return normed_rows(values, a.K, norm_of(o))

        norm = normed if o["norm"] else None

        def side_by_side(b: Any, m: Any, across: list[Block], left: list[Any]) -> None:
            columns = [[w[k, n] for k in deep] for n in across for w in both]
            for n, sums in in_groups(tw.row_products(left, columns), 2):
                finish(b, m, across[n], *sums)

        if o["together"] and o["rows"]:
            for b, m, left in rows_in_parts(a, o["rows"], norm):
                for n in tw.grid(out.N, o["together"] * SIDE, padded=True):
                    for r in tw.grid(m.size, HIGH * SIDE):
                        side_by_side(b, r.within(m), n.parts(), [left[r, k] for k in deep])
            return
        if o["together"]:
            for n in tw.grid(out.N, o["together"] * SIDE, padded=True):
                for b in tw.each(out.B):
                    for m in tw.grid(out.M, HIGH * SIDE, padded=True):
                        side_by_side(b, m, n.parts(), [a[b, m, k] for k in deep])
            return
        if o["rows"]:
            for b, m, left in rows_in_parts(a, o["rows"], norm):
                for n in tw.grid(out.N):
                    for r in tw.grid(m.size, row_blocks(m.size, 2 * -(-a.K // SIDE))):
                        finish(b, r.within(m), n, *(left[r, :] @ w[:, n] for w in both))
            return
        for n in tw.grid(out.N):
            for b in tw.each(out.B):
                for m in tw.grid(out.M, rows):
                    finish(b, m, n, *(a[b, m, :] @ w[:, n] for w in both))

    return specs, body
