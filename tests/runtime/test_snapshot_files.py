"""Runs that are written to a file and gone on with: equal to runs that never stopped."""

from __future__ import annotations

import json
import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.model.options import CompileOptions
from tilewright.runtime.bundle import load, load_any, save
from tilewright.runtime.entry_session import EntrySession
from tilewright.runtime.session import Session
from tilewright.runtime.snapshot_files import require_savable
from tilewright.targets.artifact import DevicePart
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel

PROFILES = ("atlas-v0", "atlas-v1")


def network() -> Imported:
    """A lookup on the host, layers in a loop on the device, the host once more, a head of a few rows."""
    net = ModelBuilder("network", seed=5)
    tokens = net.input("tokens", (20,), "i64")
    x = net.embedding(tokens, 100, 64, "embed")
    for number in range(6):
        with net.layer(f"layers.{number}"):
            x = x + net.linear(net.relu(net.linear(net.rms_norm(x, "norm"), 96, "up")), 64, "down")
    x = net.linear(x, 64, "outside")
    net.output("early", net.relu(x))
    net.output("tags", net.linear(x, 24, "head"))
    return net.build()


@cache
def compiled(target: str, instructions: int = 32768) -> CompiledModel[Any]:
    options = CompileOptions(host=("outside",), instruction_memory=instructions, layer_loops=True)
    return compile_model(network(), load_profile(target), options)


def inputs(seed: int) -> dict[str, np.ndarray]:
    return {"tokens": np.random.default_rng(seed).integers(0, 100, 20)}


def same(session: Session, outputs: Any, whole: Session, wanted: Any) -> None:
    assert {n: (a.dtype, a.tobytes()) for n, a in outputs.items()} == {
        n: (a.dtype, a.tobytes()) for n, a in wanted.items()
    }
    assert session.cycles == whole.cycles
    assert list(session.step_cycles) == list(whole.step_cycles)
    assert session.statistics == whole.statistics


def resumed(model: CompiledModel[Any], path: Path) -> tuple[Session, dict[str, np.ndarray]]:
    session = Session(model)
    end = session.resume(session.load_snapshot(path))
    assert end.outputs is not None and end.cycle == session.cycles
    return session, end.outputs


# --- equal to never having stopped ------------------------------------------------------


@pytest.mark.parametrize(("target", "instructions"), [(PROFILES[0], 32768), (PROFILES[1], 700)])
def test_a_file_anywhere_in_a_run(target: str, instructions: int, tmp_path: Path) -> None:
    model = compiled(target, instructions)
    devices = [part for part in model.parts if isinstance(part, DevicePart)]
    assert len(devices) == 2 and model.artifact.loops
    segments = [model.artifact.entries[part.entry].segments for part in devices]
    assert instructions > 700 or max(map(len, segments)) > 3
    save(model, tmp_path / "n.twb")
    elsewhere = load(tmp_path / "n.twb")
    whole = Session(model)
    wanted = whole.run(inputs(1))
    places = np.random.default_rng(7).integers(0, whole.cycles, 8).tolist()
    starts = [call.start for call in whole.step_cycles]
    for cycle in [0, whole.cycles - 1, *places, starts[2], starts[-1]]:
        session = Session(model)
        half = session.run_until(cycle, inputs(1))
        assert half.cycle == cycle and not half.finished
        session.save_snapshot(half, tmp_path / "h.twr")
        found, outputs = resumed(elsewhere, tmp_path / "h.twr")
        same(found, outputs, whole, wanted)


@pytest.mark.parametrize("target", PROFILES)
def test_many_stops_with_a_file_between_each(target: str, tmp_path: Path) -> None:
    model, path = compiled(target), tmp_path / "h.twr"
    whole = Session(model)
    wanted = whole.run(inputs(2))
    session = Session(model)
    at = session.run_until(1, inputs(2))
    stops = 0
    while not at.finished:
        session.save_snapshot(at, path)
        first = path.read_bytes()
        session = Session(model)
        session.run(inputs(3))  # the memory of the one that goes on is no blank
        at = session.load_snapshot(path)
        session.save_snapshot(at, path)
        assert path.read_bytes() == first
        at, stops = session.resume(at, at.cycle + whole.cycles // 5), stops + 1
    assert stops >= 5 and at.outputs is not None
    same(session, at.outputs, whole, wanted)


def test_trace_and_a_next_run_after_going_on(tmp_path: Path) -> None:
    model = compiled("atlas-v1")
    session = Session(model)
    session.save_snapshot(session.run_until(4000, inputs(1)), tmp_path / "h.twr")
    again, outputs = resumed(model, tmp_path / "h.twr")
    whole = Session(model)
    assert np.array_equal(outputs["tags"], whole.run(inputs(1))["tags"])
    assert again.trace((0, 500)).slices == whole.trace((0, 500)).slices
    assert np.array_equal(again.run(inputs(4))["tags"], whole.run(inputs(4))["tags"])


def accumulator(rows: int) -> Imported:
    net = ModelBuilder("sum", seed=3)
    total = net.input("total", (rows, 40))
    x = net.input("x", (rows, 40))
    y = net.relu(net.linear(x + total, 40, "mix"))
    net.output("next", y)
    net.output("y", y * 0.5)
    return net.build()


@pytest.mark.parametrize("target", PROFILES)
def test_state_that_entry_points_share(target: str, tmp_path: Path) -> None:
    """What other entry points have left is in the file, and what this one leaves is found later."""
    net = ModelBuilder("writer", seed=3)
    net.output("kept", net.relu(net.linear(net.input("x", (3, 40)), 40, "mix")))
    state = {"total": ["write.kept", "step.total", "step.next"]}
    program = tw.compile({"write": net.build(), "step": accumulator(3)}, target=target, state=state)
    program.save(tmp_path / "p.twb")
    one, two = np.random.default_rng(0).normal(size=(2, 3, 40)).astype(np.float32)

    def begun() -> EntrySession:
        found = load_any(tmp_path / "p.twb")
        assert isinstance(found, CompiledEntries)
        return EntrySession(found)

    whole = begun()
    whole["write"].run(x=one)
    wanted = [whole["step"].run(x=x) for x in (two, one)]
    stopped = begun()
    stopped["write"].run(x=one)
    half = stopped["step"].run_until(whole["step"].cycles // 2, x=two)
    stopped["step"].save_snapshot(half, tmp_path / "h.twr")
    later = begun()
    end = later["step"].resume(later["step"].load_snapshot(tmp_path / "h.twr"))
    assert end.outputs is not None and later["step"].cycles == whole["step"].cycles
    for found, right in zip((end.outputs, later["step"].run(x=one)), wanted, strict=True):
        assert all(np.array_equal(found[name], right[name]) for name in right)
    # in the process that stopped it too
    assert stopped["step"].resume(half).finished
    assert np.array_equal(stopped.state["total"], wanted[0]["next"])
    with pytest.raises(TilewrightError, match=r"TW3135.*another program, sum, entry step"):
        later["write"].load_snapshot(tmp_path / "h.twr")


# --- stopped by asking ------------------------------------------------------------------


def test_a_run_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    """As by Ctrl-C: at any moment, from another thread."""
    model = compiled("atlas-v1")
    whole = Session(model)
    wanted = whole.run(inputs(1))
    for count in (1, 2, 5, 9):
        session, asked = Session(model), iter(range(1000))
        half = session.resume(session.start(inputs(1)), stop=lambda: next(asked) >= count)  # noqa: B023
        assert not half.finished and half.cycle < whole.cycles
        session.save_snapshot(half, tmp_path / "h.twr")
        same(*resumed(model, tmp_path / "h.twr"), whole, wanted)
    event = threading.Event()
    event.set()
    session = Session(model)
    assert session.resume(session.start(inputs(1)), stop=event.is_set).cycle == 0


def test_a_long_step_stops_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between slices of the native machine, where no step begins or ends."""
    from tilewright.targets.atlas import native

    monkeypatch.setattr(native, "SLICE", 37)
    model = compiled("atlas-v0")
    whole = Session(model)
    wanted = whole.run(inputs(1))
    starts = {call.start for call in whole.step_cycles}
    inside = 0
    for count in range(3, 50, 7):
        session, asked = Session(model), iter(range(1000))
        half = session.resume(session.start(inputs(1)), stop=lambda: next(asked) >= count)  # noqa: B023
        assert not half.finished
        inside += half.cycle not in starts
        session.save_snapshot(half, tmp_path / "h.twr")
        same(*resumed(model, tmp_path / "h.twr"), whole, wanted)
    assert inside > 4


# --- what a file may not be -------------------------------------------------------------


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    session = Session(compiled("atlas-v1"))
    session.save_snapshot(session.run_until(9000, inputs(1)), tmp_path / "h.twr")
    return tmp_path / "h.twr"


def test_a_file_is_small(snapshot: Path) -> None:
    """Registers, what was written, not the weights and not what is empty."""
    assert snapshot.stat().st_size < 400_000
    with zipfile.ZipFile(snapshot) as file:
        header = json.loads(file.read("snapshot.json"))
    assert header["target"] == "atlas-v1" and header["cycle"] == 9000 and header["version"] == 1


def test_damage_is_found_or_harmless(snapshot: Path, tmp_path: Path) -> None:
    raw, model = snapshot.read_bytes(), compiled("atlas-v1")
    broken, session = tmp_path / "b.twr", Session(model)
    wanted = Session(model).run(inputs(1))
    draw = np.random.default_rng(2)
    for at in [*range(0, 400, 13), *draw.integers(0, len(raw), 150).tolist()]:
        spoiled = bytearray(raw)
        spoiled[at] ^= 1 << int(draw.integers(8))
        broken.write_bytes(spoiled)
        try:
            run = session.load_snapshot(broken)
        except TilewrightError as error:
            assert error.code in ("TW3101", "TW3102", "TW3104", "TW3105", "TW3106", "TW3135"), error
        else:  # padding between members
            outputs = session.resume(run).outputs
            assert outputs is not None and np.array_equal(outputs["tags"], wanted["tags"])
    for length in [0, 1, 100, len(raw) // 2, len(raw) - 1]:
        broken.write_bytes(raw[:length])
        with pytest.raises(TilewrightError, match="TW310"):
            session.load_snapshot(broken)


def members_of(path: Path) -> dict[str, bytes]:
    return {name: raw.tobytes() for name, raw in read_archive(path, "a snapshot").items()}


def test_files_made_by_hand_do_no_harm(snapshot: Path, tmp_path: Path) -> None:
    """With right checksums: refused, or run to some end, but the process goes on."""
    members, forged = members_of(snapshot), tmp_path / "f.twr"
    session = Session(compiled("atlas-v1"), max_cycles=200_000)
    draw = np.random.default_rng(3)
    refused = 0
    core = members["device/core"]
    clocks = 94_372  # registers come first: 32 x, 32 e, 4096 csr, 64 m, 4 w, 4 acc
    for number in range(40):
        spoiled = bytearray(core)
        first, end = (clocks, clocks + 800) if number % 3 else (0, len(core))
        at = int(draw.integers(first, end))
        spoiled[at : at + 8] = draw.bytes(min(8, len(core) - at))
        changed = {**members, "device/core": bytes(spoiled)}
        write_archive(forged, [Member(name, [raw]) for name, raw in changed.items()])
        try:
            session.resume(session.load_snapshot(forged))
        except TilewrightError as error:
            assert error.code in ("TW3135", "TW3130", "TW3131", "TW3132"), error
            refused += error.code == "TW3135"
    assert refused > 10


def test_parts_that_do_not_fit(snapshot: Path, tmp_path: Path) -> None:
    members, forged = members_of(snapshot), tmp_path / "f.twr"
    session = Session(compiled("atlas-v1"))
    header = json.loads(members["snapshot.json"])
    run = read_tensors(
        np.frombuffer(members["device/run.safetensors"], np.uint8), "run", Location("")
    )

    def with_run(**tables: np.ndarray) -> dict[str, bytes]:
        pieces = tensor_pieces({**run, **tables}, "run")
        raw = b"".join(p if isinstance(p, bytes) else p.tobytes() for p in pieces)
        return {**members, "device/run.safetensors": raw}

    def with_header(**fields: Any) -> dict[str, bytes]:
        return {**members, "snapshot.json": json.dumps({**header, **fields}).encode()}

    def without(name: str) -> dict[str, bytes]:
        return {n: raw for n, raw in members.items() if n != name}

    opened = run["open"].copy()
    opened[0] += 1
    places = np.frombuffer(members["device/dram.places"], "<u8") if members else None
    assert places is not None and len(places)
    cases = [
        (with_header(version=2), "version 2 of the format"),
        (with_header(format="something"), "something else"),
        (with_header(part=0), "the host computes"),
        (with_header(part=77), "a part that the program has not"),
        (with_header(program="0" * 32), "another program, network on atlas-v1"),
        (with_header(target="atlas-v0"), "another program, network on atlas-v0"),
        (with_header(entry="x"), "another program"),
        (with_header(more=1), "unknown field 'more'"),
        (without("snapshot.json"), "something else"),
        (without("values.safetensors"), "lacks values"),
        (without("device/core"), "lacks parts"),
        ({**members, "device/more": b""}, "has others"),
        (with_run(open=opened), "none of the entry's"),
        (with_run(calls=run["calls"][:, 1:].copy()), "another shape"),
        (with_run(calls=-run["calls"]), "numbers that nothing counts"),
        (with_run(calls=np.repeat(run["calls"], 40, 0)), "more steps are done"),
        (with_run(extra=run["open"]), "the counts of segments"),
        ({**members, "device/core": members["device/core"] + b"\0"}, "more of the machine's state"),
        ({**members, "device/core": members["device/core"][:-1]}, "cut short"),
        ({**members, "device/dram.places": members["device/dram.places"][:-1]}, "cut short"),
        ({**members, "device/dram.places": members["device/dram.places"][:-8]}, "more content"),
        ({**members, "device/dram": members["device/dram"][:-1]}, "cut short"),
        (
            {**members, "device/dram.places": (places + np.uint64(1)).tobytes()},
            "block of memory has no place",
        ),
        (
            {**members, "device/dram.places": (places + np.uint64(1 << 52)).tobytes()},
            "block of memory has no place",
        ),
    ]
    for changed, message in cases:
        write_archive(forged, [Member(name, [raw]) for name, raw in changed.items()])
        with pytest.raises(TilewrightError, match=message):
            session.load_snapshot(forged)


def test_what_is_refused(snapshot: Path, tmp_path: Path) -> None:
    model = compiled("atlas-v1")
    with pytest.raises(TilewrightError, match=r"TW3135.*another program, network on atlas-v1"):
        Session(compiled("atlas-v0")).load_snapshot(snapshot)
    with pytest.raises(TilewrightError, match=r"TW3135.*another program"):
        Session(compiled("atlas-v1", 700)).load_snapshot(snapshot)  # the same, other code
    with pytest.raises(TilewrightError, match=r"TW3135.*another content"):
        Session(model, poisoned=True).load_snapshot(snapshot)
    with pytest.raises(TilewrightError, match=r"TW3134.*cannot be written"):
        Session(model, "python").load_snapshot(snapshot)
    save(model, tmp_path / "n.twb")
    with pytest.raises(TilewrightError, match=r"TW3135.*something else"):
        Session(model).load_snapshot(tmp_path / "n.twb")
    session = Session(model)
    started = session.start(inputs(1))
    for run, message in [(started, "has not begun"), (session.resume(started), "has ended")]:
        with pytest.raises(TilewrightError, match=f"TW3134.*{message}"):
            session.save_snapshot(run, tmp_path / "x.twr")
    half = session.run_until(10, inputs(1))
    with pytest.raises(TilewrightError, match="TW0011"):
        session.save_snapshot(half, tmp_path / "nowhere" / "x.twr")
    poisoned = Session(model, poisoned=True)
    mixed = poisoned.resume(half, 20)  # memory of another beginning
    with pytest.raises(TilewrightError, match=r"TW3134.*other contents"):
        poisoned.save_snapshot(mixed, tmp_path / "x.twr")
    assert not (tmp_path / "x.twr").exists()
    vpu = ModelBuilder("other")
    vpu.output("y", vpu.linear(vpu.input("x", (4, 32)), 16, "fc"))
    with pytest.raises(TilewrightError, match=r"TW3134.*cannot be stopped"):
        require_savable(Session(tw.compile(vpu.build(), target="vpu40").model))
