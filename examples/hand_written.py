"""Lint, run and check the hand-written kernels; leave their traces and pictures in out/.

python examples/hand_written.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
KERNELS = [("matmul.S", "atlas-v1"), ("softmax.S", "atlas-v1"), ("matmul_v0.txt", "atlas-v0")]


def run(title: str, *arguments: str) -> None:
    """One step: say what it is, do it, stop if it fails."""
    print(f"\n{title}", flush=True)
    status = subprocess.run([sys.executable, *arguments], check=False).returncode
    if status:
        sys.exit(f"{title}: failed with exit code {status}")


for kernel, profile in KERNELS:
    path = str(HERE / "atlas" / kernel)
    run(f"lint {kernel}", "-m", "tilewright", "lint", path, "--profile", profile)
run("run matmul.S", str(HERE / "atlas" / "matmul.py"), "--out", str(OUT))
run("run softmax.S", str(HERE / "atlas" / "softmax.py"), "--out", str(OUT))
run("run matmul_v0.txt", str(HERE / "atlas" / "matmul_v0.py"))
print(f"\nThe traces and pictures are in {OUT.resolve()}")
