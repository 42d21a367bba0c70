"""The graph of values: what checks and verification hold a compiled model against."""

from __future__ import annotations

from dataclasses import replace

import mutations
import pytest
import tower_models
from small_models import compiled

from hand_made import AtlasModel, copied
from tilewright.errors import TilewrightError
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.artifact.value_graph import ValueGraph
from tilewright.targets.checking import check

FOLD = next(kind for kind in mutations.KINDS if kind.name == "a fold that should not be")


def graph_of(model: AtlasModel) -> ValueGraph:
    assert model.artifact.graph is not None
    return model.artifact.graph


@pytest.mark.parametrize("name", ["encoder", "cross"])
def test_every_operation_is_a_step_of_some_round(name, tmp_path):
    model = compiled(name)
    graph = graph_of(model)
    steps = [step for _, _, step in model.artifact.calls() if step.kernel != "copy"]
    assert [step.kernel for step in steps] == [one.kernel for one in graph.operations]
    made = [one.output for one in graph.operations]
    assert len(set(made)) == len(made)  # every value is made once
    assert check(model) == []
    save(model, tmp_path / "model.twb")
    assert load(tmp_path / "model.twb").artifact.graph == ValueGraph(
        [replace(one, options=_plain(one.options)) for one in graph.operations],
        graph.ports, graph.stored, graph.digests, graph.scales,
    )  # fmt: skip


def _plain(value):
    """Options as JSON has them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def test_verification_sees_what_was_overwritten():
    """Every step is right for what its regions hold, and yet the model is wrong."""
    broken = mutations.mistaken(tower_models.built(tower_models.a_view_is_read), FOLD, 0)
    assert broken is not None
    model = broken.model
    result = verify(model, per_layer=True)
    assert not result.ok
    assert any("finds something else than reshape in its operand x0" in s for s in result.strays)
    assert "astray" in result.text() and result.to_json()["strays"]
    assert [error.code for error in check(model)] == ["TW3117"]
    model.artifact.graph = None  # what verification was like without the graph
    assert verify(model, per_layer=True).ok


def test_weights_of_somebody_else_are_refused():
    model = copied(compiled("tiny_mlp"))
    name = next(name for name in model.artifact.weights if name.endswith("up.weight"))
    raw = model.artifact.weights[name].copy()
    raw[0] ^= 1
    model.artifact.weights = {**model.artifact.weights, name: raw}
    with pytest.raises(TilewrightError, match="TW3143"):
        verify(model)


def test_steps_and_graph_have_to_agree():
    model = compiled("encoder")
    graph = graph_of(model)
    assert model.artifact.loops

    def finding(**changes) -> str:
        other = copied(model)
        other.artifact.graph = replace(graph, **changes)
        (error,) = check(other)
        assert error.code == "TW3117"
        return error.message

    first, *rest = graph.operations
    operands = {**first.operands, "x": rest[-1].output}
    assert "its operand x is" in finding(operations=[replace(first, operands=operands), *rest])
    options = {**first.options, "factor": 0.125}
    assert "its option factor is" in finding(operations=[replace(first, options=options), *rest])
    assert "no operation for it" in finding(operations=[first, *rest[:-1]])
    assert "no step computes" in finding(operations=[first, *rest, rest[-1]])
    turning = next(name for name, values in graph.stored.items() if len(values) > 1)
    swapped = {**graph.stored, turning: graph.stored[turning][::-1]}
    assert f"{turning} holds" in finding(stored=swapped)
    ports = {name: value for name, value in graph.ports.items() if name != "y"}
    assert "the port y does not hold None" in finding(ports=ports)
