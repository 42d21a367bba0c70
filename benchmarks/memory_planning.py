"""Memory planning on hard instances: greedy and exact peaks, our time against published times.

    python benchmarks/memory_planning.py             instances of our own generator
    python benchmarks/memory_planning.py --hard      larger ones, at the edge of what is solved
    python benchmarks/memory_planning.py DIR         a folder of CSV files (id,lower,upper,size)
    python benchmarks/memory_planning.py --seeds 20 [DIR]      success rates of each engine
    python benchmarks/memory_planning.py --relatives 10 DIR    the same on changed copies of each
                                                     instance, which fit wherever it fits
    python benchmarks/memory_planning.py --judge --seeds 2     the same on families of instances
                                                     that no choice was made on

With --seeds every engine looks at every instance with so many seeds, and success rates and CPU
seconds are printed. MiniMalloc's algorithm and CP-SAT get one try: the first knows no chance, the
second takes long. "sections" is one member of the portfolio, alone: restarts that work on the
section with the fewest choices for its failures.

A file called NAME.CAPACITY.csv is planned within that capacity; others within their peak live
bytes. The suite of that form is google/minimalloc, benchmarks/challenging. The exit code is 1
when an instance is not solved.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.planning.best_fit import best_fit
from tilewright.planning.bounds import peak_live
from tilewright.planning.buffers import Buffer, peak_of
from tilewright.planning.exact import MEMBERS, Limits, Work, fit
from tilewright.planning.first_fit import first_fit
from tilewright.planning.generate import (
    DEVELOP_SEEDS,
    HARD_SIZES,
    JUDGE_SEEDS,
    SIZES,
    families,
    relative,
    suite,
)
from tilewright.planning.minimalloc_csv import read_instance
from tilewright.planning.orders import ORDERS
from tilewright.planning.verify import check_plan

# Seconds of MiniMalloc on the instances of its own "challenging" suite, from the ASPLOS 2024
# talk; keyed by instance and number of buffers, so that another file of the same name is not
# compared with them.
PUBLISHED_SOURCE = "MiniMalloc, ASPLOS 2024 talk"
PUBLISHED = {
    ("A", 154): 4.91,
    ("B", 170): 3.66,
    ("D", 213): 2.67,
    ("F", 296): 5.36,
    ("G", 308): 1.18,
    ("H", 316): 1.81,
    ("I", 374): 3.91,
    ("K", 454): 0.63,
}


def instances(folder: Path | None, hard: bool) -> list[tuple[str, list[Buffer], int]]:
    """(name, buffers, capacity) of a folder, or of the generator."""
    if folder is None:
        made = suite(HARD_SIZES if hard else SIZES)
        return [(name, buffers, capacity) for name, (buffers, capacity) in made.items()]
    found = []
    for path in sorted(folder.glob("*.csv")):
        buffers, capacity = read_instance(path)
        found.append((path.name.split(".")[0], buffers, capacity or peak_live(buffers).live_bytes))
    if not found:
        raise TilewrightError("TW1409", f"{folder} holds no CSV files", hint="give another folder")
    return found


def best_of(
    planner: Callable[[Sequence[Buffer], str], dict[str, int]], buffers: list[Buffer]
) -> int:
    return min(peak_of(buffers, planner(buffers, order)) for order in ORDERS)


def measure(name: str, buffers: list[Buffer], capacity: int, limits: Limits) -> dict[str, object]:
    """One row: peaks, time, and the plan checked by the independent verifier."""
    work = Work()
    begin, cpu = time.perf_counter(), time.process_time()
    status, offsets = fit(buffers, capacity, limits, work)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    if status == "solved":
        check_plan(buffers, offsets, {buffers[0].region: capacity})
    published = PUBLISHED.get((name, len(buffers)))
    return {
        "instance": name,
        "buffers": len(buffers),
        "peak_live": peak_live(buffers).live_bytes,
        "capacity": capacity,
        "first_fit": best_of(first_fit, buffers),
        "best_fit": best_of(best_fit, buffers),
        "exact": peak_of(buffers, offsets) if status == "solved" else None,
        "status": status,
        "nodes": work.nodes,
        "restarts": work.restarts,
        "engines": work.engines,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "published_seconds": published,
        "ratio": round(seconds / published, 3) if published else None,
    }


# Name, members of the portfolio, factor on --work, whether its seed matters. The steps of the
# MiniMalloc search are about four times as cheap as those of the others.
ENGINES: dict[str, tuple[tuple[str, ...], int, bool]] = {
    "portfolio": (MEMBERS, 1, True),
    "minimalloc": (("minimalloc",), 4, False),
    "sections": (("sections",), 1, True),
    "cp-sat": ((), 1, False),
}


def tries(
    engine: str, buffers: list[Buffer], capacity: int, options: argparse.Namespace
) -> list[tuple[bool, float]]:
    """(solved, CPU seconds) of one engine on one instance, for every seed that matters."""
    members, factor, seeded = ENGINES[engine]
    found = []
    for seed in range(options.seed, options.seed + (options.seeds if seeded else 1)):
        limits = Limits(
            work=options.work * factor,
            seed=seed,
            members=members or MEMBERS,
            cp_sat_time=options.cp_sat_time,
            engines=("cp-sat",) if engine == "cp-sat" else ("search",),
        )
        cpu = time.process_time()
        status, offsets = fit(buffers, capacity, limits)
        cpu = time.process_time() - cpu
        if status == "infeasible":
            raise TilewrightError("TW1409", f"{engine} refutes an instance that has a plan")
        if status == "solved":
            check_plan(buffers, offsets, {buffers[0].region: capacity})
        found.append((status == "solved", cpu))
    return found


def quantile(results: list[tuple[bool, float]], share: float) -> str:
    """CPU seconds within which this share of the tries was solved; ">" when it was not."""
    ordered = sorted(results, key=lambda result: (not result[0], result[1]))
    solved, seconds = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return f"{seconds:.2f}" if solved else f"> {max(time for _, time in results):.1f}"


def rates(options: argparse.Namespace) -> list[dict[str, object]]:
    """A row for every group of instances and engine: a family, or an instance of a folder."""
    if options.judge or options.develop:
        seeds = (JUDGE_SEEDS if options.judge else DEVELOP_SEEDS)[: options.instances]
        made = families(seeds)
        found = [(name.rpartition("-")[0], *instance) for name, instance in made.items()]
    else:
        found = instances(options.folder, options.hard)
    if options.relatives:
        seeds = range(options.seed, options.seed + options.relatives)
        found = [
            (name, relative(b, seed), capacity) for name, b, capacity in found for seed in seeds
        ]
    rows: list[dict[str, object]] = []
    for group in dict.fromkeys(name for name, _, _ in found):
        inside = [(buffers, capacity) for name, buffers, capacity in found if name == group]
        for engine in options.engines.split(","):
            results: list[tuple[bool, float]] = []
            for buffers, capacity in inside:
                results += tries(engine, buffers, capacity, options)
            rows.append(
                {
                    "group": group,
                    "engine": engine,
                    "instances": len(inside),
                    "solved": sum(solved for solved, _ in results),
                    "tries": len(results),
                    "median": quantile(results, 0.5),
                    "p90": quantile(results, 0.9),
                    "cpu_seconds": round(sum(seconds for _, seconds in results), 2),
                }
            )
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def rates_table(rows: list[dict[str, object]]) -> str:
    """One line for every group, one column for every engine, and the sum."""
    engines = list(dict.fromkeys(str(row["engine"]) for row in rows))
    lines = ["| instances | " + " | ".join(engines) + " |", "|---" * (len(engines) + 1) + "|"]
    for group in dict.fromkeys(str(row["group"]) for row in rows):
        cells = {
            str(row["engine"]): f"{row['solved']}/{row['tries']} ({row['median']}, {row['p90']})"
            for row in rows
            if row["group"] == group
        }
        lines.append(f"| {group} | " + " | ".join(cells[engine] for engine in engines) + " |")
    sums = []
    for engine in engines:
        mine = [row for row in rows if row["engine"] == engine]
        solved, total = (sum(int(str(row[key])) for row in mine) for key in ("solved", "tries"))
        sums.append(f"{solved}/{total} = {100 * solved / total:.0f} %")
    lines.append("| all | " + " | ".join(sums) + " |")
    return "\n".join(lines)


def table(rows: list[dict[str, object]]) -> str:
    """The rows as a Markdown table with a total."""
    columns = {
        "instance": "instance",
        "buffers": "buffers",
        "peak_live": "peak live",
        "first_fit": "first-fit",
        "best_fit": "best-fit",
        "exact": "exact",
        "nodes": "nodes",
        "seconds": "seconds",
        "cpu_seconds": "CPU seconds",
        "published_seconds": "published seconds",
        "ratio": "ratio",
    }
    lines = ["| " + " | ".join(columns.values()) + " |", "|---" + "|---:" * 10 + "|"]
    for row in rows:
        cells = [row[key] if row[key] is not None else "-" for key in columns]
        if row["status"] != "solved":
            cells[5] = str(row["status"])
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")

    def total(key: str) -> float:
        return round(sum(float(str(row[key] or 0)) for row in rows), 2)

    ours, theirs = total("seconds"), total("published_seconds")
    last = [ours, total("cpu_seconds"), theirs or "-", round(ours / theirs, 3) if theirs else "-"]
    lines.append("| total | | | | | | | " + " | ".join(str(cell) for cell in last) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR")
    parser.add_argument("--hard", action="store_true", help="larger instances of the generator")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--seed", type=int, default=Limits().seed)
    parser.add_argument("--work", type=int, default=Limits().work, help="steps per instance")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="success over N seeds")
    parser.add_argument(
        "--relatives", type=int, default=0, metavar="N", help="N changed copies of each instance"
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--judge", action="store_true", help="families, instances kept to judge")
    kinds.add_argument("--develop", action="store_true", help="families, instances to try ideas on")
    parser.add_argument("--instances", type=int, default=5, help="of each family, at most 30")
    parser.add_argument("--engines", default=",".join(ENGINES), help="of " + ", ".join(ENGINES))
    parser.add_argument(
        "--cp-sat-time", type=float, default=0.1, help="deterministic, with --seeds"
    )
    options = parser.parse_args()
    if unknown := set(options.engines.split(",")) - set(ENGINES):
        parser.error(f"no engine {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    if options.judge or options.develop or options.seeds or options.relatives:
        options.seeds = max(options.seeds, 1)
        try:
            found = rates(options)
        except TilewrightError as error:
            print(error, file=sys.stderr)
            return 2
        print(json.dumps(found, indent=2) if options.json else rates_table(found))
        return 0
    limits = Limits(seed=options.seed, work=options.work)
    try:
        rows = []
        for name, buffers, capacity in instances(options.folder, options.hard):
            if sys.stderr.isatty():
                print(f"{name}…", end="\r", file=sys.stderr, flush=True)
            rows.append(measure(name, buffers, capacity, limits))
    except TilewrightError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"published_source": PUBLISHED_SOURCE, "rows": rows}, indent=2))
    else:
        print(table(rows))
        if any(row["published_seconds"] for row in rows):
            print(f"\npublished seconds: {PUBLISHED_SOURCE}; ratio: ours / published")
    return 0 if all(row["status"] == "solved" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
