"""Coral through the doors every machine has: compile, bundle, run, verify, report, host parts."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from coral_models import Weights, gray_conv, keyword_spotter, mlp

import tilewright as tw
from commands import run_command
from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tensor, model
from tilewright.model.options import CompileOptions
from tilewright.reference.executor import run as reference_run
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import DevicePart
from tilewright.targets.coral.artifact import CoralArtifact
from tilewright.targets.coral.elf import parse_elf
from tilewright.targets.coral.toolchain import toolchain_missing

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")

MIXED = """
func.func @main(%x: tensor<2x6xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0, -1.0], [0.5, 0.25, 3.0], [1.5, -2.0, 0.0], [1.0, 1.0, 1.0], [2.0, 0.0, 1.0], [-1.0, 4.0, 0.5]]> : tensor<6x3xf32>
  %e = stablehlo.exponential %x : tensor<2x6xf32>
  %h = stablehlo.convert %e : (tensor<2x6xf32>) -> tensor<2x6xf16>
  %d = stablehlo.add %h, %h : tensor<2x6xf16>
  %f = stablehlo.convert %d : (tensor<2x6xf16>) -> tensor<2x6xf32>
  %y = stablehlo.dot_general %f, %w, contracting_dims = [1] x [0] : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""


@pytest.fixture(scope="module")
def compiled():
    """A model of one program, in f32."""
    return compile_imported(mlp().imported(), "coral")


def test_bundles_come_back(compiled, tmp_path):
    path = tmp_path / "mlp.twb"
    save(compiled, path)
    other = load(path)
    save(other, tmp_path / "again.twb")
    assert path.read_bytes() == (tmp_path / "again.twb").read_bytes()
    found = verify(other, original=mlp().imported())
    assert found.ok and found.cycles > 1000
    assert found.outputs[0].difference is None


def test_calls_and_sizes(compiled):
    x = np.random.default_rng(3).standard_normal((1, 64)).astype(np.float32)
    program = tw.compile(mlp().imported(), target="coral", quantize="int8")
    wanted = tw.compile(mlp().imported(), target="coral-zve32f")(x)
    assert np.abs(np.asarray(program(x)) - np.asarray(wanted)).max() < 0.1
    sizes = compiled.artifact.sizes
    assert sizes["text"] < 8192 and sizes["stack"] == 2048 and compiled.artifact.fits
    assert sum(v for k, v in sizes["ops"].items() if k.startswith("op_")) <= sizes["text"]
    assert "op_0_conv" in compiled.artifact.listing()


def test_other_number_formats_are_refused():
    with pytest.raises(TilewrightError, match="TW0063"):
        tw.compile(gray_conv().imported(), target="coral", quantize="fp8")


def test_the_host_computes_what_the_core_cannot(tmp_path):
    imported = import_mlir(MIXED, "mixed.mlir")
    made = compile_imported(imported, "coral")
    kinds = [type(part).__name__ for part in made.parts]
    assert kinds == ["DevicePart", "HostPart", "DevicePart"]
    assert "f16" in made.parts[1].reasons[0]  # pyright: ignore[reportAttributeAccessIssue]
    save(made, tmp_path / "mixed.twb")
    loaded = load(tmp_path / "mixed.twb")
    assert verify(loaded, original=imported).ok
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    (wanted,) = reference_run(imported.module, [x], weights=imported.weights)
    got = tw.compile(imported, target="coral")(x)
    assert np.allclose(np.asarray(got), np.asarray(wanted), atol=1e-5)
    with pytest.raises(TilewrightError, match=r"TW1707.*f16"):
        compile_imported(imported, "coral", CompileOptions(no_host=True))
    with pytest.raises(TilewrightError, match="TW5056"):
        made.artifact.emit("c")


def test_outputs_that_are_copies_are_the_programs_own():
    """An argument, a constant and a value twice: all in one ELF, nothing for the host."""
    text = """
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<[1.5, -2.0]> : tensor<2xf32>
  %y = stablehlo.add %x, %x : tensor<3xf32>
  return %y, %y, %c, %x : tensor<3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>
}
"""
    made = compile_imported(import_mlir(text, "copies.mlir"), "coral")
    assert [type(part).__name__ for part in made.parts] == ["DevicePart"]
    assert verify(made).ok
    x = np.array([1, 2, -4], np.float32)
    found = tw.compile(import_mlir(text, "copies.mlir"), target="coral")(x)
    for got, want in zip(found, (2 * x, 2 * x, np.array([1.5, -2], np.float32), x), strict=True):
        assert np.array_equal(np.asarray(got), want)


def test_images_in_rows_take_the_same_doors(tmp_path):
    """Two maps of 16 KB each; a mean at the end, so that none is kept whole."""
    w = Weights(15)

    @model
    def network(x: Tensor["f32", 1, 24, 24, 2]) -> Tensor:
        h = (x.conv2d(w(3, 3, 2, 8)) + w(8)).relu()
        return h.conv2d(w(3, 3, 8, 8)).relu().mean(1, 2)

    imported = network.imported()  # tracing draws weights
    made = compile_imported(imported, "coral")
    save(made, tmp_path / "rows.twb")
    loaded = load(tmp_path / "rows.twb")
    assert "k_rows" in loaded.artifact.listing()
    assert verify(loaded, original=imported).ok


def findings(artifact: CoralArtifact, compiled) -> list[str]:
    return [f.code for f in artifact.check(compiled.parts, compiled.ports) if f.error]


def test_checks_find_what_is_wrong(compiled):
    artifact = compiled.artifact
    (entry,) = artifact.entries.values()
    assert findings(artifact, compiled) == []

    def changed(**fields) -> CoralArtifact:
        return CoralArtifact(artifact.machine, [replace(entry, **fields)])

    # A float vector instruction, which hangs the core.
    code = bytearray(entry.elf)
    start = next(s for s in parse_elf(entry.elf).sections if s.name == ".text")
    place = code.find(start.data[:16]) + 16
    code[place : place + 4] = (0x02001057).to_bytes(4, "little")
    assert "TW5053" in findings(changed(elf=bytes(code)), compiled)
    # An input of another size.
    program = replace(entry.program, inputs=list(entry.program.inputs))
    program.inputs[0] = replace(program.inputs[0], shape=(1, 63))
    assert "TW5054" in findings(changed(program=program), compiled)
    # Two buffers at one place.
    buffers = [t for t in entry.tensors if t.kind == "activation"]
    moved = tuple(replace(t, address=buffers[0].address, first=0, last=9) for t in entry.tensors)
    assert "TW5055" in findings(changed(tensors=moved), compiled)
    missing = DevicePart("device_7", compiled.parts[0].inputs, compiled.parts[0].outputs)
    assert [f.code for f in artifact.check([missing], compiled.ports)] == ["TW5052"]


def test_a_wrong_program_is_not_verified(compiled):
    (entry,) = compiled.artifact.entries.values()
    weights = next(v for v in entry.program.constants() if v.elements > 100)
    old = weights.data
    assert old is not None
    try:
        weights.data = old + np.float32(0.25)
        assert not verify(compiled).ok
    finally:
        weights.data = old


@pytest.mark.parametrize("seed", range(12))
def test_damaged_bundles(compiled, tmp_path, seed):
    """A bundle with some bytes of one member changed is refused, or still answers."""
    path = tmp_path / "mlp.twb"
    save(compiled, path)
    rng = np.random.default_rng(seed)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = [name for name in members if name.startswith("coral/")]
    name = names[seed % len(names)]
    data = bytearray(members[name])
    for _ in range(6):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    members[name] = bytes(data) if seed % 3 else bytes(data)[: len(data) // 2]
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    try:
        verify(load(path))
    except TilewrightError as error:
        assert error.code.startswith("TW")


def test_commands(tmp_path, capsys):
    model, bundle = tmp_path / "spotter.mlir", tmp_path / "spotter.twb"
    model.write_text(keyword_spotter().stablehlo())
    arguments = ["compile", model, "--target", "coral", "--quantize", "int8", "-o"]
    status, out, err = run_command(capsys, *arguments, bundle, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert document["fits"] is True and document["sizes"]["text"] < 8192
    assert {"text", "constants", "data", "stack", "ops"} <= set(document["sizes"])
    assert document["sqnr_db"]["output"] > 15
    assert run_command(capsys, "run", bundle, "--seed", 1)[0] == 0
    status, out, _ = run_command(capsys, "verify", bundle, "--seed", 1)
    assert status == 0 and "verified" in out
    page = tmp_path / "page.html"
    assert run_command(capsys, "report", bundle, "-o", page)[0] == 0
    text = page.read_text()
    assert "op_0_q_conv" in text and "hot lines" in text and "model.c:" in text
    assert "bytes of code" in text and "instructions of device_0" in text
    for kind, head in (("c", b"/* Generated"), ("elf", b"\x7fELF"), ("asm", b"\t.")):
        to = tmp_path / f"spotter.{kind}"
        assert run_command(capsys, *arguments, to, "--emit", kind)[0] == 0
        assert to.read_bytes().startswith(head)
    status, _, err = run_command(capsys, *arguments, tmp_path / "x", "--emit", "vhdl")
    assert status == 2 and "TW0064" in err
    status, out, _ = run_command(capsys, "coral", "report", bundle, "--top", 3)
    assert status == 0 and "hot lines" in out and "model.c:" in out


def test_assembly_is_text_whatever_bytes_constants_have():
    """Int8 tables come out of the compiler as strings with bytes that are no characters."""
    from tilewright.targets.coral.machines import MACHINES
    from tilewright.targets.coral.toolchain import ascii_text, assembly

    assert ascii_text(b'.ascii "a\xd0\x80"') == '.ascii "a\\320\\200"'
    table = ", ".join(str((77 * k) % 256 - 128) for k in range(256))
    source = f"const signed char table[256] = {{{table}}};\nint main(void) {{ return table[3]; }}\n"
    assert assembly(source, MACHINES["coral"]).isascii()


def test_a_function_of_tensors_is_a_model(tmp_path, monkeypatch, capsys):
    """`tw.compile` and the command take what `tw.model` makes, with products of batches."""
    text = """import tilewright as tw

@tw.model
def scores(a: tw.Tensor["f32", 2, 3, 4], b: tw.Tensor["f32", 2, 4, 5]):
    return a.matmul(b)
"""
    (tmp_path / "own_scores.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    from own_scores import scores  # type: ignore[import-not-found]

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4), (2, 4, 5)))
    made = tw.compile(scores, target="coral")
    assert np.allclose(made(a, b), a @ b, atol=1e-6) and made.verify().ok
    phases = tmp_path / "phases"
    arguments = ["compile", "own_scores:scores", "--target", "coral", "-o", tmp_path / "s.twb"]
    assert run_command(capsys, *arguments, "--dump-phases", phases)[0] == 0
    kept = {path.name.split("-", 1)[1] for path in phases.iterdir()}
    assert {"imported.mlir", "1-program.txt", "4-model.c", "5-instructions.txt"} <= kept
