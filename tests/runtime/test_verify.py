"""Verification: exact models pass, a wrong bit is found in the step that made it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hand_models as models
import ml_dtypes
import numpy as np
import pytest

import tilewright.runtime.verify as verification
from tilewright.errors import TilewrightError
from tilewright.reference.bits import digest_bits
from tilewright.runtime.counterparts import find_counterparts, run_tapped
from tilewright.runtime.verification import Verification, accuracy, compare_bits, unlike
from tilewright.runtime.watch import Expected
from tilewright.targets.artifact import StepValues
from tilewright.targets.atlas.kernels.registry import ENTRIES
from tilewright.targets.atlas.model.kernel_model import kernel_model
from tilewright.targets.atlas.program import Instruction, Program


def verify(model: Any, *inputs: Any, references: Any = None, **options: Any) -> Verification:
    """Verify with references of one's own."""
    model.artifact.references = references
    return verification.verify(model, *inputs, **options)


def wanted(model: Any, results: dict[tuple[int, int], np.ndarray]) -> Expected:
    """What a reference that gave these results would have been seen to do."""
    found = Expected(model.artifact, keep=True)
    for (step, iteration), result in results.items():
        found(StepValues(step, iteration, {}, {"out": result}))
    return found


MODELS = {
    "one": models.mlp,
    "two": lambda: models.mlp(2),
    "host": models.hosted,
    "loop": models.looped,
    "streamed": models.streamed,
}


@pytest.mark.parametrize("machine", ["native", "python"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_models(name: str, machine: str) -> None:
    result = verify(MODELS[name](), per_layer=True, references=models.REFERENCES, machine=machine)
    assert result.first is None
    if name == "streamed":  # lint cannot know what its segments leave in scalar registers
        result.hazards = []
    assert result.ok
    assert {layer.status for layer in result.layers} == {"equal"}
    assert all(output.difference is None for output in result.outputs)
    assert result.text().endswith("\nverified")
    assert json.loads(json.dumps(result.to_json()))["ok"] is True


def flipped(kernel: str, call: int, index: tuple[int, ...]) -> dict[str, Any]:
    """References of which one call of a kernel gives one wrong bit."""
    count = [0]

    def wrong(profile: Any, options: Any, operands: Any) -> dict[str, np.ndarray]:
        out = models.REFERENCES[kernel](profile, options, operands)["out"].copy()
        if count[0] % 1000 == call:
            out[index] ^= 1
        count[0] += 1
        return {"out": out}

    return {**models.REFERENCES, kernel: wrong}


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("per_layer", [False, True])
def test_the_first_wrong_step_is_named(segments: int, per_layer: bool) -> None:
    always = flipped("gemm", 0, (3, 4))
    always["gemm"] = lambda p, o, x: flipped("gemm", 0, (3, 4))["gemm"](p, o, x)
    result = verify(models.mlp(segments), per_layer=per_layer, references=always)
    assert not result.ok
    assert result.first is not None
    assert (result.first.step, result.first.name, result.first.region) == (0, "fc", "h")
    difference = result.first.difference
    assert difference is not None
    assert (difference.different, difference.elements, difference.index) == (1, 3500, (3, 4))
    # The bias was right for the h it had.
    assert [layer.status for layer in result.layers] == ["differs", "inherits"]
    assert result.outputs[0].difference is not None
    assert result.outputs[0].difference.index == (0, 3, 4)
    assert "first wrong step: 0 (fc, kernel gemm) in h" in result.text()
    assert result.text().endswith("NOT VERIFIED")
    assert result.to_json()["first_difference"]["name"] == "fc"


def test_a_wrong_last_step() -> None:
    result = verify(
        models.mlp(),
        references={
            **models.REFERENCES,
            "add": lambda p, o, x: {"out": models.REFERENCES["add"](p, o, x)["out"] ^ np.uint16(1)},
        },
    )
    assert result.first is not None and result.first.name == "bias"
    assert [layer.status for layer in result.layers] == ["equal", "differs"]


@pytest.mark.parametrize("machine", ["native", "python"])
def test_a_wrong_round(machine: str) -> None:
    """The device is wrong from the second round on: its weights there are others."""
    model = models.looped(4)
    other = models.looped(4)
    raw = other.artifact.weights["w"].copy()
    raw[2048:4096] = raw[:2048]
    codes = model.artifact.regions["w"].layout.unpack(raw[2048:4096].tobytes()).view(np.uint16)
    count = [0]

    def reference(profile: Any, options: Any, operands: Any) -> dict[str, np.ndarray]:
        if count[0] % 4 == 1:
            operands = {**operands, "b": codes}
        count[0] += 1
        return models.REFERENCES["add"](profile, options, operands)

    result = verify(model, references={"add": reference}, machine=machine)
    assert result.first is not None
    assert (result.first.name, result.first.turn) == ("layers.1/add", 1)
    assert result.layers[0].status == "equal"
    assert result.cycles == verify(models.looped(4), references=models.REFERENCES).cycles


@pytest.mark.parametrize("machine", ["native", "python"])
def test_results_that_arrive_after_the_next_step_began(machine: str) -> None:
    model = models.looped(4, models.EAGER)
    result = verify(model, per_layer=True, references=models.REFERENCES, machine=machine)
    assert [layer.status for layer in result.layers] == ["equal"] * 4
    assert result.cycles == verify(model, references=models.REFERENCES).cycles

    def wrong(profile: Any, options: Any, operands: Any) -> dict[str, np.ndarray]:
        return {"out": models.REFERENCES["add"](profile, options, operands)["out"] ^ np.uint16(2)}

    result = verify(model, references={"add": wrong}, machine=machine)
    assert result.first is not None and result.first.name == "layers.0/add"


def test_a_broken_program_is_caught() -> None:
    """One instruction changed: a value is wrong, not only its reference."""
    model = models.mlp()
    program = model.artifact.segments[0]
    words = [*program]
    place = next(i for i in range(len(words)) if words[i].opcode.mnemonic == "vadd.bf16")
    broken = list(words[place].operands)
    broken[1], broken[2] = broken[1], broken[1]
    words[place] = Instruction(words[place].opcode, tuple(broken))
    model.artifact.segments = [Program.from_instructions(words)]
    result = verify(model, references=models.REFERENCES)
    assert result.first is not None and result.first.name == "bias"


def test_reading_unwritten_memory_is_caught() -> None:
    """Memory starts as NaN, so weights that are not placed show."""
    model = models.mlp()
    del model.artifact.weights["b"]
    model.artifact.regions["b"] = replace(model.artifact.regions["b"], kind="activation")
    zeros = np.zeros((50, 70), np.uint16)

    def add(profile: Any, options: Any, operands: Any) -> dict[str, np.ndarray]:
        return models.REFERENCES["add"](profile, options, {"a": operands["a"], "b": zeros})

    result = verify(model, references={**models.REFERENCES, "add": add})
    assert not result.ok
    assert np.isnan(result.outputs[0].difference.actual)  # pyright: ignore[reportOptionalMemberAccess]
    assert result.to_json()["outputs"][0]["difference"]["actual"] == "nan"


def test_kernels_without_reference() -> None:
    with pytest.raises(TilewrightError, match=r"TW3140.*bias runs the kernel add"):
        verify(models.mlp(), references={"gemm": models.REFERENCES["gemm"]})


def test_references_of_another_shape() -> None:
    wrong = {**models.REFERENCES, "add": lambda p, o, x: {"out": np.zeros((3, 3), np.uint16)}}
    with pytest.raises(TilewrightError, match=r"TW3141.*\[3, 3\]"):
        verify(models.mlp(), references=wrong)


@pytest.mark.parametrize("name", ["matmul", "softmax", "layer_norm"])
def test_library_kernels_as_models(name: str) -> None:
    entry = ENTRIES[name]
    sizes: dict[str, Any] = dict(entry.sizes)
    model = kernel_model(entry.kernel.compile(**sizes))
    result = verify(model, per_layer=True)
    assert result.ok, result.text()
    assert result.layers[0].kernel == f"library/{name}"


def test_inputs_are_given_or_random() -> None:
    x = np.zeros((50, 64), np.float32)
    references = models.REFERENCES
    assert verify(models.mlp(), {"x": x}, references=references).inputs == "given inputs"
    assert verify(models.mlp(), seed=3, references=references).inputs == "random inputs of seed 3"
    with pytest.raises(TilewrightError, match="TW3120"):
        verify(models.mlp(), {"q": x}, references=references)


# --- float32 ---------------------------------------------------------------------------------


def original(x: np.ndarray) -> np.ndarray:
    model = models.mlp()
    w, b = (
        model.artifact.regions[n]
        .layout.unpack(model.artifact.weights[n].tobytes())
        .astype(np.float64)
        for n in ("w", "b")
    )
    return (x.astype(np.float64) @ w + b).astype(np.float32)[None]


def test_against_a_function() -> None:
    result = verify(models.mlp(), original=original, references=models.REFERENCES)
    error = result.outputs[0].accuracy
    assert error is not None
    assert 0.999 < error.cosine < 1
    assert 0.01 < error.relative < 0.05
    assert result.original == "original"
    assert "cosine 0.999" in result.text()
    given = verify(
        models.mlp(), {"x": np.zeros((50, 64))  .astype(np.float32)},
        original={"y": original(np.zeros((50, 64)))}, references=models.REFERENCES,
    )  # fmt: skip
    assert given.outputs[0].accuracy == accuracy(np.ones(3), np.ones(3))


def test_originals_that_do_not_fit() -> None:
    for wrong, words in (
        (lambda x: x, "shape"),
        (lambda x: (x, x), "2 results"),
        (7, "given as int"),
    ):
        with pytest.raises(TilewrightError, match=f"TW3142.*{words}"):
            verify(models.mlp(), original=wrong, references=models.REFERENCES)


TEXT = """
func.func @main(%x: tensor<50x64xf32>) -> tensor<1x50x70xf32> {
  %w = arith.constant dense_resource<w> : tensor<64x70xf32>
  %b = arith.constant dense_resource<b> : tensor<50x70xf32>
  %h = npu_kernel.matmul %x, %w {tw.layer = "fc"} : tensor<50x64xf32>, tensor<64x70xf32> -> tensor<50x70xf32>
  %s = arith.addf %h, %b {tw.layer = "block.0.bias"} : tensor<50x70xf32>
  %y = tensor.expand_shape %s [[0, 1], [2]] output_shape [1, 50, 70] : tensor<50x70xf32> into tensor<1x50x70xf32>
  func.return %y : tensor<1x50x70xf32>
}
"""


def imported() -> Any:
    from tilewright.dialects.parsing import parse_text
    from tilewright.frontend.imported import Imported, TensorSpec

    model = models.mlp()
    weights = {
        n: model.artifact.regions[n]
        .layout.unpack(model.artifact.weights[n].tobytes())
        .astype(np.float32)
        for n in ("w", "b")
    }
    return Imported(
        parse_text(TEXT),
        weights,
        (TensorSpec("x", (50, 64), "f32"),),
        (TensorSpec("y", (1, 50, 70), "f32"),),
        "text",
    )


def test_layers_against_an_imported_model() -> None:
    model = models.mlp()
    sources = (("fc: matmul text:4",), ("fc: matmul text:4", "block.0.bias: addf text:5"))
    model.artifact.steps = [
        replace(s, sources=n) for s, n in zip(model.artifact.steps, sources, strict=True)
    ]
    result = verify(model, original=imported(), per_layer=True, references=models.REFERENCES)
    first, second = result.layers
    assert first.accuracy is not None and 0.999 < first.accuracy.cosine < 1
    assert second.accuracy is not None
    assert second.accuracy == result.outputs[0].accuracy  # the last step is the output
    assert "worst steps" in result.text()
    assert result.to_json()["layers"][0]["accuracy"]["cosine"] == first.accuracy.cosine
    # A result that is kept in another form has no counterpart.
    other = wanted(model, {(0, 0): np.zeros((70, 50), ml_dtypes.bfloat16)})
    assert find_counterparts(model, other, imported()).values == {}


LAYERS = """
func.func @main(%x: tensor<20x32xbf16>) -> tensor<20x32xbf16> {
  %w = arith.constant dense<1.0> : tensor<20x32xbf16>
  %0 = arith.negf %x {tw.layer = "input"} : tensor<20x32xbf16>
  %a = arith.addf %0, %w {tw.layer = "layers.0"} : tensor<20x32xbf16>
  %b = arith.negf %a {tw.layer = "layers.0"} : tensor<20x32xbf16>
  %c = arith.addf %b, %w {tw.layer = "layers.1"} : tensor<20x32xbf16>
  %d = arith.negf %c {tw.layer = "layers.1"} : tensor<20x32xbf16>
  %e = arith.addf %d, %w {tw.layer = "layers.2"} : tensor<20x32xbf16>
  %f = arith.negf %e {tw.layer = "layers.2"} : tensor<20x32xbf16>
  func.return %f : tensor<20x32xbf16>
}
"""


def test_rounds_find_their_own_layers() -> None:
    from tilewright.dialects.parsing import parse_text
    from tilewright.frontend.imported import Imported, TensorSpec

    spec = TensorSpec("x", (20, 32), "bf16")
    original = Imported(parse_text(LAYERS), {}, (spec,), (spec,), "text")
    model = models.looped(3)
    model.artifact.steps[0] = replace(
        model.artifact.steps[0], sources=("layers.0: addf", "layers.0: negf")
    )
    result = np.zeros((20, 32), ml_dtypes.bfloat16)
    found = find_counterparts(model, wanted(model, {(0, n): result for n in range(3)}), original)
    names = [found.values[n].owner.attributes["tw.layer"].data for n in range(3)]  # pyright: ignore
    assert names == ["layers.0", "layers.1", "layers.2"]
    x = np.zeros((20, 32), ml_dtypes.bfloat16)
    outputs, seen = run_tapped(original, [x], found.distinct())
    assert [float(seen[found.values[n]][0, 0]) for n in range(3)] == [-1, 0, -1]
    assert float(outputs[0][0, 0]) == -1


def test_the_original_is_found_by_its_hash(tmp_path: Path, monkeypatch: Any) -> None:
    from tilewright.model.digest import former_model_hash, model_hash
    from tilewright.model.simplify import simplify

    model = models.mlp()
    called = []

    def import_model(name: str, shapes: Any = None) -> Any:
        called.append(name)
        return imported()

    def note() -> str:
        result = verify(model, references=models.REFERENCES)
        assert result.ok and result.original is None
        return " ".join(result.notes)

    assert "does not say" in note()
    model.provenance["model"] = "package.module:factory"
    assert "name it with --model" in note()  # a factory is code: nobody asked to run it
    path = tmp_path / "m.onnx"
    path.write_bytes(b"model")
    model.provenance["model"] = str(path)
    assert "cannot be read" in note()
    monkeypatch.setattr("tilewright.frontend.models.import_model", import_model)
    assert "has changed since" in note()
    model.provenance["model_hash"] = model_hash(simplify(imported()))
    result = verify(model, references=models.REFERENCES)
    assert result.original == "text" and "float32" not in " ".join(result.notes)
    assert called == [str(path)] * 2
    assert former_model_hash(simplify(imported())) != model.provenance["model_hash"]
    model.provenance["model_hash"] = former_model_hash(simplify(imported()))  # of older bundles
    assert verify(model, references=models.REFERENCES).original == "text"


# --- comparing -------------------------------------------------------------------------------


def test_comparing_bits() -> None:
    nan = np.array([[np.nan, 1.0], [0.0, 2.0]], np.float32)
    other = nan.copy()
    other.view(np.uint32)[0, 0] ^= 1  # another NaN
    assert compare_bits(nan, other) is None
    other[1, 0] = -0.0
    found = compare_bits(nan, other)
    assert found is not None and (found.different, found.index) == (1, (1, 0))
    other[0, 1] = np.nan
    found = compare_bits(nan, other)
    assert found is not None and found.index == (0, 1) and found.different == 2
    assert compare_bits(np.array([True, False]), np.array([True, True])) is not None
    codes = np.array([0x7F, 0xFF, 0x38], np.uint8).view(ml_dtypes.float8_e4m3fn)  # NaN, NaN, 1
    others = np.array([0xFF, 0x7F, 0x38], np.uint8).view(ml_dtypes.float8_e4m3fn)
    assert compare_bits(codes, others) is None and np.isnan(codes[0])
    assert digest_bits(codes) == digest_bits(others) != digest_bits(codes[::-1])


def test_accuracy_of_special_values() -> None:
    zero = np.zeros(4)
    assert accuracy(zero, zero).cosine == 1 and accuracy(zero, zero).relative == 0
    assert accuracy(np.ones(4), zero).relative == np.inf
    assert np.isnan(accuracy(np.array([np.nan, 1]), np.ones(2)).cosine)
    half = accuracy(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    assert half.cosine == pytest.approx(2**-0.5)
    assert (half.max_absolute, half.max_relative) == (1, 1)


def test_infinite_numbers_of_the_original_hide_no_others():
    """Hidden scores are minus infinity, or float32's smallest number; the rest has to be right."""
    for hidden in (-np.inf, np.finfo(np.float32).min):
        exact = np.array([hidden, 1.0, 2.0, hidden], np.float32)
        right = accuracy(np.array([-np.inf, 1.0, 2.0, -3.39e38]), exact)
        wrong = accuracy(np.array([-np.inf, 2.0, -1.0, -3.39e38]), exact)
        assert right.relative == 0 and wrong.cosine == 0
        assert np.isnan(accuracy(np.array([hidden, np.nan, 2.0, hidden]), exact).cosine)
    assert unlike(np.array([-np.inf, 1.0, np.nan]), np.array([-np.inf, np.inf, 2.0])) == 2
    assert unlike(np.array([-np.inf, 1.0]), np.array([-3.4e38, 1.0])) == 0
    assert accuracy(np.array([2e38, -1e38]), np.array([2e38, 1e38])).cosine < 0.7  # all are large
