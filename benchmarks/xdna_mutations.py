"""Change one number of an XDNA design at a time and count the changes that nothing notices.

    python benchmarks/xdna_mutations.py --count 500

Writes benchmarks/results/xdna_mutations.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/xdna"))

from design_mutations import caught, mutants

from tilewright.targets.xdna.gemm import plan_gemm

RESULTS = Path(__file__).parent / "results" / "xdna_mutations.md"
DESIGNS: list[tuple[str, tuple[int, int, int], dict[str, Any]]] = [
    ("stock, 4 columns", (256, 96, 200), {"tile": (16, 32, 16), "policy": "stock", "columns": 4}),
    ("stock, column-major B and C, 2 columns", (192, 128, 96),
     {"tile": (16, 32, 16), "policy": "stock", "columns": 2, "b_layout": "col", "c_layout": "col"}),
    ("stock, 8 columns", (256, 64, 256), {"tile": (16, 16, 16), "policy": "stock"}),
    ("wide_k, 4 columns, i16", (192, 192, 128),
     {"tile": (16, 32, 16), "policy": "wide_k", "columns": 4, "k_mt": 64, "out": "i16"}),
    ("wide_k, row-major B, 4 columns", (128, 192, 128),
     {"tile": (16, 16, 16), "policy": "wide_k", "columns": 4, "k_mt": 64, "b_layout": "row"}),
    ("wide_k, 1 column", (128, 128, 64),
     {"tile": (16, 16, 16), "policy": "wide_k", "columns": 1, "k_mt": 32}),
    ("resident_b, 2 columns", (448, 256, 96),
     {"tile": (16, 32, 16), "policy": "resident_b", "columns": 2, "k_mt": 64}),
    ("resident_b, staggered, 4 columns", (576, 128, 128),
     {"tile": (16, 32, 16), "policy": "resident_b", "columns": 4, "k_mt": 32, "stagger": True}),
    ("resident_a, 4 columns", (192, 192, 256),
     {"tile": (16, 32, 16), "policy": "resident_a", "columns": 4, "k_mt": 32}),
    ("resident_b, ternary, 2 columns", (256, 128, 96),
     {"tile": (16, 32, 16), "policy": "resident_b", "columns": 2, "k_mt": 32, "dtype": "ternary"}),
    ("wide_k, bf16, 2 columns", (128, 96, 64),
     {"tile": (16, 16, 16), "policy": "wide_k", "columns": 2, "k_mt": 48, "dtype": "bf16"}),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="mutants per design")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    lines = ["| design | mutants | caught | by |", "|---|---|---|---|"]
    total = noticed = 0
    survivors = []
    began = time.time()
    for name, shape, options in DESIGNS:
        design = plan_gemm(*shape, **options)
        found: Counter[str] = Counter()
        for mutant in mutants(design, arguments.count, arguments.seed):
            by = caught(mutant)
            total += 1
            if by is None:
                survivors.append(f"{name}: {mutant.kind}: {mutant.what}")
            else:
                noticed += 1
                found[by] += 1
        ways = ", ".join(f"{by} {many}" for by, many in found.most_common())
        lines.append(f"| {name} | {arguments.count} | {sum(found.values())} | {ways} |")
        print(lines[-1], flush=True)
    share = 100 * noticed / total
    print(f"{noticed} of {total} caught ({share:.2f} %) in {time.time() - began:.0f} s")
    for survivor in survivors:
        print("survived:", survivor)
    if arguments.write:
        text = "\n".join(
            [
                "# Mutations of XDNA designs",
                "",
                f"`python benchmarks/xdna_mutations.py --count {arguments.count} --seed"
                f" {arguments.seed} --write`: {noticed} of {total} caught ({share:.2f} %).",
                "",
                *lines,
                "",
                *(f"Survived: {survivor}" for survivor in survivors),
            ]
        )
        RESULTS.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
