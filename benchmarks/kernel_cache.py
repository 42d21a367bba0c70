"""Compiling twice: a network, then the same network with other weights, with the cache of kernels.

    python benchmarks/kernel_cache.py                      blocks and networks of the examples
    python benchmarks/kernel_cache.py --only SmolLM2       the pair of prefill and generate, 30 layers
    python benchmarks/kernel_cache.py --only SmolLM2 --layers 2
    python benchmarks/kernel_cache.py --write              also benchmarks/results/kernel_cache.md

The cache is a new folder. Both sets of weights are drawn, from different seeds. With --check the
second program is compiled a third time without a cache, and both have to be equal byte for byte.
Seconds are processor time; matrix products of calibration run on one thread, since waiting threads
would count as well.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from examples import networks  # noqa: E402
from language_models import PROMPT, SHAPES, SLOTS  # noqa: E402
from tilewright.compiling import compile_imported  # noqa: E402
from tilewright.compiling.decoders import compile_weights  # noqa: E402
from tilewright.frontend.decoder import Capacity, drawn_weights  # noqa: E402
from tilewright.frontend.imported import Imported  # noqa: E402
from tilewright.io.content_cache import ContentCache, caching  # noqa: E402
from tilewright.program import Program  # noqa: E402

HEADS = ("network", "first s", "second s", "share", "entries", "KB", "equal to fresh", "peak MB")
Saved = Callable[[Path], Any]
SHAPED: dict[str, Callable[[], Imported]] = {
    "decoder block 241x960": networks.decoder,
    "SigLIP block 1024x768": networks.siglip,
    "BERT layer 128x768": networks.bert,
    "CNN 64x64": lambda: networks.cnn(64, 64),
}


def with_weights(model: Imported, seed: int) -> Imported:
    """The network with weights of the same ranges, drawn anew."""
    generator = np.random.default_rng(seed)

    def drawn(array: Any) -> np.ndarray:
        array = np.asarray(array)
        return generator.permutation(array.reshape(-1)).reshape(array.shape)

    return replace(model, weights={name: drawn(array) for name, array in model.weights.items()})


def network(make: Callable[[], Imported], seed: int) -> Saved:
    model = with_weights(make(), seed)
    return lambda path: Program(compile_imported(model)).save(path)


def language_model(name: str, layers: int | None, seed: int) -> Saved:
    config = SHAPES[name]
    config = replace(config, layers=layers or config.layers)
    weights = drawn_weights(config, seed)
    capacity = Capacity(PROMPT, (SLOTS,))
    return lambda path: compile_weights(config, weights, capacity, progress=told).save(path)


def told(phase: str, detail: str) -> None:
    if ": " not in detail or "known" in detail:
        print(f"{time.process_time():8.1f} s  {phase}  {detail}", file=sys.stderr, flush=True)


def measure(make: Callable[[int], Saved], check: bool) -> tuple[str, ...]:
    """Seconds of both compiles, from weights to a bundle on disk, and what the cache holds."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, path, cache = [], Path(folder) / "program.twb", Path(folder) / "cache"
        content = b""
        for seed in (1, 2):
            compiled = make(seed)
            began = time.process_time()
            with caching(cache):
                compiled(path)
            seconds.append(time.process_time() - began)
            content = path.read_bytes()
            gc.collect()
        same = "-"
        if check:
            with caching("off"):
                make(2)(path)
            same = "yes" if path.read_bytes() == content else "NO"
        usage = ContentCache(cache).usage()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    first, second = seconds
    return (
        f"{first:.1f}", f"{second:.1f}", f"{second / first:.0%}", str(usage.entries),
        f"{usage.bytes // 1024:,}", same, f"{peak:,}",
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a part of the names of networks")
    parser.add_argument("--layers", type=int, help="fewer layers of a language model")
    parser.add_argument("--check", action="store_true", help="compare with a fresh compile")
    parser.add_argument("--write", action="store_true", help="add to the table in results")
    given = parser.parse_args()
    makers: dict[str, Callable[[int], Saved]] = {
        name: lambda seed, make=make: network(make, seed) for name, make in SHAPED.items()
    }
    for name, config in SHAPES.items():
        count = given.layers or config.layers
        makers[f"{name}, {count} layers"] = lambda seed, name=name: language_model(
            name, given.layers, seed
        )
    usual = [name for name in makers if "Llama" not in name]
    chosen = [n for n in (makers if given.only else usual) if given.only in n]
    if not chosen:
        parser.error(f"no network has {given.only!r} in its name")
    compile_imported(networks.mlp(8, 32, 32))  # what is loaded once is no part of compiling
    rows: list[tuple[str, ...]] = []
    for name in chosen:
        rows.append((name, *measure(makers[name], given.check)))
        print(f"| {' | '.join(rows[-1])} |", flush=True)
    if given.write:
        write(rows, " ".join(["python", "benchmarks/kernel_cache.py", *sys.argv[1:]]))
    return 0 if all("NO" not in row for row in rows) else 1


def write(rows: list[tuple[str, ...]], command: str) -> None:
    """Add a run to the table, under what made it."""
    path = ROOT / "benchmarks/results/kernel_cache.md"
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADS, ("---",) * len(HEADS), *rows)]
    start = path.read_text(encoding="utf-8") if path.is_file() else "# Compiling twice\n"
    path.write_text(
        f"{start}\n`{command}`, {date.today()}\n\n" + "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(main())
