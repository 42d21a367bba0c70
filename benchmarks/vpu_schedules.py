"""VPU schedules of random graphs: how far from the optimum, from the serial schedule, how fast.

    python benchmarks/vpu_schedules.py gap [--graphs N] [--first SEED] [--tasks N]
    python benchmarks/vpu_schedules.py check [--graphs N] [--first SEED] [--tasks N]
    python benchmarks/vpu_schedules.py scale [--tasks N]

`gap` compares the portfolio alone (no solver) with the exact solver; only proven optima count.
Seeds below 10000 were looked at while the scheduler was made, those from 20000 on were kept
aside. `check` verifies lists of all sizes, also under random timing. `scale` schedules a graph
of many tasks on vpu40. The exit code is 1 when the average gap is above 5 %, a schedule is
worse than the serial one, or a list is not right.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "targets" / "vpu"))

from vpu_graphs import random_graph, streaming_layers

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.bounds import bounds
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.dependences import analyse
from tilewright.targets.vpu.scheduling.exact import solve
from tilewright.targets.vpu.scheduling.schedule import (
    portfolio,
    schedule,
    serial_schedule,
)
from tilewright.targets.vpu.simulator import Options, jittered, simulate
from tilewright.targets.vpu.values import run_values


def gap(graphs: int, first: int, tasks: int) -> int:
    """The portfolio against proven optima; barriers unlimited, as the solver has them."""
    gaps: list[float] = []
    worse = unsolved = 0
    for seed in range(first, first + graphs):
        size = random.Random(seed).randint(4, tasks)
        graph = random_graph(seed, size, barriers=64)
        graph.machine = replace(
            graph.machine, barriers=1000, dma_agents=1, barrier_latency=0, issue_latency=0
        )
        try:
            found = portfolio(graph)
        except TilewrightError as error:
            print(f"{seed}: {error.message}")
            continue
        serial = serial_schedule(graph)
        if found.makespan > sum(step.end - step.start for step in serial.draft.steps):
            worse += 1
            print(f"{seed}: worse than the serial schedule")
        problem = analyse(graph)
        if found.makespan <= bounds(problem).best:
            gaps.append(0.0)
            continue
        optimum = solve(problem, found.makespan, 8.0)
        if not optimum.proven or optimum.plan is None:
            unsolved += 1
            continue
        gaps.append(found.makespan / optimum.plan.makespan - 1)
        if gaps[-1] > 0.05:
            print(f"{seed}: {found.makespan}, optimum {optimum.plan.makespan}")
    average = sum(gaps) / max(1, len(gaps))
    print(
        f"{len(gaps)} graphs with proven optima ({unsolved} not solved in time): "
        f"average gap {100 * average:.2f} %, largest {100 * max(gaps, default=0):.1f} %, "
        f"optimal {sum(g == 0 for g in gaps)}, worse than serial {worse}"
    )
    return 1 if worse or average > 0.05 else 0


def check(graphs: int, first: int, tasks: int) -> int:
    """Everything holds on random graphs, and timing does not change results."""
    wrong = infeasible = 0
    for seed in range(first, first + graphs):
        graph = random_graph(seed, random.Random(seed).randint(5, tasks))
        try:
            made = schedule(graph)
        except TilewrightError as error:
            infeasible += 1
            print(f"{seed}: {error.message}")
            continue
        serial = serial_schedule(graph)
        findings = verify(made.tasks, graph, strict=True) + verify(made.tasks, strict=True)
        good = run_values(made.tasks).stored
        same = good == run_values(serial.tasks).stored
        for timing in (1, 2, 3):
            options = Options(durations=jittered(made.tasks, timing), shuffle_ties=timing)
            outcome = run_values(made.tasks, options, seed=timing)
            same = same and outcome.stored == good and not outcome.torn
        total = sum(step.end - step.start for step in serial.draft.steps)
        if findings or not same or made.makespan > total:
            wrong += 1
            print(f"{seed}: {findings[:2]} same={same} {made.makespan} serial {total}")
    print(f"{graphs} graphs, {wrong} wrong, {infeasible} without room")
    return 1 if wrong else 0


def scale(tasks: int) -> int:
    """One large graph: seconds per stage."""
    graph = streaming_layers(tasks)
    began = time.perf_counter()
    made = portfolio(graph)
    scheduled = time.perf_counter()
    findings = verify(made.tasks, graph, strict=True)
    verified = time.perf_counter()
    simulate(made.tasks)
    simulated = time.perf_counter()
    count = len(made.tasks.tasks)
    print(f"{count} tasks, {len(made.tasks.barriers)} barriers: {made.makespan} cycles")
    print(f"efficiency {made.bounds.strong / made.makespan:.4f} of the strong bound")
    print(f"scheduled in {scheduled - began:.1f} s, verified in {verified - scheduled:.1f} s")
    rate = 60 * count / (simulated - verified) / 1e6
    print(f"simulated in {simulated - verified:.2f} s: {rate:.2f} million tasks per minute")
    return 1 if findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["gap", "check", "scale"])
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--first", type=int, default=20000)
    parser.add_argument("--tasks", type=int)
    chosen = parser.parse_args()
    if chosen.what == "gap":
        return gap(chosen.graphs, chosen.first, chosen.tasks or 9)
    if chosen.what == "check":
        return check(chosen.graphs, chosen.first, chosen.tasks or 300)
    return scale(chosen.tasks or 50000)


if __name__ == "__main__":
    sys.exit(main())
