"""`tilewright translate`: npu_isa MLIR to a program."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.io.file_access import write_text


@click.command("translate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("input_file", default="-", metavar="[FILE]")
@click.option(
    "--mlir-to-npu-text-isa",
    "to_text",
    is_flag=True,
    help="Print one instruction per line, `mnemonic key=value, key=value`.",
)
@click.option(
    "--memory-map",
    is_flag=True,
    help="Print the buffers of the program as JSON instead: name, address, size, layout, role.",
)
@click.option("--function", metavar="NAME", help="Translate only this function.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where the result goes.")
def command(
    input_file: str, to_text: bool, memory_map: bool, function: str | None, output: str
) -> int:
    """Turn instructions in MLIR into a program the simulator loads.

    \b
    tilewright translate --mlir-to-npu-text-isa program.mlir -o program.txt
    """
    if to_text == memory_map:
        raise click.UsageError("say what to translate to: --mlir-to-npu-text-isa or --memory-map")
    from tilewright.frontend.mlir import read_model
    from tilewright.targets.atlas.passes.text_isa import memory_map_json, text_program

    module = read_model(Path(input_file) if input_file != "-" else "-").module
    text = memory_map_json(module, function) if memory_map else text_program(module, function)
    write_text(output, text)
    return 0
