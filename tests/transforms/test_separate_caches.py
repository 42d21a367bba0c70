"""raise-composites: attention on a cache and on new tokens sees both apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spelled import Graph, attribute_of, simplified

from tilewright.dialects.intents import text
from tilewright.dialects.xdsl_api import IntegerAttr, Operation, TensorType, f32, i1, i64

TURNED = [0, 2, 1, 3]


def attention(g: Graph, q: Any, k: Any, v: Any, mask: Any = None, **attributes: Any) -> Any:
    operands = [q, k, v] if mask is None else [q, k, v, mask]
    return g.call("gemma_attention", operands, q.type, attributes)


@settings(max_examples=20, deadline=None)
@given(
    batch=st.integers(1, 2),
    heads=st.integers(1, 3),
    rows=st.integers(1, 4),
    past=st.integers(1, 5),
    tokens_first=st.booleans(),
)
def test_parts_are_turned_on_their_own(
    batch: int, heads: int, rows: int, past: int, tokens_first: bool
) -> None:
    g = Graph()
    q = g.input("q", (batch, heads, rows, 8))
    sizes = {"past": past, "new": rows}
    made = []
    for name in "kv":
        if tokens_first:
            parts = [g.input(f"{name}_{n}", (batch, c, heads, 8)) for n, c in sizes.items()]
            made.append(g.transpose(g.concat(parts, 1), TURNED))
        else:
            parts = [g.input(f"{name}_{n}", (batch, heads, c, 8)) for n, c in sizes.items()]
            made.append(g.concat(parts, 2))
    mask = g.input("mask", (batch, 1, rows, past + rows), i1)
    keys, values = made
    model = g.finish(attention(g, q, keys, values, mask, mask_kind=text("bool")))
    result, families = simplified(model, tolerance=1e-5)
    assert families["gemma_attention"] == 1 and families["concat"] == 2
    axis = attribute_of(result, "concat", "axis")
    assert isinstance(axis, IntegerAttr) and axis.value.data == 2


def cache_step(
    g: Graph, kind: str | None, numbers: Any = None, predicate: str = "eq", heads: int = 3
) -> Any:
    """One token attends to a cache in which it has its own place; the cache is a result too."""
    count = 6
    q = g.input("q", (1, heads, 1, 8))
    at = g.weight("places", np.arange(count) if numbers is None else np.asarray(numbers))
    position = g.input("position", (1,), i64)
    chosen = g.op("compare", at, position, element=i1)
    assert isinstance(chosen.owner, Operation)
    chosen.owner.attributes["predicate"] = text(predicate)
    row = g.reshape(chosen, (1, count, 1, 1))
    caches = []
    for name in "kv":
        new, past = (
            g.input(f"{name}_{n}", (1, c, heads, 8)) for n, c in (("new", 1), ("past", count))
        )
        caches.append(g.op("select", row, new, past))
    keys, values = (g.transpose(x, TURNED) for x in caches)
    if kind is None:
        return [attention(g, q, keys, values), *caches]
    element = i1 if kind == "bool" else f32
    mask = g.input("mask", (1, 1, 1, count), element)
    return [attention(g, q, keys, values, mask, mask_kind=text(kind)), *caches]


@pytest.mark.parametrize("kind", ["bool", "additive", None])
@pytest.mark.parametrize("seed", range(4))
def test_a_replaced_entry_becomes_a_part(kind: str | None, seed: int) -> None:
    g = Graph()
    _, families = simplified(g.finish(*cache_step(g, kind)), tolerance=1e-5, seed=seed)
    assert families["concat"] == 3 and families["select"] >= 2  # the caches are still made


@pytest.mark.parametrize(
    "numbers, predicate", [([0, 1, 1, 2, 3, 4], "eq"), (None, "ne"), (None, "le")]
)
def test_what_may_replace_several_entries_stays(numbers: Any, predicate: str) -> None:
    g = Graph()
    model = g.finish(*cache_step(g, "bool", numbers, predicate))
    for seed in range(3):
        _, families = simplified(model, tolerance=1e-5, seed=seed)
        assert "concat" not in families


def test_the_type_of_a_bool_mask_stays() -> None:
    g = Graph()
    result, _ = simplified(g.finish(*cache_step(g, "bool")), tolerance=1e-5)
    kinds = [op.results[0].type for op in result.module.walk() if len(op.results) == 1]
    assert TensorType(i1, [1, 1, 1, 7]) in kinds
