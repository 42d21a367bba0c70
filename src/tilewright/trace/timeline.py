"""A run as one picture: an SVG with a lane per unit, an axis in ticks, tooltips and counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tilewright.io.file_access import write_atomically
from tilewright.trace.model import Counter, Slice, TraceModel

WIDTH = 1280
LEFT, RIGHT, TOP = 118, 74, 96
LANE, GAP, GROUP_GAP = 26, 7, 15
COUNTER = 40
MAX_ARROWS = 80
SMALLEST = 0.9  # pixels; narrower slices are drawn together
OPACITIES = 6  # steps of density where slices are drawn together

# Category → fill, text on it, name in the legend (None: not shown there).
COLORS: dict[str, tuple[str, str, str | None]] = {
    "matmul": ("#3b5bdb", "#ffffff", "matmul"),
    "matrix move": ("#91a7ff", "#1b2559", "matrix push, pop"),
    "vector": ("#0ca678", "#ffffff", "vector"),
    "tensor load": ("#f59f00", "#3d2a00", "vload"),
    "tensor store": ("#e8590c", "#ffffff", "vstore"),
    "scalar load": ("#ffd43b", "#3d2a00", "scalar load"),
    "scalar store": ("#fab005", "#3d2a00", "scalar store"),
    "dma load": ("#7048e8", "#ffffff", "DMA load"),
    "dma store": ("#d6336c", "#ffffff", "DMA store"),
    "dma config": ("#868e96", "#ffffff", "DMA config"),
    "queued": ("url(#queued)", "#5f3dc4", "queued"),
    "scalar": ("#495057", "#ffffff", "scalar"),
    "branch": ("#212529", "#ffffff", "branch"),
    "wait": ("url(#wait)", "#495057", "waiting for DMA"),
    "delay": ("#dee2e6", "#495057", "delay"),
    "stall": ("#fa5252", "#ffffff", "stall"),
}
_OTHER = ("#adb5bd", "#212529", None)

_STYLE = """
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.title { font-size: 17px; font-weight: 650; fill: #212529; }
.subtitle { font-size: 12.5px; fill: #6c757d; }
.lane { font-size: 12px; font-weight: 600; fill: #343a40; }
.share { font-size: 11px; fill: #6c757d; }
.tick { font-size: 10.5px; fill: #868e96; }
.legend { font-size: 11.5px; fill: #495057; }
.label { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 10px; pointer-events: none; }
.slice:hover { stroke: #212529; stroke-width: 1.2; }
"""


@dataclass(frozen=True)
class _Frame:
    """The window drawn, and where its ticks are."""

    start: int
    end: int

    def x(self, tick: float) -> float:
        inside = min(max(tick, self.start), self.end)
        span = max(1, self.end - self.start)
        return LEFT + (inside - self.start) * (WIDTH - LEFT - RIGHT) / span


def write_timeline(model: TraceModel, path: str | Path) -> None:
    write_atomically(str(path), timeline_svg(model).encode("utf-8"))


def timeline_svg(model: TraceModel) -> str:
    """The picture as SVG text; lanes on which nothing happened are left out."""
    frame = _Frame(model.start, max(model.end, model.start + 1))
    by_track: dict[int, list[Slice]] = defaultdict(list)
    for item in model.slices:
        if item.end > frame.start and item.start < frame.end:
            by_track[item.track].append(item)
    rows = _lane_positions(model, by_track)
    bottom = (max(rows.values()) + LANE if rows else TOP) + GAP
    parts: list[str] = []
    counters = [c for c in model.counters if c.points]
    height = bottom + 24 + (COUNTER + 14) * len(counters) + 12
    parts += _axis(frame, bottom, height - 12)
    for track, y in rows.items():
        parts += _lane(model, frame, track, y, by_track[track])
    parts += _arrows(model, frame, rows)
    for mark in model.marks:
        if frame.start <= mark.tick <= frame.end and rows:
            x = frame.x(mark.tick)
            note = escape(f"{mark.name} in cycle {mark.tick:,}\n{mark.text}")
            parts.append(
                f'<g><title>{note}</title><path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="#e03131" '
                f'stroke-width="1.5" stroke-dasharray="4 3"/><path d="M{x - 5:.1f} {TOP - 13}'
                f'h10l-5 8z" fill="#e03131"/></g>'
            )
    y = bottom + 30
    for counter in counters:
        parts += _counter(frame, counter, y)
        y += COUNTER + 14
    idle = [t.name for n, t in enumerate(model.tracks) if n not in rows]
    head = _head(model, by_track, idle)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">\n'
        f"<style>{_STYLE}</style>\n{_PATTERNS}\n"
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff" stroke="#e9ecef"/>\n'
        + "\n".join([*head, *parts])
        + "\n</svg>\n"
    )


_PATTERNS = (
    "<defs>"
    '<pattern id="wait" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="#f1f3f5"/>'
    '<rect width="2" height="6" fill="#ced4da"/></pattern>'
    '<pattern id="queued" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="#f3f0ff"/>'
    '<rect width="2" height="6" fill="#d0bfff"/></pattern></defs>'
)


def _lane_positions(model: TraceModel, used: dict[int, list[Slice]]) -> dict[int, int]:
    """Track → top of its lane; a wider gap between groups."""
    rows: dict[int, int] = {}
    order = list(dict.fromkeys(track.group for track in model.tracks))
    numbers = sorted(used, key=lambda n: (order.index(model.tracks[n].group), _rank(model, n)))
    y, group = TOP, None
    for number in numbers:
        if group is not None and model.tracks[number].group != group:
            y += GROUP_GAP - GAP
        group = model.tracks[number].group
        rows[number] = y
        y += LANE + GAP
    return rows


def _rank(model: TraceModel, number: int) -> tuple[str, int] | tuple[int, str]:
    """Channels by their name, everything else in the order of the machine."""
    name = model.tracks[number].name
    return (1 << 30, name) if " ch" in name else (number, name)


def _head(model: TraceModel, used: dict[int, list[Slice]], idle: list[str]) -> Iterator[str]:
    yield f'<text x="24" y="34" class="title">{escape(model.title)}</text>'
    shown = model.subtitle
    if idle:
        shown += f" · unused: {', '.join(idle)}"
    yield f'<text x="24" y="54" class="subtitle">{escape(shown)}</text>'
    present = {item.category for items in used.values() for item in items}
    x = 24.0
    for category, (fill, _, name) in COLORS.items():
        if category in present and name:
            yield f'<rect x="{x:.0f}" y="66" width="12" height="12" rx="2.5" fill="{fill}"/>'
            yield f'<text x="{x + 17:.0f}" y="76" class="legend">{escape(name)}</text>'
            x += 17 + 6.3 * len(name) + 16


def _step(span: int) -> int:
    """A round distance of axis ticks, about ten in the window."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if factor * size * 11 >= span:
                return factor * size
        size *= 10


def _axis(frame: _Frame, bottom: int, end: int) -> Iterator[str]:
    step = _step(frame.end - frame.start)
    first = -(-frame.start // step) * step
    for tick in range(first, frame.end + 1, step):
        x = frame.x(tick)
        yield f'<path d="M{x:.1f} {TOP - 4}V{end}" stroke="#eceff2" stroke-width="1"/>'
        yield (
            f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle" class="tick">{tick:,}</text>'
        )
    yield (f'<text x="{WIDTH - 24}" y="{bottom + 12}" text-anchor="end" class="tick">cycles</text>')


def _lane(
    model: TraceModel, frame: _Frame, track: int, y: int, items: list[Slice]
) -> Iterator[str]:
    name = escape(model.tracks[track].name)
    middle = y + LANE / 2 + 4
    yield f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end" class="lane">{name}</text>'
    yield (
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}" rx="3" '
        'fill="#f8f9fa"/>'
    )
    busy = _covered(frame, items)
    share = 100 * busy / (frame.end - frame.start)
    yield f'<text x="{WIDTH - RIGHT + 10}" y="{middle}" class="share">{share:.1f} %</text>'
    scale = (WIDTH - LEFT - RIGHT) / (frame.end - frame.start)
    crowd: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    ordered = sorted(items, key=lambda s: (s.start, -s.end))
    for item, after in zip(ordered, [*ordered[1:], None], strict=True):
        x, width = frame.x(item.start), frame.x(item.end) - frame.x(item.start)
        if width < SMALLEST:
            crowd[int(x)][item.category] += max(width, scale * (item.end - item.start))
            continue
        # A slice that begins with a nested one has its label behind that.
        nested = after is not None and after.start == item.start and after.end < item.end
        free = frame.x(after.end) if nested and after is not None else x
        yield _rectangle(item, x, y, width, free)
    yield from _crowded(crowd, y)


def _covered(frame: _Frame, items: list[Slice]) -> int:
    """Ticks of the window with at least one slice."""
    total, reached = 0, frame.start
    for item in sorted(items, key=lambda s: s.start):
        first, last = max(item.start, reached), min(item.end, frame.end)
        if last > first:
            total += last - first
            reached = last
    return total


def _rectangle(item: Slice, x: float, y: int, width: float, label_from: float) -> str:
    fill, ink, _ = COLORS.get(item.category, _OTHER)
    inset = 7 if item.category == "queued" else 0
    gap = 0.6 if width > 3 else 0.0
    note = escape(_note(item))
    shape = (
        f'<rect class="slice" x="{x:.2f}" y="{y + inset / 2:g}" width="{width - gap:.2f}" '
        f'height="{LANE - inset}" rx="{2.5 if width > 8 else 0}" fill="{fill}"/>'
    )
    label = ""
    room = x + width - label_from
    for text in _labels(item):
        if room > 6.1 * len(text) + 3:
            label = (
                f'<text x="{label_from + room / 2:.1f}" y="{y + LANE / 2 + 3.5}" '
                f'text-anchor="middle" '
                f'class="label" fill="{ink}">{escape(text)}</text>'
            )
            break
    return f"<g><title>{note}</title>{shape}{label}</g>"


def _labels(item: Slice) -> Iterator[str]:
    """What may be written into a slice, the longest first."""
    if item.category in ("queued", "stall"):
        yield item.name
        yield item.name.partition(": ")[2] or item.name
        yield item.name.partition(": ")[0]
        return
    words = item.name.split(".")
    if "bytes" in item.arguments and "dram" in item.arguments:
        yield f"{item.name} {item.arguments['bytes']:,} B @ {item.arguments['dram']}"
    elif item.text:
        yield item.text
    yield item.name
    if words[0] == "dma":
        yield " ".join(words[1:])
        yield words[-1]
    else:
        yield words[0]


def _note(item: Slice) -> str:
    """The tooltip: what, where in the source, when, and the numbers."""
    length = item.end - item.start
    ticks = f"cycles {item.start:,} to {item.end - 1:,} ({length:,})"
    lines = [item.name if item.category in ("stall", "queued") else item.text or item.name, ticks]
    if item.category in ("stall", "queued"):
        lines.insert(1, item.text)
    if item.source:
        lines.append(item.source)
    hidden = ("index", "pc", "claim", "dispatch")
    lines += [f"{key}: {value}" for key, value in item.arguments.items() if key not in hidden]
    return "\n".join(lines)


def _crowded(crowd: dict[int, dict[str, float]], y: int) -> Iterator[str]:
    """Columns of slices too narrow to tell apart: the commonest colour, paler where sparse."""
    run: tuple[int, int, str, int] | None = None
    for column in sorted(crowd):
        category = max(crowd[column], key=lambda c: crowd[column][c])
        filled = min(1.0, sum(crowd[column].values()))
        level = max(1, round(filled * OPACITIES))
        if run and run[1] == column and run[2:] == (category, level):
            run = (run[0], column + 1, category, level)
            continue
        if run:
            yield _column(run, y)
        run = (column, column + 1, category, level)
    if run:
        yield _column(run, y)


def _column(run: tuple[int, int, str, int], y: int) -> str:
    first, last, category, level = run
    fill = COLORS.get(category, _OTHER)[0]
    return (
        f'<rect x="{first}" y="{y}" width="{last - first}" height="{LANE}" fill="{fill}" '
        f'opacity="{(level + 1) / (OPACITIES + 1):.2f}"><title>{escape(category)}, several'
        "</title></rect>"
    )


def _arrows(model: TraceModel, frame: _Frame, rows: dict[int, int]) -> Iterable[str]:
    """Lines from the end of a transfer to the wait that it ends, if they can be told apart."""
    sources = {s.flow_out: s for s in model.slices if s.flow_out}
    pairs = [
        (sources[s.flow_in], s)
        for s in model.slices
        if s.flow_in in sources and frame.start < s.end <= frame.end
    ]
    if len(pairs) > MAX_ARROWS:
        return
    for source, target in pairs:
        if source.track not in rows or target.track not in rows or source.end > frame.end:
            continue
        group = model.tracks[source.track].group
        lane = min(y for track, y in rows.items() if model.tracks[track].group == group)
        x1, x2 = frame.x(source.end), frame.x(target.end)
        y1, y2 = lane, rows[target.track] + LANE
        yield (
            f'<path d="M{x1:.1f} {y1}L{x2:.1f} {y2 + 2}" fill="none" stroke="#7048e8" '
            'stroke-opacity="0.55" stroke-width="1" stroke-dasharray="2 3"/>'
            f'<circle cx="{x2:.1f}" cy="{y2 + 1}" r="2.2" fill="#7048e8"/>'
            f'<circle cx="{x1:.1f}" cy="{y1}" r="2.2" fill="#7048e8"/>'
        )


def _counter(frame: _Frame, counter: Counter, y: int) -> Iterator[str]:
    """A step curve with its largest value."""
    points = [(t, v) for t, v in counter.points if frame.start <= t <= frame.end]
    before = [v for t, v in counter.points if t < frame.start]
    value = before[-1] if before else 0
    peak = max([value, *(v for _, v in points)]) or 1
    base = y + COUNTER

    def height(amount: int) -> float:
        return base - (COUNTER - 2) * amount / peak

    # Points closer than a pixel share one stroke from the lowest to the highest of them.
    columns: dict[float, list[int]] = defaultdict(list)
    for tick, amount in points:
        columns[round(frame.x(tick) * 2) / 2].append(amount)
    path = [f"M{LEFT} {base}V{height(value):.1f}"]
    for x, amounts in columns.items():
        stroke = dict.fromkeys((min(amounts), max(amounts), amounts[-1]))
        if amounts[-1] in list(stroke)[:-1]:
            stroke.pop(amounts[-1])
            stroke[amounts[-1]] = None
        path.append(f"H{x:g}" + "".join(f"V{height(amount):.1f}" for amount in stroke))
    path.append(f"H{frame.x(frame.end):.1f}V{base}Z")
    name = escape(counter.name)
    yield (
        f'<text x="{LEFT - 12}" y="{base - COUNTER / 2 + 4}" text-anchor="end" class="share">'
        f"{name}</text>"
    )
    yield f'<path d="{"".join(path)}" fill="#ced4da" fill-opacity="0.6" stroke="#868e96"/>'
    yield (
        f'<text x="{WIDTH - RIGHT + 10}" y="{y + 9}" class="share">{peak:,}</text>'
        f'<text x="{WIDTH - RIGHT + 10}" y="{y + 22}" class="tick">{escape(counter.unit[:10])}'
        "</text>"
    )
