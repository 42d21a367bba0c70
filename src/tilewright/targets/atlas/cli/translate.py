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
    "--mlir-to-asm",
    "to_assembly",
    is_flag=True,
    help="Print assembly, with the constants the program finds in DRAM.",
)
@click.option(
    "--memory-map",
    is_flag=True,
    help="Print the buffers of the program as JSON instead: name, address, size, layout, role.",
)
@click.option("--function", metavar="NAME", help="Translate only this function.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where the result goes.")
def command(
    input_file: str,
    to_text: bool,
    to_assembly: bool,
    memory_map: bool,
    function: str | None,
    output: str,
) -> int:
    """Turn instructions in MLIR into a program the simulator loads.

    \b
    tilewright translate --mlir-to-asm program.mlir -o program.s
    """
    if to_text + to_assembly + memory_map != 1:
        raise click.UsageError(
            "say what to translate to: --mlir-to-npu-text-isa, --mlir-to-asm or --memory-map"
        )
    from tilewright.frontend.mlir import read_model
    from tilewright.targets.atlas.passes.text_isa import assembly, memory_map_json, text_program

    module = read_model(Path(input_file) if input_file != "-" else "-").module
    translated = text_program if to_text else assembly if to_assembly else memory_map_json
    write_text(output, translated(module, function))
    return 0
