"""One way to name a model on a command line: a file, or a function that makes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import Location, TilewrightError, within_memory
from tilewright.frontend.imported import Imported

Shapes = Mapping[str, int | tuple[int, ...] | list[int]]
FACTORY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_WEIGHTS = (
    "weights alone are no model: load them into their module, and name a factory that returns it "
    "with example inputs, or save torch.export.export(module, inputs) by torch.export.save"
)
_ONNX = "convert it to ONNX first"
ELSEWHERE = {  # what people have, and what becomes of it
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz"), _WEIGHTS),
    **dict.fromkeys((".h5", ".keras", ".tflite", ".pb", ".mlmodel"), _ONNX),
}
MLIR_SUFFIXES = (".mlir", ".stablehlo", ".mlirbc")
FORMS = (
    "models are FILE.onnx, FILE.pt2, FILE.mlir (linalg, StableHLO or npu_kernel), FILE.stablehlo "
    "or package.module:factory"
)


def import_model(model: str, shapes: Shapes | None = None) -> Imported:
    """The model in a file, or made by `package.module:factory`.

    Files are `.onnx`, `.pt2`, and `.mlir` or `.stablehlo` (text or portable artifact). `shapes`
    gives sizes to symbolic dimensions, which only ONNX files have.
    """
    with within_memory("reading the model", Location(model)):
        return _import_model(model, shapes)


def _import_model(model: str, shapes: Shapes | None) -> Imported:
    suffix = Path(model).suffix
    if suffix == ".onnx":
        from tilewright.frontend.onnx import read_onnx

        return read_onnx(model, shapes)
    if shapes:
        raise TilewrightError(
            "TW0020",
            "only ONNX models have sizes to set",
            Location(model),
            "export with fixed sizes",
        )
    if suffix == ".pt2":
        from tilewright.frontend.pt2 import read_pt2

        return read_pt2(model)
    if suffix in MLIR_SUFFIXES:
        from tilewright.frontend.mlir_model import read_mlir_model

        return read_mlir_model(model)
    if FACTORY.fullmatch(model):
        from tilewright.frontend.factories import import_factory

        return import_factory(model)
    message, hint = _no_model(model)
    raise TilewrightError("TW0020", message, Location(model), hint)


def _no_model(model: str) -> tuple[str, str]:
    """Why a name is none of a model, and what to do about it."""
    path = Path(model)
    if path.is_dir():
        return "this is a folder, not a model", f"{FORMS}; a language model's has a config.json"
    if not path.exists() and MODULE.fullmatch(model) and path.suffix not in ELSEWHERE:
        return (
            "this names no file, and of a package no function",
            f"write {model}:FUNCTION for one that returns a model; {FORMS}",
        )
    hint = ELSEWHERE.get(path.suffix)
    return (
        f"files ending in {path.suffix or 'nothing'} are not imported",
        f"{hint}; {FORMS}" if hint else FORMS,
    )
