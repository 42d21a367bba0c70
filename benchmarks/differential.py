"""Compare the Python and the native Atlas machine on random programs.

    python benchmarks/differential.py --count 20000

Programs, policies and profiles come from the seed, so every case can be repeated alone with
`--seed N --count 1`. A case in which the machines differ is made smaller and printed.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/atlas"))

from machine_cases import MAX_CYCLES, difference, minimise, random_case

from tilewright.targets.atlas.native import NativeMachine


@click.command()
@click.option("--count", default=20_000, help="How many programs.")
@click.option("--seed", default=0, help="The first seed; cases count up from it.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first difference.")
def main(count: int, seed: int, keep_going: bool) -> None:
    """Run random programs on both machines and compare everything."""
    started = time.perf_counter()
    stops: Counter[str] = Counter()
    failures = instructions = done = 0
    for number in range(seed, seed + count):
        case = random_case(number)
        found = difference(case)
        done += 1
        if found is None:
            native = NativeMachine(case.profile, case.policy)
            native.load(case.program)
            outcome = native.run(max_cycles=MAX_CYCLES)
            stops[f"fault: {outcome.fault.kind}" if outcome.fault else outcome.reason] += 1
            instructions += native.statistics.instructions
        else:
            failures += 1
            report(number, found)
            if not keep_going:
                break
        if sys.stderr.isatty() and done % 100 == 0:
            print(f"\r{done} of {count}", end="", file=sys.stderr)
    seconds = time.perf_counter() - started
    print(f"{done} programs, {instructions} instructions, {failures} differences, {seconds:.0f} s")
    for reason, times in stops.most_common():
        print(f"  {times:7}  {reason}")
    sys.exit(1 if failures else 0)


def report(number: int, found: str) -> None:
    """Print a failing case as small as it gets."""
    case = random_case(number)
    print(f"seed {number}, {case.profile.name}, {case.policy}\n  {found}")
    small = minimise(case)
    print(f"  smallest form: {difference(small)}")
    for index, instruction in enumerate(small.program):
        print(f"    {index:4}  {instruction.opcode.mnemonic} {list(instruction.operands)}")


if __name__ == "__main__":
    main()
