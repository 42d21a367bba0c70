"""Compiled models (.twb) where a program is expected: `lint`, `disasm` and `sim` take both.

A bundle holds several programs, its segments, with the machine they are for, and everything they
need to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import print_json
from tilewright.errors import Location, TilewrightError
from tilewright.targets.compiled_model import CompiledEntries

if TYPE_CHECKING:
    from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
    from tilewright.targets.atlas.lint import Report
    from tilewright.targets.compiled_model import CompiledModel

SUFFIX = ".twb"
ENTRY = click.option(
    "--entry", metavar="NAME", help="Which entry point of a compiled model that has several."
)


def is_bundle(path: str | None) -> bool:
    """Whether a file is a compiled model by its name."""
    return path is not None and path.lower().endswith(SUFFIX)


def load_bundle(
    path: str, given: dict[str, Any], entry: str | None = None
) -> CompiledModel[AtlasArtifact]:
    """The compiled model; options that are about programs alone are refused by name."""
    from tilewright.cli.entry_files import chosen

    return chosen(_load(path, given), entry, path)


def _load(path: str, given: dict[str, Any]) -> CompiledModel[AtlasArtifact] | CompiledEntries:
    from tilewright.runtime.bundle import load_any

    wrong = next((option for option, value in given.items() if value), None)
    if wrong is not None:
        raise TilewrightError(
            "TW0046",
            f"{wrong} is for programs; a compiled model brings its own machine, code and weights",
            Location(path),
            "leave it out, or take the code out first: tilewright disasm MODEL.twb -o model.S",
        )
    model = load_any(path)
    first = next(iter(model.entries.values())) if isinstance(model, CompiledEntries) else model
    if first.artifact.family != "atlas":
        raise TilewrightError(
            "TW0064",
            f"this model is for {first.artifact.target}, no machine of the family atlas",
            Location(path),
            "tilewright run, verify and report take models of every machine",
        )
    return model


def lint_bundle(
    path: str, limit: int, given: dict[str, Any], entry: str | None = None
) -> dict[str, list[Report]]:
    """What lint finds in every segment, by entry point: all of them, if none is named; "" for the
    only one of a model without names."""
    from tilewright.cli.entry_files import chosen
    from tilewright.targets.atlas.model.lint_model import lint_model

    found = _load(path, given)
    if isinstance(found, CompiledEntries) and entry is None:
        return {name: lint_model(one.artifact, limit) for name, one in found.entries.items()}
    return {"": lint_model(chosen(found, entry, path).artifact, limit)}


def disassemble_bundle(
    path: str, output: str | None, given: dict[str, Any], entry: str | None = None
) -> str | None:
    """The code of all segments as assembly text; one segment alone assembles to the same code."""
    from tilewright.io.file_access import write_atomically
    from tilewright.targets.atlas.model.listing import listing

    text = listing(load_bundle(path, given, entry).artifact)
    if output is None or output == "-":
        return text
    write_atomically(output, text.encode())
    return None


def simulate_bundle(
    path: str,
    machine: str | None,
    seed: int,
    max_cycles: int | None,
    stats: bool,
    hottest: int,
    as_json: bool,
    given: dict[str, Any],
    entry: str | None = None,
) -> int:
    """Run a model on inputs drawn from a seed and show what the units did."""
    from rich.console import Console

    from tilewright.cli.bundle_files import failed
    from tilewright.runtime.example_inputs import example_inputs
    from tilewright.runtime.session import Session
    from tilewright.targets.atlas.statistics import print_statistics, statistics_json

    model = load_bundle(path, given, entry)
    session = Session(model, machine, max_cycles=max_cycles)
    try:
        session.run(example_inputs(model, "random", seed))
    except TilewrightError as error:
        return failed(error, as_json)
    device: Any = session.device()
    runs = device.runs if session.cycles else []
    if as_json:
        print_json(
            {
                "model": model.name,
                "profile": model.artifact.target,
                "inputs": f"random, seed {seed}",
                "cycles": session.cycles,
                "segments": [
                    {
                        "segment": run.segment,
                        "start": run.start,
                        "end": run.end,
                        **statistics_json(
                            run.statistics, model.artifact.segments[run.segment], hottest
                        ),
                    }
                    for run in runs
                ],
            }
        )
        return 0
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(
        f"{model.name} ran on random inputs of seed {seed}: {session.cycles:,} cycles, "
        f"{session.statistics.instructions:,} instructions in {_count(len(runs), 'segment')} "
        f"({model.artifact.target}); `tilewright run {path}` takes inputs and shows every step",
        soft_wrap=True,
    )
    console.print()
    if stats and model.artifact.segments and runs:
        longest = max(runs, key=lambda run: run.end - run.start)
        # Instructions are counted segment by segment: the tables are of the longest.
        where = f"segment {longest.segment}" if len(runs) > 1 else ""
        if where:
            console.print(f"units in {where}, the longest:\n")
        print_statistics(
            console, longest.statistics, model.artifact.segments[longest.segment], hottest
        )
    return 0


def print_reports(
    found: Mapping[str, Sequence[Report]], path: str, show: Any, as_json: bool
) -> int:
    """All reports of a bundle, one behind the other; the exit code."""
    if as_json:
        tables = {name: [one.to_json() for one in reports] for name, reports in found.items()}
        kind = {"segments": tables[""]} if "" in tables else {"entries": tables}
        print_json({"model": path, **kind})
    else:
        for name, reports in found.items():
            place = f"{path}, entry point {name}" if name else path
            for number, report in enumerate(reports):
                click.echo(f"{place}, segment {number}:")
                show(report)
            if not reports:
                click.echo(f"{place}: clean; the host computes all of it")
    return 0 if all(report.clean for reports in found.values() for report in reports) else 1


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
