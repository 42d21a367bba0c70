"""What a family of machines says about itself: names, tools, and what it adds to other rooms.

A family is cheap to import: everything behind it is named as `package.module:object` and loaded
when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    import numpy as np

    from tilewright.errors import Location
    from tilewright.frontend.imported import Imported
    from tilewright.io.pieces import Content
    from tilewright.model.options import CompileOptions, Progress
    from tilewright.targets.artifact import Artifact
    from tilewright.targets.compiled_model import CompiledModel


@dataclass(frozen=True)
class Memory:
    """One memory of a machine."""

    name: str
    bytes: int
    alignment: int = 1
    what: str = ""


@dataclass(frozen=True)
class Description:
    """A machine for people: `tilewright targets`."""

    name: str
    family: str
    summary: str
    memories: tuple[Memory, ...]
    formats: tuple[str, ...]  # number formats, and what they are used for
    modelled: tuple[str, ...]
    not_modelled: tuple[str, ...] = ()
    missing: str = ""  # what has to be installed before it can be used, and how
    units: tuple[str, ...] = ()  # in the order people read them
    macs_per_cycle: float = 0.0  # the most it can do; 0: not known
    losses: Mapping[str, str] = field(default_factory=dict)  # cause of idle cycles -> its text

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": self.family,
            "summary": self.summary,
            "memories": [
                {"name": m.name, "bytes": m.bytes, "alignment": m.alignment, "what": m.what}
                for m in self.memories
            ],
            "formats": list(self.formats),
            "modelled": list(self.modelled),
            "not_modelled": list(self.not_modelled),
            "missing": self.missing,
        }


class Target(Protocol):
    """A machine to compile for."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str: ...
    def describe(self) -> Description: ...
    def compile(
        self,
        model: Imported,
        options: CompileOptions,
        samples: Sequence[Mapping[str, np.ndarray]],
        progress: Progress,
    ) -> CompiledModel[Any]:
        """The program of a model, calibrated on samples."""
        ...

    def read(self, members: Mapping[str, Content], place: Location) -> Artifact:
        """The artifact whose files in a bundle (as bytes) these are, of any machine of the family.

        The bundle may be of unknown origin: what is wrong with it is a `TilewrightError` at `place`.
        """
        ...


@dataclass(frozen=True)
class Described:
    """A machine that can be studied by its own commands, but not compiled for."""

    description: Description
    instead: str  # what can be done with it

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def family(self) -> str:
        return self.description.family

    def describe(self) -> Description:
        return self.description

    def compile(
        self,
        model: Imported,
        options: CompileOptions,
        samples: Sequence[Mapping[str, np.ndarray]],
        progress: Progress,
    ) -> CompiledModel[Any]:
        raise self._refused()

    def read(self, members: Mapping[str, Content], place: Location) -> Artifact:
        raise self._refused()

    def _refused(self) -> TilewrightError:
        return TilewrightError(
            "TW0062", f"there is no compiler of whole models for {self.name}", hint=self.instead
        )


@dataclass(frozen=True)
class Family:
    """Machines that share a compiler.

    targets: names of the machines that come with it. variants: names that are taken besides and
    not listed, such as parts of a machine. find: a place of a function from a name or
    the path of a user's file to a `Target`. suffixes: how the files of users' machines end.
    commands: of the command line, name -> (place, one line of help).
    """

    name: str
    summary: str
    targets: tuple[str, ...]
    find: str
    suffixes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    dialects: Mapping[str, str] = field(default_factory=dict)
    passes: Mapping[str, str] = field(default_factory=dict)
    pipelines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    manifests: Mapping[str, str] = field(default_factory=dict)


Find = Callable[[str | Path], Target]
