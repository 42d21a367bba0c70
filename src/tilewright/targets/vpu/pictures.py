"""Pictures of a schedule: queues over time (Perfetto, SVG) and CMX addresses over time (SVG)."""

from __future__ import annotations

from html import escape

from tilewright.targets.vpu.idle import idle_gaps
from tilewright.targets.vpu.scheduling.plan import TASK
from tilewright.targets.vpu.scheduling.schedule import Schedule
from tilewright.targets.vpu.summary import residences
from tilewright.trace.model import Counter, Slice, TraceModel, Track

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 1280, 96, 24, 64, 40, 520
CATEGORIES = {"load": "dma load", "reload": "dma load", "store": "dma store", "write": "dma store",
             "copy": "dma config", "dpu": "matmul", "shave": "vector"}  # fmt: skip
_FILL = {"load": "#7048e8", "spill": "#d6336c", "compute": "#3b5bdb"}


def write_trace(schedule: Schedule, path: str) -> None:
    """A trace of the modelled run for ui.perfetto.dev; Chrome JSON for files ending in .json."""
    from tilewright.trace import perfetto

    perfetto.write_trace(trace_model(schedule), path)


def write_timeline(schedule: Schedule, path: str) -> None:
    """The queues as one SVG."""
    from tilewright.trace import timeline

    timeline.write_timeline(trace_model(schedule), path)


def trace_model(schedule: Schedule) -> TraceModel:
    """A track per queue with its tasks and idle gaps, and the bytes used of every CMX."""
    made, run = schedule.draft, schedule.run
    gaps = idle_gaps(schedule, compute_only=False)
    tracks, slices = [], []
    for queue, entries in made.queues.items():
        lanes = schedule.tasks.engines_behind(queue)
        first = len(tracks)
        names = [queue] if lanes == 1 else [f"{queue} engine {n}" for n in range(lanes)]
        tracks += [Track(name, "units") for name in names]
        busy = [0] * lanes
        for entry in entries:
            start, end = run.start[entry], run.end[entry]
            lane = min(range(lanes), key=lambda n: (busy[n] > start, busy[n], n))
            busy[lane] = end
            item = made.items[entry]
            slices.append(
                Slice(
                    first + lane,
                    start,
                    end,
                    made.labels[entry],
                    CATEGORIES[item.kind],
                    arguments={
                        "waits": str(list(schedule.tasks.tasks[f"t{entry}"].waits)),
                        "posts": str(list(schedule.tasks.tasks[f"t{entry}"].posts)),
                    },
                )
            )
        if lanes == 1:
            for gap in gaps.get(queue, []):
                note: dict[str, int | str] = {"before": gap.task, "why": gap.why}
                slices.append(
                    Slice(first, gap.first, gap.end, f"idle: {gap.why}", "wait", arguments=note)
                )
    machine = schedule.problem.graph.machine
    counters = [
        Counter(machine.space(tile), "bytes", _occupancy(schedule, tile))
        for tile in range(machine.tiles)
    ]
    title = f"{machine.preset}: {len(made.items)} tasks"
    subtitle = f"{schedule.makespan} cycles, bound {schedule.bounds.strong}"
    return TraceModel(title, subtitle, 0, schedule.makespan, tracks, slices, [], counters)


def _occupancy(schedule: Schedule, tile: int) -> list[tuple[int, int]]:
    changes: dict[int, int] = {0: 0}
    problem = schedule.problem
    for root, stays in residences(schedule).items():
        if problem.graph.buffers[root].tile != tile:
            continue
        for _, first, end in stays:
            changes[first] = changes.get(first, 0) + problem.sizes[root]
            changes[end] = changes.get(end, 0) - problem.sizes[root]
    used, points = 0, []
    for cycle in sorted(changes):
        used += changes[cycle]
        points.append((cycle, used))
    return points


def memory_map(schedule: Schedule) -> str:
    """CMX addresses over cycles: a rectangle per residence, arrows for spills, the capacity line."""
    problem = schedule.problem
    machine = problem.graph.machine
    span = max(1, schedule.makespan)
    stays = residences(schedule)
    height = _HEIGHT * machine.tiles
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
        f'height="{_TOP + height + _BOTTOM}" font-family="sans-serif" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0L6 3L0 6z" fill="#d6336c"/></marker></defs>',
        f'<text x="{_LEFT}" y="24" font-size="16">CMX over time: {schedule.makespan} cycles</text>',
        f'<text x="{_LEFT}" y="44" fill="#6c757d">loaded buffers violet, results blue, '
        "reloaded ones red; arrows lead from where a buffer left to where it came back</text>",
    ]

    def across(cycle: int) -> float:
        return _LEFT + cycle * (_WIDTH - _LEFT - _RIGHT) / span

    def down(tile: int, address: int) -> float:
        low = _TOP + (tile + 1) * _HEIGHT - 12
        return low - address * (_HEIGHT - 24) / machine.cmx_bytes

    for tile in range(machine.tiles):
        top, low = down(tile, machine.cmx_bytes), down(tile, 0)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{top:.1f}" y2="{top:.1f}" '
            f'stroke="#fa5252" stroke-dasharray="5 3"/><text x="4" y="{top + 4:.1f}">'
            f"{machine.cmx_bytes}</text>"
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{low:.1f}" y2="{low:.1f}" '
            f'stroke="#adb5bd"/><text x="4" y="{low:.1f}">{machine.space(tile)}</text>'
        )
    for root, found in stays.items():
        buffer = problem.graph.buffers[root]
        for number, (address, first, end) in enumerate(found):
            kind = "spill" if number else "load" if problem.loaded[root] else "compute"
            x, y = across(first), down(buffer.tile, address + buffer.bytes)
            width = max(0.5, across(end) - x)
            tall = max(0.5, down(buffer.tile, address) - y)
            label = f"{buffer.id}: {address}..{address + buffer.bytes}, cycles {first}..{end}"
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}" '
                f'fill="{_FILL[kind]}" fill-opacity="0.55" stroke="#212529" stroke-width="0.4">'
                f"<title>{escape(label)}</title></rect>"
            )
            if width > 7 * len(buffer.id) and tall > 12:
                parts.append(
                    f'<text x="{x + 3:.1f}" y="{y + 12:.1f}" fill="#fff">{escape(buffer.id)}</text>'
                )
            if number:
                before = found[number - 1]
                parts.append(
                    f'<line x1="{across(before[2]):.1f}" '
                    f'y1="{down(buffer.tile, before[0] + buffer.bytes // 2):.1f}" '
                    f'x2="{x:.1f}" y2="{y + tall / 2:.1f}" stroke="#d6336c" '
                    'marker-end="url(#tip)"/>'
                )
    written = sum(step.kind != TASK for step in schedule.draft.steps)
    parts.append(
        f'<text x="{_LEFT}" y="{_TOP + height + 20}">0</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{_TOP + height + 20}" text-anchor="end">'
        f"{schedule.makespan} cycles, {written} spill transfers</text></svg>"
    )
    return "\n".join(parts) + "\n"
