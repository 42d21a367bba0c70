"""Random operations in one program per seed: code against reference, reference against the executor."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tape, Tensor, TensorType, _tapes, constant
from tilewright.reference.executor import run as reference_run
from tilewright.targets.coral.compile import CoralOptions, compile_model, random_inputs
from tilewright.targets.coral.evaluate import evaluate
from tilewright.targets.coral.from_kernels import program_of
from tilewright.targets.coral.toolchain import toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")


def random_module(seed: int, count: int) -> str:
    """A module with one output per random operation."""
    rng = np.random.default_rng(seed)
    tape = Tape([])
    inputs = {
        "%f": TensorType("f32", (1, 6, 5, 4)),
        "%g": TensorType("f32", (2, 4, 7, 6)),
        "%i": TensorType("i8", (1, 6, 7, 8)),
        "%n": TensorType("i32", (5, 12)),
    }
    values = {name: Tensor(tape, name, kind) for name, kind in inputs.items()}
    results: list[Tensor] = []
    _tapes.append(tape)
    try:
        for _ in range(count):
            results.append(_operation(rng, values))
    finally:
        _tapes.pop()
    arguments = ", ".join(f"{n}: {t}" for n, t in inputs.items())
    types = ", ".join(str(r.type) for r in results)
    body = "\n".join(tape.lines)
    names = ", ".join(r.name for r in results)
    return f"func.func public @main({arguments}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"


def _operation(rng: np.random.Generator, values: dict[str, Tensor]) -> Tensor:
    f, g, i, n = (values[k] for k in ("%f", "%g", "%i", "%n"))
    number = lambda low, high: int(rng.integers(low, high))  # noqa: E731
    choice = number(0, 13)
    if choice in (0, 1):  # convolutions of any shape and layout
        groups = int(rng.choice([1, 2, 4]))
        last = rng.random() < 0.5
        x = f if last else g
        kh, kw = number(1, 4), number(1, 4)
        filters = groups * number(1, 4)
        depth = 4 // groups
        shape = (kh, kw, depth, filters) if last else (filters, depth, kh, kw)
        pads = ((number(0, 3), number(0, 3)), (number(0, 3), number(0, 3)))
        return x.conv2d(
            rng.standard_normal(shape),
            (number(1, 3), number(1, 3)),
            pads,
            groups,
            "NHWC" if last else "NCHW",
        )
    if choice == 2:  # int8
        weights = rng.integers(-128, 128, (number(1, 4), number(1, 4), 8, number(1, 40)))
        pads = ((number(0, 2), number(0, 2)), (number(0, 2), number(0, 2)))
        return i.conv2d(constant(weights, "i8"), (number(1, 3), number(1, 3)), pads)
    if choice == 3:
        return i.reshape(42, 8).matmul(constant(rng.integers(-128, 128, (8, number(1, 40))), "i8"))
    if choice == 4:
        axes = tuple(sorted(rng.choice(4, number(1, 4), replace=False).tolist()))
        return g.sum(*axes) if rng.random() < 0.5 else g.max(*axes)
    if choice == 5:
        return g.transpose(*rng.permutation(4).tolist()) * 2.0
    if choice == 6:
        row = constant(rng.standard_normal(4))
        return (f + row).relu() * f - row
    if choice == 7:
        return (f * 3.0).exp().log() + f.tanh() / (f * f + 1.0).sqrt()
    if choice == 8:
        return f.sigmoid().maximum(f).minimum(0.75)
    if choice == 9:
        return (n * n - 7) / 3 + n.maximum(5)
    if choice == 10:
        return (f * 1000.0).convert("i32").convert("i8")
    if choice == 11:
        return i.convert("f32") * 0.37 + 1.0
    return g.reshape(8, 42).softmax()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("machine", ["coral-highmem", "coral-zve32f-highmem"])
def test_random_operations(seed, machine):
    imported = import_mlir(random_module(seed, 14), f"seed{seed}.mlir")
    if machine == "coral-highmem":
        program = program_of(imported)
        for case in range(2):
            inputs = random_inputs(program, case)
            wanted = reference_run(imported.module, inputs, weights=imported.weights)
            for got, want in zip(evaluate(program, inputs), wanted, strict=True):
                want = np.asarray(want)
                if got.dtype.kind == "f":
                    scale = max(1.0, float(np.abs(want).max()))
                    assert np.allclose(got, want, atol=2e-5 * scale, equal_nan=True)
                else:
                    assert np.array_equal(got, want)
    made = compile_model(imported, machine, CoralOptions(unroll=False))
    verdict = made.verify(1)
    assert verdict.ok, verdict.text
