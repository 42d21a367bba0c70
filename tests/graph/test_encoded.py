"""The encoded module is the program: its text, parsed again, compiles to the same bytes."""

from __future__ import annotations

import image_models
import numpy as np
import pytest
import small_models
import tower_models

from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.model.calibrate import example_inputs
from tilewright.model.options import CompileOptions
from tilewright.model.parts import Parts, parts_of
from tilewright.program import Program
from tilewright.reference.executor import Executor
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.encoding import encode
from tilewright.targets.atlas.model import compiler
from tilewright.targets.atlas.model.compiler import compile_encoded, compile_model
from tilewright.targets.atlas.model.meaning import semantics
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")
OPTIONS = CompileOptions(host=("hosted",), layer_loops=True)
MODELS = {
    "mlp": lambda: small_models.imported("mlp"),
    "folded decoder": lambda: small_models.imported("decoder_2"),
    "masks": lambda: small_models.imported("cross"),
    "attention over a cache": lambda: small_models.imported("decode"),
    "images": lambda: image_models.imported("residual"),
    "flattened images": lambda: image_models.imported("flattened"),
    "several parts": lambda: tower_models.built(tower_models.a_later_part_reads_it),
    "two towers": lambda: tower_models.built(tower_models.towers_after_each_other),
    "ports of every layer": lambda: tower_models.built(
        tower_models.inputs_and_outputs_of_every_layer
    ),
}


def encoded(model, monkeypatch) -> tuple[compiler.CompiledModel, Parts]:
    """A compiled model, and what its code was generated from."""
    kept = []
    read = compiler.read_launches
    monkeypatch.setattr(compiler, "read_launches", lambda parts: kept.append(parts) or read(parts))
    result = compile_model(model, V1, OPTIONS)
    monkeypatch.undo()
    return result, kept[0]


@pytest.mark.parametrize("name", MODELS)
def test_text_compiles_to_the_same_program(name, monkeypatch):
    model = MODELS[name]()
    result, module = encoded(model, monkeypatch)
    text = result.phases["encoded"]
    parsed = parse_text(text)
    parsed.verify()
    assert print_module(parsed) == text
    again = compile_encoded(parts_of(parsed, module.weights, result.name), V1, OPTIONS)
    first, second = result.artifact, again.artifact
    assert len(first.segments) == len(second.segments)
    for one, other in zip(first.segments, second.segments, strict=True):
        assert np.array_equal(encode(one, V1), encode(other, V1))
        assert one.data == other.data
    assert first.regions == second.regions
    assert first.steps == second.steps
    assert first.loops == second.loops
    assert first.entries == second.entries
    assert first.least == second.least
    assert first.weights.keys() == second.weights.keys()
    assert all(np.array_equal(first.weights[w], second.weights[w]) for w in first.weights)
    assert result.parts == again.parts
    assert (result.inputs, result.outputs) == (again.inputs, again.outputs)
    assert again.ports == {port: result.ports[port] for port in again.ports}
    assert result.host_module == again.host_module
    assert result.host_weights.keys() == again.host_weights.keys()
    assert result.quantisation == again.quantisation
    # The text says what the device computes, bit for bit.
    inputs = example_inputs(model, 3)
    executor = Executor(parsed, module.weights, semantics(V1))
    computed = executor.run([inputs[port] for port in result.inputs])
    found = Session(result).run(inputs)
    for port, array in zip(result.outputs, computed, strict=True):
        assert np.array_equal(array, found[port], equal_nan=True)


LOOP = """
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = func.call @device_0(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  func.return %0 : tensor<32x32xf32>
}
func.func @device_0(%given: tensor<32x32xf32>) -> tensor<32x32xf32>
    attributes {tw.place = "device", tw.inputs = ["x"], tw.outputs = ["y"]} {
  %x = npu_kernel.pack %given {tw.tensor = "x"} : tensor<32x32xf32> -> tensor<1x32x32xbf16>
  %r = npu_kernel.layers 3 iter(%h = %x : tensor<1x32x32xbf16>) {
    %a = npu_kernel.launch "pointwise"(x0 = %h) {inputs = [["x0", "full"]], out = "bf16",
      program = [["silu", "t0", ["x0"]]], tw.tensor = "a"} : tensor<1x32x32xbf16> -> tensor<1x32x32xbf16>
    %b = npu_kernel.launch "pointwise"(x0 = %a) {inputs = [["x0", "full"]], out = "bf16",
      program = [["mul", "t0", ["x0", 2.0 : f64]]], tw.tensor = "b"} : tensor<1x32x32xbf16> -> tensor<1x32x32xbf16>
    npu_kernel.yield %b : tensor<1x32x32xbf16>
  } : tensor<1x32x32xbf16>
  %y = npu_kernel.unpack %r : tensor<1x32x32xbf16> -> tensor<32x32xf32>
  func.return %y : tensor<32x32xf32>
}
"""


def test_weights_of_host_and_device_keep_apart():
    """A layer of the device is called as the weight of the host's is kept."""
    net = ModelBuilder("names", seed=2)
    x = net.linear(net.input("x", (32, 64)), 64, "a", bias=False)
    net.output("y", net.linear(x, 64, "host_a", bias=False))
    model = net.build()
    result = compile_model(model, V1, CompileOptions(host=("a",)))
    assert verify(result, original=model).ok
    assert result.host_weights.keys() == {"host_a.weight"}


def compiled(text: str) -> compiler.CompiledModel:
    return compile_encoded(parts_of(parse_text(text), {}), V1)


def test_a_program_written_by_hand_runs():
    program = Program(compiled(LOOP))
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    wanted = x
    for _ in range(3):
        wanted = 2 * wanted / (1 + np.exp(-wanted))
    found = program(x)
    assert np.allclose(np.asarray(found), wanted, rtol=0.03, atol=0.02)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"pointwise"(x0 = %a)', '"pointless"(x0 = %a)', "there is no kernel pointless"),
        ("(x0 = %a)", "(x0 = %h)", "after the next one's was written there"),
        ("(x0 = %a)", "(x0 = %x)", "read after an iteration has overwritten it"),
        ("unpack %r", "unpack %x", "read after an iteration has overwritten it"),
        ("yield %b", "yield %h", "a value that it does not compute"),
        ('tw.tensor = "a"', 'tw.tensor = "x"', "two tensors x"),
        ('[["x0", "full"]]', '[["x9", "full"]]', "pointwise: t0 is made of x0"),
        ('out = "bf16",', 'out = "f16",', "pointwise: the option out is 'f16'"),
        ('out = "bf16",', 'out = "bf16", axis = 1 : i64,', "pointwise: there is no option axis"),
        ('out = "bf16",', "", "pointwise: the option out is missing"),
        ('["silu", "t0", ["x0"]]', '["silu", "t0", "x0"]', "pointwise: the option program is"),
        ("pack %given", "bitcast %given", "a bitcast of"),
        ("call @device_0", "call @main", "no part of a model"),
    ],
)
def test_programs_that_cannot_be(old, new, message):
    text = LOOP.replace(old, new)
    assert text != LOOP
    with pytest.raises(TilewrightError, match=message):
        module = parse_text(text)
        module.verify()
        compile_encoded(parts_of(module, {}), V1)
