"""Attention over many keys on Atlas: cycles against the bound, verified bit for bit.

    python benchmarks/long_attention.py --rows 512 --keys 8192
    python benchmarks/long_attention.py --rows 8192 --keys 8192 --causal
    python benchmarks/long_attention.py --rows 8192 --keys 8192 --heads 16 --causal   takes minutes

Cycles and bound are those of the attention kernel alone, without the steps that
bring queries, keys and values into heads; seconds are processor time.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from tilewright.compiling import compile_imported
from tilewright.frontend.builder import ModelBuilder
from tilewright.program import Program


def told(phase: str, detail: str) -> None:
    print(f"{time.process_time():8.1f} s  {phase}  {detail}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=512, help="queries (512)")
    parser.add_argument("--keys", type=int, default=8192, help="keys (8192)")
    parser.add_argument("--heads", type=int, default=1, help="heads (1)")
    parser.add_argument("--groups", type=int, help="heads of keys and values (as many)")
    parser.add_argument("--width", type=int, default=64, help="of a head (64)")
    parser.add_argument("--causal", action="store_true", help="with a causal mask")
    parser.add_argument("--target", default="atlas-v1")
    given = parser.parse_args()
    groups = given.groups or given.heads
    if min(given.rows, given.keys, given.heads, given.width, groups) < 1 or given.heads % groups:
        parser.error("sizes are at least 1, and groups divide heads")
    net = ModelBuilder("long_attention")
    q = net.input("q", (1, given.rows, given.heads, given.width))
    k, v = (net.input(name, (1, given.keys, groups, given.width)) for name in "kv")
    net.output("y", net.attention(q, k, v, causal=given.causal))
    began = time.process_time()
    compiled = compile_imported(net.build(), given.target, progress=told)
    seconds = time.process_time() - began
    program = Program(compiled)
    random = np.random.default_rng(0)
    inputs = {
        port.name: random.standard_normal(port.shape).astype(np.float32) for port in program.inputs
    }
    told("run", "")
    program.run(inputs)
    steps = compiled.artifact.steps
    cycles = sum(
        call.end - call.start
        for call in program.session.device().calls
        if steps[call.step].kernel.startswith("attention")
    )
    bound = sum(step.bound or 0 for step in steps if step.kernel.startswith("attention"))
    told("verify", "")
    verified = program.verify(inputs).ok
    shape = f"{given.heads} x {given.rows} x {given.keys}{' causal' if given.causal else ''}"
    print(
        f"| {shape} | {cycles:,} | {bound:,} | {cycles / bound:.3f} | "
        f"{'yes' if verified else 'NO'} | {seconds:.0f} |"
    )
    return 0 if verified else 1


if __name__ == "__main__":
    sys.exit(main())
