"""The checker of compiled models: a sound model passes, every way to break it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hand_models as models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hand_made import AtlasModel, compiled, kernel_step, on_device, set_parts
from tilewright.targets.artifact import HostPart, LayerLoop, Port
from tilewright.targets.atlas.artifact.atlas_artifact import Entry, Region
from tilewright.targets.atlas.program import Data, Instruction, Program
from tilewright.targets.checking import check
from tilewright.tile.layouts import Layout


@pytest.mark.parametrize(
    "make", [models.mlp, lambda: models.mlp(2), models.hosted, models.looped], ids=range(4)
)
def test_sound_models(make: Callable[[], AtlasModel]) -> None:
    assert check(make()) == []


def region(model: AtlasModel, name: str, **changes: Any) -> None:
    model.artifact.regions[name] = replace(model.artifact.regions[name], **changes)


def step(model: AtlasModel, index: int, **changes: Any) -> None:
    model.artifact.steps[index] = replace(model.artifact.steps[index], **changes)


def port(model: AtlasModel, name: str, **changes: Any) -> None:
    model.ports[name] = replace(model.ports[name], **changes)


BREAKS: list[tuple[str, str, Callable[[AtlasModel], Any]]] = [
    ("TW3111", "region w ends at byte", lambda m: region(m, "w", address=(1 << 30) - 100)),
    ("TW3111", "region w ends at byte", lambda m: region(m, "w", address=1 << 40)),
    ("TW3111", "of VMEM", lambda m: region(m, "h", space="vmem", address=(1 << 20) - 32)),
    ("TW3110", "region w", lambda m: region(m, "w", layout=Layout((0, 4), "fp8"))),
    ("TW3110", "the iterations of region w overlap", lambda m: region(m, "w", count=2, stride=64)),
    ("TW3110", "region x is not live", lambda m: region(m, "x", first=1, last=0)),
    ("TW3110", "region x is not live", lambda m: region(m, "x", last=2)),
    ("TW3114", "no region 'gone'", lambda m: step(m, 1, operands={"a": "gone"})),
    ("TW3114", "live from step 1 to 1", lambda m: step(m, 0, operands={"a": "y"})),
    ("TW3114", "segment 4", lambda m: step(m, 1, segment=4)),
    ("TW3114", " to 9999 of segment 0", lambda m: step(m, 1, end_word=9999)),
    ("TW3114", "words 5 to 5", lambda m: step(m, 0, first_word=5, end_word=5)),
    ("TW3114", "outside the 2 steps", lambda m: m.artifact.loops.append(LayerLoop(2, 1, 3))),
    (
        "TW3114",
        "out of order",
        lambda m: m.artifact.loops.extend([LayerLoop(2, 0, 2), LayerLoop(2, 1, 2)]),
    ),
    ("TW3114", "2 iterations have 1 names", lambda m: m.artifact.loops.append(LayerLoop(2, 0, 2, ("a",)))),
    ("TW3115", "region 'gone'", lambda m: port(m, "x", tensor="gone")),
    ("TW3115", "shape 50x65", lambda m: port(m, "x", shape=(50, 65))),
    ("TW3115", "x is i32", lambda m: port(m, "x", dtype="i32")),
    ("TW3115", "type 'float'", lambda m: port(m, "x", dtype="float")),
    ("TW3115", "input 'z' is not a port", lambda m: setattr(m, "inputs", ("x", "z"))),
    ("TW3115", "another", lambda m: setattr(m, "inputs", ("x", "x"))),
    ("TW3115", "nothing computes", lambda m: set_parts(m, [on_device((0,), ("x",), ())])),
    ("TW3115", "before it is computed", lambda m: setattr(m, "inputs", ())),
    (
        "TW3115",
        "belongs to another part",
        lambda m: set_parts(m, [on_device((0,), ("x",), ("y",)), on_device((0,), (), ())]),
    ),
    ("TW3115", "are not the entries", lambda m: m.artifact.entries.clear()),
    (
        "TW3115",
        "other places than its entry",
        lambda m: m.artifact.entries.update(part0=Entry((0,), ("h",), ("y",))),
    ),
    ("TW3115", "in no part", lambda m: set_parts(m, [on_device((), ("x",), ("y",))])),
    ("TW3115", "no host module", lambda m: m.parts.append(HostPart("f", ("y",), ()))),
    ("TW3115", "differ in shape", lambda m: m.state.update(x="y")),
    ("TW3113", "weights of w are missing", lambda m: m.artifact.weights.pop("w")),
    ("TW3113", "no region for weights", lambda m: m.artifact.weights.update(h=m.artifact.weights["b"])),
    ("TW3113", "6,143 bytes", lambda m: m.artifact.weights.update(w=m.artifact.weights["w"][:-1])),
    ("TW3116", "instruction memory", lambda m: m.artifact.segments.__setitem__(0, long_program())),
    ("TW3112", "x and w share", lambda m: region(m, "w", address=0)),
    ("TW3112", "b and h share", lambda m: region(m, "h", address=0x5800 + 12288 - 32)),
    ("TW3112", "h and y share", lambda m: region(m, "y", address=m.artifact.regions["h"].address + 2048)),
    (
        "TW3112",
        "data of segment 0",
        lambda m: m.artifact.segments[0].data.append(Data("dram", 0x2810, bytes(4))),
    ),
]  # fmt: skip


def long_program() -> Program:
    return Program.from_instructions([Instruction.of("addi", 0, 0, 0)] * 32769)


@pytest.mark.parametrize(("code", "message", "change"), BREAKS, ids=[b[1] for b in BREAKS])
def test_broken_models(code: str, message: str, change: Callable[[AtlasModel], Any]) -> None:
    model = models.mlp()
    change(model)
    findings = check(model)
    assert any(f.code == code and message in f.message for f in findings), findings


def test_a_weight_is_never_overwritten() -> None:
    """Weights are placed once for many runs: nothing may use their bytes, before or after."""
    model = models.mlp()
    region(
        model, "y", address=model.artifact.regions["w"].address
    )  # w is read by step 0, y written by 1
    assert [f.code for f in check(model)] == ["TW3112"]


def test_inputs_and_outputs_outlive_their_steps() -> None:
    """An input arrives before the first step, an output is read after the last."""
    model = models.mlp()
    region(model, "b", kind="activation")
    model.artifact.weights.pop("b")
    region(model, "b", first=0, last=0, address=model.artifact.regions["y"].address)
    step(model, 1, operands={"a": "h", "out": "y"})
    assert check(model) == []  # b is dead when y is written
    region(model, "y", first=0)
    step(model, 0, operands={"a": "x", "b": "w", "out": "y"})
    region(model, "b", first=1, last=1)
    assert [f.code for f in check(model)] == ["TW3112"]  # y is still to be read


def test_results_may_be_written_over_what_is_read_for_the_last_time() -> None:
    model = models.mlp()
    region(model, "y", address=model.artifact.regions["h"].address)
    assert check(model) == []
    region(model, "h", last=1)
    step(model, 1, operands={"b": "b", "out": "y"})  # h is not an operand any more
    assert [f.code for f in check(model)] == ["TW3112"]


def loop(first: int, last: int, count: int = 1) -> AtlasModel:
    """Steps 1 to 3 in a loop; `late` is written in step 3 at the address of `early`."""
    layout = Layout((32, 32), "bf16")
    early = Region("early", "dram", 0, layout, "activation", first, last, count, 4096)
    late = Region("late", "dram", 0, layout, "activation", 3, 3)
    program = Program.from_instructions([Instruction.of("addi", 0, 0, 0)] * 5)
    return compiled(
        name="loop",
        profile=models.V1,
        segments=[program],
        regions={"early": early, "late": late},
        steps=[kernel_step(f"s{n}", "k", {}, {}, 0, n, n + 1) for n in range(5)],
        loops=[LayerLoop(4, 1, 4)],
        ports={},
        inputs=(),
        outputs=(),
        parts=[on_device((0,), (), ())],
        weights={},
    )


@pytest.mark.parametrize(
    ("first", "last", "count", "sound"),
    [
        (0, 0, 1, True),
        (0, 2, 1, False),  # what a loop reads from outside it reads in every round
        (1, 2, 1, True),
        (4, 4, 1, True),
        (2, 4, 4, False),
        (0, 4, 1, False),
    ],
)
def test_lives_across_loops(first: int, last: int, count: int, sound: bool) -> None:
    model = loop(first, last, count)
    if first == 2:  # every round writes its own; the next round's step 1 must not touch them
        region(model, "late", first=1, last=1)
    assert (check(model) == []) == sound


def test_interleaved_rounds_do_not_overlap() -> None:
    """Weights of layers one behind the other: each region's pieces lie between those of others."""
    layout = Layout((32, 32), "bf16")
    model = loop(0, 0)
    model.artifact.regions = {
        name: Region(name, "dram", 2048 * n, layout, "weight", 1, 3, 4, 3 * 2048)
        for n, name in enumerate("abc")
    }
    model.artifact.weights = {name: np.zeros(4 * 2048, np.uint8) for name in model.artifact.regions}
    assert check(model) == []
    model.artifact.regions["c"] = replace(model.artifact.regions["c"], address=2 * 2048 - 32)
    assert [f.code for f in check(model)] == ["TW3112"]


boxes = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 4), st.integers(0, 5), st.integers(0, 3)),
    max_size=9,
)


@settings(max_examples=150, deadline=None)
@given(boxes)
def test_overlaps_are_found_exactly(boxes: list[tuple[int, int, int, int]]) -> None:
    """The walk along the addresses agrees with comparing every pair."""
    model = loop(0, 0)
    model.artifact.loops = []
    model.artifact.steps = [kernel_step(f"s{n}", "k", {}, {}, 0, 0, 1) for n in range(9)]
    model.artifact.regions = {
        f"r{n}": Region(
            f"r{n}",
            "dram",
            1024 * at,
            Layout((32, 32 * tiles), "fp8"),
            "activation",
            first,
            first + more,
        )
        for n, (at, tiles, first, more) in enumerate(boxes)
    }
    together = any(
        a[0] < b[0] + b[1] and b[0] < a[0] + a[1] and a[2] <= b[2] + b[3] and b[2] <= a[2] + a[3]
        for n, a in enumerate(boxes)
        for b in boxes[:n]
    )
    assert (check(model) != []) == together


def test_findings_are_limited() -> None:
    model = models.mlp()
    model.ports = {f"p{n}": Port(f"p{n}", (1,), "strange") for n in range(50)}
    assert len(check(model)) == 20
