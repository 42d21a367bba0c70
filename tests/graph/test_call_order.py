"""Calls of a layer come together, whatever output asked for them first; no call before its operands."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.targets.atlas.model.call_order import by_layers
from tilewright.targets.atlas.model.calls import Call, Tensor
from tilewright.tile.layouts import Layout


def tensor(name: str, kind: str = "activation") -> Tensor:
    return Tensor(name, Layout((32, 32), "bf16"), kind)  # type: ignore[arg-type]


def call(name: str, *operands: Tensor) -> Call:
    return Call(name, "pointwise", {f"x{k}": t for k, t in enumerate(operands)}, tensor(name))


def test_late_outputs_go_to_their_layers_and_tables_to_the_front() -> None:
    at, table = tensor("x", "input"), call("table", tensor("angles", "input"))
    calls, late = [], []
    for k in range(3):
        norm = call(f"norm{k}", at)
        # The first layer asks for the table that all of them read.
        calls += [norm, table] if k == 0 else [norm]
        calls.append(call(f"layer{k}", norm.output, table.output))
        half = call(f"half{k}", norm.output)
        late += [half, call(f"late{k}", half.output)]
        at = calls[-1].output
    order = [one.name for one in by_layers([*calls, *late])]
    assert order == [
        "table",
        "norm0", "half0", "late0", "layer0",
        "norm1", "half1", "late1", "layer1",
        "norm2", "half2", "late2", "layer2",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_orders_are_legal(seed: int) -> None:
    random = np.random.default_rng(seed)
    known, calls = [tensor("x", "input"), tensor("w", "weight")], []
    for k in range(int(random.integers(1, 30))):
        chosen = random.choice(len(known), int(random.integers(1, 4)))
        calls.append(call(f"c{k}", *(known[int(n)] for n in chosen)))
        known.append(calls[-1].output)
    order = by_layers(calls)
    assert sorted(c.name for c in order) == sorted(c.name for c in calls)
    made: set[Tensor] = {t for t in known if t.kind != "activation"}
    for one in order:
        assert made.issuperset(one.operands.values()), one.name
        made.add(one.output)
