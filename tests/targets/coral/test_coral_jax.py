"""Models written in JAX: int8 equal to XLA, f32 no further from float64 than XLA allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
lax: Any = jax.lax
from coral_models import Weights  # noqa: E402

import tilewright as tw  # noqa: E402
from tilewright.frontend.jax import import_jax  # noqa: E402
from tilewright.targets.coral.compile import CoralOptions, compile_model  # noqa: E402
from tilewright.targets.coral.toolchain import toolchain_missing  # noqa: E402

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
IMAGES = ("NHWC", "HWIO", "NHWC")


def int8_cnn():
    rng = np.random.default_rng(0)
    w = jnp.asarray(rng.integers(-128, 128, (3, 3, 4, 8)), dtype=jnp.int8)
    d = jnp.asarray(rng.integers(-128, 128, (8, 10)), dtype=jnp.int8)

    def network(x):
        h = lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=IMAGES, preferred_element_type=jnp.int32
        )
        h = jnp.clip(jnp.round(h.astype(jnp.float32) * 0.0123), -128, 127).astype(jnp.int8)
        h = jnp.maximum(h, 0).astype(jnp.int32)
        h = lax.reduce_window(h, 0, lax.add, (1, 8, 8, 1), (1, 8, 8, 1), "VALID") // 64
        h = h.reshape(1, 8).astype(jnp.int8)
        return lax.dot_general(h, d, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)

    return network


def mobilenet(seed: int = 3):
    """3x3 to 8, depthwise, 1x1 to 16, depthwise, residual 1x1, batch norm and ReLU6, mean, dense."""
    w = Weights(seed)
    k = [w(3, 3, 3, 8), w(3, 3, 1, 8), w(1, 1, 8, 16), w(3, 3, 1, 16), w(1, 1, 16, 16), w(16, 10)]
    norms = [(1 + w(n), w(n), w(n), np.abs(w(n)) + 0.5) for n in (8, 8, 16, 16)]

    def norm(x, p):
        g, b, m, v = p
        return (x - m) * lax.rsqrt(v + 1e-5) * g + b

    def conv(x, weights, stride=1, groups=1):
        return lax.conv_general_dilated(
            x,
            weights.astype(x.dtype),
            (stride, stride),
            "SAME",
            dimension_numbers=IMAGES,
            feature_group_count=groups,
        )

    def network(x):
        h = jnp.clip(norm(conv(x, k[0], 2), norms[0]), 0, 6)
        h = jnp.clip(norm(conv(h, k[1], groups=8), norms[1]), 0, 6)
        h = jnp.clip(norm(conv(h, k[2]), norms[2]), 0, 6)
        r = jnp.clip(norm(conv(h, k[3], groups=16), norms[3]), 0, 6)
        h = h + conv(r, k[4])
        return jax.nn.softmax(h.mean((1, 2)) @ k[5])

    return network


def test_int8_cnn_is_xla():
    network = int8_cnn()
    made = compile_model(import_jax(network, jax.ShapeDtypeStruct((1, 8, 8, 4), jnp.int8)))
    sizes = made.sizes
    data = sizes["data"] + sizes["arena"] + sizes["constants"]
    assert data < 4096 and sizes["text"] < 8192
    rng = np.random.default_rng(1)
    cases = [rng.integers(-128, 128, (1, 8, 8, 4)).astype(np.int8) for _ in range(4)]
    cases += [np.full((1, 8, 8, 4), v, dtype=np.int8) for v in (-128, 127)]
    for case in cases:
        assert np.array_equal(made.run([case])[0], np.asarray(jax.jit(network)(case)))


def float_rule(network, made, inputs: list[np.ndarray]) -> None:
    """No further from float64 than twice XLA, or 1e-6, relative to the largest value."""
    for x in inputs:
        ours = made.run([x])[0]
        xla = np.asarray(jax.jit(network)(x))
        with jax.enable_x64(True):
            exact = np.asarray(network(x.astype(np.float64)))
        scale = max(1.0, float(np.abs(exact).max()))
        error, allowed = (float(np.abs(v - exact).max()) / scale for v in (ours, xla))
        assert error <= max(1e-6, 2 * allowed)


def test_mobilenet():
    network = mobilenet()
    imported = import_jax(network, jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.float32))
    made = compile_model(imported, "coral-highmem")
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((1, 32, 32, 3)).astype(np.float32) for _ in range(3)]
    float_rule(network, made, inputs)
    rows = compile_model(imported, "coral")  # maps of 16 KB, row by row
    assert rows.fits and np.array_equal(rows.run([inputs[0]])[0], made.run([inputs[0]])[0])
    small = compile_model(imported, "coral", CoralOptions(precision="int8"), [[x] for x in inputs])
    assert small.fits and small.verify(1).ok
    for x in inputs:
        got = small.dequantised(small.run([x]))[0]
        assert np.abs(got - np.asarray(network(x))).max() < 0.05


def test_mlp_by_the_rule():
    w = Weights(7)
    k = [w(64, 32), w(32), w(32, 16), w(16), w(16, 10), w(10)]

    def network(x):
        h = jax.nn.relu(x @ k[0] + k[1])
        return jax.nn.softmax(jax.nn.gelu(h @ k[2] + k[3]) @ k[4] + k[5])

    made = compile_model(import_jax(network, jax.ShapeDtypeStruct((1, 64), jnp.float32)))
    rng = np.random.default_rng(4)
    float_rule(network, made, [rng.standard_normal((1, 64)).astype(np.float32) for _ in range(5)])


def test_semantics_of_odd_operations():
    """Division, remainders, shifts of signs, conversions and extremes as XLA has them."""
    values = np.array([0, 1, -1, 7, -8, 100, 2**31 - 1, -(2**31)], dtype=np.int32)
    floats = np.array([0.0, -0.0, 1.5, -2.5, 3e9, -3e9, np.inf, np.nan], dtype=np.float32)

    def network(a, b, f, g):
        return (
            lax.div(a, b),
            jnp.maximum(f, g),
            jnp.minimum(f, g),
            lax.round(f, lax.RoundingMethod.TO_NEAREST_EVEN),
            jnp.floor(f),
            f.astype(jnp.int32),
            f.astype(jnp.int8),
            a.astype(jnp.int8),
            jnp.abs(a),
            jnp.where(f < g, f, g),
            jnp.sqrt(f),
            f != g,
        )

    shapes = [
        jax.ShapeDtypeStruct((64,), d) for d in (jnp.int32, jnp.int32, jnp.float32, jnp.float32)
    ]
    made = compile_model(import_jax(network, *shapes))
    a, b = (v.reshape(-1) for v in np.meshgrid(values, values))
    f, g = (v.reshape(-1) for v in np.meshgrid(floats, floats))
    wanted = [np.asarray(v) for v in jax.jit(network)(a, b, f, g)]
    for got, want in zip(made.run([a, b, f, g]), wanted, strict=True):
        assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
        if got.dtype.kind == "f":
            assert np.array_equal(
                np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)])
            )


def test_a_long_recording_on_the_small_machine():
    """Convolutions and a pool along time whose first map takes 56 KB."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal((7, 2, 20)).astype(np.float32) / 4
    second = rng.standard_normal((5, 20, 12)).astype(np.float32) / 10

    def spotter(x):
        sides = ("NWC", "WIO", "NWC")
        h = jax.lax.conv_general_dilated(x, first, (1,), "SAME", dimension_numbers=sides)
        h = jax.lax.reduce_window(
            jax.nn.relu(h), -jnp.inf, jax.lax.max, (1, 2, 1), (1, 2, 1), "VALID"
        )
        h = jax.lax.conv_general_dilated(
            h, second, (1,), "SAME", rhs_dilation=(2,), dimension_numbers=sides
        )
        return jax.nn.relu(h).max(1)

    x = rng.standard_normal((1, 700, 2)).astype(np.float32)
    program = tw.compile(spotter, (x,), target="coral", no_host=True)
    assert np.allclose(program(x), spotter(x), atol=2e-6) and program.verify().ok
