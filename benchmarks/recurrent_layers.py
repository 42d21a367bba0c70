"""Recurrent layers of torch on the device, for sequences of several lengths.

    python benchmarks/recurrent_layers.py --kinds LSTM GRU --lengths 8 32 128

Each layer is compiled, verified and run; code should not grow with the sequence.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import warnings
from typing import Any

import tilewright as tw


def row(kind: str, length: int, options: argparse.Namespace) -> tuple[str, bool]:
    """A line of the table, and whether the layer is right."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(options.inputs, options.width).eval()
    began = time.process_time()
    program = tw.compile(layer, (torch.randn(length, options.batch, options.inputs),))
    seconds = time.process_time() - began
    verified, artifact = program.verify(), program.model.artifact
    words = sum(step.end_word - step.first_word for step in artifact.steps)
    bound, share = program.report().bound, program.model.provenance["host_share"]
    text = (
        f"| {kind} | {length} | {len(artifact.steps)} | {words:,} | {verified.cycles:,} | {bound:,} "
        f"| {share:.1%} | {seconds:.1f} | {'exact' if verified.ok else 'NOT VERIFIED'} |"
    )
    return text, verified.ok


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kinds", nargs="+", default=["LSTM", "GRU"], help="of torch.nn")
    parser.add_argument("--lengths", nargs="+", type=int, default=[8, 32, 128], help="in steps")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--inputs", type=int, default=24, help="numbers per step")
    parser.add_argument("--width", type=int, default=40, help="of the state")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # torch warns of itself
    print("| layer | steps | calls | instructions | cycles | bound | host | compile s | verify |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    right = True
    for kind in options.kinds:
        for length in options.lengths:
            text, ok = row(kind, length, options)
            right &= ok
            print(text, flush=True)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
