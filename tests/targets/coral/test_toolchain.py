"""Where the C compiler keeps what it made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.targets.coral.machines import MACHINES
from tilewright.targets.coral.toolchain import compile_c, toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
SOURCE = "int main(void) { return 0; }\n"


@pytest.mark.parametrize("place", ["off", "Off", "here"])
def test_the_cache_is_a_folder_only_if_it_is_named(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE", place)
    assert compile_c(SOURCE, MACHINES["coral"]).program.symbols["main"].size
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*"))
    assert left == (["here/zig"] if place == "here" else [])
    assert (tmp_path / "here").is_dir() == (place == "here") and not (tmp_path / "off").exists()


def test_the_same_source_gives_the_same_program() -> None:
    """Byte for byte, wherever the compiler's files lie and whatever was compiled before."""
    machine = MACHINES["coral"]
    first = compile_c(SOURCE, machine).elf
    compile_c("int more(int a) { return 3 * a; }\n" + SOURCE, machine)
    assert compile_c(SOURCE, machine).elf == first
