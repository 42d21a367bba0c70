"""The hand-written kernels: clean under lint, right under every policy, their cycles known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.targets.atlas.files import read_program
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.simulate import simulate

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "examples" / "atlas"
RANDOM = np.random.default_rng(7)
FP8 = ml_dtypes.float8_e4m3fn

# Kernel → profile, cycles, inputs by address, where its result is and how long.
CASES = {
    "matmul.S": (
        "atlas-v1",
        17_719,
        {
            0: RANDOM.standard_normal((16, 32, 32)).astype(FP8),
            0x10000: RANDOM.standard_normal((512, 32)).astype(FP8),
        },
        (0x20000, 1024),
    ),
    "softmax.S": (
        "atlas-v1",
        2_479,
        {0: RANDOM.standard_normal((2, 32, 16)).astype(ml_dtypes.bfloat16)},
        (0x1000, 1024),
    ),
    "matmul_v0.txt": (
        "atlas-v0",
        167,
        {0: RANDOM.standard_normal((2, 32, 32)).astype(FP8)},
        (0x800, 1024),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_lint_finds_nothing(name: str) -> None:
    profile = load_profile(CASES[name][0])
    report = lint(read_program(KERNELS / name, profile), profile)
    assert report.findings == []


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("machine", ["python", "native"])
def test_same_result_under_every_policy(name: str, machine: str) -> None:
    profile, cycles, memory, (place, count) = CASES[name]
    results = []
    for policy in ("", "poison", "random=3", "poison,dma=early", "poison,dma=late", "stall"):
        result = simulate(
            KERNELS / name, profile=profile, memory=memory, policy=policy, machine=machine
        )
        assert (result.fault, result.halted, result.cycles) == (None, "end", cycles)
        results.append(result.read(place, "bf16", count))
    assert np.isfinite(results[0].astype(np.float32)).all()
    assert np.ptp(results[0].astype(np.float32)) > 0.1
    assert all(np.array_equal(r.view(np.uint16), results[0].view(np.uint16)) for r in results)


def test_a_shorter_delay_is_caught() -> None:
    """The delays are needed: without one tick of this one, lint and the machine object."""
    profile = load_profile("atlas-v1")
    from tilewright.targets.atlas.assembler import assemble

    text = (KERNELS / "softmax.S").read_text(encoding="utf-8")
    broken = assemble(text.replace("delay 37", "delay 36"), profile, "broken.S")
    assert not lint(broken, profile).clean
    assert simulate(broken).fault is not None


def test_hand_written_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tilewright.targets.atlas.cli.lint")
    monkeypatch.setenv("PYTHONPATH", str(Path(tilewright.__file__).resolve().parents[1]))
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "hand_written.py"), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17,719 cycles; its transfers alone need 17,544 (1.010 x)" in done.stdout
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "matmul.pftrace",
        "matmul.svg",
        "softmax.svg",
    }
