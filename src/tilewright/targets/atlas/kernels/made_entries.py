"""Kernels that are made for every size, for the registry: sizes in, kernel and reference out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.targets.atlas.kernels import convolution, pooling, references_images, rotary
from tilewright.targets.atlas.kernels.images import Image, Window, prepared
from tilewright.targets.atlas.kernels.references import REFERENCES, Reference
from tilewright.tile.kernel import Kernel

Made = tuple[Kernel, Reference]


def _window(sizes: Mapping[str, int]) -> Window:
    return Window(
        sizes["KH"], sizes["KW"], sizes["stride"], sizes["padding"], sizes.get("dilation", 1)
    )


def _image(sizes: Mapping[str, int], window: Window, fill: str = "zero") -> Image:
    """The image with as many phases as the stride wants, and as little border as it can have."""
    batch = sizes["B"] if sizes.get("B", 1) > 1 else None
    phases = sizes["stride"] * sizes.get("phases", 1)
    image = Image(sizes["H"], sizes["W"], sizes["C"], phases, batch=batch, fill=fill)
    return prepared(image, window)


def conv2d(sizes: Mapping[str, int]) -> Made:
    """a convolution of images, plus bias"""
    window = _window(sizes)
    layer = convolution.conv2d(_image(sizes, window), sizes["N"], window, groups=sizes["groups"])
    return layer.kernel, references_images.conv2d(layer)


def conv2d_relu(sizes: Mapping[str, int]) -> Made:
    """relu(a convolution times a scale per filter, plus bias)"""
    window = _window(sizes)
    layer = convolution.conv2d(
        _image(sizes, window), sizes["N"], window,
        groups=sizes["groups"], scale=True, activation="relu",
    )  # fmt: skip
    return layer.kernel, references_images.conv2d(layer)


def conv2d_first(sizes: Mapping[str, int]) -> Made:
    """relu(a convolution plus bias), the image stored window by window by the host"""
    window = _window(sizes)
    layer = convolution.conv2d(
        _image(sizes, window), sizes["N"], window, activation="relu", unfolded=True
    )
    return layer.kernel, references_images.conv2d(layer, unfolded=True)


def depthwise_conv2d(sizes: Mapping[str, int]) -> Made:
    """relu6(a convolution of every channel with a filter of its own, plus bias)"""
    window = _window(sizes)
    layer = convolution.conv2d(
        _image(sizes, window), sizes["C"], window, groups=sizes["C"], activation="relu6"
    )
    return layer.kernel, references_images.conv2d(layer)


def max_pool(sizes: Mapping[str, int]) -> Made:
    """the largest of each window"""
    window = _window(sizes)
    layer = pooling.max_pool(_image(sizes, window, "lowest"), window)
    return layer.kernel, references_images.max_pool(layer)


def average_pool(sizes: Mapping[str, int]) -> Made:
    """the mean of each window, padding counted as zeros"""
    window = _window(sizes)
    layer = pooling.average_pool(_image(sizes, window), window)
    return layer.kernel, references_images.average_pool(layer)


def average_pool_inside(sizes: Mapping[str, int]) -> Made:
    """the mean of what each window sees of the image, padding not counted"""
    window = _window(sizes)
    layer = pooling.average_pool(_image(sizes, window), window, count_padding=False)
    return layer.kernel, references_images.average_pool(layer, counting=False)


def global_average_pool(sizes: Mapping[str, int]) -> Made:
    """the mean of every image, as rows of a matrix"""
    batch = sizes["B"] if sizes["B"] > 1 else None
    layer = pooling.global_average_pool(
        Image(sizes["H"], sizes["W"], sizes["C"], sizes["phases"], batch=batch)
    )
    return layer.kernel, references_images.global_average_pool(layer)


def add_images(sizes: Mapping[str, int]) -> Made:
    """relu(a + b) of two images"""
    layer = pooling.add_images(Image(sizes["H"], sizes["W"], sizes["C"], border=(1, 1)), "relu")
    return layer.kernel, references_images.add_images(layer)


def rope_split(sizes: Mapping[str, int]) -> Made:
    """rope for any even width, both halves of a head in tiles of their own"""
    return rotary.rope_split(sizes["M"], sizes["D"]), REFERENCES["rope"]


_ALL = (
    rope_split, conv2d, conv2d_relu, conv2d_first, depthwise_conv2d, max_pool, average_pool,
    average_pool_inside, global_average_pool, add_images,
)  # fmt: skip
MAKERS: dict[str, Callable[[Mapping[str, int]], Made]] = {f.__name__: f for f in _ALL}


def make(name: str, sizes: Mapping[str, Any]) -> Made:
    kernel, reference = MAKERS[name](sizes)
    kernel.name = name
    kernel.__doc__ = MAKERS[name].__doc__
    return kernel, reference
