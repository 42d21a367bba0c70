"""`tilewright disasm`: a program of any form as assembly."""

from __future__ import annotations

import json

import click

from tilewright.cli import print_json
from tilewright.errors import TilewrightError, each_error
from tilewright.io.file_access import write_atomically
from tilewright.targets.atlas.cli.bundle_programs import ENTRY, disassemble_bundle, is_bundle
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.files import FORMS, form_of, profile_for, read_program, write_program
from tilewright.targets.atlas.program_json import print_json as program_json


@click.command("disasm")
@click.argument("program", metavar="IN")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="File to write instead of printing; its suffix names the form.",
)
@click.option("--profile", help="Machine profile or profile file (default: atlas-v1).")
@click.option(
    "--from", "source_form", type=click.Choice(FORMS), help="Form of IN, whatever its name."
)
@click.option("--addresses", is_flag=True, help="Add each instruction's byte address as a comment.")
@click.option("--words", is_flag=True, help="Add each instruction word as a comment.")
@click.option("--abi", is_flag=True, help="Name scalar registers a0, sp, … instead of x10, x2.")
@ENTRY
@click.option("--json", "as_json", is_flag=True, help="Print the program as JSON.")
def command(
    program: str,
    output: str | None,
    profile: str | None,
    source_form: str | None,
    addresses: bool,
    words: bool,
    abi: bool,
    entry: str | None,
    as_json: bool,
) -> int:
    """Print IN (.bin, .hex, .txt, .json, .S or a compiled model, .twb) as assembly.

    What it prints assembles back to the same program; a compiled model has several, its segments.
    """
    if is_bundle(program):
        given = {
            "--profile": profile, "--from": source_form, "--addresses": addresses,
            "--words": words, "--abi": abi, "--json": as_json,
        }  # fmt: skip
        text = disassemble_bundle(program, output, given, entry)
        if text is not None:
            click.echo(text, nl=False)
        return 0
    if entry is not None:
        raise click.UsageError("--entry is for compiled models")
    try:
        machine = profile_for(program, profile)
        read = read_program(program, machine, source_form)
        if output is not None and output != "-":
            if (form_of(output) or "assembly") == "assembly":
                write_atomically(output, disassemble(read, addresses, words, abi).encode())
            else:
                write_program(read, output, machine)
        elif as_json:
            print_json(json.loads(program_json(read, machine)))
        else:
            click.echo(disassemble(read, addresses, words, abi), nl=False)
    except TilewrightError as error:
        if not as_json:
            raise
        print_json({"errors": [mistake.to_json() for mistake in each_error(error)]})
        return 2
    return 0
