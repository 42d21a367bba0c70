"""Files and progress of the commands that run bundles: `run`, `verify`, `report`."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.cli import print_json
from tilewright.cli.status_line import StatusLine
from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import write_atomically
from tilewright.io.tensor_blob import tensor_pieces
from tilewright.io.tensor_files import Tensor, read_tensor
from tilewright.runtime.example_inputs import KINDS, example_input, example_inputs, meanings
from tilewright.runtime.values import as_port, describe
from tilewright.targets.artifact import Port
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.port_types import PORT_TYPES

INPUT_HELP = (
    "An input: NAME=FILE.npy, NAME=FILE.safetensors#TENSOR, NAME=FILE of raw bytes, NAME=zeros or "
    "NAME=random; or FILE.safetensors with a tensor for every input. Repeatable."
)


# --- inputs -----------------------------------------------------------------------------


def read_inputs(
    model: CompiledModel[Any], texts: Sequence[str], seed: int | None
) -> dict[str, np.ndarray]:
    """Arrays for all inputs: as the command line gives them; with a seed, random for the others."""
    given = given_inputs(model, texts, seed or 0)
    if seed is not None:
        return {**example_inputs(model, "random", seed), **given}
    missing = [n for n in model.inputs if n not in given and n not in model.state]
    if missing:
        port = model.ports[missing[0]]
        raise TilewrightError(
            "TW3121",
            f"the input {describe(port)} is missing",
            hint=f"give it: --input {port.name}=FILE.npy, or --seed 0 for random numbers",
        )
    return given


def given_inputs(
    model: CompiledModel[Any], texts: Sequence[str], seed: int
) -> dict[str, np.ndarray]:
    """Arrays by name for the inputs that the command line gives."""
    given: dict[str, np.ndarray] = {}
    for text in texts:
        for name, array in _input(model, text, seed):
            if name in given:
                raise TilewrightError("TW0031", f"the input {name} is given twice")
            given[name] = array
    return given


def _input(model: CompiledModel[Any], text: str, seed: int) -> list[tuple[str, np.ndarray]]:
    name, mark, source = text.partition("=")
    if not mark and text.endswith(".safetensors"):
        wanted = [n for n in model.inputs if n not in model.state]
        return [(n, _read(model.ports[n], f"{text}#{n}")) for n in wanted]
    if not mark or not name or not source:
        raise TilewrightError(
            "TW0031", f"cannot read the input {text!r}", hint="write --input NAME=FILE.npy"
        )
    if name not in model.inputs:
        shown = ", ".join(describe(model.ports[n]) for n in model.inputs) or "none"
        raise TilewrightError(
            "TW3120", f"{model.name} has no input {name!r}", hint=f"inputs are {shown}"
        )
    port = model.ports[name]
    if source in KINDS and not os.path.exists(source):
        number, meaning = model.inputs.index(name), meanings(model).get(name)
        return [(name, example_input(port, source, seed, number, meaning))]
    if source.endswith(".safetensors"):
        source = f"{source}#{name}"
    return [(name, _read(port, source))]


def _read(port: Port, source: str) -> np.ndarray:
    """The array of a file as the port takes it."""
    tensor = read_tensor(source)
    array = tensor.array
    wanted = PORT_TYPES[port.dtype]
    if not tensor.typed:
        array = _from_raw(port, tensor)
    elif port.dtype == "i1" and array.dtype == np.uint8 and array.max(initial=0) <= 1:
        array = array.view(wanted)  # a file of booleans is read as bytes
    try:
        return as_port(port, array)
    except TilewrightError as error:
        raise error.at(Location(source.partition("#")[0])) from None


def _from_raw(port: Port, tensor: Tensor) -> np.ndarray:
    wanted = PORT_TYPES[port.dtype]
    count = int(np.prod(port.shape, dtype=np.int64)) * wanted.itemsize
    if tensor.size != count:
        raise TilewrightError(
            "TW3122",
            f"the input {describe(port)} takes {count:,} raw bytes, the file has {tensor.size:,}",
            Location(tensor.name),
        )
    return np.frombuffer(tensor.raw(), np.uint8).view(wanted).reshape(port.shape)


# --- outputs ----------------------------------------------------------------------------


def plan_outputs(model: CompiledModel[Any], texts: Sequence[str]) -> list[tuple[str | None, Path]]:
    """(output or None for all of them, file) for every --output; mistakes are found before a run."""
    plan: list[tuple[str | None, Path]] = []
    for text in texts:
        name, mark, target = text.partition("=")
        if mark and name in model.outputs:
            path = Path(target)
            if path.suffix not in (".npy", ".safetensors"):
                raise TilewrightError(
                    "TW0032", f"cannot write {target!r}", hint="name a .npy or .safetensors file"
                )
            plan.append((name, path))
        elif mark and not os.path.exists(text):
            raise TilewrightError(
                "TW0032",
                f"{model.name} has no output {name!r}",
                hint=f"outputs are {', '.join(model.outputs)}",
            )
        elif text.endswith(".safetensors"):
            plan.append((None, Path(text)))
        else:
            folder = Path(text)
            if os.path.exists(folder) and not os.path.isdir(folder):
                raise TilewrightError(
                    "TW0032",
                    f"{text!r} is not a folder",
                    hint="write NAME=FILE.npy for one output, or name a folder for all",
                )
            for output in model.outputs:
                plan.append((output, folder / f"{file_name(output)}.npy"))
    for _, path in plan:
        if not os.path.isdir(path.parent) and os.path.exists(path.parent):
            raise TilewrightError("TW0032", f"{str(path.parent)!r} is not a folder")
    return plan


def file_name(name: str) -> str:
    """A name that is safe as a file's: no folders, nothing special."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")[:120] or "output"


def write_outputs(
    plan: Sequence[tuple[str | None, Path]], results: dict[str, np.ndarray]
) -> list[str]:
    """Write the files of a plan; returns their names."""
    for name, path in plan:
        path.parent.mkdir(parents=True, exist_ok=True)
        chosen = results if name is None else {name: results[name]}
        if path.suffix == ".safetensors":
            pieces = tensor_pieces(chosen, str(path))
            raw = b"".join(p if isinstance(p, bytes) else p.tobytes() for p in pieces)
        else:
            buffer = io.BytesIO()
            np.save(buffer, results[name or ""], allow_pickle=False)
            raw = buffer.getvalue()
        write_atomically(str(path), raw)
    return [str(path) for _, path in plan]


# --- programs that go wrong -------------------------------------------------------------

# The program faulted, did not end, or did not do its steps: its fault, not that of the input.
_PROGRAM_FAULTS = ("TW3130", "TW3131", "TW3132")


def failed(error: TilewrightError, as_json: bool) -> int:
    """Exit code 1 for a program that went wrong, told as other errors are; the rest is raised."""
    if error.code not in _PROGRAM_FAULTS:
        raise error
    if as_json:
        print_json({"ok": False, "errors": [error.to_json()]})
    else:
        click.echo(str(error), err=True)
    return 1


# --- progress ---------------------------------------------------------------------------


class StepProgress(StatusLine):
    """A line on the terminal for runs that take longer than a moment.

    with StepProgress("running") as progress: Session(model, progress=progress)
    """

    def __init__(self, verb: str) -> None:
        super().__init__(after=1.0)
        self._verb = verb

    def __call__(self, done: int, steps: int, tick: int) -> None:
        where = f", tick {tick:,}" if tick else " of the reference"
        self.say(f"{self._verb}: step {done} of {steps}{where}")
