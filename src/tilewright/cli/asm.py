"""`tilewright asm`: a program from one form into another."""

from __future__ import annotations

import sys

import click

from tilewright.cli import print_json
from tilewright.errors import TilewrightError, each_error
from tilewright.targets.atlas.files import FORMS, form_of, profile_for, read_program, write_program
from tilewright.targets.atlas.wrapping import wrapping_warnings

_EPILOG = """\b
Forms by suffix: .S assembly, .txt key=value text, .hex and .bin words, .json everything.
Examples:
  tilewright asm kernel.S -o kernel.bin
  tilewright asm old.txt -o new.S --profile atlas-v0
"""


@click.command("asm", epilog=_EPILOG)
@click.argument("program", metavar="IN")
@click.option("-o", "--output", metavar="OUT", help="File to write; without it, only check IN.")
@click.option("--profile", help="Machine profile or profile file (default: atlas-v1).")
@click.option(
    "--from", "source_form", type=click.Choice(FORMS), help="Form of IN, whatever its name."
)
@click.option(
    "--to", "target_form", type=click.Choice(FORMS), help="Form of OUT, whatever its name."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the mistakes, as JSON.")
def command(
    program: str,
    output: str | None,
    profile: str | None,
    source_form: str | None,
    target_form: str | None,
    as_json: bool,
) -> int:
    """Assemble IN and write it to OUT in the form OUT's suffix names.

    IN may be in any form too, "-" is standard input or output.
    """
    try:
        machine = profile_for(program, profile)
        read = read_program(program, machine, source_form)
        for warning in wrapping_warnings(read):
            click.echo(f"warning {warning}", err=True)
        written = write_program(read, output, machine, target_form) if output else 0
    except TilewrightError as error:
        if not as_json:
            raise
        print_json({"errors": [mistake.to_json() for mistake in each_error(error)]})
        return 2
    summary = {
        "input": program,
        "output": output,
        "form": (target_form or form_of(output)) if output else None,
        "profile": machine.name,
        "instructions": len(read),
        "labels": len(read.labels),
        "data_bytes": sum(len(block.bytes) for block in read.data),
        "bytes_written": written,
    }
    if as_json and output != "-":
        print_json(summary)
    elif output is None:
        click.echo(f"{program}: {len(read)} instructions, no mistakes")
    elif sys.stderr.isatty() and output != "-":
        click.echo(f"{output}: {len(read)} instructions, {written} bytes", err=True)
    return 0
