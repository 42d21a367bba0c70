"""Small networks with seeded weights, in the model language: what the target has to run."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.model_language import Model, Tensor, constant, model


class Weights:
    """Seeded weights with a spread that keeps activations in range."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 16
        return (self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)


def gray_matmul() -> Model:
    @model
    def gray(image: Tensor["f32", 1, 3, 4, 4]) -> Tensor:
        weights = constant([[0.299], [0.587], [0.114]])
        return image.transpose(0, 2, 3, 1).matmul(weights).transpose(0, 3, 1, 2)

    return gray


def gray_conv() -> Model:
    @model
    def gray(image: Tensor["f32", 1, 3, 4, 4]) -> Tensor:
        weights = constant(np.reshape([0.299, 0.587, 0.114], (1, 3, 1, 1)))
        return image.conv2d(weights, padding="valid", layout="NCHW")

    return gray


def mlp() -> Model:
    w = Weights(1)

    @model
    def network(x: Tensor["f32", 1, 64]) -> Tensor:
        h = (x.matmul(w(64, 32)) + w(32)).relu()
        h = (h.matmul(w(32, 16)) + w(16)).tanh()
        return (h.matmul(w(16, 10)) + w(10)).softmax()

    return network


def separable_cnn() -> Model:
    w = Weights(2)

    @model
    def network(x: Tensor["f32", 1, 12, 12, 3]) -> Tensor:
        h = (x.conv2d(w(3, 3, 3, 8), strides=(2, 2)) + w(8)).clip(0.0, 6.0)
        h = (h.conv2d(w(3, 3, 1, 8), groups=8) + w(8)).clip(0.0, 6.0)
        h = (h.conv2d(w(1, 1, 8, 16)) + w(16)).clip(0.0, 6.0)
        r = (h.conv2d(w(3, 3, 1, 16), groups=16) + w(16)).relu()
        h = h + r.conv2d(w(1, 1, 16, 16))
        return h.mean(1, 2).matmul(w(16, 10)) + w(10)

    return network


def keyword_spotter() -> Model:
    """One-dimensional convolutions over 49 frames of 10 features."""
    w = Weights(3)

    @model
    def network(x: Tensor["f32", 1, 49, 10]) -> Tensor:
        h = x.reshape(1, 1, 49, 10)
        h = (h.conv2d(w(1, 5, 10, 16), strides=(1, 2)) + w(16)).relu()
        h = (h.conv2d(w(1, 3, 16, 12)) + w(12)).relu()
        return h.reshape(1, 25, 12).max(1).matmul(w(12, 6)) + w(6)

    return network


def autoencoder() -> Model:
    """640 to 128 to 8 and back, as the anomaly detector of MLPerf Tiny."""
    w = Weights(4)

    @model
    def network(x: Tensor["f32", 1, 640]) -> Tensor:
        h = x
        for wide, narrow in ((640, 128), (128, 128), (128, 128), (128, 128), (128, 8)):
            h = (h.matmul(w(wide, narrow)) + w(narrow)).relu()
        for wide, narrow in ((8, 128), (128, 128), (128, 128), (128, 128)):
            h = (h.matmul(w(wide, narrow)) + w(narrow)).relu()
        return h.matmul(w(128, 640)) + w(640)

    return network


def resnet8() -> Model:
    """The image classifier of MLPerf Tiny: three stages of one residual block."""
    w = Weights(5)

    @model
    def network(x: Tensor["f32", 1, 32, 32, 3]) -> Tensor:
        h = (x.conv2d(w(3, 3, 3, 16)) + w(16)).relu()
        channels = 16
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            s = (stride, stride)
            r = (h.conv2d(w(3, 3, channels, width), strides=s) + w(width)).relu()
            r = r.conv2d(w(3, 3, width, width)) + w(width)
            if width != channels:
                h = h.conv2d(w(1, 1, channels, width), strides=s) + w(width)
            h = (h + r).relu()
            channels = width
        return (h.mean(1, 2).matmul(w(64, 10)) + w(10)).softmax()

    return network


def ds_cnn() -> Model:
    """The keyword spotter of MLPerf Tiny: 49 x 10 features, four separable layers of 64."""
    w = Weights(6)

    @model
    def network(x: Tensor["f32", 1, 49, 10, 1]) -> Tensor:
        h = (x.conv2d(w(10, 4, 1, 64), strides=(2, 2)) + w(64)).relu()
        for _ in range(4):
            h = (h.conv2d(w(3, 3, 1, 64), groups=64) + w(64)).relu()
            h = (h.conv2d(w(1, 1, 64, 64)) + w(64)).relu()
        return (h.mean(1, 2).matmul(w(64, 12)) + w(12)).softmax()

    return network


SMALL = {
    "gray_matmul": gray_matmul,
    "gray_conv": gray_conv,
    "mlp": mlp,
    "separable_cnn": separable_cnn,
    "keyword_spotter": keyword_spotter,
}
LARGE = {"autoencoder": autoencoder, "resnet8": resnet8, "ds_cnn": ds_cnn}
