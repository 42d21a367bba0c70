"""The way from the operands of each kernel of whole models to its result, as time.

The formulas are those of the kernels, operation by operation in their order, because every
operation rounds. As in `work.py` nothing is counted that a result does not need: loads and stores between
kernels, spreading, masking of edges, transposes, and casts from fp8, which have other ways.

Every element of a result needs some element of each operand that is named here, so what a formula
says holds for all of them: where a result may be made of any one operand, of the first that is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.targets.atlas.kernels.image_blocks import in_register
from tilewright.targets.atlas.model.clock import Clock, Ready, soonest

Options = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Moments = Mapping[str, Ready]
Latency = Callable[[Clock, Options, Shapes, Moments], Ready]


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


def norm(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    factor = o.get("factor", 1.0)
    plain = not o.get("weight") and not o.get("bias")
    late = plain and o["out"] == "fp8" and in_register(factor)
    width = shapes["x"][-1]
    y = normed(c, m["x"], width, o["kind"], o["epsilon"], 1.0 if late else factor)
    for name in ("weight", "bias"):
        y = c.vector(y, m.get(name)) if o.get(name) else y
    return stored(c, y, factor if late else 1.0, o["out"])


def softmax(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    x, width = m["x"], shapes["x"][-1]
    if width == 1:  # 1, whatever x is
        return None
    powers = c.vector(c.vector(x, c.row_extreme(x, width)))
    return c.vector(powers, c.vector(c.row_sum(powers, width)))


def reduce(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    x, (_, rows, width) = m["x"], shapes["x"]
    total = o["kind"] in ("sum", "mean")
    if o["along"] == "batch":
        count = o["split"][1]
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


def pointwise(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    values = {name: m[name] for name, _ in o["inputs"]}
    y = _computed(c, o["program"], values) if o["program"] else m[o["inputs"][0][0]]
    return stored(c, y, 1.0, o["out"])


def copy(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    """Of a result of several operands a part may be made of any one."""
    return soonest(*m.values())


def quantise(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    return stored(c, m["x"], o.get("factor", 1.0), "fp8")


def residue(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    y = m["x"] if o.get("factor", 1.0) == 1.0 else c.vector(m["x"])
    return c.vector(c.vector(y, m["high"]))


def split_heads(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    y = c.chain(2, m["x"]) if o.get("rope") else m["x"]
    return c.vector(y)


def from_heads(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    factor = o.get("factor", 1.0)
    return m["x"] if factor > 0 and in_register(1 / factor) else c.vector(m["x"])


def _scaled(c: Clock, y: Ready, m: Moments, names: tuple[str, str]) -> Ready:
    for name in names:
        y = c.vector(y, m[name]) if name in m else y
    return y


def _activated(c: Clock, o: Options, y: Ready) -> Ready:
    return c.function(o["activation"], y) if o.get("activation") else y


def linear(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    total = c.product(m["a"], m["w"])
    if o.get("precise"):
        total = c.vector(total, c.vector(c.product(m["a"], m["w_low"])))
    y = _activated(c, o, _scaled(c, total, m, ("scale", "bias")))
    factor = o.get("factor", 1.0)
    if "residual" in m:
        y, factor = c.vector(y if factor == 1.0 else c.vector(y), m["residual"]), 1.0
    return stored(c, y, factor, o["out"])


def product(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    return stored(c, c.product(m["a"], m["b"]), o.get("factor", 1.0), o["out"])


def gated(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    a, width = m["a"], shapes["a"][-1]
    if o.get("norm"):
        a = c.vector(normed(c, a, width, o["norm"], o["epsilon"], 1.0))
    gate = _scaled(c, c.product(a, m["w_gate"]), m, ("scale_gate", "bias_gate"))
    up = _scaled(c, c.product(a, m["w_up"]), m, ("scale_up", "bias_up"))
    return c.vector(c.vector(c.function(o.get("activation", "silu"), gate), up))


def project(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    """A rotation of some columns is not of the others."""
    y = _scaled(c, c.product(m["a"], m["w"]), m, ("scale", "bias"))
    if o.get("norm"):
        length = _mean(c, c.row_sum(c.vector(y), o["width"]), o["width"])
        y = c.vector(c.vector(y, c.function("rsqrt", c.vector(length))), m["gain"])
        y = c.vector(y, m["shift"]) if "shift" in m else y
    if o.get("rope") and not o.get("rotated"):
        y = c.chain(2, y)
    return c.vector(y)


def attention(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    """Of keys from several sources the last ones. A causal mask leaves one key to some queries, and
    to others none."""
    mask, last = o.get("mask"), o.get("parts", 1) - 1
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
    return c.vector(c.vector(mixed, c.vector(share) if added else share))


def attention_linear(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    return linear(c, o, shapes, {**m, "a": attention(c, o, shapes, m)})


def recurrent(c: Clock, o: Options, shapes: Shapes, m: Moments) -> Ready:
    """The first step, or all of them for what is computed last."""
    states: list[Ready] = [m[f"s{k}"] for k in range(len(o["next"]))]
    biased, found = o.get("bias") or (), None
    for _ in range(shapes["x"][0] if c.last else 1):
        left = c.vector(states[0])
        total = c.vector(c.product(left, m["w"]), m["scale"]) if left is not None else None
        values: dict[str, Ready] = {f"s{k}": state for k, state in enumerate(states)}
        for _, _, arguments in o["program"]:
            for name in arguments:
                kind, number = str(name)[0], str(name)[1:]
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
