"""A tiled, double-buffered matrix product with bias and GELU, checked and pictured.

python examples/fused_matmul.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tilewright as tw


@tw.kernel
def linear_gelu(
    a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], bias: tw.bf16["N"], out: tw.bf16["M", "N"]
):
    for n in tw.grid(out.N, 32):
        for m in tw.grid(out.M, 96):
            acc = tw.zeros()
            for k in tw.steps(a.K, 32):
                acc += a[m, k] @ b[k, n]
            out[m, n] = tw.gelu(acc + bias[n])


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    a, b, bias = (random.normal(size=shape) for shape in ((300, 128), (128, 200), (200,)))

    for machine in ("atlas-v0", "atlas-v1"):
        compiled = linear_gelu.compile(a, b, bias, target=machine)
        y = compiled.run(a, b, bias)
        same = y.tobytes() == linear_gelu.eager(a, b, bias, profile=machine).tobytes()
        print(f"{machine}: {compiled.cycles} cycles, {len(compiled.program)} instructions, "
              f"{'the same bits as' if same else 'DIFFERS from'} the eager run")  # fmt: skip
        assert same and compiled.lint().clean
    (folder / "fused_matmul.mlir").write_text(compiled.ir)
    (folder / "fused_matmul.S").write_text(compiled.asm)
    print("written:", compiled.timeline(folder / "fused_matmul.svg"))
