"""Run a module before and after every pass of a pipeline and compare the results.

Results must be equal, bit for bit, with one exception: attention, whose keys a tiling pass may take in
blocks, may move within `rounding_bounds.attention_blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rounding_bounds import attention_blocks
from running import floats

from random_modules import Module
from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.xdsl_api import ModulePass
from tilewright.errors import TilewrightError
from tilewright.extensions import PIPELINES
from tilewright.reference.compare import EXACT, Bound, Comparison, compare
from tilewright.reference.executor import run
from tilewright.transforms.pass_pipeline import option_texts, parse_pipeline, run_passes


class Refused(Exception):
    """A pass said that it cannot lower the module: an answer, not a wrong result."""


@dataclass
class Checked:
    """One pass and how its results compare."""

    name: str
    comparisons: list[Comparison]


def bound_for(steps: int, expected: np.ndarray) -> Bound:
    """How far a result may move: nothing, or the stated bound of attention."""
    if not steps or expected.dtype.kind in "biu":
        return EXACT
    return attention_blocks(floats(expected))


# Ways to lower linalg to launches: the named pipeline, other tiles, short unrolled chains, padding.
TILINGS = (
    "tile-npu-kernel-to-schedule",
    "tile-npu-kernel-to-schedule{tile=16,24,8 unroll-limit=2}",
    "tile-npu-kernel-to-schedule{pad-small=true unroll-limit=3}",
    "tile-npu-kernel-to-schedule{tile=64,32}",
)


def pipeline_with(tiling: str) -> list[str]:
    """The atlas pipeline with another tiling."""
    return [tiling if entry == TILINGS[0] else entry for entry in PIPELINES["atlas"]]


def check_passes(
    module: Module, pipeline: Sequence[str | ModulePass], seed: int = 0, special: bool = False
) -> list[Checked]:
    """Compare results after every pass with those of the source; raises AssertionError."""
    context = make_context()
    ir = parse_text(module.text, "random.mlir", context)
    verify_module(ir)
    inputs = module.inputs(seed, special)
    expected = run(ir, inputs)
    checked: list[Checked] = []
    after = str(ir)
    passes = [parse_pipeline(p) if isinstance(p, str) else [p] for p in pipeline]
    for pass_ in (p for group in passes for p in group):
        before = after
        try:
            run_passes(ir, [pass_], context)
        except TilewrightError as error:
            if error.code.startswith("TW122"):
                raise Refused(str(error)) from None
            raise AssertionError(f"{option_texts(pass_)}: {error}\n{before}") from error
        after = str(ir)
        if after == before:
            continue
        try:
            actual = run(ir, inputs)
        except TilewrightError as error:
            raise AssertionError(
                f"after {option_texts(pass_)}: {error}\n--- before\n{before}\n--- after\n{after}"
            ) from error
        found = [
            compare(a, e, bound_for(s, e))
            for a, e, s in zip(actual, expected, module.steps, strict=True)
        ]
        checked.append(Checked(option_texts(pass_), found))
        for number, comparison in enumerate(found):
            if not comparison.within:
                raise AssertionError(
                    f"{option_texts(pass_)} changed result {number}: {comparison}\n"
                    f"--- before\n{before}\n--- after\n{after}"
                )
    return checked
