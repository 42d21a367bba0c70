"""Write the models of tests/frontend/same_models.py: StableHLO text by JAX, programs by torch.

    PYTHONPATH=src:tests/frontend python tests/data/stablehlo/make.py

The texts have the names of arguments and no places in this machine's files. Needs jax and torch.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import importlib.util
import re
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import same_models
import same_models_jax
import same_models_torch
import torch
from jaxlib.mlir.dialects import stablehlo

HERE = Path(__file__).resolve().parent


def program_tools() -> Any:
    """tests/data/pt2/make.py, which packs saved programs small and without paths."""
    spec = importlib.util.spec_from_file_location("pt2_make", HERE.parent / "pt2" / "make.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stablehlo_text(model: str) -> str:
    function, weights = same_models_jax.FUNCTIONS[model], same_models_jax.tree_of(model)
    lowered = jax.jit(function, keep_unused=True).lower(
        weights, jnp.asarray(same_models.input_of(model))
    )
    return without_places(lowered.as_text(debug_info=True))


def without_places(text: str) -> str:
    """Text with the names of arguments as its only locations."""
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    return re.sub(r' loc\((?:#loc\d*|unknown|"[^"]*"\(#loc\d*\))\)', "", text)


def portable_artifact(model: str) -> bytes:
    """What jax.export saves, without places."""
    exported = jax.export.export(jax.jit(same_models_jax.FUNCTIONS[model]))(
        same_models_jax.tree_of(model), jnp.asarray(same_models.input_of(model))
    )
    version = stablehlo.get_minimum_version()
    text = without_places(str(exported.mlir_module()))
    return stablehlo.serialize_portable_artifact_str(text, version)


def save_program(model: str, target: Path) -> None:
    module = same_models_torch.module_of(model)
    example = torch.from_numpy(same_models.input_of(model))
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(module, (example,)).run_decompositions({})
        torch.export.save(program, Path(folder) / "program.pt2")
        program_tools().repack(Path(folder) / "program.pt2", target)


def main() -> None:
    for model in same_models.MODELS:
        text = stablehlo_text(model)
        (HERE / f"{model}.mlir").write_text(text)
        save_program(model, HERE / f"{model}.pt2")
        if model == "encoder":
            (HERE / f"{model}.stablehlo").write_bytes(portable_artifact(model))


if __name__ == "__main__":
    main()
