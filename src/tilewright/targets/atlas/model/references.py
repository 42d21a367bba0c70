"""What each kernel of a whole model computes, bit for bit.

    REFERENCES["linear"](profile, options, {"a": codes, "w": codes, ...})["out"]

Operands and results are bit patterns (bf16 as uint16, fp8 as uint8) of the tensors without
padding. Every operation rounds as the machine's instruction does, in the kernels' order: products
accumulate over 32 columns at a time, rows are reduced tile by tile. No code is shared with the
kernels or the tile language, so a mistake in either shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE, product
from tilewright.targets.atlas.model.kernel_options import (
    AttentionLinearOptions,
    AttentionOptions,
    CopyOptions,
    Format,
    FromHeadsOptions,
    GatedOptions,
    LinearOptions,
    MoveOptions,
    NormOptions,
    PointwiseOptions,
    ProductOptions,
    ProjectOptions,
    QuantiseOptions,
    ReduceOptions,
    ResidueOptions,
    SoftmaxOptions,
    SplitHeadsOptions,
    attention_of,
    linear_of,
    norm_of,
)
from tilewright.targets.atlas.model.references_attention import Source, attention
from tilewright.targets.atlas.model.references_steps import (
    BINARY,
    COMBINE,
    UNARY,
    Codes,
    bf16,
    broadcast,
    column_total,
    constant,
    fp8,
    recip,
    row_total,
    spoiled,
    spread,
    times,
)
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.targets.atlas.profile import Profile

Operands = Mapping[str, Codes]
Reference = Callable[[Profile, Mapping[str, Any], Operands], dict[str, Codes]]


def _stored(profile: Profile, form: Format, y: Codes) -> dict[str, Codes]:
    """The result in a format."""
    return {"out": fp8(profile, y) if form == "fp8" else y}


# --- rows -------------------------------------------------------------------------------------


def norm(profile: Profile, options: NormOptions, operands: Operands) -> dict[str, Codes]:
    """rms or layer norm of each row, times a factor, a weight, plus a bias."""
    values = operands["x"]
    share = constant(1 / values.shape[-1])
    if options["kind"] == "layer":
        mean = arith.multiply(row_total(profile, values, "sum"), share)
        values = arith.subtract(values, mean)
    squares = row_total(profile, arith.multiply(values, values), "sum")
    spread_ = arith.add(arith.multiply(squares, share), constant(options["epsilon"]))
    scale, factor = UNARY["rsqrt"](spread_), options["factor"]
    plain = not options["weight"] and not options["bias"]
    if plain and options["out"] == "fp8" and factor in (1, 2, 4, 8, 16, 32, 64, 128):
        return _stored(profile, options["out"], times(arith.multiply(values, scale), factor))
    y = arith.multiply(values, times(scale, factor))
    if options["weight"]:
        y = arith.multiply(y, spread(operands["weight"]))
    if options["bias"]:
        y = arith.add(y, spread(operands["bias"]))
    return _stored(profile, options["out"], y)


def softmax(profile: Profile, options: SoftmaxOptions, operands: Operands) -> dict[str, Codes]:
    """softmax of each row."""
    x = operands["x"]
    powers = UNARY["exp"](arith.subtract(x, row_total(profile, x, "max")))
    return {"out": arith.multiply(powers, recip(row_total(profile, powers, "sum")))}


def reduce(profile: Profile, options: ReduceOptions, operands: Operands) -> dict[str, Codes]:
    """One number of many, along rows, columns or a part of the batch."""
    x, along, mean = operands["x"], options["along"], options["kind"] == "mean"
    kind = "sum" if mean else options["kind"]
    batch, rows, width = x.shape
    if along == "batch":
        first, count, inner = needed(options["split"], "split")
        parts = x.reshape(first, count, inner, rows, width)
        y = parts[:, 0]
        for k in range(1, count):
            y = COMBINE[kind](y, parts[:, k])
        y = times(y, 1 / count) if mean else y
        return {"out": y.reshape(first * inner, rows, width)}
    if along == "column":
        y = column_total(profile, x, kind)
        y = times(y, 1 / rows) if mean else y
    else:
        y = row_total(profile, x, kind)
        y = times(y, 1 / width) if mean else y
        if along == "row":
            return {"out": y}
        # Side by side by a sum with zeros in every column.
        y = spread(spoiled(y, 1)).swapaxes(1, 2)
    lines = options["lines"]
    if lines == 1:
        return {"out": y}
    stacked = spoiled(y.reshape(batch // lines, lines, -1), 1)
    out = spread(stacked)
    if lines % SIDE == 1:  # alone in its tile: nothing is added to it
        out[:, -1] = stacked[:, -1]
    return {"out": out}


# --- element by element -----------------------------------------------------------------------


def pointwise(profile: Profile, options: PointwiseOptions, operands: Operands) -> dict[str, Codes]:
    """A chain of element-wise operations on broadcast operands."""
    values: dict[str, Codes] = {}
    for name, kind in options["inputs"]:
        values[name] = broadcast(operands[name], kind, options["split"])
    last = values[options["inputs"][0][0]]
    for operation, result, arguments in options["program"]:
        known = [values[a] if isinstance(a, str) else constant(a) for a in arguments]
        last = (UNARY if len(known) == 1 else BINARY)[operation](*known)
        values[result] = last
    shapes = [values[name].shape for name, _ in options["inputs"]]
    shape = tuple(options["shape"] or np.broadcast_shapes(*shapes))
    return _stored(profile, options["out"], np.broadcast_to(last, shape))


def copy(profile: Profile, options: CopyOptions, operands: Operands) -> dict[str, Codes]:
    """x as it is."""
    return {"out": operands["x"]}


def move(profile: Profile, options: MoveOptions, operands: Operands) -> dict[str, Codes]:
    """Parts of operands put together."""
    pieces = options["pieces"]
    shape = [0, 0, 0]
    for _, _, (first, step), count, _, (down, across), rows, columns in pieces:
        shape[0] = max(shape[0], first + step * (count - 1) + 1)
        shape[1] = max(shape[1], down * SIDE + rows)
        shape[2] = max(shape[2], across * SIDE + columns)
    out = np.zeros(shape, operands["x0"].dtype)
    for number, source, target, count, origin, place, rows, columns in pieces:
        for k in range(count):
            matrix = operands[f"x{number}"][source[0] + k * source[1]]
            part = matrix[origin[0] * SIDE :, origin[1] * SIDE :][:rows, :columns]
            there = out[target[0] + k * target[1]][place[0] * SIDE :, place[1] * SIDE :]
            there[:rows, :columns] = part
    return {"out": out}


def quantise(profile: Profile, options: QuantiseOptions, operands: Operands) -> dict[str, Codes]:
    """fp8 of x times a factor."""
    return {"out": fp8(profile, times(operands["x"], options["factor"]))}


def residue(profile: Profile, options: ResidueOptions, operands: Operands) -> dict[str, Codes]:
    """fp8 of what rounding x times a factor to fp8 left out, 16 times larger."""
    y = times(operands["x"], options["factor"])
    rest = arith.subtract(y, bf16(profile, operands["high"]))
    return {"out": fp8(profile, arith.multiply(rest, constant(16.0)))}


def split_heads(
    profile: Profile, options: SplitHeadsOptions, operands: Operands
) -> dict[str, Codes]:
    """fp8 heads [B, H, M, D], or transposed, of x [B, M, H * D] times a factor, rotated if asked
    for."""
    x = times(operands["x"], options["factor"])
    batch, rows, _ = x.shape
    heads = x.reshape(batch, rows, options["heads"], -1).transpose(0, 2, 1, 3)
    if options["rope"]:
        tables = (operands["cos"], operands["sin"])
        heads = _rotated(heads, *(t[:, None] if t.ndim == 3 else t for t in tables))
    return {"out": _head_order(fp8(profile, heads), options["out"])}


def from_heads(profile: Profile, options: FromHeadsOptions, operands: Operands) -> dict[str, Codes]:
    """bf16 [B * H, M, E] of fp8 heads [B, H, M, D] times a factor, without padding."""
    x = times(bf16(profile, operands["x"]), options["factor"])
    batch, heads, rows, width = x.shape
    return {"out": x.reshape(batch * heads, rows, width)[..., : options["width"]]}


def _head_order(heads: Codes, kind: str) -> Codes:
    """Heads [B, H, M, D] as they are kept: keys as [B, H, D, M]."""
    return np.ascontiguousarray(heads.swapaxes(2, 3) if kind == "columns" else heads)


# --- products ---------------------------------------------------------------------------------


def _scaled(y: Codes, scale: Codes | None, bias: Codes | None) -> Codes:
    """A product times the scales of its columns, plus its bias."""
    if scale is not None:
        y = arith.multiply(y, spread(scale))
    if bias is not None:
        y = arith.add(y, spread(bias))
    return y


def linear(profile: Profile, options: LinearOptions, operands: Operands) -> dict[str, Codes]:
    """activation(a @ w * scale + bias) * factor + residual."""
    a, w = operands["a"], operands["w"]
    if options["heads"]:
        a = _side_by_side(a)
    y = _rows_by(a, w)
    if options["precise"]:
        left, right = [_whole(a, 2)], [_whole(operands["w_low"], 0)]
        if options["precise"] == "both":
            low = operands["a_low"]
            left.append(_whole(_side_by_side(low) if options["heads"] else low, 2))
            right.append(_whole(w, 0))
        rest = _rows_by(np.concatenate(left, 2), np.concatenate(right, 0))
        y = arith.add(y, arith.multiply(rest, constant(1 / 16)))
    y = _scaled(y, operands.get("scale"), operands.get("bias"))
    if options["activation"]:
        y = UNARY[options["activation"]](y)
    y = times(y, options["factor"])
    if options["residual"]:
        y = arith.add(y, operands["residual"])
    return _stored(profile, options["out"], y)


def product_of_two(
    profile: Profile, options: ProductOptions, operands: Operands
) -> dict[str, Codes]:
    """a @ b times a factor, both of them activations."""
    a, b = operands["a"], operands["b"]
    a = a if options["left"] == "plain" else a.swapaxes(1, 2)
    b = b if options["right"] == "plain" else b.swapaxes(1, 2)
    batch = max(len(a), len(b))
    a, b = (np.broadcast_to(x, (batch, *x.shape[1:])) for x in (a, b))
    y = np.stack([product(left, right) for left, right in zip(a, b, strict=True)])
    return _stored(profile, options["out"], times(y, options["factor"]))


def _whole(x: Codes, axis: int) -> Codes:
    """x with zeros added along an axis until it is whole tiles."""
    more = [(0, 0)] * x.ndim
    more[axis] = (0, -x.shape[axis] % SIDE)
    return np.pad(x, more)


def _rows_by(a: Codes, w: Codes) -> Codes:
    """a [B, M, K] @ w [K, N]: rows of all batches at once, as each row is on its own."""
    return product(a.reshape(-1, a.shape[-1]), w).reshape(*a.shape[:-1], w.shape[1])


def _side_by_side(heads: Codes) -> Codes:
    """[B, H, M, D] -> [B, M, H * D'], every head a whole number of tiles wide."""
    batch, count, rows, width = heads.shape
    wide = np.zeros((batch, rows, count, -(-width // SIDE) * SIDE), np.uint8)
    wide[..., :width] = heads.transpose(0, 2, 1, 3)
    return wide.reshape(batch, rows, -1)


def gated(profile: Profile, options: GatedOptions, operands: Operands) -> dict[str, Codes]:
    """fp8 of activation(a @ w_gate * scale_gate + bias_gate) * (a @ w_up * scale_up + bias_up), of the
    normed rows of a if asked for."""
    a = operands["a"]
    if options["norm"]:
        a = norm(profile, norm_of(options), {"x": a})["out"]
    sides = [
        _scaled(
            _rows_by(a, operands[f"w_{side}"]),
            operands.get(f"scale_{side}"),
            operands.get(f"bias_{side}"),
        )
        for side in ("gate", "up")
    ]
    gate = UNARY[options["activation"]](sides[0])
    return {"out": fp8(profile, arith.multiply(gate, sides[1]))}


def project(profile: Profile, options: ProjectOptions, operands: Operands) -> dict[str, Codes]:
    """fp8 heads of a @ w * scale + bias, rotated if asked for."""
    a, w = operands["a"], operands["w"]
    heads = []
    for head in range(w.shape[0]):
        rows = [operands[name][head] if name in operands else None for name in ("scale", "bias")]
        y = _scaled(_rows_by(a, w[head]), *rows)
        if options["norm"]:
            y = _normed_head(profile, options, operands, y)
        if options["rope"]:
            turning = options["rotated"] or y.shape[-1]
            turned = _rotated(y[..., :turning], operands["cos"], operands["sin"])
            y = np.concatenate([turned, y[..., turning:]], -1)
        heads.append(fp8(profile, y))
    return {"out": _head_order(np.stack(heads, 1), options["out"])}


def _normed_head(profile: Profile, options: ProjectOptions, operands: Operands, y: Codes) -> Codes:
    """The rms norm of each row of a head, whose columns beyond `width` are 0."""
    squares = row_total(profile, arith.multiply(y, y), "sum")
    mean = arith.multiply(squares, constant(1 / options["width"]))
    y = arith.multiply(
        y, UNARY["rsqrt"](arith.add(mean, constant(needed(options["norm"], "norm"))))
    )
    y = arith.multiply(y, spread(operands["gain"]))
    return arith.add(y, spread(operands["shift"])) if options["shift"] else y


def _rotated(x: Codes, cos: Codes, sin: Codes) -> Codes:
    """The first and second half of each row turned by the angles of a table [M, P] or [B, M, P].

    Tables narrower than half a head are 0 beyond, as memory is.
    """
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    cos, sin = (np.pad(t, [(0, 0)] * (t.ndim - 1) + [(0, half - t.shape[-1])]) for t in (cos, sin))
    first = arith.subtract(arith.multiply(low, cos), arith.multiply(high, sin))
    second = arith.add(arith.multiply(high, cos), arith.multiply(low, sin))
    return np.concatenate([first, second], -1)


def attention_heads(
    profile: Profile, options: AttentionOptions, operands: Operands
) -> dict[str, Codes]:
    """softmax(q @ kt + mask) @ v for every head."""
    q, numbers = operands["q"], ("", *range(1, options["parts"]))
    batch, heads, rows, _ = q.shape
    shared = heads // operands["kt"].shape[1]
    out = np.empty((batch, heads, rows, operands["v"].shape[-1]), np.uint16)
    for b, h in np.ndindex(batch, heads):
        sources = []
        for k in numbers:
            mask = operands.get(f"mask{k}")
            if mask is not None and options["batch"]:
                mask = mask[b]
            if mask is not None and options["per_head"]:
                mask = mask[h]
            keys, values = (operands[f"{name}{k}"][b, h // shared] for name in ("kt", "v"))
            sources.append(Source(keys, values, mask))
        out[b, h] = attention(
            profile, q[b, h], sources, options["mask"], options["keys"], options["span"]
        )
    return _stored(profile, options["out"], out)


def attention_linear(
    profile: Profile, options: AttentionLinearOptions, operands: Operands
) -> dict[str, Codes]:
    """linear of attention."""
    heads = attention_heads(profile, attention_of(options), operands)["out"]
    return linear(profile, linear_of(options), {**operands, "a": heads})
