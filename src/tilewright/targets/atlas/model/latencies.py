"""The way from the operands of each kernel of whole models to its result, as time.

The formulas are those of the kernels, operation by operation in their order, because every
operation rounds. As in `work.py` nothing is counted that a result does not need: loads and stores between
kernels, spreading, masking of edges, transposes, and casts from fp8, which have other ways.

Every element of a result needs some element of each operand that is named here, so what a formula
says holds for all of them: where a result may be made of any one operand, of the first that is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilewright.targets.atlas.kernels.image_blocks import in_register
from tilewright.targets.atlas.model.clock import Clock, Ready, soonest
from tilewright.targets.atlas.model.kernel_options import (
    AttentionLinearOptions,
    AttentionOptions,
    FromHeadsOptions,
    GatedOptions,
    LinearOptions,
    NormOptions,
    PointwiseOptions,
    ProductOptions,
    ProjectOptions,
    QuantiseOptions,
    RecurrentOptions,
    ReduceOptions,
    ResidueOptions,
    SoftmaxOptions,
    SplitHeadsOptions,
    attention_of,
    linear_of,
)
from tilewright.targets.atlas.model.typed_options import needed

Options = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Moments = Mapping[str, Ready]


def stored(c: Clock, y: Ready, factor: float, dtype: str) -> Ready:
    """y times a factor, as it is stored: a cast has some factors for nothing."""
    if factor != 1.0 and not (dtype == "fp8" and in_register(factor)):
        y = c.vector(y)
    return c.vector(y) if dtype == "fp8" else y


def _mean(c: Clock, total: Ready, count: int) -> Ready:
    return total if count == 1 else c.vector(total)


def normed(c: Clock, values: Ready, width: int, kind: str, epsilon: float, factor: float) -> Ready:
    if kind == "layer":
        values = c.vector(values, _mean(c, c.row_sum(values, width), width))
    length = _mean(c, c.row_sum(c.vector(values), width), width)
    scale = c.function("rsqrt", length if epsilon == 0 else c.vector(length))
    return c.vector(values, scale if factor == 1.0 else c.vector(scale))


def norm(c: Clock, o: NormOptions, shapes: Shapes, m: Moments) -> Ready:
    factor = o["factor"]
    plain = not o["weight"] and not o["bias"]
    late = plain and o["out"] == "fp8" and in_register(factor)
    width = shapes["x"][-1]
    y = normed(c, m["x"], width, o["kind"], o["epsilon"], 1.0 if late else factor)
    for name in ("weight", "bias"):
        y = c.vector(y, m.get(name)) if o.get(name) else y
    return stored(c, y, factor if late else 1.0, o["out"])


def softmax(c: Clock, o: SoftmaxOptions, shapes: Shapes, m: Moments) -> Ready:
    x, width = m["x"], shapes["x"][-1]
    if width == 1:  # 1, whatever x is
        return None
    powers = c.vector(c.vector(x, c.row_extreme(x, width)))
    return c.vector(powers, c.vector(c.row_sum(powers, width)))


def reduce(c: Clock, o: ReduceOptions, shapes: Shapes, m: Moments) -> Ready:
    x, (_, rows, width) = m["x"], shapes["x"]
    total = o["kind"] in ("sum", "mean")
    if o["along"] == "batch":
        count = needed(o["split"], "split")[1]
        # Sums round, so their order stays; the largest of many are found two by two.
        x = c.chain(count - 1 if total else (count - 1).bit_length(), x)
    elif o["along"] == "column":
        count = rows
        x = c.joined(x, rows)
        ways = ("sum_rows" if total else "extreme_rows", "reduce_columns", "vector")
        x = c.after(ways, x) if rows > 1 else x
    else:
        count = width
        x = c.row_sum(x, width) if total else c.row_extreme(x, width)
    return _mean(c, x, count) if o["kind"] == "mean" else x


NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0, "max": -math.inf, "min": math.inf}


def _computed(c: Clock, program: Any, values: dict[str, Ready]) -> Ready:
    """Element-wise operations one after the other, each result under its name in `values`."""
    found: Ready = None
    for operation, result, arguments in program:
        known = [values[a] if isinstance(a, str) else None for a in arguments]
        given = arguments[1:] if operation in ("sub", "div") else arguments
        if len(arguments) == 2 and NEUTRAL.get(operation) in given:
            found = next((k for k in known if k is not None), None)
        else:
            found = c.function(operation, *known)
        values[result] = found
    return found


def pointwise(c: Clock, o: PointwiseOptions, shapes: Shapes, m: Moments) -> Ready:
    values = {name: m[name] for name, _ in o["inputs"]}
    y = _computed(c, o["program"], values) if o["program"] else m[o["inputs"][0][0]]
    return stored(c, y, 1.0, o["out"])


def copy(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    """Of a result of several operands a part may be made of any one."""
    return soonest(*m.values())


def quantise(c: Clock, o: QuantiseOptions, shapes: Shapes, m: Moments) -> Ready:
    return stored(c, m["x"], o["factor"], "fp8")


def residue(c: Clock, o: ResidueOptions, shapes: Shapes, m: Moments) -> Ready:
    y = m["x"] if o["factor"] == 1.0 else c.vector(m["x"])
    return c.vector(c.vector(y, m["high"]))


def split_heads(c: Clock, o: SplitHeadsOptions, shapes: Shapes, m: Moments) -> Ready:
    y = c.chain(2, m["x"]) if o["rope"] else m["x"]
    return c.vector(y)


def from_heads(c: Clock, o: FromHeadsOptions, shapes: Shapes, m: Moments) -> Ready:
    factor = o["factor"]
    return m["x"] if factor > 0 and in_register(1 / factor) else c.vector(m["x"])


def _scaled(c: Clock, y: Ready, m: Moments, names: tuple[str, str]) -> Ready:
    for name in names:
        y = c.vector(y, m[name]) if name in m else y
    return y


def _activated(c: Clock, o: LinearOptions, y: Ready) -> Ready:
    return c.function(o["activation"], y) if o["activation"] else y


def linear(c: Clock, o: LinearOptions, shapes: Shapes, m: Moments) -> Ready:
    total = c.product(m["a"], m["w"])
    if o["precise"]:
        total = c.vector(total, c.vector(c.product(m["a"], m["w_low"])))
    y = _activated(c, o, _scaled(c, total, m, ("scale", "bias")))
    factor = o["factor"]
    if "residual" in m:
        y, factor = c.vector(y if factor == 1.0 else c.vector(y), m["residual"]), 1.0
    return stored(c, y, factor, o["out"])


def product(c: Clock, o: ProductOptions, shapes: Shapes, m: Moments) -> Ready:
    return stored(c, c.product(m["a"], m["b"]), o["factor"], o["out"])


def gated(c: Clock, o: GatedOptions, shapes: Shapes, m: Moments) -> Ready:
    a, width = m["a"], shapes["a"][-1]
    if o["norm"]:
        a = c.vector(normed(c, a, width, o["norm"], o["epsilon"], 1.0))
    gate = _scaled(c, c.product(a, m["w_gate"]), m, ("scale_gate", "bias_gate"))
    up = _scaled(c, c.product(a, m["w_up"]), m, ("scale_up", "bias_up"))
    return c.vector(c.vector(c.function(o["activation"], gate), up))


def project(c: Clock, o: ProjectOptions, shapes: Shapes, m: Moments) -> Ready:
    """A rotation of some columns is not of the others."""
    y = _scaled(c, c.product(m["a"], m["w"]), m, ("scale", "bias"))
    if o["norm"]:
        length = _mean(c, c.row_sum(c.vector(y), o["width"]), o["width"])
        y = c.vector(c.vector(y, c.function("rsqrt", c.vector(length))), m["gain"])
        y = c.vector(y, m["shift"]) if "shift" in m else y
    if o["rope"] and not o["rotated"]:
        y = c.chain(2, y)
    return c.vector(y)


def attention(c: Clock, o: AttentionOptions, shapes: Shapes, m: Moments) -> Ready:
    """Of keys from several sources the last ones. A causal mask leaves one key to some queries, and
    to others none."""
    mask, last = o["mask"], o["parts"] - 1
    number = str(last) if last else ""
    keys, rows = shapes[f"v{number}"][-2], shapes["q"][-2]
    if mask == "causal" and keys < rows:
        return None
    score = c.product(m["q"], m[f"kt{number}"])
    added = mask in ("full", "key")
    if added:
        score = c.vector(score, m[f"mask{number}"])
    top = None if mask == "causal" or keys == 1 else c.after(("extreme_rows",), score)
    power = c.vector(c.vector(c.vector(score, top)))
    share = c.vector(c.product(power, None))
    mixed = c.product(power, m[f"v{number}"])
    y = c.vector(mixed, c.vector(share) if added else share)
    return stored(c, y, 1.0, o["out"])


def attention_linear(c: Clock, o: AttentionLinearOptions, shapes: Shapes, m: Moments) -> Ready:
    heads = attention(c, attention_of(o), shapes, m)
    return linear(c, linear_of(o), shapes, {**m, "a": heads})


def recurrent(c: Clock, o: RecurrentOptions, shapes: Shapes, m: Moments) -> Ready:
    """The first step, or all of them for what is computed last."""
    states: list[Ready] = [m[f"s{k}"] for k in range(len(o["next"]))]
    biased, found = o["bias"], None
    for _ in range(shapes["x"][0] if c.last else 1):
        left = c.vector(states[0])
        total = c.vector(c.product(left, m["w"]), m["scale"]) if left is not None else None
        values: dict[str, Ready] = {f"s{k}": state for k, state in enumerate(states)}
        for _, _, arguments in o["program"]:
            for name in (name for name in arguments if isinstance(name, str)):
                kind, number = name[0], name[1:]
                if kind == "x":
                    values[name] = m["x"]
                elif kind == "r":
                    values[name] = m["rows"]
                elif kind == "p" and number.isdigit():
                    values[name] = c.vector(total, m["bias"]) if int(number) in biased else total
        _computed(c, o["program"], values)
        states = [values[name] for name in o["next"]]
        found = soonest(*states[: o["kept"]])
    return found
