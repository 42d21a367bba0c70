"""`tilewright verify`: check that a compiled model computes what it should."""

from __future__ import annotations

import click

from tilewright.cli import print_json
from tilewright.cli.bundle_files import INPUT_HELP, StepProgress, failed, given_inputs
from tilewright.errors import TilewrightError

HELP = """Check the compiled model MODEL.twb (a bundle).

The model runs on the simulated machine, and every step of it by the reference of its kernel;
all bits of the outputs have to agree. If they do not, the first wrong step is found and named.
Where the original model is at hand, the distance to float32 is printed and judged as well.

\b
  tilewright verify block.twb
  tilewright verify block.twb --per-layer --model block.onnx --json

Exits 0 if every bit agrees, 1 if one does not, if the program faults or if an output is further
from float32 than rounding explains (or --min-cosine allows), 2 for bad input.
"""


@click.command("verify", help=HELP)
@click.argument("bundle", metavar="MODEL.twb")
@click.option("--input", "-i", "inputs", multiple=True, metavar="NAME=FILE", help=INPUT_HELP)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Random numbers for the inputs that are not given.",
)
@click.option("--per-layer", is_flag=True, help="Compare the result of every step.")
@click.option(
    "--model",
    "original",
    default=None,
    metavar="MODEL",
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
@click.option(
    "--machine",
    metavar="NAME",
    default=None,
    help="Which simulator; native unless it is not built.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def command(
    bundle: str,
    inputs: tuple[str, ...],
    seed: int,
    per_layer: bool,
    original: str | None,
    min_cosine: float | None,
    machine: str | None,
    as_json: bool,
) -> int:
    from tilewright.runtime.bundle import load
    from tilewright.runtime.verify import verify

    model = load(bundle)
    given = given_inputs(model, inputs, seed)
    imported = None
    if original is not None:
        from tilewright.frontend.models import import_model

        imported = import_model(original)
    try:
        with StepProgress("verifying") as progress:
            result = verify(
                model, given, seed, per_layer, imported,
                machine=machine, progress=progress, min_cosine=min_cosine,
            )  # fmt: skip
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
