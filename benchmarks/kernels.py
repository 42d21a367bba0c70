"""Cycles of the kernel library beside bounds and published programs, as Markdown.

python benchmarks/kernels.py                  print the tables
python benchmarks/kernels.py --save           also write benchmarks/results/kernels.md
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import platform
import time
from pathlib import Path

from tilewright.targets.atlas.kernels.cases import CASES
from tilewright.targets.atlas.kernels.measure import Measurement, measure
from tilewright.targets.atlas.kernels.registry import entry

RESULTS = Path(__file__).parent / "results" / "kernels.md"
LARGE = [
    ("gemm", {"M": 512, "K": 512, "N": 512}),
    ("gemm", {"M": 816, "K": 2048, "N": 2048}),
    ("attention", {"G": 12, "R": 1, "M": 1024, "N": 1024, "D": 64, "E": 64}),
    ("linear_gelu", {"M": 256, "K": 512, "N": 512}),
    ("matmul", {"M": 1024, "K": 3072, "N": 768}),
    ("softmax", {"M": 512, "N": 1024}),
    ("layer_norm", {"M": 512, "N": 1024}),
    ("elementwise_add", {"M": 512, "N": 1024}),
    ("conv2d", {"H": 56, "W": 56, "C": 64, "N": 64}),
    ("conv2d", {"H": 56, "W": 56, "C": 64, "N": 256, "KH": 1, "KW": 1, "padding": 0}),
    ("conv2d", {"H": 112, "W": 112, "C": 32, "N": 64, "stride": 2}),
    ("conv2d", {"H": 28, "W": 28, "C": 128, "N": 128}),
    ("conv2d_first", {"H": 224, "W": 224, "C": 3, "N": 32, "stride": 2}),
    ("depthwise_conv2d", {"H": 56, "W": 56, "C": 128}),
    ("max_pool", {"H": 112, "W": 112, "C": 64, "KH": 3, "KW": 3, "padding": 1}),
    ("global_average_pool", {"H": 7, "W": 7, "C": 512}),
]


def mean(rows: list[Measurement]) -> float:
    return math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))


def cases(profile: str) -> list[str]:
    """One row per published program."""
    rows = [measure(entry(c.kernel), c.profile, c.sizes, c) for c in CASES if c.profile == profile]
    lines = [
        f"## {profile}: published programs",
        "",
        "| case | kernel | cycles | bound | ratio | bound by | published | faster by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        published = row.reference_cycles or 0
        ratio = "optimal" if row.optimal else f"{row.ratio:.3f}"
        lines.append(
            f"| {row.case} | {row.kernel} | {row.cycles} | {row.bound} | {ratio} | {row.binding} | "
            f"{published} | {100 * (1 - row.cycles / published):.0f} % |"
        )
    optimal = sum(row.optimal for row in rows)
    worst = max(row.ratio for row in rows)
    lines += [
        "",
        f"{len(rows)} cases, geometric mean {mean(rows):.4f} times the bound, largest {worst:.4f}, "
        f"{optimal} proven optimal.",
        "",
    ]
    return lines


def large() -> list[str]:
    lines = [
        "## atlas-v1: larger work",
        "",
        "| kernel | sizes | cycles | bound | ratio | bound by | instructions | compile and run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, sizes in LARGE:
        begin = time.process_time()
        row = measure(entry(name), "atlas-v1", sizes)
        seconds = time.process_time() - begin
        shown = " ".join(f"{k}={v}" for k, v in sizes.items())
        lines.append(
            f"| {name} | {shown} | {row.cycles} | {row.bound} | {row.ratio:.3f} | {row.binding} | "
            f"{row.instructions} | {seconds:.1f} s CPU |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    save = parser.parse_args().save
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = ["# Kernels", "", f"{datetime.date.today()}, {machine}", ""]
    for profile in ("atlas-v1", "atlas-v0"):
        lines += cases(profile)
    lines += large()
    text = "\n".join(lines)
    print(text)
    if save:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
