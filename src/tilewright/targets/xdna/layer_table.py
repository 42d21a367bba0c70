"""What each layer of a model costs on the array: TOPS, bytes across DRAM, time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import read_archive
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.events import TimeResult, simulate_time
from tilewright.targets.xdna.gemm import gemm_behind
from tilewright.targets.xdna.layer_program import Program, Shape, plan_program, rewritten
from tilewright.targets.xdna.model_members import read_artifact
from tilewright.targets.xdna.published_layers import MODELS


@dataclass(frozen=True)
class LayerRow:
    """Layers of one shape: names, how many, the design and its simulated time."""

    name: str
    count: int
    design: Design
    time: TimeResult
    best: Design | None = None  # the best design of this shape alone, if it was searched
    best_seconds: float | None = None

    @property
    def tops(self) -> float:
        return gemm_behind(self.design).operations / self.time.seconds / 1e12

    def to_json(self) -> dict[str, Any]:
        gemm = gemm_behind(self.design)
        made: dict[str, Any] = {
            "name": self.name,
            "count": self.count,
            "shape": [gemm.M, gemm.K, gemm.N],
            "padded": list(gemm.padded),
            "tops": self.tops,
            "seconds": self.time.seconds,
            "dram_bytes": {name.lower(): size for name, size in self.time.dram_bytes.items()},
            "critical": self.time.critical,
        }
        if self.best is not None and self.best_seconds is not None:
            alone = gemm_behind(self.best)
            made["best"] = {
                "policy": alone.policy,
                "tile": [alone.m, alone.k, alone.n],
                "tops": alone.operations / self.best_seconds / 1e12,
                "seconds": self.best_seconds,
            }
        return made


@dataclass(frozen=True)
class LayerTable:
    rows: tuple[LayerRow, ...]
    device: ArrayDevice
    weights: str
    rewritten: int = 0  # descriptors of panels written between the layers

    @property
    def rewriting(self) -> float:
        return self.rewritten * self.device.controller.push_seconds

    @property
    def seconds(self) -> float:
        return sum(row.count * row.time.seconds for row in self.rows) + self.rewriting

    @property
    def tops(self) -> float:
        work = sum(row.count * gemm_behind(row.design).operations for row in self.rows)
        return work / self.seconds / 1e12

    def to_json(self) -> dict[str, Any]:
        gemm = gemm_behind(self.rows[0].design)
        return {
            "device": self.device.name,
            "platform": self.device.dram.platform,
            "dtype": self.weights,
            "program": {
                "policy": gemm.policy,
                "tile": [gemm.m, gemm.k, gemm.n],
                "k_mt": gemm.k_mt,
                "c_depth": gemm.c_depth,
                "columns": gemm.columns,
            },
            "layers": [row.to_json() for row in self.rows],
            "rewritten_descriptors": self.rewritten,
            "rewriting_seconds": self.rewriting,
            "seconds": self.seconds,
            "tops": self.tops,
        }


def layer_table(
    what: str,
    tokens: int,
    device: ArrayDevice,
    weights: str,
    best: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> LayerTable:
    """The table of a published model's layers for so many rows, or of a compiled bundle."""
    named: list[tuple[str, Shape, int]]
    if what in MODELS:
        model = MODELS[what]
        named = [
            (name, (tokens, inner, across), many * model.blocks)
            for name, inner, across, many in model.layers
        ]
        order = [shape for _, shape, many in named for _ in range(many // model.blocks)]
        order *= model.blocks
        program = plan_program(order, device, weights, progress)
    else:
        named, program, device, weights = _bundle(what)
        order = [shape for _, shape, _ in named]
    rows, times = [], {}
    for name, shape, many in named:
        progress(f"simulating {name}")
        design = program.designs[shape]
        if shape not in times:
            times[shape] = simulate_time(design, device)
        found = _best(shape, device, weights, progress) if best else (None, None)
        rows.append(LayerRow(name, many, design, times[shape], *found))
    gemms = [program.gemm(shape) for shape in order]
    pairs = zip([*gemms[-1:], *gemms[:-1]], gemms, strict=True)
    written = sum(rewritten(before, gemm) for before, gemm in pairs)
    return LayerTable(tuple(rows), device, weights, written)


def _best(
    shape: Shape, device: ArrayDevice, weights: str, progress: Callable[[str], None]
) -> tuple[Design, float]:
    from tilewright.targets.xdna.search import search

    pretiled = weights == "i8"  # weights are constant: they lie as the array likes them
    found = search(
        *shape, device, dtype=weights, out="i32", pretiled=pretiled, candidates=4, progress=progress
    )
    assert found.time is not None
    return found.design, found.time.seconds


def _bundle(what: str) -> tuple[list[tuple[str, Shape, int]], Program, ArrayDevice, str]:
    if not os.path.isfile(what):
        raise TilewrightError(
            "TW8098",
            f"{what!r} is neither a published model nor a bundle",
            hint=f"published models: {', '.join(MODELS)}",
        )
    members = read_archive(what, "a Tilewright bundle")
    mine = {n.removeprefix("xdna/"): x for n, x in members.items() if n.startswith("xdna/")}
    if not mine:
        raise TilewrightError(
            "TW8098", "this bundle is not for an XDNA array", Location(what),
            "compile with --target xdna2",
        )  # fmt: skip
    artifact = read_artifact(mine, Location(what))
    named = [(layer.name, layer.shape, 1) for layer in artifact.layers]
    program = Program({layer.shape: artifact.designs[layer.design] for layer in artifact.layers}, 0)
    return named, program, artifact.array, artifact.weight_kind
