"""Compile and run many random kernels of the tile language.

    python benchmarks/random_kernels.py --count 5000 [--seed SEED] [--save DIR] [--no-shrink]

Each seed makes a kernel: one to three nests of loops over a batch, rows, columns and a contraction
with 1 to 300 trips, ragged sizes, carried states, several results, scratch tensors, accumulators,
on one of both profiles. It is compiled, linted, and run twice: from memory full of NaN with
transfers that land as late as they may, and from memory full of random bits with transfers that
land at once. Every bit of every result has to be that of the eager run. Failures are made smaller
before they are printed. The exit code is 1 if any kernel failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import secrets
import sys
import time
from collections import Counter
from pathlib import Path

# The generator and the check live beside the tests that use them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "tile"))
generator = importlib.import_module("kernel_generator")
checks = importlib.import_module("kernel_checks")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many kernels")
    parser.add_argument("--seed", type=int, help="the first seed; by default a fresh one")
    parser.add_argument("--save", type=Path, help="folder for what failed, as Python text")
    parser.add_argument("--no-shrink", action="store_true", help="print failures as they are")
    parser.add_argument("--tries", type=int, default=300, help="kernels tried to shrink one")
    parser.add_argument("--json", action="store_true", help="print a JSON object at the end")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else secrets.randbelow(1 << 31)
    print(f"seeds {first} to {first + options.count - 1}", file=sys.stderr)

    states, reasons, trips = Counter[str](), Counter[str](), Counter[str]()
    slowest, started, failures = (0.0, first), time.perf_counter(), []
    for number, seed in enumerate(range(first, first + options.count)):
        spec = generator.make(seed)
        before = time.perf_counter()
        outcome = checks.check(spec)
        slowest = max(slowest, (time.perf_counter() - before, seed))
        states[outcome.state] += 1
        if outcome.state == "refused":
            reasons[outcome.what.split()[0]] += 1
        else:
            trips[_band(spec)] += 1
        if outcome.failed:
            failures.append(seed)
            print(f"seed {seed} {outcome.state}: {outcome.what}", flush=True)
            if not options.no_shrink:
                spec = checks.shrunk(spec, outcome.state, options.tries)
                print(f"    {generator.shown(spec)}\n    {checks.check(spec).what}", flush=True)
            if options.save:
                options.save.mkdir(parents=True, exist_ok=True)
                (options.save / f"{seed}.txt").write_text(generator.shown(spec) + "\n")
        if (number + 1) % 100 == 0:
            seconds = time.perf_counter() - started
            print(f"{number + 1} kernels, {dict(states)}, {seconds:.0f} s", file=sys.stderr)
    seconds = time.perf_counter() - started
    each = seconds / max(1, options.count)
    if options.json:
        print(json.dumps({"seed": first, "count": options.count, "states": states,
                          "failures": failures, "seconds": round(seconds, 1)}))  # fmt: skip
    else:
        print(f"{options.count} kernels from seed {first}: {dict(states)}")
        print(f"most trips of a loop: {dict(sorted(trips.items()))}; refused: {dict(reasons)}")
        print(f"{seconds:.0f} s, {each:.2f} s each, slowest {slowest[0]:.1f} s (seed {slowest[1]})")
    return 1 if failures else 0


def _band(spec) -> str:
    """How many trips the longest loop can have, as a range."""
    tiles = [-(-spec.sizes[name] // 32) for name in ("M", "N", "K")]
    most = max(*tiles, spec.sizes["B"])
    return next(text for limit, text in ((3, "  1-3"), (10, "  4-10"), (50, " 11-50"), (150, " 51-150"),
                                         (1 << 30, "151-300")) if most <= limit)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
