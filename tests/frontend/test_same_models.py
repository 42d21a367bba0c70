"""The same small models through every front end give the same numbers.

Saved StableHLO text and torch programs, ONNX graphs and linalg text need neither jax nor torch; where
those are installed the live functions and modules are imported too.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.imported import Imported, save_safetensors
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.models import import_model
from tilewright.frontend.onnx import read_onnx
from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.stablehlo import import_text
from tilewright.reference.executor import run
from tilewright.transforms.raise_composites import raise_composites

sys.path.insert(0, str(Path(__file__).parent))
import same_models
import same_models_linalg
import same_models_onnx

DATA = Path(__file__).resolve().parent.parent / "data" / "stablehlo"
HAS = {name: importlib.util.find_spec(name) is not None for name in ("jax", "torch")}
needs_jax = pytest.mark.skipif(not HAS["jax"], reason="jax is not installed")
needs_torch = pytest.mark.skipif(not HAS["torch"], reason="torch is not installed")
every_model = pytest.mark.parametrize("model", same_models.MODELS)

# What every front end's module amounts to once composites are named: family -> count.
WHOLE = {
    "mlp": {"matmul": 2, "gelu_tanh": 1},
    "cnn": {"conv2d": 2, "pool_max": 1, "elementwise_relu": 2, "reduction_mean": 1, "matmul": 1},
    "encoder": {"matmul": 6, "layer_norm": 2, "gelu_erf": 1, "gemma_attention": 1},
    "llama": {"matmul": 7, "rms_norm": 2, "rope": 2, "silu_gate": 1, "gemma_attention": 1},
}


def families(imported: Imported) -> dict[str, int]:
    """How often each family occurs, element types of symbols left out."""
    found: dict[str, int] = {}
    for op in imported.module.walk():
        if op.name == "npu_kernel.matmul":
            name = "matmul"
        elif op.name == "npu_kernel.ukernel_generic":
            name = op.properties["symbol"].data.removeprefix("npu_uk_")  # type: ignore[attr-defined]
            name = name.removesuffix("_f32_f32")
        else:
            continue
        found[name] = found.get(name, 0) + 1
    return found


def check(imported: Imported, model: str, tolerance: float = 2e-6) -> None:
    """One input, one output, the numbers; then the same composites and the same numbers again."""
    assert [spec.shape for spec in imported.inputs] == [same_models.INPUTS[model]]
    expected = same_models.expected(model)
    assert expected.shape == imported.outputs[0].shape
    for _ in range(2):
        (result,) = run(imported.module, [same_models.input_of(model)], weights=imported.weights)
        bound = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(result, expected, rtol=0, atol=bound)
        raise_composites(imported.module, imported.weights)
    found = families(imported)
    assert WHOLE[model].items() <= found.items(), found
    assert "softmax" not in found


@every_model
def test_stablehlo_text(model: str) -> None:
    weights = same_models.weights_of(model)
    text = (DATA / f"{model}.mlir").read_text()
    imported = import_text(text, f"{model}.mlir", weights)
    assert set(weights) == {name for name in imported.weights if not name.startswith("literal.")}
    assert WHOLE[model].items() <= families(imported).items()  # whole already at import
    check(imported, model)


@every_model
def test_stablehlo_file_with_weights_beside(model: str, tmp_path: Path) -> None:
    """The file and a safetensors file of its name are a model; arguments with tensors are weights."""
    (tmp_path / "model.mlir").write_text((DATA / f"{model}.mlir").read_text())
    save_safetensors(tmp_path / "model.safetensors", same_models.weights_of(model))
    imported = import_model(str(tmp_path / "model.mlir"))
    check(imported, model)
    assert [spec.name for spec in imported.inputs] == ["x"]


@every_model
def test_saved_torch_program(model: str) -> None:
    imported = read_pt2(DATA / f"{model}.pt2")
    check(imported, model)
    for name, array in same_models.weights_of(model).items():
        np.testing.assert_array_equal(imported.weights[name], array)


@every_model
def test_onnx(model: str) -> None:
    check(read_onnx(same_models_onnx.GRAPHS[model]()), model)


@every_model
def test_linalg_text(model: str) -> None:
    text = same_models_linalg.TEXTS[model]()
    check(import_mlir(text, f"{model}.mlir", same_models.weights_of(model)), model)


@pytest.mark.parametrize("model", ["encoder", "llama"])
def test_programs_are_alike(model: str) -> None:
    """From JAX and from torch comes the same program: as many cycles, the same bits."""
    text = (DATA / f"{model}.mlir").read_text()
    imported = (
        import_text(text, f"{model}.mlir", same_models.weights_of(model)),
        read_pt2(DATA / f"{model}.pt2"),
    )
    x = same_models.input_of(model)
    programs = [tw.compile(each, (x,), no_host=True) for each in imported]
    first, second = (np.asarray(program(x)) for program in programs)
    np.testing.assert_array_equal(first, second)
    assert programs[0].cycles == programs[1].cycles


@needs_jax
def test_portable_artifact() -> None:
    """An artifact has no chlo: erfc arrives as polynomials, and GELU is whole all the same."""
    imported = import_model(str(DATA / "encoder.stablehlo"))
    assert WHOLE["encoder"].items() <= families(imported).items()
    weights = same_models.weights_of("encoder")
    given = {f"weights.{name}": array for name, array in weights.items()}
    given["x"] = same_models.input_of("encoder")
    inputs = [given[spec.name] for spec in imported.inputs]
    (result,) = run(imported.module, inputs, weights=imported.weights)
    np.testing.assert_allclose(result, same_models.expected("encoder"), rtol=0, atol=1e-5)


@needs_jax
@pytest.mark.filterwarnings("ignore")
@every_model
def test_live_jax(model: str) -> None:
    import same_models_jax  # pyright: ignore[reportMissingImports]

    from tilewright.frontend.jax import import_jax

    function, tree = same_models_jax.FUNCTIONS[model], same_models_jax.tree_of(model)
    x = same_models.input_of(model)
    imported = import_jax(function, x, weights=tree)
    saved = import_text(
        (DATA / f"{model}.mlir").read_text(), f"{model}.mlir", same_models.weights_of(model)
    )
    assert families(imported) == families(saved)
    check(imported, model)
    result = same_models_jax.jax.jit(function)(tree, x)
    np.testing.assert_allclose(result, same_models.expected(model), rtol=0, atol=1e-5)


@needs_torch
@pytest.mark.filterwarnings("ignore")
@every_model
def test_live_torch(model: str) -> None:
    import same_models_torch  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    from tilewright.frontend.torch import import_module

    module = same_models_torch.module_of(model)
    check(import_module(module, (torch.from_numpy(same_models.input_of(model)),)), model)
