"""Flash attention, one source for two machines; formats and tile side are bound by compile.

python examples/flash_attention.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tilewright as tw


@tw.kernel
def flash_attention(
    q: tw.operand["H", "M", "D"],
    k: tw.operand["H", "N", "D"],
    v: tw.operand["H", "N", "D"],
    out: tw.value["H", "M", "D"],
    *,
    causal: bool = True,
):
    for h in tw.each(q.H):
        for m in tw.grid(q.M):
            top, total, mixed = tw.state(-100.0), tw.state(0.0), tw.state(0.0)
            for n in tw.steps(k.N):
                s = q[h, m, :] @ k[h, n, :].T
                s = tw.causal(s, m, n) if causal else s
                best = tw.maximum(top, tw.row_max(s))
                fade, p = tw.exp(top - best), tw.exp(s - best)
                total.set(total * fade + tw.row_sum(p))
                mixed.set(mixed * fade + tw.to_operand(p) @ v[h, n, :])
                top.set(best)
            out[h, m, :] = mixed / total


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = np.einsum("hmd,hnd->hmn", q, k)
    if causal:
        rows, keys = scores.shape[1:]
        scores[:, np.arange(keys) > np.arange(rows)[:, None] + keys - rows] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), v)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=(2, n, 40)) * s for n, s in ((50, 0.15), (70, 1), (70, 1)))
    steps = {"q": "i8:0.005", "k": "i8:0.035"}
    for target, formats in [("atlas-v1", {}), ("vpu40", {}), ("vpu40", steps)]:
        for causal in (False, True):
            made = flash_attention.compile(q, k, v, target=target, formats=formats, causal=causal)
            off = np.abs(made.run(q, k, v).astype(np.float64) - exact(q, k, v, causal)).max()
            print(f"{target} {formats} {causal=}: {made.cycles} cycles, off by {off:.4f}")
            assert off < (0.2 if target == "atlas-v1" else 0.05)
            made.timeline(folder / f"flash_attention_{target}.svg")
