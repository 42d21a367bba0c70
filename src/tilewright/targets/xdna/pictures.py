"""Pictures of a design: where its data flows, and what is busy when."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from tilewright.targets.xdna.design import Design, Fifo, Tile
from tilewright.targets.xdna.device import MEMORY_ROW, SHIM_ROW
from tilewright.targets.xdna.events import TimeResult

_COLORS = {"a": "#1971c2", "b": "#e8590c", "c": "#2f9e44"}
_OTHER = "#868e96"
_CELL, _GAP, _MARGIN = 74, 40, 60
_STYLE = (
    "text{font-family:ui-sans-serif,system-ui,Segoe UI,Helvetica,Arial,sans-serif;fill:#343a40}"
    ".t{font-size:16px;font-weight:650}.s{font-size:12px;fill:#6c757d}.n{font-size:11px}"
)


def _color(fifo: str) -> str:
    return _COLORS.get(fifo.lstrip("@")[:1].lower(), _OTHER)


def _svg(width: float, height: float, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}</style>'
        '<rect width="100%" height="100%" fill="#ffffff"/>' + "".join(parts) + "</svg>\n"
    )


def _title(design: Design) -> str:
    gemm = design.gemm
    if gemm is None:
        return f"design on {design.device_name}"
    return (
        f"{gemm.M}x{gemm.K}x{gemm.N} {gemm.weights} to {gemm.output} on {design.device_name},"
        f" {gemm.policy}, tile {gemm.m}x{gemm.k}x{gemm.n}"
    )


def dataflow_svg(design: Design) -> str:
    """The array with one line per FIFO: A blue, B orange, C green; broadcasts fan out."""
    rows = design.device.core_rows + 2
    columns = 1 + max(
        (t.column for f in design.fifos for t in (f.producer, *f.consumers)), default=0
    )
    width = 2 * _MARGIN + columns * _CELL + (columns - 1) * _GAP
    height = 2 * _MARGIN + rows * _CELL + (rows - 1) * _GAP

    def corner(tile: Tile) -> tuple[float, float]:
        x = _MARGIN + tile.column * (_CELL + _GAP)
        return x, _MARGIN + 10 + (rows - 1 - tile.row) * (_CELL + _GAP)

    parts = [f'<text x="{_MARGIN}" y="30" class="t">{escape(_title(design))}</text>']
    names = {SHIM_ROW: "shim", MEMORY_ROW: "memory"}
    for column in range(columns):
        for row in range(rows):
            x, y = corner(Tile(column, row))
            parts.append(
                f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="6" fill="#f8f9fa"'
                f' stroke="#ced4da"/><text x="{x + 6}" y="{y + _CELL - 6}" class="s">'
                f"{names.get(row, 'core')} {column},{row}</text>"
            )
    ports: dict[Tile, int] = defaultdict(int)
    for fifo in design.fifos:
        parts += _flow(fifo, corner, ports)
    return _svg(width, height, parts)


def _flow(fifo: Fifo, corner, ports: dict[Tile, int]) -> list[str]:
    lanes = 9

    def point(tile: Tile) -> tuple[float, float]:
        x, y = corner(tile)
        ports[tile] += 1
        lane = (ports[tile] - 1) % lanes
        return x + 10 + lane * (_CELL - 20) / (lanes - 1), y + 12 + 5 * lane

    parts = []
    x0, y0 = point(fifo.producer)
    for consumer in fifo.consumers:
        x1, y1 = point(consumer)
        parts.append(
            f'<path d="M{x0:.1f} {y0:.1f} C{x0:.1f} {(y0 + y1) / 2:.1f} {x1:.1f}'
            f' {(y0 + y1) / 2:.1f} {x1:.1f} {y1:.1f}" fill="none" stroke="{_color(fifo.name)}"'
            f' stroke-width="1.2" opacity="0.75"><title>@{escape(fifo.name)}: {fifo.depth} x'
            f" {fifo.object.bytes} bytes</title></path>"
        )
    return parts


def timeline_svg(design: Design, result: TimeResult, lanes: int = 40) -> str:
    """Busy intervals of the recorded beginning, a lane per channel and core."""
    grouped: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for interval in result.intervals:
        grouped[interval.resource].append((interval.start, interval.end, interval.label))
    end = max((i.end for i in result.intervals), default=1.0)
    order = sorted(grouped, key=lambda r: (r.startswith("core"), r))[:lanes]
    left, lane, scale = 130, 16, 1080 / end
    parts = [
        f'<text x="20" y="28" class="t">{escape(_title(design))}</text>',
        f'<text x="20" y="46" class="s">first {end / design.device.clock_hz * 1e6:.1f} of'
        f" {result.seconds * 1e6:.1f} us; critical: {escape(result.critical)}</text>",
    ]
    for row, resource in enumerate(order):
        y = 62 + row * lane
        share = result.busy.get(resource, 0.0) / result.cycles if result.cycles else 0.0
        parts.append(
            f'<text x="20" y="{y + 11}" class="n">{escape(resource)}</text>'
            f'<text x="{left + 1086}" y="{y + 11}" class="s">{share:.0%}</text>'
        )
        color = "#5f3dc4" if resource.startswith("core") else _color(resource)
        for start, stop, label in grouped[resource]:
            parts.append(
                f'<rect x="{left + start * scale:.2f}" y="{y + 1}"'
                f' width="{max(0.4, (stop - start) * scale):.2f}" height="{lane - 4}"'
                f' fill="{color}" opacity="0.8"><title>{escape(label)} {start:.0f} to {stop:.0f}'
                "</title></rect>"
            )
    return _svg(1280, 80 + lane * len(order), parts)
