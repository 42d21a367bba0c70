"""Keys and values of earlier tokens: fp8 with scales of their own, in the order products read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported


def attends(rows: int, past: int, heads_first: bool, layers: int) -> Imported:
    """New tokens that attend to a cache and to each other; 4 heads on 2 of keys, 64 wide."""
    net = ModelBuilder("attends", seed=6)
    x = net.input("x", (1, rows, 96))
    tables = net.rotary_tables(rows, 64)
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            shape = (1, 2, past, 64) if heads_first else (1, past, 2, 64)
            caches = [net.input(f"past_{part}{number}", shape) for part in "kv"]
            if heads_first:
                caches = [net.transpose(cache, (0, 2, 1, 3)) for cache in caches]
            normed = net.rms_norm(x, "norm")
            q = net.rope(net.heads(net.linear(normed, 256, "q"), 4), tables)
            k = net.rope(net.heads(net.linear(normed, 128, "k"), 2), tables)
            v = net.heads(net.linear(normed, 128, "v"), 2)
            keys, values = (net.concat(pair, 1) for pair in zip(caches, (k, v), strict=True))
            x = x + net.linear(net.attention(q, keys, values), 96, "o")
            net.output(f"k{number}", k)
    net.output("y", x)
    return net.build()


def drawn(model: Imported, seed: int, keys: float) -> dict[str, np.ndarray]:
    """Inputs whose caches are far larger than what the scales were made for."""
    draw = np.random.default_rng(seed)
    sizes = {one.name: keys if one.name.startswith("past_k") else 1.0 for one in model.inputs}
    numbers = {one.name: draw.normal(size=one.shape) for one in model.inputs}
    return {name: (numbers[name] * sizes[name]).astype(np.float32) for name in sizes}


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(
    ("rows", "past", "heads_first", "layers"), [(1, 70, False, 2), (5, 3, True, 1)]
)
def test_a_cache_is_fp8_and_never_converted(
    target: str, rows: int, past: int, heads_first: bool, layers: int
) -> None:
    model = attends(rows, past, heads_first, layers)
    program = tw.compile(model, target=target)
    artifact = program.model.artifact
    names = [name for name in artifact.tensors if name.startswith("past_")]
    assert sorted({name.partition(".")[2] for name in names}) == ["columns", "values"]
    for name in names:
        tensor = artifact.tensors[name]
        assert tensor.dtype == "fp8" and tensor.kind == "input" and tensor.space == "dram"
    readers = {s.kernel for s in artifact.steps if set(names) & set(s.operands.values())}
    assert readers <= {"attention", "attention_linear", "copy"}
    for keys in (1.0, 300.0):
        found = program.verify(drawn(model, 3, keys), per_layer=True, original=model)
        assert found.ok or (keys > 1 and found.exact), found.text()


@pytest.mark.parametrize(
    ("target", "rows", "past", "copied"),
    [
        ("atlas-v0", 37, 50, False),
        ("atlas-v1", 37, 50, False),
        ("atlas-v1", 65, 951, True),
    ],
)
def test_what_stays_is_fp8_for_many_rows_too(
    target: str, rows: int, past: int, copied: bool
) -> None:
    """Long calls read a cache again for every tile of queries: from a copy."""
    model = attends(rows, past, False, 1)
    model = replace(model, resident=frozenset({"past_k0", "past_v0"}))
    program = tw.compile(model, target=target)
    artifact = program.model.artifact
    caches = {n for n, tensor in artifact.tensors.items() if tensor.kind == "state"}
    assert {artifact.tensors[name].dtype for name in caches} == {"fp8"}
    readers = {s.kernel for s in artifact.steps if caches & set(s.operands.values())}
    assert readers <= ({"copy"} if copied else {"attention", "attention_linear"}) and readers
    found = program.verify(drawn(model, 3, 1.0), per_layer=True, original=model)
    assert found.ok and found.exact, found.text()
