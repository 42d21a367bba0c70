"""Whole networks: cycles against the bound, distance to float32, what compiling takes.

    python benchmarks/networks.py --small               a small SmolVLA, in a minute
    python benchmarks/networks.py                       SmolVLA with one camera and with three
    python benchmarks/networks.py --only "3 cameras"    networks whose names have this in them
    python benchmarks/networks.py --alone               its entry points, each a program of its own
    python benchmarks/networks.py --write               also benchmarks/results/networks.md

Every network runs in a process of its own and on one thread, so that memory and processor time are
its own; needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
CASES = {
    "SmolVLA, 1 camera, 1 step": ["--cameras", "1", "--steps", "1"],
    "SmolVLA, 3 cameras, 10 steps": ["--cameras", "3", "--steps", "10"],
}
ALONE = {
    f"SmolVLA, {entry} alone": ["--entry", entry, "--cameras", "3"]
    for entry in ("vision", "prefix", "denoise")
}
SMALL = {"small SmolVLA, 2 cameras, 2 steps": ["--small", "--cameras", "2", "--steps", "2"]}
HEADS = (
    "network", "parameters", "cycles", "x bound", "exact", "cosine", "host", "compile s", "run s",
    "verify s", "peak MB", "bundle bytes", "x weights",
)  # fmt: skip

START = """# Whole networks

Seconds are processor time of compiling (import of the model and writing the bundle included), of
running all entry points, and of verifying each of them; peak MB is of all but verifying. `exact` is
against the quantised reference, `cosine` that of the actions with float32. `x weights` is the bundle
over the weights it has to hold: a byte for each in fp8, two in the embedding, which is bf16.
"""


def measure(options: list[str], folder: str) -> dict[str, Any]:
    """The figures of one run of examples/smolvla.py."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/smolvla.py"), "--out", folder, "--json", *options],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, **ONE_THREAD},
    )
    if not done.stdout.strip():
        raise SystemExit(f"it ended with exit code {done.returncode} and without figures")
    return json.loads(done.stdout)


def row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    share = max(found["host_share"].values())
    return (
        name,
        f"{found['parameters']:,}",
        f"{found['cycles']['total']:,}",
        f"{found['ratio']:.3f}" if found["ratio"] else "-",
        "yes" if found.get("verified") else "no",
        f"{found['cosine']:.5f}",
        f"{100 * share:.2f} %",
        f"{found['compile_seconds']:.0f}",
        f"{found['run_seconds']:.1f}",
        f"{found['verify_seconds']:.0f}" if "verify_seconds" in found else "-",
        f"{found['peak_megabytes']:,}",
        f"{found['bundle_bytes']:,}",
        f"{found['bundle_bytes'] / found['weight_bytes']:.3f}" if "weight_bytes" in found else "-",
    )


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a small network of the same form")
    parser.add_argument("--alone", action="store_true", help="entry points by themselves")
    parser.add_argument("--only", default="", help="a part of the names of networks")
    parser.add_argument(
        "--write", action="store_true", help="add to benchmarks/results/networks.md"
    )
    given = parser.parse_args()
    rows: list[tuple[str, ...]] = [HEADS, tuple("---" for _ in HEADS)]
    exact = True
    every = SMALL if given.small else ALONE if given.alone else CASES
    cases = {name: options for name, options in every.items() if given.only in name}
    if not cases:
        parser.error(f"no network has {given.only!r} in its name")
    for name, options in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(options, folder)
        exact = exact and bool(found.get("verified"))
        rows.append(row(name, found))
        print(json.dumps({name: found}), flush=True)
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"
    print(table)
    if given.write:
        write(table, " ".join(["python", "benchmarks/networks.py", *sys.argv[1:]]))
    return 0 if exact else 1


def write(table: str, command: str) -> None:
    """Add a run to the results, under what made it."""
    path = ROOT / "benchmarks/results/networks.md"
    start = path.read_text(encoding="utf-8") if path.is_file() else START
    path.write_text(f"{start}\n`{command}`, {date.today()}\n\n{table}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
