"""`tilewright coral`: programs of the Coral core on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.coral.machines import DDR, EXTERNAL, MACHINES


@click.group()
def command() -> None:
    """Programs of the Coral NPU: run any ELF, list it."""


def _assignments(values: tuple[str, ...], option: str) -> list[tuple[str, Path]]:
    pairs = []
    for value in values:
        symbol, separator, file = value.partition("=")
        if not separator or not symbol or not file:
            raise TilewrightError("TW5007", f"{option} {value} is not SYMBOL=FILE")
        pairs.append((symbol, Path(file)))
    return pairs


def _bytes_of(path: Path) -> bytes:
    try:
        if path.suffix == ".npy":
            return np.ascontiguousarray(np.load(path, allow_pickle=False)).tobytes()
        return path.read_bytes()
    except (OSError, ValueError, EOFError) as error:
        said = getattr(error, "strerror", None) or error
        raise TilewrightError(
            "TW0010", f"cannot read the file: {said}", Location(str(path))
        ) from None


@command.command("sim")
@click.argument("program", type=click.Path(dir_okay=False))
@click.option("--in", "inputs", multiple=True, metavar="SYMBOL=FILE", help=".npy or raw bytes")
@click.option("--out", "outputs", multiple=True, metavar="SYMBOL=FILE", help=".npy (bytes) or raw")
@click.option("--machine", default="coral", show_default=True, help=f"one of {', '.join(MACHINES)}")
@click.option(
    "--max-instructions", type=click.IntRange(1), default=2_000_000_000, show_default=True
)
@click.option("--profile-pc", is_flag=True, help="counts and estimated cycles of every instruction")
@click.option("--no-cycles", is_flag=True, help="without the cycle model, ten times faster")
@click.option("--trap", type=click.Choice(["stop", "vector"]), default="stop", show_default=True)
@click.option("--agnostic-ones", is_flag=True, help="agnostic vector elements become ones")
@click.option(
    "--check", "checks", multiple=True, type=click.Choice(["uninitialised", "readonly", "fused"])
)
@click.option(
    "--external-memory", is_flag=True, help="EXTMEM and DDR answer (cycles are not estimated)"
)
@click.option("--json", "as_json", is_flag=True, help="one JSON document")
def sim(
    program: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    machine: str,
    max_instructions: int,
    profile_pc: bool,
    no_cycles: bool,
    trap: str,
    agnostic_ones: bool,
    checks: tuple[str, ...],
    external_memory: bool,
    as_json: bool,
) -> int:
    """Run PROGRAM, an ELF file, until the core halts or faults.

    Exit code 0: halted without fault and main returned 0; 1: anything else; 2: bad input.
    """
    from tilewright.targets.coral.simulator import CoralSimulator, RunOptions

    options = RunOptions(
        timing=not no_cycles,
        trap=trap,
        agnostic_ones=agnostic_ones,
        check_uninitialised="uninitialised" in checks,
        check_readonly="readonly" in checks,
        check_fused="fused" in checks,
        external=(EXTERNAL, DDR) if external_memory else (),
    )
    simulator = CoralSimulator.load(program, machine, options)
    for symbol, path in _assignments(inputs, "--in"):
        simulator.write(symbol, _bytes_of(path))
    wanted = _assignments(outputs, "--out")
    for symbol, _ in wanted:
        simulator.elf.symbol(symbol)
    outcome = simulator.run(max_instructions)
    for symbol, path in wanted:
        value = simulator.read(symbol)
        try:
            if path.suffix == ".npy":
                np.save(path, value)
            else:
                path.write_bytes(value.tobytes())
        except OSError as error:
            raise TilewrightError(
                "TW0011", f"cannot write the file: {error.strerror or error}", Location(str(path))
            ) from None
    from tilewright.targets.coral.profile_text import profile_rows

    profile = profile_rows(simulator) if profile_pc else None
    if as_json:
        document: dict[str, Any] = {"program": program, "machine": machine, **outcome.to_json()}
        if outcome.fault:
            document["recent_pcs"] = simulator.core.recent_pcs()
        if profile is not None:
            document["profile"] = profile
        click.echo(json.dumps(document, indent=2))
    else:
        _print(outcome, profile)
    return 0 if outcome.ok else 1


def _print(outcome: Any, profile: list[dict[str, Any]] | None) -> None:
    from tilewright.targets.coral.simulator import NEVER_RETURNED, TIMING_TABLE

    verdict = "ok" if outcome.ok else "failed"
    if outcome.fault:
        verdict = f"fault: {outcome.fault}"
    click.echo(f"{verdict}")
    if outcome.ret is not None:
        note = " (main did not return)" if outcome.ret == NEVER_RETURNED else ""
        click.echo(f"ret           {outcome.ret:#x}{note}")
    click.echo(f"instructions  {outcome.instructions:,}")
    if outcome.cycles is not None:
        click.echo(f"cycles        {outcome.cycles:,} estimated (table {TIMING_TABLE})")
    if outcome.region_instructions is not None and outcome.ok:
        cycles = f", {outcome.region_cycles:,} cycles" if outcome.region_cycles else ""
        click.echo(f"main          {outcome.region_instructions:,} instructions{cycles}")
    if outcome.stack_low is not None:
        click.echo(f"lowest stack  {outcome.stack_low:#x}")
    for name, (read, written) in outcome.traffic.items():
        if read or written:
            click.echo(f"{name:<13} {read:,} bytes read, {written:,} written")
    for name, (instructions, cycles) in outcome.steps.items():
        click.echo(f"  {name:<28} {instructions:>12,} instructions {cycles:>12,} cycles")
    for row in profile or ():
        click.echo(
            f"{row['pc']:8x} {row['count']:>12,} {row['cycles']:>12,}  {row['function'] or '':<20} {row['text']}"
        )


@command.command("compile")
@click.argument("model")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="the file to write")
@click.option("--machine", default="coral", show_default=True, help=f"one of {', '.join(MACHINES)}")
@click.option("--emit", type=click.Choice(["elf", "c", "asm"]), default="elf", show_default=True)
@click.option("--int8", is_flag=True, help="quantise a float model")
@click.option(
    "--ranges",
    default="max",
    show_default=True,
    help="what int8 codes cover of what calibration saw: max, mse, percentile or percentile:P",
)
@click.option(
    "--calibrate",
    type=click.Path(exists=True, dir_okay=False),
    help=".npz of samples: one array per input, samples first",
)
@click.option("--stack", type=click.IntRange(64), default=2048, show_default=True)
@click.option("--const-in-itcm", is_flag=True, help="constants in instruction memory")
@click.option(
    "--dump-phases", type=click.Path(file_okay=False), help="a directory for every stage's text"
)
@click.option("--no-verify", is_flag=True, help="do not run the result against its reference")
@click.option("--json", "as_json", is_flag=True, help="one JSON document")
def compile_command(
    model: str,
    output: str | None,
    machine: str,
    emit: str,
    int8: bool,
    ranges: str,
    calibrate: str | None,
    stack: int,
    const_in_itcm: bool,
    dump_phases: str | None,
    no_verify: bool,
    as_json: bool,
) -> int:
    """Compile MODEL (StableHLO or linalg text, ONNX, a PyTorch program, module:factory) to one ELF."""
    from tilewright.frontend.models import import_model
    from tilewright.targets.coral.compile import CoralOptions, compile_model
    from tilewright.targets.coral.toolchain import assembly

    if ranges != "max" and not int8:
        raise click.UsageError("--ranges is about codes: add --int8")
    precision = "int8" if int8 else "keep"
    options = CoralOptions(precision, stack=stack, constants_in_code=const_in_itcm, ranges=ranges)
    imported = import_model(model)
    samples = _samples(calibrate, [spec.name for spec in imported.inputs]) if calibrate else []
    say = None if as_json else (lambda text: click.echo(f"{text} …", err=True))
    made = compile_model(imported, machine, options, samples, say)
    verdict = None if no_verify else made.verify()
    contents = {"elf": lambda: made.build.elf, "c": lambda: made.source.encode()}
    contents["asm"] = lambda: assembly(made.source, made.machine).encode()
    if output:
        _write(Path(output), contents[emit]())
    if dump_phases:
        Path(dump_phases).mkdir(parents=True, exist_ok=True)
        for name, text in made.phases.items():
            _write(Path(dump_phases) / (name if "." in name else f"{name}.txt"), text.encode())
        _write(Path(dump_phases) / "5-model.elf", made.build.elf)
    if as_json:
        document: dict[str, Any] = {
            "model": model,
            "machine": machine,
            "sizes": made.sizes,
            "fits": made.fits,
            "sqnr_db": made.sqnr,
            "plan": made.storage.plan.to_json(),
            "verified": verdict
            and {"ok": verdict.ok, "cases": verdict.cases, "text": verdict.text},
        }
        for stem, values in (("inputs", made.program.inputs), ("outputs", made.program.outputs)):
            document[stem] = [
                {
                    "symbol": f"{stem[:-1]}_{k}",
                    "shape": list(v.shape),
                    "dtype": v.dtype,
                    "scale": v.scale,
                    "zero": v.zero,
                }
                for k, v in enumerate(values)
            ]
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(made.budget.text_table())
        for name, level in made.sqnr.items():
            click.echo(f"{name}: {level:.1f} dB against f32")
        if verdict:
            click.echo(
                f"{'verified' if verdict.ok else 'WRONG'}: {verdict.cases} cases, {verdict.text}"
            )
    return 0 if verdict is None or verdict.ok else 1


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TilewrightError(
            "TW0011", f"cannot write the file: {error.strerror or error}", Location(str(path))
        ) from None


def _samples(path: str, names: list[str]) -> list[list[np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in names]
    except (OSError, ValueError, KeyError) as error:
        raise TilewrightError(
            "TW5008",
            f"the samples cannot be read: {error}",
            Location(path),
            f"an .npz with {', '.join(names)}",
        ) from None
    return [list(sample) for sample in zip(*arrays, strict=False)]


@command.command("report")
@click.argument("model")
@click.option("--machine", default="coral", show_default=True, help=f"one of {', '.join(MACHINES)}")
@click.option("--int8", is_flag=True, help="quantise a float model")
@click.option(
    "--top", type=click.IntRange(1), default=12, show_default=True, help="how many hot instructions"
)
@click.option(
    "--annotate", is_flag=True, help="every instruction with its C line, count and cycles"
)
def report(model: str, machine: str, int8: bool, top: int, annotate: bool) -> None:
    """Budget, cycles per op, and where the time goes, for MODEL on random inputs.

    MODEL is a bundle (.twb), whose programs are reported one after the other, or a model to compile.
    """
    from tilewright.targets.coral.edges import quantised
    from tilewright.targets.coral.simulator import CoralSimulator, RunOptions

    if model.endswith(".twb"):
        from tilewright.targets.coral.artifact import programs_of
        from tilewright.targets.coral.profile_text import budget_lines

        for entry, core in programs_of(model):
            click.echo(f"{entry.name} for {core.name}")
            click.echo("\n".join(budget_lines(entry.sizes)))
            simulator = CoralSimulator(entry.image, core, RunOptions(external=core.external))
            _report(simulator, entry.program, quantised, entry.source, top, annotate)
        return
    from tilewright.frontend.models import import_model
    from tilewright.targets.coral.compile import CoralOptions, compile_model

    made = compile_model(import_model(model), machine, CoralOptions("int8" if int8 else "keep"))
    click.echo(made.budget.text_table())
    _report(made.simulator(), made.program, quantised, made.source, top, annotate)


def _report(
    simulator: Any, program: Any, quantised: Any, source: str, top: int, annotate: bool
) -> None:
    from tilewright.targets.coral.compile import random_inputs
    from tilewright.targets.coral.profile_text import (
        annotated,
        hot_lines,
        profile_rows,
        time_lines,
    )

    for index, array in enumerate(random_inputs(program, 0)):
        simulator.write(f"input_{index}", quantised(program.inputs[index], array))
    outcome = simulator.run()
    rows, lines = profile_rows(simulator), source.splitlines()
    shown = ["", *time_lines(outcome), "", *hot_lines(rows, lines, top)]
    if annotate:
        shown += annotated(rows, lines)
    click.echo("\n".join(shown))


@command.command("disasm")
@click.argument("program", type=click.Path(dir_okay=False))
def disasm(program: str) -> None:
    """List the instructions of PROGRAM, an ELF file."""
    from tilewright.targets.coral.disassembly import listing
    from tilewright.targets.coral.elf import read_elf

    function = None
    for line in listing(read_elf(program)):
        if line.function != function:
            function = line.function
            click.echo(f"\n{line.address:08x} <{function}>:")
        click.echo(f"{line.address:8x}: {line.word:08x}  {line.text}")
