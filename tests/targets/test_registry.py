"""The registry of machines: names, files, other packages' machines, and what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright import extensions
from tilewright.cli import app
from tilewright.errors import Location, TilewrightError
from tilewright.targets import registry
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.target import Described, Description, Family, Memory
from tilewright.targets.vpu.machine import read_machine
from tilewright.targets.xdna.device import load_device

OWN = Family("own", "a machine of another package", ("own-1",), "test_registry:find_own")
THIEF = Family("thief", "takes a name that is taken", ("atlas-v1",), "test_registry:find_own")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A good package, one that cannot be imported, one that is no family, one that takes a name."""
    points = [
        EntryPoint("own", "test_registry:OWN", registry.GROUP),
        EntryPoint("broken", "no_such_package_at_all:FAMILY", registry.GROUP),
        EntryPoint("odd", "json:dumps", registry.GROUP),
        EntryPoint("thief", "test_registry:THIEF", registry.GROUP),
        EntryPoint("atlas", "test_registry:OWN", registry.GROUP),
    ]
    loaded = {"test_registry:OWN": OWN, "test_registry:THIEF": THIEF}

    def load(point: EntryPoint) -> object:
        return loaded[point.value] if point.value in loaded else original(point)

    original = EntryPoint.load
    monkeypatch.setattr(EntryPoint, "load", load)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_broken", {})
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


def test_every_machine_describes_itself() -> None:
    for name in registry.target_names():
        found = registry.find(name).describe()
        assert found.name == name and found.memories and found.modelled
        assert json.loads(json.dumps(found.to_json()))["name"] == name
    assert {"atlas-v1", "vpu40", "coral", "xdna2"} <= set(registry.target_names())


def test_names_files_and_profiles(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('base = "atlas-v1"\nname = "mine"\n')
    assert registry.find(str(own)).name == "mine"
    profile = load_profile("atlas-v0")
    assert registry.find(profile).name == "atlas-v0"
    assert registry.find(registry.find("atlas-v0")).name == "atlas-v0"


def test_profiles_of_other_families(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('family = "atlas"\nbase = "atlas-v1"\nname = "mine"\n')
    assert registry.find(str(own)).name == "mine"
    for family in ("cray", "coral"):
        own.write_text(f'family = "{family}"\nname = "mine"\n')
        with pytest.raises(TilewrightError, match=rf"TW0065.*{family}") as caught:
            registry.find(str(own))
        assert "atlas" in (caught.value.hint or "")
    own.write_text("family = [")
    with pytest.raises(TilewrightError, match="TW1103"):
        registry.find(str(own))


def test_an_unknown_target_is_told_what_it_may_have_been() -> None:
    with pytest.raises(TilewrightError) as caught:
        registry.find("atlas-v2")
    assert caught.value.code == "TW0060" and "atlas-v1" in str(caught.value)


def test_machines_without_a_compiler_of_models_say_what_they_can_do() -> None:
    about = Description("study", "study", "a machine to look at", (), (), ())
    machine = Described(about, "look at it: tilewright study --help")
    for ask in (
        lambda: machine.compile(None, None, (), None),  # type: ignore[arg-type]
        lambda: machine.read({}, Location("model.twb")),
    ):
        with pytest.raises(TilewrightError) as caught:
            ask()
        assert caught.value.code == "TW0062" and "tilewright study" in str(caught.value)


@pytest.mark.usefixtures("installed")
def test_what_other_packages_bring() -> None:
    assert set(registry.families()) == {*registry.BUILT_IN, "own"}
    broken = registry.broken()
    assert set(broken) == {"broken", "odd", "thief", "atlas"}
    assert "no_such_package_at_all" in broken["broken"] and "no Family" in broken["odd"]
    assert "atlas-v1" in broken["thief"]
    assert registry.find("atlas-v1").name == "atlas-v1"
    with pytest.raises(TilewrightError) as caught:
        registry.find("nothing-like-it")
    assert "broken is installed, but cannot be loaded" in str(caught.value)


@pytest.mark.usefixtures("installed")
def test_the_command_lists_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    described = Described(Description("own-1", "own", "", (Memory("m", 1),), (), ("all",)), "")
    load = extensions.load
    monkeypatch.setattr(
        extensions,
        "load",
        lambda place: (lambda name: described) if place == OWN.find else load(place),
    )
    result = CliRunner().invoke(app, ["targets", "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and "own-1" in [t["name"] for t in document["targets"]]
    assert set(document["broken"]) == {"broken", "odd", "thief", "atlas"}


def test_files_of_machines_are_read_anew(tmp_path: Path) -> None:
    """Whoever changes a number and compares gets the changed machine, not the first one."""
    path = tmp_path / "mine.toml"
    found = []
    for bandwidth in (40e9, 50e9):
        path.write_text(f'base = "npu2"\nname = "mine"\n[dram]\nbandwidth = {bandwidth}\n')
        found.append(load_device(str(path)).dram.bandwidth)
    assert found == [40e9, 50e9]


def test_machine_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("[" * 100_000)
    with pytest.raises(TilewrightError, match="nested too deeply"):
        read_machine(str(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[core]\nc_access_bytes = 0", "core.c_access_bytes is not in 1"),
        ("[core]\nload_latency = 100000", "core.load_latency is not in 0..1024"),
        ("[tile.core]\nlocks = -1", "tile.core.locks is not in 0"),
        ("[dram]\nbandwidth = 1" + "0" * 400, "too large"),
    ],
)
def test_numbers_of_an_array_that_cannot_be(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "npu2"\nname = "mine"\n{line}\n')
    with pytest.raises(TilewrightError, match=re.escape(message)):
        load_device(str(path))
