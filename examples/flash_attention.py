"""Flash attention: keys pass by once, the running maximum, sum and output stay on the chip.

python examples/flash_attention.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tilewright as tw


@tw.kernel
def flash_attention(
    q: tw.fp8["H", "M", "D"],
    k: tw.fp8["H", "N", "D"],
    v: tw.fp8["H", "N", "D"],
    out: tw.bf16["H", "M", "D"],
):
    for h in tw.each(q.H):
        for m in tw.grid(q.M, 32):
            top, total, mixed = tw.state(-100.0), tw.state(0.0), tw.state(0.0)
            for n in tw.steps(k.N, 64):
                s = tw.causal(q[h, m, :] @ k[h, n, :].T, m, n)
                best = tw.maximum(top, tw.row_max(s))
                fade, p = tw.exp(top - best), tw.exp(s - best)
                total.set(total * fade + tw.row_sum(p))
                mixed.set(mixed * fade + tw.to_fp8(p) @ v[h, n, :])
                top.set(best)
            out[h, m, :] = mixed / total


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=(2, n, 64)) * s for n, s in ((70, 0.15), (150, 1), (150, 1)))

    compiled = flash_attention.compile(q, k, v)
    y = compiled.run(q, k, v).astype(np.float64)
    scores = np.einsum("hmd,hnd->hmn", q, k)
    scores[:, np.arange(150) > np.arange(70)[:, None] + 80] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    exact = np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), v)
    print(f"{compiled.cycles} cycles; fp8 operands, so it is off by {np.abs(y - exact).max():.3f}")
    assert np.abs(y - exact).max() < 0.2
    print("written:", compiled.timeline(folder / "flash_attention.svg"))
