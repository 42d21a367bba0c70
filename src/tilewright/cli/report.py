"""`tilewright report`: one page about a compiled model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from tilewright.cli import print_json
from tilewright.cli.bundle_files import INPUT_HELP, StepProgress, read_inputs
from tilewright.cli.entry_files import chosen, entry_option, machine_option, seed_option
from tilewright.errors import TilewrightError
from tilewright.targets.compiled_model import CompiledEntries

if TYPE_CHECKING:
    from tilewright.report.model_report import ReportData

HELP = """Write a report about the compiled model MODEL.twb (a bundle).

The model runs on the simulated machine and is verified step by step; the figures go into one
HTML page that needs nothing else: cycles per layer and unit against the bound, a timeline,
memory maps, accuracy per layer, the host plan, IR and assembly.

\b
  tilewright report block.twb -o block.html
  tilewright report block.twb -o block.html --input x=x.npy --model block.onnx
  tilewright report block.twb --json > block.json
  tilewright report policy.twb --entry denoise -o denoise.html

Exits 0 if every bit agrees with the reference or was not compared, 1 if one does not (the
page is written and names the first wrong step), 2 for bad input.
"""


@click.command("report", help=HELP)
@click.argument("bundle", metavar="MODEL.twb")
@click.option(
    "--output",
    "-o",
    "page",
    default=None,
    metavar="FILE.html",
    help="The page to write; by default OUT with .html instead of its ending.",
)
@entry_option
@click.option("--input", "-i", "inputs", multiple=True, metavar="NAME=FILE", help=INPUT_HELP)
@seed_option
@click.option("--run/--no-run", "run", default=True, help="Run the model, or show what is known.")
@click.option("--verify/--no-verify", "verified", default=True, help="Compare values, or only run.")
@click.option(
    "--model",
    "original",
    default=None,
    metavar="MODEL",
    help="The original model (FILE.onnx, FILE.pt2, package.module:factory) to compare with in "
    "float32; by default the file it was compiled from, if that has not changed.",
)
@machine_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print the figures as JSON; a page only with -o."
)
def command(
    bundle: str,
    page: str | None,
    entry: str | None,
    inputs: tuple[str, ...],
    seed: int,
    run: bool,
    verified: bool,
    original: str | None,
    machine: str | None,
    as_json: bool,
) -> int:
    from tilewright.report.measure import report_data
    from tilewright.runtime.bundle import load_any

    _check_options(run, verified, inputs, original)
    target = None if as_json and page is None else _target(bundle, page)
    program = load_any(bundle)
    model = chosen(program, entry, bundle)
    named = {text.partition("=")[0] for text in inputs}
    given = read_inputs(model, inputs, seed)
    if all("=" in text for text in inputs):  # the others are drawn from the seed anyway
        given = {name: array for name, array in given.items() if name in named}
    if run and isinstance(program, CompiledEntries):
        given = {**_state_before(program, entry, seed), **given}
    imported = None
    if original is not None:
        from tilewright.frontend.models import import_model

        imported = import_model(original)
    data = report_data(model, given, seed, run, verified, imported, machine, StepProgress)
    if target is not None:
        from tilewright.io.file_access import write_atomically
        from tilewright.report.model_page import model_page

        write_atomically(target, model_page(data).encode("utf-8"))
    if as_json:
        print_json(data.to_json())
    else:
        _say(data, target)
    return 1 if data.accuracy is not None and data.accuracy.exact is False else 0


def _state_before(program: CompiledEntries, entry: str | None, seed: int) -> dict[str, np.ndarray]:
    """The state that the entry points before this one leave, on random inputs of the seed."""
    from tilewright.runtime.entry_session import EntrySession
    from tilewright.runtime.example_inputs import example_inputs

    session = EntrySession(program)
    name = entry or next(iter(program.entries))
    for before in program.entries:
        if before == name:
            break
        if program.written_by(before):
            session[before].run(example_inputs(program.entries[before], "random", seed))
    return {port: session.state[state] for port, state in program.read_by(name).items()}


def _check_options(
    run: bool, verified: bool, inputs: tuple[str, ...], original: str | None
) -> None:
    """Options that would have no effect are a mistake."""
    if not run and inputs:
        raise TilewrightError("TW0033", "--input has no meaning with --no-run")
    if not (run and verified) and original is not None:
        option = "--no-run" if not run else "--no-verify"
        raise TilewrightError("TW0033", f"--model has no meaning with {option}")


def _target(bundle: str, page: str | None) -> str:
    """Where the page goes; a place that cannot be written is found before the model runs."""
    if page is None:
        page = str(Path(bundle).with_suffix(".html")) if Path(bundle).name else "report.html"
    path = Path(page)
    if "\0" in page or os.path.isdir(path) or not os.path.isdir(path.parent):
        what = (
            "it is a folder" if os.path.isdir(path) else f"there is no folder {str(path.parent)!r}"
        )
        raise TilewrightError("TW4002", f"cannot write {page!r}: {what}")
    if os.path.exists(path) and os.path.exists(bundle) and path.samefile(bundle):
        raise TilewrightError("TW4002", f"cannot write {page!r}: it is the bundle itself")
    return page


def _say(data: ReportData, target: str | None) -> None:
    if data.run is not None:
        ratio = f", {data.ratio:.3f} x the bound" if data.ratio is not None else ""
        click.echo(f"{data.name} on {data.target}: {data.run.cycles:,} cycles{ratio}")
    if data.accuracy is None:
        click.echo(f"values not verified: {data.not_verified}")
    elif data.accuracy.exact:
        click.echo("values exact against the quantised reference")
    else:
        click.echo(f"values NOT exact: {data.accuracy.difference}")
    click.echo(f"wrote {target}")
