"""`tilewright import`: a model as MLIR, its weights beside it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import print_json
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.frontend.imported import Imported

HELP = """Read MODEL into MLIR, with its weights in a safetensors file beside it.

<<<<<<< HEAD
MODEL is an ONNX file, or a program saved by torch.export (.pt2). Its operators
become kernel intents; attention, norms and activations stay whole. Everything in
an ONNX model that has no mapping is reported at once, and then nothing is
written. The table shows which kernels it became and what is left to the host.
=======
MODEL is an ONNX file, a PyTorch program saved by torch.export.save (FILE.pt2,
which needs no torch), or package.module:factory, a function that returns a torch
module and example inputs. Operators become kernel intents; attention, norms and
activations stay whole. Everything that has no mapping is reported at once, and
then nothing is written. The table shows which kernel each operator became and
what is left to the host.
>>>>>>> pt2

  tilewright import model.onnx -o model.mlir
  tilewright import model.onnx -o model.mlir --shape batch=1 --shape tokens=64
  tilewright import model.pt2 -o model.mlir --weights weights.safetensors
  tilewright import my_models:decoder_block -o block.mlir
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
<<<<<<< HEAD
    if as_json and output == "-" and not check:
        raise TilewrightError(
            "TW0020",
            "the module and the JSON would both go to standard output",
            hint="name a file with -o, or use --check",
        )
    imported = _read(model, dict(_size(text) for text in sizes))
=======
    from tilewright.frontend.models import import_model

    imported = import_model(model, dict(_size(text) for text in sizes))
>>>>>>> pt2
    place = None if check else _write(imported, output, weights)
    document = describe(imported, None if check else output, place)
    if as_json:
        print_json(document)
    else:
        _print(imported, document)
    return 0


def _read(model: str, shapes: dict[str, int | tuple[int, ...]]) -> Imported:
    suffix = Path(model).suffix
    if suffix == ".onnx":
        from tilewright.frontend.onnx import read_onnx

        return read_onnx(model, shapes)
    if suffix == ".pt2":
        from tilewright.frontend.pt2 import read_pt2

        if shapes:
            raise TilewrightError(
                "TW0020", "a saved torch program has its sizes already", Location(model)
            )
        return read_pt2(model)
    raise TilewrightError(
        "TW0020",
        f"files ending in {suffix or 'nothing'} are not imported",
        Location(model),
        "models end in .onnx or .pt2; MLIR text is read by tilewright opt as it is",
    )


def _size(text: str) -> tuple[str, int | tuple[int, ...]]:
    """A dimension's name and size, or an input's name and shape."""
    name, _, given = text.rpartition("=")
    parts = given.strip().split("x")
    if not name or not all(part.isascii() and part.isdigit() for part in parts):
        raise TilewrightError(
            "TW0020",
            f"cannot read the size {text!r}",
            hint="write NAME=SIZE, or NAME=2x3x4 for a whole input",
        )
    numbers = tuple(int(part) for part in parts)
    return name.strip(), numbers if len(numbers) > 1 else numbers[0]


def _write(imported: Imported, output: str, weights: str | None) -> str | None:
    """Write weights, then the module; returns where the weights are."""
    from tilewright.cli.output import write_atomically

    if weights is None and output != "-" and imported.weights:
        weights = str(Path(output).with_suffix(".safetensors"))
    if weights is not None:
        imported.save_weights(weights)
    write_atomically(output, module_text(imported))
    return weights


def module_text(imported: Imported) -> str:
    """The module with the part of the model that each operation came from."""
    from tilewright.dialects.xdsl_api import Printer

    stream = io.StringIO()
    Printer(stream, print_debuginfo=True).print_op(imported.module)
    return stream.getvalue() + "\n"


def describe(imported: Imported, output: str | None, weights: str | None) -> dict[str, Any]:
    """What was read and what it became, as one document."""
    from tilewright.transforms.linalg_to_kernel.coverage import coverage_of
    from tilewright.transforms.linalg_to_kernel.emitter import Settings

<<<<<<< HEAD
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
=======
    coverage = coverage_of(imported.module, Settings())
    total = sum(array.nbytes for array in imported.weights.values())
    if as_json:
        document = {
            "model": model,
            "opset": imported.opset,
            "module": None if check or output == "-" else output,
            "weights": weights,
            "weight_bytes": total,
            "weight_names": imported.weight_names,
            "inputs": [spec.to_json() for spec in imported.inputs],
            "outputs": [spec.to_json() for spec in imported.outputs],
            "state": imported.state,
            "folded": imported.folded,
            "coverage": coverage.to_json(),
        }
        if output != "-" or check:
            print_json(document)
        else:
            import json

            click.echo(json.dumps(document, indent=2), err=True)
        return
    lines = [model if imported.opset is None else f"{model}: operator set {imported.opset}"]
    for kind, specs in (("input", imported.inputs), ("output", imported.outputs)):
        for spec in specs:
            shape = "x".join(map(str, spec.shape)) or "scalar"
            lines.append(f"{kind} {spec.name}: {spec.dtype} {shape}")
>>>>>>> pt2
    lines.append(
        f"{coverage['ops']} tensor ops: {coverage['bound']} for the NPU, {coverage['host']} for the host"
    )
    click.echo("\n".join(lines), err=True)
