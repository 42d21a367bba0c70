"""Single blocks of convolutional networks at the sizes they have in them: cycles of every kernel
against its bound, exactness, what compiling takes. A block takes seconds, a network minutes.

    python benchmarks/image_blocks.py
    python benchmarks/image_blocks.py --only dense

The exit code is 1 if a value was wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, UnitAttr, f32, i64

from tilewright.dialects.intents import map_attribute
from tilewright.frontend.builder import ModelBuilder, Value, integers
from tilewright.program import Program
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

Act = Callable[[ModelBuilder, Value], Value]


def relu6(net: ModelBuilder, x: Value) -> Value:
    limits = {"min": FloatAttr(0.0, f32), "max": FloatAttr(6.0, f32)}
    return net._call("clamp", [x], x.shape, limits)


def silu(net: ModelBuilder, x: Value) -> Value:
    return net.silu(x)


def depthwise(net: ModelBuilder, x: Value, size: int, stride: int = 1) -> Value:
    batch, channels, *sizes = x.shape
    weight = net.drawn("depthwise.weight", (channels, 1, size, size), 1 / size)
    bias = net.drawn("depthwise.bias", (channels,), 0.1)
    side = size // 2
    out = [(n + 2 * side - size) // stride + 1 for n in sizes]
    attributes = {
        "strides": integers([stride, stride]), "padding": integers([side] * 4),
        "groups": IntegerAttr(channels, i64),
    }  # fmt: skip
    return net._call("conv2d", [x, weight, bias], (batch, channels, *out), attributes)


def squeezed(net: ModelBuilder, x: Value, width: int) -> Value:
    """x times a number per channel that is made of its means."""
    batch, channels, _, _ = x.shape
    axes = {"axes": integers([2, 3]), "keepdims": UnitAttr()}
    y = net._call("reduction_mean", [x], (batch, channels, 1, 1), axes)
    y = net.conv2d(net.silu(net.conv2d(y, width, 1, "reduce")), channels, 1, "expand")
    maps = ArrayAttr([map_attribute(4, [0, 1, 2, 3]), map_attribute(4, [0, 1, None, None])])
    gate = net.unary("elementwise_sigmoid", y)
    return net._call("elementwise_mul", [x, gate], x.shape, {"operand_maps": maps})


def inverted(size: int, narrow: int, wide: int, window: int, act: Act, squeeze: int = 0):
    """Widen, look at every channel, narrow, add."""
    net = ModelBuilder("inverted", seed=3)
    x = net.conv2d(net.input("x", (1, 3, size, size)), narrow, 3, "stem", padding=1)
    y = act(net, depthwise(net, act(net, net.conv2d(x, wide, 1, "widen")), window))
    y = squeezed(net, y, squeeze) if squeeze else y
    net.output("y", x + net.conv2d(y, narrow, 1, "narrow"))
    return net.build()


def strided(size: int, narrow: int, wide: int, after: int):
    """Widen, look at every channel with a stride of 2, narrow."""
    net = ModelBuilder("strided", seed=3)
    x = relu6(net, net.conv2d(net.input("x", (1, 3, size, size)), narrow, 1, "stem"))
    y = relu6(net, depthwise(net, relu6(net, net.conv2d(x, wide, 1, "widen")), 3, 2))
    net.output("y", net.conv2d(y, after, 1, "narrow"))
    return net.build()


def next_block(size: int, channels: int):
    """A large window over every channel, a norm and two linear layers with channels last."""
    net = ModelBuilder("next", seed=3)
    x = net.conv2d(net.input("x", (1, 32, size, size)), channels, 1, "stem")
    y = net.layer_norm(net.transpose(depthwise(net, x, 7), (0, 2, 3, 1)), "norm")
    y = net.linear(net.gelu(net.linear(y, 4 * channels, "fc1")), channels, "fc2")
    gains = net.drawn("gains", (channels,), 0.4)
    net.output("y", x + net._along(net.transpose(y, (0, 3, 1, 2)), gains, 1, "mul"))
    return net.build()


def dense(size: int, channels: int, growth: int):
    """Norms in front of convolutions, whose results are joined to what they saw."""
    net = ModelBuilder("dense", seed=3)
    x = net.conv2d(net.input("x", (1, 3, size, size)), channels, 3, "stem", padding=1)
    for k in range(3):
        with net.layer(f"layer{k}"):
            y = net.relu(net.batch_norm(x, "norm1"))
            y = net.batch_norm(net.conv2d(y, 4 * growth, 1, "conv1", bias=False), "norm2")
            y = net.conv2d(net.relu(y), growth, 3, "conv2", padding=1, bias=False)
            x = net.concat([x, y], 1)
    net.output("y", x)
    return net.build()


BLOCKS = {
    "mobilenet_v2 112": lambda: strided(112, 16, 96, 24),
    "mobilenet_v2 56": lambda: inverted(56, 24, 144, 3, relu6),
    "mobilenet_v2 14": lambda: inverted(14, 96, 576, 3, relu6),
    "mobilenet_v2 7": lambda: inverted(7, 160, 960, 3, relu6),
    "efficientnet_b0 14": lambda: inverted(14, 112, 672, 5, silu, 28),
    "efficientnet_b0 7": lambda: inverted(7, 192, 1152, 5, silu, 48),
    "convnext_tiny 14": lambda: next_block(14, 384),
    "densenet 14": lambda: dense(14, 256, 32),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="names that contain this")
    parser.add_argument("--target", default="atlas-v1")
    options = parser.parse_args()
    right = True
    for name, make in BLOCKS.items():
        if options.only and not any(text in name for text in options.only):
            continue
        model = make()
        began = time.process_time()
        compiled = compile_model(model, load_profile(options.target))
        seconds = time.process_time() - began
        program = Program(compiled, original=model)
        found, report = program.verify(), program.report()
        right &= found.ok
        bound = report.bound or np.nan
        print(
            f"{name}: {'exact' if found.ok else 'WRONG'}, {found.cycles:,} cycles, "
            f"{found.cycles / bound:.2f} x bound, compiled in {seconds:.1f} s"
        )
        for step in report.to_json()["steps"]:
            print(f"    {step['kernel']:10} {step['name'][:28]:28} {step['cycles']:>10,} "
                  f"(bound {step['bound'] or 0:,})")  # fmt: skip
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
