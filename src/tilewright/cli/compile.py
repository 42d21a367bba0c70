"""`tilewright compile`: a model in, one file out that runs on the simulated machine."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import print_json
from tilewright.cli.compile_entries import (
    batch_sizes,
    compile_folder,
    compile_several,
    entry_models,
)
from tilewright.cli.compile_results import check_destinations, write
from tilewright.frontend.decoder import Capacity
from tilewright.frontend.decoder_folder import is_decoder_folder
from tilewright.io.content_cache import caching
from tilewright.model.options import CompileOptions

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported
    from tilewright.frontend.samples import Arrays
    from tilewright.targets.compiled_model import CompiledModel

HELP = """Compile MODEL into the bundle OUT, which `run`, `verify` and `report` take.

MODEL is an ONNX file, a PyTorch program saved by torch.export.save (FILE.pt2), MLIR
text (FILE.mlir), or package.module:factory, a function that returns a model and
example inputs. Matrix products run in fp8, with scales from the ranges that values
have on the calibration samples; everything else is bf16. What the machine has no
kernel for runs on the host, and the summary says what and why.

\b
  tilewright compile block.pt2 -o block.twb
  tilewright compile model.onnx -o model.twb --shape batch=1 --calibrate samples/
  tilewright compile my_models:decoder -o decoder.twb --no-host --report decoder.html
  tilewright compile prefix=prefix.onnx denoise=denoise.onnx -o policy.twb \\
      --state keys=prefix.keys,denoise.keys

A local Hugging Face folder (config.json, safetensors) of the Llama, Qwen or Gemma family
becomes a language model of fixed shapes for `tilewright generate`: --prompt, --slots, --step.

\b
  tilewright compile SmolLM2-135M -o smollm2.twb --prompt 128 --slots 1024

Several models as NAME=MODEL become one bundle with an entry point for each; weights they have
in common are stored once, and --state names memory that one writes and another reads.

Nothing is written unless everything succeeds. Exits 0, or 2 for what cannot be compiled.
"""


class CompileCommand(click.Command):
    """`--accuracy` takes a number or nothing: what follows it and is none is the next argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [
            "--accuracy=" if one == "--accuracy" and not _is_number(after) else one
            for one, after in zip(args, [*args, ""][1:], strict=True)
        ]
        return super().parse_args(ctx, given)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not os.path.exists(text)


def _goal(text: str | None) -> float | None:
    """The cosine of --accuracy, if it has one."""
    if not text:
        return None
    if not _is_number(text):
        raise click.UsageError(f"--accuracy takes a cosine such as 0.995, not {text!r}")
    return float(text)


@click.command("compile", cls=CompileCommand, help=HELP)
@click.argument("models", metavar="MODEL | NAME=MODEL...", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="OUT.twb", help="Where the bundle goes.")
@click.option(
    "--target",
    "--profile",
    "target",
    default="atlas-v1",
    metavar="NAME|FILE.toml",
    help="The machine: atlas-v1 (default), or a profile of your own.",
)
@click.option(
    "--quantize",
    type=click.Choice(["fp8", "int8", "none"]),
    default=None,
    help="Number format of matrix products: fp8 (E4M3) is what Atlas multiplies; Coral keeps the "
    "model's own types (none) unless int8 is asked for.",
)
@click.option(
    "--emit",
    metavar="KIND",
    default=None,
    help="Write this instead of a bundle: c, elf or asm for Coral.",
)
@click.option(
    "--calibrate",
    "samples",
    multiple=True,
    metavar="FILE|DIR",
    help="Inputs to take value ranges from: .npz or .safetensors with an array for every input, or "
    "a folder of them; NAME=FILE for an entry point; for a language model a .txt file, or numbers of "
    "tokens as the array ids. Repeatable. Without it, random numbers.",
)
@click.option(
    "--calibrate-seed",
    type=click.IntRange(0, 2**63 - 1),
    default=None,
    metavar="N",
    help="Calibrate with random inputs of this seed (default 0).",
)
@click.option(
    "--calibrate-count",
    type=click.IntRange(1, 10_000),
    default=None,
    metavar="N",
    help="How many random samples (default: as many as the machine needs).",
)
@click.option(
    "--host",
    "host",
    multiple=True,
    metavar="LAYER",
    help="Let the host compute this layer and what is inside it. Repeatable.",
)
@click.option(
    "--keep",
    "keep",
    multiple=True,
    metavar="LAYER",
    help="Compute the products of this layer and what is inside it as precisely as bf16, at two to "
    "three times the work. Repeatable.",
)
@click.option(
    "--scales",
    type=click.Choice(["channel", "tensor"]),
    default="channel",
    help="Scales of fp8 weights: one per channel (default) or one per tensor.",
)
@click.option(
    "--weights",
    type=click.Choice(["mxfp8", "mxfp8-e5m2", "mxfp6", "mxfp6-e3m2", "mxfp4", "mxint8"]),
    default=None,
    help="Round weights of products to blocks of 32 numbers that share a scale.",
)
@click.option(
    "--ranges",
    default="max",
    metavar="RULE",
    help="What codes cover of the values that calibration saw: max (default, all of them), "
    "percentile or percentile:99.9 (what is beyond saturates), mse (the least squared error).",
)
@click.option(
    "--smooth",
    type=click.FloatRange(0, 1),
    default=None,
    metavar="ALPHA",
    help="Move ranges of activations into the weights that multiply them, channel by channel, by "
    "powers of two: the same function, with large channels easier to quantise. 0.5 is usual.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="NAME=ENTRY.PORT,…",
    help="Memory of entry points: outputs that write it and inputs that read it. Repeatable.",
)
@click.option(
    "--batch",
    "batch",
    default=None,
    metavar="N,N,…",
    help="Compile an ONNX model for several batch sizes: sizes for the first dimension of its "
    "inputs, one entry point each (batch_1, batch_8).",
)
@click.option(
    "--prompt",
    type=click.IntRange(1, 1 << 20),
    default=None,
    metavar="N",
    help="Of a language model: tokens a prefill takes at once (default 128).",
)
@click.option(
    "--slots",
    type=click.IntRange(2, 1 << 20),
    multiple=True,
    metavar="N",
    help="Of a language model: tokens there is room for (default 1024). Repeatable, for variants "
    "that are switched on the way.",
)
@click.option(
    "--step",
    type=click.IntRange(1, 64),
    default=None,
    metavar="N",
    help="Of a language model: tokens a generate call takes (default 1); more to speculate.",
)
@click.option("--no-host", is_flag=True, help="Fail if any operation would run on the host.")
@click.option(
    "--fuse/--no-fuse",
    default=True,
    help="Keep results in VMEM between kernels, and chains of operations in one (default).",
)
@click.option(
    "--accuracy",
    "accuracy",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[COSINE]",
    help="Also note how far every layer is from float32, on the first calibration sample. With a "
    "number such as 0.995: find the cheapest layers to keep (see --keep) with which every output has "
    "this cosine to float32 on all samples.",
)
@click.option("--dump-phases", metavar="DIR", help="Write the IR after every phase into a folder.")
@click.option(
    "--report", "page", metavar="FILE.html", help="Also run and verify it, and write its report."
)
@click.option(
    "--shape",
    "sizes",
    multiple=True,
    metavar="NAME=SIZE",
    help="Size of a symbolic dimension of an ONNX model, or NAME=2x3x4 for a whole input. "
    "Repeatable.",
)
@click.option(
    "--no-cache",
    is_flag=True,
    help="Generate every kernel now: neither use nor fill the cache (see tilewright cache).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def command(
    models: tuple[str, ...],
    output: str,
    target: str,
    quantize: str | None,
    emit: str | None,
    samples: tuple[str, ...],
    calibrate_seed: int | None,
    calibrate_count: int | None,
    host: tuple[str, ...],
    keep: tuple[str, ...],
    scales: str,
    ranges: str,
    smooth: float | None,
    weights: str | None,
    states: tuple[str, ...],
    batch: str | None,
    prompt: int | None,
    slots: tuple[int, ...],
    step: int | None,
    no_host: bool,
    fuse: bool,
    accuracy: str | None,
    dump_phases: str | None,
    page: str | None,
    sizes: tuple[str, ...],
    no_cache: bool,
    as_json: bool,
) -> int:
    if no_cache:
        click.get_current_context().with_resource(caching("off"))
    if samples and (calibrate_seed is not None or calibrate_count is not None):
        raise click.UsageError("calibrate with files or with random numbers, not with both")
    if host and no_host:
        raise click.UsageError("--host asks for work on the host, --no-host forbids it")
    goal = _goal(accuracy)
    if goal is not None:
        from tilewright.compiling.steering import check_goal

        check_goal(goal)
    model, numbers = models[0], batch_sizes(batch)
    if numbers is not None and (len(models) > 1 or states):
        raise click.UsageError("--batch is about one model without state")
    options = CompileOptions(
        fuse=fuse,
        host=host,
        no_host=no_host,
        keep=keep,
        scales=scales,
        seed=calibrate_seed or 0,
        accuracy=accuracy == "",
        quantize=quantize,
        ranges=ranges,
        smooth=smooth,
        weights=weights,
    )
    named, folder = entry_models(models), is_decoder_folder(model)
    if named is not None or folder or numbers is not None:
        refused = {"--emit": emit, "--dump-phases": dump_phases, "--report": page}
        for option, value in refused.items():
            if value is not None:
                raise click.UsageError(f"{option} is about one model, not about entry points")
        if numbers is not None and (goal is not None or samples):
            raise click.UsageError("--batch takes no samples and no goal of --accuracy")
        if calibrate_count is not None:
            raise click.UsageError("--calibrate-count is about one model, not entry points")
        for one in (named or {"": model}).values():
            check_destinations(one, output, None, None)
        if named is not None or numbers is not None:
            return compile_several(
                models, states, output, target, options, sizes, as_json, numbers, samples, goal
            )
        capacity = Capacity(prompt or 128, slots or (1024,), step or 1)
        return compile_folder(model, capacity, output, target, options, as_json, samples, goal)
    if prompt is not None or slots or step is not None:
        raise click.UsageError("--prompt, --slots and --step are about folders of language models")
    if states:
        raise click.UsageError("--state is about entry points: give models as NAME=MODEL")
    check_destinations(model, output, dump_phases, page)

    from tilewright.cli.compile_progress import CompileProgress
    from tilewright.cli.compile_summary import document, text
    from tilewright.cli.import_model import size
    from tilewright.compiling import check_sizes, compile_imported
    from tilewright.frontend.models import import_model
    from tilewright.targets import registry

    machine = registry.find(target)
    began = time.perf_counter()
    with CompileProgress() as progress:
        progress("import", model)
        shapes = dict(size(given) for given in sizes)
        imported = import_model(model, shapes)
        seconds = time.perf_counter() - began
        check_sizes(imported, machine, options.quantize)
        chosen = _samples(imported, samples, calibrate_seed or 0, calibrate_count or 0)
        compiled = compile_imported(imported, machine, options, chosen, progress, shapes, goal)
        if not samples:
            count = f"{calibrate_count} " if calibrate_count else ""
            compiled.provenance["calibration"] = (
                f"{count}random sample{'s' * (calibrate_count != 1)}, seed {calibrate_seed or 0}"
            )
        compiled.timing = {"import": seconds, **compiled.timing}
        html = _report(compiled, imported, progress) if page is not None else None
        progress("write", output)
        moment = time.perf_counter()
        files = write(compiled, output, dump_phases, page, html, emit)
        compiled.timing["write"] = time.perf_counter() - moment
    found = document(compiled, files, time.perf_counter() - began)
    if as_json:
        print_json(found)
    else:
        click.echo(text(found))
    return 0


def _samples(imported: Imported, paths: tuple[str, ...], seed: int, count: int) -> list[Arrays]:
    """Inputs to calibrate with; none if the machine shall draw as many as it needs."""
    from tilewright.frontend.samples import read_samples
    from tilewright.model.calibrate import example_inputs

    if paths:
        return read_samples(imported, paths)
    return [example_inputs(imported, seed + k) for k in range(count)]


def _report(compiled: CompiledModel, imported: Imported, progress: Any) -> str:
    from tilewright.report.measure import report_data
    from tilewright.report.model_page import model_page

    began = time.perf_counter()
    progress("run and verify", "")

    def watch(verb: str):
        def step(done: int, total: int, tick: int) -> None:
            progress("run and verify", f"{verb}, step {done} of {total}, tick {tick:,}")

        return nullcontext(step)

    html = model_page(report_data(compiled, original=imported, progress=watch))
    compiled.timing["run and verify"] = time.perf_counter() - began
    return html
