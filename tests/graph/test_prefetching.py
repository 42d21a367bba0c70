"""Weights that arrive under the work of earlier calls: where, how soon, and who would notice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.program import Program
from tilewright.targets.atlas.artifact.atlas_artifact import Rows
from tilewright.targets.atlas.model import fitting
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.checking import check


def blocks(layers: int, batch: int, rows: int, width: int, wide: int, heads: int) -> Imported:
    """Attention and products between norms."""
    net = ModelBuilder("blocks", seed=1)
    y = net.input("x", (batch, rows, width))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            n = net.rms_norm(y, "norm")
            q, k, v = (net.heads(net.linear(n, width, name), heads) for name in "qkv")
            y = y + net.linear(net.attention(q, k, v), width, "out")
            n = net.layer_norm(y, "norm2")
            y = y + net.linear(net.relu(net.linear(n, wide, "up")), width, "down")
    net.output("y", y)
    return net.build()


def brought(program: tw.Program) -> int:
    return sum(len(step.brings) for step in program.model.artifact.steps)


@pytest.fixture(scope="module")
def program() -> tw.Program:
    options = CompileOptions(layer_loops=True)
    model = compile_model(blocks(4, 1, 64, 128, 256, 4), load_profile("atlas-v1"), options)
    return Program(model)


@pytest.mark.parametrize(
    "sizes", [(1, 1, 96, 128, 256, 4), (1, 2, 70, 96, 250, 3), (2, 1, 161, 100, 130, 2)]
)
def test_products_wait_for_less(sizes, monkeypatch):
    nothing_begun = lambda program, places, uses, profile: replace(places, begun=[])  # noqa: E731
    monkeypatch.setattr(fitting, "hand_over", nothing_begun)
    program = tw.compile(blocks(*sizes))
    assert brought(program)
    assert program.verify().ok
    monkeypatch.setattr(fitting, "choose", lambda *_: [])
    without = tw.compile(blocks(*sizes))
    assert not brought(without)
    assert program.cycles < without.cycles


def test_the_other_profile_is_right_too():
    assert tw.compile(blocks(1, 1, 96, 128, 256, 4), target="atlas-v0").verify().ok


def test_iterations_of_a_loop_bring_their_own(program):
    artifact = program.model.artifact
    assert artifact.loops
    inside = range(artifact.loops[0].first, artifact.loops[0].end)
    assert any(artifact.steps[k].brings for k in inside)
    assert program.verify().ok


def test_a_bundle_keeps_what_is_brought(program, tmp_path):
    program.save(tmp_path / "blocks.twb")
    loaded = tw.load(tmp_path / "blocks.twb")
    steps = program.model.artifact.steps
    assert [(s.brings, s.finds) for s in loaded.model.artifact.steps] == [
        (s.brings, s.finds) for s in steps
    ]
    assert loaded.model.artifact.regions == program.model.artifact.regions
    assert loaded.verify().ok


def test_no_step_beats_its_bound(program):
    program.report()
    steps = program.model.artifact.steps
    for call in program.session.step_cycles:
        assert call.cycles >= steps[call.step].bound


def changed(program: tw.Program, name: str, **fields: object) -> list[str]:
    """What the check says of the program with another copy, or other steps."""
    artifact = program.model.artifact
    steps, regions = list(artifact.steps), dict(artifact.regions)
    for k, step in enumerate(steps):
        if name in step.brings and "brings" in fields:
            steps[k] = replace(step, brings=())
        if name in step.finds and "operands" in fields:
            steps[k] = replace(step, operands={**step.operands, "w": "nothing like it"})
    others = {key: value for key, value in fields.items() if key not in ("brings", "operands")}
    regions[name] = replace(regions[name], **others)
    other = replace(program.model, artifact=replace(artifact, steps=steps, regions=regions))
    return [finding.message for finding in check(other)]


def test_what_is_wrong_with_a_copy_is_found(program):
    artifact = program.model.artifact
    name = next(name for step in artifact.steps for name in step.finds)
    rows = artifact.regions[name].copied
    assert rows is not None
    source = artifact.regions[rows.region]
    assert not changed(program, name)
    wrong: list[tuple[dict[str, object], str]] = [
        ({"brings": ()}, "nothing whole"),
        ({"copied": replace(rows, offset=source.layout.bytes)}, "outside"),
        ({"copied": replace(rows, rows=rows.rows - 1)}, "other bytes"),
        ({"copied": replace(rows, region="x")}, "no region of weights"),
        ({"copied": None}, "no copy"),
        ({"space": "dram"}, "outside of VMEM"),
        ({"first": artifact.regions[name].last}, "not live"),
    ]
    for fields, text in wrong:
        found = changed(program, name, **fields)
        assert any(text in message for message in found), (fields, found)


def test_rows_of_bytes():
    rows = Rows("w", offset=2, bytes=3, rows=2, stride=10)
    assert rows.of(np.arange(30, dtype=np.uint8)).tolist() == [2, 3, 4, 12, 13, 14]
    assert rows.end == 15
