"""Whole programs: device against references, step by step; lint; and programs broken on purpose."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from small_models import compiled, imported

from hand_made import AtlasModel, copied
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import DevicePart
from tilewright.targets.atlas.isa import BY_MNEMONIC
from tilewright.targets.atlas.lint import analysis, lint
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.lint_model import hazards_of, lint_model, lint_segment
from tilewright.targets.atlas.profile import load_profile

PROGRAMS = [
    # model, profile, fused, layers as rounds
    ("mlp", "atlas-v1", True, True),
    ("mlp", "atlas-v1", False, True),
    ("tiny_mlp", "atlas-v0", True, True),
    ("tiny_mlp", "atlas-v0", False, False),
    ("encoder", "atlas-v1", True, True),
    ("encoder", "atlas-v1", False, True),
    ("encoder", "atlas-v1", True, False),
    ("decoder", "atlas-v1", True, True),
    ("decoder_2", "atlas-v1", False, True),
    ("decoder_2", "atlas-v1", True, False),
    ("cross", "atlas-v1", True, True),
    ("cross", "atlas-v1", False, False),
    ("prefix", "atlas-v1", True, True),
    ("decode", "atlas-v1", True, True),
]


@pytest.mark.parametrize(("name", "profile", "fuse", "rounds"), PROGRAMS)
def test_every_step_is_exact(name, profile, fuse, rounds):
    model = compiled(name, profile, fuse, rounds)
    result = verify(model, per_layer=True, original=imported(name))
    assert result.ok, result.first
    assert {layer.status for layer in result.layers} == {"equal"}
    for output in result.outputs:
        assert output.difference is None
        assert output.accuracy is not None and output.accuracy.cosine > 0.99


@pytest.mark.parametrize(("name", "profile", "fuse", "rounds"), PROGRAMS)
def test_lint_is_clean(name, profile, fuse, rounds):
    model = compiled(name, profile, fuse, rounds)
    for report in lint_model(model.artifact):
        assert not report.errors and not report.warnings
        assert report.exact


def test_a_doubt_of_lint_is_settled(monkeypatch):
    """Lint that gives up on summaries follows the program, if that is not too long."""
    monkeypatch.setattr(analysis, "JOIN_LIMIT", 10)
    monkeypatch.setattr(analysis, "JOIN_LIMIT_PER_INSTRUCTION", 0)
    model = compiled("decoder_2", "atlas-v1", True, False)
    assert lint_segment(model.artifact, 0, 100).errors
    hazards, doubts = hazards_of(model.artifact, 1 << 60, 100)
    assert not hazards and len(doubts) == 1 and "too involved" in doubts[0]
    assert hazards_of(model.artifact, 1_000_000, 100) == ([], [])


def test_code_longer_than_the_instruction_memory():
    """Rounds in several segments: each is loaded once per round, and knows which one it is."""
    options = CompileOptions(instruction_memory=2500, layer_loops=True)
    model = compile_model(imported("decoder_2"), load_profile("atlas-v1"), options)
    (part,) = model.parts
    assert isinstance(part, DevicePart)
    order = model.artifact.entries[part.entry].segments
    assert len(order) > len(model.artifact.segments) > 2
    assert max(len(segment) for segment in model.artifact.segments) <= 2500
    assert verify(model, per_layer=True).ok
    assert all(not report.errors and not report.warnings for report in lint_model(model.artifact))
    first = order[1]
    assert lint(
        model.artifact.segments[first], model.artifact.profile
    ).errors  # alone it could be any round


def test_layers_are_folded():
    folded = compiled("decoder", "atlas-v1", True, True)
    assert [(r.count, r.names) for r in folded.artifact.loops] == [
        (3, ("layers.0", "layers.1", "layers.2"))
    ]
    assert not compiled("decoder_2", "atlas-v1", True, False).artifact.loops


@pytest.mark.parametrize(("name", "steps"), [("prefix", 2), ("decode", 2)])
def test_attention_to_a_cache_runs_on_the_device(name, steps):
    model = compiled(name, "atlas-v1", True, True)
    assert (
        sum(
            step.kernel in ("attention", "attention_linear")
            for _, _, step in model.artifact.calls()
        )
        == steps
    )
    assert "gemma_attention" not in model.host_module
    # Embeddings and masks before, new caches behind; nothing goes back and forth.
    assert sum(isinstance(part, DevicePart) for part in model.parts) == 1


def test_mask_hides_keys():
    """A mask that hides all of a query's keys leaves it as it was, exactly."""
    model = compiled("cross", "atlas-v1", True, True)
    mask = np.ones((1, 20, 50), bool)
    mask[0, 3] = False
    mask[0, 4, 10:] = False
    assert verify(model, {"mask": mask}, per_layer=True).ok


def edges(kind: str) -> Imported:
    """Functions that give infinities or NaN where rows and columns end, in front of products."""
    net = ModelBuilder("edges", seed=7)
    x, y = net.input("x", (1, 45, 70)), net.input("y", (1, 45, 70))
    if kind == "div":
        z = net.binary("elementwise_div", x, y)
    elif kind == "rsqrt":
        z = x * net.unary("elementwise_rsqrt", net.unary("elementwise_square", y))
    elif kind == "log":
        z = x * net.unary("elementwise_log", net.unary("elementwise_abs", y))
    elif kind == "epsilon":
        z = net.rms_norm(x, "norm", 0.0) + y
    else:  # rows beyond the edge are the bias, large ones at that
        z = net.linear(net.unary("elementwise_exp", net.linear(x, 40, "first")), 70, "second")
    q, k, v = (net.heads(net.linear(z, 64, part, bias=False), 2) for part in "qkv")
    net.output("z", net.linear(net.attention(q, k, v), 40, "o"))
    return net.build()


@pytest.mark.parametrize("kind", ["div", "rsqrt", "log", "epsilon", "bias"])
def test_what_lies_beyond_edges_stays_there(kind):
    model = compile_model(edges(kind), load_profile("atlas-v1"))
    assert verify(model, per_layer=True).ok


# --- broken on purpose ------------------------------------------------------------------------


def caught(model: AtlasModel) -> str:
    """How verification finds something wrong: a fault, a difference, or "" if it does not."""
    try:
        result = verify(model, per_layer=True)
    except TilewrightError as error:
        return error.code
    return "" if result.ok else "differs"


def with_regions(model: AtlasModel, **addresses: int) -> AtlasModel:
    broken = copied(model)
    broken.artifact.regions = {
        name: replace(region, address=addresses.get(name, region.address))
        for name, region in model.artifact.regions.items()
    }
    return broken


def with_operand(model: AtlasModel, index: int, place: int, value: int) -> AtlasModel:
    """The model with one operand of one instruction changed."""
    broken, segment = copied(model), copy.copy(model.artifact.segments[0])
    segment.operands = segment.operands.copy()
    segment.operands[index, place] = value
    broken.artifact.segments = [segment, *model.artifact.segments[1:]]
    return broken


def instructions(model: AtlasModel, mnemonic: str) -> list[int]:
    wanted = BY_MNEMONIC[mnemonic].index
    return np.flatnonzero(model.artifact.segments[0].opcodes == wanted).tolist()


def test_swapped_weights_are_caught():
    model = compiled("cross", "atlas-v1", True, True)
    places = {name: region.address for name, region in model.artifact.regions.items()}
    k, v = "k.weight", "v.weight"
    assert model.artifact.regions[k].layout == model.artifact.regions[v].layout
    assert caught(with_regions(model, **{k: places[v], v: places[k]})) == "differs"


def test_swapped_scales_are_caught():
    model = compiled("encoder", "atlas-v1", True, False)
    places = {name: region.address for name, region in model.artifact.regions.items()}
    first, second = "layers.0.attention.out.scale", "layers.1.attention.out.scale"
    assert model.artifact.regions[first].layout == model.artifact.regions[second].layout
    swapped = {first: places[second], second: places[first]}
    assert caught(with_regions(model, **swapped)) == "differs"


@pytest.mark.parametrize("name", ["up.weight", "down.bias", "x"])
def test_a_shifted_address_is_caught(name):
    model = compiled("mlp", "atlas-v1", True, True)
    address = model.artifact.regions[name].address
    assert caught(with_regions(model, **{name: address + 4096 * 64 + 1024})) == "differs"


def test_one_wrong_bit_of_a_constant_is_caught():
    """The references know the edges of tensors without the constants of kernels, which are in DRAM
    where no instruction makes them."""
    model = compiled("encoder", "atlas-v0", True, True)
    name = next(n for n, region in model.artifact.regions.items() if ".constant" in n)
    broken = copied(model)
    raw = model.artifact.weights[name].copy()
    raw[:1024] ^= 0x40
    broken.artifact.weights = {**model.artifact.weights, name: raw}
    assert caught(broken) == "differs"


@pytest.mark.parametrize("which", [1, 7, -3])
def test_a_tile_from_elsewhere_is_caught(which):
    model = compiled("mlp", "atlas-v1", True, True)
    index = instructions(model, "vload")[which]
    names = [operand.key for operand in BY_MNEMONIC["vload"].operands]
    place = next(k for k, name in enumerate(names) if name.startswith("imm"))
    offset = int(model.artifact.segments[0].operands[index, place])
    assert caught(with_operand(model, index, place, (offset + 64) % 4096))


def test_dropped_delays_are_caught_by_lint_and_by_the_machine():
    """Without its delay an instruction meets a busy unit; lint says so without running it."""
    model = compiled("mlp", "atlas-v1", True, True)
    delays = instructions(model, "delay")
    lengths = model.artifact.segments[0].operands[:, 0]
    long = [index for index in delays if 20 <= lengths[index] < 100]
    found = 0
    for index in long[:: max(1, len(long) // 6)]:
        broken = with_operand(model, index, 0, 0)
        report = lint(broken.artifact.segments[0], model.artifact.profile)
        by_machine = caught(broken)
        if by_machine:
            assert report.errors, f"the machine stumbles over delay {index}, lint does not"
            found += 1
    assert found >= 3


def test_dropped_waits_are_caught_by_lint():
    """Lint reports transfers nothing waits for, also those that happen to be in time."""
    model = compiled("mlp", "atlas-v1", True, True)
    by_lint = 0
    for wait in instructions(model, "dma.wait")[:12]:
        segment = copy.copy(model.artifact.segments[0])
        segment.opcodes, segment.operands = segment.opcodes.copy(), segment.operands.copy()
        segment.opcodes[wait], segment.operands[wait] = BY_MNEMONIC["delay"].index, 0
        report = lint(segment, model.artifact.profile)
        broken = copied(model)
        broken.artifact.segments = [segment]
        wrong = bool(caught(broken))
        assert report.errors or not wrong
        by_lint += bool(report.errors or report.warnings)
    assert by_lint >= 8


def test_a_reference_that_disagrees_is_named(monkeypatch):
    """The first step that is wrong is the one whose reference was changed."""
    from tilewright.targets.atlas.model.kernel_records import REFERENCES

    model = compiled("decoder", "atlas-v1", True, True)

    right = REFERENCES["gated"]

    def wrong(profile, options, operands):
        result = right(profile, options, operands)
        codes = result["out"].copy()
        codes[0, 0, 0] ^= 1
        return {"out": codes}

    monkeypatch.setitem(REFERENCES, "gated", wrong)
    result = verify(model, per_layer=True)
    assert result.first is not None and "mlp" in result.first.name
