"""Folders of large language models, compiled by the command: peak memory and processor time.

    python benchmarks/large_models.py                                  Llama-3.2-1B, 16 layers
    python benchmarks/large_models.py --layers 2 --vocabulary 4096     fewer of the same shapes
    python benchmarks/large_models.py --generate 2                     also generates from the bundle
    python benchmarks/large_models.py --write                          also benchmarks/results/large_models.md

A folder as it is published (config.json, weights in bf16 as safetensors) is written with drawn
weights, then `tilewright compile FOLDER` runs as a process of its own with an empty cache of kernels.
Its peak is the largest resident memory the system has seen of it (pages of mapped files included), its
seconds are processor time of all its threads, its start included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]

from language_models import PROMPT, SHAPES, SLOTS  # noqa: E402
from tilewright.frontend.decoder import weight_names, weight_shape  # noqa: E402
from tilewright.frontend.decoder_config import DecoderConfig  # noqa: E402
from tilewright.io.deferred import Deferred, as_weight  # noqa: E402
from tilewright.io.safetensors_file import save_safetensors  # noqa: E402

HEADS = (
    "model", "layers", "vocabulary", "parameters", "folder MB", "target", "compile s", "wall s",
    "peak MB", "bundle MB", "tokens", "run s", "run peak MB",
)  # fmt: skip


def write_folder(config: DecoderConfig, folder: Path, seed: int = 0) -> int:
    """A published folder of this configuration, tensor by tensor; how many parameters it has."""
    table = {
        "model_type": "llama", "vocab_size": config.vocabulary, "hidden_size": config.width,
        "intermediate_size": config.hidden, "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.groups,
        "head_dim": config.head, "rms_norm_eps": config.epsilon, "rope_theta": config.base,
        "tie_word_embeddings": config.tied, "hidden_act": "silu",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(table))
    bf16 = np.dtype(ml_dtypes.bfloat16)

    def drawn(number: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
        noise = np.random.default_rng((seed, number)).standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            return (1 + np.float32(0.1) * noise).astype(bf16)
        noise *= np.float32(1.0 if "embed" in name else shape[1] ** -0.5)
        return noise.astype(bf16)

    weights = {}
    for number, name in enumerate(weight_names(config)):
        shape = weight_shape(config, name)
        read = lambda number=number, name=name, shape=shape: drawn(number, name, shape)  # noqa: E731
        weights[name] = as_weight(Deferred(shape, bf16, read))
    save_safetensors(folder / "model.safetensors", weights)
    return sum(array.size for array in weights.values())


def child(arguments: list[str], folder: Path) -> dict[str, float]:
    """Processor seconds, seconds and peak megabytes of a command of tilewright."""
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(folder / "cache")}
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "tilewright", *arguments], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tilewright {' '.join(arguments)} failed: {process.returncode}")
    return {
        "seconds": used.ru_utime + used.ru_stime,
        "wall": time.monotonic() - began,
        "peak": used.ru_maxrss / 1024,
    }


def measure(config: DecoderConfig, target: str, tokens: int) -> dict[str, Any]:
    """The figures of one model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        folder.mkdir()
        parameters = write_folder(config, folder)
        size = (folder / "model.safetensors").stat().st_size
        print(f"the folder has {size:,} bytes", file=sys.stderr, flush=True)
        bundle = folder.with_suffix(".twb")
        found: dict[str, Any] = child(
            ["compile", str(folder), "--target", target, "-o", str(bundle),
             "--prompt", str(PROMPT), "--slots", str(SLOTS)],
            Path(name),
        )  # fmt: skip
        found |= {"parameters": parameters, "folder": size, "bundle": bundle.stat().st_size}
        if tokens:
            ran = child(
                ["generate", str(bundle), "--prompt-ids", "5,17,3", "--count", str(tokens)],
                Path(name),
            )
            found |= {"tokens": tokens, "run": ran}
    return found


def row(name: str, config: DecoderConfig, target: str, found: dict[str, Any]) -> tuple[str, ...]:
    ran = found.get("run")
    shown = Path(target).stem
    return (
        name, str(config.layers), f"{config.vocabulary:,}", f"{found['parameters']:,}",
        f"{found['folder'] / 1e6:,.0f}", shown, f"{found['seconds']:.0f}", f"{found['wall']:.0f}",
        f"{found['peak']:,.0f}", f"{found['bundle'] / 1e6:,.1f}",
        *((str(found["tokens"]), f"{ran['seconds']:.0f}", f"{ran['peak']:,.0f}") if ran
          else ("-", "-", "-")),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="Llama", help="a part of the names of models (Llama)")
    parser.add_argument("--layers", type=int, help="fewer layers of the same shapes")
    parser.add_argument("--vocabulary", type=int, help="a smaller vocabulary")
    parser.add_argument("--target", default="atlas-v1", help="a machine, or a file of a profile")
    parser.add_argument("--generate", type=int, default=0, help="tokens to generate (none)")
    parser.add_argument("--limit", type=float, default=3000, help="megabytes at most (3000)")
    parser.add_argument("--write", action="store_true", help="add to the table in results")
    given = parser.parse_args()
    rows, within = [], True
    for name, config in SHAPES.items():
        if given.only not in name:
            continue
        config = replace(
            config,
            layers=given.layers or config.layers,
            vocabulary=given.vocabulary or config.vocabulary,
        )
        found = measure(config, given.target, given.generate)
        within = within and found["peak"] <= given.limit
        rows.append(row(name, config, given.target, found))
    if not rows:
        parser.error(f"no model has {given.only!r} in its name")
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADS, ("---",) * len(HEADS), *rows)]
    print("\n".join(lines))
    if given.write:
        path = ROOT / "benchmarks/results/large_models.md"
        start = path.read_text(encoding="utf-8") if path.is_file() else "# Large models\n"
        command = " ".join(["python", "benchmarks/large_models.py", *sys.argv[1:]])
        path.write_text(
            f"{start}\n`{command}`, {date.today()}\n\n" + "\n".join(lines) + "\n", encoding="utf-8"
        )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
