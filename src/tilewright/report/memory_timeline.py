"""A picture of a memory plan: time to the right, addresses upwards, one box per buffer (SVG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tilewright.planning.bounds import peak_live
from tilewright.planning.buffers import Buffer, peak_of
from tilewright.planning.plan import Plan

WIDTH, HEIGHT = 960, 420  # of one region's drawing area
LEFT, TOP, RIGHT, BOTTOM, CURVE = 96, 56, 24, 44, 70
# Fills that neighbours can be told apart by, readable under black text.
COLORS = (
    "#a6cee3", "#fdbf6f", "#b2df8a", "#fb9a99", "#cab2d6", "#ffff99",
    "#8dd3c7", "#bebada", "#fccde5", "#d9d9d9", "#ccebc5", "#bc80bd",
)  # fmt: skip


def memory_timeline(plan: Plan, title: str = "Memory plan") -> str:
    """The SVG text: one panel per region that holds buffers.

    Under each panel a curve shows the live bytes. Pointing at a box shows its name, size,
    address and lifetime.
    """
    panels: list[str] = []
    top = TOP
    for name, part in plan.regions.items():
        buffers = [b for b in plan.buffers if b.region == name and b.size]
        if buffers:
            panels.append(
                _panel(name, buffers, plan.offsets, part.region.capacity, part.bound, top)
            )
            top += HEIGHT + CURVE + BOTTOM + TOP
    width = LEFT + WIDTH + RIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" '
            f'height="{top}" font-family="sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-size="16" font-weight="bold">{escape(title)}</text>',
            *panels,
            "</svg>\n",
        ]
    )


def _panel(
    name: str,
    buffers: Sequence[Buffer],
    offsets: Mapping[str, int],
    capacity: int | None,
    bound: int,
    top: int,
) -> str:
    first, last = min(b.lower for b in buffers), max(b.upper for b in buffers)
    peak = peak_of(buffers, dict(offsets))
    high = max(peak, capacity or 0) * 1.02
    floor = top + HEIGHT

    def x(step: float) -> float:
        return LEFT + (step - first) / (last - first) * WIDTH

    def y(address: float) -> float:
        return floor - address / high * HEIGHT

    worst = peak_live(buffers)
    ratio = f", {peak / bound:.3f} of the lower bound {bytes_text(bound)}" if bound else ""
    lines = [
        f'<text x="{LEFT}" y="{top - 10}">{escape(name)}: {len(buffers)} buffers, peak '
        f"{bytes_text(peak)}{ratio}</text>",
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="#f7f7f7"/>',
    ]
    for address in ticks(0, int(high)):
        lines.append(_line(LEFT - 4, y(address), LEFT + WIDTH, y(address), "#dddddd"))
        lines.append(
            f'<text x="{LEFT - 8}" y="{y(address) + 4:.1f}" text-anchor="end">'
            f"{bytes_text(address)}</text>"
        )
    for index, buffer in enumerate(buffers):
        lines.append(_box(buffer, offsets[buffer.name], COLORS[index % len(COLORS)], x, y))
    lines.append(_line(LEFT, y(peak), LEFT + WIDTH, y(peak), "#d62728", 1.5, "6 3"))
    if capacity is not None and capacity != peak:
        lines.append(_line(LEFT, y(capacity), LEFT + WIDTH, y(capacity), "black", 1.5))
        lines.append(_label(LEFT + WIDTH - 4, y(capacity) + 14, f"capacity {bytes_text(capacity)}"))
    full = " = capacity" if capacity == peak else ""
    lines.append(_label(LEFT + WIDTH - 4, y(peak) - 4, f"peak {bytes_text(peak)}{full}", "#d62728"))
    lines += _live_curve(buffers, worst.step, worst.live_bytes, x, floor)
    for step in ticks(first, last):
        lines.append(_line(x(step), floor + CURVE, x(step), floor + CURVE + 4, "#555555"))
        lines.append(
            f'<text x="{x(step):.1f}" y="{floor + CURVE + 17}" text-anchor="middle">{step}</text>'
        )
    lines.append(
        f'<text x="{LEFT + WIDTH / 2}" y="{floor + CURVE + 34}" text-anchor="middle">step</text>'
    )
    middle = top + HEIGHT / 2
    lines.append(
        f'<text x="16" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 16 {middle})">address</text>'
    )
    return "\n".join(lines)


def _box(buffer: Buffer, offset: int, color: str, x, y) -> str:
    left, right = x(buffer.lower), x(buffer.upper)
    low, high = y(offset), y(offset + buffer.size)
    tip = (
        f"{buffer.name}: {buffer.size} bytes at {offset} (to {offset + buffer.size}), "
        f"steps {buffer.lower} to {buffer.upper - 1}"
    )
    text = ""
    # A name that does not fit into its box would hide others.
    if low - high >= 12 and right - left >= 7 * len(buffer.name) + 4:
        text = (
            f'<text x="{(left + right) / 2:.1f}" y="{(low + high) / 2 + 4:.1f}" '
            f'text-anchor="middle" font-size="11">{escape(buffer.name)}</text>'
        )
    return (
        f"<g><title>{escape(tip)}</title>"
        f'<rect x="{left:.2f}" y="{high:.2f}" width="{right - left:.2f}" '
        f'height="{low - high:.2f}" fill="{color}" stroke="#444444" stroke-width="0.5"/>'
        f"{text}</g>"
    )


def _live_curve(buffers: Sequence[Buffer], worst_step: int, most: int, x, floor: int) -> list[str]:
    """Live bytes over time, below the boxes, with the worst step marked."""
    height = CURVE - 24
    base = floor + CURVE
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.lower] = changes.get(b.lower, 0) + b.size
        changes[b.upper] = changes.get(b.upper, 0) - b.size
    total = 0
    points: list[str] = []
    for step in sorted(changes):
        points.append(f"{x(step):.1f},{base - total / most * height:.1f}")
        total += changes[step]
        points.append(f"{x(step):.1f},{base - total / most * height:.1f}")
    return [
        f'<polygon points="{" ".join(points)}" fill="#c6dbef" stroke="#3182bd"/>',
        _line(x(worst_step), base - height, x(worst_step), base, "#d62728"),
        _label(LEFT - 8, base - height + 4, bytes_text(most)),
        _label(LEFT - 8, base - height / 2 + 4, "live"),
    ]


def _line(
    x1: float, y1: float, x2: float, y2: float, color: str, width: float = 1, dash: str = ""
) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def _label(x: float, y: float, text: str, color: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" fill="{color}">{escape(text)}</text>'


def ticks(low: int, high: int, count: int = 8) -> list[int]:
    """About `count` round numbers from `low` to `high`; multiples of a power of two when large."""
    span = max(high - low, 1)
    step = 1
    if span >= 4096:
        while span // step > count:
            step *= 2
    else:
        while span // step > count:
            step *= 5 if str(step).startswith("2") else 2
            if str(step).startswith("4"):
                step = step // 4 * 5
    start = -(-low // step) * step
    return list(range(start, high + 1, step))


def bytes_text(value: int) -> str:
    """1536 -> 1.5 KiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value} B"
