"""How precise products are: layers kept as precise as bf16, scales per channel and per tensor."""

from __future__ import annotations

import pytest
import small_models as models

from tilewright import compiling
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.model.calibrate import example_inputs
from tilewright.model.options import CompileOptions
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def cosine(imported, **options) -> float:
    """Of the first output to float32; every step is exact against its reference."""
    compiled = compiling.compile_imported(imported, options=CompileOptions(**options))
    found = verify(compiled, example_inputs(imported, 7), original=imported)
    assert found.ok, found.text()
    assert found.cosine is not None
    return found.cosine


def test_kept_layers_are_closer_to_float():
    model = models.mlp()
    fp8, kept = cosine(model), cosine(model, keep=("up", "down"))
    assert 1 - kept < (1 - fp8) / 8
    assert kept > 0.9998


def test_layers_behind_attention_and_inside_gates_can_be_kept():
    model = models.decoder(1)
    assert cosine(model, keep=("layers.0.o", "layers.0.mlp")) > cosine(model)


def test_scales_per_tensor_are_one_number():
    compiled = compiling.compile_imported(models.mlp(), options=CompileOptions(scales="tensor"))
    raw = compiled.artifact.weights["up.scale"]
    layout = compiled.artifact.regions["up.scale"].layout
    numbers = layout.unpack(raw.tobytes()).astype(float)
    assert len(set(numbers.tolist())) == 1
    assert cosine(models.mlp(), scales="tensor") > 0.99


def test_projections_of_attention_cannot_be_kept():
    with pytest.raises(TilewrightError, match="attention takes its result as fp8"):
        cosine(models.decoder(1), keep=("layers.0.q",))


def test_unknown_layers_and_scales_are_errors():
    with pytest.raises(TilewrightError, match="no layer 'uo'"):
        cosine(models.mlp(), keep=("uo",))
    with pytest.raises(TilewrightError, match="no scales per row"):
        CompileOptions(scales="row")


def test_what_a_kept_layer_reads_is_computed_once():
    """A kept product reads its operand twice; the gate and the products before it run once."""
    net = ModelBuilder("gated", seed=8)
    x = net.input("x", (33, 64))
    gate, up = (net.linear(x, 96, name, bias=False) for name in ("mlp.gate", "mlp.up"))
    net.output("y", net.linear(net.silu_gate(gate, up), 64, "mlp.down", bias=False))
    model, profile = net.build(), load_profile("atlas-v1")
    plain, kept = (
        compile_model(model, profile, CompileOptions(keep=keep)) for keep in ((), ("mlp.down",))
    )
    assert sum(step.macs for step in kept.artifact.steps) == sum(
        step.macs for step in plain.artifact.steps
    )
    found = verify(kept, original=model)
    assert found.ok and (found.cosine or 0) > 0.998
