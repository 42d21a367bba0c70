"""Bad input by the thousand: every reader gets spoiled files, and has to refuse or accept them.

    python benchmarks/fuzz.py --count 20000
    python benchmarks/fuzz.py --subject onnx --seed 4711 --count 1

Inputs come from the seed, so that every case can be repeated alone. Each runs with a limit of time
and memory in a process of its own kind; a traceback, a crash, a hang or a blow-up of memory is a
finding. `benchmarks/sanitized.py benchmarks/fuzz.py …` does the same with native code that checks
itself.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/targets/atlas"))

from fuzzing.running import Finding, Tally, run_cases, sanitized
from fuzzing.subjects import SUBJECTS, shares


@click.command()
@click.option("--count", default=20_000, help="How many cases, over all subjects.")
@click.option("--seed", type=int, help="The first seed; by default another one every time.")
@click.option("--subject", "names", multiple=True, help="Only these readers.")
@click.option("--workers", default=2, help="Processes.")
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for inputs that failed.")
@click.option("--table", type=click.Path(path_type=Path), help="Write the results here.")
def main(
    count: int,
    seed: int | None,
    names: tuple[str, ...],
    workers: int,
    keep: Path | None,
    table: Path | None,
) -> None:
    """Run spoiled inputs through every reader."""
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    first = random.SystemRandom().randrange(10**9) if seed is None else seed
    subjects = [s for s in SUBJECTS if not names or s.name in names]
    if not subjects:
        raise click.UsageError(f"readers are {', '.join(s.name for s in SUBJECTS)}")
    per = shares(count) if not names else {s.name: -(-count // len(subjects)) for s in subjects}
    cases = [
        (number, first + k)
        for number, subject in enumerate(subjects)
        for k in range(per[subject.name])
    ]
    random.Random(first).shuffle(cases)
    print(f"{len(cases)} cases, seeds from {first}", flush=True)
    began = time.monotonic()

    def seen(done: int, all_: int, finding: Finding | None) -> None:
        if finding is not None:
            text = f"{finding.subject} --seed {finding.seed}: {finding.kind} in {finding.place}"
            print(text, file=sys.stderr, flush=True)
        if done % (50 if sys.stderr.isatty() else 1000) == 0:
            end = "" if sys.stderr.isatty() else "\n"
            print(f"\r{done} of {all_}", end=end, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        tallies = run_cases(subjects, cases, folder, workers, seen)
    text = _table(tallies, time.monotonic() - began, first)
    print(text)
    if table is not None:
        table.write_text(text + "\n")
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    _report(findings, keep)
    sys.exit(1 if findings else 0)


def _table(tallies: dict[str, Tally], seconds: float, seed: int) -> str:
    rows = ["| reader | cases | accepted | refused | kinds of errors | slowest | findings |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, tally in tallies.items():
        rows.append(
            f"| {name} | {tally.cases} | {tally.accepted} | {tally.refused} | {len(tally.codes)} "
            f"| {tally.slowest:.1f} s | {len(tally.findings)} |"
        )
    cases = sum(tally.cases for tally in tallies.values())
    found = sum(len(tally.findings) for tally in tallies.values())
    checked = "with address and undefined-behaviour sanitizers" if sanitized() else "plain"
    head = f"{cases} cases from seed {seed}, {checked}, {seconds:.0f} s: {found} findings"
    return "\n".join([head, "", *rows])


def _report(findings: list[Finding], keep: Path | None) -> None:
    """Each kind of finding once, with how to repeat it."""
    count = Counter((f.subject, f.kind, f.place) for f in findings)
    shown = set()
    for finding in findings:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            name = f"{finding.subject}-{finding.seed}{finding.suffix}"
            (keep / name).write_bytes(finding.content)
        key = (finding.subject, finding.kind, finding.place)
        if key in shown:
            continue
        shown.add(key)
        print(f"\n{finding.subject} --seed {finding.seed}: {finding.kind} in {finding.place}, "
              f"{count[key]} times\n{finding.text}")  # fmt: skip


if __name__ == "__main__":
    main()
