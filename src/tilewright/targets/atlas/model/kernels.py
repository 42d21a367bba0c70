"""The kernels that whole models are made of, written in the tile language.

Activations are [B, M, C]: batch, rows (tokens), channels. Values in front of a matrix product are
fp8, everything else is bf16. Scales of quantised operands are folded into `scale`, one factor per
column of a product, so nothing is rescaled twice. Heads of attention are a leading dimension:
H heads of queries, G of keys and values, each for H / G of queries.

`kernel_records.build(name, options)` gives the kernel for a set of options; `TensorSpec`s carry the names of the
sizes, so a shape that does not fit is an error before anything is compiled.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.attention import (
    Keys,
    attend,
    attend_in_parts,
    reach,
    together,
    together_causal,
)
from tilewright.targets.atlas.kernels.image_blocks import in_register, loaded, stored, times
from tilewright.targets.atlas.model.blocking import GROUP
from tilewright.targets.atlas.model.kernels_long_attention import Span, attend_span, spans
from tilewright.targets.atlas.model.kernels_products import HIGH
from tilewright.targets.atlas.model.kernels_rows import line_of
from tilewright.tile.arrays import as_tiles, kept_in_memory
from tilewright.tile.blocks import Block, whole
from tilewright.tile.layouts import SIDE
from tilewright.tile.masks import beyond, beyond_edges, plus
from tilewright.tile.types import TensorSpec

Options = Mapping[str, Any]
Tensors = dict[str, Any]
Maker = Callable[[Options], tuple[dict[str, TensorSpec], Callable[[Tensors], None]]]

LOW = 16.0  # what fp8 rounding leaves out is kept this many times larger
BODY = 480  # products of tiles in one loop body, at most
ENDLESS = 2.0**126  # the mean square of a row that is to vanish in a norm
FINISHED = 4  # tiles of sums that leave in one step


def given(**specs: TensorSpec | None) -> dict[str, TensorSpec]:
    """Parameters that are there."""
    return {name: spec for name, spec in specs.items() if spec is not None}


# --- rows -------------------------------------------------------------------------------------


def norm(o: Options):
    """rms or layer norm of each row, times `factor`; weight and bias are for later products to
    fold in, unless given as `weight` and `bias`."""
    out = tw.fp8["B", "M", "K"] if o["out"] == "fp8" else tw.bf16["B", "M", "K"]
    row = tw.bf16["K"]
    specs = given(
        x=tw.bf16["B", "M", "K"],
        weight=row if o.get("weight") else None,
        bias=row if o.get("bias") else None,
        out=out,
    )
    factor = o.get("factor", 1.0)
    plain = not o.get("weight") and not o.get("bias")
    late = plain and o["out"] == "fp8" and in_register(factor)

    def body(t: Tensors) -> None:
        x = t["x"]
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                scale = 1.0 if late else factor
                y = normed_rows(x[b, m, :], x.K, o["kind"], o["epsilon"], scale)
                if "weight" in t:
                    y = y * t["weight"][:]
                if "bias" in t:
                    y = y + t["bias"][:]
                t["out"][b, m, :] = stored(y, factor if late else 1.0, o["out"])

    return specs, body


def normed_rows(values: Any, width: int, kind: str, epsilon: float, factor: float) -> Any:
    """Whole rows of so many columns, normed, times a factor."""
    if kind == "layer":
        values = values - tw.row_sum(values) * (1 / width)
    length = tw.row_sum(tw.square(values), nonnegative=True) * (1 / width)
    # Rows beyond the edge are like none that was seen: brought to length 1 they could
    # make sums infinite, and attention would mix these into the others.
    scale = tw.rsqrt(plus(length, epsilon, ENDLESS))
    return values * (scale if factor == 1.0 else scale * factor)


def softmax(o: Options):
    """softmax of each row"""

    def body(t: Tensors) -> None:
        for b in tw.each(t["x"].B):
            for m in tw.grid(t["x"].M):
                row = as_tiles(t["x"][b, m, :])
                seen = tw.neutral(row, "max")  # beyond the edge, powers are 0
                powers = tw.exp(seen - tw.row_max(seen))
                shares = powers * tw.recip(tw.row_sum(powers))
                t["out"][b, m, :] = replace(shares, columns=row.columns)

    return given(x=tw.bf16["B", "M", "K"], out=tw.bf16["B", "M", "K"]), body


# --- element by element -----------------------------------------------------------------------

UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "gelu_tanh": tw.gelu,
    **{
        n: getattr(tw, n)
        for n in [
            "abs",
            "exp",
            "exp2",
            "log",
            "log2",
            "sqrt",
            "rsqrt",
            "recip",
            "tanh",
            "sin",
            "cos",
            "relu",
            "sigmoid",
            "square",
            "cube",
            "silu",
        ]
    },
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "max": tw.maximum,
    "min": tw.minimum,
}

# Functions that are infinite or NaN at 0, which is what lies beyond the edge of an input: in a
# product that would meet zeros and spoil what is inside.
UNSAFE = ("div", "recip", "rsqrt", "log", "log2")
LEAST = 2.0**-40  # from here on they are not


def pointwise(o: Options):
    """A chain of element-wise operations in one pass.

    `program` lists (operation, result, arguments): names of earlier results or parameters, or
    numbers. The last result is the output. `inputs` says how each parameter is spread:

    weights: "row" (one number per column), "matrix" (the same for all of the batch).
    values: "full"; "column", "line" and "number" have a single column, row or both. Behind an @
    stands what they have of the batch, if not all of it: "one", or, of a batch of P * Q matrices
    (`split`), "outer" (P), "inner" (Q), or "rows" (line and number only: [P, Q, N], a row each).
    """
    specs = {name: _spread_spec(kind) for name, kind in o["inputs"]}
    bounded = _bounded_below(o["program"])
    specs["out"] = tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"]

    def body(t: Tensors) -> None:
        out = t["out"]
        for batch in _batches(o, out.B):
            for m in tw.grid(out.M):
                outside = {
                    name: _spread_value(t[name], kind, batch, m, None)
                    for name, kind in o["inputs"]
                    if kind.startswith(("column", "number"))
                }
                for n in tw.grid(out.N):
                    values: dict[str, Any] = dict(outside)
                    for name, kind in o["inputs"]:
                        if name not in outside:
                            values[name] = _spread_value(t[name], kind, batch, m, n)
                    for operation, result, arguments in o["program"]:
                        known = [values.get(a, a) if isinstance(a, str) else a for a in arguments]
                        risky = operation in UNSAFE and isinstance(arguments[-1], str)
                        if risky and bounded.get(arguments[-1], 0.0) < LEAST:
                            known[-1] = beyond_edges(known[-1], 1.0)
                        function = (UNARY if len(known) == 1 else BINARY)[operation]
                        values[result] = function(*known)
                    last = (
                        values[o["program"][-1][1]] if o["program"] else values[o["inputs"][0][0]]
                    )
                    out[batch[0], m, n] = stored(last, 1.0, o["out"])

    return specs, body


def _bounded_below(program: Any) -> dict[str, float]:
    """Numbers that no element of a result is below, whatever lies beyond the edges of inputs."""
    found: dict[str, float] = {}

    def least(argument: Any) -> float | None:
        return found.get(argument) if isinstance(argument, str) else float(argument)

    for operation, result, arguments in program:
        known = [least(argument) for argument in arguments]
        numbers = [number for number in known if number is not None]
        if operation in ("abs", "square", "relu", "exp", "sigmoid"):
            found[result] = 0.0
        elif operation == "max" and numbers:
            found[result] = max(numbers)
        elif len(numbers) == len(known) == 2 and operation in ("add", "min"):
            found[result] = sum(numbers) if operation == "add" else min(numbers)
        elif len(numbers) == 2 and operation == "mul" and min(numbers) >= 0:
            found[result] = numbers[0] * numbers[1]
    return found


def _spread_spec(kind: str) -> TensorSpec:
    if kind in ("row", "matrix"):
        return tw.bf16["N"] if kind == "row" else tw.bf16["M", "N"]
    form, _, batch = kind.partition("@")
    # U and L are 1, under a name, so that what lies beyond the edge is left out.
    down = "M" if form in ("full", "column") else "U"
    across = "N" if form in ("full", "line") else "L"
    first = {"": "B", "one": "A", "outer": "P", "inner": "Q"}
    return tw.bf16["P", "Q", across] if batch == "rows" else tw.bf16[first[batch], down, across]


def _batches(o: Options, count: int) -> Iterator[tuple[Any, Any, Any]]:
    """(index of a matrix, of its group, within its group) for all of a batch."""
    if not o.get("split"):
        for b in tw.each(count):
            yield b, None, None
        return
    outer, inner = o["split"]
    rows = any(kind.endswith("@rows") for _, kind in o["inputs"])
    for p in tw.each(outer):
        for q in range(inner) if rows else tw.each(inner):
            yield p * inner + q, p, q


def _spread_value(x: Any, kind: str, batch: tuple[Any, Any, Any], m: Any, n: Any) -> Any:
    """Tiles (m, n) of a parameter."""
    if kind in ("row", "matrix"):
        return x[n] if kind == "row" else x[m, n]
    form, _, part = kind.partition("@")
    if part == "rows":
        line = line_of(x, batch[1], batch[2], n if form == "line" else slice(None))
        return line if form == "line" else tw.row_sum(line)
    first = {"": batch[0], "one": 0, "outer": batch[1], "inner": batch[2]}[part]
    if form == "full":
        return x[first, m, n]
    if form == "column":
        return tw.row_sum(x[first, m, :])
    line = tw.col_sum(x[first, :, n if form == "line" else slice(None)])
    return line if form == "line" else tw.row_sum(line)


def copy(o: Options):
    """x as it is, for a tensor that is read often from VMEM; `rank` is its number of dimensions"""
    sizes = ("A", "B", "M", "N")[4 - o["rank"] :]
    spec = (tw.fp8 if o["dtype"] == "fp8" else tw.bf16)[sizes]

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]

        def part(leading: tuple[Any, ...]) -> None:
            for m in tw.grid(x.M):
                for n in tw.grid(x.N):
                    out[(*leading, m, n)] = x[(*leading, m, n)]

        def over(leading: tuple[Any, ...], rest: tuple[str, ...]) -> None:
            if not rest:
                part(leading)
                return
            for index in tw.each(getattr(x, rest[0])):
                over((*leading, index), rest[1:])

        over((), sizes[:-2])

    return given(x=spec, out=spec), body


def quantise(o: Options):
    """fp8 of x * factor; edges: with zeros beyond the last of its "rows" or of its "columns"."""
    factor = o.get("factor", 1.0)

    def body(t: Tensors) -> None:
        x = t["x"]
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                for n in tw.grid(x.N):
                    y = x[b, m, n].tiles()
                    if o.get("edges") == "columns":
                        y = replace(beyond_edges(replace(y, rows=[SIDE]), 0.0), rows=y.rows)
                    elif o.get("edges") == "rows":
                        y = replace(
                            beyond_edges(replace(y, columns=[SIDE]), 0.0), columns=y.columns
                        )
                    t["out"][b, m, n] = stored(y, factor, "fp8")

    return given(x=tw.bf16["B", "M", "N"], out=tw.fp8["B", "M", "N"]), body


def residue(o: Options):
    """fp8 of (x * factor - high) * 16: what rounding x * factor to the fp8 values `high` left out"""
    factor = o.get("factor", 1.0)

    def body(t: Tensors) -> None:
        x = t["x"]
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                for n in tw.grid(x.N):
                    y = x[b, m, n]
                    y = y if factor == 1.0 else y * factor
                    rest = y - tw.to_bf16(t["high"][b, m, n])
                    t["out"][b, m, n] = tw.to_fp8(rest, LOW)

    full = ("B", "M", "N")
    return given(x=tw.bf16[full], high=tw.fp8[full], out=tw.fp8[full]), body


def split_heads(o: Options):
    """fp8 heads of x [B, M, C] times factor, each a whole number of tiles wide; `out` and `rope` as
    for project."""
    factor, kind = o.get("factor", 1.0), o["out"]
    heads = o["heads"]
    spec = {
        "heads": tw.fp8["B", heads, "M", "D"],
        "columns": tw.fp8["B", heads, "D", "M"].panels(),
        "values": tw.fp8["B", heads, "M", "D"],
    }[kind]

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]
        width, late = x.C // heads // SIDE, not o.get("rope")
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                for h in range(heads):
                    parts = []
                    for d in whole(out.D).parts():
                        y = x[b, m, Block(h * width + d.start, 1, x.C)]
                        parts.append(y if late or factor == 1.0 else y * factor)
                    if o.get("rope"):
                        parts = _rotated(t, b, m, parts)
                    for d, y in zip(whole(out.D).parts(), parts, strict=True):
                        codes = stored(y, factor if late else 1.0, "fp8")
                        if kind == "columns":
                            out[b, h, d, m] = codes.T
                        else:
                            out[b, h, m, d] = codes

    return given(x=tw.bf16["B", "M", "C"], **_rotations(o), out=spec), body


def from_heads(o: Options):
    """bf16 [B * H, M, E] of fp8 heads [B, H, M, D] times factor; D is E, the `width`, in whole tiles"""
    factor = o.get("factor", 1.0)

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]
        for b in tw.each(x.B):
            for h in tw.each(x.H):
                for m in tw.grid(x.M):
                    for n in tw.grid(out.E):
                        y = loaded(x[b, h, m, replace(n, extent=x.D)], factor).tiles()
                        out[b * x.H + h, m, n] = replace(y, columns=[n.valid(0)])

    return given(x=tw.fp8["B", "H", "M", "D"], out=tw.bf16["C", "M", "E"]), body


# --- products ---------------------------------------------------------------------------------


def _finish(t: Mapping[str, Any], o: Options, y: Any, columns: Any, names: tuple[str, str]) -> Any:
    """A product's tiles times the scales of its columns, plus its bias."""
    scale, bias = names
    if scale in t:
        y = y * t[scale][columns]
    if bias in t:
        y = y + t[bias][columns]
    return y


def _activated(o: Options, y: Any) -> Any:
    name = o.get("activation")
    return UNARY[name](y) if name else y


def _row_blocks(rows: int, deep: int) -> int:
    """Elements of the rows worked on in one loop body."""
    tiles = -(-rows // SIDE)
    most = max(1, BODY // deep)
    blocks = -(-tiles // most)
    return -(-tiles // blocks) * SIDE


def linear(o: Options):
    """activation(a @ w * scale + bias) * factor + residual.

    precise: "weights" adds a @ w_low / 16, "both" also a_low @ w / 16: what rounding to fp8 left out
    of w and a.
    heads: a is [B, H, M, D], the result of attention, and w has the rows of its heads one after
    the other. rows: pass over all panels of w for one block of so many rows after the other;
    without it over all rows for one panel after the other. depth: keep the sums of such a block on
    chip and add so many elements of the contraction at a time; w is then not in panels.
    together: so many columns of tiles side by side for every two tiles of rows.
    """
    heads = bool(o.get("heads"))
    out = tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"]
    row = tw.bf16["N"]
    precise = o.get("precise")
    left = tw.fp8["B", "H", "M", "D"] if heads else tw.fp8["B", "M", "K"]
    specs = given(
        a=left,
        a_low=left if precise == "both" else None,
        w=tw.fp8["K", "N"] if o.get("depth") else tw.fp8["K", "N"].panels(),
        w_low=tw.fp8["K", "N"].panels() if precise else None,
        scale=row if o.get("scale") else None,
        bias=row if o.get("bias") else None,
        residual=tw.bf16["B", "M", "N"] if o.get("residual") else None,
        out=out,
    )

    def body(t: Tensors) -> None:
        a, w, out = t["a"], t["w"], t["out"]
        deep = -(-w.K // SIDE) * {"both": 3, "weights": 2}.get(precise or "", 1)
        rows = o.get("rows") or _row_blocks(out.M, deep)

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
            y = _activated(o, _finish(rows, o, total, n, ("scale", "bias")))
            factor = o.get("factor", 1.0)
            if "residual" in t:
                y, factor = times(y, factor) + t["residual"][b, m, n], 1.0
            out[b, m, n] = stored(y, factor, o["out"])

        if o.get("together"):
            for n in tw.grid(out.N, o["together"] * SIDE, padded=True):
                for b in tw.each(out.B):
                    for m in tw.grid(out.M, HIGH * SIDE, padded=True):
                        side_by_side(b, m, n.parts())
        elif o.get("depth"):
            add_in_parts(t, o, finish)
        elif not o.get("rows"):
            for n in tw.grid(out.N):
                finishing = _spread_once(t, n) if out.B > 1 else t
                for b in tw.each(out.B):
                    for m in tw.grid(out.M, rows):
                        tile(b, m, n, finishing)
        else:
            for b in tw.each(out.B):
                for m in tw.grid(out.M, rows):
                    for n in tw.grid(out.N):
                        tile(b, m, n)

    return specs, body


def _spread_once(t: Tensors, n: Any) -> dict[str, Any]:
    """Scales and biases of columns n as tiles in VMEM, for all matrices of a batch."""
    return {
        name: {n: kept_in_memory(as_tiles(t[name][n]))} for name in ("scale", "bias") if name in t
    }


def product(o: Options):
    """a @ b * factor of two activations.

    left, right: "plain", or "transposed" where the operand has its last two dimensions swapped.
    shared: the operand, a or b, that is the same for all of the batch. rows: as for linear.
    """
    shared = o.get("shared")
    specs = given(
        a=tw.fp8[
            ("A" if shared == "a" else "B", *(("K", "M") if o["left"] != "plain" else ("M", "K")))
        ],
        b=tw.fp8[
            ("A" if shared == "b" else "B", *(("N", "K") if o["right"] != "plain" else ("K", "N")))
        ],
        out=tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"],
    )
    factor = o.get("factor", 1.0)

    def body(t: Tensors) -> None:
        left, right, out = t["a"], t["b"], t["out"]
        rows = o.get("rows") or _row_blocks(out.M, -(-left.K // SIDE))

        def first(batch: Any, m: Any, k: Any) -> Any:
            return left[batch, m, k] if o["left"] == "plain" else left[batch, k, m].T

        def second(batch: Any, k: Any, n: Any) -> Any:
            return right[batch, k, n] if o["right"] == "plain" else right[batch, n, k].T

        for b in tw.each(out.B):
            mine = 0 if shared == "a" else b
            other = 0 if shared == "b" else b
            for m in tw.grid(out.M, rows):
                for n in tw.grid(out.N):
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
    width = -(-a.D // SIDE)
    for h in range(a.H):
        for d in range(width):
            yield a[b, h, m, Block(d, 1, a.D)], Block(h * width + d, 1, deep)


def add_in_parts(t: Tensors, o: Options, finish: Callable[..., None]) -> None:
    """a @ w for one block of rows after the other, with the sums of a block on chip."""
    a, w, out = t["a"], t["w"], t["out"]
    wide = -(-out.N // SIDE) * SIDE  # a single column would be spread over its tile
    sums = tw.scratch(tw.bf16[min(o["rows"], out.M), wide], on_chip=True)
    for b in tw.each(out.B):
        for m in tw.grid(out.M, o["rows"]):
            for r in tw.grid(m.size, GROUP * SIDE):
                sums[r, :] = 0.0
            for k in tw.grid(w.K, o["depth"]):
                for r in tw.grid(m.size, GROUP * SIDE):
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
    on chip while all weights pass by. Parts are written out: a loop around all that is done with
    one would need too many pointers. norm: of whole rows, where a is bf16."""
    left = tw.scratch(tw.fp8[min(rows, a.M), a.K], on_chip=True)
    for b in tw.each(a.B):
        for m in tw.grid(a.M, rows, unroll=True):
            for r in tw.grid(m.size):
                if norm is not None:
                    left[r, :] = tw.to_fp8(norm(a[b, r.within(m), :]))
                    continue
                for k in tw.grid(a.K, FINISHED * SIDE):
                    left[r, k] = a[b, r.within(m), k]
            yield b, m, left


def _in_groups(products: Iterator[tuple[int, Any]], size: int) -> Iterator[tuple[int, list[Any]]]:
    """(number of a group, its sums) when all columns of a group of so many are ready."""
    ready: dict[int, Any] = {}
    for column, sums in products:
        ready[column] = sums
        group = range(column - column % size, column - column % size + size)
        if all(c in ready for c in group):
            yield column // size, [ready.pop(c) for c in group]


def gated(o: Options):
    """silu(a @ w_gate * scale_gate) * (a @ w_up * scale_up), as fp8; together: so many columns of
    tiles of both side by side for every two tiles of rows. rows: all weights for one part of so many
    rows after the other. norm, epsilon, norm_factor, with rows: a is bf16 and normed so on its way."""
    row = tw.bf16["N"]
    specs = given(
        a=tw.bf16["B", "M", "K"] if o.get("norm") else tw.fp8["B", "M", "K"],
        w_gate=tw.fp8["K", "N"].panels(),
        w_up=tw.fp8["K", "N"].panels(),
        scale_gate=row if o.get("scale") else None,
        scale_up=row if o.get("scale") else None,
        bias_gate=row if o.get("bias") else None,
        bias_up=row if o.get("bias") else None,
        out=tw.fp8["B", "M", "N"],
    )

    def body(t: Tensors) -> None:
        a, out = t["a"], t["out"]
        rows = _row_blocks(out.M, 2 * -(-a.K // SIDE))
        both = (t["w_gate"], t["w_up"])

        def finish(b: Any, m: Any, n: Any, gate: Any, up: Any) -> None:
            gate = _finish(t, o, gate, n, ("scale_gate", "bias_gate"))
            up = _finish(t, o, up, n, ("scale_up", "bias_up"))
            out[b, m, n] = tw.to_fp8(UNARY[o.get("activation", "silu")](gate) * up)

        deep = whole(a.K).parts()

        def normed(values: Any) -> Any:
            return normed_rows(values, a.K, o["norm"], o["epsilon"], o.get("norm_factor", 1.0))

        norm = normed if o.get("norm") else None

        def side_by_side(b: Any, m: Any, across: list[Block], left: list[Any]) -> None:
            columns = [[w[k, n] for k in deep] for n in across for w in both]
            for n, sums in _in_groups(tw.row_products(left, columns), 2):
                finish(b, m, across[n], *sums)

        if o.get("together") and o.get("rows"):
            for b, m, left in rows_in_parts(a, o["rows"], norm):
                for n in tw.grid(out.N, o["together"] * SIDE, padded=True):
                    for r in tw.grid(m.size, HIGH * SIDE):
                        side_by_side(b, r.within(m), n.parts(), [left[r, k] for k in deep])
            return
        if o.get("together"):
            for n in tw.grid(out.N, o["together"] * SIDE, padded=True):
                for b in tw.each(out.B):
                    for m in tw.grid(out.M, HIGH * SIDE, padded=True):
                        side_by_side(b, m, n.parts(), [a[b, m, k] for k in deep])
            return
        if o.get("rows"):
            for b, m, left in rows_in_parts(a, o["rows"], norm):
                for n in tw.grid(out.N):
                    for r in tw.grid(m.size, _row_blocks(m.size, 2 * -(-a.K // SIDE))):
                        finish(b, r.within(m), n, *(left[r, :] @ w[:, n] for w in both))
            return
        for n in tw.grid(out.N):
            for b in tw.each(out.B):
                for m in tw.grid(out.M, rows):
                    finish(b, m, n, *(a[b, m, :] @ w[:, n] for w in both))

    return specs, body


def project(o: Options):
    """Heads of queries, keys or values: fp8 of (a @ w * scale + bias), rotated if `rope`;
    together: so many heads side by side for every two tiles of rows. rows: as for gated.

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
        scale=row if o.get("scale") else None,
        bias=row if o.get("bias") else None,
        gain=tw.bf16["D"] if o.get("norm") else None,
        shift=tw.bf16["D"] if o.get("shift") else None,
        **_rotations(o),
        out=out,
    )

    def body(t: Tensors) -> None:
        a, w, out = t["a"], t["w"], t["out"]
        rows = _row_blocks(a.M, -(-a.K // SIDE) * -(-w.D // SIDE))
        across = whole(w.D).parts()

        def finish(
            b: Any, h: Any, m: Any, parts: list[Any], angles: tuple[Any, ...] | None = None
        ) -> None:
            """angles: tables that are on chip, and where in them the rows are."""
            parts = [
                _finish(t, o, y, (h, d), ("scale", "bias"))
                for d, y in zip(across, parts, strict=True)
            ]
            if o.get("norm"):
                parts = _normed_head(t, o, across, parts)
            if o.get("rope"):
                turning = o.get("rotated", len(parts) * SIDE) // SIDE
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
            for h, sums in _in_groups(tw.row_products(left, columns), len(across)):
                finish(b, heads[h], m, sums, angles)

        def heads_together() -> Iterator[list[Any]]:
            for g in tw.each(w.H // o["together"]):
                yield [g * o["together"] + k for k in range(o["together"])]

        if o.get("together") and not o.get("rows"):
            for heads in heads_together():
                for b in tw.each(a.B):
                    for m in tw.grid(a.M, HIGH * SIDE, padded=True):
                        side_by_side(b, heads, m, [a[b, m, k] for k in deep])
            return
        if o.get("rows"):
            tables = _tables_in_parts(t, o)
            for b, m, left in rows_in_parts(a, o["rows"]):
                for name, table in tables.items():
                    for r in tw.grid(m.size):
                        angles = _angles(t[name], b, r.within(m), slice(None)).tiles()
                        table[r, :] = replace(angles, columns=[SIDE] * angles.grid[1])
                if o.get("together"):
                    for heads in heads_together():
                        for r in tw.grid(m.size, HIGH * SIDE):
                            parts = [left[r, k] for k in deep]
                            side_by_side(b, heads, r.within(m), parts, (tables, r))
                    continue
                block = _row_blocks(m.size, -(-a.K // SIDE) * len(across))
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


def _normed_head(t: Tensors, o: Options, across: list[Block], parts: list[Any]) -> list[Any]:
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


def _rotations(o: Options) -> dict[str, TensorSpec | None]:
    """The tables of a rotation."""
    table = tw.bf16["B", "M", "P"] if o.get("rope") == "batch" else tw.bf16["M", "P"]
    return dict.fromkeys(("cos", "sin"), table if o.get("rope") else None)


def _tables_in_parts(t: Tensors, o: Options) -> Tensors:
    """Room on chip for the rows of a part, in the tables of a rotation."""
    if not o.get("rope"):
        return {}
    rows, wide = t["cos"].shape[-2], -(-t["cos"].P // SIDE) * SIDE
    spec = tw.bf16[min(o["rows"], rows), wide]
    return {name: tw.scratch(spec, on_chip=True) for name in ("cos", "sin")}


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


def attention(o: Options):
    """softmax(q @ kt + mask) @ v for every head, fp8.

    mask: "causal", "full" ([M, N] added to the scores of all heads, or [B, M, N] with `batch`,
    [H, M, N] or [B, H, M, N] with `per_head`) or "key" ([N], or [B, N]). parts: keys and values of several sources, kt1, v1 and mask1 behind kt, v
    and mask; a causal mask is for the last of them. written_out: every block of queries has code of
    its own, for the keys that it sees under a causal mask, also where that is long. keys: so many
    tiles of keys at a time, with maximum, sum and result carried along, where all are too many. span:
    the same for so many tiles of queries side by side (see `attend_span`).
    """
    mask, batch, count = o.get("mask"), bool(o.get("batch")), o.get("parts", 1)
    numbers = ("", *range(1, count))
    specs: dict[str, TensorSpec | None] = {"q": tw.fp8["B", "H", "M", "D"]}
    for k in numbers:
        keys = f"N{k}"
        specs[f"kt{k}"] = tw.fp8["B", "G", "D", keys].panels()
        specs[f"v{k}"] = tw.fp8["B", "G", keys, "E"]
        if mask == "full":
            lead = ("B",) * batch + ("H",) * bool(o.get("per_head"))
            specs[f"mask{k}"] = tw.bf16[(*lead, "M", keys)]
        elif mask == "key":
            specs[f"mask{k}"] = tw.bf16["B", keys].separate() if batch else tw.bf16[keys]
    specs["out"] = tw.fp8["B", "H", "M", "E"]

    def body(t: Tensors) -> None:
        q, kt, out = t["q"], t["kt"], t["out"]

        def source(k: Any, b: Any, g: Any, h: Any, m: Any, plain: bool = False) -> Keys:
            """Keys and values number k, as queries m see them; plain: all of them."""
            keys, values, added = t[f"kt{k}"], t[f"v{k}"], t.get(f"mask{k}")

            def seen(score: Any, j: Any) -> Any:
                if mask == "causal":
                    return tw.causal(score, m, j, infinite=not blind)
                assert added is not None
                place = (m, j) if mask == "full" else (j,)
                place = (h, *place) if o.get("per_head") else place
                return score + added[(b, *place) if batch else place]

            masked = k == numbers[-1] if mask == "causal" else mask is not None
            masked = masked and not plain
            return Keys(
                keys.shape[-1],
                lambda j: keys[b, g, :, j],
                lambda j: values[b, g, j, :],
                seen if masked else None,
                edges[k],
            )

        last = t[f"kt{numbers[-1]}"].shape[-1]
        blind = last < q.M if mask == "causal" else mask is not None  # a query may see nothing
        # A causal mask hides what lies beyond the last key as well.
        hiding = numbers[-1] if mask == "causal" else None
        edges = {k: beyond(t[f"kt{k}"].shape[-1]) if k != hiding else None for k in numbers}
        total = sum(t[f"kt{k}"].shape[-1] for k in numbers)
        limited = mask == "causal" and count == 1 and not o.get("keys")
        wide = max(q.D, out.E) if o.get("written_out") else None
        blocks = together_causal(q.M, kt.N, wide) if limited else together(total)
        if o.get("span"):
            memory = Span.of(min(o["span"], -(-q.M // SIDE)) * SIDE, out.E)

            def spanned(span: Block, b: Any, g: Any, h: Any) -> None:
                def write(m: Block, y: Any) -> None:
                    out[b, h, m, :] = tw.to_fp8(y)

                attend_span(
                    memory,
                    span,
                    lambda m: q[b, h, m, :],
                    write,
                    lambda m, seen: source("", b, g, h, m, not seen),
                    o["keys"],
                    mask == "causal",
                )

            for span in spans(q.M, kt.N, o["span"], o["keys"], mask == "causal"):
                for b in tw.each(q.B):
                    for g in tw.each(kt.G):
                        for r in tw.each(q.H // kt.G):
                            spanned(span, b, g, g * (q.H // kt.G) + r)
            return
        for b in tw.each(q.B):
            for g in tw.each(kt.G):
                for r in tw.each(q.H // kt.G):
                    h = g * (q.H // kt.G) + r
                    for m in tw.grid(q.M, unroll=blocks):
                        sources = [source(k, b, g, h, m) for k in numbers]
                        if o.get("keys"):
                            y = attend_in_parts(
                                q[b, h, m, :], *sources, size=o["keys"], blind=blind
                            )
                            out[b, h, m, :] = tw.to_fp8(y)
                            continue
                        tiles = reach(m, q.M, kt.N, wide) if limited else None
                        y = attend(q[b, h, m, :], *sources, tiles=tiles, blind=blind)
                        out[b, h, m, :] = tw.to_fp8(y)

    return given(**specs), body
