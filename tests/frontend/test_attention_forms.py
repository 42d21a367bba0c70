"""Attention as libraries write it is the device's, whatever stands around it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw

torch: Any = pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "attention_forms.py"
FORMS = [
    "packed, 3 in front",
    "packed per head",
    "no output projection",
    "heads by a reshape alone",
    "heads and batch in one",
    "heads as the result",
    "keys and values as results",
    "rope, part of a head",
    "rope, neighbours, part of a head",
    "rms norm before rope",
    "layer norm before rope",
    "bias of every head",
    "soft cap",
    "rope, 40 wide",
    "bare, 16 wide",
]


@pytest.fixture(scope="module")
def forms() -> Any:
    specification = importlib.util.spec_from_file_location("attention_forms", SCRIPT)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["attention_forms"] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", FORMS)
def test_attention_is_on_the_device(forms: Any, name: str) -> None:
    found = forms.tried(forms.FORMS[name])
    assert found.right and found.attends
    assert found.share == 0.0, found.reasons
    assert found.cosine > 0.995


def test_attention_of_jax() -> None:
    jax = pytest.importorskip("jax")
    random = np.random.default_rng(5)
    weights = [random.standard_normal((64, 64), np.float32) / 8 for _ in range(4)]
    x = random.standard_normal((1, 20, 64), np.float32)

    def model(given: Any, x: Any) -> Any:
        q, k, v = ((x @ w).reshape(1, 20, 4, 16) for w in given[:3])
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return mixed.reshape(1, 20, 64) @ given[3]

    program = tw.compile(model, (x,), weights=weights)
    assert program.verify().ok
    assert any(step.kernel.startswith("attention") for step in program.model.artifact.steps)
    assert program.model.provenance["host_share"] == 0.0
    found, expected = (np.asarray(y, np.float64).ravel() for y in (program(x), model(weights, x)))
    assert found @ expected / np.sqrt((found @ found) * (expected @ expected)) > 0.995


def test_attention_of_an_onnx_export() -> None:
    """Torch writes Softmax, IsNaN and Where: rows that see nothing would be NaN."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(6)
    later = np.where(np.tri(20, dtype=bool), 0.0, -np.inf).astype(np.float32)
    known = {
        **{f"w{n}": random.standard_normal((64, 64), np.float32) / 8 for n in "qkvo"},
        "heads": np.array([1, 20, 4, 16]),
        "rows": np.array([1, 20, 64]),
        "scale": np.array(0.25, np.float32),
        "zero": np.array(0.0, np.float32),
        "later": later[None, None],
    }
    nodes = []
    for n in "qkv":
        turned = [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]
        nodes += [
            helper.make_node("MatMul", ["x", f"w{n}"], [f"{n}0"]),
            helper.make_node("Reshape", [f"{n}0", "heads"], [f"{n}1"]),
            helper.make_node("Transpose", [f"{n}1"], [n], perm=turned),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["s0"]),
        helper.make_node("Mul", ["s0", "scale"], ["s1"]),
        helper.make_node("Add", ["s1", "later"], ["s2"]),
        helper.make_node("Softmax", ["s2"], ["p0"], axis=-1),
        helper.make_node("IsNaN", ["p0"], ["blind"]),
        helper.make_node("Where", ["blind", "zero", "p0"], ["p"]),
        helper.make_node("MatMul", ["p", "v"], ["y0"]),
        helper.make_node("Transpose", ["y0"], ["y1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["y1", "rows"], ["y2"]),
        helper.make_node("MatMul", ["y2", "wo"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 20, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 20, 64])],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model)
    program = tw.compile(model)
    assert program.verify().ok
    assert any(step.kernel.startswith("attention") for step in program.model.artifact.steps)
    assert program.model.provenance["host_share"] == 0.0


def matrices(x: Any, mask: Any = None) -> Any:
    """One head for every example of a batch, without a dimension for heads."""
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def spelled_out(x: Any, mask: Any) -> Any:
    scores = x @ x.transpose(1, 2) / x.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(~mask, -1e9), -1) @ x


def one_dimension(x: Any) -> Any:
    """Heads and batch as one dimension, as libraries wrote it for `bmm`."""
    batch, rows, wide = x.shape
    split = x.view(batch, rows, 3, wide // 3).transpose(1, 2).reshape(batch * 3, rows, wide // 3)
    scores = torch.bmm(split * (wide // 3) ** -0.5, split.transpose(1, 2))
    mixed = torch.bmm(torch.softmax(scores, -1), split).view(batch, 3, rows, wide // 3)
    return mixed.transpose(1, 2).reshape(batch, rows, wide) + x


def rotated_matrices(x: Any) -> Any:
    rows, wide = x.shape[1:]
    angles = torch.arange(rows)[:, None] * 1e4 ** (-torch.arange(wide // 2) / (wide // 2))
    cos, sin = torch.cat([angles] * 2, -1).cos(), torch.cat([angles] * 2, -1).sin()
    turned = x * cos + torch.cat([-x[..., wide // 2 :], x[..., : wide // 2]], -1) * sin
    return torch.nn.functional.scaled_dot_product_attention(turned, turned, x)


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize(
    "form, masks",
    [
        (matrices, ()),
        (matrices, (1, 15, 15)),
        (matrices, ("batch", 15, 15)),
        (spelled_out, ("batch", 15, 15)),
        (spelled_out, ("batch", 1, 15)),
        (one_dimension, ()),
        (rotated_matrices, ()),
    ],
)
@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_attention_of_three_dimensions(form: Any, masks: Any, batch: int, target: str) -> None:
    """Whether the first dimension counts examples, heads or both, the device attends."""
    torch.manual_seed(batch)
    inputs: list[Any] = [torch.randn(batch, 15, 48)]
    if masks:
        shape = [batch if n == "batch" else n for n in masks]
        inputs.append(torch.rand(shape) > 0.4)
        inputs[1][..., 0] = True  # every query sees a key
    program = tw.compile(form, tuple(inputs), target=target)
    assert program.verify(seed=1).ok
    assert any(step.kernel.startswith("attention") for step in program.model.artifact.steps)
    found, expected = (y.double().flatten() for y in (program(*inputs), form(*inputs)))
    assert found @ expected > 0.995 * found.norm() * expected.norm()
    assert (found - expected).norm() < 0.1 * expected.norm()
    assert program.model.provenance["host_share"] <= (0.05 if masks else 0.0)
