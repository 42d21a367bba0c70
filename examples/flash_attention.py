"""Flash attention, one source for several machines: keys pass by once, the running maximum, sum and
output stay on the chip. Number formats and the side of a tile are bound when it is compiled.

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
    """Attention in double precision; the last row sees the last key."""
    scores = np.einsum("hmd,hnd->hmn", q, k)
    if causal:
        rows, keys = scores.shape[1:]
        scores[:, np.arange(keys) > np.arange(rows)[:, None] + keys - rows] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), v)


# Target, formats, and how far fp8, f16 or i8 operands may be off.
MACHINES = [
    ("atlas-v1", None, 0.2),
    ("vpu40", None, 0.01),
    ("vpu40", {"q": "i8:0.005", "k": "i8:0.035"}, 0.1),
]

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=(2, n, 40)) * s for n, s in ((50, 0.15), (70, 1), (70, 1)))
    for target, formats, allowed in MACHINES:
        for causal in (False, True):
            made = flash_attention.compile(q, k, v, target=target, formats=formats, causal=causal)
            off = np.abs(made.run(q, k, v).astype(np.float64) - exact(q, k, v, causal)).max()
            kind = "causal" if causal else "full"
            print(f"{target} {formats or ''} {kind}: {made.cycles} cycles, off by {off:.4f}")
            assert off < allowed
        print("written:", made.timeline(folder / f"flash_attention_{target}.svg"))
