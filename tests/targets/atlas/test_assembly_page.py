"""docs/assembly.md: its programs assemble, its codes are the ones the code uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "assembly.md").read_text(encoding="utf-8")
V1 = load_profile("atlas-v1")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", blocks("asm"))
def test_assembly_on_the_page(text: str):
    assert len(assemble(text, V1)) > 0


def test_the_call_returns_behind_its_delay_slots():
    (text,) = [block for block in blocks("asm") if "call double" in block]
    program = assemble("li a0, 21\n" + text, V1)
    machine = PythonMachine(V1, Policy())
    machine.load(program)
    outcome = machine.run()
    assert (outcome.reason, outcome.fault) == ("halt", None)
    assert machine.read_register("x10") == 42


def test_text_form_on_the_page():
    text = blocks("text")[0]
    assert [i.opcode.mnemonic for i in parse_text_isa(text)] == ["addi", "dma.load", "vload", "bne"]


def test_every_code_is_explained():
    explained: set[int] = set()
    for first, last in re.findall(r"TW(\d{4})(?:–TW(\d{4}))?", PAGE):
        explained.update(range(int(first), int(last or first) + 1))
    used: set[int] = set()
    folder = ROOT / "src" / "tilewright" / "targets" / "atlas"
    names = ["assembler", "text_isa", "encoding", "images", "program_json", "files"]
    paths = [folder / f"{name}.py" for name in names]
    for path in [
        *paths,
        *(folder / "assembly").glob("*.py"),
        ROOT / "src/tilewright/io/file_access.py",
    ]:
        used.update(int(code) for code in re.findall(r'"TW(\d{4})"', path.read_text()))
    assert used <= explained
