"""Whole models: every bit equal to the reference, on our simulator and on QEMU, within the budgets."""

from __future__ import annotations

import numpy as np
import pytest
from coral_models import LARGE, SMALL, Weights

from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tensor, constant, model
from tilewright.reference.executor import run as reference_run
from tilewright.targets.coral.compile import (
    CoralModel,
    CoralOptions,
    compile_model,
    random_inputs,
    same_bits,
)
from tilewright.targets.coral.evaluate import evaluate
from tilewright.targets.coral.from_kernels import program_of
from tilewright.targets.coral.optimise import optimise
from tilewright.targets.coral.qemu import Qemu, qemu_missing
from tilewright.targets.coral.quantise import multiplier_and_shift, quantise
from tilewright.targets.coral.simulator import RunOptions
from tilewright.targets.coral.toolchain import toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
INT8 = CoralOptions(precision="int8")


@pytest.fixture(scope="module")
def emulator():
    if qemu_missing():
        yield None
        return
    with Qemu() as qemu:
        yield qemu


def check(made: CoralModel, emulator: Qemu | None, seeds: int = 1) -> None:
    """Bits against the reference, agnostic elements without influence, and the oracle."""
    verdict = made.verify(seeds)
    assert verdict.ok, verdict.text
    inputs = made.quantised_inputs(random_inputs(made.program, 7))
    outputs, outcome = made.run_with_outcome(inputs)
    ones = made.run(inputs, RunOptions(timing=False, agnostic_ones=True))
    assert all(same_bits(a, b) for a, b in zip(outputs, ones, strict=True))
    assert sum(i for i, _ in outcome.steps.values()) == outcome.instructions
    if emulator is None:
        return
    there = emulator.run(made.elf, made.machine, {f"input_{k}": a for k, a in enumerate(inputs)})
    assert there.halted and there.ret == 0
    assert there.region_instructions == outcome.region_instructions
    for k, array in enumerate(outputs):
        assert (
            emulator.read(made.elf.symbol(f"output_{k}").address, array.nbytes) == array.tobytes()
        )


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("precision", ["keep", "int8"])
def test_small_models_fit_and_are_exact(name, precision, emulator):
    made = compile_model(SMALL[name]().imported(), "coral", CoralOptions(precision=precision))
    assert made.fits and made.sizes["text"] <= 8192 and made.sizes["dtcm"]["used"] <= 32768
    check(made, emulator)
    if precision == "int8":
        assert min(made.sqnr.values()) > 25


def test_float_vectors():
    made = compile_model(SMALL["keyword_spotter"]().imported(), "coral-zve32f")
    assert "k_row_f32" in made.source and made.verify(1).ok
    scalar = compile_model(SMALL["keyword_spotter"]().imported(), "coral")
    inputs = random_inputs(made.program, 3)
    first, fast = made.run_with_outcome(inputs)
    second, slow = scalar.run_with_outcome(inputs)
    assert fast.region_cycles is not None and slow.region_cycles is not None
    assert same_bits(first[0], second[0]) and fast.region_cycles * 2 < slow.region_cycles


def test_a_core_without_vectors():
    made = compile_model(SMALL["separable_cnn"]().imported(), "coral-scalar", INT8)
    assert "riscv_vector" not in made.source and made.verify(1).ok


def test_a_large_model_says_by_how_much_and_builds_for_high_memory(emulator):
    with pytest.raises(TilewrightError) as error:
        compile_model(LARGE["ds_cnn"]().imported(), "coral", INT8)
    assert error.value.code == "TW5030" and "more than the 32,768" in str(error.value)
    made = compile_model(LARGE["ds_cnn"]().imported(), "coral-highmem", INT8)
    check(made, emulator, seeds=0)


def test_grayscale_is_numpy():
    image = np.random.default_rng(0).standard_normal((1, 3, 4, 4)).astype(np.float32)
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    wanted = np.zeros((1, 4, 4), dtype=np.float32)
    for c in range(3):
        wanted = wanted + image[:, c] * weights[c]
    for name in ("gray_matmul", "gray_conv"):
        made = compile_model(SMALL[name]().imported())
        assert same_bits(made.run([image])[0], wanted[:, None])
        assert list(made.phases) == ["1-program", "2-optimised", "4-model.c"]


def test_int8_product_is_fast():
    text = """func.func @main(%a: tensor<16x48xi8>, %b: tensor<48x16xi8>) -> tensor<16x16xi32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x48xi8>, tensor<48x16xi8>) -> tensor<16x16xi32>
  return %0 : tensor<16x16xi32>
}
"""
    made = compile_model(import_mlir(text, "gemm.mlir"))
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 128, (16, 48)), rng.integers(-128, 128, (48, 16))
    (product,), outcome = made.run_with_outcome([a, b])
    assert np.array_equal(product, a @ b)
    assert outcome.region_cycles is not None and outcome.region_cycles <= 4700
    slow = compile_model(import_mlir(text, "gemm.mlir"), options=CoralOptions(vector=False))
    slow_cycles = slow.run_with_outcome([a, b])[1].region_cycles
    assert slow_cycles is not None and slow_cycles > 10 * outcome.region_cycles
    assert made.verify().ok and slow.verify().ok


def test_optimised_and_quantised_programs_mean_the_same():
    """The rewritten program against the house's reference executor, the int8 one against floats."""
    for name in ("mlp", "separable_cnn", "keyword_spotter"):
        imported = SMALL[name]().imported()
        program = optimise(program_of(imported))
        samples = [random_inputs(program, k) for k in range(32)]
        wanted = reference_run(imported.module, samples[0], weights=imported.weights)
        got = evaluate(program, samples[0])
        assert np.allclose(got[0], np.asarray(wanted[0]), atol=1e-5)
        narrow = optimise(quantise(program, samples))
        assert all(v.dtype == "i8" for v in narrow.inputs + narrow.outputs)


def test_fusion_off_gives_the_same_bits():
    imported = SMALL["separable_cnn"]().imported()
    fused = compile_model(imported)
    apart = compile_model(imported, options=CoralOptions(fuse=False))
    assert len(apart.groups) > len(fused.groups) and apart.storage.arena >= fused.storage.arena
    inputs = random_inputs(fused.program, 1)
    assert same_bits(fused.run(inputs)[0], apart.run(inputs)[0])


def test_a_broken_kernel_is_found():
    """Mutations of the generated C fail verification."""
    from dataclasses import replace

    from tilewright.targets.coral.toolchain import compile_c

    made = compile_model(SMALL["separable_cnn"]().imported(), "coral", INT8)
    for old, new in (
        ("q->zero", "0"),
        ("__RISCV_VXRM_RNE", "__RISCV_VXRM_RDN"),
        ("to += row;", "to += row - 1;"),
        ("b += 64;", "b += 48;"),
        ("s->offset", "0"),
        ("- 1;  /* padding */", ";"),
    ):
        if old not in made.source:
            continue
        build = compile_c(made.source.replace(old, new), made.machine)
        broken = replace(made, build=build)
        broken.__dict__.pop("elf", None)
        try:
            found = not broken.verify(2).ok
        except TilewrightError:
            found = True
        assert found, old


def test_requantisation_numbers():
    m = np.array([0.4999, 0.25, 1e-3, 2.0**-33, 1e-12, 0.0])
    multipliers, shifts = multiplier_and_shift(m)
    for value, multiplier, shift in zip(m, multipliers, shifts, strict=True):
        if multiplier:
            assert 2**30 <= multiplier < 2**31
            assert multiplier / 2.0 ** (32 + shift) == pytest.approx(value, rel=1e-8)
        else:
            assert value < 2.0**-33


def test_bad_requests():
    imported = SMALL["mlp"]().imported()
    with pytest.raises(TilewrightError, match="no precision"):
        compile_model(imported, options=CoralOptions(precision="int4"))
    made = compile_model(imported)
    with pytest.raises(TilewrightError, match="1 inputs"):
        made.run([])
    with pytest.raises(TilewrightError, match="shape"):
        made.run([np.zeros(3)])

    @model
    def unbounded(x: Tensor["f32", 4]) -> Tensor:
        return x + constant([1e30, 0, 0, 0])

    quantised = compile_model(unbounded.imported(), options=INT8)
    assert quantised.verify(1).ok


def test_stack_is_part_of_the_budget():
    w = Weights(3)

    @model
    def network(x: Tensor["f32", 1, 80]) -> Tensor:
        return x.matmul(w(80, 96))

    assert compile_model(network.imported(), options=CoralOptions(stack=256)).fits
    with pytest.raises(TilewrightError, match="stack 2,048"):
        compile_model(network.imported())
