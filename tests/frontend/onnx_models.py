"""Small ONNX models for tests, and one way to run them on the importer and on ONNX's evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tilewright.frontend.onnx import OnnxModel, read_onnx
from tilewright.reference.executor import run

Array = np.ndarray[Any, np.dtype[Any]]


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 23,
) -> ModelProto:
    """A model of nodes; inputs are name -> (element type, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def kernels(imported: OnnxModel) -> list[str]:
    """The kernels of a module in order, without the prefix of their symbols."""
    names = []
    for op in imported.module.walk():
        if op.name == "npu_kernel.matmul":
            names.append("matmul")
        elif op.name == "npu_kernel.ukernel_generic":
            names.append(op.properties["symbol"].data.removeprefix("npu_uk_"))  # type: ignore
    return names


def check(proto: ModelProto, *inputs: Array, rtol: float = 1e-5, atol: float = 1e-6) -> OnnxModel:
    """Import and run a model, and compare with ONNX's own evaluator."""
    imported = read_onnx(proto)
    got = run(imported.module, list(inputs), weights=imported.weights)
    feeds = dict(zip([spec.name for spec in imported.inputs], inputs, strict=True))
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    for have, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(have, np.asarray(want), rtol=rtol, atol=atol)
    return imported
