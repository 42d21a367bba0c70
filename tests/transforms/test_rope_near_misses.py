"""raise-composites: what looks like a rotary embedding and is none, and what it costs to be wrong.

Each case is one way to be off by a little; none may become a rope, and the values stay.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spelled import Graph, simplified

from tilewright.dialects.xdsl_api import SSAValue, i64
from tilewright.frontend.imported import Imported

WIDTH, HALF = 8, 4
Spelled = Callable[[Graph, SSAValue, SSAValue, SSAValue, SSAValue], tuple[SSAValue, ...]]


def built(spelled: Spelled, table: int, integer: bool = False, sin_table: int = 0) -> Imported:
    g = Graph()
    element = {"element": i64} if integer else {}
    shape = (2, 3, 5, WIDTH)
    x, other = g.input("x", shape, **element), g.input("other", shape, **element)
    cos = g.input("cos", (1, 1, 5, table), **element)
    sin = g.input("sin", (1, 1, 5, sin_table or table), **element)
    return g.finish(*spelled(g, x, other, cos, sin))


def split_half(
    g: Graph,
    x: SSAValue,
    cos: SSAValue,
    sin: SSAValue,
    factor: float = -1.0,
    upper: SSAValue | None = None,
    lower: SSAValue | None = None,
) -> SSAValue:
    """x * cos + concat(factor * upper, lower) * sin"""
    low, high = g.halves(x)
    upper, lower = upper or high, lower or low
    turned = g.concat([g.op("mul", upper, factor), lower], 3)
    return g.op("add", g.op("mul", x, cos), g.op("mul", turned, sin))


def pairwise(
    g: Graph, a: SSAValue, b: SSAValue, cos: SSAValue, sin: SSAValue, first="sub", second="add"
) -> SSAValue:
    """concat(a * cos - b * sin, a * sin + b * cos)"""
    return g.concat(
        [
            g.op(first, g.op("mul", a, cos), g.op("mul", b, sin)),
            g.op(second, g.op("mul", a, sin), g.op("mul", b, cos)),
        ],
        3,
    )


def with_reader(g: Graph, x: SSAValue, cos: SSAValue, sin: SSAValue) -> tuple[SSAValue, ...]:
    low, high = g.halves(x)
    turned = g.concat([g.op("neg", high), low], 3)
    product = g.op("mul", turned, sin)
    return g.op("add", g.op("mul", x, cos), product), product


WHOLE_TABLES: dict[str, Spelled] = {
    "another factor": lambda g, x, o, c, s: (split_half(g, x, c, s, factor=-2.0),),
    "a factor near -1": lambda g, x, o, c, s: (split_half(g, x, c, s, factor=-0.9990234375),),
    "a factor of +1": lambda g, x, o, c, s: (split_half(g, x, c, s, factor=1.0),),
    "upper half of another": lambda g, x, o, c, s: (
        split_half(g, x, c, s, upper=g.part(o, HALF, HALF)),
    ),
    "lower half of another": lambda g, x, o, c, s: (
        split_half(g, x, c, s, lower=g.part(o, 0, HALF)),
    ),
    "halves swapped": lambda g, x, o, c, s: (
        split_half(g, x, c, s, upper=g.halves(x)[0], lower=g.halves(x)[1]),
    ),
    "overlapping halves": lambda g, x, o, c, s: (
        split_half(g, x, c, s, upper=g.part(x, HALF - 1, HALF)),
    ),
    "one half twice": lambda g, x, o, c, s: (split_half(g, x, c, s, lower=g.halves(x)[1]),),
    "uneven parts": lambda g, x, o, c, s: (
        split_half(g, x, c, s, upper=g.part(x, 3, 5), lower=g.part(x, 0, 3)),
    ),
    "stride 2 above only": lambda g, x, o, c, s: (
        split_half(g, x, c, s, upper=g.part(x, 1, HALF, 2)),
    ),
    "stride 2 below only": lambda g, x, o, c, s: (
        split_half(g, x, c, s, lower=g.part(x, 0, HALF, 2)),
    ),
    "a second reader": lambda g, x, o, c, s: with_reader(g, x, c, s),
}
HALF_TABLES: dict[str, Spelled] = {
    "sub and add exchanged": lambda g, x, o, c, s: (pairwise(g, *g.halves(x), c, s, "add", "sub"),),
    "both sub": lambda g, x, o, c, s: (pairwise(g, *g.halves(x), c, s, "sub", "sub"),),
    "both add": lambda g, x, o, c, s: (pairwise(g, *g.halves(x), c, s, "add", "add"),),
    "pairs of two tensors": lambda g, x, o, c, s: (
        pairwise(g, g.halves(x)[0], g.halves(o)[1], c, s),
    ),
    "swapped in pairs": lambda g, x, o, c, s: (pairwise(g, g.halves(x)[1], g.halves(x)[0], c, s),),
    "overlapping pairs": lambda g, x, o, c, s: (
        pairwise(g, g.part(x, 0, HALF), g.part(x, 3, HALF), c, s),
    ),
    "pairs that leave elements out": lambda g, x, o, c, s: (
        pairwise(g, g.part(x, 0, HALF), g.part(x, 0, HALF), c, s),
    ),
    "stride 2 of one of a pair": lambda g, x, o, c, s: (
        pairwise(g, g.part(x, 0, HALF, 2), g.part(x, HALF, HALF), c, s),
    ),
}


@pytest.mark.parametrize("name", WHOLE_TABLES)
def test_not_split_half(name: str) -> None:
    assert "rope" not in simplified(built(WHOLE_TABLES[name], WIDTH))[1]


@pytest.mark.parametrize("name", HALF_TABLES)
def test_not_pairwise(name: str) -> None:
    assert "rope" not in simplified(built(HALF_TABLES[name], HALF))[1]


def test_tables_of_different_width() -> None:
    """cos for every element, sin the same for all: no table of one is a table of the other."""

    def spelled(g: Graph, x: SSAValue, o: SSAValue, cos: SSAValue, sin: SSAValue):
        return (split_half(g, x, cos, sin),)

    assert "rope" not in simplified(built(spelled, WIDTH, sin_table=1))[1]


def test_integers() -> None:
    """Integers do not rotate."""

    def spelled(g: Graph, x: SSAValue, o: SSAValue, cos: SSAValue, sin: SSAValue):
        return (pairwise(g, *g.halves(x), cos, sin),)

    assert "rope" not in simplified(built(spelled, HALF, integer=True))[1]


@pytest.mark.parametrize("form", ["split-half", "pairwise"])
def test_the_forms_themselves_are_found(form: str) -> None:
    """What all the cases above are a little off from."""

    def spelled(g: Graph, x: SSAValue, o: SSAValue, cos: SSAValue, sin: SSAValue):
        if form == "pairwise":
            return (pairwise(g, *g.halves(x), cos, sin),)
        return (split_half(g, x, cos, sin),)

    table = HALF if form == "pairwise" else WIDTH
    assert simplified(built(spelled, table))[1]["rope"] == 1


def test_one_rounding_is_within_one_step_of_its_parts() -> None:
    """The kernel rounds once where the parts round three times: at most one f16 step of the terms."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    angles = rng.uniform(-8, 8, (64, 64))
    cos, sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    parts = a * cos - b * sin
    wide = [v.astype(np.float32) for v in (a, b, cos, sin)]
    whole = (wide[0] * wide[2] - wide[1] * wide[3]).astype(np.float16)
    largest = np.maximum(np.abs(a * cos), np.abs(b * sin)).astype(np.float32)
    step = np.spacing(np.maximum(largest, np.abs(whole)).astype(np.float16))
    difference = np.abs(parts.astype(np.float32) - whole.astype(np.float32))
    assert np.all(difference <= 1.5 * step.astype(np.float32))
