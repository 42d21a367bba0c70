"""Models from the graph compiler through bundle, session and verification."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from hand_made import AtlasModel, copied
from tilewright.compiling import compile_imported
from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.model.options import CompileOptions
from tilewright.runtime import bundle
from tilewright.runtime.session import Session
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.isa import OPCODES
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.lint_model import lint_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.checking import check

LAYER = """
  %u{n} = npu_kernel.matmul %x{n}, %up{n} {{tw.layer = "layers.{n}.up"}} : tensor<1x50x64xf32>, tensor<64x96xf32> -> tensor<1x50x96xf32>
  %g{n} = npu_kernel.ukernel_generic "npu_uk_gelu_tanh"(%u{n}) {{tw.layer = "layers.{n}"}} : tensor<1x50x96xf32> -> tensor<1x50x96xf32>
  %d{n} = npu_kernel.matmul %g{n}, %down{n} {{tw.layer = "layers.{n}.down"}} : tensor<1x50x96xf32>, tensor<96x64xf32> -> tensor<1x50x64xf32>
  %x{m} = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x{n}, %d{n}) {{tw.layer = "layers.{n}"}} : tensor<1x50x64xf32>, tensor<1x50x64xf32> -> tensor<1x50x64xf32>
"""


def network(layers: int) -> Imported:
    random = np.random.default_rng(0)
    weights, constants, body = {}, "", ""
    for n in range(layers):
        for name, shape in (("up", (64, 96)), ("down", (96, 64))):
            weights[f"layers.{n}.{name}"] = (random.normal(size=shape) / 8).astype(np.float32)
            kind = f"tensor<{shape[0]}x{shape[1]}xf32>"
            constants += (
                f"  %{name}{n} = arith.constant dense_resource<layers.{n}.{name}> : {kind}\n"
            )
        body += LAYER.format(n=n, m=n + 1)
    text = (
        "func.func @main(%x0: tensor<1x50x64xf32>) -> tensor<1x50x64xf32> {\n"
        f"{constants}{body}  func.return %x{layers} : tensor<1x50x64xf32>\n}}"
    )
    spec = TensorSpec("x", (1, 50, 64), "f32")
    return Imported(
        parse_text(text), weights, (spec,), (TensorSpec("y", (1, 50, 64), "f32"),), "network"
    )


@pytest.fixture(scope="module", params=[(1, True), (3, True), (3, False)], ids=str)
def compiled(request: pytest.FixtureRequest) -> tuple[Imported, AtlasModel]:
    layers, fuse = request.param
    original = network(layers)
    profile = load_profile("atlas-v1")
    return original, compile_model(original, profile, CompileOptions(fuse=fuse))


def test_the_compilers_plan_is_sound(compiled: tuple[Imported, AtlasModel]) -> None:
    assert check(compiled[1]) == []


def test_exact_and_close_to_float32(compiled: tuple[Imported, AtlasModel]) -> None:
    original, model = compiled
    result = verify(model, per_layer=True, original=original)
    assert result.ok, result.text()
    assert {layer.status for layer in result.layers} == {"equal"}
    error = result.outputs[0].accuracy
    assert error is not None and 0.995 < error.cosine < 1
    # Steps name their sources as the counterparts expect, in all rounds.
    products = [layer for layer in result.layers if layer.kernel == "linear"]
    assert len(products) == 2 * len(original.weights) // 2
    assert all(layer.accuracy is not None for layer in products)
    assert all(layer.accuracy.cosine > 0.99 for layer in products if layer.accuracy)


def test_steps_of_one_layer_are_compared_with_their_own_values() -> None:
    """What looks alike in a model (products of unnamed weights, steps of a recurrence) is computed in
    the order in which it is asked for, not in the one in which it is written."""
    net, random = ModelBuilder("steps", seed=1), np.random.default_rng(4)
    x = net.input("x", (20, 48))
    made = []
    for number in range(4):
        weight = net.weight(f"w{number}", random.normal(size=(48, 48)).astype(np.float32) / 7)
        made.append(net.unary("elementwise_tanh", net.matmul(x, weight)))
    for number in (2, 0, 3, 1):
        net.output(f"y{number}", made[number])
    original = net.build()
    model = compile_model(original, load_profile("atlas-v1"), CompileOptions())
    result = verify(model, per_layer=True, original=original)
    assert result.ok, result.text()
    errors = [layer.accuracy for layer in result.layers if layer.accuracy]
    assert len(errors) >= 4
    assert all(error.cosine > 0.99 for error in errors), result.text()


def test_through_a_file(compiled: tuple[Imported, AtlasModel], tmp_path: Path) -> None:
    _, model = compiled
    bundle.save(model, tmp_path / "m.twb")
    program = tw.load(tmp_path / "m.twb")
    x = np.random.default_rng(3).normal(size=(1, 50, 64)).astype(np.float32)
    assert np.array_equal(program(x), Session(model).run([x])[0])
    assert len(program.session.step_cycles) == len(list(model.artifact.calls()))
    again = compile_model(
        compiled[0],
        model.artifact.profile,
        CompileOptions(fuse=model.provenance["options"]["fuse"]),
    )
    bundle.save(again, tmp_path / "n.twb")
    assert (tmp_path / "m.twb").read_bytes() == (tmp_path / "n.twb").read_bytes()


def test_a_changed_instruction_is_found_in_its_step(
    compiled: tuple[Imported, AtlasModel],
) -> None:
    """Another register in one instruction: a fault, or the step it belongs to is named."""
    _, model = compiled
    program, draw = model.artifact.segments[0], random.Random(3)
    moves = [n for n, w in enumerate(program) if w.opcode.mnemonic.startswith(("vmat", "vmul"))]
    found = 0
    for place in draw.sample(moves, 12):
        operands = program.operands.copy()
        operands[place, 1] = (operands[place, 1] + 4) % 60
        broken = copied(model)
        broken.artifact.segments = [replace(program, operands=operands)]
        try:
            result = verify(broken)
        except TilewrightError as error:
            found += error.code in ("TW3130", "TW3010")
            continue
        if not result.ok:
            assert result.first is not None
            steps, number = model.artifact.steps, result.first.step
            begun = number
            while not steps[begun].bound:  # in one schedule with the step before
                begun -= 1
            assert steps[begun].first_word <= place < steps[number].end_word
            found += 1
    assert found >= 10  # a change in what is only padding does no harm


def test_hazards_in_the_code_are_found() -> None:
    """A delay that is dropped may change no bit today, but it is a hazard."""
    net = ModelBuilder("small", seed=3)
    net.output("y", net.linear(net.input("x", (32, 32)), 32, "layer"))
    model = compile_imported(net.build())
    assert verify(model).hazards == []
    program = model.artifact.segments[0]
    delays = [k for k, code in enumerate(program.opcodes) if OPCODES[code].mnemonic == "delay"]
    found = 0
    for place in delays:
        operands = program.operands.copy()
        operands[place] = 0
        changed = Program(program.opcodes, operands, program.lines, "changed")
        artifact = replace(model.artifact, segments=[changed])
        found += any(report.errors for report in lint_model(artifact))
    assert found > len(delays) / 2
