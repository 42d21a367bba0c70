"""SmolVLA from images, language and state to 50 actions, compiled, run, verified and reported.

    python examples/smolvla.py --out out                          one camera, ten steps, seeded weights
    python examples/smolvla.py --out out --cameras 3 --report
    python examples/smolvla.py --out out --checkpoint FOLDER      published weights (safetensors)
    python examples/smolvla.py --out out --small --layers 2 --steps 2

Three entry points share one bundle: `vision` runs once per camera, `prefix` once, `denoise` once per step.
Keys and values of the prefix, and the actions, are state: they stay between calls. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

import tilewright as tw
from smolvla_checkpoint import load_checkpoint
from smolvla_model import Sizes, SmolVLA, seeded

SMALL = Sizes(
    vision_layers=1, layers=2, image=128, vision=128, vision_hidden=256, text=128, text_hidden=192,
    expert=128, expert_hidden=160, heads=2, groups=1, vocabulary=512,
)  # fmt: skip


def inputs(model: SmolVLA, cameras: int, seed: int) -> dict[str, Any]:
    """What a robot would give: images, language tokens of which 40 are valid, its state; and noise."""
    sizes, generator = model.sizes, torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    valid = torch.ones(1, sizes.language, dtype=torch.bool)
    valid[:, 40:] = False
    tokens = torch.randint(0, sizes.vocabulary, (1, sizes.language), generator=generator)
    return {
        "images": [drawn(1, 3, sizes.image, sizes.image) for _ in range(cameras)],
        "tokens": tokens,
        "token_valid": valid,
        "state": drawn(1, sizes.actions),
        "noise": drawn(1, sizes.chunk, sizes.actions),
    }


@dataclass(frozen=True)
class FloatRun:
    """One pass in float32: what every entry point is given first, and the actions in the end."""

    examples: dict[str, tuple[Any, ...]]
    actions: torch.Tensor


@torch.no_grad()
def float_run(model: SmolVLA, given: dict[str, Any], steps: int) -> FloatRun:
    """The network in float32: ranges of values come from it, and it is what is compared with."""
    seen = [model.vision(image) for image in given["images"]]
    language = (given["tokens"], given["token_valid"], given["state"])
    keys, values = model.prefix(seen, *language)
    length = torch.full((1, 1, 1), 1.0 / steps)
    first = (
        given["noise"],
        model.time_embedding(1.0),
        length,
        given["token_valid"],
        keys,
        values,
    )
    examples = {
        "vision": (given["images"][0],),
        "prefix": (seen, *language),
        "denoise": first,
    }
    actions = model.denoised(given["noise"], given["token_valid"], keys, values, steps)
    return FloatRun(examples, actions)


def compile_policy(
    model: SmolVLA,
    examples: dict[str, tuple[Any, ...]],
    target: str,
    keep: tuple[str, ...] = (),
) -> tw.EntryPoints:
    """The program; ranges of values come from one pass in float32."""
    state = {"actions": ["denoise.actions", "denoise.output"]}
    for number in range(model.sizes.layers):
        state[f"keys_{number}"] = [f"prefix.output_0_{number}", f"denoise.keys_{number}"]
        state[f"values_{number}"] = [f"prefix.output_1_{number}", f"denoise.values_{number}"]
    entries = {"vision": model.vision, "prefix": model.prefix, "denoise": model.denoise}
    return tw.compile(entries, examples, target, state=state, keep=keep, progress=told)


def told(phase: str, detail: str) -> None:
    """What is being done, with the processor time so far; a large network takes minutes."""
    print(f"{time.process_time():8.1f} s  {phase}  {detail}", file=sys.stderr, flush=True)


def act(
    program: tw.EntryPoints, model: SmolVLA, given: dict[str, Any], steps: int
) -> tuple[np.ndarray, dict[str, int]]:
    """Actions by the compiled program, and the cycles of every part."""
    cycles: dict[str, int] = dict.fromkeys(program, 0)
    seen = []
    for image in given["images"]:
        seen.append(program.vision(image))
        cycles["vision"] += program["vision"].session.cycles
    named = {f"images_{number}": tokens for number, tokens in enumerate(seen)}
    rest = {name: given[name] for name in ("tokens", "token_valid", "state")}
    program["prefix"](**named, **rest)
    cycles["prefix"] = program["prefix"].session.cycles
    program.state["actions"] = given["noise"].numpy()
    for number in range(steps):
        program["denoise"](
            time=model.time_embedding(1.0 - number / steps),
            step=torch.full((1, 1, 1), 1.0 / steps),
            token_valid=given["token_valid"],
        )
        cycles["denoise"] += program["denoise"].session.cycles
    return program.state["actions"], cycles


@torch.no_grad()
def run_alone(
    model: SmolVLA, entry: str, given: dict[str, Any], options: argparse.Namespace
) -> tuple[dict[str, Any], tw.Program]:
    """One entry point as a program of its own: its figures, and the program."""
    began = time.process_time()
    example = float_run(model, given, options.steps).examples[entry]
    in_float = time.process_time() - began
    method = getattr(model, entry)
    began = time.process_time()
    program = tw.compile(method, example, options.target, keep=tuple(options.keep), progress=told)
    bundle = options.out / f"{entry}.twb"
    program.save(bundle)
    compiled = time.process_time() - began
    told("run", "")
    began = time.process_time()
    results = program(*_flat(example))
    ran = time.process_time() - began
    numbers = [np.ravel(a) for a in (results if isinstance(results, tuple) else (results,))]
    exact = [tensor.numpy().ravel() for tensor in _flat(method(*example))]
    bound = program.model.artifact.bound()
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "cosine": cosine(np.concatenate(numbers), np.concatenate(exact)),
        "cycles": {entry: program.cycles, "total": program.cycles},
        "bound": bound.cycles if bound else None,
        "ratio": program.cycles / bound.cycles if bound else None,
        "host_share": {entry: program.model.provenance["host_share"]},
        "float_seconds": in_float,
        "compile_seconds": compiled,
        "run_seconds": ran,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "bundle_bytes": bundle.stat().st_size,
    }, program


def run_policy(
    model: SmolVLA, example: dict[str, Any], given: argparse.Namespace
) -> tuple[dict[str, Any], tw.EntryPoints]:
    """All of it, from images to actions: its figures, and the program."""
    began = time.process_time()
    exact = float_run(model, example, given.steps)
    in_float = time.process_time() - began
    began = time.process_time()
    program = compile_policy(model, exact.examples, given.target, tuple(given.keep))
    bundle = given.out / "smolvla.twb"
    program.save(bundle)
    compiled = time.process_time() - began
    told("run", "")
    began = time.process_time()
    actions, cycles = act(program, model, example, given.steps)
    ran = time.process_time() - began
    np.save(given.out / "actions.npy", actions)
    times = {"vision": given.cameras, "prefix": 1, "denoise": given.steps}
    bounds = {n: program.program.entries[n].artifact.bound() for n in program}
    bound = sum(times[n] * (b.cycles if b else 0) for n, b in bounds.items())
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "cameras": given.cameras,
        "steps": given.steps,
        "cosine": cosine(actions, exact.actions.numpy()),
        "cycles": {**cycles, "total": sum(cycles.values())},
        "bound": bound,
        "ratio": sum(cycles.values()) / bound if bound else None,
        "host_share": {n: m.provenance["host_share"] for n, m in program.program.entries.items()},
        "float_seconds": in_float,
        "compile_seconds": compiled,
        "run_seconds": ran,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "bundle_bytes": bundle.stat().st_size,
        "weight_bytes": weight_bytes(model),
    }, program


def weight_bytes(model: SmolVLA) -> int:
    """Bytes of all weights in the formats they are used in: fp8, a table of rows as it is."""
    return sum(p.numel() * (2 if p.dtype == torch.bfloat16 else 1) for p in model.parameters())


def _flat(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    return [tensor for value in values for tensor in _flat(value)]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder for the bundle and the reports"
    )
    parser.add_argument("--cameras", type=int, choices=(1, 2, 3), default=1)
    parser.add_argument("--steps", type=int, default=10, help="Euler steps (default 10)")
    parser.add_argument("--layers", type=int, help="layers of text model and expert")
    parser.add_argument("--vision-layers", type=int, help="layers of the vision tower")
    parser.add_argument(
        "--small", action="store_true", help="a small network of the same form, for a try"
    )
    parser.add_argument("--checkpoint", type=Path, help="folder with published weights")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument(
        "--keep", action="append", default=[], help="layers to keep as precise as bf16"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--entry", choices=("vision", "prefix", "denoise"), help="only this one, by itself"
    )
    parser.add_argument("--no-verify", action="store_true", help="only compile and run")
    parser.add_argument(
        "--report", action="store_true", help="also write a page for every entry point"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    given = parser.parse_args(arguments)
    if given.steps < 1 or (given.layers or 2) < 2:
        parser.error("there are at least one step and two layers")
    warnings.simplefilter("ignore", FutureWarning)  # of torch.export
    sizes = SMALL if given.small else Sizes()
    sizes = replace(
        sizes,
        layers=given.layers or sizes.layers,
        vision_layers=given.vision_layers or sizes.vision_layers,
    )
    model = SmolVLA(sizes)
    model = (
        load_checkpoint(model, given.checkpoint) if given.checkpoint else seeded(model, given.seed)
    )
    example = inputs(model, given.cameras, given.seed + 1)
    given.out.mkdir(parents=True, exist_ok=True)

    if given.entry:
        figures, program = run_alone(model, given.entry, example, given)
    else:
        figures, program = run_policy(model, example, given)
    (given.out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    verified = True
    if not given.no_verify:
        told("verify", "")
        began = time.process_time()
        found = program.verify() if given.entry else program.verify(originals={})
        verified = figures["verified"] = found.ok
        figures["verify_seconds"] = time.process_time() - began
        told("verified" if found.ok else "not verified", "")
    if given.report:
        program.report(given.out)
    if given.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<16} {value}")
    return 0 if verified else 1


if __name__ == "__main__":
    sys.exit(main())
