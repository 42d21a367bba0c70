"""Functions that keep their digits near zero: in float32, and on a machine that rounds to bf16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.frontend import near_zero

F32 = np.float32


def apply(family: str, *operands: Any) -> Any:
    """Intents on numpy, every step rounded to float32."""
    function: dict[str, Callable[..., Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
        "abs": np.abs, "exp": np.exp, "log": np.log, "tanh": np.tanh, "min": np.minimum,
        "max": np.maximum, "relu": lambda x: np.maximum(x, F32(0)),
    }  # fmt: skip
    return function[family.removeprefix("elementwise_")](*map(F32, operands))


def spread(low: float, high: float) -> np.ndarray:
    """Numbers of both signs, of every magnitude from 1e-9 on."""
    sizes = np.logspace(-9, np.log10(max(-low, high)), 4000)
    return np.concatenate([-sizes[sizes <= -low], sizes[sizes <= high]]).astype(F32)


@pytest.mark.parametrize(
    ("ours", "exact", "numbers"),
    [
        (near_zero.expm1, np.expm1, spread(-80, 80)),
        (near_zero.log1p, np.log1p, spread(-0.999, 1e30)),
        (near_zero.sinh, np.sinh, spread(-80, 80)),
        (near_zero.softplus, lambda x: np.logaddexp(0, x), spread(-80, 80)),
        (near_zero.elu, lambda x: np.where(x > 0, x, np.expm1(x)), spread(-80, 80)),
    ],
)
def test_every_digit_of_float32(
    ours: Callable[..., Any], exact: Callable[..., Any], numbers: np.ndarray
):
    with np.errstate(all="ignore"):
        found, expected = ours(apply, numbers), exact(numbers.astype(np.float64))
    assert np.all(np.abs(found - expected) <= 6e-7 * np.abs(expected))


def test_at_the_edges():
    edges = np.array([np.inf, -np.inf, np.nan, 0.0, -1.0, -2.0], F32)
    with np.errstate(all="ignore"):
        for ours, exact in (
            (near_zero.expm1, np.expm1),
            (near_zero.log1p, np.log1p),
            (near_zero.sinh, np.sinh),
            (near_zero.softplus, lambda x: np.logaddexp(F32(0), x)),
        ):
            np.testing.assert_allclose(ours(apply, edges), exact(edges), rtol=1e-6)


@pytest.mark.parametrize(
    ("operator", "exact"),
    [
        ("Elu", lambda x: np.where(x > 0, x, np.expm1(x))),
        ("Softplus", lambda x: np.logaddexp(0, x)),
        ("Mish", lambda x: x * np.tanh(np.logaddexp(0, x))),
        ("Sinh", np.sinh),
    ],
)
def test_on_the_device(operator: str, exact: Callable[..., Any]):
    """Relative precision of bf16 for small arguments, and for large negative ones."""
    shape = [64, 32]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])],
        operator,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    program = tw.compile(model, no_host=True)
    numbers = np.concatenate([np.linspace(-6, -0.001, 1024), np.linspace(-0.03, 0.03, 1024)])
    x = numbers.astype(np.float32).reshape(shape)
    expected = exact(x.astype(np.float64))
    error = np.abs(program(x) - expected) / np.abs(expected)
    assert np.quantile(error, 0.99) < 0.03, operator
