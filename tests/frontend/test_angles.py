"""Inverse functions against float64, also where zeros have signs and numbers have no end; shifts by values."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.frontend.mlir_model import import_mlir
from tilewright.reference.executor import Executor

EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38, -3e38, 0.5, 2.0],
    np.float32,
)


def run(text: str, *inputs: np.ndarray) -> np.ndarray:
    imported = import_mlir(text, "function")
    (found,) = Executor(imported.module, imported.weights).run(list(inputs), "main")
    return np.asarray(found)


def unary(name: str, x: np.ndarray) -> np.ndarray:
    kind = f"tensor<{x.size}xf32>"
    body = f"%y = chlo.{name} %x : {kind} -> {kind}"
    return run(f"func.func @main(%x: {kind}) -> {kind} {{\n{body}\nreturn %y : {kind}\n}}\n", x)


def close(got: np.ndarray, want: np.ndarray) -> None:
    """The same specials and signs of zeros; numbers within 6 units in the last place."""
    want = want.astype(np.float64)
    special = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[special], want[special])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    error = np.abs(got[~special] - want[~special])
    assert np.all(error <= 6 * np.spacing(np.abs(want[~special]).astype(np.float32)))


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("atan", np.arctan),
        ("asin", np.arcsin),
        ("acos", np.arccos),
        ("asinh", np.arcsinh),
        ("acosh", np.arccosh),
        ("atanh", np.arctanh),
    ],
)
def test_inverse_functions(name, exact):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(400) * s for s in (0.01, 0.5, 30)]).astype(np.float32)
    if name in ("acosh",):
        x = np.abs(x) + np.float32(1)
    x = np.concatenate([x, EDGES])
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
    # 1 + x and 1 - x are rounded near their zeros; the functions are steep there.
    steep = (np.abs(np.abs(x) - 1) < 1e-2) & (np.abs(x) != 1)
    close(unary(name, x)[~steep], want[~steep])


def test_atan2_of_every_pair_of_edges():
    rng = np.random.default_rng(2)
    y, x = (v.reshape(-1) for v in np.meshgrid(EDGES, EDGES))
    more = rng.standard_normal((2, 500)) * 10.0 ** rng.integers(-6, 7, (2, 500))
    y, x = (np.concatenate([a, b]).astype(np.float32) for a, b in zip((y, x), more, strict=True))
    kind = f"tensor<{x.size}xf32>"
    body = f"%r = stablehlo.atan2 %y, %x : {kind}"
    text = f"func.func @main(%y: {kind}, %x: {kind}) -> {kind} {{\n{body}\nreturn %r : {kind}\n}}\n"
    # A quotient below the smallest float is 0, with its sign.
    want = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    normal = (np.abs(want) > 1.2e-38) | (want == 0) | np.isnan(want)
    close(run(text, y, x)[normal], want[normal])


SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("ui8", "ui32")
SHIFTS = [
    (name, dtype)
    for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")
    for dtype in (SIGNED if name.endswith("arithmetic") else SIGNED + UNSIGNED)
]


@pytest.mark.parametrize(("name", "dtype"), SHIFTS)
def test_shifts_by_values(name, dtype):
    """Places outside of the type leave 0 or the sign."""
    storage = np.dtype(f"{'u' if dtype.startswith('u') else ''}int{dtype.lstrip('ui')}")
    width, limits = 8 * storage.itemsize, np.iinfo(storage)
    rng = np.random.default_rng(width)
    x = rng.integers(limits.min, limits.max, 300, storage, endpoint=True)
    x[:3] = limits.min, limits.max, 0
    places = rng.integers(0 if limits.min == 0 else -9, width + 9, 300).astype(storage)
    kind = f"tensor<300x{dtype}>"
    body = f"%r = stablehlo.{name} %x, %s : {kind}"
    text = f"func.func @main(%x: {kind}, %s: {kind}) -> {kind} {{\n{body}\nreturn %r : {kind}\n}}\n"
    got = run(text, x, places)
    for value, place, found in zip(x.tolist(), places.tolist(), got.tolist(), strict=True):
        outside = not 0 <= place < width
        if name == "shift_left":
            wanted = 0 if outside else value << place
        elif name == "shift_right_logical":
            wanted = 0 if outside else (value & ((1 << width) - 1)) >> place
        else:
            wanted = value >> (width - 1 if outside else place)
        assert (found - wanted) % (1 << width) == 0, (value, place)
