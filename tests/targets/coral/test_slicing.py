"""Batches and rows that do not fit are computed part by part, with the bits of whole values."""

from __future__ import annotations

import numpy as np
import pytest
from coral_models import Weights
from test_streaming import with_data

from tilewright.frontend.imported import Imported
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tensor, model
from tilewright.targets.coral.compile import CoralOptions, compile_model, random_inputs, same_bits
from tilewright.targets.coral.from_kernels import program_of
from tilewright.targets.coral.groups import make_groups
from tilewright.targets.coral.slicing import find_slices
from tilewright.targets.coral.toolchain import toolchain_missing

needs_toolchain = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")


def images() -> Imported:
    """Three images: strides, padding, a skip, an image that is kept, a sum, a mean and a product."""
    w = Weights(21)

    @model
    def network(x: Tensor["f32", 3, 17, 9, 3]) -> tuple[Tensor, ...]:
        h = (x.conv2d(w(3, 3, 3, 6), strides=(2, 1), padding=((2, 0), (1, 1))) + w(6)).relu()
        s = h
        h = (h.conv2d(w(5, 3, 1, 6), groups=6) + w(6)).relu()
        h = h.conv2d(w(1, 1, 6, 6)) + s
        k = h.conv2d(w(3, 2, 6, 5), padding=((0, 1), (0, 0)), strides=(2, 2)).tanh()
        return k, k.sum(1, 2), k.mean(1, 2).matmul(w(5, 4)).softmax()

    return network.imported()


def rows() -> Imported:
    """Twelve rows through products that are wider than what goes in and comes out."""
    w = Weights(22)

    @model
    def network(x: Tensor["f32", 12, 10]) -> Tensor:
        h = (x.matmul(w(10, 64)) + w(64)).tanh()
        return (h.matmul(w(64, 48)) + w(48)).relu().matmul(w(48, 3))

    return network.imported()


ATTENTION = """func.func @main(%x: tensor<4x6x8xf32>) -> (tensor<4x8xf32>, tensor<4x6xf32>) {
  %s = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x6xf32>
  %t = stablehlo.tanh %s : tensor<4x6x6xf32>
  %o = stablehlo.dot_general %t, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x6x6xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %r = stablehlo.transpose %o, dims = [0, 2, 1] : (tensor<4x6x8xf32>) -> tensor<4x8x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<4x8x6xf32>, tensor<f32>) -> tensor<4x8xf32>
  %b = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x6xf32>
}
"""


@needs_toolchain
@pytest.mark.parametrize("precision", ["keep", "int8"])
@pytest.mark.parametrize(
    ("build", "machine", "less", "mark"),
    [
        (images, "coral", 1024, "/* the image */"),
        (rows, "coral-zve32f", 1024, "/* the part */"),
        (lambda: import_mlir(ATTENTION, "attention"), "coral-scalar", 256, "/* the part */"),
    ],
)
def test_parts_give_the_bits_of_whole_values(build, machine, less, mark, precision):
    imported, options = build(), CoralOptions(precision, unroll=False)
    whole = compile_model(imported, with_data(machine, 1 << 16), options)
    assert mark not in whole.source
    need = whole.budget.data_used - less
    parts = compile_model(imported, with_data(machine, need), options)
    assert mark in parts.source and parts.budget.data_used <= need
    assert parts.verify(1).ok
    inputs = random_inputs(parts.program, 5)
    for a, b in zip(parts.run(inputs), whole.run(inputs), strict=True):
        assert same_bits(a, b)


@needs_toolchain
def test_a_batch_on_the_small_machine():
    """Eight images whose maps take 64 KB in all."""
    w = Weights(23)

    @model
    def network(x: Tensor["f32", 8, 16, 16, 1]) -> Tensor:
        h = (x.conv2d(w(3, 3, 1, 8)) + w(8)).relu()
        return (h.conv2d(w(3, 3, 8, 4), strides=(2, 2)) + w(4)).relu().mean(1, 2)

    made = compile_model(network.imported(), "coral")
    assert made.fits and made.verify(1).ok


MIXED = {
    "a reduction over the batch": (
        "6",
        "%y = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>\n%z = stablehlo.tanh %y : tensor<6xf32>",
    ),
    "a transpose": (
        "6",
        "%y = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>\n%z = stablehlo.reduce(%y init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<6x4xf32>, tensor<f32>) -> tensor<6xf32>",
    ),
    "a slice of the batch": (
        "3",
        "%y = stablehlo.slice %x [1:4, 0:6] : (tensor<4x6xf32>) -> tensor<3x6xf32>\n%z = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3x6xf32>, tensor<f32>) -> tensor<3xf32>",
    ),
    "a product with itself": (
        "4x4",
        "%y = stablehlo.tanh %x : tensor<4x6xf32>\n%z = stablehlo.dot_general %y, %y, contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>",
    ),
}


@pytest.mark.parametrize(("shape", "body"), MIXED.values(), ids=MIXED.keys())
def test_what_mixes_parts_is_not_cut(shape, body):
    kind = f"tensor<{shape}xf32>"
    text = (
        f"func.func @main(%x: tensor<4x6xf32>) -> {kind} {{\n"
        f"%zero = stablehlo.constant dense<0.0> : tensor<f32>\n{body}\nreturn %z : {kind}\n}}\n"
    )
    program = program_of(import_mlir(text, "mixed"))
    groups = make_groups(program, fuse=False)
    assert find_slices(program, groups, 0, len(groups) - 1) is None


def test_the_bound_of_a_product():
    """16 x 48 x 16: every product, and every sum but the first, by the float unit."""
    from tilewright.targets.coral.lower_bound import lower_bound
    from tilewright.targets.coral.machines import MACHINES

    text = """func.func @main(%x: tensor<16x48xf32>) -> tensor<16x16xf32> {
  %w = stablehlo.constant dense<2.0> : tensor<48x16xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x48xf32>, tensor<48x16xf32>) -> tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}
"""
    program = program_of(import_mlir(text, "product"))
    found = lower_bound(MACHINES["coral"], [program])
    assert found.cycles == 2 * (2 * 16 * 48 * 16 - 16 * 16) and found.cause == "float unit"
    assert found.terms["inputs and outputs"] == 4 * 192 + 3 * 64
    vectors = lower_bound(MACHINES["coral-zve32f"], [program])
    assert vectors.cycles == 2 * 16 * 48 * 16 // 17


@needs_toolchain
def test_no_program_beats_its_bound():
    from tilewright.targets.coral.lower_bound import lower_bound

    for build in (images, rows):
        for precision in ("keep", "int8"):
            made = compile_model(build(), with_data("coral", 1 << 16), CoralOptions(precision))
            cycles = made.run_with_outcome(random_inputs(made.program, 0))[1].region_cycles
            assert cycles is not None
            assert 0 < lower_bound(made.machine, [made.program]).cycles < cycles


def test_others_like_a_sample():
    """One sample of a few numbers does not set ranges alone; indices stay among those that were given."""
    from tilewright.model.sample_values import with_others_like_it

    rng = np.random.default_rng(0)
    sample = {"x": rng.normal(5, 0.1, 20).astype(np.float32), "i": np.array([3, 1, 4], np.int32)}
    made = with_others_like_it(sample, 32, 0)
    assert len(made) == 32 and made[0] is sample
    assert all(sorted(other["i"]) == [1, 3, 4] for other in made)
    values = np.concatenate([other["x"] for other in made])
    assert values.dtype == np.float32 and 0.1 < np.abs(values - 5).max() < 1
    first = with_others_like_it({"state": np.zeros(8, np.float32)}, 32, 0)
    assert np.abs([other["state"] for other in first]).max() > 1
