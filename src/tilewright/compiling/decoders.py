"""Language models from local Hugging Face folders: prefill, generate and head in one program.

program = compile_decoder("SmolLM2-135M", Capacity(prompt=128, slots=(1024,)))
LanguageModel(program.program).generate([1, 2, 3], 20)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from tilewright.model.calibrate import main_name
from tilewright.model.options import CompileOptions, Progress
from tilewright.reference.executor import Executor
from tilewright.runtime.llm.alignment import inputs
from tilewright.runtime.llm.contract import Variant

Arrays = dict[str, np.ndarray]


def compile_decoder(
    folder: str | Path,
    capacity: Capacity | None = None,
    target: Any = "atlas-v1",
    prompt: Sequence[int] | None = None,
    options: CompileOptions | None = None,
    progress: Progress = lambda phase, detail: None,
) -> EntryPoints:
    """The program of a folder with config.json and safetensors files.

    prompt: tokens to take ranges of values from; drawn from the seed of the options if not given.
    """
    config, weights = read_decoder(folder)
    name = Path(folder).resolve().name
    return compile_weights(config, weights, capacity, target, prompt, options, progress, name)


def compile_weights(
    config: DecoderConfig,
    weights: Mapping[str, np.ndarray],
    capacity: Capacity | None = None,
    target: Any = "atlas-v1",
    prompt: Sequence[int] | None = None,
    options: CompileOptions | None = None,
    progress: Progress = lambda phase, detail: None,
    name: str = "decoder",
) -> EntryPoints:
    """The same for a configuration and weights by their published names."""
    capacity, options = capacity or Capacity(), options or CompileOptions()
    models = decoder_entries(config, weights, capacity, name)
    progress("calibrate", "float32 of the prompt")
    samples = decoder_samples(models, config, _prompt(prompt, config, capacity, options.seed))
    program, originals = compile_entries(
        models, None, target, samples, options=options, name=name, progress=progress
    )
    return EntryPoints(program, originals=originals)


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


def decoder_samples(
    models: Mapping[str, Imported], config: DecoderConfig, prompt: Sequence[int]
) -> dict[str, list[Arrays]]:
    """What every entry point meets when a prompt goes through the model in float32."""
    found: dict[str, list[Arrays]] = {name: [] for name in models}
    rows: dict[str, list[np.ndarray]] = {}
    prefill = models["prefill"]
    variant = _variant("prefill", prefill)
    for first in range(0, len(prompt), variant.tokens):
        if first > variant.past:
            break
        part = prompt[first : first + variant.tokens]
        sample = _sample(variant, prefill, part, rows)
        results = _run(prefill, sample)
        found["prefill"].append(sample)
        _keep(rows, results, len(part))
    stored = len(next(iter(rows.values()))) if rows else 0
    hidden = []
    for name, model in models.items():
        if not name.startswith("generate"):
            continue
        variant = _variant(name, model)
        # Behind as much of the prompt as there is room for, and behind its beginning.
        for count in sorted({min(stored - variant.tokens, variant.past), 1}):
            if not 1 <= count <= stored - variant.tokens:
                continue
            part = prompt[count : count + variant.tokens]
            before = {key: held[:count] for key, held in rows.items()}
            sample = _sample(variant, model, part, before)
            found[name].append(sample)
            hidden.append(_run(model, sample)["hidden"])
        if not found[name]:
            sample = _sample(variant, model, prompt[: variant.tokens], {})
            found[name].append(sample)
            hidden.append(_run(model, sample)["hidden"])
    found["head"] = [{"hidden": one} for one in hidden]
    return found


def _variant(name: str, model: Imported) -> Variant:
    shapes = {spec.name: spec.shape for spec in (*model.inputs, *model.outputs)}
    tokens = shapes["ids"][1]
    return Variant(name, tokens, shapes["mask"][2] - tokens, shapes["hidden"][1])


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


def _run(model: Imported, sample: Arrays) -> Arrays:
    executor = Executor(model.module, model.weights)
    results = executor.run([sample[spec.name] for spec in model.inputs], main_name(model))
    return dict(zip((spec.name for spec in model.outputs), results, strict=True))


def _keep(rows: dict[str, list[np.ndarray]], results: Arrays, count: int) -> None:
    for name, array in results.items():
        if name != "hidden":
            rows.setdefault(name, []).extend(array[0, array.shape[1] - count :])
