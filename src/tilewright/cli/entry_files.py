"""What commands about bundles share: options, entry points, and inputs of several by `entry.name`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from tilewright.cli.bundle_files import given_inputs
from tilewright.errors import Location, TilewrightError
from tilewright.runtime.bundle import entry_of
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel

entry_option = click.option(
    "--entry",
    metavar="NAME",
    default=None,
    help="Which entry point, of a bundle that has several.",
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Random numbers for the inputs that are not given.",
)
machine_option = click.option(
    "--machine",
    metavar="NAME",
    default=None,
    help="Which simulator; native unless it is not built.",
)


def chosen(
    program: CompiledModel[Any] | CompiledEntries, entry: str | None, bundle: str
) -> CompiledModel[Any]:
    """The model that a command is about."""
    place = Location(bundle)
    if isinstance(program, CompiledEntries):
        try:
            return entry_of(program, entry, place)
        except TilewrightError as error:
            if entry is None:
                error.hint = f"choose one with --entry: {', '.join(program.entries)}"
            raise
    if entry is not None:
        raise TilewrightError(
            "TW3150", f"{program.name} has one entry point, without a name", place, "omit --entry"
        )
    return program


def inputs_by_entry(
    program: CompiledEntries, texts: Sequence[str], seed: int
) -> dict[str, dict[str, np.ndarray]]:
    """Arrays for inputs that are given as `entry.name=FILE`."""
    split: dict[str, list[str]] = {}
    for text in texts:
        entry, mark, rest = text.partition(".")
        if not mark or entry not in program.entries:
            raise TilewrightError(
                "TW0031",
                f"the input {text!r} names no entry point",
                hint=f"write ENTRY.NAME=FILE; entry points are {', '.join(program.entries)}",
            )
        split.setdefault(entry, []).append(rest)
    return {
        entry: given_inputs(program.entries[entry], rows, seed) for entry, rows in split.items()
    }
