"""tilewright targets: the machines to compile for."""

from __future__ import annotations

import click

from tilewright.cli import print_json
from tilewright.targets import registry


@click.command("targets")
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """List machines: what they are, their memories and number formats, what is modelled.

    NAMES are targets or files of your own machines; without them all that are installed.
    """
    found = [registry.find(name).describe() for name in names or registry.target_names()]
    broken = {} if names else registry.broken()
    if as_json:
        print_json({"targets": [target.to_json() for target in found], "broken": broken})
        return
    for target in found:
        click.echo(f"{target.name} ({target.family}): {target.summary}")
        if target.missing:
            click.echo(f"  missing       {target.missing}")
        for memory in target.memories:
            what = f"  {memory.what}" if memory.what else ""
            click.echo(f"  {memory.name:<13} {memory.bytes:,} bytes{what}")
        for title, rows in (
            ("formats", target.formats),
            ("modelled", target.modelled),
            ("not modelled", target.not_modelled),
        ):
            for number, row in enumerate(rows):
                click.echo(f"  {'' if number else title:<13} {row}")
    for name, reason in broken.items():
        click.echo(f"{name} cannot be loaded: {reason}", err=True)
