"""Whole models on the simulated machine: compile time, cycles against the bound, fusion, accuracy.

python benchmarks/models.py                          all models (a quarter of an hour)
python benchmarks/models.py --only "decoder block"   those whose name has these words
python benchmarks/models.py --json                   the figures as JSON
python benchmarks/models.py --only "siglip block" --steps   each step: its bound, bytes, busy units
python benchmarks/models.py --save                   also write benchmarks/results/models.md

The models are those of examples/networks.py: shapes of real networks, weights from a seed, random
inputs. "unfused" is the same model compiled with every result in DRAM and one kernel per operation; it
is left out for stacks of layers, which behave as their blocks do.
The bound is what no program can beat: compulsory traffic, or the busiest unit. Times are seconds
of processor time on one core.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tilewright as tw  # noqa: E402
from examples import networks  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.frontend.imported import Imported  # noqa: E402

RESULTS = HERE / "results" / "models.md"


@dataclass(frozen=True)
class Figures:
    """One compiled model and a run of it."""

    steps: int
    compile_seconds: float
    run_seconds: float
    cycles: int
    bound: int
    macs: int
    dram_bytes: int
    weight_bytes: int
    code_bytes: int
    host_share: float
    busiest: str
    exact: bool | None = None
    cosine: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.cycles / self.bound if self.bound else None


@dataclass(frozen=True)
class Row:
    """A model with and without fusion; `error` is why there is none."""

    name: str
    fused: Figures | None = None
    unfused: Figures | None = None
    error: str | None = None


def measure(model: Imported, fuse: bool) -> Figures:
    """Compile and run; the fused program is verified too."""
    begin = time.process_time()
    program = tw.compile(model, fuse=fuse)
    compiled = time.process_time()
    cycles = program.cycles
    ran = time.process_time()
    summary = program.report()
    exact = cosine = None
    if fuse:
        found = program.verify()
        accuracy = found.outputs[0].accuracy
        exact, cosine = found.ok, accuracy.cosine if accuracy else None
    unit = max(summary.utilisation, key=lambda name: summary.utilisation[name])
    return Figures(
        steps=len(program.model.artifact.steps),
        compile_seconds=compiled - begin,
        run_seconds=ran - compiled,
        cycles=cycles,
        bound=summary.bound,
        macs=summary.macs,
        dram_bytes=summary.dram_bytes,
        weight_bytes=summary.weight_bytes,
        code_bytes=summary.code_bytes,
        host_share=program.model.provenance["host_share"],
        busiest=f"{unit} {100 * summary.utilisation[unit]:.0f} %",
        exact=exact,
        cosine=cosine,
    )


def row(name: str, unfused: bool) -> Row:
    model = networks.MODELS[name]()
    try:
        fused = measure(model, True)
    except TilewrightError as error:
        return Row(name, error=str(error).splitlines()[0])
    try:
        return Row(name, fused, measure(model, False) if unfused else None)
    except TilewrightError as error:
        return Row(name, fused, error=f"unfused: {str(error).splitlines()[0]}")


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| model | compile s | run s | cycles | x bound | unfused cycles | faster by | DRAM bytes "
        "| unfused bytes | host | exact | cosine |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    for entry in rows:
        figures, other = entry.fused, entry.unfused
        if figures is None:
            lines.append(f"| {entry.name} | {entry.error} |" + " |" * 10)
            continue
        cells = [
            entry.name,
            f"{figures.compile_seconds:.1f}",
            f"{figures.run_seconds:.1f}",
            f"{figures.cycles:,}",
            f"{figures.ratio:.3f}" if figures.ratio else "-",
            f"{other.cycles:,}" if other else "-",
            f"{other.cycles / figures.cycles:.2f}" if other else "-",
            f"{figures.dram_bytes:,}",
            f"{other.dram_bytes:,}" if other else "-",
            f"{100 * figures.host_share:.1f} %",
            {True: "yes", False: "NO", None: "-"}[figures.exact],
            f"{figures.cosine:.5f}" if figures.cosine is not None else "-",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"\n{entry.name}: {entry.error}" for entry in rows if entry.error and entry.fused]
    return lines


def steps(name: str) -> list[str]:
    """What the steps of a model take, and how busy the units are meanwhile."""
    program = tw.compile(networks.MODELS[name]())
    program.report()
    lines = [
        f"### {name}",
        "",
        "| step | cycles | x its bound | DRAM bytes | DMA | MXU0 | MXU1 | VPU |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for call in program.session.step_cycles:
        cycles = call.end - call.start
        bound = program.model.artifact.steps[call.step].bound
        busy = [
            f"{100 * call.busy.get(u, 0) / cycles:.0f} %" for u in ("DMA", "MXU0", "MXU1", "VPU")
        ]
        moved = f"{call.loaded + call.stored:,}"
        share = f"{cycles / bound:.2f}" if bound else "-"
        lines.append("| " + " | ".join([call.name, f"{cycles:,}", share, moved, *busy]) + " |")
    return lines


def document(rows: list[Row]) -> str:
    today = datetime.date.today().isoformat()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    head = [
        "# Whole models",
        "",
        f"{today}, {machine}, atlas-v1, `python benchmarks/models.py`",
        "",
        "Seeded weights, random inputs, fp8 products with calibrated scales. *exact*: every bit equals",
        "the references of the kernels. *cosine*: against the same model in float32. *unfused*: all",
        "results in DRAM, one kernel per operation. Seconds are processor time on one core.",
        "",
    ]
    return "\n".join([*head, *table(rows)]) + "\n"


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="WORDS", help="models with these words")
    parser.add_argument("--no-unfused", action="store_true", help="leave the comparison out")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--steps", action="store_true", help="print the steps of each model")
    parser.add_argument("--save", action="store_true", help=f"also write {RESULTS.name}")
    options = parser.parse_args()
    names = [
        name
        for name in networks.MODELS
        if not options.only or any(words in name for words in options.only)
    ]
    if not names:
        parser.error(f"no model has these words; there are {', '.join(networks.MODELS)}")
    if options.steps:
        for name in names:
            print("\n".join(steps(name)), flush=True)
        return 0
    rows: list[Row] = []
    for name in names:
        single = not name[0].isdigit()  # stacks behave as their blocks do
        rows.append(row(name, single and not options.no_unfused))
        if not options.json:
            print("\n".join(table(rows[-1:])[0 if len(rows) == 1 else 2 :]), flush=True)
        if options.save:  # after every model: a run that is stopped keeps what it has
            RESULTS.write_text(document(rows))
    if options.json:
        found: list[dict[str, Any]] = [asdict(entry) for entry in rows]
        print(json.dumps(found, indent=2))
    failed = any(entry.fused is None or entry.fused.exact is False for entry in rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
