"""The exported manifest: kernels run anywhere, in sequence, and survive every form."""

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.measure import SUM
from tilewright.targets.atlas.kernels.registry import ENTRIES, entry
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.manifest.manifest_export import (
    export_kernel,
    export_manifest,
    program_of,
    stitch,
)
from tilewright.targets.atlas.manifest.relocate import Region, movable
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa, print_text_isa
from tilewright.tile.layouts import Layout
from tilewright.transforms.kernel_manifest import from_json, load_manifest

PROFILES = ("atlas-v0", "atlas-v1")
MEMORY = 1 << 20
TILES = [name for name, which in ENTRIES.items() if not which.made]


@pytest.fixture(scope="module", params=PROFILES)
def exported(request):
    """A manifest as another program would read it."""
    text = json.dumps(export_manifest(request.param))
    return request.param, json.loads(text), from_json(json.loads(text), "manifest.json")


def layout_of(operand):
    return Layout(tuple(operand["shape"]), operand["dtype"], operand["order"])


def random_places(operands, random):
    """Disjoint places in random order with random gaps."""
    places, at = {}, 32 * int(random.integers(0, 500))
    for index in random.permutation(len(operands)):
        operand = operands[index]
        if operand["space"] == "dram":
            places[operand["name"]] = at
            at += -(-operand["bytes"] // 32) * 32 + 32 * int(random.integers(0, 3000))
    assert at < MEMORY
    return places


def test_all_kernels_are_exported(exported):
    assert set(exported[1]["kernels"]) == set(TILES)


def test_kernels_made_for_one_size_are_not_exported():
    with pytest.raises(TilewrightError, match="conv2d is made for whole images") as caught:
        export_manifest("atlas-v0", ["conv2d"])
    assert caught.value.code == "TW1338"


@pytest.mark.parametrize("name", TILES)
def test_kernels_run_at_random_addresses(exported, name):
    profile, data, manifest = exported
    described = data["kernels"][name]
    random = np.random.default_rng(len(name))
    places = random_places(described["operands"], random)
    program = stitch(manifest, [(name, places)])
    assert not [f for f in lint(program, load_profile(profile)).findings if f.severity != "note"]
    machine = make_machine(load_profile(profile), Policy(initial="poison", dma="late"))
    machine.load(program)
    before = random.integers(0, 256, MEMORY, np.uint8)
    machine.write("dram", 0, before.tobytes())
    which = entry(name)
    inputs = which.sample(seed=5)
    for parameter, codes in zip(which.inputs, inputs, strict=True):
        if parameter in places:
            operand = next(o for o in described["operands"] if o["name"] == parameter)
            raw = layout_of(operand).pack(codes)
            machine.write("dram", places[parameter], raw)
            before[places[parameter] :][: len(raw)] = np.frombuffer(raw, np.uint8)
        else:
            machine.write_register(SUM, codes.astype("<u2").tobytes())
    for operand in described["operands"]:
        if "data" in operand:
            raw = bytes.fromhex(operand["data"])
            machine.write("dram", places[operand["name"]], raw)
            before[places[operand["name"]] :][: len(raw)] = np.frombuffer(raw, np.uint8)
    outcome = machine.run()
    assert outcome.fault is None
    assert outcome.cycles == described["cycles"]
    wanted = which.reference.exact(load_profile(profile), *inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    after = np.frombuffer(machine.read("dram", 0, MEMORY), np.uint8).copy()
    outputs = [o for o in described["operands"] if o["direction"] == "out"]
    for operand, want in zip(outputs, wanted, strict=True):
        if operand["space"] != "dram":
            raw = machine.read_register(SUM)
            assert isinstance(raw, bytes)
            got = np.frombuffer(raw, "<u2").reshape(32, 32)
        else:
            place, size = places[operand["name"]], operand["bytes"]
            got = layout_of(operand).unpack(after[place : place + size].tobytes()).view(want.dtype)
            after[place : place + size] = before[place : place + size]
        assert np.array_equal(canonical(got), canonical(want))
    # Nothing else in memory changed.
    assert np.array_equal(after, before)


def test_only_declared_registers_change(exported):
    profile, data, manifest = exported
    described = data["kernels"]["softmax"]
    program = stitch(manifest, [("softmax", random_places(described["operands"],
                                                          np.random.default_rng(1)))])  # fmt: skip
    machine = make_machine(load_profile(profile), Policy(initial="random", seed=3))
    machine.load(program)
    names = [f"m{k}" for k in range(64)]
    before = {name: machine.read_register(name) for name in names}
    machine.run()
    changed = {int(n[1:]) for n in names if machine.read_register(n) != before[n]}
    assert changed <= set(described["clobbers"]["m"])


def test_patch_points_are_pairs(exported):
    _, data, _ = exported
    for name, kernel in data["kernels"].items():
        assert kernel["patch_points"], name
        for point in kernel["patch_points"]:
            first, second = (kernel["instructions"][i] for i in point["instructions"])
            assert (first["mnemonic"], second["mnemonic"]) == ("lui", "addi")
            assert first["args"]["rd"] == second["args"]["rd"] == point["register"]
            high, low = first["args"]["imm"], second["args"]["imm"]
            assert (high << 12) + low == point["original_value"]


def test_a_sequence_of_launches(exported):
    """rms_norm, requant, matmul and add one after the other give the bits of the references."""
    profile, _, manifest = exported
    calls = [
        ("rms_norm", {"x": 0x8000, "out": 0x9000}),
        ("requant", {"x": 0x9000, "out": 0xA000}),
        ("matmul", {"a": 0xA000, "b": 0x1F000, "out": 0x2800}),
        ("elementwise_add", {"a": 0x2800, "b": 0x3F800, "out": 0x12340}),
    ]
    x, b, residual = entry("mini_block").sample()
    machine = make_machine(load_profile(profile), Policy(initial="poison"))
    machine.load(stitch(manifest, calls))
    for place, dtype, codes in (
        (0x8000, "bf16", x),
        (0x1F000, "fp8", b),
        (0x3F800, "bf16", residual),
    ):
        machine.write("dram", place, Layout((32, 32), dtype).pack(codes))
    assert machine.run().fault is None
    raw = machine.read("dram", 0x12340, 2048)
    got = Layout((32, 32), "bf16").unpack(raw).view(np.uint16)
    want = entry("mini_block").reference.exact(load_profile(profile), x, b, residual)
    assert np.array_equal(got, want)


def test_a_chain_of_launches(exported):
    """The accumulator survives between launches."""
    profile, _, manifest = exported
    random = np.random.default_rng(2)
    a, b = (random.integers(0, 0x50, (4, 32, 32)).astype(np.uint8) for _ in range(2))
    steps = ["matmul_acc_first", "matmul_acc_mid", "matmul_acc_mid", "matmul_acc_last"]
    calls = []
    for k, step in enumerate(steps):
        places = {"a": 0x10000 + 1024 * k, "b": 0x20000 + 1024 * k}
        calls.append((step, {**places, "out": 0x4000} if step.endswith("last") else places))
    machine = make_machine(load_profile(profile), Policy(initial="poison"))
    machine.load(stitch(manifest, calls))
    machine.write("dram", 0x10000, a.tobytes())
    machine.write("dram", 0x20000, b.tobytes())
    assert machine.run().fault is None
    got = Layout((32, 32), "bf16").unpack(machine.read("dram", 0x4000, 2048)).view(np.uint16)
    want = entry("matmul").reference.exact(
        load_profile(profile), np.concatenate(list(a), 1), np.concatenate(list(b), 0)
    )
    assert np.array_equal(got, want)


def test_text_round_trip(exported):
    _, _, manifest = exported
    for kernel in manifest.kernels.values():
        program = program_of(kernel.instructions)
        text = print_text_isa(program)
        again = parse_text_isa(text)
        assert again.same_code(program) and print_text_isa(again) == text


def test_loops_cannot_be_moved():
    profile = load_profile("atlas-v1")
    program = assemble("again:\n addi x1, x1, 1\n bne x1, x2, again\n nop\n nop\n", profile)
    with pytest.raises(TilewrightError, match="loops cannot be moved"):
        movable(program, [])


def test_addresses_outside_the_operands_are_refused():
    program = assemble("addi x1, x0, 1024\ndma.load.ch0 x0, x1, x1\n", load_profile("atlas-v1"))
    with pytest.raises(TilewrightError, match="no operand of the kernel lies at 0x400"):
        movable(program, [Region("x", False, 0, 1024)])


def test_bad_calls():
    manifest = from_json({"schema_version": 1, "kernels": {"silu": export_kernel(entry("silu"),
                                                                               "atlas-v0")}}, "m")  # fmt: skip
    with pytest.raises(TilewrightError, match="has no kernel gelu"):
        stitch(manifest, [("gelu", {})])
    with pytest.raises(TilewrightError, match="has no operand y"):
        stitch(manifest, [("silu", {"y": 0})])
    with pytest.raises(TilewrightError, match="dram_out_0 unbound"):
        stitch(manifest, [("silu", {"x": 0})])


def test_a_manifest_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    for names in ({}, {"kernels": {}}):
        path.write_text(json.dumps({"schema_version": 1, **names}))
        if names:
            assert load_manifest(str(path)).kernels == {}
        else:
            with pytest.raises(TilewrightError, match="an object of kernels is needed"):
                load_manifest(str(path))
    path.write_text("[" * 100_000)
    with pytest.raises(TilewrightError, match="nested too deeply"):
        load_manifest(str(path))


def test_patch_points_name_instructions_that_are_there() -> None:
    kernel = next(iter(load_manifest("atlas-v0").kernels.values()))
    document = {
        "symbol_prefix": kernel.symbol_prefix,
        "tile_shape": list(kernel.tile_shape),
        "input_layout": kernel.input_layout,
        "output_layout": kernel.output_layout,
        "instructions": [i.to_json() for i in kernel.instructions],
        "patch_points": [
            {"role": "dram_in_0", "register": 1, "original_value": 0, "instructions": [0, 10**6]}
        ],
    }
    with pytest.raises(TilewrightError, match="dram_in_0 is computed by instructions that are not"):
        from_json({"schema_version": 1, "kernels": {kernel.name: document}}, "mine.json")
