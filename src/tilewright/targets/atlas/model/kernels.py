"""The kernels that whole models are made of, written in the tile language; here those of rows and elements.

Activations are [B, M, C]: batch, rows (tokens), channels. Values in front of a matrix product are
fp8, everything else is bf16. Scales of quantised operands are folded into `scale`, one factor per
column of a product, so nothing is rescaled twice. Heads of attention are a leading dimension:
H heads of queries, G of keys and values, each for H / G of queries.

`kernel_records.build(name, options)` gives the kernel for a set of options (`kernel_options.py`); `TensorSpec`s carry the names of the
sizes, so a shape that does not fit is an error before anything is compiled.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.image_blocks import in_register, stored
from tilewright.targets.atlas.kernels.long_rows import over, too_long
from tilewright.targets.atlas.model.kernel_options import (
    CopyOptions,
    NormOptions,
    PointwiseOptions,
    QuantiseOptions,
    ResidueOptions,
    SoftmaxOptions,
    check_program,
)
from tilewright.targets.atlas.model.kernels_rows import line_of
from tilewright.tile.arrays import as_tiles
from tilewright.tile.layouts import SIDE
from tilewright.tile.masks import beyond_edges, plus
from tilewright.tile.types import TensorSpec

Tensors = dict[str, Any]

LOW = 16.0  # what fp8 rounding leaves out is kept this many times larger
# Copies of a row of tiles on chip in a norm, in a softmax; and in both, where the next row is fetched.
NORMED, SHARED, FETCHED = 5, 4, 6
ENDLESS = 2.0**126  # the mean square of a row that is to vanish in a norm


def given(**specs: TensorSpec | None) -> dict[str, TensorSpec]:
    """Parameters that are there."""
    return {name: spec for name, spec in specs.items() if spec is not None}


# --- rows -------------------------------------------------------------------------------------


def norm(o: NormOptions):
    """rms or layer norm of each row, times `factor`; weight and bias are for later products to
    fold in, unless given as `weight` and `bias`."""
    out = tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"]
    row = tw.bf16["N"]
    specs = given(
        x=tw.bf16["B", "M", "N"],
        weight=row if o["weight"] else None,
        bias=row if o["bias"] else None,
        out=out,
    )
    factor = o["factor"]
    plain = not o["weight"] and not o["bias"]
    late = plain and o["out"] == "fp8" and in_register(factor)

    def body(t: Tensors) -> None:
        x = t["x"]
        long = o["passes"] and too_long(x.N, copies(x, NORMED))
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                row, scale = normal(row_of(x, b, m), x.N, o, long)
                if factor != 1.0 and not late:
                    scale = scale * factor
                for n in tw.grid(x.N) if long else [slice(None)]:
                    y = row(n) * scale
                    if "weight" in t:
                        y = y * t["weight"][n]
                    if "bias" in t:
                        y = y + t["bias"][n]
                    t["out"][b, m, n] = stored(y, factor if late else 1.0, o["out"])

    return specs, body


def normal(
    tile: Callable[[Any], Any], width: int, o: NormOptions, long: bool = False
) -> tuple[Callable[[Any], Any], Any]:
    """Columns of rows of such a width, which `tile` reads, less their mean in a layer norm, and what
    they are multiplied by. long: rows are read once for every pass over them."""
    centred = o["kind"] == "layer"
    if long:
        mean = over("sum", width, tile) * (1 / width) if centred else None
        row = tile if mean is None else lambda n: tile(n) - mean
        squares = over("sum", width, lambda n: tw.square(row(n)))
    else:
        values = tile(slice(None))
        if centred:
            values = values - tw.row_sum(values) * (1 / width)
        row, squares = lambda n: values, tw.row_sum(tw.square(values), nonnegative=True)
    length = squares * (1 / width)
    # Rows beyond the edge are like none that was seen: brought to length 1 they could
    # make sums infinite, and attention would mix these into the others.
    length = plus(length, o["epsilon"], ENDLESS) if o["guarded"] else length + o["epsilon"]
    return row, tw.rsqrt(length)


def normed_rows(values: Any, width: int, o: NormOptions) -> Any:
    """Whole rows of so many columns, normed, times the factor."""
    row, scale = normal(lambda n: values, width, o)
    return row(slice(None)) * (scale if o["factor"] == 1.0 else scale * o["factor"])


def copies(x: Any, of_one: int) -> int:
    """How many rows of tiles of a matrix are on the chip at a time."""
    return of_one if x.M <= SIDE else FETCHED


def row_of(x: Any, b: Any, m: Any) -> Callable[[Any], Any]:
    """Columns of rows m of a matrix."""
    return lambda n: x[b, m, n]


def shares_in_passes(tile: Callable[[Any], Any], width: int) -> Iterator[tuple[Any, Any]]:
    """The softmax of rows that are read three times: columns, and their shares."""
    top = over("max", width, tile)
    share = tw.recip(over("sum", width, lambda n: tw.exp(tile(n) - top)))
    for n in tw.grid(width):
        yield n, tw.exp(tile(n) - top) * share


def softmax(o: SoftmaxOptions):
    """softmax of each row"""

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]
        long = o["passes"] and too_long(x.N, copies(x, SHARED))
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                if long:
                    for n, share in shares_in_passes(row_of(x, b, m), x.N):
                        out[b, m, n] = share
                    continue
                row = as_tiles(x[b, m, :])
                seen = tw.neutral(row, "max")  # beyond the edge, powers are 0
                powers = tw.exp(seen - tw.row_max(seen))
                shares = powers * tw.recip(tw.row_sum(powers))
                out[b, m, :] = replace(shares, columns=row.columns)

    return given(x=tw.bf16["B", "M", "N"], out=tw.bf16["B", "M", "N"]), body


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


def pointwise(o: PointwiseOptions):
    """A chain of element-wise operations in one pass.

    `program` lists (operation, result, arguments): names of earlier results or parameters, or
    numbers. The last result is the output. `inputs` says how each parameter is spread:

    weights: "row" (one number per column), "matrix" (the same for all of the batch).
    values: "full"; "column", "line" and "number" have a single column, row or both. Behind an @
    stands what they have of the batch, if not all of it: "one", or, of a batch of P * Q matrices
    (`split`), "outer" (P), "inner" (Q), or "rows" (line and number only: [P, Q, N], a row each).
    """
    specs = {name: _spread_spec(kind) for name, kind in o["inputs"]}
    check_program(o["program"], specs)
    bounded = _bounded_below(o["program"])
    specs["out"] = tw.fp8["B", "M", "N"] if o["out"] == "fp8" else tw.bf16["B", "M", "N"]

    def body(t: Tensors) -> None:
        out = t["out"]
        for batch in _batches(o, out.B):
            for m, n, outside in _over(o, t, batch):
                values: dict[str, Any] = dict(outside)
                for name, kind in o["inputs"]:
                    if name not in outside:
                        values[name] = _spread_value(t[name], kind, batch, m, n)
                for operation, result, arguments in o["program"]:
                    known = [values[a] if isinstance(a, str) else a for a in arguments]
                    last = arguments[-1]
                    risky = operation in UNSAFE and o["guarded"]
                    if risky and isinstance(last, str) and bounded.get(last, 0.0) < LEAST:
                        known[-1] = beyond_edges(known[-1], 1.0)
                    function = (UNARY if len(known) == 1 else BINARY)[operation]
                    values[result] = function(*known)
                result = o["program"][-1][1] if o["program"] else o["inputs"][0][0]
                out[batch[0], m, n] = stored(values[result], 1.0, o["out"])

    return specs, body


def _over(o: PointwiseOptions, t: Tensors, batch: Any) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Tiles of a matrix, (rows, columns), with the operands that all columns of tiles share. Rows of
    numbers, where there are no such operands, are shared by all rows of tiles: then columns come first."""
    out = t["out"]
    outside = [(name, kind) for name, kind in o["inputs"] if kind.startswith(("column", "number"))]
    if not outside and any(kind == "row" for _, kind in o["inputs"]):
        for n in tw.grid(out.N):
            for m in tw.grid(out.M):
                yield m, n, {}
        return
    for m in tw.grid(out.M):
        values = {name: _spread_value(t[name], kind, batch, m, None) for name, kind in outside}
        for n in tw.grid(out.N):
            yield m, n, values


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


def _batches(o: PointwiseOptions, count: int) -> Iterator[tuple[Any, Any, Any]]:
    """(index of a matrix, of its group, within its group) for all of a batch."""
    if not o["split"]:
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


def copy(o: CopyOptions):
    """x as it is, for a tensor that is read often from VMEM"""
    sizes = ("A", "B", "M", "N")[4 - o["rank"] :]
    spec, turned = (tw.fp8 if o["dtype"] == "fp8" else tw.bf16)[sizes], o["order"] == "panels"
    spec = spec.panels() if turned else spec

    def body(t: Tensors) -> None:
        x, out = t["x"], t["out"]

        def part(leading: tuple[Any, ...]) -> None:
            if turned:
                for n in tw.grid(x.N):
                    for m in tw.grid(x.M):
                        out[(*leading, m, n)] = x[(*leading, m, n)]
                return
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


def quantise(o: QuantiseOptions):
    """fp8 of x * factor; edges: with zeros beyond the last of its "rows" or of its "columns"."""
    factor = o["factor"]

    def body(t: Tensors) -> None:
        x = t["x"]
        for b in tw.each(x.B):
            for m in tw.grid(x.M):
                for n in tw.grid(x.N):
                    y = x[b, m, n].tiles()
                    if o["edges"] == "columns":
                        y = replace(beyond_edges(replace(y, rows=[SIDE]), 0.0), rows=y.rows)
                    elif o["edges"] == "rows":
                        y = replace(
                            beyond_edges(replace(y, columns=[SIDE]), 0.0), columns=y.columns
                        )
                    t["out"][b, m, n] = stored(y, factor, "fp8")

    return given(x=tw.bf16["B", "M", "N"], out=tw.fp8["B", "M", "N"]), body


def residue(o: ResidueOptions):
    """fp8 of (x * factor - high) * 16: what rounding x * factor to the fp8 values `high` left out"""
    factor = o["factor"]

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
