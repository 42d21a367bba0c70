"""Models as functions on typed tensors: what they export, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.reference.executor import run


def evaluated(model, *inputs):
    imported = model.imported()
    return [np.asarray(v) for v in run(imported.module, list(inputs), weights=imported.weights)]


def test_grayscale_in_both_forms():
    @tw.model
    def product(image: tw.Tensor["f32", 2, 3, 4, 4]):
        weights = tw.constant([[0.299], [0.587], [0.114]])
        return image.transpose(0, 2, 3, 1).matmul(weights).transpose(0, 3, 1, 2)

    @tw.model
    def convolution(image: tw.Tensor["f32", 2, 3, 4, 4]):
        weights = tw.constant(np.reshape([0.299, 0.587, 0.114], (1, 3, 1, 1)))
        return image.conv2d(weights, padding="valid", layout="NCHW")

    x = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32)
    wanted = np.einsum("nchw,c->nhw", x, [0.299, 0.587, 0.114])[:, None]
    for model in (product, convolution):
        assert np.allclose(evaluated(model, x)[0], wanted, atol=1e-6)
        assert model.stablehlo().startswith("module @")
        assert model.stablehlo() == model.stablehlo()


def test_operations():
    shift = np.array([1.0, -2.0, 3.0])
    w = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)

    @tw.model
    def many(x: tw.Tensor["f32", 2, 4], n: tw.Tensor["i8", 2, 4]):
        h = (x.matmul(w) + shift).relu()
        return (
            h.softmax(),
            2.0 - x / 4.0,
            x.clip(-0.5, 0.5).exp(),
            x.mean(0),
            n.matmul(np.ones((4, 2))),
            n.convert("f32") * 0.5,
            x.sigmoid().tanh(),
        )

    rng = np.random.default_rng(2)
    x, n = (
        rng.standard_normal((2, 4)).astype(np.float32),
        rng.integers(-128, 128, (2, 4)).astype(np.int8),
    )
    h = np.maximum(x @ w + np.array([1, -2, 3]), 0)
    e = np.exp(h - h.max(1, keepdims=True))
    wanted = [
        e / e.sum(1, keepdims=True),
        2 - x / 4,
        np.exp(np.clip(x, -0.5, 0.5)),
        x.mean(0),
        n.astype(np.int32).sum(1, keepdims=True).repeat(2, 1),
        n * 0.5,
        np.tanh(1 / (1 + np.exp(-x))),
    ]
    for got, want in zip(evaluated(many, x, n), wanted, strict=True):
        assert np.allclose(got, want, atol=1e-5)


def test_a_model_inside_of_a_model():
    @tw.model
    def inner(x: tw.Tensor["f32", 3]):
        return x + 1.0

    @tw.model
    def outer(x: tw.Tensor["f32", 3]):
        return inner(x) * 2.0

    assert evaluated(outer, np.array([1, 2, 3], dtype=np.float32))[0].tolist() == [4, 6, 8]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda x: x.matmul(np.zeros((5, 2))), "do not fit"),
        (lambda x: x + np.zeros(3), "do not fit"),
        (lambda x: x.reshape(3, 3), "elements"),
        (lambda x: x.transpose(0, 0), "no order"),
        (lambda x: x.sum(7), "axes"),
        (lambda x: x.conv2d(np.zeros((3, 3, 1, 1))), "four dimensions"),
        (lambda x: x.convert("f16"), "no element type"),
        (lambda x: x.convert("i32").exp(), "needs f32"),
    ],
)
def test_what_does_not_fit_is_told_at_its_line(body, says):
    @tw.model
    def wrong(x: tw.Tensor["f32", 2, 4]):
        return body(x)

    with pytest.raises(TilewrightError) as error:
        wrong.stablehlo()
    assert says in str(error.value) and error.value.location is not None
    assert error.value.location.file == __file__


def test_annotations_and_results_are_checked():
    with pytest.raises(TilewrightError, match="no tensor type"):
        tw.model(lambda x: x)
    with pytest.raises(TilewrightError, match="is no tensor type"):
        tw.Tensor["f99", 3]
    with pytest.raises(TilewrightError, match="is no tensor type"):
        tw.Tensor["f32", 0]

    @tw.model
    def nothing(x: tw.Tensor["f32", 2]):
        return 3

    with pytest.raises(TilewrightError, match="does not return tensors"):
        nothing.stablehlo()
    with pytest.raises(TilewrightError, match="only while a model is traced"):
        tw.constant([1.0])
