"""`tilewright isa`: the instruction set and the machine profiles, looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilewright.cli import print_json
from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import write_atomically
from tilewright.targets.atlas.assembly.pseudo import PSEUDO, SPECIAL
from tilewright.targets.atlas.isa import OPCODES, Opcode
from tilewright.targets.atlas.isa_pages import entry_text, pages, timing_text
from tilewright.targets.atlas.isa_reference import (
    GROUPS,
    compare,
    describe,
    encoding_picture,
    find_rows,
    group_of,
    parameters,
)
from tilewright.targets.atlas.profile import Profile, load_profile, profile_names


@click.command("isa")
@click.argument("mnemonics", nargs=-1, metavar="[MNEMONIC]…")
@click.option(
    "--profile", default="atlas-v1", show_default=True, help="Machine profile or profile file."
)
@click.option(
    "--profiles",
    "list_profiles",
    is_flag=True,
    help="List the built-in profiles, or the parameters of one given with --profile.",
)
@click.option(
    "--compare", "pair", nargs=2, metavar="A B", help="Show what differs between two profiles."
)
@click.option("--markdown", is_flag=True, help="Print as Markdown: entries, or the whole manual.")
@click.option("--write-docs", metavar="DIR", help="Write the pages of the manual into a folder.")
@click.option(
    "--write-editor", metavar="DIR", help="Write a VS Code extension that colours .S files."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    mnemonics: tuple[str, ...],
    profile: str,
    list_profiles: bool,
    pair: tuple[str, str] | None,
    markdown: bool,
    write_docs: str | None,
    write_editor: str | None,
    as_json: bool,
) -> None:
    """Look up instructions, or list them all by unit.

    MNEMONIC is a name such as vadd.bf16, the beginning of some (vmat), or a pseudo
    instruction.
    """
    if write_docs or write_editor:
        if write_docs:
            _write_folder(write_docs, pages())
        if write_editor:
            from tilewright.targets.atlas.editor import extension

            _write_folder(write_editor, extension())
    elif pair:
        _compare(load_profile(pair[0]), load_profile(pair[1]), as_json)
    elif list_profiles:
        chosen = context.get_parameter_source("profile")
        explicit = chosen is click.core.ParameterSource.COMMANDLINE
        _profiles(load_profile(profile) if explicit else None, as_json)
    elif markdown:
        known = [load_profile(name) for name in profile_names()]
        chosen = [entry_text(row, known) for row in find_rows(mnemonics)]
        click.echo("\n\n".join(chosen) if chosen else "\n".join(pages().values()))
    elif mnemonics:
        _entries(find_rows(mnemonics), mnemonics, load_profile(profile), as_json)
    else:
        _list(load_profile(profile), as_json)


def _write_folder(folder: str, files: dict[str, str]) -> None:
    root = Path(folder)
    for name, content in files.items():
        try:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TilewrightError(
                "TW0011", f"cannot make the folder: {error.strerror}", Location(folder)
            ) from None
        write_atomically(str(root / name), content.encode())
    click.echo(f"{folder}: {len(files)} files")


def _columns(rows: list[list[str]], indent: str = "  ") -> None:
    """Print rows with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo((indent + line).rstrip())


def _list(profile: Profile, as_json: bool) -> None:
    if as_json:
        entries = [describe(row, profile) for row in OPCODES]
        print_json({"profile": profile.name, "instructions": entries})
        return
    click.echo(f"{profile.name}: {profile.description}")
    for group, title in GROUPS.items():
        rows = [row for row in OPCODES if group_of(row) == group]
        click.echo(f"\n{title}")
        _columns([[row.syntax, timing_text(row, profile), row.meaning] for row in rows])
    click.echo("\nPseudo instructions")
    shown = [[p.syntax, p.expansion, p.meaning] for p in PSEUDO.values()]
    _columns(shown + [[syntax, "", meaning] for syntax, meaning in SPECIAL.values()])


def _entries(rows: list[Opcode], names: tuple[str, ...], profile: Profile, as_json: bool) -> None:
    if as_json:
        entries = [describe(row, profile) for row in rows]
        print_json({"profile": profile.name, "instructions": entries})
        return
    for name in names:
        if name.lower() in PSEUDO:
            pseudo = PSEUDO[name.lower()]
            click.echo(f"{pseudo.syntax} is {pseudo.expansion}: {pseudo.meaning}\n")
        elif name.lower() in SPECIAL:
            click.echo(": ".join(SPECIAL[name.lower()]) + "\n")
    for place, row in enumerate(rows):
        if place:
            click.echo()
        _entry(row, profile)


def _entry(row: Opcode, profile: Profile) -> None:
    entry = describe(row, profile)
    click.echo(f"{row.syntax}\n  {row.meaning}")
    facts: list[list[str]] = [[profile.name, timing_text(row, profile)]]
    for operand in entry["operands"]:
        text = f"{operand['kind']}, {operand['minimum']} to {operand['maximum']}"
        if operand.get("multiple_of"):
            text += f", multiples of {operand['multiple_of']}"
        if operand.get("registers", 1) > 1:
            text += f", {operand['registers']} registers"
        use = {"r": "read", "w": "written", "rw": "read and written"}.get(operand["access"], "")
        facts.append(
            [operand["key"], f"{text}{', ' + use if use else ''}, field {operand['field']}"]
        )
    sample = entry["example"]
    facts += [
        ["word", f"{encoding_picture(row)}  format {row.format}"],
        ["example", f"{sample['assembly']}  =  {sample['word']}"],
        ["text form", sample["text"]],
    ]
    _columns(facts)


def _profiles(profile: Profile | None, as_json: bool) -> None:
    if profile is not None:
        table = parameters(profile)
        if as_json:
            print_json(table)
        else:
            _columns([[key, _shown(value)] for key, value in table.items()], "")
        return
    known = [load_profile(name) for name in profile_names()]
    if as_json:
        print_json([{"name": p.name, "description": p.description} for p in known])
    else:
        _columns([[p.name, p.description] for p in known], "")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare(first: Profile, second: Profile, as_json: bool) -> None:
    result = compare(first, second)
    if as_json:
        print_json(result)
        return
    if not result["parameters"]:
        click.echo(f"{first.name} and {second.name} do not differ")
        return
    head = ["", first.name, second.name]
    rows = [[key, *map(_shown, sides)] for key, sides in result["parameters"].items()]
    _columns([head, *rows], "")
    if result["instructions"]:
        click.echo()
        _columns([[key, *sides] for key, sides in result["instructions"].items()], "")
