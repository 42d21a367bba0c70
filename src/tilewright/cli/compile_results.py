"""Where the results of `tilewright compile` go: checked before the work, written after it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import Location, TilewrightError

if TYPE_CHECKING:
    from tilewright.targets.compiled_model import CompiledModel

PHASE_SUFFIXES = (".c", ".txt")  # of phases that are no MLIR


def check_destinations(model: str, output: str, folder: str | None, page: str | None) -> None:
    """Find out before the work that results could not be written."""
    named = [name for name in (output, page) if name is not None]
    for name in named:
        path = Path(name)
        if os.path.isdir(path):
            raise TilewrightError("TW0011", "cannot write the file: it is a folder", Location(name))
        if not os.path.isdir(path.parent):
            raise TilewrightError(
                "TW0011",
                f"cannot write the file: there is no folder {str(path.parent)!r}",
                Location(name),
            )
        if os.path.exists(path) and os.path.exists(model) and path.samefile(model):
            raise TilewrightError(
                "TW0011", "the result would replace the model", Location(name), "name another file"
            )
    if len({Path(name).resolve() for name in named}) < len(named):
        raise TilewrightError("TW0011", "two results would go into one file", Location(output))
    if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
        raise TilewrightError("TW0011", "phases go into a folder, this is a file", Location(folder))


def write(
    compiled: CompiledModel,
    output: str,
    folder: str | None,
    page: str | None,
    html: str | None,
    emit: str | None = None,
) -> dict[str, str]:
    """Write everything; returns what was written where."""
    from tilewright.io.file_access import write_atomically
    from tilewright.runtime.bundle import save

    files = {"bundle" if emit is None else emit: output}
    content = None if emit is None else _emitted(compiled, emit)
    if folder is not None:
        dump(compiled, Path(folder))
        files["phases"] = folder
    if page is not None and html is not None:
        write_atomically(page, html.encode())
        files["report"] = page
    if content is None:
        save(compiled, output)
    else:
        write_atomically(output, content)
    return files


def _emitted(compiled: CompiledModel[Any], kind: str) -> bytes:
    """The program in one of the forms its machine has."""
    from tilewright.targets.artifact import Emits

    artifact = compiled.artifact
    kinds = artifact.emits if isinstance(artifact, Emits) else ()
    if kind not in kinds or not isinstance(artifact, Emits):
        raise TilewrightError(
            "TW0064",
            f"there is no {kind!r} of a program for {artifact.target}",
            hint=f"it can be written as {', '.join(kinds)}" if kinds else "leave --emit away",
        )
    return artifact.emit(kind)


def _phase_file(number: int, name: str) -> str:
    """A phase's file; what is no MLIR says so by its name."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-")[:80]
    return f"{number:02}-{plain}{'' if plain.endswith(PHASE_SUFFIXES) else '.mlir'}"


def dump(compiled: CompiledModel, folder: Path) -> None:
    """The IR of every phase as files that sort in their order; all of them or none.

    Files of an earlier dump that have no successor are removed.
    """
    texts = {
        _phase_file(number, name): content
        for number, (name, content) in enumerate(compiled.phases.items())
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".phases-") as staging:
            for name, content in texts.items():
                (Path(staging) / name).write_text(content, encoding="utf-8")
            for old in folder.glob("[0-9][0-9]-*"):
                if old.name not in texts and old.suffix in (".mlir", *PHASE_SUFFIXES):
                    old.unlink()
            for name in texts:
                shutil.move(Path(staging) / name, folder / name)
    except OSError as error:
        raise TilewrightError(
            "TW0011", f"cannot write phases: {error.strerror or error}", Location(str(folder))
        ) from None
