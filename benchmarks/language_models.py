"""Language models of published shapes with drawn weights: cycles against the bound, tokens, compiling.

    python benchmarks/language_models.py --only SmolLM2              30 layers, 64 tokens
    python benchmarks/language_models.py --only Llama --layers 2     fewer layers of the same shapes
    python benchmarks/language_models.py --write                     also benchmarks/results/language_models.md

A prompt of 128 tokens goes through `prefill`, then tokens one by one through `generate` with 1024
slots. Every token and all its logits are compared, bit for bit, with the same quantised model
computed by the references in numpy. The table of embeddings is bf16, as it is published; what a bundle
must hold are its two bytes per number and one for every other weight. Seconds are processor time; matrix products of calibration run
on one thread, since waiting threads would count as well.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded

import argparse
import json
import resource
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.compiling.decoders import compile_weights
from tilewright.frontend.decoder import Capacity, drawn_weights
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.runtime.llm.session import LanguageModel

ROOT = Path(__file__).resolve().parents[1]
SHAPES = {
    "SmolLM2-135M": DecoderConfig("llama", 49152, 576, 1536, 30, 9, 3, 64, base=100000.0),
    "Llama-3.2-1B": DecoderConfig("llama", 128256, 2048, 8192, 16, 32, 8, 64, base=500000.0),
}
PROMPT, SLOTS = 128, 1024
HEADS = (
    "model", "layers", "vocabulary", "parameters", "prefill cycles", "x bound", "decode cycles",
    "x bound", "x bytes", "head cycles", "x bound", "tokens equal", "compile s", "run s", "peak MB",
    "bundle MB", "x held",
)  # fmt: skip


def told(phase: str, detail: str) -> None:
    print(f"{time.process_time():8.1f} s  {phase}  {detail}", file=sys.stderr, flush=True)


def measure(config: DecoderConfig, count: int, target: str) -> dict[str, Any]:
    """The figures of one model."""
    weights = drawn_weights(config)
    table = "model.embed_tokens.weight"
    weights[table] = weights[table].astype(ml_dtypes.bfloat16)
    began = time.process_time()
    program = compile_weights(config, weights, Capacity(PROMPT, (SLOTS,)), target, progress=told)
    compiled = time.process_time() - began
    parameters = sum(array.size for array in weights.values())
    held = parameters + weights[table].size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    del weights
    with tempfile.TemporaryDirectory() as folder:
        program.save(Path(folder) / "program.twb")
        saved = (Path(folder) / "program.twb").stat().st_size
    told("bundle", f"{saved:,} bytes, must hold {held:,}")
    prompt = np.random.default_rng(1).integers(0, config.vocabulary, PROMPT - 3).tolist()
    began = time.process_time()
    model = LanguageModel(program.program)
    found, cycles = [], {}
    bounds = {n: m.artifact.bound() for n, m in program.program.entries.items()}
    told("bounds", ", ".join(f"{n} {b.cycles:,}" for n, b in bounds.items() if b is not None))
    for token in model.stream(prompt, count):
        told("token", f"{token.position}: {token.token}, {token.cycles:,} cycles")
        found.append((token.token, token.logits))
        cycles |= {name: s.cycles for name, s in model.sessions.items() if s.cycles}
    ran = time.process_time() - began
    wanted = LanguageModel(program.program, referenced=True)
    equal = 0
    for (token, logits), other in zip(found, wanted.stream(prompt, count), strict=True):
        same = token == other.token and np.array_equal(logits, other.logits)
        equal += same
        told("reference", f"{other.position}: {'equal' if same else f'{other.token}, not {token}'}")
    return {
        "parameters": parameters,
        "cycles": cycles,
        "bounds": {name: b.cycles for name, b in bounds.items() if b is not None},
        "decode_bytes": bounds["generate"].terms.get("DMA") if bounds["generate"] else None,
        "tokens": count,
        "equal": equal,
        "compile_seconds": compiled,
        "run_seconds": ran,
        "peak_megabytes": peak,
        "bundle_bytes": saved,
        "held_bytes": held,
    }


def row(name: str, config: DecoderConfig, found: dict[str, Any]) -> tuple[str, ...]:
    cycles, bounds = found["cycles"], found["bounds"]

    def both(entry: str) -> tuple[str, str]:
        ran = cycles.get(entry)
        return (f"{ran:,}", f"{ran / bounds[entry]:.3f}") if ran else ("-", "-")

    read = found["decode_bytes"]
    bytes_ratio = f"{cycles['generate'] / read:.3f}" if read and "generate" in cycles else "-"
    return (
        name, str(config.layers), f"{config.vocabulary:,}", f"{found['parameters']:,}",
        *both("prefill"), *both("generate"), bytes_ratio, *both("head"),
        f"{found['equal']} of {found['tokens']}", f"{found['compile_seconds']:.0f}",
        f"{found['run_seconds']:.1f}", f"{found['peak_megabytes']:,}",
        f"{found['bundle_bytes'] / 1e6:.1f}", f"{found['bundle_bytes'] / found['held_bytes']:.3f}",
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a part of the names of models")
    parser.add_argument("--layers", type=int, help="fewer layers of the same shapes")
    parser.add_argument("--vocabulary", type=int, help="a smaller vocabulary")
    parser.add_argument("--tokens", type=int, default=64, help="how many to generate (64)")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--write", action="store_true", help="add to the table in results")
    given = parser.parse_args()
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    rows, equal = [], True
    for name, config in SHAPES.items():
        if given.only not in name:
            continue
        config = replace(
            config,
            layers=given.layers or config.layers,
            vocabulary=given.vocabulary or config.vocabulary,
        )
        found = measure(config, given.tokens, given.target)
        equal = equal and found["equal"] == found["tokens"]
        print(json.dumps({name: found}), flush=True)
        rows.append(row(name, config, found))
    if not rows:
        parser.error(f"no model has {given.only!r} in its name")
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADS, ("---",) * len(HEADS), *rows)]
    print("\n".join(lines))
    if given.write:
        write(rows, " ".join(["python", "benchmarks/language_models.py", *sys.argv[1:]]))
    return 0 if equal else 1


def write(rows: list[tuple[str, ...]], command: str) -> None:
    """Add a run to the table, under what made it."""
    path = ROOT / "benchmarks/results/language_models.md"
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADS, ("---",) * len(HEADS), *rows)]
    start = path.read_text(encoding="utf-8") if path.is_file() else "# Language models\n"
    path.write_text(
        f"{start}\n`{command}`, {date.today()}\n\n" + "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(main())
