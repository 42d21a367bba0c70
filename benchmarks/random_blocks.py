"""Random blocks of networks on machines with little VMEM: what is large takes ways of its own there.

    python benchmarks/random_blocks.py --count 100
    python benchmarks/random_blocks.py --count 1 --seed 4711        one of them again

Every block has to compile, verify in every bit on memory that starts as NaN, be near float32, keep
everything on the device, and take at least as long as its bound; a machine that is too small has to
say so. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph"))

from drawn_blocks import Drawn, drawn

import tilewright as tw
from tilewright.errors import TilewrightError


def judge(block: Drawn) -> tuple[str, str, float | None]:
    """What came of it, more about it, and its cycles over the bound."""
    try:
        program = tw.compile(block.model, target=block.profile)
        verified, report = program.verify(), program.report()
    except TilewrightError as error:
        # TW3130: the program itself faults; every other error says what the machine lacks.
        return ("faulted" if error.code == "TW3130" else "refused"), str(error), None
    except Exception:
        return "crashed", traceback.format_exc(limit=-3), None
    if not verified.ok:
        return "wrong", str(verified), None
    if verified.cycles < report.bound:
        return "below its bound", f"{verified.cycles:,} cycles, bound {report.bound:,}", None
    return "ok", "", verified.cycles / max(1, report.bound)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="how many blocks")
    parser.add_argument("--seed", type=int, default=None, help="by default from the clock")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every block")
    options = parser.parse_args()
    first = int(time.time()) if options.seed is None else options.seed
    found: Counter[str] = Counter()
    ratios: list[float] = []
    began = time.process_time()
    for seed in range(first, first + options.count):
        block = drawn(seed)
        state, detail, ratio = judge(block)
        found[state] += 1
        if ratio is not None:
            ratios.append(ratio)
        if options.json:
            row = {"seed": seed, "block": block.text, "state": state, "ratio": ratio}
            print(json.dumps({**row, "detail": detail}), flush=True)
        elif state != "ok":
            print(f"{seed} {block.text}\n{state}: {detail}\n", flush=True)
    counts = ", ".join(f"{count} {state}" for state, count in found.most_common())
    if not options.json:
        print(
            f"{counts}; seeds from {first}, {time.process_time() - began:.0f} s of processor time"
        )
        if ratios:
            print(
                f"cycles over the bound: {median(ratios):.2f} in the median, {max(ratios):.2f} at most"
            )
    return 1 if set(found) - {"ok", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
