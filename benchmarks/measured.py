"""What benchmarks of whole models measure of one: compile, run and verify it; every model in a
process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

from zoo_models import library


def measure(network: Any, inputs: Sequence[Any], target: str) -> dict[str, Any]:
    """Compile, run and verify a torch module; every kernel is generated now."""
    from tilewright.compiling import compile_imported
    from tilewright.compiling.sources import as_imported
    from tilewright.io.content_cache import caching
    from tilewright.program import Program

    library("torch").set_num_threads(1)
    warnings.simplefilter("ignore")  # libraries warn of themselves
    began = time.process_time()
    imported = as_imported(network, tuple(inputs))
    with caching("off"):
        compiled = compile_imported(imported, target)
    seconds = time.process_time() - began
    program = Program(compiled, original=imported)
    found = program.verify()
    report = program.report()
    kernels: Counter[str] = Counter()
    for step in report.to_json()["steps"]:
        kernels[step["kernel"]] += step["cycles"]
    accuracy = [output.accuracy for output in found.outputs if output.accuracy is not None]
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "compile_seconds": round(seconds, 1),
        "cycles": found.cycles,
        "bound": report.bound,
        "exact": found.ok,
        "cosine": min((one.cosine for one in accuracy), default=None),
        "host_share": compiled.provenance.get("host_share"),
        "kernels": dict(kernels.most_common()),
        "date": time.strftime("%Y-%m-%d"),
    }


def in_a_process(script: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What a script prints last, as JSON, or why it printed nothing."""
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and done.stdout.strip():
        return json.loads(done.stdout.splitlines()[-1])
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it ended"]
    said = next((line for line in reversed(lines) if " TW" in line or "Error" in line), lines[-1])
    return {"error": said.strip()[:200]}


def figures(found: dict[str, Any]) -> tuple[str, ...]:
    """The cells of a table, from the number of parameters on."""
    cosine, bound = found["cosine"], found["bound"]
    return (
        f"{found['parameters']:,}", f"{found['compile_seconds']:.0f}", f"{found['cycles']:,}",
        f"{bound:,}" if bound else "", f"{found['cycles'] / bound:.2f}" if bound else "",
        "yes" if found["exact"] else "no", "" if cosine is None else f"{cosine:.5f}",
        f"{100 * (found['host_share'] or 0):.2f} %",
    )  # fmt: skip


FIGURES = ("parameters", "compile s", "cycles", "bound", "x bound", "exact", "cosine", "host")


def cells(lines: Sequence[Sequence[str]]) -> str:
    """Lines of a table, the first of which is its head."""
    head, *rest = lines
    ruled = [head, ("---",) * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)
