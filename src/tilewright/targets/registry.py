"""The machines that are installed: those of this package, and those other packages bring.

A package brings machines by an entry point in the group `tilewright.targets` whose object is a
`Family`. One that cannot be loaded is reported where it is asked for; the others keep working.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright import extensions
from tilewright.errors import Location, TilewrightError
from tilewright.targets.artifact import Artifact, Described
from tilewright.targets.target import Description, Family, Target

if TYPE_CHECKING:
    from tilewright.io.pieces import Content

GROUP = "tilewright.targets"
BUILT_IN = {
    "atlas": "tilewright.targets.atlas:FAMILY",
    "vpu": "tilewright.targets.vpu:FAMILY",
    "coral": "tilewright.targets.coral:FAMILY",
    "xdna": "tilewright.targets.xdna:FAMILY",
}
_broken: dict[str, str] = {}  # entry point -> why it cannot be loaded


def families() -> dict[str, Family]:
    """Every family by name; what cannot be loaded is left out, see `broken`."""
    return {**_built_in(), **_installed()}


@cache
def _built_in() -> dict[str, Family]:
    found: dict[str, Family] = {}
    for name, place in BUILT_IN.items():
        family = found[name] = extensions.load(place)
        _connect(family)
    return found


@cache
def _installed() -> dict[str, Family]:
    """Families that other packages bring."""
    from importlib.metadata import entry_points

    found: dict[str, Family] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        if point.name in BUILT_IN:
            _broken[point.name] = "a family of this name comes with Tilewright"
            continue
        try:
            family = point.load()
            if not isinstance(family, Family):
                raise TypeError(f"{point.value} is a {type(family).__name__}, no Family")
            taken = {*family.targets, *family.variants} & set(_names(found))
            if taken:
                raise ValueError(f"there is a target {min(taken)} already")
        except Exception as error:  # whatever another package does, the others keep working
            _broken[point.name] = f"{type(error).__name__}: {error}"
            continue
        found[point.name] = family
        _connect(family)
    return found


def _names(more: dict[str, Family]) -> Iterator[str]:
    for family in (*_built_in().values(), *more.values()):
        yield from (*family.targets, *family.variants)


def broken() -> dict[str, str]:
    """Entry points that cannot be loaded, and why."""
    families()
    return dict(_broken)


def connect() -> None:
    """Make what the machines add known to the rooms below them."""
    _built_in()
    extensions.tile_machine = tile_machine


def _connect(family: Family) -> None:
    extensions.DIALECTS.update(family.dialects)
    extensions.PASSES.update(family.passes)
    extensions.PIPELINES.update({name: list(steps) for name, steps in family.pipelines.items()})
    extensions.MANIFESTS.update(family.manifests)


def target_names() -> list[str]:
    """Names that `--target` takes, besides files."""
    return [name for family in families().values() for name in family.targets]


def find(target: Any) -> Target:
    """A target by its name or the name of a user's file; one that is a target already as it is."""
    if not isinstance(target, str | Path):
        found = target.as_target() if hasattr(target, "as_target") else target
        if isinstance(found, type) or not hasattr(found, "describe"):
            raise TilewrightError(
                "TW0060",
                f"a target is a name, a file, a machine or a profile, not {type(target).__name__}",
                hint=f"targets are {', '.join(target_names())}",
            )
        return found
    for known in (_built_in, families):  # what is not asked for is not loaded
        for family in known().values():
            if str(target) in (*family.targets, *family.variants):
                return _target(family, str(target))
    claimed = [f for f in families().values() if str(target).endswith(f.suffixes or ("\0",))]
    if claimed:
        return _target(_owner(str(target), claimed), str(target))
    names = target_names()
    near = difflib.get_close_matches(str(target).lower(), names, 3)
    hint = f"did you mean {', '.join(near)}?" if near else f"targets are {', '.join(names)}"
    for name, reason in _broken.items():
        hint += f"; {name} is installed, but cannot be loaded: {reason}"
    raise TilewrightError("TW0060", f"there is no target {str(target)!r}", hint=hint)


def _owner(path: str, claimed: list[Family]) -> Family:
    """Whose machine a user's file describes: it may name its family or a machine that it is based
    on, else it is of the first family that knows files of its kind."""
    named = base = None
    if path.endswith(".toml"):
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return claimed[0]  # which says what is wrong with the file
        named, base = table.get("family"), table.get("base")
    if named is None:
        known = [f for f in claimed if base in (*f.targets, *f.variants)]
        return (known or claimed)[0]
    for family in claimed:
        if family.name == named:
            return family
    known = ", ".join(family.name for family in claimed)
    raise TilewrightError(
        "TW0065",
        f"this is a machine of the family {named!r}, which is not here or takes no files",
        Location(path),
        f"families with files of this kind are {known}",
    )


def _target(family: Family, name: str) -> Target:
    return extensions.load(family.find)(name)


def read(family: str, target: str, members: Mapping[str, Content], place: Location) -> Artifact:
    """The artifact of a bundle for a target of a family; every machine of a family reads all of them."""
    found = families().get(family)
    if found is None:
        hint = f"families here are {', '.join(families())}"
        if family in _broken:
            hint = f"{family} is installed, but cannot be loaded: {_broken[family]}"
        message = f"the bundle is for {target}, a machine of the family {family!r} that is not here"
        raise TilewrightError("TW0063", message[:400], place, hint)
    return _target(found, target if target in found.targets else found.targets[0]).read(
        members, place
    )


def description_of(artifact: Artifact) -> Description:
    """The machine an artifact was made for."""
    if isinstance(artifact, Described):
        return artifact.describe()
    return find(artifact.target).describe()


def tile_machine(target: Any) -> Any:
    """A machine as the tile language sees it."""
    found: Any = target if hasattr(target, "tile_machine") else find(target)
    if not hasattr(found, "tile_machine"):
        raise TilewrightError(
            "TW0061",
            f"the tile language has no compiler for {found.name}",
            hint="choose a target that has one: see tilewright targets",
        )
    return found.tile_machine()


def commands() -> dict[str, tuple[str, str]]:
    """Commands of the machines, name -> (place, one line of help)."""
    return {n: row for family in families().values() for n, row in family.commands.items()}
