"""Programs with several entry points that share weights and memory, on two machines."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.runtime.bundle import load, load_any, save
from tilewright.targets.compiled_model import CompiledEntries

WIDTH, ROWS = 48, 5
STATE = {"memory": ["write.kept", "step.memory", "step.next"]}
TARGETS = ("atlas-v1", "vpu40")


def writer() -> Imported:
    """Hidden state from tokens."""
    net = ModelBuilder("writer", seed=1)
    x = net.input("x", (ROWS, WIDTH))
    net.output("kept", net.relu(net.linear(x, WIDTH, "shared")))
    return net.build()


def stepper() -> Imported:
    """A recurrent step through the same layer."""
    net = ModelBuilder("stepper", seed=1)
    memory = net.input("memory", (ROWS, WIDTH))
    x = net.input("x", (ROWS, WIDTH))
    h = net.relu(net.linear(memory + x, WIDTH, "shared"))
    net.output("next", h)
    net.output("y", h * 0.5)
    return net.build()


@pytest.fixture(scope="module", params=TARGETS)
def program(request: pytest.FixtureRequest) -> tw.EntryPoints:
    return tw.compile({"write": writer(), "step": stepper()}, target=request.param, state=STATE)


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, WIDTH)).astype(np.float32)


def layer(x: np.ndarray) -> np.ndarray:
    weights = writer().weights
    return np.maximum(x @ weights["shared.weight"].T + weights["shared.bias"], 0)


def test_state_goes_from_entry_to_entry(program: tw.EntryPoints) -> None:
    program.reset_state()
    assert not program.state["memory"].any()
    assert program["write"](drawn(0)) == ()  # all of it is kept
    kept = program.state["memory"]
    exact = layer(drawn(0))
    assert np.abs(kept - exact).max() < 0.1 * np.abs(exact).max()
    after = kept
    for number in range(3):
        before = program.state["memory"]
        y = program.step(drawn(10 + number))
        after = program.state["memory"]
        wanted = layer(before + drawn(10 + number))
        assert np.abs(after - wanted).max() < 0.1 * np.abs(wanted).max()
        assert np.abs(y - after / 2).max() <= 0.01 * np.abs(after).max()
    # The same by hand, with the state given from outside, bit for bit.
    program.reset_state()
    memory = program["write"].run(x=drawn(0))["kept"]
    for number in range(3):
        memory = program["step"].run(x=drawn(10 + number), memory=memory)["next"]
    np.testing.assert_array_equal(memory, after)


def test_all_entry_points_are_verified(program: tw.EntryPoints) -> None:
    found = program.verify(per_layer=True)
    assert found.ok and not found.lost and list(found.entries) == ["write", "step"]
    assert set(found.chained) == {"step.next", "step.y"}
    assert all(one.cosine > 0.99 for one in found.chained.values())
    text = found.text()
    assert "entry point step" in text and text.endswith("all entry points verified")
    assert json.dumps(found.to_json())
    shown = str(program.report())
    assert "entry point write" in shown and "cycles" in shown


def test_a_wrong_writer_is_found(program: tw.EntryPoints) -> None:
    """The reader's verification runs on what the writer left, not on numbers of its own."""
    found = program.verify({"write": {"x": np.zeros((ROWS, WIDTH), np.float32)}})
    bias = np.maximum(writer().weights["shared.bias"], 0)
    np.testing.assert_allclose(
        found.entries["write"].results["kept"], np.broadcast_to(bias, (ROWS, WIDTH)), atol=0.01
    )
    again = program.verify({"write": {"x": drawn(3)}})
    assert found.ok and again.ok
    assert not np.array_equal(
        found.entries["step"].results["y"], again.entries["step"].results["y"]
    )


def test_weights_are_stored_once(program: tw.EntryPoints, tmp_path: Path) -> None:
    path = tmp_path / "both.twb"
    program.save(path)
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
    assert any(name.startswith("store/") for name in names)
    single = tmp_path / "one.twb"
    save(program.program.entries["step"], single)
    again = tw.load(path)
    assert isinstance(again, tw.EntryPoints) and list(again) == ["write", "step"]
    for where in (program, again):
        where.reset_state()
        where.write(drawn(0))
    np.testing.assert_array_equal(again.step(drawn(1)), program.step(drawn(1)))
    assert again.verify().ok
    again.save(tmp_path / "again.twb")
    assert (tmp_path / "again.twb").read_bytes() == path.read_bytes()
    with pytest.raises(TilewrightError, match="has several entry points"):
        load(path)
    with pytest.raises(TilewrightError, match="no entry point 'prefill'"):
        again["prefill"]
    with pytest.raises(AttributeError):
        again.prefill  # noqa: B018


def test_state_is_saved_and_restored(program: tw.EntryPoints, tmp_path: Path) -> None:
    program.reset_state()
    program.write(drawn(0))
    program.save_state(tmp_path / "here.tws")
    first = program.step(drawn(1))
    program.step(drawn(2))
    program.load_state(tmp_path / "here.tws")
    np.testing.assert_array_equal(program.step(drawn(1)), first)
    program.save(tmp_path / "both.twb")
    other = tw.load(tmp_path / "both.twb")
    other.load_state(tmp_path / "here.tws")
    np.testing.assert_array_equal(other.step(drawn(1)), first)
    program.state["memory"] = drawn(7)
    np.testing.assert_array_equal(program.state["memory"], drawn(7))
    with pytest.raises(TilewrightError, match="with shape 3"):
        program.state["memory"] = np.zeros(3, np.float32)
    with pytest.raises(TilewrightError, match="no state 'cache'"):
        program.state["cache"]


def test_state_of_another_program_is_refused(program: tw.EntryPoints, tmp_path: Path) -> None:
    other = tw.compile(
        {"write": writer(), "step": stepper()},
        target=program.program.target,
        state={"other": STATE["memory"]},
    )
    other.write(drawn(0))
    other.save_state(tmp_path / "other.tws")
    program.state["memory"] = drawn(1)
    with pytest.raises(TilewrightError, match="that of another program") as caught:
        program.load_state(tmp_path / "other.tws")
    assert caught.value.code == "TW3152"
    np.testing.assert_array_equal(program.state["memory"], drawn(1))


# --- bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"m": ["write.kept", "step.nothing"]}, "has no such input or output"),
        ({"m": ["wrong.kept", "step.memory"]}, "there is no entry point 'wrong'"),
        ({"m": ["step.memory"]}, "nothing writes the state m"),
        ({"m": ["write.kept"]}, "nothing reads the state m"),
        ({"m": "write.kept"}, "given as one text"),
        ({"m": ["write.kept", "step.memory", "step.x"]}, "step reads the state m twice"),
    ],
)
def test_state_that_cannot_be(state: dict, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        tw.compile({"write": writer(), "step": stepper()}, state=state)


def test_state_of_two_shapes() -> None:
    net = ModelBuilder("other")
    net.output("y", net.relu(net.input("memory", (ROWS, 32))))
    with pytest.raises(TilewrightError, match=r"5x48xf32 in write.kept, and .*5x32xf32"):
        tw.compile(
            {"write": writer(), "read": net.build()}, state={"m": ["write.kept", "read.memory"]}
        )


def test_names_of_entry_points() -> None:
    with pytest.raises(TilewrightError, match="no name of an entry point"):
        tw.compile({"a b": writer()})
    with pytest.raises(TilewrightError, match="no entry points"):
        tw.compile({})
    with pytest.raises(TilewrightError, match="which is no entry point"):
        tw.compile({"write": writer()}, {"step": None})
    with pytest.raises(TilewrightError, match="state is shared by entry points"):
        tw.compile(writer(), state=STATE)
    with pytest.raises(TilewrightError, match="no entry point has a layer 'nope'"):
        tw.compile({"write": writer()}, keep=["nope"])


@pytest.mark.parametrize(
    "damage", ["store", "recipe", "stranger", "state", "entry", "twice", "swapped"]
)
def test_damaged_files(program: tw.EntryPoints, tmp_path: Path, damage: str) -> None:
    """What does not fit together is one clear error, whatever it is."""
    path = tmp_path / "both.twb"
    program.save(path)
    members = {name: raw.tobytes() for name, raw in read_archive(path, "a bundle").items()}
    document = json.loads(members["manifest.json"])
    stored = sorted(name for name in members if name.startswith("store/"))
    if damage == "store":
        members[stored[0]] = members[stored[0]][::-1] + b"x"
    elif damage == "recipe":
        next(iter(document["recipes"].values())).append("0" * 32)
    elif damage == "stranger":
        members["entries/third/manifest.json"] = b"{}"
    elif damage == "state":
        document["state"]["memory"]["readers"]["step"] = "x"
    elif damage == "entry":
        document["entries"].append("third")
    elif damage == "twice":
        document["entries"].append("step")
    else:
        document["state"]["memory"]["writers"] = {"write": "kept"}
    members["manifest.json"] = json.dumps(document).encode()
    write_archive(path, [Member(name, [raw]) for name, raw in members.items()])
    with pytest.raises(TilewrightError) as caught:
        load_any(path)
    assert caught.value.code in ("TW3104", "TW3105", "TW3115")


def test_a_damaged_state_file_changes_nothing(program: tw.EntryPoints, tmp_path: Path) -> None:
    program.state["memory"] = drawn(1)
    path = tmp_path / "here.tws"
    program.save_state(path)
    members = {name: raw.tobytes() for name, raw in read_archive(path, "state").items()}
    cut = {**members, "state.safetensors": members["state.safetensors"][:-4]}
    more = {**members, "more": b""}
    for changed in (cut, more, {"state.json": members["state.json"]}):
        write_archive(path, [Member(name, [raw]) for name, raw in changed.items()])
        with pytest.raises(TilewrightError):
            program.load_state(path)
        np.testing.assert_array_equal(program.state["memory"], drawn(1))


def test_a_single_model_stays_what_it_was(tmp_path: Path) -> None:
    single = tw.compile(writer())
    single.save(tmp_path / "one.twb")
    assert isinstance(tw.load(tmp_path / "one.twb"), tw.Program)
    assert not isinstance(load_any(tmp_path / "one.twb"), CompiledEntries)
    with zipfile.ZipFile(tmp_path / "one.twb") as file:
        assert json.loads(file.read("manifest.json"))["version"] == 3


@pytest.mark.parametrize("target", TARGETS)
def test_state_that_grows_is_in_range(target: str) -> None:
    """Example inputs are those of the first call; ranges are those of the calls after it as well."""

    def start() -> Imported:
        net = ModelBuilder("start", seed=1)
        net.output("sum", net.relu(net.linear(net.input("x", (ROWS, WIDTH)), WIDTH, "first")))
        return net.build()

    def add() -> Imported:
        net = ModelBuilder("add", seed=2)
        total = net.input("total", (ROWS, WIDTH)) + net.relu(net.input("x", (ROWS, WIDTH)))
        net.output("next", total)
        net.output("y", net.linear(total, WIDTH, "out"))
        return net.build()

    x, zeros = drawn(1), np.zeros((ROWS, WIDTH), np.float32)
    program = tw.compile(
        {"start": start(), "add": add()},
        {"start": (x,), "add": (zeros, x)},
        target,
        state={"total": ["start.sum", "add.total", "add.next"]},
    )
    program.state["total"] = zeros
    weights, total = add().weights, zeros
    for _ in range(4):
        y = program.add(x)
        total = total + np.maximum(x, 0)
        wanted = total @ weights["out.weight"].T + weights["out.bias"]
        lengths = np.linalg.norm(y) * np.linalg.norm(wanted)
        assert (np.ravel(y) @ np.ravel(wanted)) / lengths > 0.99
