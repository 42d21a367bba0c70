"""`tilewright run`: run a compiled model on the simulated machine."""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np

from tilewright.cli import print_json
from tilewright.cli.bundle_files import (
    INPUT_HELP,
    StepProgress,
    failed,
    plan_outputs,
    read_inputs,
    write_outputs,
)
from tilewright.cli.entry_files import chosen, entry_option, machine_option
from tilewright.errors import Location, TilewrightError
from tilewright.targets.compiled_model import CompiledEntries

HELP = """Run the compiled model MODEL.twb (a bundle) on the simulated machine.

\b
  tilewright run block.twb --input x=x.npy --output y=y.npy
  tilewright run block.twb --seed 0 --steps
  tilewright run block.twb --input x=random --input mask=mask.npy --output results/
  tilewright run policy.twb --entry prefix --seed 0 --save-state here.tws
  tilewright run policy.twb --entry denoise --seed 0 --state here.tws
  tilewright run block.twb --seed 0 --stop-after 100000 --snapshot half.twr
  tilewright run block.twb --resume half.twr --output y=y.npy

Arrays are checked against what the model takes: float32 is rounded where it takes a narrower
type, everything else has to have the type the model names. With --snapshot, Ctrl-C stops the run
where it is and writes the file. Exits 0, 1 if the program faults or does not end, 2 for bad input,
130 when it was interrupted.
"""


@click.command("run", help=HELP)
@click.argument("bundle", metavar="MODEL.twb")
@entry_option
@click.option("--input", "-i", "inputs", multiple=True, metavar="NAME=FILE", help=INPUT_HELP)
@click.option(
    "--state",
    "state_file",
    default=None,
    metavar="FILE.tws",
    help="Begin with the state that an earlier run saved.",
)
@click.option(
    "--save-state",
    "save_state",
    default=None,
    metavar="FILE.tws",
    help="Write the state that entry points share after the run.",
)
@click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    metavar="NAME=FILE|DIR",
    help="Where results go: NAME=FILE.npy, a folder for all of them, or FILE.safetensors. Repeatable.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=None,
    help="Random numbers for the inputs that are not given.",
)
@machine_option
@click.option(
    "--max-cycles", type=click.IntRange(1, 1 << 61), default=None, help="Give up after so many."
)
@click.option(
    "--snapshot",
    "snapshot_file",
    default=None,
    metavar="FILE.twr",
    help="Where a run that is stopped, by --stop-after or Ctrl-C, is written to go on from.",
)
@click.option(
    "--stop-after",
    type=click.IntRange(0, 1 << 61),
    default=None,
    metavar="CYCLES",
    help="Stop when the run has taken so many cycles, counted from its beginning.",
)
@click.option(
    "--resume",
    "resumed_file",
    default=None,
    metavar="FILE.twr",
    help="Go on with a run that was stopped: same results, same cycles as if it never had been.",
)
@click.option("--steps", is_flag=True, help="Print cycles and busiest unit of every step.")
@click.option(
    "--trace",
    "trace_file",
    default=None,
    metavar="FILE",
    help="Write a trace for ui.perfetto.dev (Chrome JSON if FILE ends in .json); runs once more.",
)
@click.option("--trace-window", default=None, metavar="START:END", help="Trace only these ticks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def command(
    bundle: str,
    entry: str | None,
    inputs: tuple[str, ...],
    state_file: str | None,
    save_state: str | None,
    outputs: tuple[str, ...],
    seed: int | None,
    machine: str | None,
    max_cycles: int | None,
    snapshot_file: str | None,
    stop_after: int | None,
    resumed_file: str | None,
    steps: bool,
    trace_file: str | None,
    trace_window: str | None,
    as_json: bool,
) -> int:
    from tilewright.cli.stopped_runs import Stops
    from tilewright.runtime.bundle import load_any
    from tilewright.runtime.entry_session import EntrySession
    from tilewright.runtime.session import Session
    from tilewright.runtime.summary import summarise

    window = _window(trace_window)
    if window is not None and trace_file is None:
        raise TilewrightError("TW4003", "--trace-window needs --trace", hint="name a file to write")
    begins = {"--input": inputs, "--seed": seed is not None, "--state": state_file}
    stops = Stops(stop_after, snapshot_file, resumed_file)
    stops.check(begins)
    program = load_any(bundle)
    if isinstance(program, CompiledEntries):
        entry = entry or stops.entry()
    model = chosen(program, entry, bundle)
    if (state_file or save_state) and not isinstance(program, CompiledEntries):
        raise TilewrightError(
            "TW3151", f"{model.name} has no entry points that share state", Location(bundle)
        )
    plan = plan_outputs(model, outputs)
    given = {} if stops.resumed else read_inputs(model, inputs, seed)
    began = time.perf_counter()
    try:
        with StepProgress("running") as progress:
            if isinstance(program, CompiledEntries):
                shared = EntrySession(program, machine, progress, max_cycles)
                if state_file is not None:
                    shared.load_state(state_file)
                session = shared[entry or next(iter(program.entries))]
            else:
                shared = None
                session = Session(model, machine, progress=progress, max_cycles=max_cycles)
            run = stops.run(session, given) if stops.used else None
            results = session.run(given) if run is None else run.outputs
    except TilewrightError as error:
        return failed(error, as_json)
    if run is not None and results is None:
        return stops.tell(session, run, bundle, as_json)
    assert results is not None
    seconds = time.perf_counter() - began
    files = write_outputs(plan, results)
    if save_state is not None and shared is not None:
        shared.save_state(save_state)
        files.append(save_state)
    if trace_file is not None:
        from tilewright.trace.perfetto import write_trace

        write_trace(session.trace(window), trace_file)
        files.append(trace_file)
    summary = summarise(model, session)
    if as_json:
        document = summary.to_json()
        document["seconds"] = seconds
        document["stopped"] = False
        document["results"] = {name: _figures(array) for name, array in results.items()}
        document["files"] = files
        document["calls"] = [call.to_json() for call in session.step_cycles]
        print_json(document)
        return 0
    if steps:
        click.echo(summary)
    else:
        ratio = f", {summary.cycles / summary.bound:.3f} x the bound" if summary.bound else ""
        click.echo(f"{model.name} on {model.artifact.target}: {summary.cycles:,} cycles{ratio}")
    for name, array in results.items():
        click.echo(f"{name}: {_shown(array)}")
    for file in files:
        click.echo(f"wrote {file}")
    return 0


def _window(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, mark, last = text.partition(":")
    numbers = all(part.isascii() and part.isdigit() and len(part) < 19 for part in (first, last))
    if not mark or not numbers or int(first) > int(last):
        raise TilewrightError(
            "TW4003", f"{text!r} is no range of ticks", hint="write START:END, such as 0:5000"
        )
    return int(first), int(last)


def _figures(array: np.ndarray) -> dict[str, Any]:
    """What one wants to know of an array at a glance."""
    from tilewright.runtime.verification import number
    from tilewright.targets.port_types import port_type

    found: dict[str, Any] = {"shape": list(array.shape), "dtype": port_type(array.dtype)}
    if array.size:
        wide = array.astype(np.float64)
        found |= {
            "smallest": number(float(wide.min())),
            "largest": number(float(wide.max())),
            "mean": number(float(wide.mean())),
            "finite": bool(np.isfinite(wide).all()),
        }
    return found


def _shown(array: np.ndarray) -> str:
    figures = _figures(array)
    shape = "x".join([*map(str, array.shape), figures["dtype"]])
    if not array.size:
        return shape
    first = ", ".join(f"{float(value):.5g}" for value in array.reshape(-1)[:4])
    more = ", ..." if array.size > 4 else ""
    return (
        f"{shape}, from {figures['smallest']:.5g} to {figures['largest']:.5g}, begins {first}{more}"
        if figures["finite"]
        else f"{shape}, NOT FINITE, begins {first}{more}"
    )
