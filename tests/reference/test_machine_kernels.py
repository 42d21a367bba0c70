"""The machine's rounding in the executor against the machine itself, bit for bit."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from rounding_bounds import machine_chain, product_magnitude
from running import array, execute, floats

from tilewright.errors import TilewrightError
from tilewright.reference.compare import compare
from tilewright.reference.program import Semantics
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa
from tilewright.transforms.kernel_manifest import load_manifest

MANIFEST = load_manifest("atlas-v0")
ON_MACHINE = Semantics(machine="atlas-v0")
BF16, FP8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
NOT_HERE = ("matmul", "matmul_acc_first", "matmul_acc_mid", "matmul_acc_last", "requant")


def packed(tile: np.ndarray) -> bytes:
    """A tile as the machine's DRAM holds it: fp8 row by row, bf16 in two halves."""
    return tile.tobytes() if tile.dtype == FP8 else tile[:, :16].tobytes() + tile[:, 16:].tobytes()


def unpacked(data: bytes, dtype: np.dtype) -> np.ndarray:
    if dtype == FP8:
        return np.frombuffer(data, dtype).reshape(32, 32)
    left, right = np.frombuffer(data, dtype).reshape(2, 32, 16)
    return np.concatenate([left, right], axis=1)


def simulated(names: list[str], operands: list[np.ndarray], result: np.dtype) -> np.ndarray:
    """Kernels one after the other on the simulator; each takes its share of the operands."""
    machine = PythonMachine(load_profile("atlas-v0"))
    lines, address, out = [], 0x8000, 0xA0000
    given, memory = list(operands), {}
    for name in names:
        kernel = MANIFEST.kernels[name]
        places = {}
        for role in (p.role for p in kernel.patch_points):
            if role.startswith("dram_in"):
                memory[address] = packed(given.pop(0))
                places[role] = address
                address += 0x1000
            else:
                places[role] = out
        for i in kernel.relocated(places):
            lines.append(f"{i.mnemonic} {', '.join(f'{k}={v}' for k, v in i.args)}")
    machine.load(parse_text_isa("\n".join(lines)))
    for place, data in memory.items():
        machine.write("dram", place, data)
    assert machine.run(max_cycles=100_000).reason == "end"
    return unpacked(machine.read("dram", out, 1024 * result.itemsize), result)


def launch(name: str, types: list[str], result: str, attributes: str = "") -> str:
    arguments = ", ".join(f"%a{i}: tensor<32x32x{t}>" for i, t in enumerate(types))
    operands = ", ".join(f"%a{i}" for i in range(len(types)))
    listed = ", ".join(f"tensor<32x32x{t}>" for t in types)
    return f"""
func.func @main({arguments}) -> tensor<32x32x{result}> {{
  %r = npu_schedule.ukernel_launch "npu_uk_{name}"({operands}) {attributes} : ({listed}) -> tensor<32x32x{result}>
  return %r : tensor<32x32x{result}>
}}"""


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(floats(a)) & np.isnan(floats(b))
    return bool((nan | (a.view(np.uint8 if a.dtype == FP8 else np.uint16) == b.view(np.uint8 if b.dtype == FP8 else np.uint16))).all())  # fmt: skip


@pytest.mark.parametrize("name", [n for n in MANIFEST.kernels if n not in NOT_HERE])
def test_vector_kernels(name: str) -> None:
    kernel = MANIFEST.kernels[name]
    count = len(kernel.roles("dram_in"))
    random = np.random.default_rng(11)
    operands = [array(random.standard_normal((32, 32)) * 4, "bf16") for _ in range(count)]
    operands[0][:2, :8] = array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e38, 1e-40, -3], "bf16")
    if name == "softmax":
        operands[0][:2] = array(random.standard_normal((2, 32)), "bf16")
    (found,) = execute(launch(name, ["bf16"] * count, "bf16"), *operands, semantics=ON_MACHINE)
    assert same_bits(found, simulated([name], operands, BF16))


def test_requant() -> None:
    x = array(np.random.default_rng(1).standard_normal((32, 32)) * 300, "bf16")
    (found,) = execute(launch("requant", ["bf16"], "f8E4M3FN"), x, semantics=ON_MACHINE)
    assert same_bits(found, simulated(["requant"], [x], FP8))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_matmul_chains(count: int) -> None:
    """Ordinary data, so that the fp16 and bf16 roundings of the accumulator show."""
    random = np.random.default_rng(count)
    tiles = [array(random.standard_normal((32, 32)) * 8, "f8E4M3FN") for _ in range(2 * count)]
    parts = ["first", *["mid"] * (count - 2), "last"] if count > 1 else []
    names = [f"matmul_acc_{part}" for part in parts] or ["matmul"]
    arguments = ", ".join(f"%t{i}: tensor<32x32xf8E4M3FN>" for i in range(2 * count))
    lines = [
        f'%r{k} = npu_schedule.ukernel_launch "npu_uk_{name}"(%t{2 * k}, %t{2 * k + 1}) : '
        "(tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) -> tensor<32x32xbf16>"
        for k, name in enumerate(names)
    ]
    text = (
        f"func.func @main({arguments}) -> tensor<32x32xbf16> {{\n"
        + "\n".join(lines)
        + f"\nreturn %r{count - 1} : tensor<32x32xbf16>\n}}"
    )
    (found,) = execute(text, *tiles, semantics=ON_MACHINE)
    assert same_bits(found, simulated(names, tiles, BF16))
    (exact,) = execute(text, *tiles)
    left = np.concatenate([floats(t) for t in tiles[::2]], axis=1)
    right = np.concatenate([floats(t) for t in tiles[1::2]], axis=0)
    bound = machine_chain(product_magnitude(left, right), count)
    result = compare(found, exact, bound)
    assert result.within, result
    difference = np.abs(floats(found) - floats(exact))
    assert count == 1 or (difference > 0).any(), "the roundings of the machine do not show"


def test_attention_chain_is_near_attention() -> None:
    random = np.random.default_rng(5)
    q, k, v = (array(random.standard_normal(s), "bf16") for s in ((32, 64), (96, 64), (96, 64)))
    lines = []
    for number, part in enumerate(("first", "mid", "last")):
        for name in ("k", "v"):
            lines.append(
                f"%{name}{number} = tensor.extract_slice %{name}[{32 * number}, 0] [32, 64] [1, 1] : "
                "tensor<96x64xbf16> to tensor<32x64xbf16>"
            )
        types = ", ".join(["tensor<32x64xbf16>"] * 3)
        lines.append(
            f'%r{number} = npu_schedule.ukernel_launch "npu_uk_attention_acc_{part}"'
            f"(%q, %k{number}, %v{number}) {{scale = 1.25e-01 : f32}} : ({types}) -> tensor<32x64xbf16>"
        )
    text = (
        "func.func @main(%q: tensor<32x64xbf16>, %k: tensor<96x64xbf16>, %v: tensor<96x64xbf16>)"
        " -> tensor<32x64xbf16> {\n" + "\n".join(lines) + "\nreturn %r2 : tensor<32x64xbf16>\n}"
    )
    (exact,) = execute(text, q, k, v)
    scores = floats(q) @ floats(k).T / 8
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ floats(v) / weights.sum(1, keepdims=True)
    np.testing.assert_array_equal(exact, array(wanted, "bf16"))
    (found,) = execute(text, q, k, v, semantics=ON_MACHINE)
    # fp8 weights and values: 4 bits of precision each.
    difference = np.abs(floats(found) - wanted)
    assert 0 < difference.max() < 0.12


def test_other_machines_are_an_error() -> None:
    with pytest.raises(TilewrightError, match="no kernels of the machine atlas-v9"):
        execute(launch("silu", ["bf16"], "bf16"), semantics=Semantics(machine="atlas-v9"))
    with pytest.raises(TilewrightError, match="no way to accumulate called exactly"):
        execute(launch("silu", ["bf16"], "bf16"), semantics=Semantics(accumulate="exactly"))
