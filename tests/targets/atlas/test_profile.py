"""Profiles of one's own: what they change, and that mistakes in them are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.profile import load_profile, profile_names

BASE = 'base = "atlas-v1"\n'
PAIR = "vadd.bf16 m2, m0, m4\ndelay 10\nvadd.bf16 m6, m8, m10\n"


@pytest.fixture
def written(tmp_path: Path):
    """Write a profile and load it."""
    count = 0

    def load(text: str):
        nonlocal count
        count += 1
        path = tmp_path / f"mine{count}.toml"
        path.write_text(text)
        return load_profile(str(path))

    return load


def test_built_in_profiles() -> None:
    assert profile_names() == ["atlas-v0", "atlas-v1"]


def test_everything_follows_a_changed_number(written) -> None:
    """A shorter latency: the hazard is gone for the machine and for lint, and cycles follow."""
    quick = written(BASE + '[timing]\nvector = ["VPU", 12]\n')
    usual = load_profile("atlas-v1")
    for profile, cycles, reason in ((usual, 14, "fault"), (quick, 26, "end")):
        program = assemble(PAIR, profile)
        machine = PythonMachine(profile)
        machine.load(program)
        outcome = machine.run()
        assert (outcome.reason, outcome.cycles) == (reason, cycles)
        assert bool(lint(program, profile).errors) == (reason == "fault")


def test_a_base_may_be_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(BASE + "[memory]\nvmem_bytes = 2048\n")
    (tmp_path / "two.toml").write_text('base = "one.toml"\n[dma]\nconfig = 9\n')
    profile = load_profile(str(tmp_path / "two.toml"))
    assert (profile.name, profile.vmem_bytes, profile.dma.config) == ("two", 2048, 9)


REFUSED = [
    ("", "TW1106", "lacks 'description'"),
    ("base = 5\n", "TW1104", "base is 5"),
    ('base = "atlas-v7"\n', "TW1101", "no profile"),
    (BASE + 'units = ["SCALAR", ["LSU"]]\n', "TW1104", "units"),
    (BASE + 'units = ["VPU", "SCALAR", "MXU0", "MXU1", "DMA"]\n', "TW1104", "SCALAR first"),
    (BASE + "features = [[1]]\n", "TW1104", "features"),
    (BASE + "memory = 5\n", "TW1104", "a table"),
    (BASE + "[memory]\nvmem_bytes = 1000000007\n", "TW1104", "multiples of 32"),
    (BASE + "[memory]\nvmem_bytes = " + "9" * 5000 + "\n", "TW1103", "TOML"),
    (BASE + "[memory]\nvmem_bytes = nan\n", "TW1104", "vmem_bytes"),
    (BASE + "[memory]\nvmem = 1024\n", "TW1105", "unknown key 'vmem'"),
    (BASE + '[timing]\nvector = ["VPU"]\n', "TW1104", "timing.vector"),
    (BASE + '[timing]\nvector = ["DMA", 5]\n', "TW1104", "on one of"),
    (BASE + '[timing]\nvector = ["VPU", 5, 6]\n', "TW1104", "interval"),
    (BASE + '[hazards]\nconflict = "maybe"\n', "TW1104", "fault or stall or ignore"),
    ("a = " + "[" * 100_000, "TW1103", "nested too deeply"),
    ("\0", "TW0013", "not a text file"),
]


@pytest.mark.parametrize(("text", "code", "words"), REFUSED, ids=range(len(REFUSED)))
def test_refused(written, text: str, code: str, words: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        written(text)
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize("base", ["round.toml", "./round.toml", "../here/round.toml"])
def test_a_profile_based_on_itself(tmp_path: Path, base: str) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "round.toml").write_text(f'base = "{base}"\n')
    with pytest.raises(TilewrightError, match="based on each other") as caught:
        load_profile(str(folder / "round.toml"))
    assert caught.value.code == "TW1102"


_LINES = (
    Path(__file__).parents[3] / "src/tilewright/targets/atlas/profiles/atlas-v1.toml"
).read_text()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_text_is_a_profile_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Parts of a profile with other values in them never end in anything but a TilewrightError."""
    lines = _LINES.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    values = st.sampled_from(
        ["", "-1", "0", "1e400", "[]", "[[]]", "{}", '""', "true", "1979-05-27", "0x1_0", "\x01"]
    )
    name = lines[place].partition("=")[0]
    lines[place] = f"{name}= {data.draw(values)}"
    path = tmp_path / "any.toml"
    path.write_text("\n".join(lines))
    try:
        load_profile(str(path))
    except TilewrightError as error:
        assert str(error).startswith("TW1")
