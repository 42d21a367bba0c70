"""GEMM on the array in two calls: plan a design, run it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.device import ArrayDevice, load_device
from tilewright.targets.xdna.host import host_buffers, result_of
from tilewright.targets.xdna.mapper import design_of
from tilewright.targets.xdna.problem import Gemm
from tilewright.targets.xdna.request import gemm_of
from tilewright.targets.xdna.values import simulate_values


def plan_gemm(
    M: int,
    K: int,
    N: int,
    *,
    tile: tuple[int, int, int] | None = None,
    policy: str = "auto",
    device: str | ArrayDevice = "npu2",
    **options: Any,
) -> Design:
    """A design for an M x K x N product.

    Without a tile, or with policy "auto", tiles and policies are searched and the best candidates
    are simulated. Options are those of `gemm_of`: dtype, out, columns, b_layout, c_depth, k_mt ...
    """
    array = load_device(device) if isinstance(device, str) else device
    if tile is None or policy == "auto":
        from tilewright.targets.xdna.search import search

        return search(M, K, N, array, tile=tile, policy=policy, **options).design
    return design_of(gemm_of(M, K, N, tile, policy, array, **options), array)


def gemm_behind(design: Design) -> Gemm:
    if design.gemm is None:
        raise TilewrightError("TW8043", "this design does not say which GEMM it computes")
    return design.gemm


def run_gemm(design: Design, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product as the array computes it, every descriptor walked."""
    gemm = gemm_behind(design)
    drained = simulate_values(design, host_buffers(gemm, a, b))
    if "C" not in drained:
        raise TilewrightError("TW8042", "the design never writes C")
    return result_of(gemm, drained["C"], a)
