"""Processor time of compiling models of many different layers, and the schedulers' share of it.

    python benchmarks/compile_time.py [--calls 50,100,200] [--target atlas-v1] [--seed 1]

A model is a chain of calls of torch that no two layers of have the same width, so that nothing
folds and no kernel is generated twice: norms, linear layers, activations, softmax, residuals and
images. Columns: calls, steps of the program, seconds of processor time in all, those
in the list scheduler and in placing overlapped loops, with their shares, and growth against the
size above (1.0 is linear).
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import time
from collections.abc import Callable
from typing import Any

os.environ["TILEWRIGHT_CACHE"] = "off"

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

import tilewright as tw
from tilewright.targets.atlas.codegen import (
    modulo_loop,
    routine,
    shifted_loop,
    straight_loop,
)


def model_of(calls: int, choose: random.Random) -> tuple[nn.Module, Any]:
    """A chain of so many calls, and an input for it."""
    width = first = choose.randrange(40, 200)
    layers: list[nn.Module] = []
    while len(layers) < calls:
        wider = choose.choice([w for w in range(40, 320) if w != width])
        block = [
            nn.LayerNorm(width),
            nn.Linear(width, wider),
            choose.choice((nn.GELU(), nn.SiLU(), nn.ReLU(), nn.Softmax(-1))),
            nn.RMSNorm(wider),
        ]
        layers += block[: calls - len(layers)]
        width = wider if len(layers) < calls or len(block) >= 2 else width
    return nn.Sequential(*layers).eval(), torch.randn(choose.randrange(33, 90), first)


class Stopwatch:
    """Processor time spent in functions that are replaced by timed ones."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        self.seconds[name] = 0.0

        def run(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*given, **named)
            finally:
                self.seconds[name] += time.process_time() - start

        return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", default="50,100,200")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    watch = Stopwatch()
    listed = watch.timed("list", routine.schedule)
    for module in (routine, shifted_loop, straight_loop):
        setattr(module, "schedule", listed)  # noqa: B010
    placing = modulo_loop.Placement
    placing.run = watch.timed("loops", placing.run)
    print(f"{options.target}, Python {platform.python_version()}, {platform.machine()}")
    print(
        "| calls | steps | seconds | list scheduler | share | overlapped loops | share | growth |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    before: tuple[int, float] | None = None
    for calls in map(int, options.calls.split(",")):
        torch.manual_seed(options.seed)
        model, given = model_of(calls, random.Random(options.seed))
        watch.seconds = dict.fromkeys(watch.seconds, 0.0)
        start = time.process_time()
        program = tw.compile(model, (given,), target=options.target)
        seconds = time.process_time() - start
        growth = "-" if before is None else f"{seconds / before[1] / (calls / before[0]):.2f}"
        before = calls, seconds
        listing, loops = watch.seconds["list"], watch.seconds["loops"]
        steps = len(program.model.artifact.steps)
        print(
            f"| {calls} | {steps} | {seconds:.1f} | {listing:.1f} | {listing / seconds:.0%} "
            f"| {loops:.1f} | {loops / seconds:.0%} | {growth} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
