"""Run softmax.S on random rows and check every bit.

python examples/atlas/softmax.py --out out
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ml_dtypes
import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.simulate import simulate
from tilewright.trace.timeline import write_timeline

KERNEL = Path(__file__).with_name("softmax.S")
INPUT, RESULT = 0x0, 0x1000

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
options.add_argument("--machine", choices=["native", "python"], help="which simulator")
chosen = options.parse_args()
chosen.out.mkdir(parents=True, exist_ok=True)

x = (4 * np.random.default_rng(0).standard_normal((32, 32))).astype(ml_dtypes.bfloat16)
halves = np.stack([x[:, :16], x[:, 16:]])

# Memory starts as NaN and transfers land as late as they may: a kernel that reads what it has
# not written, or reads before it waits, cannot pass.
policy = "poison,dma=late"
result = simulate(KERNEL, memory={INPUT: halves}, policy=policy, machine=chosen.machine, trace=True)
assert result.fault is None, result.fault
y = np.concatenate(list(result.read(RESULT, "bf16", (2, 32, 16))), axis=1)

# The same six steps in the arithmetic of the machine, rounded to bf16 after each: equal bits.
bits = x.view(np.uint16)
shifted = arith.subtract(bits, arith.reduce_extreme(bits, axis=1, larger=True))
powers = arith.unary_table("vexp")[shifted]
total = arith.row_sum(powers, result.profile.row_sum)
expected = arith.multiply(powers, arith.unary_table("vrecip")[total])
assert np.array_equal(y.view(np.uint16), expected), "the result differs from the definition"

wide = x.astype(np.float64)
exact = np.exp(wide - wide.max(axis=1, keepdims=True))
exact /= exact.sum(axis=1, keepdims=True)
error = np.abs(y.astype(np.float64) - exact).max()
print(f"softmax of 32 rows: {result.cycles:,} cycles, every bit as defined")
print(f"largest error against float64: {error:.4f}")

write_timeline(result.trace, chosen.out / "softmax.svg")
print(f"wrote {chosen.out / 'softmax.svg'}")
