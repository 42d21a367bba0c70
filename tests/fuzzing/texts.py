"""MLIR text of all dialects: read, verified, run through passes, printed, imported and executed."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.mutations import json_text, mutated_json, mutated_text
from fuzzing.running import Keep, Subject
from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.printing import print_module
from tilewright.dialects.xdsl_api import ModuleOp, TensorType
from tilewright.extensions import MANIFESTS, PIPELINES, load
from tilewright.frontend.mlir import resource_section, split_resources, without_device
from tilewright.frontend.mlir_model import import_mlir
from tilewright.reference import dtypes
from tilewright.reference.executor import Executor
from tilewright.targets.atlas.kernels.arrangements import written
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.passes.text_isa import memory_map_json, text_program
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

TESTS = Path(__file__).parents[1]
PASSES = [
    "canonicalize", "cse", "unwrap-iree", "convert-linalg-to-npu-kernel",
    "convert-linalg-to-npu-kernel{unmapped=host}", "simplify-kernels", "raise-composites",
    "fold-constants", "convert-npu-kernel-to-schedule", "tile-npu-kernel-to-schedule",
    "convert-npu-schedule-to-isa", "npu-plan-memory", "npu-coverage", "npu-verify-ukernel-symbols",
    "convert-npu-schedule-to-isa{kernel-manifest=atlas-v0}",
    "convert-npu-schedule-to-isa{target=atlas-v1}",
]  # fmt: skip
ELEMENTS = 1 << 20  # inputs of functions that are executed
SMALL = 6000  # characters of a seed


def pieces(folders: list[str], largest: int = SMALL) -> list[str]:
    """The functions of the files in folders of the tests, each with the maps it names."""
    found = []
    for folder in folders:
        for path in sorted((TESTS / folder).glob("*.mlir")):
            for part in re.split(r"\n// -----.*\n", path.read_text()):
                lines = [x for x in part.split("\n") if not x.lstrip().startswith("//")]
                names = "\n".join(line for line in lines if line.startswith("#"))
                rest = "\n".join(line for line in lines if not line.startswith("#"))
                functions = re.split(r"\n(?=func\.func|util\.func)", "\n" + rest)
                found += [f"{names}\n{f}" for f in functions if f.strip() and len(f) < largest]
    return found


def _run_passes(texts: list[str], choose: random.Random, keep: Keep) -> None:
    text = keep.text(mutated_text(choose.choice(texts), choose, texts), ".mlir")
    body, weights = split_resources(text, "in.mlir")
    module = parse_text(without_device(body), "in.mlir")
    verify_module(module)
    _round_trip(module)
    chosen = choose.choice(
        (
            ",".join(choose.sample(PASSES, choose.randrange(1, 4))),
            ",".join(PIPELINES[choose.choice(sorted(PIPELINES))]),
        )
    )
    run_passes(module, parse_pipeline(chosen), make_context())
    verify_module(module)
    resource_section(_round_trip(module), weights)
    if "npu_isa" in chosen or "isa" in chosen:
        text_program(module)
        memory_map_json(module)


def _round_trip(module: ModuleOp) -> str:
    """The text of a module, which reads as the same module."""
    text = print_module(module, False, False)
    again = parse_text(text, "again.mlir")
    assert print_module(again, False, False) == text
    return text


def _run_import(texts: list[str], choose: random.Random, keep: Keep) -> None:
    text = keep.text(mutated_text(choose.choice(texts), choose, texts), ".mlir")
    imported = import_mlir(text, "in.mlir")
    print_module(imported.module, False, False)


def _run_executor(texts: list[str], choose: random.Random, keep: Keep) -> None:
    text = choose.choice(texts)
    if choose.random() < 0.6:  # an axis of another length everywhere, often none
        sizes = re.findall(r"(?<=[<x])\d+(?=x)", text) or ["4"]
        new = choose.choice(("0", "1", "0", "3"))
        text = re.sub(rf"(?<=[<x]){choose.choice(sizes)}(?=x)", new, text)
    if choose.random() < 0.6:
        text = mutated_text(text, choose, texts)
    keep.text(text, ".mlir")
    module = parse_text(text, "in.mlir")
    verify_module(module)
    executor = Executor(module)
    for name, op in executor.functions.items():
        arguments = [argument.type for argument in op.regions[0].blocks[0].args]
        made = [_array(type_, choose) for type_ in arguments]
        if all(array is not None for array in made):
            executor.run(made, name)


def _array(type_: Any, choose: random.Random) -> np.ndarray | None:
    """Numbers for an input, unless it is none or too large."""
    element = dtypes.element_type(type_)
    shape = tuple(type_.get_shape()) if isinstance(type_, TensorType) else ()
    if any(n < 0 for n in shape) or math.prod(shape) > ELEMENTS:
        return None
    generator = np.random.default_rng(choose.getrandbits(32))
    numbers = generator.normal(0, choose.choice((1.0, 100.0)), shape)
    return dtypes.stored(numbers if element.is_float else np.rint(numbers).astype(int), element)


def _run_pipeline_text(texts: list[str], choose: random.Random, keep: Keep) -> None:
    parse_pipeline(keep.text(mutated_text(choose.choice(texts), choose, texts)))


def _launches() -> list[tuple[str, dict[str, Any]]]:
    """Kernels of whole models with options they take."""
    image, window = written(Image(8, 8, 32)), written(Window(3, 3, padding=1))
    both = {"image": image, "out": image}
    layer = {
        **both, "window": window, "filters": 32, "groups": 1, "bias": True, "scale": True,
        "activation": "relu", "unfolded": False,
    }  # fmt: skip
    return [
        ("norm", {"kind": "layer", "epsilon": 1e-6, "out": "fp8", "weight": True, "factor": 0.5}),
        ("reduce", {"kind": "mean", "along": "batch", "lines": 2, "split": [2, 3, 1]}),
        ("pointwise", {"inputs": [["x", "full"], ["y", "row"]], "out": "bf16", "split": [2, 1],
                       "program": [["silu", "t0", ["x"]], ["add", "t1", ["t0", "y"]]]}),
        ("copy", {"rank": 3, "dtype": "fp8"}),
        ("move", {"count": 1, "pieces": [[0, [0, 1], [0, 1], 2, [0, 0], [1, 0], 32, 20]]}),
        ("linear", {"out": "bf16", "scale": True, "activation": "relu", "rows": 64, "depth": 32}),
        ("project", {"out": "columns", "norm": 1e-6, "width": 60, "rope": "shared", "rows": 32}),
        ("attention", {"mask": "full", "parts": 2, "keys": 4, "per_head": True}),
        ("recurrent", {"program": [["add", "t0", ["x0", "p0"]]], "next": ["t0"], "kept": 1}),
        ("conv2d", {**layer, "diagonal": "ones"}),
        ("chain", {**both, "parts": [layer, layer], "factor0": 0.5}),
        ("join", {**both, "images": [image], "starts": [0], "scale0": 2.0}),
        ("resample", {**both, "rows": [-1, 0], "columns": [0, 1]}),
        ("pool", {**both, "window": window, "kind": "max", "nonnegative": True, "counting": True}),
    ]  # fmt: skip


def _run_launch(seeds: list[tuple[str, dict[str, Any]]], choose: random.Random, keep: Keep) -> None:
    kernel, options = choose.choice(seeds)
    options = mutated_json(options, choose)
    keep.text(json.dumps([kernel, options]), ".json")
    if isinstance(options, dict) and all(isinstance(name, str) for name in options):
        RECORDS[kernel].build(options)


NATIVE = "filecheck/transforms/convert_npu_schedule_to_isa_native.mlir"


def _manifest() -> tuple[Any, list[str]]:
    """The first machine's manifest, and schedules of its kernels."""
    manifest = json.loads(json.dumps(load(MANIFESTS["atlas-v0"]).build()))
    return manifest, re.split(r"\n// -----.*\n", (TESTS / NATIVE).read_text())


def _run_manifest(seeds: tuple[Any, list[str]], choose: random.Random, keep: Keep) -> None:
    whole, schedules = seeds
    schedule = choose.choice(schedules)
    used = {n: k for n, k in whole["kernels"].items() if f'"{k["symbol_prefix"]}' in schedule}
    document = mutated_json({**whole, "kernels": used}, choose)
    path = keep.file(json_text(document, choose), "kernels.json")
    module = parse_text(schedule, "in.mlir")
    chosen = f"convert-npu-schedule-to-isa{{kernel-manifest={path}}}"
    run_passes(module, parse_pipeline(chosen), make_context())
    text_program(module)
    memory_map_json(module)


LIT = [
    "filecheck/transforms",
    "filecheck/dialects",
    "filecheck/pipelines",
    "filecheck/cli",
    "dialects",
]
SUBJECTS = [
    Subject("mlir", lambda: pieces(LIT), _run_passes),
    Subject("linalg-model", lambda: pieces(["filecheck/transforms", "filecheck/dialects"]), _run_import),
    Subject("stablehlo", lambda: pieces(["data/stablehlo"], 20_000), _run_import),
    Subject("executor", lambda: pieces(["filecheck/transforms", "filecheck/dialects"]), _run_executor),
    Subject("manifest", _manifest, _run_manifest),
    Subject("launch", _launches, _run_launch),
    Subject("pipelines", lambda: [*PASSES, *(",".join(p) for p in PIPELINES.values())], _run_pipeline_text),
]  # fmt: skip
