"""Whole models: simplified they compute the same in the vocabulary kernels have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spelled import counts

from tilewright.dialects.context import make_context
from tilewright.dialects.verification import verify_module
from tilewright.dialects.xdsl_api import DenseResourceAttr, ModuleOp, TensorType, arith
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.frontend.mlir import read_mlir
from tilewright.frontend.pt2 import read_pt2
from tilewright.model.simplify import simplify
from tilewright.reference import dtypes
from tilewright.reference.executor import run
from tilewright.transforms.convert_linalg_to_npu_kernel import ConvertLinalgToNPUKernel
from tilewright.transforms.known_values import KnownValues

DATA = Path(__file__).parents[1] / "data"
SAVED = sorted((DATA / "pt2").glob("*.pt2"))
BLOCKS = sorted((DATA / "mlir").glob("*.mlir"))


def same(before: list[np.ndarray], after: list[np.ndarray], tolerance: float) -> None:
    for old, new in zip(before, after, strict=True):
        assert old.shape == new.shape and old.dtype == new.dtype
        wide, other = old.astype(np.float64), new.astype(np.float64)
        scale = np.max(np.abs(wide), initial=1.0, where=np.isfinite(wide))
        np.testing.assert_allclose(other, wide, rtol=tolerance, atol=tolerance * scale)


def random_array(type_: object, rng: np.random.Generator) -> np.ndarray:
    element = dtypes.element_type(type_)  # type: ignore[arg-type]
    shape = type_.get_shape()  # type: ignore[attr-defined]
    if element.kind == "bool":
        return np.tril(np.ones(shape, np.bool_), shape[-1] - shape[-2])
    if not element.is_float:
        return rng.integers(0, 5, shape).astype(element.storage)
    return (0.5 * rng.standard_normal(shape)).astype(np.float32).astype(element.storage)


@pytest.mark.parametrize("path", SAVED, ids=lambda p: p.stem)
def test_saved_models(path: Path):
    model = read_pt2(path)
    result = simplify(model)
    verify_module(result.module)
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as stored:
        arrays = [stored[f"in_{i}"] for i in range(len(model.inputs))]
    given = [
        dtypes.from_safetensors(array, dtypes.element_type(argument.type))
        for array, argument in zip(arrays, _arguments(model.module), strict=True)
    ]
    before = run(model.module, given, weights=model.weights)
    after = run(result.module, given, weights=result.weights)
    same(before, after, 2e-2 if "bf16" in path.stem else 1e-5)
    assert sum(counts(result.module).values()) <= sum(counts(model.module).values())
    assert set(model.state) <= set(result.weights)


def _arguments(module: ModuleOp):
    return next(op for op in module.walk() if op.name == "func.func").regions[0].block.args


def block(path: Path, rng: np.random.Generator) -> Imported:
    """A linalg block as kernel intents with random weights."""
    module = read_mlir(path)
    ConvertLinalgToNPUKernel(unmapped="host").apply(make_context(), module)
    weights: dict[str, np.ndarray] = {}
    for op in module.walk():
        value = op.value if isinstance(op, arith.ConstantOp) else None
        if isinstance(value, DenseResourceAttr) and isinstance(op.results[0].type, TensorType):
            type_ = op.results[0].type
            scale = max(1, type_.get_shape()[-1]) ** -0.5 if len(type_.get_shape()) > 1 else 1
            array = random_array(type_, rng)
            weights[value.resource_handle.data] = (array * scale).astype(array.dtype)
    return Imported(module, weights, (), (), str(path))


# What is left of a transformer block, besides reshapes and transposes.
DECODER = {"matmul": 7, "elementwise_add": 2, "rms_norm": 2, "rope": 2, "gemma_attention": 1, "silu_gate": 1}  # fmt: skip
VOCABULARY = {
    "text_block_eager": DECODER,
    "text_block_eager.optimised": DECODER,
    "text_block.optimised": DECODER,
    "text_block_241": DECODER,
    "smollm2_block": DECODER,
    "text_block_interleaved": DECODER,
    "expert_block_eager": {**DECODER, "rope": 1},
    "expert_block_concat": {**DECODER, "concat": 2},
    "text_block_bf16": {**DECODER, "cast": 4},
    "vision_block_eager": {
        "matmul": 6, "elementwise_add": 8, "layer_norm": 2, "gemma_attention": 1, "gelu_tanh": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_blocks_come_down_to_their_vocabulary(name: str):
    model = block(DATA / "mlir" / f"{name}.mlir", np.random.default_rng(0))
    result = simplify(model)
    verify_module(result.module)
    families = counts(result.module)
    families = {k: v for k, v in families.items() if k not in ("reshape", "transpose")}
    assert families == VOCABULARY[name]


@pytest.mark.parametrize("name", ["expert_block_eager", "text_block_bf16", "text_block.optimised"])
def test_blocks_compute_the_same(name: str):
    rng = np.random.default_rng(1)
    model = block(DATA / "mlir" / f"{name}.mlir", rng)
    result = simplify(model)
    inputs = [random_array(a.type, rng) for a in _arguments(model.module)]
    before = run(model.module, inputs, weights=model.weights)
    after = run(result.module, inputs, weights=result.weights)
    same(before, after, 3e-2 if "bf16" in name else 1e-5)


def test_the_same_input_gives_the_same_text():
    path = DATA / "mlir" / "text_block_eager.mlir"
    texts = {str(simplify(block(path, np.random.default_rng(0))).module) for _ in range(2)}
    assert len(texts) == 1


def test_grouped_heads_and_mask_of_the_eager_block():
    model = block(DATA / "mlir" / "text_block_eager.mlir", np.random.default_rng(0))
    text = str(simplify(model).module)
    assert 'scale = 1.250000e-01 : f32, kv_group = 3 : i64, mask_kind = "bool"' in text


def test_networks_are_deeper_than_python_calls() -> None:
    """What is known is asked for along a chain of thousands of operations, from its end."""
    net = ModelBuilder("deep", seed=1)
    x = net.input("x", (2, 4))
    for _ in range(3000):
        x = net.unary("elementwise_abs", x)
    net.output("y", x)
    model = net.build()
    last = next(op for op in model.module.walk() if op.name == "func.return").operands[0]
    assert not KnownValues(model.weights).is_known(last)
