"""`tilewright verify`: check that a compiled model computes what it should."""

from __future__ import annotations

from typing import Any

import click

from tilewright.cli import print_json
from tilewright.cli.bundle_files import INPUT_HELP, StepProgress, failed, given_inputs
from tilewright.cli.entry_files import (
    chosen,
    entry_option,
    inputs_by_entry,
    machine_option,
    seed_option,
)
from tilewright.errors import TilewrightError
from tilewright.frontend.decoder_folder import is_decoder_folder
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel

HELP = """Check the compiled model MODEL.twb (a bundle).

The model runs on the simulated machine, and every step of it by the reference of its kernel;
all bits of the outputs have to agree. If they do not, the first wrong step is found and named.
Where the original model is at hand, the distance to float32 is printed and judged as well.

\b
  tilewright verify block.twb
  tilewright verify block.twb --per-layer --model block.onnx --json
  tilewright verify policy.twb --input prefix.tokens=tokens.npy --model denoise=denoise.onnx

A bundle with several entry points is verified as a whole: they run in their order, each on the
state that the ones before it left; --entry verifies a single one.

Exits 0 if every bit agrees, 1 if one does not, if the program faults or if an output is further
from float32 than rounding explains (or --min-cosine allows), 2 for bad input.
"""


@click.command("verify", help=HELP)
@click.argument("bundle", metavar="MODEL.twb")
@entry_option
@click.option("--input", "-i", "inputs", multiple=True, metavar="NAME=FILE", help=INPUT_HELP)
@seed_option
@click.option("--per-layer", is_flag=True, help="Compare the result of every step.")
@click.option(
    "--model",
    "original",
    multiple=True,
    metavar="[ENTRY=]MODEL",
    help="The original model (FILE.onnx, FILE.pt2, package.module:factory) to compare with in "
    "float32; by default the file it was compiled from, if that has not changed.",
)
@click.option(
    "--min-cosine",
    type=click.FloatRange(-1, 1),
    default=None,
    metavar="C",
    help="How close every output has to be to float32, by cosine similarity; by default as close "
    "as rounding to fp8 explains, which is measured for the model.",
)
@machine_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def command(
    bundle: str,
    entry: str | None,
    inputs: tuple[str, ...],
    seed: int,
    per_layer: bool,
    original: tuple[str, ...],
    min_cosine: float | None,
    machine: str | None,
    as_json: bool,
) -> int:
    from tilewright.runtime.bundle import load_any
    from tilewright.runtime.verify import verify
    from tilewright.runtime.verify_entries import verify_entries

    program = load_any(bundle)
    together = isinstance(program, CompiledEntries) and entry is None
    originals = _originals(program, original, together)
    try:
        with StepProgress("verifying") as progress:
            options: dict[str, Any] = {
                "machine": machine,
                "progress": progress,
                "min_cosine": min_cosine,
            }
            if isinstance(program, CompiledEntries) and together:
                given = inputs_by_entry(program, inputs, seed)
                result = verify_entries(program, given, seed, per_layer, originals, **options)
            else:
                model = chosen(program, entry, bundle)
                single = given_inputs(model, inputs, seed)
                result = verify(model, single, seed, per_layer, originals.get(""), **options)
    except TilewrightError as error:
        return failed(error, as_json)
    unknown = min_cosine is not None and result.cosine is None
    if as_json:
        print_json({**result.to_json(), "close_enough": result.close and not unknown})
    else:
        click.echo(result.text())
        if unknown:
            click.echo("TOO FAR FROM FLOAT32: there is no original model to compare with")
    return 0 if result.ok and not unknown else 1


def _originals(
    program: CompiledModel[Any] | CompiledEntries, texts: tuple[str, ...], together: bool
) -> dict[str, Any]:
    """The original models by entry point, "" for that of a single one."""
    from tilewright.frontend.models import import_model

    found = {}
    for text in texts:
        entry, mark, name = text.partition("=")
        if together and isinstance(program, CompiledEntries) and is_decoder_folder(text):
            from tilewright.compiling.decoders import originals_of

            found |= originals_of(text, program)
            continue
        if not together:
            entry, name = "", text
        elif not isinstance(program, CompiledEntries) or not mark or entry not in program.entries:
            raise TilewrightError(
                "TW0031", f"the model {text!r} names no entry point", hint="write ENTRY=MODEL"
            )
        if entry in found:
            raise TilewrightError("TW0031", "two original models are given for one")
        found[entry] = import_model(name)
    return found
