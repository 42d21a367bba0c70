"""What a report says about models made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import example_models as examples
import pytest

from tilewright.report.collect_report import ASSEMBLY_LINES, collect, phase_texts, shortened
from tilewright.report.layer_formats import described
from tilewright.report.model_page import model_page
from tilewright.report.model_report import AccuracyFigures, Errors, LayerErrors, binding_of
from tilewright.targets.artifact import Bound
from tilewright.targets.atlas.artifact.atlas_artifact import Region
from tilewright.tile.layouts import Layout


def test_figures_of_a_small_model() -> None:
    model = examples.mlp()
    data = collect(model, examples.mlp_run(model))
    assert data.macs == 784 * 256 + 256 * 128 + 128 * 10
    assert data.bound == data.macs // 2
    assert data.ratio == pytest.approx(1.25)
    assert data.units == ["MXU0", "MXU1", "VPU", "LSU", "DMA", "SCALAR"]
    assert data.code_bytes == [3 * examples.WORDS * 4]
    assert data.code_limit == 128 * 1024
    assert data.macs_per_cycle == pytest.approx(32**3 / 96 + 32**3 / 35)
    vmem, dram = data.memories
    assert (vmem.top, vmem.regions, vmem.capacity) == (0, 0, 1 << 20)
    assert dram.regions == 7
    assert dram.top == max(r.end for r in data.regions)
    assert dram.peak_step == 0
    assert [port.direction for port in data.ports] == ["input", "output"]
    assert data.ports[0].place == "DRAM 0x0"
    assert (data.host_operations, data.host_share) == (0, 0.0)


def test_rounds_multiply_work_and_bound() -> None:
    one, sixteen = (collect(examples.transformer(turns)) for turns in (1, 16))
    outside = 9_000 + 12_000
    assert sixteen.bound - outside == 16 * (one.bound - outside)
    assert sixteen.macs == 16 * one.macs
    assert sixteen.layer_loops[0].names[15] == "layers.15"
    assert sixteen.turn_name(3, 15) == "layers.15"
    assert sixteen.turn_name(0, 0) == ""
    assert sixteen.ratio is None


def test_live_bytes_count_what_lives_at_the_same_step() -> None:
    data = collect(examples.transformer())
    vmem = data.memories[0]
    expected = 64 * 576 * 2 * 2 + 64 * 1536 * 2  # hidden, normed2, gated
    assert (vmem.peak_live, vmem.peak_step) == (expected, 9)


def test_rounds_called_alike_are_told_apart() -> None:
    model = examples.transformer(3)
    for names, expected in (
        ((), ["iteration 0", "iteration 1", "iteration 2"]),
        (("layers", "layers", "layers"), ["iteration 0", "iteration 1", "iteration 2"]),
        (("a", "b", "c"), ["a", "b", "c"]),
    ):
        model.artifact.loops = [replace(model.artifact.loops[0], names=names)]
        assert collect(model).layer_loops[0].names == expected


def test_rounds_that_lie_between_each_other_are_counted_once() -> None:
    model = examples.transformer(4)
    layout = Layout((32, 32), "fp8")
    model.artifact.regions = {
        name: Region(name, "dram", address, layout, "weight", 1, 10, 4, 4096)
        for name, address in (("a", 0), ("b", 1024))
    }
    data = collect(model)
    assert [(r.bytes, r.end) for r in data.regions] == [(4096, 13312), (4096, 14336)]
    dram = data.memories[1]
    assert (dram.top, dram.peak_live) == (14336, 8192)


def test_host_plan() -> None:
    data = collect(examples.transformer())
    host, device = data.parts
    assert host.side == "host" and "lookup by index" in host.reasons[0]
    assert (device.what, device.operations) == ("part1", 2 + 16 * 10)
    assert data.host_operations == 1
    assert data.host_share == pytest.approx(1 / 163)
    model = examples.transformer()
    model.provenance["host_share"] = 0.0025
    assert (collect(model).host_share, collect(model).host_share_of) == (0.0025, "arithmetic")


def test_a_bound_of_the_whole_model_goes_before_the_sum() -> None:
    model = examples.mlp()
    model.artifact.least = Bound(90_000)
    assert (collect(model).bound, collect(model).bound_of) == (90_000, "whole model")
    model.artifact.least = Bound(90_000, "DMA", {"DMA": 90_000, "VPU": 5})
    assert (collect(model).bound, collect(model).bound_of) == (90_000, "by DMA")
    assert collect(model).bound_terms == {"DMA": 90_000, "VPU": 5}
    assert "at least for VPU" in model_page(collect(model))
    model.artifact.least = None
    model.artifact.steps[1] = replace(model.artifact.steps[1], bound=0)
    assert collect(model, examples.mlp_run(model)).ratio is None


def test_assembly_of_a_step() -> None:
    text = collect(examples.mlp()).steps[1].assembly
    lines = text.text.split("\n")
    assert lines[:2] == ["step1:", "0x00168  addi x1, x0, 1"]
    assert (text.lines, text.left_out) == (examples.WORDS, examples.WORDS - ASSEMBLY_LINES)


def test_long_texts_are_cut_and_say_so() -> None:
    text = shortened("x", "\n".join(f"line {n}" for n in range(1000)), lines=10)
    assert (text.lines, text.left_out) == (1000, 990)
    assert text.text.endswith("line 9")
    wide = shortened("x", "a" * 500, width=100)
    assert wide.text == "a" * 100 + " … 400 more characters"
    heavy = shortened("x", "\n".join("b" * 99 for _ in range(100)), size=1000)
    assert (heavy.left_out, len(heavy.text)) == (90, 999)
    assert shortened("x", "").lines == 0


def test_the_binding_resource() -> None:
    assert binding_of({"VPU": 40, "DMA": 90}, 100) == ("DMA", 0.9)
    assert binding_of({"VPU": 40, "DMA": 30}, 100) == ("latency", 0.4)
    assert binding_of({"DMA": 130}, 100) == ("DMA", 1.0)  # issued ahead for the next step
    assert binding_of({}, 0) == ("latency", 0.0)


def test_formats_come_from_the_compiler_where_verification_has_none() -> None:
    model = examples.transformer(2)
    model.quantisation = {
        "layers.1.self_attn.q_proj": {"x": "fp8", "x_scale": 0.125, "w_scale": [0.5, 0.25]}
    }
    layer = LayerErrors(Errors("layers.1/self_attn.q_proj", True, 0.1, 0.2, 0.99), 2, 1)
    data = collect(model, None, AccuracyFigures(True, [], [layer]))
    assert data.layers[0].formats == "w fp8"  # of its operands only the weight has a place
    assert data.layers[0].scales == "x_scale 0.125, w_scale 2 from 0.25 to 0.5"
    weight = "layers.*.self_attn.q_proj.weight"
    model.quantisation = {weight: {"layer": "q", "format": "f8E4M3FN", "scale": 0.5}}
    data = collect(model, None, AccuracyFigures(True, [], [layer]))
    assert data.layers[0].scales == "w 0.5"


def test_many_phases_share_the_room() -> None:
    phases = {"short": "a\n" * 10, "long": "b\n" * 3000, "longer": "c\n" * 9000}
    texts = phase_texts(phases, budget=1020)
    assert [text.left_out for text in texts] == [0, 2750, 8750]
    assert sum(len(text.text) for text in texts) <= 1020
    assert [text.left_out for text in phase_texts(phases)] == [0, 2400, 8400]  # by lines
    assert phase_texts({}) == []


def test_layers_without_a_verification_are_those_of_calibration() -> None:
    model = examples.mlp()
    model.quantisation = {"fc1": {"format": "fp8", "cosine": 0.5}, "fc2": {"format": "bf16"}}
    layers = collect(model).layers
    assert [layer.errors.name for layer in layers] == ["fc1", "fc2"]
    assert (layers[0].errors.cosine, layers[1].errors.cosine) == (0.5, None)


def test_errors_the_compiler_measured_fill_what_a_verification_lacks() -> None:
    model = examples.transformer(2)
    first = {"name": "a", "cosine": 0.75, "max_abs": 1.0, "relative": 0.5}
    second = {"name": "b", "cosine": 0.5, "max_abs": 2.0, "relative": 0.25}
    model.artifact.steps[1] = replace(
        model.artifact.steps[1], operands={"x": "hidden", "out": "normed"}
    )
    model.quantisation = {
        "normed": {
            "layer": "n",
            "format": "bf16",
            "cosine": 0.5,
            "worst": "b",
            "by_round": [first, second],
        }
    }
    rows = [LayerErrors(Errors(f"row {turn}", True), 1, turn) for turn in range(2)]
    known = LayerErrors(Errors("known", True, 0.1, 0.2, 0.9), 1, 1)
    layers = collect(model, None, AccuracyFigures(True, [], [*rows, known])).layers
    assert [layer.errors.cosine for layer in layers] == [0.75, 0.5, 0.9]
    assert [layer.errors.name for layer in layers] == ["row 0", "row 1", "known"]
    assert [layer.source for layer in layers] == ["calibration", "calibration", ""]
    alone = collect(model).layers
    assert [(row.errors.name, row.errors.cosine, row.formats) for row in alone] == [
        ("a", 0.75, "bf16"), ("b", 0.5, "bf16"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("note", "formats", "scales"),
    [
        ("fp8", "fp8", ""),
        ({"x": {"format": "fp8", "scale": 2}}, "x fp8", "x scale 2"),
        ({"scales": {"x": 1, "w": [1, 3]}}, "", "x 1, w 2 from 1 to 3"),
        ({"kept": True, "skipped": False, "bits": 8, "note": None}, "kept, bits 8", ""),
    ],
)
def test_any_note_can_be_described(note, formats: str, scales: str) -> None:
    assert described(note) == (formats, scales)


def test_the_json_form_is_plain_and_repeats() -> None:
    model = examples.transformer(2)
    data = collect(model, examples.transformer_run(model), examples.transformer_accuracy(model))
    text = json.dumps(data.to_json(), allow_nan=False)
    again = collect(model, examples.transformer_run(model), examples.transformer_accuracy(model))
    assert json.dumps(again.to_json()) == text
    assert json.loads(text)["run"]["calls"][3]["turn"] == 0
