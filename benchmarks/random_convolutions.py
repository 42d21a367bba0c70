"""Random convolutions and poolings as models of one layer: which run on the device, exactly.

    python benchmarks/random_convolutions.py 0 60                 cases of seeds 0 to 59
    python benchmarks/random_convolutions.py 0 60 --vmem 262144   on a machine with so many bytes of VMEM

Channels up to 4,096, windows of 1 to 7, strides, dilation, groups, padding, 1 to 64 pixels a side, two
and three dimensions, one to three images. A line of JSON for every case, then the counts. A case is on
the device if the host does nothing but hand over and take images. Needs torch. The exit code is 1 if a
value was wrong or a case was not compiled.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from zoo_models import library

KINDS = ("conv",) * 6 + ("group", "depthwise", "max", "avg")
MOST_WEIGHTS, MOST_MACS, MOST_PIXELS = 8e6, 6e8, 1.5e6


def _channels(draw: random.Random) -> int:
    ways = draw.randint(1, 64), draw.randint(1, 512), draw.randint(256, 4096)
    return draw.choice([*ways, 32 * draw.randint(1, 128), 2 ** draw.randint(4, 12)])


def _each(draw: random.Random, dims: int, alike: float, of: list[int]) -> tuple[int, ...]:
    """A number for every dimension, often the same."""
    first = draw.choice(of)
    same = draw.random() < alike
    return tuple(first if same else draw.choice(of) for _ in range(dims))


def drawn(seed: int) -> dict[str, Any]:
    """The case of a seed: one that a simulator can do in seconds."""
    draw = random.Random(seed)
    while True:
        dims = 3 if draw.random() < 0.2 else 2
        kind, channels, filters, groups = draw.choice(KINDS), _channels(draw), _channels(draw), 1
        if kind == "group":
            groups = draw.choice([2, 3, 4, 8, 16, 32])
            channels, filters = (groups * max(1, n // groups) for n in (channels, filters))
        if kind == "depthwise":
            groups, filters = channels, channels * draw.choice([1, 1, 1, 2])
        window = _each(draw, dims, 0.7, [1, 1, 2, 3, 3, 3, 4, 5, 7])
        stride = _each(draw, dims, 0.7, [1, 1, 1, 2, 3])
        spread = _each(draw, dims, 0.8, [1, 1, 1, 1, 2, 3, 4, 6, 12])
        spread = (1,) * dims if kind == "avg" else spread
        padding = tuple((k - 1) * d // 2 for k, d in zip(window, spread, strict=True))
        if draw.random() < 0.25:
            padding = tuple(draw.choice([0, n]) for n in padding)
        if kind in ("max", "avg"):
            padding = tuple(min(n, k // 2) for n, k in zip(padding, window, strict=True))
        size = _each(draw, dims, 0.6, [draw.randint(1, 64), draw.randint(1, 16), 7, 8, 14, 16, 28])
        batch = draw.choice([1, 1, 1, 2, 3])
        sizes = zip(size, padding, window, spread, stride, strict=True)
        out = [(n + 2 * p - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in sizes]
        pooled = kind in ("max", "avg")
        filters = channels if pooled else filters
        weights = math.prod(window) * filters * (1 if pooled else channels // groups)
        pixels = batch * math.prod(size) * channels, batch * math.prod(out) * filters
        macs = weights * batch * math.prod(out)
        if min(out) < 1 or weights > MOST_WEIGHTS or macs > MOST_MACS or max(pixels) > MOST_PIXELS:
            continue
        return {
            "seed": seed, "kind": kind, "channels": channels, "filters": filters, "window": window,
            "stride": stride, "dilation": spread, "padding": padding, "groups": groups,
            "size": size, "batch": batch,
        }  # fmt: skip


def _module(case: dict[str, Any]) -> Any:
    nn = library("torch").nn
    dims, window = len(case["window"]), (case["window"], case["stride"], case["padding"])
    if case["kind"] == "max":
        return getattr(nn, f"MaxPool{dims}d")(*window, case["dilation"])
    if case["kind"] == "avg":
        return getattr(nn, f"AvgPool{dims}d")(*window)
    sizes = case["channels"], case["filters"], *window, case["dilation"], case["groups"]
    return getattr(nn, f"Conv{dims}d")(*sizes, bias=case["seed"] % 3 != 0)


def measured(case: dict[str, Any], vmem: int) -> dict[str, Any]:
    """Compile, run and verify a case."""
    from tilewright.compiling.sources import as_imported
    from tilewright.io.content_cache import caching
    from tilewright.program import Program
    from tilewright.targets.atlas.model.compiler import compile_model
    from tilewright.targets.atlas.profile import load_profile

    torch = library("torch")
    torch.manual_seed(case["seed"])
    x = torch.randn((case["batch"], case["channels"], *case["size"]))
    began = time.process_time()
    imported = as_imported(_module(case).eval(), (x,))
    profile = load_profile("atlas-v1")
    with caching("off"):
        compiled = compile_model(imported, replace(profile, vmem_bytes=vmem) if vmem else profile)
    seconds = time.process_time() - began
    found = Program(compiled, original=imported).verify()
    kernels = [step.kernel for step in compiled.artifact.steps]
    wanted = "pool" if case["kind"] in ("max", "avg") else "conv2d"
    points = math.prod(case["window"]) == 1 and wanted == "pool"
    host = compiled.provenance.get("host_share")
    on_device = wanted in kernels or points or "linear" in kernels
    return {
        "exact": found.ok, "device": bool(on_device and found.cycles), "host_share": host,
        "cycles": found.cycles, "compile_seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--vmem", type=int, default=0, help="bytes of VMEM; as atlas-v1 has")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    library("torch").set_num_threads(1)
    device, exact, seeds = 0, 0, range(options.first, options.end)
    for seed in seeds:
        case = drawn(seed)
        row: dict[str, Any] = {}
        try:
            row = measured(case, options.vmem)
        except Exception as error:
            row = {"error": f"{type(error).__name__} {' '.join(str(error).split())[:200]}"}
        device, exact = device + row.get("device", False), exact + row.get("exact", False)
        print(json.dumps(case | row), flush=True)
    print(json.dumps({"cases": len(seeds), "device": device, "exact": exact}))
    return int(exact < len(seeds))


if __name__ == "__main__":
    sys.exit(main())
