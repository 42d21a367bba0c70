"""The `tilewright` command. One module per subcommand, imported only when it is used."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import json
import os
import sys
from typing import Any

import click

import tilewright
from tilewright import extensions
from tilewright.errors import TilewrightError, each_error, within_memory
from tilewright.garbage import rare_cycle_collection
from tilewright.targets import registry

# Subcommand -> (module, one line of help). The module's `command` is the click command. Machines
# add commands of their own.
COMMANDS: dict[str, tuple[str, str]] = {
    "compile": ("compile", "compile a model into a program that runs"),
    "run": ("run", "run a compiled model"),
    "verify": ("verify", "check that a compiled model computes what it should"),
    "report": ("report", "write a page about a compiled model"),
    "generate": ("generate", "let a compiled language model go on from a prompt"),
    "targets": ("targets", "list the machines to compile for"),
    "import": ("import_model", "read a model into MLIR and a file of weights"),
    "opt": ("opt", "run passes over MLIR"),
    "cache": ("cache", "show or clear the cache of generated kernels"),
    "analyze-quant": ("analyze_quant", "count precisions before and after a lowering"),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *registry.commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"tilewright.cli.{COMMANDS[cmd_name][0]}")
            return module.command
        own = registry.commands()
        return extensions.load(own[cmd_name][0]) if cmd_name in own else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the arguments; one that does not exist is told what it may have been."""
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = difflib.get_close_matches(name, known, 3, 0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "tilewright --help lists all"
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        for family in registry.families().values():
            if family.commands:
                with formatter.section(f"Commands for {family.name} machines"):
                    rows = [(name, text) for name, (_, text) in family.commands.items()]
                    formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tilewright.__version__, prog_name="tilewright")
def app() -> None:
    """Compile neural networks to NPUs; simulate, check and explain the result."""


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one clear error and exit code 2."""
    try:
        _main(arguments)
    except BrokenPipeError:
        _drop_output()
        sys.exit(141)
    except OSError as error:
        # Files have errors of their own: what is left is standard output, on a full disk or gone.
        _drop_output()
        with contextlib.suppress(OSError):
            click.echo(f"TW0011  cannot write the output: {error.strerror or error}", err=True)
        sys.exit(74)


def _main(arguments: list[str] | None) -> None:
    try:
        with within_memory("the command"), rare_cycle_collection():
            status = app.main(args=arguments, standalone_mode=False)
        if sys.stdout is not None:  # it is none where there is no standard output
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except TilewrightError as error:
        if "--json" in (sys.argv[1:] if arguments is None else arguments):
            print_json({"errors": [mistake.to_json() for mistake in each_error(error)]})
        else:
            click.echo(str(error), err=True)
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)


def _drop_output() -> None:
    """Let the interpreter's last flush go nowhere, so that it has nothing to complain about."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
