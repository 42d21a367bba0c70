"""The kernels of the first Atlas machine on its simulator: values, places, what they leave alone."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.lint.analysis import lint
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.manifest.atlas_v0_manifest import build
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa
from tilewright.transforms.kernel_manifest import (
    Kernel,
    NativeInstruction,
    PatchPoint,
    from_json,
    instruction,
    load_address,
    load_manifest,
)

BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
MANIFEST = load_manifest("atlas-v0")


def text_of(instructions: list[NativeInstruction]) -> str:
    return "\n".join(
        f"{i.mnemonic} {', '.join(f'{k}={v}' for k, v in i.args)}" for i in instructions
    )


def split_halves(tile: np.ndarray) -> bytes:
    return tile[:, :16].tobytes() + tile[:, 16:].tobytes()


def joined_halves(data: bytes) -> np.ndarray:
    left, right = np.frombuffer(data, BF16).reshape(2, 32, 16)
    return np.concatenate([left, right], axis=1)


def run(launches: list[tuple[str, dict[str, int]]], memory: dict[int, bytes]) -> PythonMachine:
    """Kernels one after the other in one program, with the given DRAM contents."""
    instructions = [
        i for name, addresses in launches for i in MANIFEST.kernels[name].relocated(addresses)
    ]
    machine = PythonMachine(load_profile("atlas-v0"))
    machine.load(parse_text_isa(text_of(instructions)))
    for address, data in memory.items():
        machine.write("dram", address, data)
    outcome = machine.run(max_cycles=100_000)
    assert outcome.reason == "end", outcome
    assert not machine.faults
    return machine


def bf16_tile(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((32, 32)).astype(np.float32).astype(BF16)


def as_float(tile: np.ndarray) -> np.ndarray:
    return tile.astype(np.float32)


BINARY = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "elementwise_mul": np.multiply,
    "elementwise_max": np.maximum,
    "elementwise_min": np.minimum,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_kernels_round_each_element_once(name: str) -> None:
    rng = np.random.default_rng(1)
    a, b = bf16_tile(rng), bf16_tile(rng)
    places = {"dram_in_0": 0x12340, "dram_in_1": 0x800, "dram_out_0": 0x7F000}
    machine = run([(name, places)], {0x12340: split_halves(a), 0x800: split_halves(b)})
    want = BINARY[name](as_float(a), as_float(b)).astype(BF16)
    assert machine.read("dram", 0x7F000, 2048) == split_halves(want)
    assert machine.read("dram", 0x12340, 2048) == split_halves(a)


UNARY = {
    "elementwise_exp": np.exp,
    "elementwise_exp2": np.exp2,
    "elementwise_log2": lambda x: np.log2(np.abs(x)),
    "elementwise_sqrt": lambda x: np.sqrt(np.abs(x)),
    "elementwise_recip": lambda x: 1 / x,
    "elementwise_tanh": np.tanh,
    "elementwise_sin": np.sin,
    "elementwise_cos": np.cos,
    "elementwise_relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_kernels_are_within_bf16_rounding(name: str) -> None:
    x = bf16_tile(np.random.default_rng(2))
    if name in ("elementwise_log2", "elementwise_sqrt"):
        x = np.abs(x)
    machine = run([(name, {"dram_in_0": 0x1000, "dram_out_0": 0x9000})], {0x1000: split_halves(x)})
    have = as_float(joined_halves(machine.read("dram", 0x9000, 2048)))
    want = UNARY[name](as_float(x).astype(np.float64))
    np.testing.assert_allclose(have, want, rtol=0.03, atol=1e-3)


def test_requant_saturates() -> None:
    x = (bf16_tile(np.random.default_rng(3)).astype(np.float32) * 400).astype(BF16)
    machine = run([("requant", {"dram_in_0": 0, "dram_out_0": 0x2000})], {0: split_halves(x)})
    have = np.frombuffer(machine.read("dram", 0x2000, 1024), FP8).reshape(32, 32)
    want = np.clip(as_float(x), -448, 448).astype(FP8)
    np.testing.assert_array_equal(have.view(np.uint8), want.view(np.uint8))
    assert np.abs(as_float(x)).max() > 448


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_matmul_chain_sums_over_k(count: int) -> None:
    """Small integers, so that every rounding of the accumulator is exact."""
    rng = np.random.default_rng(count)
    a = rng.integers(-3, 4, (32, 32 * count)).astype(np.float32)
    b = rng.integers(-3, 4, (32 * count, 32)).astype(np.float32)
    memory, launches = {}, []
    for k in range(count):
        here, there = 0x8000 + 2048 * k, 0x20000 + 1024 * k
        memory[here] = a[:, 32 * k : 32 * k + 32].astype(FP8).tobytes()
        memory[there] = b[32 * k : 32 * k + 32].astype(FP8).tobytes()
        part = "first" if k == 0 else "last" if k == count - 1 else "mid"
        name = "matmul" if count == 1 else f"matmul_acc_{part}"
        places = {"dram_in_0": here, "dram_in_1": there}
        if part == "last" or count == 1:
            places["dram_out_0"] = 0x60000
        launches.append((name, places))
    machine = run(launches, memory)
    want = (a @ b).astype(BF16)
    assert np.abs(a @ b).max() < 256
    assert machine.read("dram", 0x60000, 2048) == split_halves(want)


def test_every_kernel_moves_anywhere() -> None:
    """Addresses appear in the instructions only through their patch points."""
    for kernel in MANIFEST.kernels.values():
        roles = [p.role for p in kernel.patch_points]
        low = kernel.relocated(dict.fromkeys(roles, 64))
        high = kernel.relocated(dict.fromkeys(roles, 0xFF800))
        assert len(low) == len(high) == len(kernel.instructions)
        assert sum(a != b for a, b in zip(low, high, strict=True)) == 2 * len(roles)
        assert {p.role for p in kernel.roles("dram_in")} <= set(roles)


@pytest.mark.parametrize("name", MANIFEST.kernels)
def test_cycles_are_as_stated(name: str) -> None:
    kernel = MANIFEST.kernels[name]
    places = {p.role: 0x8000 * (i + 1) for i, p in enumerate(kernel.patch_points)}
    assert run([(name, places)], {}).cycles == kernel.cycles


def test_kernels_in_a_row_have_no_hazards() -> None:
    """The linter finds nothing in all kernels one after the other, nor do the strictest machines."""
    launches = []
    for kernel in MANIFEST.kernels.values():
        places = {p.role: 0x8000 * (i + 1) for i, p in enumerate(kernel.patch_points)}
        launches += kernel.relocated(places) * 2
    program = parse_text_isa(text_of(launches))
    profile = load_profile("atlas-v0")
    assert lint(program, profile).findings == []


@pytest.mark.parametrize("transfers", ["early", "late"])
def test_no_kernel_depends_on_when_a_transfer_lands(transfers) -> None:
    x = bf16_tile(np.random.default_rng(5))
    results = []
    for policy in (Policy(), Policy(dma=transfers)):
        machine = PythonMachine(load_profile("atlas-v0"), policy)
        kernel = MANIFEST.kernels["softmax"]
        machine.load(
            parse_text_isa(text_of(kernel.relocated({"dram_in_0": 0, "dram_out_0": 0x4000})))
        )
        machine.write("dram", 0, split_halves(x))
        assert machine.run(max_cycles=10_000).reason == "end"
        results.append(machine.read("dram", 0x4000, 2048))
    assert results[0] == results[1]


def test_a_config_without_a_wait_gets_one() -> None:
    config, load = (
        instruction("dma.config.ch<N>", rs1=0, channel=1),
        instruction("dma.load.ch<N>", rd=1, rs1=2, rs2=3, channel=1),
    )
    wait = instruction("dma.wait.ch<N>", channel=1)
    kernel = Kernel("k", "npu_uk_k", (32, 32), "fp8_tile", "none", 0, (config, load, wait), ())
    assert kernel.relocated({}) == [config, wait, load, wait]
    waited = Kernel("k", "npu_uk_k", (32, 32), "fp8_tile", "none", 0, (config, wait, load), ())
    assert waited.relocated({}) == [config, wait, load]


@pytest.mark.parametrize("address", [0, 2047, 2048, 4095, 4096, 0xFFFFF, 0x7FFFF800 - 1])
def test_lui_and_addi_make_any_address(address: int) -> None:
    upper, lower = load_address(5, address)
    assert -2048 <= lower.get("imm") < 2048
    assert (upper.get("imm") << 12) + lower.get("imm") == address


def one_kernel(instructions: list[NativeInstruction], point: PatchPoint) -> Kernel:
    return Kernel("k", "npu_uk_k", (32, 32), "fp8_tile", "none", 0, tuple(instructions), (point,))


def test_a_single_addi_is_widened_and_ecall_is_dropped() -> None:
    kernel = one_kernel(
        [instruction("addi", rd=1, rs1=0, imm=0), instruction("ecall")],
        PatchPoint("dram_in_0", 1, 0, (0,)),
    )
    assert kernel.relocated({"dram_in_0": 0x12345}) == load_address(1, 0x12345)


@pytest.mark.parametrize(
    ("instructions", "point", "reason"),
    [
        (
            [instruction("addi", rd=1, rs1=0, imm=0), instruction("vload", vd=0, rs1=1, imm12=0)],
            PatchPoint("dram_in_0", 1, 0, (0,)),
            "also uses it as an on-chip address",
        ),
        (
            [instruction("addi", rd=1, rs1=0, imm=0), instruction("beq", rs1=0, rs2=0, imm=-1)],
            PatchPoint("dram_in_0", 1, 0, (0,)),
            "branches would no longer meet their targets",
        ),
        (
            [instruction("addi", rd=2, rs1=0, imm=0)],
            PatchPoint("dram_in_0", 1, 0, (0,)),
            "does not write it",
        ),
        ([], PatchPoint("dram_in_0", 0, 0, ()), "x0 is always zero"),
        ([], PatchPoint("dram_in_0", 1, 0, ()), "no instruction computes it"),
    ],
)
def test_a_patch_that_cannot_be_applied_is_an_error(instructions, point, reason) -> None:
    with pytest.raises(TilewrightError, match=reason) as caught:
        one_kernel(instructions, point).relocated({"dram_in_0": 64})
    assert caught.value.code == "TW1322"


def test_a_role_without_an_address_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="dram_in_1 unbound"):
        MANIFEST.kernels["matmul"].relocated({"dram_in_0": 0, "dram_out_0": 64})


def test_lookup_takes_the_longest_prefix_and_nothing_else() -> None:
    assert MANIFEST.find("npu_uk_matmul_acc_first").name == "matmul_acc_first"  # type: ignore
    assert MANIFEST.find("npu_uk_matmul_f8E4M3FN_f8E4M3FN_bf16").name == "matmul"  # type: ignore
    assert MANIFEST.find("npu_uk_matmul_acc") is None
    assert MANIFEST.find("npu_uk_elementwise_addx") is None


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"kernels": []},
        {"kernels": {"k": {}}},
        {"kernels": {"k": 3}},
    ],
)
def test_a_malformed_manifest_is_one_error(change) -> None:
    with pytest.raises(TilewrightError) as caught:
        from_json({**build(), **change}, "m.json")
    assert caught.value.code == "TW1320"
    assert "m.json" in str(caught.value)
