"""The first section of a model's page: the figures one looks at first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from tilewright.report.memory_timeline import bytes_text
from tilewright.report.model_report import LATENCY, ReportData, binding_of

_ELSEWHERE = ("host_share",)  # what other cards say
Line = tuple[str, str]  # label, value: plain text


def summary(data: ReportData) -> str:
    """The section's HTML."""
    cards = [_time(data), _accuracy(data), _work(data), _units(data), _memory(data), _origin(data)]
    return (
        '<section id="summary" aria-labelledby="summary-title">\n'
        '<h2 id="summary-title">Summary</h2>\n<div class="cards">\n'
        + "\n".join(card for card in cards if card)
        + "\n</div>\n</section>"
    )


def shape_text(shape: Sequence[int]) -> str:
    return " x ".join(str(extent) for extent in shape) or "scalar"


def _time(data: ReportData) -> str:
    run = data.run
    terms = [(f"at least for {name}", f"{ticks:,}") for name, ticks in data.bound_terms.items()]
    if run is None:
        big = f"{data.bound:,} <small>cycles at least</small>" if data.bound else "not run"
        return _card("Time", big, [("bound", data.bound_of), *terms, ("cycles", "not run")])
    lines: list[Line] = []
    if data.bound:
        lines.append((f"bound, {data.bound_of}", f"{data.bound:,}"))
        lines.append(("cycles over bound", f"{data.ratio:.3f}"))
    else:
        lines.append(("bound", data.bound_of))
    lines += terms
    unit, share = binding_of(run.busy, run.cycles)
    lines.append(
        (
            "limited by",
            "latency, no unit half busy" if unit == LATENCY else f"{unit}, {_percent(share)}",
        )
    )
    slow = _widest_gap(data)
    if slow:
        lines.append(("furthest from its bound", slow))
    return _card("Time", f"{run.cycles:,} <small>cycles</small>", lines)


def _widest_gap(data: ReportData) -> str:
    """The step that loses most cycles against its bound."""
    gaps = [0] * len(data.steps)
    for call in data.run.calls if data.run else []:
        if data.steps[call.step].bound:
            gaps[call.step] += call.cycles - data.steps[call.step].bound
    if not gaps or max(gaps) <= 0:
        return ""
    worst = gaps.index(max(gaps))
    return f"{data.steps[worst].name}, {gaps[worst]:,} cycles above"


def _accuracy(data: ReportData) -> str:
    found = data.accuracy
    if found is None:
        return _card("Accuracy", "not verified", [("because", data.not_verified)])
    kind = {True: "good", False: "bad", None: ""}[found.exact]
    text = {True: "exact", False: "not exact", None: "not compared"}[found.exact]
    lines: list[Line] = []
    measured = [output for output in found.outputs if output.cosine is not None]
    if measured:
        worst = min(measured, key=lambda output: output.cosine or 0.0)
        lines.append(("cosine to float32", f"{worst.cosine:.6f}"))
    for label, key in (("largest error", "max_abs"), ("relative error", "relative")):
        values = [v for output in found.outputs if (v := getattr(output, key)) is not None]
        if values:
            lines.append((label, f"{max(values):.3e}"))
    if found.difference:
        lines.append(("first difference", found.difference))
    ranked = [layer for layer in data.layers if layer.errors.relative is not None]
    if ranked:
        worst_layer = max(ranked, key=lambda layer: layer.errors.relative or 0.0).errors
        lines.append(("worst layer", worst_layer.name))
        lines.append(("its relative error", f"{worst_layer.relative:.3e}"))
    big = f'<span class="{kind}">{text}</span> <small>against the quantised reference</small>'
    return _card("Accuracy", big, lines)


def _work(data: ReportData) -> str:
    run = data.run
    lines: list[Line] = []
    if run is not None and run.cycles:
        rate = data.macs / run.cycles
        most = f" of {data.macs_per_cycle:,.0f} possible" if data.macs_per_cycle else ""
        lines.append(("MACs per cycle", f"{rate:,.1f}{most}"))
        moved = run.loaded + run.stored
        lines.append(("DRAM traffic", f"{moved:,} B"))
        lines.append(("read, written", f"{run.loaded:,} B, {run.stored:,} B"))
        lines.append(("per cycle", f"{moved / run.cycles:.2f} B"))
        if moved:
            lines.append(("MACs per byte", f"{data.macs / moved:,.1f}"))
        if run.instructions:
            lines.append(("instructions issued", f"{run.instructions:,}"))
    lines.append(("on the host", _host(data)))
    return _card("Work", f"{data.macs:,} <small>MACs</small>", lines)


def _host(data: ReportData) -> str:
    if not data.host_operations:
        return "nothing"
    return f"{share_text(data.host_share)} of the {data.host_share_of}"


def share_text(share: float) -> str:
    """What is not nothing does not look like it."""
    return "less than 0.01 %" if 0 < share < 0.0001 else f"{100 * share:.2f} %"


def _units(data: ReportData) -> str:
    run = data.run
    if run is None or not run.cycles:
        return ""
    meters = [
        _meter(unit, run.busy.get(unit, 0) / run.cycles, _percent(run.busy.get(unit, 0) / run.cycles),
               f"{run.busy.get(unit, 0):,} cycles", f"var(--{unit})")
        for unit in data.units
    ]  # fmt: skip
    lost = [
        (data.losses.get(cause, cause), f"{ticks:,} ({_percent(ticks / run.cycles)})")
        for cause, ticks in sorted(run.lost.items(), key=lambda item: (-item[1], item[0]))
        if ticks
    ]
    rest = (
        '<p class="dim" style="margin: 8px 0 0">cycles without issue</p>' + _lines(lost)
        if lost
        else ""
    )
    return f'<div class="card"><h3>Units busy</h3>{"".join(meters)}{rest}</div>'


def _memory(data: ReportData) -> str:
    meters = []
    largest = max(data.code_bytes, default=0)
    if data.code_limit:
        code = f"{bytes_text(largest)} of {bytes_text(data.code_limit)}"
        hint = f"{largest:,} bytes in the largest segment"
        meters.append(_meter("code", largest / data.code_limit, code, hint))
    for memory in data.memories:
        text = f"{bytes_text(memory.top)} of {bytes_text(memory.capacity)}"
        hint = f"{memory.top:,} of {memory.capacity:,} bytes; {memory.regions} tensors"
        meters.append(_meter(memory.space.upper(), memory.top / memory.capacity, text, hint))
    lines = [
        (f"{memory.space.upper()} live at most", f"{memory.peak_live:,} B")
        for memory in data.memories
    ]
    if len(data.code_bytes) > 1:
        total = bytes_text(sum(data.code_bytes))
        lines.append(("code", f"{len(data.code_bytes)} segments, {total} in all"))
    return f'<div class="card"><h3>Memory</h3>{"".join(meters)}{_lines(lines)}</div>'


def _origin(data: ReportData) -> str:
    known = {"target": data.target, **data.provenance}
    lines = flat({key: value for key, value in known.items() if key not in _ELSEWHERE})
    lines.append(("report written by", f"tilewright {data.version}"))
    if data.timing:
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in data.timing.items())
        lines.append(("compiled in", f"{sum(data.timing.values()):.2f} s ({phases})"))
    return f'<div class="card"><h3>Where it came from</h3>{_lines(lines)}</div>'


def flat(values: dict[str, Any]) -> list[Line]:
    """Nested provenance as lines: {"options": {"fuse": True}} -> options: fuse = yes."""
    lines: list[Line] = []
    for key, value in values.items():
        label = key.replace("_", " ")
        if isinstance(value, dict):
            text = ", ".join(f"{name} = {_plain(inner)}" for name, inner in value.items())
            lines.append((label, text or "none"))
        else:
            lines.append((label, _plain(value)))
    return lines


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value) or "none"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items()) + "}"
    return str(value)


def _card(title: str, big: str, lines: Iterable[Line]) -> str:
    return f'<div class="card"><h3>{title}</h3><div class="big">{big}</div>{_lines(lines)}</div>'


def _lines(lines: Iterable[Line]) -> str:
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in lines)
    return f"<dl>{rows}</dl>" if rows else ""


def _meter(label: str, share: float, text: str, hint: str, color: str = "") -> str:
    width = f"width: {min(max(share, 0.0), 1.0):.1%}"
    paint = f"; background: {color}" if color else ""
    return (
        f'<div class="meter" title="{escape(hint)}"><span>{escape(label)}</span>'
        f'<span class="track"><i style="{width}{paint}"></i></span>'
        f'<span class="value">{escape(text)}</span></div>'
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
