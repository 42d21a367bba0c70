"""The `tilewright` command. One module per subcommand, imported only when it is used."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import click

import tilewright
from tilewright.errors import TilewrightError, each_error

# Subcommand -> (module, one line of help). The module's `command` is the click command.
COMMANDS: dict[str, tuple[str, str]] = {
    "compile": ("compile", "compile a model into a program that runs"),
    "run": ("run", "run a compiled model"),
    "verify": ("verify", "prove that a compiled model computes what it should"),
    "report": ("report", "write a page about a compiled model"),
    "asm": ("asm", "assemble a program into another form"),
    "disasm": ("disasm", "print a program as assembly"),
    "lint": ("lint", "find hazards in a program without running it"),
    "sim": ("sim", "run a program on the simulated machine"),
    "coral": ("coral", "run and list programs of the Coral NPU"),
    "kernels": ("kernels", "list, show, measure and check the kernel library"),
    "isa": ("isa", "look up instructions and machine profiles"),
    "import": ("import_model", "read a model into MLIR and a file of weights"),
    "opt": ("opt", "run passes over MLIR"),
    "translate": ("translate", "turn npu_isa MLIR into a program"),
    "analyze-quant": ("analyze_quant", "count precisions before and after a lowering"),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tilewright.cli.{COMMANDS[cmd_name][0]}")
        return module.command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


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
        status = app.main(args=arguments, standalone_mode=False)
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
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    sys.exit(status if isinstance(status, int) else 0)
