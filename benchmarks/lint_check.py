"""Lint against the machine on many random programs, and how fast it is.

    python benchmarks/lint_check.py --count 20000 [--seed 0]

Every program is linted twice, executed step by step and with its loops summarised, and run on
the Python machine. Counted as wrong: a fault lint did not foretell; a fault it foretold for certain
that did not happen; a clean program whose result depends on when DMA lands.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/atlas"))

from machine_programs import random_profile, random_program

from tilewright.targets.atlas.lint import Report, lint
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Instruction, Program

CYCLES = 20_000
UNDECIDED = {"TW2020", "TW2034"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Lint against the machine, and its speed.")
    parser.add_argument("--count", type=int, default=1000, help="random programs")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    options = parser.parse_args()
    print_speed()
    counts: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(options.seed, options.seed + options.count):
        check(seed, counts)
    print(f"\n{options.count} random programs in {time.perf_counter() - started:.0f} s\n")
    for name in sorted(counts):
        print(f"| {name:<48} | {counts[name]:>8} |")
    return 1 if counts["wrong"] else 0


def check(seed: int, counts: Counter[str]) -> None:
    profile = load_profile(f"atlas-v{seed % 2}")
    if seed % 3 == 0:
        profile = random_profile(seed, profile)
    program = random_program(seed, profile)
    machine, outcome = run(program, profile)
    for how, limit in (("step by step", 400_000), ("summarised", 20)):
        report = lint(program, profile, limit)
        state = "clean" if report.clean else "errors" if report.errors else "warnings only"
        counts[f"{how}: {state}, machine: {outcome.reason}"] += 1
        fault = outcome.fault
        if fault is not None and not foretold(report, fault.kind, fault.index):
            wrong(counts, seed, f"{how}: not foretold: {fault}")
        certain = [f for f in report.errors if f.fault and not f.may]
        if fault is None and outcome.reason != "limit" and certain:
            wrong(counts, seed, f"{how}: foretold but did not happen: {certain[0].message}")
        if report.clean and outcome.reason in ("end", "halt"):
            for dma in ("early", "late"):
                other, _ = run(program, profile, dma)
                counts["clean programs under early and late DMA"] += 1
                if final_state(other) != final_state(machine):
                    wrong(counts, seed, f"{how}: clean, but differs with DMA {dma}")


def wrong(counts: Counter[str], seed: int, text: str) -> None:
    counts["wrong"] += 1
    print(f"program {seed}: {text}", file=sys.stderr)


def foretold(report: Report, kind: str, index: int) -> bool:
    return any(e.code in UNDECIDED or (e.fault, e.index) == (kind, index) for e in report.errors)


def run(program: Program, profile: Profile, dma: str = "exact"):
    machine = PythonMachine(profile, Policy(dma=dma))
    machine.load(program)
    return machine, machine.run(max_cycles=CYCLES)


def final_state(machine: PythonMachine) -> tuple[object, ...]:
    state = machine.state
    tiles = (state.e, state.m, state.w, state.acc)
    memory = (machine.read(space, 0, 65536) for space in ("vmem", "dram"))
    return (state.x, state.dma_base, *(t.tobytes() for t in tiles), *memory)


def print_speed() -> None:
    """Time for a long program, and for a loop of a million iterations."""
    of = Instruction.of
    tile = [
        of("dma.load", 0, 0, 1, 0), of("dma.wait", 0), of("vload", 0, 0, 0), of("delay", 32),
        of("vmatpush.weight.mxu1", 0, 0), of("delay", 30), of("vmatmul.mxu1", 0, 2, 0),
        of("delay", 33),
    ]  # fmt: skip
    loop = [
        of("lui", 1, 244), of("addi", 1, 1, -1), of("vload", 0, 0, 0), of("delay", 30),
        of("bne", 1, 0, -12), of("addi", 3, 3, 1), of("addi", 4, 4, 2),
    ]  # fmt: skip
    print("| program | instructions | steps | seconds | steps/s |")
    print("|---|---|---|---|---|")
    for name, code in (
        ("straight, 100,000 instructions", [of("addi", 1, 0, 1024), *tile * 12_500]),
        ("loop of 999,424 iterations", loop),
    ):
        program = Program.from_instructions(code)
        started = time.perf_counter()
        report = lint(program, load_profile("atlas-v1"))
        seconds = time.perf_counter() - started
        rate = report.steps / seconds
        print(f"| {name} | {len(program)} | {report.steps} | {seconds:.2f} | {rate:,.0f} |")


if __name__ == "__main__":
    sys.exit(main())
