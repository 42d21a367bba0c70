"""`tilewright xdna`: plan, check, simulate, draw and emit GEMM designs for the XDNA array."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.status_line import StatusLine
from tilewright.errors import TilewrightError
from tilewright.io.file_access import decode_text, read_bytes, write_atomically

if TYPE_CHECKING:
    from tilewright.targets.xdna.checker import Check
    from tilewright.targets.xdna.design import Design
    from tilewright.targets.xdna.report import GemmReport

_LIMIT = 1 << 26
_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.group("xdna", context_settings=_CONTEXT)
def command() -> None:
    """GEMM designs for the XDNA array: plan, check, simulate, emit."""


def _tile(text: str | None) -> tuple[int, int, int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d{1,6}\s*[,x]\s*\d{1,6}\s*[,x]\s*\d{1,6}\s*", text):
        raise TilewrightError("TW8080", f"{text!r} is not a tile", hint="write it as 64,64,64")
    m, k, n = (int(part) for part in re.split("[,x]", text))
    return m, k, n


@command.command("gemm")
@click.option("-M", "rows", type=int, required=True, help="Rows of A and C.")
@click.option("-K", "inner", type=int, required=True, help="Columns of A, rows of B.")
@click.option("-N", "columns_of_b", type=int, required=True, help="Columns of B and C.")
@click.option(
    "--device", default="npu2", show_default=True, help="npu2, npu1, npu2_4col …, or a TOML file."
)
@click.option(
    "--dtype", type=click.Choice(["i8", "ternary", "int4", "bf16"]), default="i8",
    show_default=True, help="Operands; ternary and int4 are packed weights.",
)  # fmt: skip
@click.option(
    "--out", type=click.Choice(["i32", "i16", "i8", "bf16", "f32"]),
    help="Result; default i32, or bf16 for bf16 operands.",
)  # fmt: skip
@click.option(
    "--tile", "tile_text", metavar="m,k,n", help="Tile of one core; searched if left out."
)
@click.option(
    "--policy", type=click.Choice(["auto", "stock", "wide_k", "resident_a", "resident_b"]),
    default="auto", show_default=True, help="What the memory tiles hold.",
)  # fmt: skip
@click.option("--b-layout", type=click.Choice(["row", "col"]), help="How B lies in DRAM.")
@click.option("--c-layout", type=click.Choice(["row", "col"]), default="row", show_default=True)
@click.option("--c-depth", type=click.Choice(["1", "2"]), help="Buffers for C in a core.")
@click.option("--columns", type=int, help="Array columns to use: 1, 2, 4 or 8.")
@click.option("--k-mt", type=int, help="Columns of A in one memory-tile object.")
@click.option("--sync", "synchronisation", help="previous_half, own_half, sequential, rolling.")
@click.option(
    "--stagger", is_flag=True, help="resident_b: columns change panels one after the other."
)
@click.option(
    "--stream-depth", type=int, metavar="2..8",
    help="Memory-tile buffers: resident_*, of the other operand (to 4; searched with the tile, else"
    " 2); wide_k, of row-major B (as many as an object of A lasts).",
)  # fmt: skip
@click.option("--shift", type=int, default=0, show_default=True, help="Shift of narrow outputs.")
@click.option("--rounding", default="half_even", show_default=True, help="Of narrow outputs.")
@click.option("--bandwidth", type=float, metavar="GBPS", help="DRAM bandwidth in GB/s.")
@click.option("--kernel-rate", type=float, metavar="MACS", help="Multiplies per cycle of a core.")
@click.option("--dispatch", type=float, default=0.0, metavar="SECONDS", help="Added to the time.")
@click.option(
    "--check", is_flag=True, help="Also run the deadlock check; exit 1 if any check fails."
)
@click.option(
    "--simulate", type=click.Choice(["values", "time"]), multiple=True,
    help="Run the design: its values against the reference, or its time. May be given twice.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random operands.")
@click.option(
    "--emit", "emit_to", metavar="DIR", help="Write MLIR, kernels, descriptors, pictures."
)
@click.option(
    "--syntax", type=click.Choice(["2025", "2026"]), default="2026", show_default=True,
    help="Spelling of the aie dialects.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def gemm(
    context: click.Context,
    rows: int,
    inner: int,
    columns_of_b: int,
    device: str,
    dtype: str,
    out: str | None,
    tile_text: str | None,
    policy: str,
    b_layout: str | None,
    c_layout: str,
    c_depth: str | None,
    columns: int | None,
    k_mt: int | None,
    synchronisation: str | None,
    stagger: bool,
    stream_depth: int | None,
    shift: int,
    rounding: str,
    bandwidth: float | None,
    kernel_rate: float | None,
    dispatch: float,
    check: bool,
    simulate: tuple[str, ...],
    seed: int,
    emit_to: str | None,
    syntax: str,
    as_json: bool,
) -> int:
    """Plan C = A x B on the array and say what it costs.

    Without --tile, or with --policy auto, tiles and policies are searched and the best are
    simulated in time.
    """
    from tilewright.targets.xdna.device import load_device
    from tilewright.targets.xdna.report import report_gemm

    for name, value in (("--kernel-rate", kernel_rate), ("--bandwidth", bandwidth)):
        if value is not None and not 0 < value < math.inf:
            raise TilewrightError("TW8080", f"{name} has to be positive and finite")
    if not 0 <= dispatch < math.inf:
        raise TilewrightError("TW8080", "--dispatch has to be finite and not negative")
    array = load_device(device)
    if bandwidth is not None:
        array = array.with_bandwidth(bandwidth * 1e9)
    options: dict[str, Any] = {
        "dtype": dtype, "out": out, "b_layout": b_layout, "c_layout": c_layout,
        "c_depth": int(c_depth) if c_depth else None, "columns": columns, "k_mt": k_mt,
        "synchronisation": synchronisation, "shift": shift, "rounding": rounding,
        "stream_depth": stream_depth,
        **({"stagger": True} if stagger else {}),
    }  # fmt: skip
    line = StatusLine(not as_json)
    with line:
        line.say("planning")
        design = _planned(
            rows,
            inner,
            columns_of_b,
            array,
            _tile(tile_text),
            policy,
            kernel_rate,
            options,
            line.say,
        )
        report = report_gemm(
            design, kernel_rate=kernel_rate, dispatch=dispatch, check=check,
            values="values" in simulate, time="time" in simulate, seed=seed,
            record=emit_to is not None, progress=line.say,
        )  # fmt: skip
    if emit_to is not None:
        _emit(report, Path(emit_to), syntax)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        _print(report, emit_to)
    return 0 if report.ok else 1


def _planned(
    M: int, K: int, N: int, array, tile, policy: str, kernel_rate: float | None, options, say
) -> Design:  # fmt: skip
    from tilewright.targets.xdna.gemm import plan_gemm
    from tilewright.targets.xdna.search import search

    if tile is None or policy == "auto":
        return search(
            M, K, N, array, tile=tile, policy=policy, kernel_rate=kernel_rate, progress=say,
            **options,
        ).design  # fmt: skip
    return plan_gemm(M, K, N, tile=tile, policy=policy, device=array, **options)


def _print(report: GemmReport, emitted: str | None) -> None:
    """The report for people."""
    data = report.to_json()
    bound = data["bound"]
    moved = data["dram_bytes"]
    rows = [
        ("design", f"{data['policy']}, tile {'x'.join(map(str, data['tile']))}, k_mt {data['k_mt']},"
                   f" {data['columns']} columns, C x{data['c_depth']}, B {data['b_layout']}-major"
                   f"{', panels staggered' if data['stagger'] else ''}"
                   f"{f', streams x{depth}' if (depth := data['stream_depth']) > 2 else ''}"),
        ("shape", f"{'x'.join(map(str, data['shape']))}, padded"
                  f" {'x'.join(map(str, data['padded']))}"),
        ("device", f"{data['device']} ({data['platform']}, {data['bandwidth']:g} GB/s)"),
        ("time", f"{data['seconds'] * 1e3:.3f} ms by {data['source']}: {data['tops']:.2f} TOPS"),
        ("bound", f"{max(bound.values()) * 1e3:.3f} ms by {data['binding']} (compute"
                  f" {bound['compute'] * 1e3:.3f}, channel {bound['channel'] * 1e3:.3f}, DRAM"
                  f" {bound['dram'] * 1e3:.3f})"),
        ("kernel", f"{data['kernel_macs_per_cycle']:.1f} MAC/cycle, II"
                   f" {data['kernel']['initiation_interval']} per step"),
        ("memory", f"core {data['l1_bytes']} B + {data['stack_bytes']} B stack, memory tiles"
                   f" {data['l2_bytes'] / 1024:.0f} KiB"),
        ("DRAM", f"A {moved['a'] / 1e6:.1f} MB, B {moved['b'] / 1e6:.1f} MB,"
                 f" C {moved['c'] / 1e6:.1f} MB"),
    ]  # fmt: skip
    if report.exact is not None:
        rows.append(("values", "equal to the reference" if report.exact else "WRONG"))
    for name, text in rows:
        click.echo(f"{name:<8}{text}")
    _print_checks(report.checks)
    for note in report.notes:
        click.echo(note)
    if emitted:
        click.echo(f"written to {emitted}")


def _print_checks(checks: list[Check]) -> None:
    for check in checks:
        mark = "ok " if check.ok else "BAD"
        detail = f"  {check.detail}" if check.detail else ""
        click.echo(f"  {mark} {check.name:<36}{check.used:>8g} of {check.limit:g}{detail}")


def _emit(report: GemmReport, folder: Path, syntax: str) -> None:
    """Everything a reader or another tool wants of a design, as files."""
    from tilewright.targets.xdna.kernel_source import kernel_source
    from tilewright.targets.xdna.mlir_emit import emit_mlir
    from tilewright.targets.xdna.pictures import dataflow_svg, timeline_svg
    from tilewright.targets.xdna.registers import descriptor_listing

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TilewrightError(
            "TW0010", f"cannot make the folder {folder}: {error.strerror}"
        ) from None
    design = report.design
    files = {
        "design.mlir": emit_mlir(design, syntax),
        "kernels.cc": kernel_source(design),
        "descriptors.txt": descriptor_listing(design),
        "dataflow.svg": dataflow_svg(design),
        "report.json": json.dumps(report.to_json(), indent=2) + "\n",
    }
    if report.time is not None:
        files["timeline.svg"] = timeline_svg(design, report.time)
    for name, text in files.items():
        write_atomically(str(folder / name), text.encode())


@command.command("layers")
@click.argument("what", metavar="MODEL")
@click.option("-M", "tokens", type=int, default=1024, show_default=True, help="Rows: tokens.")
@click.option("--device", default="npu2", show_default=True, help="Or a TOML file.")
@click.option(
    "--dtype", "weights", type=click.Choice(["i8", "ternary"]), default="i8", show_default=True
)
@click.option("--bandwidth", type=float, metavar="GBPS", help="DRAM bandwidth in GB/s.")
@click.option("--best", is_flag=True, help="Also search the best design of each shape; takes long.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def layers(
    what: str,
    tokens: int,
    device: str,
    weights: str,
    bandwidth: float | None,
    best: bool,
    as_json: bool,
) -> int:
    """TOPS, bytes and time of each linear layer on one program for all of them.

    MODEL is bitnet-2b-4t, smollm2-135m, smollm2-360m, smollm2-1.7b, or a bundle compiled for an
    XDNA target, whose own rows, device and weights then count.
    """
    from tilewright.targets.xdna.cli_layers import print_layers

    line = StatusLine(not as_json)
    with line:
        line.say("planning")
        print_layers(what, tokens, device, weights, bandwidth, best, as_json, line.say)
    return 0


@command.command("check")
@click.argument("path", metavar="DESIGN.mlir")
@click.option("--device", help="Check against this device instead of the one the text names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_text(path: str, device: str | None, as_json: bool) -> int:
    """Read a design text and check it: every resource, every rule, and whether it hangs."""
    from tilewright.targets.xdna.checker import check_design
    from tilewright.targets.xdna.device import load_device
    from tilewright.targets.xdna.mlir_parse import parse_design
    from tilewright.targets.xdna.report import values_agree

    text = decode_text(read_bytes(path, _LIMIT), path)
    design = parse_design(text, path, load_device(device) if device else None)
    checks = check_design(design)
    exact = None
    if design.gemm is not None and all(check.ok for check in checks):
        exact = values_agree(design)
    ok = all(check.ok for check in checks) and exact is not False
    if as_json:
        made: dict[str, Any] = {"ok": ok, "checks": [check.to_json() for check in checks]}
        if exact is not None:
            made["exact"] = exact
        click.echo(json.dumps(made, indent=2))
    else:
        _print_checks(checks)
        if exact is not None:
            click.echo("values equal to the reference" if exact else "values WRONG")
        click.echo("legal" if ok else "NOT legal")
    return 0 if ok else 1
