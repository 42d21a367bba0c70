"""State that stays on the device, in the encoding in which its readers want it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.runtime.bundle import load, load_any, save
from tilewright.runtime.entry_session import EntrySession
from tilewright.runtime.manifest import STATE_VERSION, manifest_of
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import DeviceOptions
from tilewright.targets.checking import check
from tilewright.targets.compiled_model import CompiledEntries
from tilewright.targets.port_encoding import Encoding

PAST, GROUPS, HEAD = 45, 2, 64
STATE = {
    "keys": ["look.keys", "act.keys"],
    "values": ["look.values", "act.values"],
    "hidden": ["act.hidden", "act.next"],
}


def look() -> Imported:
    """Keys and values of an input."""
    net = ModelBuilder("look", seed=1)
    x = net.input("x", (1, PAST, 64))
    for name in ("keys", "values"):
        net.output(name, net.heads(net.linear(x, GROUPS * HEAD, name), GROUPS))
    return net.build()


def act() -> Imported:
    """A step that attends to them."""
    net = ModelBuilder("act", seed=2)
    held = (1, PAST, GROUPS, HEAD)
    keys, values = net.input("keys", held), net.input("values", held)
    x = net.input("hidden", (1, 40, 96))
    q = net.heads(net.linear(net.rms_norm(x, "norm"), 4 * HEAD, "q"), 4)
    x = x + net.linear(net.attention(q, keys, values), 96, "o")
    net.output("next", net.silu(x))
    return net.build()


@pytest.fixture(scope="module", params=["atlas-v0", "atlas-v1", "vpu40"])
def program(request: pytest.FixtureRequest) -> tw.EntryPoints:
    return tw.compile({"look": look(), "act": act()}, target=request.param, state=STATE)


@pytest.fixture(scope="module")
def atlas() -> tw.EntryPoints:
    return tw.compile({"look": look(), "act": act()}, target="atlas-v1", state=STATE)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def given(seed: int) -> dict[str, np.ndarray]:
    held = (1, PAST, GROUPS, HEAD)
    return {"keys": drawn(seed, *held), "values": drawn(seed + 1, *held)}


class Writes:
    """What a session hands to its device."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[Any] = []
        device = session.device()
        whole, rows = device.write, getattr(device, "write_rows", None)

        def write(port: Any, value: np.ndarray) -> None:
            self.seen.append(port.name)
            whole(port, value)

        def write_rows(port: Any, value: np.ndarray, first: int, end: int) -> None:
            assert rows is not None
            self.seen.append((port.name, first, end))
            rows(port, value, first, end)

        monkeypatch.setattr(device, "write", write)
        if rows is not None:
            monkeypatch.setattr(device, "write_rows", write_rows)

    def take(self) -> list[Any]:
        found, self.seen = self.seen, []
        return found


def test_keys_lie_transposed_in_fp8_and_nothing_converts_them(atlas: tw.EntryPoints) -> None:
    model = atlas["act"].model
    kept = {name: t for name, t in model.artifact.tensors.items() if t.kind == "state"}
    assert {(t.dtype, t.shape) for t in kept.values()} == {
        ("fp8", (1, GROUPS, HEAD, PAST)),
        ("fp8", (1, GROUPS, PAST, HEAD)),
        ("bf16", (1, 40, 96)),
    }
    keys = model.ports["keys"]
    assert keys.encoding is not None and keys.encoding.order == (0, 2, 3, 1)
    assert len(model.parts) == 1
    assert not [s for s in model.artifact.steps if s.kernel in ("split_heads", "quantise")]


def test_only_rows_that_changed_are_handed_over(
    program: tw.EntryPoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(program["act"].model)
    writes, state = Writes(session, monkeypatch), given(3)
    x = drawn(5, 1, 40, 96)
    first = session.run(hidden=x, **state)["next"]
    assert sorted(writes.take()) == ["hidden", "keys", "values"]
    assert np.array_equal(session.run(hidden=x, **state)["next"], first)
    assert writes.take() == []
    state["keys"][0, 33:35] += 1  # in place, as caches are
    second = session.run(hidden=x, **state)["next"]
    assert writes.take() == [("keys", 33, 35)]
    assert not np.array_equal(first, second)
    assert np.array_equal(Session(program["act"].model).run(hidden=x, **state)["next"], second)
    state["keys"][0, 33:35] -= 1
    state["values"] = -state["values"]
    session.run(hidden=x, **state)
    assert writes.take() == [("keys", 33, 35), ("values", 0, PAST)]


def test_a_session_is_what_one_that_writes_everything_is(program: tw.EntryPoints) -> None:
    """Whatever the order: calls, state set by hand, forgotten, saved and loaded."""

    def results(fresh: bool, path: Path | None = None) -> Iterator[np.ndarray]:
        session = EntrySession(program.program)

        def called(entry: str, **inputs: np.ndarray) -> np.ndarray:
            if fresh:
                session[entry]._device = None
            return next(iter(session[entry].run(inputs).values()))

        session.state["hidden"] = drawn(1, 1, 40, 96)
        yield called("act")
        yield called("look", x=drawn(2, 1, PAST, 64))
        yield called("act")
        saved = session.state_values()
        yield called("act")
        session.state["keys"] = drawn(3, 1, PAST, GROUPS, HEAD)
        yield called("act")
        session.set_state_values(saved, tw.errors.Location("here"))
        yield called("act")
        session.reset_state()
        yield called("act")

    for kept, written in zip(results(False), results(True), strict=True):
        assert np.array_equal(kept, written)


def test_state_in_two_encodings_stays_right() -> None:
    """A layer that is read in two ways at once has one of them from the host."""
    net = ModelBuilder("both", seed=3)
    held = net.input("held", (1, 33, 1, HEAD))
    q = net.heads(net.linear(net.input("x", (1, 2, 32)), HEAD, "q"), 1)
    net.output("mixed", net.attention(q, held, held))
    net.output("sum", net.relu(held))
    model = replace(net.build(), resident=frozenset({"held"}))
    program = tw.compile(model, target="atlas-v1")
    found = program.verify(per_layer=True, original=model)
    assert found.ok and found.exact, found.text()
    session, x = Session(program.model), drawn(0, 1, 2, 32)
    for seed in (1, 2, 2, 1):
        results = session.run(x=x, held=drawn(seed, 1, 33, 1, HEAD))
        again = Session(program.model).run(x=x, held=drawn(seed, 1, 33, 1, HEAD))
        assert all(np.array_equal(results[name], again[name]) for name in results)


def test_a_loop_over_layers_does_not_begin_in_what_stays() -> None:
    net = ModelBuilder("deep", seed=2)
    x = net.input("hidden", (1, 5, 96))
    for number in range(4):
        with net.layer(f"layers.{number}"):
            x = x + net.linear(net.gelu(net.linear(net.rms_norm(x, "norm"), 64, "up")), 96, "down")
    net.output("next", x)
    model = replace(net.build(), resident=frozenset({"hidden"}))
    compiled = compile_imported(model, options=CompileOptions(layer_loops=True))
    assert compiled.artifact.loops
    session, hidden = Session(compiled), drawn(5, 1, 5, 96)
    first = session.run(hidden=hidden)["next"]
    assert np.array_equal(session.run(hidden=hidden)["next"], first)
    assert verify(compiled).ok


def test_a_run_that_goes_on_has_its_own_state(atlas: tw.EntryPoints) -> None:
    session, x = Session(atlas["act"].model), drawn(5, 1, 40, 96)
    whole = session.run(hidden=x, **given(3))["next"]
    half = session.run_until(session.cycles // 2, hidden=x, **given(3))
    other = session.run(hidden=x, **given(7))["next"]
    resumed = session.resume(half).outputs
    assert resumed is not None and np.array_equal(resumed["next"], whole)
    assert np.array_equal(session.run(hidden=x, **given(7))["next"], other)


# --- checked and verified ---------------------------------------------------------------


@pytest.fixture(scope="module")
def vpu() -> tw.EntryPoints:
    return tw.compile({"look": look(), "act": act()}, target="vpu40", state=STATE)


def test_half_precision_stays_on_a_vpu(vpu: tw.EntryPoints, tmp_path: Path) -> None:
    """Nothing casts state in a call; what the checker lets pass has it alone in its bytes."""
    model = vpu["act"].model
    (entry,) = model.artifact.entries.values()
    kept = {name: t.dtype for name, t in model.artifact.tensors.items() if t.kind == "state"}
    assert kept == {"hidden": "f16", "keys": "f16", "values": "f16"}
    values = model.ports["values"].encoding
    assert values is not None and values.order == (0, 2, 3, 1)  # heads apart, transposed
    moved = [s.operands["x"] for s in model.artifact.steps if s.kernel == "transpose"]
    assert not {entry.inputs[port] for port in kept} & set(moved)
    assert "hidden" not in model.host_module and "keys" not in model.host_module
    assert check(model) == []
    turned = replace(values, order=(0, 1, 2, 3))
    ports = {**model.ports, "values": replace(model.ports["values"], encoding=turned)}
    assert "not as device_0 needs it" in check(replace(model, ports=ports))[0].message
    result = entry.homes[entry.outputs["value7"]]
    for wrong, said in (
        ({entry.inputs["keys"]: entry.homes[entry.inputs["values"]]}, "lies where the state"),
        ({entry.inputs["keys"]: result}, "writes the state keys"),
    ):
        moved = replace(entry, homes={**entry.homes, **wrong})
        artifact = replace(model.artifact, entries={entry.name: moved})
        found = check(replace(model, artifact=artifact))
        assert found and said in found[0].message
    vpu.save(tmp_path / "pair.twb")
    again = tw.load(tmp_path / "pair.twb")
    for one in (vpu, again):
        one.reset_state()
        one.look(drawn(2, 1, PAST, 64))
    assert np.array_equal(vpu.act(), again.act())
    assert again["act"].session.device().keeps(model.ports["keys"])


def test_verification_finds_state_that_a_vpu_wrote(
    vpu: tw.EntryPoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.targets.vpu.model.device import VpuDevice

    run = VpuDevice.run

    def astray(self: VpuDevice, *given: Any) -> None:
        run(self, *given)
        for entry in self.entries.values():
            for port, first, _ in entry.state_ranges():
                if port == "keys":
                    self._image(entry)[first + 41] ^= 1

    monkeypatch.setattr(VpuDevice, "run", astray)
    found = verify(vpu["act"].model)
    assert not found.ok and "1 numbers of the state keys" in found.text()


def test_verification_finds_state_that_was_overwritten(
    atlas: tw.EntryPoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.targets.atlas.artifact.device import AtlasDevice

    assert atlas.verify().ok
    run = AtlasDevice.run

    def astray(self: AtlasDevice, *given: Any) -> None:
        run(self, *given)
        for region in self.artifact.regions.values():
            if region.kind == "state" and region.name.endswith(".columns"):
                self.machine.write("dram", region.address + 40, b"\x11")

    monkeypatch.setattr(AtlasDevice, "run", astray)
    found = verify(atlas["act"].model)
    assert not found.ok and "1 numbers of the state keys" in found.text()


def test_nothing_may_lie_where_state_stays(atlas: tw.EntryPoints) -> None:
    model = atlas["act"].model
    regions = model.artifact.regions
    state = next(r for r in regions.values() if r.kind == "state" and "columns" in r.name)

    def broken(**changed: Any) -> list[str]:
        artifact = replace(model.artifact, regions={**regions, **changed})
        return [error.message for error in check(replace(model, artifact=artifact))]

    assert broken() == []
    # Behind the last step that reads it too: the next run begins with what is there.
    late = next(r for r in regions.values() if r.kind == "output")
    reader = next(
        n for n, s in enumerate(model.artifact.steps) if state.name in s.operands.values()
    )
    end = max(r.address + r.bytes for r in regions.values() if r.space == "dram")
    brief = {
        state.name: replace(state, last=reader, address=end),
        late.name: replace(late, first=reader + 1, address=end),
    }
    assert "share the bytes" in broken(**brief)[0]
    written = broken(**{late.name: replace(late, kind="state")})
    assert "is state that stays" in written[0]
    assert "stays in DRAM" in broken(**{state.name: replace(state, space="vmem")})[0]


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (Encoding(3.0, (1, PAST, GROUPS, HEAD), (0, 2, 3, 1)), "power of two"),
        (Encoding(4.0, (1, PAST, GROUPS, HEAD), (0, 2, 1, 3)), "makes"),
        (Encoding(4.0, (1, PAST, GROUPS), (0, 2, 1)), "shape"),
    ],
)
def test_encodings_have_to_fit(atlas: tw.EntryPoints, encoding: Encoding, said: str) -> None:
    model = atlas["act"].model
    ports = {**model.ports, "keys": replace(model.ports["keys"], encoding=encoding)}
    assert said in check(replace(model, ports=ports))[0].message
    ports = {**model.ports, "next": replace(model.ports["next"], encoding=encoding)}
    assert check(replace(model, ports=ports))


def test_a_port_in_a_region_that_is_gone_is_a_finding(atlas: tw.EntryPoints) -> None:
    model = atlas["act"].model
    port = replace(model.ports["keys"], tensor="gone")
    said = [f.message for f in check(replace(model, ports={**model.ports, "keys": port}))]
    assert any("'gone', which does not exist" in one for one in said)


# --- as files ---------------------------------------------------------------------------


def test_bundles_with_state_on_the_device_have_a_version_of_their_own(
    atlas: tw.EntryPoints, tmp_path: Path
) -> None:
    path = tmp_path / "pair.twb"
    save(atlas.program, path)
    again = load_any(path)
    assert isinstance(again, CompiledEntries)
    assert manifest_of(atlas["act"].model)["version"] == STATE_VERSION
    assert manifest_of(atlas["look"].model)["version"] < STATE_VERSION
    assert again.entries["act"].ports == atlas["act"].model.ports
    session, whole = EntrySession(again), EntrySession(atlas.program)
    for one in (session, whole):
        one["look"].run(x=drawn(2, 1, PAST, 64))
    assert np.array_equal(session["act"].run({})["next"], whole["act"].run({})["next"])
    save(atlas["act"].model, tmp_path / "alone.twb")
    assert load(tmp_path / "alone.twb").ports == atlas["act"].model.ports


def test_a_state_is_written_and_read_at_the_edge(atlas: tw.EntryPoints) -> None:
    model = atlas["act"].model
    port, keys = model.ports["keys"], given(4)["keys"]
    found = []
    for device in (model.artifact.device(DeviceOptions()), model.artifact.reference()):
        device.write(port, keys)
        found.append(device.read(port))
    assert np.array_equal(*found)
    assert 0 < np.abs(found[0] - keys).max() <= np.abs(keys).max() / 16
    with pytest.raises(TilewrightError):
        Session(model).run(keys=keys[:, 1:])
