"""How compile time grows with the size of the module.

    python benchmarks/compile_scaling.py [--sizes 1000,2000,5000,10000,20000] [--profile]

Makes modules of a given number of operations (a chain of layers: matmul with bias, residual,
softmax-like elementwise work, as an exporter writes them), then parses the text and runs the
`atlas` pipeline down to tile loops and launches, verifying after every pass. Prints a table of
seconds per phase and microseconds per operation; growth is the time against the size below,
divided by the ratio of sizes: 1.0 is linear.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import itertools
import platform
import pstats
import time

from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.transforms.pass_pipeline import Observer, named_pipeline, run_passes

IDENTITY = "affine_map<(d0, d1) -> (d0, d1)>"
ROW = "affine_map<(d0, d1) -> (d1)>"
OPERATIONS_PER_LAYER = 30


def layer(number: int, x: str) -> tuple[str, str]:
    """One layer as linalg text with 30 operations; returns the text and its result's name."""
    p = f"%l{number}_"
    text = f"""
  {p}cst = arith.constant 0.0 : bf16
  {p}e0 = tensor.empty() : tensor<64x96xbf16>
  {p}z0 = linalg.fill ins({p}cst : bf16) outs({p}e0 : tensor<64x96xbf16>) -> tensor<64x96xbf16>
  {p}m0 = linalg.matmul ins({x}, %w0 : tensor<64x64xbf16>, tensor<64x96xbf16>) outs({p}z0 : tensor<64x96xbf16>) -> tensor<64x96xbf16>
  {p}b0 = linalg.generic {{indexing_maps = [{IDENTITY}, {ROW}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}} ins({p}m0, %bias : tensor<64x96xbf16>, tensor<96xbf16>) outs({p}e0 : tensor<64x96xbf16>) {{
  ^bb0(%in: bf16, %in1: bf16, %out: bf16):
    %s = arith.addf %in, %in1 : bf16
    linalg.yield %s : bf16
  }} -> tensor<64x96xbf16>
  {p}t0 = linalg.generic {{indexing_maps = [{IDENTITY}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}} ins({p}b0 : tensor<64x96xbf16>) outs({p}e0 : tensor<64x96xbf16>) {{
  ^bb0(%in: bf16, %out: bf16):
    %s = math.tanh %in : bf16
    linalg.yield %s : bf16
  }} -> tensor<64x96xbf16>
  {p}g0 = linalg.generic {{indexing_maps = [{IDENTITY}, {IDENTITY}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}} ins({p}t0, {p}b0 : tensor<64x96xbf16>, tensor<64x96xbf16>) outs({p}e0 : tensor<64x96xbf16>) {{
  ^bb0(%in: bf16, %in1: bf16, %out: bf16):
    %s = arith.mulf %in, %in1 : bf16
    linalg.yield %s : bf16
  }} -> tensor<64x96xbf16>
  {p}e1 = tensor.empty() : tensor<64x64xbf16>
  {p}z1 = linalg.fill ins({p}cst : bf16) outs({p}e1 : tensor<64x64xbf16>) -> tensor<64x64xbf16>
  {p}m1 = linalg.matmul ins({p}g0, %w1 : tensor<64x96xbf16>, tensor<96x64xbf16>) outs({p}z1 : tensor<64x64xbf16>) -> tensor<64x64xbf16>
  {p}r0 = linalg.generic {{indexing_maps = [{IDENTITY}, {IDENTITY}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}} ins({p}m1, {x} : tensor<64x64xbf16>, tensor<64x64xbf16>) outs({p}e1 : tensor<64x64xbf16>) {{
  ^bb0(%in: bf16, %in1: bf16, %out: bf16):
    %s = arith.addf %in, %in1 : bf16
    linalg.yield %s : bf16
  }} -> tensor<64x64xbf16>
  {p}s0 = linalg.generic {{indexing_maps = [{IDENTITY}, {IDENTITY}], iterator_types = ["parallel", "parallel"]}} ins({p}r0 : tensor<64x64xbf16>) outs({p}e1 : tensor<64x64xbf16>) {{
  ^bb0(%in: bf16, %out: bf16):
    %s = math.exp %in : bf16
    linalg.yield %s : bf16
  }} -> tensor<64x64xbf16>"""
    return text, f"{p}s0"


def module_text(operations: int) -> str:
    """A module with about this many operations, bodies included."""
    x = "%x"
    parts = []
    for number in range(max(1, operations // OPERATIONS_PER_LAYER)):
        text, x = layer(number, x)
        parts.append(text)
    return (
        "func.func @main(%x: tensor<64x64xbf16>, %w0: tensor<64x96xbf16>, "
        "%w1: tensor<96x64xbf16>, %bias: tensor<96xbf16>) -> tensor<64x64xbf16> {"
        + "".join(parts)
        + f"\n  return {x} : tensor<64x64xbf16>\n}}\n"
    )


def measure(operations: int, pipeline: str) -> dict[str, float]:
    """Seconds per phase for one module size."""
    text = module_text(operations)
    gc.collect()
    context = make_context()
    start = time.process_time()
    module = parse_text(text, "generated.mlir", context)
    parsed = time.process_time()
    observer = Observer(clock=time.process_time)
    verify_module(module, observer.memory)
    counted = sum(1 for _ in module.walk())
    checked = time.process_time()
    run_passes(module, named_pipeline(pipeline), context, observer)
    done = time.process_time()
    phases = {"operations": float(counted), "parse": parsed - start, "verify": checked - parsed}
    for name, seconds in observer.seconds:
        key = "verify" if name.startswith("verify") else name
        phases[key] = phases.get(key, 0.0) + seconds
    phases["total"] = done - start
    phases["operations after"] = float(sum(1 for _ in module.walk()))
    return phases


def print_table(rows: list[dict[str, float]]) -> None:
    """One column per size; a phase missing from a size counts as 0."""
    names = [n for n in rows[0] if not n.startswith(("operations", "total"))]
    header = [f"{int(row['operations']):>10}" for row in rows]
    print(f"{'CPU seconds':34}" + "".join(header))
    for name in [*names, "total"]:
        print(f"{name:34}" + "".join(f"{row.get(name, 0):10.2f}" for row in rows))
    micro = [f"{1e6 * row['total'] / row['operations']:10.0f}" for row in rows]
    print(f"{'microseconds per operation':34}" + "".join(micro))
    growth = ["         -"] + [
        f"{(b['total'] / a['total']) / (b['operations'] / a['operations']):10.2f}"
        for a, b in itertools.pairwise(rows)
    ]
    print(f"{'growth against linear':34}" + "".join(growth))
    print(f"{'operations after':34}" + "".join(f"{int(r['operations after']):10}" for r in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--sizes", default="1000,2000,5000,10000,20000")
    parser.add_argument("--pipeline", default="atlas")
    parser.add_argument("--profile", action="store_true", help="profile the last size instead")
    arguments = parser.parse_args()
    sizes = [int(n) for n in arguments.sizes.split(",")]
    if arguments.profile:
        with cProfile.Profile() as profile:
            measure(sizes[-1], arguments.pipeline)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return
    measure(200, arguments.pipeline)
    rows = [measure(size, arguments.pipeline) for size in sizes]
    print(
        f"pipeline {arguments.pipeline}, Python {platform.python_version()}, {platform.machine()}"
    )
    print_table(rows)


if __name__ == "__main__":
    main()
