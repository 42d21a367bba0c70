"""Models on the array: exact sums, one configuration, files that say what is wrong with them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.cli import main
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.mlir import read_mlir
from tilewright.frontend.mlir_model import import_mlir
from tilewright.model.options import CompileOptions
from tilewright.reference.dtypes import numpy_type
from tilewright.reference.executor import Executor
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import DeviceOptions, HostPart, StepValues
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.registry import description_of, find
from tilewright.targets.xdna import layer_program
from tilewright.targets.xdna.design import Transfer
from tilewright.targets.xdna.device import device_table, load_device
from tilewright.targets.xdna.gemm import gemm_behind
from tilewright.targets.xdna.layer_program import configuration, plan_program
from tilewright.targets.xdna.layer_weights import pack, quantise, unpack
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.mlir_emit import emit_mlir
from tilewright.targets.xdna.mlir_parse import parse_design
from tilewright.targets.xdna.model_artifact import XdnaArtifact
from tilewright.targets.xdna.model_device import ModelDevice, exact_product
from tilewright.targets.xdna.model_members import read_artifact
from tilewright.targets.xdna.model_reference import decoded
from tilewright.targets.xdna.xdna_target import XdnaTarget

Arrays = dict[str, np.ndarray]

CHAIN = """
func.func @main(%x: tensor<3x5x40xf32>) -> (tensor<3x5x24xf32>, tensor<3x5x3xbf16>) {
  %w = arith.constant dense_resource<up> : tensor<100x40xf32>
  %v = arith.constant dense_resource<down> : tensor<100x24xf32>
  %u = arith.constant dense_resource<side> : tensor<40x3xf32>
  %a = npu_kernel.matmul %x, %w {transpose_rhs, tw.layer = "up"} : tensor<3x5x40xf32>, tensor<100x40xf32> -> tensor<3x5x100xf32>
  %b = npu_kernel.matmul %a, %v {tw.layer = "down"} : tensor<3x5x100xf32>, tensor<100x24xf32> -> tensor<3x5x24xf32>
  %c = npu_kernel.matmul %x, %u {tw.layer = "side"} : tensor<3x5x40xf32>, tensor<40x3xf32> -> tensor<3x5x3xbf16>
  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%b) {tw.layer = "act"} : tensor<3x5x24xf32> -> tensor<3x5x24xf32>
  return %r, %c : tensor<3x5x24xf32>, tensor<3x5x3xbf16>
}
"""


def compiled(
    text: str, weights: Arrays, target: str, **options: Any
) -> CompiledModel[XdnaArtifact]:
    model = import_mlir(text, "model.mlir", weights)
    return find(target).compile(model, CompileOptions(**options), [], lambda phase, detail: None)


def chain(target: str, seed: int = 0, **options: Any) -> CompiledModel[XdnaArtifact]:
    rng = np.random.default_rng(seed)
    weights = {
        "up": rng.standard_normal((100, 40)).astype(np.float32),
        "down": rng.standard_normal((100, 24)).astype(np.float32) * 3,
        "side": rng.standard_normal((40, 3)).astype(np.float32),
    }
    return compiled(CHAIN, weights, target, **options)


def execute(model: CompiledModel[XdnaArtifact], device: Any, given: Arrays, watch: Any = None):
    """Part after part, as a runtime does."""
    values = dict(given)
    device.begin()
    for part in model.parts:
        if isinstance(part, HostPart):
            host = Executor(read_mlir(model.host_module), model.host_weights)
            made = host.run([values[name] for name in part.inputs], part.function)
            values.update(zip(part.outputs, made, strict=True))
            continue
        for name in part.inputs:
            device.write(model.ports[name], values[name])
        device.run(part, watch)
        values.update({name: device.read(model.ports[name]) for name in part.outputs})
    return values


def files(artifact: XdnaArtifact) -> Arrays:
    found = {}
    for member in artifact.members():
        data = b"".join(
            p if isinstance(p, bytes) else np.ascontiguousarray(p).tobytes() for p in member.pieces
        )
        found[member.name] = np.frombuffer(data, np.uint8)
    return found


# --- values -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["npu1", "npu1-ternary", "npu2"])
@pytest.mark.parametrize("seed", range(3))
def test_integer_products_of_any_shape_are_exact(target: str, seed: int) -> None:
    """Odd, tall and one-row shapes, the weight either way round, every int8 value."""
    rng = np.random.default_rng([seed, len(target)])
    M, K, N = [(1, 77, 50), (131, 9, 3), (int(rng.integers(2, 90)), 260, 35)][seed]
    low, high = (-1, 1) if target.endswith("ternary") else (-128, 127)
    a = rng.integers(-128, 128, (M, K), dtype=np.int8)
    b = rng.integers(low, high + 1, (K, N), dtype=np.int8)
    a.flat[:2], b.flat[:2] = (-128, 127), (low, high)
    flipped = bool(seed % 2)
    shape, mark = (f"{N}x{K}", "transpose_rhs, ") if flipped else (f"{K}x{N}", "")
    text = f"""
    func.func @main(%x: tensor<{M}x{K}xi8>) -> tensor<{M}x{N}xi32> {{
      %w = arith.constant dense_resource<w> : tensor<{shape}xi8>
      %y = npu_kernel.matmul %x, %w {{{mark}tw.layer = "lin"}} : tensor<{M}x{K}xi8>, tensor<{shape}xi8> -> tensor<{M}x{N}xi32>
      return %y : tensor<{M}x{N}xi32>
    }}"""
    model = compiled(text, {"w": b.T if flipped else b}, target)
    device = model.artifact.device(DeviceOptions())
    found = execute(model, device, {model.inputs[0]: a})[model.outputs[0]]
    assert (found == a.astype(np.int64) @ b.astype(np.int64)).all()
    assert found.dtype == np.int32 and device.cycles > 0
    bound = model.artifact.bound()
    assert bound is not None and device.cycles >= bound.cycles


@pytest.mark.parametrize("target", ["npu1", "npu1-ternary", "npu2-ternary"])
def test_float_layers_equal_the_reference_bit_by_bit(target: str) -> None:
    model = chain(target)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 5, 40)).astype(np.float32) * rng.choice([1e-7, 1, 1e4], (3, 5, 1))
    x = x.astype(np.float32)
    x[0, 0] = 0
    x[1, 1, 7] = np.inf
    given = {model.inputs[0]: x}
    seen: list[list[StepValues]] = [[], []]
    results = [
        execute(model, device, given, notes.append)
        for device, notes in zip(
            (model.artifact.device(DeviceOptions()), model.artifact.reference()), seen, strict=True
        )
    ]
    for name in model.outputs:
        left, right = (values[name] for values in results)
        assert left.tobytes() == right.tobytes() and left.shape == model.ports[name].shape
        assert left.dtype == numpy_type(model.ports[name].dtype)
        assert np.isnan(left[1, 1].astype(np.float32)).all()
    assert len(seen[0]) == 3
    for one, other in zip(*seen, strict=True):
        for side in ("reads", "writes"):
            assert {k: v.tobytes() for k, v in getattr(one, side).items()} == {
                k: v.tobytes() for k, v in getattr(other, side).items()
            }


@pytest.mark.parametrize("scales", ["channel", "tensor"])
def test_int8_layers_are_near_the_float_model(scales: str) -> None:
    model = chain("npu1", scales=scales)
    x = np.random.default_rng(1).standard_normal((3, 5, 40)).astype(np.float32)
    found = execute(model, model.artifact.device(DeviceOptions()), {model.inputs[0]: x})
    rng = np.random.default_rng(0)
    up = rng.standard_normal((100, 40)).astype(np.float32)
    down = rng.standard_normal((100, 24)).astype(np.float32) * 3
    wanted = np.maximum(x @ up.T @ down, 0)
    got = found[model.outputs[0]]
    cosine = (got * wanted).sum() / np.sqrt((got**2).sum() * (wanted**2).sum())
    assert cosine > 0.9995


def test_simulators_agree_and_say_what_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chain("npu1")
    x = {model.inputs[0]: np.random.default_rng(2).standard_normal((3, 5, 40)).astype(np.float32)}
    results = {}
    for name in ("walk", "exact"):
        device = model.artifact.device(DeviceOptions(simulator=name))
        results[name] = execute(model, device, x)[model.outputs[0]].tobytes()
        assert isinstance(device, ModelDevice)
        text = next(iter(device.hazards())).message
        assert ("never walked" in text) == (name == "exact")
    assert results["walk"] == results["exact"]
    monkeypatch.setattr("tilewright.targets.xdna.model_device.ALWAYS_WALKED", 0)
    device = model.artifact.device(DeviceOptions())
    execute(model, device, x)
    execute(model, device, x)  # every design has been walked by now
    assert isinstance(device, ModelDevice)
    assert "0 products walked" in next(iter(device.hazards())).message
    with pytest.raises(TilewrightError, match="no simulator"):
        model.artifact.device(DeviceOptions(simulator="gpu"))
    with pytest.raises(TilewrightError, match="more than 10 cycles"):
        execute(model, model.artifact.device(DeviceOptions(max_cycles=10)), x)


def test_exact_products_hold_the_largest_sums() -> None:
    a = np.full((2, 5000), -128, np.int8)
    assert (exact_product(a, a.T) == 5000 << 14).all()


# --- weights ----------------------------------------------------------------------------


def test_ternary_weights_are_taken_as_they_are_or_by_mean_magnitude() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 2, (30, 20))
    found = quantise(codes * 0.37, "ternary", False, "w")
    assert (found.codes == codes).all() and found.scales[0] == np.float32(0.37)
    real = rng.standard_normal((30, 20))
    found = quantise(real, "ternary", False, "w")
    gamma = np.abs(real).mean()
    assert (found.codes == np.clip(np.rint(real / gamma), -1, 1)).all()
    assert found.scales == pytest.approx(gamma)
    assert (quantise(np.zeros((3, 3)), "ternary", False, "w").codes == 0).all()
    with pytest.raises(TilewrightError, match="NaN"):
        quantise(np.array([[np.nan]]), "i8", True, "w")


@pytest.mark.parametrize("kind", ["i8", "ternary"])
def test_packed_weights_decode_alike_by_both_readers(kind: str) -> None:
    program = plan_program([(20, 70, 90)], find("npu2").array, kind)  # type: ignore[attr-defined]
    gemm = program.gemm((20, 70, 90))
    low, high = (-1, 1) if kind == "ternary" else (-127, 127)
    codes = np.random.default_rng(3).integers(low, high + 1, (70, 90)).astype(np.int8)
    packed = pack(gemm, codes)
    again = decoded(packed, kind, 70, 90, gemm.padded[1], gemm.k, gemm.n, gemm.block)
    assert (unpack(gemm, packed) == codes).all() and (again == codes).all()


# --- program ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["i8", "ternary"])
def test_all_layers_share_one_configuration(kind: str) -> None:
    shapes = [(1, 96, 288), (64, 576, 192), (1, 96, 288), (33, 40, 700)]
    program = plan_program(shapes, find("npu2").array, kind)  # type: ignore[attr-defined]
    assert len({configuration(design) for design in program.designs.values()}) == 1
    assert len({design.runtime for design in program.designs.values()}) == 3
    for shape, design in program.designs.items():
        gemm = gemm_behind(design)
        assert shape == (gemm.M, gemm.K, gemm.N) and gemm.packed


RESIDENT = """
func.func @main(%x: tensor<150x70xf32>) -> tensor<150x100xf32> {
  %w = arith.constant dense_resource<up> : tensor<70x900xf32>
  %v = arith.constant dense_resource<down> : tensor<900x100xf32>
  %a = npu_kernel.matmul %x, %w {tw.layer = "up"} : tensor<150x70xf32>, tensor<70x900xf32> -> tensor<150x900xf32>
  %b = npu_kernel.matmul %a, %v {tw.layer = "down"} : tensor<150x900xf32>, tensor<900x100xf32> -> tensor<150x100xf32>
  return %b : tensor<150x100xf32>
}
"""


@pytest.mark.parametrize("policy", ["resident_a", "resident_b"])
@pytest.mark.parametrize("target", ["npu2", "npu1-ternary"])
def test_resident_panels_of_layers_with_different_k(
    target: str, policy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One room for the panels of all layers, descriptors written anew where K changes."""
    monkeypatch.setattr(layer_program, "POLICIES", (policy,))
    rng = np.random.default_rng(5)
    weights = {
        "up": rng.standard_normal((70, 900)).astype(np.float32),
        "down": rng.standard_normal((900, 100)).astype(np.float32),
    }
    model = compiled(RESIDENT, weights, target)
    found = model.artifact
    gemms = [gemm_behind(design) for design in found.designs]
    assert {gemm.policy for gemm in gemms} == {policy} and len(gemms) == 2
    assert len({configuration(design) for design in found.designs}) == 1
    slots = {gemm.slots() for gemm in gemms}
    assert len(slots) == 2 and len({len(each) for each in slots}) == 1
    tiles = gemms[0].columns if policy == "resident_b" else gemms[0].a_columns
    written = tiles * (3 * gemms[0].panel_slots + 1) * found.array.controller.push_seconds
    assert found.rewriting == [pytest.approx(written * found.array.clock_hz)] * 2
    save(model, tmp_path / "model.twb")
    again = load(tmp_path / "model.twb")
    assert again.artifact.designs == found.designs
    checked = verify(again)
    assert checked.ok, checked.text()
    device = ModelDevice(found, DeviceOptions(simulator="walk"))
    execute(model, device, {"x": rng.standard_normal((150, 70)).astype(np.float32)})
    alone = sum(found.time(layer.design).cycles for layer in found.layers)
    assert device.cycles == pytest.approx(alone + sum(found.rewriting), abs=2)
    # A layer with a room of its own would have its other buffers elsewhere.
    own = [design_of(replace(gemm, panel_room=0), found.array) for gemm in gemms]
    assert len({configuration(design) for design in own}) == 2
    apart = replace(found, designs=(found.designs[0], own[1]))
    messages = [finding.message for finding in apart.check(model.parts, model.ports)]
    assert any("another configuration" in message for message in messages)


def test_what_is_not_for_the_array_has_a_reason() -> None:
    model = chain("npu1")
    reasons = [r for p in model.parts if isinstance(p, HostPart) for r in p.reasons]
    assert reasons == ["act: the array computes matrix products only"]
    assert not list(model.artifact.check(model.parts, model.ports))
    steps = model.artifact.steps
    assert {step.name: step.macs for step in steps}["up"] == 15 * 40 * 100
    assert set(steps[0].operands.values()) <= set(model.artifact.tensors)
    square = """
    func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = npu_kernel.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }"""
    with pytest.raises(TilewrightError, match="no operation") as caught:
        compiled(square, {}, "npu1")
    assert "change from run to run" in (caught.value.hint or "")


# --- files ------------------------------------------------------------------------------


def test_files_give_the_same_artifact_and_the_same_bytes() -> None:
    model = chain("npu1-ternary")
    first = files(model.artifact)
    again = read_artifact(first, Location("model.twb"))
    assert again.designs == model.artifact.designs and again.layers == model.artifact.layers
    second = files(again)
    assert list(first) == list(second)
    assert all((first[name] == second[name]).all() for name in first)


def walks(artifact: XdnaArtifact) -> list[Any]:
    """Runtime steps; strides of loops that run once say nothing."""
    return [
        (s.fifo, s.buffer, s.pattern.canonical(), s.descriptor, s.token)
        if isinstance(s, Transfer)
        else s
        for s in artifact.designs[0].runtime
    ]


def caught(
    model: CompiledModel[XdnaArtifact], changed: Arrays, x: Arrays, wanted: bytes, numbers: bool
) -> bool:
    """Whether reading, checking or running a changed artifact tells, if it was changed at all."""
    try:
        artifact = read_artifact(changed, Location("model.twb"))
        if numbers and walks(artifact) == walks(model.artifact):
            return True
        if list(artifact.check(model.parts, model.ports)):
            return True
        model.artifact = artifact
        return (
            execute(model, artifact.device(DeviceOptions()), x)[model.outputs[0]].tobytes()
            != wanted
        )
    except TilewrightError:
        return True


def test_changed_files_are_noticed() -> None:
    """Every byte of weights matters; so does every number of a runtime sequence."""
    model = chain("npu1")
    x = {model.inputs[0]: np.random.default_rng(2).standard_normal((3, 5, 40)).astype(np.float32)}
    good, original = files(model.artifact), model.artifact
    wanted = execute(model, original.device(DeviceOptions()), x)[model.outputs[0]].tobytes()
    rng = np.random.default_rng(7)
    missed = []
    for _ in range(6):
        data = good["weights.safetensors"].copy()
        at = int(rng.integers(int.from_bytes(data[:8].tobytes(), "little") + 8, data.size))
        data[at] ^= 1 << rng.integers(8)
        if not caught(model, {**good, "weights.safetensors": data}, x, wanted, False):
            missed.append(f"weights byte {at}")
    text = good["design_0.mlir"].tobytes().decode()
    begin = text.index("runtime_sequence")
    numbers = [m for m in re.finditer(r"(?<![\w@%])\d+(?![\w])", text) if m.start() > begin]
    for match in rng.permutation(np.array(numbers, object))[:12]:
        value = str(int(match.group()) + 1)
        changed = text[: match.start()] + value + text[match.end() :]
        members = {**good, "design_0.mlir": np.frombuffer(changed.encode(), np.uint8)}
        if not caught(model, members, x, wanted, True):
            missed.append(text[match.start() - 60 : match.end() + 20])
    assert not missed


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("layers.json", lambda t: "{", "JSON"),
        ("layers.json", lambda t: t.replace('"npu1"', '"../../etc"'), "no array"),
        ("layers.json", lambda t: t.replace('"version": 1', '"version": 9'), "version"),
        ("layers.json", lambda t: t.replace('"exact": false', '"exact": 0', 1), "exact"),
        ("layers.json", lambda t: t.replace('"design": 1', '"design": 77', 1), "not there"),
        ("layers.json", lambda t: t.replace('"shape": [', '"shape": [1,', 1), "three sizes"),
        ("descriptors_0.txt", lambda t: t + "x", "descriptors"),
        ("kernels.cc", lambda t: t + "x", "kernels"),
        ("design_0.mlir", lambda t: t[: len(t) // 2], "TW8"),
        ("design_1.mlir", None, "missing"),
        ("extra.bin", lambda t: "x", "nothing names"),
    ],
)
def test_files_of_unknown_origin_are_refused(name: str, change: Any, message: str) -> None:
    good = files(chain("npu1").artifact)
    text = good[name].tobytes().decode() if name in good else ""
    changed = dict(good)
    changed.pop(name, None)
    if change is not None:
        changed[name] = np.frombuffer(change(text).encode(), np.uint8)
    with pytest.raises(TilewrightError, match=message):
        read_artifact(changed, Location("model.twb"))


# --- through the house ------------------------------------------------------------------


@pytest.mark.parametrize("target", ["npu1", "npu1-ternary"])
def test_compile_save_load_run_verify(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    weights = {
        "up": rng.integers(-1, 2, (100, 40)) * np.float32(0.3),
        "down": rng.integers(-1, 2, (100, 24)) * np.float32(0.7),
        "side": rng.integers(-1, 2, (40, 3)) * np.float32(2),
    }
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    model = import_mlir(CHAIN, "model.mlir", weights)
    program = tw.compile(model, target=target)
    path = tmp_path / "model.twb"
    program.save(path)
    again = tw.load(path)
    x = rng.standard_normal((3, 5, 40)).astype(np.float32)
    first, second = program(x), again(x)
    assert [a.tobytes() for a in first] == [b.tobytes() for b in second]
    found = verify(load(path), original=model)
    assert found.ok, found.text()
    assert any("walked descriptor by descriptor" in note for note in found.notes)
    near = np.maximum(x @ weights["up"].T @ weights["down"], 0)
    assert np.abs(first[0] - near).max() < 0.05 * np.abs(near).max()


def test_layers_of_a_bundle_and_of_a_published_model(tmp_path: Path, capsys) -> None:
    path = tmp_path / "model.twb"
    save(chain("npu1"), path)
    for arguments, names in (
        ([str(path)], ["up", "side", "down"]),
        (["smollm2-135m", "-M", "1", "--device", "npu1", "--dtype", "ternary"],
         ["q_proj, o_proj", "k_proj, v_proj", "gate_proj, up_proj", "down_proj"]),
    ):  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main(["xdna", "layers", *arguments, "--json"])
        assert not stop.value.code
        data = json.loads(capsys.readouterr().out)
        assert sorted(row["name"] for row in data["layers"]) == sorted(names)
        total = sum(row["count"] * row["seconds"] for row in data["layers"])
        assert data["seconds"] == pytest.approx(total)
        for row in data["layers"]:
            assert row["tops"] > 0 and set(row["dram_bytes"]) == {"a", "b", "c"}
            M, _, N = row["shape"]
            assert row["dram_bytes"]["c"] >= 4 * M * N
    with pytest.raises(SystemExit) as stop:
        main(["xdna", "layers", "nothing", "--json"])
    assert stop.value.code == 2


@pytest.mark.parametrize("ending", ["", "-ternary"])
@pytest.mark.parametrize("form", ["toml", "json"])
def test_an_array_of_ones_own_is_a_target(form: str, ending: str, tmp_path: Path) -> None:
    """The bundle brings the array along, so it is read where the file is not."""
    board = tmp_path / f"board.{form}"
    if form == "toml":
        board.write_text(
            'base = "npu2"\nname = "board"\ncolumns = 4\nclock_hz = 1e9\n[dram]\nbandwidth = 40e9\n'
        )
    else:
        table = {"base": "npu2", "name": "board", "columns": 4, "clock_hz": 1e9}
        board.write_text(json.dumps({**table, "dram": {"bandwidth": 40e9}}))
    model = chain(f"{board}{ending}")
    found = model.artifact
    assert found.target == "board" + ending and found.array.columns == 4
    bundle = tmp_path / "own.twb"
    save(model, bundle)
    board.unlink()
    again = load(bundle)
    assert again.artifact.array == found.array
    assert description_of(again.artifact).name == "board" + ending
    assert verify(again).ok
    text = emit_mlir(found.designs[0])
    assert "aie.device(npu2)" in text and 'tilewright.device = "board"' in text
    with pytest.raises(TilewrightError, match=r"TW8001.*board") as caught:
        parse_design(text, "own.mlir")
    assert "--device" in (caught.value.hint or "")
    assert parse_design(text, "own.mlir", found.array) == found.designs[0]


def test_parts_of_an_array_are_targets() -> None:
    for name, columns in (("npu2_3col", 3), ("npu1_1col-ternary", 1), ("npu2_strix_halo", 8)):
        target = find(name)
        assert target.describe().name == name
        assert isinstance(target, XdnaTarget) and target.array.columns == columns
    model = chain("npu2_1col")
    assert {gemm_behind(design).columns for design in model.artifact.designs} == {1}


def test_an_array_in_a_bundle_is_checked() -> None:
    made = files(chain("npu2_1col").artifact)
    table = device_table(load_device("npu2_1col"))

    def bringing(**changes: object) -> Arrays:
        text = json.dumps({**table, **changes}).encode()
        return {**made, "device.json": np.frombuffer(text, np.uint8)}

    for changes, message in (
        ({"name": "other"}, "brings another"),
        ({"columns": 0}, "columns is not positive"),
        ({"columns": "many"}, "not int"),
        ({"dialect_name": 'x"y'}, "is no name"),
        ({}, "that nothing names"),  # a built-in array is not brought
    ):
        with pytest.raises(TilewrightError, match=message):
            read_artifact(bringing(**changes), Location("bundle"))
