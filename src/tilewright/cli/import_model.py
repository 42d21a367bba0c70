"""`tilewright import`: a model as MLIR, its weights beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import print_json
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported

HELP = """Read MODEL into MLIR, with its weights in a safetensors file beside it.

MODEL is an ONNX file, a PyTorch program saved by torch.export.save (FILE.pt2,
which needs no torch), MLIR text (FILE.mlir: linalg, StableHLO as JAX prints it, or
IREE's dumps, with weights in the text or in a safetensors file of the same name), a
StableHLO portable artifact, or package.module:factory, a function that returns a
torch module or JAX function and example inputs. Operators become kernel intents; attention, norms and
activations stay whole. What has no mapping is reported, and then nothing is
written. The table shows which kernels it became and what falls back to the host.

\b
  tilewright import model.onnx -o model.mlir
  tilewright import model.onnx -o model.mlir --shape batch=1 --shape tokens=64
  tilewright import model.pt2 -o model.mlir --weights weights.safetensors
  tilewright import my_models:decoder_block -o block.mlir
  tilewright import model.mlir -o kernels.mlir
  tilewright import model.onnx --check --json
"""


@click.command("import", help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", metavar="MODEL")
@click.option(
    "-o", "--output", default="-", metavar="OUT.mlir", help="Where the module goes; - prints it."
)
@click.option(
    "--weights",
    metavar="OUT.safetensors",
    help="Where the weights go; by default beside OUT.mlir, with its name.",
)
@click.option(
    "--shape",
    "sizes",
    multiple=True,
    metavar="NAME=SIZE",
    help="Size of a symbolic dimension, or NAME=2x3x4 for a whole input. Repeatable.",
)
@click.option("--check", is_flag=True, help="Write nothing; only report what the model becomes.")
@click.option("--json", "as_json", is_flag=True, help="Print inputs, outputs and coverage as JSON.")
def command(
    model: str,
    output: str,
    weights: str | None,
    sizes: tuple[str, ...],
    check: bool,
    as_json: bool,
) -> int:
    if as_json and output == "-" and not check:
        raise TilewrightError(
            "TW0020",
            "the module and the JSON would both go to standard output",
            hint="name a file with -o, or use --check",
        )
    from tilewright.frontend.models import import_model

    imported = import_model(model, dict(size(text) for text in sizes))
    place = None if check else _write(imported, output, weights)
    document = describe(imported, None if check else output, place)
    if as_json:
        print_json(document)
    else:
        _print(imported, document)
    return 0


def size(text: str) -> tuple[str, int | tuple[int, ...]]:
    """A dimension's name and size, or an input's name and shape."""
    name, _, given = text.rpartition("=")
    parts = given.strip().split("x")
    if not name or not all(part.isascii() and part.isdigit() for part in parts):
        raise TilewrightError(
            "TW0020",
            f"cannot read the size {text!r}",
            hint="write NAME=SIZE, or NAME=2x3x4 for a whole input",
        )
    if len(parts) == 1:
        return name.strip(), int(parts[0])
    return name.strip(), tuple(int(part) for part in parts)


def _write(imported: Imported, output: str, weights: str | None) -> str | None:
    """Write weights, then the module; returns where the weights are."""
    from tilewright.io.file_access import write_text

    if weights is None and output != "-" and imported.weights:
        weights = str(Path(output).with_suffix(".safetensors"))
    if weights is not None:
        imported.save_weights(weights)
    write_text(output, module_text(imported))
    return weights


def module_text(imported: Imported) -> str:
    """The module with the part of the model that each operation came from."""
    from tilewright.dialects.printing import print_module

    return print_module(imported.module, locations=True)


def describe(imported: Imported, output: str | None, weights: str | None) -> dict[str, Any]:
    """What was read and what it became, as one document."""
    from tilewright.transforms.linalg_to_kernel.coverage import coverage_of
    from tilewright.transforms.linalg_to_kernel.emitter import Settings

    return {
        "model": imported.source,
        "module": output,
        "weights": weights,
        "weight_count": len(imported.weights),
        "weight_bytes": sum(array.nbytes for array in imported.weights.values()),
        "inputs": [spec.to_json() for spec in imported.inputs],
        "outputs": [spec.to_json() for spec in imported.outputs],
        "state": imported.state,
        "opset": getattr(imported, "opset", None),
        "weight_names": getattr(imported, "weight_names", None),
        "folded": list(getattr(imported, "folded", ())),
        "coverage": coverage_of(imported.module, Settings()).to_json(),
    }


def _print(imported: Imported, document: dict[str, Any]) -> None:
    """The document for a person, on standard error: the module may be on standard output."""
    lines = [str(imported.source)]
    lines += [f"input {spec}" for spec in imported.inputs]
    lines += [f"output {spec}" for spec in imported.outputs]
    place = f", in {document['weights']}" if document["weights"] else ""
    lines.append(f"weights: {document['weight_count']}, {document['weight_bytes']} bytes{place}")
    if document["folded"]:
        lines.append(f"computed at import: {len(document['folded'])} nodes")
    coverage = document["coverage"]
    lines.append("")
    kernels = sorted(coverage["kernels"].items(), key=lambda item: (-item[1], item[0]))
    lines += [f"{count:>6}  {name}" for name, count in kernels]
    lines.append(
        f"{coverage['ops']} tensor ops: {coverage['bound']} for the NPU, {coverage['host']} for the host"
    )
    click.echo("\n".join(lines), err=True)
