"""`tilewright opt`: run passes over MLIR and look at every step."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path

import click

from tilewright.cli.status_line import StatusLine
from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import write_text

SPLIT_MARKER = re.compile(r"^\s*// -----.*$", re.MULTILINE)


@dataclass
class Settings:
    """What the command line asked for."""

    passes: list
    print_before: tuple[str, ...] = ()
    print_after: tuple[str, ...] = ()
    print_before_all: bool = False
    print_after_all: bool = False
    dump_folder: Path | None = None
    verify_each: bool = True
    generic: bool = False
    locations: bool = False
    seconds: list[tuple[str, float]] = field(default_factory=list)


@click.command("opt", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("input_file", default="-", metavar="[FILE]")
@click.option(
    "-p",
    "--passes",
    "pass_text",
    metavar="TEXT",
    help='Passes to run: "pass1,pass2{option=value other=x}".',
)
@click.option(
    "--pipeline", "pipeline_name", metavar="NAME", help="Run a named pipeline (see --list-passes)."
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    help="Where the result goes; written only when everything succeeded.",
)
@click.option("--print-generic", is_flag=True, help="Print operations in generic form.")
@click.option("--print-locations", is_flag=True, help="Print where each operation came from.")
@click.option(
    "--print-ir-before",
    multiple=True,
    metavar="PASS",
    help="Show the IR before this pass, on standard error.",
)
@click.option(
    "--print-ir-after",
    multiple=True,
    metavar="PASS",
    help="Show the IR after this pass, on standard error.",
)
@click.option("--print-ir-before-all", is_flag=True, help="Show the IR before every pass.")
@click.option("--print-ir-after-all", is_flag=True, help="Show the IR after every pass.")
@click.option("--dump-phases", metavar="DIR", help="Write the IR after every pass into a folder.")
@click.option(
    "--time-passes", is_flag=True, help="Show how long each step took, on standard error."
)
@click.option(
    "--verify-each/--no-verify-each", default=True, help="Verify the IR after every pass (default)."
)
@click.option(
    "--split-input-file",
    is_flag=True,
    help="Treat parts between `// -----` lines as modules of their own.",
)
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Check the errors against `// expected-error {{text}}` comments.",
)
@click.option(
    "--list-passes", is_flag=True, help="List passes with their options, and named pipelines."
)
@click.option(
    "--print-dialect-docs",
    is_flag=True,
    help="Print the reference of dialects, kernel families and passes.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="With --list-passes: as JSON. Otherwise: report errors as JSON.",
)
def command(
    input_file: str,
    pass_text: str | None,
    pipeline_name: str | None,
    output: str,
    print_generic: bool,
    print_locations: bool,
    print_ir_before: tuple[str, ...],
    print_ir_after: tuple[str, ...],
    print_ir_before_all: bool,
    print_ir_after_all: bool,
    dump_phases: str | None,
    time_passes: bool,
    verify_each: bool,
    split_input_file: bool,
    verify_diagnostics: bool,
    list_passes: bool,
    print_dialect_docs: bool,
    as_json: bool,
) -> int:
    """Run passes over MLIR (custom or generic form) and print the result.

    FILE is read from standard input when it is - or left out.

    \b
    tilewright opt model.mlir -p "canonicalize,convert-linalg-to-npu-kernel"
    tilewright opt model.mlir --pipeline atlas --dump-phases phases -o tiles.mlir
    """
    if list_passes:
        _list_passes(as_json)
        return 0
    if print_dialect_docs:
        from tilewright.cli.documentation import render

        click.echo(render(), nl=False)
        return 0
    from tilewright.dialects.parsing import read_text
    from tilewright.transforms.pass_pipeline import named_pipeline, parse_pipeline

    if pass_text is not None and pipeline_name is not None:
        raise click.UsageError("give passes with -p or a pipeline with --pipeline, not both")
    try:
        passes = parse_pipeline(pass_text or "")
        if pipeline_name is not None:
            passes = named_pipeline(pipeline_name)
        _check_pass_names((*print_ir_before, *print_ir_after), passes)
        text = read_text(input_file)
    except TilewrightError as error:
        return _report([error], as_json)

    settings = Settings(
        passes,
        print_ir_before,
        print_ir_after,
        print_ir_before_all,
        print_ir_after_all,
        Path(dump_phases) if dump_phases else None,
        verify_each,
        print_generic,
        print_locations,
    )
    file = "<stdin>" if input_file == "-" else input_file
    parts = _split(text) if split_input_file else [(text, 1)]
    outputs, errors, warnings = _process(parts, file, settings)
    if time_passes:
        _print_times(settings.seconds)
    if verify_diagnostics:
        return _verify_diagnostics(text, file, errors, warnings)
    for warning in warnings:
        click.echo(f"warning {warning}", err=True)
    if errors:
        return _report(errors, as_json)
    write_text(output, "// -----\n".join(outputs))
    return 0


def _report(errors: list[TilewrightError], as_json: bool) -> int:
    """Print errors, for people or for programs; returns the exit code of bad input."""
    if as_json:
        from tilewright.cli import print_json

        print_json({"errors": [error.to_json() for error in errors]})
    else:
        for error in errors:
            click.echo(str(error), err=True)
    return 2


def _process(
    parts: list[tuple[str, int]], file: str, settings: Settings
) -> tuple[list[str], list[TilewrightError], list[TilewrightError]]:
    """The printed result of each part, or its error, and the warnings of all."""
    from tilewright.transforms.diagnostics import collect_warnings

    outputs: list[str] = []
    errors: list[TilewrightError] = []
    with collect_warnings() as warnings:
        for number, (text, first_line) in enumerate(parts):
            prefix = f"part{number}-" if len(parts) > 1 else ""
            try:
                outputs.append(_run(text, file, first_line, prefix, settings))
            except TilewrightError as error:
                errors.append(error)
    return outputs, errors, warnings


def _run(text: str, file: str, first_line: int, prefix: str, settings: Settings) -> str:
    """Parse, verify, run the passes, print.

    Weights written below the module stay text beside the IR and come back with the result, as far
    as it still names them; what is shown on the way leaves them out.
    """
    from tilewright.dialects.context import make_context
    from tilewright.dialects.parsing import parse_text, verify_module
    from tilewright.frontend.mlir import resource_section, split_resources, without_device
    from tilewright.transforms.pass_pipeline import Observer, option_texts, run_passes

    context = make_context()
    progress = _status_line(settings)
    observer = Observer(verify_each=settings.verify_each, seconds=settings.seconds)
    body, weights = split_resources(text, file, first_line)
    body = without_device(body)
    module = observer.timed("parse", lambda: parse_text(body, file, context, first_line))
    observer.timed("verify", lambda: verify_module(module, observer.memory))  # type: ignore[arg-type]

    def show(moment: str, pass_) -> None:
        click.echo(f"// -----// IR {moment} {option_texts(pass_)} //----- //", err=True)
        click.echo(_print(module, settings), err=True)

    def dump(index: int, name: str) -> None:
        if settings.dump_folder is not None:
            _make_folder(settings.dump_folder)
            path = settings.dump_folder / f"{prefix}{index:02}-{name}.mlir"
            write_text(str(path), _print(module, settings))

    def before(index: int, pass_, module) -> None:
        progress.say(f"{pass_.name} ({index + 1} of {len(settings.passes)})")
        if settings.print_before_all or pass_.name in settings.print_before:
            show("before", pass_)

    def after(index: int, pass_, module) -> None:
        if settings.print_after_all or pass_.name in settings.print_after:
            show("after", pass_)
        dump(index + 1, pass_.name)

    observer.before, observer.after = before, after
    dump(0, "input")
    with progress:
        run_passes(module, settings.passes, context, observer)  # type: ignore[arg-type]
    result = str(observer.timed("print", lambda: _print(module, settings)))
    return result + resource_section(result, weights)


def _status_line(settings: Settings) -> StatusLine:
    """Where the running pass is told; not between dumps of IR."""
    printing = settings.print_before or settings.print_after
    dumping = bool(printing) or settings.print_before_all or settings.print_after_all
    return StatusLine(not dumping)


def _print(module, settings: Settings) -> str:
    from tilewright.dialects.printing import print_module

    return print_module(module, settings.generic, settings.locations)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TilewrightError(
            "TW0011", f"cannot make the folder: {error.strerror}", Location(str(folder))
        ) from None


def _split(text: str) -> list[tuple[str, int]]:
    """The parts between `// -----` lines with the line each starts at; empty parts are left out."""
    parts = []
    start = 0
    for marker in [*SPLIT_MARKER.finditer(text), None]:
        end = marker.start() if marker else len(text)
        part = text[start:end]
        if any(line.strip() and not line.strip().startswith("//") for line in part.splitlines()):
            parts.append((part, text.count("\n", 0, start) + 1))
        start = marker.end() if marker else end
    return parts


def _check_pass_names(names: tuple[str, ...], passes: list) -> None:
    for name in names:
        if name not in {p.name for p in passes}:
            raise TilewrightError(
                "TW1301",
                f"the pipeline has no pass {name} to print around",
                hint=f"it runs: {', '.join(p.name for p in passes) or 'nothing'}",
            )


def _verify_diagnostics(
    text: str, file: str, errors: list[TilewrightError], warnings: list[TilewrightError]
) -> int:
    from tilewright.transforms.expected_diagnostics import check_expectations, expectations

    problems = check_expectations(file, expectations(text), errors, warnings)
    for problem in problems:
        click.echo(str(problem), err=True)
    return 2 if problems else 0


def _print_times(seconds: list[tuple[str, float]]) -> None:
    total = sum(duration for _, duration in seconds) or 1e-9
    click.echo("time by step", err=True)
    for name, duration in seconds:
        click.echo(f"  {duration:8.4f} s {100 * duration / total:5.1f} %  {name}", err=True)
    click.echo(f"  {total:8.4f} s 100.0 %  total", err=True)


def _list_passes(as_json: bool) -> None:
    """Every registered pass with its summary and options, then the pipelines."""
    from tilewright.cli import print_json
    from tilewright.cli.documentation import describe_passes
    from tilewright.extensions import PIPELINES

    passes = describe_passes()
    if as_json:
        print_json({"passes": [dataclasses.asdict(p) for p in passes], "pipelines": PIPELINES})
        return
    click.echo("passes")
    for entry in passes:
        click.echo(f"  {entry.name}\n      {entry.summary}")
        for option in entry.options:
            click.echo(
                f"      {option.name}={option.default}  {option.kind}  {option.meaning}".rstrip()
            )
    click.echo("pipelines")
    for name, steps in PIPELINES.items():
        click.echo(f"  {name}\n      {','.join(steps)}")
