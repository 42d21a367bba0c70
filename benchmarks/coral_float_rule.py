"""f32 networks on Coral against XLA: no further from float64 than twice XLA, or 1e-6.

python benchmarks/coral_float_rule.py [--only NAME] [--inputs 3] [--no-qemu]

The networks are written in JAX, imported from there, and compiled for the smallest machine they fit.
With `e(v)` the largest distance of v from a float64 evaluation by JAX, relative to the largest value
(or 1): `e(ours) <= max(1e-6, 2 * e(XLA))` on every input. Bits and instruction count on QEMU have to
be those of our simulator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/coral"))

from coral_models import Weights

from coral_networks import counts, oracle
from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.jax import import_jax
from tilewright.model.options import CompileOptions
from tilewright.runtime.session import Session
from tilewright.targets.coral.qemu import qemu_missing

Network = Callable[[Any], Any]
LEAST = 1e-6
TOO_LARGE = ("TW5030", "TW5012")  # data or code


class Drawn:
    """Weights in the order they are asked for, the same at every evaluation."""

    def __init__(self, seed: int) -> None:
        self.weights, self.made, self.at = Weights(seed), list[np.ndarray](), 0

    def again(self, x: Any) -> None:
        self.at, self.dtype = 0, x.dtype

    def __call__(self, *shape: int) -> Any:
        if self.at == len(self.made):
            self.made.append(self.weights(*shape))
        self.at += 1
        return jnp.asarray(self.made[self.at - 1].astype(self.dtype))

    def conv(self, x: Any, *shape: int, stride: int = 1, groups: int = 1) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            self(*shape),
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        ) + self(shape[3])

    def dense(self, x: Any, wide: int, narrow: int) -> Any:
        return x @ self(wide, narrow) + self(narrow)


def gray_matmul(x: Any, w: Drawn) -> Any:
    weights = jnp.asarray([[0.299], [0.587], [0.114]], x.dtype)
    return jnp.moveaxis(jnp.moveaxis(x, 1, 3) @ weights, 3, 1)


def gray_conv(x: Any, w: Drawn) -> Any:
    weights = jnp.asarray([0.299, 0.587, 0.114], x.dtype).reshape(1, 3, 1, 1)
    return jax.lax.conv_general_dilated(x, weights, (1, 1), "VALID")


def mlp(x: Any, w: Drawn) -> Any:
    h = jax.nn.relu(w.dense(x, 64, 32))
    return jax.nn.softmax(w.dense(jax.nn.gelu(w.dense(h, 32, 16)), 16, 10))


def separable_cnn(x: Any, w: Drawn) -> Any:
    h = jax.nn.relu6(w.conv(x, 3, 3, 3, 8, stride=2))
    h = jax.nn.relu6(w.conv(h, 3, 3, 1, 8, groups=8))
    h = jax.nn.relu6(w.conv(h, 1, 1, 8, 16))
    r = jax.nn.relu(w.conv(h, 3, 3, 1, 16, groups=16))
    h = h + w.conv(r, 1, 1, 16, 16)
    return w.dense(h.mean((1, 2)), 16, 10)


def keyword_spotter(x: Any, w: Drawn) -> Any:
    for wide, narrow, width, stride in ((10, 16, 5, 2), (16, 12, 3, 1)):
        x = jax.lax.conv_general_dilated(
            x, w(width, wide, narrow), (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        )
        x = jax.nn.relu(x + w(narrow))
    return w.dense(x.max(1), 12, 6)


def autoencoder(x: Any, w: Drawn) -> Any:
    sizes = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    for wide, narrow in pairwise(sizes):
        x = jax.nn.relu(w.dense(x, wide, narrow))
    return w.dense(x, 128, 640)


def resnet8(x: Any, w: Drawn) -> Any:
    h, channels = jax.nn.relu(w.conv(x, 3, 3, 3, 16)), 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        r = jax.nn.relu(w.conv(h, 3, 3, channels, width, stride=stride))
        r = w.conv(r, 3, 3, width, width)
        if width != channels:
            h = w.conv(h, 1, 1, channels, width, stride=stride)
        h, channels = jax.nn.relu(h + r), width
    return jax.nn.softmax(w.dense(h.mean((1, 2)), 64, 10))


def ds_cnn(x: Any, w: Drawn) -> Any:
    h = jax.nn.relu(w.conv(x, 10, 4, 1, 64, stride=2))
    for _ in range(4):
        h = jax.nn.relu(w.conv(h, 3, 3, 1, 64, groups=64))
        h = jax.nn.relu(w.conv(h, 1, 1, 64, 64))
    return jax.nn.softmax(w.dense(h.mean((1, 2)), 64, 12))


NETWORKS: dict[str, tuple[Callable[[Any, Drawn], Any], tuple[int, ...]]] = {
    "gray_matmul": (gray_matmul, (1, 3, 4, 4)),
    "gray_conv": (gray_conv, (1, 3, 4, 4)),
    "mlp": (mlp, (1, 64)),
    "separable_cnn": (separable_cnn, (1, 12, 12, 3)),
    "keyword_spotter": (keyword_spotter, (1, 49, 10)),
    "autoencoder": (autoencoder, (1, 640)),
    "resnet8": (resnet8, (1, 32, 32, 3)),
    "ds_cnn": (ds_cnn, (1, 49, 10, 1)),
}


def compiled(network: Network, shape: tuple[int, ...]) -> Any:
    """For the small machine, else for the one with more memory."""
    imported = import_jax(network, jax.ShapeDtypeStruct(shape, jnp.float32))
    try:
        return compile_imported(imported, "coral", CompileOptions())
    except TilewrightError as error:
        if error.code not in TOO_LARGE:
            raise
    return compile_imported(imported, "coral-highmem", CompileOptions())


def distances(network: Network, x: np.ndarray, ours: np.ndarray) -> tuple[float, float]:
    """Of our result and of XLA's from float64."""
    xla = np.asarray(jax.jit(network)(x))
    with jax.enable_x64(True):
        exact = np.asarray(network(jnp.asarray(x.astype(np.float64))))
    assert exact.dtype == np.float64
    scale = max(1.0, float(np.abs(exact).max()))
    own, other = (float(np.abs(value - exact).max()) / scale for value in (ours, xla))
    return own, other


def main() -> int:
    parser = argparse.ArgumentParser(description="f32 networks on Coral against XLA")
    parser.add_argument("--only", help="only the networks with this in their names")
    parser.add_argument("--inputs", type=int, default=3, help="random inputs of each")
    parser.add_argument("--no-qemu", action="store_true", help="without the independent oracle")
    chosen = parser.parse_args()
    missing = "asked for" if chosen.no_qemu else qemu_missing()
    wrong = False
    print(f"XLA of jax {jax.__version__}; without QEMU: {missing or 'no'}")
    print(
        f"{'network':<17}{'machine':<15}{'instructions':>13}{'cycles':>13}{'text':>8}{'data':>10}"
        f"  {'ours':>8}{'XLA':>9}  {'rule':<7}QEMU"
    )
    for number, (name, (function, shape)) in enumerate(NETWORKS.items()):
        if chosen.only and chosen.only not in name:
            continue
        weights = Drawn(100 + number)

        def network(x: Any, function=function, weights=weights) -> Any:
            weights.again(x)
            return function(x, weights)

        made = compiled(network, shape)
        session = Session(made)
        rng = np.random.default_rng(number)
        holds, worst = True, (0.0, 0.0)
        for _ in range(chosen.inputs):
            x = rng.standard_normal(shape).astype(np.float32)
            own, other = distances(network, x, session.run([x])[0])
            holds &= own <= max(LEAST, 2 * other)
            worst = max(worst, (own, other))
        there = "-" if missing else oracle(made)
        instructions, cycles = counts(made.artifact)
        sizes = made.artifact.sizes
        print(
            f"{name:<17}{made.artifact.target:<15}{instructions:>13,}{f'{cycles:,}' if cycles else '-':>13}"
            f"{sizes['text']:>8,}{sizes['dtcm']['used']:>10,}  {worst[0]:>8.1e}{worst[1]:>9.1e}"
            f"  {'holds' if holds else 'BROKEN':<7}{there}",
            flush=True,
        )
        wrong |= not holds or there == "DIFFERS"
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
