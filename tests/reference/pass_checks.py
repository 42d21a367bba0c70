"""Run a module before and after every pass of a pipeline and compare the results.

Results must be equal, bit for bit, with one exception: attention, whose keys a tiling pass may take in
blocks, may move by one step of the result's type or by 2^-40 of the largest result, whichever is
larger. (The running sums are float64: rescaling them costs a few units of 2^-53 relative to the
sum of absolute terms, which one rounding to the result's type turns into at most one step, unless
the terms cancel.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from random_modules import Module
from running import floats

from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.errors import TilewrightError
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
    largest = float(np.max(np.abs(floats(expected)), initial=0.0))
    return Bound(absolute=2.0**-40 * largest, steps=steps)


def check_passes(module: Module, pipeline: Sequence[str], seed: int = 0) -> list[Checked]:
    """Compare results after every pass with those of the source; raises AssertionError."""
    context = make_context()
    ir = parse_text(module.text, "random.mlir", context)
    verify_module(ir)
    inputs = module.inputs(seed)
    expected = run(ir, inputs)
    checked: list[Checked] = []
    after = str(ir)
    for pass_ in (p for entry in pipeline for p in parse_pipeline(entry)):
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
