"""`tilewright sim`: run a program, check what it computed, show where the cycles went."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from tilewright.cli import print_json
from tilewright.cli.status_line import StatusLine
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.cli.bundle_programs import ENTRY, is_bundle, simulate_bundle

_FOREVER = 1 << 61


@click.command()
@click.argument("program", metavar="PROGRAM")
@ENTRY
@click.option("--profile", default=None, help="Machine: atlas-v1 (default), atlas-v0, or a .toml.")
@click.option(
    "--mem",
    "memory",
    multiple=True,
    metavar="FILE@ADDR",
    help="Place a file in DRAM before the run; FILE@vmem:ADDR for VMEM. Repeatable.",
)
@click.option(
    "--dump",
    "dumps",
    multiple=True,
    metavar="ADDR:BYTES=FILE",
    help="Write memory to a file after the run. Repeatable.",
)
@click.option(
    "--expect",
    "expectations",
    multiple=True,
    metavar="FILE@ADDR[:rtol,atol]",
    help="Require memory to hold this array after the run: bit by bit, or within "
    "atol + rtol*|expected|. Repeatable.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="WORDS",
    help="Hazards: fault, stall, record. Initial state: zero, poison, random[=SEED]. "
    "Transfers: dma=exact, dma=early, dma=late. Separate with commas.",
)
@click.option("--compat", is_flag=True, help="Reproduce the accidents of the public model.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=None,
    help="Start from random memory and registers with this seed.",
)
@click.option(
    "--machine",
    type=click.Choice(["native", "python"]),
    default=None,
    help="Which simulator; native unless it is not built.",
)
@click.option(
    "--max-cycles",
    type=click.IntRange(0, _FOREVER),
    default=None,
    metavar="N",
    help="Stop after N ticks.",
)
@click.option(
    "--stop-at",
    default=None,
    metavar="CYCLE|LABEL",
    help="Stop after a tick, or before the instruction at a label.",
)
@click.option(
    "--break",
    "breaks",
    multiple=True,
    metavar="LABEL|INDEX[@N]",
    help="Stop before an instruction (the N-th time) and show the registers. Repeatable.",
)
@click.option("--registers", is_flag=True, help="Show scalar and scale registers after the run.")
@click.option(
    "--trace",
    "trace_file",
    default=None,
    metavar="FILE",
    help="Write a trace for ui.perfetto.dev; Chrome JSON if FILE ends in .json.",
)
@click.option(
    "--timeline",
    "timeline_file",
    default=None,
    metavar="FILE.svg",
    help="Draw the run as a picture.",
)
@click.option(
    "--trace-window", default=None, metavar="START:END", help="Trace and draw only these ticks."
)
@click.option(
    "--stats/--no-stats",
    default=True,
    help="Print tables of units, DMA, lost cycles and hottest instructions.",
)
@click.option(
    "--hottest",
    type=click.IntRange(0, 1000),
    default=8,
    metavar="N",
    help="How many of the hottest instructions to list.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def command(
    program: str,
    entry: str | None,
    profile: str | None,
    memory: tuple[str, ...],
    dumps: tuple[str, ...],
    expectations: tuple[str, ...],
    policies: tuple[str, ...],
    compat: bool,
    seed: int | None,
    machine: str | None,
    max_cycles: int | None,
    stop_at: str | None,
    breaks: tuple[str, ...],
    registers: bool,
    trace_file: str | None,
    timeline_file: str | None,
    trace_window: str | None,
    stats: bool,
    hottest: int,
    as_json: bool,
) -> int:
    """Run PROGRAM on the simulated Atlas machine.

    PROGRAM is assembly (.S), the text form (.txt), .hex, .bin or .json; or a compiled
    model (.twb), which runs with its weights on random inputs. FILE is .npy,
    .safetensors#NAME, or raw bytes; ADDR is a DRAM byte address, vmem:ADDR one in VMEM.

    Exits 0 when the program ran and every --expect holds, 1 when values differ or it
    faulted, 2 for bad input.
    """
    if is_bundle(program):
        given = {
            "--profile": profile, "--mem": memory, "--dump": dumps, "--expect": expectations,
            "--policy": policies, "--compat": compat, "--stop-at": stop_at, "--break": breaks,
            "--registers": registers, "--trace": trace_file, "--timeline": timeline_file,
            "--trace-window": trace_window,
        }  # fmt: skip
        return simulate_bundle(
            program, machine, seed or 0, max_cycles, stats, hottest, as_json, given, entry
        )
    if entry is not None:
        raise click.UsageError("--entry is for compiled models")
    from tilewright.targets.atlas import placement
    from tilewright.targets.atlas.files import profile_for, read_program
    from tilewright.targets.atlas.machines import native_missing
    from tilewright.targets.atlas.policy import Policy
    from tilewright.targets.atlas.simulate import Stop, dump, simulate
    from tilewright.targets.atlas.wrapping import wrapping_warnings

    chosen = profile_for(program, profile)
    policy = Policy.parse(",".join(policies))
    if seed is not None:
        policy = replace(policy, initial="random", seed=seed)
    policy = replace(policy, compat=compat or policy.compat)
    code = read_program(program, chosen)
    for warning in wrapping_warnings(code):
        click.echo(f"warning {warning}", err=True)
    placements = [placement.parse_memory(text) for text in memory]
    ranges = [placement.parse_dump(text) for text in dumps]
    wanted = [placement.parse_expectation(text) for text in expectations]
    placement.check_places(chosen, placements, ranges, wanted)
    stops = [_stop(text, code.labels, len(code)) for text in breaks]
    stop_cycle = None
    if stop_at is not None:
        if stop_at in code.labels:
            stops.append(Stop(code.labels[stop_at], 1, "until"))
        else:
            stop_cycle = _tick(stop_at, "--stop-at", code.labels)
    for output in (trace_file, timeline_file):
        if output is not None:
            _check_output(output)
    if timeline_file is not None and not timeline_file.endswith(".svg"):
        raise TilewrightError(
            "TW4002",
            f"cannot write {timeline_file!r}: pictures are drawn as SVG only",
            hint="name a file ending in .svg",
        )
    traced: bool | tuple[int, int] = trace_file is not None or timeline_file is not None
    if trace_window is not None:
        if not traced:
            raise TilewrightError(
                "TW4003", "--trace-window needs --trace or --timeline", hint="name a file to write"
            )
        traced = _window(trace_window)
    if machine is None and (reason := native_missing()):
        click.echo(f"note: the native machine is not built ({reason}); using python", err=True)

    with _Progress(max_cycles) as progress:
        result = simulate(
            code,
            profile=chosen,
            memory=placements,
            expect=wanted,
            policy=policy,
            machine=machine,
            max_cycles=max_cycles,
            stop_cycle=stop_cycle,
            stops=stops,
            trace=traced,
            progress=progress,
        )
    for what in ranges:
        dump(result, what)
    if trace_file or timeline_file:
        _say_if_long(len(result.machine.trace))
        model = result.trace
        if trace_file:
            from tilewright.trace.perfetto import write_trace

            write_trace(model, trace_file)
        if timeline_file:
            from tilewright.trace.timeline import write_timeline

            write_timeline(model, timeline_file)
    if as_json:
        shown = result.to_json(hottest)
        if registers or result.halted == "breakpoint":
            shown["registers"] = result.registers()
        print_json(shown)
    else:
        from tilewright.targets.atlas.cli.sim_output import print_result

        files = [
            f for f in (trace_file, timeline_file, *(r.file.partition("#")[0] for r in ranges)) if f
        ]
        print_result(result, stats, hottest, registers, files)
    return 0 if result.ok else 1


def _stop(text: str, labels: dict[str, int], count: int):
    """`loop`, `12` or `loop@3` → where to stop."""
    from tilewright.targets.atlas.simulate import Stop

    name, mark, times = text.partition("@")
    if mark and not (
        times.isascii() and times.isdigit() and int(times[:18]) > 0 and len(times) < 18
    ):
        raise TilewrightError(
            "TW3020", f"{text!r} is no breakpoint", hint="write LABEL@N, N from 1"
        )
    arrivals = int(times) if mark else 1
    if name in labels:
        if labels[name] >= count:
            raise TilewrightError("TW3021", f"no instruction follows the label {name!r}")
        return Stop(labels[name], arrivals)
    if not (name.isascii() and name.isdigit()):
        known = ", ".join(list(labels)[:8]) or "none"
        raise TilewrightError("TW3020", f"there is no label {name!r}", hint=f"labels are: {known}")
    if len(name) > 18 or int(name) >= count:
        raise TilewrightError(
            "TW3021", f"there is no instruction {name[:20]}; the program has {count}"
        )
    return Stop(int(name), arrivals)


def _tick(text: str, option: str, labels: dict[str, int]) -> int:
    clean = text.replace("_", "").replace(",", "")
    if not (clean.isascii() and clean.isdigit() and len(clean) < 18):
        known = ", ".join(list(labels)[:8]) or "none"
        raise TilewrightError(
            "TW3022",
            f"{option} {text!r} is neither a tick nor a label",
            hint=f"labels are: {known}",
        )
    return int(clean)


def _window(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9_]{0,18}):([0-9_]{0,18})", text)
    try:
        if match is None:
            raise ValueError
        first = int(match[1]) if match[1] else 0
        last = int(match[2]) if match[2] else _FOREVER
        if last < first:
            raise ValueError
    except ValueError:
        raise TilewrightError(
            "TW4003",
            f"--trace-window {text!r} is no range of ticks",
            hint="write START:END, for example 10000:12000; either may be left out",
        ) from None
    return first, last


def _check_output(name: str) -> None:
    path = Path(name)
    if "\0" in name or os.path.isdir(path) or not os.path.isdir(path.parent):
        what = (
            "it is a folder" if os.path.isdir(path) else f"there is no folder {str(path.parent)!r}"
        )
        raise TilewrightError("TW4002", f"cannot write {name!r}: {what}")


def _say_if_long(rows: int) -> None:
    """Writing a trace takes about a second for 40,000 instructions."""
    if rows > 200_000 and sys.stderr.isatty():
        text = f"writing {rows:,} instructions; --trace-window START:END keeps a part of the run"
        click.echo(text, err=True)


class _Progress(StatusLine):
    """A line on the terminal for runs that take longer than a moment."""

    def __init__(self, limit: int | None) -> None:
        super().__init__(after=1.0)
        self._of = f" of {limit:,}" if limit is not None else ""

    def __call__(self, tick: int) -> None:
        self.say(f"tick {tick:,}{self._of}, {tick / max(self.spent, 1):,.0f} ticks/s")
