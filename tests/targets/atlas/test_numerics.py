"""Exact values: both machines on chosen operands, and the arithmetic over all inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import MACHINES, Machine, bf16, get_bytes, get_tile, machine_with, set_bytes, set_tile

from tilewright.reference import arithmetic as arith

ONE_FP8 = 0x38


def words(text: str) -> np.ndarray:
    return np.array([int(w, 16) for w in text.split()], np.uint16)


def row_tile(patterns: np.ndarray) -> np.ndarray:
    """A 32x32 tile with these patterns at the start of row 0."""
    tile = np.zeros((32, 32), np.uint16)
    tile[0, : len(patterns)] = patterns
    return tile


def fp8(value: float) -> int:
    return int(np.flatnonzero(arith.fp8_values() == value)[0])


CASTS = "3F80 3F88 3F98 43E0 43E8 43F0 7F80 8000 3B00 3A80 3A81 3B40 F14A 4370 4188"
POPS = "3FDA BFDA 3ECD 42C9 4396 BF00 43FA 4040"


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(
    ("scale", "codes"),
    [
        (1, "38 38 3A 7E 7E 7E 7E 80 01 00 01 02 FE 77 58"),
        (3, "44 45 46 7E 7E 7E 7E 80 03 02 02 04 FE 7E 65"),
        (0, "00 00 00 00 00 00 7F 80 00 00 00 00 80 00 00"),
    ],
)
def test_pack(kind: type[Machine], scale: int, codes: str) -> None:
    machine = machine_with(kind, f"seli e3, {scale}\nvpack.bf16.fp8 m4, m0, e3")
    set_tile(machine, 0, row_tile(words(CASTS)))
    machine.run()
    wanted = words(codes)
    assert list(get_bytes(machine, "m4")[: len(wanted)]) == list(wanted)


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(
    ("scale", "codes", "wanted"),
    [
        (3, "38 3A 7E 80 01 02 FE 77 58", "3EAB 3ED5 4315 8000 3A2B 3AAB C315 42A0 40AB"),
        (0, "38 FE 00 80", "7F80 FF80 7FC0 7FC0"),
    ],
)
def test_unpack(kind: type[Machine], scale: int, codes: str, wanted: str) -> None:
    machine = machine_with(kind, f"seli e3, {scale}\nvunpack.fp8.bf16 m4, m0, e3")
    raw = np.zeros(1024, np.uint8)
    raw[: len(words(codes))] = words(codes)
    set_bytes(machine, "m0", raw)
    machine.run()
    assert list(get_tile(machine, 4)[0, : len(words(wanted))]) == list(words(wanted))


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(
    ("scale", "codes"),
    [
        (1, "38 B8 00 6C 79 80 7E 44"),
        (2, "00 80 00 64 71 80 78 38"),
        (0, "7E FE 7E 7E 7E FE 7E 7E"),
    ],
)
def test_pop_fp8_truncates(kind: type[Machine], scale: int, codes: str) -> None:
    machine = machine_with(kind, f"seli e2, {scale}\nvmatpop.fp8.acc.mxu1 m4, acc1, e2")
    machine.write_register("mxu1.acc1", row_tile(words(POPS)).astype("<u2").tobytes())
    machine.run()
    assert list(get_bytes(machine, "m4")[:8]) == list(words(codes))


def run_matmul(kind: type[Machine], a: np.ndarray, w: np.ndarray, acc: np.ndarray | None = None):
    form = "vmatmul" if acc is None else "vmatmul.acc"
    machine = machine_with(kind, f"{form}.mxu0 acc1, m0, w1")
    set_bytes(machine, "m0", a)
    set_bytes(machine, "mxu0.w1", w)
    if acc is not None:
        machine.write_register("mxu0.acc1", acc.astype("<u2").tobytes())
    machine.run()
    raw = machine.read_register("mxu0.acc1")
    assert isinstance(raw, bytes)
    return arith.bf16_to_f32(np.frombuffer(raw, "<u2").reshape(32, 32))


def dot(kind: type[Machine], pairs: dict[int, tuple[float, float]]) -> float:
    """Element (0, 0) of a product whose row and column hold these factors at each k."""
    a, w = np.zeros((32, 32), np.uint8), np.zeros((32, 32), np.uint8)
    for k, (x, y) in pairs.items():
        a[0, k], w[k, 0] = fp8(x), fp8(y)
    return float(run_matmul(kind, a, w)[0, 0])


@pytest.mark.parametrize("kind", MACHINES)
def test_matmul_orientation(kind: type[Machine]) -> None:
    a, w = np.zeros((32, 32), np.uint8), np.zeros((32, 32), np.uint8)
    a[2, 5], w[5, 7] = ONE_FP8, fp8(3.0)
    result = run_matmul(kind, a, w)
    assert result[2, 7] == 3.0 and np.count_nonzero(result) == 1


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ({0: (16, 256), 1: (16, 1), 2: (1, 1)}, 4096.0),  # fp16 then bf16, not 4128
        ({0: (448, 144)}, 64512.0),
        ({0: (448, 144), 1: (448, 2), 2: (256, 1)}, math.inf),
        ({k: (448, 448) for k in range(32)}, math.inf),
        ({0: (448, 448), 1: (2**-9, 2**-9), 2: (-448, 448)}, 0.0),
        ({0: (448, 448), 1: (2**-9, 2**-9), 4: (-448, 448)}, 2.0**-18),
    ],
)
def test_matmul_rounding(kind: type[Machine], pairs: dict, wanted: float) -> None:
    assert dot(kind, pairs) == wanted


@pytest.mark.parametrize("kind", MACHINES)
def test_accumulation_passes_through_fp16(kind: type[Machine]) -> None:
    acc = np.zeros((32, 32), np.uint16)
    acc[0, :4] = bf16([131072.0, 65536.0, 65280.0, 4096.0])
    a, w = np.zeros((32, 32), np.uint8), np.zeros((32, 32), np.uint8)
    a[0, 0], w[0, 3] = ONE_FP8, fp8(16.0)
    result = run_matmul(kind, a, w, acc)
    assert result[0, :4].tolist() == [math.inf, math.inf, 65280.0, 4096.0]


@pytest.mark.parametrize("kind", MACHINES)
def test_cube_rounds_twice(kind: type[Machine]) -> None:
    machine = machine_with(kind, "vcube.bf16 m4, m0")
    set_tile(machine, 0, row_tile(words("3F85 3F88 3F8A")))
    machine.run()
    assert list(get_tile(machine, 4)[0, :3]) == list(words("3F8F 3F99 3FA1"))


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(
    ("profile", "mnemonic", "places", "wanted"),
    [
        ("atlas-v1", "vredsum.row.bf16", [(0, 0, 2.0**30), (0, 1, 1.0), (0, 8, -(2.0**30))], 1.0),
        ("atlas-v1", "vredsum.row.bf16", [(0, 0, 2.0**30), (0, 1, 1.0), (0, 2, -(2.0**30))], 0.0),
        ("atlas-v1", "vredsum.bf16", [(0, 0, 2.0**30), (1, 0, -(2.0**30)), (16, 0, 1.0)], 1.0),
        ("atlas-v1", "vredsum.bf16", [(0, 0, 2.0**30), (1, 0, 1.0), (16, 0, -(2.0**30))], 0.0),
        ("atlas-v0", "vredsum.row.bf16", [(0, 0, 2.0**30), (0, 1, 1.0), (0, 8, -(2.0**30))], 1.0),
        ("atlas-v0", "vredsum.row.bf16", [(0, 0, 2.0**30), (0, 1, 1.0), (0, 2, -(2.0**30))], 0.0),
        ("atlas-v0", "vredsum.bf16", [(0, 0, 2.0**30), (1, 0, 1.0), (4, 0, -(2.0**30))], 1.0),
        ("atlas-v0", "vredsum.bf16", [(0, 0, 2.0**30), (1, 0, 1.0), (2, 0, -(2.0**30))], 0.0),
    ],
)
def test_order_of_sums(
    kind: type[Machine], profile: str, mnemonic: str, places: list, wanted: float
) -> None:
    operands = "m4, m0" if profile == "atlas-v1" else "vd=4, vs1=0"
    machine = machine_with(kind, f"{mnemonic} {operands}", profile)
    registers = 2 if profile == "atlas-v1" else 1
    values = np.zeros((32, 16 * registers), np.float32)
    for i, j, value in places:
        values[i, j] = value
    set_tile(machine, 0, bf16(values))
    machine.run()
    result = arith.bf16_to_f32(get_tile(machine, 4, registers))
    line = result[0] if "row" in mnemonic else result[:, 0]
    assert np.all(line == wanted)


@pytest.mark.parametrize("kind", MACHINES)
def test_extremes_and_relu(kind: type[Machine]) -> None:
    nan, inf = math.nan, math.inf
    machine = machine_with(
        kind,
        "vmaximum.bf16 m4, m0, m2\ndelay 64\nvminimum.bf16 m6, m0, m2\ndelay 64\nvrelu.bf16 m8, m10",
    )
    set_tile(machine, 0, row_tile(bf16([nan, -0.0, -3.0, -inf])))
    set_tile(machine, 2, row_tile(bf16([1.0, 0.0, nan, 2.0])))
    set_tile(machine, 10, row_tile(bf16([nan, -0.0, -3.0, -inf])))
    machine.run()
    assert list(get_tile(machine, 4)[0, :4]) == list(words("7FC0 0000 7FC0 4000"))
    assert list(get_tile(machine, 6)[0, :4]) == list(words("7FC0 0000 7FC0 FF80"))
    assert list(get_tile(machine, 8)[0, :4]) == list(words("7FC0 8000 0000 0000"))


@pytest.mark.parametrize("kind", MACHINES)
def test_fills(kind: type[Machine]) -> None:
    lines = ["vli.all m0, 0x3F80", "vli.row m1, 0x3F80", "vli.col m2, 3", "vli.one m3, -5"]
    machine = machine_with(kind, "\ndelay 63\n".join([*lines, "vli.all m4, -3"]))
    machine.run()
    ones, row, column, one, bits = (get_tile(machine, r, 1) for r in range(5))
    assert np.all(ones == 0x3F80)
    assert np.all(row[0] == bf16(16256.0)) and not row[1:].any()
    assert np.all(column[:, 0] == bf16(3.0)) and not column[:, 1:].any()
    assert one[0, 0] == bf16(-5.0) and np.count_nonzero(one) == 1
    assert np.all(bits == 0xFFFD)


@pytest.mark.parametrize("kind", MACHINES)
def test_transpose_and_widening_push(kind: type[Machine]) -> None:
    machine = machine_with(kind, "vtrpose.xlu m2, m0\ndelay 64\nvmatpush.acc.fp8.mxu0 acc0, m4")
    set_bytes(machine, "m0", np.arange(1024) % 256)
    codes = np.zeros(1024, np.uint8)
    codes[0], codes[31] = fp8(1.5), fp8(-2.0)
    set_bytes(machine, "m4", codes)
    machine.run()
    assert [int(get_bytes(machine, "m2")[i]) for i in (1, 32, 33)] == [32, 1, 33]
    raw = machine.read_register("mxu0.acc0")
    assert isinstance(raw, bytes)
    acc = arith.bf16_to_f32(np.frombuffer(raw, "<u2").reshape(32, 32))
    assert (acc[0, 0], acc[0, 31], np.count_nonzero(acc)) == (1.5, -2.0, 2)


# --- the arithmetic itself, over every input ------------------------------------------------


def test_fp8_cast_is_nearest_even_and_saturates_for_every_bf16() -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    values = arith.bf16_to_f32(patterns)
    codes = arith.bf16_to_fp8(patterns)
    grid = arith.fp8_values().astype(np.float64)
    for value, code in zip(values.tolist(), codes.tolist(), strict=True):
        if math.isnan(value):
            assert code & 0x7F == 0x7F
            continue
        clamped = min(max(value, -448.0), 448.0)
        error = abs(grid[code] - clamped)
        below, above = grid[max(code & 0x7F, 1) - 1], grid[min((code & 0x7F) + 1, 0x7E)]
        for neighbour, odd in ((below, (code & 1) == 1), (above, (code & 1) == 1)):
            other = abs(math.copysign(neighbour, clamped) - clamped)
            assert error < other or (error == other and not odd) or neighbour == abs(grid[code])
    assert np.array_equal(codes >= 128, np.signbit(values) & ~np.isnan(values))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("vexp", lambda d, x: x.exp()),
        ("vexp2", lambda d, x: d(2) ** x),
        ("vrecip", lambda d, x: 1 / x),
        ("vsqrt", lambda d, x: x.sqrt()),
        ("vlog2", lambda d, x: x.ln() / d(2).ln()),
    ],
)
def test_tables_are_correctly_rounded(name: str, function) -> None:
    """A sample of each table against 60-digit decimals."""
    from decimal import Decimal, localcontext

    table = arith.unary_table(name)
    generator = np.random.default_rng(7)
    patterns = generator.integers(0, 0x7F80, 300).astype(np.uint16)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**9, -(10**9)
        for pattern in patterns.tolist():
            x = float(arith.bf16_to_f32(np.array([pattern], np.uint16))[0])
            if x == 0 or abs(x) > 80:
                continue
            exact = function(Decimal, Decimal(x))
            got = int(table[pattern])
            near = [got - 1, got, got + 1] if got & 0x7FFF else [got, got + 1]
            values = arith.bf16_to_f32(np.array(near, np.uint16)).astype(np.float64)
            errors = [abs(Decimal(float(v)) - exact) for v in values if math.isfinite(v)]
            assert min(errors) == abs(Decimal(float(values[near.index(got)])) - exact)


def test_special_values_of_tables() -> None:
    def at(name: str, value: float) -> float:
        return float(arith.bf16_to_f32(arith.unary_table(name)[bf16([value])])[0])

    assert at("vexp", -math.inf) == 0.0 and at("vexp", math.inf) == math.inf
    assert at("vexp", 100.0) == math.inf and at("vexp", -88.0) == pytest.approx(6.061e-39, rel=1e-3)
    assert at("vrecip", -0.0) == -math.inf and at("vrecip", math.inf) == 0.0
    assert at("vlog2", 0.0) == -math.inf and math.isnan(at("vlog2", -1.0))
    assert math.isnan(at("vsqrt", -1.0)) and math.copysign(1, at("vsqrt", -0.0)) == -1
    assert math.isnan(at("vsin", math.inf)) and at("vcos", 0.0) == 1.0
    assert at("vtanh", 40.0) == 1.0 and at("vtanh", -math.inf) == -1.0
