"""The bounds of random models beside those of the programs that they became.

    python benchmarks/model_bounds.py --count 60 --seed 96500000 [--target atlas-v0]

A model's bound is counted from its formulas, a program's from a replay of what it does (tests/graph/replayed_bounds.py).
Both say what no program can beat, and share no code for it but the distances of two instructions. A
program may do more than its model asks for, so its bound is the higher one; where it is not, one of them
is wrong, or sees that something is not needed. Only programs of one piece are looked at. The exit
code is 1 if one of them is faster than its model's bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph"))
from random_sources import SOURCES, compiled
from replayed_bounds import can_be_replayed, replayed

from random_models import program_of
from tilewright.errors import TilewrightError


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="how many models")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--target", default="atlas-v1", help="machine profile")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # frameworks warn of themselves
    seen, above, beaten = 0, 0, 0
    for seed in range(options.seed, options.seed + options.count):
        source = SOURCES[seed % len(SOURCES)]
        try:
            model = compiled(program_of(seed, source, "float32"), source, options.target)
            artifact = model.model.artifact
            if not can_be_replayed(artifact):
                continue
            cycles, program = replayed(artifact)
        except TilewrightError as error:
            print(f"{source} {seed}: {error.code}")
            continue
        bound = artifact.bound()
        seen, above = seen + 1, above + (bound.cycles > program.cycles)
        beaten += bound.cycles > cycles
        note = " ABOVE THE PROGRAM'S" if bound.cycles > program.cycles else ""
        print(
            f"{source} {seed}: {cycles} cycles, {bound.cycles} by the model ({bound.cause}), "
            f"{program.cycles} by the program ({program.binding}){note}",
            flush=True,
        )
    print(
        f"{seen} programs: {above} with a model's bound above their own, {beaten} below the model's"
    )
    return int(beaten > 0)


if __name__ == "__main__":
    sys.exit(main())
