"""Sessions: values, what is kept between runs, counters per step, bad inputs, faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import hand_models as models
import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from hand_made import AtlasModel, on_device, set_parts
from tilewright.errors import TilewrightError
from tilewright.runtime import bundle
from tilewright.runtime.session import Session
from tilewright.runtime.values import as_port
from tilewright.targets.artifact import HostPart, Port
from tilewright.targets.atlas.artifact.atlas_artifact import Region
from tilewright.targets.atlas.artifact.device import AtlasDevice
from tilewright.targets.atlas.artifact.open_run import SegmentRun
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.targets.checking import check
from tilewright.tile.layouts import Layout

X = np.random.default_rng(5).normal(size=(50, 64)).astype(np.float32)
MACHINES = ("native", "python")


def runs_of(session: Session) -> list[SegmentRun]:
    return cast(AtlasDevice, session.device()).runs


def bf16_bits(array: np.ndarray) -> np.ndarray:
    return array.astype(ml_dtypes.bfloat16).view(np.uint16)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("segments", [1, 2])
def test_values(segments: int, machine: str) -> None:
    model = models.mlp(segments)
    session = Session(model, machine)
    for x in (X, -X):  # weights are placed once, for both runs
        result = session.run(x=x)["y"]
        assert result.dtype == np.float32 and result.shape == (1, 50, 70)
        assert np.array_equal(bf16_bits(result[0]), models.mlp_expected(model, x))


def test_unwritten_memory_does_not_matter() -> None:
    for poisoned in (True, False):
        result = Session(models.mlp(2), poisoned=poisoned).run([X])[0]
        assert np.array_equal(result, Session(models.mlp()).run([X])[0])


def test_host_parts() -> None:
    model = models.hosted()
    result = Session(model).run(x=X)["z"]
    y = models.mlp_expected(model, 2 * X).view(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(result[0], y + model.host_weights["shift"][0])


def test_rounds_and_state() -> None:
    """Each run adds the weights of all rounds to what the last one left."""
    model = models.looped(4)
    session = Session(model)
    layers = [
        model.artifact.regions["w"].layout.unpack(
            model.artifact.weights["w"][2048 * n : 2048 * n + 2048].tobytes()
        )
        for n in range(4)
    ]
    total = np.zeros((20, 32), ml_dtypes.bfloat16)
    for _ in range(2):
        for layer in layers:
            total = (total.astype(np.float32) + layer.astype(np.float32)).astype(total.dtype)
        assert np.array_equal(session.run()["y"].view(np.uint16), total.view(np.uint16))
    given = np.ones((20, 32), np.float32)
    assert not np.array_equal(session.run(x=given)["y"], session.run()["y"])
    session.reset_state()
    first = session.run()["y"]
    assert np.array_equal(first, Session(models.looped(4)).run()["y"])
    model.host_weights["x"] = np.full((20, 32), 2, ml_dtypes.bfloat16)  # a state's first value
    two = np.full((20, 32), 2, np.float32)
    assert np.array_equal(Session(model).run()["y"], Session(model).run(x=two)["y"])


@pytest.mark.parametrize("machine", MACHINES)
def test_counters_per_step(machine: str) -> None:
    session = Session(models.mlp(2), machine)
    session.run([X])
    first, second = session.step_cycles
    assert (first.name, first.step, first.start) == ("fc", 0, 0)
    assert (second.name, second.start, second.end) == ("bias", first.end, session.cycles)
    # DMA: all tiles of x, w and h; then of h, b and y.
    assert (first.loaded, first.stored) == (4096 + 6144, 12288)
    assert (second.loaded, second.stored) == (2 * 12288, 12288)
    statistics = session.statistics
    assert statistics.loaded == first.loaded + second.loaded
    for unit in ("MXU1", "VPU", "DMA", "LSU"):
        assert statistics.busy[unit] == first.busy[unit] + second.busy[unit]
    assert first.busy["MXU1"] > 0 and second.busy["MXU1"] == 0
    assert statistics.instructions == first.instructions + second.instructions
    assert [run.end for run in runs_of(session)] == [first.end, second.end]
    assert first.to_json()["cycles"] == first.cycles == first.end


def test_counters_per_round() -> None:
    session = Session(models.looped(3))
    session.run()
    calls = session.step_cycles
    assert [(c.name, c.iteration) for c in calls] == [(f"layers.{n}/add", n) for n in range(3)]
    assert calls[1].cycles == calls[2].cycles
    assert [c.start for c in calls[1:]] == [c.end for c in calls[:-1]]
    assert sum(c.cycles for c in calls) == session.cycles
    assert {(c.loaded, c.stored) for c in calls} == {(4096, 2048)}


def test_code_that_is_loaded_for_every_round() -> None:
    model = models.streamed(3)
    assert check(model) == []
    session = Session(model)
    x = np.ones((20, 32), np.float32)
    assert np.array_equal(session.run(x=x)["y"], Session(models.looped(3)).run(x=x)["y"])
    names = [call.name for call in session.step_cycles]
    assert names == ["start", "layers.0.add", "layers.1.add", "layers.2.add"]
    assert [run.segment for run in runs_of(session)] == [0, 1, 1, 1]
    assert sum(call.cycles for call in session.step_cycles) == session.cycles
    assert len({s.start for s in session.trace().slices if s.name == "vadd.bf16"}) == 3
    set_parts(model, [on_device((0, 1, 1), ("x",), ("y",))])
    with pytest.raises(TilewrightError, match=r"TW3132.*layers\.2\.add"):
        Session(model).run()
    set_parts(model, [on_device((1, 1, 1, 0), ("x",), ("y",))])
    assert "out of order" in check(model)[0].message


def test_both_machines_count_alike() -> None:
    runs = []
    for machine in MACHINES:
        session = Session(models.looped(2), machine)
        session.run()
        runs.append((session.cycles, session.step_cycles, session.statistics.lost))
    assert runs[0] == runs[1]


def test_trace_of_all_segments() -> None:
    session = Session(models.mlp(2))
    with pytest.raises(TilewrightError, match="TW4001"):
        session.trace()
    before = session.run([X])[0]
    whole = session.trace()
    assert whole.start == 0 and session.cycles <= whole.end <= session.cycles + 1
    split = runs_of(session)[0].end
    assert min(s.start for s in whole.slices) < split < max(s.start for s in whole.slices)
    assert {t.name for t in whole.tracks} >= {"MXU1", "VPU", "DMA", "LSU"}
    assert len({t.name for t in whole.tracks}) == len(whole.tracks)
    part = session.trace((split + 100, split + 400))
    assert part.slices and all(s.end > split + 100 for s in part.slices)
    assert all(p[0] >= split for c in part.counters for p in c.points)
    flows = [s.flow_out for s in whole.slices if s.flow_out]
    assert len(set(flows)) == len(flows)
    assert np.array_equal(session.run([X])[0], before)


# --- inputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        ({}, "TW3121", "the input x: 50x64xf32 is missing"),
        ({"x": X, "q": X}, "TW3120", "no input 'q'"),
        ({"x": X[:49]}, "TW3122", "x: 50x64xf32 was given with shape 49x64"),
        ({"x": X.reshape(64, 50)}, "TW3122", "given with shape 64x50"),
        ({"x": X.astype(np.float64)}, "TW3123", "was given as f64"),
        ({"x": X.astype(np.int32)}, "TW3123", "was given as i32"),
        ({"x": X.astype(bool)}, "TW3123", "was given as i1"),
        ({"x": [[1.0], [1.0, 2.0]]}, "TW3122", "no array"),
        ({"x": "text"}, "TW3122", "given with shape a scalar"),
        ([X, X], "TW3120", "2 inputs were given, mlp takes 1"),
        ([], "TW3120", "0 inputs were given"),
        (3, "TW3120", "given as int"),
    ],
)
def test_bad_inputs(inputs: Any, code: str, words: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        Session(models.mlp()).run(inputs)
    assert caught.value.code == code
    assert words in caught.value.message


def test_what_is_accepted() -> None:
    session = Session(models.mlp())
    expected = session.run([X.astype(ml_dtypes.bfloat16)])[0]
    wide = X.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(session.run([wide])[0], expected)
    assert np.array_equal(session.run({"x": wide.tolist()})["y"], expected)  # lists have no type
    f16 = X.astype(np.float16)
    assert np.array_equal(session.run(x=f16)["y"], session.run(x=f16.astype(np.float32))["y"])
    with pytest.raises(TilewrightError, match="both by name"):
        session.run([X], x=X)  # pyright: ignore


def test_integers_and_booleans_reach_the_host() -> None:
    model = models.mlp()
    model.ports |= {
        "i": Port("i", (3,), "i64"),
        "m": Port("m", (3,), "i1"),
        "r": Port("r", (3,), "i64"),
    }
    model.host_module = """func.func @pick(%i: tensor<3xi64>, %m: tensor<3xi1>) -> tensor<3xi64> {
      %z = arith.constant dense<-1> : tensor<3xi64>
      %r = arith.select %m, %i, %z : tensor<3xi1>, tensor<3xi64>
      func.return %r : tensor<3xi64>
    }"""
    model.inputs, model.outputs = ("i", "m"), ("r",)
    set_parts(model, [HostPart("pick", ("i", "m"), ("r",))])
    (
        model.artifact.steps,
        model.artifact.segments,
        model.artifact.regions,
        model.artifact.weights,
    ) = [], [], {}, {}
    model.ports = {name: model.ports[name] for name in ("i", "m", "r")}
    assert check(model) == []
    session = Session(model)
    mask = np.array([True, False, True])
    assert session.run(i=np.array([4, 5, 6], np.int32), m=mask)["r"].tolist() == [4, -1, 6]
    assert session.cycles == 0
    assert session.run(i=[4, 5, 6], m=[True, True, False])["r"].tolist() == [4, 5, -1]
    assert session.run(i=np.array([4, 5, 6], np.int8), m=mask)["r"].tolist() == [4, -1, 6]
    for bad in (np.array([4, 5, 6], np.uint64), [1 << 63, 0, 0], [0.5, 0, 0]):
        with pytest.raises(TilewrightError, match="TW3123"):
            session.run(i=bad, m=mask)
    with pytest.raises(TilewrightError, match="TW3123"):
        session.run(i=[4, 5, 6], m=[0, 1, 2])


def test_one_input_tensor_per_round() -> None:
    """A port whose region has a tensor for every round is cut along its first dimension."""
    model = models.looped(3)
    model.artifact.regions["w"] = replace(model.artifact.regions["w"], kind="input")
    model.artifact.weights = {}
    model.ports["w"] = Port("w", (3, 20, 32), "bf16", "w")
    model.inputs = ("x", "w")
    set_parts(model, [on_device((0,), ("x", "w"), ("y",))])
    assert check(model) == []
    w = np.arange(3 * 20 * 32, dtype=np.float32).reshape(3, 20, 32) % 7
    result = Session(model).run(w=w)["y"]
    assert np.array_equal(result.astype(np.float32), w.sum(0))


# --- programs that go wrong -----------------------------------------------------------------


def test_a_fault_names_the_step() -> None:
    model = models.mlp(2)
    bad = Instruction.of("vload", 0, 31, 0)
    program = model.artifact.segments[1]
    words = [*program][:-1]
    words[5:5] = [Instruction.of("addi", 31, 0, 1), bad]
    model.artifact.segments[1] = Program.from_instructions([*words, *program][: len(program)])
    session = Session(model)
    with pytest.raises(TilewrightError) as caught:
        session.run([X])
    assert caught.value.code == "TW3130"
    assert "step 1 (bias, kernel add)" in caught.value.message
    assert "segment 1" in (caught.value.hint or "")


def test_limits_and_missing_steps() -> None:
    with pytest.raises(TilewrightError, match=r"TW3131.*after 500 cycles"):
        Session(models.mlp(), max_cycles=500).run([X])
    model = models.looped(3)
    model.artifact.loops = [replace(model.artifact.loops[0], count=4, names=())]
    model.artifact.regions["w"] = replace(model.artifact.regions["w"], count=1)
    with pytest.raises(TilewrightError, match=r"TW3132.*ended before it reached iteration 3/add"):
        Session(model).run()


def test_host_functions_that_do_not_fit() -> None:
    model = models.hosted()
    model.parts[0] = HostPart("nowhere", ("x",), ("x2",))
    with pytest.raises(TilewrightError, match=r"TW3133.*nowhere"):
        Session(model).run([X])
    model = models.hosted()
    model.host_module = "func.func @before("
    with pytest.raises(TilewrightError, match="TW1210"):
        Session(model).run([X])
    model = models.hosted()
    model.parts[0] = HostPart("before", ("x",), ("z",))
    with pytest.raises(TilewrightError, match=r"TW3133.*gives z as"):
        Session(model).run([X])


# --- loaded programs ------------------------------------------------------------------------


def test_loaded_program(tmp_path: Path) -> None:
    bundle.save(models.hosted(), tmp_path / "m.twb")
    program = tw.load(tmp_path / "m.twb")
    assert program.cycles == 29856  # without inputs: they do not change the time
    assert np.array_equal(program(X), program.run(x=X)["z"])
    assert [p.name for p in program.inputs] == ["x"]
    assert program.outputs[0].shape == (1, 50, 70)
    assert repr(program) == "<mlp for atlas-v1: (x: 50x64xf32) -> (z: 1x50x70xf32)>"
    report = program.report()
    assert report.cycles == 29856
    assert [(s.name, s.busiest) for s in report.steps] == [("fc", "DMA"), ("bias", "DMA")]
    assert "scaling an image" in str(report)
    assert report.to_json()["dram_bytes"] == 59392
    assert str(program.memory_map).splitlines()[0] == "DRAM: 47,104 of 1,073,741,824 bytes"
    assert program.memory_map.to_json()["memories"]["dram"]["used"] == 47104
    program.save(tmp_path / "n.twb")
    assert (tmp_path / "n.twb").read_bytes() == (tmp_path / "m.twb").read_bytes()


def test_a_models_own_memory_is_not_an_output() -> None:
    from tilewright.program import Program

    model = models.looped(2)
    program = Program(model)
    assert program.cycles > 0
    assert program() == ()
    assert program.session.state.keys() == {"x"}


def test_listing_assembles_to_the_same_code() -> None:
    from tilewright.targets.atlas.assembler import assemble
    from tilewright.targets.atlas.model.listing import listing, segment_listing

    model = models.mlp(2)
    for number, program in enumerate(model.artifact.segments):
        assert assemble(segment_listing(model.artifact, number), model.artifact.profile).same_code(
            program
        )
    assert "step_1_bias:" in listing(model.artifact)


def test_vmem_weights_are_there_in_every_run() -> None:
    model = models.looped(1)
    layout = Layout((32, 32), "bf16")
    numbers = np.full((32, 32), 3.0)
    model.artifact.regions["v"] = Region("v", "vmem", 0x8000, layout, "constant", 0, 0)
    model.artifact.weights["v"] = np.frombuffer(layout.pack(numbers), np.uint8)
    session = Session(model)
    session.run()
    device: Any = session.device()
    device.machine.write("vmem", 0x8000, bytes(2048))
    session.run()
    assert np.array_equal(device.codes(model.artifact.regions["v"]), models.bf16_codes(numbers))


def test_models_may_be_for_other_profiles(tmp_path: Path) -> None:
    from tilewright.targets.atlas.profile import load_profile

    model: AtlasModel = models.mlp(profile=load_profile("atlas-v0"))
    bundle.save(model, tmp_path / "m.twb")
    result = tw.load(tmp_path / "m.twb").run(x=X)["y"]
    assert np.array_equal(bf16_bits(result[0]), models.mlp_expected(model, X))


def test_whole_numbers_of_numpy_that_fit() -> None:
    """Numpy makes i64 of whole numbers; a model in i32 takes those that it can hold."""
    port = Port("i", (2,), "i32", None)
    found = as_port(port, np.array([7, -3]))
    assert found.dtype == np.int32 and found.tolist() == [7, -3]
    with pytest.raises(TilewrightError, match="TW3123"):
        as_port(port, np.array([7, 1 << 40]))
