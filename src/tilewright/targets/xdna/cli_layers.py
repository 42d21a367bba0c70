"""`tilewright xdna layers`: what the linear layers of a model cost on one program of the array."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import click

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.gemm import gemm_behind
from tilewright.targets.xdna.layer_table import LayerTable


def print_layers(
    what: str,
    tokens: int,
    device: str,
    weights: str,
    bandwidth: float | None,
    best: bool,
    as_json: bool,
    progress: Callable[[str], None],
) -> None:
    """Make the table and print it."""
    from tilewright.targets.xdna.device import load_device
    from tilewright.targets.xdna.layer_table import layer_table

    if not 1 <= tokens <= 1 << 20:
        raise TilewrightError("TW8080", "-M has to be from 1 to 1048576")
    array = load_device(device)
    if bandwidth is not None:
        if not 0 < bandwidth < math.inf:
            raise TilewrightError("TW8080", "--bandwidth has to be positive and finite")
        array = array.with_bandwidth(bandwidth * 1e9)
    table = layer_table(what, tokens, array, weights, best, progress)
    if as_json:
        click.echo(json.dumps(table.to_json(), indent=2))
        return
    _print(table)


def _print(table: LayerTable) -> None:
    gemm = gemm_behind(table.rows[0].design)
    click.echo(
        f"{table.device.name} ({table.device.dram.platform}), {table.weights} weights; one program"
        f" for all layers: {gemm.policy}, tile {gemm.m}x{gemm.k}x{gemm.n}, k_mt {gemm.k_mt},"
        f" {gemm.columns} columns"
    )
    width = max(12, *(len(row.name) for row in table.rows))
    head = f"{'layer':<{width}} {'M x K x N':>18} {'count':>5} {'TOPS':>6} {'A MB':>8} {'B MB':>8}"
    head += f" {'C MB':>8} {'ms each':>9} {'ms all':>9}"
    searched = any(row.best is not None for row in table.rows)
    click.echo(head + ("  best design of the shape alone" if searched else ""))
    for row in table.rows:
        data = row.to_json()
        moved = data["dram_bytes"]
        milliseconds = row.time.seconds * 1e3
        line = f"{row.name:<{width}} {'x'.join(map(str, data['shape'])):>18} {row.count:>5}"
        line += f" {row.tops:>6.2f}"
        line += "".join(f" {moved.get(name, 0) / 1e6:>8.2f}" for name in "abc")
        line += f" {milliseconds:>9.3f} {row.count * milliseconds:>9.3f}"
        if "best" in data:
            found = data["best"]
            line += f"  {found['tops']:.2f} TOPS, {found['policy']}"
            line += f" {'x'.join(map(str, found['tile']))}"
        click.echo(line)
    if table.rewritten:
        click.echo(
            f"{table.rewritten} descriptors of panels written where K changes:"
            f" {table.rewriting * 1e3:.3f} ms"
        )
    click.echo(f"all layers: {table.seconds * 1e3:.3f} ms, {table.tops:.2f} TOPS, without dispatch")
