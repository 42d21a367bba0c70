"""Run matmul_v0.txt, a kernel in the text form for the older machine, and check it.

python examples/atlas/matmul_v0.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ml_dtypes
import numpy as np

from tilewright.targets.atlas.simulate import simulate

KERNEL = Path(__file__).with_name("matmul_v0.txt")

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--machine", choices=["native", "python"], help="which simulator")
chosen = options.parse_args()

random = np.random.default_rng(0)
a, b = random.integers(-8, 9, (2, 32, 32)).astype(ml_dtypes.float8_e4m3fn)

result = simulate(KERNEL, profile="atlas-v0", memory={0: a, 0x400: b}, machine=chosen.machine)
assert result.fault is None, result.fault
c = np.concatenate(list(result.read(0x800, "bf16", (2, 32, 16))), axis=1)

# Small integers: every product and sum is exact, only the result is rounded.
exact = a.astype(np.float32) @ b.astype(np.float32)
assert np.array_equal(c, exact.astype(ml_dtypes.bfloat16))
print(f"32x32x32 matmul on atlas-v0: {result.cycles:,} cycles, every element exact")
