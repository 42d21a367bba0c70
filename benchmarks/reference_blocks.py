"""How fast the reference executor runs blocks of real models, and whether passes keep their results.

    python benchmarks/reference_blocks.py [FILES...] [--passes "canonicalize,convert-linalg-to-npu-kernel"]

Without files: all blocks of the tests. Weights and inputs are random with a fixed seed. Prints seconds to
read and to run each block, then for every pass the seconds of the run after it and `=` if all results
are equal bit for bit, else the largest difference in steps of the element type.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "reference"))


from tilewright.dialects.context import make_context
from tilewright.errors import TilewrightError
from tilewright.reference.compare import compare_all
from tilewright.reference.executor import run
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "reference"))
blocks = importlib.import_module("blocks")


def main() -> None:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, help="MLIR files of blocks")
    parser.add_argument("--passes", default="canonicalize,convert-linalg-to-npu-kernel")
    options = parser.parse_args()
    files = options.files or sorted(blocks.FOLDER.glob("*.mlir"))
    passes = parse_pipeline(options.passes)
    heads = "".join(f" {p.name[:20]:>21}" for p in passes)
    print(f"{'block':34} {'read':>6} {'run':>6}{heads}")
    for path in files:
        context = make_context()
        start = time.perf_counter()
        block = blocks.read_block(path, context)
        read = time.perf_counter()
        expected = run(block.module, block.inputs, weights=block.weights)
        ran = time.perf_counter()
        cells = []
        try:
            for pass_ in passes:
                run_passes(block.module, [pass_], context)
                before = time.perf_counter()
                actual = run(block.module, block.inputs, weights=block.weights)
                seconds = time.perf_counter() - before
                steps = max(c.max_steps for c in compare_all(actual, expected))
                cells.append(f"{seconds:.2f} {'=' if steps == 0 else steps}")
        except TilewrightError as error:
            cells.append(error.code)
        row = "".join(f" {cell:>21}" for cell in cells)
        print(f"{path.name:34} {read - start:6.2f} {ran - read:6.2f}{row}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory {peak:.2f} GiB, {platform.machine()}, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
