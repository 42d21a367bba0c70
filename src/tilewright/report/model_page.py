"""The report of a compiled model as one page: no other file, no network, the same bytes each time.

Python writes what is read as text (summary, host plan, IR, assembly); the scripts in `page/` draw
the tables that sort and the pictures that zoom, from the JSON at the end of the page.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from tilewright.report.model_report import (
    BUSY_ENOUGH,
    PartRow,
    PortRow,
    ReportData,
    Text,
)
from tilewright.report.page_summary import shape_text, share_text, summary
from tilewright.trace.model import Activity

HUGE = 1e300  # stands for errors that are no number
_FOLDER = Path(__file__).parent / "page"
_SCRIPTS = (
    "basics", "table", "view", "calls", "cycles", "timeline", "memory_map", "accuracy", "regions",
    "texts", "main",
)  # fmt: skip
_SECTIONS = (
    ("summary", "Summary"),
    ("cycles", "Cycles"),
    ("timeline", "Timeline"),
    ("memory", "Memory"),
    ("accuracy", "Accuracy"),
    ("host", "Host plan"),
    ("tensors", "Tensors"),
    ("ir", "IR"),
    ("assembly", "Assembly"),
)


def model_page(data: ReportData) -> str:
    """The HTML text."""
    links = "\n".join(f'<a href="#{key}">{text}</a>' for key, text in _SECTIONS)
    return _filled(
        (_FOLDER / "page.html").read_text(encoding="utf-8"),
        {
            "title": escape(f"{_short(data.name)} on {data.target}: Tilewright report"),
            "name": escape(_short(data.name)),
            "subtitle": escape(_subtitle(data)),
            "style": (_FOLDER / "style.css").read_text(encoding="utf-8"),
            "navigation": links,
            "summary": summary(data),
            "cycles_text": escape(_cycles_text(data)),
            "timeline_text": escape(_timeline_text(data)),
            "memory_text": escape(_memory_text(data)),
            "accuracy": _accuracy(data),
            "host": _host(data),
            "ports": _ports(data),
            "phases": _phases(data),
            "assembly": _assembly(data),
            "data": script_json(_drawn(data)),
            "script": "\n".join(
                (_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
            ),
        },
    )


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element, whatever strings it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _filled(template: str, values: dict[str, str]) -> str:
    """The template with every {{name}} replaced; values are not searched again."""
    pieces = template.split("{{")
    result = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        result += [values[name], rest]
    return "".join(result)


# --- what the scripts draw --------------------------------------------------------------


def _drawn(data: ReportData) -> dict[str, Any]:
    run = data.run
    return {
        "units": data.units,
        "busy_enough": BUSY_ENOUGH,
        "cycles": run.cycles if run else None,
        "steps": [
            {"name": step.name, "kernel": step.kernel, "macs": step.macs, "bound": step.bound}
            for step in data.steps
        ],
        "loops": [{"first": r.first, "end": r.end, "names": r.names} for r in data.layer_loops],
        "calls": [
            [call.step, call.turn, call.start, call.end, call.loaded, call.stored,
             *(call.busy.get(unit, 0) for unit in data.units)]
            for call in (run.calls if run else [])
        ],
        "activity": _packed(run.activity, run.cycles, data.units) if run and run.activity else None,
        "regions": [region.__dict__ for region in data.regions],
        "memories": [memory.__dict__ for memory in data.memories],
        "layers": _layers(data),
    }  # fmt: skip


def _packed(activity: Activity, cycles: int, units: list[str]) -> dict[str, Any]:
    """Busy shares of the pieces as one byte each, 255 for always."""
    packed = {}
    for unit in units:
        shares = bytearray()
        for number, busy in enumerate(activity.busy.get(unit, ())):
            length = min(activity.ticks, cycles - number * activity.ticks)
            shares.append(min(255, round(255 * busy / length)) if length > 0 else 0)
        packed[unit] = base64.b64encode(bytes(shares)).decode("ascii")
    return {"cycles": activity.ticks, "busy": packed}


def _layers(data: ReportData) -> list[dict[str, Any]]:
    rows = []
    for layer in data.layers:
        errors = layer.errors
        turn = data.turn_name(layer.step, layer.turn) if layer.step is not None else ""
        rows.append(
            {
                "name": errors.name,
                "layer": turn,
                "exact": errors.exact,
                "status": layer.status,
                "max_abs": _finite(errors.max_abs),
                "relative": _finite(errors.relative),
                "cosine": None if errors.cosine != errors.cosine else errors.cosine,
                "formats": layer.formats,
                "scales": layer.scales,
                "fp8": "fp8" in layer.formats or "f8E" in layer.formats,
                "source": layer.source,
            }
        )
    return rows


def _finite(value: float | None) -> float | None:
    """JSON has no infinity and no NaN; a huge number sorts and plots as the worst."""
    if value is None:
        return None
    return min(float(value), HUGE) if value == value else HUGE


# --- what is read as text ---------------------------------------------------------------


def _subtitle(data: ReportData) -> str:
    parts = [f"compiled for {data.target} ({data.target_text})"]
    parts.append(_number(len(data.steps), "step"))
    for loop in data.layer_loops:
        turns = _number(len(loop.names), "iteration")
        parts.append(f"{turns} of steps {loop.first} to {loop.end - 1}")
    if data.run is None:
        parts.append("not run")
    else:
        inputs = f", inputs: {data.run.inputs}" if data.run.inputs else ""
        parts.append(f"{_number(len(data.run.calls), 'call')}{inputs}")
    return " · ".join(parts)


def _short(name: str) -> str:
    """The name of a model that came from a file, without its folder."""
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or name


def _number(value: int, word: str) -> str:
    return f"{value:,} {word}" if value == 1 else f"{value:,} {word}s"


def _cycles_text(data: ReportData) -> str:
    if data.run is None:
        return "The model was not run for this report: only bounds and work are known."
    return (
        "Measured cycles of each step against its bound, with the cycles each unit is busy. "
        "A step is limited by its busiest unit, or by latency (dependences, waiting, issue) where no "
        "unit is busy for half of the time. The chart follows the order of the table."
    )


def _timeline_text(data: ReportData) -> str:
    if data.run is None:
        return ""
    colour = "The colour of a step is the unit that binds it. The height in a unit's lane is "
    if data.run.activity is not None:
        return f"{colour}the share of the time it is busy, in pieces of {data.run.activity.ticks:,} cycles."
    return f"{colour}the share of the step's time it is busy."


def _memory_text(data: ReportData) -> str:
    return (
        "Steps of layer loops are drawn once, tensors kept for every iteration all above each other."
        if data.layer_loops
        else ""
    )


def _accuracy(data: ReportData) -> str:
    found = data.accuracy
    if found is None:
        known = " What calibration found is below." if data.layers else ""
        text = f"The model was not verified for this report: {data.not_verified}.{known}"
        return f'<p class="dim">{escape(text)}</p>'
    rows = [
        [
            escape(output.name),
            _yes(output.exact),
            small(output.relative),
            small(output.max_abs),
            cosine(output.cosine),
        ]
        for output in found.outputs
    ]
    parts = []
    if found.difference:
        parts.append(f'<p class="note bad">First difference: {escape(found.difference)}</p>')
    parts += [f'<p class="dim">Note: {escape(note)}.</p>' for note in found.notes]
    if found.against:
        parts.append(f'<p class="dim">Errors are against {escape(found.against)}.</p>')
    heads = (
        "output",
        "equal to the quantised reference",
        "relative error",
        "largest error",
        "cosine",
    )
    parts.append(_table(heads, rows, numbers={2, 3, 4}))
    if not data.layers:
        parts.append('<p class="dim">Layers were not compared one by one.</p>')
    return "\n".join(parts)


def _host(data: ReportData) -> str:
    hosts = [part for part in data.parts if part.side == "host"]
    if not hosts:
        return "<p>Everything runs on the device.</p>"
    text = (
        f"{_number(data.host_operations, 'operation')} of "
        f"{data.host_operations + data.device_operations:,} run on the host: "
        f"{share_text(data.host_share)} of the {data.host_share_of}. Parts run from top to bottom."
    )
    rows = [_part_cells(number, part) for number, part in enumerate(data.parts)]
    heads = ("part", "side", "what", "reads", "writes", "operations", "why on the host")
    return f"<p>{escape(text)}</p>" + _table(heads, rows, numbers={0, 5})


def _part_cells(number: int, part: PartRow) -> list[str]:
    reasons = "<br>".join(escape(reason) for reason in part.reasons) or "–"
    reads, writes = escape(", ".join(part.inputs)), escape(", ".join(part.outputs))
    return [
        str(number),
        part.side,
        escape(part.what),
        reads,
        writes,
        f"{part.operations:,}",
        reasons,
    ]


def _ports(data: ReportData) -> str:
    def cells(port: PortRow) -> list[str]:
        direction = port.direction
        if port.name in data.state:
            direction += f", keeps {data.state[port.name]} of the call before"
        return [
            escape(port.name), escape(direction), escape(shape_text(port.shape)), escape(port.dtype),
            escape(port.region or "–"), escape(port.place),
        ]  # fmt: skip

    heads = ("value", "direction", "shape", "type", "tensor", "place")
    return _table(heads, [cells(port) for port in data.ports])


def _phases(data: ReportData) -> str:
    if not data.phases:
        return '<p class="dim">The bundle keeps no IR; compile with --dump-phases to keep it.</p>'
    return _search("ir", "search the IR") + "\n".join(
        _long_text(text, f"{text.name}: {_number(text.lines, 'line')}", "lines")
        for text in data.phases
    )


def _assembly(data: ReportData) -> str:
    texts = []
    for number, step in enumerate(data.steps):
        lines = _number(step.assembly.lines, "instruction")
        title = f"{number} {step.name}: {step.kernel}, {lines}"
        operands = ", ".join(f"{key} = {region}" for key, region in step.operands.items())
        options = ", ".join(f"{key} = {value}" for key, value in step.options.items())
        about = " · ".join(
            part
            for part in (
                operands,
                options,
                f"for {', '.join(step.sources)}" if step.sources else "",
            )
            if part
        )
        texts.append(_long_text(step.assembly, title, "instructions", about))
    return _search("assembly", "search the assembly") + "\n".join(texts)


def _search(key: str, label: str) -> str:
    return (
        f'<div class="controls"><input type="search" id="{key}-search" placeholder="{label}" '
        f'aria-label="{label}"><span class="dim" id="{key}-found" aria-live="polite"></span>'
        f'<span class="space"></span><button type="button" id="{key}-open">open all</button>'
        f'<button type="button" id="{key}-close">close all</button></div>\n'
    )


def _long_text(text: Text, title: str, word: str, about: str = "") -> str:
    first = f'<p class="left-out">{escape(about)}</p>' if about else ""
    rest = (
        f'<p class="left-out">{text.left_out:,} more {word} left out</p>' if text.left_out else ""
    )
    return (
        f"<details><summary>{escape(title)}</summary>{first}"
        f'<pre tabindex="0">{escape(text.text, quote=False)}</pre>{rest}</details>'
    )


def _table(heads: Iterable[str], rows: list[list[str]], numbers: Iterable[int] = ()) -> str:
    """Cells are HTML already."""
    right = set(numbers)
    kind = ['class="number"' if at in right else "" for at in range(len(list(heads)))]
    head = "".join(
        f'<th scope="col" {kind[at]}>{escape(text)}</th>' for at, text in enumerate(heads)
    )
    body = "\n".join(
        "<tr>" + "".join(f"<td {kind[at]}>{cell}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll fit"><table class="plain"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _yes(value: bool | None) -> str:
    if value is None:
        return "–"
    return f'<span class="{"good" if value else "bad"}">{"yes" if value else "no"}</span>'


def small(value: float | None) -> str:
    """0.00123 -> 1.230e-03 where short forms would lose digits."""
    if value is None:
        return "–"
    return f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"


def cosine(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}"
