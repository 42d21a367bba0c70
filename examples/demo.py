"""Compile a transformer block, run it on the simulated NPU, verify its values, draw its report.

python examples/demo.py [FOLDER]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import smollm2_block
import tilewright as tw


def timed(text: str, function):
    """The result of a step, which is announced and timed."""
    print(f"{text} ... ", end="", flush=True)
    began = time.perf_counter()
    result = function()
    print(f"{time.perf_counter() - began:.1f} s", flush=True)
    return result


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    bundle, page = folder / "smollm2_block.twb", folder / "smollm2_block.html"

    model = timed(
        "build  a SmolLM2 block, 64 tokens of 576, weights from a seed", smollm2_block.model
    )
    program = timed("compile  it for atlas-v1", lambda: tw.compile(model))
    found = timed(
        "verify  every step against the references", lambda: program.verify(per_layer=True)
    )
    summary = timed("report  what happened in every cycle", lambda: program.report(page))
    program.save(bundle)

    (output,) = found.outputs
    times = f"{summary.cycles / summary.bound:.3f}" if summary.bound else "unknown"
    print(
        f"""
cycles    {summary.cycles:,}
bound     {summary.bound:,} cycles that no program can beat; this one takes {times} times as many
values    {"exact" if found.ok else "WRONG"}: {len(found.layers)} steps bit for bit as their references
float32   {output.accuracy}
program   {bundle.resolve()}
report    {page.resolve()}
"""
    )
    if not found.ok:
        print(found.text())
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
