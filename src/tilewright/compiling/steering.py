"""As precise as asked for, at the least cost: which layers to keep, found by measuring.

A layer that is kept computes its products as precisely as bf16, at two to three times the work. Each
group of layers (the same layer of all blocks) is kept by itself, and the outputs are compared with
float32: that is how sensitive the model is to it. Groups are then taken together, those with the most
gain per cycle first, until the outputs are close enough, and what turns out not to be needed is left
out again. At last, sets that cost less and whose gains add up to enough are tried, the cheapest first.
Every figure is of a program that was compiled and run.

Error codes: TW0066 a goal that is no cosine, or for which nothing can be kept; TW0067 a goal that
keeping every layer does not reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import main_name
from tilewright.model.options import CompileOptions, Progress
from tilewright.reference.dtypes import FLOATS
from tilewright.reference.executor import Executor
from tilewright.runtime.session import Session
from tilewright.runtime.verification import accuracy
from tilewright.targets.compiled_model import CompiledModel

MOST = 10  # groups of which all sets are looked at
TRIES = 4  # sets that are measured because of what their groups promise
SLACK = 0.1  # of what is missing: groups together may give more than the sum of each
CANNOT = "TW1709"  # this layer cannot be kept
Arrays = Mapping[str, np.ndarray]
Compile = Callable[[CompileOptions], CompiledModel[Any]]


@dataclass(frozen=True)
class Choice:
    """What keeping some groups of layers gives.

    cosine: of the output that is furthest from float32, over all samples.
    """

    keep: tuple[str, ...]  # groups, numbers of layers as *
    cosine: float
    cycles: int

    def to_json(self) -> dict[str, Any]:
        return {"keep": list(self.keep), "cosine": self.cosine, "cycles": self.cycles}


def check_goal(goal: float) -> None:
    if not -1 <= goal < 1:
        raise TilewrightError(
            "TW0066", f"{goal:g} is no cosine to reach", hint="such as 0.995; 1 is float32 itself"
        )


def steered(
    imported: Imported,
    options: CompileOptions,
    samples: Sequence[Arrays],
    goal: float,
    compiled_with: Compile,
    layers: Sequence[str],
    progress: Progress = lambda phase, detail: None,
) -> CompiledModel[Any]:
    """The cheapest program found whose outputs are as close to float32 as asked for.

    layers: names of all layers. samples: what outputs are compared on. The choices that were measured
    are in the provenance, as `accuracy_goal`.
    """
    check_goal(goal)
    return _Search(imported, options, samples, goal, compiled_with, layers, progress).run()


class _Search:
    def __init__(
        self,
        imported: Imported,
        options: CompileOptions,
        samples: Sequence[Arrays],
        goal: float,
        compiled_with: Compile,
        layers: Sequence[str],
        progress: Progress,
    ) -> None:
        self.imported, self.options, self.goal = imported, options, goal
        self.samples, self.compiled_with, self.progress = samples, compiled_with, progress
        self.groups: dict[str, list[str]] = {}
        for layer in layers:
            self.groups.setdefault(pattern(layer), []).append(layer)
        self.wanted = [_outputs(imported, sample) for sample in samples]
        self.tried: dict[frozenset[str], tuple[Choice, CompiledModel[Any]]] = {}

    def run(self) -> CompiledModel[Any]:
        plain = self.measured(())
        if plain.cosine >= self.goal:
            return self.noted(plain)
        single = self._each_alone(plain)
        if not single:
            raise TilewrightError(
                "TW0066",
                f"outputs have a cosine of {plain.cosine:.5f} to float32, and none of the model's "
                "layers can be kept more precise",
                Location(self.imported.source),
                "have the host compute layers (--host LAYER), or calibrate with real inputs",
            )
        chosen = self._without_needless(self._enough(plain, single))
        return self.noted(self._cheaper(plain, single, chosen))

    def _each_alone(self, plain: Choice) -> list[Choice]:
        """Every group that can be kept, kept by itself; most gain per cycle first."""
        _, model = self.tried[frozenset()]
        found = []
        for group in _candidates(model, self.groups):
            try:
                found.append(self.measured((group,)))
            except TilewrightError as error:
                if error.code != CANNOT:
                    raise

        def worth(choice: Choice) -> float:
            gain = choice.cosine - plain.cosine
            return gain / max(1, choice.cycles - plain.cycles) if gain > 0 else gain

        return sorted(found, key=lambda choice: (-worth(choice), choice.cycles, choice.keep))

    def _enough(self, plain: Choice, single: list[Choice]) -> Choice:
        """Groups together, until they reach the goal."""
        reached = [choice for choice in single if choice.cosine >= self.goal]
        together = plain
        for choice in single:
            together = self.measured((*together.keep, *choice.keep))
            if together.cosine >= self.goal:
                return min([together, *reached], key=lambda one: (one.cycles, -one.cosine))
        if reached:
            return min(reached, key=lambda one: (one.cycles, -one.cosine))
        best = max((choice for choice, _ in self.tried.values()), key=lambda one: one.cosine)
        raise TilewrightError(
            "TW0067",
            f"a cosine of {self.goal:g} is not reached: keeping {', '.join(best.keep) or 'nothing'} "
            f"gives {best.cosine:.5f} in {best.cycles:,} cycles, {plain.cosine:.5f} in "
            f"{plain.cycles:,} without",
            Location(self.imported.source),
            "have the host compute layers (--host LAYER), or calibrate with real inputs",
        )

    def _without_needless(self, chosen: Choice) -> Choice:
        """The choice without groups that it reaches the goal without; the most expensive first."""

        def cost(group: str) -> int:
            return self.measured((group,)).cycles

        for group in sorted(chosen.keep, key=cost, reverse=True):
            rest = tuple(one for one in chosen.keep if one != group)
            less = self.measured(rest)
            if less.cosine >= self.goal and less.cycles < chosen.cycles:
                chosen = less
        return chosen

    def _cheaper(self, plain: Choice, single: list[Choice], chosen: Choice) -> Choice:
        """A set that costs less than the chosen one and reaches the goal too, if one is found: gains
        and costs of groups nearly add up, so that few sets have to be measured."""
        useful = [one for one in single if one.cosine > plain.cosine][:MOST]
        wanted = (1 - SLACK) * (self.goal - plain.cosine)
        promising: list[tuple[int, tuple[str, ...]]] = []
        for count in range(1, len(useful) + 1):
            for those in combinations(useful, count):
                cost = sum(one.cycles - plain.cycles for one in those)
                keep = tuple(group for one in those for group in one.keep)
                gain = sum(one.cosine - plain.cosine for one in those)
                if gain >= wanted and plain.cycles + cost < chosen.cycles:
                    promising.append((cost, keep))
        for _, keep in sorted(promising)[:TRIES]:
            choice = self.measured(keep)
            if choice.cosine >= self.goal and choice.cycles < chosen.cycles:
                return choice
        return chosen

    def measured(self, keep: tuple[str, ...]) -> Choice:
        """Cosine and cycles of the program that keeps these groups."""
        key = frozenset(keep)
        if key not in self.tried:
            shown = ", ".join(keep) or "as usual"
            self.progress("steer", f"compile, {shown}")
            names = tuple(layer for group in keep for layer in self.groups[group])
            options = replace(self.options, keep=(*self.options.keep, *names))
            model = self.compiled_with(options)
            self.progress("steer", f"run, {shown}")
            self.tried[key] = (Choice(keep, *self._ran(model)), model)
        return self.tried[key][0]

    def _ran(self, model: CompiledModel[Any]) -> tuple[float, int]:
        session, worst = Session(model), 1.0
        for sample, wanted in zip(self.samples, self.wanted, strict=True):
            session.reset_state()
            found = session.run(dict(sample))
            for name, array in wanted.items():
                cosine = accuracy(found[name], array).cosine
                worst = min(worst, cosine if np.isfinite(cosine) else -1.0)
        return worst, session.cycles

    def noted(self, chosen: Choice) -> CompiledModel[Any]:
        """The program of a choice, with all that was measured on the way."""
        model = self.tried[frozenset(chosen.keep)][1]
        rows = sorted((row for row, _ in self.tried.values()), key=lambda row: row.cycles)
        model.provenance["accuracy_goal"] = {
            "goal": self.goal,
            "chosen": chosen.to_json(),
            "choices": [row.to_json() for row in rows],
        }
        return model


def pattern(layer: str) -> str:
    """The group of a layer: its name with numbers as *.  blocks.3.fc1 -> blocks.*.fc1"""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", layer)


def _candidates(model: CompiledModel[Any], groups: Mapping[str, list[str]]) -> list[str]:
    """Groups of layers with products on the device; whether they can be kept, lowering knows."""
    found: dict[str, None] = {}
    for step in model.artifact.steps:
        for source in step.sources:
            layer, _, family = source.rpartition(": ")
            if family == "matmul" and pattern(layer) in groups:
                found[pattern(layer)] = None
    return list(found)


def _outputs(imported: Imported, sample: Arrays) -> dict[str, np.ndarray]:
    """The model's outputs in its own types; those that are no numbers of a kind with angles left out."""
    executor = Executor(imported.module, imported.weights)
    results = executor.run([sample[spec.name] for spec in imported.inputs], main_name(imported))
    return {
        spec.name: np.asarray(array, np.float32)
        for spec, array in zip(imported.outputs, results, strict=True)
        if spec.dtype in FLOATS
    }
