"""A single compiled kernel as a model, to be saved, loaded, run and verified like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from tilewright import __version__
from tilewright.errors import TilewrightError
from tilewright.targets.artifact import Port
from tilewright.targets.atlas.artifact.atlas_artifact import (
    AtlasArtifact,
    Kind,
    Region,
    Step,
    compiled_parts,
)
from tilewright.targets.atlas.artifact.reference_device import Reference
from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.targets.atlas.program import Data, Program
from tilewright.targets.compiled_model import CompiledModel
from tilewright.tile.layouts import to_codes

PREFIX = "library/"  # of kernels that are named as the kernel library names them


def kernel_model(
    compiled: CompiledKernel, weights: Mapping[str, np.ndarray] | None = None
) -> CompiledModel[AtlasArtifact]:
    """A model of one step. Tensors in `weights` become part of it, the others are its inputs."""
    given = dict(weights or {})
    for name in given:
        if name not in compiled.inputs:
            raise TilewrightError(
                "TW3120",
                f"{compiled.kernel.name} has no input {name!r}",
                hint=f"inputs are {', '.join(compiled.inputs)}",
            )
    regions, ports, packed = {}, {}, {}
    for name, layout in compiled.layouts.items():
        kind = "output" if name in compiled.outputs else "weight" if name in given else "input"
        regions[name] = Region(name, "dram", compiled.bases[name], layout, cast(Kind, kind))
        if name in given:
            raw = layout.pack(to_codes(np.asarray(given[name]), layout.dtype))
            packed[name] = np.frombuffer(raw, np.uint8)
        else:
            ports[name] = Port(name, layout.given, "f32", name)
    code = compiled.program
    program = Program(code.opcodes, code.operands, np.zeros_like(code.lines), compiled.kernel.name)
    program.data = [*code.data, *(Data("dram", at, raw) for at, raw in compiled.data)]
    inputs = tuple(name for name in compiled.inputs if name not in given)
    outputs = tuple(compiled.outputs)
    kernel = PREFIX + compiled.kernel.name
    step = Step(compiled.kernel.name, kernel, {n: n for n in regions}, end_word=len(program))
    parts, entries = compiled_parts(ports, [((0,), inputs, outputs)])
    return CompiledModel(
        name=compiled.kernel.name,
        artifact=AtlasArtifact(compiled.profile, [program], regions, [step], [], entries, packed),
        ports=ports,
        inputs=inputs,
        outputs=outputs,
        parts=parts,
        provenance={"compiler": f"tilewright {__version__}", "kernel": compiled.kernel.name},
        phases={"npu_schedule": compiled.ir} if compiled.module is not None else {},
    )


def kernel_references() -> dict[str, Reference]:
    """The exact references of the kernel library, under the names that models use."""
    from tilewright.targets.atlas.kernels.registry import ENTRIES

    return {PREFIX + name: _reference(entry) for name, entry in ENTRIES.items()}


def _reference(entry: Any) -> Reference:
    def reference(
        profile: Any, options: dict[str, Any], operands: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        results = entry.reference.exact(profile, *(operands[name] for name in entry.inputs))
        several = results if isinstance(results, tuple) else (results,)
        return dict(zip(entry.kernel.outputs, several, strict=True))

    return reference
