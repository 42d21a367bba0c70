"""Machines nobody has compiled for: random changes of Atlas profiles, four small networks on each.

    python benchmarks/random_profiles.py --count 100

A profile changes up to five things of atlas-v0 or atlas-v1: sizes of memories, how the DMA engine and
every unit are timed (pipelined ones included), what a hazard does, sums, rounding, delay slots, features,
the order of units. A network has to compile, verify in every bit and take at least as long as its bound;
a machine that is too small for it has to say so. Profiles that fail are printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported

sys.path.insert(0, str(Path(__file__).parent.parent))

from examples import networks

# What may change, by table of a profile: each row is a key and its values.
CHANGES: dict[str, list[tuple[str, tuple[object, ...]]]] = {
    "memory": [
        ("vmem_bytes", (65536, 98304, 131072, 524288, 2097152, 8388608)),
        ("imem_bytes", (8192, 16384, 32768, 262144)),
        ("dram_bytes", (4194304, 67108864)),
    ],
    "dma": [
        ("link_bytes", (0, 1, 2, 8, 16, 64)),
        ("link_ticks", (1, 2, 3, 7)),
        ("vmem_bytes", (1, 16, 128)),
        ("minimum", (1, 50, 500)),
        ("max_bytes", (512, 1024, 4096, 65536)),
        ("config", (1, 4, 30)),
    ],
    "hazards": [("conflict", ("fault", "stall", "ignore")), ("busy_unit", ("fault", "stall"))],
    "numbers": [
        ("row_sum", ("two_lanes", "four_lanes")),
        ("column_sum", ("two_halves", "four_strides")),
        ("pop_fp8", ("cast", "divide")),
        ("tile_registers", (1, 2)),
        ("fill", ("bits", "integer")),
    ],
    "pipeline": [("delay_slots", (1, 4, 8)), ("pc_step", (1, 4))],
}
# Classes of timing with their units on atlas-v0 and atlas-v1.
TIMED = {
    "tensor_load": ("VPU", "LSU"),
    "tensor_store": ("VPU", "LSU"),
    "push": ("VPU", "MXU"),
    "pop": ("VPU", "MXU"),
    "matmul_mxu0": ("MXU", "MXU"),
    "matmul_mxu1": ("MXU", "MXU"),
    "vector": ("VPU", "VPU"),
    "sum_rows": ("VPU", "VPU"),
    "reduce_columns": ("VPU", "VPU"),
    "fill": ("VPU", "VPU"),
}
TICKS = (1, 2, 5, 17, 64, 130, 300)
FEATURES = ([], ["csr"], ["square_cube"], ["csr", "square_cube"])


def profile(rng: random.Random) -> str:
    """The text of a profile."""
    base = rng.choice((0, 1, 1))
    tables: dict[str, dict[str, object]] = {}
    top: dict[str, object] = {"base": f"atlas-v{base}"}
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice((*CHANGES, "memory", "dma", "timing", "timing", "top"))
        if kind == "timing":
            name = rng.choice(list(TIMED))
            ticks = rng.choice(TICKS)
            pipelined = [rng.randint(1, ticks)] if rng.random() < 0.4 else []
            tables.setdefault(kind, {})[name] = [TIMED[name][base], ticks, *pipelined]
        elif kind != "top":
            key, values = rng.choice(CHANGES[kind])
            tables.setdefault(kind, {})[key] = rng.choice(values)
        elif rng.random() < 0.5:
            top["features"] = rng.choice(FEATURES)
        else:
            units = ["DMA", "VPU", "MXU1", "MXU0", *["LSU"][:base]]
            top["units"] = ["SCALAR", *rng.sample(units, len(units))]
    lines = [f"{key} = {json.dumps(value)}" for key, value in top.items()]
    for table, rows in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in rows.items())]
    return "\n".join(lines) + "\n"


def models(rng: random.Random) -> Iterator[tuple[str, Callable[[], Imported]]]:
    pick = rng.choice
    rows, width, hidden = pick((5, 33, 64)), pick((40, 64, 96)), pick((100, 128))
    yield "mlp", lambda: networks.mlp(rows, width, hidden)
    size, channels = pick((12, 17)), pick((8, 32, 40))
    yield "cnn", lambda: networks.cnn(size, channels)
    tokens, patches = pick((7, 40, 70)), pick((33, 50, 100))
    yield "decoder", lambda: networks.decoder(tokens, 96, 3, 1, 160)
    yield "siglip", lambda: networks.siglip(patches, 96, 3, 130)


def judge(make: Callable[[], Imported], target: str) -> tuple[str, str]:
    """What came out, and more about it."""
    try:
        program = tw.compile(make(), target=target)
        verified, bound = program.verify(), program.report().bound
    except TilewrightError as error:
        # TW3130: the program itself faults; every other error says what the machine lacks.
        return ("faulted" if error.code == "TW3130" else "refused"), str(error)
    if not verified.ok:
        return "wrong", str(verified)
    if verified.cycles < bound:
        return "below its bound", f"{verified.cycles:,} cycles, bound {bound:,}"
    return "ok", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="how many profiles")
    parser.add_argument("--seed", type=int, default=None, help="by default from the clock")
    options = parser.parse_args()
    first = int(time.time()) if options.seed is None else options.seed
    found: Counter[str] = Counter()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + options.count):
            rng = random.Random(seed)
            text, path = profile(rng), Path(folder) / f"random{seed}.toml"
            path.write_text(text)
            for name, make in models(rng):
                state, detail = judge(make, str(path))
                found[state] += 1
                if state != "ok":
                    print(f"{seed} {name}: {state}\n{detail}\n{text}", flush=True)
    rows = ", ".join(f"{count} {state}" for state, count in found.most_common())
    seconds = time.process_time() - began
    print(f"{options.count} profiles from seed {first}, {seconds:.0f} s: {rows}")
    return int(any(state not in ("ok", "refused") for state in found))


if __name__ == "__main__":
    sys.exit(main())
