"""`tilewright kernels`: the kernel library, listed, shown, measured, checked and exported."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import print_json
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.targets.atlas.kernels.check import Check
    from tilewright.targets.atlas.kernels.measure import Measurement

_PROFILE_HELP = "Machine profile or profile file."
_SHAPE_HELP = "Sizes by name, such as M=64,N=96; the others keep their defaults."


@click.group("kernels", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The kernel library: what there is, how fast it is, whether it is right."""


def _sizes(text: str | None) -> dict[str, int]:
    """`M=64,N=96` as a dictionary."""
    sizes: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in (text or "").split(","))):
        match = re.fullmatch(r"([A-Za-z]\w*)\s*=\s*(\d{1,9})", part)
        if match is None:
            raise TilewrightError(
                "TW0050", f"{part!r} is not a size", hint="write sizes as M=64,N=96"
            )
        sizes[match[1]] = int(match[2])
    return sizes


@command.command("list")
@click.option("--cases", is_flag=True, help="List the published programs to measure against.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_kernels(cases: bool, as_json: bool) -> None:
    """Name, parameters and meaning of every kernel."""
    from tilewright.targets.atlas.kernels.cases import CASES
    from tilewright.targets.atlas.kernels.registry import ENTRIES

    if cases:
        rows = [vars(case) for case in CASES]
        if as_json:
            print_json(rows)
            return
        for case in CASES:
            sizes = ",".join(f"{k}={v}" for k, v in case.sizes.items())
            click.echo(f"{case.profile}  {case.name:<46}{case.kernel:<22}{sizes:<24}{case.cycles}")
        return
    if as_json:
        print_json(
            [
                {
                    "kernel": e.name,
                    "operator": e.operator,
                    "signature": e.signature(),
                    "doc": e.doc,
                    "sizes": dict(e.sizes),
                    "cases": [c.name for c in CASES if c.kernel == e.name],
                }
                for e in ENTRIES.values()
            ]
        )
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("kernel", "parameters", "meaning"):
        table.add_column(title, style="bold" if title == "kernel" else "", overflow="fold")
    for e in ENTRIES.values():
        table.add_row(e.name, e.signature().replace("[", "\\["), e.doc.replace("[", "\\["))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@command.command("show")
@click.argument("name")
@click.option("--profile", default="atlas-v1", show_default=True, help=_PROFILE_HELP)
@click.option("--shape", "shape", metavar="SIZES", help=_SHAPE_HELP)
@click.option("--asm", "assembly", is_flag=True, help="Print the program as assembly.")
@click.option("--ir", "intermediate", is_flag=True, help="Print the npu_schedule IR.")
@click.option("--source", "source", is_flag=True, help="Print the kernel as its author wrote it.")
@click.option(
    "--timeline",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write a picture of one run, as SVG; NAME.svg if no file is given.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(
    name: str,
    profile: str,
    shape: str | None,
    assembly: bool,
    intermediate: bool,
    source: bool,
    timeline: str | None,
    as_json: bool,
) -> None:
    """One kernel: parameters, layouts, cycles, and its program if asked for."""
    from tilewright.targets.atlas.kernels.measure import measure
    from tilewright.targets.atlas.kernels.registry import entry

    which, sizes = entry(name), _sizes(shape)
    if assembly or intermediate or source:
        if source:
            click.echo(_source(which, name), nl=False)
        compiled = which.build(profile, sizes) if assembly or intermediate else None
        if intermediate:
            click.echo(_ir(compiled, name))
        if assembly:
            from tilewright.targets.atlas.files import format_program

            assert compiled is not None
            form = "assembly" if compiled.profile.pc_step == 4 else "text"
            click.echo(format_program(compiled.program, form, compiled.profile).decode(), nl=False)
    else:
        row = measure(which, profile, sizes)
        if as_json:
            print_json({"signature": which.signature(sizes), "doc": which.doc, **row.to_json()})
        else:
            _show_one(which, profile, sizes, row)
    if timeline is not None:
        path = timeline or f"{name}.svg"
        _timeline(which, profile, sizes, path)
        click.echo(f"wrote {path}", err=True)


def _source(which: Any, name: str) -> str:
    """The kernel as its author wrote it."""
    if which.made:
        from tilewright.targets.atlas.kernels.made_entries import MAKERS

        return inspect.getsource(MAKERS[name])
    if which.record is not None:
        from tilewright.targets.atlas.model.kernel_records import RECORDS

        options = json.dumps(which.record.options)
        maker = inspect.getsource(RECORDS[which.record.record].make)
        return f"# {name} is {which.record.record} with the options {options}\n{maker}"
    function = getattr(which.kernel, "function", None)
    if function is None:
        raise TilewrightError("TW0056", f"{name} is not written in the tile language")
    return inspect.getsource(function)


def _ir(compiled: Any, name: str) -> str:
    if compiled.module is None:
        raise TilewrightError("TW0056", f"{name} is not written in the tile language: it has no IR")
    return str(compiled.ir)


def _show_one(which: Any, profile: str, sizes: dict[str, int], row: Measurement) -> None:
    compiled = which.build(profile, sizes)
    click.echo(f"{which.name}: {which.doc}")
    click.echo(f"  {which.signature(sizes)}")
    click.echo(f"{compiled.profile.name}:")
    for name, layout in compiled.layouts.items():
        way = "out" if name in compiled.outputs else "in"
        shape = "x".join(map(str, layout.given))
        at = compiled.bases[name]
        click.echo(
            f"  {way:<4}{name:<14}{layout.dtype:<6}{shape:<14}{_order(layout):<26}"
            f"{layout.bytes:>9} bytes at {at:#x}"
        )
    proven = ", proven optimal" if row.optimal else ""
    click.echo(
        f"  {row.cycles} cycles, bound {row.bound} ({row.binding}), ratio {row.ratio:.3f}{proven}"
    )
    busy = ", ".join(f"{unit} {100 * n / row.cycles:.0f} %" for unit, n in row.busy.items() if n)
    click.echo(f"  busy: {busy}; {row.instructions} instructions")


def _order(layout: Any) -> str:
    """How a tensor lies in DRAM."""
    if layout.arrangement is None:
        return layout.order
    return f"{layout.order} of {'x'.join(map(str, layout.shape))}"


def _timeline(which: Any, profile: str, sizes: dict[str, int], path: str) -> None:
    from tilewright.targets.atlas.simulate import simulate
    from tilewright.trace.timeline import write_timeline

    compiled = which.build(profile, sizes)
    memory: dict[int | str, Any] = {}
    for name, codes in zip(which.inputs, which.sample(sizes), strict=True):
        if name in compiled.layouts:
            memory[compiled.bases[name]] = compiled.layouts[name].pack(codes)
    for address, raw in compiled.data:
        memory[address] = raw
    result = simulate(compiled.program, profile=compiled.profile, memory=memory, trace=True)
    write_timeline(result.trace, path)


@command.command("bench")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--case", metavar="NAME", help="Only this published program.")
@click.option("--profile", help="Only this machine profile.")
@click.option("--shape", metavar="SIZES", help=_SHAPE_HELP)
@click.option(
    "--exact", is_flag=True, help="Give short kernels to a solver: better order, proven least."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(
    names: tuple[str, ...],
    case: str | None,
    profile: str | None,
    shape: str | None,
    exact: bool,
    as_json: bool,
) -> None:
    """Cycles of kernels beside their lower bound and published programs.

    Without names, every kernel. A kernel runs on the sizes of the published programs that do
    the same work, or on its default sizes where there are none.
    """
    from tilewright.targets.atlas.kernels.measure import measure, selected

    chosen = list(selected(names, case, profile, _sizes(shape)))
    rows = [measure(e, machine, s, c, exact) for e, machine, s, c in _progress(chosen, "measuring")]
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        _print_rows(rows)


def _progress(items: list, label: str) -> Any:
    """The items, with a progress bar on a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, label, console=Console(stderr=True), transient=True)


def _print_rows(rows: list[Measurement]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", no_wrap=True)
    table.add_column("case or sizes", overflow="fold")
    table.add_column("profile", no_wrap=True)
    for title in ("cycles", "bound", "ratio"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    for title in ("DMA", "MXU", "VPU", "instr.", "published"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        shapes = " ".join("x".join(map(str, shape)) for shape in row.shapes.values())
        matrix = max(row.busy.get("MXU0", 0), row.busy.get("MXU1", 0))
        busy = [row.busy.get("DMA", 0), matrix, row.busy.get("VPU", 0)]
        table.add_row(
            row.kernel, row.case or shapes, row.profile, str(row.cycles), str(row.bound),
            f"{row.ratio:.3f}", "optimal" if row.optimal else "", row.binding,
            *(f"{100 * ticks / row.cycles:.0f} %" for ticks in busy),
            str(row.instructions), "" if row.reference_cycles is None else str(row.reference_cycles),
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 180).print(table)
    for profile in dict.fromkeys(row.profile for row in rows):
        own = [row.ratio for row in rows if row.profile == profile]
        mean = math.exp(sum(map(math.log, own)) / len(own))
        click.echo(
            f"{profile}: {len(own)} rows, geometric mean {mean:.4f} times the bound, "
            f"largest {max(own):.4f}"
        )


@command.command("export")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--profile", default="atlas-v0", show_default=True, help=_PROFILE_HELP)
@click.option(
    "-o", "--output", default="-", metavar="FILE", help="Where to write; - is standard output."
)
def export(names: tuple[str, ...], profile: str, output: str) -> None:
    """Write single-tile kernels as a manifest: instructions, patch points, layouts, cycles.

    Every DRAM address of an exported kernel is made by a lui and an addi of its own, so the kernel
    can be moved anywhere. `tilewright opt` reads such manifests.
    """
    import json

    from tilewright.io.file_access import write_atomically
    from tilewright.targets.atlas.kernels.registry import entry
    from tilewright.targets.atlas.manifest.manifest_export import export_manifest

    chosen = [entry(name).name for name in names]
    text = json.dumps(export_manifest(profile, chosen), indent=1) + "\n"
    if output == "-":
        click.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())


@command.command("check")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--profile", help="Only this machine profile; both by default.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_kernels(names: tuple[str, ...], profile: str | None, seed: int, as_json: bool) -> None:
    """Compare every kernel with its reference, bit for bit, and lint its programs.

    Exit code 1 if anything differs.
    """
    from tilewright.targets.atlas.kernels.check import check
    from tilewright.targets.atlas.kernels.measure import PROFILES
    from tilewright.targets.atlas.kernels.registry import ENTRIES, entry

    chosen = [entry(name) for name in names or ENTRIES]
    machines = [profile] if profile else list(PROFILES)
    pairs = [(e, machine) for e in chosen for machine in machines]
    rows = [row for e, machine in _progress(pairs, "checking") for row in check(e, machine, seed)]
    bad = [row for row in rows if not row.ok]
    if as_json:
        print_json([_check_json(row) for row in rows])
    else:
        for row in bad:
            click.echo(f"FAIL {row.kernel} {row.profile} {row.what}: {row.problem}")
        click.echo(f"{len(rows) - len(bad)} of {len(rows)} checks hold, {len(chosen)} kernels")
    if bad:
        sys.exit(1)


@command.command("options")
@click.argument("names", nargs=-1, metavar="[NAME]…")
def options(names: tuple[str, ...]) -> None:
    """The options of the kernels of whole models, as npu_kernel.launch takes them."""
    from tilewright.targets.atlas.model.kernel_options_page import render

    click.echo(render(names), nl=False)


def _check_json(row: Check) -> dict[str, Any]:
    return {
        "kernel": row.kernel,
        "profile": row.profile,
        "check": row.what,
        "sizes": dict(row.sizes),
        "cycles": row.cycles,
        "ok": row.ok,
        "problem": row.problem,
        "float64_error": row.worst,
    }
