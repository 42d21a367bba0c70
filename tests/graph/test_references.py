"""The kernels of whole models against their references, on the simulator, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_runs import any_pattern, assert_same, mask, simulated

from tilewright.targets.atlas.kernels import attention as kernel_attention
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.model.references_steps import BINARY, UNARY
from tilewright.targets.atlas.profile import load_profile

ROWS, DEEP, WIDE = 45, 70, 50  # none of them whole tiles
PROFILES = ("atlas-v1", "atlas-v0")


def test_every_kernel_has_a_reference():
    assert all(callable(record.reference) and record.meaning for record in RECORDS.values())


CASES: list[tuple[str, dict[str, Any], dict[str, tuple[int, ...]], tuple[str, ...]]] = [
    ("norm", {"kind": "rms", "epsilon": 1e-5, "out": "fp8", "factor": 0.5},
     {"x": (2, ROWS, DEEP)}, ("out",)),
    ("norm", {"kind": "rms", "epsilon": 1e-6, "out": "bf16", "weight": True},
     {"x": (1, 32, 64)}, ()),
    ("norm", {"kind": "layer", "epsilon": 1e-5, "out": "fp8", "factor": 0.125},
     {"x": (1, ROWS, DEEP)}, ("x", "out")),
    ("norm", {"kind": "layer", "epsilon": 1e-5, "out": "bf16", "weight": True, "bias": True},
     {"x": (2, ROWS, DEEP)}, ("x",)),
    ("norm", {"kind": "layer", "epsilon": 1e-5, "out": "fp8", "weight": True, "bias": True,
              "factor": 0.5},
     {"x": (1, ROWS, DEEP)}, ("out",)),
    ("softmax", {}, {"x": (2, ROWS, DEEP)}, ("x",)),
    ("reduce", {"kind": "mean", "along": "row"},
     {"x": (2, ROWS, DEEP), "out": (2, ROWS, 1)}, ("x",)),
    ("reduce", {"kind": "min", "along": "row"}, {"x": (1, ROWS, 3), "out": (1, ROWS, 1)}, ()),
    ("reduce", {"kind": "max", "along": "lines", "lines": 3},
     {"x": (6, ROWS, DEEP), "out": (2, 3, ROWS)}, ("out",)),
    ("reduce", {"kind": "sum", "along": "lines", "lines": 1},
     {"x": (1, ROWS, DEEP), "out": (1, 1, ROWS)}, ()),
    ("reduce", {"kind": "mean", "along": "column", "lines": 33},
     {"x": (33, 20, WIDE), "out": (1, 33, WIDE)}, ()),
    ("reduce", {"kind": "min", "along": "column", "lines": 1},
     {"x": (2, DEEP, 33), "out": (2, 1, 33)}, ("x",)),
    ("reduce", {"kind": "mean", "along": "batch", "split": [2, 3, 2]},
     {"x": (12, 40, 33), "out": (4, 40, 33)}, ("out",)),
    ("move", {"count": 2, "pieces": [
        [0, [1, 2], [0, 1], 2, [1, 0], [0, 0], 64, 20],
        [1, [0, 1], [0, 1], 2, [0, 1], [2, 0], 13, 20]]},
     {"x0": (4, 100, 50), "x1": (2, 70, 90), "out": (2, 77, 20)}, ("x0",)),
    ("move", {"count": 1, "pieces": [
        [0, [0, 1], [0, 2], 2, [0, 0], [0, 0], 32, 33],
        [0, [0, 1], [1, 2], 2, [1, 0], [0, 0], 32, 33]]},
     {"x0": (2, 64, 33), "out": (4, 32, 33)}, ("out",)),
    ("move", {"count": 1, "dtype": "fp8", "pieces": [
        [0, [0, 1], [0, 1], 1, [2, 0], [0, 0], 40, 64],
        [0, [0, 1], [0, 1], 1, [0, 0], [0, 2], 40, 33]]},
     {"x0": (1, 110, 70), "out": (1, 40, 97)}, ("x0",)),
    ("copy", {"rank": 3, "dtype": "bf16"}, {"x": (2, ROWS, DEEP)}, ("out",)),
    ("copy", {"rank": 4, "dtype": "fp8"}, {"x": (2, 3, ROWS, 40)}, ()),
    ("copy", {"rank": 2, "dtype": "bf16"}, {"x": (ROWS, 20)}, ("x", "out")),
    ("quantise", {"factor": 0.25}, {"x": (2, ROWS, DEEP)}, ("out",)),
    ("quantise", {}, {"x": (1, 32, 32)}, ()),
    ("residue", {"factor": 0.25}, {"x": (2, ROWS, DEEP)}, ("high",)),
    ("split_heads", {"factor": 0.25, "out": "heads", "heads": 2},
     {"x": (2, ROWS, 128), "out": (2, 2, ROWS, 64)}, ("x",)),
    ("split_heads", {"out": "columns", "heads": 3},
     {"x": (1, ROWS, 96), "out": (1, 3, 32, ROWS)}, ("out",)),
    ("split_heads", {"factor": 0.5, "out": "columns", "heads": 2, "rope": "shared"},
     {"x": (2, ROWS, 128), "out": (2, 2, 64, ROWS), "cos": (ROWS, 32)}, ("x", "cos")),
    ("split_heads", {"out": "heads", "heads": 1, "rope": "batch"},
     {"x": (2, ROWS, 128), "out": (2, 1, ROWS, 128), "cos": (2, ROWS, 64)}, ("out",)),
    ("split_heads", {"factor": 2.0, "out": "values", "heads": 1},
     {"x": (2, ROWS, 64), "out": (2, 1, ROWS, 64)}, ()),
    ("quantise", {"factor": 0.25, "edges": "rows"}, {"x": (2, ROWS, DEEP)}, ("out",)),
    ("quantise", {"factor": 4.0, "edges": "columns"}, {"x": (2, ROWS, DEEP)}, ("out",)),
    ("product", {"left": "plain", "right": "plain", "out": "bf16", "factor": 0.5},
     {"a": (2, ROWS, DEEP), "b": (2, DEEP, WIDE)}, ("a",)),
    ("product", {"left": "plain", "right": "transposed", "out": "fp8", "shared": "b", "rows": 32},
     {"a": (2, ROWS, DEEP), "b": (1, WIDE, DEEP)}, ("out",)),
    ("product", {"left": "transposed", "right": "plain", "out": "bf16", "shared": "a"},
     {"a": (1, DEEP, ROWS), "b": (3, DEEP, WIDE)}, ("b",)),
    ("linear", {"scale": True, "bias": True, "residual": True, "activation": "gelu_tanh",
                "factor": 0.5, "out": "bf16"}, {"a": (2, ROWS, DEEP), "w": (DEEP, WIDE)}, ("a",)),
    ("linear", {"scale": True, "out": "fp8", "rows": 64},
     {"a": (2, ROWS, DEEP), "w": (DEEP, WIDE)}, ("out",)),
    ("linear", {"scale": True, "bias": True, "residual": True, "activation": "gelu_tanh",
                "out": "bf16", "rows": 64, "depth": 64},
     {"a": (2, 130, 170), "w": (170, WIDE)}, ()),
    ("linear", {"out": "bf16", "rows": 32, "depth": 32}, {"a": (1, 1, 1), "w": (1, 1)}, ()),
    ("linear", {"scale": True, "out": "fp8", "rows": 160, "depth": 32},
     {"a": (1, 300, 96), "w": (96, 64)}, ("out",)),
    ("linear", {"scale": True, "bias": True, "activation": "gelu_tanh", "out": "fp8",
                "together": 3}, {"a": (1, 300, 300), "w": (300, 310)}, ("a",)),
    ("linear", {"scale": True, "residual": True, "heads": True, "out": "bf16", "together": 2},
     {"a": (2, 3, 130, 32), "w": (96, 70)}, ("a",)),
    ("linear", {"scale": True, "bias": True, "activation": "gelu_tanh", "out": "fp8",
                "resident": True}, {"a": (2, 165, 130), "w": (130, 170)}, ()),
    ("linear", {"scale": True, "residual": True, "heads": True, "out": "bf16", "resident": True},
     {"a": (1, 3, 250, 32), "w": (96, 70)}, ("residual",)),
    ("linear", {"precise": "both", "out": "bf16", "resident": True},
     {"a": (1, 70, 40), "w": (40, 2)}, ()),
    ("project", {"out": "columns", "scale": True, "bias": True, "rope": "shared",
                 "resident": True},
     {"a": (1, 170, 100), "w": (3, 100, 64), "cos": (170, 32)}, ()),
    ("project", {"out": "values", "scale": True, "resident": True},
     {"a": (2, 70, 40), "w": (2, 40, 64)}, ("out",)),
    ("linear", {"bias": True, "activation": "relu", "out": "fp8", "factor": 0.5},
     {"a": (1, 10, 20), "w": (20, 30)}, ()),
    ("linear", {"residual": True, "out": "bf16"},
     {"a": (1, 130, 64), "w": (64, 64)}, ("a", "residual", "out")),
    ("linear", {"heads": True, "scale": True, "residual": True, "out": "bf16"},
     {"a": (2, 3, ROWS, 32), "w": (96, WIDE)}, ("a", "residual")),
    ("linear", {"precise": "both", "scale": True, "bias": True, "out": "bf16"},
     {"a": (2, ROWS, DEEP), "w": (DEEP, WIDE)}, ("a", "a_low")),
    ("linear", {"precise": "weights", "scale": True, "out": "fp8"},
     {"a": (1, ROWS, DEEP), "w": (DEEP, WIDE)}, ()),
    ("gated", {"scale": True, "bias": True}, {"a": (2, ROWS, DEEP), "w_gate": (DEEP, WIDE)},
     ("a", "out")),
    ("gated", {"scale": True, "bias": True, "together": 2},
     {"a": (1, 290, 300), "w_gate": (300, 150)}, ("a",)),
    ("gated", {"scale": True, "bias": True, "rows": 96},
     {"a": (1, 250, 100), "w_gate": (100, 80)}, ()),
    ("gated", {"scale": True, "rows": 128, "together": 2},
     {"a": (1, 192, 100), "w_gate": (100, 150)}, ()),
    ("gated", {"scale": True, "bias": True, "rows": 96, "norm": "layer", "epsilon": 1e-5,
               "norm_factor": 0.5},
     {"a": (1, 250, 100), "w_gate": (100, 80)}, ()),
    ("gated", {"scale": True, "rows": 64, "together": 2, "norm": "rms", "epsilon": 1e-6},
     {"a": (1, 128, 90), "w_gate": (90, 150)}, ("out",)),
    ("gated", {"activation": "gelu_tanh"}, {"a": (1, 70, 33), "w_gate": (33, 64)}, ()),
    ("project", {"scale": True, "bias": True, "out": "heads"},
     {"a": (2, ROWS, DEEP), "w": (3, DEEP, 40)}, ("a",)),
    ("project", {"scale": True, "rope": "shared", "out": "heads"},
     {"a": (2, ROWS, DEEP), "w": (2, DEEP, 64), "cos": (ROWS, 32)}, ("a", "out", "cos", "sin")),
    ("project", {"scale": True, "bias": True, "rope": "batch", "out": "columns"},
     {"a": (2, ROWS, DEEP), "w": (2, DEEP, 64), "cos": (2, ROWS, 20)}, ()),
    ("project", {"scale": True, "bias": True, "out": "columns", "together": 2},
     {"a": (1, 250, 130), "w": (4, 130, 64)}, ("a",)),
    ("project", {"scale": True, "rope": "shared", "out": "heads", "together": 3},
     {"a": (2, 100, DEEP), "w": (6, DEEP, 64), "cos": (100, 20)}, ("a", "cos", "sin")),
    ("project", {"scale": True, "bias": True, "rope": "shared", "out": "columns", "rows": 64},
     {"a": (1, 150, DEEP), "w": (3, DEEP, 64), "cos": (150, 20)}, ()),
    ("project", {"scale": True, "rope": "shared", "out": "heads", "rows": 64, "together": 2},
     {"a": (1, 192, 100), "w": (4, 100, 64), "cos": (192, 30)}, ()),
    ("project", {"scale": True, "bias": True, "out": "columns", "rows": 128, "together": 3},
     {"a": (1, 256, 70), "w": (3, 70, 32)}, ("out",)),
    ("project", {"scale": True, "rope": "batch", "out": "heads", "rows": 96},
     {"a": (1, 130, 70), "w": (2, 70, 128), "cos": (1, 130, 64)}, ("out",)),
    ("project", {"scale": True, "bias": True, "out": "values", "norm": 1e-6, "width": 60,
                 "rows": 32},
     {"a": (1, ROWS, DEEP), "w": (2, DEEP, 64)}, ()),
    ("project", {"out": "columns"}, {"a": (1, ROWS, 32), "w": (1, 32, 33)}, ("out",)),
    ("project", {"scale": True, "bias": True, "out": "values"},
     {"a": (2, ROWS, DEEP), "w": (2, DEEP, 64)}, ("a", "out")),
    ("project", {"scale": True, "bias": True, "rope": "shared", "out": "values"},
     {"a": (1, 33, DEEP), "w": (1, DEEP, 128), "cos": (33, 64)}, ()),
    ("project", {"scale": True, "rope": "shared", "rotated": 64, "out": "heads"},
     {"a": (2, ROWS, DEEP), "w": (2, DEEP, 96), "cos": (ROWS, 20)}, ("a", "cos", "sin")),
    ("project", {"scale": True, "bias": True, "out": "columns", "norm": 1e-6, "width": 60,
                 "rope": "batch"},
     {"a": (2, ROWS, DEEP), "w": (2, DEEP, 64), "cos": (2, ROWS, 30)}, ("out",)),
    ("project", {"scale": True, "out": "heads", "norm": 1e-5, "width": 32, "shift": True},
     {"a": (1, ROWS, DEEP), "w": (3, DEEP, 32)}, ("a",)),
    ("project", {"scale": True, "out": "heads", "norm": 1e-5, "width": 64, "rope": "shared",
                 "together": 3},
     {"a": (1, 250, 130), "w": (3, 130, 64), "cos": (250, 32)}, ("a",)),
    ("from_heads", {"factor": 0.3, "width": 64},
     {"x": (2, 3, ROWS, 64), "out": (6, ROWS, 64)}, ("x",)),
    ("from_heads", {"width": 17}, {"x": (1, 2, 20, 32), "out": (2, 20, 17)}, ("out",)),
    ("attention", {}, {"q": (2, 4, ROWS, 40), "kt": (2, 2, 40, 75), "v": (2, 2, 75, 33)},
     ("q", "kt", "v")),
    ("attention", {"mask": "full", "per_head": True},
     {"q": (2, 4, ROWS, 32), "kt": (2, 2, 32, 75), "v": (2, 2, 75, 32)}, ("q",)),
    ("attention", {"mask": "full", "per_head": True, "batch": True},
     {"q": (2, 2, 33, 32), "kt": (2, 1, 32, 40), "v": (2, 1, 40, 32)}, ("q", "mask", "out")),
    ("attention", {}, {"q": (1, 1, ROWS, 32), "kt": (1, 1, 32, 64), "v": (1, 1, 64, 96)}, ()),
    ("attention", {"parts": 2}, {"q": (2, 4, ROWS, 40), "kt": (2, 2, 40, 75), "v": (2, 2, 75, 33),
     "kt1": (2, 2, 40, 1), "v1": (2, 2, 1, 33)}, ("kt1",)),
    ("attention", {"parts": 2, "mask": "causal"},
     {"q": (1, 2, ROWS, 64), "kt": (1, 1, 64, 70), "v": (1, 1, 70, 64),
      "kt1": (1, 1, 64, ROWS), "v1": (1, 1, ROWS, 64)}, ("q", "kt", "v")),
    ("attention", {"parts": 3, "mask": "full"},
     {"q": (1, 2, ROWS, 32), "kt": (1, 2, 32, 64), "v": (1, 2, 64, 32), "kt1": (1, 2, 32, 20),
      "v1": (1, 2, 20, 32), "kt2": (1, 2, 32, 33), "v2": (1, 2, 33, 32)}, ("v2", "out")),
    ("attention", {"mask": "causal"},
     {"q": (1, 2, ROWS, 64), "kt": (1, 1, 64, ROWS), "v": (1, 1, ROWS, 64)}, ("out", "q")),
    ("attention", {"mask": "causal"},
     {"q": (1, 2, 130, 64), "kt": (1, 1, 64, 150), "v": (1, 1, 150, 64)}, ("q", "kt", "v", "out")),
    ("attention", {"mask": "causal"},  # the first queries see nothing
     {"q": (1, 1, ROWS, 32), "kt": (1, 1, 32, 20), "v": (1, 1, 20, 32)}, ()),
    ("attention", {"mask": "full"},
     {"q": (2, 2, ROWS, 32), "kt": (2, 2, 32, 75), "v": (2, 2, 75, 32)}, ("mask",)),
    ("attention", {"mask": "full", "batch": True},
     {"q": (2, 2, 33, 32), "kt": (2, 1, 32, 40), "v": (2, 1, 40, 32)}, ("q", "kt", "v", "out")),
    ("attention", {"mask": "key"},
     {"q": (1, 2, ROWS, 32), "kt": (1, 2, 32, 75), "v": (1, 2, 75, 32)}, ()),
    ("attention", {"mask": "key", "batch": True},
     {"q": (2, 2, 33, 32), "kt": (2, 1, 32, 64), "v": (2, 1, 64, 32)}, ("q", "kt", "v")),
    ("attention_linear",
     {"heads_on_chip": True,
      "out": "bf16", "scale": True, "bias": True, "residual": True},
     {"q": (2, 4, ROWS, 40), "kt": (2, 2, 40, 75), "v": (2, 2, 75, 32), "w": (128, 96),
      "out": (2, ROWS, 96)}, ("q", "kt")),
    ("attention_linear",
     {"mask": "causal", "heads_on_chip": True, "out": "fp8"},
     {"q": (1, 2, 200, 64), "kt": (1, 1, 64, 200), "v": (1, 1, 200, 64), "w": (128, 160),
      "out": (1, 200, 160)}, ("q", "kt", "v", "out")),
    ("attention_linear",
     {"out": "bf16", "scale": True, "residual": True, "rows": 64},
     {"q": (1, 3, 130, 32), "kt": (1, 3, 32, 300), "v": (1, 3, 300, 32), "w": (96, 64),
      "out": (1, 130, 64)}, ()),
]  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("name", "options", "shapes", "on_chip"), CASES)
def test_kernel(profile, name, options, shapes, on_chip):
    assert_same(
        *simulated(
            name, options, shapes, profile, on_chip, dict.fromkeys(("mask", "mask1", "mask2"), mask)
        )
    )


def test_weights_ahead_begin_with_the_same_half_for_every_part_of_the_rows():
    """Three blocks of the contraction turn the halves of the buffer an odd number of times."""
    shapes = {"a": (1, 512, 384), "w": (384, 640)}
    assert_same(*simulated("linear", {"out": "bf16", "rows": 256, "depth": 128}, shapes))


@pytest.mark.parametrize(
    ("options", "queries", "keys", "heads", "most"),
    [
        ({}, 1024, 1024, 1, 290_000),
        ({}, 50, 241, 3, 19_800),
        ({"mask": "causal"}, 241, 241, 3, 41_000),
        ({"mask": "causal"}, 384, 384, 1, 27_500),
    ],
)
def test_attention_keeps_the_vector_unit_busy(options, queries, keys, heads, most):
    """Cycles with everything on chip; under a causal mask about half of all tiles count."""
    shapes = {"q": (1, heads, queries, 64), "kt": (1, 1, 64, keys), "v": (1, 1, keys, 64)}
    chip = ("q", "kt", "v", "out")
    assert_same(*simulated("attention", options, shapes, on_chip=chip, most=most))


def test_weights_arrive_while_attention_runs():
    """42 KiB take 21,500 cycles to load; some of the last ones are no slice for every iteration."""
    shapes = {"q": (1, 3, 128, 32), "kt": (1, 3, 32, 320), "v": (1, 3, 320, 32), "w": (96, 448)}
    chip, options = ("q", "kt", "v", "out"), {"heads_on_chip": True, "out": "fp8"}
    shapes["out"] = (1, 128, 448)
    assert_same(*simulated("attention_linear", options, shapes, on_chip=chip, most=45_500))


@pytest.mark.parametrize("keys", [256, 250, 300])
def test_causal_attention_in_a_loop(monkeypatch, keys):
    """Too long to be written out. Everything is on chip, so the mask lies where memory starts."""
    monkeypatch.setattr(kernel_attention, "TILES", 0)
    shapes = {"q": (1, 1, 256, 32), "kt": (1, 1, 32, keys), "v": (1, 1, keys, 32)}
    assert_same(
        *simulated("attention", {"mask": "causal"}, shapes, on_chip=("q", "kt", "v", "out"))
    )


def test_causal_attention_written_out(monkeypatch):
    """Long code for narrow heads, which leaves out the keys that nobody sees."""
    monkeypatch.setattr(kernel_attention, "TILES", 0)
    shapes = {"q": (1, 1, 250, 32), "kt": (1, 1, 32, 300), "v": (1, 1, 300, 32)}
    chip, options = ("q", "kt", "v", "out"), {"mask": "causal", "written_out": True}
    assert_same(*simulated("attention", options, shapes, on_chip=chip, most=20_000))


BROADCAST = [["x", "full"], ["row", "row"], ["matrix", "matrix"], ["column", "column"]]
PROGRAM = [
    ("mul", "t0", ["x", "row"]),
    ("silu", "t1", ["t0"]),
    ("add", "t2", ["t1", "matrix"]),
    ("max", "t3", ["t2", "column"]),
    ("div", "t4", [1.5, "t3"]),
    ("sub", "t5", ["t4", 0.3]),
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("out", ["bf16", "fp8"])
def test_pointwise_broadcasts(profile, out):
    options = {"inputs": BROADCAST, "program": PROGRAM, "out": out}
    shapes = {"x": (2, ROWS, DEEP), "column": (2, ROWS, 1)}
    assert_same(*simulated("pointwise", options, shapes, profile, ("x",)))


SPREAD = {
    "full": (6, ROWS, DEEP),
    "column": (6, ROWS, 1),
    "full@one": (1, ROWS, DEEP),
    "column@outer": (2, ROWS, 1),
    "full@inner": (3, ROWS, DEEP),
    "line@inner": (3, 1, DEEP),
    "line": (6, 1, DEEP),
    "number@one": (1, 1, 1),
    "line@rows": (2, 3, DEEP),
    "number@rows": (2, 3, 1),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "kinds",
    [
        ("full@one", "column@outer", "number@one"),
        ("line@inner", "full@inner", "column"),
        ("line", "line@rows"),
        ("full", "number@rows"),
    ],
)
def test_values_with_parts_of_a_batch(profile, kinds):
    """Each kind divides, so that what lies beyond edges would show."""
    names = {kind: f"x{k}" for k, kind in enumerate(kinds)}
    program, last = [], "y"
    for kind in kinds:
        program += [("exp", f"{names[kind]}e", [names[kind]])]
        program += [("div", f"{names[kind]}d", [last, f"{names[kind]}e"])]
        last = program[-1][1]
    options = {
        "inputs": [["y", "full"], *([names[kind], kind] for kind in kinds)],
        "program": program,
        "out": "bf16",
        "split": (2, 3),
    }
    shapes = {"y": SPREAD["full"], **{names[kind]: SPREAD[kind] for kind in kinds}}
    assert_same(*simulated("pointwise", options, shapes, profile))


@pytest.mark.parametrize("along", ["row", "lines", "column", "batch"])
@pytest.mark.parametrize("kind", ["mean", "max"])
def test_reductions_of_any_pattern(along, kind):
    options = {"kind": kind, "along": along, "lines": 3, "split": [2, 3, 1]}
    out = {"row": (6, 64, 1), "lines": (2, 3, 64), "column": (2, 3, 32), "batch": (2, 64, 32)}
    shapes = {"x": (6, 64, 32), "out": out[along]}
    found, expected = simulated("reduce", options, shapes, draw=any_pattern)
    assert_same(found, expected)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_function_on_any_pattern(profile):
    """Zeros of both signs, subnormals, infinities and NaN through every function."""
    for name in sorted(UNARY):
        program = [(name, "y", ["x"])]
        options = {"inputs": [["x", "full"]], "program": program, "out": "bf16"}
        shapes = {"x": (1, 32, 64)}
        assert_same(*simulated("pointwise", options, shapes, profile, draw=any_pattern))


@pytest.mark.parametrize("operation", sorted(BINARY))
def test_every_operation_on_any_pattern(operation):
    inputs = [["x", "full"], ["y", "full"], ["row", "row"]]
    program = [(operation, "t0", ["x", "y"]), (operation, "t1", ["t0", "row"])]
    options = {"inputs": inputs, "program": program, "out": "bf16"}
    assert_same(*simulated("pointwise", options, {"x": (1, 33, 64)}, draw=any_pattern))


def test_infinities_and_nan_in_products():
    options = {"scale": True, "bias": True, "out": "bf16"}
    found = simulated("linear", options, {"a": (1, 64, 96), "w": (96, 64)}, draw=any_pattern)
    assert_same(*found)


def test_sums_beyond_fp16():
    """Large operands overflow the accumulator to infinity, and on to NaN."""

    def large(random, layout):
        if layout.dtype == "fp8":
            return random.choice(np.array([0x7E, 0xFE, 0x78], np.uint8), layout.shape)
        return np.full(layout.shape, 0x3F80, np.uint16)

    found, expected = simulated(
        "linear", {"out": "bf16"}, {"a": (1, 32, 128), "w": (128, 64)}, draw=large
    )
    assert_same(found, expected)
    assert ((expected & 0x7FFF) >= 0x7F80).any()


@st.composite
def calls(draw: st.DrawFn):
    """A kernel with random options on random small shapes, some operands in VMEM."""
    size = st.integers(1, 70)
    batch, rows, deep, wide = draw(st.integers(1, 2)), draw(size), draw(size), draw(size)
    flag = st.booleans()
    factor = st.sampled_from([1.0, 0.5, 3.0])
    shapes: dict[str, tuple[int, ...]]
    name = draw(
        st.sampled_from(sorted(n for n, record in RECORDS.items() if not record.over_images))
    )
    options: dict[str, Any] = {}
    if name in ("norm", "softmax", "quantise", "residue"):
        shapes = {"x": (batch, rows, deep)}
        if name == "norm":
            kind, out = draw(st.sampled_from(["rms", "layer"])), draw(st.sampled_from(OUT))
            options = {"kind": kind, "epsilon": 1e-5, "out": out, "weight": draw(flag)}
            options |= {"bias": draw(flag), "factor": draw(factor)}
    elif name == "recurrent":
        # h' = tanh(x + h w), or half of that beside a second state c' = c + h'.
        gated, steps = draw(flag), draw(st.integers(1, 4))
        program = [["add", "t0", ["x0", "p0"]], ["tanh", "t1", ["t0"]]]
        if gated:
            program += [["mul", "t2", ["t1", 0.5]], ["add", "t3", ["s1", "t2"]]]
        options = {"program": program, "next": ["t2", "t3"] if gated else ["t1"], "kept": 1}
        options |= {"factor": draw(factor), "backward": draw(flag), "bias": [0] * draw(flag)}
        wide += wide == 1  # lowering makes none of one column
        shapes = {"x": (steps, rows, -(-wide // 32) * 32), "w": (1, wide, wide)}
        shapes |= {f"s{k}": (1, rows, wide) for k in range(1 + gated)}
        shapes["out"] = (steps, rows, wide)
    elif name == "reduce":
        options = {"kind": draw(st.sampled_from(["sum", "mean", "max", "min"]))}
        along = options["along"] = draw(st.sampled_from(["row", "lines", "column", "batch"]))
        outer, lines = draw(st.integers(1, 2)), draw(st.integers(1, 4))
        shapes = {"x": (outer * lines, rows, deep)}
        shapes["out"] = {
            "row": (outer * lines, rows, 1),
            "lines": (outer, lines, rows),
            "column": (outer, lines, deep),
            "batch": (outer, rows, deep),
        }[along]
        options |= {"lines": lines, "split": [outer, lines, 1]}
    elif name == "move":
        down, across = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        first = (batch + 1, rows + 32 * down, deep + 32 * across)
        shapes = {"x0": first, "x1": (1, rows, deep), "out": (batch + 1, rows, deep)}
        pieces = [
            [0, [1, 1], [0, 1], batch, [down, across], [0, 0], rows, deep],
            [1, [0, 1], [batch, 1], 1, [0, 0], [0, 0], rows, deep],
        ]
        options = {"count": 2, "pieces": pieces, "dtype": draw(st.sampled_from(OUT))}
    elif name == "copy":
        rank = draw(st.integers(2, 4))
        shapes = {"x": (2, batch, rows, deep)[4 - rank :]}
        options = {"rank": rank, "dtype": draw(st.sampled_from(OUT))}
    elif name == "pointwise":
        shapes = {"x": (batch, rows, deep), "column": (batch, rows, 1)}
        functions = st.sampled_from(sorted(set(UNARY) - {"recip", "rsqrt", "log", "log2"}))
        program = [*PROGRAM, (draw(functions), "last", ["t5"])]
        options = {"inputs": BROADCAST, "program": program, "out": draw(st.sampled_from(OUT))}
    elif name == "split_heads":
        heads, kind = draw(st.integers(1, 3)), draw(st.sampled_from(KINDS))
        head = (32, rows) if kind == "columns" else (rows, 32)
        shapes = {"x": (batch, rows, 32 * heads), "out": (batch, heads, *head)}
        options = {"out": kind, "heads": heads, "factor": draw(factor)}
        if draw(flag):
            options["rope"] = draw(st.sampled_from(["shared", "batch"]))
            head = (64, rows) if kind == "columns" else (rows, 64)
            shapes = {"x": (batch, rows, 64 * heads), "out": (batch, heads, *head)}
            shapes["cos"] = (rows, 32) if options["rope"] == "shared" else (batch, rows, 32)
    elif name == "product":
        left, right = draw(flag), draw(flag)
        shapes = {
            "a": (batch, deep, rows) if left else (batch, rows, deep),
            "b": (batch, wide, deep) if right else (batch, deep, wide),
        }
        options = {"out": draw(st.sampled_from(OUT)), "factor": draw(factor)}
        options |= {k: ("plain", "transposed")[v] for k, v in (("left", left), ("right", right))}
    elif name in ("linear", "gated"):
        shapes = {"a": (batch, rows, deep), "w" if name == "linear" else "w_gate": (deep, wide)}
        options = {"scale": draw(flag), "bias": draw(flag)}
        if name == "linear":
            options |= {"out": draw(st.sampled_from(OUT)), "residual": draw(flag)}
            options |= {"factor": draw(factor), "rows": draw(st.sampled_from([None, 32, 64]))}
            options["activation"] = draw(st.sampled_from([None, "relu", "silu", "gelu_tanh"]))
            if options["rows"] and draw(flag):
                options["depth"] = draw(st.sampled_from([32, 64]))
        elif deep > 1 and draw(flag):
            options["rows"] = draw(st.sampled_from([32, 64]))
            if draw(flag):
                options |= {"norm": draw(st.sampled_from(["rms", "layer"])), "epsilon": 1e-5}
                options["norm_factor"] = draw(factor)
    elif name == "project":
        heads, rope = draw(st.integers(1, 2)), draw(st.sampled_from([None, "shared", "batch"]))
        wide = 64 if rope else wide
        shapes = {"a": (batch, rows, deep), "w": (heads, deep, wide)}
        if rope:
            half = draw(st.integers(1, 32))
            shapes["cos"] = (rows, half) if rope == "shared" else (batch, rows, half)
        options = {"scale": draw(flag), "bias": draw(flag), "rope": rope}
        options["out"] = draw(st.sampled_from(KINDS))
        if draw(flag):
            wide = wide if rope else 32 * draw(st.integers(1, 3))
            shapes["w"] = (heads, deep, wide)
            options |= {"norm": 1e-5, "width": draw(st.integers(1, wide)), "shift": draw(flag)}
        elif rope and draw(flag):
            shapes["w"], options["rotated"] = (heads, deep, 64 + wide), 64
    elif name == "from_heads":
        heads, tiles = draw(st.integers(1, 3)), -(-wide // 32) * 32
        shapes = {"x": (batch, heads, rows, tiles), "out": (batch * heads, rows, wide)}
        options = {"factor": draw(factor), "width": wide}
    else:
        groups, repeats = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        keys = draw(st.integers(1, 100))
        shapes = {"q": (batch, groups * repeats, rows, deep), "kt": (batch, groups, deep, keys)}
        shapes["v"] = (batch, groups, keys, wide)
        options = {"mask": draw(st.sampled_from([None, "causal", "full", "key"]))}
        options["batch"] = draw(flag)
        options["per_head"] = options["mask"] == "full" and draw(flag)
        if draw(flag):
            options["parts"] = 2
            more = rows if options["mask"] == "causal" else draw(st.integers(1, 70))
            shapes |= {"kt1": (batch, groups, deep, more), "v1": (batch, groups, more, wide)}
        if name == "attention_linear":
            # Heads in front of a product are whole tiles wide.
            wide, columns, out = -(-wide // 32) * 32, draw(size), draw(st.sampled_from(OUT))
            shapes |= {f"v{k}": (*shapes[f"v{k}"][:-1], wide) for k in ("", 1) if f"v{k}" in shapes}
            shapes["w"] = (groups * repeats * wide, columns)
            shapes["out"] = (batch, rows, columns)
            options |= {"out": out, "scale": draw(flag), "residual": draw(flag)}
            options |= {"rows": 64} if draw(flag) else {}
            options["heads_on_chip"] = draw(flag)
    on_chip = tuple(draw(st.sets(st.sampled_from(["a", "x", "q", "kt", "v", "out", "residual"]))))
    return name, options, shapes, on_chip


OUT, KINDS = ("bf16", "fp8"), ("heads", "columns", "values")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(call=calls(), profile=st.sampled_from(PROFILES), seed=st.integers(0, 1000))
def test_random_calls(call, profile, seed):
    name, options, shapes, on_chip = call
    assert_same(
        *simulated(
            name,
            options,
            shapes,
            profile,
            on_chip,
            dict.fromkeys(("mask", "mask1", "mask2"), mask),
            seed,
        )
    )


def test_profiles_round_sums_differently():
    """The references follow the profile: 32 columns at once, or two times 16."""
    x = np.random.default_rng(3).integers(0x3F00, 0x4400, (1, 64, 300)).astype(np.uint16)
    options = {"kind": "rms", "epsilon": 1e-5, "out": "bf16"}
    first, second = (
        RECORDS["norm"].compute(load_profile(name), options, {"x": x})["out"] for name in PROFILES
    )
    assert not np.array_equal(first, second)
