"""Language models from local Hugging Face folders: prefill, generate and head in one program.

program = compile_decoder("SmolLM2-135M", Capacity(prompt=128, slots=(1024,)))
LanguageModel(program.program).generate([1, 2, 3], 20)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.compiling.entries import compile_entries
from tilewright.entry_points import EntryPoints
from tilewright.errors import TilewrightError
from tilewright.frontend.decoder import Capacity, decoder_entries
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.frontend.decoder_folder import read_decoder
from tilewright.frontend.imported import Imported
from tilewright.frontend.samples import Following
from tilewright.garbage import rare_cycle_collection
from tilewright.model.calibrate import main_name
from tilewright.model.options import CompileOptions, Progress
from tilewright.reference.executor import Executor
from tilewright.runtime.llm.alignment import inputs
from tilewright.runtime.llm.contract import Variant, contract_of
from tilewright.targets.compiled_model import CompiledEntries

Arrays = dict[str, np.ndarray]
Sample = Mapping[str, np.ndarray]
TRIES = 8  # of a generate entry point in calibration, at the most
WORK = 1 << 28  # weights that are read for them; two tries are made in any case


def compile_decoder(
    folder: str | Path,
    capacity: Capacity | None = None,
    target: Any = "atlas-v1",
    prompt: Sequence[int] | None = None,
    options: CompileOptions | None = None,
    progress: Progress = lambda phase, detail: None,
    goal: float | None = None,
) -> EntryPoints:
    """The program of a folder with config.json and safetensors files.

    prompt: tokens to take ranges of values from; drawn from the seed of the options if not given.
    goal: the cosine to float32 that every entry point has to reach on them (see `steering`).
    """
    config, weights = read_decoder(folder)
    name = Path(folder).resolve().name
    return compile_weights(config, weights, capacity, target, prompt, options, progress, name, goal)


@rare_cycle_collection()
def compile_weights(
    config: DecoderConfig,
    weights: Mapping[str, np.ndarray],
    capacity: Capacity | None = None,
    target: Any = "atlas-v1",
    prompt: Sequence[int] | None = None,
    options: CompileOptions | None = None,
    progress: Progress = lambda phase, detail: None,
    name: str = "decoder",
    goal: float | None = None,
) -> EntryPoints:
    """The same for a configuration and weights by their published names."""
    capacity, options = capacity or Capacity(), options or CompileOptions()
    models = decoder_entries(config, weights, capacity, name)
    rehearsal = Rehearsal(models, _prompt(prompt, config, capacity, options.seed))
    samples = {name: partial(rehearsal.samples, name) for name in models}
    program, originals = compile_entries(
        models, None, target, samples, options=options, name=name, progress=progress, goal=goal
    )
    return EntryPoints(program, originals=originals)


def originals_of(folder: str | Path, program: CompiledEntries) -> dict[str, Imported]:
    """The entry points of a folder's network in float32, in the shapes of a program of it."""
    config, weights = read_decoder(folder)
    made = contract_of(program)
    prefill, generate = made.prefill[0], made.generate
    slots = tuple(variant.capacity for variant in generate)
    capacity = Capacity(prefill.tokens, slots, generate[0].tokens, prefill.past > 0)
    models = decoder_entries(config, weights, capacity, program.name)
    if set(models) != set(program.entries):
        raise TilewrightError(
            "TW0031", f"the entry points of {program.name} are not those of a folder's network"
        )
    return models


def _prompt(
    given: Sequence[int] | None, config: DecoderConfig, capacity: Capacity, seed: int
) -> list[int]:
    room = max(capacity.slots) - capacity.step
    if given is None:
        count = min(2 * capacity.prompt if capacity.chunked else capacity.prompt, room)
        return np.random.default_rng(seed).integers(0, config.vocabulary, count).tolist()
    if not given or not all(0 <= token < config.vocabulary for token in given):
        raise TilewrightError(
            "TW0049",
            f"tokens to calibrate with are numbers from 0 to {config.vocabulary - 1}",
        )
    return list(given)[:room]


@dataclass
class Rehearsal:
    """A prompt on its way through the entry points, in float32.

    What compiling an entry point has computed anyway (`known`) is not computed again, nor is what
    calibration computes on its way from one sample to the one behind it.
    """

    models: Mapping[str, Imported]
    prompt: Sequence[int]
    found: dict[str, list[Sample]] = field(default_factory=dict)  # samples, by entry point
    ran: dict[str, list[Arrays]] = field(default_factory=dict)  # their results
    rows: dict[str, list[np.ndarray]] = field(default_factory=dict)  # keys and values of prefill

    def samples(self, name: str, known: Mapping[str, list[Arrays]]) -> list[Sample]:
        """The samples of an entry point; known: results of those before."""
        if name not in self.found:
            if name == "prefill":
                self.found[name] = self._prefill()
            elif name == "head":
                self.found[name] = [
                    {"hidden": results["hidden"]}
                    for entry in self.models
                    if entry.startswith("generate")
                    for results in self._results(entry, known)
                ]
            else:
                own = name.startswith("generate")
                self.found[name] = self._generate(name, known) if own else []
        return self.found[name]

    def _results(self, name: str, known: Mapping[str, list[Arrays]]) -> list[Arrays]:
        samples = self.samples(name, known)
        if len(known.get(name, ())) == len(samples):
            return known[name]
        done = self.ran.setdefault(name, [])
        while len(done) < len(samples):
            done.append(_run(self.models[name], samples[len(done)]))
        return done

    def _prefill(self) -> list[Sample]:
        model = self.models["prefill"]
        variant = _variant("prefill", model)
        found: list[Sample] = []
        for first in range(0, min(len(self.prompt), variant.past + 1), variant.tokens):
            part = self.prompt[first : first + variant.tokens]
            if found:  # behind what the chunk before has stored
                names = tuple(found[-1])
                found.append(Following(names, partial(self._behind, variant, part, found[:])))
            else:
                found.append(_sample(variant, model, part, {}))
        return found

    def _behind(
        self,
        variant: Variant,
        part: Sequence[int],
        before: Sequence[Sample],
        results: Arrays | None,
    ) -> Arrays:
        """The sample of a chunk, from the results for the last of those before."""
        model, done = self.models["prefill"], self.ran.setdefault("prefill", [])
        number = len(before) - 1
        if results is None:
            results = done[number] if number < len(done) else _run(model, before[-1])
        if number == len(done):
            done.append(results)
        _keep(self.rows, results, variant.tokens)
        return _sample(variant, model, part, self.rows)

    def _rows(self, known: Mapping[str, list[Arrays]]) -> dict[str, list[np.ndarray]]:
        """Keys and values of all tokens that prefill has seen."""
        rows: dict[str, list[np.ndarray]] = {}
        size = _variant("prefill", self.models["prefill"]).tokens
        for number, results in enumerate(self._results("prefill", known)):
            _keep(rows, results, len(self.prompt[number * size : (number + 1) * size]))
        return rows

    def _generate(self, name: str, known: Mapping[str, list[Arrays]]) -> list[Sample]:
        model, rows = self.models[name], self._rows(known)
        found: list[Sample] = []
        variant = _variant(name, model)
        stored = len(next(iter(rows.values()))) if rows else 0
        last = min(stored - variant.tokens, variant.past)
        for count in _spread(last, sum(array.size for array in model.weights.values())):
            part = self.prompt[count : count + variant.tokens]
            before = {key: held[:count] for key, held in rows.items()}
            found.append(_sample(variant, model, part, before))
        return found or [_sample(variant, model, self.prompt[: variant.tokens], {})]


def _spread(last: int, parameters: int) -> list[int]:
    """Behind how many tokens a generate entry point is tried: all there is room for, the first, and
    as many between them as a model of this size is worth."""
    tries = min(max(WORK // max(parameters, 1), 2), TRIES)
    return sorted({int(count) for count in np.linspace(last, 1, tries)}) if last >= 1 else []


def _variant(name: str, model: Imported) -> Variant:
    shapes = {spec.name: spec.shape for spec in (*model.inputs, *model.outputs)}
    tokens = shapes["ids"][1]
    windows = (int(n.partition(".")[2]) for n in shapes if n.startswith("mask."))
    past = shapes["mask"][2] - tokens
    return Variant(name, tokens, past, shapes["hidden"][1], tuple(windows))


def _sample(
    variant: Variant, model: Imported, tokens: Sequence[int], rows: Mapping[str, Any]
) -> Arrays:
    stored = len(next(iter(rows.values()))) if rows else 0
    sample = inputs(variant, tokens, stored, "f32")
    for spec in model.inputs:
        if spec.name.startswith("past_"):
            array = np.zeros(spec.shape, np.float32)
            held = rows.get(spec.name.removeprefix("past_"), ())
            if len(held):
                array[0, :stored] = np.stack(list(held))
            sample[spec.name] = array
    return sample


def _run(model: Imported, sample: Sample) -> Arrays:
    executor = Executor(model.module, model.weights)
    results = executor.run([sample[spec.name] for spec in model.inputs], main_name(model))
    return dict(zip((spec.name for spec in model.outputs), results, strict=True))


def _keep(rows: dict[str, list[np.ndarray]], results: Arrays, count: int) -> None:
    for name, array in results.items():
        if name != "hidden":
            rows.setdefault(name, []).extend(array[0, array.shape[1] - count :])
