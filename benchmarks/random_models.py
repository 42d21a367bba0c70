"""Compile, run and verify many random models.

    python benchmarks/random_models.py --count 300                  torch, ONNX and JAX in turn
    python benchmarks/random_models.py --count 100 --seed 7000 --source onnx --jobs 2
    python benchmarks/random_models.py --seed 7042 --count 1 --source torch --show
    python benchmarks/random_models.py --count 5000 --jobs 2 --json > rows.jsonl
    python benchmarks/random_models.py --count 60 --target atlas-v0 --format bfloat16
    python benchmarks/random_models.py --table rows.jsonl

Every seed is a model of 3 to 15 operations or layers: products, convolutions, norms, attention,
broadcasts, reductions, views, lookups, towers of identical layers, several outputs; in float32, in
bfloat16, in float16, or of several formats (`--format`). It is written
for a framework, compiled, run on two samples, verified, and compared with float64 within limits
that are measured by disturbing the model where the machine rounds (tests/graph/random_noise.py). A
failure is shrunk and written to `--failures` as a script of its own. The exit code is 1 if a value
was wrong, a verification found something or anything crashed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph"))
from random_checks import BAD, GeneratorError, Outcome, check, confirm
from random_drawing import draw_program
from random_formats import FORMATS, drawn_format, fitting, in_format
from random_programs import RandomProgram, describe
from random_shrinking import shrink
from random_sources import SOURCES, reproducer

SHRUNK = 3  # failures of one kind that a process makes small
shrunk: Counter[tuple[str, str]] = Counter()
REASONS = 12  # reasons for the host that are listed
CONFIRM = 40  # one of so many models is run by its framework as well


@dataclass
class Row:
    """One model."""

    seed: int
    source: str
    operations: int
    outcome: Outcome
    script: str = ""
    kinds: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    seed: int
    source: str
    target: str
    failures: str
    shrinking: float
    format: str


def program_of(seed: int, source: str, form: str) -> RandomProgram:
    """The model of a seed, in the format that is wanted or that the seed draws."""
    program = draw_program(seed)
    wanted = drawn_format(seed) if form == "drawn" else form
    return in_format(program, fitting(wanted, source, program))


def run(task: Task) -> Row:
    """One model, shrunk if it fails."""
    program = program_of(task.seed, task.source, task.format)
    if task.seed % CONFIRM == 0:
        confirm(program, task.source, 0)
    outcome = check(program, task.source, task.target)
    kinds = sorted({node.operation for node in program.nodes})
    row = Row(task.seed, task.source, len(program.nodes), outcome, kinds=kinds)
    if outcome.state in BAD and task.failures:
        row.script = _write(task, program, outcome)
    return row


def _write(task: Task, program, outcome: Outcome) -> str:
    """The reproducer of a failure, as small as time allows."""

    def fails(smaller) -> bool:
        try:
            found = check(smaller, task.source, task.target)
        except GeneratorError:  # the smaller one is at the edge of a step, or of what a float holds
            return False
        return (found.state, found.key) == (outcome.state, outcome.key)

    shrunk[outcome.state, outcome.key] += 1
    wanted = task.shrinking > 0 and shrunk[outcome.state, outcome.key] <= SHRUNK
    small = shrink(program, fails, task.shrinking) if wanted else program
    last = check(small, task.source, task.target)
    finding = f"{last.state}: {last.key}\n\n{describe(small)}\n\n{last.detail}"
    path = Path(task.failures) / f"{task.source}_{task.seed}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(reproducer(small, task.source, task.target, finding, last.limits))
    return str(path)


def rows_of(options: argparse.Namespace) -> Iterator[Row]:
    """All models, in one process or several."""
    sources = SOURCES if options.source == "all" else (options.source,)
    tasks = [
        Task(
            seed,
            sources[seed % len(sources)],
            options.target,
            options.failures,
            options.shrink,
            options.format,
        )
        for seed in range(options.seed, options.seed + options.count)
    ]
    if options.jobs == 1:
        yield from map(run, tasks)
        return
    # Fresh processes: frameworks keep threads, which do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        yield from pool.imap_unordered(run, tasks)


def table(rows: list[Row]) -> str:
    """Counts by source, reasons, and how sharp the limits were."""
    states = ("ok", "refused", "wrong", "unverified", "crashed")
    lines = [f"| source | models | {' | '.join(states)} |", "|---|---:|" + "---:|" * len(states)]
    for source in [*SOURCES, "all"]:
        mine = [row for row in rows if source in (row.source, "all")]
        if not mine:
            continue
        counts = Counter(row.outcome.state for row in mine)
        cells = " | ".join(str(counts[state]) for state in states)
        lines.append(f"| {source} | {len(mine)} | {cells} |")
    reasons = Counter((r.outcome.state, r.outcome.key) for r in rows if r.outcome.state != "ok")
    if reasons:
        lines += ["", "| state | reason | models | seeds |", "|---|---|---:|---|"]
        for (state, key), count in reasons.most_common():
            seeds = [
                f"{r.source} {r.seed}"
                for r in rows
                if (r.outcome.state, r.outcome.key) == (state, key)
            ]
            lines.append(f"| {state} | {key} | {count} | {', '.join(seeds[:6])} |")
    good = [row.outcome for row in rows if row.outcome.state == "ok"]
    if good:
        whole = sorted(o.whole for o in good)
        worst = sorted(o.worst for o in good)
        outputs, blunt = sum(o.outputs for o in good), sum(o.blunt for o in good)
        lines += [
            "",
            f"Errors of the models that are ok, in spreads of rounding: median {_at(whole, 0.5):.2f}, "
            f"99 % {_at(whole, 0.99):.2f}, largest {whole[-1]:.2f} as a whole (limit 6, 13 for a single number); median "
            f"{_at(worst, 0.5):.1f}, 99 % {_at(worst, 0.99):.1f}, largest {worst[-1]:.1f} for the "
            f"worst element (limit 20). In {blunt} of {outputs} outputs values moved by one place "
            "would stay within the limits.",
        ]
        lines += _speed(good)
    return "\n".join(lines)


def _speed(good: list[Outcome]) -> list[str]:
    """Cycles over bounds, the host's share, and the kernels that take most of what is above."""
    # A model that is only on the host has no cycles: it counts for its share alone.
    ratios = sorted(o.cycles / o.bound for o in good if o.bound)
    shares = sorted(o.host_share for o in good)
    if not ratios:
        return []
    beyond = sum(share > 0 for share in shares)
    lines = [
        "",
        f"Cycles over the bound: median {_at(ratios, 0.5):.2f}, nine of ten at most "
        f"{_at(ratios, 0.9):.2f}, largest {ratios[-1]:.1f} ({len(ratios)} models with a device "
        f"part). Arithmetic on the host: median {_at(shares, 0.5):.1%}, nine of ten at most "
        f"{_at(shares, 0.9):.1%}; {beyond} of {len(shares)} models have some.",
        "",
        "| kernel | models | cycles | x bound of its steps | of all cycles above the bounds |",
        "|---|---:|---:|---:|---:|",
    ]
    kernels: dict[str, list[tuple[int, int]]] = {}
    for outcome in good:
        for kernel, figures in outcome.kernels.items():
            kernels.setdefault(kernel, []).append(figures)
    sums = {k: (sum(c for c, _ in found), sum(b for _, b in found)) for k, found in kernels.items()}
    above = sum(cycles - bound for cycles, bound in sums.values())
    for kernel, (cycles, bound) in sorted(sums.items(), key=lambda row: row[1][1] - row[1][0]):
        times = f"{cycles / bound:.1f}" if bound else ""
        share = (cycles - bound) / max(1, above)
        lines.append(f"| {kernel} | {len(kernels[kernel])} | {cycles:,} | {times} | {share:.0%} |")
    reasons = Counter(_kind(reason) for o in good for reason in o.reasons)
    if reasons:
        lines += ["", "| reason for the host | times |", "|---|---:|"]
        lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common(REASONS)]
    return lines


def _kind(reason: str) -> str:
    """A reason without its layer and its numbers."""
    return re.sub(r"\d+", "N", reason.split(": ", 1)[-1])


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def _kept(files: list[Path]) -> list[Row]:
    """Rows of earlier runs."""
    found = []
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            found.append(Row(**{**row, "outcome": Outcome(**row["outcome"])}))
    return found


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="how many models")
    parser.add_argument("--seed", type=int, help="the first seed; by default from the clock")
    parser.add_argument("--source", choices=[*SOURCES, "all"], default="all")
    parser.add_argument("--target", default="atlas-v1", help="machine profile")
    parser.add_argument(
        "--format", choices=[*FORMATS, "drawn"], default="drawn", help="of inputs and weights"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--failures", default="out/random_models", help="folder for reproducers")
    parser.add_argument(
        "--shrink", type=float, default=60.0, help="seconds to make a failure small; 0: do not"
    )
    parser.add_argument("--seconds", type=float, help="stop after so long, whatever the count")
    parser.add_argument("--show", action="store_true", help="print every model")
    parser.add_argument("--json", action="store_true", help="print rows as JSON, one per line")
    parser.add_argument("--table", type=Path, nargs="+", help="only the table of rows kept so")
    options = parser.parse_args()
    if options.table:
        print(table(_kept(options.table)))
        return 0
    if options.seed is None:
        options.seed = int(time.time()) % 1_000_000_000
    print(f"seeds {options.seed} to {options.seed + options.count - 1}", file=sys.stderr)
    began, rows = time.perf_counter(), []
    for row in rows_of(options):
        rows.append(row)
        if len(rows) % 50 == 0:
            print(f"{len(rows)} of {options.count} models", file=sys.stderr, flush=True)
        if options.show:
            print(describe(program_of(row.seed, row.source, options.format)))
        if options.json:
            print(json.dumps(asdict(row), default=lambda number: number.item()), flush=True)
        elif row.outcome.state in BAD or options.show:
            o = row.outcome
            print(f"seed {row.seed} {row.source}: {o.state} {o.key} {row.script}", flush=True)
        if options.seconds and time.perf_counter() - began > options.seconds:
            break
    seconds = time.perf_counter() - began
    used = sum(row.outcome.seconds for row in rows)
    if not options.json:
        print()
        print(table(rows))
        print(
            f"\nSeeds {options.seed} to {max(row.seed for row in rows)}, {len(rows)} models, "
            f"{seconds:.0f} s, {used / max(1, len(rows)):.2f} s of processor time each, "
            f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
        )
    return int(any(row.outcome.state in BAD for row in rows))


if __name__ == "__main__":
    sys.exit(main())
