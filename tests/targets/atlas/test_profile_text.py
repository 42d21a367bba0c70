"""Profiles as text: complete in themselves, and the same profile when read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.profile import load_profile, parse_profile, profile_names
from tilewright.targets.atlas.profile_text import profile_text


@pytest.mark.parametrize("name", profile_names())
def test_round_trip(name: str) -> None:
    profile = load_profile(name)
    assert parse_profile(profile_text(profile), "text") == profile


def test_odd_names_and_numbers() -> None:
    profile = replace(
        load_profile("atlas-v1"), name='a "b"\n\x7f\u2603\\', vmem_bytes=1 << 20, halts=False
    )
    text = profile_text(profile)
    assert text.isascii()
    assert parse_profile(text, "text") == profile


def test_no_other_file_is_read() -> None:
    with pytest.raises(TilewrightError, match="TW1105"):
        parse_profile('base = "atlas-v1"\nname = "x"', "text")
    with pytest.raises(TilewrightError, match="TW1103 text"):
        parse_profile("name = [", "text")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "atlas-v1"\n[dma]\nlink_bytes = 8\n')
    first = load_profile(str(path))
    assert load_profile(str(path)) is first
    path.write_text('base = "atlas-v1"\n[dma]\nlink_bytes = 16\n')
    assert load_profile(str(path)).dma.link_bytes == 16
    assert load_profile("atlas-v1") is load_profile("atlas-v1")
