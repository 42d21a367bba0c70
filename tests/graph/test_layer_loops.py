"""Layers folded into rounds: what is carried may be needed again, by anybody."""

from __future__ import annotations

import pytest
from tower_models import FOLDING, MODELS, built

from hand_made import AtlasModel
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.checking import check


def compiled(model: Imported, rounds: bool = True) -> AtlasModel:
    options = CompileOptions(host=("hosted",), layer_loops=rounds)
    return compile_model(model, load_profile("atlas-v1"), options)


@pytest.mark.parametrize("make", MODELS[:FOLDING], ids=lambda make: make.__name__)
def test_folded_layers_compute_the_same(make):
    model = built(make)
    folded, plain = compiled(model), compiled(model, rounds=False)
    assert folded.artifact.loops and not plain.artifact.loops
    assert check(folded) == []
    results = [verify(one, original=model) for one in (folded, plain)]
    for one in results:
        assert one.ok, one.text()
    for here, there in zip(results[0].outputs, results[1].outputs, strict=True):
        assert here.accuracy is not None and there.accuracy is not None
        # Rounds share their scales, so they may be a little less exact.
        assert here.accuracy.relative < 1.5 * there.accuracy.relative + 0.02, here
        assert here.accuracy.cosine > 0.98
