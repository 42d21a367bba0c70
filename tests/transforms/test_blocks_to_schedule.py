"""Blocks of real models keep every bit on the way from linalg to tile loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.dialects.context import make_context
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.parsing import parse_file
from tilewright.dialects.xdsl_api import DenseResourceAttr, ModuleOp, TensorType
from tilewright.reference import dtypes
from tilewright.reference.executor import functions_of, run
from tilewright.transforms.pass_pipeline import named_pipeline, parse_pipeline, run_passes

BLOCKS = Path(__file__).parents[1] / "data" / "mlir"


def random_tensor(rng: np.random.Generator, type_: TensorType, scale: float) -> np.ndarray:
    element = dtypes.element_type(type_)
    shape = tuple(type_.get_shape())
    if str(element) == "i1":
        return rng.random(shape) < 0.8
    if not element.is_float:
        return rng.integers(0, 4, shape).astype(element.storage)
    return dtypes.stored((scale * rng.standard_normal(shape)).astype(np.float32), element)


def random_weights(rng: np.random.Generator, module: ModuleOp) -> dict[str, np.ndarray]:
    """A tensor for every `dense_resource` the module names."""
    weights = {}
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, DenseResourceAttr):
                assert isinstance(attribute.type, TensorType)
                name = attribute.resource_handle.data
                weights[name] = random_tensor(rng, attribute.type, 0.05)
    return weights


@pytest.mark.parametrize(
    "name", ["expert_block_cross", "text_block_interleaved", "text_block_bf16.optimised"]
)
def test_the_schedule_computes_what_the_block_does(name: str) -> None:
    path = str(BLOCKS / f"{name}.mlir")
    before, after = parse_file(path), parse_file(path)
    run_passes(before, parse_pipeline("unwrap-iree,canonicalize"), make_context())
    run_passes(after, named_pipeline("atlas"), make_context())
    assert not any(isinstance(op, (MatmulOp, UKernelGenericOp)) for op in after.walk())
    assert not any(op.name.startswith("linalg.") for op in after.walk())
    rng = np.random.default_rng(0)
    weights = random_weights(rng, before)
    (function,) = functions_of(before).values()
    types = [argument.type for argument in function.regions[0].blocks[0].args]
    inputs = [random_tensor(rng, type_, 1.0) for type_ in types if isinstance(type_, TensorType)]
    (want,), (have,) = (run(module, inputs, weights=weights) for module in (before, after))
    assert np.isfinite(want.astype(np.float32)).all()
    assert want.tobytes() == have.tobytes()
