"""`tilewright lint`: hazards of a program, found without running it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import click

from tilewright.cli import print_json
from tilewright.errors import Location, TilewrightError, each_error
from tilewright.io.file_access import decode_text, read_bytes, write_atomically
from tilewright.targets.atlas.cli.bundle_programs import (
    ENTRY,
    is_bundle,
    lint_bundle,
    print_reports,
)
from tilewright.targets.atlas.files import (
    FORMS,
    MAX_FILE,
    form_of,
    parse_program,
    profile_for,
    sniff,
    write_program,
)
from tilewright.targets.atlas.lint import CODES, STEP_LIMIT, Finding, Report, lint
from tilewright.targets.atlas.lint.repair import Fixed, fix
from tilewright.targets.atlas.lint.source import fixed_source

_EPILOG = """\b
Exit code 0: nothing worse than a note; 1: errors or warnings; 2: bad input.
"may" marks what a path or an unknown value decides.
Examples:
  tilewright lint kernel.S
  tilewright lint kernel.S --fix -o fixed.S
  tilewright lint --explain TW2005
"""


@click.command("lint", epilog=_EPILOG)
@click.argument("program", required=False)
@click.option("--profile", help="Machine profile or profile file (default: atlas-v1).")
@click.option("--fix", "repair", is_flag=True, help="Insert the smallest delays and waits.")
@click.option("-o", "--output", metavar="OUT", help="Where --fix writes the repaired program.")
@click.option("--from", "form", type=click.Choice(FORMS), help="Form of PROGRAM.")
@click.option("--max", "most", type=click.IntRange(min=0), default=100, show_default=True,
              help="Findings to print; 0 prints all.")  # fmt: skip
@click.option("--notes/--no-notes", default=True, show_default=True, help="Print notes too.")
@click.option("--limit", type=click.IntRange(min=1), default=STEP_LIMIT, show_default=True,
              help="Instructions to follow one by one before loops are summarised.")  # fmt: skip
@ENTRY
@click.option("--explain", metavar="CODE", help="Say what a code such as TW2005 means.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    program: str | None,
    profile: str | None,
    repair: bool,
    output: str | None,
    form: str | None,
    most: int,
    notes: bool,
    limit: int,
    entry: str | None,
    explain: str | None,
    as_json: bool,
) -> int:
    """Find hazards in PROGRAM (.S, .txt, .hex, .bin, .json or .twb) without running it.

    With --fix, writes OUT with the waiting PROGRAM lacks, and reports what is left. Of a compiled
    model all entry points are checked, or the one that is named.
    """
    if explain is not None:
        return _explain(explain, as_json)
    if program is None:
        raise click.UsageError("name a program to check")
    if repair and output is None:
        raise click.UsageError("--fix needs -o OUT")
    if output is not None and not repair:
        raise click.UsageError("-o needs --fix")
    if is_bundle(program):
        given = {"--profile": profile, "--fix": repair, "--from": form}
        reports = lint_bundle(program, limit, given, entry)
        return print_reports(reports, program, lambda r: _print(r, most, notes, False), as_json)
    if entry is not None:
        raise click.UsageError("--entry is for compiled models")
    try:
        kept = True
        machine = profile_for(program, profile)
        content = read_bytes(program, MAX_FILE)
        read = parse_program(content, program, machine, form)
        if not repair:
            with _progress() as progress:
                report = lint(read, machine, limit, progress=progress)
            done = None
        else:
            assert output is not None
            done = fix(read, machine, limit)
            kept = _write(done, content, program, form, output, machine)
            report = done.after
    except TilewrightError as error:
        if not as_json:
            raise
        print_json({"errors": [mistake.to_json() for mistake in each_error(error)]})
        return 2
    if as_json:
        result = report.to_json()
        if done is not None:
            result["fix"] = _fix_summary(done, output, kept)
        if output != "-":
            print_json(result)
    else:
        stream = output == "-"  # the program itself goes to standard output
        _print(report, most, notes, stream)
        if done is not None:
            click.echo(_fix_text(done, str(output), kept), err=stream)
    return 0 if report.clean else 1


def _explain(code: str, as_json: bool) -> int:
    row = CODES.get(code.upper())
    if row is None:
        raise TilewrightError(
            "TW0060", f"there is no finding {code!r}", hint=f"codes are {', '.join(CODES)}"
        )
    if as_json:
        print_json({name: getattr(row, name) for name in row.__slots__})
    else:
        click.echo(f"{row.code} {row.severity}: {row.title}\n  {row.meaning}")
        click.echo(f"  the machine {f'faults: {row.fault}' if row.fault else 'does not notice'}")
        if row.fix:
            click.echo("  --fix repairs it")
    return 0


def _write(
    done: Fixed, content: bytes, source: str, form: str | None, output: str, machine
) -> bool:
    """Write the repaired program; whether the author's lines were kept."""
    target = form_of(output) or (form or form_of(source) or "assembly")
    if target == "assembly" and _is_assembly(content, source, form):
        text, kept = fixed_source(
            decode_text(content, source), done.before.program, done, machine
        )  # fmt: skip
        if output == "-":
            sys.stdout.write(text)
        else:
            write_atomically(output, text.encode())
        return kept
    write_program(done.program, output, machine, target)
    return True


def _is_assembly(content: bytes, source: str, form: str | None) -> bool:
    chosen = form or form_of(source)
    if chosen in ("assembly", "text", None) and form is None and 0 not in content:
        chosen = sniff(decode_text(content, source), chosen)
    return chosen == "assembly"


@contextmanager
def _progress():
    """A line on a terminal that says how far a long analysis is."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("checking") as status:
        show: Callable[[int], None] = lambda steps: status.update(f"checked {steps:,} steps")  # noqa: E731
        yield show


# --- what people read -------------------------------------------------------------------


def _print(report: Report, most: int, notes: bool, to_error: bool) -> None:
    shown = [f for f in report.findings if notes or f.severity != "note"]
    cut = shown[:most] if most else shown
    place = None
    for finding in cut:
        where = _place(report, finding)
        if where != place:
            click.echo(where, err=to_error)
            place = where
        may = "may: " if finding.may else ""
        style = {"error": "red", "warning": "yellow"}.get(finding.severity, "cyan")
        label = click.style(finding.severity, fg=style)
        click.echo(f"  {label} {finding.code} {may}{finding.message}", err=to_error)
        if finding.hint:
            click.echo(f"        hint: {finding.hint}", err=to_error)
    if len(shown) > len(cut):
        click.echo(f"... {len(shown) - len(cut)} more; --max 0 prints all", err=to_error)
    click.echo(_summary(report), err=to_error)


def _place(report: Report, finding: Finding) -> str:
    if finding.line:
        return str(Location(report.program.source, finding.line))
    return f"{report.program.source}: instruction {finding.index}"


def _summary(report: Report) -> str:
    counts = []
    for severity in ("error", "warning", "note"):
        number = sum(f.severity == severity for f in report.findings)
        if number:
            counts.append(_number(number, severity))
    name = Path(report.program.source).name
    text = ", ".join(counts) if counts else "clean"
    if counts and report.clean:
        text = f"clean ({text})"
    instructions = _number(len(report.program), "instruction")
    how = "" if report.exact else ", some paths or values unknown"
    return f"{name}: {text}; {instructions} for {report.profile}{how}"


def _number(count: object, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _fix_summary(done: Fixed, output: str | None, kept: bool) -> dict[str, object]:
    inserted = len(done.program) - len(done.before.program)
    return {
        "output": output,
        "inserted_instructions": inserted,
        "lengthened_delays": sum(1 for ticks in done.edits.longer.values() if ticks),
        "minimal": done.minimal,
        "kept_source_lines": kept,
        "computed_jumps": done.frozen,
        "findings_before": sum(f.severity != "note" for f in done.before.findings),
        "findings_left": sum(f.severity != "note" for f in done.after.findings),
    }


def _fix_text(done: Fixed, output: str, kept: bool) -> str:
    facts = _fix_summary(done, output, kept)
    parts = [f"{output}: {_number(facts['inserted_instructions'], 'instruction')} inserted"]
    if facts["lengthened_delays"]:
        parts.append(f"{_number(facts['lengthened_delays'], 'delay')} lengthened")
    before = _number(facts["findings_before"], "finding")
    parts.append(f"{before} before, {facts['findings_left']} left")
    text = ", ".join(parts)
    if facts["findings_left"]:
        text += "\n        what is left cannot be cured by waiting"
        if done.frozen:
            text += ": the program jumps by jalr, and inserting code would move its targets"
    if not kept:
        text += "\n        the source could not be edited in place; it was written anew"
    if not done.minimal:
        text += "\n        not every tick was shown to be needed"
    return text
