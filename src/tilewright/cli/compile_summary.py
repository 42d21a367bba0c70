"""What `tilewright compile` says at the end: steps, sizes, the host's plan, times."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tilewright.runtime.memory_map import MemoryMap
from tilewright.runtime.values import describe
from tilewright.targets.artifact import HostPart, Inspectable, Summarised, calls
from tilewright.targets.compiled_model import CompiledModel

SHORT = {"f8E4M3FN": "fp8", "bf16": "bf16"}  # formats as people call them


def document(compiled: CompiledModel[Any], files: dict[str, str], seconds: float) -> dict[str, Any]:
    """The summary for a script; `text` is the same for a person."""
    memory = MemoryMap.of(compiled)
    artifact, bound = compiled.artifact, compiled.artifact.bound()
    turns = [0] * len(artifact.steps)
    for index, _, _ in calls(artifact):
        turns[index] += 1
    weights = [t for t in artifact.tensors.values() if t.kind in ("weight", "constant")]
    bundle = files.get("bundle")
    return {
        "model": compiled.name,
        "target": artifact.target,
        "inputs": [describe(compiled.ports[name]) for name in compiled.inputs],
        "outputs": [describe(compiled.ports[name]) for name in compiled.outputs],
        "state": dict(compiled.state),
        "steps": [_step(compiled, k, turns[k]) for k in range(len(artifact.steps))],
        "layer_loops": [
            {"count": r.count, "first": r.first, "end": r.end, "names": list(r.names)}
            for r in artifact.loops
        ],
        "macs": sum(step.macs * count for step, count in zip(artifact.steps, turns, strict=True)),
        "code": {"bytes": list(memory.code_bytes), "limit": memory.code_limit},
        "weights": {
            "bytes": artifact.weight_bytes
            if isinstance(artifact, Inspectable)
            else sum(tensor.bytes * tensor.count for tensor in weights),
            "tensors": len(weights),
        },
        "bound": None
        if bound is None
        else {"cycles": bound.cycles, "cause": bound.cause, "terms": dict(bound.terms)},
        "memory": {
            space: {"used": memory.used(space), "bytes": size}
            for space, size in memory.sizes.items()
        },
        "quantisation": compiled.quantisation,
        "host": {
            "share": compiled.provenance.get("host_share", 0.0),
            "parts": [
                {
                    "function": part.function,
                    "inputs": list(part.inputs),
                    "outputs": list(part.outputs),
                    "reasons": list(part.reasons),
                }
                for part in compiled.parts
                if isinstance(part, HostPart)
            ],
        },
        **(artifact.summary() if isinstance(artifact, Summarised) else {}),
        "provenance": compiled.provenance,
        "seconds": {**compiled.timing, "total": seconds},
        "files": files,
        "file_bytes": os.path.getsize(bundle) if bundle else 0,
    }


def _step(compiled: CompiledModel[Any], number: int, turns: int) -> dict[str, Any]:
    artifact = compiled.artifact
    step, tensors = artifact.steps[number], artifact.tensors
    spaces: dict[str, list[str]] = {}
    for parameter, name in step.operands.items():
        if name in tensors:
            spaces.setdefault(tensors[name].space, []).append(parameter)
    return {
        "layer": step.name,
        "kernel": step.kernel,
        "instructions": artifact.excerpt(number, 0)[1] if isinstance(artifact, Inspectable) else 0,
        "iterations": turns,
        "places": spaces,
        "operands": dict(step.operands),
        "macs": step.macs,
        "sources": list(step.sources),
    }


def text(found: dict[str, Any]) -> str:
    """The summary for a person."""
    lines = [f"{found['model']} for {found['target']}"]
    lines += [f"  in   {port}" for port in found["inputs"]]
    lines += [f"  out  {port}" for port in found["outputs"]]
    lines += ["", *_steps(found), ""]
    code, limit = found["code"]["bytes"], found["code"]["limit"]
    pieces = f" in {len(code)} segments" if len(code) > 1 else ""
    if code:
        lines.append(f"code     {sum(code):,} bytes{pieces}, instruction memory {limit:,}")
    lines.append(f"weights  {found['weights']['bytes']:,} bytes, {found['macs']:,} multiplications")
    for space, use in found["memory"].items():
        lines.append(f"{space.upper():<8} {use['used']:,} of {use['bytes']:,} bytes")
    formats = Counter(note.get("format") for note in found["quantisation"].values())
    for name, count in formats.items():
        if name is not None:
            source = found["provenance"]["calibration"]
            lines.append(f"{SHORT.get(name, name):<8} {count} tensors, scales from {source}")
    lines += _accuracy(found["quantisation"])
    lines += _choices(found["provenance"].get("accuracy_goal"))
    if found["bound"]:
        bound, cause = found["bound"]["cycles"], found["bound"]["cause"]
        lines.append(f"bound    {bound:,} cycles at least, set by {cause}")
    lines += _host(found["host"])
    times = ", ".join(f"{name} {value:.2f}" for name, value in found["seconds"].items())
    lines.append(f"seconds  {times}")
    for what, name in found["files"].items():
        size = f", {found['file_bytes']:,} bytes" if what == "bundle" else ""
        lines.append(f"wrote    {name}{size}")
    return "\n".join(lines)


def _accuracy(notes: dict[str, Any]) -> list[str]:
    """The layers furthest from float32, where that was measured."""
    measured = [note for note in notes.values() if "cosine" in note]
    measured.sort(key=lambda note: (note["cosine"], -note["relative"]))
    return [
        f"{'float32' if not number else '':<8} {note.get('worst', note['layer'])}: cosine "
        f"{note['cosine']:.6f}, relative error {note['relative']:.2e}"
        for number, note in enumerate(measured[:3])
    ]


def _choices(measured: dict[str, Any] | None) -> list[str]:
    """What a goal of accuracy costs, and what else was measured."""
    if measured is None:
        return []
    rows: list[tuple[str, ...]] = [("cosine", "cycles", "cost", "layers kept")]
    chosen, every = measured["chosen"], measured["choices"]
    plain = next(row["cycles"] for row in every if not row["keep"])
    for row in every:
        mark = "  <- chosen" if row["keep"] == chosen["keep"] else ""
        cost = f"{row['cycles'] / plain - 1:+.1%}"
        kept = ", ".join(row["keep"]) or "none"
        rows.append((f"{row['cosine']:.6f}", f"{row['cycles']:,}", cost, kept + mark))
    head = f"accuracy goal {measured['goal']:g}: cosine {chosen['cosine']:.6f} in {chosen['cycles']:,} cycles"
    return [head, *(f"  {line}" for line in _table(rows, 3))]


def _steps(found: dict[str, Any]) -> list[str]:
    spaces = sorted(found["memory"], key=lambda name: found["memory"][name]["bytes"])
    heads = (
        "step",
        "instructions",
        "iterations",
        "layer",
        "kernel",
        *(name.upper() for name in spaces),
    )
    rows: list[tuple[str, ...]] = [heads]
    for number, step in enumerate(found["steps"]):
        rows.append(
            (
                str(number),
                f"{step['instructions']:,}",
                str(step["iterations"]),
                step["layer"],
                step["kernel"],
                *(" ".join(step["places"].get(name, ())) or "-" for name in spaces),
            )
        )
    return _table(rows, 3)


def _table(rows: Sequence[tuple[str, ...]], numbers: int) -> list[str]:
    """Columns under each other, the first `numbers` of them to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index < numbers else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _host(plan: dict[str, Any]) -> list[str]:
    if not plan["parts"]:
        return ["host     nothing"]
    share = 100 * plan["share"]
    shown = "less than 0.01" if 0 < share < 0.01 else f"{share:.2f}"
    lines = [f"host     {shown} % of the arithmetic"]
    for part in plan["parts"]:
        for reason, count in Counter(part["reasons"] or ["values pass through"]).items():
            times = f", {count} times" if count > 1 else ""
            lines.append(f"         {part['function']}: {reason}{times}")
    return lines
