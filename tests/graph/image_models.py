"""Small networks over images: strides, paddings, batches, sizes that are not whole tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute

from hand_made import AtlasModel
from tilewright.frontend.builder import ModelBuilder, Value, integers
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def classifier(height: int, width: int, batch: int = 2) -> Imported:
    """3 -> 16 -> 32 -> 32 channels, strides of 1 and 2, batch norm, pooling, a product."""
    net = ModelBuilder("classifier", seed=11)
    x = net.input("x", (batch, 3, height, width))
    x = net.conv2d(x, 16, 3, "conv1", padding=1)
    x = net.max_pool(net.relu(net.batch_norm(x, "bn1")), 2)
    x = net.conv2d(x, 32, 3, "conv2", stride=2, padding=1)
    x = net.relu(net.batch_norm(x, "bn2"))
    x = net.relu(net.conv2d(x, 32, 3, "conv3", padding=1, bias=False))
    x = global_average(net, x)
    net.output("y", net.linear(x, 10, "head"))
    return net.build()


def global_average(net: ModelBuilder, x: Value) -> Value:
    batch, channels, height, width = x.shape
    whole = {"kernel": integers([height, width]), "strides": integers([1, 1])}
    y = net._call("pool_avg", [x], (batch, channels, 1, 1), whole)
    return net.reshape(y, (batch, channels))


def pooled(
    net: ModelBuilder, kind: str, x: Value, size: int, stride: int, sides: Sequence[int],
    counting: bool = False,
) -> Value:  # fmt: skip
    """A pooling with padding: top, left, bottom, right."""
    batch, channels, *sizes = x.shape
    before = sizes[0] + sides[0] + sides[2], sizes[1] + sides[1] + sides[3]
    out = [(n - size) // stride + 1 for n in before]
    attributes: dict[str, Attribute] = {
        "kernel": integers([size, size]), "strides": integers([stride, stride]),
        "padding": integers(sides),
    }  # fmt: skip
    if counting:
        attributes["count_include_pad"] = UnitAttr()
    return net._call(kind, [x], (batch, channels, *out), attributes)


def flattened() -> Imported:
    """As of LeNet: pixels side by side in front of products; an activation that is not linear."""
    net = ModelBuilder("flattened", seed=12)
    x = net.input("x", (3, 1, 14, 13))
    x = net.silu(net.conv2d(x, 6, 5, "conv1", padding=2))
    x = net.average_pool(x, 2)
    x = net.unary("elementwise_tanh", net.conv2d(x, 40, 3, "conv2"))
    x = net.reshape(x, (3, 40 * 5 * 4))
    net.output("y", net.linear(net.relu(net.linear(x, 48, "fc1")), 10, "fc2"))
    return net.build()


def residual() -> Imported:
    """A residual block with a stride, its sum, and the feature map as a result beside the mean."""
    net = ModelBuilder("residual", seed=13)
    x = net.relu(net.conv2d(net.input("x", (1, 8, 17, 15)), 40, 3, "stem", padding=1))
    y = net.relu(net.conv2d(x, 40, 3, "a", stride=2, padding=1))
    y = net.conv2d(y, 40, 3, "b", padding=1)
    y = net.relu(y + net.conv2d(x, 40, 1, "shortcut", stride=2))
    net.output("map", y)
    net.output("mean", global_average(net, y))
    return net.build()


def edges() -> Imported:
    """Pooling beyond the edges: of negative numbers, of others, with and without counting."""
    net = ModelBuilder("edges", seed=14)
    x = net.conv2d(net.input("x", (2, 5, 11, 9)), 8, 3, "conv", padding=1)
    low = pooled(net, "pool_max", x, 3, 2, (1, 1, 1, 1))
    net.output("low", low)
    high = net.relu(net.conv2d(low, 8, 1, "second"))
    net.output("high", pooled(net, "pool_max", high, 3, 1, (1, 1, 1, 1)))
    net.output("mean", pooled(net, "pool_avg", high, 3, 2, (1, 0, 1, 2)))
    net.output("counted", pooled(net, "pool_avg", high, 2, 1, (1, 1, 0, 0), True))
    return net.build()


MODELS: dict[str, Callable[[], Imported]] = {
    "classifier": lambda: classifier(32, 32),
    "ragged": lambda: classifier(19, 23),
    "flattened": flattened,
    "residual": residual,
    "edges": edges,
}


@cache
def imported(name: str) -> Imported:
    return MODELS[name]()


@cache
def compiled(name: str, profile: str = "atlas-v1", fuse: bool = True) -> AtlasModel:
    options = CompileOptions(fuse=fuse, accuracy=True)
    return compile_model(imported(name), load_profile(profile), options)
