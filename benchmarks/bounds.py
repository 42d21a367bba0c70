"""Try to find a program that is faster than a printed bound.

    python benchmarks/bounds.py --count 300 [--seed SEED] [--attack] [--tries 60] [--save]

Each turn takes a kernel of the library at random sizes (one row, one column, ragged, whole tiles)
on one of both machines and compares its cycles with the bound. With `--attack` it also looks for
faster programs: element-wise kernels written by hand without padding, rows packed side by side, in
pieces of several sizes, and random changes of all of them (instructions left out, waits moved,
delays and transfers shortened) that keep every bit right and lint quiet. Prints every program below
its bound; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import math
import os
import secrets
import sys
import time
from pathlib import Path

import numpy as np

# The attacks live beside the test that uses them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "kernels"))
attacks = importlib.import_module("bound_attacks")
RESULTS = Path(__file__).parent / "results" / "bounds.md"


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="how many kernels")
    parser.add_argument("--seed", type=int, help="by default a fresh one")
    parser.add_argument("--attack", action="store_true", help="look for faster programs too")
    parser.add_argument("--tries", type=int, default=60, help="changes of each program")
    parser.add_argument("--only", help="kernels, separated by commas")
    parser.add_argument("--save", action="store_true", help="add to benchmarks/results/bounds.md")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 31)
    names = options.only.split(",") if options.only else None
    if options.attack and names is None:
        names = [*attacks.LOCAL, "requant", "dequant", "softmax", "matmul", "add_row", "rms_norm",
                 "reduction_sum", "add_column", "transpose", "attention_causal"]  # fmt: skip
    print(f"seed {seed}", file=sys.stderr)

    ratios: dict[str, list[float]] = {}
    below, closest, faster = [], (math.inf, ""), 0
    started = time.perf_counter()
    for number in range(options.count):
        random = np.random.default_rng([seed, number])
        which, profile, sizes = attacks.random_target(random, names)
        target = attacks.Target(which, profile, sizes)
        cycles = attacks.attack(target, options.tries, number) if options.attack else target.cycles
        faster += cycles < target.cycles
        ratio = cycles / target.bound
        ratios.setdefault(profile, []).append(ratio)
        what = f"{which.name} {sizes} on {profile}: {cycles} cycles, bound {target.bound}"
        closest = min(closest, (ratio, what))
        if ratio < 1:
            below.append(what)
            print(f"BELOW THE BOUND: {what}", flush=True)
        if (number + 1) % 50 == 0:
            print(f"{number + 1} kernels, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    lines = [
        f"## {'attacked' if options.attack else 'random sizes'}: {options.count} kernels, seed {seed}",
        "",
        f"`python benchmarks/bounds.py --count {options.count} --seed {seed}"
        f"{f' --attack --tries {options.tries}' if options.attack else ''}`, "
        f"{datetime.date.today()}, {time.perf_counter() - started:.0f} s",
        "",
    ]
    for profile, found in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, found)) / len(found))
        lines.append(f"* {profile}: {len(found)} kernels, cycles / bound from {min(found):.3f} to "
                     f"{max(found):.2f}, geometric mean {mean:.3f}")  # fmt: skip
    lines.append(f"* below the bound: {len(below)}; nearest: {closest[1]}")
    if options.attack:
        lines.append(f"* a program faster than the library's was found for {faster} of them")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.save:
        before = RESULTS.read_text() if RESULTS.exists() else "# Programs against bounds\n"
        RESULTS.write_text(f"{before}\n{text}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
