"""The plan of the house as a test: which room may import which (docs/architecture.md).

Every import counts, also those inside functions and those for type checkers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tilewright"

# Rooms by floor: a room may import rooms of lower floors, and itself.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "garbage", "_native", "_planning_native"),
    ("extensions",),
    ("io",),
    ("trace",),
    ("dialects",),
    ("reference", "planning"),
    ("transforms",),
    ("frontend", "tile"),
    ("model",),
    ("targets",),
    ("runtime",),
    ("report",),
    ("program",),
    ("entry_points",),
    ("compiling",),
    ("integrations",),
    ("cli",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# What rooms above the machines may know of `targets`.
SHARED = (
    *("target", "registry", "artifact", "compiled_model", "execution", "checking", "port_types"),
    "port_encoding",
)
INTERFACE = ("targets", *(f"targets.{name}" for name in SHARED))


def room_of(module: str) -> str:
    """The room of a module; the commands of a machine belong to the command line."""
    parts = module.split(".")
    if parts[1:2] == ["targets"] and parts[3:4] == ["cli"]:
        return "cli"
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path) -> Iterator[str]:
    """Every module of the package that a file imports, wherever the import stands."""
    package = ["tilewright", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "tilewright")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module.split(".")[0] != "tilewright":
                continue
            if module in ("tilewright", "tilewright.targets"):
                yield from (f"{module}.{a.name}" for a in node.names)
            else:
                yield module


def forbidden(file: str, module: str) -> bool:
    mine, theirs = (
        room_of("tilewright." + file.removesuffix(".py").replace("/", ".")),
        room_of(module),
    )
    if theirs not in FLOOR or mine not in FLOOR:
        return theirs in FLOOR and mine not in ("__init__", "__main__")
    if file.startswith("targets/") and module.startswith("tilewright.targets."):
        return _between_machines(file, module)
    if mine == theirs:
        return False
    if theirs == "targets" and FLOOR[mine] > FLOOR["targets"]:
        return module.removeprefix("tilewright.") not in INTERFACE
    return FLOOR[theirs] >= FLOOR[mine]


def _between_machines(file: str, module: str) -> bool:
    """A machine knows itself and the interface; the interface knows no machine."""
    theirs = module.split(".")[2:]
    if not theirs or theirs[0] in (*SHARED, "riscv_registers"):
        return False
    return Path(file).parts[1].removesuffix(".py") != theirs[0]


def edges() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        for module in sorted(set(imports(path))):
            if forbidden(file, module):
                yield file, module


def test_every_room_is_in_the_plan() -> None:
    found = {
        p.name.removesuffix(".py") for p in SOURCE.iterdir() if p.suffix == ".py" or p.is_dir()
    }
    assert found - set(FLOOR) <= {"__init__", "__main__", "__pycache__", "py.typed"}


def test_imports_go_one_way() -> None:
    wrong = sorted(edges())
    assert not wrong, "imports against the plan of the house:\n" + "\n".join(map(str, wrong))


def test_only_the_registry_names_a_machine() -> None:
    """Also in texts: no place of a machine is written down outside its folder."""
    named = re.compile(r"targets[./](atlas|vpu|coral|xdna)\b")
    found = [
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if named.search(file.read_text()) and file.relative_to(SOURCE).parts[0] != "targets"
    ]
    assert found == []


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("transforms/cse.py", "tilewright.frontend.imported"),
        ("runtime/session.py", "tilewright.targets.atlas.policy"),
        ("targets/registry.py", "tilewright.targets.atlas"),
        ("targets/vpu/cli.py", "tilewright.targets.atlas.isa"),
        ("model/capture.py", "tilewright.targets.target"),
        ("io/archive.py", "tilewright.runtime.bundle"),
    ],
)
def test_the_check_sees_forbidden_edges(file: str, module: str) -> None:
    assert forbidden(file, module)
