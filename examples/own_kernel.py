"""A kernel of your own, from idea to timeline: a gated residual with normalised rows.

The idea: out = x + sigmoid(x @ g) * rms_norm(x), in one pass over x. Write it, look at values in
an eager run, compile it, see where the time goes, change one thing, compare.

python examples/own_kernel.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tilewright as tw


@tw.kernel
def gated_residual(x: tw.bf16["M", "D"], g: tw.fp8["D", "D"], out: tw.bf16["M", "D"]):
    for m in tw.grid(x.M, 32):
        row = x[m, :]
        scale = tw.rsqrt(tw.row_sum(tw.square(row)) * (1 / x.D) + 1e-5)
        gate = tw.sigmoid(tw.to_fp8(row) @ g[:, :])
        out[m, :] = row + gate * (row * scale)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    x, g = random.normal(size=(200, 128)), random.normal(size=(128, 128)) / 12

    # 1. Is it right? Eagerly every tile is a numpy array: put a breakpoint() into the kernel.
    y = gated_residual.eager(x, g).astype(np.float64)
    norm = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5)
    print(f"largest error: {np.abs(y - (x + norm / (1 + np.exp(-(x @ g))))).max():.3f}")

    # 2. How fast is it, and what is it waiting for?
    compiled = gated_residual.compile(x, g)
    assert compiled.run(x, g).tobytes() == gated_residual.eager(x, g).tobytes()
    for unit, use in compiled.statistics.units.items():
        print(f"  {unit:7}{use.busy / compiled.cycles:6.0%} busy")
    print(f"{compiled.cycles} cycles; the picture: {compiled.timeline(folder / 'own.svg')}")

    # 3. The transfers decide, so the older machine with its faster memory should win by far.
    older = gated_residual.compile(x, g, target="atlas-v0")
    print(f"atlas-v0 needs {older.cycles} cycles, {compiled.cycles / older.cycles:.0f} times fewer")
