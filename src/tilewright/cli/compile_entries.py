"""`tilewright compile NAME=MODEL…`: several models as the entry points of one bundle."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import print_json
from tilewright.errors import Location, TilewrightError
from tilewright.targets.checking import ENTRY_NAME

if TYPE_CHECKING:
    from tilewright.frontend.decoder import Capacity
    from tilewright.model.options import CompileOptions
    from tilewright.targets.compiled_model import CompiledEntries

_LONGEST = 1 << 26  # bytes of a text to calibrate with


def entry_models(texts: tuple[str, ...]) -> dict[str, str] | None:
    """Models by entry point; None for a single model without a name."""
    split = [text.partition("=") for text in texts]
    named = [mark and ENTRY_NAME.fullmatch(name) for name, mark, _ in split]
    if len(texts) == 1 and not named[0]:
        return None
    if not all(named):
        raise TilewrightError(
            "TW0047", "several models need names", hint="write NAME=MODEL for each of them"
        )
    found = {name: model for name, _, model in split}
    if len(found) != len(texts):
        raise TilewrightError("TW0047", "two entry points have the same name")
    return found


def declared_state(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """State as `--state NAME=ENTRY.PORT,ENTRY.PORT` gives it."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, mark, ports = text.partition("=")
        if not mark or not name or not ports or name in found:
            raise TilewrightError(
                "TW0048", f"cannot read the state {text!r}", hint="write NAME=ENTRY.PORT,ENTRY.PORT"
            )
        found[name] = ports.split(",")
    return found


def batch_sizes(text: str | None) -> list[int] | None:
    """Sizes as `--batch 1,8,32` gives them."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise TilewrightError(
            "TW0049", f"cannot read the batch sizes {text!r}", hint="write them as 1,8,32"
        )
    return [int(part) for part in parts]


def entry_samples(texts: tuple[str, ...], entries: Iterable[str]) -> dict[str, list[str]] | None:
    """Files of samples by entry point, as `--calibrate NAME=FILE` gives them."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, mark, file = text.partition("=")
        if not mark or name not in entries:
            raise TilewrightError(
                "TW0047",
                f"the samples {text!r} are for no entry point",
                hint=f"write NAME=FILE; entry points are {', '.join(entries)}",
            )
        found.setdefault(name, []).append(file)
    return found or None


def prompt_tokens(paths: tuple[str, ...], folder: str) -> list[int] | None:
    """The tokens that a language model is calibrated on, from files in their order."""
    from tilewright.cli.generate import read_tokenizer
    from tilewright.frontend.samples import read_arrays, sample_files
    from tilewright.io.file_access import decode_text, read_bytes

    found: list[int] = []
    for path in paths:
        if path.endswith(".txt"):
            text = decode_text(read_bytes(path, _LONGEST), path)
            found += read_tokenizer(folder).encode(text).ids
            continue
        for file in sample_files(Path(path)):
            ids = read_arrays(file).get("ids")
            if ids is None or ids.dtype.kind not in "iu" or ids.size != max(ids.shape, default=0):
                raise TilewrightError(
                    "TW0042",
                    "a language model is calibrated on the array ids: whole numbers in a row",
                    Location(str(file)),
                )
            found += ids.reshape(-1).tolist()
    return found if paths else None


def compile_several(
    texts: tuple[str, ...],
    states: tuple[str, ...],
    output: str,
    target: str,
    options: CompileOptions,
    sizes: tuple[str, ...],
    as_json: bool,
    batch: list[int] | None = None,
    samples: tuple[str, ...] = (),
    goal: float | None = None,
) -> int:
    """Compile entry points, or one model for several batch sizes; write the bundle, say what it
    holds."""
    from tilewright.cli.compile_progress import CompileProgress
    from tilewright.cli.import_model import size
    from tilewright.compiling.batches import compile_batches
    from tilewright.compiling.entries import compile_entries
    from tilewright.runtime.bundle import save

    models = entry_models(texts) or {}
    state = declared_state(states)
    shapes = dict(size(given) for given in sizes)
    began = time.perf_counter()
    with CompileProgress() as progress:
        if batch is not None:
            program, _ = compile_batches(
                texts[0], batch, target=target, options=options, shapes=shapes, progress=progress
            )
        else:
            program, _ = compile_entries(
                models, None, target, entry_samples(samples, models), state, options, shapes,
                progress=progress, goal=goal,
            )  # fmt: skip
        progress("write", output)
        save(program, output)
    found = entries_document(program, output, time.perf_counter() - began)
    if as_json:
        print_json(found)
    else:
        click.echo(entries_text(found))
    return 0


def compile_folder(
    folder: str,
    capacity: Capacity,
    output: str,
    target: str,
    options: CompileOptions,
    as_json: bool,
    samples: tuple[str, ...] = (),
    goal: float | None = None,
) -> int:
    """Compile the language model of a folder, write the bundle, say what it holds."""
    from tilewright.cli.compile_progress import CompileProgress
    from tilewright.compiling.decoders import compile_decoder

    began = time.perf_counter()
    with CompileProgress() as progress:
        prompt = prompt_tokens(samples, folder)
        program = compile_decoder(folder, capacity, target, prompt, options, progress, goal)
        progress("write", output)
        program.save(output)
    found = entries_document(program.program, output, time.perf_counter() - began)
    if as_json:
        print_json(found)
    else:
        click.echo(entries_text(found))
    return 0


def entries_document(program: CompiledEntries, output: str, seconds: float) -> dict[str, Any]:
    """The summary for a script; `entries_text` is the same for a person."""
    from tilewright.cli.compile_summary import document

    return {
        "name": program.name,
        "target": program.target,
        "entries": {
            name: document(model, {}, sum(model.timing.values()))
            for name, model in program.entries.items()
        },
        "state": {
            name: {
                "readers": [f"{entry}.{port}" for entry, port in state.readers.items()],
                "writers": [f"{entry}.{port}" for entry, port in state.writers.items()],
            }
            for name, state in program.state.items()
        },
        "seconds": seconds,
        "files": {"bundle": output},
        "file_bytes": os.path.getsize(output),
    }


def entries_text(found: dict[str, Any]) -> str:
    """The summary for a person."""
    from tilewright.cli.compile_summary import text

    lines = []
    for name, one in found["entries"].items():
        lines += [f"entry point {name}", *(f"  {row}".rstrip() for row in text(one).splitlines())]
    for name, state in found["state"].items():
        lines.append(
            f"state    {name}: {', '.join(state['writers'])} -> {', '.join(state['readers'])}"
        )
    alone = sum(one["weights"]["bytes"] for one in found["entries"].values())
    lines.append(f"seconds  {found['seconds']:.2f}")
    lines.append(
        f"wrote    {found['files']['bundle']}, {found['file_bytes']:,} bytes, weights of all entry "
        f"points {alone:,} bytes"
    )
    return "\n".join(lines)
