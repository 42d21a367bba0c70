"""Run matmul.S: make inputs, run, check every bit, say how close it is to its bound, draw it.

python examples/atlas/matmul.py --out out
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ml_dtypes
import numpy as np

from tilewright.reference.arithmetic import matmul
from tilewright.targets.atlas.simulate import simulate
from tilewright.trace.perfetto import write_trace
from tilewright.trace.timeline import write_timeline

KERNEL = Path(__file__).with_name("matmul.S")
STEPS = 16  # as in the kernel
K = 32 * STEPS
A, B, C = 0x0, 0x10000, 0x20000

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures")
options.add_argument("--machine", choices=["native", "python"], help="which simulator")
chosen = options.parse_args()
chosen.out.mkdir(parents=True, exist_ok=True)

# Inputs: A is stored tile after tile, B row after row.
random = np.random.default_rng(0)
a = random.standard_normal((32, K)).astype(ml_dtypes.float8_e4m3fn)
b = random.standard_normal((K, 32)).astype(ml_dtypes.float8_e4m3fn)
a_tiles = a.reshape(32, STEPS, 32).transpose(1, 0, 2).copy()

result = simulate(KERNEL, memory={A: a_tiles, B: b}, machine=chosen.machine, trace=True)
assert result.fault is None, result.fault
c = np.concatenate(list(result.read(C, "bf16", (2, 32, 16))), axis=1)

# What the machine has to compute, bit by bit: the accumulator is bf16 between two tiles.
expected = np.zeros((32, 32), np.uint16)
for step in range(STEPS):
    weights = b[32 * step : 32 * step + 32].view(np.uint8)
    expected = matmul(a_tiles[step].view(np.uint8), weights, expected)
assert np.array_equal(c.view(np.uint16), expected), "the result differs from the definition"

exact = a.astype(np.float64) @ b.astype(np.float64)
error = np.abs(c.astype(np.float64) - exact).max()
bound = result.statistics.units["DMA"].busy
print(f"32x{K}x32 fp8 matmul: every bit as defined, largest error against float64 {error:.3f}")
print(
    f"{result.cycles:,} cycles; its transfers alone need {bound:,} ({result.cycles / bound:.3f} x)"
)

write_trace(result.trace, chosen.out / "matmul.pftrace")
write_timeline(result.trace, chosen.out / "matmul.svg")
print(f"wrote {chosen.out / 'matmul.pftrace'} (open it at ui.perfetto.dev)")
print(f"wrote {chosen.out / 'matmul.svg'}")
