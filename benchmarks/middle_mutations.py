"""Break the middle of the compiler on purpose, and count which mistakes are found.

    python benchmarks/middle_mutations.py [--effective 300] [--count 2000] [--seed 0] [--seconds S]
                                          [--kinds "a scale halved,..."] [--json FILE] [--save]

Every trial draws a model and a kind of mistake (tests/graph/mutations.py): a live range cut short, a
fold that should not be, a pointer step left out, a slot reused early, a scale halved, and others; of
what the host does (mutations_host.py) and of loops whose iterations overlap (mutations_loops.py).
The model is compiled with the mistake in the compiler's own data. A mistake counts if it changes a
result: another bit than the model compiled without it gives on the same inputs, a fault, or a program
that does not end. It is found if `check` refuses the model, or `verify` (with lint in it) does not
pass it; of loops, if the compiler's check of addresses refuses them. Where the compiler stops there
is no program to be wrong. Ends when enough mistakes had an effect. Prints a table by kind, and every
mistake that was not found with the seed that makes it again. The exit code is 1 below 99 %.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import os
import platform
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# Models and mistakes live beside the tests that use them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph"))
trials = importlib.import_module("mutation_trials")
mutations = importlib.import_module("mutations")
towers = importlib.import_module("tower_models")

WANTED = 0.99
RESULTS = Path(__file__).parent / "results" / "middle_mutations.txt"
VERDICTS = ("found", "missed", "no program", "no effect", "nothing to break")


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--effective", type=int, default=300, help="enough that change a result")
    parser.add_argument("--count", type=int, default=2000, help="trials at most")
    parser.add_argument("--seed", type=int, default=0, help="of the first mistake")
    parser.add_argument("--kinds", help="only these, separated by commas")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    names = {name.strip() for name in (options.kinds or "").split(",")} - {""}
    kinds = [kind for kind in mutations.KINDS if not names or kind.name in names]
    if not kinds or names - {kind.name for kind in kinds}:
        parser.error(f"kinds are: {', '.join(kind.name for kind in mutations.KINDS)}")
    begun, tally = time.process_time(), Tally([kind.name for kind in kinds])
    for trial, seed in enumerate(range(options.seed, options.seed + options.count), 1):
        seconds = time.process_time() - begun
        if tally.effective >= options.effective or seconds > (options.seconds or math.inf):
            break
        choose = random.Random(seed)
        kind = kinds[seed % len(kinds)]
        # The host's mistakes need a host.
        models = towers.HOSTED if "host" in kind.name.split() else towers.MODELS
        make = choose.choice(models)
        outcome = trials.trial(make, kind, seed)
        tally.counts[kind.name, outcome.verdict] += 1
        if outcome.verdict == "missed":
            tally.missed.append(f"seed {seed}: {kind.name} in {make.__name__}: {outcome.text}")
        shown = f"{trial} made, {tally.effective} change a result, {len(tally.missed)} missed"
        print(f"\r{shown}", end="", file=sys.stderr, flush=True)
        if options.save and trial % 20 == 0:  # what there is, should the run be ended
            tally.save(options, seconds)
    print(file=sys.stderr)
    print("\n".join(tally.lines()))
    if options.save:
        tally.save(options, time.process_time() - begun)
    if options.json:
        figures = {"total": tally.total(), "share": tally.share, "missed": tally.missed}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if tally.share >= WANTED else 1


@dataclass
class Tally:
    """Trials by kind and verdict."""

    kinds: list[str]
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def total(self) -> dict[str, int]:
        return {
            v: sum(n for (_, verdict), n in self.counts.items() if verdict == v) for v in VERDICTS
        }

    @property
    def effective(self) -> int:
        return self.total()["found"] + self.total()["missed"]

    @property
    def share(self) -> float:
        return self.total()["found"] / self.effective if self.effective else 1.0

    def lines(self) -> list[str]:
        lines = [f"{'mistake':48}" + "".join(f"{v:>18}" for v in VERDICTS)]
        for name in self.kinds:
            row = [self.counts[name, verdict] for verdict in VERDICTS]
            lines.append(f"{name:48}" + "".join(f"{n:18}" for n in row))
        total = self.total()
        lines.append(f"{'together':48}" + "".join(f"{total[v]:18}" for v in VERDICTS))
        found = f"found {total['found']} of {self.effective} that change a result"
        return [
            *lines,
            f"{found}: {100 * self.share:.2f} %",
            *(f"missed: {m}" for m in self.missed),
        ]

    def save(self, options: argparse.Namespace, seconds: float) -> None:
        head = (
            f"benchmarks/middle_mutations.py --effective {options.effective} --seed {options.seed}"
        )
        where = f"{platform.machine()}, Python {platform.python_version()}"
        date = f"{datetime.date.today()}, {where}, {seconds:.0f} s of processor time"
        RESULTS.write_text("\n".join([head, date, "", *self.lines()]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
