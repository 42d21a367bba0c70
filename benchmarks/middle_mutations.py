"""Break the middle of the compiler on purpose, and count which mistakes are found.

    python benchmarks/middle_mutations.py [--count 300] [--seed 0] [--kinds "a scale halved,..."]
                                          [--seconds S] [--json FILE]

Every trial draws a model and a kind of mistake (tests/graph/mutations.py): a live range cut short, a
fold that should not be, a pointer step left out, a slot reused early, a scale halved, and others.
The model is compiled with the mistake in the compiler's own data. A mistake counts if it changes a
result: another bit than the model compiled without it gives on the same inputs, a fault, or a program
that does not end. It is found if `check` refuses the model, or `verify` (with lint in
it) does not pass it. Where the compiler stops there is no program to be wrong. Prints a table by kind, and every mistake that was not found with the seed
that makes it again. The exit code is 1 below 99 %.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

# Models and mistakes live beside the tests that use them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph"))
trials = importlib.import_module("mutation_trials")
mutations = importlib.import_module("mutations")
towers = importlib.import_module("tower_models")

WANTED = 0.99


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=300, help="mistakes to make")
    parser.add_argument("--seed", type=int, default=0, help="of the first mistake")
    parser.add_argument("--kinds", help="only these, separated by commas")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    names = {name.strip() for name in (options.kinds or "").split(",")} - {""}
    kinds = [kind for kind in mutations.KINDS if not names or kind.name in names]
    if not kinds or names - {kind.name for kind in kinds}:
        parser.error(f"kinds are: {', '.join(kind.name for kind in mutations.KINDS)}")
    begun, counts, missed = time.monotonic(), Counter(), []
    for seed in range(options.seed, options.seed + options.count):
        if options.seconds and time.monotonic() - begun > options.seconds:
            break
        choose = random.Random(seed)
        kind = kinds[seed % len(kinds)]
        make = choose.choice(towers.MODELS)
        outcome = trials.trial(make, kind, seed)
        counts[kind.name, outcome.verdict] += 1
        if outcome.verdict == "missed":
            missed.append(f"seed {seed}: {kind.name} in {make.__name__}: {outcome.text}")
        print(f"\r{seed - options.seed + 1} made", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    verdicts = ("found", "missed", "no program", "no effect", "nothing to break")
    print(f"{'mistake':48}" + "".join(f"{v:>18}" for v in verdicts))
    for kind in kinds:
        row = [counts[kind.name, verdict] for verdict in verdicts]
        print(f"{kind.name:48}" + "".join(f"{n:18}" for n in row))
    total = {v: sum(n for (_, verdict), n in counts.items() if verdict == v) for v in verdicts}
    effective = total["found"] + total["missed"]
    share = total["found"] / effective if effective else 1.0
    print(f"{'together':48}" + "".join(f"{total[v]:18}" for v in verdicts))
    print(f"found {total['found']} of {effective} that change a result: {100 * share:.2f} %")
    for line in missed:
        print(f"missed: {line}")
    if options.json:
        figures = {"total": total, "share": share, "missed": missed}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
