"""Costs and presets: the numbers of the reference, and formulas at single points."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.machine import PRESETS, machine_from, preset, read_machine

VPU40 = preset("vpu40")


def test_matmul_of_the_reference() -> None:
    assert costs.matmul_cycles(VPU40, 512, 2048, 2048) == 1048576
    assert costs.convolution_cycles(VPU40, (512, 1, 2048), 2048) == 1147387


def test_f16_is_half_as_fast() -> None:
    assert costs.matmul_cycles(VPU40, 512, 2048, 2048, 2, 2) == 2 * 1048576


def test_channels_count_padded_to_16() -> None:
    assert costs.matmul_cycles(VPU40, 64, 30, 50) == costs.matmul_cycles(VPU40, 64, 32, 64)


@pytest.mark.parametrize(
    ("name", "latency", "rate"),
    [("vpu37", 1243, Fraction(27000, 1300)), ("vpu40", 510, Fraction(64 * 971, 1700)),
     ("vpu50", 585, Fraction(64 * 1114, 1950)), ("tiny", 100, Fraction(16))],
)  # fmt: skip
def test_dma_latency_and_rate(name: str, latency: int, rate: Fraction) -> None:
    chip = preset(name)
    assert costs.dma_cycles(chip, costs.DRAM, costs.CMX, 0) == latency
    exact = Fraction(chip.rates.dram_ns * chip.rates.dpu_mhz, 1000) + 100000 / rate
    assert costs.dma_cycles(chip, costs.DRAM, costs.CMX, 100000) == ceil(exact)


def test_shave_roofline() -> None:
    ratio = Fraction(1700, 971)
    work = Fraction(4096 * 16) / (512 * Fraction(1, 5) * Fraction(7, 10) * Fraction(8, 10))
    assert costs.vector_cycles(VPU40, "softmax", 4096, 16, rows=8) == ceil(
        (1000 + work + 50 * 8) * ratio
    )


def test_an_unknown_operation_is_an_error_unless_lenient() -> None:
    with pytest.raises(TilewrightError, match="no SHAVE cost"):
        costs.vector_cycles(VPU40, "mystery", 100, 16)
    assert costs.vector_cycles(VPU40, "mystery", 971, 16, lenient=True) == 1700


def test_peak_of_the_presets() -> None:
    tops = {
        n: p.rates.macs * 2 * p.rates.dpu_mhz * 1e6 * p.tiles / 1e12 for n, p in PRESETS.items()
    }
    assert [round(tops[n], 1) for n in ("vpu37", "vpu40", "vpu50")] == [10.6, 41.8, 47.9]


def test_a_machine_round_trips_through_json() -> None:
    chip = machine_from({"preset": "vpu40", "tiles": 2, "storage": None, "align": 128})
    assert machine_from(chip.to_json()) == chip
    assert chip.digest() != VPU40.digest()


def test_a_machine_from_a_file(tmp_path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"preset": "tiny", "cmx_bytes": 4096, "macs": 64}))
    chip = read_machine(str(path))
    assert (chip.cmx_bytes, chip.rates.macs) == (4096, 64)


@pytest.mark.parametrize(
    ("value", "words"),
    [("vpu99", "no VPU preset"), ({"tiles": 1}, "does not name its preset"),
     ({"preset": "tiny", "wings": 2}, "unknown key 'wings'"),
     ({"preset": "tiny", "barriers": 0}, "barriers has to be"),
     ({"preset": "tiny", "align": 48}, "no power of two"),
     ({"preset": "tiny", "cmx_bytes": True}, "cmx_bytes has to be"), (7, "has to be a preset")],
)  # fmt: skip
def test_bad_machines(value: object, words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        machine_from(value)
